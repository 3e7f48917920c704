"""WARC 0.17 to 1.1 and ARC 1 and 2: what a record's header says, and which entry its block makes.

Knows `records`, `http`, `entries`.  Must not know the store.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from docstore.archives.formats.entries import (
    BODY_LIMIT_BYTES,
    HEADER_LIMIT_BYTES,
    DamagedEntry,
    PageEntry,
    RevisitEntry,
    SkippedEntry,
)
from docstore.archives.formats.http import (
    ORIGINAL_PREFIX,
    Refused,
    as_received,
    check_length,
    has_status_line,
    parse_fields,
    parse_head,
    parse_message,
)
from docstore.archives.formats.records import Built, Header
from docstore.archives.formats.source import Source
from docstore.model.types import Headers, Page

TRUNCATED_HEADER = "WARC-Truncated"
"""Kept among a page's headers: the crawler stopped before the end and said why."""
CUT = "unspecified"
"""The reason of `TRUNCATED_HEADER` for a page that we cut, because its record is cut or breaks."""
RECORDED_DIGEST = ORIGINAL_PREFIX + "WARC-Payload-Digest"
"""In the header of a record that we exported: the payload digest as it was recorded, where that written is another."""

WARC_START = re.compile(rb"^WARC/\d[^\r\n]{0,20}\r?$", re.MULTILINE | re.IGNORECASE)
ARC_START = re.compile(
    rb"^[A-Za-z][A-Za-z0-9+.-]*:[^\r\n]{1,65536} [0-9A-Fa-f.:-]+ \d{8,17} (?:[^ \r\n]* ){0,8}\d+[ \t]*\r?$",
    re.MULTILINE,
)
_HEADER_END = re.compile(rb"\n(?:[ \t\r]*\n|(?=WARC/\d))", re.IGNORECASE)
"""An empty line, or the next record: a header without end must not be looked for through the whole file."""
_EMPTY_LINE = re.compile(rb"\n[ \t\r]*\n\Z")
_LINE_END = re.compile(rb"\n")
_KNOWN_VERSION = re.compile(rb"WARC/(?:0\.1[78]|1\.[01])", re.IGNORECASE)
_NO_PAGES = frozenset({"warcinfo", "request", "metadata", "conversion", "continuation"})
_PAGES = frozenset({"response", "resource", "revisit"})
_LOOKED_UP = frozenset({"dns", "whois", "ntp", "filedesc"})
_DATE = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d{2,3})(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?)?)?\s*(?:Z|([+-])(\d\d):?(\d\d))?"
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ARC_LINE = re.compile(rb"(\S.*?) ([0-9A-Fa-f.:-]+) (\d{8,17}) ?(.*?) ?(\d+)[ \t]*\r?\n")


def parse_date(text: str) -> int | None:
    """Microseconds since 1970 of a W3C date, to the millisecond; None if it is none or lies before 1970.

    A day of three digits is the day of the year, as in the WARC files of ClueWeb09 (2008-10-294).
    """
    matched = _DATE.fullmatch(text.strip())
    if matched is None:
        return None
    year, month, day, hour, minute, second, fraction, sign, off_hours, off_minutes = matched.groups()
    millis = int((fraction or "0").ljust(3, "0")[:3])
    if day and len(day) == 3:
        moment = datetime(int(year), 1, 1, tzinfo=UTC) + timedelta(days=int(day) - 1)
        month, day = str(moment.month), str(moment.day)
    return _micros(
        (int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0), int(second or 0)),
        millis,
        timedelta(hours=int(off_hours or 0), minutes=int(off_minutes or 0)) * (-1 if sign == "-" else 1),
    )


def parse_date14(text: str) -> int | None:
    """Microseconds since 1970 of YYYYMMDDhhmmss, to the millisecond; what is left out is 0."""
    if not 8 <= len(text) <= 17 or not text.isdigit():
        return None
    digits = text.ljust(17, "0")
    fields = (int(digits[:4]), int(digits[4:6]), int(digits[6:8]), int(digits[8:10]), int(digits[10:12]))
    return _micros((*fields, int(digits[12:14])), int(digits[14:17]), timedelta())


def _micros(fields: tuple[int, int, int, int, int, int], millis: int, offset: timedelta) -> int | None:
    year, month, day, hour, minute, second = fields
    try:
        # A leap second is the second before it.
        moment = datetime(year, month, day, hour, minute, min(second, 59) if second == 60 else second, tzinfo=UTC)
        since = moment - offset - _EPOCH
    except (ValueError, OverflowError):
        return None
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + millis * 1000
    return micros if micros >= 0 else None


@dataclass(frozen=True, slots=True)
class _WarcHeader:
    fields: Mapping[str, str]
    length: int
    skipped: str = ""

    def get(self, name: str) -> str:
        return self.fields.get(name, "")

    @property
    def url(self) -> str:
        """The target, without the angle brackets that Wget 1.19 writes."""
        url = self.get("warc-target-uri")
        return url[1:-1] if url.startswith("<") and url.endswith(">") else url

    @property
    def payload_digest(self) -> str:
        """As the crawler recorded it."""
        return self.get(RECORDED_DIGEST.lower()) or self.get("warc-payload-digest")


@dataclass(slots=True)
class WarcDialect:
    """WARC records."""

    body_limit_bytes: int = BODY_LIMIT_BYTES
    salvage: bool = False
    start: re.Pattern[bytes] = WARC_START
    look_bytes: int = 64

    def header(self, source: Source) -> Header:
        """Read the named fields with warcio."""
        head = source.take_through(_HEADER_END, HEADER_LIMIT_BYTES)
        if head is None:
            longer = source.available() >= HEADER_LIMIT_BYTES
            raise Refused("record header without end" + (f" within {HEADER_LIMIT_BYTES} bytes" if longer else ""))
        if not _EMPTY_LINE.search(head):
            raise Refused("record header breaks off where the next record begins")
        version = head[: head.index(b"\n")].strip()
        if not _KNOWN_VERSION.fullmatch(version):
            raise Refused(f"unknown WARC version: {version!r}")
        fields = {name.lower(): value for name, value in reversed(parse_fields(head))}
        length = fields.get("content-length", "")
        if not length.isascii() or not length.isdigit():
            raise Refused(
                f"record without a Content-Length: {length!r}" if length else "record without a Content-Length"
            )
        kind = fields.get("warc-type", "").lower()
        if not kind:
            raise Refused("record without a WARC-Type")
        return _WarcHeader(fields, int(length), self._skipped(kind, fields))

    @staticmethod
    def _skipped(kind: str, fields: Mapping[str, str]) -> str:
        if kind in _NO_PAGES:
            return kind
        if kind not in _PAGES:
            return "unknown type"
        scheme = fields.get("warc-target-uri", "").lstrip("<").partition(":")[0].lower()
        if scheme in _LOOKED_UP:
            return scheme
        return "segment" if fields.get("warc-segment-number", "") else ""

    def build(self, header: Header, block: bytes, offset: int, *, overlong: bool = False, cut: str = "") -> Built:
        """Make a page or a revisit."""
        assert isinstance(header, _WarcHeader)
        url = header.url
        kind = header.get("warc-type").lower()
        if not url:
            raise Refused(f"{kind} record without a WARC-Target-URI")
        fetched_at = parse_date(header.get("warc-date"))
        if fetched_at is None:
            raise Refused(f"{kind} record without a WARC-Date that can be read: {header.get('warc-date')!r}")
        if kind == "revisit":
            return Built(_revisit(header, url, fetched_at, block, offset), None)
        page = Page(
            url,
            b"",
            fetched_at=fetched_at,
            ip=header.get("warc-ip-address"),
            payload_digest=header.payload_digest,
            docno=header.get("warc-trec-id"),
        )
        return build_page(
            page,
            block,
            offset,
            is_response=kind == "response",
            content_type=header.get("content-type"),
            truncated=header.get("warc-truncated"),
            cut=cut,
            record_id=header.get("warc-record-id"),
            overlong=overlong,
            limit_bytes=self.body_limit_bytes,
        )

    def agrees(self, header: Header, block: bytes) -> bool | None:
        """Whether the block has the digest that the header names."""
        assert isinstance(header, _WarcHeader)
        return _digest_agrees(header.get("warc-block-digest"), block)


def build_page(
    page: Page,
    block: bytes,
    offset: int,
    *,
    is_response: bool,
    content_type: str,
    truncated: str = "",
    record_id: str = "",
    overlong: bool = False,
    cut: str = "",
    limit_bytes: int = BODY_LIMIT_BYTES,
) -> Built:
    """Put status, headers and body into a page that has the rest.

    A response of http or https without a status line is what an HTTP/0.9 server sends: a body alone.  Other
    protocols are not taken apart.

    Args:
        page: what the header of the record says.
        block: of the record.
        offset: of the record.
        is_response: not a resource.
        content_type: of the block.
        truncated: why the crawler stopped early, or "".
        record_id: as recorded.
        overlong: white space behind the record may be part of the block.
        cut: why the block is known not to be whole; what there is of a page is taken then, and marked.
        limit_bytes: longest body.
    Raises:
        Refused: the block cannot be taken.
    """
    truncated = truncated or (CUT if cut else "")
    flaw = cut
    headers: Headers = (("Content-Type", content_type),) if content_type else ()
    if content_type.startswith("application/http"):
        headers = ()
    if is_response and (page.url[:5].lower() in {"http:", "https"} or content_type.startswith("application/http")):
        if not block:
            return Built(SkippedEntry("empty response", offset), None)
        status, body, is_whole = 200, block, None
        if has_status_line(block):
            status, headers, body, is_whole, short = parse_message(
                block, truncated=bool(truncated), overlong=overlong, limit_bytes=limit_bytes
            )
            flaw = cut or short
        kind = "response"
    else:
        status, body, is_whole, kind = 200, block, None, "resource"
    check_length(body, limit_bytes)
    if cut and not body:
        raise Refused(cut)
    if truncated:
        headers += ((TRUNCATED_HEADER, truncated),)
    whole = Page(page.url, body, status, headers, page.fetched_at, page.ip, page.payload_digest, page.docno)
    return Built(PageEntry(whole, "response" if kind == "response" else "resource", offset, record_id, flaw), is_whole)


def _revisit(header: _WarcHeader, url: str, fetched_at: int, block: bytes, offset: int) -> RevisitEntry:
    status = 0
    headers: Headers = ()
    if has_status_line(block):
        status, received, _ = parse_head(block)
        headers = as_received(received)
    refers_to = header.get("warc-refers-to-target-uri")
    return RevisitEntry(
        url,
        fetched_at,
        headers,
        status,
        header.payload_digest,
        refers_to[1:-1] if refers_to.startswith("<") and refers_to.endswith(">") else refers_to,
        parse_date(header.get("warc-refers-to-date")),
        header.get("warc-profile"),
        offset,
        header.get("warc-ip-address"),
        header.get("warc-trec-id"),
    )


def _digest_agrees(recorded: str, block: bytes) -> bool | None:
    """Whether a block has a recorded digest; None where there is none of a kind that is known."""
    algorithm, _, value = recorded.partition(":")
    name = algorithm.lower().replace("-", "")
    if not value or name not in {"sha1", "md5", "sha256"}:
        return None
    digest = hashlib.new(name, block, usedforsecurity=False)
    return value.lower() == digest.hexdigest() or value.upper() == base64.b32encode(digest.digest()).decode()


@dataclass(frozen=True, slots=True)
class _ArcHeader:
    url: str
    ip: str
    date14: str
    content_type: str
    length: int
    skipped: str = ""


@dataclass(slots=True)
class ArcDialect:
    """ARC records; the version block says whether lines have the five fields of version 1 or the ten of version 2."""

    body_limit_bytes: int = BODY_LIMIT_BYTES
    salvage: bool = False
    start: re.Pattern[bytes] = field(default=ARC_START)
    look_bytes: int = 70_000
    _version: int = 1

    def header(self, source: Source) -> Header:
        """Read one line: URL, address, date, type, (version 2: five more,) length."""
        line = source.take_through(_LINE_END, HEADER_LIMIT_BYTES)
        matched = _ARC_LINE.match(line) if line else None
        if matched is None:
            raise Refused("ARC header line without end or without a length")
        url, ip, date14, middle, length = (_text(part) for part in matched.groups())
        if url.lower().startswith("filedesc:"):
            self._version = 2 if source.peek(2).startswith(b"2 ") else 1
        content_type = middle.split(" ")[0] if self._version == 2 else middle
        scheme = url.partition(":")[0].lower()
        skipped = "arc header" if scheme == "filedesc" else scheme if scheme in _LOOKED_UP else ""
        return _ArcHeader(url, ip, date14, content_type, int(length), skipped)

    def build(self, header: Header, block: bytes, offset: int, *, overlong: bool = False, cut: str = "") -> Built:
        """Make a page."""
        assert isinstance(header, _ArcHeader)
        fetched_at = parse_date14(header.date14)
        if fetched_at is None:
            return Built(DamagedEntry(offset, f"ARC record with a date that cannot be read: {header.date14}"), None)
        ip = "" if header.ip in {"-", "0.0.0.0"} else header.ip
        page = Page(header.url, b"", fetched_at=fetched_at, ip=ip)
        content_type = "" if header.content_type in {"-", "no-type"} else header.content_type
        return build_page(
            page,
            block,
            offset,
            is_response=True,
            content_type=content_type,
            overlong=overlong,
            cut=cut,
            limit_bytes=self.body_limit_bytes,
        )

    def agrees(self, header: Header, block: bytes) -> bool | None:
        """ARC has no digests."""
        return None


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
