"""Fingerprints of a text's words: shingles, the text's checksum, sketch, simhash and band keys; what sets share.

A word's hash is the first 64 bits of MurmurHash3 x64_128 (`mmh3`) of its UTF-8 bytes, seed `WORD_SEED`.  A shingle is
folded from its words' hashes, in order, modulo 2**64:

    h = START;  for each word hash x:  h = (h ^ x) * FOLD;  h ^= h >> 32
    h *= FINISH;  h ^= h >> 29

A text with fewer than w words is one shingle of all its words; a text without words has none.  Part of
SCHEME_SIMHASH64_1 and SCHEME_SKETCH_1: a change of output needs new schemes; of the keys of a text, another format
number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import mmh3
import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.model.errors import InvalidArgument
from docstore.model.format import SCHEME_SKETCH_1, SCHEME_TEXT_1, SKETCH_BIN_BITS

WORD_SEED: Final = 0
START: Final = np.uint64(0x9E3779B97F4A7C15)
FOLD: Final = np.uint64(0xFF51AFD7ED558CCD)
FINISH: Final = np.uint64(0xC4CEB9FE1A85EC53)
_FOLD_SHIFT: Final = np.uint64(32)
_FINISH_SHIFT: Final = np.uint64(29)

SAMPLE_MODULUS: Final = 12
"""Smallest p of the 0-mod-p fingerprints: finds 41 of 46 shingles of a page of 50 words with .972."""
SAMPLE_LIMIT: Final = 4096
"""Most fingerprints under which one text is posted: p doubles until no more are left, from 49,000 shingles on."""
ASK_LIMIT: Final = 64
"""Most fingerprints that one text asks for: what holds it is larger and posted more densely than it needs to ask."""
RUN_LENGTHS: Final = (16, 64, 256)
"""Shingles in the runs by which a fingerprint is refined where its bucket is full: 20, 80 and 320 words."""
RUN_FACTOR: Final = 0xD1342543DE82EF95
_RUNS_FROM: Final = 1 << 32
"""Added to START for runs: bands count from START on."""


Numbers: TypeAlias = NDArray[np.int64]
"""Of pages, sets or positions, from 0."""
_Number = TypeVar("_Number", bound=np.integer[Any])


def word_hashes(words: Sequence[str]) -> NDArray[np.uint64]:
    """(n,) uint64: the hash of each word."""
    digests = (mmh3.mmh3_x64_128_utupledigest(word.encode("utf-8", "surrogatepass"), WORD_SEED) for word in words)
    return np.fromiter((digest[0] for digest in digests), np.uint64, len(words))


def fold(columns: Sequence[NDArray[np.uint64]], start: NDArray[np.uint64] | np.uint64 = START) -> NDArray[np.uint64]:
    """Fold columns of hashes, element by element, into one hash each, by the rule above."""
    folded = (columns[0] ^ start) * FOLD
    folded ^= folded >> _FOLD_SHIFT
    for column in columns[1:]:
        folded ^= column
        folded *= FOLD
        folded ^= folded >> _FOLD_SHIFT
    folded *= FINISH
    folded ^= folded >> _FINISH_SHIFT
    return folded


def shingles(words: Sequence[str], shingle_words: int) -> NDArray[np.uint64]:
    """Hashes of all runs of `shingle_words` words, in order, repeats kept.

    Args:
        words: normalised words.
        shingle_words: w >= 1.
    Returns:
        (n,) uint64: n = len(words) - w + 1, or 1 for a shorter text, or 0 for no words.
    """
    if not words:
        return np.empty(0, np.uint64)
    hashes = word_hashes(words)
    width = min(shingle_words, len(words))
    count = len(words) - width + 1
    return fold([hashes[first : first + count] for first in range(width)])


def distinct(values: NDArray[_Number]) -> NDArray[_Number]:
    """The set of values as a sorted array; `np.unique` hashes, which takes 100 times as long for millions of them."""
    ordered = np.sort(values)
    if len(ordered) < 2:
        return ordered
    keep = np.empty(len(ordered), np.bool_)
    keep[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=keep[1:])
    return ordered[keep]


def overlap(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> int:
    """How many values two sorted sets share."""
    if len(first) > len(second):
        first, second = second, first
    if not len(first):
        return 0
    places = np.searchsorted(second, first)
    places[places == len(second)] = 0
    return int(np.count_nonzero(second[places] == first))


class Sets(NamedTuple):
    """Sets in CSR form: set i has the members ``members[starts[i]:starts[i + 1]]``.

    Attributes:
        starts: (n + 1,) int64, from 0, never falling.
        members: unsigned integers, distinct within a set, ascending within a set.
    """

    starts: Numbers
    members: NDArray[np.unsignedinteger]

    @property
    def lengths(self) -> Numbers:
        """Members of each set, (n,)."""
        return self.starts[1:] - self.starts[:-1]

    def take(self, chosen: Numbers) -> Sets:
        """The chosen sets, in that order, as sets of their own."""
        lengths = self.lengths[chosen]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return Sets(starts, self.members[spans(self.starts[chosen], lengths)])


def spans(starts: Numbers, lengths: Numbers) -> Numbers:
    """Concatenate the ranges ``starts..start + length``: the indices that gather many slices at once."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    indices: Numbers = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)
    return indices


def shared_members(sets: Sets, first: Numbers, second: Numbers) -> Numbers:
    """Count the members that each pair of sets shares; exact.

    Args:
        sets: members are uint64 hashes.
        first, second: (pairs,) numbers of sets.
    Returns:
        (pairs,) int64.
    """
    bounds = sets.starts.tolist()
    each = [sets.members[begin:end] for begin, end in pairwise(bounds)]
    pairs = zip(first.tolist(), second.tolist(), strict=True)
    return np.fromiter((overlap(each[one], each[other]) for one, other in pairs), np.int64, len(first))


def zero_mod(values: NDArray[np.uint64], modulus: int) -> NDArray[np.uint64]:
    """The values that are 0 modulo `modulus`, in their order (Manber 1994)."""
    kept: NDArray[np.uint64] = values[values % np.uint64(modulus) == 0]
    return kept


def sample(values: NDArray[np.uint64], modulus: int = SAMPLE_MODULUS, limit: int = SAMPLE_LIMIT) -> NDArray[np.uint64]:
    """The 0-mod-p fingerprints of a set: p starts at `modulus` and doubles until at most `limit` values are left.

    The multiples of 2p are among those of p, so samples of two sets stay comparable: at the larger p of the two
    both are complete.  A sample's sample is that of the set.

    Args:
        values: sorted set.
    Returns:
        Sorted; all members 0 modulo p.
    """
    kept = zero_mod(values, modulus)
    while len(kept) > limit:
        modulus *= 2
        kept = zero_mod(kept, modulus)
    return kept


def runs(in_order: NDArray[np.uint64], fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Keys of the runs of shingles that begin with each fingerprint, where a text has it first; cut off at its end.

    A text that is in another one has its runs there too.  A run of shingles s_0, s_1, ... of the i-th of
    `RUN_LENGTHS` has as its key the fold of one value, the sum of ``s_k * RUN_FACTOR**k`` modulo 2**64, begun with
    START + `_RUNS_FROM` + i.

    Args:
        in_order: all shingles of the text, in order.
        fingerprints: (n,) of these, sorted, each once.
    Returns:
        (3n,) uint64: for each length, in the order of the fingerprints.
    """
    if not len(fingerprints):
        return np.empty(0, np.uint64)
    order = np.argsort(in_order, kind="stable")
    places = order[np.searchsorted(in_order[order], fingerprints)]
    count = len(in_order)
    powers = np.cumprod(np.full(count, RUN_FACTOR, np.uint64))
    inverse = np.cumprod(np.full(count, pow(RUN_FACTOR, -1, 1 << 64), np.uint64))
    before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(in_order * powers, dtype=np.uint64)])
    sums = [(before[np.minimum(places + length, count)] - before[places]) * inverse[places] for length in RUN_LENGTHS]
    starts = [START + np.uint64(_RUNS_FROM + number) for number in range(len(RUN_LENGTHS))]
    return np.concatenate([fold([each], start) for each, start in zip(sums, starts, strict=True)])


def asked(fingerprints: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Of the fingerprints under which a text is posted those that it asks for: its sample of at most ASK_LIMIT."""
    return fingerprints if len(fingerprints) <= ASK_LIMIT else sample(fingerprints, limit=ASK_LIMIT)


TEXT_DIGEST_BYTES: Final = 16


def text_checksum(words: Sequence[str]) -> bytes:
    """Scheme byte and 16 bytes of BLAKE3 of the normalised words with one space between; b"" of no words.

    Persisted as SCHEME_TEXT_1.
    """
    if not words:
        return b""
    digest = blake3(" ".join(words).encode("utf-8", "surrogatepass")).digest(length=TEXT_DIGEST_BYTES)
    return bytes((SCHEME_TEXT_1,)) + digest


# --- Min-wise sketch of a shingle set: 256 one-permutation bins, 4 bits of each kept.
#
# A shingle falls into the bin of its highest 8 bits; a bin's value is its smallest shingle.  An empty bin i borrows the
# value of the first filled bin of its own fixed probe sequence (optimal densification): probe t = 0, 1, ... is
#
#     x = (i * 2**32 + t + 1) * 0x9E3779B97F4A7C15;  x ^= x >> 32;  x *= 0xFF51AFD7ED558CCD;  bin = x >> 56
#
# modulo 2**64; after 512 probes without success, the next filled bin upwards, around the end.  Bands are taken from the
# whole values, the kept sketch is the lowest 4 bits of each.  Part of SCHEME_SKETCH_1 and of the band keys.
#
# Source: Broder 1997; Li, Owen, Zhang 2012 (one permutation); Shrivastava 2017 (optimal densification); Li, Koenig 2010
# (b bits of a minimum).

BINS: Final = 256
_KEPT: Final = np.uint8((1 << SKETCH_BIN_BITS) - 1)
_BIN_SHIFT: Final = np.uint64(56)
_PROBES: Final = 512
_FIRST_LOOK: Final = 16
"""Probes looked at together: enough for all bins of most sets."""
_BOUNDARIES: Final = np.arange(BINS, dtype=np.uint64) << _BIN_SHIFT


def _probe_table() -> NDArray[np.uint8]:
    """(256, 512) uint8: the probe sequences of all bins."""
    number = np.left_shift(np.arange(BINS, dtype=np.uint64)[:, None], np.uint64(32), dtype=np.uint64)
    mixed = np.add(number, np.arange(1, _PROBES + 1, dtype=np.uint64), dtype=np.uint64)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mixed *= np.uint64(0xFF51AFD7ED558CCD)
    return (mixed >> _BIN_SHIFT).astype(np.uint8)


_TABLE: Final = _probe_table()


def minima(distinct: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The value of each bin, empty ones filled.

    Args:
        distinct: sorted set of shingles, not empty.
    Returns:
        (256,) uint64.
    """
    # Sorted values of one bin lie together, so the first one from a bin's boundary on is its minimum, or another bin's.
    first = np.searchsorted(distinct, _BOUNDARIES)
    first[first == len(distinct)] = 0
    values = distinct[first]
    filled = (values >> _BIN_SHIFT) == np.arange(BINS, dtype=np.uint64)
    if not filled.all():
        _densify(values, filled)
    return values


def _densify(values: NDArray[np.uint64], filled: NDArray[np.bool_]) -> None:
    """Fill the empty bins of `values` in place."""
    empty = np.flatnonzero(~filled)
    start, width = 0, _FIRST_LOOK
    while len(empty) and start < _PROBES:
        probes = _TABLE[empty, start : start + width]
        hits = filled[probes]
        found = hits.any(axis=1)
        lenders = probes[found, hits[found].argmax(axis=1)]
        values[empty[found]] = values[lenders]
        empty = empty[~found]
        start += width
        width *= 2
    if len(empty):
        all_filled = np.flatnonzero(filled)
        values[empty] = values[all_filled[np.searchsorted(all_filled, empty) % len(all_filled)]]


def sketch(minimum_values: NDArray[np.uint64]) -> bytes:
    """Scheme byte and the lowest 4 bits of each bin's value: bin i with bin i + 128 in one byte."""
    kept = minimum_values.astype(np.uint8) & _KEPT
    return bytes((SCHEME_SKETCH_1,)) + (kept[: BINS // 2] | kept[BINS // 2 :] << SKETCH_BIN_BITS).tobytes()


def similarity(first: bytes, second: bytes) -> float:
    """Estimate of the Jaccard coefficient of two sets from their sketches; 0.0 where schemes differ or one is empty.

    One in 16 unequal bins agrees by chance, which is taken out; standard deviation about 0.033 at J = 0.5.
    """
    if len(first) != len(second) or first[:1] != second[:1] or len(first) <= 1:
        return 0.0
    differ = np.frombuffer(first, np.uint8, offset=1) ^ np.frombuffer(second, np.uint8, offset=1)
    equal = np.count_nonzero(differ & _KEPT == 0) + np.count_nonzero(differ >> SKETCH_BIN_BITS == 0)
    return estimate(int(equal), 2 * len(differ))


def estimate(equal: int, bins: int) -> float:
    """`similarity` of two sketches of so many bins, of which so many are equal."""
    by_chance = 2.0**-SKETCH_BIN_BITS
    return max(0.0, (equal / bins - by_chance) / (1 - by_chance))


# --- Simhash: features -> one fingerprint whose bits agree as the features do; pairs of fingerprints that differ
#
# Pairs that differ in at most d bits are found by blocks of bits.  The 64 bits are cut into d + r blocks: of two such
# fingerprints at least r blocks agree (pigeonhole principle).  So each choice of r blocks makes a table: fingerprints
# that agree in the chosen bits are its buckets, and the pairs of a bucket are compared.  More blocks that agree make
# smaller buckets, and more tables.  With r = 0 there is one bucket of all: every pair is compared.

BITS: Final = 64
_BLOCK_ROWS: Final = 1 << 16
"""Shingles spread into bits at a time (64 bytes each), so that memory stays bounded."""


def simhash(shingles: NDArray[np.uint64]) -> int:
    """Fold shingles into one 64-bit fingerprint; similar sets differ in few bits.

    Bit i is set where more than half of the shingles, repeats counted, have bit i set.  Persisted as SIMHASH64_1: any
    change of output needs a new scheme.

    Args:
        shingles: (n,) uint64, any order; repeats add weight.
    Returns:
        int in [0, 2**64); 0 if there is no shingle.
    Source:
        Charikar 2002 (STOC); Manku, Jain, Das Sarma 2007 (WWW).
    """
    ones = _bit_counts(shingles)
    return int.from_bytes(np.packbits(2 * ones > len(shingles), bitorder="little").tobytes(), "little")


def _bit_counts(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """(64,) how many values have bit i set, for i from the lowest."""
    counts = np.zeros(64, np.uint64)
    for start in range(0, len(values), _BLOCK_ROWS):
        rows = values[start : start + _BLOCK_ROWS].astype("<u8").view(np.uint8).reshape(-1, 8)
        counts += np.add.reduce(np.unpackbits(rows, axis=1, bitorder="little"), axis=0, dtype=np.uint32)
    return counts


# --- fingerprints that differ in few bits


class Pairs(NamedTuple):
    """Pairs of fingerprints by their numbers, first < second, and in how many bits they differ; int64 each."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    differing: NDArray[np.int64]


def check_bits(bits: int) -> None:
    """Refuse a number of bits that a fingerprint does not have."""
    if type(bits) is not int or not 0 <= bits <= BITS:
        raise InvalidArgument(f"a simhash has {BITS} bits: give a whole number from 0 to {BITS}, not {bits!r:.100}")


def differing_bits(values: NDArray[np.uint64], value: NDArray[np.uint64] | np.uint64) -> NDArray[np.int64]:
    """In how many bits each fingerprint differs from another, or from the one at its place."""
    differing: NDArray[np.int64] = np.bitwise_count(values ^ value).astype(np.int64)
    return differing


def block_widths(blocks: int, bits: int = BITS) -> tuple[int, ...]:
    """Split a fingerprint into so many disjoint blocks, as even as can be, wider ones first."""
    if not 1 <= blocks <= bits:
        raise InvalidArgument(f"{bits} bits cannot be split into {blocks} blocks")
    wide, extra = divmod(bits, blocks)
    return tuple(wide + (block < extra) for block in range(blocks))


def block_masks(bits: int, intact: int) -> list[np.uint64]:
    """The bits of each table: all choices of `intact` of the ``bits + intact`` blocks."""
    blocks, begin = [], 0
    for width in block_widths(max(1, bits + intact)):
        blocks.append(((1 << width) - 1) << begin)
        begin += width
    return [np.uint64(sum(chosen)) for chosen in combinations(blocks, intact)]


def fewest_comparisons(count: int, bits: int) -> int:
    """The number of blocks that must agree with which so many fingerprints cost the least.

    A table costs a sort, and the pairs of its buckets; of unrelated fingerprints one pair in 2**k shares a bucket of k
    bits.
    """

    def cost(intact: int) -> float:
        key_bits = sum(block_widths(max(1, bits + intact))[-intact:]) if intact else 0
        return float(math.comb(bits + intact, intact) * count * (math.log2(count + 2) + count / 2 ** (key_bits + 1)))

    return min(range(min(8, BITS - bits) + 1), key=cost)


def pairs_within(values: NDArray[np.uint64], bits: int) -> Iterator[Pairs]:
    """All pairs that differ in at most so many bits, each once, in no order of meaning; a part at a time.

    Memory: about 60 bytes a fingerprint, whatever the number of pairs.

    Args:
        values: (n,) uint64.
        bits: d, from 0 to 64.
    Raises:
        InvalidArgument: `bits` is no such number.
    Source:
        Manku, Jain, Das Sarma 2007 (WWW), section 3; there d = 3.
    """
    check_bits(bits)
    masks = block_masks(bits, fewest_comparisons(len(values), bits))
    for table, mask in enumerate(masks):
        keys = values & mask
        order = np.argsort(keys, kind="stable")
        ordered, keys = values[order], keys[order]
        ends = np.searchsorted(keys, keys, "right")
        places = np.arange(len(values))
        step = 1
        while len(places := places[places + step < ends[places]]):
            differing = differing_bits(ordered[places], ordered[places + step])
            near = places[differing <= bits]
            apart = ordered[near] ^ ordered[near + step]
            for earlier in masks[:table]:  # an earlier table has given this pair
                near, apart = near[(apart & earlier) != 0], apart[(apart & earlier) != 0]
            if len(near):
                one, other = order[near], order[near + step]
                yield Pairs(np.minimum(one, other), np.maximum(one, other), np.bitwise_count(apart).astype(np.int64))
            step += 1


# --- Bands: groups of sketch values -> band keys; two texts that share a key are a candidate pair.
#
# More bands are more postings, narrower ones more false candidates; docs/dedup-theory.md has the curves.

BANDS: Final = 16
BAND_WIDTH: Final = 5
WIDTHS: Final = (5, 7, 10, 14, 20, 28)
"""Bins of a band at each depth: a bucket that is full at one depth goes on at the next."""
DEPTHS: Final = len(WIDTHS)
IN_ORDER: Final = bytes(range(BINS))
"""Bins as they come."""

_OWN: Final = BANDS * BAND_WIDTH
_NUMBERS: Final = START + np.arange(BANDS * DEPTHS, dtype=np.uint64)
"""A band's number and depth are part of its key, so that equal values in different bands do not meet."""


def _bins() -> NDArray[np.int64]:
    """(16, 28): the bins of each band: five that no other begins with, then some of those that none begins with."""
    rest = BINS - _OWN
    places = np.arange(WIDTHS[-1] - BAND_WIDTH)
    begins = np.arange(BANDS)[:, None] * (rest // BANDS)
    return np.hstack([np.arange(_OWN).reshape(BANDS, BAND_WIDTH), _OWN + (begins + places) % rest])


_BINS: Final = _bins()


def order_of(secret: bytes) -> bytes:
    """The order of bins that a store's secret chooses; as they come for b""."""
    if not secret:
        return IN_ORDER
    drawn = np.frombuffer(blake3(secret).digest(8 * BINS), "<u8")
    return np.argsort(drawn, kind="stable").astype(np.uint8).tobytes()


def band_keys(minimum_values: NDArray[np.uint64], order: bytes = IN_ORDER) -> NDArray[np.uint64]:
    """(96,) uint64, depth by depth: of band b at depth d the fold of its first WIDTHS[d] bins, from START + 16d + b.

    Args:
        minimum_values: (256,) uint64, before truncation.
        order: each bin once: the n-th is taken where the n-th is asked for.
    """
    values = minimum_values[np.frombuffer(order, np.uint8)[_BINS]]
    return np.concatenate(
        [
            fold([values[:, place] for place in range(width)], _NUMBERS[depth * BANDS : (depth + 1) * BANDS])
            for depth, width in enumerate(WIDTHS)
        ]
    )
