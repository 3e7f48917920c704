"""The list of stored values that cannot be read.

One damaged record must stop nothing but its own reading: an unreadable page is no candidate and no base, and is stored
again when it comes again.  A caller that can continue without a value reads it through `attempt` and gets None; the
damage is listed in statistics and reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from docstore.model.capture import Column
from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.keys import url_of
from docstore.model.plain import asdict

MOST_LISTED = 1000
"""Only the first values are listed."""

Value = TypeVar("Value")


class Place(NamedTuple):
    """The cell of a value; see NO_PAGE."""

    row_key: bytes = b""
    family: str = ""
    qualifier: bytes = b""
    timestamp: int = 0


NO_PAGE = Place()
"""For a value without a page, such as a dictionary."""


class Unreadable(NamedTuple):
    """A stored value that could not be read.

    Attributes:
        url: of its page; "" for a value without a page.
        column: its family and qualifier; "" without a page.
        timestamp: of the capture, in microseconds since 1970; 0 without a page.
        path: of the damaged file, or a name of the damaged part; "" if that is not known.
        offset: byte offset in that file, or None.
        reason: what is wrong.
    """

    url: str
    column: str
    timestamp: int
    path: str
    offset: int | None
    reason: str

    def __str__(self) -> str:
        where = f"{self.url} {self.column} @{self.timestamp}: " if self.url else ""
        place = f" in {self.path}" if self.path else ""
        place += f" at offset {self.offset}" if self.offset is not None else ""
        return f"{where}{self.reason}{place}"

    def asdict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: times in ISO 8601, bytes as text."""
        return dict(asdict(self))


class UnreadableValues:
    """Values that could not be read since the store was opened, each once.  Thread-safe."""

    def __init__(self) -> None:
        self._listed: dict[tuple[Place, str, int | None], Unreadable] = {}
        self._collectors: list[dict[Unreadable, None]] = []
        self._lock = Lock()

    def listed(self) -> tuple[Unreadable, ...]:
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

    def record(self, error: CorruptionError, place: Place = NO_PAGE) -> None:
        """List a value that could not be read."""
        row_key, family, qualifier, timestamp = place
        with self._lock:
            key = (place, error.path, error.offset)
            unreadable = self._listed.get(key)
            if unreadable is None:
                unreadable = Unreadable(
                    shown_row(row_key) if row_key else "",
                    shown_column((family, qualifier)) if row_key else "",
                    timestamp,
                    error.path,
                    error.offset,
                    error.message,
                )
                if len(self._listed) < MOST_LISTED:
                    self._listed[key] = unreadable
            for collector in self._collectors:
                if len(collector) < MOST_LISTED:
                    collector[unreadable] = None

    @contextmanager
    def collecting(self) -> Iterator[dict[Unreadable, None]]:
        """Collects the values that cannot be read inside the block, each once, in order: for the report of a run."""
        collector: dict[Unreadable, None] = {}
        with self._lock:
            self._collectors.append(collector)
        try:
            yield collector
        finally:
            with self._lock:
                self._collectors = [other for other in self._collectors if other is not collector]


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
