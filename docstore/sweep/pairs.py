"""Fourth stage of a sweep: candidates -> verified pairs -> a graph of pairs between groups of equal versions.

Similarities are exact: threads count the common members of two sets, and each batch is logged.  Equal versions are
one group: a thousand copies are a thousand numbers, not half a million pairs.  The pairs within groups are listed only
if all pairs are requested, one version at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.dedup.comparable import TitledPage, has_evidence, title_mismatch, titles_contradict
from docstore.dedup.kernel import shared_members
from docstore.model.format import SWEEP_LOG_SUFFIX
from docstore.model.sets import Numbers, Sets, distinct
from docstore.sweep.candidates import leaders
from docstore.sweep.kernels import in_order
from docstore.sweep.texts import INPUT_BYTES, StageLog

BATCH_MEMBERS = 1 << 22
"""Members of the pairs of a batch (or one larger pair).  Its sets are copied, so a batch takes at most about 100 MB."""


def verify(
    sets: Sets,
    first: Numbers,
    second: Numbers,
    folder: Path,
    *,
    threads: int,
    on_progress: Callable[[int, int], None] | None = None,
) -> Numbers:
    """(pairs,) int64: common members of each pair; batches in the log of the folder are not computed again.

    Args:
        sets: of uint64 hashes.
        first, second: (pairs,) sorted numbers of sets.
    """
    digest = blake3(first.astype("<i8").tobytes())
    for part in (second, sets.starts):
        digest.update(part.astype("<i8").tobytes())
    log = StageLog(folder / f"pairs{SWEEP_LOG_SUFFIX}", digest.digest(INPUT_BYTES))
    shared: list[NDArray[np.int64]] = []
    done = 0
    for frame in log.frames():
        shared.append(np.frombuffer(frame, "<i8"))
        done += len(shared[-1])
    batches = _batches(sets, first[done:], second[done:])
    for batch in in_order(threads, lambda pair: shared_members(sets, *pair), batches):
        log.append(batch.astype("<i8").tobytes())
        shared.append(batch)
        done += len(batch)
        if on_progress is not None:
            on_progress(done, len(first))
    return np.concatenate([np.empty(0, np.int64), *shared])


def _batches(sets: Sets, first: Numbers, second: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """The pairs in batches; the sets of a batch have at most BATCH_MEMBERS members, unless it is one pair."""
    work = np.cumsum(sets.lengths[first] + sets.lengths[second])
    begin = 0
    while begin < len(first):
        before = int(work[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(work, before + BATCH_MEMBERS, "right")))
        yield first[begin:end], second[begin:end]
        begin = end


# --- pairs that titles set apart: the rule of `native/store/src/titles.rs` over all pages of a store
#
# A write sees only earlier pages: some 16 to 32 texts like its own, and the 64 oldest pages of each.  A sweep sees all
# pages with texts near one of the two, so it sets apart pairs for which the write had no evidence yet.  Versions of
# equal text and title words are one group, and a pair connects two groups.  It is set apart if all pairs of their pages
# are.

MAX_CACHED_TITLES = 16_384
"""LRU cache of titles and their words, some 16 MB."""
MAX_WITNESSES = 3


def set_apart(
    page: Callable[[int], TitledPage], leader: Numbers, first: Numbers, second: Numbers, is_near: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """(pairs,) bool: which pairs titles set apart.

    Args:
        page: gives a version's row, title and text; it is called once for each of some thousand versions.
        leader: (n,) the first version of each version's group.
        first, second: (pairs,) leaders, in any order.
        is_near: (pairs,) bool: similar enough to be evidence for each other.
    """
    page = lru_cache(MAX_CACHED_TITLES)(page)
    names: dict[str, int] = {}
    titles = np.full(len(leader), -1, np.int64)
    titles[first] = titles[second] = 0
    for group in np.flatnonzero(titles == 0).tolist():
        titles[group] = names.setdefault(page(group).title, len(names))
    apart = np.zeros(len(first), np.bool_)
    differ = np.flatnonzero(titles[first] != titles[second])
    if not len(differ):
        return apart  # as in most large families, whose evidence takes much memory
    by_leader = np.argsort(leader, kind="stable")
    ends, others = np.concatenate([first[is_near], second[is_near]]), np.concatenate([second[is_near], first[is_near]])
    order = np.lexsort((others, ends))
    ends, others = ends[order], others[order]

    def slice_of(keys: Numbers, values: Numbers, number: int) -> list[int]:
        begin, end = np.searchsorted(keys, (number, number + 1))
        return list(values[begin:end].tolist())

    leaders_in_order = leader[by_leader]

    @lru_cache(MAX_CACHED_TITLES)
    def hosts(group: int) -> dict[bytes, int]:
        """The first version of each host."""
        members = slice_of(leaders_in_order, by_leader, group)
        return {page(number).host: number for number in reversed(members)}

    @lru_cache(MAX_CACHED_TITLES)
    def witnesses(host: bytes, group: int) -> list[TitledPage]:
        """Up to three pages of a host, with texts near that of a group, whose titles contradict each other."""
        chosen: list[TitledPage] = []
        for each in [group, *slice_of(ends, others, group)] if host else []:
            number = hosts(each).get(host)
            if number is not None and all(titles_contradict(page(number), other) for other in chosen):
                chosen.append(page(number))
                if len(chosen) == MAX_WITNESSES:
                    break
        return chosen

    def lacks_evidence(own: TitledPage, other: TitledPage, of_host: list[TitledPage]) -> bool:
        """Whether the host of a page gives no evidence against its pairs with pages of other hosts."""
        return own.is_article or not has_evidence(own, other, of_host)

    def is_apart(group: int, other: int) -> bool:
        if not titles_contradict(page(group), page(other)):
            return False
        ours, theirs = hosts(group), hosts(other)
        # all pages of a group have one text and title, so evidence of a host counts for all its pairs with other hosts
        bare = {
            host for host, number in ours.items() if lacks_evidence(page(number), page(other), witnesses(host, group))
        }
        others_bare = bare and {
            host for host, number in theirs.items() if lacks_evidence(page(number), page(group), witnesses(host, other))
        }
        if bare and others_bare and (len(bare | others_bare) > 1 or b"" in bare):
            return False
        return all(
            title_mismatch(page(ours[host]), page(theirs[host]), chain(witnesses(host, group), witnesses(host, other)))
            for host in (ours.keys() & theirs.keys()) - {b""}
        )

    for place in differ.tolist():
        apart[place] = is_apart(int(first[place]), int(second[place]))
    return apart


# --- the graph of pairs

Similarities = NDArray[np.float64]


Listed: TypeAlias = tuple[Numbers, Numbers, Similarities]
"""Pairs of versions, sorted, first < second, with their similarities."""


@dataclass(frozen=True, slots=True)
class PairGraph:
    """Verified pairs of n versions.

    Attributes:
        leader: (n,) int64 the first version that is equal to each version.
        first, second: (edges,) int64 leaders whose groups are within the threshold; sorted, first < second.
        similarity: (edges,) exact.
        rows: (n,) int64 row of each version, ascending.
        versions: whether pairs of versions of one row count.
    """

    leader: Numbers
    first: Numbers
    second: Numbers
    similarity: Similarities
    rows: Numbers
    versions: bool

    @classmethod
    def of_pairs(
        cls, pairs: Listed, bodies: NDArray[np.uint64], leader: Numbers, rows: Numbers, *, versions: bool
    ) -> PairGraph:
        """The graph of pairs of leaders, in any order, and of groups with equal bodies.

        Args:
            pairs: of n versions.
            bodies: (n, 2) uint64, equal exactly for equal bodies.
            leader, rows, versions: as the attributes.
        """
        first, second, similarity = pairs
        equal = same_bodies(bodies, leader)
        if len(equal[0]):
            first, second = np.concatenate([first, equal[0]]), np.concatenate([second, equal[1]])
            similarity = np.concatenate([similarity, np.ones(len(equal[0]))])
        codes = _codes(first, second, len(leader))
        if (codes[1:] < codes[:-1]).any():
            order = np.argsort(codes, kind="stable")
            first, second, similarity = first[order], second[order], similarity[order]
        return cls(leader, first, second, similarity, rows, versions)

    def degrees(self) -> Numbers:
        """(n,) int64: how many pairs each version is in."""
        count = len(self.leader)
        sizes = np.bincount(self.leader, minlength=count)
        around = sizes.copy()
        np.add.at(around, self.first, sizes[self.second])
        np.add.at(around, self.second, sizes[self.first])
        degrees: Numbers = around[self.leader] - 1
        return degrees if self.versions else degrees - self._own_versions()

    def _own_versions(self) -> Numbers:
        """(n,) int64: other versions of its own row that each version is paired with."""
        own = np.zeros(len(self.leader), np.int64)
        shared = np.bincount(self.rows, minlength=1)[self.rows] > 1 if len(self.rows) else np.zeros(0, bool)
        edges = _codes(self.first, self.second, len(self.leader))
        numbers = np.flatnonzero(shared)
        for group in np.split(numbers, np.flatnonzero(np.diff(self.rows[numbers])) + 1) if len(numbers) else []:
            left, right = np.meshgrid(group, group, indexing="ij")
            own_group, other_group = self.leader[left], self.leader[right]
            codes = _codes(np.minimum(own_group, other_group), np.maximum(own_group, other_group), len(self.leader))
            joined = (own_group == other_group) | _within(codes, edges)
            own[group] = joined.sum(axis=1) - 1
        return own

    # --- listing

    def star(self) -> Listed:
        """Each group of equal versions as a star around its first version, and one pair for two groups.

        If the first version is of the same row as the other end, the first version of another row replaces it.
        """
        count = len(self.leader)
        everyone = np.arange(count)
        alternate = self._alternates()
        followers = np.flatnonzero(self.leader != everyone)
        centre = self.leader[followers]
        if not self.versions:
            clash = self.rows[centre] == self.rows[followers]
            centre = np.where(clash, alternate[centre], centre)
            keep = centre >= 0
            followers, centre = followers[keep], centre[keep]
        left, right, keep_edge = self._spokespersons(alternate)
        first = np.concatenate([centre, left])
        second = np.concatenate([followers, right])
        similarity = np.concatenate([np.ones(len(centre)), self.similarity[keep_edge]])
        low, high = np.minimum(first, second), np.maximum(first, second)
        _, chosen = np.unique(_codes(low, high, count), return_index=True)
        return low[chosen], high[chosen], similarity[chosen]

    def _alternates(self) -> Numbers:
        """(n,) int64: for a leader the first version of its group that is of another row; -1 for none."""
        alternate = np.full(len(self.leader), -1, np.int64)
        other = np.flatnonzero(self.rows != self.rows[self.leader])[::-1]
        alternate[self.leader[other]] = other  # the last assignment wins: it is the smallest number
        return alternate

    def _spokespersons(self, alternate: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """For each edge two versions of different rows, and the edges that have them."""
        keep = self.between_rows()
        left, right = self.first[keep], self.second[keep]
        if not self.versions:
            clash = self.rows[left] == self.rows[right]
            right = np.where(clash & (alternate[right] >= 0), alternate[right], right)
            left = np.where(self.rows[left] == self.rows[right], alternate[left], left)
        return left, right, keep

    def every(self) -> Iterator[Listed]:
        """All pairs, those of one version at a time, sorted."""
        count = len(self.leader)
        by_leader = np.argsort(self.leader, kind="stable")
        begins = np.searchsorted(self.leader[by_leader], np.arange(count + 1))
        ends = np.concatenate([self.first, self.second])
        others = np.concatenate([self.second, self.first])
        values = np.concatenate([self.similarity, self.similarity])
        order = np.argsort(ends, kind="stable")
        ends, others, values = ends[order], others[order], values[order]
        reach = np.searchsorted(ends, np.arange(count + 1))
        for number in np.flatnonzero(self.degrees()).tolist():
            group = self.leader[number]
            groups = [group, *others[reach[group] : reach[group + 1]].tolist()]
            near = [1.0, *values[reach[group] : reach[group + 1]].tolist()]
            members = [by_leader[begins[each] : begins[each + 1]] for each in groups]
            second = np.concatenate(members)
            similarity = np.repeat(near, [len(some) for some in members])
            keep = second > number
            if not self.versions:
                keep &= self.rows[second] != self.rows[number]
            second, similarity = second[keep], similarity[keep]
            order = np.argsort(second)
            yield np.full(len(second), number), second[order], similarity[order]

    # --- for clusters

    def between_rows(self) -> Numbers:
        """The edges that join versions of different rows; all edges if pairs of versions of one row count."""
        of_several = self._alternates() >= 0
        keep = of_several[self.first] | of_several[self.second] | self.versions
        return np.flatnonzero(keep | (self.rows[self.first] != self.rows[self.second]))

    def joined(self, first: Numbers, second: Numbers) -> NDArray[np.bool_]:
        """Whether each of these pairs of versions is equal or within the threshold."""
        group, other_group = self.leader[first], self.leader[second]
        codes = _codes(np.minimum(group, other_group), np.maximum(group, other_group), len(self.leader))
        joined: NDArray[np.bool_] = (group == other_group) | _within(
            codes, _codes(self.first, self.second, len(self.leader))
        )
        return joined

    def oldest_of_site(self, chosen: Numbers, sites: Numbers, timestamps: Numbers, asked: Numbers) -> Numbers:
        """Fetch time of the oldest version of the same site that is equal or within the threshold.

        Args:
            chosen: (m,) versions.
            sites, timestamps: (m,) of each of them.
            asked: (k,) positions in `chosen`.
        Returns:
            (k,) int64: for each version of `asked`, itself included.
        """
        width = int(sites.max(initial=0)) + 1
        codes = self.leader[chosen] * width + sites
        order = np.lexsort((timestamps, codes))
        known, begins = np.unique(codes[order], return_index=True)
        oldest = timestamps[order][begins]
        is_asked = np.isin(np.arange(len(self.leader)), self.leader[chosen[asked]])
        left, right = is_asked[self.first], is_asked[self.second]
        ends = np.concatenate([self.first[left], self.second[right]])
        others = np.concatenate([self.second[left], self.first[right]])
        by_end = np.argsort(ends, kind="stable")
        ends, others = ends[by_end], others[by_end]
        oldest_by_code: dict[int, int] = {}
        for code in np.unique(codes[asked]).tolist():
            group, site = divmod(code, width)
            begin, end = np.searchsorted(ends, [group, group + 1])
            wanted = np.append(others[begin:end], group) * width + site
            places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
            oldest_by_code[code] = int(oldest[places[known[places] == wanted]].min())
        return np.fromiter((oldest_by_code[code] for code in codes[asked].tolist()), np.int64, len(asked))


def same_bodies(bodies: NDArray[np.uint64], leader: Numbers) -> tuple[Numbers, Numbers]:
    """(first, second): edges between groups with equal bodies whose texts differ, as with another Content-Type.

    Args:
        bodies: (n, 2) uint64, equal exactly for equal bodies.
        leader: (n,) the first version that is equal to each version.
    """
    left, right, count = leader[leaders(bodies)], leader, max(len(leader), 1)
    codes = distinct(_codes(np.minimum(left, right), np.maximum(left, right), count)[left != right])
    return codes // count, codes % count


def _codes(first: Numbers, second: Numbers, count: int) -> Numbers:
    return first * max(count, 1) + second


def _within(wanted: Numbers, ordered: Numbers) -> NDArray[np.bool_]:
    return np.asarray(np.append(ordered, -1)[np.searchsorted(ordered, wanted)] == wanted)
