"""Verified pairs -> clusters, each with one canonical page, by greedy stars; and which pages stay when duplicates go.

Clusters are made by pure functions of arrays.  The law: every member's exact similarity to its canonical is at least
the threshold.  Connected components break it: a chain of small changes joins pages that have nothing in common.  So
pages are taken in the order of the policy.  Each joins the best-ranked canonical that it has a verified pair with, or
becomes a canonical itself.  Hence no two canonicals are within the threshold of each other, and clustering the
canonicals again changes nothing.  The order is total and uses properties of the pages, never their numbers, so the
result does not depend on the order of input.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from docstore.compiled import docstore_native
from docstore.dedup.comparable import jaccard
from docstore.dedup.kernel import Kernel
from docstore.model.capture import MAIN
from docstore.model.choices import CanonicalPolicy
from docstore.model.errors import InvalidArgument
from docstore.model.keys import site, url_of
from docstore.model.sets import Numbers, distinct, spans
from docstore.reading.collapse import Membership, own_group
from docstore.storage.unreadable import Place
from docstore.sweep.pairs import PairGraph

if TYPE_CHECKING:  # types alone
    from docstore.attach import Store
    from docstore.sweep.pages import Blobs


@dataclass(frozen=True, slots=True)
class PolicyInput:
    """What the policies compare pages by; all arrays have one length n.

    Attributes:
        row_keys: of each page; with the timestamp unique.
        timestamps: (n,) int64 microseconds.
        url_lengths: (n,) int64, in characters.
        anchors: (n,) int64 pages that link to it; None if the policy does not use it.
        declared: (n,) int64 number of the page that this one declares as canonical or redirects to, -1 for none;
            None if the policy does not use it.
        redirected: (n,) int64 stored redirects that lead to it; each is a vote in addition to those of `declared`.
        site_timestamps: (n,) int64 of the oldest page of its site that it is equal or paired to, itself included.
            With it votes decide only within a site, and between sites the oldest page wins.
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
        canonical: (n,) int64 number of the canonical page of each page; its own number for a canonical.
        similarity: (n,) float64 exact similarity to the canonical; 1.0 for a canonical.
    """

    canonical: Numbers
    similarity: NDArray[np.float64]


def policy_order(pages: PolicyInput, policy: CanonicalPolicy, first: Numbers, second: Numbers) -> Numbers:
    """Page numbers from the best canonical to the worst; a total order that does not depend on the numbering.

    Args:
        pages: with the attributes that the policy needs.
        policy: decides the order.
        first, second: verified pairs.  Only a page within the threshold of its target may vote for it, so that a wrong
            or hostile link makes no page canonical.
    Raises:
        InvalidArgument: an attribute that the policy needs is missing, or two pages are the same.
    """
    count = len(pages.row_keys)
    by_key = sorted(range(count), key=lambda page: (pages.row_keys[page], int(pages.timestamps[page])))
    identity = np.empty(count, np.int64)
    identity[by_key] = np.arange(count)
    for page, following in itertools.pairwise(by_key):
        if pages.row_keys[page] == pages.row_keys[following] and pages.timestamps[page] == pages.timestamps[following]:
            raise InvalidArgument(
                f"pages {page} and {following} are the same version of row {pages.row_keys[page]!r}; pass it once"
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
    codes = np.minimum(rank[first], rank[second]) * count + np.maximum(rank[first], rank[second])
    arcs = np.argsort(codes, kind="stable")
    codes = codes[arcs]
    begin = np.searchsorted(codes, np.arange(count + 1) * count)
    worse = codes % max(count, 1)
    canonical = np.full(count, -1, np.int64)
    joined_by = np.full(count, -1, np.int64)
    for star in np.flatnonzero(begin[1:] > begin[:-1]).tolist():
        if canonical[star] >= 0:
            continue
        canonical[star] = star
        reach = slice(begin[star], begin[star + 1])
        free = np.flatnonzero(canonical[worse[reach]] < 0) + begin[star]
        canonical[worse[free]] = star
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
    """`cluster` for groups of equal pages: the result is the same as with all pairs between the groups.

    Equal texts have the same similarity to everything.  So each group is ranked by its best page and becomes canonical
    or joins as a whole, and the law holds for each of its pages.

    Args:
        leader: (n,) first page of each page's group (`candidates.leaders`).
        first, second, similarity: verified pairs between pages of different groups; one for each two groups is enough.
        order: (n,) every page once, best canonical first.
    """
    count = len(leader)
    rank = np.empty(count, np.int64)
    rank[order] = np.arange(count)
    best = np.full(count, count, np.int64)
    np.minimum.at(best, leader, rank)
    best_page = order[best[leader]]  # best-ranked page of each page's group
    others = np.flatnonzero(best_page != np.arange(count))
    grouped = cluster(count, best_page[first], best_page[second], similarity, order)
    result = Clusters(grouped.canonical.copy(), grouped.similarity.copy())
    result.canonical[others] = grouped.canonical[best_page[others]]
    result.similarity[others] = grouped.similarity[best_page[others]]
    return result


# --- clusters of versions


class Placed(Protocol):
    """What the clusters of n versions are made from, in the order (row key, timestamp); see `sweep.pages.Versions`."""

    @property
    def row_keys(self) -> Sequence[bytes] | Blobs:
        """Of each."""

    rows: Numbers
    timestamps: Numbers
    good: NDArray[np.bool_]
    declared: Numbers
    redirected: Numbers


def cluster_versions(
    versions: Placed,
    graph: PairGraph,
    policy: CanonicalPolicy,
    anchors: Callable[[Numbers], Numbers] | None = None,
    sizes: Numbers | None = None,
    last: Callable[[Numbers], Numbers] | None = None,
) -> Clusters:
    """Clusters of all versions; versions of one URL alone are no cluster, unless the graph has pairs of them.

    Args:
        versions, graph: of n versions.
        policy: chooses the canonical pages; pages without a text come after all good pages.
        anchors: gives the pages that link to some versions, for the policy that needs it.
        sizes: (n,) shingles of each version; if given, a larger page comes before a smaller one.
        last: gives, for canonical pages that were chosen, the versions that come after all others, such as those
            whose bodies cannot be read; clusters are made again until it gives no new ones.
    """
    count = len(graph.leader)
    edges = graph.between_rows()
    has_others = np.bincount(graph.leader, minlength=count) > 1
    has_others[graph.first[edges]] = has_others[graph.second[edges]] = True
    chosen = np.flatnonzero(has_others[graph.leader])
    place = np.full(count, -1, np.int64)
    place[chosen] = np.arange(len(chosen))
    order = _order(versions, graph, policy, anchors, chosen, place)
    if sizes is not None:  # the page that contains another one stands for it
        order = order[np.argsort(-sizes[chosen[order]], kind="stable")]
    good = versions.good[chosen[order]]
    order = np.concatenate([order[good], order[~good]])
    behind = 0
    leader, first, second = (place[each] for each in (graph.leader[chosen], graph.first[edges], graph.second[edges]))
    while True:
        grouped = cluster_groups(leader, first, second, graph.similarity[edges], order)
        result = Clusters(np.arange(count), np.ones(count))
        result.canonical[chosen] = chosen[grouped.canonical]
        result.similarity[chosen] = grouped.similarity
        if not graph.versions:
            _dissolve(result, versions.rows)
        if last is None:
            return result
        moved = last(distinct(result.canonical[result.canonical != np.arange(count)]))
        if len(moved) == behind:
            return result
        behind = len(moved)
        is_last = np.isin(chosen[order], moved)
        order = np.concatenate([order[~is_last], order[is_last]])


ROUNDS = 8
"""At most so many times clusters are made again with missing pairs."""
CROWD = 64
"""Canonical pages whose nearest crowded text is the same are compared with so many of them, those of large clusters."""


def missing_pairs(
    graph: PairGraph, clusters: Clusters, comparable: NDArray[np.bool_], known: tuple[Numbers, Numbers]
) -> tuple[Numbers, Numbers]:
    """Pairs of leaders that have to be compared before clusters stay as they are.

    Of a large bucket not all pairs were compared.  If a page is paired with a member of another cluster, it may be
    within the threshold of the canonical page of that cluster too.  So may two canonical pages that are paired with
    the same text of more than `CROWD` pairs: a large bucket may have compared them with that text alone.

    Args:
        graph: of n versions.
        clusters: of them.
        comparable: (n,) bool: versions that are compared by their texts.
        known: pairs of leaders, first < second, that were compared; titles may have set some of them apart.
    Returns:
        Two (pairs,) arrays, sorted, first < second; no pair is known or in the graph.
    """
    edges, count = graph.between_rows(), max(len(graph.leader), 1)
    canonical = graph.leader[clusters.canonical]
    ends = np.concatenate([graph.first[edges], graph.second[edges]])
    others = np.concatenate([graph.second[edges], graph.first[edges]])
    beside = _canonicals_of_one_crowd(canonical, ends, others)
    is_other = canonical[ends] != canonical[others]
    ends, targets = np.append(ends[is_other], beside[0]), np.append(canonical[others[is_other]], beside[1])
    chosen = (canonical[ends] != targets) & comparable[ends] & comparable[targets]
    codes = distinct((np.minimum(ends, targets) * count + np.maximum(ends, targets))[chosen])
    first, second = codes // count, codes % count
    of_known = known[0] * count + known[1]
    places = np.searchsorted(codes, of_known)  # the candidates are few, the known pairs are many
    is_new = ~graph.joined(first, second)
    is_new[places[np.append(codes, -1)[places] == of_known]] = False
    return first[is_new], second[is_new]


def _canonicals_of_one_crowd(canonical: Numbers, ends: Numbers, others: Numbers) -> tuple[Numbers, Numbers]:
    """Pairs of canonical leaders that have the same crowd: of the texts that they are paired with, the most paired one.

    Each is paired with the first CROWD ones of its crowd, larger clusters first, so the pairs are linear.

    Args:
        canonical: (n,) leader of the canonical page of each version.
        ends, others: both ends of each pair of leaders, in both directions.
    """
    degrees = np.bincount(ends, minlength=len(canonical))
    chosen = (canonical[ends] == ends) & (degrees[others] > CROWD)
    ends, others = ends[chosen], others[chosen]
    order = np.lexsort((others, degrees[others], ends))
    ends, crowd = ends[order], others[order]
    is_last = np.append(ends[1:] != ends[:-1], True)[: len(ends)]
    ends, crowd = ends[is_last], crowd[is_last]
    order = np.lexsort((ends, -np.bincount(canonical, minlength=len(canonical))[ends], crowd))
    ends, crowd = ends[order], crowd[order]
    begins = np.searchsorted(crowd, crowd)
    before = np.minimum(np.arange(len(ends)) - begins, CROWD)
    return np.repeat(ends, before), ends[spans(begins, before)]


def _order(
    versions: Placed,
    graph: PairGraph,
    policy: CanonicalPolicy,
    anchors: Callable[[Numbers], Numbers] | None,
    chosen: Numbers,
    place: Numbers,
) -> Numbers:
    """The chosen versions from the best canonical to the worst."""
    row_keys = [versions.row_keys[number] for number in chosen.tolist()]
    pages = PolicyInput(
        row_keys,
        versions.timestamps[chosen],
        np.fromiter((len(url_of(key)) for key in row_keys), np.int64, len(row_keys)),
        None if anchors is None else anchors(chosen),
    )
    voters = targets = np.empty(0, np.int64)
    if policy is CanonicalPolicy.CANONICAL_LINK:
        declared = versions.declared[chosen]
        voters = np.flatnonzero(declared >= 0)
        targets = declared[voters]
        joined = graph.joined(chosen[voters], targets) & (place[targets] >= 0)
        voters, targets = voters[joined], place[targets[joined]]
        votes = np.full(len(chosen), -1, np.int64)
        votes[voters] = targets
        redirected = versions.redirected[chosen]
        voted = np.union1d(targets, np.flatnonzero(redirected))
        names: dict[bytes, int] = {}
        numbers = (names.setdefault(site(key), len(names)) for key in row_keys)
        sites = np.fromiter(numbers, np.int64, len(row_keys))
        sites[voters] = sites[targets]  # one that has moved to another site gives it its age, too
        ages = pages.timestamps.copy()
        ages[voted] = graph.oldest_of_site(chosen, sites, pages.timestamps, voted)
        pages = replace(pages, declared=votes, redirected=redirected, site_timestamps=ages)
    return policy_order(pages, policy, voters, targets)


def _dissolve(clusters: Clusters, rows: Numbers) -> None:
    """Remove clusters that have versions of one row only."""
    several = np.zeros(len(rows), bool)
    several[clusters.canonical[rows != rows[clusters.canonical]]] = True
    alone = ~several[clusters.canonical]
    clusters.canonical[alone] = np.flatnonzero(alone)
    clusters.similarity[alone] = 1.0


# --- which pages stay when duplicates go: one page of each cluster, among the pages of a selection
#
# Survivors are computed each time from live rows: the canonical if it is selected, else the oldest selected page of the
# cluster.  So if a canonical is deleted, another page represents its cluster, and nothing is lost.  Memory: about 200
# bytes a page.


class Survivors:
    """Which of the selected pages stay.  First add every selected capture, then ask for each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._clusters = store.clusters
        self._groups: dict[bytes, tuple[bool, int, bytes]] = {}  # sorts the best first: the canonical, then the oldest
        self._kernel = Kernel(store.schema.extractor, store.schema.shingle_words)

    def add(self, row_key: bytes, timestamp: int) -> None:
        """Take a selected capture into account."""
        page = self._clusters.of(row_key, timestamp)
        if page is None:
            return
        group = self._clusters.group(page)
        candidate = own_group(page) != group, page.timestamp, page.row_key
        best = self._groups.get(group)
        if best is None or candidate < best:
            self._groups[group] = candidate

    def keeps(self, row_key: bytes, timestamp: int) -> bool:
        """Whether a selected capture stays."""
        return self._survivor(row_key, timestamp) is None

    def dropped(self, row_key: bytes, timestamp: int) -> tuple[str, str, float] | None:
        """URLs of a capture that does not stay and of the page that represents it, and their exact similarity."""
        replaced = self._survivor(row_key, timestamp)
        if replaced is None:
            return None
        page, known = replaced
        return url_of(row_key), url_of(known[0]), self._similarity(page, known)

    def _survivor(self, row_key: bytes, timestamp: int) -> tuple[Membership, tuple[bytes, int]] | None:
        page = self._clusters.of(row_key, timestamp)
        survivor = None if page is None else self._groups.get(self._clusters.group(page))
        if page is None or survivor is None or survivor[1:] == (page.timestamp, row_key):
            return None
        return page, (survivor[2], survivor[1])

    def _similarity(self, page: Membership, known: tuple[bytes, int]) -> float:
        if page.place is not None and page.place[:2] == known:
            return page.place.similarity
        if (page.of_row_key, page.of_timestamp) == known:
            return page.similarity
        text, survivor_text = (self._text(row_key, at) for row_key, at in ((page.row_key, page.timestamp), known))
        if text == survivor_text:
            return 1.0
        mine, theirs = self._kernel.shingles(text), self._kernel.shingles(survivor_text)
        return jaccard(docstore_native.overlap(mine, theirs), len(mine), len(theirs))

    def _text(self, row_key: bytes, timestamp: int) -> str:
        document = self._store.unreadable.attempt(
            lambda: self._store.get(url_of(row_key), at=timestamp, families=("text",)),
            Place(row_key, *MAIN, timestamp),
        )
        return "" if document is None else document.text or ""
