"""TREC Web files (WT2g, WT10g, .GOV, GOV2): <DOC>, <DOCNO>, <DOCHDR> with URL and HTTP header, body up to </DOC>.

The format has no escape for ``</DOC>`` in a body.  The first line of WT2g and WT10g headers ends with the length of the
body.  The body ends at that length if ``</DOC>`` is there; else at the first ``</DOC>`` on a line of its own, else at
the first at the end of a line.  The format does not name the charset of a body, so bodies stay bytes.
"""

from __future__ import annotations

import email.utils
import re
from collections.abc import Iterator

from docstore.archives.dates import parse_date, parse_date14
from docstore.archives.entries import DamagedEntry, Entry, PageEntry, ReadOptions
from docstore.archives.http import STATUS_LINE_HEADER, Refused, has_status_line, parse_head, usual_status_line
from docstore.archives.source import Source
from docstore.archives.warc import CUT, TRUNCATED_HEADER, decoded
from docstore.model.keys import TABLE_URL
from docstore.model.types import Headers, Page, header_of

_DOC = re.compile(rb"[ \t]*<DOC>", re.IGNORECASE)
TREC_START = re.compile(rb"^[ \t]*<DOC>", re.IGNORECASE | re.MULTILINE)
_HEAD_END = re.compile(rb"</DOCHDR>[ \t]*\r?\n?|\n(?=[ \t]*<DOC>)", re.IGNORECASE)
_HEAD = re.compile(rb"<DOCHDR>[ \t]*(?:\r?\n)?(.*)</DOCHDR>", re.IGNORECASE | re.DOTALL)
_EMPTY_HEADS = re.compile(
    rb"(?:[ \t]*<DOC>(?:(?!</DOCHDR>|\n[ \t]*<DOC>).|(?!))*+\n)+(?=[ \t]*<DOC>)", re.IGNORECASE | re.DOTALL
)
"""Documents without the end of a <DOCHDR>, up to the next one."""
_DOCNO = re.compile(rb"<DOCNO>\s*(.*?)\s*</DOCNO>", re.IGNORECASE | re.DOTALL)
_END_LINE_OR_NEXT = re.compile(rb"(?:\r?\n)?^</DOC>[ \t]*\r?$|\n(?=[ \t]*<DOC>)", re.IGNORECASE | re.MULTILINE)
_END = re.compile(rb"\r?\n?</DOC>", re.IGNORECASE)
_LATE_END = re.compile(rb"</DOC>[ \t]*\r?$", re.IGNORECASE | re.MULTILINE)
_WT_LINE = re.compile(rb"(\S+(?: \S+)*?) (\S+) (\d{8,17}) (\S+) (\d+)[ \t]*")
_URL = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*://|{TABLE_URL}")
_HEAD_LIMIT_BYTES = 1024 * 1024
_LINE_END_BYTES = 2
"""The line end before </DOC>, which may be a part of the body."""


def read_trecweb(source: Source, options: ReadOptions = ReadOptions()) -> Iterator[Entry]:
    """Every document of a TREC Web file, in order."""
    while True:
        source.skip_blank()
        offset = source.offset()
        if source.at_end():
            if source.broken is None:
                return
            yield DamagedEntry(source.broken.member_offset, source.broken.reason)
            if not source.recover():
                return
            continue
        if not source.match(_DOC):
            shown = source.peek(40).split(b"\n")[0]
            source.skip_to_start(TREC_START)
            yield DamagedEntry(offset, f"expected <DOC>, found {shown!r}")
            continue
        begin = source.tell()
        try:
            yield _document(source, offset, options.body_limit_bytes, salvage=options.salvage)
        except Refused as refused:
            after = max(source.tell(), begin + 5)
            source.seek(begin)
            reason = f"{refused}{source.skip_heads(_EMPTY_HEADS, b'<doc>')}"
            source.seek(max(source.tell(), after))
            source.skip_to_start(TREC_START)
            if source.broken and source.at_end():
                reason = f"{source.broken.reason}: {reason}"
                source.recover()
            yield DamagedEntry(offset, reason, refused.url)


def _document(source: Source, offset: int, body_limit_bytes: int, *, salvage: bool) -> Entry:
    begin = source.tell()
    head = source.take_through(_HEAD_END, _HEAD_LIMIT_BYTES)
    if head is None:
        source.seek(begin + 5)
        raise Refused("<DOC> without the end of a <DOCHDR>")
    docno = _DOCNO.search(head)
    inner = _HEAD.search(head)
    if docno is None or inner is None:
        raise Refused("<DOC> without a <DOCNO>" if docno is None else "<DOC> without a <DOCHDR>")
    first, _, rest = inner[1].lstrip().partition(b"\n")
    first = first.rstrip()
    wide = _WT_LINE.fullmatch(first)
    url = decoded(wide[1] if wide else first)
    if not _URL.match(url):
        raise Refused(f"<DOC> {decoded(docno[1])} without a URL in its <DOCHDR>")
    status = 200
    headers: Headers = ()
    if has_status_line(rest):
        status, headers, _ = parse_head(rest)
        line = decoded(rest.lstrip().partition(b"\n")[0].rstrip())
        if line != usual_status_line(status):
            headers += ((STATUS_LINE_HEADER, line),)
    flaw = ""
    begin = source.tell()
    try:
        body = _body(source, int(wide[5]) if wide else None, body_limit_bytes)
    except Refused as refused:
        if not salvage or source.tell() == begin:
            raise Refused(str(refused), url) from refused
        flaw = str(refused)
        end = source.tell()
        source.seek(begin)
        body = source.take(end - begin)
        headers += ((TRUNCATED_HEADER, CUT),)
    if wide and not flaw and not _is_of_length(int(wide[5]), len(body), len(rest)):
        flaw = f"body of {len(body)} bytes, but the length in its <DOCHDR> is {int(wide[5])}"
    fetched_at = parse_date14(wide[3].decode()) if wide else _http_date(headers)
    ip = decoded(wide[2]) if wide and wide[2] != b"-" else ""
    page = Page(url, body, status, headers, fetched_at or _http_date(headers) or 0, ip, docno=decoded(docno[1]))
    return PageEntry(page, "response", offset, "", flaw)


def _body(source: Source, declared: int | None, limit_bytes: int) -> bytes:
    """The bytes up to </DOC>, without the line end before it."""
    begin = source.tell()
    if declared is not None and declared <= limit_bytes:
        source.need(declared + 16)
        if source.match(_END, begin + declared, 16) and source.buffer_end() >= begin + declared:
            body = source.take(declared)
            source.take_through(_END, 16)
            return body
    source.seek(begin)
    end = source.find(_END_LINE_OR_NEXT, limit_bytes)
    stop = end[1] if end else source.buffer_end()
    if end is None or source.match(_DOC, stop):
        # No </DOC> on a line of its own: use one at the end of a line.
        end = source.find(_LATE_END, min(stop - begin, limit_bytes))
    if end is None:
        source.seek(stop)
        raise Refused("<DOC> without </DOC>")
    body = source.take(end[0] - begin)
    source.seek(end[1])
    return body


def _is_of_length(declared: int, body_bytes: int, head_bytes: int) -> bool:
    """Whether a body is as long as declared, or with its HTTP head, as the crawls behind WT2g and WT10g have it."""
    return body_bytes + _LINE_END_BYTES >= declared or abs(head_bytes + body_bytes - declared) <= 2 * _LINE_END_BYTES


def _http_date(headers: Headers) -> int | None:
    """The server's Date header, because GOV2 has no date of its own."""
    value = header_of(headers, "date") or ""
    try:
        return parse_date(email.utils.parsedate_to_datetime(value).isoformat())
    except (ValueError, TypeError):
        return None
