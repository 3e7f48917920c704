"""Sorted immutable runs of postings: 5 to 7 bytes a posting, one fence and one bucket read a look-up.

Floor 2: pure arrays over buffers that the owner provides (a file's memory map, or bytes); must not know files, the
engine, or what a key stands for.

A posting is (key, text number).  A run mixes each 64-bit key, keeps its highest `RUN_KEY_BITS` bits, and names its
texts by their place in a table of the run, so that one posting packs into one uint64, ``key << 24 | place``, and to
build or to merge runs is to sort integers.  On disk the sorted postings are cut into ``2**fence_bits`` buckets by the
head of the key, 8 to 32 postings each; only the tail of the key (2 or 3 bytes) and the place (3 bytes) are kept in
columns, and a fence says where each bucket begins.  Keys are uniform after mixing, so a bucket is found by arithmetic,
not by search.

Bounds: of one key a run keeps the `bucket_limit` texts that came first.  A key that agrees in 40 bits by chance is a
false candidate: n / 2**40 a look-up, 1 in 3,000 at 360 million postings; the detector verifies every candidate anyway.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstore.codec import crc32
from docstore.dedup.candidates import Numbers, spans
from docstore.errors import CorruptionError, InvalidArgument, UnsupportedFormat
from docstore.format import (
    RUN_FORMAT_VERSION,
    RUN_HEADER,
    RUN_HEADER_BYTES,
    RUN_KEY_BITS,
    RUN_MAGIC,
    RUN_PLACE_BITS,
)

Keys = NDArray[np.uint64]

MIN_FENCE_BITS: Final = 16
MAX_FENCE_BITS: Final = 24
"""With 24 fence bits the tag is 2 bytes, below it 3."""
_BUCKET_POSTINGS: Final = 32
_PLACE_BITS: Final = np.uint64(RUN_PLACE_BITS)
_PLACE_MASK: Final = np.uint64((1 << RUN_PLACE_BITS) - 1)
_CUT: Final = np.uint64(64 - RUN_KEY_BITS)
_SIXTEEN: Final = np.uint64(16)
_SLICE_POSTINGS: Final = 1 << 13
"""Merging goes through the key space in slices of about so many postings: the least that a step does, half a ms."""
_TEXTS_A_STEP: Final = 1 << 16


def mix_keys(keys: Keys) -> Keys:
    """Spread keys evenly and keep the highest bits: (n,) uint64 below ``2**RUN_KEY_BITS``."""
    mixed = keys * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    return mixed >> _CUT


def pack(mixed: Keys, places: Keys | np.uint64) -> Keys:
    """One integer a posting: sorts by key, then by place, that is by arrival."""
    return mixed << _PLACE_BITS | places


def bound_buckets(postings: Keys, limit: int) -> Keys:
    """Of sorted postings keep the first `limit` of each key."""
    if len(postings) <= limit:
        return postings
    keys = postings >> _PLACE_BITS
    keep = np.ones(len(postings), bool)
    keep[limit:] = keys[limit:] != keys[:-limit]
    return postings if keep.all() else postings[keep]


def _fence_bits(postings: int) -> int:
    return min(MAX_FENCE_BITS, max(MIN_FENCE_BITS, (postings // _BUCKET_POSTINGS).bit_length()))


class _Columns(NamedTuple):
    fence: NDArray[np.uint32]
    tag_low: NDArray[np.uint16]
    tag_high: NDArray[np.uint8]
    place_low: NDArray[np.uint16]
    place_high: NDArray[np.uint8]
    texts: NDArray[np.uint16]


def _layout(fence_bits: int, room: int, texts: int) -> list[tuple[int, int, np.dtype[np.unsignedinteger]]]:
    """(offset, items, dtype) of each column; each begins at a multiple of the header's size."""
    counts = ((1 << fence_bits) + 1, room, room if fence_bits < MAX_FENCE_BITS else 0, room, room, texts * 3)
    kinds = ("<u4", "<u2", "u1", "<u2", "u1", "<u2")
    columns = []
    at = RUN_HEADER_BYTES
    for count, kind in zip(counts, kinds, strict=True):
        dtype: np.dtype[np.unsignedinteger] = np.dtype(kind)
        columns.append((at, count, dtype))
        at += -(-count * dtype.itemsize // RUN_HEADER_BYTES) * RUN_HEADER_BYTES
    return columns


def run_bytes(postings: int, texts: int) -> int:
    """Bytes that a run of so many postings and texts takes."""
    offset, count, dtype = _layout(_fence_bits(postings), postings, texts)[-1]
    return offset + -(-count * dtype.itemsize // RUN_HEADER_BYTES) * RUN_HEADER_BYTES


def _view(buffer: NDArray[np.uint8], fence_bits: int, room: int, texts: int) -> _Columns:
    return _Columns(
        *(
            buffer[offset : offset + count * dtype.itemsize].view(dtype)
            for offset, count, dtype in _layout(fence_bits, room, texts)
        )
    )


COLUMN_NAMES = _Columns._fields


class Run:
    """One sorted immutable run over a buffer: look-ups of many keys at a time.

    Attributes:
        postings: how many it holds.
        texts: how many different texts they name.
    """

    def __init__(self, buffer: NDArray[np.uint8]) -> None:
        """Read a run's header.

        Args:
            buffer: (bytes,) uint8, for instance a read-only memory map; kept, not copied.
        Raises:
            CorruptionError: the header is not what was written.
            UnsupportedFormat: written by a newer docstore.
        """
        size = struct.calcsize(RUN_HEADER)
        head = buffer[: size + 4].tobytes()
        if len(head) < size + 4 or not head.startswith(RUN_MAGIC):
            raise CorruptionError("not a run of postings", offset=0, expected=repr(RUN_MAGIC), found=repr(head[:8]))
        stored, computed = int.from_bytes(head[size:], "little"), crc32(head[:size])
        if stored != computed:
            raise CorruptionError(
                "run header is damaged", offset=size, expected=f"{computed:08x}", found=f"{stored:08x}"
            )
        _, version, fence_bits, tag_bytes, texts, _, postings, room, *checksums = struct.unpack(RUN_HEADER, head[:size])
        if version != RUN_FORMAT_VERSION:
            raise UnsupportedFormat(
                f"run of postings of format {version}, this docstore knows {RUN_FORMAT_VERSION}; delete it and it is "
                "built again from the postings"
            )
        end, count, dtype = _layout(fence_bits, room, texts)[-1]
        if tag_bytes * 8 < RUN_KEY_BITS - fence_bits or len(buffer) < end + count * dtype.itemsize:
            raise CorruptionError("run of postings is cut short", expected=f"{end} bytes", found=f"{len(buffer)}")
        self.postings: int = postings
        self.texts: int = texts
        self._room: int = room
        self._fence_bits: int = fence_bits
        self._tag_bits = np.uint64(RUN_KEY_BITS - fence_bits)
        self._checksums: list[int] = checksums
        self._columns = _view(buffer, fence_bits, room, texts)

    def find(self, mixed: Keys) -> tuple[Numbers, Keys]:
        """Look up keys, all at once.

        Args:
            mixed: (m,) of `mix_keys`.
        Returns:
            For each posting found: which key (its index in `mixed`, ascending), and its text number as uint64; the
            texts of one key in order of arrival.
        """
        columns = self._columns
        bucket = (mixed >> self._tag_bits).astype(np.int64)
        begin = columns.fence[bucket].astype(np.int64)
        lengths = columns.fence[bucket + 1].astype(np.int64) - begin
        index = spans(begin, lengths)
        owner = np.repeat(np.arange(len(mixed)), lengths)
        hit = np.flatnonzero(columns.tag_low[index] == mixed.astype(np.uint16)[owner])
        index, owner = index[hit], owner[hit]
        if len(columns.tag_high) and len(hit):
            tag = mixed & np.uint64((1 << int(self._tag_bits)) - 1)
            same = columns.tag_high[index] == (tag >> _SIXTEEN).astype(np.uint8)[owner]
            index, owner = index[same], owner[same]
        return owner, self.text_numbers(self._places(index))

    def _places(self, index: Numbers | slice) -> Keys:
        return self._columns.place_low[index] | self._columns.place_high[index].astype(np.uint64) << _SIXTEEN

    def text_numbers(self, places: Keys | slice) -> Keys:
        """Text numbers (uint64, 48 bits) of places in the run."""
        words = self._columns.texts.reshape(-1, 3)[places].astype(np.uint64)
        numbers: Keys = words[:, 0] | words[:, 1] << _SIXTEEN | words[:, 2] << np.uint64(32)
        return numbers

    def text_words(self, begin: int, end: int) -> NDArray[np.uint16]:
        """Text numbers of places begin..end as they are stored, (texts, 3)."""
        return self._columns.texts.reshape(-1, 3)[begin:end]

    def slice_postings(self, number: int, slice_bits: int) -> Keys:
        """All postings of one of the ``2**slice_bits`` slices of the key space, packed and sorted."""
        step = self._fence_bits - slice_bits
        fence = self._columns.fence[number << step : ((number + 1) << step) + 1].astype(np.int64)
        reach = slice(int(fence[0]), int(fence[-1]))
        buckets = np.arange(number << step, (number + 1) << step, dtype=np.uint64)
        keys = np.repeat(buckets << self._tag_bits, fence[1:] - fence[:-1])
        keys |= self._columns.tag_low[reach]
        if len(self._columns.tag_high):
            keys |= self._columns.tag_high[reach].astype(np.uint64) << _SIXTEEN
        return pack(keys, self._places(reach))

    def column_bounds(self) -> list[tuple[str, int, int]]:
        """Name, offset and bytes of each column, room for postings to come included."""
        layout = _layout(self._fence_bits, self._room, self.texts)
        return [
            (name, offset, count * dtype.itemsize)
            for name, (offset, count, dtype) in zip(COLUMN_NAMES, layout, strict=True)
        ]

    def damaged_columns(self) -> list[str]:
        """Names of columns whose bytes are not what was written; reads the whole run."""
        names = []
        used = self._columns._replace(
            tag_low=self._columns.tag_low[: self.postings],
            tag_high=self._columns.tag_high[: self.postings],
            place_low=self._columns.place_low[: self.postings],
            place_high=self._columns.place_high[: self.postings],
        )
        for number, name in enumerate(_Columns._fields):
            if _crc(used[number], 0) != self._checksums[number]:
                names.append(name)
        return names


class RunWriter:
    """Fills a buffer with one run, slice by slice, ascending; the header comes last, so half a run is no run."""

    def __init__(self, buffer: NDArray[np.uint8], postings: int, texts: int) -> None:
        """Begin a run.

        Args:
            buffer: (run_bytes(postings, texts),) uint8, zeroed.
            postings: as many as will be appended, or more.
            texts: exactly as many as will be appended.
        """
        if texts > 1 << RUN_PLACE_BITS:
            raise InvalidArgument(f"{texts} texts do not fit one run; keep to {1 << RUN_PLACE_BITS}")
        self._buffer = buffer
        self._room = postings
        self._fence_bits = _fence_bits(postings)
        self._tag_bits = np.uint64(RUN_KEY_BITS - self._fence_bits)
        self._columns = _view(buffer, self._fence_bits, postings, texts)
        self._texts = 0
        self._count = 0
        self._bucket = 0
        self._checksums = [0] * len(_Columns._fields)

    def append_texts(self, words: NDArray[np.uint16]) -> None:
        """Add text numbers, (texts, 3) of 16 bits, lowest first; their places follow on."""
        reach = self._columns.texts[self._texts * 3 : (self._texts + len(words)) * 3]
        reach[:] = words.ravel()
        self._checksums[5] = _crc(reach, self._checksums[5])
        self._texts += len(words)

    def append(self, postings: Keys, done: float = 1.0) -> None:
        """Add sorted postings, all behind those before.

        Args:
            postings: packed, sorted.
            done: the share of the key space that is now complete, a multiple of ``2**-16``; 1 with the last.
        """
        columns = self._columns
        reach = slice(self._count, self._count + len(postings))
        keys = postings >> _PLACE_BITS
        places = postings & _PLACE_MASK
        columns.tag_low[reach] = keys.astype(np.uint16)
        columns.place_low[reach] = places.astype(np.uint16)
        columns.place_high[reach] = places >> _SIXTEEN
        written = [columns.tag_low[reach], None, columns.place_low[reach], columns.place_high[reach]]
        if len(columns.tag_high):
            tag = keys & np.uint64((1 << int(self._tag_bits)) - 1)
            columns.tag_high[reach] = tag >> _SIXTEEN
            written[1] = columns.tag_high[reach]
        for number, column in enumerate(written, start=1):
            if column is not None:
                self._checksums[number] = _crc(column, self._checksums[number])
        end = int(done * (1 << self._fence_bits))
        bounds = np.arange(self._bucket, end, dtype=np.uint64) << self._tag_bits
        fence = columns.fence[self._bucket : end]
        fence[:] = self._count + np.searchsorted(keys, bounds)
        self._checksums[0] = _crc(fence, self._checksums[0])
        self._bucket = end
        self._count += len(postings)

    def finish(self) -> None:
        """Write the last fence and the header; the owner then makes the buffer durable and opens it as a `Run`."""
        fence = self._columns.fence[-1:]
        fence[0] = self._count
        self._checksums[0] = _crc(fence, self._checksums[0])
        tag_bytes = 2 if self._fence_bits == MAX_FENCE_BITS else 3
        head = struct.pack(
            RUN_HEADER,
            RUN_MAGIC,
            RUN_FORMAT_VERSION,
            self._fence_bits,
            tag_bytes,
            self._texts,
            0,
            self._count,
            self._room,
            *self._checksums,
        )
        head += struct.pack("<I", crc32(head))
        self._buffer[: len(head)] = np.frombuffer(head, np.uint8)


def _crc(column: NDArray[np.unsignedinteger], start: int) -> int:
    return crc32(column.view(np.uint8).data, start)


def text_words(numbers: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Split 48-bit text numbers into (texts, 3) words of 16 bits, lowest first."""
    return np.stack([(numbers >> np.uint64(16 * word)).astype(np.uint16) for word in range(3)], axis=1)


def write_run(buffer: NDArray[np.uint8], postings: Keys, texts: NDArray[np.uint64]) -> None:
    """Write sorted postings as one run into a buffer of `run_bytes`."""
    writer = RunWriter(buffer, len(postings), len(texts))
    writer.append_texts(text_words(texts))
    writer.append(postings)
    writer.finish()


def slice_bits(postings: int) -> int:
    """Into how many slices (as a power of two) a merge of so many postings goes through the key space."""
    return min(MIN_FENCE_BITS, (postings // _SLICE_POSTINGS).bit_length())


def merge_runs(runs: Sequence[Run], buffer: NDArray[np.uint8], bucket_limit: int) -> Iterator[int]:
    """Merge runs, oldest first, into a buffer of `run_bytes`; each step gives how many postings or texts it read.

    The owner decides when to take the next step, so the stall is that of one slice; the run is there when the iterator
    ends.  Texts keep their order: all places of a run lie behind those of the runs before it.
    """
    total = sum(run.postings for run in runs)
    writer = RunWriter(buffer, total, sum(run.texts for run in runs))
    offsets = []
    texts = 0
    for run in runs:
        offsets.append(np.uint64(texts))
        texts += run.texts
        for begin in range(0, run.texts, _TEXTS_A_STEP):
            words = run.text_words(begin, begin + _TEXTS_A_STEP)
            writer.append_texts(words)
            yield len(words)
    bits = slice_bits(total)
    for number in range(1 << bits):
        part = np.concatenate(
            [run.slice_postings(number, bits) + offset for run, offset in zip(runs, offsets, strict=True)]
        )
        part.sort()
        writer.append(bound_buckets(part, bucket_limit), (number + 1) / (1 << bits))
        yield len(part)
    writer.finish()
