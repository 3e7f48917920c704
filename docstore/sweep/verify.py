"""Fourth stage of a sweep: candidates -> pairs with exact similarities, by an engine, each batch logged.

Knows arrays only.  Nothing is estimated: the common members of two sets are counted, by native code if it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.reference.fingerprints import Numbers, Sets
from docstore.sweep.engine import Engine
from docstore.sweep.kernels import Columns
from docstore.sweep.stages import INPUT_BYTES, Workspace

BATCH_MEMBERS = 1 << 22
"""Members of the pairs of a batch, or one pair; its sets are copied, so that one takes at most about 100 MB."""


def verify(
    sets: Sets,
    members: Path,
    first: Numbers,
    second: Numbers,
    workspace: Workspace,
    *,
    engine: Engine,
    on_progress: Callable[[int, int], None] | None = None,
) -> Numbers:
    """What each pair shares; batches that the workspace's log has are taken from there.

    Args:
        sets: of uint64 hashes.
        members: file of their members.
        first, second: (pairs,) sorted numbers of sets.
        workspace: of this sweep.
        engine: that counts.
    """
    digest = blake3(first.astype("<i8").tobytes())
    for part in (second, sets.starts):
        digest.update(part.astype("<i8").tobytes())
    log = workspace.log("pairs", digest.digest(INPUT_BYTES))
    found: list[NDArray[np.int64]] = []
    done = 0
    for frame in log.frames():
        found.append(np.frombuffer(frame, "<i8"))
        done += len(found[-1])
    batches = _batches(sets, first[done:], second[done:])
    for counted in engine.map("pairs", _columns, engine.counter(sets, members), batches):
        batch = counted["shared"]
        log.append(batch.astype("<i8").tobytes())
        found.append(batch)
        done += len(batch)
        if on_progress is not None:
            on_progress(done, len(first))
    return np.concatenate([np.empty(0, np.int64), *found])


def _columns(pairs: tuple[Numbers, Numbers]) -> Columns:
    return {"first": pairs[0], "second": pairs[1]}


def _batches(sets: Sets, first: Numbers, second: Numbers) -> Iterator[tuple[Numbers, Numbers]]:
    """The pairs, cut so that the sets of a batch have at most BATCH_MEMBERS members, or are those of one pair."""
    work = np.cumsum(sets.lengths[first] + sets.lengths[second])
    begin = 0
    while begin < len(first):
        before = int(work[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(work, before + BATCH_MEMBERS, "right")))
        yield first[begin:end], second[begin:end]
        begin = end
