"""Encoding the values of judged pages: what each may be a delta against, and which pages share one value.

`Encoder` takes the pages of a batch in their order, appends their values to the backend, and returns the columns of
their records.  Bases are tried in this order: the row's own older version, the same path in another version or language
of the site (`Siblings`), then the nearest page.  A page of the same batch can be a base, and gets its ref here.  The
encoder reads verdicts but decides none, and it commits nothing.  The caller holds the committer's lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from docstore.dedup.pages import Bases, LivePages
from docstore.model import capture
from docstore.model.capture import BODY, MAIN, Column, PagePointer
from docstore.model.choices import VerdictKind
from docstore.model.format import CAPTURE_STORED, INLINE_LIMIT_BYTES
from docstore.model.types import RowMutations
from docstore.storage.bases import LARGEST_BASE_BYTES, Base, NewValue, StoredValue
from docstore.storage.cache import LruCache, Memory
from docstore.storage.port import Values
from docstore.storage.values import INLINE_TAG
from docstore.storage.writes import Write

LONGEST_INLINE = len(INLINE_TAG) + INLINE_LIMIT_BYTES
"""Bytes of the longest cell value that stays in its record."""


Part = NewValue | Base
"""A long value of a page: one that is appended now, or a stored body that the page shares with another page."""
PartsByPage = Mapping[PagePointer, Mapping[Column, Part]]


class Encoder:
    """Encodes and appends the values of pages.

    Args:
        values: appends values.
        pages: live pages, of the batch and committed ones.
        bases: reads committed values that deltas are made against.
        memory: for `Siblings`.
    """

    def __init__(self, values: Values, pages: LivePages, bases: Bases, memory: Memory) -> None:
        self._values = values
        self._pages = pages
        self._bases = bases
        self._siblings = Siblings(memory)

    def encode(self, writes: Sequence[Write]) -> tuple[dict[PagePointer, dict[Column, bytes]], list[RowMutations]]:
        """Append the values of pages and visits, for the next commit.

        Args:
            writes: with records, in the order of the batch.
        Returns:
            The cell values of each record by column; and the rows of bases, to be written before the records.
        """
        parts_by_page: dict[PagePointer, dict[Column, Part]] = {}
        for write in writes:
            parts_by_page[write.pointer] = self._parts(write, parts_by_page)
        values = [part for parts in parts_by_page.values() for part in parts.values() if isinstance(part, NewValue)]
        appended = iter(self._values.append_values(values))
        columns: dict[PagePointer, dict[Column, bytes]] = {}
        stored: list[StoredValue] = []
        for write in writes:
            assert write.record is not None
            its_columns = columns[write.pointer] = dict(write.record.columns)
            for column, part in parts_by_page[write.pointer].items():
                stored.append(StoredValue(part.cell_value, part, True) if isinstance(part, Base) else next(appended))
                its_columns[column] = stored[-1].cell_value
        return columns, self._bases.new_rows(stored)

    def _parts(self, write: Write, earlier: PartsByPage) -> dict[Column, Part]:
        """The long values of a page.  Its body and text come with the values that they may be deltas against.

        Args:
            write: the page.
            earlier: long values of earlier pages of the batch.
        """
        assert write.record is not None
        columns, pointer = write.record.columns, write.pointer
        parts: dict[Column, Part] = {}
        if write.record.kind == CAPTURE_STORED:
            keeps_body = BODY not in columns
            candidates = self._base_candidates(write, earlier) if keeps_body and self._values.shares_values else []
            if keeps_body:
                parts[BODY] = self._body(write, [body for body, _ in candidates], earlier)
            raw = write.prepared.analysis.main_bytes
            is_base = INLINE_LIMIT_BYTES < len(raw) <= LARGEST_BASE_BYTES
            name = write.prepared.analysis.main_name if is_base else b""
            body = parts.get(BODY)
            own_body = body if isinstance(body, NewValue) else None
            parts[MAIN] = NewValue(pointer, MAIN, raw, name, [text for _, text in candidates], body=own_body)
        for column, value in columns.items():
            if len(value) > LONGEST_INLINE:
                parts[column] = NewValue(pointer, column, value[1:])
        return parts

    def _body(self, write: Write, bases: Sequence[Part], earlier: PartsByPage) -> Part:
        """The body of a page.  An exact copy that is stored by reference shares the body of the page that it copies."""
        verdict, raw = write.verdict, write.prepared.page.body
        same: Part | None = None
        is_copy = verdict.stored == capture.STORED_REFERENCE and verdict.kind is VerdictKind.EXACT
        if verdict.of is not None and is_copy and self._values.shares_values:
            same = self._base_candidate(earlier, verdict.of, BODY)
            if same is not None and same.raw != raw:
                same = None
        if isinstance(same, Base):
            return same
        name = b""
        if len(raw) <= LARGEST_BASE_BYTES:
            name = write.prepared.analysis.body_checksum[1:17]  # as `value_name` of the body
        return NewValue(write.pointer, BODY, raw, name, bases, same=same)

    def _base_candidates(self, write: Write, earlier: PartsByPage) -> list[tuple[Part, Part | None]]:
        """Body and text of those pages that the body and the text of a page may be deltas against.

        The first is the page's own older version or, without one, the page of the same path in another version of the
        site; the second is the nearest page.  The text is None if the page's own text is too short for a delta.
        """
        if write.is_damaged:
            return []
        pages: list[tuple[PagePointer, Mapping[Column, bytes] | None]] = []
        sibling = self._siblings.replace_newest(write.prepared.path_key, write.pointer)
        if write.previous is not None:
            pages.append((PagePointer(write.previous.source, write.prepared.row_key), write.previous.columns))
        elif sibling is not None:
            pages.append((sibling, None))
        if write.nearest is not None:
            pages.append((write.nearest, None))
        has_text = len(write.prepared.analysis.main_bytes) > INLINE_LIMIT_BYTES
        candidates: list[tuple[Part, Part | None]] = []
        for pointer, columns in pages:
            body = self._base_candidate(earlier, pointer, BODY, columns)
            if body is not None:
                candidates.append((body, self._base_candidate(earlier, pointer, MAIN, columns) if has_text else None))
        return candidates

    def _base_candidate(
        self,
        earlier: PartsByPage,
        pointer: PagePointer,
        column: Column,
        columns: Mapping[Column, bytes] | None = None,
    ) -> Part | None:
        """The body or text of a page as a base: the value itself, or its own base if it is a delta.

        None if no value may be a delta against it.

        Args:
            earlier: long values of earlier pages of the batch.
            pointer: the page.
            column: of the value.
            columns: of the page, if they are known; a policy may hide them once the batch is committed.
        """
        parts = earlier.get(pointer)
        if parts is not None:
            part = parts.get(column)
        else:
            cell_value = self._pages.cell_value(pointer, column) if columns is None else columns.get(column)
            part = None if cell_value is None else self._bases.base_for(cell_value, column, pointer)
        if part is None or not part.name:
            return None
        cell_value = part.cell_value if isinstance(part, Base) else b""
        return part if self._bases.is_usable(part.name, cell_value) else None


class Siblings:
    """The newest page of each path, where paths that differ only in a version or a language are one path.

    It is a cache in memory.  After a restart it fills again, and compaction finds the bases that were missed.  Not
    thread-safe: the sequencer owns it.
    """

    def __init__(self, memory: Memory) -> None:
        self._newest: LruCache[bytes, PagePointer] = memory.cache(
            "siblings", lambda pointer: 150 + len(pointer.row_key)
        )

    def replace_newest(self, key: bytes, pointer: PagePointer) -> PagePointer | None:
        """Record the newest page of a path; return the page before it if that is in another row.

        Args:
            key: of the path, from `version_less`; b"" for none.
            pointer: the newest page.
        """
        if not key:
            return None
        before = self._newest.get(key)
        self._newest.put(key, pointer)
        return before if before is not None and before.row_key != pointer.row_key else None
