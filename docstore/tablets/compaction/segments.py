"""What compaction does to files: segments of a tablet's own, which segments are still referred to, which can go.

Knows segments, records, dictionaries and the manifest; must not know what a row means, nor why a value moves.

Order: a segment is written whole, synced, its folder synced, and only then has a manifest row, `live`; rows refer to it
after that.  A segment that no row refers to becomes `draining`, then loses its file, then its manifest row.  So a crash
leaves either a file without a row, which goes at open, or a segment with records that nothing refers to, which the next
compaction finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from docstore.model.codec import decode_varint
from docstore.model.format import (
    CAPTURE_FAMILY,
    CODEC_ZSTD_DICTIONARY,
    RECORD_COLUMNS,
    RECORD_VALUE,
    SEGMENT_DRAINING,
    SEGMENT_LIVE,
)
from docstore.model.types import Cell, Durability, ReadSpec, SetCell
from docstore.storage.captures import sound_records
from docstore.storage.engine import Engine, all_cells
from docstore.storage.envelope import REF_TAG, parse_envelope
from docstore.storage.files import AppendFile, Files
from docstore.storage.plan import Plan
from docstore.tablets.bodies import SegmentRow, decode_ref, encode_ref
from docstore.tablets.dictionaries import checksums_in_use
from docstore.tablets.header import encode_header
from docstore.tablets.manifest import Manifest
from docstore.tablets.record import CODEC_NAMES, Record, copies_mark, encode_record
from docstore.tablets.segment import SegmentBodies
from docstore.tablets.walk import Damage

WRITE_BYTES = 1 << 20
"""Handed to the operating system at once."""
ENVELOPE_TABLES = ("pages", "bodies")
"""Tables whose cells hold envelopes."""
SLICE_CELLS = 10_000


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


def segments_of(plan: Plan) -> Iterator[int]:
    """The segments that the cells of a plan refer to."""
    for row in plan.rows():
        if row.table in ENVELOPE_TABLES:
            cells = (Cell(*mutation) for mutation in row.mutations if isinstance(mutation, SetCell))
            yield from (segment for value in cell_values(cells) if (segment := segment_of(value)) is not None)


class SegmentWriter:
    """A segment that belongs to one tablet, written from front to back by compaction."""

    def __init__(self, files: Files, bodies: SegmentBodies, tablet: int, sources: Iterable[int] = ()) -> None:
        """Begin a segment of copies of records in `sources`, which stay until the rows name the copies for good."""
        self.number = bodies.new_number()
        self.dictionaries: set[bytes] = set()
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
        if record.codec == CODEC_ZSTD_DICTIONARY:
            self.dictionaries.add(record.related)
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
        return SegmentRow(self.number, SEGMENT_LIVE, self.length_bytes, self.length_bytes, self._tablet)

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


class Usage(NamedTuple):
    """What rows refer to in one segment.

    Attributes:
        records: values that refer to it; a shared record counts once for each.
        record_bytes: of the records of values of pages; a shared one counts for each.
    """

    records: int
    record_bytes: int


def usage(engine: Engine) -> dict[int, Usage]:
    """How much of each segment the rows refer to: one scan of all cells."""
    used: dict[int, list[int]] = {}
    for table in ENVELOPE_TABLES:
        for row in engine.scan(table, spec=ReadSpec(cell_limit=SLICE_CELLS)):
            for value in cell_values(all_cells(engine, table, row)):
                ref = parse_envelope(value).ref if value[:1] == REF_TAG else None
                if ref is not None:
                    segment, _, length = decode_ref(ref)
                    totals = used.setdefault(segment, [0, 0])
                    totals[0] += 1
                    totals[1] += length if table == "pages" else 0
    return {segment: Usage(*totals) for segment, totals in used.items()}


def removable(rows: Iterable[SegmentRow], candidates: set[int], referred_to: set[int]) -> list[int]:
    """Segments that can go, in the order in which they have to.

    A segment of mixed tablets may hold delete marks, which concern the segments before it: it stays as long as one of
    those does, so that rows rebuilt from segments do not bring back what was deleted.
    """
    gone: list[int] = []
    kept_before = False
    for row in sorted(rows):
        if row.number not in candidates:
            continue
        if row.number in referred_to or (kept_before and row.tablet == 0):
            kept_before = True
        else:
            gone.append(row.number)
    return gone


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


def dictionaries_named(engine: Engine, bodies: SegmentBodies, rows: Iterable[SegmentRow]) -> set[bytes]:
    """Dictionaries that records of these segments need, or that a tablet or site uses for its next values."""
    named = set(checksums_in_use(engine))
    for row in rows:
        for _, found in bodies.walk(row.number, end=row.committed_bytes):
            if not isinstance(found, Damage) and found.codec == CODEC_ZSTD_DICTIONARY:
                named.add(found.related)
    return named


def codec_totals(bodies: SegmentBodies, rows: Iterable[SegmentRow]) -> dict[str, dict[str, int]]:
    """What the records of segments take, garbage included, by column and codec: one read of all segments.

    The codec is the reason of a record's size: `delta` leans on a relative, `dictionary` had none that was near
    enough, `zstd` had no dictionary either, `stored` does not compress.

    Returns:
        "family:qualifier codec" -> {"records", "raw_bytes", "record_bytes"}; record headers are counted.
    """
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        last: dict[str, int] | None = None
        begin = 0
        for offset, record in bodies.walk(row.number, end=row.committed_bytes):
            if last is not None:
                last["record_bytes"] += offset - begin
            last = None
            if isinstance(record, Damage) or record.kind != RECORD_VALUE:
                continue
            known = (record.family, record.qualifier) in RECORD_COLUMNS.values()
            column = f"{record.family}:{record.qualifier.decode() if known else '*'}"
            last = found.setdefault(
                f"{column} {CODEC_NAMES[record.codec]}", {"records": 0, "raw_bytes": 0, "record_bytes": 0}
            )
            last["records"] += 1
            last["raw_bytes"] += record.raw_bytes
            begin = offset
        if last is not None:
            last["record_bytes"] += row.committed_bytes - begin
    return dict(sorted(found.items()))
