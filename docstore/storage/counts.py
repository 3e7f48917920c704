"""Counts of a store, as absolute values in a row a writer session: written again, a row counts nothing twice.

Knows rows; must not know what is counted.  A session's row is written with each of its plans, in the last stage.  What
the store holds is the sum over all rows.  Maintenance folds rows of sessions that have ended into one row, which names
them: a row that is named and still there counts once.  Where one process writes, it has the one session b"".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import msgpack

from docstore.model.format import COUNTS_FOLDED_ROW, COUNTS_ROW
from docstore.model.types import Cell, DeleteRow, RowMutations, SetCell
from docstore.storage.engine import Engine
from docstore.storage.plan import Plan, Stage

TABLE = "meta"
FAMILY = "m"
TOTALS = b"totals"
SESSIONS = b"sessions"
_END = COUNTS_ROW + b"\xff"


class Counts:
    """Counts by name of one writer session."""

    def __init__(self, engine: Engine, session: bytes = b"") -> None:
        self._engine = engine
        self._row_key = COUNTS_ROW + session
        self._committed: Counter[str] | None = None
        """None: to be read, for others may have been written than are known here."""
        self._pending: Counter[str] = Counter()

    def add(self, counts: Mapping[str, int]) -> None:
        """Count in the plan being made."""
        self._pending.update(counts)

    def rows(self) -> list[RowMutations]:
        """What to write with the plan; nothing where it counts nothing."""
        if not self._pending:
            return []
        if self._committed is None:
            self._committed = _totals(self._engine.read_row(TABLE, self._row_key))
        return [RowMutations(TABLE, self._row_key, [_cell(TOTALS, dict(self._committed + self._pending))])]

    def committed(self) -> None:
        """The plan is committed."""
        if self._committed is not None:
            self._committed += self._pending
        self._pending.clear()

    def rollback(self) -> None:
        """The plan has failed, or there is none; of one that failed the row may be there all the same."""
        if self._pending:
            self._committed = None
        self._pending.clear()


def totals(engine: Engine) -> dict[str, int]:
    """The counts of all sessions together."""
    rows = dict(_rows(engine))
    folded = rows.pop(COUNTS_FOLDED_ROW, [])
    sessions = _sessions(folded)
    return dict(sum((_totals(cells) for key, cells in rows.items() if key not in sessions), _totals(folded)))


def fold(engine: Engine, live: Collection[bytes] = (b"",)) -> Plan:
    """The plan that folds the rows of sessions that have ended into one; stopped anywhere, nothing counts twice.

    Args:
        engine: where the rows are.
        live: names of sessions that may still write.
    """
    rows = dict(_rows(engine))
    folded = rows.pop(COUNTS_FOLDED_ROW, [])
    known = _sessions(folded) & rows.keys()
    ended = rows.keys() - {COUNTS_ROW + session for session in live}
    if not ended:
        return Plan()
    total = sum((_totals(rows[key]) for key in ended - known), _totals(folded))
    cells = [_cell(TOTALS, dict(total)), _cell(SESSIONS, sorted(ended))]
    plan = Plan().write(Stage.COUNTS, [RowMutations(TABLE, COUNTS_FOLDED_ROW, cells)])
    return plan.remove(Stage.COUNTS, (RowMutations(TABLE, key, [DeleteRow()]) for key in sorted(ended)))


def _rows(engine: Engine) -> Iterator[tuple[bytes, list[Cell]]]:
    for row in engine.scan(TABLE, COUNTS_ROW, _END):
        yield row.row_key, row.cells


def _totals(cells: list[Cell]) -> Counter[str]:
    return Counter(next((msgpack.unpackb(cell.value) for cell in cells if cell.qualifier == TOTALS), {}))


def _sessions(cells: list[Cell]) -> set[bytes]:
    return set(next((msgpack.unpackb(cell.value) for cell in cells if cell.qualifier == SESSIONS), ()))


def _cell(qualifier: bytes, value: object) -> SetCell:
    return SetCell(FAMILY, qualifier, 0, bytes(msgpack.packb(value)))
