"""The API as an ASGI application: what every request passes, the router, errors as answers, and the OpenAPI.

A request passes admission, bounds, time limits and idempotency keys on the way to its route, and is noted in the log
and the numbers.  The OpenAPI is made from the routes, by the very types that `wire.read` reads.
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
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from docstore.model.errors import CommitUnknown, DocstoreError
from docstore.model.plain import TIMES
from docstore.serving.client_calls import Role
from docstore.serving.messages import LINES, Route, answer, encoder
from docstore.serving.page import HTML, error_page, make_page
from docstore.serving.request import (
    ABORT,
    IDEMPOTENCY_KEY,
    Admission,
    MemoryBudget,
    Receive,
    Refusal,
    RequestContext,
    Response,
    Send,
    Tokens,
    busy,
    check_role,
    client_of,
    failure,
    stopping,
)
from docstore.serving.routes import ROUTES
from docstore.serving.service import BEGUN_IN_A_TURN, Service, Turns
from docstore.serving.telemetry import Log, Metrics
from docstore.serving.wire import FRAMES, JSON, MSGPACK, TYPES, fields_of, to_json
from docstore.version import __version__

SHOWN_CHARACTERS: Final = 500
OPEN_PATHS: Final = ("/healthz",)
"""Paths for clients that must not wait in a queue and have no token."""
_ANSWER_HEADERS: Final = {"x-content-type-options": "nosniff", "cache-control": "no-store"}


class Api:
    """The API over a store.

    Args:
        service: the store, with its limits and numbers.
        tokens: who may do what; None where only this machine can ask.
        log: where each request is noted.
    Attributes:
        is_stopping: what comes now is refused.
        working: requests that are worked on.
    """

    def __init__(self, service: Service, tokens: Tokens | None, log: Log) -> None:
        self._service = service
        self._admission = Admission(service.settings, tokens)
        self._idempotent = IdempotentAnswers(service.boot)
        self._limits = service.settings.limits
        self._memory = MemoryBudget(self._limits.waiting_bytes)
        self._log = log
        self._numbers = itertools.count(1)
        shown = Route(
            "GET", "/v1/openapi.json", Role.READ, lambda context, _service: self._show_openapi(context.client)
        )
        self._routes: dict[str, dict[str, Route]] = {}
        for one in (*ROUTES, shown, *make_page(self._admission)):
            self._routes.setdefault(one.path, {})[one.method] = one
        self._patterns = [
            (re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", path)), path) for path in self._routes if "{" in path
        ]
        self.is_stopping = False
        self.working = 0
        self._working_for: Counter[str] = Counter()
        self._turns = Turns(BEGUN_IN_A_TURN)
        gauge = service.metrics.gauge
        gauge("docstore_bodies_bytes", "Bytes of bodies in memory", lambda: self._memory.taken_bytes)
        gauge("docstore_requests_working", "Requests that are worked on", lambda: self.working)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Answer one request."""
        boot = self._service.boot
        context = RequestContext(
            scope, (receive, send), self._limits, self._memory, f"{boot[:8]}-{next(self._numbers)}"
        )
        context.answer_headers = {"x-request-id": context.request_id, "docstore-boot": boot, **_ANSWER_HEADERS}
        started = time.perf_counter()
        self.working += 1
        trouble = None
        try:
            try:
                await context.answer(await self._response(context))
            except Exception as error:
                if context.status:
                    raise
                trouble = str(error) if isinstance(error, DocstoreError) else self._note_bug(context, error)
                status, body, headers = failure(error)
                await context.answer(answer(context, encoder(context)(body), status, headers))
        except Exception as error:  # in the middle of an answer
            is_stuck = context.is_stuck
            trouble = "the client did not take its answer" if is_stuck else self._note_bug(context, error)
            scope.get(ABORT, bool)()
        finally:
            self.working -= 1
            if context.client:
                self._working_for[context.client] -= 1
                if not self._working_for[context.client]:
                    del self._working_for[context.client]
            context.release()
            self._note(context, time.perf_counter() - started, trouble)

    async def _response(self, context: RequestContext) -> Response:
        if context.path not in OPEN_PATHS:
            self._admission.admit(context)
            context.client = client_of(context.scope, context.client_name)
            self._working_for[context.client] += 1
            if self.is_stopping:
                raise stopping()
            if self.working > self._limits.requests:
                raise busy(f"{self._limits.requests} requests are worked on, which is the most")
            if self._working_for[context.client] > self._limits.client_requests:
                raise busy(f"{self._limits.client_requests} requests of yours are worked on, which is the most")
            await self._turns.begin(context.client)
        try:
            route, in_path = self._find(context)
        except Refusal as error:
            if context.path.startswith("/v1") or HTML not in context.headers.get("accept", ""):
                raise
            return error_page(self._admission, context, self._service, error)
        check_role(context, route.role)
        return await self._idempotent.answer(context, lambda: route.answer(context, self._service, in_path))

    def _find(self, context: RequestContext) -> tuple[Route, dict[str, str]]:
        """The route of a request, and the parameters in its path.

        Raises:
            Refusal: there is none: 404, or 405 for other methods.
        """
        in_path: dict[str, str] = {}
        routes = self._routes.get(context.path)
        if routes is None or "{" in context.path:
            found = ((pattern.fullmatch(context.path), path) for pattern, path in self._patterns)
            match, path = next((one for one in found if one[0]), (None, ""))
            if match is None:
                raise Refusal(404, f"nothing is served at {context.path!r:.200}; GET /v1/openapi.json lists what is")
            routes, in_path = self._routes[path], match.groupdict()
        route = routes.get(context.method)
        if route is None:
            raise Refusal(405, f"{context.path[:200]} is asked with {' or '.join(routes)}", allow=routes)
        context.route = route.path
        return route, in_path

    async def _show_openapi(self, client: str) -> Response:
        """What this API takes and gives."""
        return Response(200, await self._service.readers.run(client, lambda: self._openapi), {"content-type": JSON})

    @cached_property
    def _openapi(self) -> bytes:
        return to_json(openapi(ROUTES))

    def _note_bug(self, context: RequestContext, error: Exception) -> str:
        """Write an exception that nobody foresaw into the log; gives its traceback."""
        shown = "".join(traceback.format_exception(error))
        self._log.write("bug", id=context.request_id, traceback=shown)
        return shown

    def _note(self, context: RequestContext, seconds: float, trouble: str | None) -> None:
        self._service.metrics.count_request(context.route, context.method, context.status, seconds)
        _log_request(
            self._log, context.scope, context.status, context.sent_bytes, seconds,
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
        self.response: Response | None = None
        self.answer_bytes = 0


class IdempotentAnswers:
    """Answers by idempotency key; asked on the event loop.

    Args:
        boot: names this run of the server.
    """

    def __init__(self, boot: str) -> None:
        self._boot = boot
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0
        self._spent: OrderedDict[str, float] = OrderedDict()
        """Keys whose answers were dropped, and when they were used."""

    async def answer(self, context: RequestContext, respond: Callable[[], Awaitable[Response]]) -> Response:
        """The answer to a request: `respond` gives it the first time."""
        key = context.headers.get(IDEMPOTENCY_KEY)
        if key is None or context.method not in _WRITES:
            return await respond()
        if not _KEY.fullmatch(key):
            raise Refusal(400, "Idempotency-Key must be 8 to 128 of letters, digits, `.`, `_` and `-`")
        path = context.path
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
            if kept.response is not None:
                if kept.body_digest:  # else the answer did not depend on a body
                    await context.body()
                if kept.body_digest != context.body_digest:
                    raise _other_request()
                return kept.response
            if key in self._spent:
                raise _dropped()
        kept = self._kept[key] = _Kept(sent, is_repeatable)
        return await self._first(key, kept, context, respond)

    async def _first(
        self, key: str, kept: _Kept, context: RequestContext, respond: Callable[[], Awaitable[Response]]
    ) -> Response:
        """The first answer, kept unless it is a refusal or too long."""
        status = 0
        try:
            response = await respond()
            status, body, headers = response
            if status < 400 and isinstance(body, bytes) and len(body) <= LONGEST_ANSWER_BYTES:
                kept.response = Response(status, body, {**headers, "idempotent-replay": "true"})
                kept.body_digest = context.body_digest
                kept.answer_bytes = len(body)
                self._bytes += kept.answer_bytes
            return response
        except Exception as error:
            status = failure(error)[0]
            raise
        finally:
            if kept.response is None:
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


def logged(app: Any, route: str, metrics: Metrics, log: Log) -> Callable[[Any, Receive, Send], Awaitable[None]]:
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


def openapi(routes: Sequence[Route]) -> dict[str, Any]:
    """The OpenAPI of routes, as plain data."""
    schemas: dict[str, Any] = {}
    paths: dict[str, Any] = {}
    for one in routes:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "docstore", "version": __version__, "description": DESCRIPTION},
        "paths": paths,
        "components": {
            "schemas": {ERROR: _ERROR_SCHEMA, **schemas},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    function: Any = route.function
    operation: dict[str, Any] = {
        "operationId": function.__name__,
        "summary": function.__doc__.strip().splitlines()[0],
        "description": f"Needs the role {route.role.name.lower()}.",
    }
    if route.takes_message:
        content = {"schema": _record(function, schemas)}
        operation["requestBody"] = {"required": True, "content": {JSON: content, MSGPACK: content}}
    else:
        operation["parameters"] = _parameters(route, schemas)
    if route.method == "PUT":
        operation["requestBody"] = {"content": {"application/octet-stream": {"schema": {"type": "string"}}}}
    content = {}
    if route.gives is bytes:
        content = {"*/*": {"schema": {}}}
    elif route.gives is not None:
        content = {JSON: {"schema": _given(route.gives, schemas)}, MSGPACK: {"schema": {}}}
    elif route.streams:
        content = {LINES: {"schema": {}}, FRAMES: {"schema": {}}}
    done = {"description": "done", "content": content} if content else {"description": "done"}
    error = {"schema": {"$ref": f"#/components/schemas/{ERROR}"}}
    wrong = {"description": "refused, or failed", "content": {JSON: error}}
    operation["responses"] = {str(route.status): done, "default": wrong}
    if route.method == "GET" and route.path == "/v1/page":
        operation["responses"]["304"] = {"description": "the client has it"}
    return operation


def _parameters(route: Route, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters of a route's query and path."""
    shown = []
    needed, defaults = fields_of(route.function)[1:]
    for name, (kind, (description, least, most)) in route.parameters.items():
        schema = _schema(kind, schemas)
        if name in TIMES:
            schema = {"anyOf": [schema, {"type": "string", "format": "date-time"}]}
        bounds = {"minimum": least, "maximum": most, "default": defaults.get(name)}
        schema |= {word: value for word, value in bounds.items() if value is not None}
        place = "path" if f"{{{name}}}" in route.path else "query"
        parameter = {"name": name, "in": place, "required": name in needed, "schema": schema}
        shown.append(parameter | ({"description": description} if description else {}))
    return shown


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
