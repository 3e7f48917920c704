"""Moving one tablet's values into segments of its own: garbage out, values encoded again, refs changed.

Knows rows, their policies, shared bodies and the commit point; must not know the index, nor when a segment is
unlinked.  Rows are read in row-key order, a chunk at a time; what is made of them lies in a segment that is durable
before the first row refers to it.  The values of a capture are moved together: its record is replaced only where it is
still the old one.  A lost race makes the new records of the segment garbage, and the row is looked at again in the next
pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from docstore.model.capture import (
    BODY,
    CANONICAL_PAGE,
    MAIN,
    SKETCH,
    VERDICT,
    Column,
    decode_cluster_place,
    decode_verdict,
)
from docstore.model.errors import CorruptionError, InvalidArgument, StorageError
from docstore.model.format import CAPTURE_FAMILY, CODEC_ZSTD_DELTA, INLINE_LIMIT_BYTES, RECORD_VALUE
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, DeleteCells, Mutation, ReadSpec, RowMutations, SetCell
from docstore.storage.captures import CaptureRecord, capture_of
from docstore.storage.engine import Engine, ScannedRow, all_cells
from docstore.storage.envelope import (
    INLINE_TAG,
    encode_absent,
    encode_ref_envelope,
    envelope_raw_bytes,
    is_absent,
    parse_envelope,
)
from docstore.storage.plan import Plan, Stage
from docstore.storage.sharing import BODY_FAMILY, DYING, ENVELOPE, TABLE, TEXT, Base, SharedBodies, body_name
from docstore.storage.table import Table
from docstore.storage.unreadable import Place
from docstore.storage.values import TEXT_DELTA
from docstore.tablets.commit import Committer
from docstore.tablets.compaction.relatives import MovedText, Relatives
from docstore.tablets.compaction.segments import SegmentWriter, segment_of
from docstore.tablets.encoding import Encoder
from docstore.tablets.manifest import Tablet
from docstore.tablets.placement import Placement
from docstore.tablets.record import CODEC_NAMES, Record
from docstore.tablets.segment import SEGMENT_LIMIT_BYTES
from docstore.tablets.values import Encoded

PAGES = "pages"
SLICE_CELLS = 1000
APPLY_MOVES = 256
"""Values changed under one hold of the lock: those of some 100 rows, or some of a row of very many captures."""
PENDING_MOVES = 20_000
"""Moves remembered until their segment is finished, with the records that they change: some 20 MB."""

Columns = dict[Column, bytes]
"""Cell values of a capture."""

TEXT_SAVING = 0.2
"""Of a text's bytes, times its likeness to the base's: by itself a text takes a quarter, as a delta a twentieth."""


class Move(NamedTuple):
    """One value that gets a new ref, or a body that is dropped.

    Attributes:
        column: of the value.
        old, new: its cell values.
        name: of the body, or of the body that a text goes with; b"" for another column.
        base: what the new record leans on, or None.
        text: with a body: the text that its row names, where no capture of the page has it; with a text: the one that
            it leans on, where the base's row names none yet.
    """

    column: Column
    old: bytes
    new: bytes
    name: bytes = b""
    base: Base | None = None
    text: MovedText | None = None


class Change(NamedTuple):
    """A capture record, or a cell of another family, and what moves of it."""

    old: CaptureRecord | Cell
    moves: list[Move]


class PlannedRow(NamedTuple):
    """What is to be done to one row."""

    row_key: bytes
    changes: list[Change]
    collect: bool


@dataclass
class Moved:
    """What moving tablets did, in numbers; see `CompactionReport`."""

    rows: int = 0
    values: int = 0
    raw_bytes: int = 0
    expired_cells: int = 0
    lost_races: int = 0
    damaged: int = 0
    left: int = 0
    codecs: dict[str, int] = field(default_factory=dict)


class Relocator:
    """Moves tablets, one after the other.

    Args:
        old: the segments to be emptied.
        begin_segment: begins a segment of a tablet.
        on_bytes: told how many bytes of old records have been dealt with.
    """

    def __init__(
        self,
        *,
        engine: Engine,
        table: Table,
        placement: Placement,
        sharing: SharedBodies,
        committer: Committer,
        old: set[int],
        begin_segment: Callable[[int], SegmentWriter],
        on_bytes: Callable[[int], None],
    ) -> None:
        self.moved = Moved()
        self.dictionaries: dict[int, set[bytes]] = {}
        self._engine = engine
        self._table = table
        self._placement = placement
        self._sharing = sharing
        self._committer = committer
        self._old = old
        self._begin_segment = begin_segment
        self._on_bytes = on_bytes
        self._segment: SegmentWriter | None = None
        self._pending: list[PlannedRow] = []
        self._pending_moves = 0
        self._carried: dict[bytes, tuple[bytes, bytes]] = {}
        """Shared bodies that a page other than their own has moved already: name -> old and new cell value."""
        # Of the tablet that is moved.
        self._tablet: Tablet
        self._encoder: Encoder
        self._relatives: Relatives
        self._body_bytes = 0
        # Of the row that is planned.
        self._hidden: set[int] = set()
        """Times of captures whose bodies are to be dropped."""
        self._texts: set[bytes] = set()
        """Cell values of its texts."""
        self._canonical: dict[int, bytes] = {}
        """Cell values of `dedup:canonical` by time."""
        self._done: dict[bytes, Move] = {}
        """What is moved already by its old cell value: captures of a row may share a body."""

    def move(self, tablet: Tablet, encoder: Encoder, relatives: Relatives, *, again: bool = False) -> int:
        """Move what a tablet still has in old segments; returns the raw bytes of its bodies.

        Args:
            tablet: the row range.
            encoder: how its values are encoded.
            relatives: finds bases for its bodies.
            again: a further pass, for what the last one had to leave.
        """
        self._tablet, self._encoder, self._relatives = tablet, encoder, relatives
        self._body_bytes = 0
        self.moved.left = 0
        try:
            for row in self._engine.scan(PAGES, tablet.start, tablet.end, ReadSpec(cell_limit=SLICE_CELLS)):
                planned = self._plan(row)
                if row.truncated and planned.collect:
                    self._collect_long_row(row.row_key)
                    planned = planned._replace(collect=False)
                self.moved.rows += not again
                self._pending += _pieces(planned)
                self._pending_moves += _moves_of(planned)
                full = self._segment is not None and self._segment.length_bytes >= SEGMENT_LIMIT_BYTES
                if full or self._pending_moves >= PENDING_MOVES:
                    self._publish()
            self._publish()
        except BaseException:
            if self._segment is not None:
                self._segment.abandon()
                self._segment = None
            raise
        return self._body_bytes

    def _collect_long_row(self, row_key: bytes) -> None:
        """Apply the policies to a row of very many cells, a slice at a time."""
        dropped = self._table.dropped(row_key)
        while cells := list(islice(dropped, SLICE_CELLS)):
            with self._committer.lock:
                drops = [DeleteCells(c.family, c.qualifier, c.timestamp, c.timestamp + 1) for c in cells]
                self._committer.commit(Plan().remove(Stage.PAGES, [RowMutations(PAGES, row_key, drops)]))
            self.moved.expired_cells += len(drops)

    # --- planning

    def _plan(self, row: ScannedRow) -> PlannedRow:
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
                    self._note(error, Place(row_key, CAPTURE_FAMILY, b"", cell.timestamp))
        is_sound = len(records) == sum(cell.family == CAPTURE_FAMILY for cell in cells)
        dropped = set(self._table.dropped_of(cells)) if is_sound else set()
        self._hidden = self._table.bodies_to_drop(list(records.values()))
        self._texts = {record.columns[MAIN] for record in records.values() if MAIN in record.columns}
        self._canonical = {cell.timestamp: cell.value for cell in cells if cell[:2] == CANONICAL_PAGE}
        self._done = {}
        changes = []
        for cell in cells:
            if cell in dropped:
                continue
            old = records.get(cell.timestamp) if cell.family == CAPTURE_FAMILY else cell
            if old is not None:
                columns = {old[:2]: old.value} if isinstance(old, Cell) else old.columns
                if moves := self._moves(row_key, cell.timestamp, columns):
                    changes.append(Change(old, moves))
        return PlannedRow(row_key, changes, is_sound and (row.truncated or bool(dropped)))

    def _moves(self, row_key: bytes, timestamp: int, columns: Columns) -> list[Move]:
        """What moves of a capture, or of a cell of another family."""
        moves: list[Move] = []
        body: tuple[bytes, Base | None] | None = None
        for column, old in columns.items():
            if column == BODY:
                if timestamp in self._hidden:
                    moves.append(Move(BODY, old, encode_absent(envelope_raw_bytes(old))))
                    body = b"", None
                    continue
                self._body_bytes += envelope_raw_bytes(old)
            if segment_of(old) not in self._old:
                continue
            move = self._done.get(old)
            if move is None:
                try:
                    if column == BODY:
                        move = self._moved_body(row_key, timestamp, columns)
                    elif column == MAIN:
                        if body is None:
                            body = self._body_of(Place(row_key, *BODY, timestamp), columns.get(BODY, INLINE_TAG))
                        move = self._moved_text(row_key, timestamp, old, *body)
                    else:
                        record, raw = self._read(old)
                        move = Move(column, old, self._write(record, self._encoder.encode(column, raw)))
                except CorruptionError as error:
                    self._note(error, Place(row_key, *column, timestamp))
                    continue
                self._done[old] = move
            if column == BODY:
                body = move.name, move.base
            moves.append(move)
        return moves

    def _note(self, error: CorruptionError, place: Place) -> None:
        self._placement.unreadable.note(error, place)
        self.moved.damaged += 1

    def _read(self, envelope: bytes) -> tuple[Record, bytes]:
        record, raw = self._placement.fetch_record(envelope)
        self._on_bytes(self._placement.stored_bytes(envelope))
        self.moved.values += 1
        self.moved.raw_bytes += len(raw)
        return record, raw

    def _moved_text(self, row_key: bytes, timestamp: int, old: bytes, name: bytes, base: Base | None) -> Move:
        """A text leans on the text of the body that its own body leans on; or on that of its own body, if others do.

        Args:
            row_key, timestamp: of the capture.
            old: its cell value.
            name: of the capture's body; b"" for none.
            base: what that leans on, or None.
        """
        record, raw = self._read(old)
        named = self._sharing.envelope(name, TEXT) if name else None
        relative = None
        if base is not None and named != old:
            relative = self._relatives.text_of(base)
        elif named is not None and named != old:
            relative = self._relatives.text_of(Base(name, b"", b"", PagePointer(timestamp, row_key)))
        if relative is not None:
            encoded, chosen = self._encoder.encode_near(MAIN, raw, [relative[0]], TEXT_DELTA)
            if chosen is not None:
                new = self._write(record._replace(row_key=row_key), encoded)
                return Move(MAIN, old, new, name, chosen._replace(raw=b""), relative[1])
        new = self._write(record, self._encoder.encode(MAIN, raw))
        if name and base is None:
            self._relatives.add_text(name, old, new)
        return Move(MAIN, old, new, name)

    def _body_of(self, place: Place, envelope: bytes) -> tuple[bytes, Base | None]:
        """Of a body that is not moved: its name, and what it leans on now; neither where it cannot be read."""
        if parse_envelope(envelope).ref is None:
            return b"", None
        read = self._placement.unreadable.attempt(lambda: self._placement.fetch_record(envelope), place)
        if read is None:
            return b"", None
        record, raw = read
        pointer = PagePointer(record.timestamp, place.row_key)
        leans_on = Base(record.related, b"", b"", pointer) if record.codec == CODEC_ZSTD_DELTA else None
        return body_name(raw), leans_on

    def _moved_body(self, row_key: bytes, timestamp: int, columns: Columns) -> Move:
        old = columns[BODY]
        record, raw = self._read(old)
        name = body_name(raw)
        leant_on = record.related if record.codec == CODEC_ZSTD_DELTA else b""
        shared = self._sharing.cells(name)
        carried = self._carried.get(name)
        if carried is not None and carried[0] == old:
            return Move(BODY, old, carried[1], name)
        holds = shared.get(ENVELOPE) == old
        borrowed = record.row_key != row_key and ENVELOPE in shared and not leant_on
        if borrowed and not holds and segment_of(shared[ENVELOPE]) not in self._old:
            return Move(BODY, old, shared[ENVELOPE], name)
        sketch = columns.get(SKETCH, INLINE_TAG)[1:]
        if holds or borrowed:
            new = self._write(record, self._encoder.encode(BODY, raw))
            if borrowed:
                self._carried[name] = (old, new)
            pointer = PagePointer(record.timestamp, record.row_key)
            self._relatives.add(sketch, Base(name, raw, new, pointer), old)
            text = self._moved_shared_text(shared.get(TEXT, INLINE_TAG)) if holds else None
            return Move(BODY, old, new, name, None, text)
        bases = self._relatives.near(
            row_key, name, raw, sketch, leant_on, self._likely_relative(row_key, timestamp, columns)
        )
        text_bytes = envelope_raw_bytes(columns.get(MAIN, INLINE_TAG))

        def saves(base: Base) -> int:
            """What the text is thought to save by leaning on that base's text, as it may where the body leans."""
            return (
                int(TEXT_SAVING * self._relatives.likeness(sketch, base) * text_bytes)
                if text_bytes > INLINE_LIMIT_BYTES
                else 0
            )

        encoded, base = self._encoder.encode_near(BODY, raw, bases, saves=saves)
        written = record.timestamp if record.row_key == row_key else timestamp
        new = self._write(record._replace(row_key=row_key, timestamp=written), encoded)
        if base is None:
            self._relatives.add(sketch, Base(name, raw, new, PagePointer(timestamp, row_key)), old)
        return Move(BODY, old, new, name, base and base._replace(raw=b""))

    def _likely_relative(self, row_key: bytes, timestamp: int, columns: Columns) -> PagePointer | None:
        """The page that stands for a capture's cluster since the last sweep, or else the one that its verdict names."""
        place = self._canonical.get(timestamp, b"")
        if place[:1] == INLINE_TAG:
            canonical = decode_cluster_place(place[1:])
            if canonical.row_key != row_key:
                return PagePointer(canonical.timestamp, canonical.row_key)
        stored = columns.get(VERDICT, b"")
        if stored[:1] == INLINE_TAG:
            verdict = decode_verdict(stored[1:])
            if verdict.of_row_key:
                return PagePointer(verdict.of_timestamp, verdict.of_row_key)
        return None

    def _moved_shared_text(self, envelope: bytes) -> MovedText | None:
        """Move the text that a shared body's row names, where no capture of the holder's row has it.

        It was the holder's text once; the pages that lean on it are the ones that need it.
        """
        if segment_of(envelope) not in self._old or envelope in self._texts:
            return None
        read = self._placement.unreadable.attempt(lambda: self._placement.fetch_record(envelope))
        if read is None:
            return None
        record, raw = read
        return MovedText(envelope, self._write(record, self._encoder.encode(MAIN, raw)), body_name(raw))

    def _write(self, old: Record, encoded: Encoded) -> bytes:
        codec, related, payload = encoded
        if self._segment is None:
            self._segment = self._begin_segment(self._tablet.number)
        before = self._segment.length_bytes
        record = Record(
            RECORD_VALUE, old.row_key, old.family, old.qualifier, old.timestamp, codec, related, old.raw_bytes, payload
        )
        ref = self._segment.add(record)
        written = self._segment.length_bytes - before
        kind = f"{old.family}.{CODEC_NAMES[codec]}"
        self.moved.codecs[kind] = self.moved.codecs.get(kind, 0) + written
        return encode_ref_envelope(old.raw_bytes, ref)

    # --- applying

    def _publish(self) -> None:
        """Make the segment durable and known, then change the refs, a few rows under each hold of the lock."""
        segment, self._segment = self._segment, None
        if segment is not None:
            try:
                row = segment.finish()
                with self._committer.lock:
                    self._committer.manifest.write_segment(row, self._committer.durability)
            except StorageError:  # it has no row; left there until its sources go, it would look like lost records
                segment.abandon()
                raise
            self.dictionaries[segment.number] = segment.dictionaries
        pending, self._pending, self._pending_moves = self._pending, [], 0
        for batch in _batches(pending):
            with self._committer.lock:
                rows: dict[tuple[str, bytes], list[Mutation]] = {}
                for planned in batch:
                    self._apply(planned, rows)
                if rows:
                    plan = Plan()
                    for key, mutations in rows.items():
                        stage = Stage.BASES if key[0] == TABLE else Stage.PAGES
                        plan.write(stage, [RowMutations(*key, mutations)])
                    self._committer.commit(plan)

    def _apply(self, planned: PlannedRow, rows: dict[tuple[str, bytes], list[Mutation]]) -> None:
        """Decide under the lock what of a row's plan still holds."""
        row_key = planned.row_key
        mutations: list[Mutation] = []
        dropped = list(self._table.dropped(row_key)) if planned.collect else []
        for cell in dropped:
            mutations.append(DeleteCells(cell.family, cell.qualifier, cell.timestamp, cell.timestamp + 1))
        self.moved.expired_cells += len(dropped)
        gone = {cell[:3] for cell in dropped}
        hidden: set[int] | None = None
        for old, moves in planned.changes:
            if (old[:3] if isinstance(old, Cell) else (CAPTURE_FAMILY, b"", old.timestamp)) in gone:
                continue
            new: Columns = {}
            shared: dict[tuple[str, bytes], list[Mutation]] = {}
            for move in moves:
                if is_absent(move.new):
                    if hidden is None:
                        hidden = self._table.bodies_to_drop(list(self._table.records(row_key)))
                    if old.timestamp not in hidden:  # a visit has confirmed it since: the next pass moves it
                        self.moved.left += 1
                        continue
                elif move.name and not self._settle_sharing(PagePointer(old.timestamp, row_key), move, shared):
                    self.moved.left += 1
                    continue
                new[move.column] = move.new
            if not new:
                continue
            replaced = self._replaced(row_key, old, new)
            if replaced is None:
                self.moved.lost_races += 1
                continue
            mutations += replaced
            for key, of_shared in shared.items():
                _extend(rows, key, of_shared)
        if mutations:
            _extend(rows, (PAGES, row_key), mutations)

    def _replaced(self, row_key: bytes, old: CaptureRecord | Cell, new: Columns) -> Sequence[Mutation] | None:
        """The mutations that give a record or cell its new values; None if it has changed: it is looked at again."""
        if isinstance(old, CaptureRecord):
            row = self._table.replacement(row_key, old, old._replace(columns=old.columns | new))
            return None if row is None else row.mutations
        spec = ReadSpec((old.family,), old.qualifier, old.timestamp, old.timestamp + 1)
        if old not in self._engine.read_row(PAGES, row_key, spec):
            return None
        return [SetCell(*old[:3], value) for value in new.values()]

    def _settle_sharing(self, pointer: PagePointer, move: Move, rows: dict[tuple[str, bytes], list[Mutation]]) -> bool:
        """Users and rows of shared bodies, changed with the record; False where the new value cannot be used.

        The user of the base that the old value leant on stays: users that use nothing go when bodies are freed.
        """
        shared = self._sharing.cells(move.name)
        qualifier = TEXT if move.column == MAIN else ENVELOPE
        if move.base is not None:
            if shared.get(qualifier) == move.old:
                return False  # while this value was encoded as a delta, another came to lean on it
            known = self._sharing.cells(move.base.name)
            if not move.base.envelope and ENVELOPE not in known:
                return False  # its base was freed
            if qualifier == TEXT and not _is_same_text(known.get(TEXT), move.text):
                return False  # its base has another text by now, or none
            user = self._sharing.lean_on(move.base, pointer)
            if user is None:
                return False  # its base is being freed
            _extend(rows, (TABLE, move.base.name), user.mutations)
            if move.text is not None and TEXT not in known:
                row = self._sharing.name_text(move.base.name, move.text.new, move.text.name)
                _extend(rows, (TABLE, move.base.name), row.mutations)
            return True
        if shared.get(qualifier) == move.old and DYING not in shared:
            _extend(rows, (TABLE, move.name), [SetCell(BODY_FAMILY, qualifier, 0, move.new)])
        if move.text is not None and shared.get(TEXT) == move.text.old and DYING not in shared:
            _extend(rows, (TABLE, move.name), [SetCell(BODY_FAMILY, TEXT, 0, move.text.new)])
        return True


def _is_same_text(named: bytes | None, text: MovedText | None) -> bool:
    """Whether a base's row names the text that a delta was made against, or none where it named none then."""
    if text is None:
        return named is not None  # a row keeps the text that it names
    return named is None or named in (text.old, text.new)


def _moves_of(planned: PlannedRow) -> int:
    return sum(len(change.moves) for change in planned.changes)


def _pieces(planned: PlannedRow) -> Iterator[PlannedRow]:
    """A plan in pieces of about APPLY_MOVES moves: nothing needs a row of very many captures to change at once."""
    changes: list[Change] = []
    moves, collect = 0, planned.collect
    for change in planned.changes:
        if changes and moves + len(change.moves) > APPLY_MOVES:
            yield PlannedRow(planned.row_key, changes, collect)
            changes, moves, collect = [], 0, False
        changes.append(change)
        moves += len(change.moves)
    if changes or collect:
        yield PlannedRow(planned.row_key, changes, collect)


def _batches(pending: Sequence[PlannedRow]) -> Iterator[list[PlannedRow]]:
    """Plans together until they have APPLY_MOVES moves."""
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


def _extend(
    rows: dict[tuple[str, bytes], list[Mutation]], key: tuple[str, bytes], mutations: Sequence[Mutation]
) -> None:
    """Add mutations of a row to those of the batch; a row appears once, so that it changes once."""
    rows.setdefault(key, []).extend(mutations)


def check_movable(engine: Engine) -> None:
    """Refs are changed under this process's lock, so it must be the only one that writes.

    Raises:
        InvalidArgument: the engine takes writes from several processes.
    """
    if not engine.caps.single_writer:
        raise InvalidArgument(
            "compaction changes refs under the writer's lock: it needs an engine with a single writer"
        )
