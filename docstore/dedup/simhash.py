"""Simhash: weighted features -> one fingerprint whose bits agree as the features do.

Knows `errors`.  Must not know what a feature is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from docstore.model.errors import InvalidArgument

SIMHASH_BITS: Final = 64
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


def weighted_sums(features: Iterable[tuple[int, float]], bits: int = SIMHASH_BITS) -> list[float]:
    """The vector V of a weighted simhash, highest bit first: the sum of weights, taken negative where the bit is 0.

    Args:
        features: (hash, weight); hashes in [0, 2**bits).
        bits: of a hash.
    """
    sums: list[float] = [0] * bits
    for hashed, weight in features:
        if not 0 <= hashed < 1 << bits:
            raise InvalidArgument(f"feature hash {hashed} does not fit into {bits} bits; give hashes of that width")
        for place in range(bits):
            sums[place] += weight if hashed >> (bits - 1 - place) & 1 else -weight
    return sums


def weighted_simhash(features: Iterable[tuple[int, float]], bits: int = SIMHASH_BITS) -> int:
    """Simhash of weighted features, of any width: a bit is set where its sum is above 0."""
    fingerprint = 0
    for total in weighted_sums(features, bits):
        fingerprint = fingerprint << 1 | (total > 0)
    return fingerprint


def similarity(first: int, second: int, bits: int = SIMHASH_BITS) -> float:
    """Share of equal bits of two simhashes."""
    return 1 - (first ^ second).bit_count() / bits
