"""Pairs of a sweep that titles set apart: the rule of `dedup.comparable` over all pages of a store.

Knows `dedup.comparable` and the arrays of versions; must not know how shingles are compared.  A write sees the pages
that came before it: some 16 to 32 texts like its own, and the 64 oldest pages of each.  A sweep sees all pages with
texts near one of the two, so it sets apart pairs for which a write had no evidence yet.

Versions of equal text and title words are one group, and a pair is one of groups.  It is set apart if all pairs of its
pages are.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.comparable import TitledPage, has_evidence, title_mismatch, titles_contradict
from docstore.model.keys import host_of
from docstore.reference.fingerprints import Numbers
from docstore.sweep.pages import Versions
from docstore.sweep.texts import Maker

MAX_CACHED_TITLES = 16_384
"""LRU cache of titles and their words, some 16 MB."""
MAX_WITNESSES = 3


def set_apart(
    versions: Versions, maker: Maker, leader: Numbers, first: Numbers, second: Numbers, is_near: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which pairs titles set apart.

    Args:
        versions: of the sweep.
        maker: gives their texts and bodies.
        leader: (n,) the first version of each one's group.
        first, second: (pairs,) leaders.
        is_near: (pairs,) bool: alike enough to be evidence for each other.
    """
    by_leader = np.argsort(leader, kind="stable")
    ends = np.concatenate([first[is_near], second[is_near]])
    order = np.argsort(ends, kind="stable")
    ends, others = ends[order], np.concatenate([second[is_near], first[is_near]])[order]

    def slice_of(keys: Numbers, values: Numbers, number: int) -> list[int]:
        begin, end = np.searchsorted(keys, (number, number + 1))
        found: list[int] = values[begin:end].tolist()
        return found

    leaders_in_order = leader[by_leader]

    @lru_cache(MAX_CACHED_TITLES)
    def page(number: int) -> TitledPage:
        title = versions.titles[number].decode("utf-8", "surrogatepass")
        return TitledPage(versions.row_keys[number], title, lambda: maker.text(number), lambda: maker.body(number))

    @lru_cache(MAX_CACHED_TITLES)
    def hosts(group: int) -> dict[bytes, int]:
        """The first version of each host."""
        members = slice_of(leaders_in_order, by_leader, group)
        return {host_of(versions.row_keys[number]): number for number in reversed(members)}

    @lru_cache(MAX_CACHED_TITLES)
    def witnesses(host: bytes, group: int) -> list[TitledPage]:
        """Of a host's pages with texts near that of a group, at most three whose titles contradict each other."""
        found: list[TitledPage] = []
        for each in [group, *slice_of(ends, others, group)] if host else []:
            number = hosts(each).get(host)
            if number is not None and all(titles_contradict(page(number), other) for other in found):
                found.append(page(number))
                if len(found) == MAX_WITNESSES:
                    break
        return found

    def is_bare(own: TitledPage, other: TitledPage, of_host: list[TitledPage]) -> bool:
        """Whether the host of a page has no evidence against pairs of it with pages of other hosts."""
        return own.is_article or not has_evidence(own, other, of_host)

    def is_apart(one: int, other: int) -> bool:
        if not titles_contradict(page(one), page(other)):
            return False
        ours, theirs = hosts(one), hosts(other)
        # a group has one text and title, so evidence of a host is evidence for all of its pairs with other hosts
        bare = {host for host, number in ours.items() if is_bare(page(number), page(other), witnesses(host, one))}
        others_bare = bare and {
            host for host, number in theirs.items() if is_bare(page(number), page(one), witnesses(host, other))
        }
        if bare and others_bare and (len(bare | others_bare) > 1 or b"" in bare):
            return False
        return all(
            title_mismatch(page(ours[host]), page(theirs[host]), chain(witnesses(host, one), witnesses(host, other)))
            for host in (ours.keys() & theirs.keys()) - {b""}
        )

    pairs = zip(first.tolist(), second.tolist(), strict=True)
    return np.fromiter((is_apart(one, other) for one, other in pairs), np.bool_, len(first))
