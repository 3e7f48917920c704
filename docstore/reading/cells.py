"""General cells: apply, scan, check_and_mutate, read_modify_write, delete, on the rows of pages; notes of captures.

Knows the table, where values are and the commit point; of the built-in columns only notes.  Values above 512 bytes are
stored outside the row and read back transparently.  Conditional and read-modify-write mutations hold the writers' lock.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from docstore.model import keys
from docstore.model.capture import NOTE_FAMILY, Column
from docstore.model.errors import CommitUnknown, CorruptionError, InvalidArgument, StorageError
from docstore.model.plain import asdict
from docstore.model.types import (
    Append,
    Cell,
    Condition,
    DeleteCells,
    Increment,
    Mutation,
    Note,
    Position,
    ReadSpec,
    RowMutations,
    SetCell,
    checked_spec,
)
from docstore.storage.engine import Plan, ScannedRow
from docstore.storage.table import PAGES, TIMESTAMP_STEP_MICROS, Table
from docstore.storage.unreadable import Place
from docstore.storage.values import READ_AHEAD_BYTES, raw_bytes_of

if TYPE_CHECKING:  # types alone: a cold read counts milliseconds
    from docstore.storage.port import Committer, Values


_COUNTER_BYTES = 8
SLICE_CELLS = 1000
"""Cells read or deleted at a time, so that a row of a million anchors neither fills memory nor stalls writers."""


FIRST_ROWS = 16
MOST_ROWS = 1024
"""Rows of a scan whose values are fetched together: few first, for callers that read only the first rows."""


class Row(NamedTuple):
    """A row of a scan.

    Attributes:
        row_key: its key.
        url: of the page.
        cells: sorted by family, qualifier, newest first; values fetched unless `keys_only`.
    """

    row_key: bytes
    url: str
    cells: tuple[Cell, ...]

    def asdict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: times in ISO 8601, bytes as text."""
        return dict(asdict(self))


def scan_range(
    prefix: str | None, host: str | None, start: bytes = b"", end: bytes | None = None
) -> tuple[bytes, bytes | None]:
    """Row keys of a URL prefix, of a host, or from `start` to `end`.

    Raises:
        InvalidArgument: more than one of them is given.
    """
    if sum((prefix is not None, host is not None, bool(start) or end is not None)) > 1:
        raise InvalidArgument("a scan takes one of prefix, host, or a range of row keys")
    if prefix is not None:
        return keys.prefix_range(prefix)
    return (start, end) if host is None else keys.host_range(host)


class CellStore:
    """Cells of page rows.  Thread-safe."""

    def __init__(
        self,
        table: Table,
        values: Values,
        committer: Committer,
        clock: Callable[[], int],
    ) -> None:
        self._table = table
        self._values = values
        self._committer = committer
        self._clock = clock

    @staticmethod
    def row_key(url_or_row_key: str | bytes) -> bytes:
        """The row key of a URL; bytes are a row key already."""
        return url_or_row_key if isinstance(url_or_row_key, bytes) else keys.row_key(url_or_row_key)

    # --- reading

    def slices(
        self,
        url_or_row_key: str | bytes,
        *,
        families: tuple[str, ...] | None = None,
        spec: ReadSpec | None = None,
    ) -> Iterator[Cell]:
        """Cells of one row, read SLICE_CELLS at a time; of `spec`, or of these families."""
        row_key = self.row_key(url_or_row_key)
        wanted = checked_spec(ReadSpec(families=families) if spec is None else spec)
        after: Position | None = None
        while True:
            cells = self._table.read_row(row_key, wanted._replace(cell_limit=SLICE_CELLS, after=after))
            for cell in cells:
                yield self._fetched(row_key, cell)
            if len(cells) < SLICE_CELLS:
                return
            after = Position(cells[-1].family, cells[-1].qualifier, cells[-1].timestamp)

    def read_row(self, url_or_row_key: str | bytes, spec: ReadSpec = ReadSpec()) -> Row | None:
        """One row's cells; None when there are none of the spec."""
        row_key = self.row_key(url_or_row_key)
        spec = checked_spec(spec)
        cells = self._table.read_row(row_key, spec)
        return self._row(row_key, cells, spec) if cells else None

    def scan(
        self,
        *,
        prefix: str | None = None,
        host: str | None = None,
        start: bytes = b"",
        end: bytes | None = None,
        qualifier_regex: str | None = None,
        limit: int | None = None,
        spec: ReadSpec = ReadSpec(),
    ) -> Iterator[Row]:
        """Rows in row-key order.

        Args:
            prefix: only URLs with this prefix.
            host: only pages of this host.
            start, end: only row keys with ``start <= key < end``.
            qualifier_regex: only columns whose whole qualifier matches.
            limit: most rows.
            spec: families, qualifier prefix, time range, versions and `keys_only` of the cells.
        Raises:
            InvalidArgument: more than one of prefix, host and a range is given, or the expression is invalid.
        """
        start, end = scan_range(prefix, host, start, end)
        spec = checked_spec(spec)
        try:
            pattern = None if qualifier_regex is None else re.compile(qualifier_regex.encode())
        except re.error as error:
            raise InvalidArgument(f"qualifier expression {qualifier_regex!r} is broken: {error}") from error
        if limit is not None and limit < 1:
            return
        rows = self._matching(self._table.scan(start, end, spec), pattern)
        for given, row in enumerate(self._read_ahead(rows, spec, limit), 1):
            yield row
            if given == limit:
                return

    @staticmethod
    def _matching(rows: Iterator[ScannedRow], pattern: re.Pattern[bytes] | None) -> Iterator[tuple[bytes, list[Cell]]]:
        for row in rows:
            cells = row.cells
            if pattern is not None:
                cells = [cell for cell in cells if pattern.fullmatch(cell.qualifier)]
            if cells:
                yield row.row_key, cells

    def _read_ahead(self, rows: Iterator[tuple[bytes, list[Cell]]], spec: ReadSpec, limit: int | None) -> Iterator[Row]:
        """Rows with their values, which are fetched for many rows at once, in the order in which they lie."""
        if spec.keys_only:
            yield from (self._row(row_key, cells, spec) for row_key, cells in rows)
            return
        wanted_rows = FIRST_ROWS if limit is None else min(limit, MOST_ROWS)
        while ahead := _take(rows, wanted_rows):
            try:
                values = iter(self._values.fetch_many([cell.value for _, cells in ahead for cell in cells]))
            except CorruptionError:  # compaction may have moved some, or one is damaged: give those before it
                yield from (self._row(row_key, cells, spec) for row_key, cells in ahead)
            else:
                for row_key, cells in ahead:
                    fetched = tuple(cell._replace(value=next(values)) for cell in cells)
                    yield Row(row_key, keys.url_of(row_key), fetched)
            wanted_rows = min(4 * wanted_rows, MOST_ROWS)

    # --- writing

    def apply(self, url_or_row_key: str | bytes, mutations: Sequence[Mutation]) -> None:
        """Apply mutations to one row, all or none; committed on return.

        Cells take any timestamp: what a timestamp means in a user's family is up to the user.

        Raises:
            InvalidArgument: bytes that are not the row key of a URL, an undeclared family, or a timestamp that is no
                whole millisecond in range.
        """
        self.apply_many([(url_or_row_key, mutations)])

    def apply_many(self, rows: Sequence[tuple[str | bytes, Sequence[Mutation]]]) -> None:
        """Apply mutations to rows, each row all or none; committed on return."""
        # All are checked before any is placed: what is placed, delete marks among it, goes with the next commit.
        checked = [(self._written_row_key(key), self._table.checked(mutations)) for key, mutations in rows]

        def commit() -> None:
            with self._committer.lock:
                self._commit(checked)

        if any(isinstance(mutation, SetCell) for _, mutations in checked for mutation in mutations):
            commit()
        else:
            self._committer.run_with_reserve(commit)
        self._compact_deleted(checked)

    def check_and_mutate(
        self,
        url_or_row_key: str | bytes,
        condition: Condition,
        then: Sequence[Mutation],
        otherwise: Sequence[Mutation] = (),
    ) -> bool:
        """Apply `then` if the condition holds, else `otherwise`, atomically; returns whether it held."""
        row_key = self._written_row_key(url_or_row_key)
        with self._committer.lock:
            newest = self._newest(row_key, condition.family, condition.qualifier)
            held = (None if newest is None else newest.value) == condition.value
            chosen = [(row_key, self._table.checked(then if held else otherwise))]
            self._commit(chosen)
        self._compact_deleted(chosen)
        return held

    def read_modify_write(self, url_or_row_key: str | bytes, rules: Sequence[Append | Increment]) -> list[Cell]:
        """Append to or add to the newest values of columns of one row, all or none of them.

        Args:
            url_or_row_key: the row.
            rules: at least one, on any columns; those on one column are applied in order.
        Returns:
            The new cells, one a column, in the order of each column's first rule.
        Raises:
            InvalidArgument: no rules, an Increment on a value that is not 8 bytes, or beyond 64 bits.
        """
        if not rules:
            raise InvalidArgument("read_modify_write needs at least one rule, an Append or an Increment")
        row_key = self._written_row_key(url_or_row_key)
        now = self._clock()
        with self._committer.lock:
            cells: dict[tuple[str, bytes], SetCell] = {}
            for rule in rules:
                column = (rule.family, rule.qualifier)
                newest = cells.get(column) or self._newest(row_key, *column)
                stamp = max(now - now % 1000, newest.timestamp if newest else 0)
                cells[column] = SetCell(*column, stamp, changed(rule, newest.value if newest else b""))
            self._commit([(row_key, self._table.checked(list(cells.values())))])
        return [Cell(*cell) for cell in cells.values()]

    def set_computed(
        self,
        captures: Sequence[tuple[bytes, int, Mapping[Column, bytes | None]]],
        changed_rows: Container[bytes] | None = None,
    ) -> int:
        """Set or remove columns that are computed after the write, `table.LATER_COLUMNS`, in one commit.

        Args:
            captures: row key and time of each, and its columns; None removes one.
            changed_rows: those that were changed since the captures were read (`changes`); None if that is not known.
        Returns:
            How many were changed: one that was deleted meanwhile must not get a row again.
        """
        with self._committer.lock:
            rows: list[tuple[bytes, list[Mutation]]] = []
            for row_key, timestamp, columns in captures:
                is_same = changed_rows is not None and row_key not in changed_rows
                if is_same or self._table.capture_at(row_key, timestamp) is not None:
                    cells: list[Mutation] = [
                        DeleteCells(*column, timestamp, timestamp + TIMESTAMP_STEP_MICROS)
                        if value is None
                        else SetCell(*column, timestamp, value)
                        for column, value in columns.items()
                    ]
                    rows.append((row_key, cells))
            if rows:
                self._commit(rows)
        return len(rows)

    @contextmanager
    def changes(self) -> Iterator[Container[bytes] | None]:
        """Rows that are changed while this is open; None if others may change them: another process, or their age."""
        rows: set[bytes] = set()

        def follow(written: Sequence[RowMutations], _: bool) -> None:
            rows.update(row.row_key for row in written if row.table == PAGES)

        if self._committer.many_writers or self._table.ages_captures:
            yield None
            return
        try:
            with self._committer.lock:
                self._committer.followers.add(follow)
            yield rows
        finally:
            with self._committer.lock:
                self._committer.followers.discard(follow)

    def put_notes(self, notes: Sequence[Note]) -> int:
        """Set or remove notes of captures, in one commit.

        A note of a visit goes to the capture that it confirms.  What is there already is not written, and a capture
        that is gone gets none.

        Args:
            notes: each of one capture; of two with one name the last one counts.
        Returns:
            How many were written or removed.
        Raises:
            InvalidArgument: a URL that cannot be stored, or an empty name.
        """
        checked = [(self._written_row_key(note.url), note) for note in notes]
        if not all(note.name for _, note in checked):
            raise InvalidArgument("a note needs the name of its annotator; it is the qualifier of the cell")
        rows: dict[bytes, dict[tuple[bytes, int], Mutation]] = {}
        with self._committer.lock:
            for row_key, note in checked:
                capture = self._table.capture_at(row_key, note.timestamp)
                if capture is None or not capture.shows_page:
                    continue
                qualifier, at = note.name.encode(), capture.source
                end = at + TIMESTAMP_STEP_MICROS
                spec = ReadSpec((NOTE_FAMILY,), qualifier, at, end)
                found: bytes | None = None
                for cell in self._table.stored_row(row_key, spec):
                    if cell.qualifier == qualifier:
                        found = b""
                        with suppress(CorruptionError):  # it is written again
                            found = self._values.fetch(cell.value)
                changes = rows.setdefault(row_key, {})
                changes.pop((qualifier, at), None)
                if note.value is None and found is not None:
                    changes[qualifier, at] = DeleteCells(NOTE_FAMILY, qualifier, at, end)
                elif note.value is not None and note.value != found:
                    changes[qualifier, at] = SetCell(NOTE_FAMILY, qualifier, at, note.value)
            changed = [(row_key, list(changes.values())) for row_key, changes in rows.items() if changes]
            if changed:
                self._commit(changed)
        return sum(len(changes) for _, changes in changed)

    # --- pieces

    def _commit(self, rows: Sequence[tuple[bytes, Sequence[Mutation]]]) -> None:
        self._committer.commit(Plan([RowMutations(PAGES, key, self._placed(key, given)) for key, given in rows]))

    def _compact_deleted(self, rows: Sequence[tuple[bytes, Sequence[Mutation]]]) -> None:
        """After a delete: see `Engine.compact_deleted`; the caller holds no lock, other writers go on."""
        if not all(isinstance(mutation, SetCell) for _, mutations in rows for mutation in mutations):
            with suppress(StorageError, CommitUnknown):  # it is deleted all the same
                self._table.compact_deleted()

    def _written_row_key(self, url_or_row_key: str | bytes) -> bytes:
        """The row key of a row that is written: a scan gives the URL of each, so it must be one of a URL."""
        row_key = self.row_key(url_or_row_key)
        if isinstance(url_or_row_key, bytes):
            keys.url_of(row_key)
        return row_key

    def _placed(self, row_key: bytes, mutations: Sequence[Mutation]) -> list[Mutation]:
        """Mutations that were found fit, with values placed and deletes marked."""
        placed: list[Mutation] = []
        now = self._clock()
        for mutation in mutations:
            if isinstance(mutation, SetCell):
                family, qualifier, timestamp, value = mutation
                stored = self._values.append(row_key, (family, qualifier), timestamp, value)
                placed.append(SetCell(family, qualifier, timestamp, stored))
            else:
                placed.append(mutation)
                self._values.mark_deleted(row_key, mutation, now)
        return placed

    def _newest(self, row_key: bytes, family: str, qualifier: bytes) -> Cell | None:
        newest = self._table.newest(row_key, family, qualifier)
        return None if newest is None else self._fetched(row_key, newest)

    def readable(self, row_key: bytes, cell: Cell) -> Cell | None:
        """A cell that a scan gave, with its value; None if that cannot be read, which is noted."""
        return self._values.unreadable.attempt(lambda: self._fetched(row_key, cell), Place(row_key, *cell[:3]))

    def _fetched(self, row_key: bytes, cell: Cell) -> Cell:
        def look_up() -> Cell:
            spec = ReadSpec((cell.family,), cell.qualifier, cell.timestamp, cell.timestamp + 1)
            cells = self._table.read_row(row_key, spec)
            now = next((found for found in cells if found.qualifier == cell.qualifier), cell)
            return now._replace(value=self._values.fetch(now.value))

        try:
            return cell._replace(value=self._values.fetch(cell.value))
        except CorruptionError:  # compaction may have moved it since the row was read
            return self._values.read_together(look_up)

    def _row(self, row_key: bytes, cells: Sequence[Cell], spec: ReadSpec) -> Row:
        shown = cells if spec.keys_only else [self._fetched(row_key, cell) for cell in cells]
        return Row(row_key, keys.url_of(row_key), tuple(shown))


def changed(rule: Append | Increment, value: bytes) -> bytes:
    """Apply a rule to a value; an absent value is empty for Append and 0 for Increment.

    Raises:
        InvalidArgument: an Increment of a value that is not 8 bytes, or a sum that does not fit into them.
    """
    if isinstance(rule, Append):
        return value + rule.value
    if value and len(value) != _COUNTER_BYTES:
        raise InvalidArgument(
            f"an Increment needs a value of {_COUNTER_BYTES} bytes; {rule.family}:{rule.qualifier!r} has {len(value)}"
        )
    total = int.from_bytes(value, "big", signed=True) + rule.amount
    if not -(1 << 63) <= total < 1 << 63:
        raise InvalidArgument(f"{rule.family}:{rule.qualifier!r} would become {total}, which needs more than 64 bits")
    return total.to_bytes(_COUNTER_BYTES, "big", signed=True)


def _take(rows: Iterator[tuple[bytes, list[Cell]]], most: int) -> list[tuple[bytes, list[Cell]]]:
    """The next rows: as many, or until their values come to READ_AHEAD_BYTES."""
    taken = []
    raw_bytes = 0
    for row in rows:
        taken.append(row)
        raw_bytes += sum(raw_bytes_of(cell.value) for cell in row[1])
        if len(taken) == most or raw_bytes >= READ_AHEAD_BYTES:
            break
    return taken
