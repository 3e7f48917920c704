"""Bigtable's semantics over an engine: declared families, versions, garbage collection, checks of mutations.

    CaptureRows     capture records of rows, and which of them the policies keep
    PlainFamilies   all other families: cells with versions, under a policy for each family
    Table           a row as its families show it; the two above, read as one

Families.  The columns of families `page`, `http`, `text` and `dedup` are a view of the row's capture records
(`storage.captures`).  Columns that are computed later (`is_later`: LATER_COLUMNS, and all of `note`) are cells at the
capture's time, shown and collected with their capture.  All other families have plain cells.

Garbage collection.  The schema's policies for captures and bodies keep or drop whole captures.  In another family,
consecutive versions of a column with the same value are one version, which a policy keeps or drops as a whole.  Dropped
data is hidden from every read here at once, and removed by compaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from heapq import merge
from itertools import groupby, islice
from operator import eq
from types import MappingProxyType
from typing import Self

from docstore.model.capture import BODY, CANONICAL_PAGE, CLUSTER, CRAWL, NOTE_FAMILY, PAYLOAD_DIGEST, Column
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import CAPTURE_FAMILY, CAPTURE_STORED, TIMESTAMP_MAX
from docstore.model.types import (
    BUILT_IN_FAMILIES,
    Cell,
    ColumnFamily,
    DeleteCells,
    DeleteRow,
    GCPolicy,
    Mutation,
    Position,
    ReadSpec,
    RowMutations,
    Schema,
    SetCell,
)
from docstore.storage.captures import (
    MICROS_PER_SECOND,
    CaptureRecord,
    LiveCapture,
    capture_of,
    decode_capture,
    keeps_all,
    live,
    sound_records,
    stored_capture,
    without_body,
)
from docstore.storage.engine import EVERYTHING, Engine, ScannedRow
from docstore.storage.unreadable import Place
from docstore.storage.values import encode_inline

PAGES = "pages"
"""The engine's table of pages: one row for each URL."""
TIMESTAMP_STEP_MICROS = 1000
CAPTURE_FAMILIES = frozenset(("page", "http", "text", "dedup", NOTE_FAMILY))
"""Families whose columns are a view of capture records and of later columns."""
LATER_COLUMNS = frozenset((CLUSTER, CANONICAL_PAGE, PAYLOAD_DIGEST))
"""Columns of these families that are computed after the write, and are cells.  The payload digest is one only if the
record has none."""
LATER_FAMILIES = frozenset((NOTE_FAMILY, *(family for family, _ in LATER_COLUMNS)))
FIRST_RECORDS = 2
_MOST_RECORDS = 512
"""Records read at a time: few first, because most callers want only the newest capture."""
SHORT_RECORDS = 64
"""Cells of captures of a row that a short read looks at: some .1 ms."""
_SLICE_CELLS = 1000
_HEAD_VERSIONS = 8
"""Versions of a column that are read first; older ones that a policy drops are not read."""
_KEEP_ALL = GCPolicy()

Pending = Mapping[int, CaptureRecord]
"""Records of a row that are written but not committed yet, by time.  Each stands in the place of a stored one."""
NONE_PENDING: Pending = MappingProxyType({})

SameValue = Callable[[bytes, bytes], bool]
"""Whether two different cell values stand for the same value."""


def is_later(column: tuple[str, bytes]) -> bool:
    """Whether a column of a capture is a cell, computed after the write."""
    return column in LATER_COLUMNS or column[0] == NOTE_FAMILY


def expired(cells: Sequence[Cell], policy: GCPolicy, now: int, same_value: SameValue = eq) -> list[Cell]:
    """Versions of one column that its family's policy drops.

    Args:
        cells: all versions of the column, newest first, with their stored values.
        policy: of the family.
        now: microseconds since 1970; a version expires when its group's newest timestamp is max_age or more ago.
        same_value: called for neighbours with different cell values, if the result can matter.
    """
    return [cell for cell, kept in _with_kept(cells, policy, now, same_value) if not kept]


def _with_kept(cells: Iterable[Cell], policy: GCPolicy, now: int, same_value: SameValue) -> Iterator[tuple[Cell, bool]]:
    oldest = None if policy.max_age_seconds is None else now - round(policy.max_age_seconds * MICROS_PER_SECOND)
    both = policy.intersection and policy.max_versions is not None and oldest is not None
    rank = 0
    kept = True
    value: bytes | None = None
    for cell in cells:
        # After a dropped version none is kept: the versions that follow are older, and their rank is higher.
        if kept and cell.value != value:
            too_old = oldest is not None and cell.timestamp <= oldest
            matters = value is not None and (policy.max_versions is not None or too_old)
            if value is None or not matters or not same_value(cell.value, value):
                rank += 1
                too_many = policy.max_versions is not None and rank > policy.max_versions
                kept = not (too_many and too_old) if both else not (too_many or too_old)
            value = cell.value
        yield cell, kept


class TakesLong(Exception):
    """A short read would take long on a server's event loop; a thread makes it again."""


class CaptureRows:
    """Captures of the rows of a table: their records, and which of them the policies keep.  Thread-safe.

    Attributes:
        captures_policy, bodies_policy: policies for captures, and for the bodies of kept captures.
        collects_captures, collects_bodies, collects: whether they may hide captures, bodies, one of the two.
        ages_captures: whether one of them hides by age: then captures expire without a write.
        clock: microseconds since 1970, for `max_age_seconds`.

    Args:
        engine: has the cells.
        name: of the table.
        captures: the policy for captures.
        bodies: the policy for their bodies.
    """

    def __init__(
        self, engine: Engine, name: str, clock: Callable[[], int], captures: GCPolicy, bodies: GCPolicy
    ) -> None:
        self._engine = engine
        self._name = name
        self.clock = clock
        self.captures_policy, self.bodies_policy = captures, bodies
        self.collects_captures, self.collects_bodies = not keeps_all(captures), not keeps_all(bodies)
        self.collects = self.collects_captures or self.collects_bodies
        self.ages_captures = any(policy.max_age_seconds is not None for policy in (captures, bodies))
        self._on_damaged: Callable[[CorruptionError, Place], None] | None = None
        self._most_records: int | None = None

    def record(self, row_key: bytes, timestamp: int, pending: Pending = NONE_PENDING) -> CaptureRecord | None:
        """The capture record at a time, whether or not a policy hides it; None if the time is free."""
        if timestamp in pending:
            return pending[timestamp]
        value = self._engine.value_at(self._name, row_key, CAPTURE_FAMILY, b"", timestamp)
        return None if value is None else self._decoded(row_key, timestamp, value)

    def passing_over(self, on_damaged: Callable[[CorruptionError, Place], None]) -> Self:
        """The same table, in which a damaged capture record is as if it were not there, once it is listed.

        For writers: a page that is only a candidate must not stop the others, and a write replaces a damaged record.
        """
        other = copy(self)
        other._on_damaged = on_damaged
        return other

    def for_short_reads(self) -> Self:
        """The same table, in which a read of more than SHORT_RECORDS captures of a row raises `TakesLong`."""
        other = copy(self)
        other._most_records = SHORT_RECORDS
        return other

    def _decoded(self, row_key: bytes, timestamp: int, value: bytes) -> CaptureRecord | None:
        try:
            return decode_capture(timestamp, value)
        except CorruptionError as error:
            if self._on_damaged is None:
                raise
            self._on_damaged(error, Place(row_key, CAPTURE_FAMILY, b"", timestamp))
            return None

    def records(
        self, row_key: bytes, start: int = 0, end: int | None = None, pending: Pending = NONE_PENDING
    ) -> Iterator[CaptureRecord]:
        """All capture records of a row in a range of time, newest first, whether or not a policy hides them."""
        stored = self._stored_records(row_key, start, end)
        if not pending:
            return stored
        times = sorted((time for time in pending if start <= time and (end is None or time < end)), reverse=True)
        others = (record for record in stored if record.timestamp not in pending)
        return merge((pending[time] for time in times), others, key=lambda record: -record.timestamp)

    def _stored_records(self, row_key: bytes, start: int, end: int | None) -> Iterator[CaptureRecord]:
        limit, count = FIRST_RECORDS, 0
        while True:
            spec = ReadSpec((CAPTURE_FAMILY,), since=start, until=end, cell_limit=limit)
            cells = self._engine.read_row(self._name, row_key, spec)
            decoded = (self._decoded(row_key, cell.timestamp, cell.value) for cell in cells)
            yield from (record for record in decoded if record is not None)
            if len(cells) < limit:
                return
            count += limit
            if self._most_records is not None and count >= self._most_records:
                raise TakesLong
            end = cells[-1].timestamp
            limit = min(8 * limit, self._most_records or _MOST_RECORDS)

    def captures(
        self, row_key: bytes, end: int | None = None, pending: Pending = NONE_PENDING
    ) -> Iterator[LiveCapture]:
        """The captures of a row that the policies keep, newest first, including rejected ones and visits.

        Args:
            row_key: of the row.
            end: only those before this time.
            pending: records of the row that are not committed yet.
        """
        # Policies count from the newest capture on.
        records = self.records(row_key, 0, None if self.collects else end, pending)
        captures = self._live(records, lambda timestamp: self.record(row_key, timestamp, pending))
        if not self.collects or end is None:
            return captures
        bound = end
        return (capture for capture in captures if capture.timestamp < bound)

    def newest_record(self, row_key: bytes) -> Cell | None:
        """The newest capture record of a row, whether or not a policy hides it."""
        return self._engine.newest(self._name, row_key, CAPTURE_FAMILY, b"")

    def newest_capture(
        self, row_key: bytes, end: int | None = None, pending: Pending = NONE_PENDING, newest: Cell | None = None
    ) -> LiveCapture | None:
        """The newest live page of a row, before a time if one is given; a visit shows the page that it confirms."""
        if not pending:  # the most frequent read
            cell = newest or self.newest_record(row_key)  # the caller may have read it
            if cell is None:
                return None
            if (end is None or cell.timestamp < end) and not self.ages_captures:
                record = self._decoded(row_key, cell.timestamp, cell.value)
                if record is not None and record.kind == CAPTURE_STORED:
                    return stored_capture(record)
        if end is not None and not self.collects:
            first = next(self.records(row_key, 0, end, pending), None)
            if first is None or first.kind == CAPTURE_STORED:
                return None if first is None else stored_capture(first)
        return next((capture for capture in self.captures(row_key, end, pending) if capture.shows_page), None)

    def capture_at(self, row_key: bytes, timestamp: int, pending: Pending = NONE_PENDING) -> LiveCapture | None:
        """The live capture at a time; None if there is none, or a policy hides it."""
        now = self.clock()
        policies = (self.captures_policy, self.bodies_policy)
        if not all(keeps_all(policy) or _keeps_from(policy, timestamp, now) for policy in policies):
            newest = self.newest_capture(row_key, None, pending)
            if newest is not None and newest.source == timestamp:  # it lives as long as a visit that confirms it
                record = self.record(row_key, timestamp, pending)
                return record and stored_capture(record._replace(columns=record.columns | {BODY: newest.columns[BODY]}))
            for capture in self.captures(row_key, None, pending):
                if capture.timestamp <= timestamp:
                    return capture if capture.timestamp == timestamp else None
            return None
        record = self.record(row_key, timestamp, pending)
        if record is None:
            return None
        if record.kind == CAPTURE_STORED:
            return stored_capture(record)
        up_to = self.records(row_key, 0, timestamp + 1, pending)
        first = next(self._live(up_to, lambda timestamp: self.record(row_key, timestamp, pending)), None)
        return first if first is not None and first.timestamp == timestamp else None

    def live(self, records: Sequence[CaptureRecord]) -> Iterator[LiveCapture]:
        """Of all records of a row, newest first, the captures that the policies keep."""
        if len(records) == 1 and records[0].kind == CAPTURE_STORED and not self.collects:
            return iter((stored_capture(records[0]),))
        return self._live(records, {record.timestamp: record for record in records}.get)

    def row_captures(self, stored: Sequence[Cell]) -> Iterator[LiveCapture]:
        """The captures that the policies keep, newest first, from all cells of a row.

        Damaged records are left out, so that they do not end a scan.
        """
        return self.live(list(sound_records(stored)))

    def _live(
        self, records: Iterable[CaptureRecord], find: Callable[[int], CaptureRecord | None]
    ) -> Iterator[LiveCapture]:
        return live(records, find, self.captures_policy, self.bodies_policy, self.clock())

    def scan_captures(
        self, start: bytes = b"", end: bytes | None = None, others: Iterable[str] = ()
    ) -> Iterator[ScannedRow]:
        """Rows with captures: all their capture records and later columns, as stored.

        `row_captures` says which of them are live.  With `others`, also cells of these families, and rows with only
        such cells.
        """
        families = tuple(sorted({CAPTURE_FAMILY, *others, *LATER_FAMILIES}))
        limit = self._most_records or _SLICE_CELLS
        for row in self._engine.scan(self._name, start, end, ReadSpec(families, cell_limit=limit)):
            if row.truncated:
                if self._most_records is not None:
                    raise TakesLong
                row = ScannedRow(row.row_key, self.stored_row(row.row_key, ReadSpec(families)), truncated=False)
            yield row

    # --- records, whether or not a policy hides them

    def stored_row(self, row_key: bytes, spec: ReadSpec = EVERYTHING) -> list[Cell]:
        """Cells of one row as stored, hidden ones included; captures as their records.

        A delete needs them: a hidden cell exists until compaction.
        """
        return self._engine.read_row(self._name, row_key, spec)

    def row_keys(self, start: bytes = b"", end: bytes | None = None) -> Iterator[bytes]:
        """Keys of rows with ``start <= row key < end`` that hold cells, whether or not a policy hides them."""
        spec = ReadSpec(versions=1, cell_limit=1, keys_only=True)
        return (row.row_key for row in self._engine.scan(self._name, start, end, spec))

    def replacement(self, row_key: bytes, old: CaptureRecord, new: CaptureRecord) -> RowMutations | None:
        """The mutation that replaces a record with another; None if the row has something else there by now.

        `reindex` and the dropping of bodies change records this way, under the writers' lock.  On None they read the
        row again.
        """
        if self.record(row_key, old.timestamp) != old:
            return None
        return RowMutations(self._name, row_key, [new.cell()])

    def dropped_records(self, records: Sequence[CaptureRecord]) -> list[CaptureRecord]:
        """Of all records of a row, newest first, those that the policy drops, for compaction."""
        if not self.collects_captures:
            return []
        kept = {capture.timestamp for capture in self.live(records)}
        return [record for record in records if record.timestamp not in kept]

    def bodies_to_drop(self, records: Sequence[CaptureRecord]) -> set[int]:
        """Of all records of a row, newest first, the times of stored captures whose bodies the policy hides."""
        if not self.collects_bodies:
            return set()
        by_time = {record.timestamp: record for record in records}
        return {
            capture.timestamp
            for capture in self.live(records)
            if capture.kind == CAPTURE_STORED
            and capture.columns.get(BODY) != by_time[capture.timestamp].columns.get(BODY)
        }


class PlainFamilies:
    """Families with plain cells.  Consecutive versions with the same value count as one version.  Thread-safe.

    Args:
        engine: has the cells.
        name: of the table.
        policies: that drop something, by family.
        clock: microseconds since 1970, for `max_age_seconds`.
        same_value: whether two cell values stand for the same value.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        policies: Mapping[str, GCPolicy],
        clock: Callable[[], int],
        same_value: SameValue,
    ) -> None:
        self._engine = engine
        self._name = name
        self._policies = policies
        self._clock = clock
        self._same_value = same_value

    def read_row(self, row_key: bytes, spec: ReadSpec) -> list[Cell]:
        """Cells of one row that the policies keep; see `Table.read_row`."""
        if not self._collects(spec):
            return self._engine.read_row(self._name, row_key, spec)
        cells: list[Cell] = []
        for cell in self._kept_of_row(row_key, spec):
            cells.append(cell)
            if len(cells) == spec.cell_limit:
                break
        return cells

    def newest(self, row_key: bytes, family: str, qualifier: bytes) -> Cell | None:
        """The newest version of one column that the policies keep."""
        policy = self._policies.get(family)
        if policy is None or policy.max_age_seconds is None:  # a policy by number never drops the newest
            return self._engine.newest(self._name, row_key, family, qualifier)
        spec = ReadSpec((family,), qualifier, versions=1)
        return next((cell for cell in self.read_row(row_key, spec) if cell.qualifier == qualifier), None)

    def scan(self, start: bytes, end: bytes | None, spec: ReadSpec) -> Iterator[ScannedRow]:
        """Rows with a kept cell of the spec, in row-key order."""
        if self._collects(spec):
            return self._scan_kept(start, end, spec)
        return self._engine.scan(self._name, start, end, spec)

    def kept(self, cells: Iterable[Cell], spec: ReadSpec) -> Iterator[Cell]:
        """The cells of whole columns that the policies keep and the spec selects."""
        now = self._clock()
        for column, group in groupby(cells, key=_column_of):
            yield from self._kept_of_column(column, group, spec, now)

    def dropped(self, family: str, cells: Iterable[Cell]) -> list[Cell]:
        """Of all versions of a column of a family, newest first, those that its policy drops."""
        policy = self._policies.get(family)
        return [] if policy is None else expired(list(cells), policy, self._clock(), self._same_value)

    def collected_columns(self, row_key: bytes) -> Iterator[list[Cell]]:
        """All versions of each column of a row that has a policy."""
        if self._policies:
            raw = self._raw_cells(row_key, ReadSpec(tuple(sorted(self._policies))))
            for _, group in groupby(raw, key=_column_of):
                yield list(group)

    def _collects(self, spec: ReadSpec) -> bool:
        """Whether a policy may hide cells that the engine returns for this spec."""
        policies = (
            self._policies.values()
            if spec.families is None
            else [self._policies[family] for family in spec.families if family in self._policies]
        )
        # A policy by number never drops the newest version.
        newest_only = spec.versions == 1 and spec.until is None
        now = self._clock()
        return any(
            not _keeps_from(policy, spec.since, now) and (not newest_only or policy.max_age_seconds is not None)
            for policy in policies
        )

    def _scan_kept(self, start: bytes, end: bytes | None, spec: ReadSpec) -> Iterator[ScannedRow]:
        limit = spec.cell_limit
        raw = spec._replace(since=0, until=None, versions=None, keys_only=False, cell_limit=_SLICE_CELLS)
        for row in self._engine.scan(self._name, start, end, raw):
            source = self._kept_of_row(row.row_key, spec) if row.truncated else self.kept(row.cells, spec)
            cells: list[Cell] = []
            truncated = False
            for cell in source:
                if limit is not None and len(cells) == limit:
                    truncated = True
                    break
                cells.append(cell)
            if cells:
                yield ScannedRow(row.row_key, cells, truncated)

    def _kept_of_row(self, row_key: bytes, spec: ReadSpec) -> Iterator[Cell]:
        """The kept cells of a row; of a column with many versions only as many are read as needed."""
        now = self._clock()
        heads = self._raw_cells(row_key, spec._replace(versions=_HEAD_VERSIONS, until=None))
        for column, head in groupby(heads, key=_column_of):
            yield from self._kept_of_column(column, self._column(row_key, list(head), spec.since), spec, now)

    def _kept_of_column(
        self, column: tuple[str, bytes], cells: Iterable[Cell], spec: ReadSpec, now: int
    ) -> Iterator[Cell]:
        """As `kept`, for one column; reads no more versions than needed."""
        policy = self._policies.get(column[0], _KEEP_ALL)
        after = spec.after
        count = 0
        for cell, kept in _with_kept(cells, policy, now, self._same_value):
            if not kept or cell.timestamp < spec.since or count == spec.versions:
                return  # older versions are dropped, or not selected
            if spec.until is not None and cell.timestamp >= spec.until:
                continue
            count += 1
            if after is None or _order(cell) > (after.family, after.qualifier, -after.timestamp):
                yield cell._replace(value=b"") if spec.keys_only else cell
            if count == spec.versions:
                return

    def _column(self, row_key: bytes, head: Sequence[Cell], start: int) -> Iterator[Cell]:
        """All versions of a column from a time on, newest first: `head`, then more in slices, read lazily."""
        yield from head
        versions, limit = head, _HEAD_VERSIONS
        while len(versions) == limit:
            limit = min(limit * 4, _SLICE_CELLS)
            family, qualifier, timestamp, _ = versions[-1]
            after = Position(family, qualifier, timestamp)
            raw = ReadSpec((family,), qualifier, start, cell_limit=limit, after=after)
            cells = self._engine.read_row(self._name, row_key, raw)
            versions = [cell for cell in cells if cell.qualifier == qualifier]
            yield from versions

    def _raw_cells(self, row_key: bytes, spec: ReadSpec) -> Iterator[Cell]:
        """The newest versions of the spec's columns, in slices, from the column on in which the spec resumes."""
        after = spec.after
        if after is not None:
            # No timestamp is TIMESTAMP_MAX, which is no whole millisecond, so this position is before the column.
            after = Position(after.family, after.qualifier, TIMESTAMP_MAX)
        while True:
            raw = spec._replace(keys_only=False, cell_limit=_SLICE_CELLS, after=after)
            cells = self._engine.read_row(self._name, row_key, raw)
            yield from cells
            if len(cells) < _SLICE_CELLS:
                return
            after = Position(*cells[-1][:3])


class Table(CaptureRows):
    """Rows of one table of an engine, with declared families.  Thread-safe.

    Attributes:
        policies: of families with plain cells, those that drop something.

    Args:
        engine: has the cells.
        name: of the table.
        families: declared ones, by name; all others are refused.
        clock: microseconds since 1970, for `max_age_seconds`.
        same_value: whether two cell values stand for the same value.
        captures: the policy for captures.
        bodies: the policy for their bodies.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        families: Mapping[str, ColumnFamily],
        clock: Callable[[], int],
        same_value: SameValue = eq,
        *,
        captures: GCPolicy = _KEEP_ALL,
        bodies: GCPolicy = _KEEP_ALL,
    ) -> None:
        super().__init__(engine, name, clock, captures, bodies)
        self._families = dict(families)
        self.policies = {family.name: family.gc for family in families.values() if not keeps_all(family.gc)}
        self._plain = PlainFamilies(engine, name, self.policies, clock, same_value)

    # --- reading

    def read_row(self, row_key: bytes, spec: ReadSpec = EVERYTHING) -> list[Cell]:
        """Cells of one row that the policies keep, sorted by family, qualifier, newest first.

        `spec.versions` counts kept versions; fewer than `spec.cell_limit` cells mean that the row has no more.

        Raises:
            InvalidArgument: the spec names an undeclared family.
        """
        self._check_families(spec.families)
        of_captures, others = self._parts(spec)
        if not of_captures:
            return self._plain.read_row(row_key, spec)
        later = self._later(row_key, of_captures)
        shown = self._columns_shown(self.captures(row_key, spec.until), later, of_captures, spec)
        if others == ():
            return list(islice(shown, spec.cell_limit))
        cells = [*shown, *self._plain.read_row(row_key, spec._replace(families=others))]
        cells.sort(key=_order)
        return cells[: spec.cell_limit]

    def newest(self, row_key: bytes, family: str, qualifier: bytes) -> Cell | None:
        """The newest version of one column that the policies keep; cheaper than `read_row`.

        Raises:
            InvalidArgument: the family is not declared.
        """
        if family not in self._families:
            self._check_families((family,))
        if family not in CAPTURE_FAMILIES:
            return self._plain.newest(row_key, family, qualifier)
        spec = ReadSpec(families=(family,), qualifier_prefix=qualifier, versions=1)
        return next((cell for cell in self.read_row(row_key, spec) if cell.qualifier == qualifier), None)

    def scan(self, start: bytes = b"", end: bytes | None = None, spec: ReadSpec = EVERYTHING) -> Iterator[ScannedRow]:
        """Rows with ``start <= row key < end`` that have a kept cell of the spec, in row-key order."""
        self._check_families(spec.families)
        of_captures, others = self._parts(spec)
        if not of_captures:
            return self._plain.scan(start, end, spec)
        return self._scan_captures(start, end, spec, of_captures, others)

    # --- captures as cells

    def _parts(self, spec: ReadSpec) -> tuple[frozenset[str], tuple[str, ...] | None]:
        """The families of captures in a spec, and its other families; None for all others."""
        if spec.crawl:
            of_captures = CAPTURE_FAMILIES.intersection(CAPTURE_FAMILIES if spec.families is None else spec.families)
            if not of_captures:
                raise InvalidArgument(f"crawls are of captures: name families of {', '.join(sorted(CAPTURE_FAMILIES))}")
            return of_captures, ()
        if spec.families is None:
            return CAPTURE_FAMILIES, tuple(sorted(self._families.keys() - CAPTURE_FAMILIES))
        return CAPTURE_FAMILIES.intersection(spec.families), tuple(
            family for family in spec.families if family not in CAPTURE_FAMILIES
        )

    def _scan_captures(
        self,
        start: bytes,
        end: bytes | None,
        spec: ReadSpec,
        of_captures: frozenset[str],
        others: tuple[str, ...] | None,
    ) -> Iterator[ScannedRow]:
        families = {CAPTURE_FAMILY, *(others or ()), *(LATER_FAMILIES & of_captures)}
        raw = ReadSpec(tuple(sorted(families)), cell_limit=_SLICE_CELLS)
        for row in self._engine.scan(self._name, start, end, raw):
            if row.truncated:
                cells = self.read_row(row.row_key, spec._replace(cell_limit=None))
            else:
                cells = self._shown_of(row.cells, of_captures, spec)
            limit = spec.cell_limit
            if cells:
                yield ScannedRow(row.row_key, cells[:limit], limit is not None and len(cells) > limit)

    def _shown_of(self, stored: Sequence[Cell], of_captures: frozenset[str], spec: ReadSpec) -> list[Cell]:
        """Of all cells of a row, those that the policies keep and the spec selects."""
        records: list[CaptureRecord] = []
        later: list[Cell] = []
        others: list[Cell] = []
        for cell in stored:
            if cell.family == CAPTURE_FAMILY:
                records.append(capture_of(cell))
            elif cell.family in CAPTURE_FAMILIES:
                if is_later(cell[:2]):
                    later.append(cell)
            elif cell.qualifier.startswith(spec.qualifier_prefix):
                others.append(cell)
        captures = self.live(records)
        if spec.until is not None:
            bound = spec.until
            captures = (capture for capture in captures if capture.timestamp < bound)
        cells = list(self._columns_shown(captures, later, of_captures, spec))
        if others:
            cells += self._plain.kept(others, spec)
            cells.sort(key=_order)
        return cells

    def _later(self, row_key: bytes, families: frozenset[str]) -> list[Cell]:
        """Cells of columns that are computed after the write."""
        wanted = tuple(sorted(LATER_FAMILIES & families))
        if not wanted:
            return []
        cells = self._engine.read_row(self._name, row_key, ReadSpec(wanted))
        return [cell for cell in cells if is_later(cell[:2])]

    def _columns_shown(
        self, captures: Iterable[LiveCapture], later: Sequence[Cell], families: frozenset[str], spec: ReadSpec
    ) -> Iterator[Cell]:
        """Columns of captures as cells, sorted by family, qualifier, newest first."""
        by_column: dict[Column, list[Cell]] = {}
        prefix = spec.qualifier_prefix
        computed: dict[int, list[Cell]] = {}
        for cell in later:
            computed.setdefault(cell.timestamp, []).append(cell)
        label = encode_inline(spec.crawl.encode())
        for capture in captures:
            timestamp = capture.timestamp
            if timestamp < spec.since:
                break
            if spec.crawl and capture.columns.get(CRAWL) != label:
                continue
            for (family, qualifier), value in capture.columns.items():
                if family in families and qualifier.startswith(prefix):
                    by_column.setdefault((family, qualifier), []).append(Cell(family, qualifier, timestamp, value))
            for cell in computed.get(timestamp, ()):
                if cell.qualifier.startswith(prefix) and cell.family != NOTE_FAMILY:
                    by_column.setdefault(cell[:2], []).append(cell)
            for cell in computed.get(capture.source, ()):  # a visit shows the notes of the capture that it confirms
                if cell.qualifier.startswith(prefix) and cell.family == NOTE_FAMILY:
                    by_column.setdefault(cell[:2], []).append(cell._replace(timestamp=timestamp))
            if spec.versions is not None and self._has_all(by_column, families, prefix, spec.versions):
                break
        after = spec.after
        for column in sorted(by_column):
            for cell in by_column[column][: spec.versions]:
                if after is None or _order(cell) > (after.family, after.qualifier, -after.timestamp):
                    yield cell._replace(value=b"") if spec.keys_only else cell

    @staticmethod
    def _has_all(
        by_column: Mapping[Column, Sequence[Cell]], families: frozenset[str], prefix: bytes, most: int
    ) -> bool:
        """Whether the spec is for the newest versions of one column, and all of them are there."""
        if len(families) > 1 or not prefix:
            return False
        versions = by_column.get((next(iter(families)), prefix))
        return versions is not None and len(versions) >= most and len(by_column) == 1

    # --- for copies and compaction

    def live_cells(self, stored: Sequence[Cell]) -> list[Cell]:
        """Of all cells of a row, from `stored_row`, those that the policies keep; records without hidden bodies.

        Damaged records are left out.
        """
        records = list(sound_records(stored))
        dropped = {record.timestamp for record in self.dropped_records(records)}
        bodies = self.bodies_to_drop(records)
        shown = (without_body(record) if record.timestamp in bodies else record for record in records)
        kept = [Cell(*record.cell()) for record in shown if record.timestamp not in dropped]
        times = {cell.timestamp for cell in kept}
        kept += (cell for cell in stored if is_later(cell[:2]) and cell.timestamp in times)
        others = (cell for cell in stored if cell.family not in CAPTURE_FAMILIES and cell.family != CAPTURE_FAMILY)
        return [*kept, *self._plain.kept(others, EVERYTHING)]

    def dropped_of(self, cells: Sequence[Cell]) -> list[Cell]:
        """Of all stored cells of a row, those that the policies drop, for compaction.

        Later columns of a capture are dropped with its record.
        """
        if not self.collects_captures and all(cell.family == CAPTURE_FAMILY for cell in cells):
            return []
        records = [capture_of(cell) for cell in cells if cell.family == CAPTURE_FAMILY]
        kept = {record.timestamp for record in records}
        kept -= {record.timestamp for record in self.dropped_records(records)}
        dropped: list[Cell] = []
        for column, group in groupby(cells, key=_column_of):
            if column[0] == CAPTURE_FAMILY or is_later(column):
                dropped += [cell for cell in group if cell.timestamp not in kept]
            else:
                dropped += self._plain.dropped(column[0], group)
        return dropped

    def dropped(self, row_key: bytes) -> Iterator[Cell]:
        """As `dropped_of`, for a row with very many cells."""
        families = (CAPTURE_FAMILY, *sorted(LATER_FAMILIES))
        yield from self.dropped_of(self._engine.read_row(self._name, row_key, ReadSpec(families)))
        for cells in self._plain.collected_columns(row_key):
            yield from self.dropped_of(cells)

    # --- writing

    def checked(self, mutations: Sequence[Mutation]) -> Sequence[Mutation]:
        """Check mutations, and return them.

        Raises:
            InvalidArgument: an undeclared family, or a timestamp that is no whole millisecond in range.
        """
        for mutation in mutations:
            if isinstance(mutation, DeleteRow):
                continue
            self._check_families((mutation.family,))
            if mutation.family in CAPTURE_FAMILIES:
                raise InvalidArgument(
                    f"family {mutation.family!r} shows captures of pages and takes no cells: write pages with "
                    "`put_page`, delete them with `delete`, and keep your own columns in a family that you declare"
                )
            if isinstance(mutation, SetCell):
                self._check_timestamp(mutation.timestamp)
            elif isinstance(mutation, DeleteCells):
                for bound in (mutation.since, mutation.until):
                    if bound is not None:
                        self._check_timestamp(bound)
        return mutations

    def compact_deleted(self) -> None:
        """Let the engine give back the space of deleted rows."""
        self._engine.compact_deleted()

    # --- arguments

    def _check_families(self, families: Sequence[str] | None) -> None:
        for family in families or ():
            if family not in self._families:
                declared = ", ".join(sorted(self._families))
                raise InvalidArgument(
                    f"family {family!r} is not declared in table {self._name!r}; declared are {declared}"
                )

    @staticmethod
    def _check_timestamp(timestamp: int) -> None:
        if not 0 <= timestamp <= TIMESTAMP_MAX or timestamp % TIMESTAMP_STEP_MICROS:
            raise InvalidArgument(
                f"timestamp {timestamp} must be whole milliseconds, in microseconds since 1970, from 0 to "
                f"{TIMESTAMP_MAX}; round it to a multiple of {TIMESTAMP_STEP_MICROS}"
            )


def _column_of(cell: Cell) -> Column:
    return cell[:2]


def _order(cell: Cell) -> tuple[str, bytes, int]:
    return cell.family, cell.qualifier, -cell.timestamp


def _keeps_from(policy: GCPolicy, start: int, now: int) -> bool:
    """Whether a policy, by age alone, keeps all versions from a time on."""
    if policy.max_age_seconds is None or not (policy.max_versions is None or policy.intersection):
        return False
    return start > now - round(policy.max_age_seconds * MICROS_PER_SECOND)


def declared_families(schema: Schema) -> dict[str, ColumnFamily]:
    """The built-in families and the schema's; the schema's replace built-in ones of the same name."""
    return {family.name: family for family in (*BUILT_IN_FAMILIES, *schema.families)}


def pages_table(engine: Engine, schema: Schema, clock: Callable[[], int], same_value: SameValue) -> Table:
    """The table of pages of a store, with the families and policies of its schema."""
    families, captures, bodies = declared_families(schema), schema.captures, schema.bodies
    return Table(engine, PAGES, families, clock, same_value, captures=captures, bodies=bodies)
