"""What executors compute for a sweep on Spark, without Spark; and what the store takes back."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import docstore
from docstore.archives.selection import Selection
from docstore.cli.main import main
from docstore.dedup.kernel import Kernel
from docstore.model.capture import ClusterPlace
from docstore.model.keys import resolve, row_key
from docstore.model.types import Page
from docstore.sweep.candidates import candidates
from docstore.sweep.job import SweepOptions, sweep
from docstore.sweep.kernels import TextRule, sets_of_texts
from docstore.sweep.pages import take_places
from tests.pages import changed, page, words

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install '.[spark]'")
from docstore.spark import kernels  # noqa: E402 - it needs pyarrow

RULE = TextRule("scored", 5, True)
T0 = 1_700_000_000_000_000


def texts(count: int) -> list[bytes]:
    """Texts of which many are near to each other, some very short."""
    source = random.Random(5)
    made = []
    for number in range(count):
        text = words(number // 4, source.choice([3, 60, 150, 300]))
        made.append(" ".join(changed(text, number, min(len(text), number % 7))).encode())
    return made


def sets(given: list[bytes]) -> dict[str, Any]:
    batch = {"text": given, "equal_by": np.zeros(len(given), "u1"), "identity": np.zeros(2 * len(given), "u8")}
    return sets_of_texts(RULE, batch)


def test_sets_of_texts_are_those_of_the_kernel() -> None:
    given = texts(40)
    made = sets(given)
    expected = [Kernel("scored", 5).shingles(text.decode()) for text in given]
    assert made["lengths"].tolist() == [len(each) for each in expected]
    assert made["members"].tolist() == np.concatenate(expected).tolist()
    assert made["sketches"].shape == (40 * 256,)


@pytest.mark.parametrize("rows_together", [1, 7, 100])
@pytest.mark.parametrize("batch_rows", [1, 4, 1000])
def test_groups_are_whole_wherever_batches_end(rows_together: int, batch_rows: int) -> None:
    keys = sorted(random.Random(1).choices(range(40), k=300))
    batches = pa.table({"key": keys, "row": list(range(300))}).to_batches(batch_rows)
    tables = list(kernels.whole_groups(batches, "key", rows_together))
    assert [row for table in tables for row in table["row"].to_pylist()] == list(range(300))
    seen = [set(table["key"].to_pylist()) for table in tables]
    assert sum(map(len, seen)) == len(set(keys))


@pytest.mark.parametrize("threshold", [0.5, 0.8])
def test_pairs_of_buckets_are_the_candidates_of_the_local_sweep(
    threshold: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    from docstore.sweep import candidates as local

    monkeypatch.setattr(local, "PARTNERS", 6)  # so that there are crowded buckets
    monkeypatch.setattr(local, "LEAST_PARTNERS", 2)
    monkeypatch.setattr(local, "STARS", 3)
    given = texts(300) + [" ".join(changed(words(0, 300), n, 2)).encode() for n in range(60)]
    made = sets(given)
    bins = made["sketches"].reshape(-1, 256)
    chosen = np.flatnonzero(made["lengths"] > 20)
    first, second, cut = candidates(bins, made["lengths"], chosen, threshold)
    assert len(first) > 300 and cut > 0
    packed = [bytes(row[:128] | row[128:] << 4) for row in bins[chosen]]
    columns = {"id": chosen, "shingle_count": made["lengths"][chosen], "sketch": packed}
    table = pa.table({**columns, "is_crowded": np.zeros(len(chosen), bool)})
    buckets = pa.Table.from_batches(kernels.bands_of(threshold, table.to_batches(50))).sort_by("bucket")
    crowded = pa.Table.from_batches(kernels.crowded_of(buckets.to_batches(70)))["id"]
    table = pa.table({**columns, "is_crowded": np.isin(chosen, crowded.to_numpy())})
    banded = list(kernels.bands_of(threshold, table.to_batches(50)))
    random.Random(2).shuffle(banded)
    rows = pa.Table.from_batches(banded).sort_by("bucket")
    pairs = pa.Table.from_batches(kernels.pairs_of_buckets(threshold, 0, rows.to_batches(70)), kernels.PAIR)
    found = sorted(set(zip(pairs["first"].to_pylist(), pairs["second"].to_pylist(), strict=True)))
    assert found == list(zip(first.tolist(), second.tolist(), strict=True))
    fresh = list(kernels.pairs_of_buckets(threshold, 200, rows.to_batches(70)))
    assert {number for batch in fresh for number in batch["second"].to_pylist()} == {b for _, b in found if b >= 200}


@pytest.mark.parametrize("rows_together", [1, 1000])
def test_pairs_are_verified_by_their_texts_wherever_batches_end(
    rows_together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "ROWS_TOGETHER", rows_together)
    monkeypatch.setattr(kernels, "PAIRS_TOGETHER", 5)
    given = texts(60)
    pairs = [(a, b) for a in range(60) for b in range(a + 1, 60)]
    rows = [{"block": a // 16, "id": a, "second": b, "text": None, "is_list": None} for a, b in pairs]
    needed = sorted({(a // 16, end) for a, b in pairs for end in (a, b)})
    rows += [{"block": k, "id": n, "second": None, "text": given[n], "is_list": n == 1} for k, n in needed]
    random.Random(3).shuffle(rows)
    table = pa.Table.from_pylist(rows).sort_by("block")
    found = pa.Table.from_batches(kernels.verified_pairs(RULE, 0.6, table.to_batches(90)), kernels.VERIFIED).to_pylist()
    sets = [set(Kernel("scored", 5).shingles(text.decode()).tolist()) for text in given]
    expected = {
        (a, b): len(sets[a] & sets[b]) / len(sets[a] | sets[b])
        for a, b in pairs
        if len(given[a].split()) >= 50 and len(given[b].split()) >= 50 and 1 not in (a, b)
    }
    expected = {pair: similarity for pair, similarity in expected.items() if similarity >= 0.6}
    assert len(expected) > 5
    assert {(row["first"], row["second"]): row["similarity"] for row in found} == expected


def made_versions(*captures: tuple[str, int, bytes], status: int = 301, location: str = "/b") -> list[dict[str, Any]]:
    """The versions of captures: URL, seconds, body; a body `moved` is a redirect."""
    rows = [
        Page(url, body, status if body == b"moved" else 200, (), T0 + seconds * 1_000_000)
        for url, seconds, body in captures
    ]
    headers = [[{"name": "Location", "value": location}] for _ in rows]
    table = pa.table(
        {
            "url": [each.url for each in rows],
            "timestamp": [datetime.fromtimestamp((each.fetched_at or 0) / 1e6, UTC) for each in rows],
            "status": [each.status for each in rows],
            "headers": headers,
            "body": [each.body for each in rows],
        }
    )
    pages = pa.Table.from_batches(kernels.pages_of_rows(RULE, table.to_batches(2)))
    pages = pages.sort_by([(name, "ascending") for name in ("row_key", "timestamp", "body")])
    made = pa.Table.from_batches(kernels.versions_of_pages(pages.to_batches(3)), kernels.VERSION)
    return list(made.to_pylist())


def versions(*captures: tuple[str, int, bytes]) -> list[tuple[str, int, int, bool | None]]:
    """Name, time, time of the newest capture and `is_last` of the versions of captures."""
    return [
        (row["row_key"].decode().rpartition("/")[2], *((row[name] - T0) // 1000 for name in TIMES), row["is_last"])
        for row in made_versions(*captures)
    ]


TIMES = ("timestamp", "column_time")


def test_successive_captures_with_one_body_are_one_version() -> None:
    url = "http://a.example/x"
    told = versions((url, 1, b"one"), (url, 2, b"one"), (url, 3, b"two"), (url, 4, b"one"), (url, 4, b"one"))
    assert [(first, newest, last) for _, first, newest, last in told] == [
        (1000, 2000, False),
        (3000, 3000, False),
        (4000, 4000, True),
    ]


def test_two_bodies_of_one_time_are_two_versions_and_blank_ones_are_none() -> None:
    url = "http://a.example/x"
    told = versions((url, 1, b"one"), (url, 1, b"two"), (url, 2, b" \n"))
    assert sorted((first, last) for _, first, _, last in told) == [(1000, False), (1001, True)]


def test_what_is_damaged_or_refused_is_a_row_with_its_reason(tmp_path: Path) -> None:
    times = ["2024-05-01T12:00:00Z", "yesterday", "1970-02-01T00:00:00Z"]
    table = pa.table(
        {"url": ["http://a.example/1", "http://a.example/2", "http://a.example/3"], "date": times, "text": ["a"] * 3}
    )
    made = [batch for batch in kernels.pages_of_rows(RULE, table.to_batches()) if batch.num_rows]
    (tmp_path / "cut.warc").write_bytes(b"WARC/1.1\r\nWARC-Type: resp")
    files = pa.table({"path": [f"file://{tmp_path}/cut.warc"], "content": pa.nulls(1, pa.binary())})
    made += kernels.pages_of_files(RULE, files.to_batches())
    rows = pa.Table.from_batches(made).to_pylist()
    assert [row["error"] is None for row in rows] == [True, False, False, False]
    assert "yesterday" in rows[1]["error"] and rows[1]["url"] == "http://a.example/2"
    assert "before 1990" in rows[2]["error"] and rows[2]["error"].endswith("; mend it in the file")
    assert "cut.warc at 0" in rows[3]["error"] and rows[3]["row_key"] is None


def test_a_local_file_is_opened_whatever_its_name_is(tmp_path: Path) -> None:
    """Spark gives paths as they are: decoded or cut as a URL, such a name is that of another file, or of none."""
    names = ["a", "a#b", "a?b", "a%62", "ab", "ä+b c;d", "file:a"]
    for number, name in enumerate(names):
        record = {"url": f"http://a.example/{number}", "text": "words"}
        (tmp_path / f"{name}.jsonl").write_text(json.dumps(record))
    paths = [f"file:{tmp_path}/{name}.jsonl" for name in names]
    files = pa.table({"path": paths, "content": pa.nulls(len(paths), pa.binary())})
    rows = pa.Table.from_batches(kernels.pages_of_files(RULE, files.to_batches())).to_pylist()
    assert [row["error"] for row in rows] == [None] * len(names)
    assert [row["row_key"].decode()[-7:] for row in rows] == [f"/{number} http" for number in range(len(names))]


def test_the_redirect_of_the_newest_capture_is_kept_beside_the_versions() -> None:
    url = "http://a.example/x"
    assert [last for _, _, _, last in versions((url, 1, b"moved"), (url, 2, b"one"))] == [False, True]
    assert [last for _, _, _, last in versions((url, 1, b"one"), (url, 2, b"moved"))] == [False, True, None]


@pytest.mark.parametrize(
    ("status", "location", "moves"),
    [
        (301, "/b", True),
        (302, "https://www.a.example/b", True),
        (308, "http://b.example/", True),
        (302, "http://b.example/", False),
    ],
)
def test_versions_of_a_url_that_has_moved_vote_for_where_it_leads(status: int, location: str, moves: bool) -> None:
    captures = [
        ("http://a.example/x", 1, b"one"),
        ("http://a.example/x", 2, b"two"),
        ("http://a.example/x", 3, b"moved"),
    ]
    rows = made_versions(*captures, status=status, location=location)
    target = row_key(resolve("http://a.example/x", location) or "") if moves else None
    assert {row["declared"] for row in rows if row["is_last"] is not None} == {target}
    assert [row["redirect"] for row in rows if row["is_last"] is None] == ([target] if moves else [])


def test_a_store_takes_back_the_clusters_of_its_export(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A store whose columns are exported and taken by a copy of it has the columns that its own sweep wrote."""
    import pyarrow.parquet as pq

    pages = [
        Page(f"http://h{n % 3}.example/{n}", page(changed(words(n // 4, 100), n, n % 3)), fetched_at=T0 + n * 1_000_000)
        for n in range(24)
    ]
    for name in ("swept", "taken"):
        with docstore.open(tmp_path / name, create=True) as store:
            list(store.put_pages(pages))
    assert main(["sweep", "--store", str(tmp_path / "swept")]) == 0
    with docstore.open(tmp_path / "swept") as store:
        names = ["url", "timestamp", "cluster", "canonical", "canonical_similarity"]
        rows = store.to_arrow(names).read_all()
        swept = rows.to_pylist()
    assert len({row["cluster"] for row in swept}) > 3
    times = {row["url"]: row["timestamp"] for row in swept}
    at = [row["canonical"] and times[row["canonical"]] for row in swept]
    rows = rows.rename_columns(["url", "timestamp", "cluster", "canonical", "similarity"])
    (tmp_path / "clusters").mkdir()
    pq.write_table(rows.append_column("canonical_timestamp", [at]), tmp_path / "clusters" / "part.parquet")
    command = ["sweep", "--store", str(tmp_path / "taken"), "--from", str(tmp_path / "clusters")]
    capsys.readouterr()
    assert main(command) == 0
    assert "24" in capsys.readouterr().out
    with docstore.open(tmp_path / "taken") as store:
        assert (
            store.to_arrow(["url", "timestamp", "cluster", "canonical", "canonical_similarity"]).read_all().to_pylist()
            == swept
        )
    pq.write_table(pa.table({"url": ["http://a.example/"]}), tmp_path / "other.parquet")
    assert main([*command[:-1], str(tmp_path / "other.parquet")]) == 2
    assert "expected columns url, timestamp" in capsys.readouterr().err


def test_the_cluster_of_a_visit_is_that_of_the_capture_that_it_confirms(tmp_path: Path) -> None:
    """An export has visits as captures: the later one, which sweeps name, is a visit here."""
    urls = ["http://a.example/", "http://b.example/"] * 2
    pages = [Page(url, page(words(1, 100)), fetched_at=T0 + at * 1_000_000) for at, url in enumerate(urls)]
    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(pages))
        sweep(store, SweepOptions())
        names = ["url", "timestamp", "cluster", "canonical"]
        swept = store.to_arrow(names, Selection(versions=None)).read_all().to_pylist()
    with docstore.open(tmp_path / "t", create=True) as store:
        list(store.put_pages(pages))
        keys = [store.cells.row_key(url) for url in urls]
        place = ClusterPlace(keys[0], T0 + 2_000_000, 1.0)
        places = [(keys[at], T0 + at * 1_000_000, place) for at in (2, 3)]
        assert take_places(store, places) == (2, 2)
        assert store.to_arrow(names, Selection(versions=None)).read_all().to_pylist() == swept
    assert len(swept) == 4 and len({row["cluster"] for row in swept}) == 1


def test_a_page_alone_that_only_a_visit_calls_a_duplicate_gets_a_cluster_of_its_own(tmp_path: Path) -> None:
    """The visit is near a page that the sweep gives to another cluster: the columns take the place of its verdict."""
    first, second = words(1, 200), changed(words(1, 200), 1, 4)
    sites = {"first": first, "alone": changed(second, 2, 4), "near-both": second}
    pages = [
        Page(f"http://{name}.example/", page(sites[name]), fetched_at=T0 + at * 1_000_000)
        for at, name in enumerate([*sites, "alone"])
    ]
    names = ["url", "timestamp", "cluster", "canonical"]
    with docstore.open(tmp_path / "s", create=True) as store:
        kinds = [result.verdict.kind for result in store.put_pages(pages)]
        sweep(store, SweepOptions())
        swept = store.to_arrow(names, Selection(versions=None)).read_all().to_pylist()
    assert kinds == ["new", "similar", "near", "near"] and swept[0]["canonical"] == swept[0]["url"]
    with docstore.open(tmp_path / "t", create=True) as store:
        list(store.put_pages(pages))
        keys = [store.cells.row_key(each.url) for each in pages]
        of_first = ClusterPlace(keys[0], T0, 1.0)
        places = [(keys[0], T0, of_first), (keys[2], T0 + 2_000_000, of_first), (keys[3], T0 + 3_000_000, None)]
        assert take_places(store, places) == (3, 3)
        assert store.to_arrow(names, Selection(versions=None)).read_all().to_pylist() == swept


def test_a_failure_of_spark_names_the_error_of_the_executor() -> None:
    pytest.importorskip("pyspark")
    from docstore.spark.job import failure_reason

    message = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times.
    org.apache.spark.api.python.PythonException: Traceback (most recent call last):
      File "kernels.py", line 37, in pages_of_rows
    docstore.model.errors.InvalidArgument: a Parquet file of pages needs a column url, or id for rows without one
    ValueError: no such thing

    \tat org.apache.spark.api.python.BasePythonRunner"""
    assert failure_reason(message) == "ValueError: no such thing"
    assert failure_reason("no master\nat x") == "no master"
    java = "An error occurred while calling None.x.\n: java.lang.IllegalStateException: stopped\n\tat x"
    assert failure_reason(java) == "java.lang.IllegalStateException: stopped"
    assert failure_reason("") == ""


def test_spark_without_java_or_its_library_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import sys

    from docstore.spark import command

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    words_given = ["pages.parquet", "--output", str(tmp_path / "out")]
    try:
        import pyspark  # noqa: F401
    except ImportError:
        pass
    else:
        assert command.main(words_given) == 2
        assert "Java 17" in capsys.readouterr().err
    monkeypatch.delitem(sys.modules, "docstore.spark.job", raising=False)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert command.main(words_given) == 2
    assert "docstore-spark needs the extra spark" in capsys.readouterr().err
