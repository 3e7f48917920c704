"""Committed pages as the detector sees them: the columns that verdicts need, of live versions."""

from __future__ import annotations

from docstore.dedup.buckets import NOTHING_NEW
from docstore.dedup.comparable import TitledPage, bodies_compare
from docstore.dedup.detector import StoredPage
from docstore.dedup.kernel import decides_alone
from docstore.model.capture import (
    BODY,
    CHECKSUM,
    ENTRIES,
    MAIN,
    SKETCH,
    STATUS,
    TEXT_CHECKSUM,
    TITLE,
    Column,
    decode_sketch,
)
from docstore.model.pointers import PagePointer
from docstore.storage.captures import LiveCapture
from docstore.storage.port import Values
from docstore.storage.table import Table
from docstore.storage.unreadable import Place
from docstore.storage.values import INLINE_TAG, through_moves


class StoredPages:
    """Reads committed pages for verdicts.  Not thread-safe.

    Attributes:
        visibility_unknown: never: what is committed is live or gone.
        postings: none: all are committed.
    """

    visibility_unknown = False
    postings = NOTHING_NEW

    def __init__(self, table: Table, values: Values) -> None:
        self._table = table
        self._values = values
        self._unusable: set[PagePointer] = set()
        """Live versions that were found to be unreadable."""

    def capture(self, pointer: PagePointer) -> LiveCapture | None:
        """The live page at that row and time; None if there is none."""
        found = self._table.capture_at(pointer.row_key, pointer.timestamp)
        return found if found is not None and found.shows_page else None

    def page(self, pointer: PagePointer) -> StoredPage | None:
        """What verdicts need of the live version at that row and time; None when there is none that can be read."""
        found = None if pointer in self._unusable else self.capture(pointer)
        return None if found is None else self._page_of(found)

    def _page_of(self, found: LiveCapture) -> StoredPage | None:
        columns = found.columns
        if CHECKSUM not in columns:
            return None
        text_checksum = self._value(columns, TEXT_CHECKSUM) if MAIN in columns else b""
        sketch = decode_sketch(self._value(columns, SKETCH))
        status = int(columns.get(STATUS, b"")[1:] or b"0")
        page = StoredPage(self._value(columns, CHECKSUM), text_checksum, *sketch, status, ENTRIES in columns)
        page.columns = columns
        return page

    def titled(self, pointer: PagePointer) -> TitledPage:
        """Its title and text, for a comparison by words."""
        title = (self._column(pointer, TITLE) or b"").decode("utf-8", "surrogatepass")
        return TitledPage(pointer.row_key, title, lambda: self.text(pointer) or "", lambda: self.body(pointer))

    def text(self, pointer: PagePointer) -> str | None:
        """Its stored text; None if it cannot be read."""
        text = self._column(pointer, MAIN)
        return None if text is None else text.decode("utf-8", "surrogatepass")

    def body(self, pointer: PagePointer) -> bytes | None:
        """Its stored body; None if it cannot be read."""
        return self._column(pointer, BODY)

    def is_readable(self, pointer: PagePointer) -> bool:
        """Whether its body can be read."""
        return self.body(pointer) is not None

    def cell_value(self, pointer: PagePointer, column: Column) -> bytes | None:
        """Where a value of a version lies; None if it has none."""
        found = self.capture(pointer)
        return None if found is None else found.columns.get(column)

    def stands(self, pointer: PagePointer) -> bool:
        """Whether a version is live and what its URL shows today: nothing newer there has other bytes or another status
        class."""
        page = self.page(pointer)
        newest = None if page is None else self._table.newest_capture(pointer.row_key)
        if page is None or newest is None:
            return False
        if newest.timestamp == pointer.timestamp:
            return True
        shown = PagePointer(newest.timestamp, pointer.row_key)
        newer = self.page(shown)
        return (
            newer is not None
            and newer.checksum == page.checksum
            and (decides_alone(page.checksum) or self.body(shown) == self.body(pointer))
            and bodies_compare(page.status, newer.status)
        )

    def _value(self, columns: dict[Column, bytes], column: Column) -> bytes:
        cell_value = columns.get(column)
        return b"" if cell_value is None else self._values.fetch(cell_value)

    def _column(self, pointer: PagePointer, column: Column) -> bytes | None:
        """A value of a version, b"" if it has none; None if it cannot be read: no more is asked of it then."""

        def look_up() -> bytes:
            return self.cell_value(pointer, column) or INLINE_TAG

        place = Place(pointer.row_key, *column, pointer.timestamp)
        value = self._values.unreadable.attempt(lambda: through_moves(look_up, self._values.fetch), place)
        if value is None:
            self._unusable.add(pointer)
        return value
