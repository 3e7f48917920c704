"""One slice of a run: sorted postings as packed bits, and the way back; the readable reference of that layout.

Floor 2: pure arrays; must not know files, nor how runs are made or merged.  `native/core/src/postings.rs` gives the
same bits.

A posting is one uint64, ``key << 24 | place``: 40 bits of a mixed key, and the place of a text in the run's table.  The
first bits of a key name its slice, the next 8 its bucket, the rest is its tag.  A slice is a head, a fence (for each
of 256 buckets, and at the end: keys and bytes of lists before it), then for each key an entry of fixed width (tag,
whether it has more texts, place of the first), then for each bucket the lists of its keys that have more: 6 bits count,
5 bits width, then steps from place to place.  Keys are even after mixing, so a bucket is found by arithmetic, and 4 to
16 entries are compared.  Bits are counted from the lowest of the lowest byte.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.candidates import Numbers, spans
from docstore.format import (
    RUN_BUCKET_BITS,
    RUN_KEY_BITS,
    RUN_LIST_HEAD_BITS,
    RUN_PLACE_BITS,
    RUN_SLICE_HEAD,
)

Keys = NDArray[np.uint64]

BUCKETS: Final = 1 << RUN_BUCKET_BITS
LIST_LIMIT: Final = (1 << RUN_LIST_HEAD_BITS[0]) + 1
"""Texts of one key that a slice can hold."""
UNIT_BYTES: Final = 8
_COUNT_BITS, _WIDTH_BITS = RUN_LIST_HEAD_BITS
_LIST_HEAD_BITS: Final = _COUNT_BITS + _WIDTH_BITS
_HEAD_BYTES: Final = struct.calcsize(RUN_SLICE_HEAD)
_NARROW: Final = 1 << 16
_ONE: Final = np.uint64(1)
_WORD_BITS: Final = np.uint64(63)
_PLACE_MASK: Final = np.uint64((1 << RUN_PLACE_BITS) - 1)


class Shape(NamedTuple):
    """How a run is cut: ``2**slice_bits`` slices; places take `place_bits`."""

    slice_bits: int
    place_bits: int

    @property
    def tag_bits(self) -> int:
        """Bits of a key that its slice and bucket do not give."""
        return RUN_KEY_BITS - RUN_BUCKET_BITS - self.slice_bits

    @property
    def entry_bits(self) -> int:
        """Tag, whether a list follows, first place: at most 57, so that 8 bytes hold one wherever it begins."""
        return self.tag_bits + 1 + self.place_bits


def read_bits(words: Keys, positions: Keys, widths: Keys | np.uint64) -> Keys:
    """Numbers of `widths` bits (0 to 63) at bit positions of an array of words."""
    at = (positions >> np.uint64(6)).astype(np.int64)
    shift = positions & _WORD_BITS
    low = words[at] >> shift
    high = (words[at + 1] << (_WORD_BITS - shift)) << _ONE
    found: Keys = (low | high) & ((_ONE << widths) - _ONE)
    return found


def write_bits(positions: Keys, values: Keys, total_bytes: int) -> Keys:
    """Numbers at bit positions, each with no bit beyond its width; gives words, a multiple of 8 bytes in all."""
    words = np.zeros(-(-total_bytes // 8) + 1, np.uint64)
    at = (positions >> np.uint64(6)).astype(np.int64)
    shift = positions & _WORD_BITS
    np.bitwise_or.at(words, at, values << shift)
    np.bitwise_or.at(words, at + 1, (values >> _ONE) >> (_WORD_BITS - shift))
    return words[:-1]


def _bit_lengths(values: Keys) -> Keys:
    return np.frexp(values.astype(np.float64))[1].astype(np.uint64)  # exact below 2**53


def encode_slice(postings: Keys, shape: Shape) -> bytes:
    """The bytes of one slice.

    Args:
        postings: (n,) of this slice, sorted, no key with more than `LIST_LIMIT`.
        shape: of the run.
    """
    if not len(postings):
        return b""
    keys, places = postings >> np.uint64(RUN_PLACE_BITS), postings & _PLACE_MASK
    is_first = np.ones(len(keys), bool)
    is_first[1:] = keys[1:] != keys[:-1]
    starts = np.flatnonzero(is_first)
    counts = np.diff(np.append(starts, len(keys)))
    tag_bits = np.uint64(shape.tag_bits)
    bucket = (keys[starts] >> tag_bits).astype(np.int64) & (BUCKETS - 1)
    has_list = counts > 1

    steps = np.diff(places, prepend=places[:1]) - _ONE
    steps[is_first] = 0
    many = np.flatnonzero(has_list)
    widths = _bit_lengths(np.maximum.reduceat(steps, starts)[many])
    list_bits = np.uint64(_LIST_HEAD_BITS) + (counts[many] - 1).astype(np.uint64) * widths
    bits_before = np.concatenate([[0], np.cumsum(list_bits)]).astype(np.uint64)
    lists_before = np.searchsorted(bucket[many], np.arange(BUCKETS + 1))
    bucket_bytes = (np.diff(bits_before[lists_before]) + np.uint64(7)) >> np.uint64(3)
    list_fence = np.concatenate([[0], np.cumsum(bucket_bytes)]).astype(np.uint64)
    key_fence = np.searchsorted(bucket, np.arange(BUCKETS + 1)).astype(np.uint64)

    owner = bucket[many]
    begins = (list_fence[owner] << np.uint64(3)) + bits_before[:-1] - bits_before[lists_before[owner]]
    heads = (counts[many] - 2).astype(np.uint64) | widths << np.uint64(_COUNT_BITS)
    inner = spans(starts[many] + 1, counts[many] - 1)
    place_in_list = (inner - np.repeat(starts[many] + 1, counts[many] - 1)).astype(np.uint64)
    each = np.repeat(np.arange(len(many)), counts[many] - 1)
    step_begins = begins[each] + np.uint64(_LIST_HEAD_BITS) + place_in_list * widths[each]
    lists = write_bits(
        np.concatenate([begins, step_begins]), np.concatenate([heads, steps[inner]]), int(list_fence[-1])
    )

    entries = keys[starts] & ((_ONE << tag_bits) - _ONE)
    entries |= has_list.astype(np.uint64) << tag_bits
    entries |= places[starts] << np.uint64(shape.tag_bits + 1)
    begins = np.arange(len(starts), dtype=np.uint64) * np.uint64(shape.entry_bits)
    packed = write_bits(begins, entries, -(-len(starts) * shape.entry_bits // 8))

    fence_bytes = 2 if max(len(starts), int(list_fence[-1])) < _NARROW else 4
    fence = np.stack([key_fence, list_fence], axis=1).astype(f"<u{fence_bytes}").tobytes()
    head = struct.pack(RUN_SLICE_HEAD, len(starts), fence_bytes)
    return b"".join([head, fence, bytes(-len(fence) % 8), packed.tobytes(), lists.tobytes(), bytes(UNIT_BYTES)])


class SliceReader:
    """Reads postings out of many slices at a time; bytes that are not as written give wrong postings or IndexError."""

    def __init__(self, words: Keys, index: NDArray[np.uint32], shape: Shape) -> None:
        """Read slices.

        Args:
            words: all slices of a run and some bytes behind, as uint64.
            index: where each slice begins, and the last ends, in units of 8 bytes.
            shape: of the run.
        """
        self._words = words
        self._index = index
        self._shape = shape
        self._tag_bits = np.uint64(shape.tag_bits)

    def find(self, mixed: Keys) -> tuple[Numbers, Keys]:
        """Look up keys: for each posting which key (its index, ascending), and its place."""
        bucket = (mixed >> self._tag_bits).astype(np.int64)
        owner, entry, rank, lists = self._entries(bucket >> RUN_BUCKET_BITS, bucket & (BUCKETS - 1))
        mask = (_ONE << self._tag_bits) - _ONE
        hit = np.flatnonzero(entry & mask == (mixed & mask)[owner])
        each, places = self._places(entry[hit], rank[hit], lists[owner[hit]])
        return owner[hit[each]], places

    def postings(self, number: int) -> Keys:
        """All postings of one slice, sorted."""
        if self._index[number] == self._index[number + 1]:
            return np.empty(0, np.uint64)
        buckets = np.arange(BUCKETS)
        owner, entry, rank, lists = self._entries(np.full(BUCKETS, number), buckets)
        each, places = self._places(entry, rank, lists[owner])
        keys = (np.uint64(number << RUN_BUCKET_BITS) | owner.astype(np.uint64)) << self._tag_bits
        keys |= entry & ((_ONE << self._tag_bits) - _ONE)
        return keys[each] << np.uint64(RUN_PLACE_BITS) | places

    def _entries(self, slices: Numbers, buckets: Numbers) -> tuple[Numbers, Keys, Numbers, Keys]:
        """Entries of buckets: which was asked, entry, lists before it in its bucket; where the lists of each begin."""
        words, index, shape = self._words, self._index, self._shape
        begin = index[slices].astype(np.int64)
        asked = np.flatnonzero(index[slices + 1] != index[slices])
        begin, buckets = begin[asked], buckets[asked]
        keys = (words[begin] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        number_bytes = (words[begin] >> np.uint64(32)).astype(np.int64) & 0xFF
        number_bits = (number_bytes * 8).astype(np.uint64)
        fence = (begin + 1) * 64 + buckets * number_bytes * 16
        first, last, lists = (
            read_bits(words, fence.astype(np.uint64) + np.uint64(at) * number_bits, number_bits).astype(np.int64)
            for at in (0, 2, 1)
        )
        if (first > last).any() or (last > keys).any():
            raise IndexError("a bucket ends behind its slice")
        packed = begin + 1 + (number_bytes * 2 * (BUCKETS + 1) + 7) // 8
        list_begin = (packed + (keys * shape.entry_bits + 63) // 64) * 64 + lists * 8
        counts = last - first
        owner = np.repeat(np.arange(len(asked)), counts)
        at = packed[owner] * 64 + spans(first, counts) * shape.entry_bits
        entry = read_bits(words, at.astype(np.uint64), np.uint64(shape.entry_bits))
        has_list = (entry >> self._tag_bits & _ONE).astype(np.int64)
        before = np.concatenate([[0], np.cumsum(has_list)])
        rank = before[:-1] - before[(np.cumsum(counts) - counts)[owner]]
        begins = np.zeros(len(slices), np.uint64)
        begins[asked] = list_begin
        return asked[owner], entry, rank, begins

    def _places(self, entry: Keys, rank: Numbers, lists: Keys) -> tuple[Numbers, Keys]:
        """Places of entries, ascending: which entry, and the place."""
        words = self._words
        first = entry >> np.uint64(self._shape.tag_bits + 1)
        many = np.flatnonzero(entry >> self._tag_bits & _ONE)
        at, left = lists[many].copy(), rank[many].copy()
        while len(walking := np.flatnonzero(left)):  # lists have no index: those before it in the bucket are skipped
            count, width = self._list_head(at[walking])
            at[walking] += np.uint64(_LIST_HEAD_BITS) + count * width
            left[walking] -= 1
        count, width = self._list_head(at)
        counts = np.ones(len(entry), np.int64)
        counts[many] += count.astype(np.int64)
        each = np.repeat(np.arange(len(entry)), counts)
        begins = np.cumsum(counts) - counts
        places = np.zeros(len(each), np.uint64)
        inner = spans(begins[many] + 1, counts[many] - 1)
        its = np.repeat(np.arange(len(many)), counts[many] - 1)
        number = (inner - begins[many][its] - 1).astype(np.uint64)
        positions = at[its] + np.uint64(_LIST_HEAD_BITS) + number * width[its]
        places[inner] = read_bits(words, positions, width[its]) + _ONE
        walked = np.cumsum(places)
        result: Keys = first[each] + walked - walked[begins[each]]
        return each, result

    def _list_head(self, at: Keys) -> tuple[Keys, Keys]:
        """Steps in a list, and bits of each."""
        head = read_bits(self._words, at, np.uint64(_LIST_HEAD_BITS))
        return (head & np.uint64((1 << _COUNT_BITS) - 1)) + _ONE, head >> np.uint64(_COUNT_BITS)
