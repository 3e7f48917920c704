"""Capture records: their bytes, which captures of a row are live, and what columns a capture shows.

A capture of a page is one value under (row key, time), so that it is read, collected and deleted as one:

    kind      1 byte, CAPTURE_STORED, CAPTURE_CONFIRMED, CAPTURE_NOT_MODIFIED or CAPTURE_REJECTED
    field     number (1 byte), length (varint), content; in ascending order of numbers, each at most once

A field below CAPTURE_ARRIVED is a column (CAPTURE_FIELDS), its content a cell value: the value itself up to 512 bytes,
or a ref.  So a record has at most 4 KB.  A visit is a small record of its own and shows the body and text of the
capture that it confirms; so no visit rewrites another record.  Sweeps write `dedup:cluster` and `dedup:canonical` as
cells at the capture's time.

Only `live` decides which captures of a row are live, in native code (`native/store/src/live.rs`): it reads newest
first, and stops when the policy is decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from docstore.compiled import docstore_native
from docstore.model.capture import (
    BODY,
    CHECKSUM,
    COLUMNS,
    CRAWL,
    Column,
    StoredVerdict,
    decode_verdict,
    encode_verdict,
)
from docstore.model.errors import CorruptionError
from docstore.model.format import (
    CAPTURE_FAMILY,
    CAPTURE_FIELDS,
)
from docstore.model.types import Cell, GCPolicy, SetCell
from docstore.storage.values import REF_TAG, encode_absent, raw_bytes_of

MICROS_PER_SECOND = 1_000_000
_SAME = {column: column for column in COLUMNS}
_FIELDS = {number: _SAME[column] for number, column in CAPTURE_FIELDS.items()}
"""The tuples of `model.capture` itself: a dictionary finds the same object faster than an equal one."""


def refs_of(columns: Mapping[Column, bytes]) -> list[tuple[Column, bytes]]:
    """Columns whose values are stored outside the record."""
    return [(column, value) for column, value in columns.items() if value[:1] == REF_TAG]


class CaptureRecord(NamedTuple):
    """One capture record, as it is stored.

    Attributes:
        timestamp: of the capture, in microseconds.
        kind: one of the CAPTURE_ kinds.
        columns: cell values by column.
        arrived: when it was committed, in microseconds; 0 if that is not known.
        confirms: for a visit, the time of the capture that it confirmed when it was written; 0 for none.
    """

    timestamp: int
    kind: int
    columns: dict[Column, bytes]
    arrived: int = 0
    confirms: int = 0

    @property
    def checksum(self) -> bytes:
        """Of the fetched body, scheme byte first; b"" for none."""
        return self.columns.get(CHECKSUM, b"")[1:]

    @property
    def refs(self) -> list[tuple[Column, bytes]]:
        """Give the columns whose values are in segments, each with its cell value."""
        return refs_of(self.columns)

    @property
    def body_identity(self) -> bytes:
        """Equal for equal bodies; b"" for a visit that confirmed nothing when it was written."""
        return self.columns.get(CHECKSUM, b"")

    def encode(self) -> bytes:
        """The value of the record's cell."""
        return self.cell().value

    def cell(self, columns: dict[Column, bytes] | None = None) -> SetCell:
        """The mutation that writes it, with these columns in place of its own if they are given."""
        timestamp, kind, own, arrived, confirms = self
        shown = own if columns is None else columns
        value = docstore_native.encode_capture(shown, kind, arrived, confirms)
        return SetCell(CAPTURE_FAMILY, b"", timestamp, value)


def decode_capture(timestamp: int, value: bytes) -> CaptureRecord:
    """Decode the value of a record's cell.

    Raises:
        CorruptionError: it is truncated, or has an unknown kind or field.
    """
    fields = docstore_native.decode_capture(value, _FIELDS)
    if fields is None:
        shown = value[:16].hex() or "nothing"
        raise CorruptionError("a capture record is damaged", expected="fields as in docs/format.md", found=shown)
    return CaptureRecord(timestamp, *fields)


def capture_of(cell: Cell) -> CaptureRecord:
    """Decode a cell of family `capture`."""
    return decode_capture(cell.timestamp, cell.value)


def without_body(record: CaptureRecord) -> CaptureRecord:
    """The record with its body dropped: the length of the body, text and fingerprints stay."""
    return record._replace(columns=record.columns | {BODY: encode_absent(raw_bytes_of(record.columns[BODY]))})


def sound_records(cells: Iterable[Cell]) -> Iterator[CaptureRecord]:
    """The capture records among cells of a row, without damaged ones, which `docstore check` lists."""
    for cell in cells:
        if cell.family == CAPTURE_FAMILY:
            with suppress(CorruptionError):
                yield capture_of(cell)


class LiveCapture(NamedTuple):
    """A capture that the policies keep, with all columns that it shows.

    Attributes:
        timestamp: of the capture, in microseconds.
        kind: one of the CAPTURE_ kinds.
        columns: cell values by column; read-only.
        source: time of the stored capture that has its body and text; 0 for none.
        arrived: when it was committed, in microseconds; 0 if that is not known.
    """

    timestamp: int
    kind: int
    columns: dict[Column, bytes]
    source: int
    arrived: int = 0

    @property
    def shows_page(self) -> bool:
        """Whether it is a page, or a visit that confirms one: it shows a body, which may be dropped."""
        return BODY in self.columns

    @property
    def refs(self) -> list[tuple[Column, bytes]]:
        """Give the columns whose values are in segments, each with its cell value."""
        return refs_of(self.columns)

    @property
    def checksum(self) -> bytes:
        """Of the body, scheme byte first; b"" for none."""
        return self.columns.get(CHECKSUM, b"")[1:]


def stored_capture(record: CaptureRecord) -> LiveCapture:
    """A stored capture that no policy hides."""
    return LiveCapture(record.timestamp, record.kind, record.columns, record.timestamp, record.arrived)


Find = Callable[[int], CaptureRecord | None]
"""Gives the record of a row at a time."""


def keeps_all(policy: GCPolicy) -> bool:
    """Whether a policy drops nothing."""
    return policy.max_versions is None and policy.max_age_seconds is None


def native_policy(policy: GCPolicy, now: int) -> tuple[int | None, int | None, bool]:
    """A policy as native code has it; a bound of half a microsecond is rounded to an even number."""
    age = policy.max_age_seconds
    return policy.max_versions, None if age is None else now - round(age * MICROS_PER_SECOND), policy.intersection


def live(
    records: Iterable[CaptureRecord], find: Find, captures: GCPolicy, bodies: GCPolicy, now: int
) -> Iterator[LiveCapture]:
    """The captures of a row that the policies keep, newest first; reads no more records than needed.

    Args:
        records: of the row, newest first.
        find: gives the record at a time.
        captures: the policy for captures.
        bodies: the policy for the bodies of kept captures.
        now: microseconds since 1970.
    """
    kept = docstore_native.LiveCaptures(records, find, native_policy(captures, now), native_policy(bodies, now))
    for record, source, columns in kept:
        yield LiveCapture(record.timestamp, record.kind, columns, source.timestamp if source else 0, record.arrived)


def without_crawl(records: Sequence[CaptureRecord], label: bytes) -> tuple[list[CaptureRecord], list[CaptureRecord]]:
    """Of all records of a row, newest first: those that go with a crawl, and those that stay with another label.

    A capture that visits of other crawls confirm stays; it gets the label of the oldest of these visits.

    Args:
        records: whether or not a policy hides them.
        label: cell value of the crawl's label.
    """
    by_time = {record.timestamp: record for record in records}
    heirs: dict[int, CaptureRecord] = {}
    for capture in live(records, by_time.get, GCPolicy(), GCPolicy(), 0):
        record = by_time[capture.timestamp]
        if record.columns.get(CRAWL) != label:
            heirs[capture.source] = heirs[record.confirms] = record
    gone, kept = [], []
    for record in records:
        if record.columns.get(CRAWL) == label:
            heir = heirs.get(record.timestamp)
            if heir is None:
                gone.append(record)
                continue
            columns = {column: value for column, value in record.columns.items() if column != CRAWL}
            if CRAWL in heir.columns:
                columns[CRAWL] = heir.columns[CRAWL]
            kept.append(record._replace(columns=columns))
    return gone, kept


def not_modified(verdict: StoredVerdict) -> StoredVerdict:
    """The verdict that a visit without a body (304) shows: its capture's, marked as not judged again."""
    return decode_verdict(docstore_native.not_modified(encode_verdict(verdict)))
