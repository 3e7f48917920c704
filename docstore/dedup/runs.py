"""Sorted immutable runs of postings as one stream of bytes each: some 4 bytes a posting, one bucket read a look-up.

Pure arrays over buffers that the owner provides (a file's memory map, or bytes); must not know files, the
engine, or what a key stands for.

A posting is (key, text number).  A run mixes each 64-bit key, keeps its highest `RUN_KEY_BITS` bits, and names its
texts by their place in a table of the run, so that one posting packs into one uint64, ``key << 24 | place``, and to
build or to merge runs is to sort integers.  On disk the sorted postings are cut into slices of the key space, a few
thousand keys each, which `slices` packs.  A run is written from its beginning to its end and never changed: texts,
slices, where each slice begins, and a footer that says how to read it.

Bounds: of one key a run keeps the `bucket_limit` texts that came first.  A key that agrees in 40 bits by chance is a
false candidate: n / 2**40 a look-up, 1 in 3,000 at 360 million postings; the detector verifies every candidate anyway.

A bucket with `bucket_limit` texts stays full although some of them are gone: later texts of that key may have been left
out of the run, and are found under longer keys, which look-ups ask for where a bucket is full (`ranking`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.candidates import Numbers
from docstore.dedup.slices import UNIT_BYTES, Shape, SliceReader
from docstore.model.codec import crc32
from docstore.model.errors import CorruptionError, InvalidArgument, UnsupportedFormat
from docstore.model.format import (
    RUN_BUCKET_BITS,
    RUN_FOOTER,
    RUN_FOOTER_BYTES,
    RUN_FORMAT_VERSION,
    RUN_KEY_BITS,
    RUN_MAGIC,
    RUN_PLACE_BITS,
    RUN_TEXT_GONE,
    TEXT_NUMBER_BYTES,
)

Keys = NDArray[np.uint64]

MAX_SLICE_BITS: Final = 24
PART_NAMES: Final = "texts", "slices", "index"
_BUCKET_KEYS: Final = 16
"""Keys in a bucket at most, on the average."""
_PLACE_BITS: Final = np.uint64(RUN_PLACE_BITS)
_PLACE_MASK: Final = np.uint64((1 << RUN_PLACE_BITS) - 1)
_CUT: Final = np.uint64(64 - RUN_KEY_BITS)
_KEY_BYTES: Final = RUN_KEY_BITS // 8
_TEXTS_A_STEP: Final = 1 << 18
_BYTES_A_STEP: Final = 1 << 22
_SLICES_A_STEP: Final = 128
"""A step of a merge goes through so many slices: 300,000 keys, some hundredths of a second in native code."""


def mix_keys(keys: Keys) -> Keys:
    """Spread keys evenly and keep the highest bits: (n,) uint64 below ``2**RUN_KEY_BITS``."""
    mixed = keys * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xD6E8FEB86659FD93)
    mixed ^= mixed >> np.uint64(32)
    return mixed >> _CUT


def key_bytes(mixed: Keys) -> bytes:
    """Mixed keys as they lie in a log: `RUN_KEY_BITS` bits each, lowest byte first."""
    return mixed.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :_KEY_BYTES].tobytes()


def keys_of_bytes(raw: bytes) -> Keys:
    """What `key_bytes` was given."""
    mixed = np.zeros((len(raw) // _KEY_BYTES, 8), np.uint8)
    mixed[:, :_KEY_BYTES] = np.frombuffer(raw, np.uint8).reshape(-1, _KEY_BYTES)
    return mixed.view("<u8").ravel()


def pack(mixed: Keys, places: Keys | np.uint64) -> Keys:
    """One integer a posting: sorts by key, then by place, that is by arrival."""
    return mixed << _PLACE_BITS | places


def bound_buckets(postings: Keys, limit: int) -> Keys:
    """Of sorted postings keep the first `limit` of each key, each once: two keys of a text may agree in 40 bits."""
    keep = np.ones(len(postings), bool)
    keep[1:] = postings[1:] != postings[:-1]
    if not keep.all():
        postings = postings[keep]
    keys = postings >> _PLACE_BITS
    keep = np.ones(len(postings), bool)
    keep[limit:] = keys[limit:] != keys[:-limit]
    return postings if keep.all() else postings[keep]


def key_count(postings: Keys) -> int:
    """Different keys of sorted postings."""
    keys = postings >> _PLACE_BITS
    return int(np.count_nonzero(keys[1:] != keys[:-1])) + 1 if len(keys) else 0


def shape_of(keys: int, texts: int) -> Shape:
    """How to cut a run of at most so many keys: 8 to 16 of them in a bucket."""
    bits = (keys // _BUCKET_KEYS).bit_length()
    return Shape(min(max(bits - RUN_BUCKET_BITS, 0), MAX_SLICE_BITS), max(texts - 1, 0).bit_length())


class Layout(NamedTuple):
    """Where the parts of a run lie in its file, in bytes."""

    texts: int
    slices: int
    slice_index: int
    footer: int


def _padded(length: int) -> int:
    return -(-length // UNIT_BYTES) * UNIT_BYTES


def _layout(texts: int, slices_bytes: int, slice_bits: int) -> Layout:
    slices = len(RUN_MAGIC) + _padded(texts * TEXT_NUMBER_BYTES)
    index = slices + slices_bytes
    return Layout(len(RUN_MAGIC), slices, index, index + _padded(((1 << slice_bits) + 1) * 4))


class Run:
    """One sorted immutable run over a buffer: look-ups of many keys at a time.

    Attributes:
        postings: how many it holds.
        keys: how many different keys they have.
        texts: how many texts they name.
        shape: how it is cut.
        layout: where its parts lie.
        buffer: (bytes,) uint8.
    """

    def __init__(self, buffer: NDArray[np.uint8]) -> None:
        """Read a run's footer.

        Args:
            buffer: (bytes,) uint8, for instance a read-only memory map; kept, not copied.
        Raises:
            CorruptionError: the footer is not what was written.
            UnsupportedFormat: written by another docstore.
        """
        head = buffer[: len(RUN_MAGIC)].tobytes()
        foot = buffer[-RUN_FOOTER_BYTES:].tobytes()
        if head != RUN_MAGIC:
            raise CorruptionError("not a run of postings", offset=0, expected=repr(RUN_MAGIC), found=repr(head))
        at = max(len(buffer) - RUN_FOOTER_BYTES, 0)
        if not foot.startswith(RUN_MAGIC):
            raise CorruptionError(
                "run of postings is cut short", offset=at, expected=repr(RUN_MAGIC), found=repr(foot[:8])
            )
        stored, computed = int.from_bytes(foot[-4:], "little"), crc32(foot[:-4])
        if stored != computed:
            raise CorruptionError("run footer is damaged", offset=at, expected=f"{computed:08x}", found=f"{stored:08x}")
        _, version, slice_bits, place_bits, texts, keys, postings, slices_bytes, *checksums = struct.unpack(
            RUN_FOOTER, foot[:-4]
        )
        if version != RUN_FORMAT_VERSION:
            raise UnsupportedFormat(
                f"run of postings of format {version}, this docstore knows {RUN_FORMAT_VERSION}; it is built again "
                "from the stored pages"
            )
        self.layout = _layout(texts, slices_bytes, slice_bits)
        if self.layout.footer != at:
            raise CorruptionError("run of postings is cut short", expected=f"{self.layout.footer} bytes", found=f"{at}")
        self.buffer = buffer
        self.postings: int = postings
        self.keys: int = keys
        self.texts: int = texts
        self.shape = Shape(slice_bits, place_bits)
        self._checksums: list[int] = checksums
        index = buffer[self.layout.slice_index : self.layout.footer].view("<u4")[: (1 << slice_bits) + 1]
        self._slices = SliceReader(buffer[self.layout.slices :].view("<u8"), index, self.shape)
        self._text_words = buffer[self.layout.texts : self.layout.texts + texts * TEXT_NUMBER_BYTES].view("<u2")

    @property
    def storage_bytes(self) -> int:
        """Bytes of its file."""
        return len(self.buffer)

    def find(self, mixed: Keys) -> tuple[Numbers, Keys]:
        """Look up keys, all at once.

        Args:
            mixed: (m,) of `mix_keys`.
        Returns:
            For each posting found: which key (its index in `mixed`, ascending), and its text number as uint64; the
            texts of one key in order of arrival.
        """
        owner, places = self._slices.find(mixed)
        return owner, self.text_numbers(places)

    def text_numbers(self, places: Keys | slice) -> Keys:
        """Text numbers (uint64, 48 bits) of places in the run."""
        words = self._text_words.reshape(-1, 3)[places].astype(np.uint64)
        numbers: Keys = words[:, 0] | words[:, 1] << np.uint64(16) | words[:, 2] << np.uint64(32)
        return numbers

    def text_bytes(self) -> memoryview:
        """All text numbers as they are stored."""
        return self._text_words.view(np.uint8).data

    def postings_between(self, first: int, end: int, slice_bits: int) -> Keys:
        """Postings of slices first..end of a run that is cut into ``2**slice_bits`` of them, finer or coarser."""
        begin, last = first << self.shape.slice_bits, (end << self.shape.slice_bits) - 1
        own = range(begin >> slice_bits, (last >> slice_bits) + 1)
        postings = np.concatenate([self._slices.postings(number) for number in own])
        shift = RUN_KEY_BITS + RUN_PLACE_BITS - slice_bits
        low = np.searchsorted(postings, np.uint64(first << shift)) if first else 0
        high = np.searchsorted(postings, np.uint64(end << shift)) if end < 1 << slice_bits else len(postings)
        return postings[low:high]

    def verified_parts(self) -> Iterator[bytes]:
        """Nothing, after each bounded step of reading the whole run.

        Raises:
            CorruptionError: it is not as it was written: a merge would take the damage over and call it whole.
        """
        for name, begin, end, stored in self._parts():
            computed = 0
            for at in range(begin, end, _BYTES_A_STEP):
                computed = crc32(self.buffer[at : min(at + _BYTES_A_STEP, end)].data, computed)
                yield b""
            if computed != stored:
                raise CorruptionError(
                    f"the {name} of a run of postings are damaged", expected=f"{stored:08x}", found=f"{computed:08x}"
                )

    def damaged_parts(self) -> list[str]:
        """Names of parts whose bytes are not what was written; reads the whole run."""
        return [name for name, begin, end, stored in self._parts() if crc32(self.buffer[begin:end].data) != stored]

    def part_bounds(self) -> list[tuple[str, int, int]]:
        """Name, begin and end of each part, in bytes, in the order in which they lie."""
        return list(zip(PART_NAMES, self.layout[:3], self.layout[1:], strict=True))

    def _parts(self) -> list[tuple[str, int, int, int]]:
        """The same, each with the CRC-32 that the footer names."""
        return [(*bounds, stored) for bounds, stored in zip(self.part_bounds(), self._checksums, strict=True)]


class Encoded(NamedTuple):
    """Slices as bytes, the length of each in units of 8 bytes, and what is in them."""

    raw: bytes | memoryview
    units: NDArray[np.uint32]
    keys: int
    postings: int


class Packer(Protocol):
    """Native code or the reference: makes slices of a run."""

    def encode(self, postings: Keys, shape: Shape) -> Encoded:
        """All slices of sorted postings."""
        ...

    def merge(self, runs: Sequence[Run], shape: Shape, limit: int, first: int, count: int) -> Encoded:
        """Slices first..first + count of runs together, oldest run first, at most `limit` postings of a key."""
        ...


class _Writer:
    """Keeps count of what was given out of a run, so that the footer can say it."""

    def __init__(self, shape: Shape, texts: int) -> None:
        self.shape = shape
        self.texts = texts
        self.keys = self.postings = 0
        self.units: list[NDArray[np.uint32]] = []
        self.checksums = [0, 0, 0]
        self.bytes = [0, 0, 0]

    def part(self, number: int, raw: bytes | memoryview) -> bytes | memoryview:
        self.checksums[number] = crc32(raw, self.checksums[number])
        self.bytes[number] += len(raw)
        return raw

    def slices(self, encoded: Encoded) -> bytes | memoryview:
        self.units.append(encoded.units)
        self.keys += encoded.keys
        self.postings += encoded.postings
        return self.part(1, encoded.raw)

    def end(self) -> bytes:
        units = np.concatenate(self.units)
        index = np.concatenate([[0], np.cumsum(units, dtype=np.uint64)])
        if int(index[-1]) >> 32:
            raise InvalidArgument(f"{int(index[-1])} units of 8 bytes do not fit one run; keep below 2**32")
        raw = index.astype("<u4").tobytes()
        raw = bytes(self.part(2, raw + bytes(-len(raw) % UNIT_BYTES)))
        foot = struct.pack(
            RUN_FOOTER,
            RUN_MAGIC,
            RUN_FORMAT_VERSION,
            *self.shape,
            self.texts,
            self.keys,
            self.postings,
            self.bytes[1],
            *self.checksums,
        )
        return raw + foot + struct.pack("<I", crc32(foot))


def run_parts(packer: Packer, postings: Keys, texts: Keys) -> Iterator[bytes | memoryview]:
    """The bytes of a run of sorted postings and of the texts that they name, from beginning to end."""
    writer = _Writer(shape_of(key_count(postings), len(texts)), _checked(len(texts)))
    raw = _text_table(texts)
    yield RUN_MAGIC
    yield writer.part(0, raw + bytes(-len(raw) % UNIT_BYTES))
    yield writer.slices(packer.encode(postings, writer.shape))
    yield writer.end()


def merged_parts(packer: Packer, runs: Sequence[Run], bucket_limit: int) -> Iterator[bytes | memoryview]:
    """The bytes of the run that holds what runs hold, oldest first, from beginning to end; each step is a bounded one.

    Texts keep their order: all places of a run lie behind those of the runs before it.
    """
    for run in runs:
        yield from run.verified_parts()
    texts = _checked(sum(run.texts for run in runs))
    writer = _Writer(shape_of(sum(run.keys for run in runs), texts), texts)
    yield RUN_MAGIC
    for run in runs:
        table = run.text_bytes()
        step = _TEXTS_A_STEP * TEXT_NUMBER_BYTES
        for begin in range(0, len(table), step):
            yield writer.part(0, table[begin : begin + step])
    yield writer.part(0, bytes(-writer.bytes[0] % UNIT_BYTES))
    slices = 1 << writer.shape.slice_bits
    for first in range(0, slices, _SLICES_A_STEP):
        count = min(_SLICES_A_STEP, slices - first)
        yield writer.slices(packer.merge(runs, writer.shape, bucket_limit, first, count))
    yield writer.end()


def pruned_parts(packer: Packer, run: Run, live: Keys, bucket_limit: int) -> Iterator[bytes | memoryview]:
    """The bytes of a run without texts that are gone, from beginning to end; each step is a bounded one.

    A bucket with room loses the texts that are gone: no later text was left out of it.  A full one stays full: places
    at the end of the table, all of the text `RUN_TEXT_GONE`, stand for those that are gone.

    Args:
        packer: native code or the reference.
        run: to read.
        live: (n,) uint64, numbers of texts, ascending.
        bucket_limit: texts at which a bucket is full.
    """
    yield from run.verified_parts()
    numbers = run.text_numbers(slice(0, run.texts))
    is_live = np.isin(numbers, live) & (numbers != RUN_TEXT_GONE)
    texts = numbers[is_live]
    places = np.cumsum(is_live, dtype=np.uint64) - np.uint64(1)
    fillers = min(bucket_limit, run.texts - len(texts))
    table = np.concatenate([texts, np.full(fillers, RUN_TEXT_GONE, np.uint64)])
    writer = _Writer(shape_of(run.keys, len(table)), len(table))
    yield RUN_MAGIC
    for begin in range(0, len(table), _TEXTS_A_STEP):
        yield writer.part(0, _text_table(table[begin : begin + _TEXTS_A_STEP]))
    yield writer.part(0, bytes(-writer.bytes[0] % UNIT_BYTES))
    slices = 1 << writer.shape.slice_bits
    for first in range(0, slices, _SLICES_A_STEP):
        end = min(first + _SLICES_A_STEP, slices)
        postings = run.postings_between(first, end, writer.shape.slice_bits)
        kept = _without_dead(postings, is_live, places, len(texts), bucket_limit)
        encoded = packer.encode(kept, writer.shape)  # slices that hold nothing take no bytes
        yield writer.slices(encoded._replace(units=encoded.units[first:end]))
    yield writer.end()


def _without_dead(postings: Keys, is_live: NDArray[np.bool_], places: Keys, texts: int, limit: int) -> Keys:
    """Sorted postings under new places: of texts that are gone only those of full buckets, behind `texts` others."""
    keys, old = postings >> _PLACE_BITS, postings & _PLACE_MASK
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.empty(0, np.int64)
    counts = np.diff(np.append(starts, len(keys)))
    stays = is_live[old]
    gone = np.cumsum(~stays)
    rank = gone - np.repeat(gone[starts] - ~stays[starts], counts) - 1  # among those of its key that are gone
    new = np.where(stays, places[old], (texts + rank).astype(np.uint64))
    kept: Keys = pack(keys, new)[stays | np.repeat(counts >= limit, counts)]
    kept.sort()
    return kept


def _text_table(texts: Keys) -> bytes:
    """Text numbers as they are stored."""
    return texts.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :TEXT_NUMBER_BYTES].tobytes()


def _checked(texts: int) -> int:
    if texts > 1 << RUN_PLACE_BITS:
        raise InvalidArgument(f"{texts} texts do not fit one run; keep to {1 << RUN_PLACE_BITS}")
    return texts
