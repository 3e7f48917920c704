"""One slice of a run: sorted postings as packed bits, and the way back; the readable reference of that layout.

Pure arrays; must not know files, nor how runs are made or merged.  `native/core/src/postings.rs` gives the
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
from docstore.model.format import RUN_BUCKET_BITS, RUN_KEY_BITS, RUN_LIST_HEAD_BITS, RUN_PLACE_BITS, RUN_SLICE_HEAD

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


def words_at_bytes(raw: NDArray[np.uint8]) -> Keys:
    """The 8 bytes from each byte on as one number; nothing is copied, and not to be taken as a whole."""
    return np.ndarray((max(len(raw) - 7, 0),), "<u8", raw.data, strides=(1,))


def read_bits(words: Keys, positions: Numbers, widths: Keys | np.uint64) -> Keys:
    """Numbers of `widths` bits (0 to 57) at bit positions of `words_at_bytes`."""
    found: Keys = words[positions >> 3] >> (positions & 7).view(np.uint64)
    found &= (_ONE << widths) - _ONE
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
        self._heads = words
        self._words = words_at_bytes(words.view(np.uint8))
        self._index = index
        self._shape = shape
        self._tag_bits = np.uint64(shape.tag_bits)
        self._tag_mask = (_ONE << self._tag_bits) - _ONE

    def find(self, mixed: Keys) -> tuple[Numbers, Keys]:
        """Look up keys: for each posting which key (its index, ascending), and its place."""
        bucket = (mixed >> self._tag_bits).view(np.int64)
        owner, entry, first, lists = self._entries(bucket >> RUN_BUCKET_BITS, bucket & (BUCKETS - 1))
        hit = ((entry ^ mixed[owner]) & self._tag_mask == 0).nonzero()[0]
        of_hit, found = owner[hit], entry[hit]
        has_list = (found >> self._tag_bits & _ONE).view(np.int64)
        if not has_list.any():
            return of_hit, found >> np.uint64(self._shape.tag_bits + 1)
        each, places = self._places(found, self._rank(entry, first)[hit], lists[of_hit])
        return of_hit[each], places

    def postings(self, number: int) -> Keys:
        """All postings of one slice, sorted."""
        if self._index[number] == self._index[number + 1]:
            return np.empty(0, np.uint64)
        buckets = np.arange(BUCKETS)
        owner, entry, first, lists = self._entries(np.full(BUCKETS, number), buckets)
        each, places = self._places(entry, self._rank(entry, first), lists[owner])
        keys = (np.uint64(number << RUN_BUCKET_BITS) | owner.astype(np.uint64)) << self._tag_bits
        keys |= entry & self._tag_mask
        return keys[each] << np.uint64(RUN_PLACE_BITS) | places

    def _entries(self, slices: Numbers, buckets: Numbers) -> tuple[Numbers, Keys, Numbers, Numbers]:
        """Entries of buckets: which was asked, entry, number of the first in its bucket; where lists of each begin."""
        begin = self._index[slices].astype(np.int64)
        is_there = self._index[slices + 1] != begin
        begin *= is_there  # where there is none, any other does: no bucket of it is read
        head = self._heads[begin]
        keys = (head & np.uint64(0xFFFFFFFF)).view(np.int64)
        number_bytes = (head >> np.uint64(32)).view(np.int64) & 0xFF
        fence = (begin + 1) * 64 + buckets * number_bytes * 16
        first, lists, last = self._fences(fence, number_bytes * 8)
        if ((first > last) | (last > keys))[is_there].any():
            raise IndexError("a bucket ends behind its slice")
        packed = begin + 1 + (number_bytes * 2 * (BUCKETS + 1) + 7) // 8
        list_begin = (packed + (keys * self._shape.entry_bits + 63) // 64) * 64 + lists * 8
        counts = (last - first) * is_there
        ends = counts.cumsum()
        owner = np.arange(len(counts)).repeat(counts)
        before = ends - counts
        at = (packed * 64 + (first - before) * self._shape.entry_bits)[owner]
        at += np.arange(len(owner)) * self._shape.entry_bits
        entry = read_bits(self._words, at, np.uint64(self._shape.entry_bits))
        return owner, entry, before[owner], list_begin

    def _fences(self, positions: Numbers, number_bits: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Keys before a bucket, bytes of lists before it, keys before the next one."""
        if (number_bits == 16).all():  # of nearly all runs: all three in one word
            word = self._words[positions >> 3].view(np.int64)
            return word & 0xFFFF, word >> 16 & 0xFFFF, word >> 32 & 0xFFFF
        widths = number_bits.view(np.uint64)
        first, lists, last = (
            read_bits(self._words, positions + at * number_bits, widths).view(np.int64) for at in (0, 1, 2)
        )
        return first, lists, last

    def _rank(self, entry: Keys, first: Numbers) -> Numbers:
        """How many lists stand before that of each entry in its bucket."""
        has_list = (entry >> self._tag_bits & _ONE).view(np.int64)
        before = has_list.cumsum() - has_list
        rank: Numbers = before - before[first]
        return rank

    def _places(self, entry: Keys, rank: Numbers, lists: Numbers) -> tuple[Numbers, Keys]:
        """Places of entries, ascending: which entry, and the place."""
        first = entry >> np.uint64(self._shape.tag_bits + 1)
        many = (entry >> self._tag_bits & _ONE).nonzero()[0]
        at, left = lists[many], rank[many]
        while len(walking := left.nonzero()[0]):  # lists have no index: those before it in the bucket are skipped
            count, width = self._list_head(at[walking])
            at[walking] += _LIST_HEAD_BITS + count * width
            left[walking] -= 1
        count, width = self._list_head(at)
        counts = np.ones(len(entry), np.int64)
        counts[many] += count
        each = np.arange(len(entry)).repeat(counts)
        begins = counts.cumsum() - counts
        places = np.zeros(len(each), np.uint64)
        its = np.arange(len(many)).repeat(count)
        number = np.arange(len(its)) - (count.cumsum() - count)[its]
        positions = at[its] + _LIST_HEAD_BITS + number * width[its]
        places[begins[many][its] + 1 + number] = read_bits(self._words, positions, width[its].view(np.uint64)) + _ONE
        walked = places.cumsum()
        result: Keys = first[each] + walked - walked[begins[each]]
        return each, result

    def _list_head(self, at: Numbers) -> tuple[Numbers, Numbers]:
        """Steps in a list, and bits of each."""
        head = read_bits(self._words, at, np.uint64(_LIST_HEAD_BITS)).view(np.int64)
        return (head & (1 << _COUNT_BITS) - 1) + 1, head >> _COUNT_BITS
