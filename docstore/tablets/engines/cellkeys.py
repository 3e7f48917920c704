"""Encoding cells as sorted keys, and reading rows from a sorted stream of keys.

Native code reads the rows of tables with cells (native/python/src/rows.rs).

cell of a table            table tag, escaped row key, KEY_KIND_CELL, family, FAMILY_END, escaped qualifier,
                           inverted timestamp; the value is the cell's
qualifier of a bare table  table tag, escaped row key, qualifier; no value
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from threading import Lock
from typing import Any

from docstore.compiled import docstore_native
from docstore.model.format import (
    BARE_TABLES,
    FAMILY_END,
    KEY_END,
    KEY_ESCAPE,
    KEY_KIND_CELL,
    TABLE_TAGS,
    TIMESTAMP_MAX,
)
from docstore.model.types import Cell, DeleteCells, DeleteFamily, Mutation, ReadSpec
from docstore.storage.engine import ScannedRow, check_family

TAGS = {table: bytes((tag,)) for table, tag in TABLE_TAGS.items()}
CELL_KIND = bytes((KEY_KIND_CELL,))

LEAST_DELETES = 4096
"""With fewer tombstones in a table a compaction is not worth it."""
REWRITTEN_BYTES_A_DELETE = 2048
"""Most bytes of tables rewritten for each deleted key: about ten times a key with its value."""


escape = docstore_native.escape
"""Encode bytes so that encodings sort as the bytes do and no encoding is a prefix of another."""
row_key_of = docstore_native.row_key_of
"""Decode the row key of a row prefix."""
prefix_length = docstore_native.prefix_length
"""Length of the row prefix of a key, which ends with the first KEY_END."""


def encode_timestamp(timestamp: int) -> bytes:
    """Encode microseconds as 8 bytes that sort newest first."""
    return (TIMESTAMP_MAX - timestamp).to_bytes(8, "big")


def decode_timestamp(source: bytes, offset: int = 0) -> int:
    """Decode the 8 bytes of `encode_timestamp`."""
    return TIMESTAMP_MAX - int.from_bytes(source[offset : offset + 8], "big")


class FamilyKeys(dict[str, bytes]):
    """The encoded name of each family, checked and cached at its first write."""

    def __missing__(self, family: str) -> bytes:
        check_family(family)
        key = self[family] = family.encode() + FAMILY_END
        return key


def row_prefix(table: str, row_key: bytes) -> bytes:
    """The prefix of all keys of a row."""
    return TAGS[table] + escape(row_key)


@lru_cache(maxsize=256)
def column_head(family: str, qualifier: bytes) -> bytes:
    """The part of a cell's key between row prefix and timestamp; cached, because the same few are read."""
    return CELL_KIND + family.encode() + FAMILY_END + escape(qualifier)


def absent_rows(cursor: Any, prefixes: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """Of rows, given by prefix and row key, those without keys; fastest with sorted prefixes.

    Raises:
        StopIteration: the end key is missing, so data is lost.
    """
    absent = set()
    for prefix, row_key in prefixes:
        cursor.seek(prefix)
        if not cursor.valid():
            raise StopIteration
        if not cursor.key().startswith(prefix):
            absent.add(row_key)
    return absent


def range_end(prefix: bytes) -> bytes:
    """The exclusive end of all keys with a prefix, whose last byte is not ff (tags, kinds, ends)."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def prefix_end(prefix: bytes) -> bytes:
    """The exclusive end of all byte strings with a prefix, which has a byte below ff."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,))


def table_range(table: str, start: bytes, end: bytes | None) -> tuple[bytes, bytes]:
    """Encode a range of row keys as a range of keys."""
    tag = TAGS[table]
    return tag + escape(start) if start else tag, range_end(tag) if end is None else tag + escape(end)


def deleted_range(prefix: bytes, mutation: Mutation, bare: bool) -> tuple[bytes, bytes]:
    """The range of keys that a delete covers in one row; empty if its end is not above its start."""
    if bare:
        if isinstance(mutation, DeleteCells):
            key = prefix + mutation.qualifier
            covers = (mutation.since or 0) <= 0 and (mutation.until is None or mutation.until > 0)
            return key, key + b"\x00" if covers else key
        return prefix, range_end(prefix)
    cells = prefix + CELL_KIND
    if isinstance(mutation, DeleteCells):
        column = cells + mutation.family.encode() + FAMILY_END + escape(mutation.qualifier)
        low = (
            column if mutation.until is None else column + encode_timestamp(min(mutation.until, TIMESTAMP_MAX + 1) - 1)
        )
        start = mutation.since or 0
        high = range_end(column) if start == 0 else column + encode_timestamp(min(start, TIMESTAMP_MAX)) + b"\x00"
        return (low, high) if mutation.until != 0 and start <= TIMESTAMP_MAX else (column, column)
    if isinstance(mutation, DeleteFamily):
        family = cells + mutation.family.encode() + FAMILY_END
        return family, range_end(family)
    return cells, range_end(cells)


class DeletedKeys:
    """Counts deleted keys by table.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._ranges: dict[bytes, tuple[bytes, bytes, int, int]] = {}  # first, last, keys, bytes, by tag of the table

    def count(self, first: bytes, last: bytes, deletes: int, deleted_bytes: int) -> None:
        """Count the keys of one table that a batch deletes: the first, the last, their number, bytes with values."""
        with self._lock:
            low, high, before, before_bytes = self._ranges.get(first[:1], (first, last, 0, 0))
            found = min(low, first), max(high, last), before + deletes, before_bytes + deleted_bytes
            self._ranges[first[:1]] = found

    def take_due(self, size_bytes: Callable[[bytes, bytes], int]) -> list[tuple[bytes, bytes]]:
        """Return the ranges to compact now, and reset their counts.

        Args:
            size_bytes: returns the bytes on disk of a range [low, high).
        Returns:
            (low, high) of each range; high is exclusive.
        """
        due = []
        with self._lock:
            for tag, (first, last, deletes, _) in list(self._ranges.items()):
                high = last + b"\x00"
                if deletes >= LEAST_DELETES and size_bytes(first, high) <= deletes * REWRITTEN_BYTES_A_DELETE:
                    del self._ranges[tag]
                    due.append((first, high))
        return due

    def heavy(self, least_bytes: int) -> list[tuple[bytes, bytes]]:
        """(low, high) of the ranges with so many deleted bytes; high is exclusive."""
        with self._lock:
            return [(first, last + b"\x00") for first, last, _, size in self._ranges.values() if size >= least_bytes]


def row_reader(spec: ReadSpec) -> tuple[docstore_native.RowReader, bytes | None]:
    """A native reader of rows by a read spec, and where among the cells of a row the first is that the spec can select.

    The place is None if the spec selects nothing.
    """
    newest = b"" if spec.until is None else encode_timestamp(min(spec.until - 1, TIMESTAMP_MAX))
    oldest = encode_timestamp(min(spec.since, TIMESTAMP_MAX))
    prefix, resume = spec.qualifier_prefix, b""
    parts: list[tuple[bytes, bytes | None]] = [(b"", None)]
    if spec.families is not None:
        escaped = prefix.replace(b"\x00", KEY_ESCAPE)
        lows = sorted(family.encode() + FAMILY_END + escaped for family in set(spec.families))
        # Column b"" is the first of a family: skip its versions that are too new.
        skip = KEY_END + newest if newest and not prefix else b""
        parts, prefix = [(low + skip, prefix_end(low)) for low in lows], b""
    if spec.after is not None:
        family, qualifier, timestamp = spec.after
        column = family.encode() + FAMILY_END + escape(qualifier)
        start = column + encode_timestamp(timestamp) + b"\x00"
        if spec.versions is not None:
            resume, start = start, column  # versions are counted from the start of the column
        parts = [(max(low, start), high) for low, high in parts if high is None or high > start]
    if spec.until == 0 or spec.since > TIMESTAMP_MAX:
        parts = []
    times, types = (newest, oldest), (Cell, ScannedRow)
    reader = docstore_native.RowReader(
        parts, times, prefix, resume, spec.versions, spec.cell_limit, spec.keys_only, types
    )
    return reader, parts[0][0] if parts else None


# --- bare tables

TAKE_FIRST = 16
TAKE_MOST = 1024
"""Keys read at a time: few first, because most rows are short; then more, because most scans are long."""


def selects_nothing(table: str, spec: ReadSpec) -> bool:
    """Whether a spec selects no cell of a bare table: it has another family, or a time range without 0."""
    other_family = spec.families is not None and BARE_TABLES[table] not in spec.families
    return other_family or spec.since > 0 or spec.until == 0


def row_range(table: str, row_key: bytes, spec: ReadSpec) -> tuple[bytes, bytes]:
    """The range of keys of one row that a spec selects; empty if its end is not above its start."""
    prefix = row_prefix(table, row_key)
    stop = prefix_end(prefix + spec.qualifier_prefix)
    if selects_nothing(table, spec):
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
    family, skip = BARE_TABLES[table], len(row_prefix(table, row_key))
    return [Cell(family, key[skip:], 0, b"") for key in keys]


def scan_rows(
    take: Callable[[bytes, int], list[bytes]], table: str, low: bytes, high: bytes, spec: ReadSpec
) -> Iterator[ScannedRow]:
    """Rows of a range of keys.

    Args:
        take: returns keys of the range from a key on, up to a number; none at its end.
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
                    yield ScannedRow(row_key_of(prefix), cells, truncated)
                skip = prefix_length(key)
                prefix = key[:skip]
                cells, truncated = [], False
            qualifier = key[skip:]
            if qualifier.startswith(wanted):
                if limit is not None and len(cells) == limit:
                    truncated = True
                else:
                    cells.append(new_cell(Cell, (family, qualifier, 0, b"")))
        low = range_end(prefix) if truncated else keys[-1] + b"\x00"
        chunk = min(chunk * 4, TAKE_MOST)
    if cells:
        yield ScannedRow(row_key_of(prefix), cells, truncated)


def take_keys(db: Any, start: bytes, stop: bytes, limit: int | None) -> list[bytes]:
    """The first `limit` keys of a range, read in growing chunks."""
    keys: list[bytes] = []
    if start >= stop:
        return keys
    chunk = TAKE_FIRST
    with db.iterator(start=start, include_value=False, verify_checksums=True) as stream:
        while limit is None or len(keys) < limit:
            chunk_keys = list(islice(stream, chunk if limit is None else min(chunk, limit - len(keys))))
            if not chunk_keys:
                raise StopIteration
            keys += chunk_keys
            if chunk_keys[-1] >= stop:
                del keys[bisect_left(keys, stop) :]
                break
            chunk = min(chunk * 4, TAKE_MOST)
    return keys
