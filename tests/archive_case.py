"""A small web archive for tests: ten captures as WARC records, a store made of them, and a way to ask the archive API.

The captures are those with which web archive clients were tried: two versions and a revisit of a page, an image, a page
that came gzipped, a redirect, a 404, a query, and a redirect from http to https of the same page.
"""

from __future__ import annotations

import asyncio
import io
import struct
import zlib
from datetime import UTC, datetime
from gzip import compress
from pathlib import Path
from typing import NamedTuple

from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from docstore.archives.ingest import ingest
from docstore.serving.archive_app import ArchiveApp
from docstore.store import DocumentStore, open_store

SITE = "http://example.test"
HOST = "127.0.0.1:8471"
BASE = f"http://{HOST}/web"
HOME = """<!doctype html><html><head><title>Home %s</title></head><body><h1>Home</h1><img src="/pic.png">
<p><a href="/zip">zip</a> <a href="/old">old</a> <a href="/missing">missing</a></p></body></html>"""
HTML = ("Content-Type", "text/html; charset=utf-8")


def striped_png(width: int = 120, height: int = 60) -> bytes:
    """Red and blue stripes."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = b"\0" + b"".join(b"\xff\0\0" if x // 10 % 2 else b"\0\0\xff" for x in range(width))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(row * height))
        + chunk(b"IEND", b"")
    )


class Recorded(NamedTuple):
    """A capture as a crawler records it; `body` None is a revisit of the capture of the time `repeats`."""

    digits: str
    url: str
    status: str
    headers: list[tuple[str, str]]
    body: bytes | None
    repeats: str = ""


CAPTURES = [
    Recorded(
        "20240101000000",
        f"{SITE}/",
        "200 OK",
        [HTML, ("ETag", '"one"'), ("Date", "Mon, 01 Jan 2024 00:00:00 GMT")],
        (HOME % "one").encode(),
    ),
    Recorded("20240601000000", f"{SITE}/", "200 OK", [HTML, ("ETag", '"two"')], (HOME % "two").encode()),
    Recorded("20240901000000", f"{SITE}/", "200 OK", [HTML], None, "20240601000000"),
    Recorded("20240101000001", f"{SITE}/pic.png", "200 OK", [("Content-Type", "image/png")], striped_png()),
    Recorded(
        "20240101000002",
        f"{SITE}/zip",
        "200 OK",
        [HTML, ("Content-Encoding", "gzip")],
        compress(b"<h1>Was gzipped</h1>", mtime=0),
    ),
    Recorded("20240101000003", f"{SITE}/old", "301 Moved Permanently", [HTML, ("Location", "/zip")], b"moved"),
    Recorded("20240101000004", f"{SITE}/missing", "404 Not Found", [HTML], b"<h1>archived 404</h1>"),
    Recorded("20240101000005", f"{SITE}/q?a=1&b=x%20y;z", "200 OK", [("Content-Type", "text/plain")], b"query page"),
    Recorded(
        "20240101000006",
        f"{SITE}/self",
        "301 Moved Permanently",
        [("Location", "https://example.test/self")],
        b"moved to https",
    ),
    Recorded("20240101000007", "https://example.test/self", "200 OK", [HTML], b"<h1>secure</h1>"),
]


def iso(digits: str) -> str:
    """A W3C date of 14 digits."""
    return datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write_warc(path: Path, captures: list[Recorded]) -> None:
    """Write captures as WARC records, with the digests that a crawler records."""
    digests: dict[str, str] = {}
    with path.open("wb") as stream:
        writer = WARCWriter(stream, gzip=True)
        for one in captures:
            http = StatusAndHeaders(one.status, list(one.headers), protocol="HTTP/1.1")
            named = {"WARC-Date": iso(one.digits)}
            if one.body is None:
                record = writer.create_revisit_record(
                    one.url, digests[one.repeats], one.url, iso(one.repeats), http_headers=http, warc_headers_dict=named
                )
            else:
                http.headers.append(("Content-Length", str(len(one.body))))
                record = writer.create_warc_record(
                    one.url, "response", payload=io.BytesIO(one.body), http_headers=http, warc_headers_dict=named
                )
            writer.write_record(record)
            digests[one.digits] = record.rec_headers.get_header("WARC-Payload-Digest")


def make_store(folder: Path, captures: list[Recorded] = CAPTURES) -> DocumentStore:
    """A store that has ingested captures from a WARC file."""
    write_warc(folder / "crawl.warc.gz", captures)
    store = open_store(folder / "store", create=True)
    report = ingest(store, [str(folder / "crawl.warc.gz")])
    assert not report.errors, report.errors
    return store


class Reply(NamedTuple):
    """What the archive API answered."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def text(self) -> str:
        """The body."""
        return self.body.decode()

    def header(self, name: str) -> str | None:
        """The only header of that name."""
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        assert len(found) <= 1, found
        return found[0] if found else None


def ask(
    app: ArchiveApp, target: str | bytes, *headers: tuple[str, str], method: str = "GET", host: str | None = HOST
) -> Reply:
    """One request, as uvicorn gives it to an application.

    Args:
        app: the archive API.
        target: path and query, as they are sent.
        headers: beside `Host`.
        method: of the request.
        host: None sends no `Host`.
    """
    raw = target.encode("latin-1") if isinstance(target, str) else target
    raw_path, _, query_string = raw.partition(b"?")
    given = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
    if host is not None:
        given.append((b"host", host.encode("latin-1")))
    scope = {
        "type": "http",
        "method": method,
        "scheme": "http",
        "path": raw_path.decode("latin-1"),
        "raw_path": raw_path,
        "query_string": query_string,
        "headers": given,
    }
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: object) -> None:
        sent.append(dict(message))  # type: ignore[call-overload]

    asyncio.run(app({**scope}, receive, send))  # type: ignore[arg-type]
    start, pieces = sent[0], sent[1:]
    replied = [(name.decode(), value.decode("latin-1")) for name, value in start["headers"]]  # type: ignore[attr-defined]
    return Reply(start["status"], replied, b"".join(piece["body"] for piece in pieces))  # type: ignore[arg-type, misc]
