"""Copying rows of another store: values are encoded again, bases resolved, postings rebuilt.  Verdicts are kept.

A capture comes as its record without columns, in a cell of family `capture`, and one cell for each column.

A delta of the source becomes a delta against the same base here.  A missing base is fetched from the source by its name
and stored for the page that has this value.  Band keys and fingerprints of texts are posted after all rows, in the
source's order (`post_texts`): a bucket proposes its first texts, so the order affects verdicts on later pages.
Thread-safe: a group is stored and committed under the committer's lock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import msgpack
import numpy as np

from docstore.compiled import docstore_native
from docstore.dedup.comparable import text_compares
from docstore.dedup.index import IndexQuery, NewPostings, TextIndex, post_names, post_page
from docstore.dedup.pages import LivePages
from docstore.model import capture
from docstore.model.capture import PagePointer
from docstore.model.errors import DocstoreError, InvalidArgument
from docstore.model.format import (
    CAPTURE_FAMILY,
    CAPTURE_FIELDS,
    COPY_ROW,
    IDENTITY_ROW,
    INLINE_LIMIT_BYTES,
    SCHEME_TEXT_2,
    TEXT_NUMBER_BYTES,
)
from docstore.model.sets import Keys
from docstore.model.types import DeleteCells, DeleteRow, Mutation, RowMutations, SetCell
from docstore.reading.index import kernel_of, open_texts, stored_texts, text_numbers
from docstore.storage.bases import base_row, value_name
from docstore.storage.cache import LruCache
from docstore.storage.captures import CaptureRecord, decode_capture
from docstore.storage.engine import Plan
from docstore.storage.port import Backend, Committer
from docstore.storage.table import PAGES, TIMESTAMP_STEP_MICROS, Table
from docstore.storage.values import is_absent
from docstore.writing.judge import counts_of

MAX_CACHED_BASE_BYTES = 32 << 20
CAPTURE_COLUMNS = frozenset(CAPTURE_FIELDS.values())
"""Columns that belong in the capture record of their time."""
CellKey = tuple[str, bytes, int]
"""Family, qualifier and timestamp of a cell."""


class ImportedCell(NamedTuple):
    """A cell to write.

    Attributes:
        family, qualifier, timestamp, value: of the cell.
        base: name of the base that the value is a delta against in the source; b"" for none.
        is_base: it is a base in the source, or pages share it.
        stored_as: equal for cells of a row that share one stored value; b"" for a value inside its cell.
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
    """Cells of a row, or of a part of it; captures are complete.

    Attributes:
        row_key: of the row.
        cells: to write.
        posted: timestamps of captures that other pages are judged against.
        placed: cell values by `stored_as`; filled here, one dict for all parts of a row.
        there: cells that the target has already, with the same values.
    """

    row_key: bytes
    cells: Sequence[ImportedCell]
    posted: frozenset[int]
    placed: dict[bytes, bytes]
    there: frozenset[CellKey] = frozenset()


FindBase = Callable[[bytes], tuple[PagePointer, capture.Column, bytes] | None]
"""Fetches a base of the source by its name: a capture and column that have it, and the value; None if it cannot be
read, then no delta is made."""


class RowImporter:
    """Writes rows into an open store."""

    def __init__(self, backend: Backend, table: Table, committer: Committer) -> None:
        backend.check_writable()
        backend.make_reserve()
        self._texts = open_texts(backend, table)
        committer.followers.add(self._texts.follow)
        self._values = backend.values
        self._base_rows = backend.base_rows
        self._committer = committer
        self._bases: LruCache[bytes, bytes] = LruCache(MAX_CACHED_BASE_BYTES, len)
        """Values by name, of bases that have a row."""
        self._base_values: dict[bytes, bytes | None] = {}
        """Cell values of bases by name, with the rows of the plan in flight; None for no row."""
        self._commits = -1

    def write(self, rows: Iterable[ImportedRow], find_base: FindBase) -> None:
        """Write rows in one commit.

        Raises:
            StorageError: nothing was applied.
            CommitUnknown: it may be applied; the same rows again are safe.
        """
        with self._committer.lock:
            if self._committer.commits != self._commits:  # another writer committed
                self._bases.clear()
            self._base_values = {}
            plan, new = Plan(), NewPostings()
            cells: dict[bytes, list[SetCell]] = {}
            counts: Counter[str] = Counter()
            committed = False
            try:
                for row in rows:
                    cells.setdefault(row.row_key, []).extend(self._place(row, plan, find_base))
                    self._post(row, new, counts)
                # The log has no texts yet; its row marks that there is an index.
                plan.rows += [*new.mutations(), *self._texts.log(new)]
                plan.rows += (RowMutations(PAGES, key, placed) for key, placed in cells.items() if placed)
                plan.counts = counts
                self._committer.commit(plan)
                self._commits = self._committer.commits
                committed = True
            finally:
                if not committed:  # a cached base may have no row
                    self._bases.clear()

    # --- values

    def _place(self, row: ImportedRow, plan: Plan, find_base: FindBase) -> list[SetCell]:
        """Store the values of a row; returns its cells."""
        placed: list[SetCell] = []
        records: list[CaptureRecord] = []
        columns: dict[int, dict[capture.Column, bytes]] = {}
        cells = [cell for cell in row.cells if cell.key not in row.there]
        texts = {cell.timestamp: cell for cell in cells if cell.column == capture.MAIN and not cell.base}
        for cell in cells:
            if cell.family == CAPTURE_FAMILY:
                records.append(decode_capture(cell.timestamp, cell.value))
                continue
            cell_value = row.placed.get(cell.stored_as) if cell.stored_as else None
            if is_absent(cell.stored_as):
                cell_value = cell.stored_as
            if cell_value is None:
                if cell.column == capture.BODY:
                    plan.bodies.append((row.row_key, len(cell.value)))
                text = texts.get(cell.timestamp) if cell.column == capture.BODY else None
                cell_value = self._place_value(row, cell, text, plan, find_base)
                if cell.stored_as:
                    row.placed[cell.stored_as] = cell_value
            if cell.column in CAPTURE_COLUMNS:
                columns.setdefault(cell.timestamp, {})[cell.column] = cell_value
            else:
                placed.append(SetCell(cell.family, cell.qualifier, cell.timestamp, cell_value))
        return placed + [record._replace(columns=columns.get(record.timestamp, {})).cell() for record in records]

    def remove(self, row_key: bytes, keys: Iterable[CellKey], now: int) -> None:
        """Remove cells and capture records of a row in one commit."""
        with self._committer.lock:
            deletes = [DeleteCells(*key, key[2] + TIMESTAMP_STEP_MICROS) for key in keys]
            for mutation in deletes:
                self._values.mark_deleted(row_key, mutation, now)
            self._committer.commit(Plan([RowMutations(PAGES, row_key, deletes)]))

    def _place_value(
        self, row: ImportedRow, cell: ImportedCell, text: ImportedCell | None, plan: Plan, find_base: FindBase
    ) -> bytes:
        """Store a value; -> its cell value.  The text of a body that is no delta is stored with it.

        A body that is a base here shares that record, and so does any value that is a base in both stores.
        """
        row_key, raw, column, timestamp = row.row_key, cell.value, cell.column, cell.timestamp
        values = self._values
        is_long = len(raw) > INLINE_LIMIT_BYTES and values.shares_values
        if not is_long or not (column == capture.BODY or cell.is_base or cell.base):
            return values.append(row_key, column, timestamp, raw)
        name = value_name(raw)
        is_base = cell.is_base or cell.base == name
        if column == capture.BODY or is_base:
            shared = self._base_value(name)
            if shared is not None and name not in self._base_rows.retired:
                return shared
        base = self._base(cell.base, plan, find_base) if cell.base and not is_base else None
        if base is not None:
            group = docstore_native.Group()
            group.add(row_key, column, timestamp, raw, base=(cell.base, base))
            values.append_group(group)
            return group.cell_values()[0]
        text_name = b"" if text is None else value_name(text.value)
        if text is None or text.stored_as in (b"", *row.placed) or (text.is_base and self._base_value(text_name)):
            cell_value = values.append(row_key, column, timestamp, raw)
        else:
            group = docstore_native.Group()
            group.add(row_key, column, timestamp, raw)
            group.add(row_key, capture.MAIN, timestamp, text.value, follows_body=True)
            values.append_group(group)
            cell_value, text_value = group.cell_values()
            row.placed[text.stored_as] = text_value
            if text.is_base:
                self._make_base(text_name, text_value, plan)
        if is_base:
            self._make_base(name, cell_value, plan)
        return cell_value

    def _base(self, name: bytes, plan: Plan, find_base: FindBase) -> bytes | None:
        """The value of a base, copied from the source if it is missing here; None if no delta can be made."""
        if name in self._base_rows.retired:
            return None
        raw = self._bases.get(name)
        if raw is None:
            cell_value = self._base_value(name)
            if cell_value is not None:
                raw = self._values.fetch(cell_value)
            else:
                base = find_base(name)
                if base is None or len(base[2]) <= INLINE_LIMIT_BYTES:
                    return None
                (timestamp, row_key), column, raw = base
                cell_value = self._values.append(row_key, column, timestamp, raw)
                self._make_base(name, cell_value, plan)
            self._bases.put(name, raw)
        return raw

    def _base_value(self, name: bytes) -> bytes | None:
        if name not in self._base_values:
            self._base_values[name] = self._base_rows.cell_value(name)
        return self._base_values[name]

    def _make_base(self, name: bytes, cell_value: bytes, plan: Plan) -> None:
        if name not in self._base_rows.retired:
            self._base_values[name] = cell_value
            plan.rows.append(base_row(name, cell_value))

    # --- postings and counts

    def _post(self, row: ImportedRow, new: NewPostings, counts: Counter[str]) -> None:
        captures: dict[int, dict[capture.Column, bytes]] = {}
        for cell in row.cells:
            captures.setdefault(cell.timestamp, {})[cell.column] = cell.value
        for timestamp, columns in captures.items():
            pointer = PagePointer(timestamp, row.row_key)
            checksum = columns.get(capture.CHECKSUM, b"")
            if checksum and timestamp in row.posted:
                text = columns.get(capture.TEXT_CHECKSUM, b"")
                is_good = text_compares(int(columns.get(capture.STATUS) or b"0")) and text[:1] == bytes(
                    (SCHEME_TEXT_2,)
                )
                title = columns.get(capture.TITLE, b"").decode("utf-8", "surrogatepass")
                post_page(new, pointer, checksum, text if is_good else b"", title)
            digest, docno = (
                columns.get(column, b"").decode("utf-8", "surrogateescape")
                for column in (capture.PAYLOAD_DIGEST, capture.DOCNO)
            )
            post_names(new, pointer, digest, docno)
            if (CAPTURE_FAMILY, b"", timestamp) not in row.there:
                _count(columns, counts)


def _count(columns: Mapping[capture.Column, bytes], counts: Counter[str]) -> None:
    if capture.VISIT in columns:
        counts["visits"] += 1
    elif capture.VERDICT in columns:
        with suppress(DocstoreError):  # damaged
            verdict = capture.decode_verdict(columns[capture.VERDICT])
            counts.update(counts_of([(verdict, 1, len(columns.get(capture.BODY, b"")))]))


# --- postings of texts: the last step of a copy

GROUP_TEXTS = 256


def order_of_texts(backend: Backend, table: Table) -> Keys | None:
    """Numbers of a store's texts in the order of posting; None if its backend does not keep that order."""
    return open_texts(backend, table).texts_in_order()


def post_texts(
    backend: Backend,
    table: Table,
    committer: Committer,
    order: Keys | None,
    on_progress: Callable[[int], None] | None = None,
) -> int:
    """Post the texts of a store that are not posted yet; after a stop, the same call resumes.

    Args:
        backend: the store.
        table: of its pages.
        committer: of its writers.
        order: numbers of texts, (n,) uint64, in the order of posting; all other texts follow.
        on_progress: called with the number of texts seen.
    Returns:
        How many were posted.
    """
    texts = open_texts(backend, table)
    committer.followers.add(texts.follow)
    pages = LivePages(table, backend.values)
    queries = stored_texts(backend, pages, kernel_of(backend), _numbers(backend, order))
    posted = seen = 0
    while group := list(islice(queries, GROUP_TEXTS)):
        with committer.lock:
            new = NewPostings()
            texts.read_ahead(group, new)
            posted += sum(_post(texts, query, new) for query in group)
            committer.commit(Plan([*new.mutations(), *texts.log(new)]))
        seen += len(group)
        if on_progress is not None:
            on_progress(seen)
    return posted


def _numbers(backend: Backend, order: Keys | None) -> Iterator[bytes]:
    """Each text once: first those of `order`, by first occurrence, then the others."""
    ordered = np.empty(0, np.uint64)
    if order is not None:
        ordered, first = np.unique(order, return_index=True)
        for number in order[np.sort(first)]:
            yield int(number).to_bytes(TEXT_NUMBER_BYTES, "big")
    for text in text_numbers(backend.engine):
        number = np.uint64(int.from_bytes(text, "big"))
        at = int(np.searchsorted(ordered, number))
        if at == len(ordered) or ordered[at] != number:
            yield text


def _post(texts: TextIndex, query: IndexQuery, new: NewPostings) -> bool:
    proposal = texts.propose(query, new)
    if not proposal.has_own:
        texts.post(new, query, proposal)
    return not proposal.has_own


TABLE, FAMILY = "meta", "m"
SOURCE, FINISHED, RANGE = b"source", b"finished", b"range:"


class Done(NamedTuple):
    """A copied range of rows: ``start <= row key < end``; None means to the last row."""

    start: bytes
    end: bytes | None
    rows: int
    cells: int


class CopyState:
    """The recorded progress of a copy.

    Attributes:
        done: copied ranges, in order.
    """

    def __init__(self, target: Backend, committer: Committer) -> None:
        self._engine = target.engine
        self._committer = committer
        self._cells = {cell.qualifier: cell.value for cell in self._engine.read_row(TABLE, COPY_ROW)}
        self.done = sorted(
            Done(qualifier.removeprefix(RANGE), *msgpack.unpackb(value))
            for qualifier, value in self._cells.items()
            if qualifier.startswith(RANGE)
        )
        self._starts = [done.start for done in self.done]

    def begin(self, source: bytes) -> None:
        """Start to copy a store, or resume.

        Raises:
            InvalidArgument: the target has pages and is no copy of that store.
        """
        recorded = self._cells.get(SOURCE)
        if recorded is None and next(self._engine.scan(PAGES), None) is not None:
            raise InvalidArgument("the store to copy into has pages and is no copy; give the address of a new store")
        if recorded not in (None, source):
            raise InvalidArgument("the store to copy into is a copy of another store; give the address of a new store")
        if recorded is None or FINISHED in self._cells:
            self._write(DeleteRow(), _cell(SOURCE, source))

    def record(self, done: Done) -> None:
        """Record a copied range."""
        self._write(_cell(RANGE + done.start, bytes(msgpack.packb([done.end, done.rows, done.cells]))))

    def finish(self, source: bytes, rows: int, cells: int) -> None:
        """Record that the copy is complete; the next run starts again at the first row."""
        finished = bytes(msgpack.packb({"rows": rows, "cells": cells}))
        self._write(DeleteRow(), _cell(SOURCE, source), _cell(FINISHED, finished))

    def covering(self, row_key: bytes) -> Done | None:
        """The copied range that contains a row key."""
        number = bisect_right(self._starts, row_key) - 1
        done = self.done[number] if number >= 0 else None
        return done if done is not None and (done.end is None or row_key < done.end) else None

    def next_start(self, row_key: bytes) -> bytes | None:
        """Start of the first copied range after a row key; None if there is none."""
        number = bisect_right(self._starts, row_key)
        return self._starts[number] if number < len(self._starts) else None

    def _write(self, *mutations: Mutation) -> None:
        with self._committer.lock:
            self._committer.commit(Plan([RowMutations(TABLE, COPY_ROW, list(mutations))]))


def source_name(source: Backend) -> bytes:
    """The id that a store shares with its backups; its path if the backend has no such id."""
    cells = source.engine.read_row(TABLE, IDENTITY_ROW)
    return cells[0].value if cells else str(source.path).encode()


def is_unfinished(backend: Backend) -> bool:
    """Whether a copy into this store was started and is not finished."""
    names = {cell.qualifier for cell in backend.engine.read_row(TABLE, COPY_ROW)}
    return SOURCE in names and FINISHED not in names


def _cell(qualifier: bytes, value: bytes) -> SetCell:
    return SetCell(FAMILY, qualifier, 0, value)
