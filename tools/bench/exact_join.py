"""The exact prefix-filter join of similar sets: the yardstick of the benchmarks.

Plain array kernels over CSR arrays (``starts``: (n + 1,) int64, and the concatenated
members).  Must not know the store, texts or URLs; a set is known by its number 0..n-1.

It finds every pair whose exact Jaccard coefficient reaches the threshold, and counts
what they share.  Laws of the prefix filter (Chaudhuri, Ganti, Kaushik 2006; Bayardo, Ma, Srikant 2007; Xiao et al.
2008): with members in one global order, two sets x and y, |y| <= |x|, of Jaccard coefficient >= t share a member among
the first ``|x| - ceil(t |x|) + 1`` of x and the first ``|y| - ceil(2t / (1 + t) |y|) + 1`` of y, and
``|y| >= t |x|``.  The global order is from the rarest member to the commonest, so the prefixes meet seldom.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.kernel import shared_members
from docstore.model.errors import InvalidArgument
from docstore.model.sets import Numbers, Sets, distinct, spans
from docstore.sweep.candidates import CHUNK_PAIRS, ROUNDING, leaders


class Pairs(NamedTuple):
    """Verified pairs, sorted by (first, second), first < second.

    Attributes:
        first, second: (pairs,) int64 numbers of sets.
        shared: members in both.
        either: members in at least one; ``shared / either`` is the exact Jaccard coefficient.
    """

    first: Numbers
    second: Numbers
    shared: Numbers
    either: Numbers


def equal_sets(sets: Sets) -> Numbers:
    """Group sets with the same members: for each set the smallest number of an equal one.  Exact, not by checksum."""
    lengths = sets.lengths
    mixed = sets.members.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    totals = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)])
    sums = totals[sets.starts[1:]] - totals[sets.starts[:-1]]
    leader = leaders(np.stack([sums, lengths.astype(np.uint64)], axis=1))
    followers = np.flatnonzero(leader != np.arange(len(leader)))
    same = (
        sets.members[spans(sets.starts[followers], lengths[followers])]
        == (sets.members[spans(sets.starts[leader[followers]], lengths[followers])])
    )
    owner = np.repeat(np.arange(len(followers)), lengths[followers])
    wrong = followers[distinct(owner[~same])]
    leader[wrong] = wrong  # a clash of sums: such a set stands alone, and the join still compares it
    return leader


def expand_pairs(leader: Numbers, first: Numbers, second: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """All pairs of pages behind pairs of leaders; a pair (leader, itself) stands for the pairs inside its group.

    Returns:
        first, second (first < second, unsorted), and for each which of the given pairs it comes from.
    """
    by_leader = np.argsort(leader, kind="stable")
    begin = np.searchsorted(leader[by_leader], np.arange(len(leader) + 1))
    size = np.diff(begin)
    many = size[first] * size[second]
    source = np.repeat(np.arange(len(first)), many)
    inner = spans(np.zeros(len(many), np.int64), many)
    left = by_leader[begin[first[source]] + inner // size[second[source]]]
    right = by_leader[begin[second[source]] + inner % size[second[source]]]
    keep = (left < right) | (first != second)[source]
    left, right, source = left[keep], right[keep], source[keep]
    return np.minimum(left, right), np.maximum(left, right), source


# --- verification ---


def rank_members(sets: Sets) -> Sets:
    """Number members from the rarest to the commonest: (starts, uint32 ranks ascending within each set).

    Raises:
        InvalidArgument: 2**32 distinct members or more; join a part at a time.
    """
    distinct, number, count = np.unique(sets.members, return_inverse=True, return_counts=True)
    if len(distinct) >= 1 << 32:
        raise InvalidArgument(f"{len(distinct)} distinct members do not fit 32 bits; join fewer sets at a time")
    rank = np.empty(len(distinct), np.uint32)
    rank[np.argsort(count, kind="stable")] = np.arange(len(distinct), dtype=np.uint32)
    ranks = rank[number]
    for begin, end in zip(sets.starts[:-1].tolist(), sets.starts[1:].tolist(), strict=True):
        ranks[begin:end].sort()
    return Sets(sets.starts, ranks)


# --- the exact join ---


def _round_up(factor: float, counts: Numbers) -> Numbers:
    raised: Numbers = np.ceil(counts * factor - ROUNDING).astype(np.int64)
    return raised


class _Prefixes(NamedTuple):
    """Members of prefixes: which, of which set (its position by size), how far from the set's head."""

    member: Numbers
    place: Numbers
    offset: Numbers


class _Prefixed(NamedTuple):
    """Sets by size, with the prefixes that are indexed, sorted by (member, place).

    Attributes:
        lengths: of the sets, ascending.
        shift: bits of a place.
        entries: ``member << shift | place``, ascending.
        offset: of each entry.
    """

    lengths: Numbers
    shift: int
    entries: Numbers
    offset: Numbers


def _prefixes(ranked: Sets, kept: Numbers, order: Numbers, first_common: int) -> _Prefixes:
    """The first `kept` members of each set, but for those that only one set has."""
    prefix = np.minimum(kept, ranked.lengths[order])
    place = np.repeat(np.arange(len(order)), prefix)
    offset = spans(np.zeros(len(order), np.int64), prefix)
    member = ranked.members[np.repeat(ranked.starts[order], prefix) + offset].astype(np.int64)
    common = member >= first_common
    return _Prefixes(member[common], place[common], offset[common])


def exact_join(sets: Sets, threshold: float) -> Pairs:
    """Every pair of sets whose exact Jaccard coefficient is at least the threshold, equal sets included.

    Empty sets are in no pair.  Memory: the sets, their prefixes, and chunks of `CHUNK_PAIRS`.

    Raises:
        InvalidArgument: threshold outside (0, 1].
    """
    if not 0.0 < threshold <= 1.0:
        raise InvalidArgument(f"threshold must lie in (0, 1], not {threshold}")
    leader = equal_sets(sets)
    lone = np.flatnonzero((leader == np.arange(len(leader))) & (sets.lengths > 0))
    ranked = rank_members(sets.take(lone))
    first, second, shared = _join_ranked(ranked, threshold)
    either = ranked.lengths[first] + ranked.lengths[second] - shared
    first, second = lone[first], lone[second]
    groups = distinct(leader[(leader != np.arange(len(leader))) & (sets.lengths > 0)])
    sizes = sets.lengths[groups]
    left, right, source = expand_pairs(leader, np.concatenate([first, groups]), np.concatenate([second, groups]))
    order = np.lexsort((right, left))
    left, right, source = left[order], right[order], source[order]
    return Pairs(left, right, np.concatenate([shared, sizes])[source], np.concatenate([either, sizes])[source])


def _join_ranked(ranked: Sets, threshold: float) -> tuple[Numbers, Numbers, Numbers]:
    """The join of non-empty, pairwise different, ranked sets -> first, second, shared; unsorted."""
    nothing = np.empty(0, np.int64)
    found = [(nothing, nothing, nothing)]
    order = np.argsort(ranked.lengths, kind="stable")
    lengths = ranked.lengths[order]
    frequency = np.bincount(ranked.members, minlength=1)
    first_common = int(np.searchsorted(frequency, 1, "right"))  # ranks go from the rarest: the first with two sets
    least = _round_up(threshold, lengths)
    earliest = np.searchsorted(lengths, least)
    indexed = lengths - _round_up(2 * threshold / (1 + threshold), lengths) + 1
    index = _index(_prefixes(ranked, indexed, order, first_common), lengths)
    probed = lengths - least + 1
    work = np.cumsum(np.minimum(probed, lengths))
    begin = 0
    while begin < len(order):
        done = int(work[begin - 1]) if begin else 0
        end = min(len(order), max(begin + 1, int(np.searchsorted(work, done + CHUNK_PAIRS, "right"))))
        probes = _prefixes(ranked, probed[begin:end], order[begin:end], first_common)
        probes = probes._replace(place=probes.place + begin)
        left, right = _matches(index, probes, earliest, threshold)
        shared = shared_members(ranked, order[left], order[right])
        either = lengths[left] + lengths[right] - shared
        good = shared / np.maximum(either, 1) >= threshold
        found.append((order[left[good]], order[right[good]], shared[good]))
        begin = end
    first, second, both = (np.concatenate(column) for column in zip(*found, strict=True))
    return np.minimum(first, second), np.maximum(first, second), both


def _index(prefixes: _Prefixes, lengths: Numbers) -> _Prefixed:
    shift = max(1, len(lengths).bit_length())
    entries = prefixes.member << shift | prefixes.place
    order = np.argsort(entries)
    return _Prefixed(lengths, shift, entries[order], prefixes.offset[order])


def _matches(index: _Prefixed, probes: _Prefixes, earliest: Numbers, threshold: float) -> tuple[Numbers, Numbers]:
    """Pairs of places (prober, indexed) that share a prefix member and pass the positional filter, each once.

    The members before a match and those behind it bound what two sets can share (Xiao et al. 2008).
    """
    lengths, shift, entries, offset = index
    low = np.searchsorted(entries, probes.member << shift | earliest[probes.place])
    many = np.maximum(np.searchsorted(entries, probes.member << shift | probes.place) - low, 0)
    hit = np.flatnonzero(many)
    low, many, prober, at = low[hit], many[hit], probes.place[hit], probes.offset[hit]
    work = np.cumsum(many)
    parts = [np.empty(0, np.int64)]
    begin = 0
    while begin < len(many):
        done = int(work[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(work, done + CHUNK_PAIRS, "right")))
        entry = spans(low[begin:end], many[begin:end])
        left = np.repeat(prober[begin:end], many[begin:end])
        left_at = np.repeat(at[begin:end], many[begin:end])
        right, right_at = entries[entry] & ((1 << shift) - 1), offset[entry]
        need = _round_up(threshold / (1 + threshold), lengths[left] + lengths[right])
        before = np.minimum(left_at, right_at)
        behind = np.minimum(lengths[left] - left_at, lengths[right] - right_at)
        parts.append(distinct((left << shift | right)[before + behind >= need]))
        begin = end
    codes = distinct(np.concatenate(parts))
    return codes >> shift, codes & ((1 << shift) - 1)


# --- pairs of numbered versions: truth and findings next to each other, without a step per pair ---

LINES = 1 << 16


@dataclass(frozen=True)
class PairSet:
    """Pairs of n versions.  A pair of versions a < b is the code ``a * n + b``; a set of pairs is its sorted codes.

    Attributes:
        count: n.
        codes: (pairs,) int64, ascending, each once.
        similarity: (pairs,) of each.
    """

    count: int
    codes: Numbers
    similarity: NDArray[np.float64]

    @classmethod
    def of(cls, count: int, first: Numbers, second: Numbers, similarity: NDArray[np.float64]) -> PairSet:
        """Pairs in any order; of one that comes twice the highest similarity."""
        codes = np.minimum(first, second) * count + np.maximum(first, second)
        order = np.lexsort((-similarity, codes))
        codes, similarity = codes[order], similarity[order]
        fresh = np.diff(codes, prepend=-1) != 0
        return cls(count, codes[fresh], similarity[fresh])

    @classmethod
    def listed(cls, path: Path, number_of: dict[str, int]) -> PairSet:
        """Pairs as `docstore sweep --pairs` lists them; also those that titles set apart; names are URL, tab, time."""
        parts: list[NDArray[np.float64]] = [np.empty((0, 3))]
        with path.open(encoding="utf-8") as stream:
            while lines := stream.readlines(LINES << 8):
                cut = (line.split("\t") for line in lines)
                rows = [(number_of[f"{a}\t{at}"], number_of[f"{b}\t{b_at}"], float(s)) for a, at, b, b_at, s, *_ in cut]
                parts.append(np.array(rows))
        found = np.concatenate(parts)
        return cls.of(len(number_of), found[:, 0].astype(np.int64), found[:, 1].astype(np.int64), found[:, 2])

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def first(self) -> Numbers:
        """(pairs,) the smaller number of each."""
        return self.codes // max(1, self.count)

    @property
    def second(self) -> Numbers:
        """(pairs,) the larger number of each."""
        return self.codes % max(1, self.count)

    def where(self, chosen: NDArray[np.bool_]) -> PairSet:
        """The chosen of them."""
        return PairSet(self.count, self.codes[chosen], self.similarity[chosen])

    def both(self, version: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(pairs,) bool: both versions are among these."""
        return version[self.first] & version[self.second]

    def places_in(self, other: PairSet) -> Numbers:
        """(pairs,) where each stands in another set; -1 where it does not."""
        if not len(other):
            return np.full(len(self), -1, np.int64)
        at = np.minimum(np.searchsorted(other.codes, self.codes), len(other) - 1)
        return np.where(other.codes[at] == self.codes, at, -1)

    def similarity_in(self, other: PairSet) -> NDArray[np.float64]:
        """(pairs,) what another set says of each; 0 where it does not have it."""
        places = self.places_in(other)
        return np.where(places >= 0, np.append(other.similarity, 0.0)[places], 0.0)


@dataclass(frozen=True)
class Recall:
    """Share of the wanted pairs that were found: mean over archives, mean over pages, of all pairs."""

    archives: float
    pages: float
    pairs: float


def recall(wanted: PairSet, found: PairSet, archive: Numbers) -> Recall:
    """Score findings.

    Args:
        wanted: pairs that there are.
        found: pairs that were found.
        archive: (n,) number of the archive of each version; a pair of two archives counts in both.
    """
    if not len(wanted):
        return Recall(1.0, 1.0, 1.0)
    hit = wanted.places_in(found) >= 0
    one, other = archive[wanted.first], archive[wanted.second]
    apart = one != other
    return Recall(
        _mean_share(np.concatenate([one, other[apart]]), np.concatenate([hit, hit[apart]])),
        _mean_share(np.concatenate([wanted.first, wanted.second]), np.concatenate([hit, hit])),
        float(hit.mean()),
    )


def _mean_share(group: Numbers, hit: NDArray[np.bool_]) -> float:
    wanted, hits = np.bincount(group), np.bincount(group, hit)
    there = wanted > 0
    return float((hits[there] / wanted[there]).mean())
