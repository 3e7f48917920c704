"""Counts of a store, as absolute values in a row a writer session: written again, a row counts nothing twice.

Knows rows; must not know what is counted.  A session's row is written with each of its plans, in the last stage.  What
the store holds is the sum over all rows.  Maintenance folds rows of sessions that have ended into one row, which names
them: a row that is named and still there counts once.  Where one process writes, it has the one session b"".

Where many processes write, nobody knows which sessions have ended.  There the one row says beside the sum how much it
took of each session: of a row that comes again, what is more than that counts.
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
"""Of the one row: counts by name that it took of each session which may go on, by the key of the session's row."""
_END = COUNTS_ROW[:-1] + bytes((COUNTS_ROW[-1] + 1,))
_LOOKS = 10


class Counts:
    """Counts by name of one writer session; `follow` must be told of each commit."""

    def __init__(self, engine: Engine, session: bytes = b"") -> None:
        self._engine = engine
        self._row_key = COUNTS_ROW + session
        self._committed: Counter[str] | None = None
        """None: to be read, for others may have been written than are known here."""

    def rows(self, counts: Mapping[str, int]) -> list[RowMutations]:
        """What to write with a plan that counts these; nothing where it counts nothing."""
        if not any(counts.values()):
            return []
        if self._committed is None:
            held = self._engine.read_row(TABLE, self._row_key)
            self._committed = _totals(held) if held else self._taken()
        return [RowMutations(TABLE, self._row_key, [_cell(TOTALS, dict(self._committed + Counter(counts)))])]

    def _taken(self) -> Counter[str]:
        """What the one row took of this session."""
        return Counter(_taken(self._engine.read_row(TABLE, COUNTS_FOLDED_ROW)).get(self._row_key, {}))

    def follow(self, plan: Plan, known: bool) -> None:
        """A commit has ended; see `Committer.followers`."""
        for row in plan.changed(Stage.COUNTS):
            if row.row_key == self._row_key:
                cells = [one for one in row.mutations if isinstance(one, SetCell)]
                self._committed = _totals(cells) if known and cells else None


def totals(engine: Engine) -> dict[str, int]:
    """The counts of all sessions together."""
    for _ in range(_LOOKS):
        rows = dict(_rows(engine))
        folded = rows.pop(COUNTS_FOLDED_ROW, [])
        if engine.read_row(TABLE, COUNTS_FOLDED_ROW) == folded:  # else rows were folded while they were read
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
    total = _totals(folded)  # may hold less than nothing, see `corrected`
    for key in ended - known:
        total.update(_totals(rows[key]))
    cells = [_cell(TOTALS, dict(total)), _cell(SESSIONS, sorted(ended))]
    plan = Plan().write(Stage.COUNTS, [RowMutations(TABLE, COUNTS_FOLDED_ROW, cells)])
    return plan.remove(Stage.COUNTS, (RowMutations(TABLE, key, [DeleteRow()]) for key in sorted(ended)))


def corrected(engine: Engine, before: Mapping[str, int], now: Mapping[str, int]) -> RowMutations:
    """The one row as it makes `now` of totals that were `before`; for one process, which writes nothing in between."""
    total = _totals(engine.read_row(TABLE, COUNTS_FOLDED_ROW))
    total.update(now)
    total.subtract(before)
    return RowMutations(TABLE, COUNTS_FOLDED_ROW, [_cell(TOTALS, {name: one for name, one in total.items() if one})])


class SharedFold(NamedTuple):
    """How rows of sessions that may go on are folded.

    Attributes:
        expected: what TAKEN of the one row has to hold still; None for no cell.
        cells: to put there; none where there is nothing to fold.
        rows: by key, rows that may go after that, each as long as its TOTALS holds this.
    """

    expected: bytes | None
    cells: list[SetCell]
    rows: dict[bytes, bytes]


def fold_shared(engine: Engine) -> SharedFold:
    """How the rows of all sessions are folded into one, whoever writes meanwhile; stopped anywhere, nothing counts
    twice."""
    rows = dict(_rows(engine))
    folded = rows.pop(COUNTS_FOLDED_ROW, [])
    expected = next((cell.value for cell in folded if cell.qualifier == TAKEN), None)
    taken = _taken(folded)
    now = {key: dict(_totals(cells)) for key, cells in rows.items()}
    gone = {key: cell.value for key, cells in rows.items() for cell in cells if cell.qualifier == TOTALS}
    if all(taken.get(key) == counts for key, counts in now.items()):
        return SharedFold(expected, [], gone)
    cells = [_cell(TOTALS, dict(_sum(rows, folded))), _cell(TAKEN, taken | now)]
    return SharedFold(expected, cells, gone)


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
