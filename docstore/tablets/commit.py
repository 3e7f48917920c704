"""The one commit point: segment synced, then one `mutate_rows`.

Knows the engine, where values lie and the manifest; must not know what the rows mean.  Everything that writes
to a store goes through here, under one lock, so that the committed tail of the segments in the manifest is always that
of the rows beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from docstore.model.types import Durability, RowMutations, SetCell
from docstore.storage.engine import Engine
from docstore.tablets.compaction.segments import ENVELOPE_TABLES, segment_of
from docstore.tablets.manifest import Manifest
from docstore.tablets.placement import Placement
from docstore.tablets.reserve import Reserve

Result = TypeVar("Result")


class Committer:
    """Commits rows together with the values placed for them.

    Attributes:
        lock: held by whoever places values, until they are committed.
        manifest: tablets and segments; its changes are written with each commit.
        durability: what an acknowledged write survives.
        compacting: held by the one compaction that may run.
        commits: how many were tried; whoever remembers what is stored forgets it when others have committed.
        watched: while compaction looks for segments that no row refers to, the segments that commits refer to.
    """

    def __init__(
        self,
        engine: Engine,
        placement: Placement,
        manifest: Manifest,
        durability: Durability,
        check_writable: Callable[[], None] = lambda: None,
        reserve: Reserve | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.manifest = manifest
        self.durability = durability
        self.compacting = threading.Lock()
        self.commits = 0
        self.watched: set[int] | None = None
        self._engine = engine
        self._placement = placement
        self._check_writable = check_writable
        self._reserve = reserve
        placement.begin_group(manifest.group + 1)

    def commit(self, rows: Sequence[RowMutations]) -> None:
        """Make placed values durable, then write rows; the caller holds the lock.

        Raises:
            StorageError: nothing was applied.
            CommitUnknown: it may be applied; the same write again is safe.
        """
        if rows:
            self._check_writable()
        self.commits += 1
        if self.watched is not None:
            self.watched.update(_segments_of(rows))
        self._placement.settle(self.durability)
        manifest_rows = self.manifest.mutations(*self._placement.progress())
        try:
            self._engine.mutate_rows([*rows, *self._placement.mutations(), *manifest_rows], self.durability)
        except BaseException:
            self.manifest.aborted()
            self._placement.abandon()
            raise
        self.manifest.committed()
        self._placement.begin_group(self.manifest.group + 1)
        self.manifest.split_grown(self.durability)

    def give_back(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        """Do what gives space back; where the disk is full, with the room that the store keeps for that."""
        return work() if self._reserve is None else self._reserve.spend(work, in_parts=in_parts)

    def forget_bases(self) -> None:
        """Shared bodies were freed by the last commit; the caller holds the lock still."""
        self._placement.forget_bases()


def _segments_of(rows: Sequence[RowMutations]) -> Iterator[int]:
    for row in rows:
        if row.table in ENVELOPE_TABLES:
            for mutation in row.mutations:
                if isinstance(mutation, SetCell) and (segment := segment_of(mutation.value)) is not None:
                    yield segment
