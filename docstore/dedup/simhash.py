"""Simhash: features -> one fingerprint whose bits agree as the features do; pairs of fingerprints that differ little.

Must not know what a feature is.

Pairs that differ in at most d bits are found by blocks of bits.  The 64 bits are cut into d + r blocks: of two such
fingerprints at least r blocks agree (pigeonhole principle).  So each choice of r blocks makes a table: fingerprints
that agree in the chosen bits are its buckets, and the pairs of a bucket are compared.  More blocks that agree make
smaller buckets, and more tables.  With r = 0 there is one bucket of all: every pair is compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstore.model.errors import InvalidArgument

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
        int in [0, 2**64); 0 where there is no shingle.
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
