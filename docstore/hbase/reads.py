"""Reads of rows as HBase is asked for them, and what a thread has read ahead.

Knows the filters of HBase and the coding of cells; calls nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any, Final

from docstore.hbase import thrift2
from docstore.hbase.coding import (
    both,
    column_filter,
    data_families,
    decode_cells,
    encode_column,
    encode_timestamp,
    filter_call,
)
from docstore.hbase.thrift2 import HBaseCell, messages
from docstore.model.format import BARE_TABLES
from docstore.model.types import Cell, Position, ReadSpec
from docstore.storage.engine import ScannedRow

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
    made = []
    if spec.after is None:
        wanted = [
            family
            for family in data_families(table)
            if column_filter(table, family, spec.families, spec.qualifier_prefix) is not None
        ]
        if not wanted:
            return []
        columns = column_filter(table, None, spec.families, spec.qualifier_prefix)
        return [
            make.TGet(
                row=row,
                columns=[make.TColumn(family=family) for family in wanted],
                timeRange=times,
                maxVersions=versions,
                filterString=both(columns or b"", keys_only),
                storeLimit=limit,
            )
        ]
    for family in data_families(table):
        columns = column_filter(table, family, spec.families, spec.qualifier_prefix)
        if columns is None:
            continue
        column = _column_in(table, family, spec.after)
        if column is not None and spec.after.timestamp > 0:  # older versions of the column itself
            made.append(_older(row, family, column, spec.after, times, spec, limit, keys_only))
        name = encode_column(table, spec.after.family, spec.after.qualifier)[1]
        columns = both(columns, _columns_behind(name)) or b""
        made.append(
            make.TGet(
                row=row,
                columns=[make.TColumn(family=family)],
                timeRange=times,
                maxVersions=versions,
                filterString=both(columns, keys_only),
                storeLimit=limit,
            )
        )
    return [one for one in made if one is not None]


class Ahead(threading.local):
    """What a thread has read ahead."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, bytes, ReadSpec], list[Cell]] = {}
        self._qualifiers: dict[tuple[str, int], dict[bytes, list[bytes]]] = {}

    def get(self, table: str, row_key: bytes, spec: ReadSpec) -> list[Cell] | None:
        """The cells that a spec asks for; None where they were not read ahead."""
        if not self._rows:
            return None
        held = self._rows.get((table, row_key, spec))
        if held is None and _is_of_one_version(spec):
            whole = self._rows.get((table, row_key, whole_version(spec)))
            if whole:  # what was not there then may be there now
                return [
                    cell._replace(value=b"") if spec.keys_only else cell
                    for cell in whole
                    if (spec.families is None or cell.family in spec.families)
                    and cell.qualifier.startswith(spec.qualifier_prefix)
                ]
        return held

    def is_partial(self, spec: ReadSpec) -> bool:
        """Whether a part of a version is asked for by a thread that reads ahead: its other parts are asked for next."""
        return bool(self._rows) and spec.families is not None and _is_of_one_version(spec)

    def put(self, table: str, row_key: bytes, spec: ReadSpec, cells: list[Cell]) -> None:
        """Hold the answer to a read."""
        self._rows[table, row_key, spec] = cells

    def qualifiers(self, table: str, limit: int) -> dict[bytes, list[bytes]]:
        """The first qualifiers of rows of a bare table, by row key; to be added to."""
        return self._qualifiers.setdefault((table, limit), {})

    def drop(self, rows: Iterable[tuple[str, bytes]]) -> None:
        """Forget some rows, given by table and row key."""
        dropped = set(rows)
        self._rows = {name: cells for name, cells in self._rows.items() if name[:2] not in dropped}
        for (table, _), held in self._qualifiers.items():
            for other, row_key in dropped:
                if other == table:
                    held.pop(row_key, None)

    def clear(self) -> None:
        """Forget all."""
        self._rows = {}
        self._qualifiers = {}


def _is_of_one_version(spec: ReadSpec) -> bool:
    return spec.end == spec.start + 1 and spec.cell_limit is None and spec.after is None


def whole_version(spec: ReadSpec) -> ReadSpec:
    """All of the version that a spec asks for a part of."""
    return ReadSpec(start=spec.start, end=spec.end)


def time_range(table: str, spec: ReadSpec) -> Any:
    """The time range of a spec in HBase; None where it is empty."""
    if table in BARE_TABLES:
        inside = spec.start == 0 and (spec.end is None or spec.end > 0)
        return messages().TTimeRange(minStamp=0, maxStamp=1) if inside else None
    last = thrift2.NEWEST if spec.end is None else min(spec.end, thrift2.NEWEST)
    first = min(spec.start, thrift2.NEWEST)
    if first == thrift2.NEWEST == spec.start:  # the last timestamp, which lies one lower
        first = thrift2.NEWEST - 1
    elif last == thrift2.NEWEST == spec.end:  # without it
        last = thrift2.NEWEST - 1
    return (
        messages().TTimeRange(minStamp=first, maxStamp=last) if first < last and spec.start <= thrift2.NEWEST else None
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
    if limit is None or len(cells) <= limit:
        return ScannedRow(row_key, cells, False)
    return ScannedRow(row_key, cells[:limit], True)
