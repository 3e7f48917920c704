"""Live pages as verdicts see them: those of the batch, over a cache, over the stored rows.

    Batch       pages that are judged and not committed
    LivePages   reads a page from the batch, else from its cache, else from the rows; a reader of committed pages has an
                empty batch and no cache
    Bases       reads and caches the stored values that deltas are made against

The caches have committed data alone, and each commit updates them by key.  Nothing here compares pages, decides a
verdict or commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from docstore.dedup.comparable import TitledPage, bodies_compare
from docstore.dedup.index import NewPostings
from docstore.model.capture import (
    BODY,
    CHECKSUM,
    ENTRIES,
    MAIN,
    SKETCH,
    STATUS,
    TEXT_CHECKSUM,
    TITLE,
    Column,
    PagePointer,
    decode_sketch,
)
from docstore.model.types import RowMutations, SetCell
from docstore.storage.bases import LARGEST_BASE_BYTES, Base, BaseRows, StoredValue, base_row, value_name
from docstore.storage.bases import TABLE as BASES
from docstore.storage.cache import LruCache, Memory
from docstore.storage.captures import CaptureRecord, LiveCapture
from docstore.storage.port import Values
from docstore.storage.table import NONE_PENDING, CaptureRows, Pending
from docstore.storage.unreadable import Place
from docstore.storage.values import INLINE_TAG, is_ref, raw_bytes_of
from docstore.storage.writes import Write

ROW_BYTES = 1600
"""Memory of a cached page without its cell values, roughly."""
BASE_ROW_BYTES = 128
"""Memory of a cached row of a base.  Most pages of a template are deltas against the same base."""


@dataclass(eq=False, slots=True)
class StoredPage:
    """What verdicts need of a page: of one that is stored, or of an earlier one of the batch.

    Attributes:
        checksum: of its body.
        text_checksum: of its text, or b"".
        sketch: of its text, or b"".
        shingle_count: distinct shingles of its text.
        status: HTTP status.
        is_list: it is a feed or site map, which is compared only with lists (see `comparable`).
        columns: cell values of its record; for a page of the batch without its body and text.
        titled: its title and text as words, filled on demand.
    """

    checksum: bytes
    text_checksum: bytes
    sketch: bytes
    shingle_count: int
    status: int
    is_list: bool
    columns: Mapping[Column, bytes]
    titled: TitledPage | None = None


class Batch:
    """Pages that are judged and not committed.  It ends as a whole: it is committed, or dropped.

    Attributes:
        absent: rows of its pages that did not exist before it.
        writes: pages and visits that get a record, in input order.
        rows: the last of `writes` by row key and time.
        pages: what verdicts on later pages need of them.
        postings: of its pages.
        anchors, anchor_count: by row key of the page that is linked to, and their number.
        body_bytes: length of all bodies.
    """

    def __init__(self) -> None:
        self.absent: set[bytes] = set()
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


class LivePages:
    """Live pages, of the batch and committed ones.  Not thread-safe.

    Attributes:
        batch: that is being judged; an empty one shows committed pages alone.

    Args:
        table: of pages.
        values: reads values.
        memory: a share to cache committed pages; then `drop_row` must be called for each row that a commit changes.
            The caller reads under the commit lock, so that no commit comes between a read and its fill.
        bases: if given, a body is read through it when it can be a base, and so is cached for the next delta.
    """

    def __init__(
        self, table: CaptureRows, values: Values, memory: Memory | None = None, bases: Bases | None = None
    ) -> None:
        self.batch = Batch()
        self._table = table.passing_over(values.unreadable.record)
        self._values = values
        self._bases = bases
        self._cached: LruCache[bytes, dict[int, StoredPage]] = LruCache(0)
        """Committed pages of recent rows, by time."""
        if memory is not None:
            self._cached = memory.cache(
                "pages",
                lambda row: sum([ROW_BYTES + sum(map(len, page.columns.values())) for page in row.values()]),
                holds=not table.ages_captures,
            )

    def page(self, pointer: PagePointer) -> StoredPage | None:
        """The page at a row and time; None if it was deleted, has expired, or was never written.

        A page of the batch is live if it will be once the batch is committed.  If a policy may hide captures, a record
        of the batch can hide others of its row; then they are read with the records of the batch, and not cached.
        """
        timestamp, row_key = pointer
        pending = self.batch.rows.get(row_key)
        in_batch = pending is not None and (self._table.collects or timestamp in pending)
        if in_batch and not self._table.collects and pointer in self.batch.pages:
            return self.batch.pages[pointer]
        row = None if in_batch else self._cached.get(row_key)
        if row is not None and timestamp in row:
            return row[timestamp]
        found = self._table.capture_at(row_key, timestamp, self.batch.records(row_key))
        page = None if found is None or not found.shows_page else self._page_of(found)
        if page is not None and not in_batch:
            self._cached.put(row_key, (row or {}) | {timestamp: page})
        return page

    def _page_of(self, found: LiveCapture) -> StoredPage | None:
        columns, fetch = found.columns, self._values.fetch
        if CHECKSUM not in columns:
            return None
        text_checksum = fetch(columns[TEXT_CHECKSUM]) if TEXT_CHECKSUM in columns and MAIN in columns else b""
        sketch = decode_sketch(fetch(columns[SKETCH]) if SKETCH in columns else b"")
        status = int(columns.get(STATUS, b"")[1:] or b"0")
        return StoredPage(fetch(columns[CHECKSUM]), text_checksum, *sketch, status, ENTRIES in columns, columns)

    def cell_value(self, pointer: PagePointer, column: Column) -> bytes | None:
        """Where a value of a page lies; None if it has none.  A page of the batch has its values in their cells."""
        page = self.page(pointer)
        if page is None:
            return None
        if column in (BODY, MAIN) and not self._table.collects and pointer in self.batch.pages:
            return self.batch.record(self.batch.rows[pointer.row_key][pointer.timestamp]).columns.get(column)
        return page.columns.get(column)

    def _value(self, pointer: PagePointer, column: Column) -> bytes | None:
        """A value of a page, b"" if it has none; None if it cannot be read."""
        cell_value = self.cell_value(pointer, column) or INLINE_TAG
        if cell_value[:1] == INLINE_TAG:  # nearly all titles, and all values of the batch
            return cell_value[1:]

        def read() -> bytes:
            return self._values.fetch(self.cell_value(pointer, column) or INLINE_TAG)

        place = Place(pointer.row_key, *column, pointer.timestamp)
        value = self._values.unreadable.attempt(lambda: self._values.read_together(read), place)
        if value is None:
            self.drop_row(pointer.row_key)
        return value

    def text(self, pointer: PagePointer) -> str | None:
        """The text of a page; None if it cannot be read."""
        text = self._value(pointer, MAIN)
        return None if text is None else text.decode("utf-8", "surrogatepass")

    def body(self, pointer: PagePointer) -> bytes | None:
        """The body of a page; None if it cannot be read."""
        return self._value(pointer, BODY)

    def titled(self, pointer: PagePointer) -> TitledPage:
        """Title and text of a page as words, cached: many pages are compared with the same page of a template."""
        page = self.page(pointer)
        if page is not None and page.titled is not None:
            return page.titled
        title = (self._value(pointer, TITLE) or b"").decode("utf-8", "surrogatepass")
        titled = TitledPage(pointer.row_key, title, lambda: self.text(pointer) or "", lambda: self.body(pointer))
        if page is not None:
            page.titled = titled
        return titled

    def is_readable(self, pointer: PagePointer) -> bool:
        """Whether the body of a page can be read."""
        if pointer in self.batch.pages:
            return True
        cell_value = self.cell_value(pointer, BODY)
        if cell_value is not None and not is_ref(cell_value):
            return True
        if cell_value is not None and self._bases is not None and self._bases.base_for(cell_value, BODY, pointer):
            return True
        return self.body(pointer) is not None

    def is_current(self, pointer: PagePointer) -> bool:
        """Whether a page is live and what its URL shows today: nothing newer there has other bytes or another status
        class."""
        row_key, page = pointer.row_key, self.page(pointer)
        newest = None if page is None else self._table.newest_capture(row_key, None, self.batch.records(row_key))
        if page is None or newest is None:
            return False
        if newest.timestamp == pointer.timestamp:
            return True
        shown = PagePointer(newest.timestamp, row_key)
        newer = self.page(shown)
        return newer is not None and newer.checksum == page.checksum and bodies_compare(page.status, newer.status)

    # --- the cache

    def keep(self, pointer: PagePointer, page: StoredPage) -> None:
        """Cache a page of a batch that is committed; it is the only cached one of its row."""
        if not self._table.collects:  # a policy may hide a late capture as soon as it is written
            self._cached.put(pointer.row_key, {pointer.timestamp: page})

    def drop_row(self, row_key: bytes) -> None:
        """Drop the cached pages of a row."""
        if row_key in self._cached:
            self._cached.drop(row_key)

    def clear(self) -> None:
        """Clear the cache: other processes may have written."""
        self._cached.clear()
