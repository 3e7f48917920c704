"""Bodies and files of very many gzip members or zstd frames: time is linear in their length, and bounded for a body."""

from __future__ import annotations

import gzip
import io
import time
from collections.abc import Callable

import pytest
import zstandard

from docstore.archives.entries import DamagedEntry, PageEntry
from docstore.archives.http import CODINGS_LIMIT, MEMBERS_LIMIT, Refused, parse_message
from docstore.archives.reader import read
from docstore.text import readers

EMPTY = gzip.compress(b"", mtime=0)
EMPTY_FRAME = zstandard.ZstdCompressor().compress(b"")
LETTER = gzip.compress(b"x", mtime=0)
SITE_MAP = b"<urlset><url><loc>https://a.example/1</loc></url>"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: %s\r\n\r\n"


def warc(message: bytes) -> bytes:
    header = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: https://a.example/\r\n"
        b"WARC-Date: 2024-01-01T00:00:00Z\r\nWARC-Record-ID: <urn:uuid:1>\r\n"
        b"Content-Type: application/http; msgtype=response\r\nContent-Length: %d\r\n\r\n"
    )
    return header % len(message) + message + b"\r\n\r\n"


def test_a_site_map_before_a_hundred_thousand_empty_members_is_read_in_linear_time() -> None:
    begun = time.process_time()
    text = readers.read(gzip.compress(SITE_MAP) + EMPTY * 100_000, None)  # 4 s and more when it was quadratic
    assert text is not None and [entry.url for entry in text.entries] == ["https://a.example/1"]
    assert time.process_time() - begun < 1.5


def test_a_site_map_in_many_members_is_read_whole() -> None:
    body = b"".join(gzip.compress(SITE_MAP[at : at + 3]) for at in range(0, len(SITE_MAP), 3))
    text = readers.read(body, None)
    assert text is not None and [entry.url for entry in text.entries] == ["https://a.example/1"]


@pytest.mark.parametrize(("coding", "member"), [(b"gzip", EMPTY), (b"gzip", LETTER), (b"zstd", EMPTY_FRAME)])
def test_a_body_has_a_limit_of_members(coding: bytes, member: bytes) -> None:
    assert parse_message(HEAD % coding + member * MEMBERS_LIMIT)[0] == 200
    with pytest.raises(Refused, match=f"more than {MEMBERS_LIMIT} gzip members or zstd frames"):
        parse_message(HEAD % coding + member * (MEMBERS_LIMIT + 1))


def test_a_body_has_a_limit_of_codings() -> None:
    assert parse_message(HEAD % b",".join([b"deflate"] * CODINGS_LIMIT) + b"hello")[2] == b"hello"
    with pytest.raises(Refused, match="6 codings"):
        parse_message(HEAD % b",".join([b"deflate"] * (CODINGS_LIMIT + 1)) + b"hello")


@pytest.mark.parametrize(
    "pack",
    [
        lambda record: gzip.compress(record) + LETTER * 10_000,
        lambda record: gzip.compress(record) + EMPTY * 10_000,
        lambda record: gzip.compress(record + warc(HEAD % b"gzip" + EMPTY * 400_000)),  # 30 KB
        lambda record: gzip.compress(record + warc(HEAD % b"zstd" + EMPTY_FRAME * 800_000)),
    ],
    ids=["letters", "empty", "in a body", "frames in a body"],
)
def test_an_archive_of_very_many_members_is_read_in_linear_time(pack: Callable[[bytes], bytes]) -> None:
    raw = pack(warc(HEAD % b"identity" + b"<p>hello</p>"))
    begun = time.process_time()
    entries = list(read(io.BytesIO(raw)))
    assert time.process_time() - begun < 1.5
    assert isinstance(entries[0], PageEntry)
    assert all(isinstance(entry, DamagedEntry) for entry in entries[1:])
