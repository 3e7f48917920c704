"""How the C library keeps memory that was freed; does nothing where that is not glibc."""

from __future__ import annotations

import ctypes
from contextlib import suppress

M_ARENA_MAX = -8
"""Of glibc's `mallopt`."""


def use_one_heap() -> None:
    """Let all threads allocate from one heap: glibc gives threads heaps of their own, which keep what was freed.

    Of use before there are threads: those that are there keep their heaps, and share them with later ones.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def give_back_freed() -> None:
    """Give freed memory back to the system."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
