"""First and last stage of a sweep: live versions as arrays, in row-key order; and their clusters, written back.

One scan; no body is read.  Successive captures of one URL with the same bytes are one version, as old as the first of
them; its cluster is written at the time of the newest of them that is not a visit.  Versions are numbered in the order
(row key, timestamp), so that no result depends on the order of ingest.
"""

from __future__ import annotations

import mmap
import tempfile
from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from types import SimpleNamespace
from typing import IO, TypeVar

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from docstore.compiled import docstore_native
from docstore.dedup.comparable import (
    MIN_NEAR_WORDS,
    MIN_SAME_TEXT_WORDS,
    is_blank,
    status_class,
)
from docstore.dedup.kernel import words
from docstore.model import capture, keys
from docstore.model.capture import ClusterPlace, Column, StoredVerdict
from docstore.model.choices import BINS
from docstore.model.errors import CorruptionError
from docstore.model.format import CAPTURE_FAMILY, REASON_BLANK, SCHEME_SKETCH_1, SKETCH_BYTES, VERDICT_KINDS
from docstore.model.sets import Numbers
from docstore.model.types import SAME_PAGE
from docstore.reading.documents import MAX_REDIRECTS, REDIRECT_STATUSES, DocumentReader
from docstore.storage.captures import LiveCapture
from docstore.storage.engine import ScannedRow
from docstore.storage.unreadable import Place
from docstore.storage.values import is_absent, is_ref, parse_cell_value, raw_bytes_of
from docstore.store import DocumentStore
from docstore.sweep.kernels import LONG_TEXT_BYTES, equality, in_order, moved_to, target_of

Value = TypeVar("Value")

_PLACED = (capture.CLUSTER, capture.CANONICAL_PAGE)
PROGRESS_ROWS = 1000
MARK_VERSIONS = 64
_RULES = SimpleNamespace(
    redirects=sorted(REDIRECT_STATUSES),
    same_page=[VERDICT_KINDS.index(kind) for kind in SAME_PAGE],
    least_words=MIN_NEAR_WORDS,
    least_title_words=MIN_SAME_TEXT_WORDS,
    long_text_bytes=LONG_TEXT_BYTES,
)
"""For native code."""


class Blobs:
    """Byte strings in a temporary file, by number; 8 bytes of memory each."""

    def __init__(self) -> None:
        self._ends = array("q")
        self._size = 0
        self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - as long as this object
        self._buffer = bytearray()
        self._map: mmap.mmap | bytes = b""

    def append(self, value: bytes) -> None:
        """Add a value at the end."""
        self._buffer += value
        self._size += len(value)
        self._ends.append(self._size)
        self._flush(1 << 20)

    def extend(self, values: bytes, lengths: bytes) -> None:
        """Add values that lie one after the other; their lengths are int64."""
        self._buffer += values
        self._ends.frombytes((self._size + np.cumsum(np.frombuffer(lengths, np.int64))).tobytes())
        self._size += len(values)
        self._flush(1 << 20)

    def _flush(self, most_bytes: int) -> None:
        if len(self._buffer) > most_bytes:
            self._file.write(self._buffer)
            self._buffer.clear()

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, number: int) -> bytes:
        if len(self._map) != self._size:
            self._flush(0)
            self._file.flush()
            self._map = mmap.mmap(self._file.fileno(), self._size, access=mmap.ACCESS_READ)
        begin = self._ends[number - 1] if number else 0
        return self._map[begin : self._ends[number]]


@dataclass(slots=True)
class Versions:
    """Live versions, n of them, in the order (row key, timestamp).

    Attributes:
        row_keys: of each.
        rows: (n,) int64 number of its row, counted from 0.
        timestamps: (n,) int64 microseconds, when its bytes were first seen.
        column_times: (n,) int64 time of its newest stored capture, where its cluster is written.  It is smaller than
            the timestamp for a version of visits only: a late capture came between them and the capture that they
            confirm, and the cluster is written there.
        bodies: (n, 2) uint64: equal exactly for equal bodies of one status class.
        equal_by: (n,) uint8 BY_BODY, BY_TITLE or BY_TEXT.
        good: (n,) bool: a 2xx answer with a text.
        sketches: (n, 256) uint8, mapped.
        sketched: (n,) bool: it has a sketch of the current scheme.
        shingle_counts: (n,) int64 size of the set that the sketch was made of; 0 without one.
        body_values: cell value of its body.
        texts: cell value of its text.
        titles: in UTF-8.
        lists: (n,) bool: a feed or site map.
        placed: (n,) uint64 checksum of the columns of an earlier sweep; 0 for none.
        named: (version, version) that the write path called duplicates.
        duplicate: (n,) bool: the verdict of one of its captures names another page.
        declared: (n,) int64 the version of another row to which its URL has moved (`moved_to`), or that it declares as
            canonical, of its site, redirects followed; -1 for none.
        redirected: (n,) int64 stored redirects that lead to it.
        stale: (row key, timestamp) of columns of an earlier sweep that belong to no version any more.
        state: BLAKE3 of everything that the result depends on, 16 bytes.
        marks: row keys of every MARK_VERSIONS-th version: they are in memory, so that a search reads few others.
    """

    row_keys: Blobs
    rows: Numbers
    timestamps: Numbers
    column_times: Numbers
    identity: NDArray[np.uint64]
    bodies: NDArray[np.uint64]
    equal_by: NDArray[np.uint8]
    good: NDArray[np.bool_]
    sketches: NDArray[np.uint8]
    sketched: NDArray[np.bool_]
    shingle_counts: Numbers
    body_values: Blobs
    texts: Blobs
    titles: Blobs
    lists: NDArray[np.bool_]
    placed: NDArray[np.uint64]
    named: NDArray[np.int64]
    duplicate: NDArray[np.bool_]
    declared: Numbers
    redirected: Numbers
    stale: list[tuple[bytes, int]]
    state: bytes
    marks: list[bytes]

    def find(self, row_key: bytes, timestamp: int) -> int:
        """The version of a row that was live at a time; -1 for none."""
        end = bisect_left(self.marks, row_key) * MARK_VERSIONS
        low, high = max(0, end - MARK_VERSIONS), min(end, len(self.row_keys))
        number = bisect_left(self.row_keys, row_key, low, high)
        latest = -1
        while number < len(self.row_keys) and self.row_keys[number] == row_key:
            if self.timestamps[number] <= timestamp:
                latest = number
            number += 1
        return latest


def _status(value: bytes) -> int:
    """Decode `http:status`.

    Raises:
        CorruptionError: it is no number.
    """
    if not value.isdigit():
        raise CorruptionError("http:status is no number", expected="digits", found=value[:16].hex())
    return int(value)


def cluster_checksum(cluster: bytes, place: bytes) -> int:
    """Checksum of the two columns of a sweep; never 0."""
    return int.from_bytes(blake3(cluster + place).digest(8), "little") | 1


def read_versions(store: DocumentStore, on_progress: Callable[[int], None] | None = None) -> Versions:
    """Scan a store; `on_progress` gets the number of rows seen.

    One thread reads rows, and another takes them.
    """
    reading = _Reading(store)
    rows = store.table.scan_captures()
    slices = iter(lambda: list(islice(rows, PROGRESS_ROWS)), [])
    for count in in_order(1, reading.take_many, slices):
        if on_progress is not None:
            on_progress(count)
    return reading.done()


class _Reading:
    def __init__(self, store: DocumentStore) -> None:
        self._table = store.table
        self._fetch = store.backend.values.fetch
        self._unreadable = store.backend.values.unreadable
        self._reader = DocumentReader(store.table, store.backend.values)
        self._row_keys, self._body_values, self._texts, self._titles = Blobs(), Blobs(), Blobs(), Blobs()
        self._rows, self._timestamps, self._column_times = array("q"), array("q"), array("q")
        self._identity, self._bodies = bytearray(), bytearray()
        self._equal_by, self._good, self._sketched, self._duplicate, self._lists = (bytearray() for _ in range(5))
        self._sketches: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - mapped for as long as the sweep runs
        self._placed = array("Q")
        self._shingle_counts = array("q")
        self._row_number = 0
        self._verdicts: list[tuple[int, bytes, int]] = []
        self._declared: list[tuple[int, bytes]] = []
        self._redirects: dict[bytes, bytes] = {}
        self._stale: list[tuple[bytes, int]] = []
        self._state = blake3()
        self._collects = store.table.collects

    def take_many(self, rows: list[ScannedRow]) -> int:
        """Take rows in their order; returns the number of rows so far."""
        first = 0
        while first < len(rows):
            if not self._collects:
                first += self._take_plain(rows, first)
            if first < len(rows):
                self.take(rows[first])
                first += 1
        return self._row_number

    def _take_plain(self, rows: list[ScannedRow], first: int) -> int:
        """Take rows up to one that needs a value outside of its records, or is a redirect; returns how many."""
        names = CAPTURE_FAMILY, *_PLACED
        taken, columns, blobs, named, canonical, stale = docstore_native.sweep_versions(rows, first, names, _RULES)
        positions, timestamps, column_times, placed, identity, bodies, equal_by, flags, *others = columns
        shingle_counts, sketches, state = others
        before = len(self._rows)
        self._rows.frombytes((np.frombuffer(positions, np.int64) + self._row_number).tobytes())
        self._timestamps.frombytes(timestamps)
        self._column_times.frombytes(column_times)
        self._placed.frombytes(placed)
        self._identity += identity
        self._bodies += bodies
        self._equal_by += equal_by
        for column, start in zip((self._good, self._sketched, self._lists, self._duplicate), range(4), strict=True):
            column += flags[start::4]
        self._shingle_counts.frombytes(shingle_counts)
        self._sketches.write(sketches)
        self._state.update(state)
        for blob, (values, lengths) in zip(
            (self._row_keys, self._body_values, self._texts, self._titles), blobs, strict=True
        ):
            blob.extend(values, lengths)
        self._verdicts += [(before + number, row_key, timestamp) for number, row_key, timestamp in named]
        for number, reference in canonical:
            row_key = rows[first + (self._rows[before + number] - self._row_number)].row_key
            self._declare(before + number, row_key, reference)
        self._stale += stale
        self._row_number += taken
        return taken

    def take(self, row: ScannedRow) -> None:
        """Take a row of any shape; of a plain one it gives what `_take_plain` gives."""
        row_key = row.row_key
        captures = list(self._table.row_captures(row.cells))
        previous: tuple[bytes, int] | None = None
        """Body and status class of the previous version, which the next capture may confirm."""
        is_version = False
        later: dict[int, dict[Column, bytes]] = {}
        for cell in row.cells:
            later.setdefault(cell.timestamp, {})[cell[:2]] = cell.value
        first = len(self._rows)
        for live in reversed(captures):
            columns = live.columns
            if capture.BODY not in columns or capture.CHECKSUM not in columns:
                continue
            body = self._fetch(columns[capture.CHECKSUM])
            decoded = partial(self._decoded, row_key, live.timestamp, columns)
            shown = body, status_class(decoded(capture.STATUS, _status, 0))
            verdict = decoded(capture.VERDICT, capture.decode_verdict, None)
            if shown != previous:
                previous = shown
                # Else there is nothing to compare, or the fingerprints have an earlier scheme: run `reindex` first.
                is_version = capture.TEXT_CHECKSUM in columns and not _is_blank(columns, verdict)
                if is_version:
                    self._version(row_key, live.timestamp, columns, body)
            if is_version:
                self._column_times[-1] = max(live.source, self._column_times[-1])
                if verdict is not None and verdict.kind in SAME_PAGE:
                    self._duplicate[-1] = True
                    self._verdicts.append((len(self._rows) - 1, verdict.of_row_key, verdict.of_timestamp))
        live_times = {live.timestamp for live in captures}
        placed = {
            timestamp: cluster_checksum(*(self._value(row_key, timestamp, columns, column) for column in _PLACED))
            for timestamp, columns in later.items()
            if timestamp in live_times and not columns.keys().isdisjoint(_PLACED)
        }
        for number in range(first, len(self._rows)):
            self._placed[number] = placed.get(self._column_times[number], 0)
        self._stale += [(row_key, timestamp) for timestamp in sorted(placed.keys() - set(self._column_times[first:]))]
        if captures:
            self._count_redirect(row_key, captures[0], first)
        self._row_number += 1

    def _version(self, row_key: bytes, timestamp: int, columns: dict[Column, bytes], body: bytes) -> None:
        number = len(self._rows)
        value = partial(self._value, row_key, timestamp, columns)
        decoded = partial(self._decoded, row_key, timestamp, columns)
        sketch, shingle_count = decoded(capture.SKETCH, capture.decode_sketch, (b"", 0))
        title, main = value(capture.TITLE), columns.get(capture.MAIN, b"")
        sketched = len(sketch) == SKETCH_BYTES and sketch[0] == SCHEME_SKETCH_1

        def count_words() -> int:
            is_long = bool(main) and raw_bytes_of(main) > LONG_TEXT_BYTES
            if is_long or (sketched and shingle_count >= MIN_NEAR_WORDS):
                return MIN_NEAR_WORDS
            return len(words(value(capture.MAIN).decode("utf-8", "surrogatepass")))

        good, body, equal_by, identity = equality(
            decoded(capture.STATUS, _status, 0),
            body,
            value(capture.TEXT_CHECKSUM),
            title,
            is_list=capture.ENTRIES in columns,
            count_words=count_words,
        )
        self._row_keys.append(row_key)
        self._body_values.append(columns[capture.BODY])
        self._texts.append(main)
        self._titles.append(title)
        self._lists.append(capture.ENTRIES in columns)
        self._rows.append(self._row_number)
        self._timestamps.append(timestamp)
        self._column_times.append(0)
        self._placed.append(0)
        self._identity += identity
        self._bodies += body
        self._equal_by.append(equal_by)
        self._good.append(good)
        self._sketched.append(sketched)
        self._shingle_counts.append(shingle_count if sketched else 0)
        self._sketches.write(capture.sketch_bins(sketch) if sketched else bytes(BINS))
        self._state.update(len(row_key).to_bytes(4, "big") + row_key + timestamp.to_bytes(8, "big") + identity)
        self._duplicate.append(False)
        self._declare(number, row_key, value(capture.CANONICAL))

    def _declare(self, number: int, row_key: bytes, canonical: bytes) -> None:
        """Note the canonical link of a version."""
        reference = canonical.decode("utf-8", "replace")
        target = target_of(row_key, reference)
        if target is not None and keys.same_site(target, row_key):
            self._declared.append((number, target))

    def _count_redirect(self, row_key: bytes, newest: LiveCapture, first: int) -> None:
        """Note that the URL of a row has moved: its versions, from the first one on, vote for where it leads."""
        decoded = partial(self._decoded, row_key, newest.timestamp, newest.columns)
        headers = partial(decoded, capture.HEADERS, capture.decode_headers, ())
        target = moved_to(row_key, decoded(capture.STATUS, _status, 0), headers)
        if target is None:
            return
        self._redirects[row_key] = target
        while self._declared and self._declared[-1][0] >= first:
            self._declared.pop()
        self._declared += [(number, target) for number in range(first, len(self._rows))]

    def _value(self, row_key: bytes, timestamp: int, columns: dict[Column, bytes], column: Column) -> bytes:
        """A value, or b"" if it is absent or unreadable; an unreadable value is recorded."""
        cell_value = columns.get(column)
        if cell_value is None:
            return b""
        try:
            return self._fetch(cell_value)
        except CorruptionError:  # a compaction may have moved it since the scan
            return self._reader.value(row_key, column, timestamp) or b""

    def _decoded(
        self,
        row_key: bytes,
        timestamp: int,
        columns: dict[Column, bytes],
        column: Column,
        decode: Callable[[bytes], Value],
        default: Value,
    ) -> Value:
        """A value, decoded; the default if it is absent, unreadable, or does not decode, which is recorded."""
        encoded = self._value(row_key, timestamp, columns, column)
        found = (
            self._unreadable.attempt(lambda: decode(encoded), Place(row_key, *column, timestamp)) if encoded else None
        )
        return default if found is None else found

    # --- after all rows are read

    def done(self) -> Versions:
        """All versions, with their references to each other."""
        count = len(self._rows)
        self._sketches.flush()
        sketches = (
            np.memmap(self._sketches, np.uint8, "r+", shape=(count, BINS)) if count else np.empty((0, BINS), "u1")
        )
        versions = Versions(
            self._row_keys,
            np.array(self._rows, np.int64),
            np.array(self._timestamps, np.int64),
            np.array(self._column_times, np.int64),
            np.frombuffer(bytes(self._identity), np.uint64).reshape(-1, 2),
            np.frombuffer(bytes(self._bodies), np.uint64).reshape(-1, 2),
            np.frombuffer(bytes(self._equal_by), np.uint8),
            np.frombuffer(bytes(self._good), np.bool_),
            sketches,
            np.frombuffer(bytes(self._sketched), np.bool_),
            np.array(self._shingle_counts, np.int64),
            self._body_values,
            self._texts,
            self._titles,
            np.frombuffer(bytes(self._lists), np.bool_),
            np.array(self._placed, np.uint64),
            np.empty((0, 2), np.int64),
            np.frombuffer(bytes(self._duplicate), np.bool_),
            np.full(count, -1, np.int64),
            np.zeros(count, np.int64),
            self._stale,
            self._state.digest(16),
            [self._row_keys[number] for number in range(0, count, MARK_VERSIONS)],
        )
        self._resolve(versions)
        return versions

    def _resolve(self, versions: Versions) -> None:
        named = [(number, versions.find(row_key, timestamp)) for number, row_key, timestamp in self._verdicts]
        versions.named = np.array([pair for pair in named if pair[1] >= 0], np.int64).reshape(-1, 2)
        latest = int(versions.timestamps.max()) if len(versions.timestamps) else 0
        for number, target in self._declared:
            end, row_key = self._end_of(target), versions.row_keys[number]
            if end != row_key:
                versions.declared[number] = versions.find(end, latest)
        for source in self._redirects:
            target = self._end_of(source)
            number = versions.find(target, latest)
            if number >= 0:
                versions.redirected[number] += 1

    def _end_of(self, row_key: bytes) -> bytes:
        """The last row of a chain of stored redirects, at most MAX_REDIRECTS long."""
        for _ in range(MAX_REDIRECTS):
            following = self._redirects.get(row_key)
            if following is None:
                break
            row_key = following
        return row_key


def _is_blank(columns: dict[Column, bytes], verdict: StoredVerdict | None) -> bool:
    """Whether a body is blank; if it is not in its cell, the verdict decides."""
    cell_value = columns[capture.BODY]
    if is_ref(cell_value) or is_absent(cell_value):
        return verdict is not None and verdict.reason == REASON_BLANK
    return is_blank(parse_cell_value(cell_value).value)


def anchor_counts(store: DocumentStore, versions: Versions, chosen: Numbers) -> Numbers:
    """How many pages link to each of the chosen versions."""
    counts = np.zeros(len(chosen), np.int64)
    last, count = b"", 0
    for place, number in enumerate(chosen.tolist()):
        row_key = versions.row_keys[number]
        if row_key != last:
            last, count = row_key, sum(1 for _ in store.cells.slices(row_key, families=("anchor",)))
        counts[place] = count
    return counts


# --- the last stage: the cluster of each version, written into its row, in bounded groups
#
# Only differences are written: a killed sweep continues, and a second one writes nothing.  A version without a cluster
# gets columns only if its verdict names a page: the result of the sweep replaces the verdict.

GROUP_CAPTURES = 1000
_NONE: Mapping[Column, bytes | None] = {capture.CLUSTER: None, capture.CANONICAL_PAGE: None}


def write_back(
    store: DocumentStore,
    versions: Versions,
    places: Callable[[int], ClusterPlace | None],
    changed: Container[bytes] | None,
    on_progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write the differences.

    Args:
        store, versions: as read by `read_versions`.
        places: version number -> its cluster; None if it needs no columns.
        changed: rows that were changed since then; None if that is not known.
        on_progress: called with versions written and an upper bound of them.
    Returns:
        Versions whose columns were changed.
    """
    written = 0
    changes = _changes(versions, places)
    while group := list(islice(changes, GROUP_CAPTURES)):
        written += store.cells.set_computed(group, changed)
        if on_progress is not None and len(group) == GROUP_CAPTURES:
            on_progress(written, len(versions.rows))
    return written


def _changes(
    versions: Versions, places: Callable[[int], ClusterPlace | None]
) -> Iterator[tuple[bytes, int, Mapping[Column, bytes | None]]]:
    for row_key, timestamp in versions.stale:
        yield row_key, timestamp, _NONE
    for number, written in enumerate(versions.placed.tolist()):
        place = places(number)
        if (place is None and not written) or versions.column_times[number] < versions.timestamps[number]:
            continue
        row_key, timestamp = versions.row_keys[number], int(versions.column_times[number])
        if place is None:
            yield row_key, timestamp, _NONE
            continue
        columns = _columns(place)
        if cluster_checksum(*columns.values()) != written:
            yield row_key, timestamp, columns


def take_places(store: DocumentStore, places: Iterable[tuple[bytes, int, ClusterPlace | None]]) -> tuple[int, int]:
    """Write the clusters that were made elsewhere; -> versions that were given, and versions that the store has.

    An export does not tell visits from stored captures.  A visit shows the columns of the capture that it confirms, so
    columns of a visit, and a canonical page that is named by the time of a visit, belong to that capture.

    Args:
        store: it need not be as it was when its pages were exported.
        places: row key and time of every version, and its place; None if it is alone.
    """
    values = store.backend.values

    def stored_at(row_key: bytes, timestamp: int) -> int:
        live = store.table.capture_at(row_key, timestamp)
        return timestamp if live is None else live.source or timestamp

    def is_called_duplicate(row_key: bytes, newest: int) -> bool:
        """Whether a verdict of one of the captures of a version names another page."""
        captures = (each for each in store.table.captures(row_key, newest + 1) if each.shows_page)
        for _, version in groupby(captures, lambda each: each.checksum):
            verdicts = (
                values.unreadable.verdict(values.fetch, row_key, each.timestamp, each.columns) for each in version
            )
            return any(verdict is not None and verdict.kind in SAME_PAGE for verdict in verdicts)
        return False

    def changes() -> Iterator[tuple[bytes, int, Mapping[Column, bytes | None]]]:
        for row_key, shown_at, place in places:
            timestamp = stored_at(row_key, shown_at)
            if place is not None:
                place = place._replace(timestamp=stored_at(place.row_key, place.timestamp))
            if place is None and values.read_together(partial(is_called_duplicate, row_key, shown_at)):
                place = ClusterPlace(row_key, timestamp, 1.0)  # it replaces the verdict, as in `sweep.job`
            yield row_key, timestamp, _NONE if place is None else _columns(place)

    given = written = 0
    rest = changes()
    while group := list(islice(rest, GROUP_CAPTURES)):
        given += len(group)
        written += store.cells.set_computed(group)
    return given, written


def _columns(place: ClusterPlace) -> dict[Column, bytes]:
    return {capture.CLUSTER: place.cluster, capture.CANONICAL_PAGE: capture.encode_cluster_place(place)}
