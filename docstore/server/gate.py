"""What every request passes, whatever it asks: admission, bounds, time limits, the log and the numbers.

An ASGI application around another.  Knows exchanges and refusals; must not know routes.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import traceback
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from docstore.server.admission import Admission
from docstore.server.exchange import SCOPE_NAME, Exchange, Room
from docstore.server.metrics import Metrics
from docstore.server.protocol import ABORT
from docstore.server.records import Log
from docstore.server.refusals import Refusal, busy, failure, stopping
from docstore.server.replays import Replays
from docstore.server.settings import Limits
from docstore.wire.shapes import to_json

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Scope, Send

SHOWN_QUERY_CHARACTERS: Final = 500
STEP_BYTES: Final = 256 << 10
"""A longer body is sent in steps: uvicorn waits for a slow client before each message, and not after the last one."""
COUNTED_BYTES: Final = 1 << 20
"""Longer answers take room; of shorter ones as many wait as there may be requests."""
OPEN_PATHS: Final = ("/healthz",)
"""Asked by who must not wait in a line, and has no token."""
_ANSWER_HEADERS: Final = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]


class Gate:
    """Lets requests through to an application.

    Args:
        app: to be asked.
        admission: who may ask.
        limits: how much at a time.
        room: that bodies share.
        metrics, log: where each request is noted.
        boot: names this run of the server.
    Attributes:
        is_stopping: what comes now is refused.
        working: requests that are worked on.
    """

    def __init__(
        self, app: ASGIApp, admission: Admission, limits: Limits, room: Room, metrics: Metrics, log: Log, boot: str
    ) -> None:
        self._app = app
        self._replays = Replays(app, boot)
        self._admission = admission
        self._limits = limits
        self._room = room
        self._metrics = metrics
        self._log = log
        self._boot = boot.encode()
        self._prefix = boot[:8]
        self._numbers = itertools.count(1)
        self.is_stopping = False
        self.working = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if str(scope["type"]) != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(scope, receive, self._limits, self._room, f"{self._prefix}-{next(self._numbers)}")
        state: dict[str, Any] = scope  # type: ignore[assignment]
        state[SCOPE_NAME] = exchange
        answer = _Answer(send, self._limits.send_seconds, self._headers(exchange), exchange)
        started = time.perf_counter()
        self.working += 1
        trouble = None
        try:
            self._admit(exchange)
            await self._replays.answer(exchange, receive, answer.send)
        except Exception as raised:
            # What `_Answer` refuses comes back inside an exception of the framework.
            error = raised.__cause__ if isinstance(raised.__cause__, Refusal) else raised
            status, body, retry_after = failure(error)
            trouble = (
                body["error"]["message"] if isinstance(error, Refusal) else "".join(traceback.format_exception(error))
            )
            if answer.status:
                state.get(ABORT, bool)()
            else:
                await refuse(answer.send, status, body, retry_after)
        finally:
            if answer.is_stuck:  # whatever became of the exception on its way through the framework
                trouble = "the client did not take its answer"
                state.get(ABORT, bool)()
            self.working -= 1
            exchange.release()
            self._note(exchange, answer, time.perf_counter() - started, trouble)

    def _admit(self, exchange: Exchange) -> None:
        if exchange.scope["path"] in OPEN_PATHS:
            return
        self._admission.admit(exchange)
        _check_query(exchange.scope["query_string"])
        if self.is_stopping:
            raise stopping()
        if self.working > self._limits.requests:
            raise busy(f"{self._limits.requests} requests are worked on, which is the most")

    def _headers(self, exchange: Exchange) -> list[tuple[bytes, bytes]]:
        return [(b"x-request-id", exchange.request_id.encode()), (b"docstore-boot", self._boot), *_ANSWER_HEADERS]

    def _note(self, exchange: Exchange, answer: _Answer, seconds: float, trouble: str | None) -> None:
        scope: Any = exchange.scope
        route = scope.get("path_template") or "other"
        self._metrics.note_request(route, scope["method"], answer.status, seconds)
        self._log.write(
            "request",
            id=exchange.request_id,
            client="unix" if exchange.is_local else scope["client"][0] if scope.get("client") else None,
            asker=exchange.asker or None,
            method=scope["method"],
            path=scope["path"][:SHOWN_QUERY_CHARACTERS],
            query=scope["query_string"].decode("latin-1")[:SHOWN_QUERY_CHARACTERS] or None,
            status=answer.status,
            received_bytes=exchange.received_bytes,
            sent_bytes=answer.sent_bytes,
            milliseconds=round(seconds * 1000, 2),
            error=trouble,
        )


class _Answer:
    """The way out of one answer: its headers, its count of bytes, and the time that a client may take."""

    def __init__(self, send: Send, seconds: float, headers: list[tuple[bytes, bytes]], exchange: Exchange) -> None:
        self._send = send
        self._seconds = seconds
        self._headers = headers
        self._exchange = exchange
        self.status = 0
        self.sent_bytes = 0
        self.is_stuck = False

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            if self._exchange.method == "GET":
                self._hold(message)
            self.status = message["status"]
            given = list(message.get("headers", ()))
            names = {name.lower() for name, _ in given}
            message["headers"] = [*given, *(pair for pair in self._headers if pair[0] not in names)]
            await self._send_part(message)
            return
        body = message.get("body", b"")
        for start in range(0, len(body) - STEP_BYTES, STEP_BYTES):
            await self._send_part({**message, "body": body[start : start + STEP_BYTES], "more_body": True})
        last = max(0, -(-len(body) // STEP_BYTES) - 1) * STEP_BYTES
        await self._send_part({**message, "body": body[last:]} if last else message)

    async def _send_part(self, message: Any) -> None:
        self.sent_bytes += len(message.get("body", b""))
        try:
            async with asyncio.timeout(self._seconds):
                await self._send(message)
        except TimeoutError:
            self.is_stuck = True
            raise

    def _hold(self, start: Any) -> None:
        """Count a long answer that was read as memory of the request, until its client has taken it.

        Raises:
            Refusal: 429, there is no room; that nothing was done is true of GET alone.
        """
        length = int(dict(start.get("headers", ())).get(b"content-length", b"0"))
        if length > COUNTED_BYTES:
            self._exchange.hold(length)


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


async def refuse(send: Send, status: int, body: dict[str, Any], retry_after: int) -> None:
    """Answer with an error, in JSON."""
    raw = to_json(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(raw)).encode())]
    if retry_after:
        headers.append((b"retry-after", str(retry_after).encode()))
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if status in (408, 413):
        headers.append((b"connection", b"close"))
    start: Any = {"type": "http.response.start", "status": status, "headers": headers}
    end: Any = {"type": "http.response.body", "body": raw, "more_body": False}
    await send(start)
    await send(end)
