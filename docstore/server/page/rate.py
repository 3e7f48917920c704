"""Pages written in each of the last minutes.

Knows minutes and counts alone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

MINUTES = 60


class Rate:
    """Counts pages by minute, for an hour.  Thread-safe.

    Args:
        clock: seconds since a fixed time.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._pages = [0] * (MINUTES + 1)
        self._minute = self._now()

    def note(self, pages: int) -> None:
        """So many pages were written now."""
        with self._lock:
            self._go_on()
            self._pages[-1] += pages

    def minutes(self) -> list[int]:
        """Pages of each of the last MINUTES minutes, the oldest first, and of the minute that is not over."""
        with self._lock:
            self._go_on()
            return list(self._pages)

    def _now(self) -> int:
        return int(self._clock() // 60)

    def _go_on(self) -> None:
        passed = min(self._now() - self._minute, MINUTES + 1)
        if passed > 0:
            self._pages = self._pages[passed:] + [0] * passed
            self._minute = self._now()
