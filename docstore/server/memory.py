"""Memory of a process that runs for weeks: when garbage is looked for, and when freed memory is given back.

Knows the interpreter's collector and the C library's heap; must not know a store.

Cycles among young objects are found as always.  A full collection looks at everything that caches hold, and nobody
gets the interpreter meanwhile: with caches full that took .2 s, and under a load of writes Python began one every
2.5 s, of which each found a few hundred objects.  So here they come by the clock.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from collections.abc import Callable, Iterator
from typing import Final

from docstore.storage.heap import give_back_freed

TRIM_SECONDS: Final = 10.0
COLLECT_SECONDS: Final = 60.0
_NEVER: Final = 1 << 30
"""Collections of the middle generation before a full one."""


@contextlib.contextmanager
def full_collections_by_clock() -> Iterator[None]:
    """Python begins no full collection meanwhile: `tidy` does."""
    before = gc.get_threshold()
    gc.set_threshold(*before[:2], _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


async def tidy(
    trim_seconds: float = TRIM_SECONDS,
    collect_seconds: float = COLLECT_SECONDS,
    watch: Callable[[], object] | None = None,
) -> None:
    """Collect garbage each minute, and give freed memory back to the system each ten seconds, until cancelled.

    Args:
        trim_seconds, collect_seconds: how often.
        watch: called as often as memory is given back, in a thread.
    """
    collected = time.monotonic()
    while True:
        await asyncio.sleep(trim_seconds)
        if time.monotonic() - collected >= collect_seconds:
            gc.collect()
            collected = time.monotonic()
        await asyncio.to_thread(give_back_freed)
        if watch is not None:
            await asyncio.to_thread(watch)
