"""Moving one tablet: its rows are read, their values moved into new segments, garbage dropped, and refs swapped.

Rows are read in row-key order, in chunks.  Their values are written to a segment, which is durable before the first row
refers to it, and before other tablets' threads learn of its refs.  The values of a capture are moved together, because
its record is replaced as a whole, and only if no other writer has changed it.  If one has, the moved values are
garbage, and the next pass takes the row again.

    Relocator    the rows
        move         scans the rows of a tablet, and calls `_plan` for each chunk
        _plan        plans the changes of rows; `_kept` says what the policies keep of a row
        publish      finishes the segment, and calls `_apply` for each planned row
        _apply       compares each planned row with what is stored now, and swaps the refs
    ValueMover   the values
        plan         native code (`native/store/src/moving.rs`) chooses the values that move, and copies records
        _encode      encodes a value that is left, or refers to another record of the same bytes
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from threading import Event
from typing import Any, NamedTuple, TypeAlias

from docstore.compiled import docstore_native
from docstore.model.capture import (
    BODY,
    CANONICAL_PAGE,
    MAIN,
    Column,
    PagePointer,
    decode_cluster_place,
)
from docstore.model.errors import CorruptionError, StorageError
from docstore.model.format import CAPTURE_FAMILY, CAPTURE_FIELDS, INLINE_LIMIT_BYTES, RECORD_VALUE
from docstore.model.types import Cell, Mutation, ReadSpec, RowMutations, SetCell
from docstore.storage.bases import TABLE as BASES
from docstore.storage.bases import Base, base_row, value_name
from docstore.storage.captures import CaptureRecord, capture_of
from docstore.storage.engine import Plan, ScannedRow, all_cells, delete_of
from docstore.storage.files import uninterrupted
from docstore.storage.reports import CompactionReport
from docstore.storage.table import PAGES, Table
from docstore.storage.unreadable import Place
from docstore.storage.values import INLINE_TAG, is_absent, raw_bytes_of
from docstore.tablets.codec import EncodedAgain
from docstore.tablets.commit import LocalCommitter
from docstore.tablets.compaction.encoding import Level, OldValue, Relatives
from docstore.tablets.compaction.segments import SegmentWriter, rules_of, segment_of
from docstore.tablets.dictionaries import TabletDictionaries
from docstore.tablets.layout import LocalBackend
from docstore.tablets.manifest import Tablet
from docstore.tablets.record import CODEC_NAMES, Record, SegmentNames, record_does_not_fit
from docstore.tablets.segment import SEGMENT_LIMIT_BYTES

SLICE_CELLS = 1000
CHUNK_ROWS = 64
"""Rows whose records are read together; Ctrl-C is answered between two chunks."""
APPLY_MOVES = 256
"""Refs swapped under one hold of the lock: those of about 100 rows, or some of a row with very many captures."""
PENDING_MOVES = 20_000
"""Pending moves, with their records, until their segment is finished: about 20 MB."""
TEXT_ON_BODY = 0.12
"""Part of a text's bytes that a delta against its own body, if that is whole, saves compared with the text alone."""

Move: TypeAlias = tuple[int, bytes, bytes, bytes, Base | bytes | None]
"""A value with a new ref, or a body that is dropped: the number of its column in a capture record, or 0 for the value
of another cell; its old and its new cell value; its name as a base, b"" if it is none or that is not known; the base of
the new record, if that is a delta: only its name if the record was copied."""

Settled: TypeAlias = tuple[bytes, bytes, Base | None, bool, bool]
"""What became of a value that native code has left: its new cell value; its name as a base; the base of the new
record, if that is a delta; whether it is a body whose record was written just now, and whole; whether captures of other
pages, or deltas, may refer to the record."""


class PlannedRow(NamedTuple):
    """The changes of one row: capture records and cells of other families with their moves, and whether policies drop
    some of its cells."""

    row_key: bytes
    changes: list[tuple[Cell, list[Move]]]
    drops_cells: bool


class Relocator:
    """Moves one tablet.

    Attributes:
        tablet: the row range.
        mover: of its values.

    Args:
        backend, table, committer: of the store.
        tablet, mover: see above.
        old: segments to empty.
        on_bytes: called with the bytes of old records.
        stop: set when another tablet failed.
    """

    def __init__(
        self,
        backend: LocalBackend,
        table: Table,
        committer: LocalCommitter,
        tablet: Tablet,
        mover: ValueMover,
        *,
        old: set[int],
        on_bytes: Callable[[int], None],
        stop: Event,
    ) -> None:
        self._engine, self._base_rows = backend.engine, backend.base_rows
        self._table = table
        self._committer = committer
        self.tablet = tablet
        self.mover, self._counts = mover, mover.counts
        self._old = old
        self._on_bytes = on_bytes
        self._stop = stop
        self._pending: list[PlannedRow] = []
        self._pending_moves = 0
        self._changed: set[bytes] = set()
        """Rows of the tablet that others changed since this pass began: only these are read again before a swap."""
        self._is_committing = False

    def move(self, *, again: bool = False) -> bool:
        """Move the values that are in old segments; -> whether some were left, because others changed their rows.

        Args:
            again: a second or later pass.
        """
        counts, mover = self._counts, self.mover
        mover.begin_pass()
        counts.left_values, races_before = 0, counts.lost_races
        self._changed = set()
        try:
            with self._committer.lock:
                self._committer.followers.add(self._follow)
            scan = self._engine.scan(PAGES, self.tablet.start, self.tablet.end, ReadSpec(cell_limit=SLICE_CELLS))
            for rows in _chunks(scan):
                if self._stop.is_set():
                    raise StorageError("the compaction of another tablet failed")
                counts.rows += 0 if again else len(rows)
                self._plan(rows)
            self.publish()
        except BaseException:
            with uninterrupted():
                segment, _ = mover.take_segment()
                if segment is not None:
                    segment.abandon()
            raise
        finally:
            with self._committer.lock:
                self._committer.followers.discard(self._follow)
        return bool(counts.left_values) or counts.lost_races > races_before

    def _follow(self, rows: Sequence[RowMutations], _: bool) -> None:
        """Note the rows that others change.

        REQUIRES: the committer's lock.
        """
        if not self._is_committing:
            start, end = self.tablet.start, self.tablet.end
            keys = (row.row_key for row in rows if row.table == PAGES)
            self._changed.update(key for key in keys if start <= key and (end is None or key < end))

    def _commit(self, plan: Plan) -> None:
        """Commit changes of rows that this pass reads no more.

        REQUIRES: the committer's lock.
        """
        self._is_committing = True
        try:
            self._committer.commit(plan)
        finally:
            self._is_committing = False

    def _collect_long_row(self, row_key: bytes) -> None:
        """Apply the policies to a row with very many cells, in slices."""
        dropped = self._table.dropped(row_key)
        while cells := list(islice(dropped, SLICE_CELLS)):
            with self._committer.lock:
                drops = [delete_of(cell) for cell in cells]
                self._committer.commit(Plan([RowMutations(PAGES, row_key, drops)]))
            self._counts.expired_cells += len(drops)

    # --- planning

    def _plan(self, rows: list[ScannedRow]) -> None:
        """Move the values of rows, and plan their changes; publish them when a segment is full."""
        mover, first = self.mover, 0
        while True:
            if not self._table.collects:
                first = mover.add_rows(rows, first)
            if first == len(rows):
                break
            mover.add_row(rows[first].row_key, *self._kept(rows[first]))
            first += 1
        while not mover.is_done:
            planned = mover.plan(SEGMENT_LIMIT_BYTES, PENDING_MOVES - self._pending_moves)
            self._on_bytes(mover.take_read_bytes())
            self._pending += [piece for row in planned for piece in _pieces(row)]
            self._pending_moves += sum(map(_moves_of, planned))
            is_full = mover.segment_bytes >= SEGMENT_LIMIT_BYTES or self._pending_moves >= PENDING_MOVES
            if is_full and mover.is_between_rows:
                self.publish()

    def _kept(self, row: ScannedRow) -> tuple[list[Cell], set[int], bool]:
        """The sound cells of a row that the policies keep, the times of captures whose bodies are dropped, and whether
        some cells have to be deleted."""
        cells = [
            cell
            for cell in all_cells(self._engine, PAGES, row)
            if not row.truncated or cell.value[:1] != INLINE_TAG or cell.family in (CAPTURE_FAMILY, "dedup")
        ]
        row_key = row.row_key
        records: dict[int, CaptureRecord] = {}
        for cell in cells:
            if cell.family == CAPTURE_FAMILY:
                try:
                    records[cell.timestamp] = capture_of(cell)
                except CorruptionError as error:
                    self.mover.record_damage(error, Place(row_key, CAPTURE_FAMILY, b"", cell.timestamp))
        is_sound = len(records) == sum(cell.family == CAPTURE_FAMILY for cell in cells)
        dropped = set(self._table.dropped_of(cells)) if is_sound else set()
        hidden = self._table.bodies_to_drop(list(records.values()))
        if is_sound and row.truncated:
            self._collect_long_row(row_key)
        kept = [
            cell
            for cell in cells
            if cell not in dropped and (cell.family != CAPTURE_FAMILY or cell.timestamp in records)
        ]
        return kept, hidden, bool(dropped) and not row.truncated

    # --- applying

    def publish(self) -> None:
        """Finish the segment and write its manifest row; then swap the refs, a few rows under each hold of the lock."""
        with uninterrupted():
            segment, names = self.mover.take_segment()
            if segment is not None:
                try:
                    row = segment.finish()
                    with self._committer.lock:
                        self._committer.manifest.write_segment(row, self._committer.durability, names)
                except BaseException:  # once its sources are removed, a file without a row looks like lost records
                    segment.abandon()
                    raise
        self.mover.share_moved()
        pending, self._pending, self._pending_moves = self._pending, [], 0
        for batch in _batches(pending):
            with self._committer.lock:
                rows: dict[tuple[str, bytes], list[Mutation]] = {}
                for planned in batch:
                    self._apply(planned, rows)
                if rows:
                    bases_first = sorted(rows.items(), key=lambda row: row[0][0] != BASES)
                    self._commit(Plan([RowMutations(*key, mutations) for key, mutations in bases_first]))
        del pending
        gc.collect(1)  # of the thousands of objects since the last call hardly any are left

    def _apply(self, planned: PlannedRow, rows: dict[tuple[str, bytes], list[Mutation]]) -> None:
        """Add the changes of a row that are still valid.

        REQUIRES: the committer's lock.
        """
        row_key = planned.row_key
        dropped = list(self._table.dropped(row_key)) if planned.drops_cells else []
        mutations: list[Mutation] = [delete_of(cell) for cell in dropped]
        self._counts.expired_cells += len(dropped)
        dropped_keys = {cell[:3] for cell in dropped}
        hidden: set[int] | None = None
        for cell, moves in planned.changes:
            if dropped and cell[:3] in dropped_keys:
                continue
            new: list[tuple[int, bytes]] = []
            bases: dict[tuple[str, bytes], list[Mutation]] = {}
            for move in moves:
                if is_absent(move[2]):
                    if hidden is None:
                        hidden = self._table.bodies_to_drop(list(self._table.records(row_key)))
                    if cell.timestamp not in hidden:  # a visit has confirmed it since then; the next pass moves it
                        self._counts.left_values += 1
                        continue
                elif not self._update_bases(move, bases):
                    self._counts.left_values += 1
                    continue
                new.append((move[0], move[2]))
            if not new:
                continue
            if row_key in self._changed and self._engine.value_at(PAGES, row_key, *cell[:3]) != cell.value:
                self._counts.lost_races += 1
                continue
            is_record = cell.family == CAPTURE_FAMILY
            value = docstore_native.with_values(cell.value, new) if is_record else new[0][1]
            assert value is not None
            mutations.append(SetCell(*cell[:3], value))
            rows.update(bases)
        if mutations:
            rows.setdefault((PAGES, row_key), []).extend(mutations)

    def _update_bases(self, move: Move, rows: dict[tuple[str, bytes], list[Mutation]]) -> bool:
        """Add the rows of bases that change with a move; False if the new value cannot be used."""
        column, old, new, name, base = move
        own_name = name or self._base_rows.name_of(old)
        base_value = self._base_rows.cell_value(own_name) if own_name else None
        if base is None:
            if own_name and base_value is not None and (base_value == old or own_name in self._base_rows.retired):
                self._make_base(own_name, new, rows)
            return True
        if base_value == old:
            return False  # the value was encoded as a delta, but has become a base since then
        name = base if isinstance(base, bytes) else base.name
        if name in self._base_rows.retired or self._base_rows.cell_value(name) is None:
            if isinstance(base, bytes) or not base.cell_value:
                return False  # its base was freed
            key = base.pointer.row_key, CAPTURE_FIELDS[column], base.cell_value
            if segment_of(base.cell_value) in self._old and not has_value(self._table, *key):
                return False  # the thread of another tablet has moved it meanwhile, and its old record would stay
            self._make_base(name, base.cell_value, rows)
        return True

    def _make_base(self, name: bytes, cell_value: bytes, rows: dict[tuple[str, bytes], list[Mutation]]) -> None:
        """Set the cell value of a base; any record of the same bytes will do."""
        self._base_rows.retired.discard(name)
        rows[BASES, name] = list(base_row(name, cell_value).mutations)


def _chunks(scan: Iterable[ScannedRow]) -> Iterator[list[ScannedRow]]:
    """Group rows up to CHUNK_ROWS of them, or about SLICE_CELLS cells."""
    rows: list[ScannedRow] = []
    count = 0
    for row in scan:
        rows.append(row)
        count += len(row.cells)
        if len(rows) >= CHUNK_ROWS or count >= SLICE_CELLS:
            yield rows
            rows, count = [], 0
    if rows:
        yield rows


def _moves_of(planned: PlannedRow) -> int:
    return sum(len(moves) for _, moves in planned.changes)


def _pieces(planned: PlannedRow) -> Iterator[PlannedRow]:
    """Split the plan of a row into pieces of about APPLY_MOVES moves; a row need not change as a whole."""
    changes: list[tuple[Cell, list[Move]]] = []
    count, drops_cells = 0, planned.drops_cells
    for cell, moves in planned.changes:
        if changes and count + len(moves) > APPLY_MOVES:
            yield PlannedRow(planned.row_key, changes, drops_cells)
            changes, count, drops_cells = [], 0, False
        changes.append((cell, moves))
        count += len(moves)
    yield PlannedRow(planned.row_key, changes, drops_cells)


def _batches(pending: Sequence[PlannedRow]) -> Iterator[list[PlannedRow]]:
    """Group plans up to APPLY_MOVES moves."""
    batch: list[PlannedRow] = []
    moves = 0
    for planned in pending:
        planned_moves = 1 + _moves_of(planned)
        if batch and moves + planned_moves > APPLY_MOVES:
            yield batch
            batch, moves = [], 0
        batch.append(planned)
        moves += planned_moves
    if batch:
        yield batch


# --- values


class ValueMover:
    """Moves the values of one tablet into new segments.  One thread's.

    Attributes:
        counts: of the moves, for the report of the run.

    Args:
        backend, table: of the store.
        tablet: the row range.
        dictionaries: for its values.
        level: how hard to try.
        old: segments to empty.
        begin_segment: starts a segment of a tablet.
        copies: records that would hardly become smaller are copied.
        shared: moved values that pages may share, of all tablets.
        cache_bytes: raw bytes of bases that are kept in memory.
    """

    def __init__(
        self,
        backend: LocalBackend,
        table: Table,
        tablet: Tablet,
        dictionaries: TabletDictionaries,
        level: Level,
        *,
        old: set[int],
        begin_segment: Callable[[int], SegmentWriter],
        copies: bool,
        shared: docstore_native.SharedMoves,
        cache_bytes: int,
    ) -> None:
        self.counts = CompactionReport("")
        self._backend, self._values, self._base_rows = backend, backend.values, backend.base_rows
        self._table = table
        self._tablet = tablet
        self._dictionaries = dictionaries
        self._level = level
        self._codec = level.codec()
        self._old = old
        self._begin_segment = begin_segment
        self._copies = copies
        self._cache_bytes = cache_bytes
        self._native = docstore_native.Mover(old, rules_of(table), shared)
        self.add_rows, self.add_row, self.share_moved = self._native.add_rows, self._native.add_row, self._native.share
        self._segment: SegmentWriter | None = None
        self._read_bytes = 0
        self._relatives: Relatives
        """Of the current pass over the tablet."""
        self._old_body = b"", b""
        """Cell value and bytes of the body that was encoded last."""

    def begin_pass(self) -> None:
        """Begin a pass over the tablet."""
        self._relatives = Relatives(self._tablet, self._backend, self._table, self._level, self._cache_bytes)

    def take_read_bytes(self) -> int:
        """Bytes of old records that were moved since the last call."""
        read_bytes, self._read_bytes = self._read_bytes, 0
        return read_bytes

    @property
    def is_done(self) -> bool:
        """Whether all rows that were added are planned."""
        return self._native.is_done

    @property
    def is_between_rows(self) -> bool:
        """Whether no row is planned in part."""
        return self._native.is_between_rows

    @property
    def segment_bytes(self) -> int:
        """Length of the segment that is being written."""
        return self._native.length_bytes

    def take_segment(self) -> tuple[SegmentWriter | None, SegmentNames]:
        """The segment that is being written, for the caller to finish or abandon, and the names in its records."""
        segment, self._segment = self._segment, None
        *names, written = self._native.end_segment()
        codec_bytes = self.counts.codec_bytes
        for (family, codec), record_bytes in written.items():
            kind = f"{family}.{CODEC_NAMES[codec]}"
            codec_bytes[kind] = codec_bytes.get(kind, 0) + record_bytes
        return segment, SegmentNames(*names)

    def record_damage(self, error: CorruptionError, place: Place) -> None:
        """List a value that cannot be read; it stays where it is."""
        self._values.unreadable.record(error, place)
        self.counts.damaged_values += 1

    # --- from rows to moves

    def plan(self, most_bytes: int, most_moves: int) -> list[PlannedRow]:
        """Move the values of the rows that come next.

        Args:
            most_bytes, most_moves: a row is the last one if with it the segment has so many bytes, or if there are so
                many moves.
        Returns:
            The rows whose values are all moved.
        """
        native = self._native
        if (wanted := native.read(self._source, self._copies and self._base_rows.is_cached)) is not None:
            olds, bases, scopes = wanted
            names = list(map(self._base_rows.name_of, olds))
            stays = list(map(self._relatives.is_usable, bases))
            native.decide(names, stays, [self._dictionaries.checksum(*scope) for scope in scopes])
        while (left := native.run(most_bytes, most_moves)) is not None:
            if left:
                self._encode(*left)
            elif self._segment is None:
                self._begin()
        if self._segment is not None:
            self._segment.add(native.take_bytes())
        values, raw_bytes, read_bytes = native.take_counts()
        self.counts.values += values
        self.counts.raw_bytes += raw_bytes
        self._read_bytes += read_bytes
        return list(map(PlannedRow._make, native.take_planned()))

    def _source(self, segment: int, offset: int, length: int) -> bytes | None:
        """Bytes of a segment; None if they cannot be read: reading the record alone says why."""
        try:
            return self._values.value_log.source(segment, offset, length)
        except CorruptionError:
            return None

    # --- values that are left

    def _encode(
        self,
        place: tuple[bytes, list[Cell], Cell],
        number: int,
        old: bytes,
        fields: tuple[Any, ...] | None,
        body: Move | None,
        is_after_body: bool,
        is_on_body: bool,
    ) -> None:
        """Encode a value that native code has left, and tell it what became of the value.

        Args:
            place: the row key, the cells of the row, and the cell that has the value.
            number: of the column in a capture record, or 0.
            old: the cell value.
            fields: of the record; None if it is damaged.
            body: for a value of a capture: the move of the capture's body, if it has one.
            is_after_body: the record that was written last is that body, and whole.
            is_on_body: the value is a delta of the body that was moved last.
        """
        row_key, cells, cell = place
        column = CAPTURE_FIELDS[number] if number else cell[:2]
        pointer = PagePointer(cell.timestamp, row_key)
        settled: Settled | None = None
        try:
            record = self._values.stored_record(old) if fields is None else Record(*fields)
            self._read_bytes += self._values.stored_bytes(old)
            self.counts.values += 1
            self.counts.raw_bytes += record.raw_bytes
            if column not in (BODY, MAIN):
                owner = PagePointer(record.timestamp, record.row_key)
                new, _ = self._write(owner, EncodedAgain(column, self._values.value_of(old, record)))
                settled = new, b"", None, False, False
            else:
                raw = self._values.value_of(old, record, self._old_body)
                if column == BODY:
                    self._old_body = old, raw
                name = value_name(raw)
                columns = capture_of(cell).columns
                value = OldValue(pointer, columns, column, old, record, raw, name, self._base_rows.cell_value(name))
                elsewhere = self._native.moved(old) or self._other_record(value)
                if elsewhere is not None:
                    settled = elsewhere, name, None, False, False
                elif column == BODY:
                    settled = self._encode_body(value, cells)
                else:
                    settled = self._encode_text(value, cells, body, is_after_body=is_after_body, is_on_body=is_on_body)
        except CorruptionError as error:
            self.record_damage(error, Place(row_key, *column, cell.timestamp))
        self._native.settle(settled)

    def _other_record(self, value: OldValue) -> bytes | None:
        """For a value that another page's record has: the record of the same bytes that the row of the base names.

        None if that is the value's own, or is to be moved itself.
        """
        if not value.is_shared or value.is_base or segment_of(value.base_value or b"") in self._old:
            return None
        return value.base_value

    def _owner(self, value: OldValue) -> PagePointer:
        """The owner of the new record: the capture, or the owner of a shared record, if that still has it."""
        record = value.record
        if record.row_key != value.pointer.row_key:
            column = record.family, record.qualifier
            if not (value.is_shared and has_value(self._table, record.row_key, column, value.cell_value)):
                return value.pointer
        return PagePointer(record.timestamp, record.row_key)

    # --- bodies and texts

    def _encode_body(self, body: OldValue, cells: Sequence[Cell]) -> Settled:
        """Encode a body again: as a delta against a similar body if that saves enough.

        Args:
            body: the value.
            cells: of its row.
        """
        owner = self._owner(body)
        bases, frame = self._bases(body, None, cells)
        text_bytes = raw_bytes_of(body.columns.get(MAIN, INLINE_TAG))
        # Beside a delta, the text cannot be a delta of this body.
        saves = [-int(TEXT_ON_BODY * text_bytes)] * len(bases) if text_bytes > INLINE_LIMIT_BYTES else []
        new, base = self._write(owner, _again(body, bases, frame=frame, saves=saves))
        if base is None:
            self._relatives.add(Base(body.name, body.raw, new, owner), body.cell_value)
        return new, body.name, base and base._replace(raw=b""), base is None, body.is_base or body.is_shared

    def _encode_text(
        self, text: OldValue, cells: Sequence[Cell], body: Move | None, *, is_after_body: bool, is_on_body: bool
    ) -> Settled:
        """Encode a text again: as a delta against its body, if that was just written whole, or against a similar text.

        Args:
            text: the value.
            cells: of its row.
            body, is_after_body, is_on_body: see `_encode`.
        """
        owner = self._owner(text)
        own_body: bytes | None = None
        if body is not None and is_after_body:
            own_body = self._old_body[1] if self._old_body[0] == body[1] else self._values.fetch(body[1])
        body_base = body and body[4]
        if isinstance(body_base, bytes):
            body_base = Base(body_base, b"", b"", PagePointer(0, text.pointer.row_key))
        bases, frame = self._bases(text, body_base, cells)
        tries_none = not bases and not self._level.compares
        if own_body and tries_none and is_on_body:
            record = text.record._replace(row_key=owner.row_key, timestamp=owner.timestamp)
            new, base = self._add(record), None  # it would become the same delta again
        else:
            new, base = self._write(owner, _again(text, bases, body=own_body or b"", frame=frame))
        if base is None and body is not None and body_base is None:
            self._relatives.add_text(body[3], Base(text.name, text.raw, new, owner), text.cell_value)
        return new, text.name, base and base._replace(raw=b""), False, text.is_base or text.is_shared

    def _bases(self, value: OldValue, body_base: Base | None, cells: Sequence[Cell]) -> tuple[list[Base], bytes]:
        """What a body or text is tried against, and its current delta if that is one against the first of them.

        A base is tried against nothing, nor is a value that pages share: others refer to their records.

        Args:
            value: the body or text.
            body_base: for a text: the base of the capture's body.
            cells: of its row.
        """
        if value.is_base or value.is_shared:
            return [], b""
        bases: list[Base] = []
        frame, current = b"", value.current_base
        if current and not self._level.compares and self._relatives.is_usable(current):
            frame = value.record.payload
            bases.append(Base(current, b"", b"", PagePointer(0, value.pointer.row_key)))
        if not self._codec.is_small(len(frame), len(value.raw)):
            if value.record.family == MAIN[0]:
                candidates = self._relatives.bases_for_text(value, body_base)
            else:
                candidates = self._relatives.bases_for_body(value, self._likely_relative(value, cells))
            bases += islice(candidates, self._level.tries)
        return bases, frame

    def _likely_relative(self, body: OldValue, cells: Sequence[Cell]) -> PagePointer | None:
        """The canonical page of a capture's cluster by the last sweep, else the page that its verdict names."""
        row_key, timestamp = body.pointer.row_key, body.pointer.timestamp
        unreadable = self._values.unreadable
        swept = (cell.value for cell in cells if cell[:3] == (*CANONICAL_PAGE, timestamp))
        cell_value = next(swept, b"")
        if cell_value[:1] == INLINE_TAG:
            place = Place(row_key, *CANONICAL_PAGE, timestamp)
            canonical = unreadable.attempt(lambda: decode_cluster_place(cell_value[1:]), place)
            if canonical is not None and canonical.row_key != row_key:
                return PagePointer(canonical.timestamp, canonical.row_key)
        verdict = unreadable.verdict(self._values.fetch, row_key, timestamp, body.columns)
        return None if verdict is None else verdict.of

    # --- records

    def _write(self, owner: PagePointer, value: EncodedAgain) -> tuple[bytes, Base | None]:
        """Encode a value and write its record; -> its cell value, and the base of which it is a delta."""
        encoded = self._codec.encode(value, self._dictionaries.choose(owner.row_key, value.column))
        fields = encoded.codec, encoded.related, len(value.raw), encoded.payload
        record = Record(RECORD_VALUE, owner.row_key, *value.column, owner.timestamp, *fields)
        return self._add(record), encoded.base

    def _add(self, record: Record) -> bytes:
        """Write a record; returns its cell value.  A text that is a delta of its body comes directly after that."""
        if self._segment is None:
            self._begin()
        cell_value = self._native.write(record)
        if cell_value is None:
            raise record_does_not_fit()
        return cell_value

    def _begin(self) -> None:
        self._segment = segment = self._begin_segment(self._tablet.number)
        self._native.begin(segment.number, segment.length_bytes)


def _again(
    value: OldValue, bases: Sequence[Base], *, body: bytes = b"", frame: bytes = b"", saves: Sequence[int] = ()
) -> EncodedAgain:
    """The value for the codec.  A shared record stays in the column of its owner."""
    column = value.record.family, value.record.qualifier
    return EncodedAgain(column, value.raw, bases, saves, body, frame)


def has_value(table: Table, row_key: bytes, column: Column, cell_value: bytes) -> bool:
    """Whether a capture of a row has a value."""
    return any(capture.columns.get(column) == cell_value for capture in table.records(row_key))
