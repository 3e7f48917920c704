"""Where a sweep computes: kernels over batches, results in order, and candidates from sketches.

Whatever the engine, the same input gives the same bytes.  `cluster/spark.py` has the other engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from docstore.reference.fingerprints import Numbers, Sets
from docstore.sweep.candidates import Candidates, candidates
from docstore.sweep.kernels import Columns, shared_of_sets
from docstore.sweep.stages import in_order

Part = TypeVar("Part")


class Engine(Protocol):
    """Computes for a sweep.

    Attributes:
        name: for the report.
    """

    name: str

    def candidates(self, sketches: NDArray[np.uint8], sizes: Numbers, chosen: Numbers, threshold: float) -> Candidates:
        """Candidate pairs: what `docstore.sweep.candidates.candidates` gives."""
        ...

    def map(
        self, stage: str, load: Callable[[Part], Columns], kernel: Callable[[Columns], Columns], parts: Iterable[Part]
    ) -> Iterator[Columns]:
        """What a kernel makes of each part's batch, in the order of the parts.

        Args:
            stage: names what is computed.
            load: gives the batch of a part; called in threads of this process.
            kernel: a pure function that can be sent to another process, such as a partial of a module's function.
            parts: taken as they are needed.
        """
        ...

    def counter(self, sets: Sets, members: Path) -> Callable[[Columns], Columns]:
        """The kernel that counts what pairs of sets share, for `map`; the members are in a file."""
        ...

    def close(self) -> None:
        """Let go; a second call does nothing."""
        ...


class LocalEngine:
    """The engine of one process: kernels in threads, which native code runs next to each other."""

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
