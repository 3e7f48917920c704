"""What the writer has in memory of what is stored: the last pages, bodies and texts to lean on, rows of shared bodies.

Knows types alone; must not know rows, policies or commits.  All of it is of one epoch: `PageRows` forgets a row that is
written, and everything when anybody else has committed, be it a compaction, a delete or a cell set by hand.
"""

from __future__ import annotations

from collections.abc import Iterable

from docstore.dedup.detector import StoredPage
from docstore.dedup.doubt import TitledText
from docstore.model.pointers import PagePointer
from docstore.storage.cache import LruCache
from docstore.storage.sharing import Base
from docstore.writing.versions import TextBase

PAGES_HELD = 16_384
"""Some 18 MB: nearly every candidate is one of the last pages of the same site."""
SHARED_ROWS_HELD = 16_384
"""Some 7 MB: a page of a template leans on the base that the last ones leaned on."""
BASES_BYTES = 32 << 20
"""Bodies, and as many bytes of their texts: the next page is likely to resemble the last ones."""
PLAIN_TEXTS_BYTES = 8 << 20
"""Texts of pages that others are about to lean on: mostly the next ones of the same site."""


class RecentPage:
    """Columns of one live version; None where a column has not been asked for yet.

    Attributes:
        page: what every verdict needs.
        title: as shown.
        status: of HTTP.
        envelope: of its body.
        text: envelope of its text.
        titled: its title and text as words.
    """

    __slots__ = ("envelope", "page", "status", "text", "title", "titled")

    def __init__(
        self,
        page: StoredPage,
        title: str | None = None,
        status: int | None = None,
        envelope: bytes | None = None,
        text: bytes | None = None,
        titled: TitledText | None = None,
    ) -> None:
        self.page = page
        self.title = title
        self.status = status
        self.envelope = envelope
        self.text = text
        self.titled = titled


class Recent:
    """The last things read or written, each in an LRU cache.

    Attributes:
        shared: cells of rows of shared bodies, by name; not to be changed.
        bases: what a page can lean on whose body has this envelope.
        texts: what the text of a page can lean on whose body leans on the base of this name.
        plain: texts that lean on nothing, by envelope.

    Args:
        pages: most versions of pages.
        shared: most rows of shared bodies.
    """

    def __init__(self, *, pages: int = PAGES_HELD, shared: int = SHARED_ROWS_HELD) -> None:
        self._pages: LruCache[bytes, dict[int, RecentPage]] = LruCache(pages, len)
        self.shared: LruCache[bytes, dict[bytes, bytes]] = LruCache(shared)
        self.bases: LruCache[bytes, Base] = LruCache(BASES_BYTES, lambda base: len(base.raw))
        self.texts: LruCache[bytes, TextBase] = LruCache(BASES_BYTES, lambda text: len(text.raw))
        self.plain: LruCache[bytes, bytes] = LruCache(PLAIN_TEXTS_BYTES, len)

    def page(self, pointer: PagePointer) -> RecentPage | None:
        """A live version."""
        versions = self._pages.get(pointer.row_key)
        return None if versions is None else versions.get(pointer.timestamp)

    def put_page(self, pointer: PagePointer, page: RecentPage) -> None:
        """Hold a live version."""
        versions = self._pages.get(pointer.row_key) or {}
        versions[pointer.timestamp] = page
        self._pages.put(pointer.row_key, versions)

    def forget_rows(self, row_keys: Iterable[bytes]) -> None:
        """Let go of all versions of some rows."""
        for row_key in row_keys:
            self._pages.drop(row_key)

    def forget(self) -> None:
        """Let go of everything: another epoch has begun."""
        for cache in (self._pages, self.shared, self.bases, self.texts, self.plain):
            cache.clear()
