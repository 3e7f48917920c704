"""Records of archives by their places: file, offset and length, as indexes of web archives name them.

A list is CDXJ, JSON Lines as index servers answer, or Parquet as Common Crawl's columnar index.  Only the bytes of its
records are fetched, some of them at once.  Simpler than it could be: neighbouring records are fetched one by one,
each by a request of its own.
"""

from __future__ import annotations

import gzip
import io
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Final, NamedTuple

from docstore.archives.dates import parse_date
from docstore.archives.entries import DamagedEntry, Entry, PageEntry, ReadOptions, SkippedEntry
from docstore.archives.locations import joined, open_input, read_range
from docstore.archives.reader import read
from docstore.model.errors import DocstoreError, InvalidArgument, StorageError

AHEAD_BYTES: Final = 64 << 20
"""Bytes of records that are fetched ahead; a longer record is fetched alone."""
FETCHES_AHEAD: Final = 4
"""Records that wait, for each one that is being fetched."""
MOST_FAILURES: Final = 16
"""If so many records fail before the first one is fetched, the run ends: the base is wrong, or the server refuses."""
ALREADY_STORED: Final = "already_stored"
"""Why a record is skipped that is not fetched again."""
_NAMES: Final = {
    "file": ("filename", "warc_filename"),
    "offset": ("offset", "warc_record_offset"),
    "length": ("length", "warc_record_length"),
    "url": ("url",),
    "date": ("timestamp", "fetch_time"),
}
_LINE_BYTES: Final = 1 << 20


class RecordPlace(NamedTuple):
    """Where a record is.

    Attributes:
        at: of its entry in the list: byte offset of its line, or number of its row.
        file: name of the archive.
        offset, length: of the record in it, in bytes.
        url, fetched_at: of the page, if the list says so; else "" and None.
    """

    at: int
    file: str
    offset: int
    length: int
    url: str = ""
    fetched_at: int | None = None


class RangeOptions(NamedTuple):
    """How records are fetched.

    Attributes:
        base: URL or folder before the names of archives; "" if they are whole.
        at_once: requests that run at once.
        rate: most requests a second; 0 is no limit.
    """

    base: str = ""
    at_once: int = 8
    rate: float = 0.0


_A_LIST = "a list for --records gives the filename, offset and length of a record in each line, and no pages"


def record_places(name: str) -> Iterator[RecordPlace | DamagedEntry]:
    """The places that a list names, in order.

    Args:
        name: path or URL of CDXJ or JSON Lines, plain or gzip, or of a Parquet file.
    Raises:
        InvalidArgument: the list cannot be read.
    """
    try:
        with open_input(name) as raw:
            magic = raw.read(4)
            raw.seek(0)
            if magic == b"PAR1":
                from docstore.archives.parquet import read_columns

                for row, fields in enumerate(read_columns(raw, _NAMES)):
                    yield _place(row, fields)
                return
            stream = gzip.GzipFile(fileobj=raw) if magic[:2] == b"\x1f\x8b" else raw
            at = 0
            while line := stream.readline(_LINE_BYTES):
                if line.strip() and not line.startswith(b"!"):  # a line of CDXJ about the file itself
                    yield _place_of_line(at, line)
                at += len(line)
    except (OSError, EOFError) as error:
        raise InvalidArgument(f"cannot read the list {name} ({error}); name a CDXJ or Parquet file") from error


def _place_of_line(at: int, line: bytes) -> RecordPlace | DamagedEntry:
    head, brace, rest = line.decode("utf-8", "replace").partition("{")
    try:
        fields = json.loads(brace + rest)
    except (ValueError, RecursionError) as error:
        return DamagedEntry(at, f"the line is neither CDXJ nor JSON: {str(error)[:100]}; {_A_LIST}")
    stamps = head.split()  # SURT and time
    found = {key: next((fields[name] for name in names if name in fields), None) for key, names in _NAMES.items()}
    return _place(at, found | ({"date": stamps[1]} if len(stamps) == 2 and found["date"] is None else {}))


def _place(at: int, fields: Mapping[str, Any]) -> RecordPlace | DamagedEntry:
    url, date = fields["url"], fields["date"]
    try:
        offset, length = int(fields["offset"]), int(fields["length"])
    except (TypeError, ValueError):
        offset = length = -1
    if not isinstance(fields["file"], str) or not fields["file"] or offset < 0 or length <= 0:
        named = {name: value for name, value in fields.items() if value is not None}
        return DamagedEntry(at, f"the line or row has only {named!r:.200}; {_A_LIST}", str(url or ""))
    moment = parse_date(date) if isinstance(date, str) else date if isinstance(date, int) else None
    return RecordPlace(at, fields["file"], offset, length, url if isinstance(url, str) else "", moment)


def read_records(
    name: str,
    ranges: RangeOptions,
    options: ReadOptions = ReadOptions(),
    is_stored: Callable[[RecordPlace], bool] = lambda place: False,
) -> Iterator[Entry]:
    """The entries of the records that a list names, in its order; a record that cannot be fetched is damage.

    The offset of an entry is that of its line in the list.

    Args:
        name: of the list.
        ranges: how they are fetched.
        options: how they are read.
        is_stored: whether a record need not be fetched.
    Raises:
        InvalidArgument: the list cannot be read.
        StorageError: the first MOST_FAILURES records could not be fetched.
    """
    pace = Pace(ranges.rate)
    waiting: deque[Entry | tuple[RecordPlace, Future[bytes]]] = deque()
    ahead_bytes = failures = 0
    has_fetched = False

    def fetch(place: RecordPlace) -> bytes:
        return read_range(joined(ranges.base, place.file), place.offset, place.length, pace.wait)

    def first() -> Iterator[Entry]:
        nonlocal ahead_bytes, failures, has_fetched
        next_one = waiting.popleft()
        if not isinstance(next_one, tuple):
            yield next_one
            return
        place, future = next_one
        ahead_bytes -= place.length
        where = f" (record at {place.offset} of {place.file})"
        try:
            raw = future.result()
        except DocstoreError as error:
            failures += 1
            if failures >= MOST_FAILURES and not has_fetched:
                raise StorageError(
                    f"none of the first {failures} records could be fetched; check --base and the network: {error}"
                ) from error
            yield DamagedEntry(place.at, f"{error}{where}", place.url)
            return
        has_fetched = True
        for entry in read(io.BytesIO(raw), options):
            entry = replace(entry, offset=place.at)
            if isinstance(entry, DamagedEntry):
                entry = replace(entry, reason=entry.reason + where, url=entry.url or place.url)
            elif isinstance(entry, PageEntry) and entry.flaw:
                entry = replace(entry, flaw=entry.flaw + where)
            yield entry

    pool = ThreadPoolExecutor(ranges.at_once, thread_name_prefix="docstore-fetch")
    try:
        for place in record_places(name):
            length = 0 if isinstance(place, DamagedEntry) else place.length
            while waiting and (ahead_bytes + length > AHEAD_BYTES or len(waiting) >= FETCHES_AHEAD * ranges.at_once):
                yield from first()
            if isinstance(place, DamagedEntry):
                waiting.append(place)
            elif length > options.body_limit_bytes:
                reason = f"the record has {length} bytes, more than the limit of {options.body_limit_bytes}"
                waiting.append(DamagedEntry(place.at, f"{reason} (max_body_bytes)", place.url))
            elif is_stored(place):
                waiting.append(SkippedEntry(ALREADY_STORED, place.at))
            else:
                ahead_bytes += length
                waiting.append((place, pool.submit(fetch, place)))
        while waiting:
            yield from first()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


class Pace:
    """Lets requests of many threads begin at most so often; 0 is no limit."""

    def __init__(self, rate: float) -> None:
        self._seconds = 1 / rate if rate else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Wait until the next request may begin."""
        if self._seconds:
            with self._lock:
                at = max(self._next, time.monotonic())
                self._next = at + self._seconds
            time.sleep(max(0.0, at - time.monotonic()))
