"""Third stage of a sweep: candidate pairs from sketches.

Knows arrays only.  It calls the kernels of `dedup.clusters` so that memory stays bounded.  A stored sketch has one
byte a bin; bands are made of these bytes, of all 256 bins, so no text is read here.  Two texts that share a band are
compared bin by bin, and dropped if the estimate is more than four standard deviations below the threshold.  The next
stage verifies the others exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.clusters import (
    CHUNK_PAIRS,
    ROUNDING,
    bin_agreement,
    bucket_pairs,
    miss_probability,
    sketch_agreements,
)
from docstore.reference.fingerprints import BINS, Numbers, distinct

MISSED = 1e-6
"""Share of pairs at the threshold that may share no band, for independent bins; texts of fewer shingles than bins
have fewer, and miss more: `tools/bench/sweep_quality.py` measures it."""
WIDEST_BAND, NARROWEST_BAND = 8, 3
PARTNERS = 1024
"""Texts that one is paired with in a large bucket, in the order of the next band."""
LEAST_PARTNERS = 64
REMEMBERED_BANDS = 4
"""A pair that shares one of so many bands before was looked at there; like pairs share most bands, so few are twice."""
SIGMAS = 4.0
_KEPT_BITS = 8


class Candidates(NamedTuple):
    """Pairs to verify, first < second, sorted, each once.

    Attributes:
        first, second: (pairs,) int64.
        compared: pairs of like size that shared a band; some of them more than once.
        cut: texts in buckets so large that not every pair was looked at.
    """

    first: Numbers
    second: Numbers
    compared: int
    cut: int


def band_width(threshold: float) -> int:
    """The widest band by which at most MISSED pairs at the threshold share none of the bands."""
    agreement = bin_agreement(threshold, _KEPT_BITS)
    for width in range(WIDEST_BAND, NARROWEST_BAND, -1):
        if miss_probability(agreement, width, BINS // width) <= MISSED:
            return width
    return NARROWEST_BAND


def expected_recall(threshold: float) -> float:
    """Share of the pairs at the threshold that become candidates, for independent bins."""
    width = band_width(threshold)
    return 1.0 - miss_probability(bin_agreement(threshold, _KEPT_BITS), width, BINS // width)


class Sketched(NamedTuple):
    """Texts that are compared with each other, n of them.

    Attributes:
        sketches: (m, 256) uint8; may be mapped, it is read in pieces.
        rows: (n,) int64 the sketch of each.
        sizes: (n,) int64 shingles that each was made of.
        bins: (n,) expected bins of each sketch that are its own.
    """

    sketches: NDArray[np.uint8]
    rows: Numbers
    sizes: Numbers
    bins: NDArray[np.float64]


def sketched(sketches: NDArray[np.uint8], rows: Numbers, sizes: Numbers) -> Sketched:
    """Texts with these sketches, made of so many shingles."""
    return Sketched(sketches, rows, sizes, _own_bins(sizes))


class BandPairs(NamedTuple):
    """Likely pairs of one band, or of a part of its buckets.

    Attributes:
        first, second: (pairs,) int64 positions of texts.
        compared: pairs of like size that were looked at.
        crowded: positions of texts in buckets so large that not every pair was looked at.
    """

    first: Numbers
    second: Numbers
    compared: int
    crowded: Numbers


Seen = tuple[NDArray[np.uint64], NDArray[np.bool_]]
"""Keys of another band, and which texts were in crowded buckets there."""


def candidates(sketches: NDArray[np.uint8], sizes: Numbers, chosen: Numbers, threshold: float) -> Candidates:
    """Candidate pairs among chosen texts.

    Args:
        sketches: (n, 256) uint8; may be mapped, it is read in pieces.
        sizes: (n,) shingles that each was made of.
        chosen: (texts,) which of them to compare, ascending: one of each group of equal ones.
        threshold: least Jaccard coefficient of a pair.
    """
    width = band_width(threshold)
    bands = BINS // width
    texts = sketched(sketches, chosen, sizes[chosen])
    count = max(1, len(chosen))
    codes = np.empty(0, np.int64)
    fresh: list[Numbers] = []
    compared = held = 0
    cut = np.zeros(len(chosen), bool)
    recent: deque[Seen] = deque(maxlen=REMEMBERED_BANDS)
    following = band_keys(sketches, chosen, 0, width)
    for band in range(bands):
        keys = following
        following = band_keys(sketches, chosen, (band + 1) % bands, width)
        crowded = np.zeros(len(chosen), bool)
        for found in band_pairs(keys, following, texts, threshold, recent):
            compared += found.compared
            fresh.append(found.first * count + found.second)
            held += len(found.first)
            crowded[found.crowded] = True
            if held > CHUNK_PAIRS:
                codes, fresh, held = distinct(np.concatenate([codes, *fresh])), [], 0
        cut |= crowded
        recent.appendleft((keys, crowded))
    codes = distinct(np.concatenate([codes, *fresh]))
    return Candidates(chosen[codes // count], chosen[codes % count], compared, int(cut.sum()))


def band_pairs(
    keys: NDArray[np.uint64],
    ties: NDArray[np.uint64],
    texts: Sketched,
    threshold: float,
    recent: Iterable[Seen] = (),
) -> Iterator[BandPairs]:
    """Likely pairs that share a band; bounded in memory.

    Args:
        keys: (n,) of the band, of texts in ascending order, each bucket whole.
        ties: (n,) keys of the next band: they order the texts of a crowded bucket.
        texts: with those keys.
        threshold: least Jaccard coefficient of a pair.
        recent: bands that were looked at before: pairs that share one of them are left out.
    """
    for places, limit in _chunks(keys):
        left, right = bucket_pairs(keys[places], ties[places], limit)
        left, right = _similar_sizes(texts.sizes, places[left], places[right], threshold)
        for earlier, unsure in recent:
            seen = (earlier[left] == earlier[right]) & ~unsure[left]
            left, right = left[~seen], right[~seen]
        compared = len(left)
        agreeing = sketch_agreements(texts.sketches, texts.rows[left], texts.rows[right])
        likely = agreeing >= _least_agreement(texts.bins, left, right, threshold)
        left, right = left[likely], right[likely]
        crowded = _crowded(keys, places, limit) if limit < len(places) - 1 else np.empty(0, np.int64)
        yield BandPairs(np.minimum(left, right), np.maximum(left, right), compared, crowded)


def band_keys(sketches: NDArray[np.uint8], chosen: Numbers, band: int, width: int) -> NDArray[np.uint64]:
    """Keys of the chosen sketches for one band, (texts,) uint64."""
    padded = np.zeros((len(chosen), 8), np.uint8)
    padded[:, :width] = sketches[chosen, band * width : (band + 1) * width]
    return padded.view(np.uint64)[:, 0]


def _chunks(keys: NDArray[np.uint64]) -> list[tuple[Numbers, int]]:
    """Positions that share their key with another, whole buckets together, with the partners that each may have."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(keys) else np.empty(0, int)
    sizes = np.diff(np.concatenate([begins, [len(keys)]]))
    shared = sizes > 1
    begins, sizes = begins[shared], sizes[shared]
    partners = np.clip(CHUNK_PAIRS // np.maximum(sizes, 1), LEAST_PARTNERS, PARTNERS)
    chunks: list[tuple[Numbers, int]] = []
    for limit in np.unique(partners).tolist():
        mine = partners == limit
        starts, lengths = begins[mine], sizes[mine]
        work = np.cumsum(lengths * np.minimum(lengths - 1, limit))
        cuts = np.searchsorted(work, np.arange(CHUNK_PAIRS, int(work[-1]) + CHUNK_PAIRS, CHUNK_PAIRS), "left") + 1
        for some, many in zip(np.split(starts, cuts), np.split(lengths, cuts), strict=True):
            if len(some):
                inner = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
                # ascending, so that ties are broken by position: the result does not depend on this order
                chunks.append((np.sort(order[np.repeat(some, many) + inner]), limit))
    return chunks


def _crowded(keys: NDArray[np.uint64], places: Numbers, limit: int) -> Numbers:
    _, inverse, counts = np.unique(keys[places], return_inverse=True, return_counts=True)
    crowded: Numbers = places[counts[inverse] > limit + 1]
    return crowded


def _similar_sizes(sizes: Numbers, left: Numbers, right: Numbers, threshold: float) -> tuple[Numbers, Numbers]:
    """Pairs that can reach the threshold by their sizes: the smaller set has at least that share of the larger one."""
    small = np.minimum(sizes[left], sizes[right])
    possible = small >= threshold * np.maximum(sizes[left], sizes[right]) - ROUNDING
    return left[possible], right[possible]


def _own_bins(sizes: Numbers) -> NDArray[np.float64]:
    """Expected bins of each sketch that are its own, not borrowed: `theory.occupied_bins` of many at once."""
    own: NDArray[np.float64] = -BINS * np.expm1(np.maximum(sizes, 1) * np.log1p(-1.0 / BINS))
    return own


def _least_agreement(bins: NDArray[np.float64], left: Numbers, right: Numbers, threshold: float) -> NDArray[np.float64]:
    """Bins that have to agree for a pair to be verified: as `theory.sketch_margin`, of many pairs at once."""
    agreement = bin_agreement(threshold, _KEPT_BITS)
    # A borrowed bin repeats another one's value, so that some count for more than others: three quarters are safe.
    own = 0.75 * np.minimum(bins[left], bins[right])
    least: NDArray[np.float64] = BINS * (agreement - SIGMAS * np.sqrt(agreement * (1 - agreement) / own))
    return least
