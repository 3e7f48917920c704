"""The sweep on Spark: rows of Parquet and records of archives give the clusters of the local sweep."""

from __future__ import annotations

import gzip
import random
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore.archives.entries import TableColumns
from docstore.archives.selection import Selection
from docstore.model.errors import InvalidArgument
from docstore.model.types import Page
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.pages import take_places
from tests.pages import changed, page, words
from tools.cluster.spark import SparkCluster, why_not

pytestmark = [pytest.mark.slow, pytest.mark.skipif(bool(why_not()), reason=f"SPARK IS NOT TESTED HERE: {why_not()}")]
T0 = 1_700_000_000_000_000
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than these few rows
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",  # it makes one partition of a few rows
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # joins by shuffle, as large tables are
}
SKEWED = 1800
"""Pages of one host and template, most of them near to each other: more share the key of a band than are compared with
each other, so there are stars."""
COLUMNS = ["url", "timestamp", "cluster", "canonical", "canonical_similarity"]


def fetched(number: int, url: str, body: bytes, status: int = 200, headers: Any = ()) -> Page:
    return Page(url, body, status, headers, T0 + number * 1_000_000)


def crawl() -> Iterator[Page]:
    """Near pages, captures of one URL, redirects, canonical links, notices under many titles, short and equal pages."""
    chance = random.Random(7)
    for number in range(240):
        body = page(changed(words(number // 5, 200), number, number % 11), f"Title {number // 5}")
        yield fetched(number, f"https://h{number % 9}.example/{number}", body)
    for number in range(240, 300):  # a host shows a notice under titles that contradict each other
        text = changed(words(9000, 120), number, 1)
        yield fetched(number, f"https://shop.example/{number}", page(text, f"Lamp {' '.join(words(number, 3))}"))
    for number in range(300, 340):  # short pages; some are equal, and some have the same text in other bytes
        body = page(words(number // 4, 30), "Short") + (b"<!-- copy -->" if number % 4 == 3 else b"")
        yield fetched(number, f"https://short{number % 3}.example/{number}", body)
    for number in range(340, 400):  # captures of some URLs, near to each other and to the pages above
        body = page(changed(words(number % 6, 200), number // 12, 2), f"Title {number % 6}")
        yield fetched(number, f"https://again.example/{number % 6}", body)
    for number in range(400, 430):  # copies that declare the original, and redirects to it
        original = f"https://h{number % 9}.example/{number - 400}"
        link = f'<link rel="canonical" href="{original}">'.encode()
        body = page(changed(words((number - 400) // 5, 200), number, 1), f"Title {(number - 400) // 5}")
        yield fetched(number, f"{original}?copy", body.replace(b"<head>", b"<head>" + link))
        yield fetched(number, f"{original}-old", b"moved", 301, (("Location", original),))
    for number in range(430, 460):  # the same bytes as text and as a page
        kind = (("Content-Type", "text/plain" if number % 2 else "text/html"),)
        yield fetched(number, f"https://kinds.example/{number}", page(words(number // 2, 90), "Kinds"), 200, kind)
    common = words(5000, 260)
    for number in range(500, 500 + SKEWED):  # more than half of all pages: of one host, and in the same buckets
        branch = changed(common, number % 12, 1)  # its own buckets are not large, but its texts are in large ones too
        body = page(changed(branch, number, 1 if number % 6 else chance.randrange(8, 13)), "Template")
        yield fetched(number, f"https://half.example/{number}", body)


def record(page: Page) -> bytes:
    """A page as a record of a WARC file."""
    headers = "".join(f"{name}: {value}\r\n" for name, value in page.headers)
    block = f"HTTP/1.1 {page.status} OK\r\n{headers}\r\n".encode() + page.body
    date = datetime.fromtimestamp((page.fetched_at or 0) / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    head = f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: {page.url}\r\nWARC-Date: {date}\r\n"
    kind = "WARC-Record-ID: <urn:uuid:1>\r\nContent-Type: application/http;msgtype=response\r\n"
    return f"{head}{kind}Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n"


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """A folder with a crawl as Parquet, as WARC and as a store; and the columns that the local sweep writes."""
    from docstore.archives.arrow import write_parquet

    folder = tmp_path_factory.mktemp("spark")
    records = [record(each) for each in crawl()]
    for number in range(3):
        with gzip.open(folder / f"crawl-{number}.warc.gz", "wb") as stream:
            stream.writelines(records[number::3])
    with docstore.open(folder / "store", create=True) as store:
        list(store.put_pages(crawl()))
        with (folder / "full.parquet").open("wb") as stream:
            write_parquet(store, stream, Selection(versions=None))
    shutil.copytree(folder / "store", folder / "swept")
    with docstore.open(folder / "swept") as store:
        assert sweep(store, SweepOptions()).crowded > 1000
        expected = columns_of(store)
    assert len({row["cluster"] for row in expected}) > 50 and len(expected) > SKEWED
    return folder, expected


def columns_of(store: docstore.DocumentStore) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = store.to_arrow(COLUMNS, Selection(versions=None)).read_all().to_pylist()
    return rows


def taken(folder: Path, clusters: Path, work: Path) -> list[dict[str, Any]]:
    """The columns of the store that was not swept, after it has taken these clusters."""
    from docstore.archives.parquet import read_places

    shutil.copytree(folder / "store", work)
    with docstore.open(work) as store:
        assert len(set(take_places(store, read_places(clusters)))) == 1  # all of them are in the store
        return columns_of(store)


def clusters(folder: Path) -> list[dict[str, Any]]:
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(folder / "clusters").to_pylist()
    return rows


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    from docstore.spark.job import start

    session = start("local[2]", SETTINGS)
    yield session
    session.stop()


@pytest.mark.parametrize(("partitions", "files"), [(1, False), (2, True), (4, False)])
def test_any_number_of_partitions_gives_the_clusters_of_the_local_sweep(
    crawled: tuple[Path, list[dict[str, Any]]], spark: Any, tmp_path: Path, partitions: int, files: bool
) -> None:
    from docstore.spark.job import SparkOptions
    from docstore.spark.job import sweep as sweep_on_spark

    folder, expected = crawled
    spark.conf.set("spark.sql.shuffle.partitions", str(partitions))
    name = "*.warc.gz" if files else "full.parquet"
    report = sweep_on_spark(spark, [str(folder / name)], str(tmp_path), SparkOptions(files=files, kept=True))
    rows = clusters(tmp_path)
    assert taken(folder, tmp_path / "clusters", tmp_path / "taken") == expected
    assert report.versions == len(rows) == sum(report.kinds.values()) and report.errors == 0
    assert set(report.kinds) == {"exact", "near", "new", "same_text"}
    import pyarrow.parquet as pq

    kept = pq.read_table(tmp_path / "kept").to_pylist()
    assert sorted(row["url"] for row in kept) == sorted(row["url"] for row in rows if row["kind"] == "new")
    assert all(row["text"] for row in kept if "half" in row["url"])


def test_what_an_earlier_crawl_has_is_taken_out_of_a_later_one(spark: Any, tmp_path: Path) -> None:
    """Of B stays what is neither in A nor a second time in B; a table of both crawls then knows all of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from docstore.spark.job import SparkOptions
    from docstore.spark.job import sweep as sweep_on_spark

    def text(number: int, edits: int) -> str:
        return " ".join(changed(words(number, 120), 7 * number + edits, edits))

    crawls: Mapping[str, list[tuple[str, str]]] = {
        "a": [(f"http://a.example/{n}", text(n, 0)) for n in range(20)],
        "b": [
            *((f"http://b.example/{n}", text(n, n % 3)) for n in range(10)),  # in A: the same, or near
            *((f"http://a.example/{n}", text(n, 1)) for n in range(10, 15)),  # in A, at its own URL
            *((f"http://b.example/{n}", text(n // 2, 0)) for n in range(60, 80)),  # two of each
        ],
        "c": [(f"http://c.example/{n}", text(n, 0)) for n in (3, 30, 99)],
    }
    for age, (name, pages) in enumerate(reversed(crawls.items())):  # A is not the oldest crawl by its dates
        dates = [f"2024-01-0{1 + age}T00:00:00Z"] * len(pages)
        urls, bodies = zip(*pages, strict=True)
        half = len(pages) // 2
        (tmp_path / f"{name}.parquet").mkdir()
        for column, part in (("text", slice(half)), ("body", slice(half, None))):  # the files differ in their columns
            table = pa.table({"url": urls[part], column: bodies[part], "date": dates[part]})
            pq.write_table(table, tmp_path / f"{name}.parquet" / f"{column}.parquet")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    tables: list[str] = []
    stays = {}
    for name in crawls:
        options = SparkOptions(against=tuple(tables), kept=True)
        sweep_on_spark(spark, [str(tmp_path / f"{name}.parquet")], str(tmp_path / name), options)
        tables.append(str(tmp_path / name / "fingerprints"))
        stays[name] = sorted(row["url"] for row in pq.read_table(tmp_path / name / "kept").to_pylist())
    assert len(stays["a"]) == 20
    assert stays["b"] == [f"http://b.example/{n}" for n in range(60, 80, 2)]
    assert stays["c"] == ["http://c.example/99"]
    of_a = [row for row in clusters(tmp_path / "b") if row["kind"] != "new" and row["canonical"].startswith("http://a")]
    assert len(of_a) == 15 and all(row["similarity"] >= 0.8 for row in of_a)


def test_rows_without_urls_have_the_clusters_of_their_texts(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from docstore.spark.job import SparkOptions
    from docstore.spark.job import sweep as sweep_on_spark

    texts = [" ".join(words(number // 2, 120)) for number in range(20)]
    (tmp_path / "pages").mkdir()
    for name, first, last in (("a", 0, 12), ("b", 10, 20)):  # both have 10 and 11
        part = [f"another {text}" if (name, n) == ("b", 11) else text for n, text in enumerate(texts)][first:last]
        pq.write_table(pa.table({"key": range(first, last), "story": part}), tmp_path / "pages" / f"{name}.parquet")
    options = SparkOptions(columns=TableColumns("", "story", "key", "books"))
    report = sweep_on_spark(spark, [str(tmp_path / "pages")], str(tmp_path / "out"), options)
    assert (report.versions, report.errors, report.kinds) == (20, 1, {"exact": 10, "new": 10})
    (error,) = pq.read_table(tmp_path / "out" / "errors").to_pylist()
    assert error["url"] == "urn:docstore:books:11" and "a.parquet has another text for this id" in error["error"]
    assert {row["url"] for row in clusters(tmp_path / "out")} == {f"urn:docstore:books:{n}" for n in range(20)}
    with pytest.raises(InvalidArgument, match=r"no column id_of; the columns in .* are key, story"):
        wrong = SparkOptions(columns=TableColumns(id="id_of"))
        sweep_on_spark(spark, [str(tmp_path / "pages")], str(tmp_path / "other"), wrong)


def test_what_cannot_be_swept_is_refused_before_a_page_is_read(spark: Any, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from docstore.spark.job import SparkOptions
    from docstore.spark.job import sweep as sweep_on_spark

    (tmp_path / "empty").mkdir()
    (tmp_path / "old" / "kept").mkdir(parents=True)
    pq.write_table(pa.table({"url": ["http://a.example/"], "text": ["a"]}), tmp_path / "good.parquet")
    pq.write_table(pa.table({"uri": ["http://a.example/"], "text": ["a"]}), tmp_path / "other.parquet")
    (tmp_path / "mixed").mkdir()
    for name, date in (("days", "2024-01-01"), ("numbers", 20240101)):
        table = pa.table({"url": ["http://a.example/"], "text": ["a"], "date": [date]})
        pq.write_table(table, tmp_path / "mixed" / f"{name}.parquet")
    for path, output, options, reason in (
        ("good.parquet", "out", SparkOptions(threshold=2.0), r"threshold must be in \[0, 1\]"),
        ("good.parquet", "old", SparkOptions(kept=True), "old/kept exists; remove it"),
        (
            "other.parquet",
            "out",
            SparkOptions(),
            "a column url or id, and body or text; the columns in .* are uri, text",
        ),
        ("mixed", "out", SparkOptions(), "date: .* and .*date: .*; write them with one type"),
        ("empty", "out", SparkOptions(), "no Parquet files"),
        ("empty", "out", SparkOptions(files=True), "no files in .*empty"),
        ("nowhere", "out", SparkOptions(), "Path does not exist"),
    ):
        with pytest.raises(InvalidArgument, match=reason):
            sweep_on_spark(spark, [str(tmp_path / path)], str(tmp_path / output), options)
        assert not any((tmp_path / output / name).exists() for name in ("errors", "fingerprints"))


def test_an_executor_of_two_cores_killed_between_shuffles_changes_nothing(
    crawled: tuple[Path, list[dict[str, Any]]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.sql import SparkSession

    from docstore.spark import kernels
    from docstore.spark.job import start
    from docstore.spark.job import sweep as sweep_on_spark

    folder, expected = crawled
    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()
    begun, go_on = str(tmp_path / "begun"), str(tmp_path / "go")
    monkeypatch.setattr(kernels, "pairs_of_buckets", held_up(kernels.pairs_of_buckets, begun, go_on))
    with SparkCluster(tmp_path / "cluster", cores=2) as cluster:

        def kill() -> None:
            while not Path(begun).exists():
                threading.Event().wait(0.1)
            cluster.kill("worker1")
            Path(go_on).touch()

        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        settings = SETTINGS | dict(cluster.settings) | {"spark.sql.shuffle.partitions": "4"}
        session = start(cluster.master, settings)
        try:
            sweep_on_spark(session, [str(folder / "full.parquet")], str(tmp_path / "out"))
        finally:
            session.stop()
        killer.join()
        assert "Removing worker" in cluster.log("master").read_text() or "removed" in cluster.log("master").read_text()
    assert taken(folder, tmp_path / "out" / "clusters", tmp_path / "taken") == expected


def held_up(kernel: Callable[..., Iterator[Any]], begun: str, go_on: str) -> Callable[..., Iterator[Any]]:
    """The kernel behind a shuffle, which says that it has begun, and waits: what is before the shuffle is done then."""

    def work(threshold: float, fresh: int, batches: Iterable[Any]) -> Iterator[Any]:
        import pathlib
        import threading

        pathlib.Path(begun).touch()
        while not pathlib.Path(go_on).exists():
            threading.Event().wait(0.05)
        yield from kernel(threshold, fresh, batches)

    return work
