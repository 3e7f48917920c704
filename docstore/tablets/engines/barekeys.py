"""How rows of a bare table become sorted keys, and how they are read back: table tag, escaped row key, qualifier.

Knows `format`, `cellkeys` and `model`.  Must not know plyvel: whoever calls gives keys, or a database.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from docstore.model.format import BARE_TABLES
from docstore.model.types import Cell, ReadSpec
from docstore.storage.engine import ScannedRow
from docstore.tablets.engines import cellkeys

TAKE_FIRST = 16
TAKE_MOST = 1024
"""Keys read at a time: few first, because most rows are short; then more, because most scans are long."""


def holds_nothing(table: str, spec: ReadSpec) -> bool:
    """Whether no cell of a bare table can be one of the spec: another family, or a time range without 0."""
    other_family = spec.families is not None and BARE_TABLES[table] not in spec.families
    return other_family or spec.start > 0 or spec.end == 0


def row_range(table: str, row_key: bytes, spec: ReadSpec) -> tuple[bytes, bytes]:
    """Encode what a spec asks of one row as a range of keys; empty when its end is not above its start."""
    prefix = cellkeys.row_prefix(table, row_key)
    stop = cellkeys.prefix_end(prefix + spec.qualifier_prefix)
    if holds_nothing(table, spec):
        return stop, stop
    first = prefix + spec.qualifier_prefix
    if spec.after is not None:
        family, qualifier, timestamp = spec.after
        if family > BARE_TABLES[table]:
            return stop, stop
        if family == BARE_TABLES[table]:
            first = max(first, prefix + qualifier + (b"" if timestamp > 0 else b"\x00"))
    return first, stop


def row_cells(table: str, row_key: bytes, keys: list[bytes]) -> list[Cell]:
    """Decode keys of one row."""
    family, skip = BARE_TABLES[table], len(cellkeys.row_prefix(table, row_key))
    return [Cell(family, key[skip:], 0, b"") for key in keys]


def scan_rows(
    take: Callable[[bytes, int], list[bytes]], table: str, low: bytes, high: bytes, spec: ReadSpec
) -> Iterator[ScannedRow]:
    """Rows of a range of keys.

    Args:
        take: gives at most so many keys of the range from the given one on; none at its end.
        table: a bare one.
        low, high: the range.
        spec: of the scan.
    """
    family, wanted, limit = BARE_TABLES[table], spec.qualifier_prefix, spec.cell_limit
    prefix, skip = b"", 0
    cells: list[Cell] = []
    truncated = False
    new_cell = tuple.__new__
    chunk = TAKE_FIRST
    while low < high and (keys := take(low, chunk)):
        for key in keys:
            if not prefix or not key.startswith(prefix):
                if cells:
                    yield ScannedRow(cellkeys.row_key_of(prefix), cells, truncated)
                skip = cellkeys.prefix_length(key)
                prefix = key[:skip]
                cells, truncated = [], False
            qualifier = key[skip:]
            if qualifier.startswith(wanted):
                if limit is not None and len(cells) == limit:
                    truncated = True
                else:
                    cells.append(new_cell(Cell, (family, qualifier, 0, b"")))
        low = cellkeys.range_end(prefix) if truncated else keys[-1] + b"\x00"
        chunk = min(chunk * 4, TAKE_MOST)
    if cells:
        yield ScannedRow(cellkeys.row_key_of(prefix), cells, truncated)


def take_keys(db: Any, start: bytes, stop: bytes, limit: int | None) -> list[bytes]:
    """The first `limit` keys of a range, in growing chunks that end behind it or at the limit."""
    found: list[bytes] = []
    if start >= stop:
        return found
    chunk = TAKE_FIRST
    with db.iterator(start=start, include_value=False, verify_checksums=True) as stream:
        while limit is None or len(found) < limit:
            chunk_keys = list(islice(stream, chunk if limit is None else min(chunk, limit - len(found))))
            if not chunk_keys:
                raise StopIteration
            found += chunk_keys
            if chunk_keys[-1] >= stop:
                del found[bisect_left(found, stop) :]
                break
            chunk = min(chunk * 4, TAKE_MOST)
    return found
