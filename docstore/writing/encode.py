"""Encoding the values of judged pages: native code decides what each may be a delta against, and which pages share one.

`Encoder` takes the pages of a batch in their order, and appends their values to the backend.  The group that it returns
has what the commit writes: the rows of bases, and the capture records with all their columns.  It reads verdicts but
decides none, and it commits nothing.  The caller holds the committer's lock.  The order in which bases are tried is
defined in `native/store/src/encoding.rs`.
"""

from __future__ import annotations

from collections.abc import Sequence

from docstore.compiled import docstore_native
from docstore.dedup.pages import Bases, LivePages
from docstore.model.capture import PagePointer
from docstore.storage.port import Values


class Encoder:
    """Encodes and appends the values of pages.

    Args:
        values: appends values.
        pages: live pages, of the batch and committed ones.
        bases: committed values that deltas are made against.
    """

    def __init__(self, values: Values, pages: LivePages, bases: Bases) -> None:
        self._values = values
        self._pages = pages
        self._bases = bases

    def encode(self, pages: Sequence[docstore_native.Judged]) -> docstore_native.Group:
        """Append the values of pages and visits, for the next commit.

        Args:
            pages: with records, in the order of the batch.
        """
        group = docstore_native.Group(self._values.shares_values)
        group.add_pages(list(pages), self._bases.native, self._bases.reader(self._cell_values))
        self._values.append_group(group)
        return group

    def pack_bases(self, group: docstore_native.Group, rows: docstore_native.PackedRows) -> None:
        """Add the rows of bases that go before the records of a group."""
        group.pack_bases(self._bases.native, rows)

    def _cell_values(self, row_key: bytes, timestamp: int) -> tuple[bytes | None, bytes | None]:
        """Cell values of body and text of a live page; None for one that it does not have."""
        page = self._pages.page(PagePointer(timestamp, row_key))
        return (None, None) if page is None else page.cells
