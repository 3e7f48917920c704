"""Python's cycle collector set aside while a group is written.

Floor 5: knows `gc` alone.  A group makes tens of thousands of tuples that hold no cycle and all go with its commit; the
collector would look at them a dozen times, and at everything else in memory once in a while: 30 us of 800 a page,
of which 5 to 14 are left (measured over 2,500 pages).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def later_collections() -> Iterator[None]:
    """No collection inside, unless another thread asks for one; what was garbage before is collected soon after.

    Whoever found the collector at work sets it to work again, so that it never stays away because pauses overlap.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
