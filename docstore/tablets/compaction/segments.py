"""Segments in a compaction: writing them, finding which are still used, and removing the others.

Order: a segment is written completely and synced, its folder is synced, then it gets a manifest row, `live`, and then
rows refer to it.  A segment without refs becomes `draining`, then its file is removed, then its manifest row.  So a
crash leaves a file without a row, which is removed at open, or garbage in a segment, which the next compaction finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeAlias

from docstore.compiled import docstore_native
from docstore.model.capture import BODY
from docstore.model.format import (
    CAPTURE_FAMILY,
    RECORD_COLUMNS,
    RECORD_DELETE_COLUMN,
    RECORD_DELETE_FAMILY,
    RECORD_DELETE_ROW,
    RECORD_VALUE,
    SEGMENT_HEADER_BYTES,
    SEGMENT_LIVE,
    SEGMENT_OF_MARKS,
)
from docstore.model.types import Cell, ReadSpec, RowMutations, SetCell
from docstore.storage.bases import TABLE as BASES
from docstore.storage.bases import BaseRows
from docstore.storage.captures import sound_records
from docstore.storage.engine import Engine, all_cells
from docstore.storage.files import AppendFile, Files
from docstore.storage.table import CAPTURE_FAMILIES, PAGES, Table
from docstore.storage.values import REF_TAG, parse_cell_value
from docstore.tablets.manifest import Manifest, Tablet
from docstore.tablets.record import (
    CODEC_NAMES,
    Record,
    SegmentNames,
    copies_mark,
    decode_ref,
    encode_record,
)
from docstore.tablets.segment import SegmentRow, ValueLog, encode_header

WRITE_BYTES = 1 << 20
"""Bytes of one write call."""
SCANNED_CELLS = 10_000
SURVEYED_ROWS = 256
"""Rows that are handed to native code at once."""
SMALL_GARBAGE_BYTES = 4096
"""So much garbage is ignored, because header and marks of a segment count as garbage."""
_DELETES = frozenset((RECORD_DELETE_ROW, RECORD_DELETE_FAMILY, RECORD_DELETE_COLUMN))


def place_of(cell_value: bytes) -> tuple[int, int, int] | None:
    """Segment, offset and length of a ref; None for a value inside its cell."""
    if cell_value[:1] != REF_TAG:
        return None
    return docstore_native.value_place(cell_value) or decode_ref(parse_cell_value(cell_value).ref or b"")


def segment_of(cell_value: bytes) -> int | None:
    """The segment of a ref; None for a value inside its cell."""
    place = place_of(cell_value)
    return None if place is None else place[0]


def refs_among(cells: Iterable[Cell]) -> Iterator[bytes]:
    """Cell values that are refs: of other cells, and of the columns of capture records."""
    for cell in cells:
        if cell.family == CAPTURE_FAMILY:
            for record in sound_records((cell,)):
                for _, value in record.refs:
                    yield value
        elif cell.value[:1] == REF_TAG:
            yield cell.value


class NamesBySegment:
    """The names of bases and dictionaries that the records of each segment need.

    They are in the manifest row of the segment; without such a row each record is read once.
    """

    def __init__(self, manifest: Manifest, value_log: ValueLog) -> None:
        self._manifest = manifest
        self._value_log = value_log
        self._read: dict[int, tuple[SegmentNames, int]] = {}
        """By number of the segment: names, and the end of the part that was read."""
        self._marks: dict[int, list[Record]] = {}

    def of(self, row: SegmentRow) -> SegmentNames:
        """The names in the committed records of a segment; of the active one only new records are read."""
        names, start = self._read.get(row.number, (None, SEGMENT_HEADER_BYTES))
        if names is None:
            names = self._manifest.names(row.number)
            start = SEGMENT_HEADER_BYTES if names is None else row.committed_bytes
            names = names or SegmentNames()
        if start < row.committed_bytes:
            for _, record in self._value_log.records(row.number, start, row.committed_bytes):
                names.note(record)
                if record.kind in _DELETES:
                    self._marks.setdefault(row.number, []).append(record)
        self._read[row.number] = names, max(start, row.committed_bytes)
        return names

    def marks(self, row: SegmentRow) -> list[Record]:
        """The delete marks of a segment of the write path, in order."""
        if row.tablet or row.level:
            return []
        self.of(row)
        return self._marks.get(row.number, [])


class SegmentWriter:
    """Writes a segment of one tablet's records, or of delete marks."""

    def __init__(
        self,
        files: Files,
        value_log: ValueLog,
        tablet: int,
        sources: Iterable[int] = (),
        level: str = "",
        run: int = 0,
    ) -> None:
        """Start a segment of copies from `sources`, which stay until the refs to the copies are durable.

        Its number is a new one; for delete marks it is that of the run.
        """
        self.number = run if level == SEGMENT_OF_MARKS else value_log.new_number()
        self._level = level
        self._run = run
        self._files = files
        self._tablet = tablet
        self._path = value_log.path(self.number)
        self._buffer = bytearray(encode_header(self.number, value_log.identity))
        self._buffer += encode_record(copies_mark(sources), self.number)
        self._file: AppendFile | None = None
        self.length_bytes = len(self._buffer)

    def add(self, raw: bytes) -> None:
        """Append records that were encoded for this segment, from `length_bytes` on."""
        self._buffer += raw
        self.length_bytes += len(raw)
        if len(self._buffer) >= WRITE_BYTES:
            self._write()

    def finish(self) -> SegmentRow:
        """Make the file durable; returns its manifest row, for the caller to write."""
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
        """Remove the file; if that fails, the next open does it, because the file has no manifest row."""
        if self._file is not None:
            self._file.close()
        if self._files.exists(self._path):
            self._files.unlink(self._path)

    def _write(self) -> None:
        if self._file is None:
            self._file = self._files.open_append(self._path, create=True)
        self._file.write(bytes(self._buffer))
        self._buffer.clear()


Rules: TypeAlias = tuple[list[str], list[str], list[str]]
"""Families whose cells stay as long as their capture, families of which older versions may be hidden, and families of
which any cell may be hidden, because it is too old."""


def rules_of(table: Table) -> Rules:
    """What may hide cells of a row, if no policy hides captures or bodies."""
    aging = [family for family, policy in table.policies.items() if policy.max_age_seconds is not None]
    return list(CAPTURE_FAMILIES), list(table.policies), aging


def surveyor(bases: Iterable[bytes] = (), table: Table | None = None) -> docstore_native.Survey:
    """Counts what rows refer to.

    Args:
        bases: cell values that several pages may have.
        table: what its policies hide is not counted; None counts everything.
    """
    return docstore_native.Survey(list(bases), *(([], [], []) if table is None else rules_of(table)))


def survey(
    found: docstore_native.Survey,
    engine: Engine,
    values_of: Callable[[list[Cell]], list[tuple[bool, bytes]]],
    start: bytes = b"",
    end: bytes | None = None,
    *,
    collects: bool = False,
) -> None:
    """Count the bodies and refs of a range of rows, in one scan of all cells.

    Args:
        found: counts plain rows in native code.
        engine: has the rows.
        values_of: gives the bodies and refs of any other row, and whether each is a body.
        start, end: of the range.
        collects: policies may hide captures or bodies of any row.
    """
    scan = engine.scan(PAGES, start, end, ReadSpec(cell_limit=SCANNED_CELLS))
    while rows := list(islice(scan, SURVEYED_ROWS)):
        for row in rows if collects else [rows[number] for number in found.add_rows(rows)]:
            found.add(row.row_key, values_of(list(all_cells(engine, PAGES, row))))


class Usage:
    """What the stored rows refer to, hidden cells included.

    Attributes:
        segments: with a value of a page, and those in plans committed since.
        base_rows: cell values of bases, by name.
    """

    def __init__(self) -> None:
        self.segments: set[int] = set()
        self.base_rows: dict[bytes, bytes] = {}
        self._shared: set[bytes] = set()
        """Cell values of bases that captures of several pages have."""
        self._written: set[bytes] = set()

    def add_written(self, rows: Iterable[RowMutations]) -> None:
        """Add the refs of rows that are committed during the scan of the rows."""
        for row in rows:
            if row.table in (PAGES, BASES):
                for value in refs_among(Cell(*cell) for cell in row.mutations if isinstance(cell, SetCell)):
                    self._add(value)
                    self._written.add(value)

    def add_rows(self, engine: Engine, base_rows: BaseRows) -> None:
        """Add the refs of all rows, in one scan of all cells."""
        self.base_rows.update(base_rows.scan())
        found = surveyor(self.base_rows.values())
        survey(found, engine, lambda cells: [(False, value) for value in refs_among(cells)])
        self.segments.update(found.segments())
        self._shared.update(found.shared_bases())

    def _add(self, value: bytes) -> None:
        segment = segment_of(value)
        if segment is not None:
            self.segments.add(segment)

    def shared_bases(self) -> set[bytes]:
        """Names of bases that captures of several pages have, or that a plan committed since refers to."""
        shared = self._shared | self._written
        return {name for name, cell_value in self.base_rows.items() if cell_value in shared}


class SegmentLiveData(NamedTuple):
    """Bytes of the live records of a segment, shared ones counted once, and their first and last row key."""

    live_bytes: int = 0
    first: bytes = b""
    last: bytes = b""


class LiveData(NamedTuple):
    """What the policies keep, by segment and by tablet.

    Attributes:
        segments: by number.
        unused_bases: names of bases without a live capture.
        body_bytes: raw bytes of bodies, by number of the tablet.
    """

    segments: dict[int, SegmentLiveData]
    unused_bases: set[bytes]
    body_bytes: dict[int, int]


def find_live_data(engine: Engine, table: Table, base_rows: BaseRows, manifest: Manifest) -> LiveData:
    """Find the live data, in one scan of all cells."""
    names = {cell_value: name for name, cell_value in base_rows.scan()}
    found = surveyor(names, table)
    body_bytes: dict[int, int] = {}
    start: bytes | None = b""
    while start is not None:
        tablet = manifest.tablet_for(start)  # a split may have made it after the scan began
        before = found.body_bytes
        survey(found, engine, partial(live_values, table), tablet.start, tablet.end, collects=table.collects)
        body_bytes[tablet.number] = found.body_bytes - before
        start = tablet.end
    segments = {number: SegmentLiveData(*life) for number, life in found.segments().items()}
    return LiveData(segments, {names[cell_value] for cell_value in found.unused_bases()}, body_bytes)


class SkipRules(NamedTuple):
    """Rules for the segments that a run may skip.

    Attributes:
        tablets: all, by number.
        chosen: numbers of the tablets to compact.
        levels: levels of segments that may be skipped.
        most_garbage: largest part of garbage in a skipped segment; below 0 skips none.
    """

    tablets: Mapping[int, Tablet]
    chosen: Set[int]
    levels: Set[str]
    most_garbage: float


def segments_to_skip(
    rows: Sequence[SegmentRow], rules: SkipRules, live_data: LiveData, named: NamesBySegment, run: int
) -> tuple[set[int], int]:
    """The segments that a run skips: they have little garbage, and nothing that must be removed.

    A segment with a delta against an unused base is not skipped, so that the base can be freed.  A segment that is
    younger than delete marks of the write path is skipped only if the marks are older than the run that wrote it, as
    after an interrupted run: then the marks are moved to where that run would have put them.

    Returns:
        The numbers, and the number for a segment of marks: `run`, the highest of all, or that of an earlier run.
    """
    skipped = {row.number for row in rows if _is_skipped(row, rules, live_data, named)}
    with_marks = [row.number for row in rows if named.marks(row)] if skipped else []
    first = min(with_marks, default=run)
    younger = [row for row in rows if row.number in skipped and row.tablet and row.number > first]
    if younger:
        earlier = min(row.run for row in younger)
        if earlier > max(with_marks) and all(row.number != earlier for row in rows):
            return skipped, earlier
    return skipped - {row.number for row in younger if row.tablet in rules.chosen}, run


def _is_skipped(row: SegmentRow, rules: SkipRules, live_data: LiveData, named: NamesBySegment) -> bool:
    if row.level == SEGMENT_OF_MARKS:
        return True
    tablet = rules.tablets.get(row.tablet)
    if tablet is None or row.state != SEGMENT_LIVE:
        return False
    if row.tablet not in rules.chosen:
        return True
    life = live_data.segments.get(row.number, SegmentLiveData())
    garbage_bytes = row.committed_bytes - life.live_bytes
    return (
        row.level in rules.levels
        and life.live_bytes > 0
        and (not life.last or (tablet.start <= life.first and (tablet.end is None or life.last < tablet.end)))
        and max(0, garbage_bytes - SMALL_GARBAGE_BYTES) <= rules.most_garbage * row.committed_bytes
        and not named.of(row).bases & live_data.unused_bases
    )


def live_values(table: Table, cells: Sequence[Cell]) -> list[tuple[bool, bytes]]:
    """The bodies and refs of a row that the policies keep, and whether each is a body; all if a record is damaged."""
    records = list(sound_records(cells))
    is_sound = len(records) == sum(cell.family == CAPTURE_FAMILY for cell in cells)
    dropped = set(table.dropped_of(cells)) if is_sound else set()
    hidden = table.bodies_to_drop(records)
    values = [(cell[:2], cell.value) for cell in cells if cell.family != CAPTURE_FAMILY and cell not in dropped]
    dropped_times = {cell.timestamp for cell in dropped if cell.family == CAPTURE_FAMILY}
    for record in records:
        if record.timestamp not in dropped_times:
            values += [item for item in record.columns.items() if item[0] != BODY or record.timestamp not in hidden]
    return [(column == BODY, value) for column, value in values if column == BODY or value[:1] == REF_TAG]


def needed(
    rows: Iterable[SegmentRow], roots: set[int], named: NamesBySegment, used: Usage
) -> tuple[set[int], set[bytes]]:
    """Find the segments and bases that must stay, starting from the segments in `roots`.

    A base stays if a staying segment names it, or if several pages share it; then its segment stays too.

    Args:
        rows: of all segments.
        roots: segments with a value of a page, or that may not be removed.
        named: the names in each segment.
        used: the refs of rows.
    """
    by_number = {row.number: row for row in rows}
    staying, bases, added = set(roots), used.shared_bases(), roots & by_number.keys()
    while added or bases:
        for number in added:
            bases |= named.of(by_number[number]).bases
        of_bases = {segment_of(used.base_rows[name]) for name in bases & used.base_rows.keys()}
        added = {number for number in of_bases if number in by_number and number not in staying}
        if not added:
            break
        staying |= added
    return staying, bases


def removable(
    rows: Sequence[SegmentRow], old: set[int], staying: set[int], named: NamesBySegment, marks_number: int
) -> tuple[list[int], list[Record]]:
    """Segments to remove, and their delete marks to copy, each in order.

    A salvage reads segments by number and applies the marks, so that a deleted page does not come back from an older
    segment that stays.  So the marks are copied into a segment that is younger than all segments at the start of the
    run, and older than those that it writes.  There they would also delete newer values, so a segment with marks stays
    if a younger one stays.  Copied marks are removed when no older segment is left.

    Args:
        rows: of all segments.
        old: segments that the run emptied.
        staying: segments with refs, or that may not be removed.
        named: the names in each segment.
        marks_number: of the segment for the marks; see `segments_to_skip`.
    """
    of_marks = {row.number for row in rows if row.level == SEGMENT_OF_MARKS}
    values = {row.number for row in rows if row.number in staying and row.number < marks_number} - of_marks
    going = [row for row in sorted(rows, reverse=True) if row.number in old and row.number not in staying]
    for row in going if values else ():
        if max(values) > row.number and named.marks(row):
            values.add(row.number)
    oldest = min(values, default=marks_number)
    removed = [row for row in reversed(going) if row.number not in values]
    marks = [delete_mark for row in removed if row.number > oldest for delete_mark in named.marks(row)]
    return sorted({row.number for row in removed} | {number for number in of_marks if number < oldest}), marks


def codec_totals(value_log: ValueLog, rows: Iterable[SegmentRow]) -> dict[str, dict[str, int]]:
    """Sizes of all records, garbage included, by column and codec; reads all segments.

    The codec explains the size of a record: `delta` had a base, `dictionary` had no similar base, `zstd` had no
    dictionary either, `stored` does not compress; `body` is a text that is a delta of its body.

    Returns:
        "family:qualifier codec" -> {"records", "raw_bytes", "record_bytes"}, record headers included.
    """
    totals: dict[str, dict[str, int]] = {}
    for row in rows:
        for ref, record in value_log.records(row.number, end=row.committed_bytes):
            if record.kind == RECORD_VALUE:
                known = (record.family, record.qualifier) in RECORD_COLUMNS.values()
                column = f"{record.family}:{record.qualifier.decode() if known else '*'}"
                counts = totals.setdefault(
                    f"{column} {CODEC_NAMES[record.codec]}", {"records": 0, "raw_bytes": 0, "record_bytes": 0}
                )
                counts["records"] += 1
                counts["raw_bytes"] += record.raw_bytes
                counts["record_bytes"] += decode_ref(ref).length
    return dict(sorted(totals.items()))
