"""Inputs that the tests of other readers of archives hold, each with its right answer.

They are those of jwarc (HttpParserTest, ChunkedBodyTest, WarcParserTest, the examples of the standard) and of warcio
(test_statusandheaders, test_bufferedreaders, test_archiveiterator).  Where two readers disagree, the comment says so.
"""

from __future__ import annotations

import gzip
import io
from typing import NamedTuple

import pytest

from docstore.archives.entries import DamagedEntry, Entry, PageEntry, SkippedEntry
from docstore.archives.reader import read

BODY = b"[body]"


def record(block: bytes, kind: str = "response", url: str = "http://example.com/", more: str = "") -> bytes:
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: 2020-01-01T00:00:00Z\r\n"
        f"WARC-Record-ID: <urn:uuid:1>\r\n{more}Content-Type: application/http; msgtype={kind}\r\n"
    )
    return head.encode() + b"Content-Length: %d\r\n\r\n" % len(block) + block + b"\r\n\r\n"


def entries(raw: bytes) -> list[Entry]:
    return list(read(io.BytesIO(raw)))


class Head(NamedTuple):
    """The head of an answer, and what it says."""

    head: str
    status: int = 200
    header: tuple[str, str] = ("Content-Length", "6")


HEADS = [
    Head("HTTP/1.1 200 OK\r\nA: \u201cmax-age=31536000\u2033\r\n\r\n", header=("A", "\u201cmax-age=31536000\u2033")),
    Head("HTTP/1.1 200\r\nContent-Length: 6\r\n\r\n"),
    Head("HTTP/1.1    200 OK\r\nContent-Length: 6\r\n\r\n"),
    Head("HTTP/1.1 200 OK\r\nFolded: 1 \r\n 2  \r\n\r\n", header=("Folded", "1 2")),
    Head("HTTP/1.1 200 OK\nContent-Length: 6\n\n"),
    Head("HTTP/1.1 200\r\nContent-Length: 6\n\n"),
    Head("HTTP/1.1 200 OK\r\nSet-Cookie: abc\1def\r\n\r\n", header=("Set-Cookie", "abc\1def")),
    Head("HTTP/1.1 200 OK\nContent-Length  \t: 6  \n\n"),
    Head("HTTP/1.1 200 OK\nbroken \tfield  \t: yes  \n\n", header=("broken \tfield", "yes")),
    Head('HTTP/1.1 200 OK\n<b class="n">n</b>: yes  \n\n', header=('<b class="n">n</b>', "yes")),
    Head("HTTP/1.1 200 OK\n: yes  \n\n", header=("", "yes")),
    Head("HTTP/2 200\r\nKey: value\r\nkey2: value2\r\n\r\n", header=("key2", "value2")),
    Head("HTTP 200 Document follows\r\nServer: NCSA/1.5.1\r\n\r\n", header=("Server", "NCSA/1.5.1")),
    Head("HTTP/1.1 200 OK\r\nA: b\r\nWelcome to my server!\r\nC: d\r\n\r\n", header=("C", "d")),
    Head("HTTP/1.1 404 Line 1.\n  Line 2.\nServer: Domino\n\n", 404, ("Server", "Domino")),
    Head("HTTP/1.0 404 Not Found\r\nServer:  example\nContent-Length: 6\r\n\r\n", 404),
    Head("http/1.0 404 empty\r\nA: B\r\n%Invalid%\r\n\tMore\r\nContent-Length: 6\r\n\r\n", 404),
    Head("HTTP/1.0 200 OK\r\nA: B\r\nHTTP/1.0 200 OK\r\nSome: Value\r\n\r\n", header=("Some", "Value")),
    # the version that the example of a revisit has in the standard
    Head('HTTP/1.x 404 Not Found\r\nEtag: "3e45-67e-2ed02ec0"\r\n\r\n', 404, ("Etag", '"3e45-67e-2ed02ec0"')),
    # a folded Content-Length is no number, so the body ends with its record
    Head("HTTP/1.0 200 OK\r\nContent-Length: 6\r\n   Content-Type: text/html\r\nA: b\r\n\r\n", header=("A", "b")),
]


@pytest.mark.parametrize("case", HEADS, ids=lambda case: case.head[:30])
def test_the_head_of_an_answer(case: Head) -> None:
    [entry] = entries(record(case.head.encode() + BODY))
    assert isinstance(entry, PageEntry)
    assert (entry.page.status, entry.page.body) == (case.status, BODY)
    assert case.header in entry.page.headers


@pytest.mark.parametrize("end", ["", "\r\n"])
def test_a_head_without_an_empty_line_at_its_end(end: str) -> None:
    [entry] = entries(record(b"HTTP/1.1 200\r\nKey: value" + end.encode()))
    assert isinstance(entry, PageEntry)
    assert (entry.page.headers, entry.page.body) == ((("Key", "value"),), b"")


@pytest.mark.parametrize("line", ["HTTP/1.1 2000 x", "HTTP/1.1 OK", "HTTP/1.1"])
def test_a_head_without_a_status_is_damage(line: str) -> None:
    [entry] = entries(record(f"{line}\r\nA: b\r\n\r\n".encode() + BODY))
    assert isinstance(entry, DamagedEntry)
    assert "without a status" in entry.reason


@pytest.mark.parametrize(
    ("sent", "body"),
    [
        (b"3\r\nhel\r\n0007\r\nlo worl\r\n1\r\nd\r\n00000\r\n\r\n", b"hello world"),
        (b"19  \r\nhello world, hello world!\r\n00000\r\n\r\n", b"hello world, hello world!"),
        (b"4;ext=1\r\n1234\r\n0\r\nTrailer: x\r\n\r\n", b"1234"),
        (b"4\n1234\n0\n\n", b"1234"),
        (b"0\r\n\r\n", b""),
        # not in chunks at all
        (b"", b""),
        (b"33hello world!", b"33hello world!"),
        (b"xyz123!@#", b"xyz123!@#"),
        (b"ABCDE" * 10, b"ABCDE" * 10),
        (b"ABCDE" * 10 + b"\r\n", b"ABCDE" * 10 + b"\r\n"),
        # cut or broken; warcio gives what it has, which would store a part as the whole
        (b"4\r\n1234\r\n4\r\n12", None),
        (b"1\r\nxyz123!@#", None),
    ],
)
def test_a_body_in_chunks(sent: bytes, body: bytes | None) -> None:
    [entry] = entries(record(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + sent))
    assert (entry.page.body if isinstance(entry, PageEntry) else None) == body


@pytest.mark.parametrize(
    "coding", ["gzip,     \tCHUNKED,,, GZIP", "gzip, chunked", "gzip chunked", "Gzip; q=1 ,chunked"]
)
def test_transfer_codings_are_a_list(coding: str) -> None:
    packed = gzip.compress(BODY, mtime=0)
    sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(packed), packed)
    [entry] = entries(record(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n".encode() + sent))
    assert isinstance(entry, PageEntry)
    assert entry.page.body == BODY


ARC_HEAD = b"1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n"


@pytest.mark.parametrize(
    ("line", "url", "second"),
    [
        ("http://a.example/ 1.2.3.4 20110104111607 @[=*\xefContent-Type]", "http://a.example/", 1294139767),
        ("http://a.example/ 1.2.3.4 20110104111607 charset=foo", "http://a.example/", 1294139767),
        ("http://a.example/ 1.2.3.4 20110104111607 image(jpeg)", "http://a.example/", 1294139767),
        ("http://a.example/ 1.2.3.4 20110104111607 ERROR:", "http://a.example/", 1294139767),
        ("http://a.example/ 1.2.3.4 200012120739 text/html", "http://a.example/", 976606740),
        ("http://a.example/ 1.2.3.4 2000121207394211 text/html", "http://a.example/", 976606782),
        ("http://a.example/a b c 1.2.3.4 20110104111607 text/html", "http://a.example/a b c", 1294139767),
        ("http://a.example/ 1.2.3.4 99999999999999 text/html", "", 0),
    ],
)
def test_the_line_of_an_arc_record(line: str, url: str, second: int) -> None:
    block = b"HTTP/1.0 200 OK\r\n\r\n" + BODY
    raw = b"filedesc://x.arc 0.0.0.0 20110104111607 text/plain %d\n%s\n" % (len(ARC_HEAD), ARC_HEAD)
    header, entry = entries(raw + line.encode("latin-1") + b" %d\n%s\n" % (len(block), block))
    assert isinstance(header, SkippedEntry)
    if not url:
        assert isinstance(entry, DamagedEntry)
        assert "date that cannot be read" in entry.reason
        return
    assert isinstance(entry, PageEntry)
    assert (entry.page.url, entry.page.body) == (url, BODY)
    assert entry.page.fetched_at is not None
    assert entry.page.fetched_at // 1_000_000 == second


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("<http://a.example/>", "http://a.example/"),
        (" http://a.example/x ", "http://a.example/x"),
        ("http://a.example/a b", "http://a.example/a b"),
    ],
)
def test_the_address_of_a_record(written: str, url: str) -> None:
    [entry] = entries(record(b"HTTP/1.1 200 OK\r\n\r\n" + BODY, url=written))
    assert isinstance(entry, PageEntry)
    assert entry.page.url == url


def test_a_record_without_a_length_costs_itself_alone() -> None:
    whole = record(b"HTTP/1.1 200 OK\r\n\r\n" + BODY)
    cut = b"WARC/1.0\r\nWARC-Type: metadata\r\nWARC-Record-ID: <urn:uuid:3>\r\n\r\nContent-Length: 59\r\nvia: x\r\n\r\n"
    damaged, entry = entries(cut + whole)
    assert isinstance(damaged, DamagedEntry)
    assert isinstance(entry, PageEntry)


@pytest.mark.parametrize(
    "change", [(b"WARC/1.0\r\n", b"WARC/0.18\n"), (b"WARC-Type: r", b"Odd\7:\x08x\r\nWARC-Type: r")]
)
def test_odd_lines_of_a_warc_head(change: tuple[bytes, bytes]) -> None:
    [entry] = entries(record(b"HTTP/1.1 200 OK\r\n\r\n" + BODY).replace(*change))
    assert isinstance(entry, PageEntry)
    assert entry.page.body == BODY


def test_a_page_that_was_cut_into_segments_is_skipped_by_name() -> None:
    first = record(b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n0123456789", more="WARC-Segment-Number: 1\r\n")
    rest = record(b"abcdefghij", kind="continuation", more="WARC-Segment-Number: 2\r\n")
    assert [entry.reason for entry in entries(first + rest) if isinstance(entry, SkippedEntry)] == [
        "segment",
        "continuation",
    ]
