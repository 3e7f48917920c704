"""Runs of postings and the table in memory: their bits, look-ups and merges; the readable reference.

Pure arrays; must not know files, nor what a key stands for.  `native/core/src/` has the same in `slices`, `postings`
and `recent`: the functions and classes at the end of this file have the names and the arguments of native code, and
give the same bytes.

A posting is one uint64, ``key << 24 | place``: 40 bits of a mixed key, and the place of a text in the run's table.  A
run cuts its sorted postings into slices of the key space, a few thousand keys each.  The
first bits of a key name its slice, the next 8 its bucket, the rest is its tag.  A slice is a head, a fence (for each
of 256 buckets, and at the end: keys and bytes of lists before it), then for each key an entry of fixed width (tag,
whether it has more texts, place of the first), then for each bucket the lists of its keys that have more: 6 bits count,
5 bits width, then steps from place to place.  Keys are even after mixing, so a bucket is found by arithmetic, and 4 to
16 entries are compared.  Bits are counted from the lowest of the lowest byte.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from docstore.model.format import (
    RUN_BUCKET_BITS,
    RUN_KEY_BITS,
    RUN_LIST_HEAD_BITS,
    RUN_PLACE_BITS,
    RUN_SLICE_HEAD,
    TEXT_NUMBER_BYTES,
)
from docstore.reference.fingerprints import Numbers, spans
from docstore.reference.ranking import Keys, first_of_each

Encoded: TypeAlias = tuple[bytes, bytes, int, int]
"""Slices as bytes, the uint32 length of each in units of 8 bytes, how many keys and postings they hold."""

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
_PLACE_BITS: Final = np.uint64(RUN_PLACE_BITS)
_PLACE_MASK: Final = np.uint64((1 << RUN_PLACE_BITS) - 1)
_CUT: Final = np.uint64(64 - RUN_KEY_BITS)
_KEY_BYTES: Final = RUN_KEY_BITS // 8


# --- keys and postings


def mix(keys: Keys) -> Keys:
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


def without_dead(postings: Keys, is_live: NDArray[np.bool_], places: Keys, texts: int, limit: int) -> Keys:
    """Sorted postings under new places: of texts that are gone only those of full buckets, after `texts` others."""
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


# --- the bits of a slice


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
    keys, places = postings >> _PLACE_BITS, postings & _PLACE_MASK
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


class RunView:
    """A run to be read, many keys at a time; bytes that are not as written give wrong postings or IndexError."""

    def __init__(
        self, buffer: NDArray[np.uint8], parts: tuple[int, int, int, int], slice_bits: int, place_bits: int
    ) -> None:
        """Read a run.

        Args:
            buffer: (bytes,) uint8, all of the run.
            parts: where its texts, its slices, their index and its footer begin.
            slice_bits, place_bits: its `Shape`.
        """
        texts, slices, index, footer = parts
        self._heads = buffer[slices:].view("<u8")
        self._words = words_at_bytes(buffer[slices:])
        self._index = buffer[index:footer].view("<u4")[: (1 << slice_bits) + 1]
        self._text_words = buffer[texts : texts + (slices - texts) // TEXT_NUMBER_BYTES * TEXT_NUMBER_BYTES].view("<u2")
        self._shape = Shape(slice_bits, place_bits)
        self._tag_bits = np.uint64(self._shape.tag_bits)
        self._tag_mask = (_ONE << self._tag_bits) - _ONE

    def text_numbers(self, places: Keys | slice) -> Keys:
        """Text numbers (uint64, 48 bits) of places in the run."""
        words = self._text_words.reshape(-1, 3)[places].astype(np.uint64)
        numbers: Keys = words[:, 0] | words[:, 1] << np.uint64(16) | words[:, 2] << np.uint64(32)
        return numbers

    def find(self, mixed: Keys) -> tuple[Numbers, Keys]:
        """Look up keys: for each posting which key (its index, ascending), and its text, in order of arrival."""
        owner, places = self._find(mixed)
        return owner, self.text_numbers(places)

    def postings_between(self, first: int, end: int, slice_bits: int) -> Keys:
        """Postings of slices first..end of a run that is cut into ``2**slice_bits`` of them, finer or coarser."""
        begin, last = first << self._shape.slice_bits, (end << self._shape.slice_bits) - 1
        own = range(begin >> slice_bits, (last >> slice_bits) + 1)
        postings = np.concatenate([self._postings(number) for number in own])
        shift = RUN_KEY_BITS + RUN_PLACE_BITS - slice_bits
        low = np.searchsorted(postings, np.uint64(first << shift)) if first else 0
        high = np.searchsorted(postings, np.uint64(end << shift)) if end < 1 << slice_bits else len(postings)
        return postings[low:high]

    def _find(self, mixed: Keys) -> tuple[Numbers, Keys]:
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

    def _postings(self, number: int) -> Keys:
        """All postings of one slice, sorted."""
        if self._index[number] == self._index[number + 1]:
            return np.empty(0, np.uint64)
        buckets = np.arange(BUCKETS)
        owner, entry, first, lists = self._entries(np.full(BUCKETS, number), buckets)
        each, places = self._places(entry, self._rank(entry, first), lists[owner])
        keys = (np.uint64(number << RUN_BUCKET_BITS) | owner.astype(np.uint64)) << self._tag_bits
        keys |= entry & self._tag_mask
        return pack(keys[each], places)

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


# --- the table in memory


class Recent:
    """Postings that no run holds yet: mixed key -> text numbers, in order of arrival.  Not thread-safe."""

    def __init__(self) -> None:
        self._table: dict[int, int | list[int]] = {}
        self._texts: list[int] = []
        self._parts: list[Keys] = []
        self._postings = 0

    def __len__(self) -> int:
        """Texts posted."""
        return len(self._texts)

    @property
    def postings(self) -> int:
        """Postings held."""
        return self._postings

    def post(self, text: int, logged: bytes) -> None:
        """Add a text under keys as `log_keys` gives them, different ones."""
        mixed = keys_of_bytes(logged)
        self._parts.append(pack(mixed, np.uint64(len(self._texts))))
        self._texts.append(text)
        self._postings += len(mixed)
        table = self._table
        for key in mixed.tolist():
            bucket = table.get(key)
            if bucket is None:
                table[key] = text  # a list for each of so many keys would keep the garbage collector busy
            elif isinstance(bucket, int):
                table[key] = [bucket, text]
            else:
                bucket.append(text)

    def find(self, mixed: Keys, limit: int) -> tuple[Numbers, Keys]:
        """Look up keys: for each posting which key (its index, ascending), and its text; at most `limit` of a key."""
        places: list[int] = []
        texts: list[int] = []
        for place, key in enumerate(mixed.tolist()):
            bucket = self._table.get(key)
            if isinstance(bucket, int):
                places.append(place)
                texts.append(bucket)
            elif bucket is not None:
                places += [place] * min(len(bucket), limit)
                texts += bucket[:limit]
        return np.array(places, np.int64), np.array(texts, np.uint64)

    def packed(self) -> bytes:
        """All postings as bytes of uint64, ``key << 24 | place``, in order of arrival."""
        return b"".join(part.tobytes() for part in self._parts)

    def texts(self) -> bytes:
        """Text numbers by place, as bytes of uint64."""
        return np.array(self._texts, np.uint64).tobytes()


# --- what native code offers as well


def mix_keys(keys: Keys) -> bytes:
    """Keys spread evenly, see `mix`, as bytes of uint64."""
    return mix(keys).tobytes()


def log_keys(*parts: Keys) -> bytes:
    """Keys of several arrays mixed, as a log keeps them; see `key_bytes`."""
    return b"".join([key_bytes(mix(part)) for part in parts])


def find_postings(runs: Sequence[RunView], tables: Sequence[Recent], mixed: Keys, limit: int) -> tuple[bytes, bytes]:
    """Look up mixed keys in runs, oldest first, then in tables.

    Returns:
        For each posting found: which key (ascending), and its text; of one key the first `limit`, by arrival.
    """
    nothing = np.empty(0, np.int64), np.empty(0, np.uint64)
    found = [nothing, *(run.find(mixed) for run in runs), *(table.find(mixed, limit) for table in tables)]
    owners, texts = zip(*found, strict=True)
    owner, numbers = first_of_each(np.concatenate(owners), np.concatenate(texts), limit)
    return owner.tobytes(), numbers.tobytes()


def encode_slices(packed: Keys, slice_bits: int, place_bits: int) -> Encoded:
    """All slices of sorted postings."""
    ends = np.arange(1, 1 << slice_bits, dtype=np.uint64)
    ends <<= np.uint64(RUN_KEY_BITS + RUN_PLACE_BITS - slice_bits)
    return _encoded(np.split(packed, np.searchsorted(packed, ends)), Shape(slice_bits, place_bits))


def merge_slices(
    runs: Sequence[RunView], texts: Sequence[int], shape: tuple[int, int], limit: int, first: int, count: int
) -> Encoded:
    """Slices first..first + count of runs together, oldest run first, at most `limit` postings of a key.

    Args:
        runs: to read.
        texts: how many each of them has.
        shape: of the run that is made.
        limit, first, count: see above.
    """
    offsets = np.cumsum([0, *texts]).astype(np.uint64)
    parts = []
    for number in range(first, first + count):
        of_runs = [
            run.postings_between(number, number + 1, shape[0]) + offset
            for run, offset in zip(runs, offsets, strict=False)
        ]
        parts.append(bound_buckets(np.sort(np.concatenate(of_runs)), limit))
    return _encoded(parts, Shape(*shape))


def _encoded(parts: Sequence[Keys], shape: Shape) -> Encoded:
    raw = [encode_slice(part, shape) for part in parts]
    units = np.array([len(each) // UNIT_BYTES for each in raw], np.uint32)
    return b"".join(raw), units.tobytes(), sum(map(key_count, parts)), sum(map(len, parts))
