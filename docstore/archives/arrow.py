"""Parquet and Arrow, in and out, with the extra `docstore[arrow]`.

Out: `to_arrow` gives captures as record batches, of the columns of `FULL`; `write_parquet` writes those of a layout as
Parquet.  A column says what it reads, so that nothing else is read.  Both hold one batch of pages, and the writer also
one row group, in memory.

In: `read_parquet` gives the rows of a file as entries, by the names of its columns:

    url, fetched_url   of the page; fetched_url is the URL as it was fetched, if it differs
    body               binary or string: the body
    text               the body of a row without one, as text/plain in UTF-8, with a Content-Type for only header
    timestamp, date    the first that is there: a timestamp (UTC if it has no zone), a date, or ISO 8601 in a string;
                       in a file with neither, the file's own time of modification
    status, headers    200 and none if they are missing.  A row of status 304 without a body is a visit
    ip, payload_digest, docno or id, crawl or dump     as in `Page`

So the layouts `full` and `fineweb`, and files made by others, are read in one way.  Other columns are not read:
verdicts and notes are made again.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple
from urllib.parse import urlsplit

from docstore.archives.entries import BODY_LIMIT_BYTES, DamagedEntry, Entry, PageEntry, SkippedEntry
from docstore.archives.export import ExportReport, iso_date, record_id
from docstore.archives.http import NOT_MODIFIED, PLAIN_TEXT
from docstore.archives.selection import Selection, captures, in_step
from docstore.archives.source import modified_micros
from docstore.archives.wacz import surt
from docstore.archives.warc import TRUNCATED_HEADER, parse_date
from docstore.model import capture
from docstore.model.capture import ClusterPlace, StoredVerdict
from docstore.model.errors import CorruptionError, InvalidArgument, missing_extra
from docstore.model.keys import resolve, url_of
from docstore.model.plain import LAST_MICROS
from docstore.model.types import Headers, Page, ReadSpec
from docstore.reading.cells import Row, scan_range
from docstore.reading.documents import REDIRECT_STATUSES, Capture
from docstore.storage.unreadable import Place
from docstore.version import __version__

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:
    raise missing_extra("Parquet", "arrow", missing) from missing

if TYPE_CHECKING:  # types alone
    from docstore.attach import Store

# --- what a row is made of


class Shown(NamedTuple):
    """A capture, and what is read next to it.

    Attributes:
        row_key, url: of its row.
        capture: only with the families that were read; a 304 has nothing of the capture that it confirms but the
            verdict.
        notes: by the name of their annotator.
        place: in a cluster of the last sweep; None if no sweep has seen it.
    """

    row_key: bytes
    url: str
    capture: Capture
    notes: Mapping[str, bytes]
    place: ClusterPlace | None

    @property
    def fetched_url(self) -> str:
        """The URL as it was fetched."""
        return self.capture.fetched_url or self.url

    def noted(self, name: str, field: str) -> Any:
        """A field of a note; any program may write notes."""
        return capture.decode_note(self.notes.get(name, b"{}")).get(field)

    @property
    def language(self) -> str | None:
        """By the note `lang`, else as the page declares it."""
        noted = self.noted("lang", "lang")
        return str(noted) if noted else self.capture.lang or None


def _number(value: object) -> float | None:
    return value if isinstance(value, int | float) else None


class Column(NamedTuple):
    """A column: its name, its Arrow type, what it means, how it is made, and what that reads.

    `reads` has families of a capture (http, text, dedup, page), and "note" and "cluster".
    """

    name: str
    kind: Any
    about: str
    value: Callable[[Shown], object]
    reads: tuple[str, ...] = ()


TEXT: Final = pa.string()
WORD: Final = pa.dictionary(pa.int32(), pa.string())
"""A string of which few different ones exist."""
TIME: Final = pa.timestamp("us", "UTC")
"""Microseconds since 1970 in UTC; docstore has whole milliseconds."""
HEADERS: Final = pa.list_(pa.struct([("name", TEXT), ("value", TEXT)]))
_DICTIONARIES: Final = {WORD: ("{}",), HEADERS: ("{}.list.element.name", "{}.list.element.value")}


def _of(name: str) -> Callable[[Shown], object]:
    """A field of the capture, null if it is empty."""
    return lambda shown: getattr(shown.capture, name) or None


def _judged(make: Callable[[StoredVerdict], object]) -> Callable[[Shown], object]:
    """Something of the verdict, null without one."""
    return lambda shown: None if shown.capture.verdict is None else make(shown.capture.verdict)


def _placed(make: Callable[[ClusterPlace], object]) -> Callable[[Shown], object]:
    """Something of the place in a cluster, null without one."""
    return lambda shown: None if shown.place is None else make(shown.place)


def _host(url: str) -> str | None:
    return urlsplit(url).hostname


def _url(row_key: bytes) -> str | None:
    return url_of(row_key) if row_key else None


def _date(shown: Shown) -> str | None:
    """Null for a time after the year 9999, which has no such form."""
    return None if shown.capture.timestamp > LAST_MICROS else iso_date(shown.capture.timestamp)


def _id(shown: Shown) -> str:
    return shown.capture.docno or record_id(shown.fetched_url, _date(shown) or str(shown.capture.timestamp))


def _redirect(shown: Shown) -> str | None:
    location = shown.capture.header("location") if shown.capture.status in REDIRECT_STATUSES else None
    return resolve(shown.fetched_url, location) if location else None


def _digest(shown: Shown) -> str | None:
    body = shown.capture.body
    return None if body is None else base64.b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()


FULL: Final = (
    Column("url", TEXT, "canonical URL of the page", lambda shown: shown.url),
    Column("fetched_url", TEXT, "URL as it was fetched, if it differs", _of("fetched_url"), ("http",)),
    Column("host", WORD, "host of the URL, without port", lambda shown: _host(shown.url)),
    Column("timestamp", TIME, "when the page was fetched, UTC", lambda shown: shown.capture.timestamp),
    Column("crawl", WORD, "label of the crawl that fetched it", _of("crawl"), ("http",)),
    Column("status", pa.int16(), "HTTP status; 304 confirms the row before", lambda one: one.capture.status, ("http",)),
    Column("media_type", WORD, "of the Content-Type, in lower case", _of("media_type"), ("http",)),
    Column("charset", WORD, "encoding in which the body was read", _of("charset"), ("http",)),
    Column("headers", HEADERS, "HTTP headers in order, repeats kept", lambda one: one.capture.headers, ("http",)),
    Column("ip", WORD, "address of the server", _of("ip"), ("http",)),
    Column("payload_digest", TEXT, "digest that the crawler recorded", _of("payload_digest"), ("http",)),
    Column("docno", TEXT, "document number in the collection that it came from", _of("docno"), ("http",)),
    Column("body", pa.binary(), "bytes after decoding; null if not kept", lambda one: one.capture.body, ("page",)),
    Column("title", TEXT, "title of the page", _of("title"), ("text",)),
    Column("text", TEXT, "main text, one block a line", _of("text"), ("text",)),
    Column("description", TEXT, "description that the page declares", _of("description"), ("text",)),
    Column("keywords", TEXT, "keywords that the page declares", _of("keywords"), ("text",)),
    Column("headings", TEXT, "headings, one a line", _of("headings"), ("text",)),
    Column("published", TEXT, "when the page says it was published, ISO 8601, UTC", _of("published"), ("text",)),
    Column("declared_canonical", TEXT, "canonical URL that the page declares", _of("canonical"), ("text",)),
    Column("language", WORD, "by the note `lang`, else as declared", lambda one: one.language, ("text", "note")),
    Column("stored", WORD, "how: body, text, reference or confirmed", _judged(lambda it: it.stored), ("dedup",)),
    Column("verdict", WORD, "against other URLs, when written", _judged(lambda it: it.kind.value), ("dedup",)),
    Column("of_url", TEXT, "page that it duplicates", _judged(lambda it: _url(it.of_row_key)), ("dedup",)),
    Column("of_timestamp", TIME, "version of that page, UTC", _judged(lambda it: it.of_timestamp or None), ("dedup",)),
    Column("similarity", pa.float64(), "to that page, exact, 0 to 1", _judged(lambda it: it.similarity), ("dedup",)),
    Column("reason", WORD, "why the verdict may be wrong", _judged(lambda it: it.reason or None), ("dedup",)),
    Column("contains_url", TEXT, "page inside it", _judged(lambda it: _url(it.contains_row_key)), ("dedup",)),
    Column("previous", WORD, "against its version before", _judged(lambda it: it.previous.value), ("dedup",)),
    Column(
        "previous_similarity",
        pa.float64(),
        "to the version before, exact, 0 to 1",
        _judged(lambda it: it.previous_similarity),
        ("dedup",),
    ),
    Column("checksum", pa.binary(), "of the body: scheme byte, digest", _of("checksum"), ("dedup",)),
    Column("text_checksum", pa.binary(), "of the text: scheme byte, digest", _of("text_checksum"), ("dedup",)),
    Column(
        "simhash",
        pa.uint64(),
        "of the text; similar texts differ in few bits",
        lambda one: one.capture.simhash,
        ("dedup",),
    ),
    Column(
        "cluster", TEXT, "name of its cluster; null if it is alone", _placed(lambda it: it.cluster.hex()), ("cluster",)
    ),
    Column("canonical", TEXT, "canonical page of that cluster", _placed(lambda it: url_of(it.row_key)), ("cluster",)),
    Column(
        "canonical_similarity",
        pa.float64(),
        "to the canonical page, exact, 0 to 1",
        _placed(lambda it: it.similarity),
        ("cluster",),
    ),
    Column(
        "notes",
        pa.map_(TEXT, TEXT),
        "by annotator; those of docstore are JSON",
        lambda one: [(name, value.decode("utf-8", "replace")) for name, value in one.notes.items()],
        ("note",),
    ),
)
"""The layout `full`: all that docstore knows of a capture."""

FINEWEB: Final = (
    Column("text", TEXT, "main text, one block a line", _of("text"), ("text",)),
    Column("id", TEXT, "document number; else that of an exported WARC record", _id, ("http",)),
    Column("dump", TEXT, "label of the crawl", _of("crawl"), ("http",)),
    Column("url", TEXT, "as it was fetched", lambda one: one.fetched_url, ("http",)),
    Column("date", TEXT, "when it was fetched, ISO 8601, UTC", _date),
    Column("file_path", TEXT, "null: docstore keeps no path of the archive", lambda one: None),
    Column("language", TEXT, "by the note `lang`, else as declared", lambda one: one.language, ("text", "note")),
    Column(
        "language_score",
        pa.float64(),
        "of the note `lang`, 0 to 1; else null",
        lambda one: _number(one.noted("lang", "score")),
        ("note",),
    ),
    Column(
        "token_count",
        pa.int64(),
        "words, of the note `quality`; else null; FineWeb counts tokens of GPT-2",
        lambda one: _number(one.noted("quality", "token_count")),
        ("note",),
    ),
)
"""The layout `fineweb`: names and types as in the public FineWeb data set.  Captures without a text are left out."""


def _null(name: str, kind: Any, why: str) -> Column:
    return Column(name, kind, f"null: {why}", lambda shown: None)


def _label(number: int) -> Callable[[Shown], object]:
    """A label of the host, counted from its end."""

    def value(shown: Shown) -> object:
        labels = (_host(shown.url) or "").split(".")
        return labels[-number] if number <= len(labels) else None

    return value


def _split(name: str) -> Callable[[Shown], object]:
    return lambda shown: getattr(urlsplit(shown.url), name) or None


_NTH: Final = ("2nd", "3rd", "4th", "5th")
_BY_SUFFIX: Final = ("registry_suffix", "registered_domain", "private_suffix", "private_domain")
_OF_WARC: Final = ("filename", "record_offset", "record_length", "segment")
CCINDEX: Final = (
    Column("url_surtkey", TEXT, "SURT of the URL, as pywb makes it", lambda one: surt(one.url)),
    Column("url", TEXT, "canonical URL of the page", lambda one: one.url),
    Column("url_host_name", TEXT, "host of the URL", lambda one: _host(one.url)),
    Column("url_host_tld", TEXT, "last label of the host", _label(1)),
    *(
        Column(f"url_host_{name}_last_part", TEXT, f"{name} last label of the host", _label(int(name[0])))
        for name in _NTH
    ),
    *(_null(f"url_host_{name}", TEXT, "needs the list of public suffixes") for name in _BY_SUFFIX),
    Column(
        "url_host_name_reversed",
        TEXT,
        "labels of the host, last one first",
        lambda one: ".".join(reversed((_host(one.url) or "").split("."))) or None,
    ),
    Column("url_protocol", TEXT, "http or https", _split("scheme")),
    Column("url_port", pa.int32(), "if it is not the default one", _split("port")),
    Column("url_path", TEXT, "path of the URL", _split("path")),
    Column("url_query", TEXT, "query of the URL, if any", _split("query")),
    Column("fetch_time", TIME, "when the page was fetched, UTC", lambda one: one.capture.timestamp),
    Column("fetch_status", pa.int16(), "HTTP status", lambda one: one.capture.status, ("http",)),
    Column("fetch_redirect", TEXT, "target of a redirect", _redirect, ("http",)),
    Column("content_digest", TEXT, "SHA-1 of the decoded body, base32", _digest, ("page",)),
    Column("content_mime_type", TEXT, "of the Content-Type", _of("media_type"), ("http",)),
    _null("content_mime_detected", TEXT, "docstore detects no types"),
    Column("content_charset", TEXT, "encoding in which the body was read", _of("charset"), ("http",)),
    _null("content_languages", TEXT, "needs the language detector of Common Crawl"),
    Column(
        "content_truncated", TEXT, "why the body was cut", lambda one: one.capture.header(TRUNCATED_HEADER), ("http",)
    ),
    *(
        _null(f"warc_{name}", kind, "the pages lie in the store")
        for name, kind in zip(_OF_WARC, (TEXT, pa.int32(), pa.int32(), TEXT), strict=True)
    ),
    Column("crawl", TEXT, "label of the crawl", _of("crawl"), ("http",)),
    Column(
        "subset",
        TEXT,
        "warc for status 200, else crawldiagnostics",
        lambda one: "warc" if one.capture.status == 200 else "crawldiagnostics",
        ("http",),
    ),
)
"""The layout `ccindex`: names and types of Common Crawl's columnar index with its partitions."""

MARKDOWN: Final = Column(
    "markdown", TEXT, "main text as Markdown", lambda one: one.capture.markdown(one.row_key), ("text", "http", "page")
)
LAYOUTS: Final = {"full": FULL, "fineweb": FINEWEB, "ccindex": CCINDEX, "markdown": (*FULL, MARKDOWN)}
"""By name; `markdown` is `full` and a column that is made on reading."""


# --- record batches

BATCH_ROWS: Final = 1024
BATCH_BYTES: Final = 8 << 20
"""A batch ends after so many rows, or so many bytes of bodies and texts."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def to_arrow(
    store: Store, columns: Sequence[str] | None = None, where: Selection | None = None
) -> pa.RecordBatchReader:
    """See `DocumentStore.to_arrow`."""
    if where is not None and not isinstance(where, Selection):
        raise InvalidArgument(
            f"where must be a docstore.Selection, such as Selection(host='a.example'), not {where!r:.100}"
        )
    chosen = _chosen(columns)
    return pa.RecordBatchReader.from_batches(_schema(chosen), _batches(store, chosen, where or Selection()))


def _chosen(names: Sequence[str] | None) -> tuple[Column, ...]:
    if names is None:
        return FULL
    known = {column.name: column for column in (*FULL, MARKDOWN)}
    if isinstance(names, str) or not names or not set(names) <= known.keys():
        raise InvalidArgument(f"columns must be a list of names, of {', '.join(known)}, not {names!r:.200}")
    return tuple(known[name] for name in names)


def _schema(columns: Sequence[Column], metadata: Mapping[str, str] | None = None) -> pa.Schema:
    fields = [pa.field(column.name, column.kind, metadata={"about": column.about}) for column in columns]
    return pa.schema(fields, metadata)


def _batches(
    store: Store,
    columns: Sequence[Column],
    selection: Selection,
    keep: Callable[[bytes, int], bool] | None = None,
    report: ExportReport | None = None,
) -> Iterator[pa.RecordBatch]:
    schema = _schema(columns)
    rows: list[Shown] = []
    size = 0
    for shown in _shown(store, {part for column in columns for part in column.reads}, selection, keep):
        if columns is FINEWEB and not shown.capture.text:
            continue
        rows.append(shown)
        body_bytes = len(shown.capture.body or b"")
        size += body_bytes + len(shown.capture.text or "")
        if report is not None:
            report.captures += 1
            report.body_bytes += body_bytes
        if len(rows) == BATCH_ROWS or size >= BATCH_BYTES:
            yield _batch(rows, columns, schema)
            rows, size = [], 0
        del shown  # frees a long page before the next one is read
    if rows:
        yield _batch(rows, columns, schema)


def _batch(rows: Sequence[Shown], columns: Sequence[Column], schema: pa.Schema) -> pa.RecordBatch:
    arrays = [_array([column.value(shown) for shown in rows], column.kind) for column in columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: list[object], kind: Any) -> pa.Array:
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:  # bytes of headers and URLs that are not UTF-8
        return pa.array([_encodable(value) for value in values], kind)


def _encodable(value: object) -> object:
    if isinstance(value, str):
        return _SURROGATES.sub("\ufffd", value)
    return tuple(map(_encodable, value)) if isinstance(value, tuple | list) else value


def _shown(
    store: Store, reads: set[str], selection: Selection, keep: Callable[[bytes, int], bool] | None
) -> Iterator[Shown]:
    """The captures of a selection with their notes and clusters."""
    notes = in_step(_rows(store, selection, (capture.NOTE_FAMILY, b"")) if "note" in reads else iter(()))
    places = in_step(_rows(store, selection, capture.CANONICAL_PAGE) if "cluster" in reads else iter(()))
    families = reads - {"note", "cluster"}
    for row, taken, visit in captures(store, selection, families, keep, without_bodies=True):
        at = taken.timestamp
        beside = {
            cell.qualifier.decode("utf-8", "replace"): cell.value for cell in notes(row.row_key) if cell.timestamp == at
        }
        place = {cell.timestamp: cell.value for cell in places(row.row_key)}
        if visit is not None:
            taken = Capture(
                at,
                status=NOT_MODIFIED,
                headers=visit,
                ip=taken.ip,
                verdict=taken.verdict,
                fetched_url=taken.fetched_url,
                crawl=taken.crawl,
            )
        yield Shown(row.row_key, row.url, taken, beside, _place(store, row.row_key, at, place))


def _rows(store: Store, selection: Selection, column: capture.Column) -> Iterator[Row]:
    """Rows with cells of a column; from a value on that cannot be read each row by itself, without those."""
    start, end = scan_range(selection.prefix, selection.host)
    spec = ReadSpec((column[0],), column[1])
    try:
        for row in store.cells.scan(start=start, end=end, spec=spec):
            start = row.row_key + b"\0"
            yield row
        return
    except CorruptionError:
        pass
    for row in store.cells.scan(start=start, end=end, spec=spec._replace(keys_only=True)):
        place = Place(row.row_key, *column)
        read = store.unreadable.attempt(partial(store.cells.read_row, row.row_key, spec), place)
        if read is not None:
            yield read


def _place(store: Store, row_key: bytes, timestamp: int, cells: Mapping[int, bytes]) -> ClusterPlace | None:
    """The place of a capture in a cluster; of one that repeats an earlier one, the place of that one."""
    if timestamp in cells:
        return capture.decode_cluster_place(cells[timestamp])
    if not any(earlier < timestamp for earlier in cells):
        return None
    membership = store.clusters.of(row_key, timestamp)
    return None if membership is None else membership.place


# --- Parquet out

ROW_GROUP_BYTES = 64 << 20
"""Bytes of a row group in memory, before it is encoded; one is held while it fills."""


def write_parquet(
    store: Store,
    stream: BinaryIO,
    selection: Selection,
    *,
    layout: str = "full",
    columns: Sequence[str] | None = None,
    keep: Callable[[bytes, int], bool] | None = None,
    on_progress: Callable[[ExportReport], None] | None = None,
) -> ExportReport:
    """Write the captures of a selection as Parquet, except those that cannot be read.

    Args:
        stream: need not be seekable.
        layout, columns: one of LAYOUTS; or names of columns of `full`, None for all of the layout.
        keep: as in `export`.
        on_progress: called after each batch with the report so far.
    """
    chosen = LAYOUTS[layout] if columns is None else _chosen(columns)
    schema = _schema(chosen, {"docstore.layout": layout, "docstore.version": __version__})
    report = ExportReport()
    with (
        store.unreadable.collecting() as unreadable,
        pq.ParquetWriter(
            stream,
            schema,
            compression="zstd",
            use_dictionary=[path.format(one.name) for one in chosen for path in _DICTIONARIES.get(one.kind, ())],
            write_page_checksum=True,
        ) as writer,
    ):
        group: list[pa.RecordBatch] = []
        for batch in _batches(store, chosen, selection, keep, report):
            group.append(batch)
            del batch
            if sum(one.nbytes for one in group) >= ROW_GROUP_BYTES:
                _write_group(writer, group, schema)
                group = []
            if on_progress is not None:
                on_progress(report)
        if group:
            _write_group(writer, group, schema)
    report.unreadable = list(unreadable)
    return report


def _write_group(writer: pq.ParquetWriter, batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> None:
    # Parquet has one dictionary in a row group; with more, its writer would write the rest without one.
    table = pa.Table.from_batches([batch.replace_schema_metadata(schema.metadata) for batch in batches], schema)
    writer.write_table(table.unify_dictionaries(), row_group_size=table.num_rows)


# --- Parquet in

ROWS_READ: Final = 1024
"""Most rows that are read together; fewer if they are long."""
_BODIES: Final = ("body", "text")
_TIMES: Final = ("timestamp", "date")
_STRINGS: Final = ("url", "fetched_url", "ip", "payload_digest", "docno", "id", "crawl", "dump")
_EXPECTED: Final = {
    **dict.fromkeys(_TIMES, "timestamps, dates, or ISO 8601 in strings"),
    **dict.fromkeys(_STRINGS, "strings"),
    "headers": "a list of structs of name and value, or a map, of strings",
}
_LOG: Final = logging.getLogger(__name__)
_FAILURES: Final = (pa.ArrowException, OSError, ValueError)
"""What pyarrow raises for damaged files."""


def read_parquet(stream: IO[bytes], body_limit_bytes: int = BODY_LIMIT_BYTES) -> Iterator[Entry]:
    """Every row of a Parquet file, in order; damage is an entry, never an exception.

    The offset of an entry is near its row; reasons have the number of the row, the first one is 0.  Memory is bounded
    by ROWS_READ rows of average length, and by the longest body.

    Args:
        stream: seekable.
        body_limit_bytes: longest body.
    """
    try:
        metadata = pq.read_metadata(stream)
        kinds = {field.name: field.type for field in metadata.schema.to_arrow_schema()}
        groups = [_Group(metadata.row_group(number)) for number in range(metadata.num_row_groups)]
    except _FAILURES as error:
        size = stream.seek(0, os.SEEK_END)
        yield DamagedEntry(
            0,
            f"the Parquet file of {size} bytes has no footer that can be read: it was cut off, damaged, or is still "
            f"being written; get the whole file again, and ingest that ({_line(error)})",
        )
        return
    names, time_name, refusal = _columns_read(kinds)
    if refusal:
        yield DamagedEntry(0, refusal)
        return
    modified = modified_micros(stream)
    file = pq.ParquetFile(
        stream,
        metadata=metadata,
        # So that a body which many rows repeat is in memory once.
        read_dictionary=[name for name in _BODIES if any(name in group.dictionaries for group in groups)],
        buffer_size=1 << 20,
        pre_buffer=False,
        page_checksum_verification=True,
    )
    row = end = 0
    for number, group in enumerate(groups):
        first, end = end, end + group.rows
        wanted = [name for name in names if name != "text" or "body" not in group.complete]
        if group.longest_bytes(wanted) > body_limit_bytes:
            yield DamagedEntry(
                group.offset(0),
                f"rows {row} to {end - 1}, in row group {number}, have bodies of more than the limit of "
                f"{body_limit_bytes} bytes on average",
            )
            row = end
            continue
        try:
            for batch in file.iter_batches(group.rows_read(wanted), [number], wanted, use_threads=False):
                rows = _Rows(batch, time_name, modified)
                for index in range(batch.num_rows):
                    yield rows.entry(index, row, group.offset(row - first), body_limit_bytes)
                    row += 1
                del batch, rows
        except _FAILURES as error:
            yield DamagedEntry(
                group.offset(row - first),
                f"rows {row} to {end - 1}, in row group {number}, cannot be read: get the file again; the other row "
                f"groups are read ({_line(error)})",
            )
        row = end


def read_batch(batch: pa.RecordBatch) -> Iterator[Entry]:
    """Every row of a batch, such as Spark gives of Parquet, in order; by the same rules as `read_parquet`."""
    names, time_name, refusal = _columns_read({field.name: field.type for field in batch.schema})
    if refusal:
        raise InvalidArgument(refusal)
    rows = _Rows(batch.select(names), time_name, None)
    for index in range(batch.num_rows):
        yield rows.entry(index, index, 0, BODY_LIMIT_BYTES)


def _columns_read(kinds: Mapping[str, Any]) -> tuple[list[str], str, str]:
    """Which columns are read, which of them has the times, and why there are no pages, or ""."""
    times = [name for name in _TIMES if name in kinds]
    time_name = next((name for name in times if _is_time(kinds[name])), times[0] if times else "")
    if refusal := _refusal(kinds, time_name):
        return [], "", f"{refusal}; the columns of this file are {', '.join(kinds) or 'none'}"
    names = [name for name in kinds if name in ("status", time_name, *_BODIES) or _is_read(name, kinds[name])]
    for name in sorted(kinds.keys() & _EXPECTED.keys() - {*names}):
        if name not in _TIMES or not _is_time(kinds[name]):
            _warn_of_type(name, str(kinds[name]))
    return names, time_name, ""


class _Group:
    """What the footer says of a row group.

    Attributes:
        rows: their number.
        dictionaries: columns that have a dictionary.
        complete: columns without nulls.
    """

    def __init__(self, group: pq.RowGroupMetaData) -> None:
        chunks = [group.column(index) for index in range(group.num_columns)]
        self.rows: int = group.num_rows
        self.dictionaries = {chunk.path_in_schema for chunk in chunks if chunk.has_dictionary_page}
        statistics = {chunk.path_in_schema: chunk.statistics for chunk in chunks}
        self.complete = {name for name, one in statistics.items() if one is not None and one.null_count == 0}
        self._begin = min((chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks), default=0)
        self._packed_bytes = sum(chunk.total_compressed_size for chunk in chunks)
        self._chunk_bytes = [(chunk.path_in_schema.split(".")[0], chunk.total_uncompressed_size) for chunk in chunks]

    def offset(self, row: int) -> int:
        """About where a row is in the file: columns lie one after the other."""
        return max(0, int(self._begin + self._packed_bytes * row // max(self.rows, 1)))

    def longest_bytes(self, names: Sequence[str]) -> int:
        """The mean length of a body, by the footer: what must be read into memory at once at least."""
        bodies = [chunk_bytes for name, chunk_bytes in self._chunk_bytes if name in names and name in _BODIES]
        return max(bodies, default=0) // max(self.rows, 1)

    def rows_read(self, names: Sequence[str]) -> int:
        """How many rows of these columns make a batch."""
        read_bytes = sum(chunk_bytes for name, chunk_bytes in self._chunk_bytes if name in names)
        return max(1, min(ROWS_READ, int(BATCH_BYTES * self.rows // max(read_bytes, 1))))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _plain(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_string(kind: Any) -> bool:
    types = pa.types
    checks = (types.is_string, types.is_large_string, types.is_string_view, types.is_null)
    return any(check(_plain(kind)) for check in checks)


def _is_bytes(kind: Any) -> bool:
    types = pa.types
    checks = (types.is_binary, types.is_large_binary, types.is_binary_view, _is_string)
    return any(check(_plain(kind)) for check in checks)


def _is_time(kind: Any) -> bool:
    return pa.types.is_timestamp(kind) or pa.types.is_date(kind) or _is_string(kind)


def _is_read(name: str, kind: Any) -> bool:
    if name != "headers":
        return name in _STRINGS and _is_string(kind)
    types = pa.types
    if types.is_map(kind):
        return _is_string(kind.key_type) and _is_string(kind.item_type)
    pair = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else None
    if pair is None or not types.is_struct(pair):
        return False
    return [field.name for field in pair] == ["name", "value"] and all(_is_string(field.type) for field in pair)


def _refusal(kinds: Mapping[str, Any], time_name: str) -> str:
    """Why a file with these columns has no pages, or ""."""
    if "url" not in kinds or not _is_string(kinds["url"]):
        return "a Parquet file of pages needs a column url, of strings"
    if not any(name in kinds for name in _BODIES):
        return "a Parquet file of pages needs a column body or text next to url"
    for name, fits, expected in (
        *((name, _is_bytes, "strings or binary") for name in _BODIES),
        (time_name, _is_time, _EXPECTED.get(time_name, "")),
        ("status", pa.types.is_integer, "integers"),
    ):
        if name in kinds and not fits(kinds[name]):
            return f"column {name} has values of type {kinds[name]}, expected {expected}"
    return ""


@cache  # once in a process, not for each of many files
def _warn_of_type(name: str, kind: str) -> None:
    _LOG.warning("docstore: column %s has values of type %s, expected %s; it is not read", name, kind, _EXPECTED[name])


class _Rows:
    """The rows of a batch as entries."""

    def __init__(self, batch: pa.RecordBatch, time_name: str, modified: int | None) -> None:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        self._bodies = {name: _dictionary(columns.pop(name)) for name in _BODIES if name in columns}
        self._headers = _headers(columns.pop("headers")) if "headers" in columns else None
        self._status = columns.pop("status").to_pylist() if "status" in columns else None
        self._time_name, self._modified = time_name, modified
        self._times = None if not time_name else _times(columns.pop(time_name))
        self._strings = {name: _strings(column) for name, column in columns.items()}

    def entry(self, index: int, row: int, offset: int, body_limit_bytes: int) -> Entry:
        """The entry of one row."""
        url = self._string("url", index)
        if not url:
            return DamagedEntry(offset, f"row {row} has no url")
        fetched_at = self._modified
        if self._times is not None:
            value = self._times[index]
            fetched_at = parse_date(value.decode("utf-8", "replace")) if isinstance(value, bytes) else value
            if fetched_at is None:
                reason = f"row {row} has the {self._time_name} {value!r:.60}; expected a time since 1970, such as "
                return DamagedEntry(offset, f"{reason}2024-05-01T12:00:00Z", url)
        status = 200 if self._status is None or self._status[index] is None else self._status[index]
        headers = () if self._headers is None else self._headers[index]
        body = self._body("body", index)
        if body is None and status == NOT_MODIFIED:
            body = b""
        elif body is None:
            body, headers = self._body("text", index), PLAIN_TEXT
        if body is None:
            return SkippedEntry("no_body", offset)
        if len(body) > body_limit_bytes:
            reason = f"row {row} has a body of {len(body)} bytes, more than the limit of {body_limit_bytes}"
            return DamagedEntry(offset, reason, url)
        page = Page(
            self._string("fetched_url", index) or url,
            body,
            status,
            headers,
            fetched_at,
            self._string("ip", index),
            self._string("payload_digest", index),
            self._string("docno", index) or self._string("id", index),
            self._string("crawl", index) or self._string("dump", index),
        )
        return PageEntry(page, "response", offset)

    def _string(self, name: str, index: int) -> str:
        value = self._strings[name][index] if name in self._strings else None
        return value.decode("utf-8", "replace") if value else ""

    def _body(self, name: str, index: int) -> bytes | None:
        if name not in self._bodies:
            return None
        indices, values = self._bodies[name]
        number = indices[index]
        body: bytes | None = None if number is None else values[number].as_py()
        return body


def _bytes(array: pa.Array) -> pa.Array:
    """Strings or bytes as bytes, so that UTF-8 is not checked."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array.cast(pa.large_binary())


def _strings(array: pa.Array) -> list[bytes | None]:
    values: list[bytes | None] = _bytes(array).to_pylist()
    return values


def _dictionary(array: pa.Array) -> tuple[list[int | None], pa.Array]:
    """The numbers of the values of rows, and the values."""
    if pa.types.is_dictionary(array.type):
        return array.indices.to_pylist(), _bytes(array.dictionary)
    numbers = [number if valid else None for number, valid in enumerate(array.is_valid().to_pylist())]
    return numbers, _bytes(array)


def _headers(array: pa.Array) -> list[Headers]:
    if pa.types.is_map(array.type):
        names, values = _strings(array.keys), _strings(array.items)
    else:
        names, values = (_strings(array.values.field(number)) for number in range(2))
    pairs = [
        ((name or b"").decode("utf-8", "replace"), (value or b"").decode("utf-8", "replace"))
        for name, value in zip(names, values, strict=True)
    ]
    ends = array.offsets.to_pylist()
    return [tuple(pair for pair in pairs[ends[i] : ends[i + 1]] if pair[0]) for i in range(len(array))]


def _times(array: pa.Array) -> list[Any]:
    """Microseconds since 1970, or strings as bytes."""
    if _is_string(array.type):
        return _strings(array)
    zone = array.type.tz if pa.types.is_timestamp(array.type) else None
    times: list[Any] = array.cast(pa.timestamp("us", zone), safe=False).cast(pa.int64()).to_pylist()
    return times
