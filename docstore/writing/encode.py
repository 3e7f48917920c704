"""Encoding the values of judged pages: what each may be a delta against, and which pages share one value.

`Encoder` takes the pages of a batch in their order, appends their values to the backend, and returns the columns of
their records.  Bases are tried in this order: the row's own older version, the same path in another version or language
of the site (`Siblings`), then the nearest page.  A page of the same batch can be a base, and gets its ref here.  How a
verdict comes about is not known here, nor the commit.  The caller holds the committer's lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from docstore.model import capture
from docstore.model.capture import BODY, MAIN, Column
from docstore.model.format import CAPTURE_STORED, INLINE_LIMIT_BYTES, SCHEME_BLAKE3_256
from docstore.model.pointers import PagePointer
from docstore.model.types import RowMutations, VerdictKind
from docstore.storage.bases import LARGEST_BASE_BYTES, Base, NewPage, Offers, value_name
from docstore.storage.cache import LruCache
from docstore.storage.captures import LiveCapture
from docstore.storage.port import Values
from docstore.storage.values import INLINE_TAG, is_absent
from docstore.writing.batch import View, Write

LONGEST_INLINE = len(INLINE_TAG) + INLINE_LIMIT_BYTES
"""Bytes of the longest cell value that stays in its record."""


class Encoded(NamedTuple):
    """The values of a batch, appended.

    Attributes:
        columns: cell values of each record, by row and time.
        base_rows: rows of bases, to be written before the records.
        bases: the base to use for a value that resembles one of the batch, by its cell value.
    """

    columns: Mapping[PagePointer, Mapping[Column, bytes]]
    base_rows: list[RowMutations]
    bases: Mapping[bytes, Base]


class Encoder:
    """Encodes and appends the values of pages."""

    def __init__(self, values: Values, view: View) -> None:
        self._values = values
        self._view = view
        self._bases = view.bases
        self._siblings = Siblings()

    def encode(self, writes: Sequence[Write]) -> Encoded:
        """Append the values of pages and visits.

        Args:
            writes: with records, in the order of the batch.
        """
        pages: list[NewPage] = []
        batch: dict[PagePointer, NewPage] = {}
        columns: dict[PagePointer, dict[Column, bytes]] = {}
        for write in writes:
            its_columns = columns[write.pointer] = dict(write.record.columns) if write.record is not None else {}
            page = batch[write.pointer] = self._new_page(write, its_columns, batch)
            pages.append(page)
        self._values.append_pages(pages)
        bases: dict[bytes, Base] = {}
        needed: list[Base] = []
        for page in pages:
            its_columns = columns[page.pointer]
            its_columns |= page.cell_values
            for column, base in page.bases.items():
                bases[its_columns[column]] = base
                is_shared = page.same_body is not None and column == BODY
                if is_shared or base.cell_value not in page.cell_values.values():  # its own values need no row
                    needed.append(base)
        return Encoded(columns, self._bases.new_rows(needed), bases)

    def _new_page(self, write: Write, columns: dict[Column, bytes], batch: Mapping[PagePointer, NewPage]) -> NewPage:
        """The values of a page that are appended, and what they resemble.

        Args:
            write: the page.
            columns: of its record; the ref of a body that a committed page has already is put into them.
            batch: earlier pages of the batch.
        """
        long = {
            column: value[1:]
            for column, value in columns.items()
            if len(value) > LONGEST_INLINE and column not in (BODY, MAIN)  # these two have rules of their own
        }
        if write.record is None or write.record.kind != CAPTURE_STORED:
            return NewPage(write.pointer, long)
        values = {MAIN: write.page.analysed.main_bytes} | long
        if is_absent(columns[BODY]):
            return NewPage(write.pointer, values)
        offers = [] if write.is_damaged else self._relatives(write, batch)
        same = self._with_same_body(write, batch)
        if isinstance(same, Base):
            columns[BODY] = same.cell_value
            page = NewPage(write.pointer, values, offers)
            page.bases[BODY] = same
            return page
        body = write.page.page.body
        page = NewPage(write.pointer, {BODY: body} | values, offers)
        page.same_body = same
        checksum = write.page.analysed.body_checksum  # mostly its head is the name of the body
        page.body_name = checksum[1:17] if checksum[0] == SCHEME_BLAKE3_256 else value_name(body)
        return page

    def _with_same_body(self, write: Write, batch: Mapping[PagePointer, NewPage]) -> Base | NewPage | None:
        """The stored body that a page stored by reference shares, or the page of the batch that has it; else None."""
        verdict, body = write.verdict, write.page.page.body
        if verdict.of is None or verdict.stored != capture.STORED_REFERENCE or verdict.kind is not VerdictKind.EXACT:
            return None
        same = self._of_page(batch, verdict.of, BODY)
        if isinstance(same, Base):
            return same if same.raw == body else None
        return same if same is not None and same.values.get(BODY) == body else None

    def _relatives(self, write: Write, batch: Mapping[PagePointer, NewPage]) -> list[Offers]:
        """What to try for the body, and then for the text; the cheapest to find first.

        It is the page's own older version, or the page of the same path in another version of the site; then the
        nearest page.  Nothing if each value has a cell of its own.
        """
        if not self._values.shares_values:
            return []
        found: list[Offers] = []
        sibling = self._siblings.meet(write.page.path_key, write.pointer)
        if write.previous is not None:
            found.append(partial(self._of_previous, batch, write.previous, write.page.row_key))
        elif sibling is not None:
            found.append(partial(self._of_page, batch, sibling))
        if write.nearest is not None:
            found.append(partial(self._of_page, batch, write.nearest))
        return found

    def _of_page(
        self, batch: Mapping[PagePointer, NewPage], pointer: PagePointer, column: Column
    ) -> Base | NewPage | None:
        """What a page offers as a base, if it may be used; of a page of the batch, that page."""
        if not self._values.shares_values:
            return None
        if (page := batch.get(pointer)) is not None:
            if (base := page.bases.get(column)) is not None:
                return base if self._bases.is_usable(base.name, base.cell_value) else None
            name = page.body_name if column == BODY else page.text_name
            is_usable = len(page.values.get(column, b"")) <= LARGEST_BASE_BYTES and self._bases.is_usable(name, b"")
            return page if is_usable else None
        cell_value = self._view.cell_value(pointer, column)
        return None if cell_value is None else self._usable(cell_value, column, pointer)

    def _of_previous(
        self, batch: Mapping[PagePointer, NewPage], previous: LiveCapture, row_key: bytes, column: Column
    ) -> Base | NewPage | None:
        value, pointer = previous.columns.get(column), PagePointer(previous.source, row_key)
        if pointer in batch:
            return self._of_page(batch, pointer, column)
        return None if value is None else self._usable(value, column, pointer)

    def _usable(self, cell_value: bytes, column: Column, pointer: PagePointer) -> Base | None:
        base = self._bases.at(cell_value, column, pointer)
        return base if base is not None and self._bases.is_usable(base.name, base.cell_value) else None


MAX_CACHED_KEYS = 65_536
"""Some 20 MB; the oldest goes first.  After a restart the map fills again: compaction finds what was missed."""


class Siblings:
    """The newest page of each key without its versions.  Not thread-safe: the sequencer owns it."""

    def __init__(self) -> None:
        self._newest: LruCache[bytes, PagePointer] = LruCache(MAX_CACHED_KEYS)

    def meet(self, key: bytes, pointer: PagePointer) -> PagePointer | None:
        """The page that came last under a key of `version_less`, if its row is another; this one is next."""
        if not key:
            return None
        before = self._newest.get(key)
        self._newest.put(key, pointer)
        return before if before is not None and before.row_key != pointer.row_key else None
