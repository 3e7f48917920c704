"""The engine: a small, synchronous, thread-safe protocol of operations on rows of cells.

- No iterator, snapshot or exception of an engine's library leaves the engine.
- A mutation of one row is atomic; mutations of several rows need not be, so a commit is an ordered `Plan`.
- A read resumes after a `Position`, a scan after a row key; a scan is no snapshot across rows.
- A delete removes the cells that exist when it is applied, in every table.
- Tables in `format.BARE_TABLES` have only qualifiers: one family, timestamp 0, empty value; else InvalidArgument.

One contract suite, `tests/contract/`, runs on every engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from docstore.compiled import docstore_native
from docstore.model.choices import Durability
from docstore.model.errors import InvalidArgument
from docstore.model.format import BARE_TABLES, FAMILY_END, TABLE_TAGS, TIMESTAMP_MAX
from docstore.model.types import (
    Cell,
    DeleteCells,
    DeleteFamily,
    DeleteRow,
    Mutation,
    Position,
    ReadSpec,
    RowMutations,
    SetCell,
)
from docstore.storage.files import Files

EVERYTHING = ReadSpec()
PackedRows = docstore_native.PackedRows
"""Rows that set cells, in one piece of memory: what a group of pages writes."""


class Caps(NamedTuple):
    """What an engine can do.

    Attributes:
        single_writer: only one process writes, so stored data may be cached.
        largest_cell_bytes: longer values are refused with InvalidArgument.
        reads_wait: each read is a call to another machine, so many threads should read at a time.
    """

    single_writer: bool
    largest_cell_bytes: int
    reads_wait: bool = False


class ScannedRow(NamedTuple):
    """One row of a scan: cells sorted by family, qualifier, newest first; `truncated` if the cell limit was reached."""

    row_key: bytes
    cells: list[Cell]
    truncated: bool


class Engine(Protocol):
    """Cells by (table, row key, family, qualifier, timestamp)."""

    caps: Caps

    def read_row(self, table: str, row_key: bytes, spec: ReadSpec = EVERYTHING) -> list[Cell]:
        """Cells of one row, sorted by family, qualifier, newest first; empty if there is no such row."""
        ...

    def newest(self, table: str, row_key: bytes, family: str, qualifier: bytes) -> Cell | None:
        """The newest version of one column, or None; at half the cost of `read_row`.

        Raises:
            InvalidArgument: the table is bare.
        """
        ...

    def value_at(self, table: str, row_key: bytes, family: str, qualifier: bytes, timestamp: int) -> bytes | None:
        """The value of one cell, or None; as cheap as `newest`.

        Raises:
            InvalidArgument: the table is bare.
        """
        ...

    def qualifiers(self, table: str, row_key: bytes, limit: int) -> list[bytes]:
        """The first `limit` qualifiers of a row of a bare table, in order: the cheapest read.

        Raises:
            InvalidArgument: the table is not bare (see `format.BARE_TABLES`).
        """
        ...

    def qualifiers_of_rows(self, table: str, row_keys: Sequence[bytes], limit: int) -> list[list[bytes]]:
        """`qualifiers` of many rows; cheaper than single calls."""
        ...

    def absent_rows(self, table: str, row_keys: Iterable[bytes]) -> set[bytes]:
        """The rows that do not exist; cheaper than reading them if most are absent."""
        ...

    def scan(
        self, table: str, start: bytes = b"", end: bytes | None = None, spec: ReadSpec = EVERYTHING
    ) -> Iterator[ScannedRow]:
        """Rows with ``start <= row key < end`` that have a cell of the spec, in row-key order.

        `spec.cell_limit` is per row; `spec.after` is refused.  The iterator may be dropped at any time.
        """
        ...

    def mutate_rows(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        """Apply mutations, each row atomically, in any order; on return they are durable at that level.

        Raises:
            StorageError: not applied.
            CommitUnknown: maybe applied; the same call again is safe.
        """
        ...

    def compact_deleted(self) -> None:
        """Compact ranges with so many deleted cells that they slow reads; called after deletes, without a lock."""
        ...

    def approximate_bytes(self, table: str, start: bytes = b"", end: bytes | None = None) -> int:
        """Bytes on disk of a row-key range, roughly."""
        ...

    def compact(self, table: str, start: bytes = b"", end: bytes | None = None) -> None:
        """Free the space of overwritten and deleted cells in a range."""
        ...

    def close(self) -> None:
        """Flush and release; a second call does nothing."""
        ...


class Plan:
    """The rows of one commit, in their order.

    The values that they refer to are durable before the first row is written.  A backend with atomic batches writes all
    rows in one batch, so that nobody sees a state between two of them; a backend without writes them row by row.  So
    the rows are ordered in such a way that a stop after any of them leaves only garbage: values without a row, bases
    without deltas, postings that lead to no page; never a page whose record, base or postings are missing.  Before a
    page come the bases of its values, its postings, its anchors, and the pages of the plan that its verdict names.
    What is removed goes the other way: first the page, then its postings.

    Attributes:
        rows: each is applied atomically.  A row may come several times.
        bodies: row key and length in bytes of each body that is written.
        counts: what the commit adds to the totals of the store, by name.
        packed: further rows, after the others: those of a group of pages.
    """

    __slots__ = ("bodies", "counts", "packed", "rows")

    def __init__(
        self,
        rows: Iterable[RowMutations] = (),
        bodies: Iterable[tuple[bytes, int]] = (),
        counts: Mapping[str, int] | None = None,
        packed: PackedRows | None = None,
    ) -> None:
        """Begin with what is known; more may be added."""
        self.rows, self.bodies = list(rows), list(bodies)
        self.counts: Mapping[str, int] = {} if counts is None else counts
        self.packed = packed

    @property
    def all_rows(self) -> Sequence[RowMutations]:
        """All rows, in their order."""
        return self.rows if self.packed is None else joined_rows(self.rows, self.packed)


def rows_of_table(rows: Sequence[RowMutations], table: str) -> Sequence[RowMutations]:
    """Those of some rows that are of a table."""
    if isinstance(rows, PackedRows):
        return rows.of_table(table)
    return [row for row in rows if row.table == table]


def joined_rows(first: Sequence[RowMutations], rows: Sequence[RowMutations]) -> Sequence[RowMutations]:
    """Rows behind others, in one piece of memory if they are in one already."""
    joined = PackedRows.of(first) if isinstance(rows, PackedRows) else None
    if joined is None:
        return [*first, *rows]
    joined += rows
    return joined


def all_cells(engine: Engine, table: str, row: ScannedRow) -> Iterator[Cell]:
    """All cells of a scanned row; cells beyond the scan's limit are read in slices of that size."""
    cells, limit = row.cells, len(row.cells)
    yield from cells
    more = row.truncated
    while more:
        family, qualifier, timestamp, _ = cells[-1]
        spec = ReadSpec(cell_limit=limit, after=Position(family, qualifier, timestamp))
        cells = engine.read_row(table, row.row_key, spec)
        yield from cells
        more = len(cells) == limit


def delete_of(cell: Cell) -> DeleteCells:
    """The mutation that deletes one cell."""
    return DeleteCells(cell.family, cell.qualifier, cell.timestamp, cell.timestamp + 1)


# --- checks of arguments, the same for all engines


def check_table(table: str) -> None:
    """Refuse a table that does not exist."""
    if table not in TABLE_TAGS:
        raise InvalidArgument(f"there is no table {table!r}; tables are {', '.join(TABLE_TAGS)}")


def check_bare(table: str) -> None:
    """Refuse a table that does not exist or is not bare."""
    check_table(table)
    if table not in BARE_TABLES:
        raise InvalidArgument(f"table {table!r} is not bare; read its rows with read_row")


def check_not_bare(table: str) -> None:
    """Refuse a table that does not exist or is bare."""
    check_table(table)
    if table in BARE_TABLES:
        raise InvalidArgument(f"table {table!r} is bare: its cells have no versions; read its qualifiers")


def check_family(family: str) -> None:
    """Refuse a family name that cannot be part of a key."""
    if not family or FAMILY_END.decode() in family:
        raise InvalidArgument(f"family name {family!r} must have at least one character and no zero byte")


def check_spec(spec: ReadSpec, *, scanning: bool) -> None:
    """Refuse a read spec with empty bounds, or one that a scan does not support."""
    if spec.since < 0 or (spec.until is not None and spec.until < 0):
        raise InvalidArgument(f"time range [{spec.since}, {spec.until}) must not begin or end before 0")
    if spec.versions is not None and spec.versions < 1:
        raise InvalidArgument(f"versions must be at least 1, not {spec.versions}")
    if spec.cell_limit is not None and spec.cell_limit < 1:
        raise InvalidArgument(f"cell_limit must be at least 1, not {spec.cell_limit}")
    if scanning and spec.after is not None:
        raise InvalidArgument("a scan resumes with start = last row key + b'\\x00'; `after` is for read_row")


class RunStorage(NamedTuple):
    """Where an index keeps sorted runs: files in a folder, and the engine with the log of postings not yet in runs."""

    engine: Engine
    folder: Path
    files: Files


def check_mutations(table: str, mutations: Sequence[Mutation], largest_cell_bytes: int) -> None:
    """Refuse mutations that the table does not support; called before any of them is applied."""
    check_table(table)
    only_family = BARE_TABLES.get(table)
    for mutation in mutations:
        if isinstance(mutation, DeleteRow):
            continue
        if not isinstance(mutation, SetCell | DeleteCells | DeleteFamily):
            raise InvalidArgument(f"{mutation!r} is not a mutation")
        check_family(mutation.family)
        if only_family is not None and mutation.family != only_family:
            raise InvalidArgument(f"table {table!r} has the family {only_family!r} and no {mutation.family!r}")
        if isinstance(mutation, SetCell):
            _check_set_cell(table, mutation, only_family is not None, largest_cell_bytes)
        elif isinstance(mutation, DeleteCells) and (
            (mutation.since is not None and mutation.since < 0) or (mutation.until is not None and mutation.until < 0)
        ):
            raise InvalidArgument(f"time range [{mutation.since}, {mutation.until}) must not begin or end before 0")


def _check_set_cell(table: str, cell: SetCell, bare: bool, largest_cell_bytes: int) -> None:
    if not 0 <= cell.timestamp <= TIMESTAMP_MAX:
        raise InvalidArgument(f"timestamp {cell.timestamp} is not in [0, {TIMESTAMP_MAX}] microseconds")
    if len(cell.value) > largest_cell_bytes:
        raise InvalidArgument(
            f"a value of {len(cell.value)} bytes for {cell.family}:{cell.qualifier[:40]!r} is longer than the engine's "
            f"{largest_cell_bytes} bytes; store it as a value"
        )
    if bare and (cell.timestamp or cell.value):
        raise InvalidArgument(f"cells of the bare table {table!r} have timestamp 0 and no value; got {cell!r:.200}")
