"""What compaction does to files: segments of a tablet's own, which segments are still referred to, which can go.

Knows segments, records, dictionaries and the manifest; must not know what a row means, nor why a value moves.

Order: a segment is written whole, synced, its folder synced, and only then has a manifest row, `live`; rows refer to it
after that.  A segment that no row refers to becomes `draining`, then loses its file, then its manifest row.  So a crash
leaves either a file without a row, which goes at open, or a segment with records that nothing refers to, which the next
compaction finds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple

from docstore.model.capture import BODY, Column
from docstore.model.codec import decode_varint
from docstore.model.format import (
    CAPTURE_FAMILY,
    RECORD_COLUMNS,
    RECORD_DELETE_COLUMN,
    RECORD_DELETE_FAMILY,
    RECORD_DELETE_ROW,
    RECORD_VALUE,
    SEGMENT_DRAINING,
    SEGMENT_HEADER_BYTES,
    SEGMENT_LIVE,
    SEGMENT_OF_MARKS,
)
from docstore.model.types import Cell, Durability, ReadSpec, SetCell
from docstore.storage.bases import TABLE, BaseRows
from docstore.storage.captures import sound_records
from docstore.storage.engine import Engine, all_cells
from docstore.storage.files import AppendFile, Files
from docstore.storage.plan import Plan
from docstore.storage.table import Table
from docstore.storage.values import REF_TAG, envelope_raw_bytes, parse_envelope
from docstore.tablets.header import encode_header
from docstore.tablets.manifest import Manifest, Tablet
from docstore.tablets.record import (
    CODEC_NAMES,
    Record,
    SegmentNames,
    copies_mark,
    decode_ref,
    encode_record,
    encode_ref,
)
from docstore.tablets.segment import SegmentBodies, SegmentRow

WRITE_BYTES = 1 << 20
"""Handed to the operating system at once."""
PAGES = "pages"
SLICE_CELLS = 10_000
SMALL_GARBAGE_BYTES = 4096
"""So much of a segment is never a reason to rewrite it: its header and marks are no values either."""
_DELETES = frozenset((RECORD_DELETE_ROW, RECORD_DELETE_FAMILY, RECORD_DELETE_COLUMN))


def segment_of(envelope: bytes) -> int | None:
    """The segment that an envelope's record lies in; None where the value stands in the cell."""
    if envelope[:1] != REF_TAG:
        return None
    _, offset = decode_varint(envelope, 1)
    return decode_varint(envelope, offset)[0]


def cell_values(cells: Iterable[Cell]) -> Iterator[bytes]:
    """Cell values that may be refs: of capture records those of their columns."""
    for cell in cells:
        if cell.family == CAPTURE_FAMILY:
            for record in sound_records((cell,)):
                yield from record.columns.values()
        else:
            yield cell.value


class SegmentsNamed:
    """What each segment names: by its row, or by its records, each of which is read once."""

    def __init__(self, manifest: Manifest, bodies: SegmentBodies) -> None:
        self._manifest = manifest
        self._bodies = bodies
        self._read: dict[int, tuple[SegmentNames, int]] = {}
        """Names by number of the segment, and up to where they are known."""
        self._marks: dict[int, list[Record]] = {}

    def of(self, row: SegmentRow) -> SegmentNames:
        """What the committed records of a segment name; of the active one those that have come since are read."""
        names, start = self._read.get(row.number, (None, SEGMENT_HEADER_BYTES))
        if names is None:
            names = self._manifest.names(row.number)
            start = SEGMENT_HEADER_BYTES if names is None else row.committed_bytes
            names = names or SegmentNames()
        if start < row.committed_bytes:
            for _, record in self._bodies.records(row.number, start, row.committed_bytes):
                names.note(record)
                if record.kind in _DELETES:
                    self._marks.setdefault(row.number, []).append(record)
        self._read[row.number] = names, max(start, row.committed_bytes)
        return names

    def marks(self, row: SegmentRow) -> list[Record]:
        """The delete marks of a segment of the write path, in their order."""
        if row.tablet or row.level:
            return []
        self.of(row)
        return self._marks.get(row.number, [])


class SegmentWriter:
    """A segment of one tablet's records, or of delete marks, written from front to back by compaction."""

    def __init__(
        self,
        files: Files,
        bodies: SegmentBodies,
        tablet: int,
        sources: Iterable[int] = (),
        level: str = "",
        run: int = 0,
    ) -> None:
        """Begin a segment of copies of records in `sources`, which stay until the rows name the copies for good.

        Its number is the next one, or for delete marks that of the run.
        """
        self.number = run if level == SEGMENT_OF_MARKS else bodies.new_number()
        self._level = level
        self._run = run
        self.names = SegmentNames()
        self._files = files
        self._tablet = tablet
        self._path = bodies.path(self.number)
        self._buffer = bytearray(encode_header(self.number) + encode_record(copies_mark(sources), self.number))
        self._file: AppendFile | None = None
        self.length_bytes = len(self._buffer)

    def add(self, record: Record) -> bytes:
        """Take a record; returns its ref, which nobody can read before `finish`."""
        raw = encode_record(record, self.number)
        ref = encode_ref(self.number, self.length_bytes, len(raw))
        self._buffer += raw
        self.length_bytes += len(raw)
        self.names.note(record)
        if len(self._buffer) >= WRITE_BYTES:
            self._write()
        return ref

    def finish(self) -> SegmentRow:
        """Make file and name durable; returns the manifest row to be."""
        self._write()
        assert self._file is not None
        try:
            self._file.sync()
        finally:
            self._file.close()
        self._files.sync_folder(self._path.parent)
        length_bytes = self.length_bytes
        return SegmentRow(self.number, SEGMENT_LIVE, length_bytes, length_bytes, self._tablet, self._level, self._run)

    def abandon(self) -> None:
        """Give up: what was written has no manifest row and goes at the next open, or now."""
        if self._file is not None:
            self._file.close()
            if self._files.exists(self._path):
                self._files.unlink(self._path)

    def _write(self) -> None:
        if self._file is None:
            self._file = self._files.open_append(self._path, create=True)
        self._file.write(bytes(self._buffer))
        self._buffer.clear()


class Usage:
    """What rows refer to as they are stored, whatever the policies hide.

    Attributes:
        segments: with a value of a page, and those that a plan has come to refer to since.
        base_rows: where each base lies, by name.
    """

    def __init__(self) -> None:
        self.segments: set[int] = set()
        self.base_rows: dict[bytes, bytes] = {}
        self._shared: set[bytes] = set()
        """Where bases lie that captures of several pages hold."""
        self._written: set[bytes] = set()

    def note_plan(self, plan: Plan) -> None:
        """Note what a commit refers to, of those that are made while rows are scanned."""
        for row in plan.rows():
            if row.table in (PAGES, TABLE):
                for value in cell_values(Cell(*one) for one in row.mutations if isinstance(one, SetCell)):
                    self._note(value)
                    self._written.add(value)

    def note_rows(self, engine: Engine, base_rows: BaseRows) -> None:
        """Note what all rows refer to: one scan of all cells."""
        self.base_rows.update(base_rows.scan())
        lying = set(self.base_rows.values())
        holders: dict[bytes, bytes] = {}
        for row in engine.scan(PAGES, spec=ReadSpec(cell_limit=SLICE_CELLS)):
            for value in cell_values(all_cells(engine, PAGES, row)):
                self._note(value)
                if value in lying and holders.setdefault(value, row.row_key) != row.row_key:
                    self._shared.add(value)

    def _note(self, value: bytes) -> None:
        segment = segment_of(value)
        if segment is not None:
            self.segments.add(segment)

    def shared_bases(self) -> set[bytes]:
        """Names of bases that captures of several pages hold, or that a commit has come to refer to since."""
        shared = self._shared | self._written
        return {name for name, envelope in self.base_rows.items() if envelope in shared}


@dataclass
class Life:
    """What lives of a segment: bytes of records, one that captures share counted once, and between which row keys."""

    live_bytes: int = 0
    first: bytes = b""
    last: bytes = b""


class Marked(NamedTuple):
    """What lives, as the policies have it.

    Attributes:
        segments: by number.
        unheld: names of the bases that no live capture holds.
        body_bytes: raw bytes of bodies, by number of the tablet.
    """

    segments: dict[int, Life]
    unheld: set[bytes]
    body_bytes: dict[int, int]


def mark(engine: Engine, table: Table, base_rows: BaseRows, manifest: Manifest) -> Marked:
    """Find what lives: one scan of all cells."""
    unheld = {envelope: name for name, envelope in base_rows.scan()}
    bases = set(unheld)
    marked = Marked(defaultdict(Life), set(), {tablet.number: 0 for tablet in manifest.tablets()})
    for row in engine.scan(PAGES, spec=ReadSpec(cell_limit=SLICE_CELLS)):
        columns = _live_columns(table, list(all_cells(engine, PAGES, row)))
        tablet = manifest.tablet_for(row.row_key).number
        marked.body_bytes[tablet] += sum(envelope_raw_bytes(value) for column, value in columns if column == BODY)
        for value in {value for _, value in columns if value[:1] == REF_TAG}:
            segment, _, length = decode_ref(parse_envelope(value).ref or b"")
            life = marked.segments[segment]
            if value not in bases:  # a base may be shared by pages of another tablet
                life.first = life.first or row.row_key
                life.last = row.row_key
            if unheld.pop(value, None) is not None or value not in bases:
                life.live_bytes += length
    marked.unheld.update(unheld.values())
    return marked


class Selection(NamedTuple):
    """Which segments a run may leave as they are.

    Attributes:
        tablets: all, by number.
        chosen: numbers of those to compact.
        levels: those whose segments are good enough.
        most_garbage: as a part of a segment; below 0 takes all segments.
    """

    tablets: Mapping[int, Tablet]
    chosen: Set[int]
    levels: Set[str]
    most_garbage: float


def left_alone(
    rows: Sequence[SegmentRow], selection: Selection, marked: Marked, named: SegmentsNamed, run: int
) -> tuple[set[int], int]:
    """The segments that a run does not read: it has nothing to win there, and nothing that has to go lies there.

    A segment with a delta against a base that no capture holds is read, so that the base can go.  One that is younger
    than delete marks of the write path is left alone only if these are older than the run that wrote it, as they are
    after an interruption: then they go where that run would have put them.

    Returns:
        The numbers, and the number for a segment of marks: `run`, which is higher than all, or that of an earlier run.
    """
    alone = {row.number for row in rows if _is_left_alone(row, selection, marked, named)}
    with_marks = [row.number for row in rows if named.marks(row)] if alone else []
    first = min(with_marks, default=run)
    younger = [row for row in rows if row.number in alone and row.tablet and row.number > first]
    if younger:
        earlier = min(row.run for row in younger)
        if earlier > max(with_marks) and all(row.number != earlier for row in rows):
            return alone, earlier
    return alone - {row.number for row in younger if row.tablet in selection.chosen}, run


def _is_left_alone(row: SegmentRow, selection: Selection, marked: Marked, named: SegmentsNamed) -> bool:
    if row.level == SEGMENT_OF_MARKS:
        return True
    tablet = selection.tablets.get(row.tablet)
    if tablet is None or row.state != SEGMENT_LIVE:
        return False
    if row.tablet not in selection.chosen:
        return True
    life = marked.segments.get(row.number, Life())
    garbage_bytes = row.committed_bytes - life.live_bytes
    return (
        row.level in selection.levels
        and life.live_bytes > 0
        and (not life.last or (tablet.start <= life.first and (tablet.end is None or life.last < tablet.end)))
        and max(0, garbage_bytes - SMALL_GARBAGE_BYTES) <= selection.most_garbage * row.committed_bytes
        and not named.of(row).bases & marked.unheld
    )


def _live_columns(table: Table, cells: Sequence[Cell]) -> list[tuple[Column, bytes]]:
    """Columns of a row, with their cell values, that the policies keep; all of a row with a damaged record."""
    records = list(sound_records(cells))
    is_sound = len(records) == sum(cell.family == CAPTURE_FAMILY for cell in cells)
    dropped = set(table.dropped_of(cells)) if is_sound else set()
    hidden = table.bodies_to_drop(records)
    values = [(cell[:2], cell.value) for cell in cells if cell.family != CAPTURE_FAMILY and cell not in dropped]
    gone = {cell.timestamp for cell in dropped if cell.family == CAPTURE_FAMILY}
    for record in records:
        if record.timestamp not in gone:
            columns = record.columns.items()
            values += [one for one in columns if one[0] != BODY or record.timestamp not in hidden]
    return values


def needed(
    rows: Iterable[SegmentRow], roots: set[int], named: SegmentsNamed, used: Usage
) -> tuple[set[int], set[bytes]]:
    """The segments and the bases that stay: marked from the roots on.

    A base stays that a segment names which stays, or that several pages share; so does the segment in which it lies.

    Args:
        rows: of all segments.
        roots: segments that hold a value of a page, or are not to be removed.
        named: what each segment names.
        used: what rows refer to.
    """
    by_number = {row.number: row for row in rows}
    staying, bases, fresh = set(roots), used.shared_bases(), roots & by_number.keys()
    while fresh or bases:
        for number in fresh:
            bases |= named.of(by_number[number]).bases
        lying = {segment_of(used.base_rows[name]) for name in bases & used.base_rows.keys()}
        fresh = {number for number in lying if number in by_number and number not in staying}
        if not fresh:
            break
        staying |= fresh
    return staying, bases


def removable(
    rows: Sequence[SegmentRow], old: set[int], staying: set[int], named: SegmentsNamed, marks_number: int
) -> tuple[list[int], list[Record]]:
    """Segments that can go, and the delete marks of them that are to be kept, each in order.

    A salvage reads segments by number and obeys the marks: a page that was deleted must not come back from an older
    segment that stays.  So the marks are copied into a segment that is younger than all that were there when the run
    began, and older than what it writes.  There they would also delete what came after them: a segment with marks
    stays if one stays that is younger.  Copied marks go when nothing older is left.

    Args:
        rows: of all segments.
        old: those that were to be emptied.
        staying: those that hold what rows refer to, or are not to be removed.
        named: what segments name.
        marks_number: of the segment of marks to be; see `left_alone`.
    """
    of_marks = {row.number for row in rows if row.level == SEGMENT_OF_MARKS}
    values = {row.number for row in rows if row.number in staying and row.number < marks_number} - of_marks
    going = [row for row in sorted(rows, reverse=True) if row.number in old and row.number not in staying]
    for row in going if values else ():
        if max(values) > row.number and named.marks(row):
            values.add(row.number)
    oldest = min(values, default=marks_number)
    gone = [row for row in reversed(going) if row.number not in values]
    marks = [one for row in gone if row.number > oldest for one in named.marks(row)]
    return sorted({row.number for row in gone} | {number for number in of_marks if number < oldest}), marks


def remove_segments(manifest: Manifest, bodies: SegmentBodies, numbers: Iterable[int]) -> int:
    """Remove segments that no row refers to; returns the bytes that came back."""
    by_number = {row.number: row for row in manifest.segments()}
    freed_bytes = 0
    for number in numbers:
        row = by_number[number]
        manifest.write_segment(row._replace(state=SEGMENT_DRAINING), Durability.SYNC)
        bodies.remove(number)
        manifest.remove_segment(number, Durability.SYNC)
        freed_bytes += row.committed_bytes
    return freed_bytes


def codec_totals(bodies: SegmentBodies, rows: Iterable[SegmentRow]) -> dict[str, dict[str, int]]:
    """What the records of segments take, garbage included, by column and codec: one read of all segments.

    The codec is the reason of a record's size: `delta` has a relative, `dictionary` had none that was near enough,
    `zstd` had no dictionary either, `stored` does not compress; `body` is a text that stands in its body.

    Returns:
        "family:qualifier codec" -> {"records", "raw_bytes", "record_bytes"}; record headers are counted.
    """
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        for ref, record in bodies.records(row.number, end=row.committed_bytes):
            if record.kind == RECORD_VALUE:
                known = (record.family, record.qualifier) in RECORD_COLUMNS.values()
                column = f"{record.family}:{record.qualifier.decode() if known else '*'}"
                counts = found.setdefault(
                    f"{column} {CODEC_NAMES[record.codec]}", {"records": 0, "raw_bytes": 0, "record_bytes": 0}
                )
                counts["records"] += 1
                counts["raw_bytes"] += record.raw_bytes
                counts["record_bytes"] += decode_ref(ref).length
    return dict(sorted(found.items()))
