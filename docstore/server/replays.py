"""Writes that are sent again: an idempotency key gets its first answer once more, and nothing is done twice.

Knows ASGI messages; must not know routes but the two whose repetition nothing else makes harmless.  A page written
again answers `known`, and a mutation applied again changes nothing; a read-modify-write does.  So answers are kept by
key for a while.  A key begins with the name of the server's run in which it was made: what was sent to an earlier run
may have been applied there.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from docstore.model.errors import CommitUnknown
from docstore.server.exchange import IDEMPOTENCY_KEY, Exchange
from docstore.server.refusals import Refusal
from docstore.server.tokens import Grade

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Send

KEEP_SECONDS: Final = 600.0
MOST_ANSWERS: Final = 20_000
MOST_BYTES: Final = 64 << 20
LONGEST_ANSWER_BYTES: Final = 4 << 20
NOT_REPEATABLE: Final = ("/v1/cells/read-modify-write", "/v1/cells/check-and-mutate")
_KEY: Final = re.compile(r"[A-Za-z0-9._-]{8,128}")
_WRITES: Final = ("POST", "PUT", "DELETE")


class _Sent(NamedTuple):
    """A request as far as it is known before its body is read; bodies are compared by their digests."""

    grade: Grade
    asker: str
    method: str
    path: str
    query: bytes
    length: str


class _Kept:
    """An answer, or the promise of one."""

    def __init__(self, sent: _Sent) -> None:
        self.sent = sent
        self.made = time.monotonic()
        self.ready = asyncio.Event()
        self.body_digest = b""
        self.messages: list[Any] = []
        self.answer_bytes = 0


class Replays:
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

    async def answer(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        """Answer a request, for the first time or again."""
        key = exchange.headers.get(IDEMPOTENCY_KEY)
        if key is None or exchange.method not in _WRITES:
            await self._app(exchange.scope, receive, send)
            return
        if not _KEY.fullmatch(key):
            raise Refusal(400, "Idempotency-Key must be 8 to 128 of letters, digits, `.`, `_` and `-`")
        path = exchange.scope["path"]
        boot, dot, _ = key.partition(".")
        if dot and boot != self._boot and path in NOT_REPEATABLE:
            raise Refusal(
                409,
                "this was sent to an earlier run of the server first, and may have been applied there; read the row, "
                "then ask again with a new key",
                kind=CommitUnknown.__name__,
            )
        fields = exchange.headers
        query = exchange.scope["query_string"]
        sent = _Sent(exchange.grade, exchange.asker, exchange.method, path, query, fields.get("content-length", ""))
        while (kept := self._kept.get(key)) is not None:
            if kept.sent != sent:
                raise _other_request()
            await kept.ready.wait()
            if kept.messages:
                if kept.body_digest:  # else the answer did not depend on a body
                    await exchange.body()
                if kept.body_digest != exchange.body_digest:
                    raise _other_request()
                for message in kept.messages:
                    again: Any = dict(message)
                    await send(again)
                return
        await self._first(key, sent, exchange, receive, send)

    async def _first(self, key: str, sent: _Sent, exchange: Exchange, receive: Receive, send: Send) -> None:
        kept = self._kept[key] = _Kept(sent)
        self._make_room()
        messages: list[Any] = []

        async def keep(message: Any) -> None:
            messages.append(dict(message))
            kept.answer_bytes += len(message.get("body", b""))
            if kept.answer_bytes > LONGEST_ANSWER_BYTES:
                messages.clear()
            await send(message)

        is_whole = False
        try:
            await self._app(exchange.scope, receive, keep)
            is_whole = True
        finally:
            # An answer that the client did not take is one all the same.  What was refused is no answer to keep.
            is_whole = is_whole or (bool(messages) and not messages[-1].get("more_body", True))
            is_answer = is_whole and messages and messages[0].get("status", 500) < 400
            if is_answer:
                start = dict(messages[0])
                start["headers"] = [*start.get("headers", ()), (b"idempotent-replay", b"true")]
                kept.messages = [start, *messages[1:]]
                kept.body_digest = exchange.body_digest
                self._bytes += kept.answer_bytes
            elif self._kept.get(key) is kept:
                del self._kept[key]
            kept.ready.set()

    def _make_room(self) -> None:
        now = time.monotonic()
        for key, kept in list(self._kept.items()):
            is_old = now - kept.made > KEEP_SECONDS
            is_many = len(self._kept) > MOST_ANSWERS or self._bytes > MOST_BYTES
            if not kept.ready.is_set():
                continue
            if not (is_old or is_many):
                return
            del self._kept[key]
            self._bytes -= kept.answer_bytes


def _other_request() -> Refusal:
    return Refusal(409, "this Idempotency-Key was used with another request; take a new one")
