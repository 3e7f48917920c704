"""Encoding the values of judged pages: what each may be a delta against, and which pages share one value.

`Encoder` takes the pages of a batch in their order, appends their values to the backend, and returns the columns of
their records.  Bases are tried in this order: the row's own older version, the same path in another version or language
of the site (`Siblings`), then the nearest page.  A page of the same batch can be a base, and gets its ref here.  How a
verdict comes about is not known here, nor the commit.  The caller holds the committer's lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from docstore.model import capture
from docstore.model.capture import BODY, MAIN, Column
from docstore.model.format import CAPTURE_STORED, INLINE_LIMIT_BYTES, SCHEME_BLAKE3_256
from docstore.model.pointers import PagePointer
from docstore.model.types import RowMutations, VerdictKind
from docstore.storage.bases import LARGEST_BASE_BYTES, Base, NewValue, StoredValue, value_name
from docstore.storage.cache import LruCache, Memory
from docstore.storage.port import Values
from docstore.storage.values import INLINE_TAG
from docstore.storage.writes import Write
from docstore.writing.batch import View

LONGEST_INLINE = len(INLINE_TAG) + INLINE_LIMIT_BYTES
"""Bytes of the longest cell value that stays in its record."""


Part = NewValue | Base
"""The value of a column of a page: one that is appended, or a stored body that the page shares."""


class Encoder:
    """Encodes and appends the values of pages."""

    def __init__(self, values: Values, view: View) -> None:
        self._values = values
        self._view = view
        self._bases = view.bases
        self._siblings = Siblings(view.memory)

    def encode(self, writes: Sequence[Write]) -> tuple[dict[PagePointer, dict[Column, bytes]], list[RowMutations]]:
        """Append the values of pages and visits, for the next commit.

        Args:
            writes: with records, in the order of the batch.
        Returns:
            The cell values of each record by column; and the rows of bases, to be written before the records.
        """
        batch: dict[PagePointer, dict[Column, Part]] = {}
        for write in writes:
            batch[write.pointer] = self._parts(write, batch)
        values = [part for parts in batch.values() for part in parts.values() if isinstance(part, NewValue)]
        appended = iter(self._values.append_values(values))
        columns: dict[PagePointer, dict[Column, bytes]] = {}
        stored: list[StoredValue] = []
        for write in writes:
            assert write.record is not None
            its_columns = columns[write.pointer] = dict(write.record.columns)
            for column, part in batch[write.pointer].items():
                stored.append(StoredValue(part.cell_value, part, True) if isinstance(part, Base) else next(appended))
                its_columns[column] = stored[-1].cell_value
        return columns, self._bases.new_rows(stored)

    def _parts(self, write: Write, batch: Mapping[PagePointer, Mapping[Column, Part]]) -> dict[Column, Part]:
        """The long values of a page, and its body and text with what they may be deltas against.

        Args:
            write: the page.
            batch: earlier pages of the batch.
        """
        assert write.record is not None
        columns, pointer = write.record.columns, write.pointer
        parts: dict[Column, Part] = {}
        if write.record.kind == CAPTURE_STORED:
            keeps_body = BODY not in columns
            related = self._related(write, batch) if keeps_body and self._values.shares_values else []
            if keeps_body:
                parts[BODY] = self._body(write, [body for body, _ in related], batch)
            raw = write.page.analysis.main_bytes
            name = value_name(raw) if INLINE_LIMIT_BYTES < len(raw) <= LARGEST_BASE_BYTES else b""
            body = parts.get(BODY)
            own_body = body if isinstance(body, NewValue) else None
            parts[MAIN] = NewValue(pointer, MAIN, raw, name, [text for _, text in related], body=own_body)
        for column, value in columns.items():
            if len(value) > LONGEST_INLINE:
                parts[column] = NewValue(pointer, column, value[1:])
        return parts

    def _body(self, write: Write, bases: Sequence[Part], batch: Mapping[PagePointer, Mapping[Column, Part]]) -> Part:
        """The body of a page, or the stored body that it shares: that of an exact copy that is stored by reference."""
        verdict, raw = write.verdict, write.page.page.body
        same: Part | None = None
        is_copy = verdict.stored == capture.STORED_REFERENCE and verdict.kind is VerdictKind.EXACT
        if verdict.of is not None and is_copy and self._values.shares_values:
            same = self._part(batch, verdict.of, BODY)
            if same is not None and same.raw != raw:
                same = None
        if isinstance(same, Base):
            return same
        name = b""
        if len(raw) <= LARGEST_BASE_BYTES:
            checksum = write.page.analysis.body_checksum  # mostly its head is the name of the body
            name = checksum[1:17] if checksum[0] == SCHEME_BLAKE3_256 else value_name(raw)
        return NewValue(write.pointer, BODY, raw, name, bases, same=same)

    def _related(
        self, write: Write, batch: Mapping[PagePointer, Mapping[Column, Part]]
    ) -> list[tuple[Part, Part | None]]:
        """What the body and the text of a page may be deltas against; the cheapest to find first.

        It is the page's own older version, or the page of the same path in another version of the site; then the
        nearest page.
        """
        if write.is_damaged:
            return []
        pages: list[tuple[PagePointer, Mapping[Column, bytes] | None]] = []
        sibling = self._siblings.meet(write.page.path_key, write.pointer)
        if write.previous is not None:
            pages.append((PagePointer(write.previous.source, write.page.row_key), write.previous.columns))
        elif sibling is not None:
            pages.append((sibling, None))
        if write.nearest is not None:
            pages.append((write.nearest, None))
        has_text = len(write.page.analysis.main_bytes) > INLINE_LIMIT_BYTES
        related: list[tuple[Part, Part | None]] = []
        for pointer, columns in pages:
            body = self._part(batch, pointer, BODY, columns)
            if body is not None:
                related.append((body, self._part(batch, pointer, MAIN, columns) if has_text else None))
        return related

    def _part(
        self,
        batch: Mapping[PagePointer, Mapping[Column, Part]],
        pointer: PagePointer,
        column: Column,
        columns: Mapping[Column, bytes] | None = None,
    ) -> Part | None:
        """The body or text of a page, or its base, if another value may be a delta against it.

        Args:
            batch: earlier pages of the batch.
            pointer: the page.
            column: of the value.
            columns: of the page, if they are known; a policy may hide them once the batch is committed.
        """
        parts = batch.get(pointer)
        if parts is not None:
            part = parts.get(column)
        else:
            cell_value = self._view.cell_value(pointer, column) if columns is None else columns.get(column)
            part = None if cell_value is None else self._bases.at(cell_value, column, pointer)
        if part is None or not part.name:
            return None
        cell_value = part.cell_value if isinstance(part, Base) else b""
        return part if self._bases.is_usable(part.name, cell_value) else None


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
