"""Pages at hand: what the detector asked of the last pages that were written or read, so that no row is read again.

Knows what a verdict needs of a page; must not know rows, policies or commits.  Whoever fills it says when it
is no longer true: `PageRows` forgets a row that is written, and everything when anybody else has committed.
"""

from __future__ import annotations

from collections.abc import Set

from docstore.dedup.detector import StoredPage
from docstore.model.pointers import PagePointer

PAGES_HELD = 16_384
"""Some 18 MB: nearly every candidate is one of the last pages of the same site."""


SHARED_ROWS_HELD = 16_384
"""Some 7 MB: a page of a template leans on the base that the last ones leaned on."""


class RecentPage:
    """Columns of one live version; None where a column has not been asked for yet.

    Attributes:
        page: what every verdict needs.
        title: as shown.
        status: of HTTP.
        envelope: of its body.
        text: envelope of its text.
    """

    __slots__ = ("envelope", "page", "status", "text", "title")

    def __init__(
        self,
        page: StoredPage,
        title: str | None = None,
        status: int | None = None,
        envelope: bytes | None = None,
        text: bytes | None = None,
    ) -> None:
        self.page = page
        self.title = title
        self.status = status
        self.envelope = envelope
        self.text = text


class RecentPages:
    """The last pages by pointer, first in first out."""

    def __init__(self, limit: int = PAGES_HELD) -> None:
        self._limit = limit
        self._pages: dict[PagePointer, RecentPage] = {}
        self._of_row: dict[bytes, list[PagePointer]] = {}
        self.get = self._pages.get

    def put(self, pointer: PagePointer, page: RecentPage) -> None:
        """Hold a live version."""
        pages = self._pages
        if pointer not in pages:
            self._of_row.setdefault(pointer[1], []).append(pointer)
            if len(pages) >= self._limit:
                self._drop(next(iter(pages)))
        pages[pointer] = page

    def _drop(self, pointer: PagePointer) -> None:
        del self._pages[pointer]
        others = self._of_row[pointer.row_key]
        others.remove(pointer)
        if not others:
            del self._of_row[pointer.row_key]

    def forget_rows(self, row_keys: Set[bytes]) -> None:
        """Let go of all versions of some rows; most of them are not held."""
        for row_key in self._of_row.keys() & row_keys:
            for pointer in self._of_row.pop(row_key):
                del self._pages[pointer]

    def forget(self) -> None:
        """Let go of everything."""
        self._pages.clear()
        self._of_row.clear()
