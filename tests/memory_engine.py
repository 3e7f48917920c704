"""The engine in memory: the plainest thing that keeps the protocol.

Knows `model`, `errors` and the argument checks.  Must not know any byte layout: it is the second opinion on
what the LevelDB adapter answers.  One lock around everything; rows and cells are sorted when they are read.
"""

from __future__ import annotations

import bisect
import threading
from collections.abc import Iterable, Iterator, Sequence

from docstore.model.choices import Durability
from docstore.model.errors import StoreUnavailable
from docstore.model.format import BARE_TABLES, TABLE_TAGS
from docstore.model.types import Cell, DeleteCells, DeleteFamily, Mutation, ReadSpec, RowMutations, SetCell
from docstore.storage.engine import (
    EVERYTHING,
    Caps,
    ScannedRow,
    check_bare,
    check_mutations,
    check_not_bare,
    check_spec,
    check_table,
)

_LARGEST_CELL_BYTES = 1 << 20
_SCAN_SLICE_ROWS = 256

_Place = tuple[str, bytes, int]
"""Family, qualifier, minus timestamp: sorts as cells are given."""


class _Row:
    """Cells of one row; `places` is their order, or None when it must be made again."""

    __slots__ = ("cells", "places")

    def __init__(self) -> None:
        self.cells: dict[_Place, bytes] = {}
        self.places: list[_Place] | None = []

    def put(self, place: _Place, value: bytes) -> None:
        if place not in self.cells and self.places is not None:
            if not self.places or self.places[-1] < place:
                self.places.append(place)
            else:
                self.places = None
        self.cells[place] = value

    def ordered(self) -> list[_Place]:
        if self.places is None:
            self.places = sorted(self.cells)
        return self.places

    def between(self, low: _Place, high: _Place) -> list[_Place]:
        places = self.ordered()
        return places[bisect.bisect_left(places, low) : bisect.bisect_left(places, high)]

    def remove(self, places: list[_Place]) -> None:
        for place in places:
            del self.cells[place]
        if places:
            self.places = None


class _Table:
    """Rows of one table, with their sorted keys."""

    def __init__(self) -> None:
        self.rows: dict[bytes, _Row] = {}
        self._keys: list[bytes] | None = []

    def row(self, row_key: bytes) -> _Row:
        row = self.rows.get(row_key)
        if row is None:
            row = self.rows[row_key] = _Row()
            self._keys = None
        return row

    def drop(self, row_key: bytes) -> None:
        if self.rows.pop(row_key, None) is not None:
            self._keys = None

    def keys(self) -> list[bytes]:
        if self._keys is None:
            self._keys = sorted(self.rows)
        return self._keys


def _select(row: _Row, spec: ReadSpec) -> tuple[list[Cell], bool]:
    """Cells of a row that a spec asks for, and whether its limit cut some off."""
    places = row.ordered()
    first = 0
    if spec.after is not None:
        # From the head of the column, because versions are counted from there.
        first = bisect.bisect_left(places, (spec.after.family, spec.after.qualifier, -(1 << 64)))
    out: list[Cell] = []
    column: tuple[str, bytes] | None = None
    seen = 0
    for index in range(first, len(places)):
        family, qualifier, minus_timestamp = place = places[index]
        timestamp = -minus_timestamp
        if spec.families is not None and family not in spec.families:
            continue
        if not qualifier.startswith(spec.qualifier_prefix):
            continue
        if timestamp < spec.since or (spec.until is not None and timestamp >= spec.until):
            continue
        if column != (family, qualifier):
            column, seen = (family, qualifier), 0
        if spec.versions is not None and seen == spec.versions:
            continue
        seen += 1
        if spec.after is not None and place <= (spec.after.family, spec.after.qualifier, -spec.after.timestamp):
            continue
        if spec.cell_limit is not None and len(out) == spec.cell_limit:
            return out, True
        out.append(Cell(family, qualifier, timestamp, b"" if spec.keys_only else row.cells[place]))
    return out, False


class MemoryEngine:
    """Cells in this process's memory, gone with it."""

    caps = Caps(single_writer=True, largest_cell_bytes=_LARGEST_CELL_BYTES)

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._tables = {name: _Table() for name in TABLE_TAGS}
        self._closed = False

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the engine is closed; open the store again")

    def read_row(self, table: str, row_key: bytes, spec: ReadSpec = EVERYTHING) -> list[Cell]:
        """See `Engine.read_row`."""
        check_table(table)
        check_spec(spec, scanning=False)
        with self._lock:
            self._check_open()
            row = self._tables[table].rows.get(row_key)
            return _select(row, spec)[0] if row is not None else []

    def newest(self, table: str, row_key: bytes, family: str, qualifier: bytes) -> Cell | None:
        """See `Engine.newest`."""
        check_not_bare(table)
        cells = self.read_row(table, row_key, ReadSpec(families=(family,), qualifier_prefix=qualifier))
        return next((cell for cell in cells if cell.qualifier == qualifier), None)

    def qualifiers(self, table: str, row_key: bytes, limit: int) -> list[bytes]:
        """See `Engine.qualifiers`."""
        check_bare(table)
        with self._lock:
            self._check_open()
            row = self._tables[table].rows.get(row_key)
            return [place[1] for place in row.ordered()[:limit]] if row is not None else []

    def qualifiers_of_rows(self, table: str, row_keys: Sequence[bytes], limit: int) -> list[list[bytes]]:
        """See `Engine.qualifiers_of_rows`."""
        return [self.qualifiers(table, row_key, limit) for row_key in row_keys]

    def value_at(self, table: str, row_key: bytes, family: str, qualifier: bytes, timestamp: int) -> bytes | None:
        """See `Engine.value_at`."""
        check_not_bare(table)
        cells = self.read_row(table, row_key, ReadSpec((family,), qualifier, timestamp, timestamp + 1))
        return next((cell.value for cell in cells if cell.qualifier == qualifier), None)

    def absent_rows(self, table: str, row_keys: Iterable[bytes]) -> set[bytes]:
        """See `Engine.absent_rows`."""
        check_table(table)
        with self._lock:
            self._check_open()
            return set(row_keys) - self._tables[table].rows.keys()

    def scan(
        self, table: str, start: bytes = b"", end: bytes | None = None, spec: ReadSpec = EVERYTHING
    ) -> Iterator[ScannedRow]:
        """See `Engine.scan`."""
        check_table(table)
        check_spec(spec, scanning=True)
        self._check_open()
        return self._scan(table, start, end, spec)

    def _scan(self, table: str, start: bytes, end: bytes | None, spec: ReadSpec) -> Iterator[ScannedRow]:
        while True:
            with self._lock:
                self._check_open()
                keys = self._tables[table].keys()
                first = bisect.bisect_left(keys, start)
                row_keys = keys[first : first + _SCAN_SLICE_ROWS]
                rows = self._tables[table].rows
                found = [(row_key, *_select(rows[row_key], spec)) for row_key in row_keys]
            for row_key, cells, truncated in found:
                if end is not None and row_key >= end:
                    return
                if cells:
                    yield ScannedRow(row_key, cells, truncated)
            if not row_keys:
                return
            start = row_keys[-1] + b"\x00"

    def mutate_rows(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        """See `Engine.mutate_rows`; memory knows one durability."""
        for table, _row_key, mutations in rows:
            check_mutations(table, mutations, _LARGEST_CELL_BYTES)
        with self._lock:
            self._check_open()
            for table, row_key, mutations in rows:
                self._apply(table, row_key, mutations)

    def _apply(self, table: str, row_key: bytes, mutations: Sequence[Mutation]) -> None:
        held = self._tables[table]
        for mutation in mutations:
            if isinstance(mutation, SetCell):
                held.row(row_key).put((mutation.family, mutation.qualifier, -mutation.timestamp), mutation.value)
                continue
            row = held.rows.get(row_key)
            if row is None:
                continue
            if isinstance(mutation, DeleteCells):
                column = row.between(
                    (mutation.family, mutation.qualifier, -(1 << 64)), (mutation.family, mutation.qualifier, 1)
                )
                row.remove(
                    [
                        place
                        for place in column
                        if (mutation.since is None or -place[2] >= mutation.since)
                        and (mutation.until is None or -place[2] < mutation.until)
                    ]
                )
            elif isinstance(mutation, DeleteFamily):
                row.remove(row.between((mutation.family, b"", -(1 << 64)), (mutation.family + "\x00", b"", -(1 << 64))))
            else:
                held.drop(row_key)
        if row_key in held.rows and not held.rows[row_key].cells:
            held.drop(row_key)

    def compact_deleted(self) -> None:
        """See `Engine.compact_deleted`: nothing is left of a delete here."""

    def approximate_bytes(self, table: str, start: bytes = b"", end: bytes | None = None) -> int:
        """See `Engine.approximate_bytes`; keys and values, without Python's own cost."""
        check_table(table)
        with self._lock:
            self._check_open()
            bare = table in BARE_TABLES
            return sum(
                len(row_key) + len(qualifier) + len(value) + (0 if bare else len(family) + 8)
                for row_key, row in self._tables[table].rows.items()
                if start <= row_key and (end is None or row_key < end)
                for (family, qualifier, _), value in row.cells.items()
            )

    def compact(self, table: str, start: bytes = b"", end: bytes | None = None) -> None:
        """See `Engine.compact`; nothing to do."""
        check_table(table)
        self._check_open()

    def close(self) -> None:
        """See `Engine.close`."""
        with self._lock:
            self._closed = True
