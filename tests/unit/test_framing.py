"""Where records begin and end in files whose writers left bytes between them, or wrote wrong lengths."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest
import zstandard

from docstore.archives.entries import DamagedEntry, PageEntry
from tests.warc_records import message, page, reasons, record, run, urls

COUNT = 8
URLS = [f"http://example.com/{number}" for number in range(COUNT)]
BODIES = [b"<title>%d</title><p>" % number + b"word%d " % number * (60 + number) for number in range(COUNT)]
JOINED: dict[str, Callable[[list[bytes]], bytes]] = {
    "plain": b"".join,
    "one member": lambda records: gzip.compress(b"".join(records), mtime=0),
    "gzip": lambda records: b"".join(gzip.compress(one, mtime=0) for one in records),
    "zstd": lambda records: b"".join(map(zstandard.ZstdCompressor().compress, records)),
}


def pieces(
    before: bytes = b"", end: bytes = b"\r\n\r\n", more: int = 0, every: int = 1, http: bool = True
) -> list[bytes]:
    """Records with bytes before each, another end, or (every so many) a length that is too large."""
    found = []
    for number, (url, body) in enumerate(zip(URLS, BODIES, strict=True)):
        block = message(body, length=-1 if http else None)
        length = len(block) + (0 if number % every else more)
        found.append(before + record(block, url, length=length).removesuffix(b"\r\n\r\n") + end)
    return found


@pytest.mark.parametrize("packing", JOINED)
@pytest.mark.parametrize("stray", [b"\0", b"\0\0", b"\xff", b"x", b"\x1a", b"--", b"\0x"])
@pytest.mark.parametrize("http", [True, False])
def test_a_byte_before_a_record_costs_that_byte(packing: str, stray: bytes, http: bool) -> None:
    found = run(JOINED[packing](pieces(before=stray, http=http)))
    assert [(entry.page.url, entry.page.body) for entry in found if isinstance(entry, PageEntry)] == list(
        zip(URLS, BODIES, strict=True)
    )
    assert len(reasons(found)) == COUNT
    assert all(f"({len(stray)} bytes are skipped)" in reason for reason in reasons(found)), reasons(found)


@pytest.mark.parametrize("packing", JOINED)
@pytest.mark.parametrize("end", [b"\0", b"\0\0\0\0", b"\xff", b"\r\n\0", b"\r\n\r\n\0", b"\r\n\r\n--end--", b""])
@pytest.mark.parametrize("http", [True, False])
def test_a_record_that_does_not_end_with_a_line_end_hides_no_other(packing: str, end: bytes, http: bool) -> None:
    found = run(JOINED[packing](pieces(end=end, http=http)))
    assert [page(found, number).body for number in range(COUNT)] == BODIES
    assert all("are skipped)" in reason for reason in reasons(found)), reasons(found)


@pytest.mark.parametrize("packing", ["plain", "one member", "gzip", "zstd"])
@pytest.mark.parametrize("end", [b"\r\n\r\n", b""])
@pytest.mark.parametrize("more", [1, 2, 3, 10, 700, 5000, 50_000])
def test_lengths_that_are_too_large_lose_no_page_whose_http_length_is_right(
    packing: str, end: bytes, more: int
) -> None:
    found = run(JOINED[packing](pieces(end=end, more=more)))
    assert [page(found, number).body for number in range(COUNT)] == BODIES


@pytest.mark.parametrize("packing", ["plain", "gzip", "zstd"])
@pytest.mark.parametrize("more", [10, 700, 5000, 50_000])
def test_a_length_that_is_too_large_costs_its_own_record(packing: str, more: int) -> None:
    found = run(JOINED[packing](pieces(more=more, every=2, http=False)))
    assert urls(found)[:COUNT] == URLS[1::2]
    assert [page(found, number).body for number in range(COUNT // 2)] == BODIES[1::2]
    assert len(reasons(found)) == COUNT // 2


@pytest.mark.parametrize("line_end", [b"\r\r\n", b"\n", b"\r\n"])
@pytest.mark.parametrize("packing", JOINED)
def test_heads_have_lines_that_end_in_any_way(line_end: bytes, packing: str) -> None:
    block = message(BODIES[0]).replace(b"\r\n", line_end)
    raw = record(block).removesuffix(block + b"\r\n\r\n").replace(b"\r\n", line_end) + block + b"\r\n\r\n"
    found = run(JOINED[packing]([raw] * 3))
    assert [(entry.page.body, entry.page.headers[0]) for entry in found if isinstance(entry, PageEntry)] == [
        (BODIES[0], ("Content-Type", "text/html"))
    ] * 3
    assert reasons(found) == []


def test_a_record_whose_end_is_followed_by_a_record_is_not_searched() -> None:
    inner = record(message(b"<p>an archive in a page"), "http://inner.example/")
    outer = record(b"text\r\n" + inner * 3, "http://outer.example/", kind="resource")
    second = record(message(), "http://second.example/")
    start = outer.index(inner)
    split = (outer[:start], outer[start : start + len(inner)], outer[start + len(inner) :], second)
    for raw in (outer + second, *(JOINED[name](list(split)) for name in ("gzip", "zstd"))):
        found = run(raw)
        assert urls(found) == ["http://outer.example/", "http://second.example/"]
        assert page(found).body == b"text\r\n" + inner * 3


@pytest.mark.parametrize("stray", [b"\0", b"!", b"x", b"\xff"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_byte_before_a_record_of_arc_costs_that_byte(stray: bytes, packed: bool) -> None:
    version = b"1 0 Test\nURL IP-address Archive-date Content-type Archive-length\n\n"
    file = [b"filedesc://x.arc 0.0.0.0 20240506070809 text/plain %d\n%b" % (len(version), version)]
    for url, body in zip(URLS, BODIES, strict=True):
        block = message(body)
        file.append(b"%b%b 10.0.0.1 20240506070809 text/html %d\n%b\n" % (stray, url.encode(), len(block), block))
    found = run(JOINED["gzip" if packed else "plain"](file))
    assert urls(found) == URLS and [page(found, number).body for number in range(COUNT)] == BODIES


def test_what_is_skipped_is_listed_with_its_place_and_length() -> None:
    first, second = record(message()), record(message(), URLS[0])
    found = run(first + b"\0" * 3 + second + b"rubbish" * 9 + first)
    assert [entry for entry in found if isinstance(entry, DamagedEntry)] == [
        DamagedEntry(len(first), "expected a record, found b'\\x00\\x00\\x00WARC/1.1' (3 bytes are skipped)"),
        DamagedEntry(
            len(first) + 3 + len(second),
            f"expected a record, found {(b'rubbish' * 9)[:40]!r} (63 bytes are skipped)",
        ),
    ]
    assert len(urls(found)) == 3
