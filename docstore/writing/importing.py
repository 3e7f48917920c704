"""Rows of another store, written as they are: values placed again, bases resolved, postings made again.

A capture comes as its record without columns, in a cell of family `capture`, and a cell for each column.

Knows where values, bases and postings go; must not know where rows come from.  No verdict is given: those of the rows
stay.  A value that is a delta there becomes a delta against the same base here; a base that is not there yet is asked
for by its name, and placed for the page that holds it.  Band keys and fingerprints of texts are not posted here but by
`textorder`, in one order.  Thread-safe: a group is placed and committed under the committer's lock.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from docstore.dedup.buckets import RowBuckets
from docstore.dedup.comparable import text_compares
from docstore.dedup.index import HashIndex, page_postings
from docstore.model import capture
from docstore.model.errors import DocstoreError
from docstore.model.format import CAPTURE_FAMILY, CAPTURE_FIELDS, INLINE_LIMIT_BYTES, SCHEME_TEXT_1
from docstore.model.pointers import PagePointer
from docstore.model.types import DeleteCells, RowMutations, SetCell
from docstore.reading.index import open_buckets
from docstore.storage.bases import value_name
from docstore.storage.cache import LruCache
from docstore.storage.captures import CaptureRecord, decode_capture
from docstore.storage.envelope import is_absent
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Backend, Committer
from docstore.storage.table import TIMESTAMP_STEP_MICROS, Table
from docstore.storage.values import BODY_DELTA, TEXT_DELTA
from docstore.writing.batch import PAGES
from docstore.writing.tally import Tally

BASES_HELD_BYTES = 32 << 20
"""LRU cache of bases."""
RECORD_COLUMNS = frozenset(CAPTURE_FIELDS.values())
"""Columns of captures: these are put into the record of their time."""
CellKey = tuple[str, bytes, int]
"""Family, qualifier and timestamp of a cell."""


class FoundBase(NamedTuple):
    """A base in the store that rows come from.

    Attributes:
        row_key, column, timestamp: of a capture that holds this very value.
        raw: the value.
    """

    row_key: bytes
    column: capture.Column
    timestamp: int
    raw: bytes


class ImportedCell(NamedTuple):
    """A cell to write.

    Attributes:
        family, qualifier, timestamp, value: of the cell.
        base: name of the base that the value is a delta against there; b"" for none.
        is_base: it is a base there, or pages share it.
        stored_as: the same for cells of a row that hold one stored value; b"" for a value that stands in its cell.
    """

    family: str
    qualifier: bytes
    timestamp: int
    value: bytes
    base: bytes = b""
    is_base: bool = False
    stored_as: bytes = b""

    @property
    def column(self) -> capture.Column:
        """Family and qualifier."""
        return self.family, self.qualifier

    @property
    def key(self) -> CellKey:
        """Family, qualifier and timestamp."""
        return self.family, self.qualifier, self.timestamp


class ImportedRow(NamedTuple):
    """Cells of one row: captures as a whole, all of the row or a part.

    Attributes:
        row_key: of the row.
        cells: to write.
        posted: timestamps of captures that others are judged against.
        placed: envelopes of values that several cells of the row hold; filled here, the same for all parts of a row.
        there: cells that are there already, with these values.
    """

    row_key: bytes
    cells: Sequence[ImportedCell]
    posted: frozenset[int]
    placed: dict[bytes, bytes]
    there: frozenset[CellKey] = frozenset()


FindBase = Callable[[bytes], FoundBase | None]
"""A base by its name; None where that cannot be had: pages do without it."""


class RowImporter:
    """Writes rows into an open store."""

    def __init__(self, opened: Backend, table: Table, committer: Committer) -> None:
        opened.check_writable()
        opened.make_reserve()
        self._buckets = open_buckets(opened, table)
        self._placement = opened.placement
        self._base_rows = opened.base_rows
        self._committer = committer
        self._index = HashIndex(opened.engine, RowBuckets(opened.engine))
        self._tally = Tally(opened.engine, b"copy-" + os.urandom(8))
        self._bases: LruCache[bytes, bytes] = LruCache(BASES_HELD_BYTES, len)
        """By name; what is here has a row."""
        self._lying: dict[bytes, bytes | None] = {}
        """Where bases lie, as their rows are with the plan being made."""
        self._commits = -1

    def write(self, rows: Iterable[ImportedRow], find_base: FindBase) -> None:
        """Write rows in one commit.

        Raises:
            StorageError: nothing was applied.
            CommitUnknown: it may be applied; the same rows again are safe.
        """
        with self._committer.lock:
            if self._committer.commits != self._commits:  # others have committed
                self._bases.clear()
            self._lying = {}
            plan = Plan()
            cells: dict[bytes, list[SetCell]] = {}
            committed = False
            try:
                for row in rows:
                    cells.setdefault(row.row_key, []).extend(self._place(row, plan, find_base))
                    self._post(row, plan)
                plan.write(Stage.PAGES, (RowMutations(PAGES, key, placed) for key, placed in cells.items() if placed))
                plan.write(Stage.POSTINGS, self._buckets.mutations())  # without texts: it tells that there is an index
                plan.write(Stage.COUNTS, self._tally.rows())
                self._committer.commit(plan)
                self._tally.committed()
                self._commits = self._committer.commits
                committed = True
            finally:
                if not committed:
                    self._bases.clear()
                self._tally.rollback()
                self._buckets.end_group(committed=committed)

    # --- values

    def _place(self, row: ImportedRow, plan: Plan, find_base: FindBase) -> list[SetCell]:
        """Place the values of a row; -> its cells."""
        placed: list[SetCell] = []
        records: list[CaptureRecord] = []
        columns: dict[int, dict[capture.Column, bytes]] = {}
        for cell in row.cells:
            if cell.key in row.there:
                continue
            if cell.family == CAPTURE_FAMILY:
                records.append(decode_capture(cell.timestamp, cell.value))
                continue
            envelope = row.placed.get(cell.stored_as) if cell.stored_as else None
            if is_absent(cell.stored_as):
                envelope = cell.stored_as
            if envelope is None:
                if cell.column == capture.BODY:
                    self._committer.note_writes([(row.row_key, len(cell.value))])
                envelope = self._place_value(row.row_key, cell, plan, find_base)
                if cell.stored_as:
                    row.placed[cell.stored_as] = envelope
            if cell.column in RECORD_COLUMNS:
                columns.setdefault(cell.timestamp, {})[cell.column] = envelope
            else:
                placed.append(SetCell(cell.family, cell.qualifier, cell.timestamp, envelope))
        return placed + [one._replace(columns=columns.get(one.timestamp, {})).cell() for one in records]

    def remove(self, row_key: bytes, keys: Iterable[CellKey], now: int) -> None:
        """Remove cells of a row, and captures by the keys of their records, in one commit."""
        with self._committer.lock:
            gone = [DeleteCells(*key, key[2] + TIMESTAMP_STEP_MICROS) for key in keys]
            for mutation in gone:
                self._placement.mark_deleted(row_key, mutation, now)
            self._committer.commit(Plan().write(Stage.PAGES, [RowMutations(PAGES, row_key, gone)]))

    def _place_value(self, row_key: bytes, cell: ImportedCell, plan: Plan, find_base: FindBase) -> bytes:
        """Place a value; -> its cell value.

        A body that is a base here, and any value that is one on both sides, shares the record.
        """
        raw, column, timestamp = cell.value, cell.column, cell.timestamp
        place = self._placement
        is_long = len(raw) > INLINE_LIMIT_BYTES and place.shares_values
        if not is_long or not (column == capture.BODY or cell.is_base or cell.base):
            return place.place(row_key, column, timestamp, raw)
        name = value_name(raw)
        is_base = cell.is_base or cell.base == name
        if column == capture.BODY or is_base:
            lies = self._lies(name)
            if lies is not None and name not in self._base_rows.retired:
                return lies
        base = self._base(cell.base, plan, find_base) if cell.base and not is_base else None
        if base is not None:
            cost = TEXT_DELTA if column == capture.MAIN else BODY_DELTA
            return place.place_near(row_key, column, timestamp, raw, [(cell.base, base)], cost=cost)[0]
        envelope = place.place(row_key, column, timestamp, raw)
        if is_base:
            self._make_base(name, envelope, plan)
        return envelope

    def _base(self, name: bytes, plan: Plan, find_base: FindBase) -> bytes | None:
        """A base, placed for the page that holds it if it is not there yet; None for a delta without it."""
        if name in self._base_rows.retired:
            return None
        raw = self._bases.get(name)
        if raw is None:
            envelope = self._lies(name)
            if envelope is not None:
                raw = self._placement.fetch(envelope)
            else:
                found = find_base(name)
                if found is None or len(found.raw) <= INLINE_LIMIT_BYTES:
                    return None
                raw = found.raw
                envelope = self._placement.place(found.row_key, found.column, found.timestamp, raw)
                self._make_base(name, envelope, plan)
            self._bases.put(name, raw)
        return raw

    def _lies(self, name: bytes) -> bytes | None:
        if name not in self._lying:
            self._lying[name] = self._base_rows.envelope_of_likely_absent(name)
        return self._lying[name]

    def _make_base(self, name: bytes, envelope: bytes, plan: Plan) -> None:
        if name not in self._base_rows.retired:
            self._lying[name] = envelope
            plan.write(Stage.BASES, [self._base_rows.row(name, envelope)])

    # --- postings and counts

    def _post(self, row: ImportedRow, plan: Plan) -> None:
        captures: dict[int, dict[capture.Column, bytes]] = {}
        for cell in row.cells:
            captures.setdefault(cell.timestamp, {})[cell.column] = cell.value
        for timestamp, columns in captures.items():
            pointer = PagePointer(timestamp, row.row_key)
            checksum = columns.get(capture.CHECKSUM, b"")
            if checksum and timestamp in row.posted:
                text = columns.get(capture.TEXT_CHECKSUM, b"")
                is_good = text_compares(int(columns.get(capture.STATUS) or b"0")) and text[:1] == bytes(
                    (SCHEME_TEXT_1,)
                )
                title = columns.get(capture.TITLE, b"").decode("utf-8", "surrogatepass")
                plan.write(Stage.POSTINGS, page_postings(pointer, checksum, text if is_good else b"", title))
            digest, docno = (
                columns.get(column, b"").decode("utf-8", "surrogateescape")
                for column in (capture.PAYLOAD_DIGEST, capture.DOCNO)
            )
            plan.write(Stage.POSTINGS, self._index.add_names(pointer, digest, docno))
            self._count(timestamp, columns, row.there)

    def _count(self, timestamp: int, columns: Mapping[capture.Column, bytes], there: frozenset[CellKey]) -> None:
        if (CAPTURE_FAMILY, b"", timestamp) in there:
            return
        if capture.VISIT in columns:
            self._tally.count_visit()
        elif capture.VERDICT in columns:
            with suppress(DocstoreError):  # damaged
                verdict = capture.decode_verdict(columns[capture.VERDICT])
                self._tally.count([(verdict, len(columns.get(capture.BODY, b"")))])
