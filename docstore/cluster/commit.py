"""The commit point of one writer among many: what goes before pages, then pages one by one, each if its place is free.

Knows plans and the programs of `cluster.protocol`; must not know verdicts.  A page that is new first claims its body;
then it fills its slot, by one conditional mutation that writes the page with it: capture record, body and text, all or
none.  A page for which another process was faster is `lost`: whoever made the plan judges it anew, and sees the other's
page.  The claims of a plan go together, then its slots, in turns: a page comes after those that its verdict names.

The slot is a column of its own and not the record: a condition of HBase is on the newest version of a column, while a
page may come at any time of its row; and the slot stays, with a fence, when the record is deleted.

A claim whose page is not there yet is waited for, LEASE_SECONDS at most; then its slot is fenced, and the claim taken
over.  Time is for efficiency: the fence is what keeps the other's page out.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from docstore.cluster.client import HBaseCell
from docstore.cluster.coding import encode_cell
from docstore.cluster.engine import HBaseEngine, new_generation
from docstore.cluster.protocol import SLOT, Claimed, Read, Running, claim, claim_name, fill, slot_name
from docstore.cluster.values import CellValues
from docstore.model.errors import CommitUnknown, StorageError, StoreUnavailable
from docstore.model.pointers import PagePointer
from docstore.model.types import Durability, SetCell
from docstore.storage.plan import Plan, Slot, Stage

Result = TypeVar("Result")

LEASE_SECONDS: Final = 10.0
FIRST_PAUSE_SECONDS: Final = 0.01
LONGEST_PAUSE_SECONDS: Final = 0.5


class SlotCommitter:
    """See `Committer`.

    Args:
        engine: of the store.
        placement: where values lie.
        durability: what an acknowledged write survives.
        session: names this writer among all that ever wrote.
        check_writable: refuses writes of a store that is open for reading.
    """

    fills_slots = True

    def __init__(
        self,
        engine: HBaseEngine,
        placement: CellValues,
        durability: Durability,
        session: bytes,
        check_writable: Callable[[], None],
    ) -> None:
        self.lock = threading.RLock()
        self.commits = 0
        self.followers: set[Callable[[Plan, bool], None]] = set()
        self.durability = durability
        self.lost: Collection[PagePointer] = ()
        self._engine = engine
        self._placement = placement
        self._check_writable = check_writable
        self._requests = engine.requests(durability)
        self._tokens: Iterator[str] = (f"{session.hex()}.{number}" for number in itertools.count())
        self._expected: dict[PagePointer, str] = {}
        """What slots were found to hold, of pages that lost them."""
        self._overruled: dict[bytes, str] = {}
        """Claims of pages that were found to be there; whoever is judged to be new after that overrules them."""
        self._pending_since: dict[bytes, float] = {}
        """Claims whose page has not come yet, and when that was first seen."""
        self._pause = FIRST_PAUSE_SECONDS

    def commit(self, plan: Plan) -> None:
        """See `Committer`: what is lost stands in `lost`."""
        self.lost = ()
        if not plan:
            return
        self._check_writable()
        self.commits += 1
        known = False
        try:
            self._write(plan)
            known = True
        finally:
            self._placement.drop_placed()
            for follower in self.followers:
                follower(plan, known)

    def _write(self, plan: Plan) -> None:
        plan.write(Stage.ALLOCATION, self._placement.mutations())
        turns = list(plan.slots())
        tokens = {slot.pointer: next(self._tokens) for turn in turns for slot in turn}
        lost = self._prepare(plan, [slot for turn in turns for slot in turn if slot.claim], tokens)
        try:
            self.lost = lost = self._fill_turns(turns, tokens, lost)
        except (StorageError, StoreUnavailable) as error:
            raise CommitUnknown("some pages of a group were written; the same write again completes it") from error
        if turns and not lost:
            self._expected.clear()
            self._overruled.clear()
            self._pending_since.clear()
        for rows in plan.from_pages():
            try:
                self._engine.mutate_rows([self._placement.with_values(row) for row in rows], self.durability)
            except StorageError as error:
                raise CommitUnknown("a part of a commit was written; the same write again completes it") from error

    def _prepare(self, plan: Plan, new: Sequence[Slot], tokens: Mapping[PagePointer, str]) -> set[PagePointer]:
        """Write what goes before pages, and claim the bodies of those that are new; -> pages that are lost.

        Nobody acts on any of that before its page is there, so it needs no order, and goes at the same time.
        """
        rows = [row for stage in plan.before_pages() for row in stage]
        lost: set[PagePointer] = set()

        def write_rows() -> None:
            self._engine.mutate_rows(rows, self.durability)

        def make_claims() -> None:
            lost.update(self._claim([(slot, tokens[slot.pointer]) for slot in new]))

        steps = [step for step, is_wanted in ((write_rows, rows), (make_claims, new)) if is_wanted]
        self._engine.in_parallel(lambda step: step(), steps)
        return lost

    def _fill_turns(
        self, turns: Sequence[Sequence[Slot]], tokens: Mapping[PagePointer, str], lost: set[PagePointer]
    ) -> set[PagePointer]:
        """Fill slots turn by turn; -> pages that are lost, with those that were."""
        for turn in turns:
            lost.update(slot.pointer for slot in turn if slot.needs & lost)
            lost.update(self._fill([(slot, tokens[slot.pointer]) for slot in turn if slot.pointer not in lost]))
        return lost

    def _fill(self, slots: Sequence[tuple[Slot, str]]) -> list[PagePointer]:
        """Fill slots with tokens; -> those for which another process was faster."""
        lost = []
        held = self._requests.run_all(
            [self._filling(slot, token) for slot, token in slots],
            [self._cells(slot) for slot, _ in slots],
        )
        for (slot, _), one in zip(slots, held, strict=True):
            if one is not None:
                # A fence is replaced at once.  A page is replaced only if whoever reads the row again finds it gone.
                self._expected[slot.pointer] = one
                lost.append(slot.pointer)
        return lost

    def _cells(self, slot: Slot) -> list[HBaseCell]:
        """What is written with a slot's token: the capture record, and the cells that it refers to."""
        row = self._placement.with_values(slot.row)
        cells = [encode_cell(row.table, *cell) for cell in row.mutations if isinstance(cell, SetCell)]
        return [*cells, new_generation()]

    def _filling(self, slot: Slot, token: str) -> Running[str | None]:
        name = slot_name(slot.pointer)
        expected = self._expected.pop(slot.pointer, None)
        if expected is None and slot.rewrites:
            reply = yield Read(name)
            assert isinstance(reply, Mapping)
            expected = reply.get(SLOT)
        return (yield from fill(name, token, expected, ()))

    def _claim(self, slots: Sequence[tuple[Slot, str]]) -> list[PagePointer]:
        """Claim bodies for pages, with their tokens; -> those that another page has, or may come to have."""
        outcomes = self._requests.run_all([self._claiming(slot, token) for slot, token in slots], [()] * len(slots))
        lost = []
        for (slot, _), (verdict, held, fence) in zip(slots, outcomes, strict=True):
            if verdict != "new":
                lost.append(slot.pointer)
            if verdict == "pending":
                self._pending_since.setdefault(slot.claim, time.monotonic())
                continue
            self._pending_since.pop(slot.claim, None)
            if verdict == "exact":
                self._overruled[slot.claim] = held
            elif verdict == "lost":
                self._expected[slot.pointer] = held
            else:
                self._overruled.pop(slot.claim, None)
                if fence:
                    self._expected[slot.pointer] = fence
        return lost

    def _claiming(self, slot: Slot, token: str) -> Running[Claimed]:
        name = slot_name(slot.pointer)
        expected = self._expected.get(slot.pointer)
        if expected is None and slot.rewrites:
            reply = yield Read(name)
            assert isinstance(reply, Mapping)
            expected = reply.get(SLOT)
            if expected is not None:
                self._expected[slot.pointer] = expected
        since = self._pending_since.get(slot.claim)
        patient = since is None or time.monotonic() - since < LEASE_SECONDS
        over = self._overruled.get(slot.claim, "")
        program = claim(
            claim_name(slot.claim), name, token, self._tokens, over=over, patient=patient, expected=expected
        )
        return (yield from program)

    def drop_placed(self) -> None:
        self._placement.drop_placed()

    def wait(self) -> None:
        if self._pending_since:
            time.sleep(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        else:
            self._pause = FIRST_PAUSE_SECONDS

    def count_writes(self, writes: Iterable[tuple[bytes, int]]) -> None:
        """See `Committer`: HBase splits regions by itself."""

    def free_space(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        """See `Committer`: the room is the cluster's."""
        return work()
