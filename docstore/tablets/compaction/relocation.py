"""Moving one tablet's values into segments of its own: garbage out, values encoded anew, refs changed.

Knows rows, their policies, shared bodies and the commit point; must not know the index, nor when a segment is
unlinked.  Rows are read in row-key order, a chunk at a time; what is made of them lies in a segment that is durable
before the first row refers to it.  Each ref is changed only where the cell still holds the old one: a lost race makes
the new record garbage, and the cell is looked at again in the next pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from docstore.model.capture import BODY, CANONICAL_PAGE, MAIN, SKETCH, VERDICT, decode_cluster_place, decode_verdict
from docstore.model.errors import CorruptionError, InvalidArgument, StorageError
from docstore.model.format import CODEC_ZSTD_DELTA, INLINE_LIMIT_BYTES, RECORD_VALUE, VALUE_INLINE
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, DeleteCells, Mutation, Position, ReadSpec, RowMutations, SetCell
from docstore.storage.engine import Engine
from docstore.storage.envelope import encode_ref_envelope, envelope_raw_bytes, parse_envelope
from docstore.storage.plan import Plan, Stage
from docstore.storage.sharing import BODY_FAMILY, DYING, ENVELOPE, TABLE, TEXT, Base, SharedBodies, body_name
from docstore.storage.table import Table
from docstore.storage.unreadable import Place
from docstore.storage.values import TEXT_DELTA
from docstore.tablets.bodies import decode_ref
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
INLINE = bytes((VALUE_INLINE,))
SLICE_CELLS = 1000
APPLY_MOVES = 256
"""Cells changed under one hold of the lock: those of some 100 rows, or some of a row of very many versions."""
PENDING_MOVES = 50_000
"""Moves remembered until their segment is finished: some 10 MB."""


TEXT_SAVING = 0.2
"""Of a text's bytes, times its likeness to the base's: by itself a text takes a quarter, as a delta a twentieth."""


class Move(NamedTuple):
    """One cell that gets a new ref.

    Attributes:
        family, qualifier, timestamp: of the cell.
        old, new: its envelopes.
        name: of the body, or of the body that a text goes with; b"" for another column.
        base: what the new record leans on, or None.
        text: with a body: the text that its row names, where no cell of the page holds it; with a text: the one that
            it leans on, where the base's row names none yet.
    """

    family: str
    qualifier: bytes
    timestamp: int
    old: bytes
    new: bytes
    name: bytes = b""
    base: Base | None = None
    text: MovedText | None = None


class _Body(NamedTuple):
    """What a text has to know of the body it goes with: its name, and the base that it is to lean on, or None."""

    name: bytes
    base: Base | None


class PlannedRow(NamedTuple):
    """What is to be done to one row."""

    row_key: bytes
    moves: list[Move]
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
        """Shared bodies that a page other than their own has moved already: name -> old and new envelope."""

    def move(self, tablet: Tablet, encoder: Encoder, relatives: Relatives, *, again: bool = False) -> int:
        """Move what a tablet still has in old segments; returns the raw bytes of its bodies.

        Args:
            tablet: the row range.
            encoder: how its values are encoded.
            relatives: finds bases for its bodies.
            again: a further pass, for what the last one had to leave.
        """
        body_bytes = 0
        self.moved.left = 0
        try:
            for row in self._rows(tablet):
                planned, bodies = self._plan(tablet, row[0], row[1], encoder, relatives)
                body_bytes += bodies
                self.moved.rows += not again
                self._pending += _pieces(planned)
                self._pending_moves += len(planned.moves)
                full = self._segment is not None and self._segment.length_bytes >= SEGMENT_LIMIT_BYTES
                if full or self._pending_moves >= PENDING_MOVES:
                    self._publish()
            self._publish()
        except BaseException:
            if self._segment is not None:
                self._segment.abandon()
                self._segment = None
            raise
        return body_bytes

    # --- reading

    def _rows(self, tablet: Tablet) -> Iterator[tuple[bytes, list[Cell]]]:
        """Rows with all their cells that matter: of a row of very many cells those that lie in Bodies."""
        for row in self._engine.scan(PAGES, tablet.start, tablet.end, ReadSpec(cell_limit=SLICE_CELLS)):
            if not row.truncated:
                yield row.row_key, row.cells
                continue
            kept: list[Cell] = []
            after: Position | None = None
            while True:
                cells = self._engine.read_row(PAGES, row.row_key, ReadSpec(cell_limit=SLICE_CELLS, after=after))
                kept += [cell for cell in cells if cell.value[:1] != INLINE or cell.family in ("page", "dedup")]
                if len(cells) < SLICE_CELLS:
                    break
                after = Position(cells[-1].family, cells[-1].qualifier, cells[-1].timestamp)
            self._collect_long_row(row.row_key)
            yield row.row_key, kept

    def _collect_long_row(self, row_key: bytes) -> None:
        """Apply the policies to a row of very many cells, a slice at a time."""
        dropped = self._table.dropped(row_key)
        while cells := list(islice(dropped, SLICE_CELLS)):
            drops = [DeleteCells(c.family, c.qualifier, c.timestamp, c.timestamp + 1) for c in cells]
            with self._committer.lock:
                self._committer.commit(Plan().remove(Stage.PAGES, [RowMutations(PAGES, row_key, drops)]))
            self.moved.expired_cells += len(drops)

    # --- planning

    def _plan(
        self, tablet: Tablet, row_key: bytes, cells: list[Cell], encoder: Encoder, relatives: Relatives
    ) -> tuple[PlannedRow, int]:
        dropped = set(self._table.dropped_of(cells))
        columns = {(c.family, c.qualifier, c.timestamp): c.value for c in cells}
        moves: list[Move] = []
        done: dict[bytes, Move] = {}
        bodies: dict[int, _Body] = {}
        body_bytes = 0
        for cell in cells:
            if cell in dropped:
                continue
            column = (cell.family, cell.qualifier)
            if column == BODY:
                body_bytes += envelope_raw_bytes(cell.value)
            if segment_of(cell.value) not in self._old:
                continue
            move = done.get(cell.value)
            if move is None:
                try:
                    if column == BODY:
                        move = self._moved_body(tablet, row_key, cell, columns, encoder, relatives)
                    elif column == MAIN:
                        move = self._moved_text(tablet, row_key, cell, columns, bodies, encoder, relatives)
                    else:
                        move = self._moved(tablet, cell, encoder)
                except CorruptionError as error:
                    self._placement.unreadable.note(error, Place(row_key, *column, cell.timestamp))
                    self.moved.damaged += 1
                    continue
                done[cell.value] = move
            if column == BODY:
                bodies[cell.timestamp] = _Body(move.name, move.base)
            moves.append(move._replace(family=cell.family, qualifier=cell.qualifier, timestamp=cell.timestamp))
        return PlannedRow(row_key, moves, bool(dropped)), body_bytes

    def _read(self, cell: Cell) -> tuple[Record, bytes]:
        record, raw = self._placement.fetch_record(cell.value)
        ref = parse_envelope(cell.value).ref
        assert ref is not None
        self._on_bytes(decode_ref(ref).length)
        self.moved.values += 1
        self.moved.raw_bytes += len(raw)
        return record, raw

    def _moved(self, tablet: Tablet, cell: Cell, encoder: Encoder) -> Move:
        """A value that leans on no other."""
        record, raw = self._read(cell)
        column = (cell.family, cell.qualifier)
        new = self._write(tablet, record, encoder.encode(column, raw))
        return Move(*column, cell.timestamp, cell.value, new)

    def _moved_text(
        self,
        tablet: Tablet,
        row_key: bytes,
        cell: Cell,
        columns: dict[tuple[str, bytes, int], bytes],
        bodies: dict[int, _Body],
        encoder: Encoder,
        relatives: Relatives,
    ) -> Move:
        """A text leans on the text of the body that its own body leans on; or on that of its own body, if others do."""
        record, raw = self._read(cell)
        body = bodies.get(cell.timestamp) or self._body_of(
            Place(row_key, *BODY, cell.timestamp), columns.get((*BODY, cell.timestamp), b"\0")
        )
        named = self._sharing.envelope(body.name, TEXT) if body.name else None
        found = None
        if body.base is not None and named != cell.value:
            found = relatives.text_of(body.base)
        elif named is not None and named != cell.value:
            found = relatives.text_of(Base(body.name, b"", b"", PagePointer(cell.timestamp, row_key)))
        if found is not None:
            chosen, base = encoder.encode_near(MAIN, raw, [found[0]], TEXT_DELTA)
            if base is not None:
                new = self._write(tablet, record._replace(row_key=row_key), chosen)
                base = base._replace(raw=b"")
                return Move(*MAIN, cell.timestamp, cell.value, new, body.name, base, found[1])
        new = self._write(tablet, record, encoder.encode(MAIN, raw))
        if body.name and body.base is None:
            relatives.add_text(body.name, cell.value, new)
        return Move(*MAIN, cell.timestamp, cell.value, new, body.name)

    def _body_of(self, place: Place, envelope: bytes) -> _Body:
        """Of a body that is not moved: its name, and what it leans on now; neither where it cannot be read."""
        if parse_envelope(envelope).ref is None:
            return _Body(b"", None)
        found = self._placement.unreadable.attempt(lambda: self._placement.fetch_record(envelope), place)
        if found is None:
            return _Body(b"", None)
        record, raw = found
        pointer = PagePointer(record.timestamp, place.row_key)
        leans_on = Base(record.related, b"", b"", pointer) if record.codec == CODEC_ZSTD_DELTA else None
        return _Body(body_name(raw), leans_on)

    def _moved_body(
        self,
        tablet: Tablet,
        row_key: bytes,
        cell: Cell,
        columns: dict[tuple[str, bytes, int], bytes],
        encoder: Encoder,
        relatives: Relatives,
    ) -> Move:
        record, raw = self._read(cell)
        column = (cell.family, cell.qualifier)
        name = body_name(raw)
        leant_on = record.related if record.codec == CODEC_ZSTD_DELTA else b""
        shared = self._sharing.cells(name)
        carried = self._carried.get(name)
        if carried is not None and carried[0] == cell.value:
            return Move(*column, cell.timestamp, cell.value, carried[1], name)
        holds = shared.get(ENVELOPE) == cell.value
        borrowed = record.row_key != row_key and ENVELOPE in shared and not leant_on
        if borrowed and not holds and segment_of(shared[ENVELOPE]) not in self._old:
            return Move(*column, cell.timestamp, cell.value, shared[ENVELOPE], name)
        pointer = PagePointer(record.timestamp, record.row_key)
        written = record.timestamp if record.row_key == row_key else cell.timestamp
        sketch = columns.get((*SKETCH, written), b"\0")[1:]
        if holds or borrowed:
            new = self._write(tablet, record, encoder.encode(column, raw))
            if borrowed:
                self._carried[name] = (cell.value, new)
            relatives.add(sketch, Base(name, raw, new, pointer), cell.value)
            text = self._moved_shared_text(tablet, shared.get(TEXT, b"\0"), columns, encoder) if holds else None
            return Move(*column, cell.timestamp, cell.value, new, name, None, text)
        of_page = _likely_relative(columns, written, row_key)
        bases = relatives.near(row_key, name, raw, sketch, leant_on, of_page)
        text_bytes = envelope_raw_bytes(columns.get((*MAIN, written), INLINE))

        def saves(base: Base) -> int:
            """What the text is thought to save by leaning on that base's text, as it may where the body leans."""
            return (
                int(TEXT_SAVING * relatives.likeness(sketch, base) * text_bytes)
                if text_bytes > INLINE_LIMIT_BYTES
                else 0
            )

        chosen, base = encoder.encode_near(column, raw, bases, saves=saves)
        own = record._replace(row_key=row_key, timestamp=written)
        new = self._write(tablet, own, chosen)
        if base is None:
            relatives.add(sketch, Base(name, raw, new, PagePointer(cell.timestamp, row_key)), cell.value)
        return Move(*column, cell.timestamp, cell.value, new, name, base and base._replace(raw=b""))

    def _moved_shared_text(
        self, tablet: Tablet, envelope: bytes, columns: dict[tuple[str, bytes, int], bytes], encoder: Encoder
    ) -> MovedText | None:
        """Move the text that a shared body's row names, where no cell of the holder's row has it.

        It was the holder's text once; the pages that lean on it are the ones that need it.
        """
        if segment_of(envelope) not in self._old:
            return None
        if any(value == envelope for (*column, _), value in columns.items() if tuple(column) == MAIN):
            return None
        found = self._placement.unreadable.attempt(lambda: self._placement.fetch_record(envelope))
        if found is None:
            return None
        record, raw = found
        return MovedText(envelope, self._write(tablet, record, encoder.encode(MAIN, raw)), body_name(raw))

    def _write(self, tablet: Tablet, old: Record, encoded: Encoded) -> bytes:
        codec, related, payload = encoded
        if self._segment is None:
            self._segment = self._begin_segment(tablet.number)
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
        mutations: list[Mutation] = []
        current = self._current(planned)
        if planned.collect:
            for cell in self._table.dropped_of(current):
                mutations.append(DeleteCells(cell.family, cell.qualifier, cell.timestamp, cell.timestamp + 1))
                self.moved.expired_cells += 1
        values = {(cell.family, cell.qualifier, cell.timestamp): cell.value for cell in current}
        for move in planned.moves:
            if values.get((move.family, move.qualifier, move.timestamp)) != move.old:
                self.moved.lost_races += 1
                continue
            if move.name and not self._settle_sharing(planned.row_key, move, rows):
                self.moved.left += 1
                continue
            mutations.append(SetCell(move.family, move.qualifier, move.timestamp, move.new))
        if mutations:
            _extend(rows, (PAGES, planned.row_key), mutations)

    def _current(self, planned: PlannedRow) -> list[Cell]:
        cells = self._engine.read_row(PAGES, planned.row_key, ReadSpec(cell_limit=SLICE_CELLS))
        if len(cells) < SLICE_CELLS:
            return cells
        found: list[Cell] = []
        for move in planned.moves:
            spec = ReadSpec((move.family,), move.qualifier, move.timestamp, move.timestamp + 1)
            found += self._engine.read_row(PAGES, planned.row_key, spec)
        return found

    def _settle_sharing(self, row_key: bytes, move: Move, rows: dict[tuple[str, bytes], list[Mutation]]) -> bool:
        """Users and rows of shared bodies, changed with the cell; False where the new record cannot be used.

        The user of the base that the old record leant on stays: users that use nothing go when bodies are freed.
        """
        pointer = PagePointer(move.timestamp, row_key)
        shared = self._sharing.cells(move.name)
        qualifier = TEXT if (move.family, move.qualifier) == MAIN else ENVELOPE
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


def _likely_relative(
    columns: dict[tuple[str, bytes, int], bytes], timestamp: int, row_key: bytes
) -> PagePointer | None:
    """The page that stands for the version's cluster since the last sweep, or else the one that its verdict names."""
    place = columns.get((*CANONICAL_PAGE, timestamp), b"")
    if place[:1] == INLINE:
        canonical = decode_cluster_place(place[1:])
        if canonical.row_key != row_key:
            return PagePointer(canonical.timestamp, canonical.row_key)
    stored = columns.get((*VERDICT, timestamp), b"")
    if stored[:1] == INLINE:
        verdict = decode_verdict(stored[1:])
        if verdict.of_row_key:
            return PagePointer(verdict.of_timestamp, verdict.of_row_key)
    return None


def _pieces(planned: PlannedRow) -> Iterator[PlannedRow]:
    """A plan in pieces of at most APPLY_MOVES moves: nothing needs a row of very many versions to change at once."""
    for start in range(0, max(len(planned.moves), planned.collect), APPLY_MOVES):
        moves = planned.moves[start : start + APPLY_MOVES]
        yield PlannedRow(planned.row_key, moves, planned.collect and not start)


def _batches(pending: Sequence[PlannedRow]) -> Iterator[list[PlannedRow]]:
    """Plans together until they have APPLY_MOVES moves."""
    batch: list[PlannedRow] = []
    moves = 0
    for planned in pending:
        if batch and moves + len(planned.moves) + 1 > APPLY_MOVES:
            yield batch
            batch, moves = [], 0
        batch.append(planned)
        moves += len(planned.moves) + 1
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
