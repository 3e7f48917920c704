"""A URL's own row, as the writer sees it: the version before a page, what is at its very time, which times are taken.

Knows the table, the columns of `capture` and where values lie; must not know other rows, nor verdicts on them.
No row is asked for while the group in flight writes it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from docstore.model.capture import BODY, VERDICT, StoredVerdict, decode_verdict
from docstore.model.errors import CorruptionError
from docstore.model.types import Cell
from docstore.storage.cache import LruCache
from docstore.storage.captures import CaptureRecord, LiveCapture, not_modified
from docstore.storage.port import Values
from docstore.storage.table import TIMESTAMP_STEP_MICROS, Table
from docstore.storage.unreadable import Place
from docstore.writing.anchors import FAMILY as ANCHOR_FAMILY

WINDOW_MICROS = 1000 * TIMESTAMP_STEP_MICROS
"""Captures read at a time to find a free one."""
ROWS_HELD = 16
"""Rows of which taken times are in the cache: the ones that were asked for last."""


class OwnRow(NamedTuple):
    """What a row holds at and before a timestamp.

    Attributes:
        taken: the capture record at that very timestamp, hidden by a policy or not; None where the timestamp is free.
        previous: the newest live page before, or None.
    """

    taken: CaptureRecord | None
    previous: LiveCapture | None


_NOTHING = OwnRow(None, None)


class OwnRows:
    """Reads of the row that a page goes into.  Not thread-safe: the sequencer owns it.

    Args:
        table: of pages.
        placement: where values lie.
        remembers: trust what `prepare` found of rows.  Whoever asks for that calls `forget` before the next read, once
            anybody else may have committed.
    """

    def __init__(self, table: Table, placement: Values, *, remembers: bool) -> None:
        self._table = table
        self._placement = placement
        self._remembers = remembers
        self._absent: set[bytes] = set()

    def prepare(self, row_keys: Sequence[bytes]) -> None:
        """Say which rows are written next: those that are not there yet, most of a crawl, are found out together."""
        self._absent = self._table.absent_rows(row_keys) if self._remembers and len(row_keys) > 1 else set()

    def is_absent(self, row_key: bytes) -> bool:
        """Whether a row was found to be absent."""
        return row_key in self._absent

    def own(self, row_key: bytes, timestamp: int) -> OwnRow:
        """What the row holds at and before a timestamp; the row must not be in flight."""
        if row_key in self._absent:
            return _NOTHING
        # What a policy hides is there all the same: a write at its timestamp would take its place.
        return OwnRow(self._table.record(row_key, timestamp), self._table.newest_capture(row_key, timestamp))

    def verdict(self, row_key: bytes, found: CaptureRecord | LiveCapture) -> StoredVerdict | None:
        """The stored verdict of a capture; None if there is none that can be read."""
        if VERDICT not in found.columns:
            return None
        place = Place(row_key, *VERDICT, found.timestamp)
        value = self._placement.unreadable.attempt(lambda: self._placement.fetch(found.columns[VERDICT]), place)
        return None if value is None else decode_verdict(value)

    def confirmed_verdict(self, row_key: bytes, found: LiveCapture) -> StoredVerdict | None:
        """The verdict of a page, as a visit without a body (304) takes it over: marked as not judged again."""
        verdict = self.verdict(row_key, found)
        return None if verdict is None else not_modified(verdict)

    def stored_body(self, row_key: bytes, found: CaptureRecord | LiveCapture) -> bytes | None:
        """The body of a capture, hidden by a policy or not; None if it has none, or it cannot be read."""
        if BODY not in found.columns:
            return None
        place = Place(row_key, *BODY, found.timestamp)
        return self._placement.unreadable.attempt(lambda: self._placement.fetch(found.columns[BODY]), place)

    def is_damaged(self, row_key: bytes, found: CaptureRecord | LiveCapture) -> bool:
        """Whether a value of a capture cannot be read; all that cannot are listed."""
        is_damaged = False
        for column, value in found.refs:
            try:
                self._placement.verify(value)
            except CorruptionError as error:
                self._placement.unreadable.note(error, Place(row_key, *column, found.timestamp))
                is_damaged = True
        return is_damaged

    def anchor(self, row_key: bytes, source: bytes) -> Cell | None:
        """What a page says of another, newest: its URL is the qualifier; committed ones only."""
        return self._table.newest(row_key, ANCHOR_FAMILY, source)

    def note_write(self, row_key: bytes) -> None:
        """The group in flight writes this row."""
        self._absent.discard(row_key)

    def forget(self) -> None:
        """Others may have committed: read everything anew."""
        self._absent.clear()


class TakenTimes:
    """Runs of taken milliseconds, of a few rows.

    What it says is verified by whoever asks; it must be told of what is written, and forget when others write.

    Args:
        table: of pages.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._runs: LruCache[bytes, _Run] = LruCache(ROWS_HELD)

    def next(self, row_key: bytes, timestamp: int, checksum: bytes) -> int:
        """The first time, from this one on, that is free, or has this checksum."""
        run = self._runs.get(row_key)
        if run is None or not run.start <= timestamp <= run.end + TIMESTAMP_STEP_MICROS:
            run = _Run(timestamp)
        if timestamp > run.end or not run.is_read:
            self._read(row_key, run)
        self._runs.put(row_key, run)
        same = run.at.get(checksum, [])
        return min([run.end, *same[(place := bisect_left(same, timestamp)) : place + 1]])

    def take(self, row_key: bytes, timestamp: int, checksum: bytes) -> None:
        """A capture is written at this time, or there already."""
        run = self._runs.get(row_key)
        if run is not None and timestamp == run.end:
            run.add(checksum)

    def forget(self) -> None:
        """Others may have written, or what was written has failed."""
        self._runs.clear()

    def _read(self, row_key: bytes, run: _Run) -> None:
        """Go on behind the run's end, to the first free time."""
        run.is_read = True
        while True:
            window = run.end, run.end + WINDOW_MICROS
            captures = {one.timestamp: one.checksum for one in self._table.records(row_key, *window)}
            for _ in range(WINDOW_MICROS // TIMESTAMP_STEP_MICROS):
                if run.end not in captures:
                    return
                run.add(captures[run.end])


class _Run:
    """Taken times from `start` on, and before `end`, which is free; by checksum, ascending."""

    __slots__ = ("at", "end", "is_read", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.at: dict[bytes, list[int]] = {}
        self.is_read = False

    def add(self, checksum: bytes) -> None:
        self.at.setdefault(checksum, []).append(self.end)
        self.end += TIMESTAMP_STEP_MICROS
