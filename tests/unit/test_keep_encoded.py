"""Records as they were recorded: WARC in, store, WARC out gives the same bytes."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
import zlib
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_case import Terminal
from warc_records import message, record
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

import docstore
from docstore.archives.export import WarcExport, export
from docstore.archives.ingest import IngestOptions, ingest
from docstore.archives.selection import Selection
from docstore.archives.wacz import WaczExport
from docstore.model.errors import InvalidArgument
from docstore.reports.check import check

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "examples" / "sample-crawl.warc.gz"
NO_PAGES = {"damaged", "refused", "segment", "visit_of_unknown", "empty response"}
"""Reasons in a report of an archive that is damaged on purpose, or has records that no capture stands for."""
KEPT = ("response", "resource", "revisit", "request", "metadata")
HTML = b"<html><title>Encoded</title><p>Some words that are encoded in several ways for this test of records."
URL = "https://a.example/"
ALL = Selection(versions=None)


def members(path: Path) -> list[bytes]:
    """The gzip members of a file, unpacked."""
    raw, found = path.read_bytes(), []
    while raw:
        inflater = zlib.decompressobj(31)
        found.append(inflater.decompress(raw) + inflater.flush())
        raw = inflater.unused_data
    return found


def kept(records: list[bytes]) -> Counter[bytes]:
    """Those that are kept: of a web URL."""
    return Counter(one for one in records if b"\nWARC-Type: warcinfo" not in one)


def chunked(body: bytes) -> bytes:
    return b"%x;ext=1\r\n%s\r\n5\r\n%s\r\n0\r\nTrailer: x\r\n\r\n" % (len(body) - 5, body[:-5], body[-5:])


@pytest.fixture
def crawl(tmp_path: Path) -> Path:
    """Pages in each encoding, with requests, metadata, revisits, a resource, and a 304."""
    path = tmp_path / "crawl.warc.gz"
    bodies = [
        ([], HTML),
        ([("Content-Encoding", "gzip")], gzip.compress(HTML, mtime=0)),
        ([("Transfer-Encoding", "chunked")], chunked(HTML + b" chunked")),
        ([("Content-Encoding", "gzip"), ("Transfer-Encoding", "chunked")], chunked(gzip.compress(HTML, mtime=0))),
        ([("Content-Encoding", "deflate"), ("X-Odd", "caf\u00e9")], zlib.compress(HTML + b" deflated")),
    ]
    with path.open("wb") as stream:
        writer = WARCWriter(stream, gzip=True, warc_version="1.1")
        writer.write_record(writer.create_warcinfo_record("crawl.warc.gz", {"software": "test"}))

        def write(kind: str, url: str, block: bytes, status: str, headers: list[tuple[str, str]], date: str) -> str:
            protocol = "HTTP/1.1"
            http = None if kind in ("metadata", "resource") else StatusAndHeaders(status, headers, protocol=protocol)
            made = writer.create_warc_record(
                url, kind, payload=io.BytesIO(block), http_headers=http, warc_headers_dict={"WARC-Date": date}
            )
            writer.write_record(made)
            return str(made.rec_headers.get_header("WARC-Payload-Digest"))

        for number, (headers, body) in enumerate(bodies):
            url, date = f"{URL}{number}", f"2024-05-01T00:00:0{number}.123456Z"
            write("request", url, b"", "GET / HTTP/1.1", [("Host", "a.example")], date)
            headers = [("Content-Type", "text/html"), *headers, ("Content-Length", str(len(body)))]
            digest = write("response", url, body, "200 OK", headers, date)
            write("metadata", url, b"fetchTimeMs: %d" % number, "", [], date)
            http = StatusAndHeaders("200 OK", headers, protocol="HTTP/1.1")
            later = {"WARC-Date": f"2024-05-02T00:00:0{number}Z"}
            revisit = writer.create_revisit_record(url, digest, url, date, http_headers=http, warc_headers_dict=later)
            writer.write_record(revisit)
        write("resource", "https://a.example/picture", bytes(range(256)) * 5, "", [], "2024-05-01T00:00:09Z")
        write("response", f"{URL}1", b"", "304 Not Modified", [("ETag", '"1"')], "2024-05-03T00:00:00Z")
    return path


@pytest.mark.parametrize("reader", ["--reader", "--no-reader"])
def test_an_export_has_the_records_of_the_crawl_byte_for_byte(
    run: Terminal, crawl: Path, tmp_path: Path, reader: str
) -> None:
    report = run("ingest", str(crawl), "--keep-encoded", "--create", "--json", reader).object()
    assert (report["errors"], report["records"]) == ([], 22)
    file = tmp_path / "same.warc.gz"
    assert run("export", "--keep-encoded", "--versions", "all", "--output", str(file)).code == 0
    assert kept(members(file)) == kept(members(crawl))
    assert Checker(Namespace(inputs=[str(file)], verbose=False)).process_all() == 0
    with docstore.open(run.store) as store:
        assert list(check(store.backend)) == []


def test_without_the_option_the_export_is_as_ever(run: Terminal, crawl: Path, tmp_path: Path) -> None:
    run("ingest", str(crawl), "--keep-encoded", "--create")
    plain = run.on(tmp_path / "plain")
    plain("ingest", str(crawl), "--create")
    files = [tmp_path / "one.warc.gz", tmp_path / "two.warc.gz"]
    for terminal, file in zip((run, plain), files, strict=True):
        assert terminal("export", "--versions", "all", "--output", str(file)).code == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def test_a_repeated_run_keeps_each_record_once(run: Terminal, crawl: Path, tmp_path: Path) -> None:
    for _ in range(2):
        run("ingest", str(crawl), "--keep-encoded", "--create")
    file = tmp_path / "same.warc.gz"
    run("export", "--keep-encoded", "--versions", "all", "--output", str(file))
    assert kept(members(file)) == kept(members(crawl))


def test_of_a_part_of_the_store_each_page_has_its_content(run: Terminal, crawl: Path, tmp_path: Path) -> None:
    run("ingest", str(crawl), "--keep-encoded", "--create")
    file = tmp_path / "newest.warc.gz"
    assert run("export", "--keep-encoded", "--output", str(file)).code == 0
    other = run.on(tmp_path / "other")
    assert other("ingest", str(file), "--create", "--json").object()["errors"] == []
    with docstore.open(run.store) as first, docstore.open(other.store) as second:
        for number in range(5):
            before, after = first.get(f"{URL}{number}"), second.get(f"{URL}{number}")
            assert before is not None and after is not None
            assert (before.body, before.timestamp) == (after.body, after.timestamp)


def test_bodies_that_are_not_encoded_are_stored_once(run: Terminal, tmp_path: Path) -> None:
    body = b"<!--" + os.urandom(200_000).replace(b">", b"=") + b"-->"
    path = tmp_path / "x.warc"
    path.write_bytes(record(message(body)))
    report = run("ingest", str(path), "--keep-encoded", "--create", "--json").object()
    assert report["records"] == 1 and report["stored_bytes"] < 1.1 * len(body)


def test_a_rejected_page_keeps_no_record(run: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "x.warc"
    body = gzip.compress(HTML * 20, mtime=0)
    block = message(body, headers=["Content-Encoding: gzip"])
    path.write_bytes(record(block, f"{URL}1") + record(block, f"{URL}2"))
    report = run("ingest", str(path), "--keep-encoded", "--create", "--policy", "exact=reject-any", "--json").object()
    assert (report["rejected"], report["records"]) == (1, 1)
    again = run("ingest", str(path), "--keep-encoded", "--policy", "exact=reject-any", "--json").object()
    assert (again["known"], again["records"]) == (2, 1)


def test_passwords_are_not_kept_in_records(run: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "x.warc"
    url = "https://user:pass@a.example/"
    path.write_bytes(record(message(), url) + record(b"GET / HTTP/1.1\r\n\r\n", url, "request"))
    report = run("ingest", str(path), "--keep-encoded", "--strip-passwords", "--create", "--json").object()
    assert (report["pages"], report["records"]) == (1, 0)


def test_a_store_without_the_family_is_refused_with_what_to_do(run: Terminal, crawl: Path, tmp_path: Path) -> None:
    run("ingest", str(crawl), "--create")
    refused = run("ingest", str(crawl), "--keep-encoded")
    assert refused.code == 2 and "docstore init --family warc" in refused.err
    refused = run("export", "--keep-encoded", "--output", str(tmp_path / "x"))
    assert refused.code == 2 and not (tmp_path / "x").exists()


def test_pages_of_other_sources_are_written_next_to_kept_records(run: Terminal, crawl: Path, tmp_path: Path) -> None:
    run("ingest", str(crawl), "--keep-encoded", "--create")
    with docstore.open(run.store) as store:
        store.put_page("https://b.example/", HTML, headers={"Content-Type": "text/html"})
        store.put_page(f"{URL}1", status=304, fetched_at=1_717_200_000_000_000)
    file = tmp_path / "all.warc.gz"
    run("export", "--keep-encoded", "--versions", "all", "--output", str(file))
    assert kept(members(crawl)) <= kept(members(file))
    with file.open("rb") as stream:
        records = [(one.rec_type, one.rec_headers.get_header("WARC-Target-URI")) for one in ArchiveIterator(stream)]
    assert records.count(("revisit", "https://b.example/")) + records.count(("response", "https://b.example/")) == 1
    assert ("revisit", f"{URL}1") in records
    assert Checker(Namespace(inputs=[str(file)], verbose=False)).process_all() == 0
    other = run.on(tmp_path / "other")
    assert other("ingest", str(file), "--create", "--json").object()["errors"] == []
    with docstore.open(other.store) as store:
        assert store.get("https://b.example/").body == HTML  # type: ignore[union-attr]


def test_arc_records_become_responses_with_their_encoding(run: Terminal, tmp_path: Path) -> None:
    block = message(gzip.compress(HTML, mtime=0), headers=["Content-Encoding: gzip"])
    path = tmp_path / "x.arc"
    path.write_bytes(b"http://a.example/ 192.0.2.1 20240506070809 text/html %d\n%s\n" % (len(block), block))
    run("ingest", str(path), "--keep-encoded", "--create")
    file = tmp_path / "out.warc.gz"
    run("export", "--keep-encoded", "--output", str(file))
    assert members(file)[1].endswith(b"\r\n\r\n" + block + b"\r\n\r\n")
    assert Checker(Namespace(inputs=[str(file)], verbose=False)).process_all() == 0


def test_a_dry_run_keeps_nothing(run: Terminal, crawl: Path) -> None:
    assert run("init", "--family", "warc").code == 0
    assert run("ingest", str(crawl), "--keep-encoded", "--dry-run").code == 0
    with docstore.open(run.store) as store:
        assert list(store.cells.scan()) == []


def test_a_wacz_has_records_as_they_were_recorded(run: Terminal, crawl: Path, tmp_path: Path) -> None:
    run("ingest", str(crawl), "--keep-encoded", "--create")
    stream = io.BytesIO()
    with docstore.open(run.store) as store:
        export(store, WaczExport(stream, "test"), ALL, keep_encoded=True)
    with zipfile.ZipFile(stream) as opened:
        (tmp_path / "data.warc.gz").write_bytes(opened.read("archive/data.warc.gz"))
        lines = gzip.decompress(opened.read("indexes/index.cdx.gz")).splitlines()
    assert kept(members(tmp_path / "data.warc.gz")) == kept(members(crawl))
    assert len(lines) == 12  # pages and revisits, without requests and metadata


# --- real samples


def samples() -> Iterator[Path]:
    shared = Path(os.environ.get("DOCSTORE_SHARED", ROOT.parent / "shared"))
    folder = shared / "corpus" / "warc-samples"
    if not folder.is_dir():
        pytest.skip("the shared archive samples are not on this machine (DOCSTORE_SHARED)")
    return (path for path in sorted(folder.iterdir()) if path.suffix != ".tsv")


def pages_and_records(path: Path) -> Counter[tuple[str, str, str, str, bytes]]:
    """Type, URL, id, payload digest and content of each record of a web URL, as warcio reads them."""
    found: Counter[tuple[str, str, str, str, bytes]] = Counter()
    with path.open("rb") as stream:
        for one in ArchiveIterator(stream, no_record_parse=True):
            header = one.rec_headers.get_header
            url = (header("WARC-Target-URI") or "").strip("<>")
            if one.rec_type in KEPT and url.startswith(("http:", "https:", "ftp:")):
                digest = header("WARC-Payload-Digest") or ""
                found[one.rec_type, url, header("WARC-Record-ID"), digest, one.content_stream().read()] += 1
    pages = {key[1] for key in found if key[0] in KEPT[:3]}
    # A request without a page is kept, but there is no capture to export it with.
    return Counter({key: count for key, count in found.items() if key[1] in pages})


@pytest.mark.parametrize("shared", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["sample-crawl", "shared"])
def test_real_archives_survive_byte_for_byte(tmp_path: Path, shared: bool) -> None:
    checked = 0
    for number, path in enumerate(samples() if shared else [SAMPLE]):
        with docstore.open(
            tmp_path / f"{number}", create=True, schema=docstore.Schema(families=(docstore.ColumnFamily("warc"),))
        ) as store:
            report = ingest(store, [str(path)], IngestOptions(keep_encoded=True, reader=False, any_time=True))
            if report.error_count or report.repaired or NO_PAGES & set(report.skipped):
                continue
            try:
                expected = pages_and_records(path)
            except Exception:
                continue  # warcio cannot read it
            # Answers to POST are kept, but they are no captures.
            expected = Counter({key: count for key, count in expected.items() if key[1] in store})
            if not expected:
                continue  # ARC, or no page
            file = tmp_path / f"{number}.warc.gz"
            with file.open("wb") as stream:
                export(store, WarcExport(stream), ALL, keep_encoded=True)
            assert set(pages_and_records(file)) == set(expected), path
            checked += len(expected)
    print(f"{checked} records are the same")
    assert checked >= (500 if shared else 192)


def test_the_interface_refuses_as_the_command_does(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "store", create=True) as store, pytest.raises(InvalidArgument, match="family 'warc'"):
        ingest(store, [], IngestOptions(keep_encoded=True))


def test_cells_of_somebody_else_in_the_family_are_left_out(run: Terminal, tmp_path: Path) -> None:
    assert run("init", "--family", "warc").code == 0
    with docstore.open(run.store) as store:
        stored = store.put_page(URL, HTML, headers={"Content-Type": "text/html"}, fetched_at=1_714_521_600_000_000)
        for number, value in enumerate((b"", b"\xc1", b"\x93\x01\x02\x00", b"text")):
            mutation = docstore.SetCell("warc", b"response %d" % number, stored.timestamp, value)
            store.cells.apply(URL, [mutation])
    files = [tmp_path / "kept.warc.gz", tmp_path / "plain.warc.gz"]
    assert run("export", "--keep-encoded", "--output", str(files[0])).code == 0
    assert run("export", "--output", str(files[1])).code == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def test_records_of_captures_that_are_not_selected_are_not_written(run: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "three.warc"
    answers = [
        b"HTTP/1.1 %d Said\r\nContent-Type: text/html\r\n\r\n<p>%d" % (status, status) for status in (404, 200, 500)
    ]
    raw = b""
    for number, answer in enumerate(answers):
        asked = b"GET / HTTP/1.1\r\nHost: a.example\r\nCookie: number-%d\r\n\r\n" % number
        date = f"2024-05-0{number + 1}T00:00:00Z".encode()
        for one in (record(answer, URL), record(asked, URL, "request")):
            raw += one.replace(b"2024-05-06T07:08:09.123456Z", date)
    path.write_bytes(raw)
    assert run("ingest", str(path), "--keep-encoded", "--create").code == 0
    for options, cookies in (
        (("--versions", "all", "--status", "200"), {1}),
        (("--versions", "all", "--status", "500"), {2}),
        (("--versions", "2"), {1, 2}),
        (("--versions", "all"), {0, 1, 2}),
    ):
        file = tmp_path / "part.warc.gz"
        assert run("export", "--keep-encoded", *options, "--output", str(file)).code == 0
        written = b"".join(members(file))
        assert {number for number in range(3) if b"number-%d" % number in written} == cookies
