"""The commit point of a writer on HBase, next to other writers: rows one after another, and groups of pages.

`commit` writes a plan row by row; neighbouring rows that need no order among themselves share a call.  `commit_group`
writes pages.  A new page first claims its body.  Then it fills its slot with one conditional mutation that also writes
the page: capture record, body and text, all or none.  If another process was faster, the page is lost: the writer
judges it again, and then sees the other page.  All claims of a group are made together, then its slots are filled in
rounds: a page comes after the pages that its verdict names.

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import msgpack

from docstore.cluster.client import HBaseCell
from docstore.cluster.coding import encode_cell
from docstore.cluster.engine import HBaseEngine, new_generation
from docstore.cluster.protocol import SLOT, Running, claim, claim_name, fill, slot_name
from docstore.cluster.rowindex import RowIndex
from docstore.cluster.values import CellValues
from docstore.dedup.index import NOTHING_NEW
from docstore.model.capture import PagePointer
from docstore.model.choices import Durability
from docstore.model.errors import CommitUnknown, StorageError, StoreUnavailable
from docstore.model.format import COUNTS_FOLDED_ROW, COUNTS_ROW
from docstore.model.types import Cell, RowMutations, SetCell
from docstore.storage.engine import Engine, Plan
from docstore.storage.port import Follower

Result = TypeVar("Result")

LEASE_SECONDS: Final = 10.0
FIRST_PAUSE_SECONDS: Final = 0.01
LONGEST_PAUSE_SECONDS: Final = 0.5


class Slot(NamedTuple):
    """A page of a group, written only if its slot is free (see `cluster.protocol`).

    Attributes:
        pointer: its row and time.
        row: the mutation.
        claim: names its body, which only one page may claim as new; b"" if the page is not new.
        rewrites: it replaces the record of its own row at this time.
        needs: pages of the group that its verdict names.
    """

    pointer: PagePointer
    row: RowMutations
    claim: bytes
    rewrites: bool
    needs: frozenset[PagePointer]


class SlotCommitter:
    """Commits pages to HBase: claims a slot for each row, then writes it under the claim.

    Args:
        engine: of the store.
        values: encodes values and keeps their pending cells.
        texts: has what the plan posts under keys of texts.
        durability: what an acknowledged write survives.
        session: name of this writer, unique in the store.
        check_writable: refuses writes if the store is open for reading.
    """

    many_writers = True

    def __init__(
        self,
        engine: HBaseEngine,
        values: CellValues,
        texts: RowIndex,
        durability: Durability,
        session: bytes,
        check_writable: Callable[[], None],
    ) -> None:
        self.lock = threading.RLock()
        self.commits = 0
        self.followers: set[Follower] = set()
        self.durability = durability
        self._engine = engine
        self._values = values
        self._texts = texts
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
        self.commit_group(plan, [])

    def commit_group(self, plan: Plan, slots: Sequence[Slot], visits: Sequence[RowMutations] = ()) -> set[PagePointer]:
        """Write pages, and the rows around them.

        Args:
            plan: rows that go before the pages, and what is added to the counts.  If there are pages, these rows need
                no order, because nothing uses them before their page exists.
            slots: the pages.
            visits: rows that go after them.
        Returns:
            The pages that were not written, because another process won them, their body or a page that they name.
        Raises:
            StorageError: nothing was applied.
            CommitUnknown: a part may be applied; the same write again is safe.
        """
        rows = [*plan.rows, *(slot.row for slot in slots), *visits]
        if not (rows or plan.counts or self._texts.has_logged):
            return set()
        self._check_writable()
        self.commits += 1
        known = False
        try:
            lost = self._write(plan, slots, visits)
            known = True
        finally:
            self.drop_values()
            if plan.counts:
                self._counts.follow(known)
            self._engine.drop_ahead((row.table, row.row_key) for row in rows)
            for follower in self.followers:
                follower(rows, known)
        return lost

    def _write(self, plan: Plan, slots: Sequence[Slot], visits: Sequence[RowMutations]) -> set[PagePointer]:
        lost: set[PagePointer] = set()
        before = [*self._values.mutations(), *plan.rows]
        after = list(visits)
        if plan.counts:
            after += self._counts.rows(plan.counts)
        if not slots:
            self._texts.write(self.durability)
            self._write_in_order([*before, *after])
            return lost
        tokens = {slot.pointer: next(self._tokens) for slot in slots}
        lost |= self._prepare(before, [slot for slot in slots if slot.claim], tokens)
        try:
            for together in _rounds(slots):
                lost.update(slot.pointer for slot in together if slot.needs & lost)
                waiting = [(slot, tokens[slot.pointer]) for slot in together if slot.pointer not in lost]
                lost.update(self._fill(waiting))
        except (StorageError, StoreUnavailable) as error:
            raise CommitUnknown("some pages of a group were written; the same write again completes it") from error
        if not lost:
            self._expected.clear()
            self._overruled.clear()
            self._pending_since.clear()
        self._write_in_order(after, is_begun=True)
        return lost

    def _write_in_order(self, rows: Sequence[RowMutations], *, is_begun: bool = False) -> None:
        """Write rows one after another; neighbours that need no order share a call.

        Args:
            rows: in the order of a plan.
            is_begun: a part of the commit is written already.
        """
        for together in _without_order(rows):
            try:
                self._engine.mutate_rows([self._values.with_values(row) for row in together], self.durability)
            except StorageError as error:
                if not is_begun:
                    raise
                raise CommitUnknown("a part of a commit was written; the same write again completes it") from error
            is_begun = True

    def _prepare(
        self, rows: Sequence[RowMutations], new: Sequence[Slot], tokens: Mapping[PagePointer, str]
    ) -> set[PagePointer]:
        """Write rows and texts that precede pages, and claim the bodies of new pages, in parallel; -> lost pages.

        No order is needed, because nothing uses these before their page exists.
        """
        lost: set[PagePointer] = set()

        def write_rows() -> None:
            self._engine.mutate_rows(rows, self.durability)

        def make_claims() -> None:
            lost.update(self._claim([(slot, tokens[slot.pointer]) for slot in new]))

        def write_texts() -> None:
            self._texts.write(self.durability)

        self._engine.in_parallel(lambda step: step(), [write_rows, write_texts, make_claims])
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

    def drop_values(self) -> None:
        self._values.drop_values()
        self._texts.log(NOTHING_NEW)

    def wait(self) -> None:
        """Wait a moment before lost pages are judged again."""
        if self._pending_since:
            time.sleep(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
        else:
            self._pause = FIRST_PAUSE_SECONDS

    def run_with_reserve(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        """Run work without a reserve: the cluster's disks need none."""
        return work()


def _rounds(slots: Sequence[Slot]) -> Iterator[list[Slot]]:
    """Slots that can be filled together: each after those that it needs."""
    rounds: dict[PagePointer, int] = {}
    for slot in slots:
        rounds[slot.pointer] = 1 + max((rounds.get(page, 0) for page in slot.needs), default=0)
    for number in sorted(set(rounds.values())):
        yield [slot for slot in slots if rounds[slot.pointer] == number]


def _without_order(rows: Sequence[RowMutations]) -> Iterator[list[RowMutations]]:
    """Neighbouring rows of one table that only put cells, or that only delete; of pages, only those that put."""

    def deletes(row: RowMutations) -> bool:
        return not all(isinstance(mutation, SetCell) for mutation in row.mutations)

    for (table, is_delete), together in itertools.groupby(rows, lambda row: (row.table, deletes(row))):
        if table == "pages" and is_delete:
            yield from ([row] for row in together)
        else:
            yield list(together)


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
