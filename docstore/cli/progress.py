"""Progress bars on stderr, of bytes or of rows.

The one place that draws them for maintenance commands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module


def bytes_bar(stack: ExitStack, what: str) -> Callable[[int, int], None]:
    """A function to tell (bytes done, bytes in all); the bar is closed with the stack."""
    # Loaded here: it takes longer than most commands.
    tqdm = import_module("tqdm").tqdm
    bar = stack.enter_context(tqdm(desc=what, unit="B", unit_scale=True, file=sys.stderr, dynamic_ncols=True))

    def show(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    return show


def rows_bar(stack: ExitStack, what: str) -> Callable[[int], None]:
    """A function to tell the rows done; how many there are is not known before."""
    tqdm = import_module("tqdm").tqdm
    bar = stack.enter_context(tqdm(desc=what, unit=" rows", file=sys.stderr, dynamic_ncols=True))

    def show(done: int) -> None:
        bar.update(done - bar.n)

    return show
