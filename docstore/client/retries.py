"""When a call that failed is made again: exponential backoff with jitter, for a bounded time.

Pure but for a clock and random numbers, which tests replace.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import NamedTuple

from docstore.model.errors import DocstoreError


class Retries(NamedTuple):
    """How long a call that failed is made again.

    Attributes:
        patience_seconds: from its first failure on; 0 makes it once.
        first_seconds: longest first pause; each next one is twice as long.
        most_seconds: longest pause, unless the server asks for a longer one.
    """

    patience_seconds: float = 30.0
    first_seconds: float = 0.05
    most_seconds: float = 5.0


class Attempts:
    """The attempts of one call.

    Args:
        retries: how long.
        clock: seconds, monotonic.
        share: a random number from 0 to 1.
    """

    def __init__(
        self,
        retries: Retries,
        clock: Callable[[], float] = time.monotonic,
        share: Callable[[], float] = random.random,
    ) -> None:
        self._retries = retries
        self._clock = clock
        self._share = share
        self._failures = 0
        self._began: float | None = None

    def pause(self, error: DocstoreError, retry_after: float | None = None) -> float:
        """Seconds to wait before the next attempt.

        Args:
            error: why this one failed; raised when patience is at its end.
            retry_after: seconds that the server asked for.
        """
        now = self._clock()
        if self._began is None:
            self._began = now
        longest = min(self._retries.most_seconds, self._retries.first_seconds * 2.0**self._failures)
        pause = (retry_after or 0.0) + longest * (0.5 + self._share() / 2)
        self._failures = min(self._failures + 1, 60)
        if now + pause - self._began > self._retries.patience_seconds:
            raise error
        return pause

    def succeeded(self) -> None:
        """Something came of the last attempt: the next failure is a first one."""
        self._failures = 0
        self._began = None
