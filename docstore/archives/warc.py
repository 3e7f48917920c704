"""WARC 0.17 to 1.1 and ARC 1 and 2: split a file into records, read each header, and make an entry of each block.

The formats differ only in their headers, so an ARC header is read into the fields of a WARC header.

The length in a header may be wrong.  It is accepted if white space and then a record, a new member or the end of the
file follow.  Otherwise the record is accepted only if its own content confirms the length (HTTP length, last chunk,
block digest); else it is reported as damaged.  If a record begins inside the declared length, reading continues there,
so that no undamaged record is lost.  If the length is too small, as of writers that count characters, the record is
read to where its HTTP length or the end of its own gzip member says that it ends, and counts as repaired.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import islice

import msgpack
from blake3 import blake3

from docstore.archives.dates import EPOCH, parse_date, parse_date14
from docstore.archives.entries import (
    AHEAD_BYTES,
    HEADER_LIMIT_BYTES,
    DamagedEntry,
    Entry,
    PageEntry,
    PageKind,
    ReadOptions,
    Recorded,
    RecordedEntry,
    RequestEntry,
    RevisitEntry,
    SkippedEntry,
)
from docstore.archives.http import (
    ORIGINAL_PREFIX,
    Refused,
    as_received,
    check_length,
    has_status_line,
    http_length,
    parse_fields,
    parse_head,
    parse_message,
)
from docstore.archives.source import Source
from docstore.model.capture import IDENTIFIED_HEADER
from docstore.model.types import Headers, Page, header_of

_SHOWN_BYTES = 40
_STEP_BYTES = 1 << 20
_BLANK_LIMIT_BYTES = 1 << 16

TRUNCATED_HEADER = "WARC-Truncated"
"""Stored with a page's headers: why the crawler stopped before the end."""
CONTAINER_HEADER = "WARC-Refers-To-Container"
"""Of a revisit: the file that has the record to which it refers, such as ``file://first.wacz``."""
CUT = "unspecified"
"""The value of `TRUNCATED_HEADER` for a page that we truncate, because its record is truncated or damaged."""
RECORDED_DIGEST = ORIGINAL_PREFIX + "WARC-Payload-Digest"
"""Header of an exported record: the payload digest that the crawler recorded, if the written one differs."""

WARC_START = re.compile(
    rb"^WARC/\d[^\r\n]{0,20}\r{0,2}$|WARC/(?:0\.1[78]|1\.[01])\r{0,2}\n[A-Z]", re.MULTILINE | re.IGNORECASE
)
"""A line, or a version with a header after it anywhere: some writers leave a byte or two before a record."""
ARC_START = re.compile(
    rb"(?:^[A-Za-z][A-Za-z0-9+.-]*:[^\r\n]{1,65536}|https?://[^ \r\n]{1,4096}) "
    rb"[0-9A-Fa-f.:-]+ \d{8,17} (?:[^ \r\n]* ){0,8}\d+[ \t]*\r{0,2}$",
    re.MULTILINE,
)
_HEADER_END = re.compile(rb"\n(?:[ \t\r]*\n|(?=WARC/\d))", re.IGNORECASE)
"""An empty line, or the next record: so the end of a broken header is not searched in the whole file."""
_OVERLAP_BYTES = 64
_EMPTY_LINE = re.compile(rb"\n[ \t\r]*\n\Z")
_EMPTY_HEADS = re.compile(
    rb"(?:[^\n:]{0,16}?WARC/\d[^\r\n]{0,20}\r{0,2}\n(?:"
    rb"(?:(?![^\n]*WARC/\d|content-length[ \t]*:)[^\n]*\n|(?!))*+(?=[^\n:]{0,16}?WARC/\d)|"
    rb"(?:(?![^\n]*WARC/\d|warc-type[ \t]*:)[^\n]*\n|(?!))*+(?=[^\n:]{0,16}?WARC/\d)))+",
    re.IGNORECASE,
)
"""Headers without a length or without a type, perhaps behind stray bytes, up to the next record."""
_LINE_END = re.compile(rb"\n")
_RECORD_END = b"\r\n\r\n"
_STRAY_BYTES = 16
"""Bytes that may lie between the end of a record and the next one without making its length doubtful."""
_STRAY_SCHEME = re.compile(r"\A[A-Za-z0-9]{1,2}(?=https?://)")
"""Letters before the first line of a record of ARC, which would be read as a part of its scheme."""
_STRAY = re.compile(rb"[\0\xff]{1,16}")
"""With which no page ends, so that they do not belong to the record before them."""
_BLANK_END = re.compile(rb"(?:\r?\n){0,2}\Z")
"""The two line ends between a record and the next one."""
_KNOWN_VERSION = re.compile(rb"WARC/(?:0\.1[78]|1\.[01])", re.IGNORECASE)
_NO_PAGES = frozenset({"warcinfo", "request", "metadata", "conversion", "continuation"})
_PAGES = frozenset({"response", "resource", "revisit"})
CONVERTED = "conversion"
"""A record of another form of a page.  Of text, before any page of its file, it is a page: so WET files are read."""
_REQUEST = re.compile(rb"WARC/1[^\n]*\n(?:[^\r\n]+\r?\n){0,20}?WARC-Type:[ \t]*request", re.IGNORECASE)
_REQUEST_HEAD_BYTES = 4096
LONGEST_REQUEST_BYTES = 1 << 20
"""Of a longer request only the method is read."""
_REQUEST_LINE = re.compile(rb"([A-Za-z]{1,20}) \S")
_CONTENT_RANGE = re.compile(r"bytes[ =]+0-(\d+)/(\d+)", re.IGNORECASE)
PART = "part"
"""The reason why an answer with status 206 is no page, unless it has all of the body."""
_KEPT = frozenset({"request", "metadata", "conversion"})
"""Types that are not pages and that `keep_encoded` keeps, next to those that are."""
_LOOKED_UP = frozenset({"dns", "whois", "ntp", "filedesc"})
_ARC_LINE = re.compile(rb"(\S.*?) ([0-9A-Fa-f.:-]+) (\d{8,17}) ?(.*?) ?(\d+)[ \t]*\r*\n")


@dataclass(frozen=True, slots=True)
class _Header:
    """The header of a record whose block has `length` bytes; `skipped` says why it is not a page, or is "".

    Fields have the WARC names in lower case, also for ARC.  `raw` is the WARC header as it lies in the file, with the
    empty line; b"" for ARC.
    """

    fields: Mapping[str, str]
    length: int
    skipped: str
    raw: bytes

    def get(self, name: str) -> str:
        return self.fields.get(name, "")

    @property
    def url(self) -> str:
        return _bare(self.get("warc-target-uri"))

    @property
    def concurrent_to(self) -> tuple[str, ...]:
        return tuple(f"<{one.strip('<>')}>" for one in self.get("warc-concurrent-to").split())


class RecordReader:
    """Reads the records of one file.

    A record longer than the longest body and its header is skipped.  With `salvage`, the readable part of a page is
    given and marked if its record is truncated or its encoding breaks.  With `keep_encoded`, records whose length is
    confirmed are also given as they were recorded.

    Block digests are checked in a packed member with several records: its own checksum comes at its end, after its
    records were given.  Some writers digest other bytes than they write, so digests count only after one was right.
    Then a page with a wrong digest is refused, and after damage in its member also a page without a right one.
    """

    def __init__(self, source: Source, options: ReadOptions = ReadOptions(), *, is_arc: bool = False) -> None:
        self._source = source
        self._body_limit_bytes, self._salvage, self._keeps_encoded, *_ = options
        self._methods = options.methods
        self._is_arc = is_arc
        self._arc_version = 1
        self._start, self._look_bytes = (ARC_START, 70_000) if is_arc else (WARC_START, 64)
        self._has_pages = False
        # digests: whether they count, and the last member with damage
        self._digests_count = False
        self._damaged_member = -1
        # the current record: position, member, whether its digest is right, whether its length is unconfirmed
        self._begin = self._member = -1
        self._agrees: bool | None = None
        self._is_unconfirmed = True
        self._requests: list[RequestEntry] = []
        self._looked_until = 0
        """Position up to which there is no end of a header."""

    def entries(self) -> Iterator[Entry | RequestEntry]:
        """Every record of the file, in order, and every range of bytes that is not a record."""
        source = self._source
        while True:
            source.skip_blank()
            if source.at_end():
                if source.broken is None:
                    return
                if len(list(islice(self._start.finditer(source.broken.rest), 2))) == 2:
                    source.take_rest(source.broken)  # with only one record, nothing confirms its length: it is lost
                    continue
                yield DamagedEntry(source.broken.member_offset, source.broken.reason)
                if not source.recover():
                    return
                continue
            self._begin = source.tell()
            self._member = offset = source.offset()
            self._agrees, self._is_unconfirmed = None, True
            place = source.place(self._begin)
            if not source.match(self._start, look_bytes=self._look_bytes):
                reason = f"expected a record, found {self._skipped()}{place}"
                if source.broken and source.at_end() and source.broken.member_offset == offset:
                    reason = f"{source.broken.reason}: {reason}"
                    source.recover()
                yield self._checked(DamagedEntry(offset, reason), place)
                continue
            entry = self._checked(self._record(offset), place)
            if place and isinstance(entry, DamagedEntry):
                entry = replace(entry, reason=entry.reason + place)
            if isinstance(entry, PageEntry) and len(entry.page.body) > AHEAD_BYTES:
                source.skip_blank()
                entry = replace(entry, precedes_request=_REQUEST.match(source.peek(_REQUEST_HEAD_BYTES)) is not None)
            yield self._requests.pop()._replace(entry=entry) if self._requests else entry
            del entry  # frees a long page before the next one is read

    def _checked(self, entry: Entry, place: str) -> Entry:
        """The entry of the record, or damage if its digest is wrong."""
        if not self._source.compressed or (self._salvage and isinstance(entry, PageEntry) and entry.flaw):
            return entry
        needs_digest = self._is_unconfirmed or self._damaged_member == self._member
        is_wrong = self._agrees is False or (needs_digest and self._agrees is None)
        # Pages only: a revisit often has the digest of the record that it refers to.
        if isinstance(entry, PageEntry) and is_wrong and self._digests_count and (place or not self._is_unconfirmed):
            reason = "no digest confirms it, in a damaged member of several records"
            entry = DamagedEntry(self._member, reason, entry.page.url)
        if isinstance(entry, DamagedEntry):
            self._damaged_member = self._member
        return entry

    def _record(self, offset: int) -> Entry:
        """One record; moves the cursor to where the next one may begin."""
        source = self._source
        try:
            header = self._arc_header() if self._is_arc else self._warc_header()
        except Refused as refused:
            source.seek(self._begin)
            heads = source.skip_heads(_EMPTY_HEADS, b"warc/")
            reason = f"{refused}{heads}"
            begin = source.tell() if heads else self._begin + 1
            self._member = source.offset(begin - 1)
            source.seek(begin)
            inside = source.find_start(self._start, begin, source.buffer_end())
            if inside is not None:
                source.seek(inside)
            else:
                source.skip_to_start(self._start)
            if source.broken and source.at_end():
                reason = f"{reason} ({source.broken.reason})"
                source.recover()
            return DamagedEntry(offset, reason)
        entry = self._block(header, offset)
        if isinstance(entry, DamagedEntry) and not entry.url:
            entry = replace(entry, url=header.url)
        return entry

    # --- headers

    def _warc_header(self) -> _Header:
        """Read the fields of a WARC header; moves the cursor to the block."""
        source = self._source
        # What an earlier header looked through has no end of this one either: else a file of heads takes square time.
        seen = min(max(0, self._looked_until - source.tell() - _OVERLAP_BYTES), HEADER_LIMIT_BYTES)
        head = source.take_through(_HEADER_END, HEADER_LIMIT_BYTES, seen)
        if head is None:
            self._looked_until = source.tell() + min(source.available(), HEADER_LIMIT_BYTES)
            longer = source.available() >= HEADER_LIMIT_BYTES
            raise Refused("record header without end" + (f" within {HEADER_LIMIT_BYTES} bytes" if longer else ""))
        if not _EMPTY_LINE.search(head):
            raise Refused("record header breaks off where the next record begins")
        version = head[: head.index(b"\n")].strip()
        if not _KNOWN_VERSION.fullmatch(version):
            raise Refused(f"unknown WARC version: {version!r}")
        named = parse_fields(head)
        fields = {name.lower(): value for name, value in reversed(named)}
        if "warc-concurrent-to" in fields:  # the one field that may come several times
            fields["warc-concurrent-to"] = " ".join(one for name, one in named if name.lower() == "warc-concurrent-to")
        length = fields.get("content-length", "")
        if not length.isascii() or not length.isdigit():
            raise Refused("record without a Content-Length" + (f": {length!r}" if length else ""))
        kind = fields.get("warc-type", "").lower()
        if not kind:
            raise Refused("record without a WARC-Type")
        scheme = fields.get("warc-target-uri", "").lstrip("<").partition(":")[0].lower()
        self._has_pages = self._has_pages or kind in _PAGES
        is_text = kind == CONVERTED and fields.get("content-type", "").lower().startswith("text/plain")
        if kind not in _PAGES and (self._has_pages or not is_text):
            skipped = kind if kind in _NO_PAGES else "unknown type"
        elif scheme in _LOOKED_UP:
            skipped = scheme
        else:
            skipped = "segment" if fields.get("warc-segment-number", "") else ""
        return _Header(fields, int(length), skipped, head)

    def _arc_header(self) -> _Header:
        """Read one line: URL, address, date, type, (version 2: five more,) length; the first block has the version."""
        line = self._source.take_through(_LINE_END, HEADER_LIMIT_BYTES)
        matched = _ARC_LINE.match(line) if line else None
        if matched is None:
            raise Refused("ARC header line without end or without a length")
        url, ip, date, middle, length = (decoded(part) for part in matched.groups())
        url = _STRAY_SCHEME.sub("", url)
        scheme = url.partition(":")[0].lower()
        if scheme == "filedesc":
            self._arc_version = 2 if self._source.peek(2).startswith(b"2 ") else 1
        content_type = middle.split(" ")[0] if self._arc_version == 2 else middle
        fields = {
            "warc-type": "response",
            "warc-target-uri": url,
            "warc-date": date,
            "warc-ip-address": "" if ip in {"-", "0.0.0.0"} else ip,
            "content-type": "" if content_type in {"-", "no-type"} else content_type,
        }
        skipped = "arc header" if scheme == "filedesc" else scheme if scheme in _LOOKED_UP else ""
        return _Header(fields, int(length), skipped, b"")

    # --- blocks

    def _block(self, header: _Header, offset: int) -> Entry:
        """The entry of a record whose header has been read."""
        source = self._source
        block_start = source.tell()
        if header.length > self._body_limit_bytes + HEADER_LIMIT_BYTES:
            return self._skip_long(header, offset)
        end = block_start + header.length
        whole = source.need(header.length)
        if source.compressed and not (whole and self._is_followed(end)):
            for member in source.member_starts(block_start, min(end, source.buffer_end())):
                if source.match(self._start, member, self._look_bytes):
                    return self._ends_early(header, member, offset)
        if not whole:
            return self._cut_off(header, offset)
        source.seek(end)
        confirmed = self._is_length_confirmed(end)
        if confirmed is None:
            assert source.broken is not None
            reason = source.broken.reason
            source.seek(block_start)
            entry = self._salvaged(header, source.take(header.length) if self._salvage else b"", offset, reason)
            source.recover()
            return entry
        after = source.tell()
        if header.skipped == "request":
            source.seek(block_start)
            self._requests = [self._request_entry(header)]
            source.seek(after)
        if header.skipped and confirmed and not (self._keeps_encoded and header.skipped in _KEPT):
            return SkippedEntry(header.skipped, offset)
        source.seek(block_start)
        block = source.take(header.length)
        is_repaired = False
        if confirmed and after - end > len(_RECORD_END) and has_status_line(block):
            # White space at the end of a page looks like what follows a record.
            declared = http_length(block)
            if declared is not None and header.length < declared <= after - len(_RECORD_END) - block_start:
                source.seek(block_start)
                block, is_repaired = source.take(declared), True
        source.seek(after)
        if confirmed and self._shares_member():
            self._is_unconfirmed = False
            self._agrees = _digest_agrees(header, block)
            self._digests_count |= self._agrees is True
        if confirmed:
            # So that a long block is in memory once, not twice, while it is decoded.
            source.discard()
        entry, is_whole = self._built(header, block, offset)
        if is_repaired and isinstance(entry, PageEntry):
            return replace(entry, is_repaired=True)
        if confirmed and self._keeps_encoded:
            entry = _with_record(entry, header, block)
        if confirmed or is_whole or _digest_agrees(header, block):
            return entry
        # Nothing confirms the length: continue at a record inside it, else after the garbage that follows.
        inside = source.find_start(self._start, block_start, end)
        if inside is not None:
            source.seek(block_start)
            return self._ends_early(header, inside, offset)
        longer = self._longer_end(header, block, block_start)
        if longer is not None:
            source.seek(block_start)
            entry, _ = self._built(header, source.take(longer - block_start), offset)
            source.skip_blank(_BLANK_LIMIT_BYTES)
            return replace(entry, is_repaired=True) if isinstance(entry, PageEntry) else entry
        source.seek(after)
        reason = f"record of {header.length} bytes is not followed by a record but by {self._skipped()}"
        return DamagedEntry(offset, f"{reason}: its length is wrong")

    def _skipped(self) -> str:
        """Skip to the next record; the first bytes of what is skipped, and its length."""
        source = self._source
        begin, shown = source.tell(), source.peek(_SHOWN_BYTES)
        source.skip_to_start(self._start)
        return f"{_line(shown)} ({source.tell() - begin} bytes are skipped)"

    def _request_entry(self, header: _Header) -> RequestEntry:
        """The request at the cursor, for its answer."""
        matched = _REQUEST_LINE.match(self._source.peek(_SHOWN_BYTES))
        method = matched[1].decode().upper() if matched else ""
        is_wanted = method in self._methods and method in ("POST", "PUT") and header.length <= LONGEST_REQUEST_BYTES
        block = self._source.peek(header.length) if is_wanted else b""
        fetched_at, record_id = parse_date(header.get("warc-date")), header.get("warc-record-id")
        skipped = SkippedEntry(header.skipped, 0)
        return RequestEntry(skipped, header.url, fetched_at, record_id, header.concurrent_to, method, block)

    def _longer_end(self, header: _Header, block: bytes, block_start: int) -> int | None:
        """Where a block ends whose declared length is too small; None if nothing in the file shows it.

        It is shown by the HTTP length if a record or the end of the file follows there, or by the end of the gzip
        member or zstd frame if the record has that for itself.  The cursor moves.
        """
        source = self._source
        declared_end = block_start + len(block)
        if has_status_line(block) and (declared := http_length(block)) is not None:
            end = block_start + declared
            source.seek(block_start)
            if declared_end < end <= block_start + self._body_limit_bytes and source.need(declared):
                source.seek(end)
                if self._is_length_confirmed(end):
                    return end
        if not source.compressed or source.place(self._begin):
            return None
        source.seek(block_start)
        while not (following := source.member_starts(block_start, source.buffer_end() + 1)):
            if source.available() > self._body_limit_bytes or not source.need(source.available() + 1):
                break
        if source.broken or source.available() > self._body_limit_bytes:
            return None
        end = following[0] if following else source.buffer_end()
        if _STRAY.fullmatch(source.peek(end - block_start)[len(block) :].strip()):
            return None
        if source.find_start(self._start, declared_end, end) is not None:
            return None
        return end - len(_BLANK_END.search(source.peek(end - block_start))[0])  # type: ignore[index]

    def _shares_member(self) -> bool:
        """Whether the record shares a packed member with others, so that the checksum comes after later records."""
        source = self._source
        if not source.compressed:
            return False
        if source.place(self._begin):
            return True
        return not source.at_end() and not source.member_starts(self._begin, source.tell() + 1)

    def _is_length_confirmed(self, end: int) -> bool | None:
        """Whether the bytes after a record confirm its length; None if the record's own member is damaged."""
        source = self._source
        begin_offset = source.offset(end - 1) if source.compressed else 0
        source.skip_blank(_BLANK_LIMIT_BYTES)
        if source.at_end():
            if source.broken is not None and source.compressed:
                return None if source.broken.member_offset == begin_offset else True
            return True
        if source.member_starts(end - 1, source.tell() + 1) or source.peek(1).isspace():
            return True
        return source.match(self._start, look_bytes=self._look_bytes) or self._is_stray(end)

    def _is_stray(self, end: int) -> bool:
        """Whether a few bytes that are no part of a record lie before the next one; the cursor stays before them."""
        source = self._source
        begin = source.tell()
        source.seek(end)
        is_after_end = source.peek(begin - end) == _RECORD_END
        source.seek(begin)
        zeros = _STRAY.match(source.peek(_STRAY_BYTES + 1))
        most = _STRAY_BYTES if is_after_end else zeros.end() if zeros else 0
        source.need(most + self._look_bytes)
        if most and (source.available() <= most or source.member_starts(begin, begin + most + 1)):
            return True
        return most > 0 and source.find_start(self._start, begin, begin + most + 1) is not None

    def _is_followed(self, end: int) -> bool:
        """Whether a record follows at the end of a block, perhaps after white space; the cursor stays."""
        source = self._source
        begin = source.tell()
        source.seek(end)
        source.skip_blank(_BLANK_LIMIT_BYTES)
        is_followed = source.match(self._start, look_bytes=self._look_bytes)
        source.seek(begin)
        return is_followed

    def _cut_off(self, header: _Header, offset: int) -> Entry:
        """The file ends, or is damaged, before the record does."""
        source = self._source
        inside = source.find_start(self._start, source.tell(), source.buffer_end())
        if inside is not None:
            return self._ends_early(header, inside, offset)
        if source.broken is None:
            entry, is_whole = self._built(header, source.peek(header.length), offset)
            if is_whole:
                source.seek(source.buffer_end())
                return entry
        reason = self._missing(source.available(), header)
        entry = self._salvaged(header, source.peek(header.length) if self._salvage else b"", offset, reason)
        source.seek(source.buffer_end())
        if source.broken:
            source.recover()
        return entry

    def _missing(self, read_bytes: int, header: _Header) -> str:
        cause = self._source.broken.reason if self._source.broken else "the file ends inside a record"
        return f"{cause}: {read_bytes} of its {header.length} bytes are there"

    def _salvaged(self, header: _Header, block: bytes, offset: int, reason: str) -> Entry:
        """With `salvage`, the readable part of a page whose record is truncated or damaged; else its damage."""
        if self._salvage and not header.skipped:
            try:
                entry, _ = self._entry(header, block, offset, cut=reason)
            except Exception:
                return DamagedEntry(offset, reason)
            if isinstance(entry, PageEntry):
                return entry
        return DamagedEntry(offset, reason)

    def _ends_early(self, header: _Header, inside: int, offset: int) -> Entry:
        """The next record begins inside the declared length: go there, and accept this one if HTTP says it is whole."""
        block_bytes = inside - self._source.tell()
        block = self._source.take(block_bytes)
        entry, is_whole = self._built(header, block, offset)
        self._source.seek(inside)
        if is_whole:
            return entry
        reason = f"record of {header.length} bytes ends after {block_bytes}, where the next begins"
        return self._salvaged(header, block.removesuffix(_RECORD_END), offset, reason)

    def _skip_long(self, header: _Header, offset: int) -> Entry:
        """Skip a record that is too long for memory; if its length is wrong, a record may begin inside it."""
        source = self._source
        passed, begin, bomb = 0, source.tell(), ""
        while passed < header.length:
            if source.leaves_bomb(begin):
                assert source.broken is not None
                bomb = f"; {source.broken.reason}"
                source.recover()
                break
            step = min(header.length - passed, _STEP_BYTES)
            enough = source.need(step)
            position = source.tell()
            inside = source.find_start(self._start, position, min(position + step + 64, source.buffer_end()))
            if inside is not None and inside - position < header.length - passed:
                source.seek(inside)
                block_bytes = passed + inside - position
                return DamagedEntry(
                    offset, f"record of {header.length} bytes ends after {block_bytes}, where the next begins"
                )
            if not enough:
                reason = self._missing(passed + source.available(), header)
                source.seek(source.buffer_end())
                if source.broken:
                    source.recover()
                return DamagedEntry(offset, reason)
            source.seek(position + step)
            source.discard()
            passed += step
        reason = (
            f"record of {header.length} bytes, more than the limit of {self._body_limit_bytes} for a body "
            f"(max_body_bytes) and {HEADER_LIMIT_BYTES} for its header{bomb}"
        )
        return SkippedEntry(header.skipped, offset) if header.skipped else DamagedEntry(offset, reason)

    # --- entries

    def _built(self, header: _Header, block: bytes, offset: int) -> tuple[Entry, bool | None]:
        """As `_entry`; an exception becomes a damaged or salvaged entry."""
        if header.skipped:
            return SkippedEntry(header.skipped, offset), None
        try:
            return self._entry(header, block, offset)
        except Refused as refused:
            return self._salvaged(header, block, offset, str(refused)), False
        except Exception as error:
            # One record with an unforeseen error must not stop the run.
            return DamagedEntry(offset, f"record cannot be read ({type(error).__name__}: {error})"), False

    def _entry(self, header: _Header, block: bytes, offset: int, *, cut: str = "") -> tuple[Entry, bool | None]:
        """The entry of a block, and whether HTTP confirms its length; None if HTTP gives no length.

        A response of http or https without a status line is a body alone, as an HTTP/0.9 server sends it.  Blocks of
        other protocols are not parsed.

        Args:
            header, block, offset: of the record.
            cut: why the block is not whole; the readable part of a page is then given and marked.
        Raises:
            Refused: the block cannot be read.
        """
        url, record_kind, date = header.url, header.get("warc-type").lower(), header.get("warc-date")
        if not url:
            raise Refused(f"{record_kind} record without a WARC-Target-URI")
        fetched_at = parse_date14(date) if self._is_arc else parse_date(date)
        if fetched_at is None and self._is_arc:
            raise Refused(f"ARC record with a date that cannot be read: {date}")
        if fetched_at is None:
            raise Refused(f"{record_kind} record without a WARC-Date that can be read: {date!r}")
        if record_kind == "revisit":
            return _revisit(header, fetched_at, block, offset), None
        content_type = header.get("content-type")
        is_message = content_type.startswith("application/http")
        truncated = header.get("warc-truncated") or (CUT if cut else "")
        headers: Headers = (("Content-Type", content_type),) if content_type and not is_message else ()
        kind: PageKind = "resource"
        status, body, is_whole, flaw = 200, block, None, cut
        if record_kind == "response" and (is_message or url[:5].lower() in {"http:", "https"}):
            kind = "response"
            if not block:
                return SkippedEntry("empty response", offset), None
            if has_status_line(block):
                status, headers, body, is_whole, short = parse_message(
                    block, truncated=bool(truncated), limit_bytes=self._body_limit_bytes
                )
                flaw = cut or short
                if is_part(status, headers, body) and header.get("warc-record-id") != own_record_id(url, date):
                    return SkippedEntry(PART, offset), is_whole
        check_length(body, self._body_limit_bytes)
        if cut and not body:
            raise Refused(cut)
        if truncated:
            headers += ((TRUNCATED_HEADER, truncated),)
        identified = header.get(IDENTIFIED_HEADER.lower())
        if identified and ("charset" in identified.lower() or header_of(headers, "content-type") is None):
            headers += ((IDENTIFIED_HEADER, identified),)
        ip, docno = header.get("warc-ip-address"), header.get("warc-trec-id")
        page = Page(url, body, status, headers, fetched_at, ip, _payload_digest(header), docno)
        record_id, concurrent_to = header.get("warc-record-id"), header.concurrent_to
        return PageEntry(page, kind, offset, record_id, flaw, concurrent_to=concurrent_to), is_whole


def own_record_id(url: str, date: str) -> str:
    """The id of a record that docstore writes, made of URL and date, so that a repeated export gives the same file."""
    return f"<urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{url} {date}')}>"


def is_part(status: int, headers: Headers, body: bytes | None = None) -> bool:
    """Whether an answer has only a part of the body, by its Content-Range, and by its length if it was not packed."""
    if status != 206:
        return False
    matched = _CONTENT_RANGE.fullmatch((header_of(headers, "content-range") or "").strip())
    if matched is None or int(matched[1]) + 1 != int(matched[2]):
        return True
    return body is not None and len(body) < int(matched[2]) and header_of(headers, "content-encoding") is None


def _revisit(header: _Header, fetched_at: int, block: bytes, offset: int) -> Entry:
    status = 0
    headers: Headers = ()
    if has_status_line(block):
        status, received, _ = parse_head(block)
        headers = as_received(received)
    if is_part(status, headers):
        return SkippedEntry(PART, offset)
    return RevisitEntry(
        header.url,
        fetched_at,
        headers,
        status,
        _payload_digest(header),
        _bare(header.get("warc-refers-to-target-uri")),
        parse_date(header.get("warc-refers-to-date")),
        header.get("warc-profile"),
        offset,
        header.get("warc-ip-address"),
        header.get("warc-trec-id"),
        record_id=header.get("warc-record-id"),
        concurrent_to=header.concurrent_to,
        refers_to=header.get("warc-refers-to"),
        container=header.get(CONTAINER_HEADER.lower()),
    )


# --- records as they were recorded: cells of family RECORDED_FAMILY in the row of their URL, at their time
#
#   qualifier   type, a space, 16 hexadecimal digits of the BLAKE3 of the value (ids repeat in bad archives)
#   value       msgpack: header through the empty line; block; name of the body, or b""
#
# A block that ends with the body of its capture is stored without it: the name, 16 bytes of its BLAKE3, says so.

RECORDED_FAMILY = "warc"
_BODY_NAME_BYTES = 16


def _recorded(header: _Header, head: bytes, block: bytes, body: bytes = b"") -> Recorded:
    """A record as a cell; `body` is stored with the capture."""
    name = b""
    if body and block.endswith(body):
        name, block = blake3(body).digest(_BODY_NAME_BYTES), block[: len(block) - len(body)]
    value: bytes = msgpack.packb((head, block, name))
    return Recorded(f"{header.get('warc-type').lower()} {blake3(value).hexdigest(8)}".encode(), value)


def as_answer(recorded: Recorded, body: bytes = b"") -> Recorded:
    """A response that is no page, with the body that was left out of its record, as a cell that stands for no page."""
    head, block, name = msgpack.unpackb(recorded.value)
    value: bytes = msgpack.packb((head, block + body if name else block, b""))
    return Recorded(f"answer {blake3(value).hexdigest(8)}".encode(), value)


def parse_recorded(value: bytes, body: bytes) -> tuple[bytes, bytes] | None:
    """Header and block of a record; None if it needs another body than that of its capture, or is none of ours."""
    try:
        parts = msgpack.unpackb(value)
    except (ValueError, TypeError):
        return None
    if not isinstance(parts, list) or [type(part) for part in parts] != [bytes, bytes, bytes]:
        return None
    head, block, name = parts
    if name and blake3(body).digest(_BODY_NAME_BYTES) != name:
        return None
    return head, block + body if name else block


def _with_record(entry: Entry, header: _Header, block: bytes) -> Entry:
    """The entry with its record; a record that is not a page becomes an entry."""
    if isinstance(entry, PageEntry):
        head = header.raw
        if not head and has_status_line(block):
            head = _warc_head(header, entry.page.fetched_at or 0, block)
        return replace(entry, recorded=_recorded(header, head, block, entry.page.body)) if head else entry
    if isinstance(entry, RevisitEntry):
        return replace(entry, recorded=_recorded(header, header.raw, block))
    if isinstance(entry, SkippedEntry) and header.raw and (header.skipped in _KEPT or entry.reason == PART):
        fetched_at = parse_date(header.get("warc-date"))
        if header.url and fetched_at is not None:
            recorded = _recorded(header, header.raw, block)
            recorded = as_answer(recorded) if entry.reason == PART else recorded
            return RecordedEntry(header.url, fetched_at, recorded, entry.offset)
    return entry


def _warc_head(header: _Header, fetched_at: int, block: bytes) -> bytes:
    """A WARC header for a record of an ARC file, which becomes a response."""
    date = (EPOCH + timedelta(microseconds=fetched_at)).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = base64.b32encode(hashlib.sha1(block, usedforsecurity=False).digest()).decode()
    ip = header.get("warc-ip-address")
    lines = (
        "WARC/1.1",
        "WARC-Type: response",
        f"WARC-Target-URI: {header.url}",
        f"WARC-Date: {date}",
        f"WARC-Record-ID: <urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'{header.url} {date} {digest}')}>",
        *((f"WARC-IP-Address: {ip}",) if ip else ()),
        f"WARC-Block-Digest: sha1:{digest}",
        "Content-Type: application/http; msgtype=response",
        f"Content-Length: {len(block)}",
    )
    return "\r\n".join((*lines, "", "")).encode("utf-8", "replace")


def _bare(url: str) -> str:
    """A URL without the angle brackets that Wget 1.19 writes."""
    return url[1:-1] if url.startswith("<") and url.endswith(">") else url


def _payload_digest(header: _Header) -> str:
    """As the crawler recorded it."""
    return header.get(RECORDED_DIGEST.lower()) or header.get("warc-payload-digest")


def _digest_agrees(header: _Header, block: bytes) -> bool | None:
    """Whether a block has the digest in its header; None if there is none of a known algorithm."""
    algorithm, _, value = header.get("warc-block-digest").partition(":")
    name = algorithm.lower().replace("-", "")
    if not value or name not in {"sha1", "md5", "sha256"}:
        return None
    digest = hashlib.new(name, block, usedforsecurity=False)
    return value.lower() == digest.hexdigest() or value.upper() == base64.b32encode(digest.digest()).decode()


def _line(raw: bytes) -> str:
    return repr(raw.split(b"\n", 1)[0].rstrip())


def decoded(raw: bytes) -> str:
    """Decode bytes of a header as UTF-8 if valid, else as Latin-1, so that no byte is lost."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")
