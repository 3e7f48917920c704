"""How much work something is, where the machine does other work as well: processor time, not that of the clock."""

from __future__ import annotations

import time
from collections.abc import Callable


def least_seconds(work: Callable[[], object], rounds: int = 3) -> float:
    """Least processor time that this thread takes for some work; caches shared with other work make a round longer."""
    return min(_seconds(work) for _ in range(rounds))


def _seconds(work: Callable[[], object]) -> float:
    began = time.thread_time()
    work()
    return time.thread_time() - began
