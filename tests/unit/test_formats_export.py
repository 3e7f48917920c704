"""An export reads back as the same pages, with any headers and bodies."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docstore.archives.entries import Entry, PageEntry, ReadOptions, RevisitEntry, SkippedEntry
from docstore.archives.export import ExportPage, TrecWebExport, WarcExport, document_number
from docstore.archives.reader import read
from docstore.model.types import Page

CRAWL = Path(__file__).parents[2] / "examples" / "sample-crawl.warc.gz"
MICROS = 1_714_979_289_123_000


def warc(pages: list[Page]) -> bytes:
    stream = io.BytesIO()
    writer = WarcExport(stream)
    for page in pages:
        writer.write(ExportPage(page))
    return stream.getvalue()


def trecweb(pages: list[Page]) -> bytes:
    stream = io.BytesIO()
    writer = TrecWebExport(stream)
    for page in pages:
        writer.write(ExportPage(page))
    return stream.getvalue()


def run(raw: bytes) -> list[Entry]:
    return list(read(io.BytesIO(raw)))


def pages_again(raw: bytes) -> list[Page]:
    """Pages of an export, revisits resolved by URL and date as an ingest does."""
    pages: list[Page] = []
    bodies: dict[tuple[str, int], bytes] = {}
    for entry in run(raw):
        if isinstance(entry, RevisitEntry):
            assert entry.refers_to_date is not None
            page = Page(entry.url, bodies[entry.refers_to_uri, entry.refers_to_date], entry.status, entry.headers,
                        entry.fetched_at, entry.ip, entry.payload_digest, entry.docno)  # fmt: skip
        else:
            if isinstance(entry, SkippedEntry):
                assert entry.reason == "warcinfo"
                continue
            assert isinstance(entry, PageEntry), entry
            page = entry.page
        pages.append(page)
        assert page.fetched_at is not None
        bodies[page.url, page.fetched_at] = page.body
    return pages


def with_digest(page: Page) -> Page:
    """The page as it reads back: with the digest of its body, if it had none and has a payload."""
    names = [name for name, _ in page.headers]
    if not page.url.startswith("http") and (page.status != 200 or names not in ([], ["Content-Type"])):
        return page  # an HTTP message of another protocol has no defined payload
    digest = base64.b32encode(hashlib.sha1(page.body, usedforsecurity=False).digest()).decode()
    return page if page.payload_digest else page._replace(payload_digest=f"sha1:{digest}")


def with_number(page: Page) -> Page:
    number = page.docno or document_number(page.url, page.fetched_at or 0)
    return page._replace(docno=number, payload_digest="")


HARD_PAGES = [
    Page("http://example.com/", b"<p>plain", 200, (("Content-Type", "text/html"), ("Content-Length", "8")), MICROS),
    Page("http://example.com/packed", b"<p>was packed", 200, (("Content-Encoding", "gzip"), ("X", "1")), MICROS),
    Page("http://example.com/chunks", b"3\r\nabc\r\n", 200, (("Transfer-Encoding", "chunked"), ("X", "1")), MICROS),
    Page("http://example.com/lie", b"short", 200, (("Content-Length", "999"), ("content-length", "5")), MICROS),
    Page("http://example.com/none", b"no header at all", 200, (), MICROS),
    Page("http://example.com/empty", b"", 301, (("Location", "/"),), MICROS),
    Page("http://example.com/odd", b"x", 599, (("X-\xc4", "caf\xe9 \u5b57"), ("X", ""), ("X", "a")), MICROS),
    Page("http://example.com/again", b"<p>plain", 200, (("ETag", '"1"'),), MICROS + 5000, "192.0.2.1", "", "D-1"),
    Page("http://example.com/", b"<p>plain", 200, (("Content-Encoding", "br"),), MICROS + 9_000_000),
    Page("http://example.com/digest", b"\x00\xff\r\n\r\nWARC/1.0\r\n", 200, (), 0, "::1", "md5:recorded", "GX-1"),
    Page("http://example.com/cut", b"<p>cu", 200, (("Content-Length", "50"), ("WARC-Truncated", "length")), MICROS),
    Page("ftp://example.com/a.txt", b"by ftp", 200, (("Content-Type", "text/plain"),), MICROS),
    Page("ftp://example.com/untyped", b"by ftp too", 200, (), MICROS),
    Page("gopher://example.com/1", b"odd", 404, (("X", "1"),), MICROS),
    Page("http://example.com/doc", b"a\n</DOC>\n<DOC>\n<DOCNO>x</DOCNO>\n</DOC>\nb\n", 200, (), MICROS, docno="D-2"),
    Page("http://example.com/spaces", b"\n \t\nbody\r\n", 200, (("A", "b"),), MICROS),
]


def test_warc_export_reads_again_as_the_same_pages() -> None:
    assert pages_again(warc(HARD_PAGES)) == [with_digest(page) for page in HARD_PAGES]


def test_trecweb_export_reads_again_as_the_same_pages() -> None:
    expected = [with_number(page) for page in HARD_PAGES]
    assert pages_again(trecweb(HARD_PAGES)) == expected
    assert pages_again(gzip.compress(trecweb(HARD_PAGES))) == expected


def test_sample_crawl_survives_both_formats() -> None:
    pages = [entry.page for entry in read(CRAWL) if isinstance(entry, PageEntry)]
    assert pages_again(warc(pages)) == pages
    assert pages_again(trecweb(pages)) == [with_number(page) for page in pages]


_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zl", "Zp", "Cs"]), max_size=12).map(str.strip)
_NAMES = st.sampled_from(["Content-Type", "content-encoding", "Transfer-Encoding", "Content-Length", "X-A", "Date"])
_PAGES = st.builds(
    Page,
    st.sampled_from(["http://example.com/a", "https://example.com/b?c=d", "ftp://example.com/"]),
    st.one_of(st.binary(max_size=60), st.sampled_from([b"same", b"</DOC>\n</DOC>", b"\r\n\r\nWARC/1.1\r\n"])),
    st.integers(100, 999),
    st.lists(st.tuples(_NAMES, st.one_of(_TEXT, st.sampled_from(["gzip", "chunked", "4"]))), max_size=4).map(tuple),
    st.integers(0, 4_000_000_000_000).map(lambda millis: millis * 1000),
    ip=st.just(""),
    payload_digest=st.just(""),
    docno=st.sampled_from(["", "D-1"]),
    crawl=st.just(""),  # archives do not carry it
)


@given(st.lists(_PAGES, max_size=5, unique_by=lambda page: (page.url, page.fetched_at)))
def test_any_pages_survive_warc(pages: list[Page]) -> None:
    assert not pages or pages_again(warc(pages)) == [with_digest(page) for page in pages]


@given(st.lists(_PAGES, max_size=5))
def test_any_pages_survive_trecweb(pages: list[Page]) -> None:
    assert not pages or pages_again(trecweb(pages)) == [with_number(page) for page in pages]


def test_only_the_same_bytes_become_revisits() -> None:
    entries = run(warc(HARD_PAGES))
    revisits = [entry for entry in entries if isinstance(entry, RevisitEntry)]
    assert [entry.url for entry in revisits] == ["http://example.com/again", "http://example.com/"]
    assert all((entry.refers_to_uri, entry.refers_to_date) == ("http://example.com/", MICROS) for entry in revisits)


def test_warc_export_is_valid_for_warcio() -> None:
    from warcio.archiveiterator import ArchiveIterator

    types = []
    for record in ArchiveIterator(io.BytesIO(warc(HARD_PAGES)), check_digests="raise"):
        types.append(record.rec_type)
        body = record.content_stream().read()  # all of it, so that digests are compared
        if record.rec_type == "response" and record.http_headers:
            assert int(record.http_headers["Content-Length"]) == len(body)
    assert len(types) == len(HARD_PAGES) + 1


def test_a_recorded_digest_of_the_encoded_body_is_kept_next_to_the_correct_one() -> None:
    packed = Page("http://example.com/a", b"<p>body", 200, (("Content-Encoding", "gzip"),), MICROS, "", "sha1:PACKED")
    again = packed._replace(url="http://example.com/b", payload_digest="md5:other")
    raw = warc([packed, again])
    true_digest = with_digest(packed._replace(payload_digest="")).payload_digest
    assert gzip.decompress(raw).count(f"WARC-Payload-Digest: {true_digest}\r\n".encode()) == 2
    assert gzip.decompress(raw).count(b"WARC-Type: revisit") == 1
    assert pages_again(raw) == [packed, again]


@pytest.mark.parametrize("url", ["http://example.com/", "ftp://example.com/"])
def test_recorded_values_cannot_forge_a_field_of_a_record(url: str) -> None:
    odd = "a\r\nWARC-Type: request\r\n\r\n\udc80"
    page = Page(url, b"x", 200, (("X", odd),), MICROS, odd, odd, odd)
    for raw in (warc([page]), trecweb([page])):
        (found,) = pages_again(raw)
        assert (found.url, found.body, found.docno) == (url, b"x", "a WARC-Type: request ?")


def test_line_breaks_in_a_header_cannot_forge_another() -> None:
    forged = Page("http://example.com/", b"x", 200, (("X", "a\r\nY: b\r\n\r\nbody"), ("Bad:Name", "c")), MICROS)
    for raw in (warc([forged]), trecweb([forged])):
        assert pages_again(raw)[0].headers == (("X", "a Y: b body"),)


def test_header_names_with_a_blank_survive() -> None:
    headers = (("Bad Name", "c"), ("a\tb  c", "\xe9"), ("X", "1"))
    page = Page("http://example.com/", b"x", 200, headers, MICROS)
    for raw in (warc([page]), trecweb([page])):
        assert pages_again(raw)[0].headers == headers


# --- TREC Web as the collections have it ---

WT10G = (
    b"<DOC>\n<DOCNO>WTX001-B01-1</DOCNO>\n<DOCOLDNO>IA001-000000-B001-1</DOCOLDNO>\n<DOCHDR>\n"
    b"http://www.example.com:80/a b.html 192.0.2.1 19970221211534 text/html 216\nHTTP/1.0 200 OK\n"
    b"Date: Friday, 21-Feb-97 21:15:34 GMT\nContent-type: text/html\n\n</DOCHDR>\n<HTML>one\n</HTML>\n</DOC>\n"
)
GOV2 = (
    b"<DOC>\r\n<DOCNO>GX000-00-0000000</DOCNO>\r\n<DOCHDR>\r\nhttp://www.example.gov/\r\nHTTP/1.1 404 Not Found\r\n"
    b"Date: Mon, 26 Jan 2004 22:36:01 GMT\r\nServer: \xfc\r\n</DOCHDR>\r\n<p>caf\xe9 </doc> here\r\n</DOC>\r\n"
)


def test_documents_of_the_trec_collections_are_read() -> None:
    one, two = (entry.page for entry in run(WT10G + GOV2) if isinstance(entry, PageEntry))
    assert (one.url, one.ip, one.docno) == ("http://www.example.com:80/a b.html", "192.0.2.1", "WTX001-B01-1")
    assert (one.fetched_at, one.status, one.body) == (856_559_734_000_000, 200, b"<HTML>one\n</HTML>")
    assert one.header("content-type") == "text/html"
    assert (two.url, two.docno, two.status) == ("http://www.example.gov/", "GX000-00-0000000", 404)
    assert two.body == b"<p>caf\xe9 </doc> here"
    assert two.fetched_at == 1_075_156_561_000_000
    assert two.header("server") == "\xfc"


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (b"<DOC>\n<DOCNO>x</DOCNO>\n<p>no header\n</DOC>\n", "without"),
        (GOV2.replace(b"http://www.example.gov/\r\nHTTP/1.1 404 Not Found", b""), "without a URL"),
        (GOV2.replace(b"<DOCNO>GX000-00-0000000</DOCNO>\r\n", b""), "without a <DOCNO>"),
        (GOV2[:-8], "</DOC>"),
        (b"garbage\n", "expected <DOC>"),
    ],
)
def test_damaged_document_loses_no_other(damaged: bytes, reason: str) -> None:
    found = run(WT10G + damaged + WT10G)
    pages = [entry for entry in found if isinstance(entry, PageEntry)]
    assert [entry.page.docno for entry in pages] == ["WTX001-B01-1"] * 2
    (bad,) = [entry for entry in found if not isinstance(entry, PageEntry)]
    assert bad.offset == len(WT10G)
    assert reason in bad.reason  # type: ignore[union-attr]


def test_truncated_trecweb_file_reports_its_last_document() -> None:
    raw = WT10G + WT10G[:-10]
    found = run(raw)
    assert [type(entry).__name__ for entry in found] == ["PageEntry", "DamagedEntry"]
    kept = list(read(io.BytesIO(raw), ReadOptions(salvage=True)))[1]
    assert isinstance(kept, PageEntry) and kept.page.body.startswith(b"<HTML>one") and "</DOC>" in kept.flaw
    assert kept.page.header("WARC-Truncated") == "unspecified"
    found = run(gzip.compress(raw + WT10G * 50)[:-12])
    assert type(found[0]).__name__ == "PageEntry"
    assert type(found[-1]).__name__ == "DamagedEntry"


@pytest.mark.parametrize(
    ("declared", "is_listed"),
    [(17, False), (18, False), (19, False), (20, True), (100, True), (17 + 78, False), (17 + 78 + 9, True), (3, False)],
)
def test_a_document_that_is_shorter_than_its_length_is_listed(declared: int, is_listed: bool) -> None:
    raw = WT10G.replace(b"text/html 216", b"text/html %d" % declared)
    [entry] = [one for one in run(raw) if isinstance(one, PageEntry)]
    assert entry.page.body.rstrip() == b"<HTML>one\n</HTML>"
    expected = f"body of 17 bytes, but the length in its <DOCHDR> is {declared}"
    assert entry.flaw == (expected if is_listed else "")


@pytest.mark.parametrize(
    "line", ["HTTP/1.0 200 OK", "HTTP/1.1 200 Document follows", "HTTP/1.1 200", "HTTP/2 200", "HTTP/1.1 200 OK"]
)
def test_trecweb_keeps_the_status_line_of_a_document(line: str) -> None:
    [page] = pages_again(WT10G.replace(b"HTTP/1.0 200 OK", line.encode()))
    assert (page.status, page.header("x-docstore-status-line")) == (200, None if line == "HTTP/1.1 200 OK" else line)
    again = trecweb([page])
    assert f"\n{line}\n".encode() in again and b"X-Docstore" not in again
    assert pages_again(again)[0].headers == page.headers == pages_again(warc([page]))[0].headers


def test_trecweb_has_the_reason_phrase_of_other_pages() -> None:
    assert b"\nHTTP/1.1 404 Not Found\n" in trecweb([Page("http://example.com/", b"x", 404, (), MICROS)])
    assert b"\nHTTP/1.1 799\n" in trecweb([Page("http://example.com/", b"x", 799, (), MICROS)])
