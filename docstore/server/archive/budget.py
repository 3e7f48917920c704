"""What one question may cost: rows and captures looked at, and seconds; and whether it is short.

Knows nothing of a store.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from docstore.model.errors import InvalidArgument


class UsedUp(Exception):
    """The budget of a question is used up; caught inside this package.

    Attributes:
        reason: what is used up, in words.
        resume_at: row key from which the question can go on; b"" where it was not a scan in order.
    """

    def __init__(self, reason: str, resume_at: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.resume_at = resume_at


class TooLong(Exception):
    """A question is not answered in about a millisecond; caught inside this package, and asked in a thread then."""


class Budget:
    """Counts what a question looks at.  Of one thread.

    Attributes:
        cut_rows: URLs of which only the newest captures were looked at.
    """

    def __init__(self, rows: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rows = self._left = rows
        self._seconds = seconds
        self._clock = clock
        self._deadline = clock() + seconds
        self.cut_rows = 0

    def spend(self, count: int) -> None:
        """Count rows or captures that were looked at."""
        self._left -= count

    def check(self, resume_at: bytes) -> None:
        """Go on only if there is something left.

        Args:
            resume_at: row key of what would be looked at next.
        Raises:
            UsedUp: there is nothing left.
        """
        if self._left <= 0:
            raise UsedUp(f"looked at {self._rows} rows and captures, the most that one question may", resume_at)
        if self._clock() > self._deadline:
            raise UsedUp(f"took {self._seconds:g} seconds, the most that one question may", resume_at)

    def check_filters(self) -> None:
        """Go on matching filters only if there is time; twice as much, so that a scan in order stops first.

        Raises:
            InvalidArgument: there is none.
        """
        if self._clock() > self._deadline + self._seconds:
            raise InvalidArgument(
                f"the filters took more than {self._seconds:g} seconds; ask with simpler expressions, or page by page"
            )
