"""Export captures of a store as WARC 1.1, TREC Web or JSON Lines; `wacz.py` adds what replay tools need.

`selection.py` decides which captures are exported, and in which order.  Captures without a body (policy `reject` stores
none) are not exported.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import zstandard
from warcio.recordloader import ArcWarcRecord
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from docstore.archives.entries import Recorded
from docstore.archives.http import (
    ADDED_HEADER,
    ENCODING_HEADERS,
    NOT_MODIFIED,
    ORIGINAL_PREFIX,
    STATUS_LINE_HEADER,
    has_status_line,
    parse_fields,
    usual_status_line,
)
from docstore.archives.selection import Selection, captures, lang_of, notes_of, visit_headers
from docstore.archives.warc import (
    CONTAINER_HEADER,
    RECORDED_DIGEST,
    RECORDED_FAMILY,
    TRUNCATED_HEADER,
    own_record_id,
    parse_recorded,
)
from docstore.model.capture import BODY, IDENTIFIED_HEADER, decode_note
from docstore.model.choices import PARQUET, STREAM_FORMATS
from docstore.model.errors import InvalidArgument
from docstore.model.keys import row_key
from docstore.model.plain import LAST_MICROS, Plain
from docstore.model.types import Cell, Headers, Page, ReadSpec
from docstore.reading.documents import Capture
from docstore.reading.render import markdown_of
from docstore.storage.unreadable import Finding, Place
from docstore.version import __version__

if TYPE_CHECKING:  # types alone
    from _typeshed import SupportsWrite

    from docstore.attach import Store

SOFTWARE = f"docstore {__version__}"
TOO_LATE = "its time is after the year 9999, which this format cannot write; Parquet can (--format parquet)"


@dataclass(slots=True)
class ExportReport(Plain):
    """What was written.

    Attributes:
        captures: that were written.
        body_bytes: total size of their bodies.
        unreadable: values that could not be read, and pages that the format cannot write; these were left out.
    """

    captures: int = 0
    body_bytes: int = 0
    unreadable: list[Finding] = field(default_factory=list)


def export(
    store: Store,
    writer: PageExport,
    selection: Selection = Selection(),
    *,
    texts: bool = True,
    keep: Callable[[bytes, int], bool] | None = None,
    keep_encoded: bool = False,
    takes: Callable[[bytes], bool] | None = None,
    on_progress: Callable[[ExportReport], None] | None = None,
) -> ExportReport:
    """Write the captures of a selection, except those that cannot be read or dated, and close the writer.

    Args:
        texts: read titles, texts and notes for the writer; False saves the reads for a format without fields for them.
        keep: called with row key and timestamp of a capture; returns whether to write it.  None writes all.
        keep_encoded: with each capture give the records that `ingest` kept as they were recorded.
        takes: asked with the row key of each capture; the export ends before the first one for which it is False.
        on_progress: called after each page with the report so far.
    Raises:
        InvalidArgument: `keep_encoded`, and the store has no family for such records.
    """
    report = ExportReport()
    late: list[Finding] = []
    with store.unreadable.collecting() as unreadable:
        for page in pages(store, selection, texts=texts, keep=keep, keep_encoded=keep_encoded):
            if takes is not None and not takes(row_key(page.url)):
                break
            if page.timestamp > LAST_MICROS:
                late.append(Place(row_key(page.url), *BODY, page.timestamp).finding(TOO_LATE))
                continue
            writer.write(page)
            report.captures += 1
            report.body_bytes += len(page.page.body)
            if on_progress is not None:
                on_progress(report)
        writer.close()
    report.unreadable = [*unreadable, *late]
    return report


_PLACE: Final = ("prefix", "host", "since", "until", "after")


def selected(store: Store, selection: Selection) -> Iterator[tuple[bytes, int]]:
    """Row key and timestamp of the captures of a selection; no body is read."""
    for row, taken, _ in captures(store, selection, ("http", "dedup")):
        yield row.row_key, taken.timestamp


def pages(
    store: Store,
    selection: Selection,
    *,
    texts: bool = True,
    keep: Callable[[bytes, int], bool] | None = None,
    keep_encoded: bool = False,
) -> Iterator[ExportPage]:
    """The captures of a selection as `PageExport` takes them; the options are those of `export`."""
    if keep_encoded and RECORDED_FAMILY not in {family.name for family in store.schema.families}:
        raise InvalidArgument(
            f"this store has no family {RECORDED_FAMILY!r}, so no records as they were recorded: "
            "`docstore ingest --keep-encoded --create` makes a store that has them"
        )
    families = ("page", "http", "dedup", *(("text",) if texts else ()))
    is_all = keep is None and selection == Selection(versions=None, after=selection.after)
    # All captures of a time and place are written, so that no record is of a capture that was not selected.
    place = replace(Selection(versions=None), **{name: getattr(selection, name) for name in _PLACE})
    is_whole_range = keep is None and selection == place
    last, last_time = b"", 0
    noted = notes_of(store, selection) if texts else lambda row_key, timestamp: {}
    for row, taken, visit in captures(store, selection, families, keep):
        if visit is not None:
            page = _export_page(row.url, taken, NOT_MODIFIED, visit)
        else:
            page = _export_page(row.url, taken, taken.status or 200, taken.headers or ())
        if beside := noted(row.row_key, taken.timestamp):
            page = page._replace(lang=lang_of(taken, beside), notes=beside)
        if keep_encoded:
            is_whole = visit is None and visit_headers(store, row, taken) is not None  # a 304, as what it confirms
            left_out = {b"revisit": not is_all, b"response": is_whole}
            spec = ReadSpec((RECORDED_FAMILY,), since=taken.timestamp, until=taken.timestamp + 1)
            if is_whole_range:  # records of other times go with the next capture of their row, or the last one
                spec = spec._replace(since=last_time + 1 if row.row_key == last else selection.since or 0)
                if taken.timestamp == row.cells[0].timestamp:
                    spec = spec._replace(until=selection.until)
            found = _row_cells(store, row.row_key, spec, taken.timestamp)
            records = [Recorded(cell.qualifier, cell.value) for cell in found]
            page = page._replace(records=[one for one in records if not left_out.get(one.kind)])
        yield page
        last, last_time = row.row_key, taken.timestamp


def _row_cells(store: Store, row_key: bytes, spec: ReadSpec, timestamp: int) -> tuple[Cell, ...]:
    """Kept records of a capture; none if one of them cannot be read, which the report then lists."""
    row = store.unreadable.attempt(
        lambda: store.cells.read_row(row_key, spec), Place(row_key, RECORDED_FAMILY, b"", timestamp)
    )
    return row.cells if row else ()


def _export_page(url: str, taken: Capture, status: int, headers: Headers) -> ExportPage:
    fetched = taken.fetched_url
    page = Page(
        fetched if fetched and one_line(fetched) == fetched else url,
        taken.body or b"",
        status,
        headers,
        taken.timestamp,
        ip=taken.ip or "",
        payload_digest=taken.payload_digest or "",
        docno=taken.docno or "",
        crawl=taken.crawl,
    )
    verdict = taken.shown_verdict
    return ExportPage(
        page,
        url=url,
        title=taken.title or "",
        text=taken.text or "",
        lang=taken.lang or "",
        verdict="" if verdict is None else str(verdict.kind),
        of_url="" if verdict is None else verdict.of_url,
        similarity=0.0 if verdict is None else verdict.similarity,
        previous="" if taken.verdict is None else str(taken.verdict.previous),
        previous_similarity=0.0 if taken.verdict is None else taken.verdict.previous_similarity,
    )


# --- what writers share

_LINE_BREAKS = re.compile(r"[\r\n\0]+")
_NAME = re.compile(r"[^\s:]+(?:[ \t]+[^\s:]+)*")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ExportPage(NamedTuple):
    """A capture to export.

    Attributes:
        page: as it was put; `fetched_at` is the capture's timestamp, None counts as 0.
        url: of the page's row; "" if it is the page's own.
        title, text: as extracted, or "".
        lang: of the note `lang`, else as declared, or "".
        verdict: against other pages when it was written: exact, same_text, near, contained, similar, new; or "".
        of_url: the page that the verdict names, or "".
        similarity: to that page, in [0, 1].
        previous, previous_similarity: verdict against the version before, and the similarity to it.
        records: as they were recorded; if one is of the page, it stands for it in a WARC file.
        notes: by the name of their annotator.
    """

    page: Page
    url: str = ""
    title: str = ""
    text: str = ""
    lang: str = ""
    verdict: str = ""
    of_url: str = ""
    similarity: float = 0.0
    previous: str = ""
    previous_similarity: float = 0.0
    records: Sequence[Recorded] = ()
    notes: Mapping[str, bytes] = MappingProxyType({})

    @property
    def timestamp(self) -> int:
        """Microseconds since 1970."""
        return self.page.fetched_at or 0


class PageExport:
    """Writes pages one by one to a binary stream that the caller opened and closes."""

    def write(self, page: ExportPage, /) -> None:
        """Append one page."""
        raise NotImplementedError

    def close(self) -> None:
        """Write what follows the last page: in most formats nothing."""


def moment(timestamp: int) -> datetime:
    """A timestamp as a date, to the millisecond.

    REQUIRES: it is not after the year 9999; `export` leaves such pages out.
    """
    return _EPOCH + timedelta(milliseconds=timestamp // 1000)


def iso_date(timestamp: int) -> str:
    """``2024-05-06T07:08:09.123Z``; without a fraction if it is 0."""
    date = moment(timestamp)
    fraction = f".{date.microsecond // 1000:03d}" if date.microsecond else ""
    return f"{date.year:04d}-{date:%m-%dT%H:%M:%S}{fraction}Z"


def one_line(text: str) -> str:
    """Text for a line-based format: no line breaks, and only what UTF-8 can encode."""
    return _LINE_BREAKS.sub(" ", text).strip().encode("utf-8", "replace").decode()


def one_line_headers(headers: Headers) -> Headers:
    """Headers for a line-based format: no line breaks, no name that is empty or has a colon."""
    return tuple((name, one_line(value)) for name, value in headers if _NAME.fullmatch(name))


# --- WARC


MAX_REVISIT_TARGETS = 500_000
"""Bodies kept as targets of revisits, about 200 bytes each.  Then the oldest is dropped, and its next copy is written
whole."""

_PAGE_KINDS = (b"response", b"resource", b"revisit")
_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"


class _Utf8Headers(StatusAndHeaders):  # type: ignore[misc]
    """Headers written in UTF-8, as they are read; warcio would percent-encode what is not ASCII."""

    def to_ascii_bytes(self, header_filter: Callable[[tuple[str, str]], tuple[str, str] | None] | None = None) -> bytes:
        text: str = self.to_str(header_filter)
        return text.encode("utf-8", "replace") + b"\r\n"


class _Writer(WARCWriter):  # type: ignore[misc]
    """A writer without payload digests for records without a payload: readers parse HTTP only for http URLs."""

    def ensure_digest(self, record: ArcWarcRecord, block: bool = True, payload: bool = True) -> None:
        has_payload = record.http_headers is None or _is_http(record.rec_headers["WARC-Target-URI"])
        super().ensure_digest(record, block, payload and has_payload)


class CountedStream(io.RawIOBase):
    """A stream that counts what it writes; it need not be seekable."""

    def __init__(self, stream: SupportsWrite[bytes]) -> None:
        self._stream = stream
        self.written_bytes = 0

    def write(self, piece: Any, /) -> int:
        """Append bytes."""
        self._stream.write(piece)
        self.written_bytes += len(piece)
        return len(piece)


class WarcExport(PageExport):
    """Writes WARC 1.1, each record packed by itself: response, resource and revisit.

    Bodies are written decoded.  Received headers that are then wrong (Content-Encoding, Transfer-Encoding, another
    Content-Length) get the prefix `ORIGINAL_PREFIX`, and a correct Content-Length is added and named in `ADDED_HEADER`;
    our reader reverts both.  If an earlier page of the same export has the same bytes, the page becomes a revisit
    record that names that page and its date.  Digests are those of the written bytes, so that any WARC tool can verify
    the file.  A recorded payload digest that differs, mostly because it is of the encoded body, goes into
    `RECORDED_DIGEST`.

    Records as they were recorded are written as they are.  A later page with the same body becomes a revisit of one
    only if its body is not encoded: the headers of a revisit say how the body that it repeats is encoded.

    Args:
        on_record: called after each page, for an index: with the page, the kind of its record (response, resource or
            revisit), the digest of its payload or "", and offset and length of its packed record, in bytes.
        name: of the file, which says how records are packed: `.zst` as zstd frames, `.warc` not at all; else as gzip
            members.
    """

    def __init__(
        self,
        stream: SupportsWrite[bytes],
        software: str = "docstore",
        on_record: Callable[[Page, str, str, int, int], None] | None = None,
        name: str = "",
    ) -> None:
        self._stream = CountedStream(stream)
        self._raw = io.BytesIO()
        """The record that is being written."""
        self._pack = next((pack for ending, pack in _PACKS.items() if name.lower().endswith(ending)), _gzip_member)
        self._writer = _Writer(self._raw, gzip=False, warc_version="1.1")
        self._on_record = on_record
        self._seen: dict[bytes, tuple[str, str]] = {}
        self._last = ("", "")
        """URL and date of the last page that was written as it was recorded.  A 304 of that URL confirms this page."""
        self._software = software
        self._began = False
        self.required: dict[str, None] = {}
        """Files that kept revisits say to have their originals, in order."""

    def write(self, exported: ExportPage, /) -> None:
        """Append one page; the first call writes a warcinfo record before it."""
        date = iso_date(exported.timestamp)
        if not self._began:
            self._began = True
            fields = f"software: {self._software}\r\nformat: WARC File Format 1.1\r\n".encode()
            named = {"WARC-Date": date, "WARC-Record-ID": own_record_id("warcinfo", date)}
            self._record("urn:docstore:export", "warcinfo", fields, None, named, "application/warc-fields")
        page = exported.page
        digest = hashlib.sha1(page.body, usedforsecurity=False).digest()
        if exported.records and self._write_recorded(exported, digest, date):
            return
        headers = one_line_headers(page.headers)
        recorded = {name: value for name, value in headers if name in {TRUNCATED_HEADER, IDENTIFIED_HEADER}}
        if recorded:
            headers = tuple(header for header in headers if header[0] not in recorded)
        is_resource = _is_resource(page, headers)
        written = "sha1:" + base64.b32encode(digest).decode() if is_resource or _is_http(page.url) else ""
        start = self._stream.written_bytes
        named = {
            "WARC-Date": date,
            "WARC-Record-ID": own_record_id(page.url, date),
            "WARC-Payload-Digest": written,
            RECORDED_DIGEST: "" if page.payload_digest == written else page.payload_digest,
            "WARC-IP-Address": page.ip,
            "WARC-TREC-ID": page.docno,
            TRUNCATED_HEADER: "",
            **recorded,
        }
        earlier = self._seen.get(digest) if page.body else None
        if earlier is None and page.status == NOT_MODIFIED and page.url == self._last[0]:
            earlier = self._last
        http = _http(page.status, headers, len(page.body))
        if earlier:
            named["WARC-Profile"] = _PROFILE
            named["WARC-Refers-To-Target-URI"], named["WARC-Refers-To-Date"] = earlier
            self._record(page.url, "revisit", b"", http, named)
            self._index(page, "revisit", written, start)
            return
        self._add_target(page, digest, date)
        if is_resource:
            self._record(page.url, "resource", page.body, None, named, headers[0][1] if headers else "")
        else:
            self._record(page.url, "response", page.body, http, named)
        self._index(page, "resource" if is_resource else "response", written, start)

    def _add_target(self, page: Page, digest: bytes, date: str) -> None:
        """Let later pages with the same body become revisits of this one."""
        if page.body:
            self._seen[digest] = page.url, date
            if len(self._seen) > MAX_REVISIT_TARGETS:
                del self._seen[next(iter(self._seen))]

    def _write_recorded(self, exported: ExportPage, digest: bytes, date: str) -> bool:
        """Write records as they were recorded; returns whether one of them is the page."""
        page, has_page = exported.page, False
        for recorded in sorted(exported.records, key=lambda one: one.kind not in _PAGE_KINDS):
            parts = parse_recorded(recorded.value, page.body)
            if parts is None:
                continue
            head, block = parts
            start = self._stream.written_bytes
            self._raw.writelines((head, block, b"\r\n\r\n"))
            self._end_record()
            if recorded.kind in _PAGE_KINDS:
                fields = {name.lower(): value for name, value in parse_fields(head)}
                self._index(page, recorded.kind.decode(), fields.get("warc-payload-digest", ""), start)
                if container := fields.get(CONTAINER_HEADER.lower()):
                    self.required[container.removeprefix("file://")] = None
                if recorded.kind != b"revisit":
                    self._last = page.url, date
                    if block.endswith(page.body):
                        self._add_target(page, digest, date)
                has_page = True
        return has_page

    def _index(self, page: Page, kind: str, digest: str, start: int) -> None:
        if self._on_record is not None:
            self._on_record(page, kind, digest, start, self._stream.written_bytes - start)

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
            # warcio would write application/warc-record, but the type is not known.
            record.rec_headers.remove_header("Content-Type")
            record.content_type = None
        self._writer.write_record(record)
        self._end_record()

    def _end_record(self) -> None:
        self._stream.write(self._pack(self._raw.getbuffer()))
        self._raw.seek(0)
        self._raw.truncate()


def _gzip_member(record: memoryview) -> bytes:
    packer = zlib.compressobj(9, wbits=16 + zlib.MAX_WBITS)
    return packer.compress(record) + packer.flush()


_PACKS: Final[Mapping[str, Callable[[memoryview], bytes]]] = {
    ".zst": lambda record: zstandard.ZstdCompressor(9).compress(record),
    ".warc": bytes,
}


def _is_http(url: str) -> bool:
    return url.startswith(("http:", "https:"))


def _is_resource(page: Page, headers: Headers) -> bool:
    """Whether a resource record has all of the page: a protocol other than HTTP, and no header except a type."""
    names = [name for name, _ in headers]
    return not _is_http(page.url.lower()) and page.status == 200 and names in ([], ["Content-Type"])


def _http(status: int, headers: Headers, body_bytes: int) -> _Utf8Headers:
    """Status line and headers that match the decoded body."""
    declared = {(name.lower(), value) for name, value in headers if name.lower() in ENCODING_HEADERS}
    if declared != {("content-length", str(body_bytes))}:
        headers = tuple(
            (ORIGINAL_PREFIX + name, value) if name.lower() in ENCODING_HEADERS else (name, value)
            for name, value in headers
        )
        headers += ((ADDED_HEADER, "Content-Length"), ("Content-Length", str(body_bytes)))
    protocol, _, line = usual_status_line(status).partition(" ")
    return _Utf8Headers(line, list(headers), protocol=protocol)


# --- TREC Web


_TAG = re.compile(r"</(?=DOCHDR>)", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


class TrecWebExport(PageExport):
    """Writes <DOC> elements as WT10g has them: ``url ip date type length``, HTTP status and headers, then the body.

    The format has no escape: a body that contains ``</DOC>`` is written as it is.  Our reader takes its end from the
    length in the first line; other readers stop at the first ``</DOC>``.  A page without a document number gets one
    made of its URL and time.  The format has no field for payload digests.  Dates have fourteen digits, or seventeen
    with milliseconds.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def write(self, page: ExportPage, /) -> None:
        """Append one page."""
        source = page.page
        date = moment(page.timestamp)
        digits = f"{date.year:04d}{date:%m%d%H%M%S}" + (f"{date.microsecond // 1000:03d}" if date.microsecond else "")
        kind = _SPACE.sub("", (source.header("content-type") or "").partition(";")[0]) or "-"
        address = _SPACE.sub("", source.ip) or "-"
        first = f"{one_line(source.url)} {address} {digits} {kind} {len(source.body)}"
        headers = one_line_headers(source.headers)
        recorded = [value for name, value in headers if name == STATUS_LINE_HEADER and has_status_line(value.encode())]
        lines = [first, recorded[0] if recorded else usual_status_line(source.status)]
        lines += [f"{name}: {value}" for name, value in headers if not (recorded and name == STATUS_LINE_HEADER)]
        head = "\n".join(_TAG.sub("< /", line) for line in lines).encode("utf-8", "replace")
        number = one_line(source.docno or document_number(source.url, page.timestamp)).encode()
        self._stream.write(b"<DOC>\n<DOCNO>%s</DOCNO>\n<DOCHDR>\n%s\n</DOCHDR>\n" % (number, head))
        self._stream.write(source.body)
        self._stream.write(b"\n</DOC>\n")


def document_number(url: str, timestamp: int) -> str:
    """The number of a page that has none: the same for the same URL and time."""
    return "DS-" + hashlib.blake2b(f"{url} {timestamp}".encode(), digest_size=10).hexdigest()


# --- JSON Lines


class JsonLinesExport(PageExport):
    """Writes one object for each page; `bodies` adds the body in base64, `markdown` the main text as Markdown."""

    def __init__(self, stream: BinaryIO, *, bodies: bool = False, markdown: bool = False) -> None:
        self._stream = stream
        self._markdown = markdown
        self._bodies = bodies

    def write(self, page: ExportPage, /) -> None:
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
            "lang": page.lang,
            "verdict": page.verdict,
            "of_url": page.of_url,
            "similarity": page.similarity,
            "previous": page.previous,
            "previous_similarity": page.previous_similarity,
            "ip": source.ip,
            "payload_digest": source.payload_digest,
            "docno": source.docno,
            "crawl": source.crawl,
            "body_bytes": len(source.body),
            "notes": {name: note for name, value in page.notes.items() if (note := decode_note(value))},
        }
        if self._markdown:
            key = row_key(page.url or source.url)
            fields["markdown"] = markdown_of(source.url, key, source.body, source.headers, page.text)
        if self._bodies:
            fields["body_base64"] = base64.b64encode(source.body).decode()
        line = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        self._stream.write(line.encode("utf-8", "replace") + b"\n")


def _wacz_export(stream: BinaryIO) -> PageExport:
    from docstore.archives.wacz import WaczExport  # which imports this file

    return WaczExport(stream, SOFTWARE)


WRITERS: Final[Mapping[str, Callable[[BinaryIO, bool], PageExport]]] = dict(
    zip(
        STREAM_FORMATS,
        (
            lambda stream, bodies: WarcExport(stream, SOFTWARE),
            lambda stream, bodies: _wacz_export(stream),
            lambda stream, bodies: TrecWebExport(stream),
            lambda stream, bodies: JsonLinesExport(stream, bodies=bodies),
        ),
        strict=True,
    )
)
"""By name of the format: makes a writer for a stream; the flag asks for bodies where they are optional."""
_ENDINGS: Final = {
    ".warc": "warc",
    ".wacz": "wacz",
    ".parquet": PARQUET,
    ".pq": PARQUET,
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".trec": "trecweb",
    ".trecweb": "trecweb",
}
"""The format that the ending of a name stands for."""
_ENDING: Final = re.compile(r"\.[a-z][a-z0-9]{1,7}")
"""What is an ending at all: not the `.2-pages` of a name such as `v1.2-pages`."""


def format_of(output: str, asked: str | None) -> str:
    """The format of an export, by the name of its file or by the one that is asked for.

    Args:
        output: path or URL; - for stdout.
        asked: one of `choices.FORMATS`, or None: WARC, unless the name says another.
    Raises:
        InvalidArgument: the name stands for another format than the one that is asked for, or for none that is written.
    """
    name = output.rpartition("/")[2].lower()
    stem, dot, ending = name.rpartition(".")
    is_packed = dot == "." and ending in ("gz", "zst")
    ending = dot + ending if not is_packed else "." + stem.rpartition(".")[2] if "." in stem else ""
    named = _ENDINGS.get(ending)
    chosen = asked or named or "warc"
    if named not in (None, chosen):
        raise InvalidArgument(f"--output {output} is the name of a {named} file, but --format is {asked}; change one")
    if asked is None and named is None and _ENDING.fullmatch(ending):
        formats = ", ".join(_ENDINGS)
        raise InvalidArgument(f"unknown ending {ending}; name the file with {formats}, or give --format")
    if is_packed and chosen in ("wacz", PARQUET):
        raise InvalidArgument(f"a {chosen} file is not packed as a whole: name it {stem}")
    return chosen
