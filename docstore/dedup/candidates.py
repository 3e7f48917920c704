"""Candidate pairs from keys, offline: groups of equal texts, buckets of equal band keys, sketches that agree.

Plain array kernels, so that a batch engine can run each stage: repartition by key, sort,
emit, merge.  A page is known by its number 0..n-1.  Must not know texts, URLs, the store or how a key is computed, and
decides nothing: what it proposes is counted exactly (`overlaps`).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from docstore.model.errors import InvalidArgument

Numbers: TypeAlias = NDArray[np.int64]

ROUNDING = 1e-9
"""Taken off before rounding up, so that a float error never asks for one member too many; the final test is exact."""
CHUNK_PAIRS = 1 << 22
"""Pairs or members that one step holds: about 32 MB an array."""
_AGREEMENT_PAIRS = 1 << 12
"""Pairs whose sketches are gathered at once: what fits into a processor's cache."""


def spans(starts: Numbers, lengths: Numbers) -> Numbers:
    """Concatenate the ranges ``start..start + length``: the indices that gather many slices in one go."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    indices: Numbers = np.arange(total, dtype=np.int64) + np.repeat(starts - (ends - lengths), lengths)
    return indices


# --- equal texts first ---


def leaders(checksums: NDArray[np.uint64]) -> Numbers:
    """Group pages of equal checksum: for each page the smallest page number that has its checksum.

    Args:
        checksums: (n,) or (n, words) uint64.
    """
    columns = checksums if checksums.ndim == 2 else checksums[:, None]
    order = np.lexsort(tuple(columns.T[::-1]))
    ordered = columns[order]
    fresh = np.ones(len(order), bool)
    fresh[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    # lexsort is stable, so the first of a run is its smallest page number
    result = np.empty(len(order), np.int64)
    result[order] = order[np.flatnonzero(fresh)[np.cumsum(fresh) - 1]] if len(order) else order
    return result


# --- candidates from buckets ---


def bucket_pairs(keys: NDArray[np.uint64], ties: NDArray[np.uint64], limit: int) -> tuple[Numbers, Numbers]:
    """Pairs of positions that have the same key, by one sort.

    A bucket of up to `limit` + 1 positions gives all its pairs.  In a larger one each position is paired with the
    `limit` behind it in the order (tie, position), so cost stays linear; what lies further apart must be found by
    another key.

    Args:
        keys: (n,) uint64.
        ties: (n,) uint64 that draws similar positions together inside a large bucket.
        limit: partners a position may have behind it, at least 1.
    Returns:
        Two (pairs,) arrays of positions; each pair once, smaller position first.
    """
    if limit < 1:
        raise InvalidArgument(f"limit must be at least 1, not {limit}")
    order = np.lexsort((ties, keys))
    ordered = keys[order]
    ends = np.searchsorted(ordered, ordered, "right")
    place = np.arange(len(order))
    partners = np.minimum(ends - place - 1, limit)
    left = order[np.repeat(place, partners)]
    right = order[spans(place + 1, partners)]
    return np.minimum(left, right), np.maximum(left, right)


def sketch_agreements(sketches: NDArray[np.uint8], first: Numbers, second: Numbers) -> Numbers:
    """Bins in which the sketches of each pair agree, (pairs,) int64.

    It tells which candidates cannot reach a threshold but for a chance that is stated, before any text is read.

    Args:
        sketches: (pages, bins) uint8.
    """
    result = np.empty(len(first), np.int64)
    for begin in range(0, len(first), _AGREEMENT_PAIRS):
        end = begin + _AGREEMENT_PAIRS
        equal = sketches.take(first[begin:end], 0) == sketches.take(second[begin:end], 0)
        result[begin:end] = _count_true(equal)
    return result


def _count_true(equal: NDArray[np.bool_]) -> Numbers:
    """True values of each row; three times as fast by bits as by `np.count_nonzero` along an axis."""
    rows, columns = equal.shape
    if columns % 64:
        summed: Numbers = equal.sum(axis=1, dtype=np.int64)
        return summed
    bits = np.bitwise_count(np.packbits(equal.reshape(-1)).view(np.uint64).reshape(rows, -1))
    counts = np.zeros(rows, np.int64)
    for column in range(columns // 64):
        counts += bits[:, column]
    return counts
