"""How the C library keeps memory that was freed; does nothing where that is not glibc."""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8
"""Of glibc's `mallopt`."""
LARGE_BYTES = 1 << 20
"""Pieces from this size on lie outside of the heap, and go back to the system at once.  Left alone, glibc raises that
with each large piece that is freed, up to 32 MB; then bodies of requests leave holes in the heap."""


def use_one_heap() -> None:
    """Let all threads allocate from one heap: glibc gives threads heaps of their own, which keep what was freed.

    Of use before there are threads: those that are there keep their heaps, and share them with later ones.
    """
    with suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(M_ARENA_MAX, 1)
        library.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)


def give_back_freed() -> None:
    """Give freed memory back to the system."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
