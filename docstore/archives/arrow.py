"""Parquet and Arrow out, with the extra `docstore[arrow]`.

`to_arrow` gives captures as record batches, of the columns of `FULL`; `write_parquet` writes those of a layout as
Parquet.  A column says what it reads, so that nothing else is read.  Both hold one batch of pages, and the writer also
one row group, in memory.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple
from urllib.parse import urlsplit

from docstore.archives.export import ExportReport, iso_date
from docstore.archives.http import NOT_MODIFIED
from docstore.archives.selection import Selection, captures, in_step, lang_of, notes_of, rows_with
from docstore.archives.wacz import surt
from docstore.archives.warc import TRUNCATED_HEADER, own_record_id
from docstore.model import capture
from docstore.model.capture import ClusterPlace, StoredVerdict
from docstore.model.choices import LAYOUTS
from docstore.model.errors import InvalidArgument, missing_extra
from docstore.model.keys import resolve, url_of
from docstore.model.plain import LAST_MICROS
from docstore.reading.documents import REDIRECT_STATUSES, Capture
from docstore.version import __version__

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from publicsuffixlist import PublicSuffixList
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
    def lang(self) -> str | None:
        """By the note `lang`, else as the page declares it."""
        return lang_of(self.capture, self.notes) or None


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
WORD: Final = pa.dictionary(pa.int32(), pa.string())  # a string of which few different ones exist
TIME: Final = pa.timestamp("us", "UTC")  # docstore has whole milliseconds
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
    return shown.capture.docno or own_record_id(shown.fetched_url, _date(shown) or str(shown.capture.timestamp))


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
    Column("lang", WORD, "by the note `lang`, else as declared", lambda one: one.lang, ("text", "note")),
    Column("stored", WORD, "how: body, text, reference or confirmed", _judged(lambda it: it.stored), ("dedup",)),
    Column("verdict", WORD, "against other URLs, when written", _judged(lambda it: it.kind.value), ("dedup",)),
    Column("of_url", TEXT, "page that it duplicates", _judged(lambda it: _url(it.of_row_key)), ("dedup",)),
    Column("of_timestamp", TIME, "version of that page, UTC", _judged(lambda it: it.of_timestamp or None), ("dedup",)),
    Column("similarity", pa.float64(), "to that page, exact, 0 to 1", _judged(lambda it: it.similarity), ("dedup",)),
    Column("reason", WORD, "why the verdict may be wrong", _judged(lambda it: it.reason or None), ("dedup",)),
    Column("contains_url", TEXT, "page inside it", _judged(lambda it: _url(it.contains_row_key)), ("dedup",)),
    Column("previous", WORD, "against its version before", _judged(lambda it: it.previous.value), ("dedup",)),
    Column(
        "previous_similarity", pa.float64(), "exact, 0 to 1", _judged(lambda it: it.previous_similarity), ("dedup",)
    ),
    Column("checksum", pa.binary(), "of the body: scheme byte, digest", _of("checksum"), ("dedup",)),
    Column("text_checksum", pa.binary(), "of the text: scheme byte, digest", _of("text_checksum"), ("dedup",)),
    Column("simhash", pa.uint64(), "similar texts differ in few bits", lambda one: one.capture.simhash, ("dedup",)),
    Column("cluster", TEXT, "name; null if the page is alone", _placed(lambda it: it.cluster.hex()), ("cluster",)),
    Column("canonical", TEXT, "canonical page of that cluster", _placed(lambda it: url_of(it.row_key)), ("cluster",)),
    Column(
        "canonical_similarity", pa.float64(), "to it, exact, 0 to 1", _placed(lambda it: it.similarity), ("cluster",)
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
    Column("language", TEXT, "by the note `lang`, else as declared", lambda one: one.lang, ("text", "note")),
    Column(
        "language_score", pa.float64(), "of the note `lang`", lambda one: _number(one.noted("lang", "score")), ("note",)
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


@cache
def _suffixes(only_icann: bool) -> PublicSuffixList:
    return PublicSuffixList(accept_unknown=False, only_icann=only_icann)


def _by_suffix(name: str) -> Callable[[Shown], object]:
    """The public suffix of the host, of registries alone or also of companies; or the name below it."""
    method = "publicsuffix" if name.endswith("suffix") else "privatesuffix"
    return lambda shown: getattr(_suffixes(name.startswith("regist")), method)(_host(shown.url) or "")


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
    *(Column(f"url_host_{name}", TEXT, "by the public suffix list", _by_suffix(name)) for name in _BY_SUFFIX),
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
COLUMNS_OF_LAYOUT: Final = dict(zip(LAYOUTS, (FULL, FINEWEB, CCINDEX, (*FULL, MARKDOWN)), strict=True))


# --- record batches

BATCH_ROWS: Final = 1024
BATCH_BYTES: Final = 8 << 20
"""A batch ends after so many rows, or so many bytes of bodies and texts."""
_SURROGATES = re.compile("[\ud800-\udfff]")


def to_arrow(
    store: Store, columns: Sequence[str] | None = None, where: Selection | None = None
) -> pa.RecordBatchReader:
    """Give the pages of a store as batches of Arrow, as `DocumentStore.to_arrow` does."""
    if where is not None and not isinstance(where, Selection):
        raise InvalidArgument(
            f"where must be a docstore.Selection, such as Selection(host='a.example'), not {where!r:.100}"
        )
    chosen = _chosen(columns)
    batches = _batches(store, chosen, where or Selection(), ExportReport())
    return pa.RecordBatchReader.from_batches(_schema(chosen), batches)


def _chosen(names: Sequence[str] | None) -> tuple[Column, ...]:
    if names is None:
        return FULL
    known = {column.name: column for column in (*FULL, MARKDOWN)}
    unknown = names if isinstance(names, str) else ", ".join(str(name) for name in names if name not in known)
    if unknown or not names:
        raise InvalidArgument(f"no column {unknown:.200}; columns must be a list of names, of {', '.join(known)}")
    return tuple(known[name] for name in names)


def _schema(columns: Sequence[Column], metadata: Mapping[str, str] | None = None) -> pa.Schema:
    fields = [pa.field(column.name, column.kind, metadata={"about": column.about}) for column in columns]
    return pa.schema(fields, metadata)


def _batches(
    store: Store,
    columns: Sequence[Column],
    selection: Selection,
    report: ExportReport,
    keep: Callable[[bytes, int], bool] | None = None,
    takes: Callable[[bytes], bool] | None = None,
    batch_bytes: int = BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    schema = _schema(columns)
    rows: list[Shown] = []
    size = 0
    for shown in _shown(store, {part for column in columns for part in column.reads}, selection, keep):
        if takes is not None and not takes(shown.row_key):
            break
        if columns is FINEWEB and not shown.capture.text:
            continue
        rows.append(shown)
        body_bytes = len(shown.capture.body or b"")
        size += body_bytes + len(shown.capture.text or "")
        report.captures += 1
        report.body_bytes += body_bytes
        if len(rows) == BATCH_ROWS or size >= batch_bytes:
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
    notes = notes_of(store, selection) if "note" in reads else lambda row_key, timestamp: {}
    places = in_step(rows_with(store, selection, capture.CANONICAL_PAGE) if "cluster" in reads else iter(()))
    families = reads - {"note", "cluster"}
    for row, taken, visit in captures(store, selection, families, keep, without_bodies=True):
        at = taken.timestamp
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
        yield Shown(row.row_key, row.url, taken, notes(row.row_key, at), _place(store, row.row_key, at, place))


def _place(store: Store, row_key: bytes, timestamp: int, cells: Mapping[int, bytes]) -> ClusterPlace | None:
    """The place of a capture in a cluster.  A capture that repeats an earlier one has the place of the earlier one."""
    if timestamp in cells:
        return capture.decode_cluster_place(cells[timestamp])
    if not any(earlier < timestamp for earlier in cells):
        return None
    membership = store.clusters.of(row_key, timestamp)
    return None if membership is None else membership.place


# --- Parquet out

ROW_GROUP_BYTES = 64 << 20  # in memory, before it is encoded; one is held while it fills


def write_parquet(
    store: Store,
    stream: BinaryIO,
    selection: Selection,
    *,
    layout: str = "full",
    columns: Sequence[str] | None = None,
    keep: Callable[[bytes, int], bool] | None = None,
    takes: Callable[[bytes], bool] | None = None,
    group_bytes: int = ROW_GROUP_BYTES,
    on_progress: Callable[[ExportReport], None] | None = None,
) -> ExportReport:
    """Write the captures of a selection as Parquet, except those that cannot be read.

    Args:
        stream: need not be seekable.
        layout, columns: one of LAYOUTS; or names of columns of `full`, None for all of the layout.
        keep, takes, on_progress: as in `export`; progress is told after each batch.
        group_bytes: of a row group in memory.
    """
    chosen = COLUMNS_OF_LAYOUT[layout] if columns is None else _chosen(columns)
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
        for batch in _batches(store, chosen, selection, report, keep, takes, min(BATCH_BYTES, group_bytes)):
            group.append(batch)
            del batch
            if sum(one.nbytes for one in group) >= group_bytes:
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
