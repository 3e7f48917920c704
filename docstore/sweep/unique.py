"""Which pages stay when duplicates go: one page of each cluster, among the pages of a selection.

Knows the clusters of pages; must not know file formats.  Survivors are computed each time from live rows: the canonical
if the selection has it, else the oldest page of its cluster.  If a canonical is deleted, another page represents its
cluster, and nothing is lost.  Memory: about 200 bytes a page.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docstore.dedup.detector import jaccard
from docstore.dedup.kernel import Kernel
from docstore.model.capture import MAIN
from docstore.model.keys import url_of
from docstore.reading.collapse import Membership, own_group
from docstore.storage.unreadable import Place

if TYPE_CHECKING:  # types alone
    from docstore.attach import Store


class Survivors:
    """Which of the selected pages stay.  First add every selected capture, then ask for each."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._clusters = store.clusters
        self._groups: dict[bytes, tuple[bool, int, bytes]] = {}  # sorts the best first: the canonical, then the oldest
        self._kernel = Kernel(store.schema.extractor, store.schema.shingle_words, store.schema.checksum)

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
        return self._instead(row_key, timestamp) is None

    def dropped(self, row_key: bytes, timestamp: int) -> tuple[str, str, float] | None:
        """URLs of a capture that does not stay and of the page that represents it, and their exact similarity."""
        instead = self._instead(row_key, timestamp)
        if instead is None:
            return None
        page, known = instead
        return url_of(row_key), url_of(known[0]), self._similarity(page, known)

    def _instead(self, row_key: bytes, timestamp: int) -> tuple[Membership, tuple[bytes, int]] | None:
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
