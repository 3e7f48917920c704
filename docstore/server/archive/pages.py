"""Where the pages of a CDX question begin, so that page 40 does not look at the 39 before it again.

Knows positions in the order of row keys; must not know what a capture is.  Starts are remembered for some minutes: a
client that asks for one page after the other finds each at once.  Pages of a store that is written to may shift.
"""

from __future__ import annotations

import base64
import binascii
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from docstore.model.errors import InvalidArgument
from docstore.model.keys import KeyRange

_QUESTIONS = 64
_STARTS = 2000
_LONGEST_KEY = 1024
_SECONDS = 600.0


class Position(NamedTuple):
    """A place among captures: the row key at which to begin, and captures of its path to leave out."""

    row_key: bytes
    skip: int

    def token(self) -> str:
        """As a resume key."""
        return base64.urlsafe_b64encode(b"%d " % self.skip + self.row_key).decode().rstrip("=")


def parse_token(token: str) -> Position:
    """The position of a resume key.

    Raises:
        InvalidArgument: it is none.
    """
    try:
        raw = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4))
        skip, blank, row_key = raw.partition(b" ")
        if blank and skip.isdigit() and len(skip) <= 9:
            return Position(row_key, int(skip))
    except (binascii.Error, ValueError):
        pass
    raise InvalidArgument(f"resumeKey {token[:60]!r} is none that this server gave; begin without one")


class PageStarts:
    """Starts of pages by question.  Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._starts: OrderedDict[tuple[KeyRange, int], tuple[float, list[Position]]] = OrderedDict()
        self._lock = Lock()

    def nearest(self, rows: KeyRange, page_rows: int, page: int) -> tuple[int, Position]:
        """The last page up to `page` whose start is known, and its start."""
        with self._lock:
            starts = self._known(rows, page_rows)
            number = min(page, len(starts) - 1)
            return number, starts[number]

    def note(self, rows: KeyRange, page_rows: int, page: int, start: Position) -> None:
        """Remember where a page begins, if the one before it is known."""
        with self._lock:
            starts = self._known(rows, page_rows)
            if len(start.row_key) > _LONGEST_KEY:
                return
            if page == len(starts) < _STARTS:
                starts.append(start)
            elif page < len(starts):
                starts[page] = start

    def _known(self, rows: KeyRange, page_rows: int) -> list[Position]:
        key = (rows, page_rows)
        made, starts = self._starts.get(key, (0.0, []))
        if not starts or self._clock() - made > _SECONDS:
            starts = [Position(rows.start, 0)]
            self._starts[key] = (self._clock(), starts)
        self._starts.move_to_end(key)
        while len(self._starts) > _QUESTIONS:
            self._starts.popitem(last=False)
        return starts
