"""Reading a segment sequentially, without refs, past damage: for recovery, check, repair and compaction.

After damage the walk searches the next complete valid record.  A record has a CRC over header and fields, which starts
from the segment's number, and a CRC over the payload.  So random bytes look like a record with a probability of 2**-64,
and bytes of another segment in a reused disk block are not accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from docstore.model.errors import CorruptionError
from docstore.model.format import RECORD_CRC_BYTES, RECORD_MAGIC
from docstore.storage.files import ReadFile
from docstore.tablets.record import FIELDS_MAX_BYTES, RECORD_HEADER_MAX_BYTES, Record, decode_record, record_span

WINDOW_BYTES = 1 << 20
"""Bytes of a read; for a larger record the window grows."""
_HEAD_BYTES = RECORD_HEADER_MAX_BYTES + FIELDS_MAX_BYTES + RECORD_CRC_BYTES

_MAGIC = bytes((RECORD_MAGIC,))


class Damage(NamedTuple):
    """Bytes up to `end` that are no valid record, and why."""

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


def walk_records(handle: ReadFile, seed: int, start: int, end: int) -> Iterator[tuple[int, Record | Damage]]:
    """Offsets and records of ``[start, end)`` of a segment; records and damage cover the range without gaps.

    Args:
        handle: the segment.
        seed: its number.
        start: offset where a record begins.
        end: end of the last record; a record that ends after it is damage.
    """
    end = min(end, handle.length_bytes())
    window = _Window(handle, end)
    offset = start
    while offset < end:
        record, after, reason = _record_at(window, offset, seed, end)
        if record is None:
            if after is None:
                after = _next_record(window, offset + 1, seed, end)
            yield offset, Damage(after, reason)
        else:
            yield offset, record
        assert after is not None
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
