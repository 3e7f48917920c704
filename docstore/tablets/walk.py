"""Reading a segment from front to back without refs, over damage: for recovery, check, repair and compaction.

Knows `record` and `files`.  Must not know which bytes are committed: the caller gives the range.

After damage the walk looks for the next place where a whole sound record stands.  Header and fields carry a CRC that is
started from the segment's number and the payload one of its own, so that a record found by chance among random bytes
has odds of 2**-64; bytes of another segment that were left in a reused disk block are not taken for ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from docstore.model.errors import CorruptionError
from docstore.model.format import RECORD_CRC_BYTES, RECORD_MAGIC
from docstore.storage.files import ReadFile
from docstore.tablets.record import FIELDS_MAX_BYTES, RECORD_HEADER_MAX_BYTES, Record, decode_record, record_span

WINDOW_BYTES = 1 << 20
"""Read at once; a larger payload makes the window grow for one record."""
_HEAD_BYTES = RECORD_HEADER_MAX_BYTES + FIELDS_MAX_BYTES + RECORD_CRC_BYTES

_MAGIC = bytes((RECORD_MAGIC,))


class Damage(NamedTuple):
    """Bytes that are no sound record: up to `end`, and why."""

    end: int
    reason: str


class _Window:
    """The part of the file that is held: positions in the file in, positions in the buffer out."""

    def __init__(self, handle: ReadFile, end: int) -> None:
        self.buffer = b""
        self.base = 0
        self._handle = handle
        self._end = end

    def hold(self, offset: int, length: int) -> int:
        """Hold `length` bytes from an offset on, or what there is of them; returns their place in the buffer."""
        length = min(length, self._end - offset)
        if offset < self.base or offset + length > self.base + len(self.buffer):
            self.buffer = self._handle.read(min(max(length, WINDOW_BYTES), self._end - offset), offset)
            self.base = offset
        return offset - self.base


def walk_records(handle: ReadFile, seed: int, start: int, end: int) -> Iterator[tuple[int, Record | Damage]]:
    """Offsets and records of ``[start, end)`` of a segment; together with the damage they cover it without a gap.

    Args:
        handle: the segment.
        seed: its number.
        start: offset where a record begins.
        end: offset behind the last record; a record that goes beyond it is damage.
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
    """The record at an offset, the offset behind it (None where no header tells it), and what is wrong."""
    at = window.hold(offset, _HEAD_BYTES)
    span_bytes = record_span(window.buffer, at, seed)
    if span_bytes is None:
        return None, None, "no sound record header"
    if offset + span_bytes > end:
        return None, end, "record is cut off"
    at = window.hold(offset, span_bytes)
    try:
        return decode_record(window.buffer, seed, at), offset + span_bytes, ""
    except CorruptionError as error:
        return None, offset + span_bytes, error.message


def _next_record(window: _Window, offset: int, seed: int, end: int) -> int:
    """Offset of the first whole sound record at or behind an offset; `end` if there is none."""
    while offset < end:
        at = window.hold(offset, 1)
        found = window.buffer.find(_MAGIC, at)
        if found < 0:
            offset = window.base + len(window.buffer)
            continue
        offset = window.base + found
        if _record_at(window, offset, seed, end)[0] is not None:
            return offset
        offset += 1
    return end
