"""Dedup offline: what bands promise, keys -> candidate pairs, verified pairs -> clusters with one canonical page each.

Pure functions of arrays, so that a batch engine can run each stage: repartition by key, sort, emit, merge.  A page is
known by its number 0..n-1.  Must not know the store, texts, URLs, or how a key or a similarity was computed.

*What bands promise*, as closed formulas: a band is a group of `band_width` sketch bins (or simhash bits) that must all
agree; a pair is a candidate when at least one of `bands` bands agrees; `p` and `q` are the chance that one bin (bit)
agrees, which for a min-wise sketch is the Jaccard coefficient itself (Broder 1997) and for simhash 1 - angle / pi
(Charikar 2002).  `docs/dedup-theory.md` says which parameters were chosen with them.

*Candidates* are pages of equal text, in buckets of equal band keys, with sketches that agree; what is proposed is
counted exactly.

*Clusters* are greedy stars.  The law: every member's exact similarity to its canonical is at least the threshold.
Connected components break it (a chain of small changes joins pages that have nothing in common), so pages are taken in
the order of the policy, and each joins the best-ranked canonical that it has a verified pair with, or becomes a
canonical itself.  So no two canonicals are within the threshold of each other, and to cluster what is left changes
nothing.  The order is total and made of what the pages are, never of their numbers: the result does not depend on the
order of input.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from docstore.model.errors import InvalidArgument
from docstore.reference.fingerprints import Numbers, distinct, spans

ROUNDING = 1e-9
"""Taken off before rounding up, so that a float error never asks for one member too many; the final test is exact."""
CHUNK_PAIRS = 1 << 22
"""Pairs or members that one step holds: about 32 MB an array."""
_AGREEMENT_PAIRS = 1 << 12
"""Pairs whose sketches are gathered at once: what fits into a processor's cache."""


# --- what bands promise


def check_probability(name: str, value: float) -> None:
    """Refuse what is no probability, by its name."""
    if not 0.0 <= value <= 1.0:
        raise InvalidArgument(f"{name} must lie in [0, 1], not {value}")


def check_positive(name: str, value: int) -> None:
    """Refuse a count below 1, by its name."""
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


# --- candidates from buckets


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


# --- clusters


class CanonicalPolicy(enum.StrEnum):
    """Which page of a cluster stands for it, among those for which the law holds; ties go on down the list."""

    CANONICAL_LINK = "canonical-link"
    """What other pages of its site declare as canonical or redirect to; then, and between sites, as `oldest`."""
    OLDEST = "oldest"
    """The first one fetched; then the shorter URL."""
    SHORTEST_URL = "shortest-url"
    """The shortest URL; then the oldest."""
    MOST_ANCHORS = "most-anchors"
    """The one that most pages link to; then as `oldest`."""


@dataclass(frozen=True, slots=True)
class Pages:
    """What the policies ask of pages; all of one length n.

    Attributes:
        row_keys: of each page; with the timestamp unique.
        timestamps: (n,) int64 microseconds.
        url_lengths: (n,) int64, in characters.
        anchors: (n,) int64 pages that link to it; empty where the policy does not ask.
        declared: (n,) int64 number of the page that this one declares as canonical or redirects to, -1 for none;
            empty where the policy does not ask.
        redirected: (n,) int64 stored redirects that lead to it, each one a vote beside those of `declared`; empty
            for none.
        site_timestamps: (n,) int64 of the oldest page of its site that it is equal or paired to, itself included.  With
            it votes decide within a site alone, and between sites the oldest page.
    """

    row_keys: Sequence[bytes]
    timestamps: Numbers
    url_lengths: Numbers
    anchors: Numbers | None = None
    declared: Numbers | None = None
    redirected: Numbers | None = None
    site_timestamps: Numbers | None = None


@dataclass(frozen=True, slots=True)
class Clusters:
    """A partition of the pages.

    Attributes:
        canonical: (n,) int64 number of the page that stands for each; its own number for a canonical.
        similarity: (n,) float64 exact similarity to the canonical; 1.0 for a canonical.
    """

    canonical: Numbers
    similarity: NDArray[np.float64]


def policy_order(pages: Pages, policy: CanonicalPolicy, first: Numbers, second: Numbers) -> Numbers:
    """Page numbers from the best canonical to the worst; a total order that does not depend on the numbering.

    Args:
        pages: what the policy asks about.
        policy: what decides; its attributes of `pages` must be there.
        first, second: verified pairs, which decide whose declaration counts: only a page within the threshold of its
            target may vote for it, so that a stray or hostile link makes nobody canonical.
    Raises:
        InvalidArgument: the policy needs an attribute that is not there, or two pages are the same.
    """
    count = len(pages.row_keys)
    by_key = sorted(range(count), key=lambda page: (pages.row_keys[page], int(pages.timestamps[page])))
    identity = np.empty(count, np.int64)
    identity[by_key] = np.arange(count)
    for one, other in itertools.pairwise(by_key):
        if pages.row_keys[one] == pages.row_keys[other] and pages.timestamps[one] == pages.timestamps[other]:
            raise InvalidArgument(
                f"pages {one} and {other} are the same version of row {pages.row_keys[one]!r}; pass each version once"
            )
    oldest = (identity, pages.url_lengths, pages.timestamps)  # np.lexsort takes the first key last
    if policy is CanonicalPolicy.OLDEST:
        return np.lexsort(oldest)
    if policy is CanonicalPolicy.SHORTEST_URL:
        return np.lexsort((identity, pages.timestamps, pages.url_lengths))
    if policy is CanonicalPolicy.MOST_ANCHORS:
        if pages.anchors is None:
            raise InvalidArgument("policy most-anchors needs the number of anchors of each page")
        return np.lexsort((*oldest, -pages.anchors))
    if pages.declared is None:
        raise InvalidArgument("policy canonical-link needs what each page declares as canonical")
    votes, away = _declarations(pages.declared, first, second, count)
    if pages.redirected is not None:
        votes = votes + pages.redirected
    ranks = (*oldest, -votes, away, votes == 0)
    if pages.site_timestamps is None:
        return np.lexsort(ranks)
    return np.lexsort((*ranks, np.where(votes > 0, pages.site_timestamps, pages.timestamps)))


def _declarations(declared: Numbers, first: Numbers, second: Numbers, count: int) -> tuple[Numbers, NDArray[np.bool_]]:
    """(votes for each page by pages paired with it, whether a page votes for another one)."""
    voters = np.concatenate([first, second])
    targets = np.concatenate([second, first])
    counted = (declared[voters] == targets) & (voters != targets)
    voters, targets = voters[counted], targets[counted]
    away = np.zeros(count, bool)
    away[voters] = True
    # a pair given twice must not vote twice
    ballots = distinct(voters * count + targets) % max(count, 1)
    return np.bincount(ballots, minlength=count).astype(np.int64), away


def cluster(count: int, first: Numbers, second: Numbers, similarity: NDArray[np.float64], order: Numbers) -> Clusters:
    """Greedy stars: each page joins the best-ranked canonical that it has a pair with, or becomes one.

    Args:
        count: pages, numbered from 0.
        first, second: (pairs,) verified pairs, in any order and direction; all of them at least at the threshold.
        similarity: (pairs,) exact similarity of each.
        order: (count,) every page once, best canonical first (`policy_order`).
    Returns:
        Every page in exactly one cluster; time is linear in the pairs.
    """
    if not (len(first) == len(second) == len(similarity)):
        raise InvalidArgument(f"{len(first)}, {len(second)} and {len(similarity)} ends and similarities do not match")
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    # arcs from the better page to the worse, by the rank of the better one
    better = np.minimum(rank[first], rank[second])
    worse = np.maximum(rank[first], rank[second])
    arcs = np.flatnonzero(better != worse)
    arcs = arcs[np.lexsort((worse[arcs], better[arcs]))]
    better, worse = better[arcs], worse[arcs]
    begin = np.searchsorted(better, np.arange(count + 1))
    canonical = np.full(count, -1, np.int64)
    joined_by = np.full(count, -1, np.int64)
    for one in np.unique(better).tolist():
        if canonical[one] >= 0:
            continue
        canonical[one] = one
        reach = slice(begin[one], begin[one + 1])
        free = np.flatnonzero(canonical[worse[reach]] < 0) + begin[one]
        canonical[worse[free]] = one
        joined_by[worse[free]] = arcs[free]
    lone = canonical < 0
    canonical[lone] = np.flatnonzero(lone)
    result = Clusters(np.empty(count, np.int64), np.ones(count))
    result.canonical[order] = order[canonical]
    member = joined_by >= 0
    result.similarity[order[member]] = similarity[joined_by[member]]
    return result


def cluster_groups(
    leader: Numbers, first: Numbers, second: Numbers, similarity: NDArray[np.float64], order: Numbers
) -> Clusters:
    """`cluster` where pages of equal text are one group: as if all pairs between their groups had been given.

    Equal texts have the same similarity to everything, so each group is ranked by its best page and stands or joins as
    a whole, and the law holds for each of its pages.

    Args:
        leader: (n,) page that each page's group is named by (`candidates.leaders`).
        first, second, similarity: verified pairs between pages of different groups; one for each two groups is enough.
        order: (n,) every page once, best canonical first.
    """
    count = len(leader)
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    best = np.full(count, count, np.int64)
    np.minimum.at(best, leader, rank)
    speaker = order[best[leader]]  # best-ranked page of each page's group
    stars = np.flatnonzero(speaker != np.arange(count))
    among = cluster(count, speaker[first], speaker[second], similarity, order)
    result = Clusters(among.canonical.copy(), among.similarity.copy())
    result.canonical[stars] = among.canonical[speaker[stars]]
    result.similarity[stars] = among.similarity[speaker[stars]]
    return result
