"""Counts of a store: one row for each writer session, with absolute values, so that a repeated write counts once.

A session's row is written with each of its plans, in the last stage.  The totals of the store are the sum of all rows.
Maintenance folds the rows of ended sessions into one row that names them: a named row that still exists is not counted
again.  If one process writes, its session is b"".

If many processes write, it is not known which sessions have ended.  So the folded row also has the counts that it took
of each session; of a session's row only the surplus over these counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgpack

from docstore.model.format import COUNTS_FOLDED_ROW, COUNTS_ROW
from docstore.model.types import Cell, DeleteRow, RowMutations, SetCell
from docstore.storage.engine import Engine
from docstore.storage.plan import Plan, Stage

TABLE = "meta"
FAMILY = "m"
TOTALS = b"totals"
SESSIONS = b"sessions"
TAKEN = b"taken"
"""In the folded row: counts by name that it took of each session, by the key of the session's row."""
_END = COUNTS_ROW[:-1] + bytes((COUNTS_ROW[-1] + 1,))
_ATTEMPTS = 10


class Counts:
    """Counts by name of one writer session; `follow` must be called after each commit."""

    def __init__(self, engine: Engine, session: bytes = b"") -> None:
        self._engine = engine
        self._row_key = COUNTS_ROW + session
        self._committed: Counter[str] | None = None
        """None if it must be read: at first, and after a commit with unknown outcome."""

    def rows(self, counts: Mapping[str, int]) -> list[RowMutations]:
        """The row to write with a plan that adds these counts; empty if they are all 0."""
        if not any(counts.values()):
            return []
        if self._committed is None:
            cells = self._engine.read_row(TABLE, self._row_key)
            folded = [] if cells else self._engine.read_row(TABLE, COUNTS_FOLDED_ROW)
            self._committed = _totals(cells) if cells else Counter(_taken(folded).get(self._row_key, {}))
        return [RowMutations(TABLE, self._row_key, [_cell(TOTALS, dict(self._committed + Counter(counts)))])]

    def follow(self, plan: Plan, known: bool) -> None:
        """Update the cached counts after a commit; see `Committer.followers`."""
        for row in plan.changed(Stage.COUNTS):
            if row.row_key == self._row_key:
                cells = [cell for cell in row.mutations if isinstance(cell, SetCell)]
                self._committed = _totals(cells) if known and cells else None


def totals(engine: Engine) -> dict[str, int]:
    """The sum of the counts of all sessions."""
    for _ in range(_ATTEMPTS):
        rows = dict(_rows(engine))
        folded = rows.pop(COUNTS_FOLDED_ROW, [])
        if engine.read_row(TABLE, COUNTS_FOLDED_ROW) == folded:  # else rows were folded during the scan
            break
    return dict(_sum(rows, folded))


def _sum(rows: Mapping[bytes, list[Cell]], folded: list[Cell]) -> Counter[str]:
    sessions, taken = _sessions(folded), _taken(folded)
    total = _totals(folded)
    for key, cells in rows.items():
        if key not in sessions:
            total.update(_totals(cells))
            total.subtract(taken.get(key, {}))
    return +total


def fold(engine: Engine, live: Collection[bytes] = (b"",)) -> Plan:
    """The plan that folds the rows of ended sessions into one; after a crash at any point nothing counts twice.

    Args:
        engine: has the rows.
        live: names of sessions that may still write.
    """
    rows = dict(_rows(engine))
    folded = rows.pop(COUNTS_FOLDED_ROW, [])
    already_folded = _sessions(folded) & rows.keys()
    ended = rows.keys() - {COUNTS_ROW + session for session in live}
    if not ended:
        return Plan()
    total = _totals(folded)  # may be negative, see `corrected`
    for key in ended - already_folded:
        total.update(_totals(rows[key]))
    cells = [_cell(TOTALS, dict(total)), _cell(SESSIONS, sorted(ended))]
    plan = Plan().write(Stage.COUNTS, [RowMutations(TABLE, COUNTS_FOLDED_ROW, cells)])
    return plan.remove(Stage.COUNTS, (RowMutations(TABLE, key, [DeleteRow()]) for key in sorted(ended)))


def corrected(engine: Engine, before: Mapping[str, int], now: Mapping[str, int]) -> RowMutations:
    """The folded row that corrects the totals from `before` to `now`.

    REQUIRES: one process writes, and it writes nothing in between.
    """
    total = _totals(engine.read_row(TABLE, COUNTS_FOLDED_ROW))
    total.update(now)
    total.subtract(before)
    nonzero = {name: count for name, count in total.items() if count}
    return RowMutations(TABLE, COUNTS_FOLDED_ROW, [_cell(TOTALS, nonzero)])


class SharedFold(NamedTuple):
    """How to fold rows of sessions that may still write, by compare and set.

    Attributes:
        expected: the value of TAKEN in the folded row on which this is based; None for no cell.
        cells: to write there; empty if there is nothing to fold.
        rows: rows to delete after that, by key, each only if its TOTALS still has this value.
    """

    expected: bytes | None
    cells: list[SetCell]
    rows: dict[bytes, bytes]


def fold_shared(engine: Engine) -> SharedFold:
    """How to fold the rows of all sessions into one while others write; after a crash nothing counts twice."""
    rows = dict(_rows(engine))
    folded = rows.pop(COUNTS_FOLDED_ROW, [])
    expected = next((cell.value for cell in folded if cell.qualifier == TAKEN), None)
    taken = _taken(folded)
    now = {key: dict(_totals(cells)) for key, cells in rows.items()}
    deletable = {key: cell.value for key, cells in rows.items() for cell in cells if cell.qualifier == TOTALS}
    if all(taken.get(key) == counts for key, counts in now.items()):
        return SharedFold(expected, [], deletable)
    cells = [_cell(TOTALS, dict(_sum(rows, folded))), _cell(TAKEN, taken | now)]
    return SharedFold(expected, cells, deletable)


def _rows(engine: Engine) -> Iterator[tuple[bytes, list[Cell]]]:
    for row in engine.scan(TABLE, COUNTS_ROW, _END):
        yield row.row_key, row.cells


def _totals(cells: Sequence[Cell | SetCell]) -> Counter[str]:
    return Counter(next((msgpack.unpackb(cell.value) for cell in cells if cell.qualifier == TOTALS), {}))


def _sessions(cells: list[Cell]) -> set[bytes]:
    return set(next((msgpack.unpackb(cell.value) for cell in cells if cell.qualifier == SESSIONS), ()))


def _taken(cells: list[Cell]) -> dict[bytes, dict[str, int]]:
    return next((msgpack.unpackb(cell.value) for cell in cells if cell.qualifier == TAKEN), {})


def _cell(qualifier: bytes, value: object) -> SetCell:
    return SetCell(FAMILY, qualifier, 0, bytes(msgpack.packb(value)))
