"""Captures of one row at milliseconds that follow each other: where the next free one is, without going through them.

Knows the table; must not know verdicts.  Another body at a taken time gets the next free
millisecond, and the same body again is known by it; a thousand bodies at one time would be a thousand look-ups each.
"""

from __future__ import annotations

from bisect import bisect_left

from docstore.model.capture import BODY, CHECKSUM
from docstore.model.types import ReadSpec
from docstore.storage.cache import LruCache
from docstore.storage.port import Values
from docstore.storage.table import TIMESTAMP_STEP_MICROS, Table

WINDOW_MICROS = 1000 * TIMESTAMP_STEP_MICROS
"""Captures read at a time."""
ROWS_HELD = 16
"""Rows in the cache: the ones that were asked for last."""

_NOT_KNOWN = b""
"""In place of the checksum of a capture whose cell is gone."""


class TakenTimes:
    """Runs of taken milliseconds, of a few rows.

    What it says is verified by whoever asks; it must be told of what is written, and forget when others write.

    Args:
        table: of pages.
        placement: where values lie.
    """

    def __init__(self, table: Table, placement: Values) -> None:
        self._table = table
        self._placement = placement
        self._runs: LruCache[bytes, _Run] = LruCache(ROWS_HELD)

    def next(self, row_key: bytes, timestamp: int, checksum: bytes) -> int:
        """The first time, from this one on, that is free, or has or may have this checksum."""
        run = self._runs.get(row_key)
        if run is None or not run.start <= timestamp <= run.end + TIMESTAMP_STEP_MICROS:
            run = _Run(timestamp)
        if timestamp > run.end or not run.is_read:
            self._read(row_key, run)
        self._runs.put(row_key, run)
        found = [run.end]
        for same in (run.at.get(checksum, ()), run.at.get(_NOT_KNOWN, ())):
            found += same[(place := bisect_left(same, timestamp)) : place + 1]
        return min(found)

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
            captures = self._captures_between(row_key, run.end, run.end + WINDOW_MICROS)
            for _ in range(WINDOW_MICROS // TIMESTAMP_STEP_MICROS):
                if run.end not in captures:
                    return
                run.add(captures[run.end])

    def _captures_between(self, row_key: bytes, start: int, end: int) -> dict[int, bytes]:
        """The checksums of a row's captures from start on and before end, hidden by a policy or not."""
        found: dict[int, bytes] = {}
        for family, qualifier in (BODY, CHECKSUM):
            spec = ReadSpec(families=(family,), qualifier_prefix=qualifier, start=start, end=end)
            for cell in self._table.stored_row(row_key, spec):
                if cell.qualifier == qualifier:
                    is_checksum = family == CHECKSUM[0]
                    found[cell.timestamp] = self._placement.fetch(cell.value) if is_checksum else _NOT_KNOWN
        return found


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
