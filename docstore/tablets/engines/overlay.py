"""An engine over another: reads see both, writes go to the upper one.  What a dry run stands on.

Knows `protocol` and `model`.  Must not know any adapter.  The lower engine is never changed, so deletes, which
would have to hide cells of it, are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import merge
from itertools import groupby, islice

from docstore.model.errors import InvalidArgument
from docstore.model.types import Cell, Condition, Durability, Mutation, ReadSpec, RowMutations, SetCell
from docstore.storage.engine import EVERYTHING, Engine, ScannedRow


class OverlayEngine:
    """Reads `upper` over `lower`; writes to `upper` alone.  Closing it closes `upper`."""

    def __init__(self, lower: Engine, upper: Engine) -> None:
        self._lower = lower
        self._upper = upper
        # Whoever writes the lower one is none of ours, so what was read through here may not be remembered.
        self.caps = upper.caps._replace(single_writer=False)

    def read_row(self, table: str, row_key: bytes, spec: ReadSpec = EVERYTHING) -> list[Cell]:
        """See `Engine`."""
        upper = self._upper.read_row(table, row_key, spec)
        lower = self._lower.read_row(table, row_key, spec)
        return _merged(upper, lower, spec)

    def newest(self, table: str, row_key: bytes, family: str, qualifier: bytes) -> Cell | None:
        """See `Engine`."""
        upper = self._upper.newest(table, row_key, family, qualifier)
        lower = self._lower.newest(table, row_key, family, qualifier)
        if upper is None or lower is None:
            return upper or lower
        return upper if upper.timestamp >= lower.timestamp else lower

    def qualifiers(self, table: str, row_key: bytes, limit: int) -> list[bytes]:
        """See `Engine`."""
        upper = self._upper.qualifiers(table, row_key, limit)
        lower = self._lower.qualifiers(table, row_key, limit)
        return sorted({*upper, *lower})[:limit] if upper else lower

    def qualifiers_of_rows(self, table: str, row_keys: Sequence[bytes], limit: int) -> list[list[bytes]]:
        """See `Engine`."""
        uppers = self._upper.qualifiers_of_rows(table, row_keys, limit)
        lowers = self._lower.qualifiers_of_rows(table, row_keys, limit)
        return [
            sorted({*upper, *lower})[:limit] if upper else lower for upper, lower in zip(uppers, lowers, strict=True)
        ]

    def absent_rows(self, table: str, row_keys: Iterable[bytes]) -> set[bytes]:
        """See `Engine`."""
        return self._lower.absent_rows(table, self._upper.absent_rows(table, row_keys))

    def scan(
        self, table: str, start: bytes = b"", end: bytes | None = None, spec: ReadSpec = EVERYTHING
    ) -> Iterator[ScannedRow]:
        """See `Engine`."""
        upper = ((row.row_key, 0, row) for row in self._upper.scan(table, start, end, spec))
        lower = ((row.row_key, 1, row) for row in self._lower.scan(table, start, end, spec))
        for row_key, rows in groupby(merge(upper, lower, key=lambda item: item[:2]), key=lambda item: item[0]):
            sides: dict[int, ScannedRow] = {side: row for _, side, row in rows}
            if len(sides) == 1:
                yield next(iter(sides.values()))
                continue
            cells = _merged(sides[0].cells, sides[1].cells, spec)
            truncated = sides[0].truncated or sides[1].truncated
            truncated |= len(cells) < len({cell[:3] for side in sides.values() for cell in side.cells})
            yield ScannedRow(row_key, cells, truncated)

    def mutate_rows(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        """See `Engine`; deletes are refused."""
        for row in rows:
            _refuse_deletes(row.mutations)
        self._upper.mutate_rows(rows, durability)

    def check_and_mutate(
        self,
        table: str,
        row_key: bytes,
        condition: Condition,
        then: Sequence[Mutation],
        otherwise: Sequence[Mutation] = (),
        durability: Durability = Durability.SYNC,
    ) -> bool:
        """See `Engine`; one thread at a time, which a dry run has."""
        spec = ReadSpec(families=(condition.family,), qualifier_prefix=condition.qualifier)
        found = (cell.value for cell in self.read_row(table, row_key, spec) if cell.qualifier == condition.qualifier)
        held = next(found, None) == condition.value
        self.mutate_rows([RowMutations(table, row_key, then if held else otherwise)], durability)
        return held

    def compact_deleted(self) -> None:
        """See `Engine`: nothing is deleted."""

    def approximate_bytes(self, table: str, start: bytes = b"", end: bytes | None = None) -> int:
        """See `Engine`."""
        return self._lower.approximate_bytes(table, start, end) + self._upper.approximate_bytes(table, start, end)

    def compact(self, table: str, start: bytes = b"", end: bytes | None = None) -> None:
        """See `Engine`; the upper engine alone."""
        self._upper.compact(table, start, end)

    def close(self) -> None:
        """See `Engine`; the upper engine alone."""
        self._upper.close()


def _order(cell: Cell) -> tuple[str, bytes, int]:
    return cell.family, cell.qualifier, -cell.timestamp


def _merged(upper: list[Cell], lower: list[Cell], spec: ReadSpec) -> list[Cell]:
    if not upper:
        return lower
    if not lower:
        return upper
    places = {_order(cell): cell for cell in (*lower, *upper)}  # the upper one wins
    cells = (places[place] for place in sorted(places))
    if spec.versions is not None:
        columns = groupby(cells, key=lambda cell: cell[:2])
        cells = (cell for _, column in columns for cell in islice(column, spec.versions))
    return list(islice(cells, spec.cell_limit))


def _refuse_deletes(mutations: Sequence[Mutation]) -> None:
    if not all(isinstance(mutation, SetCell) for mutation in mutations):
        raise InvalidArgument("a dry run cannot delete; run it for real")
