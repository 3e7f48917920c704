"""The API application: routes, errors as answers, grades, and the gate around it.

Knows every route; must not know sockets.
"""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from litestar import Litestar, Request, Response, Router, get
from litestar.di import Provide
from litestar.exceptions import HTTPException

from docstore.model.errors import DocstoreError
from docstore.server.admission import Admission, check_grade
from docstore.server.answers import Asked, answer, encoder
from docstore.server.exchange import Room, exchange_of
from docstore.server.gate import Gate
from docstore.server.openapi import openapi
from docstore.server.page.routes import make_page
from docstore.server.records import Log
from docstore.server.refusals import failure, is_bug
from docstore.server.routes.cells import CELLS
from docstore.server.routes.described import GRADE, opens
from docstore.server.routes.jobs import JOBS
from docstore.server.routes.pages import PAGES
from docstore.server.routes.whole import OPERATIONS, WHOLE
from docstore.server.service import Service
from docstore.server.tokens import Grade, Tokens
from docstore.wire.shapes import to_json

if TYPE_CHECKING:
    from litestar.types import ASGIApp


@dataclass(frozen=True, slots=True)
class Api:
    """The API, ready to be served.

    Attributes:
        app: the gate with all routes behind it.
        gate: the same, to be told of a stop.
    """

    app: ASGIApp
    gate: Gate


def make_api(service: Service, tokens: Tokens | None, log: Log) -> Api:
    """The API over a store.

    Args:
        service: the store.
        tokens: who may do what; None where only this machine can ask.
        log: where requests are noted.
    """

    def on_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        status, body, retry_after = failure(error)
        if is_bug(error):
            shown = "".join(traceback.format_exception(error))
            log.write("bug", id=exchange_of(request.scope).request_id, traceback=shown)
        headers = {"retry-after": str(retry_after)} if retry_after else {}
        if status == 401:
            headers["www-authenticate"] = "Bearer"
        if status in (408, 413):
            headers["connection"] = "close"
        if isinstance(error, HTTPException) and error.headers:
            headers.update({name: value for name, value in error.headers.items() if name.lower() == "allow"})
        return answer(request, encoder(request)(body), status, headers)

    def admitted(request: Request[Any, Any, Any]) -> Service:
        """The service, for an asker of the route's grade; every route asks for it.  A guard would cost 0.2 ms."""
        check_grade(exchange_of(request.scope), request.route_handler.opt[GRADE])
        return service

    made: list[bytes] = []

    @get("/v1/openapi.json", opt=opens(Grade.READ, gives=bytes), sync_to_thread=True)
    def show_openapi(service: Asked) -> Response[bytes]:
        """What this API takes and gives."""
        if not made:
            made.append(to_json(openapi(_routes())))
        return Response(made[0], media_type="application/json")

    app = Litestar(
        route_handlers=[*_routes(), show_openapi, *make_page(tokens)],
        dependencies={"service": Provide(admitted, sync_to_thread=False)},
        exception_handlers={DocstoreError: on_error, HTTPException: on_error, Exception: on_error},
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,
        debug=False,
    )
    room = Room(service.settings.limits.waiting_bytes)
    service.metrics.gauge("docstore_bodies_bytes", "Bytes of bodies in memory", lambda: room.taken_bytes)
    gate = Gate(
        app, Admission(service.settings, tokens), service.settings.limits, room, service.metrics, log, service.boot
    )
    service.metrics.gauge("docstore_requests_working", "Requests that are worked on", lambda: gate.working)
    return Api(gate, gate)


def _routes() -> list[Any]:
    return [Router("/v1", route_handlers=WHOLE + PAGES + CELLS + JOBS), *OPERATIONS]
