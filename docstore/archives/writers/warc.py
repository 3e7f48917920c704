"""Pages -> WARC 1.1, a gzip member a record; read again, they are the same pages.

Knows `pages`, the header names of `http` and `warc`, and warcio, which writes the records.  Must not know
the store.

Bodies are written decoded.  Where the received headers say otherwise (Content-Encoding, Transfer-Encoding, another
Content-Length or none) these get the prefix `ORIGINAL_PREFIX`, and a Content-Length that is true is added and named
in `ADDED_HEADER`; the reader takes both back.  A body that an earlier page of the same export had, byte for byte,
becomes a revisit record that names that page and its date.  Digests are those of what is written, so that any WARC tool
can verify the file.  A recorded payload digest that is another, mostly because it was taken of the encoded body, stands
in `RECORDED_DIGEST`; the reader takes it back.
"""

from __future__ import annotations

import hashlib
import io
import uuid
from base64 import b32encode
from collections.abc import Callable
from http import HTTPStatus
from typing import BinaryIO

from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from docstore.archives.formats.http import ADDED_HEADER, ENCODING_HEADERS, ORIGINAL_PREFIX
from docstore.archives.formats.warc import RECORDED_DIGEST, TRUNCATED_HEADER
from docstore.archives.writers.pages import ExportPage, iso_date, one_line, one_line_headers
from docstore.model.types import Headers, Page

REMEMBERED_BODIES = 500_000
"""So many bodies are remembered as targets of a revisit, about 200 bytes each; then the oldest is forgotten and
its next copy is written whole."""

_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"


class _Utf8Headers(StatusAndHeaders):  # type: ignore[misc]
    """Headers written in UTF-8, as they are read; warcio would percent-encode what is not ASCII."""

    def to_ascii_bytes(self, header_filter: Callable[[tuple[str, str]], tuple[str, str] | None] | None = None) -> bytes:
        text: str = self.to_str(header_filter)
        return text.encode("utf-8", "replace") + b"\r\n"


class _Writer(WARCWriter):  # type: ignore[misc]
    """A writer that gives no payload digest where a record has no payload: readers see HTTP behind http URLs alone."""

    def ensure_digest(self, record: ArcWarcRecord, block: bool = True, payload: bool = True) -> None:
        has_payload = record.http_headers is None or _is_http(record.rec_headers["WARC-Target-URI"])
        super().ensure_digest(record, block, payload and has_payload)


class WarcExport:
    """Writes response, resource and revisit records to a stream."""

    def __init__(self, stream: BinaryIO, software: str = "docstore") -> None:
        self._writer = _Writer(stream, gzip=True, warc_version="1.1")
        self._seen: dict[bytes, tuple[str, str]] = {}
        self._software = software
        self._began = False

    def write(self, page: ExportPage) -> None:
        """Append one page; the first call writes a warcinfo record before it."""
        date = iso_date(page.timestamp)
        if not self._began:
            self._began = True
            fields = f"software: {self._software}\r\nformat: WARC File Format 1.1\r\n".encode()
            named = {"WARC-Date": date, "WARC-Record-ID": _record_id("warcinfo", date)}
            self._record("urn:docstore:export", "warcinfo", fields, None, named, "application/warc-fields")
        self._page(page.page, date)

    def _page(self, page: Page, date: str) -> None:
        digest = hashlib.sha1(page.body, usedforsecurity=False).digest()
        headers = one_line_headers(page.headers)
        truncated = [value for name, value in headers if name == TRUNCATED_HEADER]
        if truncated:
            headers = tuple(header for header in headers if header[0] != TRUNCATED_HEADER)
        is_resource = _is_resource(page, headers)
        written = "sha1:" + b32encode(digest).decode() if is_resource or _is_http(page.url) else ""
        named = {
            "WARC-Date": date,
            "WARC-Record-ID": _record_id(page.url, date),
            "WARC-Payload-Digest": written,
            RECORDED_DIGEST: "" if page.payload_digest == written else page.payload_digest,
            "WARC-IP-Address": page.ip,
            "WARC-TREC-ID": page.docno,
            TRUNCATED_HEADER: truncated[-1] if truncated else "",
        }
        earlier = self._seen.get(digest) if page.body else None
        if earlier:
            named["WARC-Profile"] = _PROFILE
            named["WARC-Refers-To-Target-URI"], named["WARC-Refers-To-Date"] = earlier
            self._record(page.url, "revisit", b"", _http(page.status, headers, len(page.body)), named)
            return
        if page.body:
            self._remember(digest, page.url, date)
        if is_resource:
            content_type = headers[0][1] if headers else ""
            self._record(page.url, "resource", page.body, None, named, content_type)
        else:
            self._record(page.url, "response", page.body, _http(page.status, headers, len(page.body)), named)

    def _remember(self, digest: bytes, url: str, date: str) -> None:
        self._seen[digest] = url, date
        if len(self._seen) > REMEMBERED_BODIES:
            del self._seen[next(iter(self._seen))]

    def _record(
        self,
        url: str,
        kind: str,
        block: bytes,
        http: StatusAndHeaders | None,
        named: dict[str, str],
        content_type: str = "",
    ) -> None:
        record = self._writer.create_warc_record(
            url,
            kind,
            payload=io.BytesIO(block),
            length=len(block),
            http_headers=http,
            warc_headers_dict={name: one_line(value) for name, value in named.items() if value},
            warc_content_type=content_type,
        )
        if kind == "resource" and not content_type:
            # warcio would call it application/warc-record; nobody said what it is.
            record.rec_headers.remove_header("Content-Type")
            record.content_type = None
        self._writer.write_record(record)


def _record_id(url: str, date: str) -> str:
    """The same page at the same time has the same id, so an export made again is the same file."""
    return f"<urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{url} {date}')}>"


def _is_http(url: str) -> bool:
    return url.startswith(("http:", "https:"))


def _is_resource(page: Page, headers: Headers) -> bool:
    """Whether a resource record can say all: another protocol than HTTP, and no more headers than a type."""
    names = [name for name, _ in headers]
    return not _is_http(page.url.lower()) and page.status == 200 and names in ([], ["Content-Type"])


def _http(status: int, headers: Headers, body_bytes: int) -> _Utf8Headers:
    """Status line and headers that are true of the decoded body."""
    said = {(name.lower(), value) for name, value in headers if name.lower() in ENCODING_HEADERS}
    if said != {("content-length", str(body_bytes))}:
        headers = tuple(
            (ORIGINAL_PREFIX + name, value) if name.lower() in ENCODING_HEADERS else (name, value)
            for name, value in headers
        )
        headers += ((ADDED_HEADER, "Content-Length"), ("Content-Length", str(body_bytes)))
    return _Utf8Headers(f"{status:03d} {_phrase(status)}".rstrip(), list(headers), protocol="HTTP/1.1")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
