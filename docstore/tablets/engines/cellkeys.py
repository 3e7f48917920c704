"""How cells become sorted keys, and how rows are read back from a sorted stream of them.

A key of a table that is not bare is table tag, escaped row key, KEY_KIND_CELL, family, FAMILY_END, escaped qualifier,
inverted timestamp; its value is the cell's.  A key of a bare table is table tag, escaped row key, qualifier as it is.
Knows keys and streams of them, `Stream` and `Cursor`; must not know plyvel.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol, Self

from docstore.model.codec import decode_timestamp, encode_timestamp, escape
from docstore.model.errors import CorruptionError
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
_NO_STOP = b"\xff"
"""Sorts behind whatever follows the kind in a cell's key, since a family name is UTF-8."""
_STEPS_BEFORE_SEEK = 12
"""A seek costs about as much as so many steps (measured: 6 us to 0.5 us)."""
_REMEMBERED_COLUMNS = 256
"""Columns whose names a reader remembers decoded: rows of pages have the same ones."""


class Stream(Protocol):
    """Sorted (key, value) pairs; after `seek(target)` the next one is the first at or behind target."""

    def __next__(self) -> tuple[bytes, bytes]: ...
    def __iter__(self) -> Iterator[tuple[bytes, bytes]]: ...
    def seek(self, target: bytes, /) -> None:
        """Go to the first pair at or behind target."""


class Cursor(Protocol):
    """A place among sorted (key, value) pairs; behind the last one it is not valid."""

    def seek(self, target: bytes, /) -> None:
        """Go to the first pair at or behind target."""

    def valid(self) -> bool:
        """Whether it stands on a pair."""

    def key(self) -> bytes:
        """The key that it stands on."""

    def item(self) -> tuple[bytes, bytes]:
        """The pair that it stands on."""

    def next(self) -> None:
        """Go on to the next pair."""


class FamilyKeys(dict[str, bytes]):
    """How each family begins in a key, made and checked when it is first written."""

    def __missing__(self, family: str) -> bytes:
        check_family(family)
        key = self[family] = family.encode() + FAMILY_END
        return key


def row_prefix(table: str, row_key: bytes) -> bytes:
    """Encode what all keys of a row begin with."""
    return TAGS[table] + escape(row_key)


@lru_cache(maxsize=256)
def column_head(family: str, qualifier: bytes) -> bytes:
    """Encode what stands between row prefix and timestamp in a cell's key; remembered, for the same few are read."""
    return CELL_KIND + family.encode() + FAMILY_END + escape(qualifier)


def newest_version(cursor: Cursor, head: bytes) -> tuple[int, bytes] | None:
    """Timestamp and value of the first cell whose key is `head` and a timestamp.

    Raises:
        StopIteration: the cursor ran out, which the end key forbids: something is lost.
    """
    cursor.seek(head)
    if not cursor.valid():
        raise StopIteration
    key, value = cursor.item()
    return (decode_timestamp(key, len(head)), value) if key.startswith(head) else None


def absent_rows(cursor: Cursor, prefixes: Iterable[tuple[bytes, bytes]]) -> set[bytes]:
    """Of rows given by prefix and key, those with no key behind the prefix; cheapest with prefixes in order.

    Raises:
        StopIteration: the cursor ran out, which the end key forbids: something is lost.
    """
    absent = set()
    for prefix, row_key in prefixes:
        cursor.seek(prefix)
        if not cursor.valid():
            raise StopIteration
        if not cursor.key().startswith(prefix):
            absent.add(row_key)
    return absent


def row_key_of(prefix: bytes) -> bytes:
    """Decode the row key of a row prefix."""
    return prefix[1 : -len(KEY_END)].replace(KEY_ESCAPE, b"\x00")


def prefix_length(key: bytes) -> int:
    """Bytes of the row prefix at the head of a key: KEY_END occurs nowhere before its end."""
    end = key.find(KEY_END, 1)
    if end < 0:
        raise CorruptionError("a key without the end of its row key", found=key[:60].hex())
    return end + len(KEY_END)


def range_end(prefix: bytes) -> bytes:
    """Give the first key behind all that begin with prefix, whose last byte is never ff (tags, kinds, ends)."""
    return prefix[:-1] + bytes((prefix[-1] + 1,))


def prefix_end(prefix: bytes) -> bytes:
    """Give the first byte string behind all that begin with prefix, which holds a byte below ff."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes((kept[-1] + 1,))


def table_range(table: str, start: bytes, end: bytes | None) -> tuple[bytes, bytes]:
    """Encode a range of row keys as a range of keys."""
    tag = TAGS[table]
    return tag + escape(start) if start else tag, range_end(tag) if end is None else tag + escape(end)


def deleted_range(prefix: bytes, mutation: Mutation, bare: bool) -> tuple[bytes, bytes]:
    """Encode what a delete covers in one row as a range of keys; empty when its end is not above its start."""
    if bare:
        if isinstance(mutation, DeleteCells):
            key = prefix + mutation.qualifier
            covers = (mutation.start or 0) <= 0 and (mutation.end is None or mutation.end > 0)
            return key, key + b"\x00" if covers else key
        return prefix, range_end(prefix)
    cells = prefix + CELL_KIND
    if isinstance(mutation, DeleteCells):
        column = cells + mutation.family.encode() + FAMILY_END + escape(mutation.qualifier)
        low = column if mutation.end is None else column + encode_timestamp(min(mutation.end, TIMESTAMP_MAX + 1) - 1)
        start = mutation.start or 0
        high = range_end(column) if start == 0 else column + encode_timestamp(min(start, TIMESTAMP_MAX)) + b"\x00"
        return (low, high) if mutation.end != 0 and start <= TIMESTAMP_MAX else (column, column)
    if isinstance(mutation, DeleteFamily):
        family = cells + mutation.family.encode() + FAMILY_END
        return family, range_end(family)
    return cells, range_end(cells)


class RowReader:
    """A read spec prepared for keys: reads one row after another from a stream.

    `pair` is the pair that the stream stands on.  A stream ends in ENGINE_END_KEY, so that one that runs out has lost
    something; StopIteration then passes through to whoever owns the stream.
    """

    def __init__(self, spec: ReadSpec) -> None:
        self._limit = spec.cell_limit
        self._versions = spec.versions
        self._keys_only = spec.keys_only
        self._newest = b"" if spec.end is None else encode_timestamp(min(spec.end - 1, TIMESTAMP_MAX))
        self._oldest = encode_timestamp(min(spec.start, TIMESTAMP_MAX))
        self._nothing = spec.end == 0 or spec.start > TIMESTAMP_MAX
        prefix = spec.qualifier_prefix
        self._filter = prefix if spec.families is None else b""
        self._parts: list[tuple[bytes, bytes]]
        if spec.families is None:
            self._parts = [(b"", _NO_STOP)]
        else:
            escaped = prefix.replace(b"\x00", KEY_ESCAPE)
            lows = sorted(family.encode() + FAMILY_END + escaped for family in set(spec.families))
            # Column b"" is a family's first: its versions that are too new are passed by without a look at them.
            skip = KEY_END + self._newest if self._newest and not prefix else b""
            self._parts = [(low + skip, prefix_end(low)) for low in lows]
        self._resume = b""
        if spec.after is not None:
            family, qualifier, timestamp = spec.after
            column = family.encode() + FAMILY_END + escape(qualifier)
            place = column + encode_timestamp(timestamp) + b"\x00"
            if spec.versions is not None:
                self._resume, place = place, column  # versions are counted from the head of the column
            self._parts = [(max(low, place), high) for low, high in self._parts if high > place]
        self._families: dict[bytes, str] = {}
        self._columns: dict[bytes, tuple[str, bytes]] = {}
        self.pair = (b"", b"")

    def first_key(self, cells: bytes) -> bytes | None:
        """Encode the first key of a row that may be wanted; None when none may be."""
        return None if self._nothing or not self._parts else cells + self._parts[0][0]

    def advance_to(self, stream: Stream, target: bytes) -> None:
        """Move on to the first pair at or behind target: a few steps, then a seek."""
        pair = self.pair
        for _ in range(_STEPS_BEFORE_SEEK):
            if pair[0] >= target:
                self.pair = pair
                return
            pair = next(stream)
        if pair[0] < target:
            stream.seek(target)
            pair = next(stream)
        self.pair = pair

    def read(self, stream: Stream, cells: bytes) -> tuple[list[Cell], bool]:
        """Cells of the row whose keys begin with `cells`, and whether the cell limit cut some off."""
        out: list[Cell] = []
        if self._nothing:
            return out, False
        skip = len(cells)
        newest, oldest, versions, limit = self._newest, self._oldest, self._versions, self._limit
        row_end, resume, columns = range_end(cells), self._resume, self._columns
        new_cell = tuple.__new__
        for low, high in self._parts:
            if self.pair[0] < cells + low:
                self.advance_to(stream, cells + low)
            stop = row_end if high == _NO_STOP else cells + high
            column = b""
            family, qualifier, seen = "", b"", 0
            wanted = True
            pair = self.pair
            while pair[0] < stop:
                key, value = pair
                name = key[skip:-8]
                if name != column:
                    column = name
                    family, qualifier = columns.get(name) or self._column(name)
                    seen = 0
                    wanted = qualifier.startswith(self._filter)
                stamp = key[-8:]
                if not wanted or stamp > oldest or seen == versions:
                    self.pair = pair
                    self.advance_to(stream, key[:-9] + b"\x02")
                    pair = self.pair
                    continue
                if stamp < newest:
                    self.pair = pair
                    self.advance_to(stream, key[:-8] + newest)
                    pair = self.pair
                    continue
                if key[skip:] >= resume:
                    if limit is not None and len(out) == limit:
                        self.pair = pair
                        return out, True
                    timestamp = TIMESTAMP_MAX - int.from_bytes(stamp, "big")
                    content = b"" if self._keys_only else value
                    out.append(new_cell(Cell, (family, qualifier, timestamp, content)))
                seen += 1
                pair = next(stream)
            self.pair = pair
        return out, False

    def _column(self, column: bytes) -> tuple[str, bytes]:
        end = column.find(FAMILY_END)
        if end < 0 or column[-2:] != KEY_END:
            raise CorruptionError("a key that holds no column", found=column[:60].hex())
        name = column[:end]
        family = self._families.get(name)
        if family is None:
            family = self._families[name] = name.decode()
        qualifier = column[end + 1 : -2]
        found = family, qualifier.replace(KEY_ESCAPE, b"\x00") if b"\x00" in qualifier else qualifier
        if len(self._columns) < _REMEMBERED_COLUMNS:
            self._columns[column] = found
        return found

    def start(self, stream: Stream) -> Self:
        """Stand on the stream's next pair."""
        self.pair = next(stream)
        return self


# --- bare tables

TAKE_FIRST = 16
TAKE_MOST = 1024
"""Keys read at a time: few first, because most rows are short; then more, because most scans are long."""


def holds_nothing(table: str, spec: ReadSpec) -> bool:
    """Whether no cell of a bare table can be one of the spec: another family, or a time range without 0."""
    other_family = spec.families is not None and BARE_TABLES[table] not in spec.families
    return other_family or spec.start > 0 or spec.end == 0


def row_range(table: str, row_key: bytes, spec: ReadSpec) -> tuple[bytes, bytes]:
    """Encode what a spec asks of one row as a range of keys; empty when its end is not above its start."""
    prefix = row_prefix(table, row_key)
    stop = prefix_end(prefix + spec.qualifier_prefix)
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
    family, skip = BARE_TABLES[table], len(row_prefix(table, row_key))
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
