"""Min-wise sketch of a shingle set: 256 one-permutation bins, 8 bits of each kept.

Knows `format`.  Must not know words or bands.

A shingle falls into the bin of its highest 8 bits; a bin's value is its smallest shingle.  An empty bin i borrows the
value of the first filled bin of its own fixed probe sequence (optimal densification): probe t = 0, 1, ... is

    x = (i * 2**32 + t + 1) * 0x9E3779B97F4A7C15;  x ^= x >> 32;  x *= 0xFF51AFD7ED558CCD;  bin = x >> 56

modulo 2**64; after 512 probes without success, the next filled bin upwards, around the end.  Bands are taken from
the whole values, the kept sketch is the lowest byte of each.  Part of SCHEME_SKETCH_1 and of the band keys.

Source: Broder 1997; Li, Owen, Zhang 2012 (one permutation); Shrivastava 2017 (optimal densification); Li, Koenig 2010
(b bits of a minimum).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from docstore.model.format import SCHEME_SKETCH_1

BINS: Final = 256
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
    """Scheme byte and the lowest byte of each bin's value."""
    return bytes((SCHEME_SKETCH_1,)) + minimum_values.astype(np.uint8).tobytes()


def similarity(first: bytes, second: bytes) -> float:
    """Estimate of the Jaccard coefficient of two sets from their sketches; 0.0 where schemes differ or one is empty.

    One in 256 unequal bins agrees by chance, which is taken out; standard deviation about 0.03 at J = 0.5.
    """
    if len(first) != len(second) or first[:1] != second[:1] or len(first) <= 1:
        return 0.0
    equal = np.frombuffer(first, np.uint8, offset=1) == np.frombuffer(second, np.uint8, offset=1)
    return estimate(int(np.count_nonzero(equal)), len(equal))


def estimate(equal: int, bins: int) -> float:
    """`similarity` of two sketches of so many bins, of which so many are equal."""
    return max(0.0, (equal / bins - 1 / 256) / (1 - 1 / 256))
