"""The engine of one process: kernels in threads, which native code runs beside each other.

Knows threads; must not know what a kernel computes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.candidates import Numbers
from docstore.dedup.overlaps import Sets
from docstore.sweep.candidates import Candidates, candidates
from docstore.sweep.kernels import Columns, shared_of_sets
from docstore.sweep.stages import in_order

Part = TypeVar("Part")


class LocalEngine:
    """See `Engine`."""

    name = "local"

    def __init__(self, threads: int) -> None:
        self._threads = threads

    def candidates(self, sketches: NDArray[np.uint8], sizes: Numbers, chosen: Numbers, threshold: float) -> Candidates:
        """See `Engine`."""
        return candidates(sketches, sizes, chosen, threshold)

    def map(
        self, stage: str, load: Callable[[Part], Columns], kernel: Callable[[Columns], Columns], parts: Iterable[Part]
    ) -> Iterator[Columns]:
        """See `Engine`: at most two batches a thread are held."""
        return in_order(self._threads, lambda part: kernel(load(part)), parts)

    def counter(self, sets: Sets, members: Path) -> Callable[[Columns], Columns]:
        """See `Engine`."""
        return partial(shared_of_sets, sets)

    def close(self) -> None:
        """See `Engine`."""
