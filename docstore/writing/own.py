"""A URL's own row, as the writer sees it: the version before a page, what is at its very time, which times are taken.

Knows the table, the columns of `capture` and where values lie; must not know other rows, nor verdicts on them.
No row is asked for while the group in flight writes it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from docstore.model.capture import (
    BODY,
    CHECKSUM,
    REASON_NOT_MODIFIED,
    STORED_CONFIRMED,
    TEXT_CHECKSUM,
    VERDICT,
    VISIT,
    Column,
    StoredVerdict,
    decode_verdict,
    encode_verdict,
)
from docstore.model.errors import CorruptionError
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, Previous, ReadSpec, SetCell
from docstore.reading.documents import DocumentReader
from docstore.storage.cache import LruCache
from docstore.storage.port import Values
from docstore.storage.table import TIMESTAMP_STEP_MICROS, Table
from docstore.storage.unreadable import Place
from docstore.writing.anchors import FAMILY as ANCHOR_FAMILY
from docstore.writing.pages import FAMILIES_OF_A_VERSION

WINDOW_MICROS = 1000 * TIMESTAMP_STEP_MICROS
"""Captures read at a time to find a free one."""
ROWS_HELD = 16
"""Rows of which taken times are in the cache: the ones that were asked for last."""
_COLUMNS_OF_A_VERSION = ("dedup", "page")
_FAMILIES_OF_RECORDS = ("http", "page", "text")
"""Those with values too long for a cell, but for a verdict that names very long URLs."""
_NOT_KNOWN = b""
"""In place of the checksum of a capture whose cell is gone."""


class OwnVersion(NamedTuple):
    """The version of a URL before the page being written.

    Attributes:
        timestamp: of its newest confirmation.
        body: its envelope in `page:body`.
        checksum: of its body; b"" where that is not known.
        text_checksum: of its text, or b"".
        text_timestamp: where its text lies.
    """

    timestamp: int
    body: bytes
    checksum: bytes
    text_checksum: bytes
    text_timestamp: int


class OwnRow(NamedTuple):
    """What a row holds at and before a timestamp.

    Attributes:
        taken: checksum of a capture at that very timestamp, hidden by a policy or not; b"" where its cell is gone; None
            where the timestamp is free.
        verdict: that capture's stored verdict, encoded; b"" where there is none that can be read.
        previous: the newest live version before, or None.
    """

    taken: bytes | None
    verdict: bytes
    previous: OwnVersion | None


_NOTHING = OwnRow(None, b"", None)


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
        self._reader = DocumentReader(table, placement)
        self._remembers = remembers
        self._hides = table.collects(FAMILIES_OF_A_VERSION)
        self._absent: set[bytes] = set()

    def prepare(self, row_keys: Sequence[bytes]) -> None:
        """Say which rows are written next: those that are not there yet, most of a crawl, are found out together."""
        self._absent = self._table.absent_rows(row_keys) if self._remembers and len(row_keys) > 1 else set()

    def reads(self, pointers: Iterable[PagePointer]) -> list[tuple[bytes, ReadSpec]]:
        """What `own` reads for pages, of rows that are there."""
        return [(row_key, _at_and_before(at)) for at, row_key in pointers if row_key not in self._absent]

    def own(self, row_key: bytes, timestamp: int) -> OwnRow:
        """What the row holds at and before a timestamp; the row must not be in flight."""
        if row_key in self._absent:
            return _NOTHING
        spec = _at_and_before(timestamp)
        cells = self._table.read_row(row_key, spec)
        # What a policy hides is there all the same: a write at its timestamp would take its place.
        stored = self._table.stored_row(row_key, spec._replace(start=timestamp)) if self._hides else cells
        here = {(cell.family, cell.qualifier): cell.value for cell in stored if cell.timestamp == timestamp}
        if not cells and not here:
            return _NOTHING
        taken = self._value(here, CHECKSUM) if CHECKSUM in here or BODY in here else None
        verdict = self._read(row_key, Cell(*VERDICT, timestamp, here[VERDICT])) if VERDICT in here else None
        return OwnRow(taken, verdict or b"", self._version_before(row_key, cells, timestamp))

    def stored_body(self, row_key: bytes, timestamp: int) -> bytes | None:
        """The body of a capture, hidden by a policy or not; None if it has none, or it cannot be read."""
        family, qualifier = BODY
        spec = ReadSpec((family,), qualifier, start=timestamp, end=timestamp + 1)
        cells = self._table.stored_row(row_key, spec)
        return next((self._read(row_key, cell) for cell in cells if cell.qualifier == qualifier), None)

    def unreadable_cells(self, row_key: bytes, timestamps: Iterable[int]) -> list[Cell]:
        """Cells of a row's versions whose values cannot be read."""
        found = []
        for timestamp in timestamps:
            spec = ReadSpec(families=_FAMILIES_OF_RECORDS, start=timestamp, end=timestamp + 1)
            for cell in self._table.stored_row(row_key, spec):
                try:
                    self._placement.verify(cell.value)
                except CorruptionError as error:
                    place = Place(row_key, cell.family, cell.qualifier, cell.timestamp)
                    self._placement.unreadable.note(error, place)
                    found.append(cell)
        return found

    def holders(self, row_key: bytes, damaged: Cell) -> list[int]:
        """Timestamps at which a row's column holds a value."""
        spec = ReadSpec(families=(damaged.family,), qualifier_prefix=damaged.qualifier)
        cells = self._table.stored_row(row_key, spec)
        return [cell.timestamp for cell in cells if cell[:2] == damaged[:2] and cell.value == damaged.value]

    def anchor(self, row_key: bytes, source: bytes) -> Cell | None:
        """What a page says of another, newest: its URL is the qualifier; committed ones only."""
        return self._table.newest(row_key, ANCHOR_FAMILY, source)

    def has_visit(self, pointer: PagePointer) -> bool:
        """Whether a visit that found nothing new (304) is noted at that row and time."""
        return bool(self._reader.value(pointer.row_key, VISIT, pointer.timestamp))

    def confirmations(self, row_key: bytes, version: OwnVersion, timestamp: int) -> list[SetCell]:
        """The cells by which a visit confirms a version's text: the same envelopes at the visit's time.

        Without them a capture that comes in late, between the version and the visit, would lend the visit its text.
        Where the last sweep put the version goes with it.
        """
        at = version.text_timestamp
        cells = self._table.read_row(row_key, ReadSpec(families=("dedup", "text"), start=at, end=at + 1))
        return [
            SetCell(cell.family, cell.qualifier, timestamp, cell.value)
            for cell in cells
            if (cell.family, cell.qualifier) not in (CHECKSUM, VERDICT)
        ]

    def visit_cells(self, row_key: bytes, version: OwnVersion, timestamp: int) -> list[SetCell]:
        """The cells by which a visit without a body (304) stands for the version that it confirms.

        That is how the version was fetched, its text, its fingerprints and its verdict, marked as not judged again.
        None where the version has no verdict, as a body set as a plain cell, or one that cannot be read.
        """
        verdict = self.confirmed_verdict(row_key, version)
        at = version.timestamp
        spec = ReadSpec(families=("dedup", "http", "page", "text"), start=at, end=at + 1)
        columns = {(cell.family, cell.qualifier): cell.value for cell in self._table.read_row(row_key, spec)}
        if verdict is None or CHECKSUM not in columns:
            return []
        columns.pop(VISIT, None)
        columns[VERDICT] = self._placement.place(row_key, VERDICT, timestamp, encode_verdict(verdict))
        return [SetCell(*column, timestamp, value) for column, value in columns.items()]

    def confirmed_verdict(self, row_key: bytes, version: OwnVersion) -> StoredVerdict | None:
        """The verdict of a version, as a visit without a body (304) takes it over: marked as not judged again.

        None if the version has no verdict, as a body set as a plain cell, or one that cannot be read.
        """
        at = version.timestamp
        spec = ReadSpec((VERDICT[0],), VERDICT[1], at, at + 1)
        cell = next((one for one in self._table.read_row(row_key, spec) if one.qualifier == VERDICT[1]), None)
        stored = None if cell is None else self._read(row_key, cell)
        if stored is None:
            return None
        return decode_verdict(stored)._replace(
            reason=REASON_NOT_MODIFIED, previous=Previous.SAME_BYTES, previous_similarity=1.0, stored=STORED_CONFIRMED
        )

    def note_write(self, row_key: bytes) -> None:
        """The group in flight writes this row."""
        self._absent.discard(row_key)

    def forget(self) -> None:
        """Others may have committed: read everything anew."""
        self._absent.clear()

    def _version_before(self, row_key: bytes, cells: list[Cell], timestamp: int) -> OwnVersion | None:
        body = next((c for c in cells if (c.family, c.qualifier) == BODY and c.timestamp < timestamp), None)
        if body is None:
            return None
        if any(body.timestamp < cell.timestamp < timestamp for cell in cells):
            # Captures without a body, rejected ones, are newer: look again from the body's time on.
            spec = ReadSpec(families=_COLUMNS_OF_A_VERSION, end=body.timestamp + 1, versions=1)
            cells = self._table.read_row(row_key, spec)
        checksum = text_checksum = b""
        text_timestamp = 0
        for cell in cells:  # newest first within a column
            if cell.timestamp > body.timestamp:
                continue
            column = (cell.family, cell.qualifier)
            if column == CHECKSUM and not checksum:
                checksum = self._placement.fetch(cell.value)
            elif column == TEXT_CHECKSUM and not text_timestamp:
                text_checksum, text_timestamp = self._placement.fetch(cell.value), cell.timestamp
        return OwnVersion(body.timestamp, body.value, checksum, text_checksum, text_timestamp)

    def _value(self, columns: dict[Column, bytes], column: Column) -> bytes:
        envelope = columns.get(column)
        return b"" if envelope is None else self._placement.fetch(envelope)

    def _read(self, row_key: bytes, cell: Cell) -> bytes | None:
        """The value of a cell, as long as the lock is held that keeps it where it is; None where it cannot be read."""
        place = Place(row_key, cell.family, cell.qualifier, cell.timestamp)
        return self._placement.unreadable.attempt(lambda: self._placement.fetch(cell.value), place)


def _at_and_before(timestamp: int) -> ReadSpec:
    return ReadSpec(families=_COLUMNS_OF_A_VERSION, end=timestamp + 1, versions=2)


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
