"""Bases of deltas: the rows of table `bodies`.

The row key is the first 16 bytes of the BLAKE3 of a value; the cell is the ref of a record with that value.  A body or
text has a row if it has deltas, or if captures of several pages share its record.  The name depends on the bytes alone:
the row may refer to any record with these bytes.

A base is never a delta against another base: a page that resembles a delta becomes a delta against that delta's base.
So a read of a body decodes at most two records.  A text, a base too, may be a delta of its own body, whose record is
directly before it: a read of a text decodes at most three.  No row lists the deltas of a base.  Each segment names the
bases of its records, and compaction frees bases that no segment names (mark and sweep).  Only the local backend has
deltas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

from docstore.compiled import docstore_native
from docstore.model.capture import PagePointer
from docstore.model.format import BASE_FAMILY
from docstore.model.types import DeleteRow, ReadSpec, RowMutations, SetCell
from docstore.storage.engine import Engine, rows_of_table

TABLE = "bodies"
LARGEST_BASE_BYTES = docstore_native.LARGEST_BASE_BYTES
"""A larger value is no base, because each read of a delta decodes its base."""


value_name = docstore_native.value_name
"""The name of a value as a base or dictionary: the first 16 bytes of its BLAKE3."""


class Base(NamedTuple):
    """A stored value that another can be a delta against.

    Attributes:
        name: of its row.
        raw: the value.
        cell_value: its cell value.
        pointer: a page that has this value, or a delta against it.
    """

    name: bytes
    raw: bytes
    cell_value: bytes
    pointer: PagePointer


class BaseRows:
    """Rows of bases.

    Attributes:
        retired: names that compaction is about to free: no new delta or page may use them.  Guarded by the committer's
            lock.
    """

    def __init__(self, engine: Engine) -> None:
        self.retired: set[bytes] = set()
        self._engine = engine
        self._cached: dict[bytes, bytes] | None = None
        """All rows, while a compaction runs."""
        self._names: dict[bytes, bytes] = {}
        """The same from cell value to name."""

    @contextmanager
    def cached(
        self, lock: AbstractContextManager[object], followers: set[Callable[[Sequence[RowMutations], bool], None]]
    ) -> Iterator[None]:
        """Keep all rows in memory, some 400 bytes each: compaction looks up several names a value.

        Args:
            lock: the committer's.
            followers: of the committer.
        """
        changed: dict[bytes, bytes | None] = {}
        """By commits during the scan."""
        is_complete = True
        rows: dict[bytes, bytes] = {}
        names: dict[bytes, bytes] = {}

        def follow(written: Sequence[RowMutations], is_sure: bool) -> None:
            nonlocal is_complete
            for row in rows_of_table(written, TABLE):
                changed[row.row_key] = next((one.value for one in row.mutations if isinstance(one, SetCell)), None)
            if not is_sure and changed:
                is_complete, self._cached = False, None
                self._names.clear()
            elif self._cached is not None:
                apply()

        def apply() -> None:
            for name, value in changed.items():
                before = rows.pop(name, None)
                if before is not None and names.get(before) == name:
                    del names[before]
                if value is not None:
                    rows[name], names[value] = value, name
            changed.clear()

        try:
            with lock:
                followers.add(follow)
            rows.update(self.scan())
            names.update((value, name) for name, value in rows.items())
            with lock:
                apply()
                if is_complete:
                    self._cached, self._names = rows, names
            yield
        finally:
            with lock:
                self._cached, self._names = None, {}  # first: an interrupt may come out of any call
                followers.discard(follow)

    def cell_value(self, name: bytes) -> bytes | None:
        """The cell value of a base; None if there is no base of that name."""
        if (cached := self._cached) is not None:
            return cached.get(name)
        return self._row(name)

    @property
    def is_cached(self) -> bool:
        """Whether all rows are in memory: only then `name_of` knows them."""
        return self._cached is not None

    def name_of(self, cell_value: bytes) -> bytes | None:
        """The name of the base whose record has this cell value; None if it is no base, or if rows are not cached."""
        return self._names.get(cell_value)

    def stored_value(self, name: bytes) -> bytes | None:
        """As `cell_value`, for readers: they see a page as it is written, and the rows in memory follow the commit."""
        cached = self._cached  # one read: another thread may end the compaction
        found = None if cached is None else cached.get(name)
        return self._row(name) if found is None else found

    def _row(self, name: bytes) -> bytes | None:
        return self._engine.value_at(TABLE, name, BASE_FAMILY, b"", 0)

    def scan(self) -> Iterator[tuple[bytes, bytes]]:
        """Names and cell values of all bases."""
        for row in self._engine.scan(TABLE, spec=ReadSpec(families=(BASE_FAMILY,))):
            for cell in row.cells:
                yield row.row_key, cell.value


def base_row(name: bytes, cell_value: bytes) -> RowMutations:
    """The mutation that writes the row of a base."""
    return RowMutations(TABLE, name, [SetCell(BASE_FAMILY, b"", 0, cell_value)])


def freed_row(name: bytes) -> RowMutations:
    """The mutation that deletes the row of a base."""
    return RowMutations(TABLE, name, [DeleteRow()])
