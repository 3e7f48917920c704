"""The one commit point: values made durable, then the rows of a plan.

Knows the engine, where values lie and the manifest; must not know what the rows mean.  Everything that writes to a
store goes through here, under one lock, so that the committed tail of the segments in the manifest is always that of
the rows beside it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from docstore.model.pointers import PagePointer
from docstore.model.types import Durability
from docstore.storage.engine import Engine
from docstore.storage.plan import Plan, Stage, apply
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
        commits: how many were tried.
        followers: see `Committer` of the port.
        lost: no page ever is: this process is the one that writes.
        watch: told of every plan before it is written, while compaction looks for segments that no row refers to.
    """

    fills_slots = False

    def __init__(
        self,
        engine: Engine,
        placement: Placement,
        manifest: Manifest,
        durability: Durability,
        check_writable: Callable[[], None],
        reserve: Reserve,
    ) -> None:
        self.lock = threading.RLock()
        self.manifest = manifest
        self.durability = durability
        self.compacting = threading.Lock()
        self.commits = 0
        self.followers: set[Callable[[Plan, bool], None]] = set()
        self.lost: Collection[PagePointer] = ()
        self.watch: Callable[[Plan], None] | None = None
        self._engine = engine
        self._placement = placement
        self._check_writable = check_writable
        self._reserve = reserve
        placement.records.begin_group(manifest.group + 1)

    def commit(self, plan: Plan) -> None:
        """Make placed values durable, then write a plan; the caller holds the lock.

        Raises:
            StorageError: nothing was applied.
            CommitUnknown: it may be applied; the same write again is safe.
        """
        if plan:
            self._check_writable()
            self._reserve.check_room()
        self.commits += 1
        if self.watch is not None:
            self.watch(plan)
        try:
            self._placement.settle(self.durability)
        except BaseException:
            self._placement.records.drop()
            raise
        plan.write(Stage.ALLOCATION, self._placement.dictionaries.mutations())
        self.manifest.add_to(plan, self._placement.records.progress())
        known = False
        try:
            apply(self._engine, plan, self.durability)
            known = True
            self.manifest.committed()
        except BaseException:
            self.manifest.aborted()
            self._placement.records.abandon()
            raise
        finally:
            for follower in self.followers:
                follower(plan, known)
        self._placement.records.begin_group(self.manifest.group + 1)
        self.manifest.split_grown(self.durability)

    def drop_placed(self) -> None:
        """See `Committer` of the port: else they would be written with the next group, where the disk was full."""
        self._placement.records.drop()

    def wait(self) -> None:
        """See `Committer` of the port: there is nobody to wait for."""

    def note_writes(self, writes: Iterable[tuple[bytes, int]]) -> None:
        """Count bodies of the plan being made: the row of each, and its length in bytes."""
        self.manifest.note_writes(writes)

    def give_back(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        """Do what frees space; if the disk is full, with the room that the store keeps for that."""
        return self._reserve.spend(work, in_parts=in_parts)
