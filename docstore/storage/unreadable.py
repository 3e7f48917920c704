"""Stored values that cannot be read: noted by name, so that whoever can go on without one does.

Knows the errors; must not know what a value is for.  One damaged record must stop nothing but its own reading:
a page that cannot be read is no candidate and no base, and is stored anew when it comes again.  Who asks for a value
that it can do without asks through `attempt`, and gets None; the damage is listed in statistics and reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, NamedTuple, TypeVar

from docstore.model.errors import CorruptionError, InvalidArgument
from docstore.model.keys import url_of

MOST_LISTED = 1000
"""Values listed one by one; of more than that, the first."""

Value = TypeVar("Value")


class Place(NamedTuple):
    """The cell that a value belongs to; see NO_PAGE."""

    row_key: bytes = b""
    family: str = ""
    qualifier: bytes = b""
    timestamp: int = 0


NO_PAGE = Place()
"""Of a value that is no page's: a dictionary, say."""


class Unreadable(NamedTuple):
    """A stored value that could not be read.

    Attributes:
        url: of the page whose value it is; "" for what is no page's.
        column: its family and qualifier; "" for what is no page's.
        timestamp: of the capture, in microseconds since 1970; 0 for what is no page's.
        path: of the damaged file, or what is damaged where no file is known; "" where that is not known.
        offset: byte offset in that file, or None.
        reason: what is wrong with it.
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

    def as_dict(self) -> dict[str, Any]:
        """Plain data, ready for JSON."""
        return self._asdict()


class UnreadableValues:
    """What could not be read since the store was opened, each value once.  Thread-safe."""

    def __init__(self) -> None:
        self._listed: dict[tuple[Place, str, int | None], Unreadable] = {}
        self._collectors: list[dict[Unreadable, None]] = []
        self._lock = Lock()

    def listed(self) -> tuple[Unreadable, ...]:
        """All of them, at most MOST_LISTED."""
        with self._lock:
            return tuple(self._listed.values())

    def attempt(self, read: Callable[[], Value], place: Place = NO_PAGE) -> Value | None:
        """What `read` gives; None where that cannot be read, which is noted.

        Args:
            read: looks the value up and reads it; raises CorruptionError where it is damaged or not there.
            place: the cell that it reads.
        """
        try:
            return read()
        except CorruptionError as error:
            self.note(error, place)
            return None

    def note(self, error: CorruptionError, place: Place = NO_PAGE) -> None:
        """List a value that could not be read."""
        row_key, family, qualifier, timestamp = place
        with self._lock:
            key = (place, error.path, error.offset)
            found = self._listed.get(key)
            if found is None:
                found = Unreadable(
                    _shown(row_key) if row_key else "",
                    f"{family}:{qualifier.decode('utf-8', 'replace')}" if row_key else "",
                    timestamp,
                    error.path,
                    error.offset,
                    error.message,
                )
                if len(self._listed) < MOST_LISTED:
                    self._listed[key] = found
            for collector in self._collectors:
                if len(collector) < MOST_LISTED:
                    collector[found] = None

    @contextmanager
    def collecting(self) -> Iterator[dict[Unreadable, None]]:
        """What cannot be read meanwhile, each value once, in order: for the report of a run."""
        collector: dict[Unreadable, None] = {}
        with self._lock:
            self._collectors.append(collector)
        try:
            yield collector
        finally:
            with self._lock:
                self._collectors = [one for one in self._collectors if one is not collector]


def _shown(row_key: bytes) -> str:
    try:
        return url_of(row_key)
    except InvalidArgument:
        return repr(row_key)
