"""Writes that are sent again: an idempotency key gets its first answer once more, and nothing is done twice.

Knows ASGI messages; must not know routes but those whose repetition is harmless, and the two that an earlier run of the
server must not have seen.  Answers are kept by key for ten minutes, within bounds of memory.  If an answer is too long,
or later ones take its room, the key alone is kept: the same write again is answered 409 `CommitUnknown`.  A page
written again answers `known`, so keys of pages go with their answers.  A key begins with the name of the server's run
in which it was made: what was sent to an earlier run may have been applied there.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from docstore.model.errors import CommitUnknown
from docstore.server.exchange import IDEMPOTENCY_KEY, Exchange
from docstore.server.refusals import Refusal, busy
from docstore.server.tokens import Grade

if TYPE_CHECKING:
    from litestar.types import ASGIApp, Receive, Send

KEEP_SECONDS: Final = 600.0
MOST_ANSWERS: Final = 20_000
MOST_BYTES: Final = 64 << 20
LONGEST_ANSWER_BYTES: Final = 4 << 20
MOST_KEYS: Final = 1 << 19
"""Keys without an answer, some 200 bytes each: so many writes, but for pages, in ten minutes; beyond it 429."""
NOT_REPEATABLE: Final = ("/v1/cells/read-modify-write", "/v1/cells/check-and-mutate")
_REPEATABLE: Final = frozenset(
    {
        ("POST", "/v1/page"),
        ("PUT", "/v1/page"),
        ("POST", "/v1/pages"),
        ("POST", "/v1/verdicts"),
        ("POST", "/v1/anchors"),
    }
)
_NOTHING_DONE: Final = (503, 507)
"""And every status below 500 of a refusal."""
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
        self._spent: OrderedDict[str, float] = OrderedDict()
        """Keys whose answers were dropped, and when they were used."""

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
        self._make_room()
        if key in self._spent:
            raise _dropped()
        is_repeatable = (exchange.method, path) in _REPEATABLE
        if not is_repeatable and len(self._spent) >= MOST_KEYS and key not in self._kept:
            raise busy(
                f"{MOST_KEYS} writes of the last {KEEP_SECONDS / 60:.0f} minutes are remembered, which is the most"
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
            if key in self._spent:
                raise _dropped()
        await self._first(key, sent, exchange, receive, send)

    async def _first(self, key: str, sent: _Sent, exchange: Exchange, receive: Receive, send: Send) -> None:
        kept = self._kept[key] = _Kept(sent)
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
            await self._app(exchange.scope, receive, keep)
            is_whole = True
        finally:
            # An answer that the client did not take is one all the same.  What was refused is no answer to keep.
            is_whole = is_whole or (bool(messages) and not messages[-1].get("more_body", True))
            is_kept = is_whole and 0 < status < 400 and kept.answer_bytes <= LONGEST_ANSWER_BYTES
            if is_kept:
                start = dict(messages[0])
                start["headers"] = [*start.get("headers", ()), (b"idempotent-replay", b"true")]
                kept.messages = [start, *messages[1:]]
                kept.body_digest = exchange.body_digest
                self._bytes += kept.answer_bytes
            else:
                del self._kept[key]
                is_refused = 400 <= status < 500 or status in _NOTHING_DONE
                if not is_refused:
                    self._spend(key, kept)
            kept.ready.set()

    def _spend(self, key: str, kept: _Kept) -> None:
        """Keep a key without its answer, unless the write is harmless when it is done again."""
        if (kept.sent.method, kept.sent.path) not in _REPEATABLE:
            self._spent[key] = kept.made

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
            self._spend(key, kept)
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
