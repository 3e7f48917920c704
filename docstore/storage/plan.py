"""The plan of a commit: rows in ordered stages, so that a crash after any row leaves the store consistent.

The values that the rows refer to are durable before the first stage.  A stage begins after the one before it is
applied; rows of one stage have no order.  First all writes, from NUMBERS to COUNTS; then all removals, in reverse.  So
a crash leaves only garbage: values without a row, bases without deltas, postings that lead to no page.  It never leaves
a page whose record, base or postings are missing.  An engine with atomic batches gets all stages in one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, IntEnum
from typing import NamedTuple

from docstore.model.errors import CommitUnknown, StorageError
from docstore.model.pointers import PagePointer
from docstore.model.types import Durability, RowMutations
from docstore.storage.engine import Engine


class Stage(IntEnum):
    """The stages of a plan, in the order in which they are written."""

    NUMBERS = 0
    """The next free numbers: written before a number is used."""
    ALLOCATION = 1
    """Committed lengths of segments, tablets, dictionaries in use, records of maintenance."""
    BASES = 2
    """Cell values of bases."""
    POSTINGS = 3
    """Postings, names, the log of the index."""
    ANCHORS = 4
    """Anchors, in the rows of the pages linked to."""
    PAGES = 5
    """Pages and visits: what is acknowledged."""
    COUNTS = 6


class FlushReason(Enum):
    """Why a batch is committed before its group is complete: the next page needs it committed."""

    ROW_AGAIN = "a row of the batch is written again"
    ORIGINAL = "a page may be rejected, or stored by reference, against a page of the batch"
    POLICY = "only the commit tells whether a policy hides a page of the batch that a verdict needs"
    ANCHORS = "the batch has as many anchors as may be in memory"


class Slot(NamedTuple):
    """A page of a plan if several processes write: written only if its slot is free (see `cluster.protocol`).

    Attributes:
        pointer: its row and time.
        row: the mutation.
        claim: names its body, which only one page may claim as new; b"" if the page is not new.
        rewrites: it replaces the record of its own row at this time.
        needs: pages of the plan that its verdict names.
    """

    pointer: PagePointer
    row: RowMutations
    claim: bytes
    rewrites: bool
    needs: frozenset[PagePointer]


class Plan:
    """Rows of one commit by stage.

    Attributes:
        bodies: row key and length in bytes of each body that it writes.
        counts: what its commit adds to the totals of the store, by name.
        flush_reason: why its batch was committed early; None if the group was complete, or if it writes no batch.
    """

    __slots__ = ("_rows", "_slots", "bodies", "counts", "flush_reason")

    def __init__(self) -> None:
        self.bodies: list[tuple[bytes, int]] = []
        self.counts: Mapping[str, int] = {}
        self.flush_reason: FlushReason | None = None
        self._rows: dict[tuple[bool, int, int], list[RowMutations]] = {}
        """In the order of the commit: whether it removes, stage, order; of removals the stage is negative."""
        self._slots: dict[int, list[Slot]] = {}

    def write(self, stage: Stage, rows: Iterable[RowMutations], *, order: int = 0) -> Plan:
        """Add rows to a stage; returns the plan.

        Args:
            stage: that writes them.
            rows: each with all its mutations of this stage, applied atomically.
            order: commit order within the stage; a page comes after the pages of the plan that its verdict needs.
        """
        self._rows.setdefault((False, stage, order), []).extend(rows)
        return self

    def remove(self, stage: Stage, rows: Iterable[RowMutations]) -> Plan:
        """Add rows that remove something of a stage, after all writes; returns the plan."""
        self._rows.setdefault((True, -stage, 0), []).extend(rows)
        return self

    def fill(self, slot: Slot, *, order: int = 0) -> None:
        """Add a page to stage PAGES, before the rows there; for backends with several writing processes."""
        self._slots.setdefault(order, []).append(slot)

    def slots(self) -> Iterator[list[Slot]]:
        """The slots, grouped by commit order."""
        for order in sorted(self._slots):
            yield self._slots[order]

    def stages(self, start: Stage = Stage.NUMBERS, end: Stage | None = None) -> list[list[RowMutations]]:
        """The rows of each stage that has any, in order; PAGES is split by commit order.

        Args:
            start: the first stage.
            end: the first one that is left out; None for all that follow, and the removals after them.
        """
        parts = []
        for (removes, stage, _), rows in sorted(self._rows.items()):
            if rows and (end is None or (not removes and stage < end)) and (removes or start <= stage):
                parts.append(rows)
        return parts

    def rows(self) -> list[RowMutations]:
        """All rows, stage by stage."""
        return [row for rows in self.stages() for row in rows]

    def written(self, stage: Stage) -> list[RowMutations]:
        """The rows that a stage writes first."""
        return self._rows.get((False, stage, 0), [])

    def changed(self, stage: Stage) -> list[RowMutations]:
        """All rows that a stage writes, fills as slots, or removes something of."""
        parts = sorted(self._rows.items())
        changed = [row for (_, its_stage, _), rows in parts if abs(its_stage) == stage for row in rows]
        if stage is Stage.PAGES:
            changed += [slot.row for slots in self._slots.values() for slot in slots]
        return changed

    def __bool__(self) -> bool:
        return bool(self.counts or self._slots or any(self._rows.values()))


def apply(engine: Engine, plan: Plan, durability: Durability) -> None:
    """Write a plan: in one atomic batch if the engine has them, else stage by stage.

    Raises:
        StorageError: nothing was applied.
        CommitUnknown: a part may be applied; the same plan again is safe.
    """
    if engine.caps.atomic_batches:
        engine.mutate_rows(plan.rows(), durability)
        return
    for number, rows in enumerate(plan.stages()):
        try:
            engine.mutate_rows(rows, durability)
        except StorageError as error:
            if number == 0:
                raise
            raise CommitUnknown("a part of a commit was written; the same write again completes it") from error
