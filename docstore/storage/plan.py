"""What one commit writes: rows in ordered stages, so that a stop behind any row misleads nobody.

Knows rows of cells and the engine protocol; must not know what a row means, nor where values lie.  What a plan's rows
refer to is durable before its first stage.

A stage begins when the one before it is applied; rows of one stage go in any order.  First what is written, from the
numbers that are given out to the counts; then what is removed, the other way round.  So a stop leaves what is harmless:
values that no row names, bases without deltas, postings that lead to no page.  It never leaves a page whose record,
base or postings are missing.  An engine that applies a batch as a whole gets all stages in one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum, IntEnum
from typing import NamedTuple

from docstore.model.errors import CommitUnknown, StorageError
from docstore.model.pointers import PagePointer
from docstore.model.types import Durability, RowMutations
from docstore.storage.engine import Engine


class Stage(IntEnum):
    """The stages of a plan, in the order in which they are written."""

    NUMBERS = 0
    """Numbers that are given out from now on: before anything bears one."""
    ALLOCATION = 1
    """How far values are written, tablets, dictionaries in use, notes of maintenance."""
    BASES = 2
    """Where bases lie."""
    POSTINGS = 3
    """What leads to pages: postings, names, the log of the index."""
    ANCHORS = 4
    """What pages say of others, in the rows of those."""
    PAGES = 5
    """Pages and visits: what is acknowledged."""
    COUNTS = 6


class Cut(Enum):
    """Why judging ended a plan before its group was full: the next verdict needs what the plan holds."""

    ROW_AGAIN = "a row that it writes is written again"
    ORIGINAL = "a page may be rejected or referred to a page of the plan, which must be committed first"
    POLICY = "only the commit tells whether a policy hides a page of the plan that a verdict asks for"
    ANCHORS = "it has as many anchors as may wait in memory"


class Slot(NamedTuple):
    """A page of a plan where several processes write: it is written if its place is free (see `cluster.protocol`).

    Attributes:
        pointer: its row and time.
        row: what is written there.
        claim: names its body among those that one page alone may be new with; b"" where it is not new.
        rewrites: takes the place of what its own row has at this time.
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
        cut: why it was ended early; None where its group was full, or it is no group of pages.
    """

    __slots__ = ("_removed", "_slots", "_written", "cut")

    def __init__(self, cut: Cut | None = None) -> None:
        self.cut = cut
        self._written: dict[tuple[Stage, int], list[RowMutations]] = {}
        self._removed: dict[Stage, list[RowMutations]] = {}
        self._slots: dict[int, list[Slot]] = {}

    def write(self, stage: Stage, rows: Iterable[RowMutations], *, turn: int = 0) -> Plan:
        """Add rows to a stage; -> the plan itself.

        Args:
            stage: in which they are written.
            rows: each with all its mutations of this stage; it is changed as a whole.
            turn: within the stage; a page whose verdict asked for a page of the same plan has a later turn than that.
        """
        self._written.setdefault((stage, turn), []).extend(rows)
        return self

    def remove(self, stage: Stage, rows: Iterable[RowMutations]) -> Plan:
        """Add rows from which something of a stage is removed, when all is written; -> the plan itself."""
        self._removed.setdefault(stage, []).extend(rows)
        return self

    def fill(self, slot: Slot, *, turn: int = 0) -> None:
        """Add a page to stage PAGES, before the rows there; for backends that several processes write."""
        self._slots.setdefault(turn, []).append(slot)

    def slots(self) -> Iterator[list[Slot]]:
        """Pages to be filled in, turn by turn."""
        for turn in sorted(self._slots):
            yield self._slots[turn]

    def stages(self) -> Iterator[list[RowMutations]]:
        """The rows of each stage that has some, in order; within PAGES of each turn."""
        yield from self.before_pages()
        yield from self.from_pages()

    def before_pages(self) -> Iterator[list[RowMutations]]:
        """The stages before PAGES."""
        for key in sorted(self._written):
            if self._written[key] and key[0] < Stage.PAGES:
                yield self._written[key]

    def from_pages(self) -> Iterator[list[RowMutations]]:
        """PAGES and the stages behind it, then what is removed."""
        for key in sorted(self._written):
            if self._written[key] and key[0] >= Stage.PAGES:
                yield self._written[key]
        for stage in sorted(self._removed, reverse=True):
            if self._removed[stage]:
                yield self._removed[stage]

    def rows(self) -> list[RowMutations]:
        """All rows, stage by stage."""
        found: list[RowMutations] = []
        for key in sorted(self._written):
            found += self._written[key]
        for stage in sorted(self._removed, reverse=True):
            found += self._removed[stage]
        return found

    def written(self, stage: Stage) -> list[RowMutations]:
        """The rows that are written in the first turn of a stage."""
        return self._written.get((stage, 0), [])

    def changed(self, stage: Stage) -> Iterator[RowMutations]:
        """All rows that a stage writes, fills, or removes something of."""
        for (its, _), rows in self._written.items():
            if its is stage:
                yield from rows
        if stage is Stage.PAGES:
            yield from (slot.row for slots in self._slots.values() for slot in slots)
        yield from self._removed.get(stage, ())

    def __bool__(self) -> bool:
        return any(self._written.values()) or any(self._removed.values()) or any(self._slots.values())


def apply(engine: Engine, plan: Plan, durability: Durability) -> None:
    """Write a plan: in one batch where the engine applies that as a whole, else a stage at a time.

    Raises:
        StorageError: nothing was applied.
        CommitUnknown: some of it may be; the same plan again is safe.
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
