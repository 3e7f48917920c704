"""One request on its way: who asks, its body in bounded time and memory, and what it holds until it is answered.

Knows ASGI messages and the limits; must not know routes or the store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import zstandard
from blake3 import blake3

from docstore.server.refusals import Refusal, busy
from docstore.server.settings import Limits
from docstore.server.tokens import Grade

if TYPE_CHECKING:
    from litestar.types import Receive, Scope

SCOPE_NAME: Final = "docstore.exchange"
"""Under which an ASGI scope has its exchange."""
ZSTD: Final = "zstd"
IDEMPOTENCY_KEY: Final = "idempotency-key"
_WINDOW_BYTES: Final = 8 << 20
"""A frame that asks for more memory to be decompressed is refused; level 19 of zstd asks for this much."""
_PIECE_BYTES: Final = 1 << 20
_STEP_BYTES: Final = 256
"""Of a frame of unknown length at a time.  Four bytes can stand for 128 KiB: these come to 8 MiB at most."""
LONG_BYTES: Final = 32 << 10
"""What is longer is decoded in a thread."""


class Room:
    """Bytes of bodies in memory, all requests together; asked on the event loop alone.

    Args:
        limit_bytes: that fit in.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.taken_bytes = 0

    def take(self, count: int) -> None:
        """Take room for bytes; what is alone always has room.

        Raises:
            Refusal: 429, there is none.
        """
        if self.taken_bytes and self.taken_bytes + count > self.limit_bytes:
            raise busy(f"requests of {self.taken_bytes} bytes wait here, and {self.limit_bytes} is the most")
        self.taken_bytes += count

    def give_back(self, count: int) -> None:
        """Give room back."""
        self.taken_bytes -= count


class Exchange:
    """What is known of one request.

    Args:
        scope: of ASGI; its headers are read once.
        receive: gives the parts of the body.
        limits: of the server.
        room: that all bodies share.
    Attributes:
        request_id: in the log and in the answer.
        grade: what the asker may do.
        asker: name of the token, "local" or "".
        is_local: it came through the unix socket.
        headers: the last one of each name, in lower case.
        received_bytes: of the body, so far.
        body_digest: of the body as it came, once all of it is here; b"" before that, and without an idempotency key.
    """

    __slots__ = (
        "_body", "_held_bytes", "_limits", "_most_bytes", "_receive", "_room", "asker", "body_digest", "grade",
        "headers", "is_local", "method", "received_bytes", "request_id", "scope",
    )  # fmt: skip

    def __init__(self, scope: Scope, receive: Receive, limits: Limits, room: Room, request_id: str) -> None:
        self.scope = scope
        self.request_id = request_id
        self.headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        self.grade = Grade.NONE
        self.asker = ""
        fields: Any = scope
        self.method: str = fields["method"]
        server = fields.get("server")
        self.is_local = server is not None and server[1] is None
        self.received_bytes = 0
        self.body_digest = b""
        self._limits = limits
        self._most_bytes = limits.request_bytes
        self._receive = receive
        self._room = room
        self._held_bytes = 0
        self._body: bytes | None = None

    async def body(self, most_bytes: int | None = None) -> bytes:
        """The whole body, decompressed.

        Args:
            most_bytes: that it may have, as it comes and decompressed; never more than any request may.
        Raises:
            Refusal: it is too long (413), too slow (408), or there is no room for it (429).
        """
        if self._body is None:
            self._most_bytes = min(most_bytes or self._most_bytes, self._most_bytes)
            raw = await self._received()
            encoding = self.headers.get("content-encoding", "").strip().lower()
            if encoding in ("", "identity"):
                self._body = raw
            elif encoding == ZSTD:
                self._body = await self._decompressed(raw)
            else:
                raise Refusal(415, f"Content-Encoding {encoding!r:.50} is none of zstd, identity")
        return self._body

    def release(self) -> None:
        """Give back what the request holds; it is answered."""
        self._body = None
        self._room.give_back(self._held_bytes)
        self._held_bytes = 0

    async def _received(self) -> bytes:
        announced = self.headers.get("content-length", "")
        if announced.isdecimal() and len(announced) < 19 and int(announced) > self._most_bytes:
            raise self._too_long()
        loop = asyncio.get_running_loop()
        started = loop.time()
        parts: list[bytes] = []
        hasher = blake3() if IDEMPOTENCY_KEY in self.headers else None
        try:
            while True:
                until = started + self._limits.body_seconds + self.received_bytes / self._limits.body_rate
                async with asyncio.timeout_at(until):
                    message: Any = await self._receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "the connection ended inside the body")
                part = message.get("body", b"")
                self.received_bytes += len(part)
                if self.received_bytes > self._most_bytes:
                    raise self._too_long()
                self.hold(len(part))
                parts.append(part)
                if hasher is not None:  # part by part: a long body would stop the event loop
                    hasher.update(part)
                if not message.get("more_body", False):
                    self.body_digest = b"" if hasher is None else hasher.digest()
                    return b"".join(parts) if len(parts) > 1 else bytes(part)
        except TimeoutError as error:
            raise Refusal(
                408, f"the body came too slowly: {self.received_bytes} bytes in {loop.time() - started:.0f} s"
            ) from error

    async def _decompressed(self, raw: bytes) -> bytes:
        """A body out of zstd; memory is bounded whatever it says of itself."""
        try:
            claimed = zstandard.frame_content_size(raw)
            if claimed > self._most_bytes:
                raise self._too_long()
            if claimed >= 0:
                self.hold(claimed)
                return await _in_thread_if_long(max(len(raw), claimed), _decompress, raw, claimed)
            return await self._decompressed_in_pieces(raw)
        except zstandard.ZstdError as error:
            raise Refusal(400, f"the body is no zstd: {error}") from error

    async def _decompressed_in_pieces(self, raw: bytes) -> bytes:
        """Out of a frame that does not say its length, as a compressor writes it that reads from a pipe."""
        found = _pieces(raw)
        pieces: list[bytes] = []
        length = 0
        while piece := await _in_thread_if_long(len(raw) + length, _next_piece, found):
            length += len(piece)
            if length > self._most_bytes:
                raise self._too_long()
            self.hold(len(piece))
            pieces.append(piece)
        return b"".join(pieces)

    def hold(self, count: int) -> None:
        """Count memory that the request takes until it is answered.

        Raises:
            Refusal: 429, there is no room.
        """
        self._room.take(count)
        self._held_bytes += count

    def _too_long(self) -> Refusal:
        return Refusal(413, f"the body has more than {self._most_bytes} bytes; send less at a time, see GET /v1")


def _decompress(raw: bytes, claimed: int) -> bytes:
    raw_bytes = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompress(raw, allow_extra_data=False)
    if len(raw_bytes) != claimed:
        raise zstandard.ZstdError(f"{len(raw_bytes)} bytes where the frame says {claimed}")
    return raw_bytes


def _pieces(raw: bytes) -> Iterator[bytes]:
    """The raw bytes of one frame, a few at a time.

    `stream_reader` would take a frame that was cut off, or the first one of several, for the whole.

    Raises:
        ZstdError: it is damaged, cut off, or there is more behind it.
    """
    decoder = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES).decompressobj()
    for start in range(0, len(raw), _STEP_BYTES):
        if not decoder.eof and (piece := decoder.decompress(raw[start : start + _STEP_BYTES])):
            yield piece
        used = min(start + _STEP_BYTES, len(raw)) - len(decoder.unused_data)
        if decoder.eof and used < len(raw):
            raise zstandard.ZstdError(f"there are {len(raw) - used} bytes behind its frame; send one frame")
    if not decoder.eof:
        raise zstandard.ZstdError("it was cut off")


def _next_piece(pieces: Iterator[bytes]) -> bytes:
    """About as many bytes as are worth a step; b"" at the end."""
    taken: list[bytes] = []
    count = 0
    for piece in pieces:
        taken.append(piece)
        count += len(piece)
        if count >= _PIECE_BYTES:
            break
    return b"".join(taken)


async def _in_thread_if_long(length: int, call: Callable[..., bytes], *args: Any) -> bytes:
    """Call what takes as long as its bytes are many: for many in a thread, so that the event loop goes on."""
    return call(*args) if length < LONG_BYTES else await asyncio.to_thread(call, *args)


def exchange_of(scope: Any) -> Exchange:
    """The exchange of an ASGI scope."""
    found: Exchange = scope[SCOPE_NAME]
    return found
