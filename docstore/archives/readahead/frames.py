"""What the two processes of an ingest say to each other, as frames on a pipe.

Knows `Prepared` and portions.  Must not know processes.  A frame is the number of its parts, the length of
each, all 8 bytes little-endian, and the parts: a pickle, and the long bodies that are not copied into it.  Both ends
are the same docstore in the same Python, started one by the other, and nothing of it reaches disk.  Named tuples, pages
and arrays travel as plain tuples and bytes, which takes half the time.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from io import BufferedReader
from typing import IO, Any, Final, NamedTuple

import numpy as np

from docstore.archives.readahead.portions import Place, Portion, Rest
from docstore.model.analysis import Analysis
from docstore.model.types import Page
from docstore.storage.values import Sorted
from docstore.writing.anchors import Anchor
from docstore.writing.prepare import Prepared

BUFFER_BYTES: Final = 2 << 20
"""Takes most frames."""
LARGEST_KEPT_BYTES: Final = 16 << 20
"""A buffer that grew beyond that is given back."""
LONG_BODY_BYTES: Final = 1 << 20
"""A body as long as that is a part of its own."""

_PAGE, _ANALYSIS, _ANCHORS, _VALUES = map(Prepared._fields.index, ("page", "analysis", "anchors", "values"))
_LENGTH: Final = struct.Struct("<Q")
_ARRAYS: Final = tuple(
    number for number, name in enumerate(Analysis._fields) if isinstance(Analysis._field_defaults.get(name), np.ndarray)
)


class ReadyPortion(NamedTuple):
    """A portion whose pages were analysed."""

    prepared: list[Prepared]
    places: list[Place]
    rest: Rest


class Failure(NamedTuple):
    """Reading ended with an unexpected exception."""

    error: BaseException


class End(NamedTuple):
    """Everything has been read."""


Message = ReadyPortion | Failure | End
Parts = Sequence[bytes | memoryview]
"""Of a frame."""


def encode_portion(portion: Portion, prepared: list[Prepared]) -> Parts:
    """A portion and its analysed pages as the parts of a frame."""
    plain = [_plain(one) for one in prepared]
    long: list[pickle.PickleBuffer] = []
    places = [tuple(place) for place in portion.places]
    raw = pickle.dumps((plain, places, portion.rest), 5, buffer_callback=long.append)
    return [raw, *[buffer.raw() for buffer in long]]


def encode(message: Failure | End) -> Parts:
    """Any other message as the parts of a frame."""
    try:
        raw = pickle.dumps(message, 5)
        pickle.loads(raw)  # what cannot be made again at the other end must fail here
    except Exception:
        assert isinstance(message, Failure)
        # An exception of a library that holds a lock, say: its words are what counts.
        return [pickle.dumps(Failure(RuntimeError(repr(message.error))), 5)]
    return [raw]


def decode(parts: Parts) -> Message:
    """The message of a frame."""
    message: Any = pickle.loads(parts[0], buffers=parts[1:])
    if type(message) is not tuple:
        found: Message = message
        return found
    plain, places, rest = message
    return ReadyPortion([_prepared(one) for one in plain], [Place(*place) for place in places], rest)


def write(stream: IO[bytes], parts: Parts) -> None:
    """Send a frame."""
    stream.write(b"".join(map(_LENGTH.pack, (len(parts), *map(len, parts)))))
    for part in parts:
        stream.write(part)
    stream.flush()


class Receiver:
    """The messages that come out of a pipe; one buffer takes them all, for the kernel must clear memory that is new."""

    def __init__(self, stream: BufferedReader) -> None:
        self._stream = stream
        self._buffer = bytearray(BUFFER_BYTES)

    def take(self) -> Message | None:
        """The next message; None where the other process has ended."""
        count = self._lengths(1)
        lengths = self._lengths(count[0]) if count else None
        if lengths is None:
            return None
        if lengths[0] > len(self._buffer):
            self._buffer = bytearray(lengths[0])
        with memoryview(self._buffer)[: lengths[0]] as raw:
            if self._stream.readinto(raw) < lengths[0]:
                return None
            long = [self._stream.read(length) for length in lengths[1:]]
            if sum(map(len, long)) < sum(lengths[1:]):
                return None
            message = decode([raw, *long])
        if len(self._buffer) > LARGEST_KEPT_BYTES:  # one long page must not be remembered by its room
            self._buffer = bytearray(BUFFER_BYTES)
        return message

    def _lengths(self, count: int) -> list[int] | None:
        """So many lengths; None where the other process has ended."""
        raw = self._stream.read(count * _LENGTH.size)
        return [length for (length,) in _LENGTH.iter_unpack(raw)] if len(raw) == count * _LENGTH.size else None


def _plain(one: Prepared) -> list[Any]:
    page, analysis = one.page, one.analysis
    plain: list[Any] = list(one)
    is_long = len(page.body) >= LONG_BODY_BYTES
    plain[_PAGE] = (page.url, pickle.PickleBuffer(page.body) if is_long else page.body, *page[2:])
    plain[_ANCHORS] = [tuple(anchor) for anchor in one.anchors]
    plain[_VALUES] = tuple(one.values)
    if analysis is not None:
        fields: list[Any] = list(analysis)
        for number in _ARRAYS:
            fields[number] = fields[number].tobytes()
        plain[_ANALYSIS] = fields
    return plain


def _prepared(plain: list[Any]) -> Prepared:
    plain[_PAGE] = Page(*plain[_PAGE])
    plain[_ANCHORS] = tuple([Anchor(*anchor) for anchor in plain[_ANCHORS]])
    plain[_VALUES] = Sorted(*plain[_VALUES])
    fields = plain[_ANALYSIS]
    if fields is not None:
        for number in _ARRAYS:
            fields[number] = np.frombuffer(fields[number], np.uint64)
        plain[_ANALYSIS] = Analysis._make(fields)
    return Prepared._make(plain)
