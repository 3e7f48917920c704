"""The one commit point: segment synced, then one `mutate_rows`.

Floor 5: knows the engine, where values lie and the manifest; must not know what the rows mean.  Everything that writes
to a store goes through here, under one lock, so that the committed tail of the segments in the manifest is always that
of the rows beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from docstore.engines.protocol import Engine
from docstore.model import Durability, RowMutations
from docstore.tablets.manifest import Manifest
from docstore.tablets.placement import Placement


class Committer:
    """Commits rows together with the values placed for them.

    Attributes:
        lock: held by whoever places values, until they are committed.
        manifest: tablets and segments; its changes are written with each commit.
        durability: what an acknowledged write survives.
    """

    def __init__(self, engine: Engine, placement: Placement, manifest: Manifest, durability: Durability) -> None:
        self.lock = threading.RLock()
        self.manifest = manifest
        self.durability = durability
        self._engine = engine
        self._placement = placement

    def commit(self, rows: Sequence[RowMutations]) -> None:
        """Make placed values durable, then write rows; the caller holds the lock.

        Raises:
            StorageError: nothing was applied.
            CommitUnknown: it may be applied; the same write again is safe.
        """
        self._placement.settle(self.durability)
        manifest_rows = self.manifest.mutations(*self._placement.progress())
        try:
            self._engine.mutate_rows([*rows, *self._placement.mutations(), *manifest_rows], self.durability)
        except BaseException:
            self.manifest.aborted()
            self._placement.abandon()
            raise
        self.manifest.committed()
        self.manifest.split_grown(self.durability)
