"""WARC 0.17 to 1.1 and ARC 1 and 2: cut a file into records, read each header, and make an entry of each block.

What the two formats share comes first: it judges each length and goes on after damage.  How a header reads, a `Dialect`
says.  Must not know the store.

A length in a header may lie.  It is accepted when white space and then a record, a new member or the end of the file
follow. Otherwise the record is taken only if its own content confirms it (HTTP length, last chunk, block digest);
if not, it is named as damaged. When a record begins inside the claimed length, reading goes on there, so that no
sound record is lost.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import NamedTuple, Protocol, TypeAlias

from docstore.archives.entries import (
    BODY_LIMIT_BYTES,
    HEADER_LIMIT_BYTES,
    DamagedEntry,
    Entry,
    PageEntry,
    RevisitEntry,
    SkippedEntry,
)
from docstore.archives.http import (
    ORIGINAL_PREFIX,
    Refused,
    as_received,
    check_length,
    has_status_line,
    parse_fields,
    parse_head,
    parse_message,
)
from docstore.archives.source import Source
from docstore.model.types import Headers, Page

_SHOWN_BYTES = 40
_STEP_BYTES = 1 << 20
_BLANK_LIMIT_BYTES = 1 << 16


Header: TypeAlias = "_WarcHeader | _ArcHeader"


class Built(NamedTuple):
    """An entry, and whether HTTP confirms its length; None where HTTP gives no length."""

    entry: Entry
    is_whole: bool | None


class Dialect(Protocol):
    """WARC or ARC; a record longer than the longest body and its header is skipped.

    With `salvage`, what there is of a page is taken and marked, where its record is cut or its encoding breaks.
    """

    start: re.Pattern[bytes]
    look_bytes: int

    body_limit_bytes: int
    salvage: bool

    def header(self, source: Source) -> Header:
        """Read a header; the cursor is then at the block.

        Raises:
            Refused: it cannot be read.
        """
        ...

    def build(self, header: Header, block: bytes, offset: int, *, overlong: bool = False, cut: str = "") -> Built:
        """Make the entry; `overlong` says that white space behind the record may be part of the block.

        `cut` says why the block is known not to be whole: what there is of a page is taken then, and marked.

        Raises:
            Refused: the block cannot be taken.
        """
        ...

    def agrees(self, header: Header, block: bytes) -> bool | None:
        """Whether the block has the digest that the header names; None where it names none."""
        ...


class _Digests:
    """Asks digests where the checksum of a packed member comes too late: behind many records, all given by then.

    Writers are known that digest something else than they write, so the first that is right must show that they count.
    From then on a page is refused whose digest is wrong; behind damage in its member, also one without a right digest.
    """

    def __init__(self, source: Source, dialect: Dialect) -> None:
        self._source = source
        self._dialect = dialect
        self._count = False
        self._member = self._damaged_member = -1
        self._follows = False
        self._agrees: bool | None = None
        self._odd = True

    def begin(self, begin: int) -> None:
        """A record begins; one that is never `seen` ends oddly."""
        self._member, self._follows = self._source.offset(begin), bool(self._source.place(begin))
        self._agrees, self._odd = None, True

    def seen(self, header: Header, block: bytes) -> None:
        """Take a record that ends where its length says."""
        self._odd = False
        self._agrees = self._dialect.agrees(header, block)
        self._count |= self._agrees is True

    def judged(self, entry: Entry) -> Entry:
        """The entry of the record, or what is wrong with it."""
        if not self._source.compressed or (self._dialect.salvage and isinstance(entry, PageEntry) and entry.flaw):
            return entry
        doubted = self._odd or self._damaged_member == self._member
        # Revisits are known to carry the digest of another record.
        wrong = isinstance(entry, PageEntry) and (self._agrees is False or (doubted and self._agrees is None))
        if wrong and self._count and (self._follows or not self._odd):
            reason = "no digest confirms it, in a damaged member of several records"
            entry = DamagedEntry(self._member, reason, _url(entry))
        if isinstance(entry, DamagedEntry):
            self._damaged_member = self._member
        return entry


def read_records(source: Source, dialect: Dialect) -> Iterator[Entry]:
    """Every record of a file, in order, and every stretch that is none."""
    digests = _Digests(source, dialect)
    while True:
        source.skip_blank()
        if source.at_end():
            if source.broken is None:
                return
            if len(list(islice(dialect.start.finditer(source.broken.rest), 2))) == 2:
                source.take_rest(source.broken)  # one record alone cannot be checked: it is lost
                continue
            yield DamagedEntry(source.broken.member_offset, source.broken.reason)
            if not source.recover():
                return
            continue
        begin = source.tell()
        digests.begin(begin)
        if not source.match(dialect.start, look_bytes=dialect.look_bytes):
            offset = source.offset()
            shown = source.peek(_SHOWN_BYTES)
            place = source.place(begin)
            _resync(source, dialect)
            reason = f"expected a record, found {_line(shown)}{place}"
            if source.broken and source.at_end() and source.broken.member_offset == offset:
                reason = f"{source.broken.reason}: {reason}"
                source.recover()
            yield digests.judged(DamagedEntry(offset, reason))
            continue
        place = source.place(begin)
        entry = digests.judged(_record(source, dialect, begin, digests))
        if place and isinstance(entry, DamagedEntry):
            entry = replace(entry, reason=entry.reason + place)
        yield entry
        del entry  # a long page must not be held until the next one is there


def _record(source: Source, dialect: Dialect, begin: int, digests: _Digests) -> Entry:
    """One record; afterwards the cursor is where the next one may begin."""
    offset = source.offset(begin)
    try:
        header = dialect.header(source)
    except Refused as refused:
        return _damaged(source, dialect, offset, str(refused), begin)
    entry = _read_block(source, dialect, header, offset, begin, digests)
    if isinstance(entry, DamagedEntry) and not entry.url:
        entry = replace(entry, url=header.url)
    return entry


def _read_block(source: Source, dialect: Dialect, header: Header, offset: int, begin: int, digests: _Digests) -> Entry:
    """The entry of a record whose header has been read."""
    block_start = source.tell()
    if header.length > dialect.body_limit_bytes + HEADER_LIMIT_BYTES:
        return _pass_over(source, dialect, header, offset)
    end = block_start + header.length
    whole = source.need(header.length)
    if source.compressed:
        for member in source.member_starts(block_start, min(end, source.held_end())):
            if source.match(dialect.start, member, dialect.look_bytes):
                return _ends_early(source, dialect, header, member, offset)
    if not whole:
        return _cut_off(source, dialect, header, offset)
    source.seek(end)
    confirmed = _is_followed(source, dialect, end)
    if confirmed is None:
        broken = source.broken
        assert broken is not None
        source.seek(block_start)
        entry = _salvaged(
            dialect, header, source.take(header.length) if dialect.salvage else b"", offset, broken.reason
        )
        source.recover()
        return entry
    after = source.tell()
    if header.skipped and confirmed:
        return SkippedEntry(header.skipped, offset)
    source.seek(block_start)
    block = source.take(header.length)
    source.seek(after)
    if confirmed and _shares_member(source, begin):
        digests.seen(header, block)
    if confirmed:
        # A long block is then held once, not twice, while it is decoded.
        source.forget()
    built = _build(dialect, header, block, offset)
    if confirmed or built.is_whole or dialect.agrees(header, block):
        return built.entry
    return _unconfirmed(source, dialect, header, block_start, offset)


def _shares_member(source: Source, begin: int) -> bool:
    """Whether a record lies in one packed member with others, whose checksum then comes too late for it."""
    if not source.compressed:
        return False
    if source.place(begin):
        return True
    return not source.at_end() and not source.member_starts(begin, source.tell() + 1)


def _is_followed(source: Source, dialect: Dialect, end: int) -> bool | None:
    """Whether what follows a record confirms its length; None when the record's own member is damaged."""
    begin_offset = source.offset(end - 1) if source.compressed else 0
    source.skip_blank(_BLANK_LIMIT_BYTES)
    if source.at_end():
        if source.broken is not None and source.compressed:
            return None if source.broken.member_offset == begin_offset else True
        return True
    if source.member_starts(end - 1, source.tell() + 1) or source.peek(1).isspace():
        return True
    return source.match(dialect.start, look_bytes=dialect.look_bytes)


def _unconfirmed(source: Source, dialect: Dialect, header: Header, block_start: int, offset: int) -> Entry:
    """A length that nothing confirms: go on at the record inside it, else behind the garbage that follows."""
    after = source.tell()
    inside = source.find_start(dialect.start, block_start, block_start + header.length)
    if inside is not None:
        source.seek(block_start)
        return _ends_early(source, dialect, header, inside, offset)
    source.seek(after)
    shown = source.peek(_SHOWN_BYTES)
    _resync(source, dialect)
    return DamagedEntry(
        offset,
        f"record of {header.length} bytes is not followed by a record but by {_line(shown)}: its length is wrong",
    )


def _cut_off(source: Source, dialect: Dialect, header: Header, offset: int) -> Entry:
    """The file ends, or is damaged, before the record does."""
    block_start = source.tell()
    inside = source.find_start(dialect.start, block_start, source.held_end())
    if inside is not None:
        return _ends_early(source, dialect, header, inside, offset)
    if source.broken is None:
        built = _build(dialect, header, source.peek(header.length), offset, overlong=True)
        if built.is_whole:
            source.seek(source.held_end())
            return built.entry
    cause = source.broken.reason if source.broken else "the file ends inside a record"
    reason = f"{cause}: {source.available()} of its {header.length} bytes are there"
    entry = _salvaged(dialect, header, source.peek(header.length) if dialect.salvage else b"", offset, reason)
    source.seek(source.held_end())
    if source.broken:
        source.recover()
    return entry


def _salvaged(dialect: Dialect, header: Header, block: bytes, offset: int, reason: str) -> Entry:
    """What there is of a page whose record is cut or damaged, where that is wanted; else its damage."""
    if dialect.salvage and not header.skipped:
        try:
            entry = dialect.build(header, block, offset, cut=reason).entry
        except Exception:
            return DamagedEntry(offset, reason)
        if isinstance(entry, PageEntry):
            return entry
    return DamagedEntry(offset, reason)


def _ends_early(source: Source, dialect: Dialect, header: Header, inside: int, offset: int) -> Entry:
    """The next record begins inside the claimed length: go there, and take this one if it is whole all the same."""
    there = inside - source.tell()
    block = source.take(there)
    built = _build(dialect, header, block, offset, overlong=True)
    source.seek(inside)
    if built.is_whole:
        return built.entry
    reason = f"record of {header.length} bytes ends after {there}, where the next begins"
    return _salvaged(dialect, header, block.removesuffix(b"\r\n\r\n"), offset, reason)


def _build(dialect: Dialect, header: Header, block: bytes, offset: int, *, overlong: bool = False) -> Built:
    """Make the entry, whatever is wrong with the block."""
    if header.skipped:
        return Built(SkippedEntry(header.skipped, offset), None)
    try:
        return dialect.build(header, block, offset, overlong=overlong)
    except Refused as refused:
        return Built(_salvaged(dialect, header, block, offset, str(refused)), False)
    except Exception as error:
        # One record that no parser foresaw must not stop the run.
        return Built(DamagedEntry(offset, f"record cannot be read ({type(error).__name__}: {error})"), False)


def _pass_over(source: Source, dialect: Dialect, header: Header, offset: int) -> Entry:
    """A record that is too long to hold, or whose length is a lie: look for the next record on the way."""
    left, begin, bomb = header.length, source.tell(), ""
    while left > 0:
        if source.leaves_bomb(begin):
            assert source.broken is not None
            bomb = f"; {source.broken.reason}"
            source.recover()
            break
        step = min(left, _STEP_BYTES)
        enough = source.need(step)
        position = source.tell()
        inside = source.find_start(dialect.start, position, min(position + step + 64, source.held_end()))
        if inside is not None and inside < position + left:
            source.seek(inside)
            return DamagedEntry(
                offset,
                f"record of {header.length} bytes ends after {header.length - left + inside - position}, "
                "where the next begins",
            )
        if not enough:
            there = header.length - left + source.available()
            cause = source.broken.reason if source.broken else "the file ends inside a record"
            source.seek(source.held_end())
            if source.broken:
                source.recover()
            return DamagedEntry(offset, f"{cause}: {there} of its {header.length} bytes are there")
        source.seek(position + step)
        source.forget()
        left -= step
    reason = (
        f"record of {header.length} bytes, more than the limit of {dialect.body_limit_bytes} for a body and "
        f"{HEADER_LIMIT_BYTES} for its header{bomb}"
    )
    return SkippedEntry(header.skipped, offset) if header.skipped else DamagedEntry(offset, reason)


def _damaged(source: Source, dialect: Dialect, offset: int, reason: str, begin: int) -> Entry:
    """Name a header that cannot be read, and go to the next record behind its first line."""
    source.seek(begin + 1)
    inside = source.find_start(dialect.start, begin + 1, source.held_end())
    if inside is not None:
        source.seek(inside)
    else:
        _resync(source, dialect)
    if source.broken and source.at_end():
        reason = f"{reason} ({source.broken.reason})"
        source.recover()
    return DamagedEntry(offset, reason)


def _resync(source: Source, dialect: Dialect) -> None:
    """Go to the next record start; to the end of what can be had if there is none."""

    def accept(at: Source, looked: int) -> int | None:
        return at.find_start(dialect.start, max(at.tell(), looked), at.held_end())

    source.skip_to(accept)


def _url(entry: Entry) -> str:
    return entry.page.url if isinstance(entry, PageEntry) else ""


def _line(raw: bytes) -> str:
    return repr(raw.split(b"\n", 1)[0].rstrip())


# --- the dialects: what a record's header says, and which entry its block makes

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
    """Of a record whose block has `length` bytes; `skipped` says why it is no page, or "" if its block is wanted."""

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
