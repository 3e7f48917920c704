"""Captures that are lost, found at open: dropped, and listed until they are acknowledged.

This reads all rows, and runs only if bytes of committed rows are missing: after power loss at a durability below
`sync`, or if files were truncated or removed.

A capture with one lost value is dropped as a whole, with the visits that confirm it and its later columns.  A delta is
lost with its base or body.  Each drop is recorded in the same batch.  The next compaction prunes the postings.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence

import msgpack

from docstore.model.choices import Durability
from docstore.model.format import CAPTURE_FAMILY, CODEC_ZSTD_BODY, CODEC_ZSTD_DELTA, LOST_ROW
from docstore.model.keys import url_of
from docstore.model.plain import iso
from docstore.model.types import Cell, DeleteRow, Mutation, ReadSpec, RowMutations, SetCell
from docstore.storage.bases import BaseRows, freed_row
from docstore.storage.captures import sound_records
from docstore.storage.engine import Engine, delete_of
from docstore.storage.table import PAGES, is_later
from docstore.storage.unreadable import RESTORE, Finding, shown_column
from docstore.storage.values import parse_cell_value
from docstore.tablets.manifest import Manifest
from docstore.tablets.record import body_place, decode_ref, encode_ref
from docstore.tablets.segment import Recovery, ValueLog

BATCH_ROWS = 256
_META = "meta"
_FAMILY = "m"
_VERSION = b"version"
_COMMITS = b"commits"
_REBUILD = b"rebuild"
"""Prefixes of the qualifiers of LOST_ROW."""
ACKNOWLEDGE = "then `docstore check --acknowledge`"
SALVAGE_MISSING = "`docstore tool salvage` takes bodies and texts of lost rows from the records"
RESTORE_ALL = "restore a backup, or fetch the missing pages again"


# --- the list


def losses(engine: Engine) -> tuple[Finding, ...]:
    """Dropped captures, oldest first, then lost commits and rebuilds, that are not acknowledged."""
    found = []
    for cell in engine.read_row(_META, LOST_ROW, ReadSpec(qualifier_prefix=_VERSION)):
        timestamp, row_key, columns, opened = msgpack.unpackb(cell.value)
        url, column = url_of(row_key), ", ".join(columns)
        what = f"bytes of {column} were missing at open ({iso(opened)}); the capture was dropped"
        found.append(Finding(f"{url} @{timestamp}", what, f"{RESTORE}; {ACKNOWLEDGE}", url, column, timestamp))
    for cell in engine.read_row(_META, LOST_ROW, ReadSpec(qualifier_prefix=_COMMITS)):
        first, last, opened = msgpack.unpackb(cell.value)
        what = f"the rows of commits {first} to {last} are lost: LevelDB's files were cut or replaced"
        found.append(Finding("engine", f"{what} (found {iso(opened)})", f"{RESTORE_ALL}; {ACKNOWLEDGE}"))
    for cell in engine.read_row(_META, LOST_ROW, ReadSpec(qualifier_prefix=_REBUILD)):
        what = "LevelDB was rebuilt: rows may be lost, or be as they were before their last change"
        found.append(
            Finding("engine", f"{what} ({iso(msgpack.unpackb(cell.value))})", f"{SALVAGE_MISSING}; {ACKNOWLEDGE}")
        )
    return tuple(found)


def rebuilt() -> RowMutations:
    """The row that records a rebuild of LevelDB."""
    now = _now()
    return RowMutations(_META, LOST_ROW, [SetCell(_FAMILY, _REBUILD + now.to_bytes(8, "big"), 0, msgpack.packb(now))])


def acknowledge(engine: Engine) -> None:
    """Clear the list."""
    engine.mutate_rows([RowMutations(_META, LOST_ROW, [DeleteRow()])], Durability.SYNC)


def record_lost_commits(engine: Engine, manifest: Manifest, last: int) -> None:
    """Record that commits are lost, and continue with the numbers after them."""
    first = manifest.group + 1
    cell = SetCell(_FAMILY, _COMMITS + first.to_bytes(8, "big"), 0, msgpack.packb((first, last, _now())))
    # The counters go last: after them the loss is not detected again.
    engine.mutate_rows([RowMutations(_META, LOST_ROW, [cell]), manifest.resume_at(last)], Durability.SYNC)


# --- dropping


def drop_lost(engine: Engine, value_log: ValueLog, manifest: Manifest, recovery: Recovery) -> None:
    """Drop and record captures with missing bytes, or with deltas against lost bases; then drop lost bases."""
    found = _now()
    deltas: set[bytes] = set()
    """Refs of deltas against lost bases or bodies."""

    def is_lost(cell_value: bytes) -> bool:
        ref = parse_cell_value(cell_value).ref if cell_value else None
        return ref is not None and (ref in deltas or recovery.is_lost(ref))

    missing = {item.segment for item in recovery.lost if item.start == 0}.union(recovery.gone)
    for number in {item.segment for item in recovery.lost} - missing:
        for ref, record in value_log.records(number):
            if record.codec == CODEC_ZSTD_BODY and recovery.is_lost(encode_ref(*body_place(decode_ref(ref), record))):
                deltas.add(ref)
    bases = {name for name, cell_value in BaseRows(engine).scan() if is_lost(cell_value)}
    for segment in manifest.segments() if bases else ():
        for ref, record in value_log.records(segment.number) if segment.number not in missing else ():
            if record.codec == CODEC_ZSTD_DELTA and record.related in bases:
                deltas.add(ref)
    rows: list[RowMutations] = []
    for row in engine.scan(PAGES):
        rows += _drop_of_row(row.row_key, row.cells, is_lost, found)
        if len(rows) >= BATCH_ROWS:
            engine.mutate_rows(rows, Durability.SYNC)
            rows = []
    rows += map(freed_row, bases)  # last: a repeated run must find their deltas
    engine.mutate_rows(rows, Durability.SYNC)


def _drop_of_row(
    row_key: bytes, cells: Sequence[Cell], is_lost: Callable[[bytes], bool], found: int
) -> list[RowMutations]:
    """The rows that record what a row has lost, and then drop it; none if it has lost nothing."""
    lost: dict[int, list[str]] = defaultdict(list)
    drops: list[Mutation] = []
    captures: set[int] = set()
    for cell in cells:
        if cell.family != CAPTURE_FAMILY and is_lost(cell.value):
            lost[cell.timestamp].append(shown_column(cell[:2]))
            drops.append(delete_of(cell))
    for record in (records := list(sound_records(cells))):
        columns = [shown_column(column) for column, value in record.refs if is_lost(value)]
        if columns:
            captures.add(record.timestamp)
            lost[record.timestamp] += columns
    for record in records:
        if record.confirms in captures and record.timestamp not in captures:
            captures.add(record.timestamp)
            lost[record.timestamp] += lost[record.confirms]
    if not lost:
        return []
    drops += [
        delete_of(cell)
        for cell in cells
        if cell.timestamp in captures and (cell.family == CAPTURE_FAMILY or is_later(cell[:2]))
    ]
    entries = []
    for timestamp, columns in lost.items():
        value = msgpack.packb((timestamp, row_key, columns, found))
        entries.append(SetCell(_FAMILY, _VERSION + timestamp.to_bytes(8, "big") + row_key, 0, value))
    return [RowMutations(_META, LOST_ROW, entries), RowMutations(PAGES, row_key, drops)]


def _now() -> int:
    return time.time_ns() // 1000
