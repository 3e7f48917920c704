"""Moving one tablet: its rows are read, their values moved into new segments, garbage dropped, and refs swapped.

Rows are read in row-key order, in chunks.  Their values are written to a segment, which is durable before the first row
refers to it, and before other tablets' threads learn of its refs.  The values of a capture are moved together, because
its record is replaced as a whole, and only if no other writer has changed it.  If one has, the moved values are
garbage, and the next pass takes the row again.

    Relocator    the rows
        move         scans the rows of a tablet, and calls `_plan` for each
        _plan        gives the moves of a row: `ValueMover.moves` for each capture
        publish      finishes the segment, and calls `_apply` for each planned row
        _apply       compares each planned row with what is stored now, and swaps the refs
    ValueMover   the values
        moves        gives the moves of a capture: `_move` for each value in an old segment
        _move        copies the record, refers to another one of the same bytes, or encodes the value again
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from threading import Event
from typing import NamedTuple

from docstore.model.capture import (
    BODY,
    CANONICAL_PAGE,
    MAIN,
    Column,
    PagePointer,
    decode_cluster_place,
)
from docstore.model.errors import CorruptionError, StorageError
from docstore.model.format import (
    CAPTURE_FAMILY,
    CODEC_ZSTD_BODY,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    INLINE_LIMIT_BYTES,
    RECORD_BODY_LENGTH_BYTES,
    RECORD_VALUE,
)
from docstore.model.types import Cell, Mutation, ReadSpec, RowMutations, SetCell
from docstore.storage.bases import TABLE as BASES
from docstore.storage.bases import Base, base_row, value_name
from docstore.storage.captures import CaptureRecord, capture_of
from docstore.storage.engine import Plan, ScannedRow, all_cells, delete_of
from docstore.storage.files import uninterrupted
from docstore.storage.reports import CompactionReport
from docstore.storage.table import PAGES, Table
from docstore.storage.unreadable import Place
from docstore.storage.values import (
    INLINE_TAG,
    REF_TAG,
    encode_absent,
    encode_ref_value,
    is_absent,
    parse_cell_value,
    raw_bytes_of,
)
from docstore.tablets.codec import EncodedAgain
from docstore.tablets.commit import LocalCommitter
from docstore.tablets.compaction.encoding import Columns, Level, OldValue, Relatives
from docstore.tablets.compaction.segments import SegmentWriter, place_of, segment_of
from docstore.tablets.dictionaries import TabletDictionaries
from docstore.tablets.layout import LocalBackend
from docstore.tablets.manifest import Tablet
from docstore.tablets.record import CODEC_NAMES, Record, body_place, decode_ref
from docstore.tablets.segment import SEGMENT_LIMIT_BYTES

SLICE_CELLS = 1000
APPLY_MOVES = 256
"""Refs swapped under one hold of the lock: those of about 100 rows, or some of a row with very many captures."""
PENDING_MOVES = 20_000
"""Pending moves, with their records, until their segment is finished: about 20 MB."""
TEXT_ON_BODY = 0.12
"""Part of a text's bytes that a delta against its own body, if that is whole, saves compared with the text alone."""


class Move(NamedTuple):
    """A value with a new ref, or a body that is dropped.

    Attributes:
        column: of the value.
        old, new: its cell values.
        name: of a body or text as a base; b"" for other columns, and for copied records that are no base.
        base: of the new record, if it is a delta; else None.
    """

    column: Column
    old: bytes
    new: bytes
    name: bytes = b""
    base: Base | None = None


class PlannedRow(NamedTuple):
    """The changes of one row, each a capture record or a cell of another family with its moves, and whether policies
    drop some of its cells."""

    row_key: bytes
    changes: list[tuple[CaptureRecord | Cell, list[Move]]]
    collect: bool


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
            for row in self._engine.scan(PAGES, self.tablet.start, self.tablet.end, ReadSpec(cell_limit=SLICE_CELLS)):
                if self._stop.is_set():
                    raise StorageError("the compaction of another tablet failed")
                planned = self._plan(row)
                self._on_bytes(mover.take_read_bytes())
                if row.truncated and planned.collect:
                    self._collect_long_row(row.row_key)
                    planned = planned._replace(collect=False)
                counts.rows += not again
                self._pending += _pieces(planned)
                self._pending_moves += _moves_of(planned)
                if mover.segment_bytes >= SEGMENT_LIMIT_BYTES or self._pending_moves >= PENDING_MOVES:
                    self.publish()
            self.publish()
        except BaseException:
            with uninterrupted():
                segment = mover.take_segment()
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

    def _plan(self, row: ScannedRow) -> PlannedRow:
        """Move the values of a row, and plan its changes."""
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
        without_body = self._table.bodies_to_drop(list(records.values()))
        self.mover.begin_row({cell.timestamp: cell.value for cell in cells if cell[:2] == CANONICAL_PAGE})
        changes: list[tuple[CaptureRecord | Cell, list[Move]]] = []
        for cell in cells:
            if cell in dropped:
                continue
            old = records.get(cell.timestamp) if cell.family == CAPTURE_FAMILY else cell
            if old is not None:
                columns = {old[:2]: old.value} if isinstance(old, Cell) else old.columns
                pointer, drops_body = PagePointer(cell.timestamp, row_key), cell.timestamp in without_body
                if moves := self.mover.moves(pointer, columns, drops_body=drops_body):
                    changes.append((old, moves))
        return PlannedRow(row_key, changes, is_sound and (row.truncated or bool(dropped)))

    # --- applying

    def publish(self) -> None:
        """Finish the segment and write its manifest row; then swap the refs, a few rows under each hold of the lock."""
        with uninterrupted():
            segment = self.mover.take_segment()
            if segment is not None:
                try:
                    row = segment.finish()
                    with self._committer.lock:
                        self._committer.manifest.write_segment(row, self._committer.durability, segment.names)
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
        dropped = list(self._table.dropped(row_key)) if planned.collect else []
        mutations: list[Mutation] = [delete_of(cell) for cell in dropped]
        self._counts.expired_cells += len(dropped)
        dropped_keys = {cell[:3] for cell in dropped}
        hidden: set[int] | None = None
        for old, moves in planned.changes:
            if (old[:3] if isinstance(old, Cell) else (CAPTURE_FAMILY, b"", old.timestamp)) in dropped_keys:
                continue
            new: dict[Column, bytes] = {}
            bases: dict[tuple[str, bytes], list[Mutation]] = {}
            for move in moves:
                if is_absent(move.new):
                    if hidden is None:
                        hidden = self._table.bodies_to_drop(list(self._table.records(row_key)))
                    if old.timestamp not in hidden:  # a visit has confirmed it since then; the next pass moves it
                        self._counts.left_values += 1
                        continue
                elif not self._update_bases(move, bases):
                    self._counts.left_values += 1
                    continue
                new[move.column] = move.new
            if not new:
                continue
            replaced = self._replaced(row_key, old, new)
            if replaced is None:
                self._counts.lost_races += 1
                continue
            mutations += replaced
            rows.update(bases)
        if mutations:
            rows.setdefault((PAGES, row_key), []).extend(mutations)

    def _replaced(
        self, row_key: bytes, old: CaptureRecord | Cell, new: dict[Column, bytes]
    ) -> Sequence[Mutation] | None:
        """The mutations that give a record or cell its new values; None if it has changed since it was read."""
        is_same = row_key not in self._changed
        if isinstance(old, CaptureRecord):
            if is_same:
                return [old._replace(columns=old.columns | new).cell()]
            row = self._table.replacement(row_key, old, old._replace(columns=old.columns | new))
            return None if row is None else row.mutations
        spec = ReadSpec((old.family,), old.qualifier, old.timestamp, old.timestamp + 1)
        if not is_same and old not in self._engine.read_row(PAGES, row_key, spec):
            return None
        return [SetCell(*old[:3], value) for value in new.values()]

    def _update_bases(self, move: Move, rows: dict[tuple[str, bytes], list[Mutation]]) -> bool:
        """Add the rows of bases that change with a move; False if the new value cannot be used."""
        own_name = move.name or self._base_rows.name_of(move.old)
        base_value = self._base_rows.cell_value(own_name) if own_name else None
        if move.base is None:
            if own_name and base_value is not None and (base_value == move.old or own_name in self._base_rows.retired):
                self._make_base(own_name, move.new, rows)
            return True
        if base_value == move.old:
            return False  # the value was encoded as a delta, but has become a base since then
        name = move.base.name
        if name in self._base_rows.retired or self._base_rows.cell_value(name) is None:
            if not move.base.cell_value:
                return False  # its base was freed
            key = move.base.pointer.row_key, move.column, move.base.cell_value
            if segment_of(move.base.cell_value) in self._old and not has_value(self._table, *key):
                return False  # the thread of another tablet has moved it meanwhile, and its old record would stay
            self._make_base(name, move.base.cell_value, rows)
        return True

    def _make_base(self, name: bytes, cell_value: bytes, rows: dict[tuple[str, bytes], list[Mutation]]) -> None:
        """Set the cell value of a base; any record of the same bytes will do."""
        self._base_rows.retired.discard(name)
        rows[BASES, name] = list(base_row(name, cell_value).mutations)


def _moves_of(planned: PlannedRow) -> int:
    return sum(len(moves) for _, moves in planned.changes)


def _pieces(planned: PlannedRow) -> Iterator[PlannedRow]:
    """Split the plan of a row into pieces of about APPLY_MOVES moves; a row need not change as a whole."""
    changes: list[tuple[CaptureRecord | Cell, list[Move]]] = []
    count, collect = 0, planned.collect
    for old, moves in planned.changes:
        if changes and count + len(moves) > APPLY_MOVES:
            yield PlannedRow(planned.row_key, changes, collect)
            changes, count, collect = [], 0, False
        changes.append((old, moves))
        count += len(moves)
    if changes or collect:
        yield PlannedRow(planned.row_key, changes, collect)


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
        moved_shared: values that pages may share, once they are moved: old -> new cell value.
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
        moved_shared: dict[bytes, bytes],
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
        self._moved_shared = moved_shared
        self._moved_here: dict[bytes, bytes] = {}
        """Those of the segment that is being written: other threads must not refer to it before its manifest row."""
        self._cache_bytes = cache_bytes
        self._segment: SegmentWriter | None = None
        self._read_bytes = 0
        self._relatives: Relatives
        """Of the current pass over the tablet."""
        self._last_body = b""
        """New cell value of the record written last, if that is a body and no delta."""
        self._old_body = b"", b""
        """Cell value and bytes of the body that was moved last; no bytes if it was copied."""
        # Of the current row.
        self._canonical: dict[int, bytes] = {}
        self._done: dict[bytes, Move] = {}
        """Moves by old cell value: captures of a row may share a body."""

    def begin_pass(self) -> None:
        """Begin a pass over the tablet."""
        self._relatives = Relatives(self._tablet, self._backend, self._table, self._level, self._cache_bytes)

    def begin_row(self, canonical: dict[int, bytes]) -> None:
        """Begin a row.

        Args:
            canonical: its cell values of `dedup:canonical`, by time.
        """
        self._canonical = canonical
        self._done = {}

    def take_read_bytes(self) -> int:
        """Bytes of old records that were moved since the last call."""
        read_bytes, self._read_bytes = self._read_bytes, 0
        return read_bytes

    @property
    def segment_bytes(self) -> int:
        """Length of the segment that is being written."""
        return 0 if self._segment is None else self._segment.length_bytes

    def take_segment(self) -> SegmentWriter | None:
        """The segment that is being written, for the caller to finish or abandon; None if there is none."""
        segment, self._segment = self._segment, None
        self._last_body = b""  # a text can be a delta of the record directly before it, in its own segment
        return segment

    def share_moved(self) -> None:
        """Let other tablets refer to moved values that pages may share: their segment has its manifest row."""
        self._moved_shared.update(self._moved_here)
        self._moved_here.clear()

    # --- from an old cell value to a move

    def moves(self, pointer: PagePointer, columns: Columns, *, drops_body: bool) -> list[Move]:
        """Move the values of a capture, or of a cell of another family.

        A text is written directly after its body, so that it can be a delta of that.

        Args:
            pointer: of the capture.
            columns: its values.
            drops_body: a policy drops its body.
        """
        moves: list[Move] = []
        body: Move | None = None
        items = [item for item in columns.items() if item[1][:1] == REF_TAG or (drops_body and item[0] == BODY)]
        for column, old in sorted(items, key=lambda item: (item[0] != BODY, item[0] != MAIN)):
            if drops_body and column == BODY:
                moves.append(Move(BODY, old, encode_absent(raw_bytes_of(old))))
                continue
            if segment_of(old) not in self._old:
                continue
            move = self._done.get(old)
            if move is None:
                try:
                    move = self._done[old] = self._move(pointer, columns, column, body)
                except CorruptionError as error:
                    self.record_damage(error, Place(pointer.row_key, *column, pointer.timestamp))
                    continue
            if column == BODY:
                body = move
            moves.append(move)
        return moves

    def record_damage(self, error: CorruptionError, place: Place) -> None:
        """List a value that cannot be read; it stays where it is."""
        self._values.unreadable.record(error, place)
        self.counts.damaged_values += 1

    def _move(self, pointer: PagePointer, columns: Columns, column: Column, body: Move | None) -> Move:
        """Move a value: copy its record, or encode the value again.

        Args:
            pointer, columns: of the capture.
            column: of the value.
            body: for a text: the move of the capture's body, if it has one.
        """
        old = columns[column]
        record = self._values.stored_record(old)
        self._read_bytes += self._values.stored_bytes(old)
        self.counts.values += 1
        self.counts.raw_bytes += record.raw_bytes
        if self._is_copied(pointer.row_key, old, record, body):
            return self._copy(column, old, record)
        if column not in (BODY, MAIN):
            owner = PagePointer(record.timestamp, record.row_key)
            new, _ = self._write(owner, EncodedAgain(column, self._values.value_of(old, record)))
            return Move(column, old, new)
        raw = self._values.value_of(old, record, self._old_body)
        if column == BODY:
            self._old_body = old, raw
        name = value_name(raw)
        value = OldValue(pointer, columns, column, old, record, raw, name, self._base_rows.cell_value(name))
        elsewhere = self._moved(old) or self._other_record(value)
        if elsewhere is not None:
            return Move(column, old, elsewhere, name)
        return self._encode_body(value) if column == BODY else self._encode_text(value, body)

    # --- copies

    def _is_copied(self, row_key: bytes, old: bytes, record: Record, body: Move | None) -> bool:
        """Whether a record is copied as it is, because it would hardly become smaller.

        | encoded | copied if |
        |---|---|
        | as a delta of a base | the base stays |
        | with a dictionary | the same one would be chosen |
        | as a delta of its body | that is the record written last |
        | plain, or stored | never |

        Records that captures of several pages share are encoded again, with their other owners in view.

        Args:
            row_key: of the capture.
            old: the cell value.
            record: of the value, with an owner.
            body: of a text: the move of the capture's body, if it has one.
        """
        if not self._copies or record.row_key != row_key or not self._base_rows.is_cached:
            return False
        if record.codec == CODEC_ZSTD_DELTA:
            return self._relatives.is_usable(record.related)
        if record.codec == CODEC_ZSTD_DICTIONARY:
            chosen = self._dictionaries.choose(row_key, (record.family, record.qualifier))
            return chosen is not None and record.related == chosen.checksum  # else it cannot be read, and is no copy
        return self._is_after_body(body) and self._is_delta_of_last_body(old, record)

    def _copy(self, column: Column, old: bytes, record: Record) -> Move:
        """Write a record as it is."""
        name = self._base_rows.name_of(old) or b""
        is_delta = record.codec == CODEC_ZSTD_DELTA
        base = Base(record.related, b"", b"", PagePointer(0, record.row_key)) if is_delta else None
        new = self._moved(old)  # for a page before
        is_written = new is None
        if new is None:
            new = self._add(record)
        if name:
            self._moved_here[old] = new
        if column == BODY:
            self._old_body = old, b""
            self._last_body = new if is_written and not is_delta else b""
        return Move(column, old, new, name, base)

    # --- records that other pages have, too

    def _moved(self, old: bytes) -> bytes | None:
        """The new cell value of a record that was moved for another page; None if it was not moved yet."""
        return self._moved_here.get(old) or self._moved_shared.get(old)

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

    def _encode_body(self, body: OldValue) -> Move:
        """Encode a body again: as a delta against a similar body if that saves enough."""
        owner = self._owner(body)
        bases, frame = self._bases(body, None)
        text_bytes = raw_bytes_of(body.columns.get(MAIN, INLINE_TAG))
        # Beside a delta, the text cannot be a delta of this body.
        saves = [-int(TEXT_ON_BODY * text_bytes)] * len(bases) if text_bytes > INLINE_LIMIT_BYTES else []
        new, base = self._write(owner, _again(body, bases, frame=frame, saves=saves))
        if base is None:
            self._last_body = new
            self._relatives.add(Base(body.name, body.raw, new, owner), body.cell_value)
        return self._encoded(body, new, base)

    def _encode_text(self, text: OldValue, body: Move | None) -> Move:
        """Encode a text again: as a delta against its body, if that was just written whole, or against a similar text.

        Args:
            text: the value.
            body: the move of the capture's body, if it has one.
        """
        owner = self._owner(text)
        own_body: bytes | None = None
        if body is not None and self._is_after_body(body):
            own_body = self._old_body[1] or self._values.fetch(body.old)
        bases, frame = self._bases(text, None if body is None else body.base)
        tries_none = not bases and not self._level.compares
        if own_body and tries_none and self._is_delta_of_last_body(text.cell_value, text.record):
            record = text.record._replace(row_key=owner.row_key, timestamp=owner.timestamp)
            new, base = self._add(record), None  # it would become the same delta again
        else:
            new, base = self._write(owner, _again(text, bases, body=own_body or b"", frame=frame))
        if base is None and body is not None and body.base is None:
            self._relatives.add_text(body.name, Base(text.name, text.raw, new, owner), text.cell_value)
        return self._encoded(text, new, base)

    def _encoded(self, value: OldValue, new: bytes, base: Base | None) -> Move:
        """The move of a body or text that was written."""
        if value.is_base or value.is_shared:
            self._moved_here[value.cell_value] = new
        return Move(value.column, value.cell_value, new, value.name, base and base._replace(raw=b""))

    def _bases(self, value: OldValue, body_base: Base | None) -> tuple[list[Base], bytes]:
        """What a body or text is tried against, and its current delta if that is one against the first of them.

        A base is tried against nothing, nor is a value that pages share: others refer to their records.

        Args:
            value: the body or text.
            body_base: for a text: the base of the capture's body.
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
                candidates = self._relatives.bases_for_body(value, self._likely_relative(value))
            bases += islice(candidates, self._level.tries)
        return bases, frame

    def _likely_relative(self, body: OldValue) -> PagePointer | None:
        """The canonical page of a capture's cluster by the last sweep, else the page that its verdict names."""
        row_key, timestamp = body.pointer.row_key, body.pointer.timestamp
        unreadable = self._values.unreadable
        cell_value = self._canonical.get(timestamp, b"")
        if cell_value[:1] == INLINE_TAG:
            place = Place(row_key, *CANONICAL_PAGE, timestamp)
            canonical = unreadable.attempt(lambda: decode_cluster_place(cell_value[1:]), place)
            if canonical is not None and canonical.row_key != row_key:
                return PagePointer(canonical.timestamp, canonical.row_key)
        verdict = unreadable.verdict(self._values.fetch, row_key, timestamp, body.columns)
        return None if verdict is None else verdict.of

    def _is_after_body(self, body: Move | None) -> bool:
        """Whether the record that was written last is this body, and whole."""
        return body is not None and bool(self._last_body) and body.new == self._last_body

    def _is_delta_of_last_body(self, old: bytes, record: Record) -> bool:
        """Whether a text is a delta of the body that was moved last, and not of the body of another page."""
        place = place_of(old) if record.codec == CODEC_ZSTD_BODY else None
        return place is not None and body_place(place, record) == place_of(self._old_body[0])

    # --- records

    def _write(self, owner: PagePointer, value: EncodedAgain) -> tuple[bytes, Base | None]:
        """Encode a value and write its record; -> its cell value, and the base of which it is a delta."""
        encoded = self._codec.encode(value, self._dictionaries.choose(owner.row_key, value.column))
        fields = encoded.codec, encoded.related, len(value.raw), encoded.payload
        record = Record(RECORD_VALUE, owner.row_key, *value.column, owner.timestamp, *fields)
        return self._add(record), encoded.base

    def _add(self, record: Record) -> bytes:
        """Write a record; returns its cell value.  A text that is a delta of its body comes directly after that."""
        if record.codec == CODEC_ZSTD_BODY:
            body = decode_ref(parse_cell_value(self._last_body).ref or b"")
            assert body.offset + body.length == self.segment_bytes, body
            record = record._replace(related=body.length.to_bytes(RECORD_BODY_LENGTH_BYTES, "little"))
        if self._segment is None:
            self._segment = self._begin_segment(self._tablet.number)
        before = self._segment.length_bytes
        ref = self._segment.add(record)
        written = self._segment.length_bytes - before
        self._last_body = b""
        kind = f"{record.family}.{CODEC_NAMES[record.codec]}"
        self.counts.codec_bytes[kind] = self.counts.codec_bytes.get(kind, 0) + written
        return encode_ref_value(record.raw_bytes, ref)


def _again(
    value: OldValue, bases: Sequence[Base], *, body: bytes = b"", frame: bytes = b"", saves: Sequence[int] = ()
) -> EncodedAgain:
    """The value for the codec.  A shared record stays in the column of its owner."""
    column = value.record.family, value.record.qualifier
    return EncodedAgain(column, value.raw, bases, saves, body, frame)


def has_value(table: Table, row_key: bytes, column: Column, cell_value: bytes) -> bool:
    """Whether a capture of a row has a value."""
    return any(capture.columns.get(column) == cell_value for capture in table.records(row_key))
