"""How a raw value becomes a record's payload and back: delta, dictionary or plain.

Native code makes the choice and the frames (`choose` in native/frames/src/group.rs).  The only importer of zstandard.
Must not know where records lie, nor where bases and dictionaries come from: they are handed in when encoding, and asked
for by their checksum when decoding.

Frames are written without magic and content size, 5 to 7 bytes that a delta of 200 bytes would feel: the record's codec
says that it is zstd, and its raw length bounds the output.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeAlias

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
    RECORD_RELATED_BYTES,
)
from docstore.model.pointers import PagePointer
from docstore.storage.bases import Base, value_name
from docstore.storage.cache import LruCache, Memory
from docstore.tablets.record import Record

LEVEL = 3
"""Of zstd, at which values are written."""
PACK_LEVEL = 6
"""Of dictionary files: one of 600 KB takes 4 ms."""
_CONTENT_SIZE_BITS = 0xE0
"""Of a frame's first byte: content size present, or a single segment, which implies it."""

_NOWHERE = PagePointer(0, b"")


Resolve: TypeAlias = Callable[[bytes], bytes]
"""From the checksum of a dictionary or base to its raw bytes."""


class Encoded(NamedTuple):
    """What becomes part of a record.

    Attributes:
        codec: one of CODEC_.
        related: checksum of dictionary or base; else b"".  Of CODEC_ZSTD_BODY, b"": the length of the body's record is
            to be filled in.
        payload: the frame.
        text: of a body, the frame of its text against it, if that was made in the same pass; else b"".
        base: that it is a delta against; of a base in the same group, only name and bytes are known.
    """

    codec: int
    related: bytes
    payload: bytes
    text: bytes = b""
    base: Base | None = None


DELTA_COST = {BODY: (12, 200), MAIN: (6, 50)}
"""What a delta is weighed against, by column: below one part in so many of the raw bytes it is taken at once; another
has to save so many bytes, for the row of its base and a second decode at every read.  zstd alone hardly ever gets a
body to a twelfth, a text hardly to a quarter; and the body of such a text is mostly a delta as well."""
ON_BODY_COST = (4, 100)
"""The same of a text against its own body."""
MAX_THREADS = 8
"""Threads that encode the values of a group."""
LONGEST_OWN_BODY_BYTES = 4 << 20
MOST_OWN_BODY_SHARE = 16
"""A body is no base of a text that is so many times shorter: each read of the text decodes all of it."""


class NewValue(NamedTuple):
    """A value of a group whose values are encoded together.

    Attributes:
        column: of the value.
        raw: the value.
        name: by which a delta names it as its base; b"" if no other value of the group may be a delta against it.
        bases: to try, the likeliest first; a number is that of an earlier value of the group: that value, or its base
            if it is a delta.
        dictionary: of the column.
        text: with a body: the text that follows it; if the body is no delta, its frame against that is made, too.
        body: with a text: the body whose record stands directly before it, and the text's frame against that.
    """

    column: Column
    raw: bytes
    name: bytes = b""
    bases: Sequence[Base | int] = ()
    dictionary: Dictionary | None = None
    text: bytes = b""
    body: tuple[bytes, bytes] | None = None


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
        level: of zstd, in `choose`.
        tries: bases that `choose` tries for a value at most; None for all that are offered.
        small: a delta below one part in so many is taken at once in `choose`; 0 takes that of `DELTA_COST`.
        memory: a share for dictionaries that are held for reading, by all threads.
        compares: `choose` tries all bases, at `LEVEL`, and takes the best one at `level`; else the first small delta.
    """

    def __init__(
        self,
        level: int = LEVEL,
        *,
        tries: int | None = None,
        small: int = 0,
        compares: bool = False,
        memory: Memory | None = None,
    ) -> None:
        self._level = level
        self._tries = tries
        self._small = small
        self._compares = compares
        self.dictionaries: LruCache[bytes, bytes] = (memory or Memory()).cache("dictionaries", len)

    def choose(
        self,
        column: Column,
        raw: bytes,
        bases: Iterable[Base] = (),
        dictionary: Dictionary | None = None,
        *,
        saves: Callable[[Base], int] | None = None,
        body: bytes = b"",
        now: Encoded | None = None,
    ) -> Encoded:
        """Encode one value as delta, dictionary or plain, as hard as this codec tries.

        Args:
            column: of the value.
            raw: the value.
            bases: to try, the likeliest first; no more are taken than are needed.
            dictionary: of the column.
            saves: bytes that a delta against a base is thought to save elsewhere.
            body: with a text: the body whose record stands directly before it.
            now: the delta that is stored: another one is looked for only if it is not small, or if all bases are
                compared.
        """
        small, cost_bytes = DELTA_COST.get(column, DELTA_COST[BODY])
        offered: list[Base] = []

        def offers() -> Iterator[tuple[bytes, bytes, int]]:
            if now is not None and now.base is not None and not self._compares:
                offered.append(now.base)
                yield b"", now.payload, saves(now.base) if saves else 0
            for base in islice(bases, self._tries):
                offered.append(_named(base))
                yield base.raw, b"", saves(base) if saves else 0

        made = docstore_native.encode_value(
            raw,
            offers(),
            None if dictionary is None else dictionary.frames,
            body if may_be_base(body, raw) else b"",
            (self._small or small, cost_bytes, *ON_BODY_COST),
            self._level,
            self._compares,
        )
        return _encoded(raw, dictionary, offered, made)

    def choose_many(self, values: Sequence[NewValue]) -> list[Encoded]:
        """Encode the values of a group, in order, at `LEVEL`.

        Native code does it in one call without the GIL, with as many threads as there are processors.

        Raises:
            InvalidArgument: the name of a base is too short.
        """
        tasks = []
        for column, raw, _, bases, dictionary, text, body in values:
            small, cost_bytes = DELTA_COST.get(column, DELTA_COST[BODY])
            held = [base if isinstance(base, int) else _named(base).raw for base in bases]
            its_text = text if text and may_be_base(raw, text) else b""
            frame = body[1] if body and may_be_base(body[0], raw) else b""
            frames = None if dictionary is None else dictionary.frames
            tasks.append((raw, held, frames, its_text, frame, small, cost_bytes))
        encoded: list[Encoded] = []
        roots: list[Base] = []
        """What others may be deltas against: the base of each value, or the value itself."""
        group = docstore_native.encode_values(tasks, ON_BODY_COST, min(processors(), MAX_THREADS))
        for value, made in zip(values, group, strict=True):
            its_bases = [roots[base] if isinstance(base, int) else base for base in value.bases]
            encoded.append(_encoded(value.raw, value.dictionary, its_bases, made))
            roots.append(encoded[-1].base or Base(value.name, value.raw, b"", _NOWHERE))
        return encoded

    def decode(self, record: Record, resolve: Resolve | None = None) -> bytes:
        """The raw value of a record.

        Args:
            record: as read from Bodies.
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


def _named(base: Base) -> Base:
    """The base, if a record can name it."""
    if len(base.name) != RECORD_RELATED_BYTES:
        raise InvalidArgument(f"a base is named by {RECORD_RELATED_BYTES} bytes, not {len(base.name)}")
    return base


def _encoded(
    raw: bytes, dictionary: Dictionary | None, bases: Sequence[Base], made: tuple[int, int, bytes, bytes]
) -> Encoded:
    """What native code made of a value, with the names of what it leans on."""
    codec, number, frame, text = made
    base = bases[number] if codec == CODEC_ZSTD_DELTA else None
    related = b"" if base is None else base.name
    if codec == CODEC_ZSTD_DICTIONARY and dictionary is not None:
        related = dictionary.checksum
    return Encoded(codec, related, frame if codec else raw, text, base)


def may_be_base(body: bytes, text: bytes) -> bool:
    """Whether a text may be a delta of its own body."""
    return len(body) <= min(LONGEST_OWN_BODY_BYTES, MOST_OWN_BODY_SHARE * len(text))


def processors() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def pack(raw: bytes, level: int = PACK_LEVEL) -> bytes:
    """One whole zstd frame, for files that are written once and read rarely."""
    return zstandard.ZstdCompressor(level=level).compress(raw)


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
