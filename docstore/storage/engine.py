"""The engine seam: a small, synchronous, thread-safe protocol of row-scoped operations on cells.

Knows `model`, `errors` and `format` (the names of the tables).  Must not know what a page, a verdict or a
segment is.  No iterator, snapshot or exception of an engine crosses it.  A row is changed atomically or not at all;
nothing is atomic across rows, so nobody relies on it: what must not be seen alone is written as a `Plan`.
A read resumes after a `Position`, a scan after a row key; a scan promises no snapshot across rows.
Tables named in `format.BARE_TABLES` hold qualifiers and nothing else: one family, timestamp 0, empty value; anything
else put there is refused with InvalidArgument.  A delete removes what is there when it is applied, on every table.
One contract suite, `tests/contract/`, runs on every engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from docstore.model.errors import InvalidArgument
from docstore.model.format import BARE_TABLES, FAMILY_END, TABLE_TAGS, TIMESTAMP_MAX
from docstore.model.types import (
    Cell,
    Condition,
    DeleteCells,
    DeleteFamily,
    DeleteRow,
    Durability,
    Mutation,
    Position,
    ReadSpec,
    RowMutations,
    SetCell,
)

EVERYTHING = ReadSpec()


class Caps(NamedTuple):
    """What an engine can and cannot do; whoever needs one of these asks first.

    Attributes:
        single_writer: one process writes, so in-memory state about what is stored can be trusted.
        largest_cell_bytes: longer values are refused with InvalidArgument.
        atomic_batches: all rows of one `mutate_rows` are applied or none, which spares a plan's stages their calls.
    """

    single_writer: bool
    largest_cell_bytes: int
    atomic_batches: bool


class ScannedRow(NamedTuple):
    """One row of a scan: cells sorted by family, qualifier, newest first; `truncated` when the cell limit cut it."""

    row_key: bytes
    cells: list[Cell]
    truncated: bool


class Engine(Protocol):
    """Cells by (table, row key, family, qualifier, timestamp)."""

    caps: Caps

    def read_row(self, table: str, row_key: bytes, spec: ReadSpec = EVERYTHING) -> list[Cell]:
        """Cells of one row, sorted by family, qualifier, newest first; empty when there is none."""
        ...

    def newest(self, table: str, row_key: bytes, family: str, qualifier: bytes) -> Cell | None:
        """The newest version of one column, or None; what `read_row` gives, at half its cost.

        Raises:
            InvalidArgument: the table is bare.
        """
        ...

    def qualifiers(self, table: str, row_key: bytes, limit: int) -> list[bytes]:
        """The first `limit` qualifiers of a row of a bare table, in order: the cheapest read there is.

        Raises:
            InvalidArgument: the table is not bare (see `format.BARE_TABLES`).
        """
        ...

    def qualifiers_of_rows(self, table: str, row_keys: Sequence[bytes], limit: int) -> list[list[bytes]]:
        """What `qualifiers` gives for each of many rows; cheaper a row than as many calls."""
        ...

    def absent_rows(self, table: str, row_keys: Iterable[bytes]) -> set[bytes]:
        """Those of some rows that hold nothing: cheaper than reading them, where most are absent."""
        ...

    def scan(
        self, table: str, start: bytes = b"", end: bytes | None = None, spec: ReadSpec = EVERYTHING
    ) -> Iterator[ScannedRow]:
        """Rows with ``start <= row key < end`` that have a cell of the spec, in row-key order.

        `spec.cell_limit` holds per row; `spec.after` is refused here.  The iterator may be dropped at any time.
        """
        ...

    def mutate_rows(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        """Apply mutations to rows, each row atomically, in any order.  Returning means durable at that level.

        Raises:
            StorageError: not applied.
            CommitUnknown: maybe applied; the same call again is safe.
        """
        ...

    def check_and_mutate(
        self,
        table: str,
        row_key: bytes,
        condition: Condition,
        then: Sequence[Mutation],
        otherwise: Sequence[Mutation] = (),
        durability: Durability = Durability.SYNC,
    ) -> bool:
        """Apply `then` if the condition holds, else `otherwise`, atomically; returns whether it held."""
        ...

    def compact_deleted(self) -> None:
        """Compact where so much was deleted that reads would pass it; called after deletes, without a lock."""
        ...

    def approximate_bytes(self, table: str, start: bytes = b"", end: bytes | None = None) -> int:
        """Bytes on disk of a row-key range, roughly."""
        ...

    def compact(self, table: str, start: bytes = b"", end: bytes | None = None) -> None:
        """Give back the space of what was overwritten or deleted in a range."""
        ...

    def close(self) -> None:
        """Flush and let go; a second call does nothing."""
        ...


def all_cells(engine: Engine, table: str, row: ScannedRow) -> Iterator[Cell]:
    """All cells of a scanned row; what its cell limit left out is read in slices of that length."""
    cells, limit = row.cells, len(row.cells)
    yield from cells
    more = row.truncated
    while more:
        family, qualifier, timestamp, _ = cells[-1]
        spec = ReadSpec(cell_limit=limit, after=Position(family, qualifier, timestamp))
        cells = engine.read_row(table, row.row_key, spec)
        yield from cells
        more = len(cells) == limit


class FirstQualifiers(NamedTuple):
    """What `qualifiers_of_rows` asks for.

    Attributes:
        table: a bare one.
        row_keys: of its rows.
        limit: most qualifiers of a row.
    """

    table: str
    row_keys: Sequence[bytes]
    limit: int


@runtime_checkable
class ReadsAhead(Protocol):
    """An engine that reads what is asked for next together, where each read alone is a call to another machine.

    What was read ahead is given to the thread that asked for it, until it says `forget_ahead`.
    """

    def read_ahead(
        self, table: str, reads: Sequence[tuple[bytes, ReadSpec]], beside: FirstQualifiers | None = None
    ) -> None:
        """Read rows together: each is then given to `read_row` for this spec, and of a spec of one timestamp without
        other bounds every part of it.

        Args:
            table: of the rows.
            reads: row keys and specs.
            beside: rows that are read with them, and then given to `qualifiers_of_rows`.
        """
        ...

    def drop_ahead(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Forget what was read ahead of some rows, given by table and row key."""
        ...

    def forget_ahead(self) -> None:
        """Forget what was read ahead."""
        ...


@runtime_checkable
class Copyable(Protocol):
    """An engine that can copy itself to another directory while it is open."""

    def copy_to(self, path: Path, when_fixed: Callable[[], None]) -> None:
        """Copy everything as it is at one moment.

        Args:
            path: a directory that is not there yet; becomes an engine of the same kind, durable on return.
            when_fixed: called as soon as later writes are no part of the copy.
        """
        ...


# --- what no engine takes: all refuse alike


def check_table(table: str) -> None:
    """Refuse a table that does not exist."""
    if table not in TABLE_TAGS:
        raise InvalidArgument(f"there is no table {table!r}; tables are {', '.join(TABLE_TAGS)}")


def check_bare(table: str) -> None:
    """Refuse a table that does not exist or is not bare."""
    check_table(table)
    if table not in BARE_TABLES:
        raise InvalidArgument(f"table {table!r} is not bare, so its rows are read with read_row")


def check_not_bare(table: str) -> None:
    """Refuse a table that does not exist or is bare."""
    check_table(table)
    if table in BARE_TABLES:
        raise InvalidArgument(f"table {table!r} is bare: its cells have no versions; read its qualifiers")


def check_family(family: str) -> None:
    """Refuse a family name that cannot stand in a key."""
    if not family or FAMILY_END.decode() in family:
        raise InvalidArgument(f"family name {family!r} must be at least one character and hold no zero byte")


def check_spec(spec: ReadSpec, *, scanning: bool) -> None:
    """Refuse a read spec that asks for nothing or for what a scan cannot do."""
    if spec.start < 0 or (spec.end is not None and spec.end < 0):
        raise InvalidArgument(f"time range [{spec.start}, {spec.end}) must not begin or end before 0")
    if spec.versions is not None and spec.versions < 1:
        raise InvalidArgument(f"versions must be at least 1, not {spec.versions}")
    if spec.cell_limit is not None and spec.cell_limit < 1:
        raise InvalidArgument(f"cell_limit must be at least 1, not {spec.cell_limit}")
    if scanning and spec.after is not None:
        raise InvalidArgument("a scan resumes with start = last row key + b'\\x00'; `after` is for read_row")


def check_mutations(table: str, mutations: Sequence[Mutation], largest_cell_bytes: int) -> None:
    """Refuse a mutation that cannot be applied to the table; checked before anything of its call is applied."""
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
            (mutation.start is not None and mutation.start < 0) or (mutation.end is not None and mutation.end < 0)
        ):
            raise InvalidArgument(f"time range [{mutation.start}, {mutation.end}) must not begin or end before 0")


def _check_set_cell(table: str, cell: SetCell, bare: bool, largest_cell_bytes: int) -> None:
    if not 0 <= cell.timestamp <= TIMESTAMP_MAX:
        raise InvalidArgument(f"timestamp {cell.timestamp} is not in [0, {TIMESTAMP_MAX}] microseconds")
    if len(cell.value) > largest_cell_bytes:
        raise InvalidArgument(
            f"a value of {len(cell.value)} bytes for {cell.family}:{cell.qualifier[:40]!r} is longer than the engine's "
            f"{largest_cell_bytes} bytes; keep it in Bodies"
        )
    if bare and (cell.timestamp or cell.value):
        raise InvalidArgument(f"cells of the bare table {table!r} have timestamp 0 and no value; got {cell!r:.200}")
