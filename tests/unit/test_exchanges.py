"""Answers to other methods than GET, and parts of bodies, never replace pages."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

import docstore
from docstore.archives.entries import PageEntry, ReadOptions, RevisitEntry, SkippedEntry
from docstore.archives.export import WarcExport, export
from docstore.archives.ingest import IngestOptions, ingest
from docstore.archives.reader import read
from docstore.archives.selection import Selection
from docstore.model.errors import InvalidArgument

URL = "http://example.com/form"
PAGE = b"<title>Form</title><p>" + b"a form with words " * 20
LATE = b"<title>Answer</title><p>thanks"


def record(
    kind: str, number: int, block: bytes, url: str = URL, second: int = 0, concurrent_to: tuple[int, ...] = ()
) -> bytes:
    date = datetime.fromtimestamp(1_700_000_000 + second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    names = "".join(f"WARC-Concurrent-To: <urn:uuid:{other}>\r\n" for other in concurrent_to)
    head = (
        f"WARC/1.0\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: {date}\r\n"
        f"WARC-Record-ID: <urn:uuid:{number}>\r\n{names}Content-Type: application/http; msgtype={kind}\r\n"
        f"Content-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def answer(number: int, body: bytes = PAGE, status: str = "200 OK", more: str = "", **named: object) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\n{more}\r\n".encode()
    return record("response", number, head + body, **named)  # type: ignore[arg-type]


def request(number: int, method: str = "GET", content: bytes = b"", kind: str = "", **named: object) -> bytes:
    head = f"{method} /form HTTP/1.1\r\nHost: example.com\r\n" + (f"Content-Type: {kind}\r\n" if kind else "") + "\r\n"
    return record("request", number, head.encode() + content, **named)  # type: ignore[arg-type]


def shown(raw: bytes, **options: object) -> list[str]:
    """Pages as their bodies say, and why the others are none."""
    entries = list(read(io.BytesIO(raw), ReadOptions(**options)))  # type: ignore[arg-type]
    given = ["page" if entry.page.body == PAGE else "late" for entry in entries if isinstance(entry, PageEntry)]
    return given + [entry.reason for entry in entries if isinstance(entry, SkippedEntry) and entry.reason != "request"]


NAMING, B = answer(3, LATE, second=9, concurrent_to=(4,)), URL + "/b"
LATER, AT_ONCE, THIRD = answer(3, LATE, second=9), answer(3, LATE), (3,)
BARE = b"To: urn:uuid:3"
NAMED = request(2, concurrent_to=(1,))


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize(
    "order",
    [
        # by name: the request names its answer, or the answer its request; before it, after it, or later on
        lambda other: [answer(1), NAMED, LATER, request(4, other, concurrent_to=THIRD)],
        lambda other: [NAMED, answer(1), request(4, other, concurrent_to=THIRD), LATER],
        lambda other: [request(2), answer(1, concurrent_to=(2,)), request(4, other), NAMING],
        lambda other: [answer(1, concurrent_to=(2,)), request(2), NAMING, request(4, other)],
        lambda other: [answer(1), AT_ONCE, request(4, other, concurrent_to=THIRD), NAMED],
        lambda other: [AT_ONCE, answer(1), NAMED, request(4, other, concurrent_to=THIRD)],
        lambda other: [answer(1), request(4, other, concurrent_to=THIRD), AT_ONCE],
        lambda other: [request(4, other, concurrent_to=THIRD), answer(1), AT_ONCE],
        lambda other: [answer(1), request(2, concurrent_to=(8, 1)), AT_ONCE, request(4, other, concurrent_to=(9, 3))],
        # by order and URL
        lambda other: [request(2), answer(1), request(4, other, second=9), LATER],
        lambda other: [answer(1), request(2), LATER, request(4, other, second=9)],
        lambda other: [answer(1), request(2), request(4, other, second=9), LATER],
        lambda other: [request(4, other), AT_ONCE, answer(1, second=9), request(2, second=9)],
        lambda other: [request(5, "POST", url=URL + "/b"), request(4, other), AT_ONCE, answer(1, second=9)],
        lambda other: [request(0, url=B), answer(9, url=B), answer(1), request(4, other, second=9), LATER],
        # of several answers, or requests, the one of the same date
        lambda other: [answer(1), LATER, request(4, other, second=9)],
        lambda other: [request(2), request(4, other, second=9), LATER, answer(1)],
        # names without angle brackets
        lambda other: [answer(1), AT_ONCE, request(4, other, concurrent_to=THIRD).replace(b"To: <urn:uuid:3>", BARE)],
    ],
)  # fmt: skip
def test_the_answer_to_another_method_is_skipped_and_counted(method: str, order: object) -> None:
    records = order(method)  # type: ignore[operator]
    found = Counter(shown(b"".join(records)))
    pages = 1 + sum(b"urn:uuid:9>\r\nContent-Type" in one for one in records)
    assert found == {"page": pages, f"answer to {method}": 1}


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([answer(1), AT_ONCE], ["page", "late"]),
        ([answer(1), request(2, "get", concurrent_to=(1,))], ["page"]),
        ([answer(1), request(2, "POST", url=URL + "/other")], ["page"]),
        ([answer(1), request(2, "POST", concurrent_to=(7,))], ["page"]),
        ([answer(1), record("request", 2, b"\x16\x03\x01", concurrent_to=(1,))], ["page"]),
        ([record("resource", 1, PAGE), request(2, "POST", concurrent_to=(1,))], ["page"]),
        ([answer(1, b"x" * (2 << 20)), request(2, "POST", concurrent_to=(1,))], ["answer to POST"]),
        ([answer(1), request(2, "BREW", concurrent_to=(1,))], ["answer to another method"]),
        (
            [request(1, "POST"), *(answer(n, url=f"{URL}/{n}") for n in range(2, 30)), answer(40)],
            ["page"] * 28 + ["answer to POST"],
        ),
    ],
)  # fmt: skip
def test_answers_without_a_request_are_of_get(records: list[bytes], expected: list[str]) -> None:
    assert shown(b"".join(records)) == expected


def test_a_revisit_has_the_method_of_its_request() -> None:
    raw = answer(1) + record("revisit", 3, b"", second=9) + request(4, "POST", concurrent_to=(3,), second=9)
    assert not [entry for entry in read(io.BytesIO(raw)) if isinstance(entry, RevisitEntry)]


N = len(PAGE)


@pytest.mark.parametrize(
    ("content_range", "is_page"),
    [
        (f"bytes 0-{N - 1}/{N}", True),
        (f"Bytes 0-{N - 1}/{N}", True),
        (f"bytes 0-{N - 2}/{N}", False),
        (f"bytes 1-{N - 1}/{N}", False),
        (f"bytes 0-{N - 1}/*", False),
        (f"bytes */{N}", False),
        ("", False),
    ],
)
def test_a_part_of_a_body_is_no_page(content_range: str, is_page: bool) -> None:
    more = f"Content-Range: {content_range}\r\n" if content_range else ""
    found = shown(answer(1) + answer(2, PAGE, "206 Partial Content", more, second=9))
    assert found == ["page", "page" if is_page else "part"]


@pytest.mark.parametrize(
    ("kind", "content", "query"),
    [
        ("application/x-www-form-urlencoded", b"foo=bar&dir=%2Fbaz+a", "foo=bar&dir=/baz%20a"),
        ("application/x-www-form-urlencoded; charset=utf-8", "q=\u00e9".encode(), "q=\u00e9"),
        ("application/json", b'{"a": "b", "c": {"a": 2}, "d": "e"}', "a=b&a.2_=2&d=e"),
        ("application/json", b'[{"a": 1}, {"a": 2}, "left out", {"a": [3, null]}]', "a=1&a.2_=2&a.3_=3&a.4_=null"),
        ("application/json", b'{"a": 1}\n{"b": 2}', "a=1&b=2"),
        ("text/plain", b'{"a": "b c"}', "a=b+c"),
        (
            "application/json",
            b'{"type": "event", "id": 44.0, "float": 35.7, "values": [true, false, null], '
            b'"source": {"type": "component", "id": "a+b&c= d", "values": [3, 4]}}',
            "type=event&id=44&float=35.7&values=true&values.2_=false&values.3_=null"
            "&type.2_=component&id.2_=a%2Bb%26c%3D+d&values.4_=3&values.5_=4",
        ),
        ("application/x-www-form-urlencoded", "snowman=\u2603".encode(), "snowman=\u2603"),
        ("application/x-www-form-urlencoded", b"x=%2", "x=%2"),
        ("text/plain", b"words", "__wb_post_data=" + base64.b64encode(b"words").decode()),
        ("application/json", b"{broken", ""),
        ("application/octet-stream", b"\x01\x02", "__wb_post_data=AQI="),
        ("", b"x", "__wb_post_data=eA=="),
        ("application/x-www-form-urlencoded", b"\xff", "__wb_post_data=/w=="),
        (
            "multipart/form-data; boundary=XX",
            b'--XX\r\nContent-Disposition: form-data; name="a"\r\n\r\nb c\r\n'
            b'--XX\r\nContent-Disposition: form-data; name="f"; filename="n"\r\n\r\nmore^data\r\n--XX--\r\n',
            "a=b+c&f=more%5Edata",
        ),
        ("multipart/form-data", b"--XX", "__wb_post_data=LS1YWA=="),
    ],
)
def test_an_answer_to_post_gets_the_url_that_pywb_asks_for(kind: str, content: bytes, query: str) -> None:
    for url, sign in ((URL, "?"), (URL + "?x=1", "&")):
        raw = answer(1, url=url) + request(2, "POST", content, kind, url=url, concurrent_to=(1,))
        [entry] = [one for one in read(io.BytesIO(raw), ReadOptions(methods=("POST",))) if isinstance(one, PageEntry)]
        assert entry.page.url == f"{url}{sign}__wb_method=POST" + (f"&{query}" if query else "")


def test_an_answer_to_delete_gets_the_name_of_its_method() -> None:
    raw = answer(1) + request(2, "DELETE", b"ignored", concurrent_to=(1,)) + answer(3) + request(4, "POST", second=0)
    entries = list(read(io.BytesIO(raw), ReadOptions(methods=("DELETE",))))
    assert [one.page.url for one in entries if isinstance(one, PageEntry)] == [URL + "?__wb_method=DELETE"]


@pytest.mark.parametrize("methods", [(), ("POST",)])
def test_methods_of_the_index_of_a_wacz_file_count(methods: tuple[str, ...]) -> None:
    first, second = answer(1), answer(3, LATE, second=9)
    lines = [
        {"url": URL, "offset": "0", "length": "1", "filename": "data.warc"},
        {"url": URL, "offset": str(len(first)), "filename": "data.warc", "method": "POST", "requestBody": "a=b"},
    ]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as made:
        made.writestr("archive/data.warc", first + second)
        made.writestr("indexes/index.cdxj", "".join(f"com,example)/form 2023 {json.dumps(one)}\n" for one in lines))
        made.writestr("datapackage.json", "{}")
    packed.seek(0)
    entries = list(read(packed, ReadOptions(methods=methods)))
    urls = [one.page.url for one in entries if isinstance(one, PageEntry)]
    assert urls == [URL, *([URL + "?__wb_method=POST&a=b"] if methods else [])]
    assert [one.reason for one in entries if isinstance(one, SkippedEntry)] == ([] if methods else ["answer to POST"])


def test_the_page_is_shown_and_the_answers_are_found_under_their_urls(tmp_path: Path) -> None:
    file = tmp_path / "x.warc"
    asked = request(4, "POST", b"a=b", "application/x-www-form-urlencoded", concurrent_to=(3,), second=9)
    file.write_bytes(answer(1) + request(2, concurrent_to=(1,)) + answer(3, LATE, second=9) + asked)
    with docstore.open(tmp_path / "store", create=True) as store:
        assert ingest(store, [str(file)]).skipped == {"answer to POST": 1, "request": 2}
        ingest(store, [str(file)], IngestOptions(methods=("POST",)))
        for url, body in ((URL, PAGE), (URL + "?__wb_method=POST&a=b", LATE)):
            assert store.get(url).body == body  # type: ignore[union-attr]
        with pytest.raises(InvalidArgument, match="in capitals"):
            ingest(store, [str(file)], IngestOptions(methods=("post",)))


def test_records_that_are_kept_come_back_as_no_pages(tmp_path: Path) -> None:
    file, again = tmp_path / "x.warc", tmp_path / "again.warc.gz"
    part = answer(5, PAGE[:9], "206 Partial Content", "Content-Range: bytes 0-8/99\r\n")
    file.write_bytes(
        answer(1) + request(2, concurrent_to=(1,)) + answer(3, LATE) + request(4, "POST", concurrent_to=(3,)) + part
    )
    schema = docstore.Schema(families=(docstore.ColumnFamily("warc"),))
    with docstore.open(tmp_path / "store", create=True, schema=schema) as store:
        report = ingest(store, [str(file)], IngestOptions(keep_encoded=True))
        assert (report.pages, report.records) == (1, 5)
        with again.open("wb") as stream:
            export(store, WarcExport(stream), Selection(versions=None), keep_encoded=True)
    entries = list(read(again))
    assert [one.page.body for one in entries if isinstance(one, PageEntry)] == [PAGE]
    skipped = Counter(one.reason for one in entries if isinstance(one, SkippedEntry))
    assert skipped == {"warcinfo": 1, "request": 2, "answer to POST": 1, "part": 1}


@pytest.mark.parametrize("sent", [PAGE[:-1], b"", PAGE[: N // 2]])
def test_a_part_that_claims_to_be_the_whole_body_is_no_page(sent: bytes) -> None:
    more = f"Content-Range: bytes 0-{N - 1}/{N}\r\n"
    assert shown(answer(1) + answer(2, sent, "206 Partial Content", more, second=9)) == ["page", "part"]
