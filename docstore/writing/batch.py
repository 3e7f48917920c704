"""The batch, and the view: what a verdict sees of the store and of the pages that are not committed yet.

`Batch` has the pages that are judged and not committed: their records, postings and anchors.  `View` reads the batch
first, then its caches, then the stored rows.  The caches have committed data alone, and each commit updates them by
key; what look-ups learnt from a batch is dropped with it.  A batch ends as a whole, with `View.committed` or
`View.drop`.  Nothing here decides what a verdict is, and nothing commits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from docstore.dedup.comparable import REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH, TitledPage
from docstore.dedup.detector import Comparison, Detector, StoredPage, StoredPages, Thresholds
from docstore.dedup.index import HashIndex, NewPostings, post_names
from docstore.model.capture import (
    BODY,
    MAIN,
    STORED_BODY,
    STORED_POSTED,
    STORED_REFERENCE,
    Column,
    PagePointer,
    StoredVerdict,
)
from docstore.model.errors import CorruptionError
from docstore.model.format import CAPTURE_FAMILY
from docstore.model.types import Cell, Mutation, Previous, RowMutations, SetCell, VerdictKind
from docstore.reading.index import kernel_of, open_texts
from docstore.storage.bases import LARGEST_BASE_BYTES, Base, BaseRows, StoredValue, base_row, value_name
from docstore.storage.bases import TABLE as BASES
from docstore.storage.cache import LruCache, Memory
from docstore.storage.captures import CaptureRecord, LiveCapture, decode_capture
from docstore.storage.port import Backend, Values
from docstore.storage.table import NONE_PENDING, PAGES, TIMESTAMP_STEP_MICROS, Pending, Table
from docstore.storage.unreadable import Place
from docstore.storage.values import INLINE_TAG, encode_inline, is_ref, raw_bytes_of
from docstore.storage.writes import ANCHOR_FAMILY, Prepared, Write
from docstore.writing.stream import GROUP_BYTES, GROUP_PAGES

PORTION_PAGES = 32
"""Pages of a batch that are judged together.  After them, a long request lets the short ones that wait go first."""
BATCH_ANCHORS = 20_000
"""A batch with so many anchors is committed before its next pages, because they are in memory."""


class Batch:
    """Pages that are judged and not committed.

    Attributes:
        absent: rows of its pages that did not exist before it.
        writes: pages and visits that get a record, in input order.
        rows: the last of `writes` by row key and time.
        pages: what verdicts on later pages need of them.
        postings: of its pages.
        anchors, anchor_count: by row key of the page that is linked to, and their number.
        body_bytes: length of all bodies.
    """

    def __init__(self, absent: set[bytes]) -> None:
        self.absent = absent
        self.writes: list[Write] = []
        self.rows: dict[bytes, dict[int, Write]] = {}
        self.pages: dict[PagePointer, StoredPage] = {}
        self.postings = NewPostings()
        self.anchors: dict[bytes, list[SetCell]] = {}
        self.anchor_count = self.body_bytes = 0
        self._records: dict[int, CaptureRecord] = {}
        """Whole records that were asked for, by `id` of the page: few, because each has copies of body and text."""

    def records(self, row_key: bytes) -> Pending:
        """Its records in a row."""
        writes = self.rows.get(row_key)
        return NONE_PENDING if writes is None else {at: self.record(write) for at, write in writes.items()}

    def record(self, write: Write) -> CaptureRecord:
        """The record of a page, with body and text."""
        key = id(write)
        if key not in self._records:
            self._records[key] = write.whole_record()
        return self._records[key]

    @property
    def is_full(self) -> bool:
        """Whether it has to be committed before its next pages."""
        return len(self.writes) >= GROUP_PAGES or self.body_bytes >= GROUP_BYTES or self.anchor_count >= BATCH_ANCHORS


ROW_BYTES = 1600
"""Memory of a cached page without its cell values, roughly."""
BASE_ROW_BYTES = 128
"""Memory of a cached row of a base.  Most pages of a template are deltas against the same base."""


class Bases:
    """Reads and caches the committed values that deltas are made against.  Not thread-safe: the sequencer owns it.

    Args:
        values: reads values.
        rows: of bases.
        memory: for rows of bases, and for the bodies and texts themselves: most pages resemble recent ones.
        caches: cache the rows too.  Then `follow` must be called after each commit.
    """

    def __init__(self, values: Values, rows: BaseRows, memory: Memory, *, caches: bool) -> None:
        self._values = values
        self._stored = rows
        self._rows: LruCache[bytes, bytes] = memory.cache("rows of bases", lambda row: BASE_ROW_BYTES, holds=caches)
        """Cell value of a base by name; b"" if there was no such row when the value was read."""
        self._bases: LruCache[bytes, Base] = memory.cache("bases", lambda base: len(base.raw))
        """By the cell value of a body or text: the base to use for a similar page.  `_rows` has the row of each, unless
        this object stored the value itself."""
        self._new: dict[bytes, Base] = {}
        self._new_rows: dict[bytes, bytes] = {}
        """What `new_rows` prepared for the next commit: entries of `_bases` and of `_rows`."""

    def base_for(self, cell_value: bytes, column: Column, pointer: PagePointer) -> Base | None:
        """The base for a new value that resembles a stored one: the stored value, or its own base if it is a delta.

        None if the stored value is too small or too large for a base, or cannot be read.

        Args:
            cell_value: of the stored value.
            column, pointer: of the stored value.
        """
        cached = self._bases.get(cell_value)
        if cached is not None:
            return cached
        if not is_ref(cell_value) or raw_bytes_of(cell_value) > LARGEST_BASE_BYTES:
            return None
        place = Place(pointer.row_key, *column, pointer.timestamp)
        base = self._values.unreadable.attempt(lambda: self._read(cell_value, pointer), place)
        if base is not None:
            self._bases.put(cell_value, base)
        return base

    def _read(self, cell_value: bytes, pointer: PagePointer) -> Base | None:
        raw, name = self._values.fetch_or_base(cell_value)
        if not name:
            name = value_name(raw)
            self._row(name)
            return Base(name, raw, cell_value, pointer)
        inner = self._row(name)
        if not inner or raw_bytes_of(inner) > LARGEST_BASE_BYTES:
            return None
        return Base(name, self._values.fetch(inner), inner, pointer)

    def _row(self, name: bytes) -> bytes:
        """Cell value of a base; b"" if it has no row yet."""
        cell_value = self._rows.get(name)
        if cell_value is None:
            cell_value = self._stored.cell_value(name) or b""
            self._rows.put(name, cell_value)
        return cell_value

    def is_usable(self, name: bytes, cell_value: bytes) -> bool:
        """Whether a value may become a delta against a base, or share its record.

        False while compaction frees the base, and if the record that its row names cannot be read.

        Args:
            name: of the base.
            cell_value: its own; b"" if it is not stored yet.
        """
        if name in self._stored.retired:
            return False
        known = self._rows.get(name)
        if not known or known == cell_value:
            return True
        return self._values.unreadable.attempt(lambda: self._verified(known)) is not None

    def _verified(self, value: bytes) -> bool:
        self._values.verify(value)
        return True

    def new_rows(self, stored: Iterable[StoredValue]) -> list[RowMutations]:
        """The rows of bases to write with the next commit: of each base that a value needs and that may have no row.

        The stored row is not read: it may name any record with the bytes of the base, so it may be written again.

        Args:
            stored: the values of the next commit.  Later values may be deltas against them.
        """
        self._new = {value.cell_value: value.base for value in stored if value.base is not None}
        needed = [value.base for value in stored if value.base is not None and value.needs_base]
        self._new_rows = {base.name: base.cell_value for base in needed if not self._rows.get(base.name)}
        return [base_row(name, cell_value) for name, cell_value in self._new_rows.items()]

    def follow(self, rows: Sequence[RowMutations], is_sure: bool) -> None:
        """After a commit: update the cached rows; see `Committer.followers`."""
        changed = {row.row_key for row in rows if row.table == BASES}
        if not is_sure or changed - self._new_rows.keys():
            self.clear()  # compaction may have moved or freed bases
        else:
            for name in changed:
                self._rows.put(name, self._new_rows[name])
            for cell_value, base in self._new.items():
                self._bases.put(cell_value, base)
        self._new, self._new_rows = {}, {}

    def clear(self) -> None:
        """Clear the caches: another writer may have committed."""
        self._rows.clear()
        self._bases.clear()


WINDOW_MICROS = 1000 * TIMESTAMP_STEP_MICROS
"""Range of times that is read at once."""
MAX_CACHED_ROWS = 16


class TakenTimes:
    """A cache of runs of taken milliseconds, for a few rows; the caller verifies each answer."""

    def __init__(self) -> None:
        self._runs: LruCache[bytes, _TakenRun] = LruCache(MAX_CACHED_ROWS)

    def next(
        self,
        row_key: bytes,
        timestamp: int,
        checksum: bytes,
        records: Callable[[int, int], Iterable[CaptureRecord]],
    ) -> int:
        """The first time, from this one on, that is free or has this checksum.

        Args:
            row_key: of the row.
            timestamp: see above.
            checksum: of a body.
            records: gives the capture records of the row in a range of time.
        """
        run = self._runs.get(row_key)
        if run is None or not run.start <= timestamp <= run.end + TIMESTAMP_STEP_MICROS:
            run = _TakenRun(timestamp)
        if timestamp > run.end or not run.is_read:
            run.extend(records)
        self._runs.put(row_key, run)
        same = run.at.get(checksum, [])
        return min([run.end, *same[(place := bisect_left(same, timestamp)) : place + 1]])

    def follow(self, row_key: bytes, mutations: Iterable[Mutation], is_sure: bool) -> None:
        """A commit has changed the captures of a row; see `Committer.followers`."""
        run = self._runs.get(row_key)
        for cell in () if run is None else mutations:
            if not isinstance(cell, SetCell):
                self._runs.drop(row_key)
            elif run is not None and cell.family == CAPTURE_FAMILY and cell.timestamp >= run.end:
                if is_sure and cell.timestamp == run.end:
                    run.add(decode_capture(cell.timestamp, cell.value).checksum)
                else:
                    self._runs.drop(row_key)


class _TakenRun:
    """The taken times ``start <= time < end``, by checksum, ascending; `end` is free."""

    __slots__ = ("at", "end", "is_read", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.at: dict[bytes, list[int]] = {}
        self.is_read = False

    def add(self, checksum: bytes) -> None:
        self.at.setdefault(checksum, []).append(self.end)
        self.end += TIMESTAMP_STEP_MICROS

    def extend(self, records: Callable[[int, int], Iterable[CaptureRecord]]) -> None:
        """Extend the run to the first free time."""
        self.is_read = True
        while True:
            window = self.end, self.end + WINDOW_MICROS
            captures = {record.timestamp: record.checksum for record in records(*window)}
            for _ in range(WINDOW_MICROS // TIMESTAMP_STEP_MICROS):
                if self.end not in captures:
                    return
                self.add(captures[self.end])


class View(StoredPages):
    """What verdicts see: the batch, then the caches, then the stored rows.  Not thread-safe: the sequencer owns it.

    Attributes:
        batch: that is being judged.
        kernel: that pages are analysed with.
        index, detector, bases: over this view.
        now: gives the time.
        memory: of the store.

    Args:
        backend: the backend.
        table: of pages.
        now: gives the time, in microseconds since 1970.
        caches: cache committed data.  Then `follow` must be called after each commit, or `clear` before each batch.
    """

    _table: Table

    def __init__(self, backend: Backend, table: Table, now: Callable[[], int], *, caches: bool) -> None:
        super().__init__(table, backend.values)
        self.now = now
        self.memory = backend.memory
        self.kernel = kernel_of(backend)
        self.index = HashIndex(backend.engine, open_texts(backend, table), backend.memory if caches else None)
        self.bases = Bases(backend.values, backend.base_rows, backend.memory, caches=caches)
        schema = backend.schema
        thresholds = Thresholds.of(schema)
        self.detector = Detector(
            self.index, self.kernel, self, thresholds, title_rule=schema.title_rule, memory=backend.memory
        )
        self.batch = Batch(set())
        self._times: TakenTimes | None = None  # made when needed: few rows have long runs of taken times
        self._caches = caches
        self._engine = backend.engine
        self._collects = table.collects_captures or table.collects_bodies  # then a policy may hide captures
        self._rows: LruCache[bytes, dict[int, StoredPage]] = backend.memory.cache(
            "pages",
            lambda row: sum([ROW_BYTES + sum(map(len, page.columns.values())) for page in row.values()]),
            holds=caches and not table.ages_captures,
        )
        """Committed pages of recent rows, by time.  Filled only under the commit lock, so that no commit comes between
        a read and its fill."""

    # --- pages of other rows, for the detector

    @property
    def postings(self) -> NewPostings:  # type: ignore[override]
        """Of the batch."""
        return self.batch.postings

    def compare(self, page: Prepared) -> Comparison:
        """The verdict on a page against other rows; see `Detector.compare`."""
        return self.detector.compare(page.row_key, page.page.body, page.analysis, status=page.page.status)

    def page(self, pointer: PagePointer) -> StoredPage | None:
        """See `StoredPages`; a page of the batch is live if it will be once the batch is committed."""
        pending = self.batch.rows.get(pointer.row_key)
        if pending is not None and (self._collects or pointer.timestamp in pending):
            page = None if self._collects else self.batch.pages.get(pointer)
            return super().page(pointer) if page is None else page
        versions = self._rows.get(pointer.row_key)
        page = None if versions is None else versions.get(pointer.timestamp)
        if page is None and (page := super().page(pointer)) is not None:
            self._rows.put(pointer.row_key, (versions or {}) | {pointer.timestamp: page})
        return page

    def capture(self, pointer: PagePointer) -> LiveCapture | None:
        """See `StoredPages`."""
        found = self._table.capture_at(pointer.row_key, pointer.timestamp, self.batch.records(pointer.row_key))
        return found if found is not None and found.shows_page else None

    def newest(self, row_key: bytes) -> LiveCapture | None:
        """See `StoredPages`."""
        return self._table.newest_capture(row_key, None, self.batch.records(row_key))

    def titled(self, pointer: PagePointer) -> TitledPage:
        """Its title and text as words, cached: many pages are compared with the same page of a template."""
        page = self.page(pointer)
        if page is None:
            return super().titled(pointer)
        if page.titled is None:
            page.titled = super().titled(pointer)
        return page.titled

    def is_readable(self, pointer: PagePointer) -> bool:
        """Whether its body can be read."""
        if pointer in self.batch.pages:
            return True
        cell_value = self.cell_value(pointer, BODY)
        if cell_value is not None and not is_ref(cell_value):
            return True
        if cell_value is not None and self._caches and self.bases.base_for(cell_value, BODY, pointer) is not None:
            return True  # and cached for the next delta
        return self.body(pointer) is not None

    def cell_value(self, pointer: PagePointer, column: Column) -> bytes | None:
        """See `StoredPages`; a page of the batch has its values in their cells."""
        page = self.page(pointer)
        if page is None:
            return None
        if column in (BODY, MAIN) and not self._collects and pointer in self.batch.pages:
            return self.batch.record(self.batch.rows[pointer.row_key][pointer.timestamp]).columns.get(column)
        return page.columns.get(column)

    def _column(self, pointer: PagePointer, column: Column) -> bytes | None:
        cell_value = self.cell_value(pointer, column) or INLINE_TAG
        if cell_value[:1] == INLINE_TAG:  # nearly all titles, and all values of the batch
            return cell_value[1:]
        value = super()._column(pointer, column)
        if value is None:
            self._rows.drop(pointer.row_key)
        return value

    # --- the row that a page goes into

    def record(self, row_key: bytes, timestamp: int) -> CaptureRecord | None:
        """The capture record of a row at a time, hidden by a policy or not: a write at that time replaces it."""
        pending = self.batch.records(row_key)
        if not pending and row_key in self.batch.absent:
            return None
        return self._table.record(row_key, timestamp, pending)

    def newest_before(self, row_key: bytes, timestamp: int) -> LiveCapture | None:
        """The newest live page of a row before a time."""
        pending = self.batch.records(row_key)
        if not pending and row_key in self.batch.absent:
            return None
        return self._table.newest_capture(row_key, timestamp, pending)

    def next_time(self, row_key: bytes, timestamp: int, checksum: bytes) -> int:
        """The first time, from this one on, that is free or has this checksum; the caller verifies it."""
        pending = self.batch.records(row_key)
        if self._times is None:
            self._times = TakenTimes()
        return self._times.next(
            row_key, timestamp, checksum, lambda start, end: self._table.records(row_key, start, end, pending)
        )

    def verdict_of(self, row_key: bytes, capture: CaptureRecord | LiveCapture) -> StoredVerdict | None:
        """The verdict of a capture; None if it has none or cannot be read."""
        return self._values.unreadable.verdict(self._values.fetch, row_key, capture.timestamp, capture.columns)

    def is_damaged(self, row_key: bytes, capture: CaptureRecord | LiveCapture) -> bool:
        """Whether a value of a capture cannot be read; each such value is listed."""
        is_damaged = False
        if isinstance(capture, CaptureRecord) and capture.confirms:  # a visit shows another record's values
            source = self.record(row_key, capture.confirms)
            is_damaged = source is not None and self.is_damaged(row_key, source)
        for column, value in capture.refs:
            try:
                self._values.verify(value)
            except CorruptionError as error:
                self._values.unreadable.record(error, Place(row_key, *column, capture.timestamp))
                is_damaged = True
        return is_damaged

    def has_anchor(self, target: bytes, source: bytes, timestamp: int, text: bytes) -> bool:
        """Whether the newest anchor from a page to another has this text, and is not newer than this time.

        Of two anchors with the same time, the later one of the batch counts.
        """
        newest: Cell | SetCell | None = self._table.newest(target, ANCHOR_FAMILY, source)
        for cell in self.batch.anchors.get(target, ()):
            if cell.qualifier == source and (newest is None or cell.timestamp >= newest.timestamp):
                newest = cell
        return newest is not None and newest.timestamp <= timestamp and newest.value == encode_inline(text)

    # --- the batch

    def read_ahead(self, pages: Sequence[Prepared]) -> None:
        """Read for the next pages of the batch, in few calls, the rows that every verdict reads first."""
        if self._engine.caps.single_writer:
            row_keys = [page.row_key for page in pages if not page.error]
            self.batch.absent |= self._engine.absent_rows(PAGES, row_keys)
        self.index.prepare(page.analysis for page in pages if not (page.error or page.is_visit))

    def add(self, write: Write) -> None:
        """Add a page to the batch: later pages see its record, and are judged against it if it stores its text."""
        batch, record, prepared, pointer = self.batch, write.record, write.prepared, write.pointer
        if write.anchors:
            source = prepared.url.encode()
            for anchor in write.anchors:
                cell = SetCell(ANCHOR_FAMILY, source, pointer.timestamp, encode_inline(anchor.text))
                batch.anchors.setdefault(anchor.row_key, []).append(cell)
            batch.anchor_count += len(write.anchors)
        if record is None:
            return
        page, analysis = prepared.page, prepared.analysis
        batch.writes.append(write)
        batch.rows.setdefault(pointer.row_key, {})[pointer.timestamp] = write
        batch.body_bytes += len(page.body)
        if write.verdict.stored in STORED_POSTED and page.body:
            self.index.add(batch.postings, pointer, analysis, status=page.status)
            fingerprints = analysis.body_checksum, analysis.text_checksum, analysis.sketch, analysis.shingle_count
            batch.pages[pointer] = StoredPage(*fingerprints, page.status, bool(analysis.entries), record.columns)

    def posting_rows(self) -> list[RowMutations]:
        """The rows of the index that the batch writes; verdicts need none of the names that are posted here."""
        for write in self.batch.writes:
            page = write.prepared.page
            if page.payload_digest or page.docno:
                post_names(self.batch.postings, write.pointer, page.payload_digest, page.docno)
        return self.index.mutations(self.batch.postings)

    def committed(self, columns: Mapping[PagePointer, Mapping[Column, bytes]]) -> None:
        """The batch is committed: cache its pages, and begin the next one.

        Args:
            columns: cell values of each record, as they were written.
        """
        batch, self.batch = self.batch, Batch(set())
        if not self._caches or self._collects:  # a policy may hide a late capture as soon as it is written
            return
        for pointer, page in batch.pages.items():
            page.columns = columns[pointer]
            self._rows.put(pointer.row_key, {pointer.timestamp: page})

    def drop(self) -> None:
        """Drop the batch, whose commit failed, or whose outcome is not known."""
        self.batch = Batch(set())
        self._times = None
        self.index.clear()

    def clear(self) -> None:
        """Clear the caches: other processes may have written."""
        self.drop()
        self._rows.clear()
        self.bases.clear()

    def follow(self, rows: Sequence[RowMutations], is_sure: bool) -> None:
        """After a commit: update the caches by key; see `Committer.followers`."""
        self.index.follow(rows, is_sure)
        self.bases.follow(rows, is_sure)
        absent = self.batch.absent
        for table, row_key, mutations in rows:
            if table != PAGES:
                continue
            if CAPTURE_FAMILY not in {getattr(mutation, "family", CAPTURE_FAMILY) for mutation in mutations}:
                continue  # a delete of the whole row names no family
            absent.discard(row_key)
            if row_key in self._rows:
                self._rows.drop(row_key)
            if self._times is not None:
                self._times.follow(row_key, mutations, is_sure)


COUNTED_REASONS = frozenset({REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH})
"""Reasons that make a verdict less sure; the other reasons say why there is no verdict."""


def counts_of_writes(writes: Sequence[Write]) -> Counter[str]:
    """What pages and visits of a batch add to the totals of a store."""
    pages = [(write.verdict, len(write.prepared.page.body)) for write in writes if not write.prepared.is_visit]
    return counts_of(pages, sum(write.prepared.is_visit for write in writes))


def counts_of(captures: Iterable[tuple[StoredVerdict, int]], visits: int = 0) -> Counter[str]:
    """What captures and visits without a body (304) add to the totals of a store.

    Names: `captures`, `visits`, `urls`, `body_bytes`, `crowded`, `doubtful_text`, `title_mismatch`, `verdict.KIND`,
    `previous.KIND`, `stored.KIND`.  Deletes subtract the same.  GC policies do not lower the totals until a compaction
    counts what is live (`maintenance.live_pages`).

    Args:
        captures: verdict and length of the body in bytes of each.
        visits: number of visits without a body.
    """
    combinations: Counter[tuple[VerdictKind, Previous, str]] = Counter()
    counts: Counter[str] = Counter()
    if visits:
        counts["visits"] = visits
    for verdict, body_bytes in captures:
        combinations[verdict.kind, verdict.previous, verdict.stored] += 1
        if verdict.reason in COUNTED_REASONS:
            counts[verdict.reason] += 1
        if verdict.stored in (STORED_BODY, STORED_REFERENCE):
            counts["body_bytes"] += body_bytes
    for (kind, previous, stored), number in combinations.items():
        names = ["captures", f"verdict.{kind}", f"previous.{previous}", f"stored.{stored}"]
        if previous is Previous.NONE:
            names.append("urls")
        counts.update(dict.fromkeys(names, number))
    return counts
