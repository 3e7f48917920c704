"""WARC and ARC readers on generated files: every kind of wrong record, and the records after it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import random
import re
import struct
import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import brotli
import pytest
import zstandard
from counts import share
from warc_records import DATE, HTML, MICROS, message, numbered, packings, page, reasons, record, run, urls

from docstore.archives import entries as limits
from docstore.archives import source
from docstore.archives.dates import parse_date, parse_date14
from docstore.archives.entries import DamagedEntry, PageEntry, ReadOptions, RevisitEntry, SkippedEntry
from docstore.archives.http import parse_fields
from docstore.archives.reader import detect, read
from docstore.model.errors import InvalidArgument
from docstore.model.types import Page

# --- what a sound record gives ---


def test_response_becomes_a_page_with_all_recorded_fields() -> None:
    extra = "WARC-IP-Address: 192.0.2.7\r\nWARC-Payload-Digest: sha1:ABC\r\nWARC-TREC-ID: clueweb-1\r\n"
    found = run(record(message(headers=["X-A: 1", "X-A: 2"]), extra=extra))
    assert found == [
        PageEntry(
            Page(
                "http://example.com/",
                HTML,
                200,
                (("Content-Type", "text/html"), ("X-A", "1"), ("X-A", "2"), ("Content-Length", str(len(HTML)))),
                MICROS,
                "192.0.2.7",
                "sha1:ABC",
                "clueweb-1",
            ),
            "response",
            0,
            "<urn:uuid:1>",
        )
    ]


@pytest.mark.parametrize("status", ["301 Moved", "404 Not Found", "503 X"])
def test_redirects_and_errors_keep_their_status(status: str) -> None:
    assert page(run(record(message(status=status)))).status == int(status[:3])


def test_resource_is_a_page_without_http() -> None:
    (found,) = run(record(b"\x89PNG", "https://example.com/a.png", "resource", "Content-Type: image/png\r\n"))
    assert isinstance(found, PageEntry)
    assert (found.kind, found.page.status, found.page.headers) == ("resource", 200, (("Content-Type", "image/png"),))


def test_revisit_names_what_it_refers_to() -> None:
    extra = (
        "WARC-Refers-To-Target-URI: <http://example.com/old>\r\nWARC-Refers-To-Date: 2020-01-01T00:00:00Z\r\n"
        "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest\r\n"
        "WARC-Payload-Digest: sha1:X\r\n"
    )
    (found,) = run(record(message(b"", "200 OK", length=5), kind="revisit", extra=extra))
    assert isinstance(found, RevisitEntry)
    assert (found.url, found.fetched_at, found.status) == ("http://example.com/", MICROS, 200)
    assert (found.refers_to_uri, found.refers_to_date) == ("http://example.com/old", 1_577_836_800_000_000)
    assert found.payload_digest == "sha1:X"
    (bare,) = run(record(b"", kind="revisit"))
    assert isinstance(bare, RevisitEntry)
    assert (bare.status, bare.refers_to_date) == (0, None)


def test_records_that_are_not_pages_are_skipped_by_type() -> None:
    kinds = ["request", "metadata", "warcinfo", "conversion", "continuation"]
    found = run(b"".join(record(b"x", kind=kind) for kind in kinds) + record(b"1.2.3.4", "dns:example.com"))
    assert [entry.reason for entry in found if isinstance(entry, SkippedEntry)] == [*kinds, "dns"]
    assert len(found) == 6


def test_page_truncated_by_the_crawler_has_a_header() -> None:
    body = gzip.compress(HTML * 100)[:-20]
    block = message(body, headers=["Content-Encoding: gzip"], length=len(body) + 20)
    whole = page(run(record(block, extra="WARC-Truncated: length\r\n")))
    assert whole.header("warc-truncated") == "length"
    assert (HTML * 100).startswith(whole.body)
    assert whole.body


def test_response_without_http_header_is_a_body_alone() -> None:
    assert page(run(record(b"<html>as HTTP/0.9 answers"))).body == b"<html>as HTTP/0.9 answers"
    (found,) = run(record(b""))
    assert isinstance(found, SkippedEntry)


def test_header_bytes_outside_utf8_are_read_as_latin1() -> None:
    whole = page(run(record(message(headers=["X-City: M\xfcnchen"]))))
    assert whole.header("x-city") == "M\xfcnchen"


@pytest.mark.parametrize(
    "head",
    [
        b"X: 1\r\n y\r\nZ:2\r\n\r\n",
        b"X: 1\nY : 2\n\n",
        b"X:\tcaf\xc3\xa9 \r\n\r\n",
        b"X: \xfc\r\n\r\n",
        b"novalue\r\nA: b\r\n\r\n",
    ],
)  # fmt: skip
def test_odd_header_lines_are_parsed_by_warcio(head: bytes) -> None:
    assert parse_fields(b"HTTP/1.1 200 OK\r\n" + head)


def test_plain_header_lines_are_parsed_as_by_warcio() -> None:
    from warcio.statusandheaders import StatusAndHeadersParser

    rng = random.Random(7)
    for _ in range(300):
        lines = [
            rng.choice(["A", "Content-Type", "x-y ", "", "1"]) + rng.choice([":", ": ", ":  \t", " "])
            + rng.choice(["", "v", "a:b", "x ", "a  b\t"]) for _ in range(rng.randrange(6))
        ]  # fmt: skip
        head = "\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode()
        if b"\r\n\r\n" in head[:-4] or b"\r\n \r\n" in head:
            continue
        expected = StatusAndHeadersParser([], verify=False).parse(io.BytesIO(head)).headers
        assert parse_fields(head) == [(name, value.strip()) for name, value in expected], head


# --- dates ---


@pytest.mark.parametrize(
    ("text", "micros"),
    [
        ("1970-01-01T00:00:00Z", 0),
        (DATE, MICROS),
        ("2024-05-06T07:08:09.9Z", MICROS + 777_000),
        ("2024", 1_704_067_200_000_000),
        ("2024-05", 1_714_521_600_000_000),
        ("2024-05-06T07:08Z", 1_714_979_280_000_000),
        ("2024-05-06T09:08:09+02:00", 1_714_979_289_000_000),
        ("2008-10-294T05:21:46-0700", 1_224_505_306_000_000),
        ("2009-03-65T08:43:19-0800", 1_236_357_799_000_000),
        ("2009-02-32T00:00:00Z", 1_233_446_400_000_000),
        ("2008-02-60T00:00:00Z", 1_204_243_200_000_000),
        ("2009-03-90T00:00:00Z", 1_238_457_600_000_000),
        ("2009-01-015", 1_231_977_600_000_000),
        ("2009-02-015", None),
        ("2009-02-30T00:00:00Z", None),
        ("2009-02-60T00:00:00Z", None),
        ("2009-03-91T00:00:00Z", None),
        ("2009-04-65T00:00:00Z", None),
        ("2009-12-366T00:00:00Z", None),
        ("2009-03-000T00:00:00Z", None),
        ("2016-12-31T23:59:60Z", 1_483_228_799_000_000),
        ("1969-12-31T23:59:59Z", None),
        ("2024-13-01", None),
        ("2024-W05-1T10:00:00Z", None),
        ("2024-05-06T24:00:00Z", None),
        ("2024-02-30T10:00:00Z", None),
        ("yesterday", None),
        ("", None),
    ],
)
def test_dates_are_read_to_the_millisecond(text: str, micros: int | None) -> None:
    assert parse_date(text) == micros == parse_date(f"{text} ")  # with a blank it is parsed as any other date


def test_dates_of_fourteen_digits() -> None:
    assert parse_date14("20240506070809") == 1_714_979_289_000_000
    assert parse_date14("202405060708") == 1_714_979_280_000_000
    assert parse_date14("20241306070809") is None
    assert parse_date14("2024") is None


# --- encodings ---


def chunked(body: bytes, step: int = 7) -> bytes:
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    return b"".join(b"%x;a=b\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nTrailer: x\r\n\r\n"


def deflate_bare(body: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(body) + packer.flush()


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        ("gzip", gzip.compress(HTML, mtime=0)),
        ("x-gzip", gzip.compress(HTML[:9], mtime=0) + gzip.compress(HTML[9:], mtime=0) + b"\0\0"),
        ("deflate", zlib.compress(HTML)),
        ("deflate", deflate_bare(HTML)),
        ("br", brotli.compress(HTML)),
        ("zstd", zstandard.compress(HTML[:5]) + zstandard.compress(HTML[5:])),
        ("gzip, br", brotli.compress(gzip.compress(HTML, mtime=0))),
        ("identity", HTML),
        ("unheard-of", HTML),
        ("gzip", HTML),
        ("deflate", HTML),
        ("br", HTML),
        ("zstd", HTML),
    ],
)
@pytest.mark.parametrize("transfer", [False, True])
def test_encodings_are_decoded_and_wrong_declarations_ignored(coding: str, packed: bytes, transfer: bool) -> None:
    headers = [f"Content-Encoding: {coding}"] + ["Transfer-Encoding: chunked"] * transfer
    block = message(chunked(packed) if transfer else packed, headers=headers, length=None if transfer else -1)
    assert page(run(record(block))).body == HTML


def test_salvage_gives_the_readable_part_of_a_broken_body() -> None:
    broken = {
        "chunks": message(chunked(HTML)[:-40], headers=["Transfer-Encoding: chunked"], length=None),
        "first": message(b"10\r\n" + HTML, headers=["Transfer-Encoding: chunked"], length=None),
        "gzip": message(gzip.compress(random.Random(1).randbytes(5000))[:-900], headers=["Content-Encoding: gzip"]),
        "early": message(HTML, length=len(HTML) + 1000),
        "header": b"HTTP/1.1 200 OK\r\nContent-Ty",
    }
    for name, block in broken.items():
        url = f"http://{name}.example/"
        raw = record(block, url, length=len(block) + 1000 if name == "early" else None) + numbered(1)[0]
        if name == "header":
            raw = record(block, url, length=1000)[:-4]
        (damaged,) = [entry for entry in run(raw) if not isinstance(entry, PageEntry)]
        assert isinstance(damaged, DamagedEntry) and damaged.url == url
        found = next(iter(read(io.BytesIO(raw), ReadOptions(salvage=True))))
        if name == "header":
            assert found == damaged
            continue
        assert isinstance(found, PageEntry) and found.flaw == damaged.reason
        assert found.page.header("WARC-Truncated") == "unspecified"
        assert found.page.body and (name == "gzip" or HTML.startswith(found.page.body))


def test_body_that_begins_like_a_chunk_is_kept_if_its_length_matches() -> None:
    body = b"10\r\nlines of a text"
    assert page(run(record(message(body, headers=["Transfer-Encoding: chunked"])))).body == body


def test_body_that_is_not_chunked_as_declared_is_kept() -> None:
    assert page(run(record(message(headers=["Transfer-Encoding: chunked"], length=None)))).body == HTML


@pytest.mark.parametrize(
    "block",
    [
        message(chunked(HTML)[:33], headers=["Transfer-Encoding: chunked"], length=None),
        message(chunked(HTML)[:25] + b"garbage", headers=["Transfer-Encoding: chunked"], length=None),
        message(b"ffff\r\n" + HTML, headers=["Transfer-Encoding: chunked"], length=None),
        message(b"10\r\n" + HTML, headers=["Transfer-Encoding: chunked"], length=None),
        message(b"10\r\n" + HTML + b"\r\n0\r\n\r\n", headers=["Transfer-Encoding: chunked"], length=9),
        message(gzip.compress(HTML * 99)[:-30], headers=["Content-Encoding: gzip"]),
        message(zlib.compress(HTML * 99)[:-9], headers=["Content-Encoding: deflate"]),
        message(zstandard.compress(HTML * 99)[:-9], headers=["Content-Encoding: zstd"]),
        message(brotli.compress(random.Random(1).randbytes(999))[:-9], headers=["Content-Encoding: br"]),
        message(status="OK"),
    ],
)
def test_broken_body_or_header_is_damage(block: bytes) -> None:
    found = run(record(block) + numbered(1)[0])
    assert len(reasons(found)) == 1
    assert urls(found) == ["http://example.com/0"]


@pytest.mark.parametrize(
    ("coding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("br", brotli.compress),
        ("zstd", zstandard.compress),
    ],
)
def test_decompression_bomb_is_refused_within_bounded_memory(coding: str, pack: object) -> None:
    assert callable(pack)
    bomb = pack(bytes(20_000_000))
    tracemalloc.start()
    raw = record(message(bomb, headers=[f"Content-Encoding: {coding}"])) + numbered(1)[0]
    found = list(read(io.BytesIO(raw), ReadOptions(4_000_000)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "more than the limit" in reasons(found)[0]
    assert len(urls(found)) == 1
    assert peak < 4 * 4_000_000


@pytest.mark.parametrize("kind", ["response", "resource"])
def test_a_body_without_an_http_header_has_the_same_limit(kind: str) -> None:
    bodies = [bytes(1_000_001), bytes(1_000_000)]
    raw = b"".join(record(body, kind=kind) for body in bodies)
    found = list(read(io.BytesIO(raw), ReadOptions(1_000_000)))
    assert "body of 1000001 bytes, more than the limit of 1000000" in reasons(found)[0]
    assert [len(entry.page.body) for entry in found if isinstance(entry, PageEntry)] == [1_000_000]


@pytest.mark.parametrize(("pack", "step_bytes"), [(gzip.compress, 0), (zstandard.compress, 16 << 20)])
def test_archive_of_bombs_is_read_within_bounded_memory(pack: Callable[[bytes], bytes], step_bytes: int) -> None:
    """Members that unpack to a hundred times their size, each above the limit or just below it."""
    packed = gzip.compress(bytes(4_000_000))
    long = message(bytes(30_000_000), headers=["X: y"])
    below = message(packed, headers=["Content-Encoding: gzip"])
    nested = message(gzip.compress(gzip.compress(bytes(4_000_001))), headers=["Content-Encoding: gzip, gzip"])
    raw = b"".join(pack(record(block)) for block in (long, below, nested) * 2)
    tracemalloc.start()
    bodies = 0
    found = []
    for entry in read(io.BytesIO(raw), ReadOptions(4_000_000)):
        bodies += isinstance(entry, PageEntry) and len(entry.page.body) == 4_000_000
        found += [entry.reason] if isinstance(entry, DamagedEntry) else []
        del entry
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert bodies == 2
    assert len(found) == 4 and all("the limit of 4000000" in reason for reason in found)
    assert peak < 4 * 4_000_000 + 2 * step_bytes  # the unpacked slice of a zstd frame is in memory twice


@pytest.mark.parametrize("stated_bytes", [64 << 20, 65 << 20, 1 << 44], ids=["allowed", "more", "16 TiB"])
def test_a_zstd_dictionary_takes_no_more_memory_than_its_limit(stated_bytes: int) -> None:
    """A frame that states its length was unpacked whole, whatever the limit."""
    unpacked = bytes(min(stated_bytes, 65 << 20))
    frame = zstandard.ZstdCompressor().compress(unpacked)
    if stated_bytes > len(unpacked):
        frame = b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", stated_bytes) + frame[-20:]
    raw = b"\x5d\x2a\x4d\x18" + struct.pack("<I", len(frame)) + frame + zstandard.compress(record(message(HTML)))
    del unpacked
    tracemalloc.start()
    found = list(read(io.BytesIO(raw)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * (64 << 20)
    assert any(isinstance(entry, DamagedEntry) for entry in found) == (stated_bytes > 64 << 20), found


@pytest.mark.parametrize("fill", [b"\0", b" ", b"x"])
@pytest.mark.parametrize(
    "packer", [lambda: zlib.compressobj(9, zlib.DEFLATED, 31), lambda: zstandard.ZstdCompressor().compressobj()]
)
def test_reading_stops_in_a_bomb_at_the_limit_and_continues_after_it(packer: Callable[[], Any], fill: bytes) -> None:
    """Zeros are the body of a record that is too long; blanks follow a record, and letters follow one."""
    megabytes = share(300, 10)
    begin = {b"\0": record(b"", length=megabytes * 1_000_000)[:-4], b" ": numbered(1)[0], b"x": numbered(1)[0]}[fill]
    pack = packer()
    members = pack.compress(begin) + b"".join(pack.compress(fill * 1_000_000) for _ in range(megabytes)) + pack.flush()
    packed = packer()
    members += packed.compress(numbered(3)[2]) + packed.flush()
    found = list(read(io.BytesIO(members), ReadOptions(1_000_000)))
    assert urls(found) == ["http://example.com/0"] * (fill != b"\0") + ["http://example.com/2"]
    (reason,) = reasons(found)
    left = re.search(r"unpacks to more than 100 times its length; stopped after (\d+) bytes", reason)
    assert left is not None and int(left[1]) < 30_000_000


def test_records_after_a_long_one_in_the_same_member_are_read() -> None:
    body = random.Random(5).randbytes(30_000) * 100
    raw = record(body, kind="resource") + b"".join(numbered(2))
    found = list(read(io.BytesIO(gzip.compress(raw)), ReadOptions(1_000_000)))
    assert urls(found) == ["http://example.com/0", "http://example.com/1"]
    assert "more than the limit" in reasons(found)[0]


# --- lying lengths, garbage, cuts ---


def test_length_that_is_too_large_does_not_swallow_the_next_record() -> None:
    first, second, third = numbered(3)
    lying = record(b"a resource of which nothing says how long it is", "http://example.com/x", "resource", length=200)
    found = run(first + lying + second + third)
    assert urls(found) == [f"http://example.com/{number}" for number in range(3)]
    assert len(reasons(found)) == 1
    assert "where the next begins" in reasons(found)[0]


@pytest.mark.parametrize("length", [10**6, 10**12])
def test_huge_length_ends_at_the_next_record(length: int) -> None:
    lying = record(b"short", "http://example.com/x", "resource", length=length)
    for raw in (lying + numbered(2)[1], gzip.compress(lying) + gzip.compress(numbered(2)[1])):
        found = run(raw)
        assert urls(found) == ["http://example.com/1"]
        assert len(reasons(found)) == 1


def test_record_with_a_wrong_length_is_accepted_if_http_confirms_its_body() -> None:
    found = run(record(message(), length=len(message()) + 50) + numbered(1)[0])
    assert urls(found) == ["http://example.com/", "http://example.com/0"]
    assert page(found).body == HTML


def test_length_that_is_too_small_is_damage() -> None:
    block = message(length=None)
    found = run(record(block, length=len(block) - 5) + numbered(1)[0])
    assert urls(found) == ["http://example.com/0"]
    assert "its length is wrong" in reasons(found)[0]


def test_record_before_garbage_is_read_and_the_garbage_is_damage() -> None:
    digest = base64.b32encode(hashlib.sha1(b"block", usedforsecurity=False).digest()).decode()
    for sound in (
        record(message()),
        record(b"block", kind="resource", extra=f"WARC-Block-Digest: sha1:{digest}\r\n"),
    ):
        found = run(sound + b"garbage\n" * 50_000 + numbered(1)[0])
        assert urls(found) == ["http://example.com/", "http://example.com/0"]
        assert found[1] == DamagedEntry(len(sound), "expected a record, found b'garbage' (400000 bytes are skipped)")


@pytest.mark.parametrize(("packing", "members"), packings(), ids=lambda value: value if isinstance(value, str) else "")
def test_truncated_file_gives_its_whole_records_and_reports_the_last(packing: str, members: list[bytes]) -> None:
    raw = b"".join(members)
    last = len(raw) - len(members[-1])
    for cut in range(last + 1, len(raw) - 4, 7):
        found = run(raw[:cut])
        assert urls(found)[:4] == [f"http://example.com/{number}" for number in range(4)]
        if len(urls(found)) == 4:
            assert [entry.offset for entry in found if isinstance(entry, DamagedEntry)] == [last], packing
        else:
            # Only the line ends after a plain record are missing.
            assert packing == "plain"
            assert page(found, 4).body == HTML + b" 4"


@pytest.mark.parametrize(("packing", "members"), packings()[1:], ids=["gzip", "zstd"])
def test_flipped_byte_costs_no_more_than_its_own_record(packing: str, members: list[bytes]) -> None:
    start = len(members[0]) + len(members[1])
    for at in range(start, start + len(members[2])):
        raw = bytearray(b"".join(members))
        raw[at] ^= 0x41
        found = run(bytes(raw))
        pages = {entry.page.url: entry.page.body for entry in found if isinstance(entry, PageEntry)}
        for number in (0, 1, 3, 4):
            assert pages[f"http://example.com/{number}"] == HTML + b" %d" % number, (packing, at)
        # A flip in the header of a member (its time stamp, say) may do no harm.
        if "http://example.com/2" in pages:
            assert pages["http://example.com/2"] == HTML + b" 2"
        else:
            assert reasons(found)


def test_random_damage_never_raises_and_never_gives_a_wrong_body() -> None:
    rng = random.Random(20)
    for packing, members in packings():
        whole = b"".join(members)
        for _ in range(150):
            raw = bytearray(whole)
            for _ in range(rng.randrange(1, 4)):
                at = rng.randrange(len(raw))
                what = rng.randrange(3)
                if what == 0:
                    raw[at] = rng.randrange(256)
                elif what == 1:
                    del raw[at : at + rng.randrange(1, 40)]
                else:
                    raw[at:at] = rng.randbytes(rng.randrange(1, 40))
            found = run(bytes(raw))
            assert len(found) >= 1
            if packing != "plain":
                assert all(entry.page.body.startswith(HTML) for entry in found if isinstance(entry, PageEntry))


def test_damage_in_a_large_member_keeps_the_records_before_it() -> None:
    rng = random.Random(3)
    many = [record(message(b"%x" % rng.getrandbits(9000)), f"http://example.com/{number}") for number in range(100)]
    raw = bytearray(gzip.compress(b"".join(many), mtime=0))
    middle = len(raw) // 2
    raw[middle : middle + 4000] = b"\xff" * 4000
    found = run(bytes(raw))
    assert 40 < len(urls(found)) < 60
    assert "byte" in reasons(found)[0]


def test_damage_in_a_small_member_of_many_records_keeps_those_before_it() -> None:
    rng = random.Random(3)
    many = [record(message(b"%x" % rng.getrandbits(900)), f"http://example.com/{number}") for number in range(40)]
    raw = bytearray(gzip.compress(b"".join(many), mtime=0))
    assert len(raw) < 16 * 1024, "all of it comes out of the feed at once"
    middle = len(raw) // 2
    raw[middle : middle + 200] = b"\xff" * 200
    behind = gzip.compress(record(message(), "http://example.com/behind"), mtime=0)
    found = run(bytes(raw) + behind)
    assert 15 < len(urls(found)) < 25
    assert urls(found)[-1] == "http://example.com/behind"
    assert any("gzip member damaged" in reason for reason in reasons(found))


def digested(number: int, rng: random.Random, digest: str = "") -> bytes:
    block = message(b"%x" % rng.getrandbits(9000))
    named = digest or hashlib.sha1(block).hexdigest()
    return record(block, f"http://example.com/{number}", extra=f"WARC-Block-Digest: sha1:{named}\r\n")


@pytest.mark.parametrize("place", [0.3, 0.5, 0.7, 0.9])
def test_record_with_a_wrong_digest_in_a_large_member_is_damage(place: float) -> None:
    rng = random.Random(3)
    many = [digested(number, rng) for number in range(100)]
    sound = {entry.page.url: entry.page.body for entry in run(b"".join(many)) if isinstance(entry, PageEntry)}
    raw = bytearray(gzip.compress(b"".join(many), mtime=0))
    raw[int(len(raw) * place)] ^= 0xFF
    found = run(bytes(raw))
    taken = {entry.page.url: entry.page.body for entry in found if isinstance(entry, PageEntry)}
    assert len(taken) >= int(100 * place) - 3
    assert taken.items() <= sound.items()
    assert reasons(found)


def test_digests_do_not_count_before_one_was_right() -> None:
    rng = random.Random(3)
    many = [digested(number, rng, "0" * 40) for number in range(5)]
    assert len(urls(run(gzip.compress(b"".join(many), mtime=0)))) == 5
    alone = [digested(1, rng), digested(2, rng, "0" * 40)]
    assert len(urls(run(b"".join(gzip.compress(raw_record, mtime=0) for raw_record in alone)))) == 2


def test_file_that_cannot_be_unpacked_is_damage() -> None:
    raw = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(record(message(HTML * 100))))
    raw[20] ^= 0xFF
    (only,) = run(bytes(raw))
    assert isinstance(only, DamagedEntry) and "zstd frame damaged" in only.reason


def test_header_without_end_or_without_length_is_damage() -> None:
    sound = numbered(1)[0]
    assert "Content-Length" in reasons(run(record(b"x").replace(b"Content-Length: 1\r\n", b"") + sound))[0]
    assert "WARC-Type" in reasons(run(record(b"x").replace(b"WARC-Type", b"X-Type") + sound))[0]
    assert "WARC-Date" in reasons(run(record(message()).replace(b"WARC-Date", b"X-Date") + sound))[0]
    assert "version" in reasons(run(b"WARC/7.0" + record(message())[8:] + sound))[0]
    endless = b"WARC/1.0\r\nWARC-Type: response\r\nX: " + b"y" * (2 * limits.HEADER_LIMIT_BYTES)
    found = run(endless + b"\r\n" + sound)
    assert "without end" in reasons(found)[0]
    assert urls(found) == ["http://example.com/0"]


def test_record_above_the_limit_is_skipped_within_bounded_memory() -> None:
    large = record(bytes(30_000_000), kind="resource") + numbered(1)[0]
    tracemalloc.start()
    found = list(read(io.BytesIO(large), ReadOptions(1_000_000)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "more than the limit" in reasons(found)[0]
    assert len(urls(found)) == 1
    assert peak < 8_000_000


def test_endless_white_space_after_a_record_is_skipped_within_bounded_memory() -> None:
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    packed = packer.compress(numbered(1)[0]) + b"".join(packer.compress(b" " * 1_000_000) for _ in range(40))
    packed += packer.flush() + gzip.compress(numbered(2)[1])
    tracemalloc.start()
    found = run(packed)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert urls(found) == ["http://example.com/0", "http://example.com/1"]
    assert not reasons(found)
    assert peak < 8_000_000


@pytest.mark.parametrize(
    "line",
    [
        b"WARC/1.0\r\n",
        b"WARC/1.0\r\n\r\n",
        b"WARC/1.0\r\nWARC-Type: response\r\n",
        b"WARC/1.0\r\nContent-Length: 0\r\n\r\n",
        b"WARC/1.0\r\nx",
        b"WARC/1.0\r\nA: b\r\nxy",
        b"<DOC>\n",
        b"<DOC>\n<DOCNO>x</DOCNO>\n",
    ],
)
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_headers_that_begin_no_record_are_counted_and_take_few_steps(
    line: bytes, pack: Callable[[bytes], bytes]
) -> None:
    count = share(30_000, 6)
    found = reasons(run(pack(line * count)))
    counted = [re.search(r"\((\d+) of them in a row\)", reason) for reason in found]
    assert sum(int(one[1]) if one else 1 for one in counted) == count
    assert len(found) <= 3 + 8 * len(line) * count / source.CHUNK_BYTES


@pytest.mark.parametrize("before", [b"", b"x"], ids=["on a line of its own", "behind a stray byte"])
@pytest.mark.parametrize("line", [b"WARC/1.0\r\n", b"WARC/1.0\r\nA: b\r\n", b"WARC/1.0\r\nContent-Length: 0\r\n\r\n"])
def test_a_record_behind_headers_that_begin_none_is_read(line: bytes, before: bytes) -> None:
    found = run(numbered(1)[0] + line * 100 + before + numbered(2)[1])
    assert urls(found) == ["http://example.com/0", "http://example.com/1"]
    assert reasons(found)


def test_many_headers_without_end_inside_lines_are_read_in_linear_time() -> None:
    count = share(40_000, 8)
    assert len(reasons(run(b"A: words of a line, then WARC/1.0\r\n" * count))) == count


def test_many_wrong_lengths_are_read_in_linear_time() -> None:
    raw_record = record(b"short", "http://example.com/x", "resource", length=10**7)
    count = share(20_000, 8)
    assert len(run(raw_record * count)) == count


# --- containers ---


def test_zstd_file_that_begins_with_its_dictionary_is_read() -> None:
    plain = numbered(40)
    trained = zstandard.train_dictionary(4096, [raw_record + b"%d" % at for at, raw_record in enumerate(plain * 20)])
    frames = b"".join(zstandard.ZstdCompressor(dict_data=trained).compress(raw_record) for raw_record in plain)
    for content in (trained.as_bytes(), zstandard.compress(trained.as_bytes())):
        head = struct.pack("<II", 0x184D2A5D, len(content)) + content
        assert len(urls(run(head + frames))) == 40
        assert "dictionary" in reasons(run(head[:-1]))[0]


def test_skippable_frames_and_zero_padding_are_skipped() -> None:
    raw_record = numbered(1)[0]
    skippable = struct.pack("<II", 0x184D2A50, 3) + b"abc"
    assert len(urls(run(zstandard.compress(raw_record) + skippable + zstandard.compress(raw_record)))) == 2
    assert len(urls(run(gzip.compress(raw_record) + bytes(512) + gzip.compress(raw_record)))) == 2


@pytest.mark.parametrize(
    ("before", "packing"),
    [
        (gzip.compress(b"", mtime=0) * 20_000, gzip.compress),
        (gzip.compress(b"\n", mtime=0) * 5_000, gzip.compress),
        (gzip.compress(b"\n" * 9, mtime=0)[:-8] + b"damaged!", gzip.compress),
        (zstandard.compress(b"") * 20_000, zstandard.compress),
        (struct.pack("<II", 0x184D2A50, 3) + b"abc", zstandard.compress),
        (struct.pack("<II", 0x184D2A5F, 100_000) + bytes(100_000), zstandard.compress),
    ],
)
def test_records_after_empty_or_damaged_members_are_read(before: bytes, packing: Callable[[bytes], bytes]) -> None:
    raw = before + b"".join(packing(raw_record) for raw_record in numbered(3))
    assert urls(run(raw)) == [f"http://example.com/{number}" for number in range(3)]


def test_garbage_between_members_loses_no_record() -> None:
    raw = b"".join(gzip.compress(raw_record) + b"garbage \x1f\x8b\x08 between" for raw_record in numbered(3))
    found = run(raw)
    assert len(urls(found)) == len(reasons(found)) == 3


def test_members_that_split_records_are_read() -> None:
    raw = b"".join(numbered(20))
    blocks = b"".join(gzip.compress(raw[at : at + 333]) for at in range(0, len(raw), 333))
    found = run(blocks)
    assert len(urls(found)) == 20
    assert not reasons(found)


@pytest.mark.parametrize(
    ("raw", "compressed", "form"),
    [
        (numbered(1)[0], False, "WARC"),
        (gzip.compress(numbered(1)[0], mtime=0), True, "WARC"),
        (zstandard.compress(numbered(1)[0]), True, "WARC"),
        (b"\n\nfiledesc://a.arc 0.0.0.0 20040712071242 text/plain 10\n", False, "ARC"),
        (gzip.compress(b"<DOC>\n<DOCNO>x</DOCNO>", mtime=0), True, "TREC Web"),
        (b"garbage\n" + numbered(1)[0], False, "WARC"),
        (b"", False, ""),
        (b"\x04\x22\x4d\x18rest", False, ""),
        (b"hello", False, ""),
    ],
)
def test_formats_are_detected_by_content(raw: bytes, compressed: bool, form: str) -> None:
    found, reason, feed = detect(io.BytesIO(raw))
    assert (found, feed.compressed) == (form, compressed)
    assert bool(reason) == (not form)


def test_stream_that_gives_one_byte_at_a_time_is_read() -> None:
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(1 if size else 0)

    raw = b"".join(numbered(2))
    for packed in (raw, gzip.compress(raw), zstandard.compress(raw)):
        assert len(urls(list(read(Trickle(packed))))) == 2


def test_file_that_cannot_be_opened_is_an_invalid_argument() -> None:
    with pytest.raises(InvalidArgument, match="cannot read"):
        list(read("/nonexistent/file.warc"))


def test_zlib_ng_gives_the_entries_that_zlib_gives_also_of_damaged_files(monkeypatch: pytest.MonkeyPatch) -> None:
    modules = zlib, pytest.importorskip("zlib_ng.zlib_ng")
    chance = random.Random(7)
    sound = b"".join(gzip.compress(record(message(chance.randbytes(9000).hex().encode()))) for _ in range(12))
    damaged = 0
    for _ in range(40):
        raw = bytearray(sound)
        place = chance.randrange(len(raw))
        raw[place : place + chance.randrange(300)] = chance.choice([b"", bytes([raw[place] ^ 8]), chance.randbytes(90)])
        found = []
        for module in modules:
            monkeypatch.setattr(source, "zlib", module)
            found.append(list(read(io.BytesIO(raw), ReadOptions(salvage=True))))
        assert found[0] == found[1]
        damaged += any(
            isinstance(entry, DamagedEntry) or (isinstance(entry, PageEntry) and entry.flaw) for entry in found[0]
        )
    assert damaged > 20


# --- heads before the answer (RFC 9110, 15.2) ---


@pytest.mark.parametrize(
    "before",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 Connection established\r\n\r\n",
        b"HTTP/1.0 200 Connection Established\r\nVia: proxy\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 Tunnel established\r\n\r\n",
        b"\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n\r\n",
    ],
)
def test_heads_before_the_answer_are_skipped(before: bytes) -> None:
    found = page(run(record(before + message(status="404 Not Found"))))
    assert (found.status, found.body) == (404, HTML)
    assert dict(found.headers) == {"Content-Type": "text/html", "Content-Length": str(len(HTML))}


def test_an_interim_head_without_another_one_is_the_answer() -> None:
    found = page(run(record(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nHTTP is spoken no more")))
    assert (found.status, found.body) == (101, b"HTTP is spoken no more")


def test_a_body_that_begins_like_a_head_stays_a_body() -> None:
    found = page(run(record(message(b"HTTP/1.1 404 Not Found\r\n\r\n"))))
    assert (found.status, found.body) == (200, b"HTTP/1.1 404 Not Found\r\n\r\n")


def test_endless_interim_heads_are_refused() -> None:
    [reason] = reasons(run(record(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000 + message())))
    assert "interim responses" in reason


# --- lengths that are too small: writers that count characters, not bytes ---


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("missing", [1, 7, 200])
def test_a_record_whose_length_is_too_small_is_read_to_its_http_length(packed: bool, missing: int) -> None:
    body = HTML + "\u00e9".encode() * 300
    wrong = record(message(body), length=len(message(body)) - missing)
    parts = [wrong, *numbered(2)]
    found = run(b"".join(map(gzip.compress, parts) if packed else parts))
    assert urls(found) == ["http://example.com/", "http://example.com/0", "http://example.com/1"]
    assert page(found).body == body
    assert [entry.is_repaired for entry in found if isinstance(entry, PageEntry)] == [True, False, False]
    assert not reasons(found)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("missing", [1, 4])
def test_white_space_that_a_length_leaves_out_of_a_page_is_read(packed: bool, missing: int) -> None:
    body = HTML + b"\n \r\n\r\n"
    parts = [record(message(body), length=len(message(body)) - missing), *numbered(1)]
    found = run(b"".join(map(gzip.compress, parts) if packed else parts))
    assert [entry.is_repaired for entry in found if isinstance(entry, PageEntry)] == [True, False]
    assert page(found).body == body
    cut = run(record(message(length=len(HTML) + missing)))
    assert page(cut).body == HTML


@pytest.mark.parametrize("last", [False, True])
def test_a_record_whose_length_is_too_small_is_read_to_the_end_of_its_member(last: bool) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(HTML), HTML)
    wrong = gzip.compress(record(chunked, length=len(chunked) - 12))
    found = run(wrong if last else wrong + gzip.compress(numbered(1)[0]))
    assert page(found).body == HTML
    assert not reasons(found)


def test_a_length_that_nothing_shows_stays_damage() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(HTML), HTML)
    found = run(record(chunked, length=len(chunked) - 12) + b"".join(numbered(2)))
    assert urls(found) == ["http://example.com/0", "http://example.com/1"]
    assert len(reasons(found)) == 1


def test_a_date_of_14_digits_is_read() -> None:
    assert parse_date("20240506070809") == MICROS - MICROS % 1_000_000
    assert parse_date("2024050607080") is None


@pytest.mark.parametrize("cut", [slice(-8), slice(-3), slice(None)], ids=["no trailer", "cut trailer", "wrong trailer"])
@pytest.mark.parametrize("name", ["", "page.html"])
def test_a_gzip_body_with_a_bad_trailer_is_kept_and_counted(cut: slice, name: str) -> None:
    """Browsers show such a page: they do not look at the trailer."""
    stream = io.BytesIO()
    with gzip.GzipFile(name, "wb", fileobj=stream, mtime=0) as packed:
        packed.write(HTML * 200)
    sent = bytearray(stream.getvalue())
    sent[-6] ^= 1
    [entry] = run(record(message(bytes(sent[cut]), headers=["Content-Encoding: gzip"])))
    assert isinstance(entry, PageEntry)
    assert entry.page.body == HTML * 200
    assert "wrong checksum" in entry.flaw


def test_a_gzip_body_whose_data_are_damaged_or_cut_is_refused() -> None:
    sent = bytearray(gzip.compress(HTML * 200 + bytes(range(256))))
    for damaged in (bytes(sent[:-40]), bytes(sent[:30]) + b"\xff" * 10 + bytes(sent[40:])):
        [reason] = reasons(run(record(message(damaged, headers=["Content-Encoding: gzip"]))))
        assert "Content-Encoding gzip breaks" in reason
