"""Parquet and Arrow: what is written reads back, hostile values included, and bad rows stop nothing."""

from __future__ import annotations

import datetime
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli_case import Terminal, article, html, python
from counts import share
from stores import damage_record, damage_value
from warc_records import record

import docstore
from docstore import InvalidArgument, Note, Page, Selection
from docstore.archives.entries import DamagedEntry, PageEntry, SkippedEntry
from docstore.archives.reader import read
from docstore.model.capture import BODY, encode_note
from docstore.sweep.job import SweepOptions, sweep

pa = pytest.importorskip("pyarrow", reason="the extra docstore[arrow] is not installed")
import pyarrow.parquet as pq  # noqa: E402

from docstore.archives import arrow  # noqa: E402

T0 = 1_700_000_000_000_000
DAY = 86_400_000_000
HTML = (("Content-Type", "text/html; charset=utf-8"),)
URL = "https://a.example/"
Captures = list[tuple[Any, ...]]


@pytest.fixture
def terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(tmp_path / "other", capsys)


def put_all_kinds(store: docstore.DocumentStore) -> None:
    """Pages that are hard to write: other encodings, zero bytes, old times, visits, and each way to store a body."""
    first = html("One", article(1))
    pages = [
        Page(URL, first, headers=HTML, fetched_at=T0, ip="192.0.2.1", crawl="may"),
        Page(URL, b"", 304, (("ETag", '"two"'),), T0 + DAY, crawl="june"),
        Page(URL, html("Two", article(2)), headers=HTML, fetched_at=T0 + 2 * DAY),
        Page(URL, html("Two", article(2)), headers=HTML, fetched_at=T0 + 3 * DAY),
        Page("https://b.example/latin", "<p>caf\xe9 ".encode("latin-1") * 60, headers=HTML, fetched_at=T0 + 123_000),
        Page("https://b.example/zero", b"<p>zero \0 byte " * 30, headers=HTML, fetched_at=T0),
        Page("https://b.example/text", b"a\0b", headers=(("Content-Type", "text/plain"),), fetched_at=T0),
        Page("https://b.example/file", bytes(range(256)) * 40, fetched_at=T0),
        Page("https://b.example/empty", b"", fetched_at=T0),
        Page("https://b.example/1970", b"<p>old", fetched_at=0),
        Page(
            "https://b.example/number", b"<p>n", 404, (("A", "1"), ("a", "2"), ("A", "3")), T0, "", "sha1:ABC", "GX-1"
        ),
        Page("HTTP://B.example:80/%7ea/../b c?#part", b"<p>odd", fetched_at=T0),
        Page("ftp://b.example:2121/f", b"<p>ftp", fetched_at=T0),
    ]
    assert all(result.stored != "refused" for result in store.put_pages(pages, any_time=True))
    store.put_page("https://b.example/referred", first, headers=HTML, fetched_at=T0, policies={"exact": "reference"})
    copy, reject = html("Two", article(2)), {"exact": "reject"}
    result = store.put_page("https://a.example/rejected", copy, headers=HTML, fetched_at=T0, policies=reject)
    assert result.stored == "rejected"


def everything(store: docstore.DocumentStore) -> Captures:
    """Every capture of a store."""
    found: Captures = []
    for row in store.cells.scan(spec=docstore.ReadSpec(keys_only=True, cell_limit=1)):
        for one in store.history(row.url):
            document = store.get(row.url, at=one.timestamp)
            if document is not None and document.timestamp == one.timestamp:
                taken = document.newest
                assert taken.verdict is not None
                asked = (taken.ip, taken.payload_digest, taken.docno, taken.crawl, taken.fetched_url)
                fetched = (row.url, taken.timestamp, taken.status, taken.headers, taken.body)
                found.append((*fetched, *asked, taken.verdict.kind, taken.verdict.reason))
    return found


def parquet(store: Any, layout: str = "full", group_bytes: int = arrow.ROW_GROUP_BYTES, **selection: Any) -> io.BytesIO:
    stream = io.BytesIO()
    arrow.write_parquet(store, stream, Selection(**selection), layout=layout, group_bytes=group_bytes)
    stream.seek(0)
    return stream


def written(table: Any, **options: Any) -> io.BytesIO:
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    stream.seek(0)
    return stream


def pages_of(stream: Any) -> list[Page]:
    return [entry.page for entry in read(stream) if isinstance(entry, PageEntry)]


def damage_of(stream: Any) -> list[DamagedEntry]:
    return [entry for entry in read(stream) if isinstance(entry, DamagedEntry)]


def plain_pages(count: int, **columns: Any) -> Any:
    urls = [f"https://t.example/{number:05}" for number in range(count)]
    texts = [" ".join(article(number, 60)) for number in range(count)]
    return pa.table({"url": urls, "text": texts, "date": ["2024-05-01T12:00:00Z"] * count} | columns)


# --- out


def test_the_layout_full_reads_back_as_the_same_captures(store: docstore.DocumentStore, tmp_path: Path) -> None:
    put_all_kinds(store)
    file = tmp_path / "all.of.them"
    with file.open("wb") as stream:
        report = arrow.write_parquet(store, stream, Selection(versions=None))
    before = everything(store)
    assert report.captures == len(before) == 14 and report.unreadable == []
    with docstore.open(tmp_path / "again", create=True) as again:
        ingested = docstore_ingest(again, file, any_time=True)
        assert (ingested.error_count, ingested.pages, ingested.skipped) == (0, 14, {})
        after = everything(again)
    assert after == before
    stream = io.BytesIO()
    with docstore.open(tmp_path / "again") as again:
        arrow.write_parquet(again, stream, Selection(versions=None))
    columns = [name for name in pq.read_schema(file).names if name not in ("stored", "fetched_url")]
    assert pq.read_table(stream, columns=columns).equals(pq.read_table(file, columns=columns))


def docstore_ingest(store: Any, *files: Path, **options: Any) -> Any:
    from docstore.archives.ingest import IngestOptions, ingest

    return ingest(store, [str(file) for file in files], IngestOptions(reader=False, **options))


def test_columns_are_those_of_the_store(store: docstore.DocumentStore) -> None:
    put_all_kinds(store)
    rows = {
        (row["url"], row["timestamp"]): row
        for row in store.to_arrow(where=Selection(versions=None)).read_all().to_pylist()
    }
    assert len(rows) == 14
    for (url, timestamp), row in rows.items():
        at = (timestamp - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
        document = store.get(url, at=at)
        assert document is not None and document.timestamp == at
        taken, verdict = document.newest, document.newest.shown_verdict
        assert verdict is not None and (row["verdict"], row["reason"] or "") == (verdict.kind, verdict.reason)
        assert (row["similarity"], row["of_url"] or "") == (verdict.similarity, verdict.of_url)
        if row["status"] == 304:
            assert (row["body"], row["text"], row["headers"]) == (None, None, [{"name": "ETag", "value": '"two"'}])
            continue
        assert (row["body"], row["text"] or "", row["title"] or "") == (taken.body, taken.text, taken.title)
        assert [(pair["name"], pair["value"]) for pair in row["headers"]] == list(taken.headers or ())
        assert (row["crawl"] or "", row["docno"] or "", row["simhash"]) == (taken.crawl, taken.docno, taken.simhash)
    assert rows[URL, T0_DATE]["host"] == "a.example" and rows[URL, T0_DATE]["media_type"] == "text/html"
    referred = next(row for (url, _), row in rows.items() if url == "https://b.example/referred")
    assert (referred["stored"], referred["verdict"], referred["of_url"]) == ("reference", "exact", URL)
    assert not any(url.endswith("/rejected") for url, _ in rows)


T0_DATE = datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC)


COLUMNS = {
    "full": """
        url string, fetched_url string, host word, timestamp time, crawl word, status int16, media_type word,
        charset word, headers pairs, ip word, payload_digest string, docno string, body binary, title string,
        text string, description string, keywords string, headings string, published string,
        declared_canonical string, lang word, stored word, verdict word, of_url string, of_timestamp time,
        similarity double, reason word, contains_url string, previous word, previous_similarity double,
        checksum binary, text_checksum binary, simhash uint64, cluster string, canonical string,
        canonical_similarity double, notes map""",
    "fineweb": """
        text string, id string, dump string, url string, date string, file_path string, language string,
        language_score double, token_count int64""",
    "ccindex": """
        url_surtkey string, url string, url_host_name string, url_host_tld string, url_host_2nd_last_part string,
        url_host_3rd_last_part string, url_host_4th_last_part string, url_host_5th_last_part string,
        url_host_registry_suffix string, url_host_registered_domain string, url_host_private_suffix string,
        url_host_private_domain string, url_host_name_reversed string, url_protocol string, url_port int32,
        url_path string, url_query string, fetch_time time, fetch_status int16, fetch_redirect string,
        content_digest string, content_mime_type string, content_mime_detected string, content_charset string,
        content_languages string, content_truncated string, warc_filename string, warc_record_offset int32,
        warc_record_length int32, warc_segment string, crawl string, subset string""",
}
TYPES = {
    "word": "dictionary<values=string, indices=int32, ordered=0>",
    "time": "timestamp[us, tz=UTC]",
    "pairs": "list<item: struct<name: string, value: string>>",
    "map": "map<string, string>",
}


@pytest.mark.parametrize("layout", COLUMNS)
def test_names_and_types_of_the_columns_stay(layout: str) -> None:
    expected = [column.split() for column in COLUMNS[layout].split(",")]
    columns = arrow.COLUMNS_OF_LAYOUT[layout]
    assert [[one.name, str(one.kind)] for one in columns] == [[name, TYPES.get(kind, kind)] for name, kind in expected]
    assert all(column.about for column in columns)


def test_values_that_are_no_utf_8_are_replaced(store: docstore.DocumentStore) -> None:
    page = Page(
        "https://a.example/\udce9", b"<p>x", headers=(("X", "caf\udce9"), ("Y", "ok")), fetched_at=T0, ip="\udcff"
    )
    assert [result.stored for result in store.put_pages([page])] == ["body"]
    [row] = store.to_arrow().read_all().to_pylist()
    assert row["headers"] == [{"name": "X", "value": "caf\ufffd"}, {"name": "Y", "value": "ok"}]
    assert (row["ip"], row["url"]) == ("\ufffd", "https://a.example/%EF%BF%BD")
    [again] = pages_of(parquet(store))
    assert again.headers == (("X", "caf\ufffd"), ("Y", "ok"))


def test_an_empty_store_has_columns_and_no_rows(store: docstore.DocumentStore, terminal: Terminal) -> None:
    assert store.to_arrow().read_all().num_rows == 0
    for layout in arrow.COLUMNS_OF_LAYOUT:
        stream = parquet(store, layout)
        assert pq.read_table(stream).num_rows == 0
        stream.seek(0)
        assert list(read(stream)) == [] or layout == "ccindex"
    terminal("init")
    answer = terminal("export", "--format", "parquet", "--output", str(terminal.store.parent / "x.parquet"))
    assert (answer.code, "no capture matches" in answer.err) == (1, True)


def test_only_what_the_columns_need_is_read(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "store", create=True) as store:
        for name in ("a", "b"):
            words = article(5 + ord(name), 900)
            store.put_page(f"https://c.example/{name}", html(name, words), headers=HTML, fetched_at=T0)
        damage_value(store, "https://c.example/a", BODY)
    with docstore.open(tmp_path / "store") as again:
        assert again.to_arrow(["url", "verdict"]).read_all().num_rows == 2
        assert not again.unreadable.listed()
        assert again.to_arrow(["url", "body"]).read_all().column("url").to_pylist() == ["https://c.example/b"]
        assert [one.url for one in again.unreadable.listed()] == ["https://c.example/a"]


def test_a_note_that_cannot_be_read_costs_its_row_nothing_else(tmp_path: Path) -> None:
    urls = [f"https://c.example/{name}" for name in "abc"]
    with docstore.open(tmp_path / "store", create=True) as store:
        for url in urls:
            store.put_page(url, b"<p>x", fetched_at=T0)
            store.cells.put_notes([Note(url, T0, "long", os.urandom(300).hex().encode() * 3)])
        [cell] = store.table.stored_row(store.cells.row_key(urls[1]), docstore.ReadSpec(("note",)))
        damage_record(store, cell.value)
    with docstore.open(tmp_path / "store") as again:
        rows = again.to_arrow(["url", "notes"]).read_all().to_pylist()
        assert [(row["url"], len(row["notes"])) for row in rows] == list(zip(urls, (1, 0, 1), strict=True))
        assert [one.url for one in again.unreadable.listed()] == [urls[1]]


def test_a_selection_says_which_captures(store: docstore.DocumentStore) -> None:
    put_all_kinds(store)

    def urls(**selection: Any) -> list[str]:
        found: list[str] = store.to_arrow(["url"], Selection(**selection)).read_all().column("url").to_pylist()
        return found

    assert urls(host="a.example") == [URL]
    assert urls(host="a.example", versions=None) == [URL] * 4
    assert urls(host="a.example", versions=None, crawl="may") == [URL]
    assert urls(verdicts=("exact",)) == ["https://b.example/referred"]
    assert urls(status=404, prefix="https://b.example/") == ["https://b.example/number"]
    assert urls(until=1) == ["https://b.example/1970"]
    for wrong in ("exact", ("same",)):
        with pytest.raises(InvalidArgument, match="verdicts must be"):
            Selection(verdicts=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("columns", "wrong"), [(["url", "nothing"], "nothing"), ("url", "url"), ([], "")])
def test_a_wrong_column_names_those_that_there_are(store: docstore.DocumentStore, columns: Any, wrong: str) -> None:
    with pytest.raises(InvalidArgument, match=f"no column {wrong}; columns must be a list of names, of url, .*notes"):
        store.to_arrow(columns)
    with pytest.raises(InvalidArgument, match=r"where must be a docstore\.Selection"):
        store.to_arrow(where={"host": "a.example"})  # type: ignore[arg-type]


def test_clusters_notes_and_languages_are_columns(store: docstore.DocumentStore) -> None:
    words = article(3, 300)
    store.put_page("https://a.example/1", html("A", words), headers=HTML, fetched_at=T0)
    store.put_page("https://b.example/2", html("A", [*words[:-1], "other"]), headers=HTML, fetched_at=T0)
    store.put_page("https://b.example/2", status=304, fetched_at=T0 + DAY)
    body = html("Alone", article(9, 300)).replace(b"<html>", b'<html lang="fi">')
    store.put_page("https://c.example/3", body, headers=HTML, fetched_at=T0)
    columns = ["url", "cluster", "canonical", "canonical_similarity", "lang", "notes"]
    assert store.to_arrow(columns).read_all().column("cluster").null_count == 3
    sweep(store, SweepOptions())
    store.cells.put_notes([Note("https://a.example/1", T0, "lang", encode_note("1", {"lang": "sv", "score": 0.5}))])
    store.cells.put_notes([Note("https://b.example/2", T0, "raw", b"\xff\0")])
    one, two, three = store.to_arrow(columns).read_all().to_pylist()
    assert one["cluster"] and one["cluster"] == two["cluster"] != three["cluster"]
    assert one["canonical"] == two["canonical"] in (one["url"], two["url"])
    assert 0.9 < min(one["canonical_similarity"], two["canonical_similarity"]) < 1
    assert (one["lang"], two["lang"], three["lang"]) == ("sv", None, "fi")
    assert two["notes"] == [("raw", "\ufffd\0")] and three["notes"] == []
    fineweb = pq.read_table(parquet(store, "fineweb")).to_pylist()
    assert [(row["language"], row["language_score"]) for row in fineweb] == [("sv", 0.5), (None, None), ("fi", None)]
    store.cells.put_notes([Note("https://a.example/1", T0, "lang", b'{"lang": 5, "score": "high"}')])
    first = pq.read_table(parquet(store, "fineweb")).to_pylist()[0]
    assert (first["language"], first["language_score"]) == ("5", None)


def test_the_layout_fineweb_has_texts_and_reads_back(store: docstore.DocumentStore, tmp_path: Path) -> None:
    put_all_kinds(store)
    rows = pq.read_table(parquet(store, "fineweb", versions=None)).to_pylist()
    assert all(row["text"] for row in rows) and {row["dump"] for row in rows} == {None, "may"}
    first = next(row for row in rows if row["dump"])
    assert (first["url"], first["date"]) == (URL, "2023-11-14T22:13:20Z") and first["id"].startswith("<urn:uuid:")
    assert (first["file_path"], first["token_count"]) == (None, None)
    pages = pages_of(parquet(store, "fineweb", versions=None))
    assert [page.body.decode() for page in pages] == [row["text"] for row in rows]
    assert pages[0].headers == (("Content-Type", "text/plain; charset=utf-8"),)
    with docstore.open(tmp_path / "texts", create=True) as texts:
        list(texts.put_pages(pages, any_time=True))
        again = pq.read_table(parquet(texts, "fineweb", versions=None)).to_pylist()
    same = ("text", "id", "dump", "url", "date")
    assert [[row[name] for name in same] for row in again] == [[row[name] for name in same] for row in rows]


def test_the_layout_ccindex_is_that_of_common_crawl(store: docstore.DocumentStore) -> None:
    url = "https://www.shop.example:8080/a/b?q=1"
    headers = (("Content-Type", "text/html"), ("WARC-Truncated", "length"))
    store.put_page(url, b"<p>x", headers=headers, fetched_at=T0, crawl="CC-MAIN-2024-10")
    store.put_page("http://shop.example/", b"", status=301, headers=(("Location", "/new"),), fetched_at=T0)
    plain, row = pq.read_table(parquet(store, "ccindex")).to_pylist()
    expected = {
        "url_surtkey": "example,shop:8080)/a/b?q=1",
        "url": url,
        "url_host_name": "www.shop.example",
        "url_host_tld": "example",
        "url_host_2nd_last_part": "shop",
        "url_host_3rd_last_part": "www",
        "url_host_name_reversed": "example.shop.www",
        "url_protocol": "https",
        "url_port": 8080,
        "url_path": "/a/b",
        "url_query": "q=1",
        "fetch_time": T0_DATE,
        "fetch_status": 200,
        "content_digest": "K3J4PGXHRB47DWTXKEVUV2DC75KILPGG",
        "content_mime_type": "text/html",
        "content_charset": "utf-8",
        "content_truncated": "length",
        "crawl": "CC-MAIN-2024-10",
        "subset": "warc",
    }
    assert {name: value for name, value in row.items() if value is not None} == expected
    assert (plain["fetch_redirect"], plain["subset"]) == ("http://shop.example/new", "crawldiagnostics")
    assert (plain["url_port"], plain["url_query"], plain["url_path"]) == (None, None, "/")


@pytest.mark.parametrize(
    ("host", "by_suffix"),
    [
        ("www.shop.co.uk", ("co.uk", "shop.co.uk", "co.uk", "shop.co.uk")),
        ("me.github.io", ("io", "github.io", "github.io", "me.github.io")),
        ("github.io", ("io", "github.io", "github.io", None)),
        ("xn--55qx5d.cn", ("xn--55qx5d.cn", None, "xn--55qx5d.cn", None)),
        ("127.0.0.1", (None, None, None, None)),
        ("intranet", (None, None, None, None)),
    ],
)
def test_hosts_are_split_at_public_suffixes(
    store: docstore.DocumentStore, host: str, by_suffix: tuple[str | None, ...]
) -> None:
    store.put_page(f"https://{host}/", b"x", fetched_at=T0)
    [row] = pq.read_table(parquet(store, "ccindex")).to_pylist()
    names = ("registry_suffix", "registered_domain", "private_suffix", "private_domain")
    assert tuple(row[f"url_host_{name}"] for name in names) == by_suffix


def test_row_groups_are_cut_by_size_and_words_have_dictionaries(
    store: docstore.DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "BATCH_BYTES", 1 << 18)
    source = os.urandom(1 << 20)
    kind = (("Content-Type", "image/png"),)
    bodies = [source[number : number + 50_000] for number in range(100)]
    pages = [Page(f"https://{n % 7}.example/{n}", body, headers=kind, fetched_at=T0) for n, body in enumerate(bodies)]
    list(store.put_pages(pages))
    metadata = pq.read_metadata(parquet(store, group_bytes=1 << 20))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    assert 4 <= len(groups) <= 5 and all(group.total_byte_size < 1.4e6 for group in groups)
    for group in groups:
        columns = {column.path_in_schema: column for column in (group.column(n) for n in range(group.num_columns))}
        for name in ("host", "verdict", "media_type", "headers.list.element.name"):
            assert columns[name].has_dictionary_page and columns[name].compression == "ZSTD"
        assert not columns["body"].has_dictionary_page and columns["body"].statistics.null_count == 0
        assert columns["url"].statistics.has_min_max
    assert pq.read_table(parquet(store)).column("body").to_pylist() == [
        page.body for page in sorted(pages, key=lambda page: store.cells.row_key(page.url))
    ]


def test_memory_of_an_export_is_that_of_one_row_group(
    store: docstore.DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrow, "BATCH_BYTES", 1 << 18)
    source = os.urandom(1 << 20)
    list(store.put_pages([Page(f"https://a.example/{n}", source[n:], fetched_at=T0) for n in range(40)]))
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        with open(os.devnull, "wb") as stream:  # noqa: PTH123
            assert arrow.write_parquet(store, stream, Selection(), group_bytes=2 << 20).body_bytes > 39 << 20
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 16 << 20


def test_times_after_the_year_9999_are_kept(store: docstore.DocumentStore) -> None:
    late = 9_000_000_000_000_000_000
    list(store.put_pages([Page(URL, b"<p>" + b"late " * 30, fetched_at=late)], any_time=True))
    assert store.to_arrow(["timestamp"]).read_all().column(0).cast(pa.int64()).to_pylist() == [late]
    assert [page.fetched_at for page in pages_of(parquet(store))] == [late]
    assert pq.read_table(parquet(store, "fineweb"), columns=["date"]).column(0).to_pylist() == [None]


# --- other programs


def test_duckdb_polars_and_pandas_take_the_reader(store: docstore.DocumentStore, tmp_path: Path) -> None:
    put_all_kinds(store)
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    polars = pytest.importorskip("polars", reason="polars is not installed")
    pytest.importorskip("pandas", reason="pandas is not installed")
    reader = store.to_arrow()
    query = "select url, verdict, octet_length(body), timestamp from reader order by url"
    rows = duckdb.sql(query).fetchall()  # finds the reader by its name
    assert len(rows) == 11 and reader.schema.names[0] == "url"
    frame = polars.from_arrow(store.to_arrow())
    assert len(frame) == 11
    bodies = {url: length for url, _, length, _ in rows}
    assert dict(zip(frame["url"], frame["body"].bin.size(), strict=True)).items() <= bodies.items()
    table = store.to_arrow().read_pandas()
    assert list(table["url"]) == list(frame["url"]) and str(table["timestamp"].dtype) == "datetime64[us, UTC]"
    assert table["host"].value_counts()["b.example"] == 10
    for layout in arrow.COLUMNS_OF_LAYOUT:
        file = tmp_path / layout
        file.write_bytes(parquet(store, layout).getvalue())
        rows = duckdb.sql(f"select * from read_parquet('{file}')").fetchall()
        assert len(rows) == len(polars.read_parquet(file)) == pq.read_metadata(file).num_rows > 5


def test_many_batches_with_dictionaries_of_their_own_are_one_table(
    store: docstore.DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    polars = pytest.importorskip("polars", reason="polars is not installed")
    monkeypatch.setattr(arrow, "BATCH_ROWS", 3)
    urls = [f"https://{number}.example/" for number in range(20)]
    list(store.put_pages([Page(url, b"<p>x", fetched_at=T0) for url in urls]))
    hosts = sorted(f"{number}.example" for number in range(20))
    assert sorted(store.to_arrow(["host"]).read_pandas()["host"]) == hosts
    assert sorted(polars.from_arrow(store.to_arrow(["host"]))["host"].cast(polars.String)) == hosts
    reader = store.to_arrow(["host"])
    assert reader.schema.names == ["host"]
    assert [host for (host,) in duckdb.sql("select host from reader order by 1").fetchall()] == hosts


def test_parquet_of_other_programs_is_read(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    polars = pytest.importorskip("polars", reason="polars is not installed")
    table = plain_pages(30, dump=["CC-MAIN-2024-10"] * 30, id=[str(number) for number in range(30)])
    expected = pages_of(written(table))
    assert [page.crawl for page in expected] == ["CC-MAIN-2024-10"] * 30 and expected[7].docno == "7"
    duckdb.sql("copy (select * from \"table\") to '{}' (format parquet)".format(tmp_path / "duck"))
    polars.from_arrow(table).with_columns(polars.col("dump").cast(polars.Categorical)).write_parquet(tmp_path / "bear")
    assert pages_of(tmp_path / "duck") == pages_of(tmp_path / "bear") == expected


# --- in


@pytest.mark.parametrize(
    ("time", "kind", "micros"),
    [
        (1_714_564_800, pa.timestamp("s", "UTC"), 1_714_564_800_000_000),
        (1_714_564_800_123, pa.timestamp("ms"), 1_714_564_800_123_000),
        (1_714_564_800_123_456_789, pa.timestamp("ns", "Europe/Berlin"), 1_714_564_800_123_456),
        (datetime.date(2024, 5, 1), pa.date32(), 1_714_521_600_000_000),
        ("2024-05-01T14:00:00+02:00", pa.large_string(), 1_714_564_800_000_000),
        ("2024-05-01", pa.dictionary(pa.int32(), pa.string()), 1_714_521_600_000_000),
    ],
)
def test_times_of_all_types_are_read(time: Any, kind: Any, micros: int) -> None:
    times = pa.array([time], kind)  # not in the table above: it imports pandas, in each worker that collects this file
    [page] = pages_of(written(pa.table({"url": [URL], "text": ["x"], "timestamp": times})))
    assert page.fetched_at == micros


def test_the_first_column_that_has_times_counts() -> None:
    table = pa.table({"url": [URL], "text": ["x"], "timestamp": [1_714_564_800], "date": ["2024-05-01"]})
    assert [page.fetched_at for page in pages_of(written(table))] == [1_714_521_600_000_000]


def test_a_file_without_times_has_that_of_its_change(tmp_path: Path) -> None:
    file = tmp_path / "pages"
    file.write_bytes(written(plain_pages(1).select(["url", "text"])).getvalue())
    os.utime(file, ns=(0, 1_600_000_000_123_456_789))
    assert [page.fetched_at for page in pages_of(file)] == [1_600_000_000_123_000]
    assert [page.fetched_at for page in pages_of(io.BytesIO(file.read_bytes()))] == [None]


def test_bad_rows_are_named_and_passed_over(tmp_path: Path, terminal: Terminal) -> None:
    dates = ["2024-05-01T12:00:00Z"] * 10
    dates[1], dates[2] = "yesterday", "1969-12-31T23:59:59Z"
    table = plain_pages(10).to_pydict() | {"date": dates}
    table["date"][3] = table["url"][4] = table["text"][5] = None
    table["url"][6], table["url"][7], table["text"][8] = "no url", "javascript:void(0)", "x" * 2000
    file = tmp_path / "pages"
    pq.write_table(pa.table(table), file)
    answer = terminal("ingest", str(file), "--create", "--json", "--max-body-bytes", "1500")
    report = answer.object()
    assert (answer.code, report["pages"], report["error_count"]) == (8, 2, 5)
    reasons = [(error["reason"], error["url"]) for error in report["errors"]]
    urls = plain_pages(10).column("url").to_pylist()
    expected = "expected a time since 1970, such as 2024-05-01T12:00:00Z"
    assert reasons == [
        (f"row 1 has the date b'yesterday'; {expected}", urls[1]),
        (f"row 2 has the date b'1969-12-31T23:59:59Z'; {expected}", urls[2]),
        (f"row 3 has the date None; {expected}", urls[3]),
        ("row 4 has neither url nor id", ""),
        ("row 8 has a body of 2000 bytes, more than the limit of 1500 (max_body_bytes)", urls[8]),
    ]
    assert report["skipped"] == {"damaged": 5, "javascript": 1, "no_body": 1, "not_a_web_url": 1}


def test_times_before_1970_are_refused_and_named(tmp_path: Path, terminal: Terminal) -> None:
    file = tmp_path / "pages"
    pq.write_table(pa.table({"url": [URL], "text": ["x"], "timestamp": pa.array([-1000], pa.timestamp("us"))}), file)
    answer = terminal("ingest", str(file), "--create", "--any-time")
    assert answer.code == 8 and "its time -1000 is not in" in answer.err and URL in answer.err


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (
            {"link": [URL], "text": ["x"]},
            r"needs a column url, or id for rows without one.*; the columns of this file are link, text",
        ),
        (
            {"url": [7], "text": ["x"]},
            r"column url has values of type int64, expected strings; the columns of this file are url, text",
        ),
        ({"url": [URL], "html": ["x"]}, r"needs a column body or text next to url or id.*; .* are url, html"),
        ({"url": [None], "text": ["x"]}, r"column url has nulls alone; the columns of this file are url, text"),
        ({"url": [URL], "text": [1]}, r"column text has values of type int64, expected strings or binary"),
        ({"url": [URL], "text": ["x"], "date": [1.5]}, r"column date has values of type double, expected timestamps"),
        (
            {"url": [URL], "text": ["x"], "status": ["OK"]},
            r"column status has values of type string, expected integers",
        ),
    ],
)
def test_a_file_without_the_columns_of_a_page_says_which_it_has(columns: Any, reason: str) -> None:
    [damage] = damage_of(written(pa.table(columns)))
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(damage.reason)


NULLS = (
    pa.null(),
    pa.list_(pa.null()),
    pa.map_(pa.string(), pa.null()),
    pa.dictionary(pa.int32(), pa.null()),
    pa.list_(pa.struct([("name", pa.null()), ("value", pa.null())])),
    pa.float64(),
    pa.int8(),
    pa.string(),
    pa.bool_(),
)


@pytest.mark.parametrize("kind", NULLS, ids=str)
@pytest.mark.parametrize(
    "name",
    ["text", "html", "title", "lang", "status", "headers", "timestamp", "date", "fetched_at", "ip", "docno", "notes"],
)
def test_a_column_of_nulls_alone_is_as_if_it_were_not_there(name: str, kind: Any) -> None:
    table = pa.table({"url": [URL] * 3, "body": [b"<p>x"] * 3, name: pa.nulls(3, kind)})
    expected = list(read(written(table.drop_columns([name]))))
    found = list(read(written(table, row_group_size=2)))
    assert [entry.page for entry in found] == [entry.page for entry in expected]  # type: ignore[union-attr]


def test_a_column_with_one_value_is_there() -> None:
    table = pa.table({"url": [URL] * 2, "text": ["x"] * 2, "status": [None, 404]})
    assert [entry.page.status for entry in read(written(table, row_group_size=1))] == [200, 404]  # type: ignore[union-attr]


def test_an_optional_column_of_a_wrong_type_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    columns = {"url": [URL], "text": ["x"], "timestamp": [pa.scalar(1.5)], "date": ["2024-05-01T12:00:00Z"]}
    for _ in range(2):
        [entry] = read(written(pa.table({**columns, "docno": [2.5], "headers": [True], "crawl": ["c"]})))
        assert isinstance(entry, PageEntry) and (entry.page.crawl, entry.page.docno) == ("c", "")
    assert [record.message.removeprefix("docstore: column ") for record in caplog.records] == [
        "docno has values of type double, expected strings or integers; it is not read",
        "headers has values of type bool, expected a list of structs of name and value, or a map, of strings; "
        "it is not read",
        "timestamp has values of type double, expected timestamps, dates, or ISO 8601 in strings; it is not read",
    ]


def test_a_cut_file_is_an_error_that_says_what_to_do(tmp_path: Path, terminal: Terminal) -> None:
    whole = written(plain_pages(50)).getvalue()
    cut, good = tmp_path / "cut.warc.gz", tmp_path / "good"
    cut.write_bytes(whole[:-10])
    good.write_bytes(whole)
    answer = terminal("ingest", str(cut), str(good), "--create")
    assert answer.code == 8 and "50" in answer.out
    assert f"{cut} at offset 0: the Parquet file of {len(whole) - 10} bytes has no footer" in answer.err
    assert "get the whole file again" in answer.err
    for length in (4, 5, 100, len(whole) // 2, len(whole) - 1):
        assert len(damage_of(io.BytesIO(whole[:length]))) == 1, length


def test_damage_in_one_row_group_leaves_the_others() -> None:
    raw = written(plain_pages(400), row_group_size=100, write_page_checksum=True, use_dictionary=False).getvalue()
    metadata = pq.read_metadata(io.BytesIO(raw))
    chunk = metadata.row_group(2).column(1)
    broken = bytearray(raw)
    broken[chunk.data_page_offset + chunk.total_compressed_size - 20] ^= 255
    entries = list(read(io.BytesIO(bytes(broken))))
    pages = [entry.page.url for entry in entries if isinstance(entry, PageEntry)]
    assert pages == [f"https://t.example/{number:05}" for number in range(400) if not 200 <= number < 300]
    [damage] = damage_of(io.BytesIO(bytes(broken)))
    assert damage.reason.startswith("rows 200 to 299, in row group 2, cannot be read: get the file again")
    offsets = [entry.offset for entry in entries]
    assert offsets == sorted(offsets) and 0 < offsets[0] < offsets[-1] < len(raw)


def test_flipped_bytes_raise_nothing() -> None:
    import random

    source = random.Random(7)
    raw = written(plain_pages(60), row_group_size=20).getvalue()
    for _ in range(150):
        broken = bytearray(raw)
        broken[source.randrange(4, len(raw))] ^= 1 << source.randrange(8)
        assert all(entry.offset >= 0 for entry in read(io.BytesIO(bytes(broken))))


def test_strings_that_are_no_utf_8_cost_their_row_nothing_else() -> None:
    def strings(*values: bytes) -> Any:
        return pa.array(values, pa.binary()).view(pa.string())

    names, values = strings(b"X", b"\xff"), strings(b"caf\xe9", b"2")
    headers = pa.ListArray.from_arrays([0, 1, 2], pa.StructArray.from_arrays([names, values], ["name", "value"]))
    table = pa.table(
        {
            "url": strings(b"https://a.example/\xff", b"https://a.example/b"),
            "body": strings(b"<p>\xe9\0", b"<p>b"),
            "date": strings(b"2024-05-01", b"2024-05-02"),
            "headers": headers,
        }
    )
    first, second = pages_of(written(table))
    assert (first.url, first.body, first.headers) == ("https://a.example/\ufffd", b"<p>\xe9\0", (("X", "caf\ufffd"),))
    assert (second.body, second.headers) == (b"<p>b", (("\ufffd", "2"),))


def test_headers_may_be_a_map_and_rows_without_a_body_have_text() -> None:
    table = pa.table(
        {
            "url": [URL, "https://b.example/", "https://c.example/"],
            "body": pa.array([b"<p>x", None, None], pa.large_binary()),
            "text": ["not used", "t\u00e9xt", None],
            "status": pa.array([404, None, 304], pa.uint32()),
            "headers": pa.array(
                [[("A", "1"), ("A", "2")], [("A", "1")], [("E", "2")]], pa.map_(pa.string(), pa.string())
            ),
            "fetched_url": ["https://a.example/#x", None, None],
        }
    )
    pages = pages_of(written(table))
    assert [(page.url, page.body, page.status) for page in pages] == [
        ("https://a.example/#x", b"<p>x", 404),
        ("https://b.example/", "t\u00e9xt".encode(), 200),
        ("https://c.example/", b"", 304),
    ]
    assert [len(page.headers) for page in pages] == [2, 1, 1] and pages[1].headers[0][0] == "Content-Type"


def test_a_body_that_many_rows_repeat_is_in_memory_once() -> None:
    body = os.urandom(1 << 20)
    rows = share(300, 3)
    bodies = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([body]))
    table = pa.table({"url": [f"https://a.example/{n}" for n in range(rows)], "body": bodies})
    stream = written(table, use_dictionary=True, dictionary_pagesize_limit=4 << 20)
    assert len(stream.getvalue()) < 2 << 20
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        assert sum(isinstance(entry, PageEntry) and entry.page.body == body for entry in read(stream)) == rows
    finally:
        pa.set_memory_pool(before)
    assert pool.max_memory() < 64 << 20


def test_parquet_is_found_by_its_content_and_not_read_from_a_pipe(tmp_path: Path) -> None:
    file = tmp_path / "crawl.warc.gz"
    file.write_bytes(written(plain_pages(3)).getvalue())
    store = str(tmp_path / "store")
    command = [python(), "-m", "docstore.cli", "ingest", "--create", "--store", store]
    done = subprocess.run([*command, str(file), "--reader"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "pages                3" in done.stdout, done.stderr
    with file.open("rb") as stream:
        piped = subprocess.run([*command, "-"], input=stream.read(), capture_output=True, check=False)
    assert piped.returncode == 8 and b"a Parquet file cannot be read from a pipe" in piped.stderr


def test_without_pyarrow_a_command_says_what_to_install(tmp_path: Path) -> None:
    file = tmp_path / "pages"
    file.write_bytes(written(plain_pages(1)).getvalue())
    commands = [
        ["ingest", str(file), "--create", "--no-reader", "--store", str(tmp_path / "store")],
        ["export", "--format", "parquet", "--output", str(tmp_path / "out"), "--store", str(tmp_path / "store")],
    ]
    program = (
        "import sys; sys.modules['pyarrow'] = None; from docstore.cli.main import main\n"
        f"print([main(words) for words in {commands!r}])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("[8, 2]\n"), done.stderr
    assert done.stderr.count("pip install '.[arrow]'") == 2
    assert not (tmp_path / "out").exists()


def test_an_export_goes_to_a_pipe_too(store: docstore.DocumentStore, tmp_path: Path) -> None:
    put_all_kinds(store)
    store.close()
    command = [python(), "-m", "docstore.cli", "export", "--format", "parquet", "--layout", "fineweb"]
    done = subprocess.run([*command, "--store", str(tmp_path / "store")], capture_output=True, check=False)
    assert done.returncode == 0 and pq.read_table(io.BytesIO(done.stdout)).num_rows > 5, done.stderr


def test_options_that_do_not_fit_are_refused(store: docstore.DocumentStore, tmp_path: Path, terminal: Terminal) -> None:
    run = terminal.on(tmp_path / "store")
    assert run("export", "--layout", "full").code == run("export", "--format", "parquet", "--body").code == 2
    refused = run("export", "--verdict", "same")
    assert refused.code == 2 and "not a verdict: 'same'; it is one of exact, same_text" in refused.err


def test_unique_leaves_copies_out(store: docstore.DocumentStore, tmp_path: Path, terminal: Terminal) -> None:
    for name in "ab":
        store.put_page(f"https://{name}.example/", html("One", article(1)), headers=HTML, fetched_at=T0)
    sweep(store, SweepOptions())
    for selection, left in ((Selection(collapse=True), "a"), (Selection(collapse=True, host="b.example"), "b")):
        assert store.to_arrow(["url"], selection).read_all().to_pydict() == {"url": [f"https://{left}.example/"]}
    store.close()
    file = str(tmp_path / "unique")
    run = terminal.on(tmp_path / "store")
    columns = ("--columns", "url,title")
    answer = run("export", "--format", "parquet", "--collapse", "--output", file, "--json", *columns)
    written = pq.read_table(file).to_pydict()
    assert (answer.object()["captures"], written) == (1, {"url": ["https://a.example/"], "title": ["One"]})
    assert run("export", "--format", "parquet", "--columns", "url,wrong", "--output", file).code == 2
    assert run("export", "--format", "jsonl", *columns).code == 2


# --- WET


def wet(count: int, kind: str = "text/plain") -> list[bytes]:
    """Records of a WET file, as Common Crawl writes them."""
    extra = f"WARC-Refers-To: <urn:uuid:2>\r\nContent-Type: {kind}\r\n"
    return [
        record(f"Tëxt number {number}, {' '.join(article(number, 60))}".encode(), f"{URL}{number}", "conversion", extra)
        for number in range(count)
    ]


def test_wet_files_are_read_as_plain_text(store: docstore.DocumentStore, tmp_path: Path) -> None:
    import gzip

    info = record(b"software: x\r\n", "", "warcinfo", "Content-Type: application/warc-fields\r\n")
    file = tmp_path / "CC.warc.wet.gz"
    file.write_bytes(b"".join(map(gzip.compress, [info, *wet(5)])))
    report = docstore_ingest(store, file)
    assert (report.pages, report.error_count, report.skipped) == (5, 0, {"warcinfo": 1})
    document = store.get(f"{URL}3")
    assert document is not None and document.text is not None and document.text.startswith("Tëxt number 3, ")
    assert (document.newest.status, document.newest.media_type) == (200, "text/plain")


def test_conversions_next_to_their_pages_are_no_pages() -> None:
    response = record(b"HTTP/1.1 200 OK\r\n\r\n<p>x", URL)
    found = list(read(io.BytesIO(b"".join([response, *wet(2)]))))
    assert [type(entry) for entry in found] == [PageEntry, SkippedEntry, SkippedEntry]
    found = list(read(io.BytesIO(b"".join([*wet(1, "image/png"), *wet(1)]))))
    assert [type(entry) for entry in found] == [SkippedEntry, PageEntry]
