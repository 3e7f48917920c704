"""An HBase cluster in memory: it takes the calls of `docstore.cluster.client.Client` as a gateway takes them.

Knows Thrift2's messages and the filters that the engine asks for.  Deletes are gone at once, and what is put behind one
is seen, as with NEW_VERSION_BEHAVIOR.  The tests that run on it run on a real cluster too, where DOCSTORE_HBASE names
one: that is what says that it is like HBase.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

import docstore
from docstore.cluster import backend as layout
from docstore.cluster.client import NEWEST, Client, Conditional, HBaseCell, messages
from docstore.cluster.coding import KEYS_TABLE
from docstore.cluster.rowindex import KeyRows
from docstore.model.errors import StoreUnavailable
from docstore.model.types import Schema
from docstore.store import DocumentStore

Place = tuple[bytes, bytes, int]
"""Family, qualifier, minus timestamp."""
Row = dict[Place, bytes]
_TOKEN = re.compile(rb"\s*(\(|\)|,|AND\b|OR\b|true|false|=|\w+|'(?:[^']|'')*')", re.DOTALL)


class Filter(NamedTuple):
    """What a filter says: which qualifiers and values pass, what becomes of values, the first and number of columns."""

    passes: Callable[[bytes, bytes], bool]
    values: str = "whole"
    columns: tuple[int, int] = (0, NEWEST)


def parse_filter(text: bytes | None) -> Filter:
    """A filter of HBase's language, as far as the engine speaks it."""
    if not text:
        return Filter(lambda *_: True)
    tokens, at = [], 0
    while at < len(text):
        matched = _TOKEN.match(text, at)
        assert matched is not None, text[at:]
        tokens.append(matched[1])
        at = matched.end()
    found, rest = _parse(tokens)
    assert not rest, text
    return found


def _parse(tokens: list[bytes]) -> tuple[Filter, list[bytes]]:
    left, tokens = _parse_one(tokens)
    while tokens and tokens[0] in (b"AND", b"OR"):
        word = tokens[0]
        right, tokens = _parse_one(tokens[1:])
        left = _joined(left, right, every=word == b"AND")
    return left, tokens


def _joined(left: Filter, right: Filter, *, every: bool) -> Filter:
    def passes(qualifier: bytes, value: bytes) -> bool:
        both = left.passes(qualifier, value), right.passes(qualifier, value)
        return all(both) if every else any(both)

    return Filter(passes, left.values if left.values != "whole" else right.values)


def _parse_one(tokens: list[bytes]) -> tuple[Filter, list[bytes]]:
    if tokens[0] == b"(":
        inner, rest = _parse(tokens[1:])
        assert rest[0] == b")"
        return inner, rest[1:]
    name, end = tokens[0], tokens.index(b")")
    given = [one[1:-1].replace(b"''", b"'") if one[:1] == b"'" else one for one in tokens[2:end] if one != b","]
    return _filter(name, given), tokens[end + 1 :]


def _filter(name: bytes, given: list[bytes]) -> Filter:
    if name in (b"ColumnPrefixFilter", b"MultipleColumnPrefixFilter"):
        return Filter(lambda qualifier, _: qualifier.startswith(tuple(given)))
    if name == b"ColumnRangeFilter":
        assert given[2:] == [b"", b"false"]
        first, is_inclusive = given[0], given[1] == b"true"
        return Filter(lambda qualifier, _: qualifier > first or (is_inclusive and qualifier == first))
    if name == b"ValueFilter":
        assert given[0] == b"=" and given[1].startswith(b"binary:")
        wanted = given[1].removeprefix(b"binary:")
        return Filter(lambda _, value: value == wanted)
    if name == b"KeyOnlyFilter":
        return Filter(lambda *_: True, "lengths" if given == [b"true"] else "none")
    if name == b"ColumnPaginationFilter":
        return Filter(lambda *_: True, "whole", (int(given[1]), int(given[0])))
    assert name == b"FirstKeyOnlyFilter", name
    return Filter(lambda *_: True, "first")


class MemoryCluster:
    """Tables of a cluster.

    Attributes:
        before_write: called before each write, with what is written: a test may stop the process there.
        writes: made so far.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.tables: dict[str, dict[bytes, Row]] = {}
        self.namespaces: set[str] = set()
        self.before_write: Callable[[str], None] = lambda _: None
        self.writes = 0

    def client(self, addresses: Sequence[str] = ()) -> MemoryClient:
        """As `Client`."""
        return MemoryClient(self)


class MemoryClient:
    """One process's calls; see `Client`."""

    family = staticmethod(Client.family)

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self._is_closed = False
        self.calls = 0

    def __enter__(self) -> MemoryClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._is_closed = True

    def check_open(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("the store is closed; open it again")

    def in_parallel(self, work: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        return [work(item) for item in items]

    @contextmanager
    def _call(self, table: str, what: str = "") -> Iterator[dict[bytes, Row]]:
        self.check_open()
        cluster = self._cluster
        if what:
            cluster.before_write(f"{what} {table.partition(':')[2]}")
        with cluster.lock:
            self.calls += 1
            cluster.writes += bool(what)
            yield cluster.tables[table]

    # --- rows

    def get_many(self, table: str, gets: Sequence[Any]) -> list[list[HBaseCell]]:
        with self._call(table) as rows:
            return [_read(rows.get(get.row, {}), get, get.storeLimit) for get in gets]

    def exist(self, table: str, gets: Sequence[Any]) -> list[bool]:
        return [bool(cells) for cells in self.get_many(table, gets)]

    def scan(self, table: str, scan: Any, rows: int) -> list[tuple[bytes, list[HBaseCell]]]:
        found: list[tuple[bytes, list[HBaseCell]]] = []
        with self._call(table) as held:
            for row in sorted(held):
                if row < (scan.startRow or b"") or (scan.stopRow and row >= scan.stopRow):
                    continue
                cells = _read(held[row], scan, None)
                size = scan.batchSize or len(cells) or 1
                found += [(row, cells[at : at + size]) for at in range(0, len(cells), size)]
                if len(found) >= min(rows, scan.limit or rows):
                    return found[: min(rows, scan.limit or rows)]
        return found

    def put_many(self, table: str, puts: Sequence[Any], size_bytes: int = 0) -> None:
        with self._call(table, "put") as rows:
            for put in puts:
                _put(rows, put)

    def delete_many(self, table: str, deletes: Sequence[Any]) -> None:
        assert not table.endswith(f":{KEYS_TABLE}"), "HBase would hide what is put there later"
        with self._call(table, "delete") as rows:
            for delete in deletes:
                _delete(rows, delete)

    def mutate_row(self, table: str, mutations: Any, size_bytes: int = 0) -> None:
        with self._call(table, "mutate") as rows:
            _mutate(rows, mutations)

    def check_and_mutate(
        self, table: str, column: tuple[bytes, bytes], expected: bytes | None, mutations: Any, *, equal: bool = True
    ) -> bool:
        with self._call(table, "check") as rows:
            versions = sorted(place for place in rows.get(mutations.row, {}) if place[:2] == column)
            held = rows[mutations.row][versions[0]] if versions else None
            if (held == expected) is not equal:
                return False
            _mutate(rows, mutations)
            return True

    def check_and_mutate_all(self, table: str, requests: Sequence[Conditional]) -> list[bool | None]:
        return [self.check_and_mutate(table, one.column, one.expected, one.mutations) for one in requests]

    # --- tables

    def make_namespace(self, name: str) -> None:
        self._cluster.namespaces.add(name)

    def make_table(self, namespace: str, name: str, families: Sequence[Any], splits: Sequence[bytes] = ()) -> None:
        self._cluster.tables.setdefault(f"{namespace}:{name}", {})

    def has_table(self, namespace: str, name: str) -> bool:
        return f"{namespace}:{name}" in self._cluster.tables

    def servers_of(self, table: str) -> dict[bytes, int]:
        return {b"": 1}


def _read(row: Row, asked: Any, limit: int | None) -> list[HBaseCell]:
    wanted = parse_filter(asked.filterString)
    columns = [(one.family, one.qualifier) for one in asked.columns or ()]
    times = asked.timeRange
    found: list[HBaseCell] = []
    seen: dict[tuple[bytes, bytes], int] = {}
    of_family: dict[bytes, int] = {}
    for family, qualifier, minus in sorted(row):
        if columns and (family, None) not in columns and (family, qualifier) not in columns:
            continue
        if times is not None and not times.minStamp <= -minus < times.maxStamp:
            continue
        if not wanted.passes(qualifier, row[family, qualifier, minus]):
            continue
        seen[family, qualifier] = seen.get((family, qualifier), 0) + 1
        of_family[family] = of_family.get(family, 0) + 1
        if seen[family, qualifier] > (asked.maxVersions or 1) or of_family[family] > (limit or NEWEST):
            continue
        value = row[family, qualifier, minus]
        first, number = wanted.columns
        if not first < len(seen) <= first + number:
            continue
        shown = {"none": b"", "lengths": len(value).to_bytes(4, "big")}.get(wanted.values, value)
        found.append(HBaseCell(family, qualifier, -minus, shown))
        if wanted.values == "first":
            break
    return found


def _put(rows: dict[bytes, Row], put: Any) -> None:
    assert put.columnValues, "HBase refuses a put of nothing"
    for one in put.columnValues:
        rows.setdefault(put.row, {})[one.family, one.qualifier, -one.timestamp] = one.value


def _delete(rows: dict[bytes, Row], delete: Any) -> None:
    kinds = messages().TDeleteType
    row = rows.get(delete.row, {})
    for one in delete.columns:
        for place in list(row):
            family, qualifier, minus = place
            if family != one.family or (delete.deleteType != kinds.DELETE_FAMILY and qualifier != one.qualifier):
                continue
            if -minus == one.timestamp if delete.deleteType == kinds.DELETE_COLUMN else -minus <= one.timestamp:
                del row[place]
    if not row:
        rows.pop(delete.row, None)


def _mutate(rows: dict[bytes, Row], mutations: Any) -> None:
    for mutation in mutations.mutations:
        if mutation.deleteSingle is not None:
            _delete(rows, mutation.deleteSingle)
        else:
            _put(rows, mutation.put)


ADDRESS = "hbase://in-memory:9090/tests"


def key_rows() -> KeyRows:
    """The table of keys of a store in a cluster of its own."""
    cluster = MemoryCluster()
    cluster.tables = {f"tests:{KEYS_TABLE}": {}}
    return KeyRows(cluster.client(), "tests")  # type: ignore[arg-type]


def use(monkeypatch: pytest.MonkeyPatch) -> MemoryCluster:
    """A cluster of its own, which all stores at ADDRESS lie in from now on."""
    cluster = MemoryCluster()
    monkeypatch.setattr(layout, "Client", cluster.client)
    return cluster


def open_store(schema: Schema | None = None) -> DocumentStore:
    """The store at ADDRESS, made if it is not there; each call is another writer."""
    return docstore.open(ADDRESS, create=True, schema=schema)
