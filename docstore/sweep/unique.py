"""Which pages stay when duplicates go: one page of each cluster, among the pages of a selection.

Knows the clusters of pages; must not know file formats.  Survivors are computed each time from live rows: the canonical
if the selection has it, else the oldest page of its cluster.  If a canonical is deleted, another page represents its
cluster, and nothing is lost.  Memory: about 200 bytes a page.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from docstore.dedup.detector import jaccard
from docstore.dedup.kernel import Kernel
from docstore.model.capture import MAIN
from docstore.model.keys import url_of
from docstore.reading.collapse import Membership, own_group
from docstore.storage.unreadable import Place

if TYPE_CHECKING:  # types alone
    from docstore.attach import Store


class Dropped(NamedTuple):
    """A page that was left out, the page that represents it, and their exact similarity."""

    url: str
    canonical: str
    similarity: float


class _Survivor(NamedTuple):
    """Sorts the best first: the canonical, then the oldest, then by row key."""

    promoted: bool
    timestamp: int
    row_key: bytes


class Survivors:
    """Which of the selected pages stay.  First add every selected capture, then ask for each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._clusters = store.clusters
        self._groups: dict[bytes, _Survivor] = {}
        self._kernel = Kernel(store.schema.extractor, store.schema.shingle_words, store.schema.checksum)

    def add(self, row_key: bytes, timestamp: int) -> None:
        """Take a selected capture into account."""
        page = self._clusters.of(row_key, timestamp)
        if page is None:
            return
        group = self._clusters.group(page)
        candidate = _Survivor(own_group(page) != group, page.timestamp, page.row_key)
        best = self._groups.get(group)
        if best is None or candidate < best:
            self._groups[group] = candidate

    def keeps(self, row_key: bytes, timestamp: int) -> bool:
        """Whether a selected capture stays."""
        return self._instead(row_key, timestamp) is None

    def dropped(self, row_key: bytes, timestamp: int) -> Dropped | None:
        """The page that represents a capture that does not stay; None for one that stays."""
        instead = self._instead(row_key, timestamp)
        if instead is None:
            return None
        page, survivor = instead
        return Dropped(url_of(row_key), url_of(survivor.row_key), self._similarity(page, survivor))

    def _instead(self, row_key: bytes, timestamp: int) -> tuple[Membership, _Survivor] | None:
        page = self._clusters.of(row_key, timestamp)
        if page is None:
            return None
        survivor = self._groups.get(self._clusters.group(page))
        if survivor is None or (survivor.row_key, survivor.timestamp) == (row_key, page.timestamp):
            return None
        return page, survivor

    def _similarity(self, page: Membership, survivor: _Survivor) -> float:
        known = (survivor.row_key, survivor.timestamp)
        if page.place is not None and page.place[:2] == known:
            return page.place.similarity
        if (page.of_row_key, page.of_timestamp) == known:
            return page.similarity
        one, other = (self._text(row_key, at) for row_key, at in ((page.row_key, page.timestamp), known))
        if one == other:
            return 1.0
        mine, theirs = self._kernel.shingles(one), self._kernel.shingles(other)
        return jaccard(self._kernel.overlap(mine, theirs), len(mine), len(theirs))

    def _text(self, row_key: bytes, timestamp: int) -> str:
        document = self._store.unreadable.attempt(
            lambda: self._store.get(url_of(row_key), at=timestamp, families=("text",)),
            Place(row_key, *MAIN, timestamp),
        )
        return "" if document is None else document.text or ""


def lines(dropped: Iterator[Dropped]) -> Iterator[str]:
    """One line each, tab-separated: URL, canonical, similarity."""
    for one in dropped:
        yield f"{one.url}\t{one.canonical}\t{one.similarity:.6f}\n"
