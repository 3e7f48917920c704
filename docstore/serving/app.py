"""The API application: routes, errors as answers, roles, the middleware around it, and its OpenAPI.

The OpenAPI is made from the routes: parameters by the framework, messages from the very types that `wire.read` reads.
"""

from __future__ import annotations

import enum
import traceback
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Final

from litestar import Litestar, Request, Response, Router, get
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.openapi.config import OpenAPIConfig

from docstore.model.errors import DocstoreError
from docstore.serving import wire_frames as frames
from docstore.serving.messages import GIVES, ROLE, STREAMS, Asked, answer, encoder, opens
from docstore.serving.middleware import Middleware
from docstore.serving.page import make_page
from docstore.serving.request import (
    Admission,
    MemoryBudget,
    Role,
    Tokens,
    check_role,
    context_of,
    failure,
    failure_headers,
    is_bug,
)
from docstore.serving.routes import CELLS, JOBS, OPERATIONS, PAGES, WHOLE
from docstore.serving.service import Service
from docstore.serving.telemetry import Log
from docstore.serving.wire import TYPES, fields_of, to_json
from docstore.version import __version__


def make_api(service: Service, tokens: Tokens | None, log: Log) -> Middleware:
    """The API over a store: the middleware, with all routes after it.

    Args:
        service: the store.
        tokens: who may do what; None where only this machine can ask.
        log: where requests are noted.
    """

    def on_error(request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        status, body, retry_after = failure(error)
        if is_bug(error):
            shown = "".join(traceback.format_exception(error))
            log.write("bug", id=context_of(request.scope).request_id, traceback=shown)
        headers = failure_headers(status, retry_after)
        if isinstance(error, HTTPException) and error.headers:
            headers.update({name: value for name, value in error.headers.items() if name.lower() == "allow"})
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
    limits = service.settings.limits
    memory = MemoryBudget(limits.waiting_bytes)
    service.metrics.gauge("docstore_bodies_bytes", "Bytes of bodies in memory", lambda: memory.taken_bytes)
    api = Middleware(app, admission, limits, memory, service.metrics, log, service.boot)
    service.metrics.gauge("docstore_requests_working", "Requests that are worked on", lambda: api.working)
    return api


def _routes() -> list[Any]:
    return [Router("/v1", route_handlers=WHOLE + PAGES + CELLS + JOBS), *OPERATIONS]


# --- OpenAPI

JSON: Final = "application/json"
MSGPACK: Final = "application/msgpack"
LINES: Final = "application/x-ndjson"
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
    """Say what an operation takes, gives and needs."""
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
        content = {LINES: {"schema": {}}, frames.MEDIA_TYPE: {"schema": {}}}
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
    """The fields of a record, or of the message that a function takes."""
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
