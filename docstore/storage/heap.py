"""Settings of glibc's heap, for processes that run for long.

By default freed memory stays in the heaps of threads, so a process would look larger than what it holds.  With another
C library nothing is set.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8
"""Of glibc's `mallopt`."""
LARGE_BYTES = 1 << 20
"""Blocks from this size on are outside the heap, and freed to the system at once.  By default glibc raises this limit
with each large block that is freed, up to 32 MB; then bodies of requests fragment the heap."""


def use_one_heap() -> None:
    """Let all threads allocate from one heap: by default each thread has its own, which keeps freed memory.

    Call it before threads start: running threads keep their heaps, and share them with later ones.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_ARENA_MAX, 1)
        library.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


@contextmanager
def collecting_by_hand() -> Iterator[None]:
    """The garbage collector of Python runs only if it is called."""
    collects = gc.isenabled()  # if two do this at once, the one that switched it off switches it on again
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def trim_heap() -> None:
    """Release freed memory to the system."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
