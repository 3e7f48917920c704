"""General cells in Bigtable's words, over a store on disk."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from counts import share
from pages import page, words
from stores import contents, records_of

import docstore
from docstore import (
    Append,
    ColumnFamily,
    Condition,
    DeleteCells,
    DeleteFamily,
    DeleteRow,
    GCPolicy,
    Increment,
    InvalidArgument,
    ReadSpec,
    SetCell,
)
from docstore.model.format import RECORD_DELETE_ROW

URL = "https://a.example/x"
T0 = 1_700_000_000_000_000
DAY = 86_400_000_000
HTML = {"Content-Type": "text/html"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[docstore.DocumentStore]:
    schema = docstore.Schema(families=(ColumnFamily("crawl"), ColumnFamily("last", GCPolicy(max_versions=2))))
    with docstore.open(tmp_path / "s", create=True, schema=schema) as opened:
        yield opened


def test_values_of_every_size_come_back(store: docstore.DocumentStore) -> None:
    for size in (0, 1, 511, 512, 513, 70_000):
        store.cells.apply(URL, [SetCell("crawl", b"v", T0, b"v" * size)])
        row = store.cells.read_row(URL)
        assert row is not None and [cell.value for cell in row.cells] == [b"v" * size]
    assert store.cells.read_row("https://b.example/") is None


def test_an_undeclared_family_is_refused_by_name(store: docstore.DocumentStore) -> None:
    with pytest.raises(InvalidArgument, match="crawl"):
        store.cells.apply(URL, [SetCell("nope", b"", T0, b"")])


def test_gc_is_enforced_when_reading(store: docstore.DocumentStore) -> None:
    for day in range(5):
        store.cells.apply(URL, [SetCell("last", b"q", T0 + day * DAY, str(day).encode())])
    row = store.cells.read_row(URL)
    assert row is not None and [cell.value for cell in row.cells] == [b"4", b"3"]


def test_deletes_remove_existing_cells_and_old_timestamps_can_be_written_again(store: docstore.DocumentStore) -> None:
    cells = [SetCell("crawl", bytes([q]), T0 + t * DAY, b"x" * 600) for q in range(3) for t in range(3)]
    store.cells.apply(URL, [*cells, SetCell("last", b"", T0, b"y")])
    store.cells.apply(URL, [DeleteCells("crawl", b"\x00", T0 + DAY, T0 + 2 * DAY)])
    row = store.cells.read_row(URL, ReadSpec(families=("crawl",), qualifier_prefix=b"\x00"))
    assert row is not None and [cell.timestamp for cell in row.cells] == [T0 + 2 * DAY, T0]
    store.cells.apply(URL, [DeleteFamily("crawl")])
    row = store.cells.read_row(URL)
    assert row is not None and [cell.family for cell in row.cells] == ["last"]
    store.cells.apply(URL, [DeleteRow()])
    assert store.cells.read_row(URL) is None
    store.cells.apply(URL, [SetCell("crawl", b"", T0 - DAY, b"back")])
    row = store.cells.read_row(URL)
    assert row is not None and [cell.value for cell in row.cells] == [b"back"]


@pytest.mark.parametrize("size", [10, 5000])
def test_check_and_mutate_reads_values_in_cells_and_in_segments(store: docstore.DocumentStore, size: int) -> None:
    value, other = b"a" * size, b"b" * size
    absent = Condition("crawl", b"lock", None)
    assert store.cells.check_and_mutate(URL, absent, [SetCell("crawl", b"lock", T0, value)])
    assert not store.cells.check_and_mutate(URL, absent, [SetCell("crawl", b"lock", T0 + DAY, other)])
    equal = Condition("crawl", b"lock", value)
    assert store.cells.check_and_mutate(URL, equal, [SetCell("crawl", b"lock", T0 + DAY, other)])
    assert not store.cells.check_and_mutate(URL, equal, [], [SetCell("crawl", b"lost", T0, b"")])
    row = store.cells.read_row(URL, ReadSpec(versions=1))
    assert row is not None and [cell.value for cell in row.cells] == [other, b""]


def test_counters_count_from_many_threads(store: docstore.DocumentStore) -> None:
    def count() -> None:
        for _ in range(25):
            store.cells.read_modify_write(URL, [Increment("crawl", b"n", 1), Append("crawl", b"log", b"x" * 10)])

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    row = store.cells.read_row(URL, ReadSpec(versions=1))
    assert row is not None
    values = {cell.qualifier: cell.value for cell in row.cells}
    assert int.from_bytes(values[b"n"], "big") == 200
    assert values[b"log"] == b"x" * 2000
    with pytest.raises(InvalidArgument, match="8 bytes"):
        store.cells.read_modify_write(URL, [Increment("crawl", b"log", 1)])


def test_rules_on_several_columns_change_the_row_atomically(store: docstore.DocumentStore) -> None:
    rules = [
        Append("crawl", b"log", b"one,"),
        Increment("crawl", b"n", 2),
        Append("crawl", b"log", b"three,"),
        Increment("crawl", b"n", 3),
    ]
    cells = store.cells.read_modify_write(URL, rules)
    assert [(cell.qualifier, cell.value) for cell in cells] == [(b"log", b"one,three,"), (b"n", (5).to_bytes(8, "big"))]
    with pytest.raises(InvalidArgument, match="8 bytes"):
        store.cells.read_modify_write(URL, [Increment("crawl", b"n", 1), Increment("crawl", b"log", 1)])
    row = store.cells.read_row(URL, ReadSpec(versions=1))
    assert row is not None and [cell.value for cell in row.cells] == [b"one,three,", (5).to_bytes(8, "big")]
    with pytest.raises(InvalidArgument, match="at least one rule"):
        store.cells.read_modify_write(URL, [])


def test_scans_by_host_prefix_range_and_column(store: docstore.DocumentStore) -> None:
    urls = [
        "http://a.example/",
        "https://a.example/b",
        "https://a.example/b/c",
        "https://sub.a.example/",
        "https://b.example/",
    ]
    store.cells.apply_many([(url, [SetCell("crawl", b"k%d" % n, T0, b"")]) for n, url in enumerate(urls)])
    assert [row.url for row in store.cells.scan(host="a.example")] == urls[:3]
    assert [row.url for row in store.cells.scan(prefix="https://a.example/b")] == urls[1:3]
    assert len(list(store.cells.scan())) == 5
    assert [row.url for row in store.cells.scan(qualifier_regex="k[34]")] == [urls[3], urls[4]]
    assert [row.url for row in store.cells.scan(spec=ReadSpec(qualifier_prefix=b"k1"))] == [urls[1]]
    assert len(list(store.cells.scan(limit=2))) == 2
    assert list(store.cells.scan(spec=ReadSpec(since=T0 + 1000))) == []
    with pytest.raises(InvalidArgument, match="one of"):
        next(store.cells.scan(host="a.example", prefix="https://a.example/"))
    with pytest.raises(InvalidArgument, match="broken"):
        next(store.cells.scan(qualifier_regex="("))


def test_anchors_are_read_in_slices_and_a_row_of_many_is_deleted_without_a_stall(
    store: docstore.DocumentStore,
) -> None:
    count = share(100_000, 10)
    row_key = store.cells.row_key(URL)
    for start in range(0, count, 5000):
        cells = [SetCell("anchor", b"https://s.example/%06d" % n, T0, b"text") for n in range(start, start + 5000)]
        store.cells.apply(row_key, cells)
    store.add_anchor(URL, "https://z.example/#top", "Zed", T0)
    anchors = store.anchors(URL)
    assert next(anchors).qualifier == b"https://s.example/000000"
    assert sum(1 for _ in anchors) == count
    assert store.get(URL) is None  # it has anchors, and was never fetched
    written = [0]
    stop = threading.Event()

    def write() -> None:
        while not stop.is_set():
            store.cells.apply("https://b.example/", [SetCell("crawl", b"%d" % written[0], T0, b"")])
            written[0] += 1

    writer = threading.Thread(target=write)
    writer.start()
    assert store.delete(URL)
    stop.set()
    writer.join()
    assert store.cells.read_row(URL) is None
    assert written[0] > 0  # it went on writing; how long it waited is for tools/bench, not for a test


@pytest.mark.parametrize("policy", [GCPolicy(max_versions=1), GCPolicy(max_age_seconds=3600)])
def test_a_capture_that_a_policy_hides_is_not_overwritten(tmp_path: Path, policy: GCPolicy) -> None:
    bodies = [page(words(n, 60)) for n in range(3)]
    with docstore.open(tmp_path / "gc", create=True, schema=docstore.Schema(captures=policy)) as store:
        for number, at in ((0, T0), (1, T0 + DAY)):
            store.put_page(URL, bodies[number], headers=HTML, fetched_at=at)
        assert store.put_page(URL, bodies[0], headers=HTML, fetched_at=T0).stored == "known"
        assert store.put_page(URL, bodies[2], headers=HTML, fetched_at=T0).timestamp > T0


@pytest.mark.parametrize(
    "mutation",
    [
        SetCell("page", b"body", T0, b"x"),
        SetCell("dedup", b"cluster", T0, b"x"),
        DeleteCells("http", b"status"),
        DeleteFamily("text"),
    ],
)
def test_columns_of_captures_are_read_and_not_written(
    store: docstore.DocumentStore, mutation: SetCell | DeleteCells | DeleteFamily
) -> None:
    store.put_page(URL, page(words(1, 60)), headers=HTML, fetched_at=T0)
    before = contents(store)
    with pytest.raises(InvalidArgument, match="put_page"):
        store.cells.apply(URL, [mutation])
    with pytest.raises(InvalidArgument, match="put_page"):
        store.cells.check_and_mutate(URL, Condition("http", b"status", b"200"), [mutation])
    with pytest.raises(InvalidArgument, match="put_page"):
        store.cells.read_modify_write(URL, [Append(mutation.family, b"status", b"x")])
    assert contents(store) == before


def test_a_refused_batch_leaves_no_delete_mark(store: docstore.DocumentStore) -> None:
    store.cells.apply(URL, [SetCell("crawl", b"v", T0, b"kept")])
    with pytest.raises(InvalidArgument, match="nope"):
        store.cells.apply_many(
            [(URL, [DeleteRow()]), ("https://b.example/", [SetCell("nope", b"", T0, b"")])],
        )
    store.cells.apply("https://c.example/", [SetCell("crawl", b"v", T0, b"next")])
    marks = [one for row in store.backend.manifest.segments() for one in records_of(store, row.number)]
    assert not any(record.kind == RECORD_DELETE_ROW for record in marks)
