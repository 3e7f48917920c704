"""The commit point of a writer on HBase, next to other writers: claims of bodies, then one conditional write per page.

A new page first claims its body.  Then it fills its slot with one conditional mutation that also writes the page:
capture record, body and text, all or none.  If another process was faster, the page is in `lost`: the writer judges it
again, and then sees the other page.  All claims of a plan are made together, then its slots are filled in rounds: a
page comes after the pages that its verdict names.

The slot is a column of its own, not the record, for two reasons: a condition of HBase applies to the newest version of
a column, while a page may have any timestamp; and the slot stays, with a fence, when the record is deleted.

If another process has the claim and its page is missing, the writer waits at most LEASE_SECONDS.  Then it fences that
page's slot and takes the claim over.  The time only saves work; the fence is what makes the other write fail.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final, TypeVar

import msgpack

from docstore.cluster.client import HBaseCell
from docstore.cluster.coding import encode_cell
from docstore.cluster.engine import HBaseEngine, new_generation
from docstore.cluster.protocol import SLOT, Running, claim, claim_name, fill, slot_name
from docstore.cluster.values import CellValues
from docstore.model.errors import CommitUnknown, StorageError, StoreUnavailable
from docstore.model.format import COUNTS_FOLDED_ROW, COUNTS_ROW
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, Durability, RowMutations, SetCell
from docstore.storage.engine import Engine
from docstore.storage.plan import Plan, Slot, Stage

Result = TypeVar("Result")

LEASE_SECONDS: Final = 10.0
FIRST_PAUSE_SECONDS: Final = 0.01
LONGEST_PAUSE_SECONDS: Final = 0.5


class SlotCommitter:
    """See `Committer`.

    Args:
        engine: of the store.
        values: encodes values and keeps their pending cells.
        durability: what an acknowledged write survives.
        session: name of this writer, unique in the store.
        check_writable: refuses writes if the store is open for reading.
    """

    fills_slots = True

    def __init__(
        self,
        engine: HBaseEngine,
        values: CellValues,
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
        self._values = values
        self._check_writable = check_writable
        self._counts = Counts(engine, session)
        self._requests = engine.requests(durability)
        self._tokens: Iterator[str] = (f"{session.hex()}.{number}" for number in itertools.count())
        self._expected: dict[PagePointer, str] = {}
        """By page that lost: the content of its slot, which the next attempt expects."""
        self._overruled: dict[bytes, str] = {}
        """Claims of existing pages; a page that is judged new again, with that page known, replaces the claim."""
        self._pending_since: dict[bytes, float] = {}
        """Claims without a page, and when this was first seen."""
        self._pause = FIRST_PAUSE_SECONDS

    def commit(self, plan: Plan) -> None:
        """See `Committer`: pages that another process wrote first are in `lost`."""
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
            self._values.drop_placed()
            if plan.counts:
                self._counts.follow(known)
            for follower in self.followers:
                follower(plan, known)

    def _write(self, plan: Plan) -> None:
        plan.write(Stage.ALLOCATION, self._values.mutations())
        if plan.counts:
            plan.write(Stage.COUNTS, self._counts.rows(plan.counts))
        rounds = list(plan.slots())
        tokens = {slot.pointer: next(self._tokens) for slots in rounds for slot in slots}
        lost = self._prepare(plan, [slot for slots in rounds for slot in slots if slot.claim], tokens)
        try:
            for slots in rounds:
                lost.update(slot.pointer for slot in slots if slot.needs & lost)
                lost.update(self._fill([(slot, tokens[slot.pointer]) for slot in slots if slot.pointer not in lost]))
        except (StorageError, StoreUnavailable) as error:
            raise CommitUnknown("some pages of a group were written; the same write again completes it") from error
        self.lost = lost
        if rounds and not lost:
            self._expected.clear()
            self._overruled.clear()
            self._pending_since.clear()
        for rows in plan.stages(Stage.PAGES):
            try:
                self._engine.mutate_rows([self._values.with_values(row) for row in rows], self.durability)
            except StorageError as error:
                raise CommitUnknown("a part of a commit was written; the same write again completes it") from error

    def _prepare(self, plan: Plan, new: Sequence[Slot], tokens: Mapping[PagePointer, str]) -> set[PagePointer]:
        """Write the rows that precede pages, and claim the bodies of new pages, in parallel; -> lost pages.

        No order is needed, because nothing uses these rows and claims before their page exists.
        """
        rows = [row for stage in plan.stages(end=Stage.PAGES) for row in stage]
        lost: set[PagePointer] = set()

        def write_rows() -> None:
            self._engine.mutate_rows(rows, self.durability)

        def make_claims() -> None:
            lost.update(self._claim([(slot, tokens[slot.pointer]) for slot in new]))

        steps = [step for step, is_wanted in ((write_rows, rows), (make_claims, new)) if is_wanted]
        self._engine.in_parallel(lambda step: step(), steps)
        return lost

    def _fill(self, slots: Sequence[tuple[Slot, str]]) -> list[PagePointer]:
        """Fill slots with tokens; -> pages for which another process was faster."""
        lost = []
        contents = self._requests.run_all(
            [self._filling(slot, token) for slot, token in slots],
            [self._cells(slot) for slot, _ in slots],
        )
        for (slot, _), content in zip(slots, contents, strict=True):
            if content is not None:
                # The next attempt replaces this: a fence at once, a page only if the row then says that it is gone.
                self._expected[slot.pointer] = content
                lost.append(slot.pointer)
        return lost

    def _cells(self, slot: Slot) -> list[HBaseCell]:
        """The cells written with a slot's token: the capture record, and the cells that it refers to."""
        row = self._values.with_values(slot.row)
        cells = [encode_cell(row.table, *cell) for cell in row.mutations if isinstance(cell, SetCell)]
        return [*cells, new_generation()]

    def _filling(self, slot: Slot, token: str) -> Running[str | None]:
        name = slot_name(slot.pointer)
        expected = self._expected.pop(slot.pointer, None)
        if expected is None and slot.rewrites:
            reply = yield name
            assert isinstance(reply, Mapping)
            expected = reply.get(SLOT)
        return (yield from fill(name, token, expected, ()))

    def _claim(self, slots: Sequence[tuple[Slot, str]]) -> list[PagePointer]:
        """Claim bodies for pages, with their tokens; -> pages whose body another page has or is about to get."""
        outcomes = self._requests.run_all([self._claiming(slot, token) for slot, token in slots], [()] * len(slots))
        lost = []
        for (slot, _), (verdict, content, fence) in zip(slots, outcomes, strict=True):
            if verdict != "new":
                lost.append(slot.pointer)
            if verdict == "pending":
                self._pending_since.setdefault(slot.claim, time.monotonic())
                continue
            self._pending_since.pop(slot.claim, None)
            if verdict == "exact":
                self._overruled[slot.claim] = content
            elif verdict == "lost":
                self._expected[slot.pointer] = content
            else:
                self._overruled.pop(slot.claim, None)
                if fence:
                    self._expected[slot.pointer] = fence
        return lost

    def _claiming(self, slot: Slot, token: str) -> Running[tuple[str, str, str]]:
        name = slot_name(slot.pointer)
        expected = self._expected.get(slot.pointer)
        if expected is None and slot.rewrites:
            reply = yield name
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
        self._values.drop_placed()

    def wait(self) -> None:
        if self._pending_since:
            time.sleep(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        else:
            self._pause = FIRST_PAUSE_SECONDS

    def free_space(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        """See `Committer`: the cluster's disks need no reserve."""
        return work()


# --- counts: one row for each writer session, with absolute values: a repeated write counts once
#
# A session's row is written with each of its plans, in the last stage.  The totals of the store are the sum of all
# rows.  Maintenance folds all rows into one.  It is not known which sessions have ended, so the folded row also has the
# counts that it took of each session; of a session's row only the surplus over these counts.

COUNTS_TABLE: Final = "meta"
COUNTS_FAMILY: Final = "m"
TOTALS: Final = b"totals"
TAKEN: Final = b"taken"
"""In the folded row: counts by name that it took of each session, by the key of the session's row."""
_END = COUNTS_ROW[:-1] + bytes((COUNTS_ROW[-1] + 1,))
_ATTEMPTS = 10


class Counts:
    """Counts by name of one writer session; `follow` must be called after each commit."""

    def __init__(self, engine: Engine, session: bytes) -> None:
        self._engine = engine
        self._row_key = COUNTS_ROW + session
        self._committed: Counter[str] | None = None
        """None if it must be read: at first, and after a commit with unknown outcome."""
        self._written: Counter[str] = Counter()

    def rows(self, counts: Mapping[str, int]) -> list[RowMutations]:
        """The row to write with a plan that adds these counts."""
        if self._committed is None:
            cells = self._engine.read_row(COUNTS_TABLE, self._row_key)
            folded = [] if cells else self._engine.read_row(COUNTS_TABLE, COUNTS_FOLDED_ROW)
            self._committed = _totals(cells) if cells else Counter(_taken(folded).get(self._row_key, {}))
        self._written = Counter(self._committed)
        self._written.update(counts)  # the sum of counters would leave out what is below zero, as deletes are
        return [RowMutations(COUNTS_TABLE, self._row_key, [_cell(TOTALS, dict(self._written))])]

    def follow(self, known: bool) -> None:
        """Update the cached counts after a commit with `rows`; not known: a part of it may be applied."""
        self._committed = self._written if known else None


def totals(engine: Engine) -> dict[str, int]:
    """The sum of the counts of all sessions."""
    for _ in range(_ATTEMPTS):
        rows = dict(_rows(engine))
        folded = rows.pop(COUNTS_FOLDED_ROW, [])
        if engine.read_row(COUNTS_TABLE, COUNTS_FOLDED_ROW) == folded:  # else rows were folded during the scan
            break
    return dict(_sum(rows, folded))


def _sum(rows: Mapping[bytes, list[Cell]], folded: list[Cell]) -> Counter[str]:
    total, taken = _totals(folded), _taken(folded)
    for key, cells in rows.items():
        total.update(_totals(cells))
        total.subtract(taken.get(key, {}))
    return +total


def fold_shared(engine: Engine) -> tuple[bytes | None, list[SetCell], dict[bytes, bytes]]:
    """How to fold the rows of all sessions into one while others write; after a crash nothing counts twice.

    Returns:
        The value of TAKEN in the folded row on which this is based, None for no cell; the cells to write there if it
        still has it, empty if there is nothing to fold; and by key the rows to delete after that, each only if its
        TOTALS still has this value.
    """
    rows = dict(_rows(engine))
    folded = rows.pop(COUNTS_FOLDED_ROW, [])
    expected = next((cell.value for cell in folded if cell.qualifier == TAKEN), None)
    taken = _taken(folded)
    now = {key: dict(_totals(cells)) for key, cells in rows.items()}
    deletable = {key: cell.value for key, cells in rows.items() for cell in cells if cell.qualifier == TOTALS}
    if all(taken.get(key) == counts for key, counts in now.items()):
        return expected, [], deletable
    cells = [_cell(TOTALS, dict(_sum(rows, folded))), _cell(TAKEN, taken | now)]
    return expected, cells, deletable


def _rows(engine: Engine) -> Iterator[tuple[bytes, list[Cell]]]:
    for row in engine.scan(COUNTS_TABLE, COUNTS_ROW, _END):
        yield row.row_key, row.cells


def _totals(cells: Sequence[Cell | SetCell]) -> Counter[str]:
    return Counter(next((msgpack.unpackb(cell.value) for cell in cells if cell.qualifier == TOTALS), {}))


def _taken(cells: list[Cell]) -> dict[bytes, dict[str, int]]:
    return next((msgpack.unpackb(cell.value) for cell in cells if cell.qualifier == TAKEN), {})


def _cell(qualifier: bytes, value: object) -> SetCell:
    return SetCell(COUNTS_FAMILY, qualifier, 0, bytes(msgpack.packb(value)))
