"""The API as an application: what every request passes, routes, errors as answers, and the OpenAPI.

A request passes admission, bounds, time limits and idempotency keys, and is noted in the log and the numbers.  The
OpenAPI is made from the routes: parameters by the framework, messages from the very types that `wire.read` reads.
"""

from __future__ import annotations

import asyncio
import enum
import itertools
import re
import time
import traceback
import types
import typing
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from litestar import Litestar, Request, Response, Router, get
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi.config import OpenAPIConfig

from docstore.model.errors import CommitUnknown, DocstoreError
from docstore.serving.messages import GIVES, LINES, ROLE, STREAMS, Asked, answer, encoder, opens
from docstore.serving.page import HTML, error_page, make_page
from docstore.serving.request import (
    ABORT,
    IDEMPOTENCY_KEY,
    SCOPE_NAME,
    Admission,
    MemoryBudget,
    Refusal,
    RequestContext,
    Role,
    Tokens,
    busy,
    check_role,
    context_of,
    failure,
    is_bug,
    stopping,
)
from docstore.serving.routes import CELLS, JOBS, OPERATIONS, PAGES, WHOLE, plain_answer
from docstore.serving.service import Service
from docstore.serving.telemetry import Log, Metrics
from docstore.serving.wire import FRAMES, JSON, MSGPACK, TYPES, fields_of, to_json
from docstore.version import __version__

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send


def make_api(service: Service, tokens: Tokens | None, log: Log) -> Middleware:
    """The API over a store: the middleware, with all routes after it.

    Args:
        service: the store.
        tokens: who may do what; None where only this machine can ask.
        log: where requests are noted.
    """

    def on_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        status, body, headers = failure(error)
        if is_bug(error):
            shown = "".join(traceback.format_exception(error))
            log.write("bug", id=context_of(request.scope).request_id, traceback=shown)
        is_of_route = not isinstance(error, HTTPException) or request.scope["path"].startswith("/v1")
        if not is_of_route and HTML in request.headers.get("accept", ""):
            return error_page(admission, context_of(request.scope), service, error)
        return answer(request, encoder(request)(body), status, headers)

    def admitted(request: Request[Any, Any, Any]) -> Service:
        """The service, for a client of the route's role; every route asks for it.  A guard would cost 0.2 ms."""
        check_role(context_of(request.scope), request.route_handler.opt[ROLE])
        return service

    admission = Admission(service.settings, tokens)
    made: list[bytes] = []

    @get("/v1/openapi.json", opt=opens(Role.READ, gives=bytes), sync_to_thread=True)
    def show_openapi(service: Asked) -> Response[bytes]:
        """What this API takes and gives."""
        if not made:
            made.append(to_json(openapi(_routes())))
        return Response(made[0], media_type="application/json")

    app = Litestar(
        route_handlers=[*_routes(), show_openapi, *make_page(admission)],
        dependencies={"service": Provide(admitted, sync_to_thread=False)},
        exception_handlers={DocstoreError: on_error, HTTPException: on_error, Exception: on_error},
        openapi_config=None,
        logging_config=None,
        request_max_body_size=None,
        debug=False,
    )
    return Middleware(app, service, admission, log)


def _routes() -> list[Any]:
    return [Router("/v1", route_handlers=WHOLE + PAGES + CELLS + JOBS), *OPERATIONS]


# --- what every request passes

SHOWN_CHARACTERS: Final = 500
OPEN_PATHS: Final = ("/healthz",)
"""Paths for clients that must not wait in a queue and have no token."""
_ANSWER_HEADERS: Final = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class Middleware:
    """Lets requests through to an application.

    Args:
        app: to be asked.
        service: what it serves, with its limits and numbers; `plain_answer` asks it before the application does.
        admission: who may ask.
        log: where each request is noted.
    Attributes:
        is_stopping: what comes now is refused.
        working: requests that are worked on.
    """

    def __init__(self, app: ASGIApp, service: Service, admission: Admission, log: Log) -> None:
        self._app = app
        self._service = service
        self._idempotent = IdempotentAnswers(app, service.boot)
        self._admission = admission
        self._limits = service.settings.limits
        self._memory = MemoryBudget(self._limits.waiting_bytes)
        self._log = log
        self._numbers = itertools.count(1)
        self.is_stopping = False
        self.working = 0
        gauge = service.metrics.gauge
        gauge("docstore_bodies_bytes", "Bytes of bodies in memory", lambda: self._memory.taken_bytes)
        gauge("docstore_requests_working", "Requests that are worked on", lambda: self.working)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if str(scope["type"]) != "http":
            await self._app(scope, receive, send)
            return
        boot = self._service.boot
        context = RequestContext(
            scope, (receive, send), self._limits, self._memory, f"{boot[:8]}-{next(self._numbers)}"
        )
        context.answer_headers = [
            (b"x-request-id", context.request_id.encode()),
            (b"docstore-boot", boot.encode()),
            *_ANSWER_HEADERS,
        ]
        state: dict[str, Any] = scope  # type: ignore[assignment]
        state[SCOPE_NAME] = context
        started = time.perf_counter()
        self.working += 1
        trouble = None
        try:
            self._admit(context)
            if (found := await plain_answer(context, self._service)) is not None:
                state["path_template"] = scope["path"]
                await context.answer(*found)
            else:
                _check_query(scope["query_string"])
                await self._idempotent.answer(context, receive, context.send)
        except Exception as raised:
            # What `context.send` refuses comes back inside an exception of the framework.
            error = raised.__cause__ if isinstance(raised.__cause__, Refusal) else raised
            status, body, headers = failure(error)
            trouble = (
                body["error"]["message"] if isinstance(error, Refusal) else "".join(traceback.format_exception(error))
            )
            if context.status:
                state.get(ABORT, bool)()
            else:
                await context.answer(status, to_json(body), {"content-type": JSON, **headers})
        finally:
            if context.is_stuck:  # whatever became of the exception on its way through the framework
                trouble = "the client did not take its answer"
                state.get(ABORT, bool)()
            self.working -= 1
            context.release()
            self._note(context, time.perf_counter() - started, trouble)

    def _admit(self, context: RequestContext) -> None:
        if context.scope["path"] in OPEN_PATHS:
            return
        self._admission.admit(context)
        if self.is_stopping:
            raise stopping()
        if self.working > self._limits.requests:
            raise busy(f"{self._limits.requests} requests are worked on, which is the most")

    def _note(self, context: RequestContext, seconds: float, trouble: str | None) -> None:
        scope: Any = context.scope
        self._service.metrics.count_request(
            scope.get("path_template") or "other", scope["method"], context.status, seconds
        )
        _log_request(
            self._log, scope, context.status, context.sent_bytes, seconds,
            id=context.request_id, client_name=context.client_name or None, received_bytes=context.received_bytes,
            error=trouble,
        )  # fmt: skip


def _log_request(log: Log, scope: Any, status: int, sent_bytes: int, seconds: float, **more: object) -> None:
    client, server = scope.get("client"), scope.get("server")
    is_local = server is not None and server[1] is None
    log.write(
        "request",
        client="unix" if is_local else client[0] if client else None,
        method=scope["method"],
        path=scope["path"][:SHOWN_CHARACTERS],
        query=scope["query_string"].decode("latin-1")[:SHOWN_CHARACTERS] or None,
        status=status,
        sent_bytes=sent_bytes,
        milliseconds=round(seconds * 1000, 2),
        **more,
    )


def _check_query(query: bytes) -> None:
    """Refuse bytes that are no text: two of them would become the same mark, and two URLs the same page.

    Raises:
        Refusal: 400.
    """
    if b"%" not in query and query.isascii():
        return
    try:
        unquote_to_bytes(query).decode()
    except UnicodeDecodeError as error:
        raise Refusal(
            400, f"the query is not UTF-8 once it is decoded ({error}); write a URL's own % as %25"
        ) from error


# --- idempotency: a write that is sent again gets its first answer once more, and nothing is done twice
#
# Answers are kept by key for ten minutes, within bounds of memory.  If an answer is too long, or later ones take its
# room, the key alone is kept: the same write again is answered 409 `CommitUnknown`.  A page written again answers
# `known`, so keys of pages go with their answers.  A key begins with the name of the server's run in which it was made:
# what was sent to an earlier run may have been applied there.

KEEP_SECONDS: Final = 600.0
MOST_ANSWERS: Final = 20_000
MOST_BYTES: Final = 64 << 20
LONGEST_ANSWER_BYTES: Final = 4 << 20
MOST_KEYS: Final = 1 << 19
"""Keys without an answer, some 200 bytes each: so many writes, except pages, in ten minutes; beyond it 429."""
NOT_REPEATABLE: Final = ("/v1/cells/read-modify-write", "/v1/cells/check-and-mutate")
_REPEATABLE: Final = frozenset(
    {
        ("POST", "/v1/page"),
        ("PUT", "/v1/page"),
        ("POST", "/v1/pages"),
        ("POST", "/v1/verdicts"),
        ("POST", "/v1/anchors"),
        ("POST", "/v1/notes"),
    }
)
_NOTHING_DONE: Final = (503, 507)
"""And every status below 500 of a refusal."""
_KEY: Final = re.compile(r"[A-Za-z0-9._-]{8,128}")
_WRITES: Final = ("POST", "PUT", "DELETE")


class _Kept:
    """An answer, or the promise of one.

    Attributes:
        sent: what is known of the request before its body is read; bodies are compared by their digests.
        is_repeatable: the write is harmless when it is done again.
    """

    def __init__(self, sent: tuple[object, ...], is_repeatable: bool) -> None:
        self.sent = sent
        self.is_repeatable = is_repeatable
        self.made = time.monotonic()
        self.ready = asyncio.Event()
        self.body_digest = b""
        self.messages: list[Any] = []
        self.answer_bytes = 0


class IdempotentAnswers:
    """Answers by idempotency key; asked on the event loop.

    Args:
        app: that gives first answers.
        boot: names this run of the server.
    """

    def __init__(self, app: ASGIApp, boot: str) -> None:
        self._app = app
        self._boot = boot
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0
        self._spent: OrderedDict[str, float] = OrderedDict()
        """Keys whose answers were dropped, and when they were used."""

    async def answer(self, context: RequestContext, receive: Receive, send: Send) -> None:
        """Answer a request, for the first time or again."""
        key = context.headers.get(IDEMPOTENCY_KEY)
        if key is None or context.method not in _WRITES:
            await self._app(context.scope, receive, send)
            return
        if not _KEY.fullmatch(key):
            raise Refusal(400, "Idempotency-Key must be 8 to 128 of letters, digits, `.`, `_` and `-`")
        path = context.scope["path"]
        boot, dot, _ = key.partition(".")
        if dot and boot != self._boot and path in NOT_REPEATABLE:
            raise Refusal(
                409,
                "this was sent to an earlier run of the server first, and may have been applied there; read the row, "
                "then ask again with a new key",
                kind=CommitUnknown.__name__,
            )
        self._make_room()
        if key in self._spent:
            raise _dropped()
        is_repeatable = (context.method, path) in _REPEATABLE
        if not is_repeatable and len(self._spent) >= MOST_KEYS and key not in self._kept:
            raise busy(
                f"{MOST_KEYS} writes of the last {KEEP_SECONDS / 60:.0f} minutes are remembered, which is the most"
            )
        query = context.scope["query_string"]
        length = context.headers.get("content-length", "")
        sent = (context.role, context.client_name, context.method, path, query, length)
        while (kept := self._kept.get(key)) is not None:
            if kept.sent != sent:
                raise _other_request()
            await kept.ready.wait()
            if kept.messages:
                if kept.body_digest:  # else the answer did not depend on a body
                    await context.body()
                if kept.body_digest != context.body_digest:
                    raise _other_request()
                for message in kept.messages:
                    again: Any = dict(message)
                    await send(again)
                return
            if key in self._spent:
                raise _dropped()
        kept = self._kept[key] = _Kept(sent, is_repeatable)
        await self._first(key, kept, context, receive, send)

    async def _first(self, key: str, kept: _Kept, context: RequestContext, receive: Receive, send: Send) -> None:
        messages: list[Any] = []
        status = 0

        async def keep(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)
            kept.answer_bytes += len(message.get("body", b""))
            if kept.answer_bytes <= LONGEST_ANSWER_BYTES:
                messages.append(dict(message))
            await send(message)

        is_whole = False
        try:
            await self._app(context.scope, receive, keep)
            is_whole = True
        finally:
            # An answer that the client did not take is one all the same.  What was refused is no answer to keep.
            is_whole = is_whole or (bool(messages) and not messages[-1].get("more_body", True))
            is_kept = is_whole and 0 < status < 400 and kept.answer_bytes <= LONGEST_ANSWER_BYTES
            if is_kept:
                start = dict(messages[0])
                start["headers"] = [*start.get("headers", ()), (b"idempotent-replay", b"true")]
                kept.messages = [start, *messages[1:]]
                kept.body_digest = context.body_digest
                self._bytes += kept.answer_bytes
            else:
                del self._kept[key]
                is_refused = 400 <= status < 500 or status in _NOTHING_DONE
                if not is_refused and not kept.is_repeatable:
                    self._spent[key] = kept.made
            kept.ready.set()

    def _make_room(self) -> None:
        """Drop old answers, and the oldest ones while they are too many; keys last their full time."""
        now = time.monotonic()
        dropped: list[str] = []
        count, count_bytes = len(self._kept), self._bytes
        for key, kept in self._kept.items():
            if not kept.ready.is_set():
                continue
            if now - kept.made <= KEEP_SECONDS and count <= MOST_ANSWERS and count_bytes <= MOST_BYTES:
                break
            dropped.append(key)
            count, count_bytes = count - 1, count_bytes - kept.answer_bytes
        for key in dropped:
            kept = self._kept.pop(key)
            self._bytes -= kept.answer_bytes
            if not kept.is_repeatable:
                self._spent[key] = kept.made
        while self._spent and now - next(iter(self._spent.values())) > KEEP_SECONDS:
            self._spent.popitem(last=False)


def _dropped() -> Refusal:
    return Refusal(
        409,
        "this was sent before and may have been applied, and its answer is not kept any more; read the row, then ask "
        "again with a new key if it was not applied",
        kind=CommitUnknown.__name__,
    )


def _other_request() -> Refusal:
    return Refusal(409, "this Idempotency-Key was used with another request; take a new one")


# --- the log and the numbers of the archive API, which has its own admission and bounds


def logged(app: Any, route: str, metrics: Metrics, log: Log) -> ASGIApp:
    """An application that notes each request.

    Args:
        app: that answers.
        route: by which its requests are counted.
        metrics, log: where they are noted.
    """

    async def answer(scope: Any, receive: Receive, send: Send) -> None:
        started = time.perf_counter()
        status = sent_bytes = 0

        async def noting(message: Any) -> None:
            nonlocal status, sent_bytes
            status = message.get("status", status)
            sent_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await app(scope, receive, noting)
        finally:
            seconds = time.perf_counter() - started
            metrics.count_request(route, scope["method"], status, seconds)
            _log_request(log, scope, status, sent_bytes, seconds, listener=route)

    return answer


# --- OpenAPI

ERROR: Final = "Error"
DESCRIPTION: Final = """\
A store of crawled pages.  Messages are JSON, or msgpack with the same names; bytes are a string in JSON where they are
UTF-8, else {"base64": "..."}.  In msgpack the public types (Page, PutResult, Document, Cell, Row ...) may also come by
position, and are given so.  Streams are frames of msgpack, or lines of JSON with an `end` or `error` at last."""

_ERROR_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["class", "message"],
            "properties": {"class": {"type": "string"}, "message": {"type": "string"}},
        }
    },
}
_BYTES: Final[dict[str, Any]] = {
    "oneOf": [
        {"type": "string"},
        {
            "type": "object",
            "required": ["base64"],
            "additionalProperties": False,
            "properties": {"base64": {"type": "string", "contentEncoding": "base64"}},
        },
    ]
}
_INTEGER: Final = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
_SCALARS: Final[Mapping[Any, dict[str, Any]]] = {
    bool: {"type": "boolean"},
    int: _INTEGER,
    float: {"type": "number"},
    str: {"type": "string"},
    bytes: _BYTES,
    type(None): {"type": "null"},
}


def openapi(route_handlers: Sequence[Any]) -> dict[str, Any]:
    """The OpenAPI of routes, as plain data.

    Args:
        route_handlers: with the options of `opens`, of an application that has a dependency `service`.
    """
    shown = Litestar(
        route_handlers=list(route_handlers),
        dependencies={"service": Provide(lambda: None, sync_to_thread=False)},
        openapi_config=OpenAPIConfig(title="docstore", version=__version__, description=DESCRIPTION),
    )
    made = shown.openapi_schema.to_schema()
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for route in shown.routes:
        for handler in getattr(route, "route_handlers", ()):
            if ROLE in handler.opt:
                for method in sorted(handler.http_methods - {"OPTIONS"}):
                    operation = made["paths"][route.path_format][method.lower()]
                    _describe(operation, handler, schemas)
                    paths.setdefault(route.path_format, {})[method.lower()] = operation
    made["paths"] = paths
    made["components"] = {
        "schemas": {ERROR: _ERROR_SCHEMA, **schemas},
        "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
    }
    made["security"] = [{}, {"token": []}]
    return made


def _describe(operation: dict[str, Any], handler: Any, schemas: dict[str, Any]) -> None:
    options, takes = handler.opt, getattr(handler.fn, "message", None)
    operation["summary"] = handler.fn.__doc__.strip().splitlines()[0]
    operation["description"] = f"Needs the role {Role(options[ROLE]).name.lower()}."
    for parameter in operation.get("parameters", ()):
        for schema in (parameter["schema"], *parameter["schema"].get("oneOf", ())):
            if schema.get("type") == "integer":
                schema.setdefault("minimum", -(2**63))
                schema.setdefault("maximum", 2**63 - 1)
    gives = options[GIVES]
    if "PUT" in handler.http_methods:
        operation["requestBody"] = {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
    elif takes is not None:
        schema = _record(takes, schemas)
        operation["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": schema}, MSGPACK: {"schema": schema}},
        }
    good = next(status for status in operation["responses"] if status.startswith("2"))
    content: dict[str, Any] = {}
    if gives is bytes:
        content = {"*/*": {"schema": {}}}
    elif gives is not None:
        content = {JSON: {"schema": _given(gives, schemas)}, MSGPACK: {"schema": {}}}
    elif options[STREAMS]:
        content = {LINES: {"schema": {}}, FRAMES: {"schema": {}}}
    answer = {"description": "done", "content": content} if content else {"description": "done"}
    error = {"schema": {"$ref": f"#/components/schemas/{ERROR}"}}
    wrong = {"description": "refused, or failed", "content": {JSON: error}}
    operation["responses"] = {good: answer, "default": wrong}
    if gives is not None and operation["operationId"].endswith("GetPage"):
        operation["responses"]["304"] = {"description": "the client has it"}


def _schema(kind: Any, made: dict[str, Any]) -> dict[str, Any]:
    """What a message may hold for a type; records are put into `made`, each once."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind in _SCALARS:
        return dict(_SCALARS[kind])
    if kind is Any or kind is object:
        return {}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_choice(choice, made) for choice in inner]}
    if origin in (list, Sequence) or (origin is tuple and len(inner) == 2 and inner[1] is Ellipsis):
        return {"type": "array", "items": _schema(inner[0], made)}
    if origin is tuple:
        parts = [_schema(part, made) for part in inner]
        return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    if origin in (dict, Mapping):
        return {"type": "object", "additionalProperties": _schema(inner[1], made)}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"type": "string", "enum": [member.value for member in kind]}
    name = kind.__name__
    if name not in made:
        made[name] = {}  # a record may hold itself
        made[name] = _record(kind, made)
    return {"$ref": f"#/components/schemas/{name}"}


def _choice(kind: Any, made: dict[str, Any]) -> dict[str, Any]:
    """One of several types; a mutation names its own."""
    name = next((name for name, named in TYPES.items() if named is kind), None)
    if name is None:
        return _schema(kind, made)
    return {"allOf": [_schema(kind, made), {"required": ["type"], "properties": {"type": {"const": name}}}]}


def _record(kind: Any, made: dict[str, Any]) -> dict[str, Any]:
    fields, needed, _ = fields_of(kind)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: _schema(field, made) for name, field in fields.items()},
    }
    if needed:
        schema["required"] = [name for name in fields if name in needed]
    if kind.__doc__:
        schema["description"] = kind.__doc__.strip().splitlines()[0]
    return schema


def _given(kind: Any, made: dict[str, Any]) -> dict[str, Any]:
    """What an answer holds: as `_schema`, and fields that are only shown."""
    if isinstance(kind, dict):
        properties = {name: _schema(field, made) for name, field in kind.items()}
        return {"type": "object", "properties": properties, "required": list(kind)}
    return {} if typing.get_origin(kind) is dict else _schema(kind, made)
