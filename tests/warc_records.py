"""Generated WARC records, and helpers for the entries of a reader, for tests of archive formats."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterable

import zstandard

from docstore.archives.entries import DamagedEntry, Entry, PageEntry
from docstore.archives.reader import read
from docstore.model.types import Page

HTML = b"<html><title>A page</title><p>with some words"
DATE = "2024-05-06T07:08:09.123456Z"
MICROS = 1_714_979_289_123_000


def message(body: bytes = HTML, status: str = "200 OK", headers: Iterable[str] = (), length: int | None = -1) -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: text/html", *headers]
    if length is not None:
        lines.append(f"Content-Length: {len(body) if length < 0 else length}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def record(
    block: bytes, url: str = "http://example.com/", kind: str = "response", extra: str = "", length: object = None
) -> bytes:
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\nWARC-Date: {DATE}\r\n"
        f"WARC-Record-ID: <urn:uuid:1>\r\n{extra}Content-Length: {len(block) if length is None else length}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def run(raw: bytes) -> list[Entry]:
    return list(read(io.BytesIO(raw)))


def urls(entries: list[Entry]) -> list[str]:
    return [entry.page.url for entry in entries if isinstance(entry, PageEntry)]


def page(entries: list[Entry], index: int = 0) -> Page:
    return [entry.page for entry in entries if isinstance(entry, PageEntry)][index]


def reasons(entries: list[Entry]) -> list[str]:
    return [entry.reason for entry in entries if isinstance(entry, DamagedEntry)]


def numbered(count: int) -> list[bytes]:
    return [record(message(HTML + b" %d" % number), f"http://example.com/{number}") for number in range(count)]


def packings() -> list[tuple[str, list[bytes]]]:
    plain = numbered(5)
    frame = zstandard.ZstdCompressor(write_checksum=True)
    return [
        ("plain", plain),
        ("gzip", [gzip.compress(raw_record, mtime=0) for raw_record in plain]),
        ("zstd", [frame.compress(raw_record) for raw_record in plain]),
    ]
