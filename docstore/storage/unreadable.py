"""The list of stored values that cannot be read.

One damaged record must stop nothing but its own reading: an unreadable page is no candidate and no base, and is stored
again when it comes again.  A caller that can continue without a value reads it through `attempt` and gets None; the
damage is listed in statistics and reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import NamedTuple, TypeVar

from docstore.model.capture import VERDICT, Column, StoredVerdict, decode_verdict
from docstore.model.errors import CHECK, CorruptionError, InvalidArgument
from docstore.model.keys import url_of

MOST_LISTED = 1000
"""Only the first values are listed."""

Value = TypeVar("Value")
RESTORE = "fetch the page again and run `docstore check --repair`, or restore it from a backup"


class Finding(NamedTuple):
    """Something in a store that is lost, damaged or inconsistent.

    Attributes:
        where: the page, column and time of a capture, or a part of the store; "" if only the file is known.
        what: found, and expected.
        remedy: what to do.
        url: of the capture's page; "" if it concerns no capture.
        column: families and qualifiers, such as "page:body, text:main"; "" for all columns, or without a page.
        timestamp: of the capture, in microseconds since 1970; 0 without a page.
        path: the damaged file, or a name of the damaged part; "" if that is not known.
        offset: byte offset in that file, or None.
    """

    where: str
    what: str
    remedy: str
    url: str = ""
    column: str = ""
    timestamp: int = 0
    path: str = ""
    offset: int | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


class SetAside(NamedTuple):
    """A file of records that no row names.

    Attributes:
        name: of the file.
        segment: number of the segment that its records were written to.
        length_bytes: of the file; for a segment, of these records.
        is_unfinished: its group may never have been committed.
        start: where its records began in the segment.
        is_in_place: it is the segment itself: a store that is open for reading only moves nothing.
    """

    name: str
    segment: int
    length_bytes: int
    is_unfinished: bool = False
    start: int = 0
    is_in_place: bool = False


class Place(NamedTuple):
    """The cell of a value; see NO_PAGE."""

    row_key: bytes = b""
    family: str = ""
    qualifier: bytes = b""
    timestamp: int = 0

    def finding(self, what: str, remedy: str = RESTORE, path: str = "", offset: int | None = None) -> Finding:
        """Report what is wrong with the value."""
        if not self.row_key:
            return Finding("", what, remedy, path=path, offset=offset)
        url, column = shown_row(self.row_key), shown_column((self.family, self.qualifier))
        return Finding(f"{url} {column} @{self.timestamp}", what, remedy, url, column, self.timestamp, path, offset)

    def damage(self, error: CorruptionError) -> Finding:
        """Report that the value cannot be read."""
        return self.finding(error.what, RESTORE if error.remedy == CHECK else error.remedy, error.path, error.offset)


NO_PAGE = Place()
"""For a value without a page, such as a dictionary."""


class UnreadableValues:
    """Values that could not be read since the store was opened, each once.  Thread-safe."""

    def __init__(self) -> None:
        self._listed: dict[tuple[Place, str, int | None], Finding] = {}
        self._collectors: dict[object, dict[Finding, None]] = {}
        self._lock = Lock()

    def listed(self) -> tuple[Finding, ...]:
        """All of them, at most MOST_LISTED."""
        with self._lock:
            return tuple(self._listed.values())

    def attempt(self, read: Callable[[], Value], place: Place = NO_PAGE) -> Value | None:
        """The result of `read`; None if it raises CorruptionError, which is recorded.

        Args:
            read: reads the value; raises CorruptionError if it is damaged or missing.
            place: the cell that it reads.
        """
        try:
            return read()
        except CorruptionError as error:
            self.record(error, place)
            return None

    def verdict(
        self, fetch: Callable[[bytes], bytes], row_key: bytes, timestamp: int, columns: Mapping[Column, bytes]
    ) -> StoredVerdict | None:
        """The verdict of a capture; None if it has none, or a damaged one, which is recorded.

        Args:
            fetch: gives the value of a cell.
            row_key, timestamp: of the capture.
            columns: its cells.
        """
        cell_value = columns.get(VERDICT)
        if cell_value is None:
            return None
        return self.attempt(lambda: decode_verdict(fetch(cell_value)), Place(row_key, *VERDICT, timestamp))

    def record(self, error: CorruptionError, place: Place = NO_PAGE) -> None:
        """List a value that could not be read."""
        with self._lock:
            key = (place, error.path, error.offset)
            unreadable = self._listed.get(key) or place.damage(error)
            if len(self._listed) < MOST_LISTED:
                self._listed[key] = unreadable
            for collector in self._collectors.values():
                if len(collector) < MOST_LISTED:
                    collector[unreadable] = None

    @contextmanager
    def collecting(self) -> Iterator[dict[Finding, None]]:
        """Collects the values that cannot be read inside the block, each once, in order: for the report of a run."""
        collector: dict[Finding, None] = {}
        mark = object()
        try:
            with self._lock:
                self._collectors[mark] = collector
            yield collector
        finally:
            with self._lock:
                self._collectors.pop(mark, None)


def shown_column(column: Column) -> str:
    """The name of a column."""
    family, qualifier = column
    return f"{family}:{qualifier.decode('utf-8', 'replace')}"


def shown_row(row_key: bytes) -> str:
    """The URL of a row; its key, if that is of no URL."""
    try:
        return url_of(row_key)
    except InvalidArgument:
        return repr(row_key)
