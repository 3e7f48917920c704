"""Progress bars on stderr, where `--progress` asks for one (default: on a terminal).

The one place that draws them; a command adds `arguments.add_progress`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from typing import Any


def bar(args: argparse.Namespace, stack: ExitStack, **look: Any) -> Any:
    """A bar of tqdm that is closed with the stack; None where none is wanted."""
    if not (sys.stderr.isatty() if args.progress is None else args.progress):
        return None
    # Loaded here: it takes longer than most commands.
    return stack.enter_context(import_module("tqdm").tqdm(file=sys.stderr, dynamic_ncols=True, **look))


def of_bytes(args: argparse.Namespace, stack: ExitStack, what: str) -> Callable[[int, int], None] | None:
    """A function to call with (bytes done, bytes in all)."""
    drawn = bar(args, stack, desc=what, unit="B", unit_scale=True)

    def show(done: int, total: int) -> None:
        drawn.total = total
        drawn.update(done - drawn.n)

    return None if drawn is None else show


def of_count(args: argparse.Namespace, stack: ExitStack, unit: str, what: str = "") -> Callable[[int], None] | None:
    """A function to call with the number done; how many there are is not known before."""
    drawn = bar(args, stack, desc=what, unit=unit)
    return None if drawn is None else lambda done: drawn.update(done - drawn.n)
