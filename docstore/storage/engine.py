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

from docstore.model.types import Cell, Condition, Durability, Mutation, ReadSpec, RowMutations

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
        """Those of some rows that hold nothing: cheaper than reading them, where most are absent.

        A row may be left out of the answer though all its cells are deleted.
        """
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

    def finish_deletes(self, table: str, row_key: bytes, max_cells: int = 1000) -> bool:
        """Remove up to `max_cells` cells that a row or family mark has deleted; True when none are left."""
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
