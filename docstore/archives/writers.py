"""Pages -> WARC 1.1, TREC Web or JSON Lines.

Knows the model, warcio, and the header names that the readers in `formats` take back.  Must not know the store, which
fills in an `ExportPage`.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import BinaryIO, Final, NamedTuple, Protocol

from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from docstore.archives.formats.http import ADDED_HEADER, ENCODING_HEADERS, ORIGINAL_PREFIX
from docstore.archives.formats.warc import RECORDED_DIGEST, TRUNCATED_HEADER
from docstore.model.types import Headers, Page
from docstore.version import __version__

_LINE_BREAKS = re.compile(r"[\r\n\0]+")
_NAME = re.compile(r"[^\s:]+(?:[ \t]+[^\s:]+)*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ExportPage(NamedTuple):
    """One version of a page on its way out.

    Attributes:
        page: as it came in; `fetched_at` is the version's timestamp, None counts as 0.
        url: of the page's row; "" if it is the page's own.
        title, text, language: as extracted, "" if there is none.
        verdict: against other pages when it was written: exact, same_text, near, contained, similar, new; or "".
        of_url: of which page, or "".
        similarity: to that page, in [0, 1].
    """

    page: Page
    url: str = ""
    title: str = ""
    text: str = ""
    language: str = ""
    verdict: str = ""
    of_url: str = ""
    similarity: float = 0.0

    @property
    def timestamp(self) -> int:
        """Microseconds since 1970."""
        return self.page.fetched_at or 0


class PageWriter(Protocol):
    """Writes pages one by one to a binary stream that the caller opened and closes."""

    def write(self, page: ExportPage) -> None:
        """Append one page."""
        ...


def moment(timestamp: int) -> datetime:
    """A timestamp as a date, to the millisecond."""
    return _EPOCH + timedelta(milliseconds=timestamp // 1000)


def iso_date(timestamp: int) -> str:
    """``2024-05-06T07:08:09.123Z``; without a fraction where it is 0."""
    date = moment(timestamp)
    fraction = f".{date.microsecond // 1000:03d}" if date.microsecond else ""
    return f"{date.year:04d}-{date:%m-%dT%H:%M:%S}{fraction}Z"


def one_line(text: str) -> str:
    """Text that a line-based format can hold: no line breaks, and only what UTF-8 can say."""
    return _LINE_BREAKS.sub(" ", text).strip().encode("utf-8", "replace").decode()


def one_line_headers(headers: Headers) -> Headers:
    """Headers that a line-based format can hold: no line breaks, no name that is empty or has a colon."""
    return tuple((name, one_line(value)) for name, value in headers if _NAME.fullmatch(name))


# --- WARC


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
    """Writes WARC 1.1, a gzip member a record: response, resource and revisit.

    Bodies are written decoded.  Received headers that no longer hold (Content-Encoding, Transfer-Encoding, another
    Content-Length) get the prefix `ORIGINAL_PREFIX`, and a true Content-Length is added and named in `ADDED_HEADER`;
    the reader takes both back.  A body that an earlier page of the same export had, byte for byte, becomes a revisit
    record that names that page and its date.  Digests are those of what is written, so that any WARC tool can verify
    the file.  A recorded payload digest that differs, mostly because it was taken of the encoded body, goes into
    `RECORDED_DIGEST`.
    """

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
        written = "sha1:" + base64.b32encode(digest).decode() if is_resource or _is_http(page.url) else ""
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
            # warcio would call it application/warc-record; its type is not known.
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


# --- TREC Web


_TAG = re.compile(r"</(?=DOCHDR>)", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


class TrecWebExport:
    """Writes <DOC> elements as WT10g has them: ``url ip date type length``, HTTP status and headers, then the body.

    The format has no escape: a body that holds ``</DOC>`` is written as it is, and the length in the first line tells
    our reader where it ends; other readers stop at the first ``</DOC>``.  A page without a document number gets one
    from its URL and time.  Payload digests have no place here.  Dates have fourteen digits, and three more where there
    are milliseconds.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, page: ExportPage) -> None:
        """Append one page."""
        source = page.page
        date = moment(page.timestamp)
        digits = f"{date.year:04d}{date:%m%d%H%M%S}" + (f"{date.microsecond // 1000:03d}" if date.microsecond else "")
        kind = _SPACE.sub("", (source.header("content-type") or "").partition(";")[0]) or "-"
        address = _SPACE.sub("", source.ip) or "-"
        first = f"{one_line(source.url)} {address} {digits} {kind} {len(source.body)}"
        lines = [first, f"HTTP/1.1 {source.status:03d}"]
        lines += [f"{name}: {value}" for name, value in one_line_headers(source.headers)]
        head = "\n".join(_TAG.sub("< /", line) for line in lines).encode("utf-8", "replace")
        number = one_line(source.docno or document_number(source.url, page.timestamp)).encode()
        self._stream.write(b"<DOC>\n<DOCNO>%s</DOCNO>\n<DOCHDR>\n%s\n</DOCHDR>\n" % (number, head))
        self._stream.write(source.body)
        self._stream.write(b"\n</DOC>\n")


def document_number(url: str, timestamp: int) -> str:
    """The number of a page that came without one: the same for the same URL and time."""
    return "DS-" + hashlib.blake2b(f"{url} {timestamp}".encode(), digest_size=10).hexdigest()


# --- JSON Lines


class JsonLinesExport:
    """Writes one object a page; bodies only when asked for, in base64, since they are bytes."""

    def __init__(self, stream: BinaryIO, *, bodies: bool = False) -> None:
        self._stream = stream
        self._bodies = bodies

    def write(self, page: ExportPage) -> None:
        """Append one page."""
        source = page.page
        fields: dict[str, object] = {
            "url": page.url or source.url,
            "fetched_url": source.url,
            "timestamp": iso_date(page.timestamp),
            "status": source.status,
            "headers": [list(header) for header in source.headers],
            "title": page.title,
            "text": page.text,
            "language": page.language,
            "verdict": page.verdict,
            "of_url": page.of_url,
            "similarity": page.similarity,
            "ip": source.ip,
            "payload_digest": source.payload_digest,
            "docno": source.docno,
            "body_bytes": len(source.body),
        }
        if self._bodies:
            fields["body_base64"] = base64.b64encode(source.body).decode()
        line = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        self._stream.write(line.encode("utf-8", "replace") + b"\n")


WRITERS: Final[Mapping[str, Callable[[BinaryIO, bool], PageWriter]]] = {
    "warc": lambda stream, bodies: WarcExport(stream, f"docstore {__version__}"),
    "trecweb": lambda stream, bodies: TrecWebExport(stream),
    "jsonl": lambda stream, bodies: JsonLinesExport(stream, bodies=bodies),
}
"""By name of the format: makes a writer for a stream, with bodies where the format can do without."""
