"""Parquet in, with the extra `docstore[arrow]`.

`read_parquet` gives the rows of a file as entries, by the names of its columns:

    url, fetched_url   of the page; fetched_url is the URL as it was fetched, if it differs
    body               binary or string: the body
    text               the body of a row without one, as text/plain in UTF-8, with a Content-Type for only header
    timestamp, date    the first that is there: a timestamp (UTC if it has no zone), a date, or ISO 8601 in a string;
                       in a file with neither, the file's own time of modification
    status, headers    200 and none if they are missing.  A row of status 304 without a body is a visit
    ip, payload_digest, docno or id, crawl or dump     as in `Page`; of a row without a url, docno or id gives it one
    notes              a map of the notes of the page, by annotator
    lang or language, language_score                   the note `lang`, unless the row has a body and `notes` is there

So the layouts `full` and `fineweb`, and files made by others, are read in one way.  Other columns are not read:
verdicts are made again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any, Final

from docstore.archives.dates import parse_date
from docstore.archives.entries import DamagedEntry, Entry, PageEntry, SkippedEntry, TableColumns
from docstore.archives.http import NOT_MODIFIED, PLAIN_TEXT
from docstore.archives.jsonlines import language_note
from docstore.archives.source import modified_micros
from docstore.model.capture import ClusterPlace, encode_note
from docstore.model.choices import BODY_LIMIT_BYTES, DEFAULT_SOURCE
from docstore.model.errors import InvalidArgument, missing_extra
from docstore.model.keys import row_key, table_url
from docstore.model.types import Headers, Page

try:
    import pyarrow as pa
    import pyarrow.parquet as pq
except ImportError as missing:
    raise missing_extra("Parquet", "arrow", missing) from missing

ROWS_READ: Final = 1024
BYTES_READ: Final = 8 << 20
"""Most rows, and bytes of rows of average length, that are read together."""
_BODIES: Final = ("body", "text")
_TIMES: Final = ("timestamp", "date")
_LANGUAGES: Final = ("lang", "language")
_NUMBERS: Final = ("docno", "id")
_STRINGS: Final = ("url", "fetched_url", "ip", "payload_digest", *_NUMBERS, "crawl", "dump", *_LANGUAGES)
_EXPECTED: Final = {
    **dict.fromkeys(_TIMES, "timestamps, dates, or ISO 8601 in strings"),
    **dict.fromkeys(_STRINGS, "strings"),
    **dict.fromkeys(_NUMBERS, "strings or integers"),
    "headers": "a list of structs of name and value, or a map, of strings",
    "notes": "a map of strings",
    "language_score": "floating point numbers",
}
_LOG: Final = logging.getLogger(__name__)
_FAILURES: Final = (pa.ArrowException, OSError, ValueError)
"""What pyarrow raises for damaged files."""


def read_parquet(
    stream: IO[bytes], body_limit_bytes: int = BODY_LIMIT_BYTES, columns: TableColumns = TableColumns()
) -> Iterator[Entry]:
    """Every row of a Parquet file, in order; damage is an entry, never an exception.

    The offset of an entry is near its row; reasons have the number of the row, the first one is 0.  Memory is bounded
    by ROWS_READ rows of average length, and by the longest body.

    Args:
        stream: seekable.
        body_limit_bytes: longest body.
        columns: the names of its columns.
    """
    try:
        metadata = pq.read_metadata(stream)
        stored = {field.name: field.type for field in metadata.schema.to_arrow_schema()}
        stored_names, missing = columns.stored_names(stored)
        groups = [_Group(metadata.row_group(number), stored_names) for number in range(metadata.num_row_groups)]
    except _FAILURES as error:
        size = stream.seek(0, os.SEEK_END)
        yield DamagedEntry(
            0,
            f"the Parquet file of {size} bytes has no footer that can be read: it was cut off, damaged, or is still "
            f"being written; get the whole file again, and ingest that ({_line(error)})",
        )
        return
    # A column of nulls is as if it were not there: what writes one knows no type for it.
    kinds = {name: stored[stored_name] for name, stored_name in stored_names.items()}
    used = {name: kind for name, kind in kinds.items() if not (_is_null(kind) or _is_empty(name, groups))}
    names, time_name, refusal = _columns_read(used, kinds)
    if missing or refusal:
        refusal = f"the Parquet file has no column {missing}" if missing else refusal
        yield DamagedEntry(0, f"{refusal}; the columns of this file are {', '.join(stored) or 'none'}")
        return
    modified = modified_micros(stream)
    file = pq.ParquetFile(
        stream,
        metadata=metadata,
        # So that a body which many rows repeat is in memory once.
        read_dictionary=[stored_names[name] for name in _BODIES if any(name in group.dictionaries for group in groups)],
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
                f"{body_limit_bytes} bytes on average (max_body_bytes)",
            )
            row = end
            continue
        try:
            of_file = [stored_names[name] for name in wanted]
            for batch in file.iter_batches(group.rows_read(wanted), [number], of_file, use_threads=False):
                rows = _Rows(batch.select(of_file).rename_columns(wanted), time_name, modified, columns.source)
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


def read_batch(batch: pa.RecordBatch, source: str = DEFAULT_SOURCE) -> Iterator[Entry]:
    """Every row of a batch, such as Spark gives of Parquet, in order; by the same rules as `read_parquet`.

    Args:
        batch: has the columns that `read_parquet` reads by default.
        source: as in `TableColumns`.
    """
    kinds = {field.name: field.type for field in batch.schema}
    used = {name: kind for name, kind in kinds.items() if not _is_null(kind)}
    names, time_name, refusal = _columns_read(used, kinds)
    if refusal:
        raise InvalidArgument(f"{refusal}; the columns of this file are {', '.join(kinds) or 'none'}")
    rows = _Rows(batch.select(names), time_name, None, source)
    for index in range(batch.num_rows):
        yield rows.entry(index, index, 0, BODY_LIMIT_BYTES)


def _columns_read(kinds: Mapping[str, Any], columns: Collection[str]) -> tuple[list[str], str, str]:
    """Which columns are read, which of them has the times, and why there are no pages, or "".

    Args:
        kinds: types of the columns that have values.
        columns: names of all columns.
    """
    times = [name for name in _TIMES if name in kinds]
    time_name = next((name for name in times if _is_time(kinds[name])), times[0] if times else "")
    refusal = _refusal(kinds, time_name)
    if "url" in columns and not kinds.keys() & {"url", *_NUMBERS}:
        refusal = "column url has nulls alone"
    if refusal:
        return [], "", refusal
    names = [name for name in kinds if name in ("status", time_name, *_BODIES) or _is_read(name, kinds[name])]
    for name in sorted(kinds.keys() & _EXPECTED.keys() - {*names}):
        if name not in _TIMES or not _is_time(kinds[name]):
            _warn_of_type(name, str(kinds[name]))
    return names, time_name, ""


def read_places(path: Path) -> Iterator[tuple[bytes, int, ClusterPlace | None]]:
    """The clusters that `docstore-spark` writes: row key and time of each version, and its place; None if it is alone.

    Args:
        path: a Parquet file, or a folder of them.
    """
    names = ["url", "timestamp", "canonical", "canonical_timestamp", "similarity"]
    for file in sorted(path.glob("*.parquet")) if path.is_dir() else [path]:
        try:
            for batch in pq.ParquetFile(file).iter_batches(columns=names):
                columns = [
                    _times(column) if pa.types.is_timestamp(column.type) else column.to_pylist()
                    for column in batch.select(names).columns
                ]
                for url, timestamp, canonical, at, similarity in zip(*columns, strict=True):
                    place = ClusterPlace(row_key(canonical), at, similarity) if canonical else None
                    yield row_key(url), timestamp, place
        except (*_FAILURES, KeyError) as error:
            message = f"cannot read {file}, expected columns {', '.join(names)} ({_line(error)})"
            raise InvalidArgument(f"{message}; name the folder clusters that docstore-spark wrote") from error


def read_columns(stream: IO[bytes], names: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Any]]:
    """The rows of a Parquet file, of some columns alone.

    Args:
        stream: seekable.
        names: what a column is called in the file, by the key under which it is given; the first that is there.  A
            column that is missing is None, and a timestamp is microseconds since 1970.
    Raises:
        OSError: the file cannot be read.
    """
    try:
        file = pq.ParquetFile(stream)
        stored = {
            key: next((each for each in some if each in file.schema_arrow.names), "") for key, some in names.items()
        }
        for batch in file.iter_batches(ROWS_READ, columns=sorted({*stored.values()} - {""}), use_threads=False):
            columns = {
                key: _times(batch.column(name))
                if pa.types.is_timestamp(batch.schema.field(name).type)
                else batch.column(name).to_pylist()
                for key, name in stored.items()
                if name
            }
            for row in range(batch.num_rows):
                yield {key: columns[key][row] if key in columns else None for key in names}
    except (pa.ArrowException, ValueError) as error:
        raise OSError(_line(error)) from error


class _Group:
    """What the footer says of a row group.

    Attributes:
        rows: their number.
        dictionaries: columns that have a dictionary, by the names as which they are read, like all columns here.
        complete, empty: columns without nulls, and of nulls alone.

    Args:
        group: of the footer.
        stored_names: the names in the file of the columns that are read.
    """

    def __init__(self, group: pq.RowGroupMetaData, stored_names: Mapping[str, str]) -> None:
        chunks = [group.column(index) for index in range(group.num_columns)]
        read_names = {stored_name: name for name, stored_name in stored_names.items()}
        self.rows: int = group.num_rows
        paths = [read_names.get(chunk.path_in_schema, chunk.path_in_schema) for chunk in chunks]
        self.dictionaries = {path for path, chunk in zip(paths, chunks, strict=True) if chunk.has_dictionary_page}
        statistics = dict(zip(paths, (chunk.statistics for chunk in chunks), strict=True))
        self.complete = {name for name, one in statistics.items() if one is not None and one.null_count == 0}
        self.empty = {
            name
            for name, one in statistics.items()
            if one is not None and one.has_null_count and one.null_count == group.num_rows > 0
        }
        self._begin = min((chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks), default=0)
        self._packed_bytes = sum(chunk.total_compressed_size for chunk in chunks)
        self._chunk_bytes = [
            (path.split(".")[0], chunk.total_uncompressed_size) for path, chunk in zip(paths, chunks, strict=True)
        ]

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
        return max(1, min(ROWS_READ, int(BYTES_READ * self.rows // max(read_bytes, 1))))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _plain(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_null(kind: Any) -> bool:
    """Whether a type has no value but null, or lists and maps of it."""
    types, plain = pa.types, _plain(kind)
    if types.is_list(plain) or types.is_large_list(plain):
        return _is_null(plain.value_type)
    if types.is_struct(plain):
        return all(_is_null(field.type) for field in plain)
    return bool(types.is_null(plain.item_type if types.is_map(plain) else plain))


def _is_empty(name: str, groups: Sequence[_Group]) -> bool:
    """Whether a column has nulls alone, as the footer says."""
    return bool(groups) and all(name in group.empty for group in groups)


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
    types = pa.types
    if name == "language_score":
        return bool(types.is_floating(kind))
    if name not in ("headers", "notes"):
        return name in _STRINGS and (_is_string(kind) or (name in _NUMBERS and types.is_integer(_plain(kind))))
    if types.is_map(kind):
        return _is_string(kind.key_type) and _is_string(kind.item_type)
    pair = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else None
    if name == "notes" or pair is None or not types.is_struct(pair):
        return False
    return [field.name for field in pair] == ["name", "value"] and all(_is_string(field.type) for field in pair)


def _refusal(kinds: Mapping[str, Any], time_name: str) -> str:
    """Why a file with these columns has no pages, or ""."""
    if "url" in kinds and not _is_string(kinds["url"]):
        return f"column url has values of type {kinds['url']}, expected strings"
    if not any(name == "url" or _is_read(name, kinds[name]) for name in ("url", *_NUMBERS) if name in kinds):
        return "a Parquet file of pages needs a column url, or id for rows without one: --url-column, --id-column"
    if not any(name in kinds for name in _BODIES):
        return "a Parquet file of pages needs a column body or text next to url or id: --text-column"
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

    def __init__(self, batch: pa.RecordBatch, time_name: str, modified: int | None, source: str) -> None:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        self._bodies = {name: _dictionary(columns.pop(name)) for name in _BODIES if name in columns}
        self._headers = _headers(columns.pop("headers")) if "headers" in columns else None
        self._notes = _headers(columns.pop("notes")) if "notes" in columns else None
        self._scores = columns.pop("language_score").to_pylist() if "language_score" in columns else None
        self._status = columns.pop("status").to_pylist() if "status" in columns else None
        self._time_name, self._modified, self._source = time_name, modified, source
        self._times = None if not time_name else _times(columns.pop(time_name))
        self._strings = {name: _strings(column) for name, column in columns.items()}

    def entry(self, index: int, row: int, offset: int, body_limit_bytes: int) -> Entry:
        """The entry of one row."""
        row_id = self._string("docno", index) or self._string("id", index)
        url = self._string("url", index) or (table_url(self._source, row_id) if row_id else "")
        if not url:
            return DamagedEntry(offset, f"row {row} has neither url nor id")
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
        has_body = body is not None
        if body is None:
            body, headers = self._body("text", index), PLAIN_TEXT
        if body is None:
            return SkippedEntry("no_body", offset)
        if len(body) > body_limit_bytes:
            reason = (
                f"row {row} has a body of {len(body)} bytes, more than the limit of {body_limit_bytes} (max_body_bytes)"
            )
            return DamagedEntry(offset, reason, url)
        page = Page(
            self._string("fetched_url", index) or url,
            body,
            status,
            headers,
            fetched_at,
            self._string("ip", index),
            self._string("payload_digest", index),
            row_id,
            self._string("crawl", index) or self._string("dump", index),
        )
        return PageEntry(page, "response", offset, notes=self._noted(index, has_body=has_body))

    def _noted(self, index: int, *, has_body: bool) -> tuple[tuple[str, bytes], ...]:
        noted: dict[str, bytes] = {}
        if self._notes is None or not has_body:
            lang = next(filter(None, (self._string(name, index) for name in _LANGUAGES)), "")
            score = None if self._scores is None else self._scores[index]
            noted = {name: encode_note("", note) for name, note in language_note(lang, score).items()}
        if self._notes is not None:
            noted |= {name: value.encode() for name, value in self._notes[index]}
        return tuple(noted.items())

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
    if pa.types.is_integer(array.type):
        array = array.cast(pa.string())
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
