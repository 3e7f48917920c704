"""Encoding the values of judged pages: what each may be a delta against, and which pages share one value.

`Encoder` takes the pages of a batch in their order, appends their values to the backend, and returns the columns of
their records.  Bases are tried in this order: the row's own older version, the same path in another version or language
of the site (`Siblings`), then the nearest page.  A page of the same batch can be a base, and gets its ref here.  How a
verdict comes about is not known here, nor the commit.  The caller holds the committer's lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from docstore.model import capture
from docstore.model.capture import BODY, MAIN, Column
from docstore.model.format import CAPTURE_STORED, INLINE_LIMIT_BYTES, SCHEME_BLAKE3_256
from docstore.model.pointers import PagePointer
from docstore.model.types import RowMutations, VerdictKind
from docstore.storage.bases import LARGEST_BASE_BYTES, Base, NewPage, Relative, value_name
from docstore.storage.cache import LruCache, Memory
from docstore.storage.port import Values
from docstore.storage.values import INLINE_TAG
from docstore.storage.writes import Write
from docstore.writing.batch import View

LONGEST_INLINE = len(INLINE_TAG) + INLINE_LIMIT_BYTES
"""Bytes of the longest cell value that stays in its record."""


class Encoded(NamedTuple):
    """The values of a batch, appended.

    Attributes:
        columns: cell values of each record, by row and time.
        base_rows: rows of bases, to be written before the records.
        bases: the base to use for a value that resembles one of the batch, by its cell value.
    """

    columns: Mapping[PagePointer, dict[Column, bytes]]
    base_rows: list[RowMutations]
    bases: Mapping[bytes, Base]


class Encoder:
    """Encodes and appends the values of pages."""

    def __init__(self, values: Values, view: View) -> None:
        self._values = values
        self._view = view
        self._bases = view.bases
        self._siblings = Siblings(view.memory)

    def encode(self, writes: Sequence[Write]) -> Encoded:
        """Append the values of pages and visits.

        Args:
            writes: with records, in the order of the batch.
        """
        pages: list[NewPage] = []
        batch: dict[PagePointer, NewPage] = {}
        for write in writes:
            page = batch[write.pointer] = self._new_page(write, batch)
            pages.append(page)
        columns: dict[PagePointer, dict[Column, bytes]] = {}
        bases: dict[bytes, Base] = {}
        needed: list[Base] = []
        for write, page, stored in zip(writes, pages, self._values.append_pages(pages), strict=True):
            assert write.record is not None
            its_columns = columns[write.pointer] = write.record.columns | stored.cell_values
            if isinstance(page.same_body, Base):
                its_columns[BODY] = page.same_body.cell_value
                stored.bases[BODY] = page.same_body
            for column, base in stored.bases.items():
                bases[its_columns[column]] = base
                is_shared = page.same_body is not None and column == BODY
                if is_shared or base.cell_value not in stored.cell_values.values():  # its own values need no row
                    needed.append(base)
        return Encoded(columns, self._bases.new_rows(needed), bases)

    def _new_page(self, write: Write, batch: Mapping[PagePointer, NewPage]) -> NewPage:
        """The values of a page that are appended, and what they resemble.

        Args:
            write: the page.
            batch: earlier pages of the batch.
        """
        assert write.record is not None
        columns = write.record.columns
        long: dict[Column, bytes] = {}
        if max(map(len, columns.values()), default=0) > LONGEST_INLINE:
            long = {column: value[1:] for column, value in columns.items() if len(value) > LONGEST_INLINE}
        if write.record.kind != CAPTURE_STORED:
            return NewPage(write.pointer, long)
        values = {MAIN: write.page.analysed.main_bytes} | long
        if BODY in columns:  # it is not kept
            return NewPage(write.pointer, values)
        same = self._with_same_body(write, batch)
        relatives = [] if write.is_damaged else self._relatives(write, batch)
        text_name = value_name(values[MAIN]) if len(values[MAIN]) > INLINE_LIMIT_BYTES else b""
        if isinstance(same, Base):
            return NewPage(write.pointer, values, relatives, same, b"", text_name)
        body = write.page.page.body
        checksum = write.page.analysed.body_checksum  # mostly its head is the name of the body
        body_name = checksum[1:17] if checksum[0] == SCHEME_BLAKE3_256 else value_name(body)
        return NewPage(write.pointer, {BODY: body} | values, relatives, same, body_name, text_name)

    def _with_same_body(self, write: Write, batch: Mapping[PagePointer, NewPage]) -> Base | NewPage | None:
        """The stored body that a page stored by reference shares, or the page of the batch that has it; else None."""
        verdict, body = write.verdict, write.page.page.body
        if verdict.of is None or verdict.stored != capture.STORED_REFERENCE or verdict.kind is not VerdictKind.EXACT:
            return None
        same = self._of_page(batch, verdict.of, BODY)
        if isinstance(same, Base):
            return same if same.raw == body else None
        return same if same is not None and same.values.get(BODY) == body else None

    def _relatives(self, write: Write, batch: Mapping[PagePointer, NewPage]) -> list[Relative]:
        """What body and text may be deltas against; the cheapest to find first.

        It is the page's own older version, or the page of the same path in another version of the site; then the
        nearest page.  Nothing if each value has a cell of its own.
        """
        if not self._values.shares_values:
            return []
        found: list[tuple[PagePointer, Mapping[Column, bytes] | None]] = []
        sibling = self._siblings.meet(write.page.path_key, write.pointer)
        if write.previous is not None:
            found.append((PagePointer(write.previous.source, write.page.row_key), write.previous.columns))
        elif sibling is not None:
            found.append((sibling, None))
        if write.nearest is not None:
            found.append((write.nearest, None))
        has_text = len(write.page.analysed.main_bytes) > INLINE_LIMIT_BYTES
        relatives = []
        for pointer, columns in found:
            body = self._of_page(batch, pointer, BODY, columns)
            text = self._of_page(batch, pointer, MAIN, columns) if has_text and body is not None else None
            relatives.append(Relative(body, text))
        return relatives

    def _of_page(
        self,
        batch: Mapping[PagePointer, NewPage],
        pointer: PagePointer,
        column: Column,
        columns: Mapping[Column, bytes] | None = None,
    ) -> Base | NewPage | None:
        """What a page offers as a base, if it may be used; of a page of the batch, that page.

        Args:
            batch: earlier pages of the batch.
            pointer: the page.
            column: of the value.
            columns: of the page, if they are known; a policy may hide them once the batch is committed.
        """
        if not self._values.shares_values:
            return None
        page = batch.get(pointer)
        if page is not None and column == BODY and isinstance(page.same_body, Base):
            base: Base | None = page.same_body
        elif page is not None:
            name = page.body_name if column == BODY else page.text_name
            is_usable = len(page.values.get(column, b"")) <= LARGEST_BASE_BYTES and self._bases.is_usable(name, b"")
            return page if is_usable else None
        else:
            cell_value = self._view.cell_value(pointer, column) if columns is None else columns.get(column)
            base = None if cell_value is None else self._bases.at(cell_value, column, pointer)
        return base if base is not None and self._bases.is_usable(base.name, base.cell_value) else None


class Siblings:
    """The newest page of each key without its versions.  Not thread-safe: the sequencer owns it.

    The oldest goes first.  After a restart the map fills again: compaction finds what was missed.
    """

    def __init__(self, memory: Memory) -> None:
        self._newest: LruCache[bytes, PagePointer] = memory.cache(
            "siblings", lambda pointer: 150 + len(pointer.row_key)
        )

    def meet(self, key: bytes, pointer: PagePointer) -> PagePointer | None:
        """The page that came last under a key of `version_less`, if its row is another; this one is next."""
        if not key:
            return None
        before = self._newest.get(key)
        self._newest.put(key, pointer)
        return before if before is not None and before.row_key != pointer.row_key else None
