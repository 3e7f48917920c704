"""The batch: pages that have a verdict and are not committed yet, and how later pages see them.

`Batch` holds the pages, rows, postings and anchors in flight.  It ends as one object, with the commit or a drop; like
LevelDB's memtable, each read consults it first.  `GroupPages` is how the detector sees pages: the batch, then the cache
of committed pages, then the rows.  `Bases` reads the values that deltas are made against.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from docstore.dedup.buckets import NewPostings
from docstore.dedup.comparable import REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH, TitledPage
from docstore.dedup.detector import StoredPage, StoredPages
from docstore.model.capture import BODY, STORED_BODY, STORED_REFERENCE, TITLE, Column, StoredVerdict
from docstore.model.format import CAPTURE_FAMILY, CAPTURE_REJECTED, CAPTURE_STORED
from docstore.model.pointers import PagePointer
from docstore.model.types import Mutation, Previous, RowMutations, SetCell, VerdictKind
from docstore.storage.bases import LARGEST_BASE_BYTES, Base, BaseRows, NewPage, value_name
from docstore.storage.cache import LruCache
from docstore.storage.captures import CaptureRecord, LiveCapture
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Values
from docstore.storage.table import Table
from docstore.storage.unreadable import Place
from docstore.storage.values import INLINE_TAG, is_absent, is_ref, raw_bytes_of
from docstore.writing.prepare import Prepared

PAGES = "pages"
"""Table of pages."""


class Write:
    """A page that is being written, from its verdict to its answer.

    Attributes:
        page: the prepared page.
        timestamp: of its capture, in microseconds: the first free time from the page's own time on.
        verdict: for its record and its caller.
        kind: of its record, one of the CAPTURE_ kinds.
        is_stored: it gets a record; else it is stored already, or refused.
        says: its anchors are stored.
        error: why it is refused; else "".
        known_as: how the same capture was stored before; else "".
        contains: the page that its verdict says it contains.
        relative: the nearest page of another row: a base for its body and text.
        previous: the page of its own row before it; for a visit, the page that it confirms.
        is_damaged: its row has the same bytes but they cannot be read, so it is stored whole.
        rewrites: it replaces the record that its row has at its time.
        commit_order: of its row in the plan: after the pages of the plan that its verdict needs.
        seen: what verdicts on later pages need; None if no page is judged against it.
        columns: cell values of its record, as far as they are known.
        long: values of its record that are not stored yet, except body and text.
        new: its values on their way into records, and what the body and text of a similar page can be deltas against;
            None until its batch is committed.
        body_name: see `CaptureRecord`.
        arrived: when it was written, in microseconds.
    """

    __slots__ = (
        "arrived", "body_name", "columns", "commit_order", "contains", "error", "is_damaged", "is_stored", "kind",
        "known_as", "long", "new", "page", "pointer", "previous", "relative", "rewrites", "says", "seen", "timestamp",
        "verdict",
    )  # fmt: skip

    def __init__(self, page: Prepared, timestamp: int, verdict: StoredVerdict, *, error: str = "") -> None:
        self.page = page
        self.timestamp = timestamp
        self.pointer = PagePointer(timestamp, page.row_key)
        self.verdict = verdict
        self.error = error
        self.known_as = ""
        self.kind = CAPTURE_STORED
        self.is_stored = self.says = self.is_damaged = self.rewrites = False
        self.contains: PagePointer | None = None
        self.relative: PagePointer | None = None
        self.previous: LiveCapture | None = None
        self.commit_order = 0
        self.seen: StoredPage | None = None
        self.columns: dict[Column, bytes] = {}
        self.long: dict[Column, bytes] = {}
        self.new: NewPage | None = None
        self.body_name = b""
        self.arrived = 0

    def row(self) -> RowMutations:
        """Its mutation; all values must be stored."""
        confirms = 0
        if self.kind != CAPTURE_STORED and self.previous is not None:
            confirms = self.previous.source if self.kind != CAPTURE_REJECTED else 0
        record = CaptureRecord(self.timestamp, self.kind, self.columns, self.arrived, confirms, self.body_name)
        return RowMutations(PAGES, self.page.row_key, [SetCell(CAPTURE_FAMILY, b"", self.timestamp, record.encode())])


class Batch:
    """Pages in flight, and everything that their commit writes.

    Attributes:
        plan: rows by stage.
        postings: of its pages.
        writes: pages and visits with a record, in input order.
        rows: keys of the rows of `writes`.
        pages: the writes that later pages are judged against.
        surely_visible: captures that no policy can hide once they are committed.
        anchors, anchor_count: anchors of its pages, by target row, and their number.
        base_rows: rows of new bases, by name.
    """

    def __init__(self) -> None:
        self.plan = Plan()
        self.postings = NewPostings()
        self.writes: list[Write] = []
        self.rows: set[bytes] = set()
        self.pages: dict[PagePointer, Write] = {}
        self.surely_visible: set[PagePointer] = set()
        self.anchors: dict[bytes, list[Mutation]] = {}
        self.anchor_count = 0
        self.base_rows: dict[bytes, bytes] = {}


ROWS_BYTES = 24 << 20
"""Some 16,000 pages: nearly every candidate is one of the last pages of the same site."""
ROW_BYTES = 600
"""Memory of a cached page without its cell values, roughly."""


MAX_CACHED_BASE_ROWS = 16_384
"""About 2 MB: most pages of a template are deltas against the same base."""
BASES_BYTES = 48 << 20
"""Of cached bodies and texts: most pages resemble recent ones."""


class Bases:
    """Reads values that deltas are made against.  Not thread-safe: the sequencer owns it.

    Args:
        values: reads values.
        rows: of bases.
        caches: cache these rows too.  The caller must then call `forget` after each commit of another writer.
    """

    def __init__(self, values: Values, rows: BaseRows, *, caches: bool) -> None:
        self._values = values
        self._stored = rows
        self._rows: LruCache[bytes, bytes] = LruCache(MAX_CACHED_BASE_ROWS if caches else 0)
        """Cell value of a base by name; b"" if there was no such row when the value was read."""
        self._bases: LruCache[bytes, Base] = LruCache(BASES_BYTES, lambda base: len(base.raw))
        """By the cell value of a body or text: the base to use for a similar page.  `_rows` has the row of each, as far
        as it was stored before this object stored the value itself."""

    def at(self, cell_value: bytes, column: Column, pointer: PagePointer) -> Base | None:
        """The base to use for a value that resembles a stored one: that value, or its base if it is a delta.

        None if the stored value is too small or too large for a base, or cannot be read.

        Args:
            cell_value: cell value of the stored one.
            column, pointer: its column and page.
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
        raw, name = self._values.fetch_with_base(cell_value)
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
            cell_value = self._stored.value_of_likely_absent(name) or b""
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

    def use(self, base: Base, batch: Batch) -> None:
        """Write the row of a base, unless it is known to have one: a value of the batch needs it.

        The stored row is not read: any record with the bytes of the base may stand in it.
        """
        if base.name not in batch.base_rows and not self._rows.get(base.name):
            batch.base_rows[base.name] = base.cell_value
            batch.plan.write(Stage.BASES, [self._stored.row(base.name, base.cell_value)])

    def follow(self, batch: Batch, *, caches_pages: bool) -> None:
        """Cache the base rows of a committed batch, and the bases of its pages."""
        for name, cell_value in batch.base_rows.items():
            self._rows.put(name, cell_value)
        for write in batch.pages.values() if caches_pages else ():
            for column, base in write.new.bases.items() if write.new is not None else ():
                if write.columns[column] not in self._bases:
                    self._bases.put(write.columns[column], base)

    def forget(self) -> None:
        """Clear the caches: another writer may have committed."""
        self._rows.clear()
        self._bases.clear()


RowState = tuple[CaptureRecord | None, LiveCapture | None]
"""A row at a time: its record with exactly this time, hidden by a policy or not; and its newest live page before it."""


class GroupPages(StoredPages):
    """Pages for the detector, pages in flight included.  Not thread-safe: the sequencer owns it.

    Attributes:
        batch: in flight.
        visibility_unknown: a verdict needed a capture of this batch that a policy may hide: only the commit tells.
        gc_may_drop: whether a policy may hide captures at all.
        commit_order: for the page that is being judged: after all pages in flight read since this was set to 0.

    Args:
        table: of pages.
        values: reads values.
        bases: of deltas.
        caches: cache recent live pages, unless a policy hides pages by age.  `follow` must be told of each commit.
        is_alone: no other process writes; else the rows of a group are prefetched.
    """

    def __init__(self, table: Table, values: Values, bases: Bases, *, caches: bool, is_alone: bool) -> None:
        super().__init__(table, values)
        self._bases = bases
        self.begin()
        self.commit_order = 0
        self._absent: set[bytes] = set()
        """Rows of the group that do not exist."""
        self.gc_may_drop = table.collects_captures or table.collects_bodies
        self._is_alone = is_alone
        self._caches = caches
        cached_bytes = ROWS_BYTES if caches and not table.ages_captures else 0
        self._rows: LruCache[bytes, dict[int, StoredPage]] = LruCache(
            cached_bytes, lambda row: sum([ROW_BYTES + sum(map(len, page.columns.values())) for page in row.values()])
        )
        """Recent rows: live pages by time.  Filled only under the commit lock, so that no commit comes between a read
        and its fill."""
        self._caches_writes = caches and not self.gc_may_drop
        """With GC, a capture older than the stored ones may be hidden as soon as it is written."""

    # --- for the detector

    def page(self, pointer: PagePointer) -> StoredPage | None:
        """See `StoredPages`; None, and `visibility_unknown` is set, if a policy may hide it at the commit."""
        batch = self.batch
        if self.gc_may_drop and pointer.row_key in batch.rows and pointer not in batch.surely_visible:
            self.visibility_unknown = True
            return None
        pending = batch.pages.get(pointer)
        if pending is not None:
            if self.commit_order <= pending.commit_order:
                self.commit_order = pending.commit_order + 1
            return pending.seen
        return self._committed(pointer)

    def _committed(self, pointer: PagePointer) -> StoredPage | None:
        """A committed page, from the cache or the row."""
        versions = self._rows.get(pointer.row_key)
        page = None if versions is None else versions.get(pointer.timestamp)
        if page is None and (page := super().page(pointer)) is not None:
            self._rows.put(pointer.row_key, (versions or {}) | {pointer.timestamp: page})
        return page

    def titled(self, pointer: PagePointer) -> TitledPage:
        """Its title and text as words, cached: many pages are compared with the same page of a template."""
        pending = self.batch.pages.get(pointer)
        page = self._committed(pointer) if pending is None else pending.seen
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
        if cell_value is not None and self._caches and self._bases.at(cell_value, BODY, pointer) is not None:
            return True  # and cached for the next delta
        return self.body(pointer) is not None

    def keeps_body(self, pointer: PagePointer) -> bool:
        """Whether the body of a committed page was kept."""
        cell_value = self.cell_value(pointer, BODY)
        return cell_value is not None and not is_absent(cell_value)

    # --- the row that a page goes into

    def prepare(self, row_keys: Sequence[bytes]) -> None:
        """Find out in one read which rows of the group do not exist yet: in a crawl, most of them."""
        self._absent = self._table.absent_rows(row_keys) if self._is_alone and row_keys else set()

    def is_absent(self, row_key: bytes) -> bool:
        """Whether `prepare` found that a row does not exist."""
        return row_key in self._absent

    def history_at(self, row_key: bytes, timestamp: int) -> RowState:
        """The state of a row at a time.

        REQUIRES: the row is not in flight.
        """
        if row_key in self._absent:
            return None, None
        # Hidden records count: a write at their time would replace them.
        return self._table.record(row_key, timestamp), self._table.newest_capture(row_key, timestamp)

    # --- for storing values

    def base(self, pointer: PagePointer, column: Column = BODY) -> Base | NewPage | None:
        """The base for the body or text of a similar page, see `Bases.at`; of a page of the batch, that page.

        None if the page is gone, or if each value is stored in its own cell.
        """
        if not self._values.shares_values:
            return None
        pending = self.batch.pages.get(pointer)
        if pending is not None:
            return pending.new
        cell_value = self.cell_value(pointer, column)
        return None if cell_value is None else self._bases.at(cell_value, column, pointer)

    def cell_value(self, pointer: PagePointer, column: Column) -> bytes | None:
        """Cell value of a committed page; None if it has none."""
        page = self._committed(pointer)
        return None if page is None else page.columns.get(column)

    def _column(self, pointer: PagePointer, column: Column) -> bytes | None:
        pending = self.batch.pages.get(pointer)
        if pending is not None:
            raw = pending.page.page.body if column == BODY else pending.page.analysed.main_bytes
            return raw if column != TITLE else pending.page.analysed.title.encode("utf-8", "surrogatepass")
        cell_value = self.cell_value(pointer, column) or INLINE_TAG
        if cell_value[:1] == INLINE_TAG:  # nearly all titles
            return cell_value[1:]
        value = super()._column(pointer, column)
        if value is None:
            self._rows.drop(pointer.row_key)
        return value

    # --- the batch

    def add(self, write: Write) -> None:
        """Add a page or visit to the batch; later pages are judged against it if `seen` is set."""
        batch, pointer = self.batch, write.pointer
        batch.writes.append(write)
        batch.rows.add(pointer.row_key)
        if write.seen is not None:
            batch.pages[pointer] = write
            if self.gc_may_drop and self._table.keeps_newest(pointer.row_key, pointer.timestamp):
                batch.surely_visible.add(pointer)

    def begin(self) -> None:
        """Begin a new batch: the last one is committed, or dropped here.  Unreadable values are tried again."""
        self.batch = Batch()
        self.postings = self.batch.postings
        self.visibility_unknown = False
        self._unusable.clear()

    def follow(self, plan: Plan, known: bool) -> None:
        """After a commit: drop the cached rows that it changed, and cache what the batch wrote; see
        `Committer.followers`."""
        batch = self.batch
        for row in plan.changed(Stage.PAGES):
            self._absent.discard(row.row_key)
            if row.row_key in self._rows:
                self._rows.drop(row.row_key)
        if plan is not batch.plan:
            self._bases.forget()  # another commit may have moved or freed bases
        if plan is not batch.plan or not known:
            return
        self._bases.follow(batch, caches_pages=self._caches_writes)
        for pointer, write in batch.pages.items() if self._caches_writes else ():
            assert write.seen is not None
            write.seen.columns = write.columns
            self._rows.put(pointer.row_key, {pointer.timestamp: write.seen})

    def clear(self) -> None:
        """Drop the cache: if other processes write, it is valid for one group of pages."""
        self._rows.clear()


COUNTED_REASONS = frozenset({REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH})
"""Reasons that make a verdict less sure; the other reasons say why there is no verdict."""


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
