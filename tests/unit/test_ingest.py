"""Ingest: order of files, revisits, damage, the same input twice."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from counts import stride
from pages import page, words
from warc_records import DATE as RECORD_DATE
from warc_records import HTML, message, record
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

import docstore
from docstore.archives.ingest import IngestOptions, IngestReport, ingest
from docstore.model.choices import VerdictKind
from docstore.reports.check import check

ROOT = Path(__file__).parent.parent.parent
SAMPLE = ROOT / "examples" / "sample-crawl.warc.gz"
BODY = page(words(1, 200))
DIGEST = "sha1:" + base64.b32encode(hashlib.sha1(BODY).digest()).decode()
DATE = "2024-05-01T10:00:00Z"


def samples() -> Path:
    shared = Path(os.environ.get("DOCSTORE_SHARED", ROOT.parent / "shared"))
    folder = shared / "corpus" / "warc-samples"
    if not folder.is_dir():
        pytest.skip("the shared archive samples are not on this machine (DOCSTORE_SHARED)")
    return folder


def write(path: Path, records: list[tuple[str, str, str, dict[str, str]]]) -> str:
    """A WARC of (type, URL, date, further headers); responses carry BODY."""
    with path.open("wb") as stream:
        writer = WARCWriter(stream, gzip=True, warc_version="1.1")
        for kind, url, date, extra in records:
            http = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], protocol="HTTP/1.1")
            dated = {"WARC-Date": date, **extra}
            if kind == "revisit":
                record = writer.create_revisit_record(url, DIGEST, "", "", http, dated)
                if "WARC-Refers-To-Target-URI" in extra:  # found by that alone
                    record.rec_headers.replace_header("WARC-Payload-Digest", "sha1:UNKNOWN")
            else:
                record = writer.create_warc_record(
                    url, kind, payload=io.BytesIO(BODY), http_headers=http, warc_headers_dict=dated
                )
            writer.write_record(record)
    return str(path)


def test_the_sample_crawl_is_ingested_with_its_duplicates(store: docstore.DocumentStore) -> None:
    report = ingest(store, [str(SAMPLE)])
    assert (report.pages, report.error_count) == (192, 0)
    assert report.verdicts["exact"] >= 3 and report.verdicts["near"] >= 14
    assert report.verdicts["near"] + report.verdicts["same_text"] >= 60
    assert report.previous["same_bytes"] == 2
    japanese = store.get("https://httpd.apache.org/docs/2.4/ja/glossary.html")
    assert japanese is None or japanese.text
    charsets = {document.newest.charset for row in store.cells.scan() if (document := store.get(row.url))}
    assert {"UTF-8", "EUC-JP", "EUC-KR"} <= {name.upper() for name in charsets if name}
    assert list(check(store.backend)) == []
    again = ingest(store, [str(SAMPLE)])
    assert (again.known, again.stored_bytes) == (192, 0)
    assert again.verdicts == report.verdicts


@pytest.mark.parametrize("order", list(itertools.permutations(("original", "by_uri", "by_digest"))))
def test_revisits_resolve_in_any_order_of_files(
    store: docstore.DocumentStore, tmp_path: Path, order: tuple[str, ...]
) -> None:
    by_uri = {"WARC-Refers-To-Target-URI": "https://a.example/", "WARC-Refers-To-Date": DATE}
    files = {
        "original": [("response", "https://a.example/", DATE, {})],
        "by_uri": [("revisit", "https://b.example/", "2024-05-02T10:00:00Z", by_uri)],
        "by_digest": [("revisit", "https://c.example/", "2024-05-03T10:00:00Z", {})],
    }
    paths = [write(tmp_path / f"{name}.warc.gz", files[name]) for name in order]
    report = ingest(store, paths)
    assert (report.pages, report.skipped) == (3, {})
    for url in ("https://a.example/", "https://b.example/", "https://c.example/"):
        found = store.get(url)
        assert found is not None and found.body == BODY


def test_unresolved_revisits_are_counted_and_resolved_by_a_later_run(
    store: docstore.DocumentStore, tmp_path: Path
) -> None:
    lost = {"WARC-Refers-To-Target-URI": "https://gone.example/", "WARC-Refers-To-Date": DATE}
    revisit = write(tmp_path / "r.warc.gz", [("revisit", "https://a.example/", "2024-05-02T10:00:00Z", lost)])
    report = ingest(store, [revisit])
    assert report.skipped == {"revisit_unresolved": 1}
    ((error),) = report.errors
    assert (error.file, error.url) == (revisit, "https://a.example/") and "https://gone.example/" in error.reason
    ingest(store, [write(tmp_path / "o.warc.gz", [("response", "https://gone.example/", DATE, {})])])
    assert ingest(store, [revisit]).skipped == {}
    found = store.get("https://a.example/")
    assert found is not None and found.body == BODY


def test_recorded_digests_and_document_numbers_are_found(store: docstore.DocumentStore, tmp_path: Path) -> None:
    ingest(store, [write(tmp_path / "d.warc.gz", [("response", "https://a.example/", DATE, {})])])
    trec = tmp_path / "t.trec"
    trec.write_bytes(
        b"<DOC>\n<DOCNO>GX000-00-1</DOCNO>\n<DOCHDR>\nhttp://t.example/\nHTTP/1.1 200 OK\nContent-Type: text/html\n"
        b"Date: Wed, 01 May 2024 10:00:00 GMT\n</DOCHDR>\n" + page(words(2, 60)) + b"</DOC>\n"
    )
    assert ingest(store, [str(trec)]).pages == 1
    assert [found.url for found in store.find(payload_digest=DIGEST)] == ["https://a.example/"]
    assert [found.url for found in store.find(docno="GX000-00-1")] == ["http://t.example/"]
    assert list(store.find(docno="GX000-00-2")) == []


def test_a_missing_file_is_an_error_and_the_run_continues(store: docstore.DocumentStore, tmp_path: Path) -> None:
    good = write(tmp_path / "o.warc.gz", [("response", "https://a.example/", DATE, {})])
    cut = tmp_path / "cut.warc.gz"
    cut.write_bytes(Path(good).read_bytes()[:-40])
    report = ingest(store, [str(tmp_path / "none.warc.gz"), str(cut), good])
    assert report.pages == 1
    assert {Path(error.file).name for error in report.errors} == {"none.warc.gz", "cut.warc.gz"}


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("salvage", [False, True])
def test_a_truncated_record_is_an_error_and_stored_with_salvage(
    store: docstore.DocumentStore, tmp_path: Path, pack: Callable[[bytes], bytes], salvage: bool
) -> None:
    whole, last = (pack(record(message(BODY), f"http://{name}.example/")) for name in "ab")
    path = tmp_path / "cut.warc"
    path.write_bytes(whole + last[: -len(last) // 3])
    report = ingest(store, [str(path)], IngestOptions(keep_truncated=salvage))
    ((error),) = report.errors
    assert (error.file, error.offset, error.url) == (str(path), len(whole), "http://b.example/")
    assert "the file ends inside a" in error.reason and error.reason.startswith("taken as it is: ") == salvage
    assert (report.pages, report.is_partial, "damaged" in report.skipped) == (1 + salvage, True, not salvage)
    found = store.get("http://b.example/")
    assert (found is not None) == salvage
    if found is not None:
        assert found.newest.header("WARC-Truncated") == "unspecified"
        assert found.body and BODY.startswith(found.body) and len(found.body) > len(BODY) // 3


def test_a_body_shorter_than_its_length_is_stored_and_reported(store: docstore.DocumentStore, tmp_path: Path) -> None:
    sound = record(message(BODY), "http://a.example/")
    path = tmp_path / "short.warc"
    path.write_bytes(
        sound
        + record(message(BODY, length=len(BODY) + 100), "http://b.example/")
        + record(message(BODY, length=len(BODY) + 100), "http://c.example/", extra="WARC-Truncated: length\r\n")
        + record(message(b"", "304 Not Modified", length=100), "http://a.example/")
    )
    report = ingest(store, [str(path)])
    ((error),) = report.errors
    assert (error.offset, error.url) == (len(sound), "http://b.example/")
    assert f"body of {len(BODY)} bytes, but its Content-Length is {len(BODY) + 100}" in error.reason
    assert (report.pages, report.skipped) == (4, {})  # the 304 is of the same second: a visit after the page


def test_progress_and_streams(store: docstore.DocumentStore) -> None:
    seen: list[int] = []
    with SAMPLE.open("rb") as stream:
        report = ingest(store, [stream], on_progress=lambda report: seen.append(report.pages))
    assert seen[-1] == report.pages == 192
    assert seen == sorted(seen)


def test_shared_samples_are_ingested_and_nothing_is_stored_twice(store: docstore.DocumentStore) -> None:
    paths = sorted(str(path) for path in samples().iterdir() if path.suffix != ".tsv")[stride(3) // 3 :: stride(9)]
    first = ingest(store, paths)
    assert first.pages > 1500 // stride(15)
    assert first.error_count > 100 // stride(15)
    assert all(error.file and error.reason and error.offset >= 0 for error in first.errors)
    assert list(check(store.backend)) == []
    again = ingest(store, paths, IngestOptions(threads=1))
    assert (again.stored, again.stored_bytes) == (0, 0)
    assert again.verdicts == first.verdicts


def test_a_report_is_plain_data() -> None:
    report = IngestReport()
    report.add_error("f", 3, "why")
    plain = report.asdict()
    assert plain["errors"] == [{"file": "f", "offset": 3, "reason": "why", "url": ""}]
    assert set(plain["verdicts"]) == {str(kind) for kind in VerdictKind}


# --- revisits: the forms in which crawlers name the original (WARC 1.1, 6.7)

_BODY = HTML * 4
_SHA1 = hashlib.sha1(_BODY).digest()
_SHA256 = hashlib.sha256(_BODY).digest()


def _revisit(url: str = "http://example.com/again", digest: str = "", refers: str = "", at: str = "") -> bytes:
    extra = "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n"
    extra += f"WARC-Payload-Digest: {digest}\r\n" if digest else ""
    extra += f"WARC-Refers-To-Target-URI: {refers}\r\n" if refers else ""
    extra += f"WARC-Refers-To-Date: {at}\r\n" if at else ""
    return record(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", url, "revisit", extra)


def _ingested(store: docstore.DocumentStore, raw: bytes) -> IngestReport:
    return ingest(store, [io.BytesIO(raw)])


@pytest.mark.parametrize(
    ("recorded", "named"),
    [
        ("sha1:" + base64.b32encode(_SHA1).decode(), "sha1:" + _SHA1.hex()),
        ("sha1:" + base64.b32encode(_SHA1).decode().lower(), "SHA1:" + _SHA1.hex().upper()),
        ("sha1:" + _SHA1.hex(), base64.b32encode(_SHA1).decode()),
        ("sha-256:" + _SHA256.hex(), "sha256:" + base64.b32encode(_SHA256).decode()),
        ("", "sha256:" + _SHA256.hex()),
        ("", "sha1:" + base64.b32encode(_SHA1).decode()),
    ],
)
def test_a_revisit_finds_its_original_whatever_form_the_digest_has(
    store: docstore.DocumentStore, recorded: str, named: str
) -> None:
    extra = f"WARC-Payload-Digest: {recorded}\r\n" if recorded else ""
    url = "http://example.com/again"
    original = record(message(_BODY), "http://example.com/first" if recorded else url, extra=extra)
    visit = _revisit(url, named).replace(RECORD_DATE.encode(), b"2025-01-01T00:00:00Z")
    report = _ingested(store, original + visit)
    assert (report.pages, report.errors) == (2, [])
    found = store.get(url)
    assert found is not None
    assert found.body == _BODY


def test_an_original_of_an_arc_file_is_found_by_the_digest_of_its_body(store: docstore.DocumentStore) -> None:
    block = message(_BODY)
    arc = b"filedesc://a.arc 0.0.0.0 20240101000000 text/plain 15\n1 0 Crawler\n\n\n\n"
    arc += b"http://example.com/ 192.0.2.1 20240506070809 text/html %d\n" % len(block) + block + b"\n"
    assert _ingested(store, arc).pages == 1
    visit = _revisit("http://example.com/", "sha1:" + _SHA1.hex()).replace(
        RECORD_DATE.encode(), b"2025-01-01T00:00:00Z"
    )
    assert _ingested(store, visit).errors == []


@pytest.mark.parametrize("named", ["2024-05-06T07:08:09Z", "2024-05-06T07:08:09.123Z", "2024-05-06T07:08:09.9Z"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_revisit_finds_its_original_by_url_and_second(store: docstore.DocumentStore, named: str, scheme: str) -> None:
    original = record(message(_BODY), "http://example.com/first")
    report = _ingested(store, original + _revisit(refers=f"{scheme}://example.com/first", at=named))
    assert (report.pages, report.errors) == (2, [])


def test_a_revisit_does_not_take_the_body_of_another_second(store: docstore.DocumentStore) -> None:
    original = record(message(_BODY), "http://example.com/first")
    report = _ingested(store, original + _revisit(refers="http://example.com/first", at="2024-05-06T07:08:10Z"))
    assert (report.pages, report.unresolved) == (1, 1)


@pytest.mark.parametrize("in_order", [False, True])
def test_a_revisit_of_a_revisit_is_resolved(store: docstore.DocumentStore, in_order: bool) -> None:
    original = record(message(_BODY), "http://example.com/first")
    second = _revisit("http://example.com/second", refers="http://example.com/first", at=RECORD_DATE)
    third = _revisit("http://example.com/third", refers="http://example.com/second", at=RECORD_DATE)
    report = _ingested(store, original + (second + third if in_order else third + second))
    assert (report.pages, report.errors) == (3, [])
    found = store.get("http://example.com/third")
    assert found is not None
    assert found.body == _BODY


def test_a_repaired_record_is_counted(store: docstore.DocumentStore) -> None:
    block = message(_BODY)
    report = _ingested(store, record(block, length=len(block) - 3) + record(message(), "http://example.com/2"))
    assert (report.pages, report.repaired, report.errors) == (2, 1, [])


@pytest.mark.parametrize("url", ["urn:pageinfo:http://a.example/", "dns:a.example", "screenshot:http://a.example/"])
def test_records_of_other_schemes_are_counted_by_their_scheme(store: docstore.DocumentStore, url: str) -> None:
    report = _ingested(store, record(b"text", url, "resource") + record(message()))
    scheme = url.partition(":")[0]
    assert (report.pages, report.skipped) == (1, {scheme: 1})
