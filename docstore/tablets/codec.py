"""How a raw value becomes a record's payload and back: delta, dictionary or plain.

Native code makes the choice and the frames (`choose` in native/frames/src/group.rs), for writes and for compaction.
Does not know where records lie, nor where bases and dictionaries come from: they are given as bytes for encoding, and
asked for by their checksum for decoding.  The only importer of zstandard.

Frames are written without magic and content size, 5 to 7 bytes that a delta of 200 bytes would feel: the record's codec
says that it is zstd, and its raw length bounds the output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeAlias

import zstandard

from docstore.compiled import docstore_native
from docstore.model.capture import BODY, MAIN, Column
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_BODY,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    RECORD_VALUE,
)
from docstore.storage.bases import Base, NewValue, value_name
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


Encoded: TypeAlias = tuple[Record | None, Base | NewValue | None]
"""The record of a value, and what it is a delta against: a stored base, or an earlier value of the group.  A value that
shares the record of an earlier one has none, and that value in place of a base."""
DELTA_COST = {BODY: (12, 200), MAIN: (6, 50)}
"""What a delta is weighed against, by column: below one part in so many of the raw bytes it is taken at once; another
has to save so many bytes, for the row of its base and a second decode at every read.  zstd alone hardly ever gets a
body to a twelfth, a text hardly to a quarter; and the body of such a text is mostly a delta as well."""
ON_BODY_COST = (4, 100)
"""The same of a text against its own body."""
MAX_THREADS = 8
"""Threads that encode the values of a group."""
LONGEST_OWN_BODY_BYTES = 4 << 20
"""A longer body is no base of its text."""


class Dictionary:
    """A raw-content dictionary, prepared once for any number of threads.

    Attributes:
        checksum: 16 bytes; names it in records.
        frames: makes frames with it in native code.

    Args:
        content: its raw bytes.
        level: of zstd.
        checksum: of the content, if the caller knows it.
    """

    def __init__(self, content: bytes, level: int = LEVEL, checksum: bytes = b"") -> None:
        self.checksum = checksum or value_name(content)
        self.frames = docstore_native.FrameDictionary(content, level)

    @property
    def memory_bytes(self) -> int:
        """What is held for it."""
        return self.frames.memory_bytes


class ValueCodec:
    """Encodes and decodes values; thread-safe.

    Attributes:
        dictionaries: cached ones for decoding, by checksum.

    Args:
        level: of zstd.
        small: a delta below one part in so many is taken at once; 0 takes that of `DELTA_COST`.
        compares: all bases are tried, at `LEVEL`, and the best one is taken at `level`; else the first small delta.
        guesses: a frame that looks longer than a delta is not made to its end.
        memory: a share for dictionaries that are held for reading, by all threads.
    """

    def __init__(
        self,
        level: int = LEVEL,
        *,
        small: int = 0,
        compares: bool = False,
        guesses: bool = True,
        memory: Memory | None = None,
    ) -> None:
        self._effort = level, compares, guesses
        self._costs = {column: (small or least, cost_bytes) for column, (least, cost_bytes) in DELTA_COST.items()}
        self._threads = min(processors(), MAX_THREADS)
        self.dictionaries: LruCache[bytes, bytes] = (memory or Memory()).cache("dictionaries", len)

    def encode(self, values: Sequence[NewValue], dictionaries: Sequence[Dictionary | None]) -> list[Encoded]:
        """Encode values; native code decides on delta, dictionary or plain for each, and makes the frames.

        It does so in one call without the GIL, with as many threads as there are processors.  A text that is a delta of
        its body gets a record that does not say yet how long the record of that body is.

        Args:
            values: each after those that it names; another value that it names is no base.
            dictionaries: of each value.
        """
        costs = self._costs, self._costs[BODY], ON_BODY_COST
        threads = self._threads if len(values) > 1 else 1
        record = Record, RECORD_VALUE
        return docstore_native.encode_values(values, dictionaries, costs, self._effort, threads, record)

    def is_small(self, column: Column, frame_bytes: int, raw_bytes: int) -> bool:
        """Whether the delta of a value is taken at once: then no further base has to be read."""
        small, _ = self._costs.get(column, self._costs[BODY])
        return 0 < frame_bytes * small < raw_bytes

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
