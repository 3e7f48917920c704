"""Frames of a stream: msgpack in zstd, each with its length in front, and one that says that the stream is whole; and
errors as plain data.

| offset | size | type | field | meaning |
|---|---|---|---|---|
| 0 | 1 | u8 | kind | a member of `FrameKind` |
| 1 | 4 | u32 | length | of the payload, little-endian |
| 5 | length | bytes | payload | one msgpack value; in zstd for ITEMS_ZSTD, with its raw length in the zstd frame |

ITEMS hold an array of items, END a map with `count`, the items of all frames before it, and what else the route says of
the whole.  A stream that stops without END or ERROR was cut off: `FrameReader.close` says so.  Lengths are bounded
before anything is allocated, also that of decompressed payloads.

The body of a failed answer is ``{"error": {"class": "InvalidArgument", "message": "...", ...}}``, with the fields of a
`CorruptionError` next to these.  An exception of any other class travels as `Internal`, without its text: what it says
may name what the client must not see.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import zstandard

from docstore.model.errors import (
    CommitUnknown,
    CorruptionError,
    DocstoreError,
    InvalidArgument,
    StorageError,
    StoreUnavailable,
    UnsupportedFormat,
)
from docstore.serving.wire import from_msgpack, to_msgpack

STATUS: Final[dict[type[DocstoreError], int]] = {
    InvalidArgument: 400,
    StoreUnavailable: 503,
    UnsupportedFormat: 500,
    CorruptionError: 500,
    StorageError: 507,
    CommitUnknown: 500,
    DocstoreError: 500,
}
"""HTTP status by class."""

_BY_NAME: Final = {kind.__name__: kind for kind in STATUS} | {
    "Forbidden": StoreUnavailable,
    "NotFound": InvalidArgument,
}
"""By name; the last two are the server's own: no such right, and no such route or job."""
INTERNAL: Final = "Internal"
"""Class of what is no `DocstoreError`: a fault of the server."""
_CORRUPTION_WORDS: Final = ("path", "expected", "found", "remedy")
_MESSAGE_LIMIT: Final = 4000


def status_of(error: Exception) -> int:
    """The HTTP status of an answer with this error."""
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def error_fields(error: Exception, *, name: str = "", retry_after: float | None = None) -> dict[str, Any]:
    """An error as plain data.

    Args:
        error: what was raised.
        name: a class of the server's own, instead of that of `error`.
        retry_after: seconds after which the same may succeed.
    """
    if not isinstance(error, DocstoreError):
        error = DocstoreError("the server failed; its log says why")
        name = name or INTERNAL
    kind = next(kind for kind in STATUS if isinstance(error, kind))
    fields: dict[str, Any] = {
        "class": name or kind.__name__,
        "message": str(error),
        "exit_code": error.exit_code,
        "retry_after": retry_after or None,
    }
    if isinstance(error, CorruptionError):
        fields |= {one: getattr(error, one) for one in _CORRUPTION_WORDS}
        fields |= {"what": error.message, "offset": error.offset}
    elif isinstance(error, StorageError):
        fields["errno"] = error.errno
    return {"error": fields}


def error_of(given: object) -> DocstoreError:
    """The error that plain data says, to be raised; one that is not said properly is a plain `DocstoreError`."""
    fields = given.get("error") if isinstance(given, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get("message"), str):
        return DocstoreError("the other side failed, and did not say why")
    message = fields["message"][:_MESSAGE_LIMIT]
    name = fields.get("class")
    kind = _BY_NAME.get(name, DocstoreError) if isinstance(name, str) else DocstoreError
    if kind is CorruptionError:
        words = {one: fields[one] for one in _CORRUPTION_WORDS if isinstance(fields.get(one), str)}
        what, offset = fields.get("what"), fields.get("offset")
        return CorruptionError(
            what if isinstance(what, str) else message, offset=offset if type(offset) is int else None, **words
        )
    error = kind(message)
    if isinstance(error, StorageError) and type(fields.get("errno")) is int:
        error.errno = fields["errno"]
    return error


# --- frames

MEDIA_TYPE: Final = "application/vnd.docstore.frames"
"""Of a stream of frames."""
FRAME_LIMIT_BYTES: Final = 1 << 28
"""Longest payload, raw and on the wire: a page of the longest body that `ingest` takes by default fits."""
SMALL_BYTES: Final = 256
"""Shorter payloads are stored."""

_HEADER: Final = struct.Struct("<BI")
_LEVEL: Final = 1


class FrameKind(enum.IntEnum):
    """What a frame is."""

    ITEMS = 0
    """An array of items."""
    ITEMS_ZSTD = 1
    """The same, compressed; `FrameReader` gives it as ITEMS."""
    END = 2
    """The last one: a map with `count`."""
    ERROR = 3
    """The last one: an error, as `error_fields` writes it."""


class Frame(NamedTuple):
    """One frame, unpacked.

    Attributes:
        kind: what it is.
        value: an array for ITEMS, else a map.
    """

    kind: FrameKind
    value: Any


def encode_items(items: Sequence[object], *, compress: bool = False) -> bytes:
    """A frame of items.

    Args:
        items: for `to_msgpack`.
        compress: with zstd; not worth its time between processes of one machine.
    Raises:
        InvalidArgument: they cannot be sent, or are longer than FRAME_LIMIT_BYTES.
    """
    payload = to_msgpack(items if isinstance(items, list) else list(items))
    if compress and len(payload) > SMALL_BYTES:
        packed = compressed(payload)
        if len(packed) < len(payload):
            return _framed(FrameKind.ITEMS_ZSTD, packed)
    return _framed(FrameKind.ITEMS, payload)


def encode_end(count: int, **more: object) -> bytes:
    """The frame that ends a whole stream: how many items it had, and more of the whole."""
    return _framed(FrameKind.END, to_msgpack({"count": count, **more}))


def encode_error(error: Exception) -> bytes:
    """The frame that ends a stream which failed."""
    return _framed(FrameKind.ERROR, to_msgpack(error_fields(error)))


def _framed(kind: FrameKind, payload: bytes) -> bytes:
    if len(payload) > FRAME_LIMIT_BYTES:
        raise InvalidArgument(f"{len(payload)} bytes are too long for one frame: at most {FRAME_LIMIT_BYTES}")
    return _HEADER.pack(kind, len(payload)) + payload


class FrameReader:
    """Frames of a stream, as its bytes come in; one thread at a time.

    Args:
        limit_bytes: longest payload, raw and on the wire.

    Attributes:
        ended: END or ERROR has come; bytes after it are refused.
    """

    def __init__(self, limit_bytes: int = FRAME_LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._pending = bytearray()
        self._items = 0
        self.ended = False

    def feed(self, raw: bytes) -> list[Frame]:
        """Take more bytes; gives the frames that are complete now.

        Raises:
            InvalidArgument: not a stream of frames, too long, or with a wrong count at its end.
        """
        self._pending += raw
        found: list[Frame] = []
        start = 0
        with memoryview(self._pending) as pending:
            while len(pending) - start >= _HEADER.size:
                kind, length = self._header(pending, start)
                end = start + _HEADER.size + length
                if len(pending) < end:
                    break
                found.append(self._frame(kind, bytes(pending[start + _HEADER.size : end])))
                start = end
        del self._pending[:start]
        if self.ended and self._pending:
            raise InvalidArgument("there are bytes after the end of the stream")
        return found

    def close(self) -> None:
        """Say that no more bytes come.

        Raises:
            StoreUnavailable: the stream was cut off; asking again is safe.
        """
        if not self.ended:
            inside = f", {len(self._pending)} bytes into a frame" if self._pending else ""
            raise StoreUnavailable(f"the stream was cut off after {self._items} items{inside}; ask again")

    def _header(self, pending: memoryview, start: int) -> tuple[FrameKind, int]:
        if self.ended:
            raise InvalidArgument("there are bytes after the end of the stream")
        number, length = _HEADER.unpack_from(pending, start)
        if number not in _KINDS:
            raise InvalidArgument(f"no frame begins here: its kind is {number}; is this {MEDIA_TYPE}?")
        if length > self._limit_bytes:
            raise InvalidArgument(f"a frame of {length} bytes is too long: at most {self._limit_bytes}")
        return FrameKind(number), length

    def _frame(self, kind: FrameKind, payload: bytes) -> Frame:
        value = from_msgpack(decompressed(payload, self._limit_bytes) if kind is FrameKind.ITEMS_ZSTD else payload)
        if kind in (FrameKind.ITEMS, FrameKind.ITEMS_ZSTD):
            if type(value) is not list:
                raise InvalidArgument("a frame of items must hold an array")
            self._items += len(value)
            return Frame(FrameKind.ITEMS, value)
        if type(value) is not dict:
            raise InvalidArgument(f"a frame of kind {kind.name} must hold a map")
        if kind is FrameKind.END and value.get("count") != self._items:
            raise InvalidArgument(f"the stream had {self._items} items, and its end says {value.get('count')!r:.40}")
        self.ended = kind in (FrameKind.END, FrameKind.ERROR)
        return Frame(kind, value)


def decompressed(payload: bytes, limit_bytes: int) -> bytes:
    """The raw bytes of one zstd frame that says how long they are.

    Raises:
        InvalidArgument: no such frame, or longer than the limit.
    """
    try:
        claimed = zstandard.frame_content_size(payload)
        if not 0 <= claimed <= limit_bytes:
            raise InvalidArgument(
                f"zstd of {claimed} bytes is too long, or does not say its length: at most {limit_bytes}"
            )
        raw = zstandard.ZstdDecompressor().decompress(payload, allow_extra_data=False)
    except (zstandard.ZstdError, MemoryError) as error:
        raise InvalidArgument(f"this is no zstd: {error}") from error
    if len(raw) != claimed:
        raise InvalidArgument(f"zstd holds {len(raw)} bytes, not the {claimed} that it says")
    return raw


def compressed(raw: bytes) -> bytes:
    """Bytes as one zstd frame, fast."""
    return zstandard.ZstdCompressor(level=_LEVEL).compress(raw)


_KINDS: Final = frozenset(FrameKind)


def weight(item: Any) -> int:
    """About how many bytes an item takes in a frame."""
    if isinstance(item, str | bytes):
        return len(item) + 8
    if isinstance(item, tuple | list):
        return 8 + sum(map(weight, item))
    if isinstance(item, dict):
        return 8 + sum(map(weight, item.values()))
    return 8
