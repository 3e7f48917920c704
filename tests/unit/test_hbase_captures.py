"""Captures in HBase: a record and cells for its long values, written and deleted together."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import memory_hbase
import pytest
from faulty_files import SimulatedCrash
from memory_hbase import ADDRESS, MemoryClient, MemoryCluster, open_store
from pages import changed, page, words
from stores import contents

import docstore
from docstore import Page, Schema
from docstore.archives.copying import copy
from docstore.cluster import upkeep, upkeep_postings
from docstore.cluster.client import HBaseCell
from docstore.cluster.engine import narrowed
from docstore.cluster.values import CellValues
from docstore.model.capture import BODY, MAIN, SIMHASH, SKETCH, TEXT_CHECKSUM
from docstore.model.errors import CorruptionError
from docstore.model.format import CAPTURE_FAMILY, INLINE_LIMIT_BYTES
from docstore.model.types import Cell, ColumnFamily, GCPolicy, ReadSpec, SetCell
from docstore.reports.check import check
from docstore.storage.reports import CompactionReport
from docstore.storage.values import is_absent
from docstore.sweep.reindex import reindex

T0 = 1_700_000_000_000_000
URL = "https://a.example/"
KEY = b"example,a)/ https"
RECORD, LONG_BODY, LONG_TEXT = (b"s", b"capture\x00"), (b"b", b"page\x00body"), (b"b", b"text\x00main")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> MemoryCluster:
    monkeypatch.setattr(upkeep, "GRACE_SECONDS", 0)
    monkeypatch.setattr(upkeep_postings, "GRACE_SECONDS", 0)
    return memory_hbase.use(monkeypatch)


def capture(seed: int, at: int) -> Page:
    return Page(URL, page(words(seed, 400)), 200, (), T0 + at * 1_000_000)


def visit(at: int) -> Page:
    return Page(URL, b"", 304, (), T0 + at * 1_000_000)


def put(*pages: Page, schema: Schema | None = None) -> None:
    with open_store(schema) as store:
        list(store.put_pages(pages))


def compact() -> CompactionReport:
    with docstore.open(ADDRESS) as store:
        return store.compact()


def places(cluster: MemoryCluster) -> dict[int, list[tuple[bytes, bytes]]]:
    """Columns of the row by second since T0, without those of writers."""
    found: dict[int, list[tuple[bytes, bytes]]] = {}
    for family, qualifier, minus in cluster.tables["tests:pages"].get(KEY, {}):
        if family != b"w":
            found.setdefault((-minus - T0) // 1_000_000, []).append((family, qualifier))
    return {at: sorted(columns) for at, columns in found.items()}


def bodies() -> dict[int, bytes | None]:
    """Body of each capture that is shown, by second since T0."""
    with docstore.open(ADDRESS) as store:
        found = {one.timestamp: store.get(URL, at=one.timestamp) for one in store.history(URL)}
    return {(at - T0) // 1_000_000: None if one is None else one.body for at, one in found.items()}


# --- how they lie


def test_a_page_is_a_record_and_a_cell_for_each_long_value(cluster: MemoryCluster) -> None:
    long_header = Page(URL, capture(1, 0).body, 200, (("x-long", "v" * 2 * INLINE_LIMIT_BYTES),), T0)
    put(long_header)
    assert places(cluster) == {0: [LONG_BODY, LONG_TEXT, RECORD, (b"s", b"http\x00headers")]}
    with open_store() as store:
        document = store.get(URL)
    assert document is not None and document.body == long_header.body
    assert document.newest.header("x-long") == "v" * 2 * INLINE_LIMIT_BYTES


def test_a_visit_repeats_no_value(cluster: MemoryCluster) -> None:
    put(capture(1, 0), capture(1, 5), visit(9))
    assert places(cluster) == {0: [LONG_BODY, LONG_TEXT, RECORD], 5: [RECORD], 9: [RECORD]}
    assert bodies() == dict.fromkeys((0, 5, 9), capture(1, 0).body)


def test_a_record_is_read_without_its_values(cluster: MemoryCluster) -> None:
    put(capture(1, 0), capture(2, 5))
    with open_store() as store:
        engine = store.backend.engine
        newest = engine.newest("pages", KEY, CAPTURE_FAMILY, b"")
        assert newest is not None and newest.timestamp == T0 + 5_000_000
        cells = engine.read_row("pages", KEY, ReadSpec((CAPTURE_FAMILY,)))
    assert [cell.family for cell in cells] == [CAPTURE_FAMILY] * 2
    assert sum(len(cell.value) for cell in cells) < 2 * 1000 < len(capture(1, 0).body)


def test_a_record_is_written_with_its_values_or_not_at_all(cluster: MemoryCluster) -> None:
    writes: list[str] = []
    cluster.before_write = writes.append
    put(capture(1, 0))
    assert writes.count("check pages") == 1
    assert not [what for what in writes if what in ("put pages", "mutate pages")]

    def stop(what: str) -> None:
        if what == "check pages":
            raise SimulatedCrash(what)

    cluster.before_write = stop
    with suppress(SimulatedCrash):
        put(capture(2, 5))
    cluster.before_write = lambda _: None
    assert places(cluster).keys() == {0}


def test_a_pending_value_can_be_read_until_it_is_dropped(cluster: MemoryCluster) -> None:
    with open_store() as store:
        values = store.backend.values
        stored = values.append(KEY, BODY, T0, b"x" * 3000)
        assert values.fetch(stored) == b"x" * 3000
        assert values.fetch_many([stored, values.append(KEY, MAIN, T0, b"short")]) == [b"x" * 3000, b"short"]
        assert isinstance(values, CellValues)
        values.drop_values()
        with pytest.raises(CorruptionError, match="a value is missing"):
            values.fetch(stored)
        with pytest.raises(CorruptionError, match="a value is missing"):
            values.verify(stored)


def test_the_same_value_in_two_cells_is_one(cluster: MemoryCluster) -> None:
    with open_store() as store:
        values = store.backend.values
        one, other = (values.append(KEY, BODY, T0 + at, b"x" * 3000) for at in (0, 1000))
        assert one != other and values.same_value(one, other)
        assert not values.same_value(one, values.append(KEY, BODY, T0 + 2000, b"y" * 3000))
        assert 0 < values.stored_bytes(one) < 3000


def test_a_delete_removes_all_cells(cluster: MemoryCluster) -> None:
    put(capture(1, 0), capture(2, 5))
    with open_store() as store:
        store.delete(URL)
    assert places(cluster) == {}
    assert bodies() == {}
    put(capture(3, 0))
    assert bodies() == {0: capture(3, 0).body}


def test_a_page_that_another_process_deletes_between_its_row_and_its_values_is_gone(cluster: MemoryCluster) -> None:
    put(capture(1, 0))
    with open_store() as store, docstore.open(ADDRESS) as other:
        values, looks = store.backend.values, list[Cell | None]()

        def work() -> bytes:
            looks.append(store.table.newest_record(KEY))
            other.delete(URL)
            found = None if looks[-1] is None else store.table.row_captures([looks[-1]])
            return b"" if found is None else values.fetch(next(found).columns[BODY])

        assert values.read_together(work) == b"" and looks[1:] == [None]


def test_a_value_that_is_missing_again_is_an_error(cluster: MemoryCluster) -> None:
    with open_store() as store:
        values = store.backend.values
        stored = values.append(KEY, BODY, T0, b"x" * 3000)
        values.drop_values()  # type: ignore[attr-defined]
        with pytest.raises(CorruptionError, match="a value is missing"):
            values.read_together(lambda: values.fetch(stored))


@pytest.mark.parametrize("policy", ["flag", "reference", "reject"])
def test_a_store_survives_a_copy_to_hbase_and_back(cluster: MemoryCluster, tmp_path: Path, policy: str) -> None:
    # Without keyed bands: each store draws its own key, and candidates of pages near the threshold would differ.
    schema = Schema(policies={"near": policy, "exact": policy})
    pages = [
        Page(
            f"https://h{number % 5}.example/{number % 25}",
            page(changed(words(number // 3, 200), number, number % 4), f"Title {number // 3}"),
            200,
            (),
            T0 + number * 1_000_000,
        )
        for number in range(40)
    ]
    with docstore.open(tmp_path / "source", create=True, schema=schema) as source, open_store(schema) as there:
        for store in (source, there):
            list(store.put_pages([*pages[:30], visit(50), *pages[:5], *pages[30:]], anchors=True))
        expected = contents(source)
    with docstore.open(ADDRESS) as there:
        assert contents(there) == expected
        assert list(check(there.backend)) == []
        assert copy(there, tmp_path / "copy").unreadable == []
    with docstore.open(tmp_path / "copy") as copied:
        assert contents(copied) == expected
        cluster.tables.clear()
        assert copy(copied, ADDRESS).differing == []
        assert copy(copied, ADDRESS).written_rows == 0
    with docstore.open(ADDRESS) as back:
        assert contents(back) == expected
        assert list(check(back.backend)) == []
        assert compact().expired_cells == 0
        assert contents(back) == expected


def test_reindex_writes_a_text_with_its_record(cluster: MemoryCluster) -> None:
    put(capture(1, 0))
    row = cluster.tables["tests:pages"][KEY]
    with open_store() as store:
        expected = contents(store)
        record = store.table.record(KEY, T0)
        assert record is not None
        columns = {column: value for column, value in record.columns.items() if column[0] != "text"}
        for column in (TEXT_CHECKSUM, SIMHASH, SKETCH):
            del columns[column]
        row[(*RECORD, -T0)] = record._replace(columns=columns).encode()
        del row[(*LONG_TEXT, -T0)]
        cluster.tables["tests:postings"].clear()
        generation = row.get((b"w", b"generation", -1))
        assert reindex(store).posted == 1
        assert row[b"w", b"generation", -1] != generation
        assert contents(store) == expected
        assert list(check(store.backend)) == []


# --- what maintenance drops


def test_captures_that_a_policy_drops_are_deleted_with_their_values(cluster: MemoryCluster) -> None:
    put(capture(1, 0), capture(1, 6), capture(2, 2), visit(8), schema=Schema(captures=GCPolicy(max_versions=1)))
    shown = bodies()
    assert shown == dict.fromkeys((0, 6, 8), capture(1, 0).body)
    assert compact().expired_cells == 3
    assert places(cluster) == {0: [LONG_BODY, LONG_TEXT, RECORD], 6: [RECORD], 8: [RECORD]}
    assert bodies() == shown
    assert compact().expired_cells == 0


def test_a_body_that_a_policy_drops_is_deleted_and_its_record_says_so(cluster: MemoryCluster) -> None:
    put(capture(1, 0), capture(2, 2), schema=Schema(bodies=GCPolicy(max_versions=1)))
    assert compact().expired_cells == 1
    assert places(cluster) == {0: [LONG_TEXT, RECORD], 2: [LONG_BODY, LONG_TEXT, RECORD]}
    with docstore.open(ADDRESS) as store:
        record = store.table.record(KEY, T0)
        assert record is not None and is_absent(record.columns[BODY])
        first = store.get(URL, at=T0)
    assert first is not None and first.text and first.body is None
    assert bodies() == {0: None, 2: capture(2, 2).body}
    assert compact().expired_cells == 0


def test_unreferenced_cells_are_deleted_and_those_of_users_stay(cluster: MemoryCluster) -> None:
    put(capture(1, 0), schema=Schema(families=(ColumnFamily("mine"),)))
    before = places(cluster)
    with open_store() as store:
        store.cells.apply(URL, [SetCell("mine", b"note", T0, b"n" * 3000)])
    row = cluster.tables["tests:pages"][KEY]
    for at in (0, 7_000_000):
        row[b"b", b"text\x00headings", -(T0 + at)] = row[(*LONG_TEXT, -T0)]
    row[b"s", b"dedup\x00cluster", -(T0 + 7_000_000)] = b"\x00place"
    row[b"s", b"dedup\x00cluster", -T0] = b"\x00place"
    assert compact().expired_cells == 3
    before[0] = sorted([*before[0], (b"s", b"mine\x00note"), (b"s", b"dedup\x00cluster")])
    assert places(cluster) == before
    assert bodies() == {0: capture(1, 0).body}


def test_users_families_keep_what_their_policy_keeps(cluster: MemoryCluster) -> None:
    put(capture(1, 0), schema=Schema(families=(ColumnFamily("mine", GCPolicy(max_versions=1)),)))
    with open_store() as store:
        for at in range(3):
            store.cells.apply(URL, [SetCell("mine", b"note", T0 + at * 1_000_000, b"%d" % at * 600)])
    assert compact().expired_cells == 2
    assert places(cluster) == {0: [LONG_BODY, LONG_TEXT, RECORD], 2: [(b"s", b"mine\x00note")]}


@pytest.mark.parametrize("change", ["delete", "put", "delete and put"])
def test_a_row_that_changes_meanwhile_is_checked_again(cluster: MemoryCluster, change: str) -> None:
    put(capture(1, 0), capture(2, 2), schema=Schema(captures=GCPolicy(max_versions=1)))
    changes = 0

    def meanwhile(what: str) -> None:
        nonlocal changes
        if what == "check pages" and not changes:
            changes += 1
            if "delete" in change:
                with open_store() as store:
                    store.delete(URL)
            if "put" in change:
                put(capture(3, 0) if "delete" in change else capture(3, 4))

    cluster.before_write = meanwhile
    compact()
    cluster.before_write = lambda _: None
    assert changes
    expected = {"delete": {}, "put": {4: capture(3, 4).body}, "delete and put": {0: capture(3, 0).body}}
    assert bodies() == expected[change]


# --- reads ahead


def asked(cells: Sequence[Cell], spec: ReadSpec) -> list[Cell]:
    """What a spec asks for, of all cells of a row."""
    found: list[Cell] = []
    counts: dict[tuple[str, bytes], int] = {}
    for cell in cells:
        if (
            (spec.families is None or cell.family in spec.families)
            and cell.qualifier.startswith(spec.qualifier_prefix)
            and spec.since <= cell.timestamp < (spec.until or 1000)
        ):
            counts[cell[:2]] = counts.get(cell[:2], 0) + 1
            if counts[cell[:2]] <= (spec.versions or 1000):
                found.append(cell._replace(value=b"") if spec.keys_only else cell)
    return found[: spec.cell_limit]


def test_reads_from_the_read_ahead_equal_reads_of_the_row() -> None:
    source = random.Random(23)
    columns = [("capture", b""), ("mine", b"x"), ("page", b"body"), ("page", b"box")]
    answered = 0
    for _ in range(20_000):
        cells = [
            Cell(*column, at, b"%d" % at) for column in columns for at in range(9, -1, -1) if source.random() < 0.4
        ]

        def spec() -> ReadSpec:
            start = source.choice((0, 0, 3, 5))
            return ReadSpec(
                families=source.choice(
                    (None, (CAPTURE_FAMILY,), (CAPTURE_FAMILY,), ("page",), (CAPTURE_FAMILY, "page"))
                ),
                qualifier_prefix=source.choice((b"", b"", b"b", b"body")),
                since=start,
                until=source.choice((None, start + 1, 8)),
                versions=source.choice((None, None, 1, 2)),
                keys_only=source.random() < 0.1,
                cell_limit=source.choice((None, 1, 2, 4)),
            )

        wider, narrower = spec(), spec()
        found = narrowed(wider, asked(cells, wider), narrower)
        if found is not None:
            answered += 1
            assert found == asked(cells, narrower), (wider, narrower)
    assert answered > 500


# --- what writing asks of the servers


def test_rows_of_a_call_are_in_their_order_so_that_few_regions_take_it(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, list[bytes]]] = []
    put_many, get_many = MemoryClient.put_many, MemoryClient.get_many

    def puts(client: MemoryClient, table: str, rows: Sequence[Any], size_bytes: int = 0) -> None:
        calls.append((table, [row.row for row in rows]))
        put_many(client, table, rows, size_bytes)

    def gets(client: MemoryClient, table: str, rows: Sequence[Any]) -> list[list[HBaseCell]]:
        calls.append((table, [row.row for row in rows]))
        return get_many(client, table, rows)

    monkeypatch.setattr(MemoryClient, "put_many", puts)
    monkeypatch.setattr(MemoryClient, "get_many", gets)
    put(*(Page(f"https://h{number}.example/", page(words(number, 400)), 200, (), T0) for number in range(20)))
    of_keys = [rows for table, rows in calls if table == "tests:keys"]
    assert len(of_keys) >= 10
    assert of_keys == [sorted(rows) for rows in of_keys]


def test_a_writer_never_asks_for_bases(cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    put(capture(1, 0))
    asked: list[str] = []
    get_many = MemoryClient.get_many

    def gets(client: MemoryClient, table: str, rows: Sequence[Any]) -> list[list[HBaseCell]]:
        asked.append(table)
        return get_many(client, table, rows)

    monkeypatch.setattr(MemoryClient, "get_many", gets)
    like_it = Page("https://b.example/", capture(1, 0).body, 200, (), T0 + 5_000_000)
    near_it = Page("https://c.example/", page(changed(words(1, 400), 2, 3)), 200, (), T0 + 5_000_000)
    put(like_it, near_it)
    assert "tests:pages" in asked
    assert "tests:bodies" not in asked
