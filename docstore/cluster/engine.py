"""Cells in tables of HBase: see `Engine`.

Each read is a request to HBase, with filters; only what a thread has read ahead is cached.

The mutations of a row are one `mutateRow`; rows that only put cells share one call.  Deletes and puts of one call have
no order in HBase, because they get the same sequence number.  So if a row's mutations do both, the cells to delete are
read first, and each is deleted by its key, except those that are put again.

A row of pages has a generation, which changes with each change of its capture records.  A caller reads the generation,
then the records, and changes them on condition of the generation (`change_row`).  So if HBase applies a delete of a row
or of maintenance late, it deletes nothing that was written after it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

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
from docstore.model.choices import Durability
from docstore.model.errors import CommitUnknown
from docstore.model.format import BARE_TABLES, CAPTURE_FAMILY, FAMILY_END
from docstore.model.types import (
    Cell,
    Condition,
    DeleteCells,
    DeleteFamily,
    DeleteRow,
    Mutation,
    Position,
    ReadSpec,
    RowMutations,
    SetCell,
)
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

ALL_VERSIONS: Final = (1 << 31) - 1


class FirstQualifiers(NamedTuple):
    """Arguments of `qualifiers_of_rows`."""

    table: str
    row_keys: Sequence[bytes]
    limit: int


def requests_of(table: str, row: bytes, spec: ReadSpec) -> list[Any]:
    """The requests for the cells of one row: one, or several if the spec has a position in the row."""
    times = time_range(table, spec)
    if times is None:
        return []
    versions = 1 if table in BARE_TABLES else spec.versions or ALL_VERSIONS
    keys_only = b"KeyOnlyFilter()" if spec.keys_only else b""
    limit = spec.cell_limit
    if spec.families is None and spec.qualifier_prefix and table not in BARE_TABLES:
        limit = None  # the prefix is only applied to the cells of the reply
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
    requests = []
    for family, columns in wanted.items():
        column = _column_in(table, family, spec.after)
        if column is not None and spec.after.timestamp > 0:  # older versions of the column itself
            requests.append(_older(row, family, column, spec.after, times, spec, limit, keys_only))
        name = encode_column(table, spec.after.family, spec.after.qualifier)[1]
        columns_after = filter_call(b"ColumnRangeFilter", name)[:-1] + b",false,'',false)"
        requests.append(get([family], both(columns, columns_after) or b""))
    return [request for request in requests if request is not None]


class ReadAhead(threading.local):
    """Cells and qualifiers that a thread has read ahead."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, bytes], dict[ReadSpec, list[Cell]]] = {}
        self._qualifiers: dict[tuple[str, int], dict[bytes, list[bytes]]] = {}

    def get(self, table: str, row_key: bytes, spec: ReadSpec) -> list[Cell] | None:
        """The cells of a spec; None if they were not read ahead."""
        if not self._rows:
            return None
        for wider, cells in self._rows.get((table, row_key), {}).items():
            selected = cells if wider == spec else narrowed(wider, cells, spec)
            if selected is not None:
                return selected
        return None

    def put(self, table: str, row_key: bytes, spec: ReadSpec, cells: list[Cell]) -> None:
        """Cache the result of a read, unless it says that one timestamp is free: another process may use it."""
        if cells or spec.until != spec.since + 1:
            self._rows.setdefault((table, row_key), {})[spec] = cells

    def qualifiers(self, table: str, limit: int) -> dict[bytes, list[bytes]]:
        """The cached first qualifiers of rows of a bare table, by row key; the caller may add some."""
        return self._qualifiers.setdefault((table, limit), {})

    def drop(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Remove rows, named by table and row key."""
        for table, row_key in rows:
            self._rows.pop((table, row_key), None)
            for (other, _), cached in self._qualifiers.items():
                if other == table:
                    cached.pop(row_key, None)

    def clear(self) -> None:
        """Remove all."""
        self._rows = {}
        self._qualifiers = {}


def narrowed(wider: ReadSpec, cells: Sequence[Cell], spec: ReadSpec) -> list[Cell] | None:
    """The cells of a spec among those of a wider spec; None if cells may be missing."""
    is_wider = (
        (wider.families is None or (spec.families is not None and set(spec.families) <= set(wider.families)))
        and spec.qualifier_prefix.startswith(wider.qualifier_prefix)
        and wider.since <= spec.since
        and (wider.until is None or (spec.until is not None and spec.until <= wider.until))
        and wider.versions in (None, spec.versions if spec.until == wider.until else None)
        and wider.after is spec.after is None
        and (spec.keys_only or not wider.keys_only)
    )
    if not is_wider:
        return None
    selected: list[Cell] = []
    counts: dict[tuple[str, bytes], int] = {}
    for cell in cells:
        if (
            cell.timestamp < spec.since
            or (spec.until is not None and cell.timestamp >= spec.until)
            or (spec.families is not None and cell.family not in spec.families)
            or not cell.qualifier.startswith(spec.qualifier_prefix)
        ):
            continue
        counts[cell[:2]] = counts.get(cell[:2], 0) + 1
        if spec.versions is None or counts[cell[:2]] <= spec.versions:
            selected.append(cell._replace(value=b"") if spec.keys_only else cell)
    if spec.cell_limit is not None and len(selected) >= spec.cell_limit:
        return selected[: spec.cell_limit]
    if wider.cell_limit is None or len(cells) < wider.cell_limit:
        return selected
    # More cells may follow; capture records are one column, so there only older ones follow.
    is_complete = cells[-1].timestamp <= spec.since or (spec.versions == 1 and selected)
    return selected if is_complete and wider.families == spec.families == (CAPTURE_FAMILY,) else None


def time_range(table: str, spec: ReadSpec) -> Any:
    """The time range of a spec in HBase; None if it is empty."""
    if table in BARE_TABLES:
        inside = spec.since == 0 and (spec.until is None or spec.until > 0)
        return messages().TTimeRange(minStamp=0, maxStamp=1) if inside else None
    last = thrift.NEWEST if spec.until is None else min(spec.until, thrift.NEWEST)
    first = min(spec.since, thrift.NEWEST)
    if first == thrift.NEWEST == spec.since:  # docstore's last timestamp is encoded one lower
        first = thrift.NEWEST - 1
    elif last == thrift.NEWEST == spec.until:  # excludes it
        last = thrift.NEWEST - 1
    return (
        messages().TTimeRange(minStamp=first, maxStamp=last) if first < last and spec.since <= thrift.NEWEST else None
    )


def _column_in(table: str, family: bytes, after: Position) -> bytes | None:
    """The HBase qualifier of a position's column if it is in this HBase family and has versions; else None."""
    if table in BARE_TABLES:
        return None
    own_family, column = encode_column(table, after.family, after.qualifier)
    return column if own_family == family else None


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
    """The request for versions of a position's column that are older than the position; None if there can be none.

    If the spec limits versions, HBase counts from the newest, so newer ones are requested too and left out later.
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


def select_cells(table: str, reply: Sequence[HBaseCell], spec: ReadSpec) -> list[Cell]:
    """The cells of a reply in order, with the spec's prefix, position and limit applied."""
    cells = decode_cells(table, reply)
    if spec.qualifier_prefix and spec.families is None:
        cells = [cell for cell in cells if cell.qualifier.startswith(spec.qualifier_prefix)]
    after = spec.after
    if after is not None:
        last = (after.family, after.qualifier, -after.timestamp)
        cells = [cell for cell in cells if (cell.family, cell.qualifier, -cell.timestamp) > last]
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
"""Cells of one row in one batch of a scan; a longer row is read alone."""
GENERATION: Final = b"generation"
"""Column of WRITERS: changes with each change of a capture record of the row."""
TOKENS: Final = b"token:"
"""Column of WRITERS, + writer session: token of the last applied conditional write of that session."""
WRITERS_AT: Final = 1
"""Timestamp of all cells of WRITERS."""


class HBaseEngine:
    """Rows of a store in HBase's tables, through Thrift2.

    Args:
        client: of the cluster.
        namespace: of the store's tables.
        session: name of this writer, unique in the store.
    """

    caps = Caps(single_writer=False, largest_cell_bytes=LARGEST_CELL_BYTES, reads_wait=True)

    def __init__(self, client: Client, namespace: str, session: bytes) -> None:
        self._client = client
        self._namespace = namespace
        self._token_column = TOKENS + session
        self._ahead = ReadAhead()
        self._row_locks = tuple(threading.Lock() for _ in range(64))
        """Serialize the session's conditional writes to a row, so that one token for each session is enough."""

    def name(self, table: str) -> str:
        """The table's name in HBase."""
        return f"{self._namespace}:{table}"

    def requests(self, durability: Durability) -> Requests:
        """Sends requests of `cluster.protocol` to this store's tables."""
        return Requests(self._client, self._namespace, thrift.log_level(durability))

    def in_parallel(self, work: Callable[[Item], Answer], items: Sequence[Item]) -> list[Answer]:
        return self._client.in_parallel(work, items)

    # --- reading

    def read_row(self, table: str, row_key: bytes, spec: ReadSpec = EVERYTHING) -> list[Cell]:
        self._check(table)
        check_spec(spec, scanning=False)
        return self.read_rows(table, [(row_key, spec)])[0]

    def read_rows(self, table: str, reads: Sequence[tuple[bytes, ReadSpec]]) -> list[list[Cell]]:
        """As `read_row` for each of many rows, in few calls."""
        cached = [self._ahead.get(table, row_key, spec) for row_key, spec in reads]
        missing = [read for read, cells in zip(reads, cached, strict=True) if cells is None]
        read = iter(self._read_together(table, missing, None)[0])
        return [next(read) if cells is None else cells for cells in cached]

    def _read_together(
        self, table: str, reads: Sequence[tuple[bytes, ReadSpec]], with_qualifiers: FirstQualifiers | None
    ) -> tuple[list[list[Cell]], list[list[bytes]]]:
        """Cells of rows of one table, and first qualifiers of rows of another, in parallel calls."""
        gets = [requests_of(table, encode_key(row_key), spec) for row_key, spec in reads]
        by_table = [(table, [get for of_row in gets for get in of_row])]
        if with_qualifiers is not None:
            columns = [messages().TColumn(family=family) for family in data_families(with_qualifiers.table)]
            make, limit = messages().TGet, with_qualifiers.limit
            others = [make(row=encode_key(key), columns=columns, storeLimit=limit) for key in with_qualifiers.row_keys]
            by_table.append((with_qualifiers.table, others))
        parts = [
            (self.name(of), some[at : at + GETS_A_CALL])
            for of, some in by_table
            for at in range(0, len(some), GETS_A_CALL)
        ]
        replies = self._client.in_parallel(lambda part: self._client.get_many(*part), parts)
        results = iter([cells for part in replies for cells in part])
        rows = [
            select_cells(table, [cell for _ in of_row for cell in next(results)], spec)
            for of_row, (_, spec) in zip(gets, reads, strict=True)
        ]
        return rows, [[decode_key(cell.qualifier) for cell in cells] for cells in results]

    def read_ahead(
        self, table: str, reads: Sequence[tuple[bytes, ReadSpec]], with_qualifiers: FirstQualifiers | None = None
    ) -> None:
        """Read many rows in few calls: they answer reads of the same thread until it calls `forget_ahead`.

        Args:
            table: of the rows.
            reads: row keys and specs for `read_row`; a spec of only one timestamp also answers its parts.
            with_qualifiers: rows to read in the same calls, for `qualifiers_of_rows`.
        """
        self._check(table)
        missing = [read for read in dict.fromkeys(reads) if self._ahead.get(table, *read) is None]
        rows, qualifiers = self._read_together(table, missing, with_qualifiers)
        for (row_key, spec), cells in zip(missing, rows, strict=True):
            self._ahead.put(table, row_key, spec, cells)
        if with_qualifiers is not None:
            cached = self._ahead.qualifiers(with_qualifiers.table, with_qualifiers.limit)
            cached.update(zip(with_qualifiers.row_keys, qualifiers, strict=True))

    def drop_ahead(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Drop what was read ahead of rows, given by table and row key."""
        self._ahead.drop(rows)

    def forget_ahead(self) -> None:
        """Drop all that was read ahead."""
        self._ahead.clear()

    def newest(self, table: str, row_key: bytes, family: str, qualifier: bytes) -> Cell | None:
        self._client.check_open()
        check_not_bare(table)
        cached = self._ahead.get(table, row_key, ReadSpec((family,), qualifier, versions=1))
        if cached is not None:
            return next((cell for cell in cached if cell.qualifier == qualifier), None)
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
        cached = self._ahead.qualifiers(table, limit)
        missing = [row_key for row_key in row_keys if row_key not in cached]
        qualifiers = self._read_together(table, [], FirstQualifiers(table, missing, limit))[1] if missing else []
        read = dict(zip(missing, qualifiers, strict=True))
        return [cached[row_key] if row_key in cached else read[row_key] for row_key in row_keys]

    def value_at(self, table: str, row_key: bytes, family: str, qualifier: bytes, timestamp: int) -> bytes | None:
        check_not_bare(table)
        cells = self.read_row(table, row_key, ReadSpec((family,), qualifier, timestamp, timestamp + 1))
        return next((cell.value for cell in cells if cell.qualifier == qualifier), None)

    def absent_rows(self, table: str, row_keys: Iterable[bytes]) -> set[bytes]:
        """The rows that do not exist."""
        self._check(table)
        keys = list(row_keys)
        make = messages()
        columns = [make.TColumn(family=family) for family in data_families(table)]
        gets = [make.TGet(row=encode_key(row_key), columns=columns) for row_key in keys]
        exist = self._client.exist(self.name(table), gets)
        return {row_key for row_key, exists in zip(keys, exist, strict=True) if not exists}

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
                if counts[row] > 1 or len(cells) >= SCANNED_CELLS:  # a row in parts: the last one may be missing
                    yield from self._scan_row(table, row_key, spec)
                    continue
                selected = select_cells(table, cells, spec._replace(cell_limit=None))
                if selected:
                    yield limited(row_key, selected, spec.cell_limit)
            if len(parts) < SCANNED_ROWS:
                return
            first = next(reversed(rows)) + b"\x00"

    def _scan_row(self, table: str, row_key: bytes, spec: ReadSpec) -> Iterator[ScannedRow]:
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
        for table, sized_puts in puts.items():
            sized_puts.sort(key=lambda sized: sized[0].row)  # a region syncs its log once for each call that reaches it
            for batch in batches(sized_puts, lambda sized: sized[1], PUTS_A_CALL, BYTES_A_CALL):
                batch_bytes = sum(put_bytes for _, put_bytes in batch)
                calls.append(partial(self._client.put_many, self.name(table), [put for put, _ in batch], batch_bytes))
        self._client.in_parallel(lambda call: call(), calls)

    def _mutate(self, table: str, row: bytes, mutations: Sequence[Mutation], level: int) -> None:
        """Apply the mutations of one row, some of which delete."""
        deletes_row = any(isinstance(mutation, DeleteRow) for mutation in mutations)
        if not (_changes_records(table, mutations) or (deletes_row and WRITERS in self._families(table))):
            parts = self._parts(table, row, mutations, level)
            if parts:
                self._client.mutate_row(self.name(table), thrift.row_mutations(row, parts))
            return
        is_applied = False
        while not is_applied:
            generation = self.generation(table, row)
            is_applied = self.change_row(table, row, generation, self._parts(table, row, mutations, level), level)

    def generation(self, table: str, row: bytes) -> bytes | None:
        """The generation of a row, by its key in HBase; None if its capture records were never changed."""
        return self._writers_cell(table, row, GENERATION)

    def change_row(
        self, table: str, row: bytes, generation: bytes | None, parts: list[Any], level: int | None = None
    ) -> bool:
        """Apply puts and deletes to a row if it still has a generation, and change the generation.

        Returns:
            Whether they are applied; if not, none of them is or will be.
        """
        cell = new_generation()
        changed = thrift.row_mutations(row, [*parts, thrift.put(row, [cell], level)])
        current = generation
        while current == generation:
            with suppress(Unknown):  # the next try has the same condition
                if self._client.check_and_mutate(self.name(table), (WRITERS, GENERATION), generation, changed):
                    return True
            current = self.generation(table, row)
        return current == cell.value

    def _families(self, table: str) -> tuple[bytes, ...]:
        return (*data_families(table), *(() if table in BARE_TABLES else (WRITERS,)))

    def _writers_cell(self, table: str, row: bytes, column: bytes) -> bytes | None:
        make = messages()
        get = make.TGet(row=row, columns=[make.TColumn(family=WRITERS, qualifier=column)])
        cells = self._client.get_many(self.name(table), [get])[0]
        return cells[0].value if cells else None

    def _parts(self, table: str, row: bytes, mutations: Sequence[Mutation], level: int | None) -> list[Any]:
        """Puts and deletes with the effect of the mutations applied in order."""
        if all(isinstance(mutation, DeleteRow) for mutation in mutations):
            return [thrift.delete_families(row, data_families(table), level)] if mutations else []
        if all(type(mutation) is SetCell for mutation in mutations):
            cells = _puts(table, mutations)
            return [thrift.put(row, cells, level)] if cells else []
        stored = self._stored_keys(table, row, mutations)
        kept: dict[tuple[bytes, bytes, int], bytes] = {}
        gone: set[tuple[bytes, bytes, int]] = set()
        for mutation in mutations:
            if isinstance(mutation, SetCell):
                cell = encode_cell(table, *mutation)
                kept[cell[:3]] = cell.value
                gone.discard(cell[:3])
                continue
            for cell_key in [*stored, *kept]:
                if _deletes(table, mutation, cell_key):
                    kept.pop(cell_key, None)
                    gone.add(cell_key)
        parts = []
        if deleted := sorted(gone & stored):
            parts.append(thrift.delete_versions(row, deleted, level))
        if kept:
            parts.append(thrift.put(row, [HBaseCell(*cell_key, value) for cell_key, value in kept.items()], level))
        return parts

    def _stored_keys(self, table: str, row: bytes, mutations: Sequence[Mutation]) -> set[tuple[bytes, bytes, int]]:
        """Family, qualifier and timestamp of the stored cells that the mutations may delete."""
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
        wanted = [named for (family, column), named in columns.items() if column is None or family not in whole]
        get = make.TGet(row=row, columns=wanted, maxVersions=ALL_VERSIONS, filterString=b"KeyOnlyFilter()")
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
        """Apply `then` if the condition is true, else `otherwise`, atomically; returns whether it was true."""
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
        """Apply mutations on a condition; a token written with them shows whether an unanswered write was applied."""
        token = os.urandom(8)
        parts = self._parts(table, row, mutations, level)
        has_token = table not in BARE_TABLES
        if has_token:
            parts.append(thrift.put(row, [HBaseCell(WRITERS, self._token_column, WRITERS_AT, token)], level))
        changed = thrift.row_mutations(row, parts)
        try:
            applied = self._client.check_and_mutate(self.name(table), column, expected, changed, equal=equal)
        except Unknown as error:
            if has_token and self._writers_cell(table, row, self._token_column) == token:
                return True
            raise CommitUnknown(
                f"whether a conditional write was applied is not known ({error}); read the row"
            ) from error
        return applied or (has_token and self._writers_cell(table, row, self._token_column) == token)

    # --- the rest

    def compact_deleted(self) -> None:
        """Do nothing: HBase compacts by itself."""

    def approximate_bytes(self, table: str, start: bytes = b"", end: bytes | None = None) -> int:
        """Add up the lengths of keys and values by a scan, without HBase's own compression."""
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
        """Do nothing: HBase compacts by itself, and Thrift2 has no call for it."""
        self._check(table)

    def close(self) -> None:
        self._client.close()

    def _check(self, table: str) -> None:
        self._client.check_open()
        check_table(table)


def _puts(table: str, mutations: Iterable[Mutation]) -> list[HBaseCell]:
    """Cells to put; of several with the same key the last."""
    cells: dict[tuple[bytes, bytes, int], HBaseCell] = {}
    for mutation in mutations:
        assert isinstance(mutation, SetCell)
        cell = encode_cell(table, *mutation)
        cells[cell[:3]] = cell
    return list(cells.values())


def _changes_records(table: str, mutations: Sequence[Mutation]) -> bool:
    return table == "pages" and any(
        not isinstance(mutation, DeleteRow) and mutation.family == CAPTURE_FAMILY for mutation in mutations
    )


def new_generation() -> HBaseCell:
    """A cell with a new generation, to write with each change of a row's capture records."""
    return HBaseCell(WRITERS, GENERATION, WRITERS_AT, os.urandom(8))


def _size_bytes(row: bytes, cells: Sequence[HBaseCell]) -> int:
    return sum(len(row) + len(cell.qualifier) + len(cell.value) + 24 for cell in cells)


def _deletes(table: str, mutation: Mutation, cell_key: tuple[bytes, bytes, int]) -> bool:
    """Whether a mutation deletes the cell with a key."""
    family, column, timestamp = cell_key
    if isinstance(mutation, DeleteRow):
        return True
    if isinstance(mutation, DeleteFamily):
        return table in BARE_TABLES or column.startswith(mutation.family.encode() + FAMILY_END)
    assert isinstance(mutation, DeleteCells)
    if encode_column(table, mutation.family, mutation.qualifier) != (family, column):
        return False
    (cell,) = decode_cells(table, [HBaseCell(family, column, timestamp, b"\xff")])
    return (mutation.since or 0) <= cell.timestamp and (mutation.until is None or cell.timestamp < mutation.until)
