"""Cells in tables of HBase: see `Engine`.

Knows the client and the coding of cells, and which cells are capture records.  Every read asks HBase; nothing is cached
but what a thread has read ahead.  Reads are turned into filters of HBase first.

A row's mutations go as one `mutateRow`, rows that only put cells together in one call.  Deletes and puts of one call
have no order in HBase: they get the same number there.  So if a row's mutations do both, what is deleted is read first,
and each of its cells deleted by name, except those that are put again.

A row of pages has a generation, which each change of its capture records changes.  A caller that has read first the
generation and then the records changes them on condition of it (`change_row`).  So a delete of a row, or a delete by
maintenance, that HBase applies late deletes nothing that came after it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from docstore.cluster import client as thrift
from docstore.cluster.client import GETS_A_CALL, Answer, Client, HBaseCell, Item, Unknown, batches, messages
from docstore.cluster.coding import (
    LARGEST_CELL_BYTES,
    WRITERS,
    both,
    column_filter,
    data_families,
    decode_cells,
    decode_key,
    encode_cell,
    encode_column,
    encode_key,
    encode_timestamp,
    encode_value,
    filter_call,
    large_or_small,
)
from docstore.cluster.protocol import Requests
from docstore.model.errors import CommitUnknown
from docstore.model.format import BARE_TABLES, CAPTURE_FAMILY, FAMILY_END
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
from docstore.storage.engine import (
    EVERYTHING,
    Caps,
    FirstQualifiers,
    ScannedRow,
    check_bare,
    check_mutations,
    check_not_bare,
    check_spec,
    check_table,
)

ALL_VERSIONS: Final = (1 << 31) - 1


def requests_of(table: str, row: bytes, spec: ReadSpec) -> list[Any]:
    """The requests that give the cells of one row: one, but where a position within the row is given."""
    times = time_range(table, spec)
    if times is None:
        return []
    versions = 1 if table in BARE_TABLES else spec.versions or ALL_VERSIONS
    keys_only = b"KeyOnlyFilter()" if spec.keys_only else b""
    limit = spec.cell_limit
    if spec.families is None and spec.qualifier_prefix and table not in BARE_TABLES:
        limit = None  # the prefix is looked for among the cells that come
    make = messages()

    def get(families: Sequence[bytes], columns: bytes) -> Any:
        return make.TGet(
            row=row,
            columns=[make.TColumn(family=family) for family in families],
            timeRange=times,
            maxVersions=versions,
            filterString=both(columns, keys_only),
            storeLimit=limit,
        )

    filters = {f: column_filter(table, f, spec.families, spec.qualifier_prefix) for f in data_families(table)}
    wanted = {family: columns for family, columns in filters.items() if columns is not None}
    if spec.after is None:
        columns = column_filter(table, None, spec.families, spec.qualifier_prefix) or b""
        return [get(list(wanted), columns)] if wanted else []
    made = []
    for family, columns in wanted.items():
        column = _column_in(table, family, spec.after)
        if column is not None and spec.after.timestamp > 0:  # older versions of the column itself
            made.append(_older(row, family, column, spec.after, times, spec, limit, keys_only))
        name = encode_column(table, spec.after.family, spec.after.qualifier)[1]
        made.append(get([family], both(columns, _columns_behind(name)) or b""))
    return [one for one in made if one is not None]


class Ahead(threading.local):
    """What a thread has read ahead."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, bytes], dict[ReadSpec, list[Cell]]] = {}
        self._qualifiers: dict[tuple[str, int], dict[bytes, list[bytes]]] = {}

    def get(self, table: str, row_key: bytes, spec: ReadSpec) -> list[Cell] | None:
        """The cells that a spec asks for; None if they were not read ahead."""
        if not self._rows:
            return None
        for wider, cells in self._rows.get((table, row_key), {}).items():
            found = cells if wider == spec else narrowed(wider, cells, spec)
            if found is not None:
                return found
        return None

    def put(self, table: str, row_key: bytes, spec: ReadSpec, cells: list[Cell]) -> None:
        """Keep the answer to a read; not that a time was free: a page may be there by now."""
        if cells or spec.end != spec.start + 1:
            self._rows.setdefault((table, row_key), {})[spec] = cells

    def qualifiers(self, table: str, limit: int) -> dict[bytes, list[bytes]]:
        """The first qualifiers of rows of a bare table, by row key; to be added to."""
        return self._qualifiers.setdefault((table, limit), {})

    def drop(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Forget some rows, given by table and row key."""
        for table, row_key in rows:
            self._rows.pop((table, row_key), None)
            for (other, _), held in self._qualifiers.items():
                if other == table:
                    held.pop(row_key, None)

    def clear(self) -> None:
        """Forget all."""
        self._rows = {}
        self._qualifiers = {}


def narrowed(wider: ReadSpec, cells: Sequence[Cell], spec: ReadSpec) -> list[Cell] | None:
    """What a spec asks for, of the cells that a wider spec gave; None if they may not be all."""
    is_wider = (
        (wider.families is None or (spec.families is not None and set(spec.families) <= set(wider.families)))
        and spec.qualifier_prefix.startswith(wider.qualifier_prefix)
        and wider.start <= spec.start
        and (wider.end is None or (spec.end is not None and spec.end <= wider.end))
        and wider.versions in (None, spec.versions if spec.end == wider.end else None)
        and wider.after is spec.after is None
        and (spec.keys_only or not wider.keys_only)
    )
    if not is_wider:
        return None
    found: list[Cell] = []
    counts: dict[tuple[str, bytes], int] = {}
    for cell in cells:
        if (
            cell.timestamp < spec.start
            or (spec.end is not None and cell.timestamp >= spec.end)
            or (spec.families is not None and cell.family not in spec.families)
            or not cell.qualifier.startswith(spec.qualifier_prefix)
        ):
            continue
        counts[cell[:2]] = counts.get(cell[:2], 0) + 1
        if spec.versions is None or counts[cell[:2]] <= spec.versions:
            found.append(cell._replace(value=b"") if spec.keys_only else cell)
    if spec.cell_limit is not None and len(found) >= spec.cell_limit:
        return found[: spec.cell_limit]
    if wider.cell_limit is None or len(cells) < wider.cell_limit:
        return found
    # More cells may follow; of capture records, which are one column, only older ones.
    is_decided = cells[-1].timestamp <= spec.start or (spec.versions == 1 and found)
    return found if is_decided and wider.families == spec.families == (CAPTURE_FAMILY,) else None


def time_range(table: str, spec: ReadSpec) -> Any:
    """The time range of a spec in HBase; None where it is empty."""
    if table in BARE_TABLES:
        inside = spec.start == 0 and (spec.end is None or spec.end > 0)
        return messages().TTimeRange(minStamp=0, maxStamp=1) if inside else None
    last = thrift.NEWEST if spec.end is None else min(spec.end, thrift.NEWEST)
    first = min(spec.start, thrift.NEWEST)
    if first == thrift.NEWEST == spec.start:  # the last timestamp, which lies one lower
        first = thrift.NEWEST - 1
    elif last == thrift.NEWEST == spec.end:  # without it
        last = thrift.NEWEST - 1
    return (
        messages().TTimeRange(minStamp=first, maxStamp=last) if first < last and spec.start <= thrift.NEWEST else None
    )


def _column_in(table: str, family: bytes, after: Position) -> bytes | None:
    """The HBase qualifier of a position's column, where it lies in this family and has versions."""
    if table in BARE_TABLES:
        return None
    held_in, column = encode_column(table, after.family, after.qualifier)
    return column if held_in == family else None


def _columns_behind(column: bytes) -> bytes:
    """The filter for columns behind one."""
    return filter_call(b"ColumnRangeFilter", column)[:-1] + b",false,'',false)"


def _older(
    row: bytes,
    family: bytes,
    column: bytes,
    after: Position,
    times: Any,
    spec: ReadSpec,
    limit: int | None,
    only: bytes,
) -> Any:
    """The request for versions of a position's column behind it; None where there can be none.

    Where versions are counted, all that count are asked for, and the first ones left out later.
    """
    make = messages()
    between = times
    if spec.versions is None:
        between = make.TTimeRange(
            minStamp=times.minStamp, maxStamp=min(times.maxStamp, encode_timestamp(after.timestamp))
        )
        if between.minStamp >= between.maxStamp:
            return None
    prefixed = spec.families is None or after.family in spec.families
    if not prefixed or not after.qualifier.startswith(spec.qualifier_prefix):
        return None
    return make.TGet(
        row=row,
        columns=[make.TColumn(family=family, qualifier=column)],
        timeRange=between,
        maxVersions=spec.versions or ALL_VERSIONS,
        filterString=only or None,
        storeLimit=limit if spec.versions is None else None,
    )


def cut(table: str, found: Sequence[HBaseCell], spec: ReadSpec) -> list[Cell]:
    """What a spec asks for of the cells that came: order, prefix, place and limit."""
    cells = decode_cells(table, found)
    if spec.qualifier_prefix and spec.families is None:
        cells = [cell for cell in cells if cell.qualifier.startswith(spec.qualifier_prefix)]
    after = spec.after
    if after is not None:
        behind = (after.family, after.qualifier, -after.timestamp)
        cells = [cell for cell in cells if (cell.family, cell.qualifier, -cell.timestamp) > behind]
    if spec.keys_only:
        cells = [cell._replace(value=b"") if cell.value else cell for cell in cells]
    return cells if spec.cell_limit is None else cells[: spec.cell_limit]


def limited(row_key: bytes, cells: list[Cell], limit: int | None) -> ScannedRow:
    """A scanned row, cut at a limit."""
    return ScannedRow(row_key, cells[:limit], limit is not None and len(cells) > limit)


# --- the engine

PUTS_A_CALL: Final = 1000
BYTES_A_CALL: Final = 4 << 20
SCANNED_ROWS: Final = 200
SCANNED_CELLS: Final = 2000
"""Cells of one row that a scan takes at a time; a longer row is read by itself."""
GENERATION: Final = b"generation"
"""Column of WRITERS: changed by whatever changes a capture record of the row."""
TOKENS: Final = b"token:"
"""Column of WRITERS, + writer session: the last conditional write of that session which was applied."""
WRITERS_AT: Final = 1
"""Timestamp of all cells of WRITERS."""


class HBaseEngine:
    """See `Engine`.

    Args:
        client: of the cluster.
        namespace: of the store's tables.
        session: names this writer among all that ever write.
    """

    caps = Caps(single_writer=False, largest_cell_bytes=LARGEST_CELL_BYTES, atomic_batches=False)

    def __init__(self, client: Client, namespace: str, session: bytes) -> None:
        self._client = client
        self._namespace = namespace
        self._token_column = TOKENS + session
        self._ahead = Ahead()
        self._row_locks = tuple(threading.Lock() for _ in range(64))
        """A session's conditional writes to one row go one by one, so that one token a session is enough."""

    def name(self, table: str) -> str:
        """The table's name in HBase."""
        return f"{self._namespace}:{table}"

    def requests(self, durability: Durability) -> Requests:
        """Carries out the requests of `cluster.protocol` on this store's tables."""
        return Requests(self._client, self._namespace, thrift.log_level(durability))

    def in_parallel(self, work: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        """Do something for each of some items, several at a time."""
        return self._client.in_parallel(work, items)

    # --- reading

    def read_row(self, table: str, row_key: bytes, spec: ReadSpec = EVERYTHING) -> list[Cell]:
        self._check(table)
        check_spec(spec, scanning=False)
        return self.read_rows(table, [(row_key, spec)])[0]

    def read_rows(self, table: str, reads: Sequence[tuple[bytes, ReadSpec]]) -> list[list[Cell]]:
        """What `read_row` gives for each of many rows, in few calls."""
        found = [self._ahead.get(table, row_key, spec) for row_key, spec in reads]
        missing = [read for read, cells in zip(reads, found, strict=True) if cells is None]
        read = iter(self._read_together(table, missing, None)[0])
        return [next(read) if cells is None else cells for cells in found]

    def _read_together(
        self, table: str, reads: Sequence[tuple[bytes, ReadSpec]], with_qualifiers: FirstQualifiers | None
    ) -> tuple[list[list[Cell]], list[list[bytes]]]:
        """Cells of rows, and first qualifiers of others, in calls that go in parallel."""
        gets = [requests_of(table, encode_key(row_key), spec) for row_key, spec in reads]
        asked = [(table, [get for of_row in gets for get in of_row])]
        if with_qualifiers is not None:
            columns = [messages().TColumn(family=family) for family in data_families(with_qualifiers.table)]
            make, limit = messages().TGet, with_qualifiers.limit
            others = [make(row=encode_key(key), columns=columns, storeLimit=limit) for key in with_qualifiers.row_keys]
            asked.append((with_qualifiers.table, others))
        parts = [
            (self.name(of), some[at : at + GETS_A_CALL])
            for of, some in asked
            for at in range(0, len(some), GETS_A_CALL)
        ]
        found = self._client.in_parallel(lambda part: self._client.get_many(*part), parts)
        answers = iter([cells for part in found for cells in part])
        rows = [
            cut(table, [cell for _ in of_row for cell in next(answers)], spec)
            for of_row, (_, spec) in zip(gets, reads, strict=True)
        ]
        return rows, [[decode_key(cell.qualifier) for cell in cells] for cells in answers]

    def read_ahead(
        self, table: str, reads: Sequence[tuple[bytes, ReadSpec]], with_qualifiers: FirstQualifiers | None = None
    ) -> None:
        self._check(table)
        missing = [one for one in dict.fromkeys(reads) if self._ahead.get(table, *one) is None]
        rows, qualifiers = self._read_together(table, missing, with_qualifiers)
        for (row_key, spec), cells in zip(missing, rows, strict=True):
            self._ahead.put(table, row_key, spec, cells)
        if with_qualifiers is not None:
            held = self._ahead.qualifiers(with_qualifiers.table, with_qualifiers.limit)
            held.update(zip(with_qualifiers.row_keys, qualifiers, strict=True))

    def drop_ahead(self, rows: Iterable[tuple[str, bytes]]) -> None:
        self._ahead.drop(rows)

    def forget_ahead(self) -> None:
        self._ahead.clear()

    def newest(self, table: str, row_key: bytes, family: str, qualifier: bytes) -> Cell | None:
        self._client.check_open()
        check_not_bare(table)
        held = self._ahead.get(table, row_key, ReadSpec((family,), qualifier, versions=1))
        if held is not None:
            return next((cell for cell in held if cell.qualifier == qualifier), None)
        hbase_family, column = encode_column(table, family, qualifier)
        make = messages()
        get = make.TGet(
            row=encode_key(row_key), columns=[make.TColumn(family=hbase_family, qualifier=column)], maxVersions=1
        )
        cells = decode_cells(table, self._client.get_many(self.name(table), [get])[0])
        return cells[0] if cells else None

    def qualifiers(self, table: str, row_key: bytes, limit: int) -> list[bytes]:
        return self.qualifiers_of_rows(table, [row_key], limit)[0]

    def qualifiers_of_rows(self, table: str, row_keys: Sequence[bytes], limit: int) -> list[list[bytes]]:
        self._client.check_open()
        check_bare(table)
        if limit < 1:
            return [[] for _ in row_keys]
        held = self._ahead.qualifiers(table, limit)
        missing = [row_key for row_key in row_keys if row_key not in held] if held else row_keys
        found = self._read_together(table, [], FirstQualifiers(table, missing, limit))[1] if missing else []
        if not held:
            return found
        read = dict(zip(missing, found, strict=True))
        return [held[row_key] if row_key in held else read[row_key] for row_key in row_keys]

    def absent_rows(self, table: str, row_keys: Iterable[bytes]) -> set[bytes]:
        self._check(table)
        asked = list(row_keys)
        make = messages()
        columns = [make.TColumn(family=family) for family in data_families(table)]
        gets = [make.TGet(row=encode_key(row_key), columns=columns) for row_key in asked]
        exist = self._client.exist(self.name(table), gets)
        return {row_key for row_key, exists in zip(asked, exist, strict=True) if not exists}

    def scan(
        self, table: str, start: bytes = b"", end: bytes | None = None, spec: ReadSpec = EVERYTHING
    ) -> Iterator[ScannedRow]:
        self._check(table)
        check_spec(spec, scanning=True)
        return self._scan(table, start, end, spec)

    def _scan(self, table: str, start: bytes, end: bytes | None, spec: ReadSpec) -> Iterator[ScannedRow]:
        times = time_range(table, spec)
        filters = {f: column_filter(table, f, spec.families, spec.qualifier_prefix) for f in data_families(table)}
        wanted = {family: chosen for family, chosen in filters.items() if chosen is not None}
        if times is None or not wanted or (end is not None and end <= start):
            return
        first = encode_key(start)
        prefixes = set(wanted.values())
        while True:
            make = messages()
            request = make.TScan(
                startRow=first,
                stopRow=None if end is None else encode_key(end),
                columns=[make.TColumn(family=family) for family in wanted],
                maxVersions=1 if table in BARE_TABLES else spec.versions or ALL_VERSIONS,
                timeRange=times,
                filterString=both(
                    b"" if b"" in prefixes else b"(" + b" OR ".join(sorted(prefixes)) + b")",
                    b"KeyOnlyFilter()" if spec.keys_only else b"",
                ),
                batchSize=SCANNED_CELLS,
                caching=SCANNED_ROWS,
                limit=SCANNED_ROWS,
            )
            parts = self._client.scan(self.name(table), request, SCANNED_ROWS)
            rows: dict[bytes, list[HBaseCell]] = {}
            counts: dict[bytes, int] = {}
            for row, cells in parts:
                rows.setdefault(row, []).extend(cells)
                counts[row] = counts.get(row, 0) + 1
            for row, cells in rows.items():
                row_key = decode_key(row)
                if counts[row] > 1 or len(cells) >= SCANNED_CELLS:  # by parts, of which the last may be missing
                    yield from self._scanned_alone(table, row_key, spec)
                    continue
                found = cut(table, cells, spec._replace(cell_limit=None))
                if found:
                    yield limited(row_key, found, spec.cell_limit)
            if len(parts) < SCANNED_ROWS:
                return
            first = next(reversed(rows)) + b"\x00"

    def _scanned_alone(self, table: str, row_key: bytes, spec: ReadSpec) -> Iterator[ScannedRow]:
        limit = spec.cell_limit
        cells = self.read_row(table, row_key, spec._replace(cell_limit=None if limit is None else limit + 1))
        if cells:
            yield limited(row_key, cells, limit)

    # --- writing

    def mutate_rows(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        self._client.check_open()
        for row in rows:
            check_mutations(row.table, row.mutations, self.caps.largest_cell_bytes)
        merged: dict[tuple[str, bytes], list[Mutation]] = {}
        for table, row_key, mutations in rows:
            merged.setdefault((table, encode_key(row_key)), []).extend(mutations)
        level = thrift.log_level(durability)
        puts: dict[str, list[tuple[Any, int]]] = {}
        calls: list[Callable[[], None]] = []
        generation = new_generation()
        for (table, key), mutations in merged.items():
            if all(type(mutation) is SetCell for mutation in mutations):
                cells = _puts(table, mutations)
                if _changes_records(table, mutations):
                    cells.append(generation)
                if cells:
                    puts.setdefault(table, []).append((thrift.put(key, cells, level), _size_bytes(key, cells)))
            else:
                calls.append(partial(self._mutate, table, key, mutations, level))
        for table, made in puts.items():
            for batch in batches(made, lambda one: one[1], PUTS_A_CALL, BYTES_A_CALL):
                calls.append(partial(self._put_many, table, batch))
        self._client.in_parallel(lambda call: call(), calls)

    def _put_many(self, table: str, batch: Sequence[tuple[Any, int]]) -> None:
        self._client.put_many(self.name(table), [one for one, _ in batch], sum(size for _, size in batch))

    def _mutate(self, table: str, row: bytes, mutations: Sequence[Mutation], level: int) -> None:
        """Apply the mutations of one row, some of which delete."""
        deletes_row = any(isinstance(mutation, DeleteRow) for mutation in mutations)
        if not (deletes_row and WRITERS in self._families(table)):
            parts = self._parts(table, row, mutations, level)
            if _changes_records(table, mutations):
                parts.append(thrift.put(row, [new_generation()], level))
            if parts:
                self._client.mutate_row(self.name(table), thrift.row_mutations(row, parts))
            return
        is_applied = False
        while not is_applied:
            generation = self.generation(table, row)
            is_applied = self.change_row(table, row, generation, self._parts(table, row, mutations, level), level)

    def generation(self, table: str, row: bytes) -> bytes | None:
        """What a row holds as its generation, by its key in HBase; None if nothing in it was ever changed."""
        return self._writers_cell(table, row, GENERATION)

    def change_row(
        self, table: str, row: bytes, generation: bytes | None, parts: list[Any], level: int | None = None
    ) -> bool:
        """Apply puts and deletes to a row if it still has the generation that was read, which then changes.

        Returns:
            Whether they are applied; if not, nothing of them is, nor will be.
        """
        cell = new_generation()
        changed = thrift.row_mutations(row, [*parts, thrift.put(row, [cell], level)])
        held = generation
        while held == generation:
            with suppress(Unknown):  # the next try has the same condition
                if self._client.check_and_mutate(self.name(table), (WRITERS, GENERATION), generation, changed):
                    return True
            held = self.generation(table, row)
        return held == cell.value

    def _families(self, table: str) -> tuple[bytes, ...]:
        return (*data_families(table), *(() if table in BARE_TABLES else (WRITERS,)))

    def _writers_cell(self, table: str, row: bytes, column: bytes) -> bytes | None:
        make = messages()
        get = make.TGet(row=row, columns=[make.TColumn(family=WRITERS, qualifier=column)])
        cells = self._client.get_many(self.name(table), [get])[0]
        return cells[0].value if cells else None

    def _parts(self, table: str, row: bytes, mutations: Sequence[Mutation], level: int | None) -> list[Any]:
        """Puts and deletes that come to the same as mutations in their order."""
        if all(isinstance(mutation, DeleteRow) for mutation in mutations):
            return [thrift.delete_families(row, data_families(table), level)] if mutations else []
        if all(type(mutation) is SetCell for mutation in mutations):
            cells = _puts(table, mutations)
            return [thrift.put(row, cells, level)] if cells else []
        stored = self._stored_places(table, row, mutations)
        kept: dict[tuple[bytes, bytes, int], bytes] = {}
        gone: set[tuple[bytes, bytes, int]] = set()
        for mutation in mutations:
            if isinstance(mutation, SetCell):
                cell = encode_cell(table, *mutation)
                kept[cell[:3]] = cell.value
                gone.discard(cell[:3])
                continue
            for place in [*stored, *kept]:
                if _deletes(table, mutation, place):
                    kept.pop(place, None)
                    gone.add(place)
        parts = []
        if there := sorted(gone & stored):
            parts.append(thrift.delete_versions(row, there, level))
        if kept:
            parts.append(thrift.put(row, [HBaseCell(*place, value) for place, value in kept.items()], level))
        return parts

    def _stored_places(self, table: str, row: bytes, mutations: Sequence[Mutation]) -> set[tuple[bytes, bytes, int]]:
        """The places of cells that are there and that the mutations may delete."""
        make = messages()
        columns: dict[tuple[bytes, bytes | None], Any] = {}
        for mutation in mutations:
            if isinstance(mutation, DeleteCells):
                family, column = encode_column(table, mutation.family, mutation.qualifier)
                columns[family, column] = make.TColumn(family=family, qualifier=column)
            elif isinstance(mutation, DeleteFamily):
                family = large_or_small(table, mutation.family)
                columns[family, None] = make.TColumn(family=family)
            elif isinstance(mutation, DeleteRow):
                columns.update({(family, None): make.TColumn(family=family) for family in data_families(table)})
        whole = {family for family, column in columns if column is None}
        asked = [one for (family, column), one in columns.items() if column is None or family not in whole]
        get = make.TGet(row=row, columns=asked, maxVersions=ALL_VERSIONS, filterString=b"KeyOnlyFilter()")
        return {cell[:3] for cell in self._client.get_many(self.name(table), [get])[0]}

    def check_and_mutate(
        self,
        table: str,
        row_key: bytes,
        condition: Condition,
        then: Sequence[Mutation],
        otherwise: Sequence[Mutation] = (),
        durability: Durability = Durability.SYNC,
    ) -> bool:
        self._client.check_open()
        check_mutations(table, [*then, *otherwise], self.caps.largest_cell_bytes)
        level = thrift.log_level(durability)
        row = encode_key(row_key)
        column = encode_column(table, condition.family, condition.qualifier)
        expected = None if condition.value is None else encode_value(condition.value)
        if table in BARE_TABLES and condition.value is not None:
            expected = encode_cell(table, "", b"", 0, b"").value if condition.value == b"" else condition.value
        with self._row_locks[hash(row) % len(self._row_locks)]:
            while True:
                if self._apply_if(table, row, column, expected, then, level, equal=True):
                    return True
                if not otherwise:
                    return False
                if self._apply_if(table, row, column, expected, otherwise, level, equal=False):
                    return False

    def _apply_if(
        self,
        table: str,
        row: bytes,
        column: tuple[bytes, bytes],
        expected: bytes | None,
        mutations: Sequence[Mutation],
        level: int,
        *,
        equal: bool,
    ) -> bool:
        """Apply mutations on a condition; a token that goes with them tells whether a refused one was applied."""
        token = os.urandom(8)
        parts = self._parts(table, row, mutations, level)
        has_token = table not in BARE_TABLES
        if has_token:
            parts.append(thrift.put(row, [HBaseCell(WRITERS, self._token_column, WRITERS_AT, token)], level))
        changed = thrift.row_mutations(row, parts)
        try:
            held = self._client.check_and_mutate(self.name(table), column, expected, changed, equal=equal)
        except Unknown as error:
            if has_token and self._writers_cell(table, row, self._token_column) == token:
                return True
            raise CommitUnknown(
                f"whether a conditional write was applied is not known ({error}); read the row"
            ) from error
        return held or (has_token and self._writers_cell(table, row, self._token_column) == token)

    # --- the rest

    def compact_deleted(self) -> None:
        """See `Engine`; HBase compacts by itself."""

    def approximate_bytes(self, table: str, start: bytes = b"", end: bytes | None = None) -> int:
        """See `Engine`: lengths of keys and values, by a scan; HBase's own compression is not seen."""
        self._check(table)
        make = messages()
        first, total = encode_key(start), 0
        while True:
            request = make.TScan(
                startRow=first,
                stopRow=None if end is None else encode_key(end),
                columns=[make.TColumn(family=family) for family in data_families(table)],
                maxVersions=ALL_VERSIONS,
                filterString=b"KeyOnlyFilter(true)",
                limit=5 * SCANNED_ROWS,
            )
            rows = self._client.scan(self.name(table), request, 5 * SCANNED_ROWS)
            for row, cells in rows:
                total += sum(len(row) + len(cell.qualifier) + 12 for cell in cells)
                if table not in BARE_TABLES:
                    total += sum(int.from_bytes(cell.value, "big") for cell in cells)
            if len(rows) < 5 * SCANNED_ROWS:
                return total
            first = rows[-1][0] + b"\x00"

    def compact(self, table: str, start: bytes = b"", end: bytes | None = None) -> None:
        """See `Engine`: HBase does so by itself; Thrift2 has no call for it."""
        self._check(table)

    def close(self) -> None:
        self._client.close()

    def _check(self, table: str) -> None:
        self._client.check_open()
        check_table(table)


def _puts(table: str, mutations: Iterable[Mutation]) -> list[HBaseCell]:
    """Cells to put; of several at one place the last."""
    cells: dict[tuple[bytes, bytes, int], HBaseCell] = {}
    for mutation in mutations:
        assert isinstance(mutation, SetCell)
        cell = encode_cell(table, *mutation)
        cells[cell[:3]] = cell
    return list(cells.values())


def _changes_records(table: str, mutations: Sequence[Mutation]) -> bool:
    return table == "pages" and any(
        not isinstance(one, DeleteRow) and one.family == CAPTURE_FAMILY for one in mutations
    )


def new_generation() -> HBaseCell:
    """The cell that gives a row of pages another generation: written with each change of its capture records."""
    return HBaseCell(WRITERS, GENERATION, WRITERS_AT, os.urandom(8))


def _size_bytes(row: bytes, cells: Sequence[HBaseCell]) -> int:
    return sum(len(row) + len(cell.qualifier) + len(cell.value) + 24 for cell in cells)


def _deletes(table: str, mutation: Mutation, place: tuple[bytes, bytes, int]) -> bool:
    """Whether a mutation deletes the cell at a place."""
    family, column, timestamp = place
    if isinstance(mutation, DeleteRow):
        return True
    if isinstance(mutation, DeleteFamily):
        return table in BARE_TABLES or column.startswith(mutation.family.encode() + FAMILY_END)
    assert isinstance(mutation, DeleteCells)
    if encode_column(table, mutation.family, mutation.qualifier) != (family, column):
        return False
    (cell,) = decode_cells(table, [HBaseCell(family, column, timestamp, b"\xff")])
    return (mutation.start or 0) <= cell.timestamp and (mutation.end is None or cell.timestamp < mutation.end)
