"""Capture records: their bytes, which captures of a row are live, and what columns a capture shows.

A capture of a page is one value under (row key, time), so that it is read, collected and deleted as one:

    kind      1 byte, CAPTURE_STORED, CAPTURE_CONFIRMED, CAPTURE_NOT_MODIFIED or CAPTURE_REJECTED
    field     number (1 byte), length (varint), content; in ascending order of numbers, each at most once

A field below CAPTURE_ARRIVED is a column (CAPTURE_FIELDS), its content a cell value: the value itself up to 512 bytes,
or a ref.  So a record takes at most 4 KB.  A visit is a small record of its own: it shows the body and text of the
capture that it confirms, and nothing rewrites another record for it.  Sweeps write `dedup:cluster` and
`dedup:canonical` as cells at the capture's time.

`live` is the one answer to "which captures of this row are there": pure, newest first, and it stops where the policy is
decided.  A policy counts different bodies: captures in a row with the same body count once, and are as young as the
newest of them or of the visits that confirm them.  A visit lives as long as the capture that it confirms, a rejected
capture as long as the capture that it follows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import NamedTuple

from docstore import compiled
from docstore.model.capture import (
    BODY,
    CHECKSUM,
    REASON_NOT_MODIFIED,
    SIMHASH,
    SKETCH,
    STORED_CONFIRMED,
    TEXT_CHECKSUM,
    VERDICT,
    Column,
    StoredVerdict,
    decode_verdict,
    encode_verdict,
)
from docstore.model.codec import decode_varint, encode_varint
from docstore.model.errors import CorruptionError
from docstore.model.format import (
    CAPTURE_ARRIVED,
    CAPTURE_BODY_NAME,
    CAPTURE_CONFIRMS,
    CAPTURE_FAMILY,
    CAPTURE_FIELDS,
    CAPTURE_NOT_MODIFIED,
    CAPTURE_REJECTED,
    CAPTURE_STORED,
)
from docstore.model.types import Cell, GCPolicy, Previous, SetCell
from docstore.storage.envelope import INLINE_TAG, REF_TAG, encode_absent, envelope_raw_bytes, is_absent

MICROS_PER_SECOND = 1_000_000
_decode = None if compiled.WHY_NOT else compiled.docstore_native.decode_capture
_NUMBERS = {column: number for number, column in CAPTURE_FIELDS.items()}
_HEADS = {column: bytes((number,)) for number, column in CAPTURE_FIELDS.items()}
_OF_SOURCE = frozenset((TEXT_CHECKSUM, SIMHASH, SKETCH))
"""Columns of family `dedup` that belong to the text: a visit that found the same bytes shows those of its capture."""


def refs_of(columns: Mapping[Column, bytes]) -> list[tuple[Column, bytes]]:
    """Columns whose values lie in records of segments, or in cells of their own."""
    return [(column, value) for column, value in columns.items() if value[:1] == REF_TAG]


class CaptureRecord(NamedTuple):
    """One capture record, as it is stored.

    Attributes:
        timestamp: of the capture, in microseconds.
        kind: one of the CAPTURE_ kinds.
        columns: cell values by column.
        arrived: when it was committed, in microseconds; 0 if that is not known.
        confirms: of a visit, the time of the capture that it confirmed when it was written; 0 for none.
        body_name: first 16 bytes of the BLAKE3 of the body, where the checksum does not decide alone; else b"".
    """

    timestamp: int
    kind: int
    columns: dict[Column, bytes]
    arrived: int = 0
    confirms: int = 0
    body_name: bytes = b""

    @property
    def checksum(self) -> bytes:
        """Of the body, scheme byte first; of a visit, what it found; b"" for none."""
        return self.columns.get(CHECKSUM, b"")[1:]

    @property
    def refs(self) -> list[tuple[Column, bytes]]:
        """Columns whose values lie in records of segments, or in cells of their own."""
        return refs_of(self.columns)

    @property
    def body_identity(self) -> bytes:
        """Equal for equal bodies; b"" for a visit that confirmed nothing when it was written."""
        return self.body_name or self.columns.get(CHECKSUM, b"")

    def encode(self) -> bytes:
        """The value of the record's cell."""
        parts = [bytes((self.kind,))]
        for column in sorted(self.columns, key=_NUMBERS.__getitem__):
            value = self.columns[column]
            length = len(value)
            parts += (_HEADS[column], bytes((length,)) if length < 0x80 else encode_varint(length), value)
        for number, content in (
            (CAPTURE_ARRIVED, encode_varint(self.arrived) if self.arrived else b""),
            (CAPTURE_CONFIRMS, encode_varint(self.confirms) if self.confirms else b""),
            (CAPTURE_BODY_NAME, self.body_name),
        ):
            if content:
                parts += (bytes((number, len(content))), content)
        return b"".join(parts)

    def cell(self) -> SetCell:
        """The mutation that writes it."""
        return SetCell(CAPTURE_FAMILY, b"", self.timestamp, self.encode())


def decode_capture(timestamp: int, value: bytes) -> CaptureRecord:
    """Decode the value of a record's cell.

    Raises:
        CorruptionError: it is cut off, or has a kind or field that there is none of.
    """
    found = None if _decode is None else _decode(value, CAPTURE_FIELDS)
    return decode_capture_reference(timestamp, value) if found is None else CaptureRecord(timestamp, *found)


def decode_capture_reference(timestamp: int, value: bytes) -> CaptureRecord:
    """The definition of the result: what native code is to give, and what is done where it gives nothing."""
    columns: dict[Column, bytes] = {}
    arrived = confirms = 0
    body_name = b""
    end = 1
    try:
        kind = value[0]
        total = len(value)
        while end < total:
            number, length, start = value[end], value[end + 1], end + 2
            if length >= 0x80:
                length, start = decode_varint(value, start - 1)
            end = start + length
            column = CAPTURE_FIELDS.get(number)
            if column is not None:
                columns[column] = value[start:end]
            elif number == CAPTURE_ARRIVED:
                arrived = decode_varint(value, start)[0]
            elif number == CAPTURE_CONFIRMS:
                confirms = decode_varint(value, start)[0]
            elif number == CAPTURE_BODY_NAME:
                body_name = value[start:end]
            else:
                end = -1
                break
    except IndexError:
        kind, end = -1, -1
    if end != len(value) or kind > CAPTURE_REJECTED:
        found = value[:16].hex() or "nothing"
        raise CorruptionError("a capture record is damaged", expected="whole fields of docs/format.md", found=found)
    return CaptureRecord(timestamp, kind, columns, arrived, confirms, body_name)


def capture_of(cell: Cell) -> CaptureRecord:
    """The record that a cell of family `capture` holds."""
    return decode_capture(cell.timestamp, cell.value)


def expanded(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Cells of a row as they are stored, with the columns of each capture record in place of its cell.

    For those who look for refs: of a visit these are its own columns alone.  In no order.
    """
    for cell in cells:
        if cell.family == CAPTURE_FAMILY:
            for (family, qualifier), value in capture_of(cell).columns.items():
                yield Cell(family, qualifier, cell.timestamp, value)
        else:
            yield cell


def without_body(record: CaptureRecord) -> CaptureRecord:
    """The record as it is once its body is dropped: that there was one is seen still, text and fingerprints stay."""
    return record._replace(columns=record.columns | {BODY: encode_absent(envelope_raw_bytes(record.columns[BODY]))})


def sound_records(cells: Iterable[Cell]) -> Iterator[CaptureRecord]:
    """The capture records among cells of a row; those that are damaged are left out: `docstore check` lists them."""
    for cell in cells:
        if cell.family == CAPTURE_FAMILY:
            with suppress(CorruptionError):
                yield capture_of(cell)


class LiveCapture(NamedTuple):
    """A capture that the policies keep, with all the columns that it shows.

    Attributes:
        timestamp: of the capture, in microseconds.
        kind: one of the CAPTURE_ kinds.
        columns: cell values by column; not to be changed.
        source: time of the stored capture that has its body and text; 0 for none.
        arrived: when it was committed, in microseconds; 0 if that is not known.
        body_name: of the body that it shows; see `CaptureRecord`.
    """

    timestamp: int
    kind: int
    columns: dict[Column, bytes]
    source: int
    arrived: int = 0
    body_name: bytes = b""

    @property
    def shows_page(self) -> bool:
        """Whether it is a page, or a visit that confirms one: it has a body, kept or not."""
        return BODY in self.columns

    @property
    def refs(self) -> list[tuple[Column, bytes]]:
        """Columns whose values lie in records of segments, or in cells of their own."""
        return refs_of(self.columns)

    @property
    def checksum(self) -> bytes:
        """Of the body, scheme byte first; b"" for none."""
        return self.columns.get(CHECKSUM, b"")[1:]


def stored_capture(record: CaptureRecord) -> LiveCapture:
    """A stored capture that no policy hides."""
    return LiveCapture(
        record.timestamp, record.kind, record.columns, record.timestamp, record.arrived, record.body_name
    )


Find = Callable[[int], CaptureRecord | None]
"""The record of a row at a time."""


def keeps_all(policy: GCPolicy) -> bool:
    """Whether a policy drops nothing."""
    return policy.max_versions is None and policy.max_age_seconds is None


class _Counter:
    """Applies one policy to bodies, newest first; from the first that it drops on it keeps none."""

    def __init__(self, policy: GCPolicy, now: int) -> None:
        self._most = policy.max_versions
        age = policy.max_age_seconds
        self.oldest = None if age is None else now - round(age * MICROS_PER_SECOND)
        self._both = policy.intersection and self._most is not None and self.oldest is not None
        self._rank = 0
        self.keeps = True

    def count(self, timestamp: int) -> None:
        """Count the next different body, seen last at this time."""
        self._rank += 1
        too_old = self.oldest is not None and timestamp <= self.oldest
        too_many = self._most is not None and self._rank > self._most
        self.keeps = self.keeps and not ((too_many and too_old) if self._both else (too_many or too_old))


def live(
    records: Iterable[CaptureRecord], find: Find, captures: GCPolicy, bodies: GCPolicy, now: int
) -> Iterator[LiveCapture]:
    """The captures of a row that the policies keep, newest first; takes no more records than it needs.

    Args:
        records: of the row, newest first.
        find: gives the record at a time.
        captures: which captures are kept.
        bodies: of these, which show their bodies.
        now: microseconds since 1970.
    """
    capture_counter, body_counter = _Counter(captures, now), _Counter(bodies, now)
    drops = not keeps_all(captures)
    last: bytes | None = None
    confirms: CaptureRecord | None = None
    """What the last visit confirms; mostly the next one does too."""
    waiting: list[CaptureRecord] = []
    """Rejected captures and visits, newest first, whose fate is that of the next stored capture."""
    confirmed: dict[int, bool] = {}
    """Captures that live visits confirm and that are not reached yet, and whether their bodies are shown."""
    for record in records:
        if record.kind == CAPTURE_REJECTED:
            if drops or waiting:
                waiting.append(record)
            else:
                yield _shown(record, None)
            continue
        identity = record.body_identity
        source: CaptureRecord | None = record
        if record.kind != CAPTURE_STORED:
            if confirms is None or confirms.timestamp != record.confirms:
                confirms = find(record.confirms) if record.confirms else None
            source = confirms
            if source is None or source.kind != CAPTURE_STORED or source.body_identity != identity:
                waiting.append(record)
                continue
        if identity != last:
            capture_counter.count(record.timestamp)
            body_counter.count(record.timestamp)
            last = identity
        if not capture_counter.keeps:
            break
        for one in waiting:
            is_visit = one.kind != CAPTURE_REJECTED and one.body_identity in (b"", identity)
            yield _shown(one, source if is_visit else None, body_counter.keeps)
        waiting.clear()
        is_shown = confirmed.pop(record.timestamp, False) or body_counter.keeps
        if source is not None and source.timestamp != record.timestamp:
            confirmed[source.timestamp] = confirmed.get(source.timestamp, False) or is_shown
        yield _shown(record, source, is_shown)
    if capture_counter.keeps:
        oldest = capture_counter.oldest
        for one in waiting:  # they follow no capture
            if oldest is None or one.timestamp > oldest:
                yield _shown(one, None)
    for timestamp in sorted(confirmed, reverse=True):
        source = find(timestamp)
        if source is not None:
            yield _shown(source, source, confirmed[timestamp])


def _shown(record: CaptureRecord, source: CaptureRecord | None, shows_body: bool = True) -> LiveCapture:
    columns = record.columns
    if source is not None and source is not record:
        if record.kind == CAPTURE_NOT_MODIFIED:
            columns = source.columns | columns
            verdict = b"" if VERDICT in record.columns else columns.get(VERDICT, b"")
            if verdict[:1] == INLINE_TAG:  # it came before the capture that it confirms
                columns[VERDICT] = INLINE_TAG + encode_verdict(not_modified(decode_verdict(verdict[1:])))
        else:
            columns = {
                column: value
                for column, value in source.columns.items()
                if column[0] in ("page", "text") or column in _OF_SOURCE
            } | columns
    body = None if shows_body else columns.get(BODY)
    if body is not None and not is_absent(body):
        columns = columns | {BODY: encode_absent(envelope_raw_bytes(body))}
    if source is None:
        return LiveCapture(record.timestamp, record.kind, columns, 0, record.arrived)
    return LiveCapture(record.timestamp, record.kind, columns, source.timestamp, record.arrived, source.body_name)


def not_modified(verdict: StoredVerdict) -> StoredVerdict:
    """A capture's verdict as a visit without a body (304) shows it: marked as not judged again."""
    return verdict._replace(
        reason=REASON_NOT_MODIFIED, previous=Previous.SAME_BYTES, previous_similarity=1.0, stored=STORED_CONFIRMED
    )
