"""Copy a store into another one: ranges of rows in threads, verified by checksums, resumable.

    for each range of row keys: read from the source -> write to the target -> read the target again and compare
    checksums -> record the range as done
    then: post texts in the order in which the source posted them

Captures and cells are copied as they are, with verdicts and the columns of sweeps.  The target's backend encodes the
values again.  A copy has each row as it was when it was read; the next run compares all rows and writes those that
differ, so it brings later writes to the source.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from blake3 import blake3

from docstore.compiled import docstore_native
from docstore.model import capture
from docstore.model.capture import PagePointer
from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import BAND_SECRET_ROW, CAPTURE_FAMILY, CAPTURE_STORED
from docstore.model.keys import url_of
from docstore.model.plain import Plain
from docstore.model.types import Cell, Position, ReadSpec, RowMutations, SetCell, now_micros
from docstore.reading.documents import DocumentReader
from docstore.storage.bases import value_name
from docstore.storage.captures import capture_of
from docstore.storage.table import CAPTURE_FAMILIES, LATER_FAMILIES, declared_families
from docstore.storage.unreadable import Finding
from docstore.storage.values import REF_TAG, encode_absent, is_absent, is_ref, raw_bytes_of
from docstore.store import DocumentStore, open_store
from docstore.writing.importing import (
    CAPTURE_COLUMNS,
    CellKey,
    CopyState,
    Done,
    ImportedCell,
    ImportedRow,
    RowImporter,
    order_of_texts,
    post_texts,
    source_name,
)

encode_varint = docstore_native.encode_varint
RANGE_ROWS = 2048
GROUP_PORTIONS = 256
GROUP_BYTES = 8 << 20
"""A group of rows is written when it has this many portions or bytes."""
MAX_NAMED = 1000

Progress = Callable[[str, int], None]
"""Called with "rows" or "texts" and the number of them that is copied."""


@dataclass(slots=True)
class CopyReport(Plain):
    """What was copied; the same names as `docstore copy --json` prints.

    Attributes:
        rows, cells: copied by this run and by the interrupted runs that it resumed; each column of a capture counts.
        resumed_rows: of these, rows copied by an interrupted run.
        written_rows: rows to which this run wrote cells.
        verified_rows: rows of this run that were read again and compared.
        raw_bytes: bytes of the values that this run read.
        texts: texts posted for later verdicts.
        differing: URLs of rows that differ from the source after the copy, at most 1,000.
        only_here: rows of the copy with cells that the source does not have.
        deleted: of these, rows from which such cells were removed.
        unreadable: values of the source that could not be read and are not copied.
        seconds: wall time.
    """

    rows: int = 0
    cells: int = 0
    resumed_rows: int = 0
    written_rows: int = 0
    verified_rows: int = 0
    raw_bytes: int = 0
    texts: int = 0
    differing: list[str] = field(default_factory=list)
    only_here: int = 0
    deleted: int = 0
    unreadable: list[Finding] = field(default_factory=list)
    seconds: float = 0.0


def copy(
    source: DocumentStore,
    address: str | Path,
    on_progress: Progress | None = None,
    *,
    threads: int = 2,
    verify: bool = True,
    delete: bool = False,
) -> CopyReport:
    """Copy a store into another one, which is created if it does not exist; the same call resumes or updates the copy.

    Args:
        source: to read.
        address: of the copy.
        on_progress: see `Progress`.
        threads: number of threads; each reads, writes and verifies ranges of rows.
        verify: read every row of the copy again and compare its checksum with the source row's.
        delete: remove pages and cells from the copy that the source does not have; else only count them.
    Raises:
        InvalidArgument: the target has another schema, or has pages and is not a copy of this store.
        StorageError: the target's disk is full or fails; ranges recorded as done stay, the same call resumes.
    """
    with open_copy(source, address) as target:
        return copy_into(source, target, on_progress, threads=threads, verify=verify, delete=delete)


def copy_into(
    source: DocumentStore,
    target: DocumentStore,
    on_progress: Progress | None = None,
    *,
    threads: int = 2,
    verify: bool = True,
    delete: bool = False,
) -> CopyReport:
    """As `copy`, into an open store that has the schema of the source and no other writer."""
    if threads < 1:
        raise InvalidArgument(f"threads must be at least 1, not {threads}")
    with source.backend.values.unreadable.collecting() as unreadable:
        report = _Copy(source, target, on_progress, threads, verify=verify, delete=delete).run()
    report.unreadable = list(unreadable)
    return report


def open_copy(source: DocumentStore, address: str | Path) -> DocumentStore:
    """Open or create the target, with the schema and the band secret of the source.

    Raises:
        InvalidArgument: the target exists and has another schema.
    """
    target = open_store(address, create=True, schema=source.schema, read_only=False)
    if target.backend.band_secret == source.backend.band_secret:
        return target
    try:
        CopyState(target.backend, target.committer).begin(source_name(source.backend))
        secret = SetCell("m", b"", 0, source.backend.band_secret)
        target.backend.engine.mutate_rows([RowMutations("meta", BAND_SECRET_ROW, [secret])], Durability.SYNC)
    finally:
        target.close()
    return open_store(address, read_only=False)


class _Copy:
    def __init__(
        self,
        source: DocumentStore,
        target: DocumentStore,
        on_progress: Progress | None,
        threads: int,
        *,
        verify: bool,
        delete: bool,
    ) -> None:
        self._source = source
        self._target = target
        self._threads, self._wants_verify, self._wants_delete = threads, verify, delete
        self._on_progress = on_progress
        self._from, self._to = StoreRows(source), StoreRows(target)
        self._importer = RowImporter(target.backend, target.table, target.committer)
        self._state = CopyState(target.backend, target.committer)
        self._name = source_name(source.backend)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self.report = CopyReport()

    def run(self) -> CopyReport:
        report, began = self.report, time.monotonic()
        self._state.begin(self._name)
        self._state = CopyState(self._target.backend, self._target.committer)
        report.rows = report.resumed_rows = sum(done.rows for done in self._state.done)
        report.cells = sum(done.cells for done in self._state.done)
        for done in self._copied():
            report.rows += done.rows
            report.cells += done.cells
            self._show("rows", report.rows)
        report.texts = post_texts(
            self._target.backend,
            self._target.table,
            self._target.committer,
            order_of_texts(self._source.backend, self._source.table),
            lambda done: self._show("texts", done),
        )
        if not report.differing:
            self._state.finish(self._name, report.rows, report.cells)
        report.seconds = time.monotonic() - began
        return report

    def _show(self, what: str, done: int) -> None:
        if self._on_progress is not None:
            self._on_progress(what, done)

    # --- ranges

    def _copied(self) -> Iterator[Done]:
        """Copy all ranges, in threads; if one fails, or on Ctrl-C, the others stop at their next group."""
        with ThreadPoolExecutor(self._threads, thread_name_prefix="docstore-copy") as pool:
            window: deque[Future[Done]] = deque()
            try:
                for bounds in self._ranges():
                    window.append(pool.submit(self._copy_range, bounds))
                    if len(window) > self._threads:
                        yield window.popleft().result()
                while window:
                    yield window.popleft().result()
            except BaseException:
                self._stopped.set()
                raise

    def _ranges(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Ranges to copy; together with those that are done they cover all keys."""
        start: bytes | None = b""
        while start is not None:
            done = self._state.covering(start)
            if done is not None:
                start = done.end
                continue
            limit = self._state.next_start(start)
            end = limit
            for number, row_key in enumerate(self._source.table.row_keys(start, limit)):
                if number == RANGE_ROWS:
                    end = row_key
                    break
            yield start, end
            start = end

    def _copy_range(self, bounds: tuple[bytes, bytes | None]) -> Done:
        """Copy a range of rows; it is recorded as done unless the verification finds a difference."""
        start, end = bounds
        is_empty = next(self._target.table.row_keys(start, end), None) is None
        expected: dict[bytes, int] = {}
        only_here: dict[bytes, set[CellKey]] = {}
        cells = 0
        group: list[ImportedRow] = []
        group_bytes = 0
        for row, checksum in self._from.portions(start, end):
            if not is_empty:
                row = row._replace(there=self._to.same(row))
            expected[row.row_key] = expected.get(row.row_key, 0) + checksum
            cells += sum(cell.family != CAPTURE_FAMILY for cell in row.cells)
            group.append(row)
            group_bytes += sum(len(cell.value) for cell in row.cells)
            if len(group) >= GROUP_PORTIONS or group_bytes >= GROUP_BYTES:
                self._write(group, group_bytes)
                group, group_bytes = [], 0
        self._write(group, group_bytes)
        if not is_empty:
            for row_key in expected:  # after the writes: they may have made older versions expire
                self._compare_cells(row_key, only_here)
            self._remove_rest(start, end, expected, only_here)
        differing = self._verify(start, end, expected, only_here) if self._wants_verify else []
        done = Done(start, end, len(expected), cells)
        if not differing:
            self._state.record(done)
        return done

    def _write(self, group: list[ImportedRow], group_bytes: int) -> None:
        if self._stopped.is_set():
            raise CancelledError("another range failed")
        changed = [row for row in group if len(row.there) < len(row.cells)]
        if changed:
            self._importer.write(changed, self._from.find_base)
        with self._lock:
            self.report.written_rows += len({row.row_key for row in changed})
            self.report.raw_bytes += group_bytes

    # --- what only the copy has

    def _compare_cells(self, row_key: bytes, only_here: dict[bytes, set[CellKey]]) -> None:
        """Find cells of a row that the source does not have: a merge, since both give cells in the same order."""
        source_keys = self._from.cell_keys(row_key)
        source_key = next(source_keys, None)
        for key in self._to.cell_keys(row_key):
            while source_key is not None and _order(source_key) < _order(key):
                source_key = next(source_keys, None)
            if source_key != key:
                only_here.setdefault(row_key, set()).add(key)

    def _remove_rest(
        self, start: bytes, end: bytes | None, expected: dict[bytes, int], only_here: dict[bytes, set[CellKey]]
    ) -> None:
        """Count what only the copy has; remove it with `delete`."""
        gone = [row_key for row_key in self._to.row_keys(start, end) if row_key not in expected]
        if self._wants_delete:
            for row_key in gone:
                self._target.delete(url_of(row_key))
            for row_key, keys in only_here.items():
                self._importer.remove(row_key, sorted(keys), now_micros())
        with self._lock:
            self.report.only_here += len(gone) + len(only_here)
            if self._wants_delete:
                self.report.deleted += len(gone) + len(only_here)

    # --- verifying

    def _verify(
        self, start: bytes, end: bytes | None, expected: dict[bytes, int], only_here: dict[bytes, set[CellKey]]
    ) -> list[bytes]:
        """Rows of the copy that differ from what was read from the source."""
        copied = dict.fromkeys(expected, 0)
        for row_key, checksum in self._to.checksums(start, end, only_here):
            if row_key in copied:
                copied[row_key] += checksum
        differing = [
            row_key
            for row_key, checksum in expected.items()
            if copied[row_key] != checksum and not self._is_same_now(row_key, copied[row_key])
        ]
        with self._lock:
            self.report.verified_rows += len(expected)
            room = MAX_NAMED - len(self.report.differing)
            self.report.differing += [url_of(row_key) for row_key in differing[:room]]
        return differing

    def _is_same_now(self, row_key: bytes, checksum: int) -> bool:
        """Whether a row of the source has this checksum now; a version may have expired since it was read."""
        return sum(part for _, part in self._from.checksums(row_key, row_key + b"\0", {})) == checksum


def _order(key: CellKey) -> tuple[bool, str, bytes, int]:
    return key[0] not in STORED_FAMILIES, key[0], key[1], -key[2]


# --- the rows of a store: live cells with their values, in portions, and the bases of their values
#
# A capture becomes its record without columns, and a cell for each column.  A portion has whole captures and a bounded
# size, because a row may have thousands of versions or a million anchors.  Cells that a GC policy hides or a delete
# removed are left out.  A value that cannot be read is reported and left out.  If that is a body, the verdict of its
# capture says that only text and fingerprints are stored, so that the body is stored when the page comes again.

PORTION_CELLS = 4096
PORTION_BYTES = 8 << 20
"""Limits of a portion in cells and in bytes of values; one capture may exceed them."""
STORED_FAMILIES = tuple(sorted({CAPTURE_FAMILY, *LATER_FAMILIES}))
"""Families of captures and of what is computed of them later."""
_MAY_BE_DELTAS = (capture.BODY, capture.MAIN)


class StoreRows:
    """Reads the rows of a store.  Thread-safe."""

    def __init__(self, store: DocumentStore) -> None:
        self._table, self._cells = store.table, store.cells
        self._engine = store.backend.engine
        self._values = store.backend.values
        self._base_rows = store.backend.base_rows
        self._reader = DocumentReader(store.table, store.backend.values)
        self._other_families = tuple(sorted(declared_families(store.schema).keys() - CAPTURE_FAMILIES))

    def row_keys(self, start: bytes = b"", end: bytes | None = None) -> Iterator[bytes]:
        """Keys of rows with a live cell, in order."""
        for row in self._table.scan(start, end, ReadSpec(keys_only=True, cell_limit=1)):
            yield row.row_key

    def cell_keys(self, row_key: bytes) -> Iterator[CellKey]:
        """Family, qualifier and timestamp of each stored live cell of a row, captures first."""
        yield from sorted((cell[:3] for cell in self._captures(row_key)), key=_order)
        for cells in self._slices(row_key, ReadSpec(families=self._other_families, keys_only=True)):
            yield from (cell[:3] for cell in cells)

    def portions(self, start: bytes, end: bytes | None) -> Iterator[tuple[ImportedRow, int]]:
        """Live cells of a range of rows in row-key order.  Each portion has the bases of its values and a checksum.

        The checksum of a row is the sum of those of its portions.
        """
        written: dict[bytes, bytes] = {}
        last = b""
        for row_key, cells in self._parts(start, end):
            if row_key != last:
                written, last = {}, row_key
            imported = self._with_bases(self.values_of(row_key, cells))
            posted = self._posted(row_key, imported)
            yield ImportedRow(row_key, imported, posted, written), sum(map(cell_checksum, imported))

    def checksums(
        self, start: bytes, end: bytes | None, ignored: dict[bytes, set[CellKey]]
    ) -> Iterator[tuple[bytes, int]]:
        """Row keys and the checksum of each portion of the row, as `portions` gives them.

        Args:
            start, end: range of row keys.
            ignored: by row key, cells that do not count; a capture is named by the key of its record.
        """
        for row_key, cells in self._parts(start, end):
            excluded = ignored.get(row_key, set())
            kept = [
                cell
                for cell in cells
                if cell[:3] not in excluded and not (_is_of_record(cell[:3]) and _record_key(cell[:3]) in excluded)
            ]
            yield row_key, sum(map(cell_checksum, self.values_of(row_key, kept)))

    def same(self, row: ImportedRow) -> frozenset[CellKey]:
        """The cells of a row that this store has with the same values.  A capture counts as a whole."""
        stored = {cell[:3]: cell.value for cell in self._stored_like(row)}
        equal = {cell.key for cell in row.cells if cell.key in stored and self._is_same(cell, stored[cell.key])}
        every = {cell.key for cell in row.cells} | stored.keys()
        differing = {_record_key(key) for key in every - equal if _is_of_record(key)}
        return frozenset(key for key in equal if not _is_of_record(key) or _record_key(key) not in differing)

    def _is_same(self, cell: ImportedCell, stored: bytes) -> bool:
        if cell.family == CAPTURE_FAMILY:
            return cell.value == stored
        try:
            return raw_bytes_of(stored) == len(cell.value) and self._values.fetch(stored) == cell.value
        except CorruptionError:
            return False  # it is written again

    def find_base(self, name: bytes) -> tuple[PagePointer, capture.Column, bytes] | None:
        """A base and a capture that has it; None if no capture has it now, or it cannot be read."""
        cell_value = self._base_rows.cell_value(name)
        if cell_value is None:
            return None
        try:
            row_key, column, raw = self._values.fetch_with_owner(cell_value)
        except CorruptionError:
            return None
        for record in self._table.records(row_key):
            if record.columns.get(column) == cell_value:
                return PagePointer(record.timestamp, row_key), column, raw
        return None

    # --- cells of a row

    def _parts(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, list[Cell]]]:
        """Rows in portions: a short row whole; a long one as captures, the oldest first, then the other cells."""
        for row in self._engine.scan("pages", start, end, ReadSpec(cell_limit=PORTION_CELLS)):
            cells = self._captures(row.row_key) if row.truncated else self._table.live_cells(row.cells)
            cells = list(_split_records(cells))
            if not row.truncated and sum(map(_raw_bytes, cells)) <= PORTION_BYTES:
                if cells:
                    yield row.row_key, cells
                continue
            captures: dict[int, list[Cell]] = {}
            for cell in cells:
                if cell.family not in self._other_families:
                    captures.setdefault(cell.timestamp, []).append(cell)
            part: list[Cell] = []
            part_bytes = 0
            for _, columns in sorted(captures.items()):
                part += columns
                part_bytes += sum(map(_raw_bytes, columns))
                if len(part) >= PORTION_CELLS or part_bytes >= PORTION_BYTES:
                    yield row.row_key, part
                    part, part_bytes = [], 0
            if part:
                yield row.row_key, part
            for others in self._slices(row.row_key, ReadSpec(families=self._other_families)):
                yield row.row_key, others

    def _captures(self, row_key: bytes) -> list[Cell]:
        """Live captures of a row as they are stored, with what was computed of them later."""
        return self._table.live_cells(self._table.stored_row(row_key, ReadSpec(STORED_FAMILIES)))

    def _slices(self, row_key: bytes, spec: ReadSpec) -> Iterator[list[Cell]]:
        after: Position | None = None
        while cells := self._table.read_row(row_key, spec._replace(cell_limit=PORTION_CELLS, after=after)):
            yield cells
            if len(cells) < PORTION_CELLS:
                return
            after = Position(*cells[-1][:3])

    def _stored_like(self, row: ImportedRow) -> Iterator[Cell]:
        """Cells of this store with the keys of a portion's cells, and maybe others."""
        cells = self._table.stored_row(row.row_key, ReadSpec(cell_limit=PORTION_CELLS))
        if len(cells) < PORTION_CELLS:
            yield from _split_records(self._table.live_cells(cells))
            return
        yield from _split_records(self._captures(row.row_key))
        for cell in row.cells:
            if cell.family in self._other_families:
                spec = ReadSpec((cell.family,), cell.qualifier, cell.timestamp, cell.timestamp + 1)
                yield from (own for own in self._table.read_row(row.row_key, spec) if own.qualifier == cell.qualifier)

    # --- values

    def values_of(self, row_key: bytes, cells: Iterable[Cell]) -> list[ImportedCell]:
        """Cells with their values; those that cannot be read are left out."""
        imported = []
        damaged: set[int] = set()
        for cell in cells:
            if cell.family == CAPTURE_FAMILY:
                imported.append(ImportedCell(*cell))
                continue
            column = (cell.family, cell.qualifier)
            base = b""
            stored_as = cell.value if is_ref(cell.value) or is_absent(cell.value) else b""
            try:
                if column in _MAY_BE_DELTAS and is_ref(cell.value):
                    value, base = self._values.fetch_or_base(cell.value)
                    value = self._values.fetch(cell.value) if base else value
                else:
                    value = self._values.fetch(cell.value)
            except CorruptionError:  # or a compaction has moved it since the scan
                if not self._exists(row_key, cell):
                    continue
                reread = self._reread(row_key, cell)
                if reread is None:
                    if column == capture.BODY:
                        damaged.add(cell.timestamp)
                        stored_as = encode_absent(raw_bytes_of(cell.value))
                        imported.append(ImportedCell(*cell[:3], b"", b"", False, stored_as))
                    continue
                value = reread
            imported.append(ImportedCell(*cell[:3], value, base, False, stored_as))
        return [self._without_body(row_key, cell) if cell.timestamp in damaged else cell for cell in imported]

    def _verdict(self, row_key: bytes, cell: ImportedCell) -> capture.StoredVerdict | None:
        """The verdict in a cell; None if it is damaged, which is reported."""
        return self._values.unreadable.verdict(bytes, row_key, cell.timestamp, {cell.column: cell.value})

    def _without_body(self, row_key: bytes, cell: ImportedCell) -> ImportedCell:
        """A cell of a capture whose body cannot be read; the verdict then says that only text is stored."""
        verdict = self._verdict(row_key, cell)
        if verdict is None:
            return cell
        return cell._replace(value=capture.encode_verdict(verdict._replace(stored=capture.STORED_TEXT)))

    def _posted(self, row_key: bytes, cells: Sequence[ImportedCell]) -> frozenset[int]:
        """Timestamps of the captures with postings: those that later pages are judged against."""
        captures: dict[int, dict[capture.Column, ImportedCell]] = {}
        for cell in cells:
            captures.setdefault(cell.timestamp, {})[cell.column] = cell
        posted = set()
        for timestamp, columns in captures.items():
            head, body = columns.get((CAPTURE_FAMILY, b"")), columns.get(capture.BODY)
            if head is None or head.value[0] != CAPTURE_STORED or body is None or capture.CHECKSUM not in columns:
                continue
            if body.value or is_absent(body.stored_as):
                cell_of_verdict = columns.get(capture.VERDICT)
                verdict = None if cell_of_verdict is None else self._verdict(row_key, cell_of_verdict)
                if verdict is None or verdict.stored in capture.STORED_POSTED:
                    posted.add(timestamp)
        return frozenset(posted)

    def _reread(self, row_key: bytes, cell: Cell) -> bytes | None:
        """The value of a cell, which is looked up again; None if it cannot be read, which is noted."""
        if (cell.family, cell.qualifier) in CAPTURE_COLUMNS:
            return self._reader.value(row_key, (cell.family, cell.qualifier), cell.timestamp)
        found = self._cells.readable(row_key, cell)
        return None if found is None else found.value

    def _exists(self, row_key: bytes, cell: Cell) -> bool:
        """Whether a cell still exists; it may have been deleted since the scan."""
        spec = ReadSpec((cell.family,), cell.qualifier, cell.timestamp, cell.timestamp + 1, keys_only=True)
        return any(stored.qualifier == cell.qualifier for stored in self._table.read_row(row_key, spec))

    def _with_bases(self, cells: list[ImportedCell]) -> list[ImportedCell]:
        """The cells, with `is_base` set for bodies and texts that are bases."""
        return [
            cell._replace(is_base=True)
            if cell.column in _MAY_BE_DELTAS
            and cell.stored_as[:1] == REF_TAG
            and not cell.base
            and self._base_rows.cell_value(value_name(cell.value)) is not None
            else cell
            for cell in cells
        ]


def cell_checksum(cell: ImportedCell) -> int:
    """Checksum of a cell, 128 bits; two sets of cells are the same if the sums of their checksums are."""
    qualifier, family = cell.qualifier, cell.family.encode()
    head = encode_varint(len(family)) + family + encode_varint(len(qualifier)) + qualifier
    hashed = blake3(head + cell.timestamp.to_bytes(8, "big") + cell.value)
    return int.from_bytes(hashed.digest(16), "big")


def _split_records(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Stored cells, with each capture split into its record without columns and a cell for each column."""
    for cell in cells:
        if cell.family == CAPTURE_FAMILY:
            record = capture_of(cell)
            yield cell._replace(value=record._replace(columns={}).encode())
            for (family, qualifier), value in record.columns.items():
                yield Cell(family, qualifier, cell.timestamp, value)
        else:
            yield cell


def _raw_bytes(cell: Cell) -> int:
    return len(cell.value) if cell.family == CAPTURE_FAMILY else raw_bytes_of(cell.value)


def _is_of_record(key: CellKey) -> bool:
    return key[0] == CAPTURE_FAMILY or key[:2] in CAPTURE_COLUMNS


def _record_key(key: CellKey) -> CellKey:
    return CAPTURE_FAMILY, b"", key[2]
