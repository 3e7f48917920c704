"""Committed pages as the detector sees them: the columns that verdicts need, of live versions.

Knows the table, the columns of `capture` and where values lie; must not know the index, nor what is not committed.
"""

from __future__ import annotations

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
from docstore.model.types import ReadSpec
from docstore.reading.documents import DocumentReader
from docstore.storage.port import Values
from docstore.storage.table import Table

_JUDGED_FAMILIES = ("dedup", "page", "text")


class StoredPages:
    """Reads committed pages for verdicts.  Not thread-safe.

    Attributes:
        in_doubt: never: what is committed is live or gone.
    """

    in_doubt = False

    def __init__(self, table: Table, placement: Values) -> None:
        self._table = table
        self._placement = placement
        self._reader = DocumentReader(table, placement)
        self._may_hide = table.collects(_JUDGED_FAMILIES)
        self._unusable: set[PagePointer] = set()
        """Live versions that were found to be unreadable."""

    def page(self, pointer: PagePointer) -> StoredPage | None:
        """The live version at that row and time; None when there is none that can be read.

        A version whose text was deleted, or has expired, is one without text: it cannot be compared.
        """
        if pointer in self._unusable or (self._may_hide and self.envelope(pointer, BODY) is None):
            return None  # a body that a policy hides is told from the row's newest ones, other columns take more
        spec = ReadSpec(families=_JUDGED_FAMILIES, start=pointer.timestamp, end=pointer.timestamp + 1)
        columns = {(cell.family, cell.qualifier): cell.value for cell in self._table.read_row(pointer.row_key, spec)}
        if BODY not in columns or CHECKSUM not in columns:
            return None
        text_checksum = self._value(columns, TEXT_CHECKSUM) if MAIN in columns else b""
        sketch = decode_sketch(self._value(columns, SKETCH))
        return StoredPage(self._value(columns, CHECKSUM), text_checksum, *sketch, ENTRIES in columns)

    def title(self, pointer: PagePointer) -> str:
        """Its shown title."""
        return (self._column(pointer, TITLE) or b"").decode("utf-8", "surrogatepass")

    def titled(self, pointer: PagePointer) -> TitledPage:
        """Its title and text, for a comparison by words."""
        return TitledPage(
            pointer.row_key, self.title(pointer), lambda: self.text(pointer) or "", lambda: self.body(pointer)
        )

    def status(self, pointer: PagePointer) -> int:
        """Its HTTP status."""
        return int(self._column(pointer, STATUS) or b"0")

    def text(self, pointer: PagePointer) -> str | None:
        """Its stored text; None where it cannot be read."""
        text = self._column(pointer, MAIN)
        return None if text is None else text.decode("utf-8", "surrogatepass")

    def body(self, pointer: PagePointer) -> bytes | None:
        """Its stored body; None where it cannot be read."""
        return self._column(pointer, BODY)

    def is_readable(self, pointer: PagePointer) -> bool:
        """Whether its body can be read."""
        return self.body(pointer) is not None

    def envelope(self, pointer: PagePointer, column: Column) -> bytes | None:
        """Where a value of a version lies; None where it has none."""
        family, qualifier = column
        spec = ReadSpec((family,), qualifier, start=pointer.timestamp, end=pointer.timestamp + 1)
        cells = self._table.read_row(pointer.row_key, spec)
        return next((cell.value for cell in cells if cell.qualifier == qualifier), None)

    def stands(self, pointer: PagePointer) -> bool:
        """Whether a version is live and what its URL shows today: nothing newer there has other bytes or another status
        class."""
        page = self.page(pointer)
        newest = None if page is None else self._table.newest(pointer.row_key, *BODY)
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
            and bodies_compare(self.status(pointer), self.status(shown))
        )

    def _value(self, columns: dict[Column, bytes], column: Column) -> bytes:
        envelope = columns.get(column)
        return b"" if envelope is None else self._placement.fetch(envelope)

    def _column(self, pointer: PagePointer, column: Column) -> bytes | None:
        """A value of a version, b"" where it has none; None where it cannot be read: no more is asked of it then."""
        value = self._reader.value(pointer.row_key, column, pointer.timestamp)
        if value is None:
            self._unusable.add(pointer)
        return value
