"""One self-describing stored value: its fields, its bytes in a segment, and the ref by which a row names it.

Native code makes and reads the bytes (`native/store/src/record.rs`).  Must not know where records lie, nor how a
payload is compressed.

`walk_records` reads a segment without refs, past damage: for recovery, check, repair and compaction.  After damage it
searches the next complete valid record.  The CRC over header and fields starts from the segment's number, the payload
has another: random bytes look like a record with a probability of 2**-64, and bytes of another segment in a reused disk
block are not accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

from docstore.compiled import docstore_native
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.format import (
    CODEC_STORED,
    CODEC_ZSTD,
    CODEC_ZSTD_BODY,
    CODEC_ZSTD_DELTA,
    CODEC_ZSTD_DICTIONARY,
    RECORD_COPIES,
    RECORD_CRC_BYTES,
    RECORD_DELETE_COLUMN,
    RECORD_DELETE_FAMILY,
    RECORD_DELETE_ROW,
    RECORD_FIELDS_MAX_BYTES,
    RECORD_GROUP,
    RECORD_MAGIC,
    RECORD_RELATED_BYTES,
    RECORD_WIDE_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
)
from docstore.storage.files import ReadFile

Made = TypeVar("Made")
decode_varint, encode_varint = docstore_native.decode_varint, docstore_native.encode_varint
CODEC_NAMES = {
    CODEC_STORED: "stored",
    CODEC_ZSTD: "zstd",
    CODEC_ZSTD_DICTIONARY: "dictionary",
    CODEC_ZSTD_DELTA: "delta",
    CODEC_ZSTD_BODY: "body",
}
"""For people: in reports and statistics."""
RECORD_HEADER_MAX_BYTES = RECORD_WIDE_HEADER_BYTES


class Record(NamedTuple):
    """One value, or one mark, as it is in a segment.

    Attributes:
        kind: RECORD_VALUE, one of the RECORD_DELETE_ marks, RECORD_GROUP or RECORD_COPIES.
        row_key: of the cell, or of the row that the mark deletes from.
        family: "" in a mark for the whole row.
        qualifier: b"" in marks for a row or family.
        timestamp: of the cell, in microseconds; of the delete in a mark.
        codec: how `payload` was made of the raw value: one of CODEC_.
        related: 16-byte checksum of the dictionary or base that the codec needs, or 4 bytes: the length of the body's
            record directly before this one; else b"".
        raw_bytes: length of the raw value.
        payload: the encoded value; in a mark for a column see `delete_column`.
    """

    kind: int
    row_key: bytes
    family: str
    qualifier: bytes
    timestamp: int
    codec: int
    related: bytes
    raw_bytes: int
    payload: bytes


def encode_records(records: Sequence[Record], segment: int, offset: int) -> tuple[bytes, list[bytes]]:
    """Encode records that lie one behind the other in a segment from an offset on.

    A text that is a delta of its body is given the length of the record before it.

    Returns:
        Their bytes, and the ref of each.
    Raises:
        InvalidArgument: a field does not fit the format.
    """
    return checked_records(docstore_native.encode_records(records, segment, offset))


def checked_records(made: Made | None) -> Made:
    """What native code made of records.

    Raises:
        InvalidArgument: nothing, because a field does not fit the format.
    """
    if made is None:
        raise record_does_not_fit()
    return made


def record_does_not_fit() -> InvalidArgument:
    """The error for a record with a field that does not fit the format."""
    return InvalidArgument(
        "a record does not fit docs/format.md: its kind, codec and related checksum must be known; its timestamp "
        "is microseconds in [0, 2**63); its value has at most 2**32 - 1 bytes, its row key and column at most "
        f"{RECORD_FIELDS_MAX_BYTES}; split a longer value"
    )


def encode_record(record: Record, segment: int) -> bytes:
    """Encode a record of a segment, whose number starts the CRC of header and fields.

    Raises:
        InvalidArgument: a field does not fit the format.
    """
    return encode_records([record], segment, 0)[0]


def decode_record(source: bytes, segment: int, offset: int = 0) -> Record:
    """Decode the record at an offset of `source`, which must hold all of it.

    Raises:
        CorruptionError: the bytes are not a whole, sound record; the error's offset is within `source`.
    """
    return Record(*docstore_native.decode_record(source, segment, offset))


record_span = docstore_native.record_span
"""(bytes, offset, segment) -> length of the record whose header and fields stand there; None if these are damaged.

It looks at header and fields only, so that a scan can find the next record without the payload of this one."""


# --- delete marks ---


def delete_row(row_key: bytes, timestamp: int) -> Record:
    """The mark of a row deleted at a time."""
    return Record(RECORD_DELETE_ROW, row_key, "", b"", timestamp, CODEC_STORED, b"", 0, b"")


def delete_family(row_key: bytes, family: str, timestamp: int) -> Record:
    """The mark of a family of a row deleted at a time."""
    return Record(RECORD_DELETE_FAMILY, row_key, family, b"", timestamp, CODEC_STORED, b"", 0, b"")


def delete_column(
    row_key: bytes, family: str, qualifier: bytes, timestamp: int, start: int | None = None, end: int | None = None
) -> Record:
    """The mark of a column's versions with ``start <= timestamp < end`` deleted at a time."""
    payload = encode_varint(start or 0) + encode_varint(0 if end is None else end + 1)
    return Record(RECORD_DELETE_COLUMN, row_key, family, qualifier, timestamp, CODEC_STORED, b"", len(payload), payload)


def deleted_range(mark: Record) -> tuple[int, int | None]:
    """The (start, end) of a `delete_column` mark; end None has no bound."""
    start, offset = decode_varint(mark.payload)
    end, _ = decode_varint(mark.payload, offset)
    return start, end - 1 if end else None


# --- marks that say where records come from


def group_mark(group: int) -> Record:
    """The mark after which the records of a commit stand."""
    payload = encode_varint(group)
    return Record(RECORD_GROUP, b"", "", b"", 0, CODEC_STORED, b"", len(payload), payload)


def marked_group(mark: Record) -> int:
    """The number of a `group_mark`."""
    return decode_varint(mark.payload)[0]


def copies_mark(segments: Iterable[int]) -> Record:
    """The mark after which copies of records in these segments stand."""
    numbers = sorted(segments)
    payload = b"".join(encode_varint(number - before) for before, number in pairwise([0, *numbers]))
    return Record(RECORD_COPIES, b"", "", b"", 0, CODEC_STORED, b"", len(payload), payload)


def copied_segments(mark: Record) -> list[int]:
    """The segments of a `copies_mark`, ascending."""
    found: list[int] = []
    offset = number = 0
    while offset < len(mark.payload):
        step, offset = decode_varint(mark.payload, offset)
        number += step
        found.append(number)
    return found


# --- refs, and what records name


class Ref(NamedTuple):
    """A ref taken apart: the record's segment, its byte offset there, and its length in bytes."""

    segment: int
    offset: int
    length: int


encode_ref = docstore_native.encode_ref
"""(segment, offset, length) -> a ref: three varints, 8 bytes for nearly every page."""


def decode_ref(ref: bytes) -> Ref:
    """Take a ref apart.

    Raises:
        CorruptionError: not three whole varints.
    """
    place = docstore_native.place_of(ref)
    if place is None:
        raise CorruptionError("a ref is damaged", expected="three varints", found=ref.hex() or "nothing")
    return Ref(*place)


def body_place(place: tuple[int, int, int], text: Record) -> Ref:
    """The place of the record directly before a text that is a delta of its body: that body.

    Args:
        place: of the text's record: segment, offset and length.
        text: the record.
    """
    length = int.from_bytes(text.related, "little")
    return Ref(place[0], max(0, place[1] - length), length)


class SegmentNames:
    """What the records of a segment need to be decoded.

    Attributes:
        bases: names of the bases of its deltas.
        dictionaries: checksums of dictionaries.
    """

    def __init__(self, bases: Iterable[bytes] = (), dictionaries: Iterable[bytes] = ()) -> None:
        self.bases = set(bases)
        self.dictionaries = set(dictionaries)

    def note(self, record: Record) -> None:
        """Add what a record names."""
        if record.codec == CODEC_ZSTD_DELTA:
            self.bases.add(record.related)
        elif record.codec == CODEC_ZSTD_DICTIONARY:
            self.dictionaries.add(record.related)

    def encode(self) -> dict[str, bytes]:
        """As the manifest has it."""
        return {"bases": b"".join(sorted(self.bases)), "dictionaries": b"".join(sorted(self.dictionaries))}

    @classmethod
    def decode(cls, value: Mapping[str, bytes]) -> SegmentNames:
        """Of what `encode` gives."""
        return cls(*(_names(value.get(kind, b"")) for kind in ("bases", "dictionaries")))


def _names(joined: bytes) -> Iterator[bytes]:
    return (joined[at : at + RECORD_RELATED_BYTES] for at in range(0, len(joined), RECORD_RELATED_BYTES))


# --- reading a segment without refs

WINDOW_BYTES = 1 << 20
"""Bytes of a read; for a larger record the window grows."""
_HEAD_BYTES = RECORD_HEADER_MAX_BYTES + RECORD_FIELDS_MAX_BYTES + RECORD_CRC_BYTES

_MAGIC = bytes((RECORD_MAGIC,))


class Damage(NamedTuple):
    """Bytes `[start, end)` of a segment that are missing, or are no valid record, and why."""

    segment: int
    start: int
    end: int
    reason: str


class _Window:
    """The part of the file that is in memory."""

    def __init__(self, handle: ReadFile, end: int) -> None:
        self.buffer = b""
        self.base = 0
        self._handle = handle
        self._end = end

    def load(self, offset: int, length: int) -> int:
        """Load `length` bytes of the file from an offset on, or fewer at its end; returns their index in the buffer."""
        length = min(length, self._end - offset)
        if offset < self.base or offset + length > self.base + len(self.buffer):
            self.buffer = self._handle.read(min(max(length, WINDOW_BYTES), self._end - offset), offset)
            self.base = offset
        return offset - self.base


def walk_records(
    handle: ReadFile, segment: int, start: int = SEGMENT_HEADER_BYTES, end: int | None = None
) -> Iterator[tuple[Ref, Record | Damage]]:
    """Refs and records of ``[start, end)`` of a segment; records and damage cover the range without gaps.

    Args:
        handle: the segment.
        segment: its number.
        start: offset where a record begins.
        end: end of the last record; a record that ends after it is damage.  None for the end of the file.
    """
    length_bytes = handle.length_bytes()
    end = length_bytes if end is None else min(end, length_bytes)
    window = _Window(handle, end)
    offset = start
    while offset < end:
        record, after, reason = _record_at(window, offset, segment, end)
        if after is None:
            after = _next_record(window, offset + 1, segment, end)
        yield Ref(segment, offset, after - offset), record or Damage(segment, offset, after, reason)
        offset = after


def _record_at(window: _Window, offset: int, seed: int, end: int) -> tuple[Record | None, int | None, str]:
    """The record at an offset, the offset after it (None if there is no valid header), and what is wrong."""
    at = window.load(offset, _HEAD_BYTES)
    span_bytes = record_span(window.buffer, at, seed)
    if span_bytes is None:
        return None, None, "no sound record header"
    if offset + span_bytes > end:
        return None, end, "record is cut off"
    at = window.load(offset, span_bytes)
    try:
        return decode_record(window.buffer, seed, at), offset + span_bytes, ""
    except CorruptionError as error:
        return None, offset + span_bytes, error.message


def _next_record(window: _Window, offset: int, seed: int, end: int) -> int:
    """Offset of the first complete valid record from an offset on; `end` if there is none."""
    while offset < end:
        at = window.load(offset, 1)
        at = window.buffer.find(_MAGIC, at)
        if at < 0:
            offset = window.base + len(window.buffer)
            continue
        offset = window.base + at
        if _record_at(window, offset, seed, end)[0] is not None:
            return offset
        offset += 1
    return end
