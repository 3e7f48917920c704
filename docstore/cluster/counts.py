"""Counts of a store on HBase: one row for each writer session, with absolute values: a repeated write counts once.

A session's row is written with each of its plans, in the last stage.  The totals of the store are the sum of all rows.
Maintenance folds all rows into one.  It is not known which sessions have ended, so the folded row also has the counts
that it took of each session; of a session's row only the surplus over these counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import msgpack

from docstore.model.format import COUNTS_FOLDED_ROW, COUNTS_ROW
from docstore.model.types import Cell, RowMutations, SetCell
from docstore.storage.engine import Engine

TABLE = "meta"
FAMILY = "m"
TOTALS = b"totals"
TAKEN = b"taken"
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
            cells = self._engine.read_row(TABLE, self._row_key)
            folded = [] if cells else self._engine.read_row(TABLE, COUNTS_FOLDED_ROW)
            self._committed = _totals(cells) if cells else Counter(_taken(folded).get(self._row_key, {}))
        self._written = self._committed + Counter(counts)
        return [RowMutations(TABLE, self._row_key, [_cell(TOTALS, dict(self._written))])]

    def follow(self, known: bool) -> None:
        """Update the cached counts after a commit with `rows`; not known: a part of it may be applied."""
        self._committed = self._written if known else None


def totals(engine: Engine) -> dict[str, int]:
    """The sum of the counts of all sessions."""
    for _ in range(_ATTEMPTS):
        rows = dict(_rows(engine))
        folded = rows.pop(COUNTS_FOLDED_ROW, [])
        if engine.read_row(TABLE, COUNTS_FOLDED_ROW) == folded:  # else rows were folded during the scan
            break
    return dict(_sum(rows, folded))


def _sum(rows: Mapping[bytes, list[Cell]], folded: list[Cell]) -> Counter[str]:
    total, taken = _totals(folded), _taken(folded)
    for key, cells in rows.items():
        total.update(_totals(cells))
        total.subtract(taken.get(key, {}))
    return +total


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


def _taken(cells: list[Cell]) -> dict[bytes, dict[str, int]]:
    return next((msgpack.unpackb(cell.value) for cell in cells if cell.qualifier == TAKEN), {})


def _cell(qualifier: bytes, value: object) -> SetCell:
    return SetCell(FAMILY, qualifier, 0, bytes(msgpack.packb(value)))
