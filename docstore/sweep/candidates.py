"""Third stage of a sweep: candidate pairs from sketches.

Pure functions of arrays with bounded memory; a page is its number 0..n-1.  A sketch has one byte a bin here.  Bands
are groups of these bytes over all 256 bins, so no text is read here.  Two texts that share a band are compared bin by
bin, and dropped if the estimate is more than four standard deviations below the threshold.  The next stage verifies the
others exactly.

Recall of bands in closed form: a band is a group of `band_width` sketch bins (or simhash bits) that must all agree.  A
pair is a candidate if at least one of `bands` bands agrees.  `p` and `q` are the chance that one bin (bit) agrees: for
a min-wise sketch the Jaccard coefficient itself (Broder 1997), for simhash 1 - angle / pi (Charikar 2002).
`docs/dedup-theory.md` says which parameters were chosen with them.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from docstore.model.choices import BINS
from docstore.model.errors import InvalidArgument
from docstore.model.format import SKETCH_BIN_BITS
from docstore.model.sets import Numbers, Sets, distinct, spans

ROUNDING = 1e-9
"""Subtracted before rounding up, so that a float error never asks for one member too many; the final test is exact."""
TINY = 1e-12
"""Added to a standard deviation, which is 0 at the threshold 1."""
CHUNK_PAIRS = 1 << 22
"""Pairs or members in memory in one step: about 32 MB an array."""
_AGREEMENT_PAIRS = 1 << 12
"""Pairs whose sketches are gathered at once: they fit into a processor's cache."""
MISSED = 1e-6
"""Share of pairs at the threshold that may share no band, for independent bins.  Texts with fewer shingles than bins
have fewer independent bins and miss more: `tools/bench/sweep_quality.py` measures it."""
WIDEST_BAND, NARROWEST_BAND = 8, 3
PARTNERS = 1024
"""A bucket of more texts than one and its partners is large.  There a text that no star holds is paired with so many
texts that follow it in the order of the next band."""
LEAST_PARTNERS = 64
STARS = 64
"""In a bucket at most so many texts are stars.  A star is compared with all texts that no earlier star holds."""
HELD_SIGMAS = 2.0
"""A text whose estimate is so many standard deviations above the threshold is held by a star; or by several stars that
it may be near to, if the sum of their deviations is so large.  Else a family just above the threshold would be paired
with all stars."""
MATES = 4
"""A text that a star of a large bucket holds is compared with so many of those that follow it there: pages of its own
host, whose titles are evidence."""
RECENT_BANDS = 4
"""A pair that shares one of the last so many bands was compared there.  Similar pairs share most bands, so few pairs
are compared twice."""
SIGMAS = 4.0


# --- recall of bands


def check_probability(name: str, value: float) -> None:
    """Refuse a value outside [0, 1]; the message names it."""
    if not 0.0 <= value <= 1.0:
        raise InvalidArgument(f"{name} must be in [0, 1], not {value}")


def check_positive(name: str, value: int) -> None:
    """Refuse a count below 1; the message names it."""
    if value < 1:
        raise InvalidArgument(f"{name} must be at least 1, not {value}")


def miss_probability(agreement: float, band_width: int, bands: int) -> float:
    """Chance that a pair shares no band: ``(1 - p^k)^L``.

    Args:
        agreement: p, chance that one bin or bit agrees.
        band_width: k, bins or bits in a band.
        bands: L, disjoint bands.
    Source:
        Leskovec, Rajaraman, Ullman, Mining of Massive Datasets, section 3.4.
    """
    check_probability("agreement", agreement)
    check_positive("band_width", band_width)
    check_positive("bands", bands)
    return float((1.0 - agreement**band_width) ** bands)


def false_candidate_probability(agreement: float, band_width: int, bands: int) -> float:
    """Chance that a pair that should not be proposed shares a band: ``1 - (1 - q^k)^L``."""
    return 1.0 - miss_probability(agreement, band_width, bands)


def bin_agreement(jaccard: float, bits: int) -> float:
    """Chance that a bin agrees when `bits` bits of each minimum are kept: ``J + (1 - J) / 2^b`` (Li, König 2010)."""
    check_probability("jaccard", jaccard)
    check_positive("bits", bits)
    return jaccard + (1.0 - jaccard) / 2.0**bits


# --- candidates: equal texts first


def leaders(checksums: NDArray[np.uint64]) -> Numbers:
    """(n,) int64: for each page the smallest number of a page with the same checksum.

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


# --- candidates from buckets


def bucket_pairs(keys: NDArray[np.uint64], ties: NDArray[np.uint64], limit: int) -> tuple[Numbers, Numbers]:
    """Pairs of positions that have the same key, by one sort.

    A bucket of up to `limit` + 1 positions gives all its pairs.  In a larger bucket each position is paired with the
    next `limit` positions in the order (tie, position), so the cost is linear.  Another key must find the other pairs.

    Args:
        keys: (n,) uint64.
        ties: (n,) uint64; in a large bucket it sorts similar positions next to each other.
        limit: partners after a position, at least 1.
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
    """True values of each row; bit counting is three times as fast as `np.count_nonzero` along an axis."""
    rows, columns = equal.shape
    if columns % 64:
        summed: Numbers = equal.sum(axis=1, dtype=np.int64)
        return summed
    bits = np.bitwise_count(np.packbits(equal.reshape(-1)).view(np.uint64).reshape(rows, -1))
    counts = np.zeros(rows, np.int64)
    for column in range(columns // 64):
        counts += bits[:, column]
    return counts


# --- the stage


Candidates: TypeAlias = tuple[Numbers, Numbers, int]
"""Pairs to verify, first < second, sorted, each once: two (pairs,) int64; and the number of texts in buckets of which
not every pair was compared."""


def band_width(threshold: float) -> int:
    """The widest band with which at most MISSED pairs at the threshold share no band."""
    agreement = bin_agreement(threshold, SKETCH_BIN_BITS)
    for width in range(WIDEST_BAND, NARROWEST_BAND, -1):
        if miss_probability(agreement, width, BINS // width) <= MISSED:
            return width
    return NARROWEST_BAND


def expected_recall(threshold: float) -> float:
    """Share of the pairs at the threshold that become candidates, for independent bins."""
    width = band_width(threshold)
    return 1.0 - miss_probability(bin_agreement(threshold, SKETCH_BIN_BITS), width, BINS // width)


SAMPLED = 4
"""One hash in so many finds pages that contain others."""
LONGEST_LIST = 256
"""A hash that more texts have is part of a template; it finds no pair."""


def overlap_candidates(sets: Sets) -> Candidates:
    """Pairs of sets that share half of the sampled hashes of the smaller one: one set may contain the other.

    Args:
        sets: of uint64 hashes; numbers of pairs are their positions.
    """
    owners = np.repeat(np.arange(len(sets.lengths)), sets.lengths)
    sampled = np.flatnonzero(sets.members % SAMPLED == 0)
    order = sampled[np.argsort(sets.members[sampled], kind="stable")]
    keys, owners = sets.members[order], owners[order]
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    useful = counts[inverse] <= LONGEST_LIST
    keys, owners = keys[useful].astype(np.uint64), owners[useful]
    samples = np.bincount(owners, minlength=len(sets.lengths))
    width = max(1, len(sets.lengths))
    codes, shared = np.empty(0, np.int64), np.empty(0, np.int64)
    for places, _ in _chunks(keys, np.zeros(len(keys), bool)):  # with LONGEST_LIST no bucket is large
        left, right = bucket_pairs(keys[places], keys[places], PARTNERS)
        left, right = owners[places][left], owners[places][right]
        fresh = np.minimum(left, right) * width + np.maximum(left, right)
        codes, inverse = np.unique(np.concatenate([codes, fresh]), return_inverse=True)
        weights = np.concatenate([shared, np.ones(len(fresh), np.int64)])
        shared = np.bincount(inverse, weights, len(codes)).astype(np.int64)
    first, second = codes // width, codes % width
    likely = 2 * shared >= np.minimum(samples[first], samples[second])
    return first[likely], second[likely], int((samples == 0).sum())


Seen = tuple[NDArray[np.uint64], NDArray[np.bool_]]
"""Keys of another band, and whether each text was in a bucket with stars there."""


def candidates(
    sketches: NDArray[np.uint8], sizes: Numbers, chosen: Numbers, threshold: float, threads: int = 1
) -> Candidates:
    """Candidate pairs among chosen texts.

    Args:
        sketches: (n, 256) uint8; may be mapped, it is read in pieces.
        sizes: (n,) shingles in the set of each sketch.
        chosen: (texts,) which texts to compare, ascending: one of each group of equal texts.
        threshold: least Jaccard coefficient of a pair.
        threads: each looks at some of the bands; numpy sorts and compares without the GIL.
    """
    width = band_width(threshold)
    bands = BINS // width
    some = [part.tolist() for part in np.array_split(np.arange(bands), max(1, min(threads, bands)))]
    with ThreadPoolExecutor(len(some), "docstore-sweep") as pool:
        in_bands = pool.map(lambda band: in_large_buckets(band_keys(sketches, chosen, band, width)), range(bands))
        crowded = np.logical_or.reduce(list(in_bands))
        alike = Alike(sketches, chosen, sizes[chosen], threshold)
        found = list(pool.map(partial(_of_bands, alike, crowded), some))
    codes, count = distinct(np.concatenate([codes for codes, _ in found])), max(1, len(chosen))
    cut = np.logical_or.reduce([cut for _, cut in found])
    return chosen[codes // count], chosen[codes % count], int(cut.sum())


def in_large_buckets(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Which texts share their key with more than PARTNERS others."""
    ordered, apart = np.sort(keys), PARTNERS + 1
    return np.isin(keys, distinct(ordered[apart:][ordered[apart:] == ordered[:-apart]]))


def _of_bands(alike: Alike, crowded: NDArray[np.bool_], some: Sequence[int]) -> tuple[Numbers, NDArray[np.bool_]]:
    """Codes of the candidate pairs that share one of some consecutive bands, and which texts miss some pairs there."""
    width = band_width(alike.threshold)
    bands = BINS // width
    sketches, chosen, count = alike.sketches, alike.rows, max(1, len(alike.rows))
    codes = np.empty(0, np.int64)
    fresh: list[Numbers] = []
    pending = 0
    cut = np.zeros(len(chosen), bool)
    recent: deque[Seen] = deque(maxlen=RECENT_BANDS)
    following = band_keys(sketches, chosen, some[0], width)
    for band in some:
        keys = following
        following = band_keys(sketches, chosen, (band + 1) % bands, width)
        unsure = np.zeros(len(chosen), bool)
        for first, second, among in band_pairs(keys, following, crowded, alike, recent):
            fresh.append(first * count + second)
            pending += len(first)
            unsure[among] = True
            if pending > max(CHUNK_PAIRS, len(codes)):  # so that codes are not sorted again for each few
                codes, fresh, pending = distinct(np.concatenate([codes, *fresh])), [], 0
        cut |= unsure
        recent.appendleft((keys, unsure))
    return distinct(np.concatenate([codes, *fresh])), cut


def band_pairs(
    keys: NDArray[np.uint64],
    ties: NDArray[np.uint64],
    crowded: NDArray[np.bool_],
    alike: Alike,
    recent: Iterable[Seen] = (),
) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
    """Likely pairs that share a band; memory is bounded.

    Args:
        keys: (n,) of the band, of texts in ascending order; each bucket is complete.
        ties: (n,) keys of the next band: they order the texts of a bucket that has stars.
        crowded: (n,) whether a text is in a large bucket of any band.
        alike: of these texts.
        recent: earlier bands; pairs that share one of them are skipped.
    Yields:
        For some of the buckets: both positions of each pair, and positions of texts in buckets of which not every
        pair was compared.
    """
    for places, has_stars in _chunks(keys, crowded):
        if has_stars:
            first, second, left, right = _stars(places, ties, alike)
        else:
            first = second = np.empty(0, np.int64)
            left, right = bucket_pairs(keys[places], ties[places], PARTNERS)
            left, right = places[left], places[right]
        possible = alike.may_be_by_size(left, right)
        left, right = left[possible], right[possible]
        for earlier, unsure in recent:
            seen = (earlier[left] == earlier[right]) & ~unsure[left]
            left, right = left[~seen], right[~seen]
        likely = alike.deviations(left, right) >= -SIGMAS
        left, right = np.concatenate([first, left[likely]]), np.concatenate([second, right[likely]])
        yield np.minimum(left, right), np.maximum(left, right), places if has_stars else places[:0]


@dataclass(frozen=True, slots=True)
class Alike:
    """Estimates of how alike n texts are.

    Attributes:
        sketches: (m, 256) uint8; may be mapped, it is read in pieces.
        rows: (n,) int64 row of `sketches` for each text.
        sizes: (n,) int64 shingles in the set of each sketch.
        threshold: least Jaccard coefficient of a pair.
    """

    sketches: NDArray[np.uint8]
    rows: Numbers
    sizes: Numbers
    threshold: float

    def may_be_by_size(self, left: Numbers, right: Numbers) -> NDArray[np.bool_]:
        """Whether sizes allow the threshold: the Jaccard coefficient is at most smaller set / larger set."""
        smaller = np.minimum(self.sizes[left], self.sizes[right])
        larger = np.maximum(self.sizes[left], self.sizes[right])
        possible: NDArray[np.bool_] = smaller >= self.threshold * larger - ROUNDING
        return possible

    def deviations(self, left: Numbers, right: Numbers) -> NDArray[np.float64]:
        """Standard deviations by which the estimate of each pair is above the threshold; -inf if sizes forbid it."""
        agreement = bin_agreement(self.threshold, SKETCH_BIN_BITS)
        agreeing = sketch_agreements(self.sketches, self.rows[left], self.rows[right])
        # A borrowed bin repeats the value of another bin, which then counts twice.  Three quarters is a safe factor.
        own = 0.75 * _own_bins(np.minimum(self.sizes[left], self.sizes[right]))
        one = np.sqrt(agreement * (1 - agreement) / own) + TINY
        deviations = (agreeing / BINS - agreement + ROUNDING) / one
        result: NDArray[np.float64] = np.where(self.may_be_by_size(left, right), deviations, -np.inf)
        return result


def _stars(bucket: Numbers, ties: NDArray[np.uint64], alike: Alike) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Pairs of a bucket that has stars: the likely pairs of these, and others, which have to be compared.

    A family of fifty thousand pages is one star here, and not fifty thousand times some thousand pairs.  Its texts are
    near the first one, and need no pairs among each other: a text joins the cluster of the first one, or the sweep
    compares it with the canonical page of that cluster (`clusters.missing_pairs`).
    """
    rest, evidence = bucket, np.zeros(len(bucket))
    first, second, held = [bucket[:0]], [bucket[:0]], [bucket[:0]]
    for _ in range(min(STARS, len(bucket))):
        if not len(rest):
            break
        centre, rest, evidence = np.full(len(rest) - 1, rest[0]), rest[1:], evidence[1:]
        deviations = alike.deviations(centre, rest)
        likely = deviations >= -SIGMAS
        evidence[likely] += deviations[likely]
        is_held = likely & (np.maximum(evidence, deviations) >= HELD_SIGMAS)
        first.append(centre[likely])
        second.append(rest[likely])
        held.append(rest[is_held])
        rest, evidence = rest[~is_held], evidence[~is_held]
    partners = int(np.clip(CHUNK_PAIRS // len(bucket), LEAST_PARTNERS, PARTNERS))
    left, right = bucket_pairs(np.zeros(len(rest), np.uint64), ties[rest], partners)
    in_stars = np.sort(np.concatenate(held))
    many = MATES if len(bucket) > PARTNERS + 1 else 0  # a smaller bucket need not repeat what large ones give
    mates = [(in_stars[:-distance], in_stars[distance:]) for distance in range(1, many + 1)]
    return (
        np.concatenate(first),
        np.concatenate(second),
        np.concatenate([rest[left], *(one for one, _ in mates)]),
        np.concatenate([rest[right], *(other for _, other in mates)]),
    )


def band_keys(sketches: NDArray[np.uint8], chosen: Numbers, band: int, width: int) -> NDArray[np.uint64]:
    """Keys of the chosen sketches for one band, (texts,) uint64."""
    padded = np.zeros((len(chosen), 8), np.uint8)
    padded[:, :width] = sketches[chosen, band * width : (band + 1) * width]
    return padded.view(np.uint64)[:, 0]


def _chunks(keys: NDArray[np.uint64], crowded: NDArray[np.bool_]) -> list[tuple[Numbers, bool]]:
    """Positions that share their key, ascending, in chunks of complete buckets; and whether it is one with stars.

    Large buckets have stars, and those of more than STARS texts most of which are in large buckets of other bands: else
    the smaller buckets of a large family would give more pairs than the large ones.
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(keys) else np.empty(0, int)
    sizes = np.diff(np.concatenate([begins, [len(keys)]]))
    before = np.concatenate([[0], np.cumsum(crowded[order])])
    most_crowded = 2 * (before[begins + sizes] - before[begins]) > sizes
    has_stars = (sizes > PARTNERS + 1) | ((sizes > STARS) & most_crowded)
    starred = zip(begins[has_stars].tolist(), sizes[has_stars].tolist(), strict=True)
    chunks = [(order[begin : begin + size], True) for begin, size in starred]
    shared = (sizes > 1) & ~has_stars
    starts, lengths = begins[shared], sizes[shared]
    if not len(starts):
        return chunks
    work = np.cumsum(lengths * (lengths - 1))
    cuts = np.searchsorted(work, np.arange(CHUNK_PAIRS, int(work[-1]) + CHUNK_PAIRS, CHUNK_PAIRS), "left") + 1
    for some, many in zip(np.split(starts, cuts), np.split(lengths, cuts), strict=True):
        if len(some):
            inner = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
            # ascending, so that position breaks ties: the result does not depend on the order of buckets
            chunks.append((np.sort(order[np.repeat(some, many) + inner]), False))
    return chunks


def _own_bins(sizes: Numbers) -> NDArray[np.float64]:
    """Expected bins of each sketch that are its own, not borrowed."""
    own: NDArray[np.float64] = -BINS * np.expm1(np.maximum(sizes, 1) * np.log1p(-1.0 / BINS))
    return own


# --- the choice of bands


def curve_midpoint(band_width: int, bands: int) -> float:
    """The agreement at which half of the pairs become candidates: ``(1 - 2^(-1/L))^(1/k)``."""
    check_positive("band_width", band_width)
    check_positive("bands", bands)
    return float((1.0 - 0.5 ** (1.0 / bands)) ** (1.0 / band_width))


@dataclass(frozen=True, slots=True)
class Bands:
    """Bands chosen by `choose_bands`, with their probabilities.

    Attributes:
        bands: L, postings a page.
        band_width: k, bins in a band.
        recall: chance that a pair exactly at the threshold becomes a candidate.
        false_candidates: the same chance at the background similarity.
        midpoint: similarity at which half of the pairs become candidates.
    """

    bands: int
    band_width: int
    recall: float
    false_candidates: float
    midpoint: float


def choose_bands(
    threshold: float,
    recall: float = 0.99,
    *,
    background: float = 0.3,
    max_false_candidates: float = 0.15,
    bins: int = 256,
) -> Bands:
    """Pick the bands that need the fewest postings a page.

    A wider band needs more bands for the same recall, so the narrowest band whose false candidates stay bounded wins.

    Args:
        threshold: similarity that must be found.
        recall: least chance of finding a pair exactly at the threshold; it is higher above the threshold.
        background: similarity of unrelated pages that share a template.
        max_false_candidates: largest chance that a pair at the background is proposed.
        bins: of the sketch; bands are disjoint, so bands x band width is at most this.
    Raises:
        InvalidArgument: no bands satisfy all three; the message names the nearest.
    """
    check_probability("threshold", threshold)
    check_probability("background", background)
    check_probability("max_false_candidates", max_false_candidates)
    check_positive("bins", bins)
    if not 0.0 < recall < 1.0:
        raise InvalidArgument(f"recall must be between 0 and 1, both exclusive, not {recall}")
    if background >= threshold:
        raise InvalidArgument(f"background {background} must be below the threshold {threshold}")
    nearest = ""
    for band_width in range(1, bins + 1):
        hit = threshold**band_width
        bands = 1 if hit >= 1.0 else math.ceil(math.log(1.0 - recall) / math.log1p(-hit) - 1e-9)
        bands = max(bands, 1)
        if bands * band_width > bins:
            break
        false_candidates = false_candidate_probability(background, band_width, bands)
        nearest = f"{bands} bands of {band_width} propose {false_candidates:.3f} of the pairs at {background}"
        if false_candidates <= max_false_candidates:
            return Bands(
                bands,
                band_width,
                1.0 - miss_probability(threshold, band_width, bands),
                false_candidates,
                curve_midpoint(band_width, bands),
            )
    raise InvalidArgument(
        f"no bands of {bins} bins reach recall {recall} at {threshold} with at most {max_false_candidates} of the "
        f"pairs at {background}; nearest: {nearest or 'none'}; lower the recall, or use more bins"
    )
