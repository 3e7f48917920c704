"""How a raw value becomes a record's payload and back: delta, dictionary or plain.

Native code makes the choice and the frames (`choose` in native/frames/src/group.rs), for writes, whose values it takes
by the group (native/store/src/encoding.rs), and for compaction.
Does not know where records lie, nor where bases and dictionaries come from: they are given as bytes for encoding, and
asked for by their checksum for decoding.  The only importer of zstandard.

Frames are written without magic and content size, 5 to 7 bytes that a delta of 200 bytes would feel: the record's codec
says that it is zstd, and its raw length bounds the output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import zstandard

from docstore.compiled import docstore_native
from docstore.model.capture import Column
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_BODY,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
)
from docstore.storage.bases import Base
from docstore.storage.cache import LruCache, Memory
from docstore.tablets.record import Record

LEVEL = 3
"""Of zstd, at which values are written."""
PACK_LEVEL = 6
"""Of dictionary files: one of 600 KB takes 4 ms."""
_CONTENT_SIZE_BITS = 0xE0
"""Of a frame's first byte: content size present, or a single segment, which implies it."""

Resolve: TypeAlias = Callable[[bytes], bytes]
"""From the checksum of a dictionary or base to its raw bytes."""


MAX_THREADS = 8
"""Threads that encode the values of a group."""
LONGEST_OWN_BODY_BYTES = 4 << 20
"""A longer body is no base of its text."""


Dictionary = docstore_native.Dictionary
"""A raw-content dictionary, prepared once for any number of threads; `checksum` names it in records."""


class EncodedAgain(NamedTuple):
    """A stored value that is encoded again by itself.

    Attributes:
        column: of the value.
        raw: the value.
        bases: what it may be a delta against, with their bytes, the likeliest first.
        saves: for each base, bytes that a delta against it is thought to save elsewhere; () for none.
        body: of a text whose record will stand directly behind that of its body: that body; else b"".
        frame: the delta against the first base that the value is stored as; b"" if it is none.
    """

    column: Column
    raw: bytes
    bases: Sequence[Base] = ()
    saves: Sequence[int] = ()
    body: bytes = b""
    frame: bytes = b""


class Encoded(NamedTuple):
    """How a value is stored: fields of its record, and the base that it is a delta against, if it is one."""

    codec: int
    related: bytes
    payload: bytes
    base: Base | None


class ValueCodec:
    """Encodes and decodes values; thread-safe.

    Attributes:
        dictionaries: cached ones for decoding, by checksum.
        threads: that encode the values of a group.

    Args:
        level: of zstd.
        small: a delta below one part in so many is taken at once; 0 tries as hard as a write does.
        compares: all bases are tried, at `LEVEL`, and the best one is taken at `level`; else the first small delta.
        memory: a share for dictionaries that are held for reading, by all threads.
    """

    def __init__(
        self,
        level: int = LEVEL,
        *,
        small: int = 0,
        compares: bool = False,
        memory: Memory | None = None,
    ) -> None:
        self._effort = level, small, compares, not small
        self.threads = min(processors(), MAX_THREADS)
        self.dictionaries: LruCache[bytes, bytes] = (memory or Memory()).cache("dictionaries", len)

    def encode(self, value: EncodedAgain, dictionary: Dictionary | None = None) -> Encoded:
        """Encode a value; native code decides on delta, dictionary or plain, and makes the frame without the GIL.

        A text that is a delta of its body does not name yet how long the record of that body is.
        """
        saves = value.saves or [0] * len(value.bases)
        bases = [(base.raw, saved) for base, saved in zip(value.bases, saves, strict=True)]
        fields = value.column, value.raw, bases, value.body, value.frame
        codec, place, payload = docstore_native.encode_value(fields, dictionary, self._effort)
        base = None if place is None else value.bases[place]
        related = b"" if base is None else base.name
        if codec == CODEC_ZSTD_DICTIONARY and dictionary is not None:
            related = dictionary.checksum
        return Encoded(codec, related, payload, base)

    def is_small(self, frame_bytes: int, raw_bytes: int) -> bool:
        """Whether the delta of a value is taken at once: then no further base has to be read."""
        return 0 < frame_bytes * self._effort[1] < raw_bytes

    def decode(self, record: Record, resolve: Resolve | None = None) -> bytes:
        """The raw value of a record.

        Args:
            record: as it was read from a segment.
            resolve: gives the dictionary or base that the record names; needed only for those codecs.
        Raises:
            CorruptionError: the payload is no sound frame, or not of the record's raw length.
        """
        codec, payload, raw_bytes = record.codec, record.payload, record.raw_bytes
        if codec == CODEC_STORED:
            if len(payload) != raw_bytes:
                raise _damaged(record, f"{raw_bytes} raw bytes", f"{len(payload)}")
            return payload
        if not payload or payload[0] & _CONTENT_SIZE_BITS:
            raise _damaged(record, "a frame without content size", payload[:4].hex() or "nothing")
        if codec == CODEC_ZSTD:
            before = b""
        elif codec == CODEC_ZSTD_DICTIONARY:
            before = self.dictionary(record.related, resolve)
        elif codec in (CODEC_ZSTD_DELTA, CODEC_ZSTD_BODY):
            before = _related(record.related, resolve)
        else:
            raise _damaged(record, "a codec of docs/format.md", f"codec {codec}")
        raw = docstore_native.decode_frame(payload, raw_bytes, before)
        if raw is None:
            raise _damaged(record, f"a sound frame of {raw_bytes} raw bytes", "another frame")
        return raw

    def dictionary(self, checksum: bytes, resolve: Resolve | None) -> bytes:
        """The content of a dictionary."""
        held = self.dictionaries.get(checksum)
        if held is None:
            held = _related(checksum, resolve)
            self.dictionaries.put(checksum, held)
        return held


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pack(raw: bytes, level: int = PACK_LEVEL) -> bytes:
    """One whole zstd frame, for files that are written once and read rarely."""
    try:
        return zstandard.ZstdCompressor(level=level).compress(raw)
    except zstandard.ZstdError as error:  # the only reason not to compress
        raise MemoryError(str(error)) from error


def unpack(frame: bytes, raw_bytes: int) -> bytes:
    """The content of a frame of `pack`.

    Raises:
        CorruptionError: it is no sound frame of that length.
    """
    try:
        raw = zstandard.ZstdDecompressor().decompress(frame, raw_bytes)
    except zstandard.ZstdError as error:
        raise CorruptionError(f"a zstd frame does not decode: {error}") from error
    if len(raw) != raw_bytes:
        raise CorruptionError("a zstd frame has another length", expected=str(raw_bytes), found=str(len(raw)))
    return raw


def _related(checksum: bytes, resolve: Resolve | None) -> bytes:
    """The dictionary or base of that checksum."""
    if resolve is None:
        raise InvalidArgument("this record needs a dictionary or base: pass `resolve`")
    return resolve(checksum)


def _damaged(record: Record, expected: str, found: str) -> CorruptionError:
    where = (
        f"{record.family}:{record.qualifier.decode(errors='replace')} of row {record.row_key.decode(errors='replace')}"
    )
    return CorruptionError("a value cannot be decoded", path=where, expected=expected, found=found)
