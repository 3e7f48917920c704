"""Simhash: features -> one fingerprint whose bits agree as the features do.

Must not know what a feature is.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

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
