"""Live pages as verdicts see them: those of the batch, over a cache, over the stored rows.

    Batch       pages that are judged and not committed
    LivePages   reads a page from the batch, else from its cache, else from the rows; a reader of committed pages has an
                empty batch and no cache
    Bases       reads and caches the stored values that deltas are made against

The caches have committed data alone, and each commit updates them by key.  Nothing here compares pages, decides a
verdict or commits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from docstore.compiled import docstore_native
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
from docstore.storage.bases import TABLE as BASES
from docstore.storage.bases import Base, BaseRows
from docstore.storage.cache import ENTRY_BYTES, LruCache, Memory
from docstore.storage.captures import CaptureRecord, LiveCapture
from docstore.storage.engine import rows_of_table
from docstore.storage.port import Values
from docstore.storage.table import NONE_PENDING, CaptureRows, Pending
from docstore.storage.unreadable import Place
from docstore.storage.values import INLINE_TAG, is_ref
from docstore.storage.writes import Write

ROW_BYTES = 1600
"""Memory of a cached page without its cell values, roughly."""


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
    """Reads the committed values that deltas are made against; native code caches them (`native/store/src/bases.rs`).

    Not thread-safe: the sequencer owns it.

    Args:
        values: reads values.
        rows: of bases.
        memory: for rows of bases, for the bodies and texts themselves, because most pages resemble recent ones, and
            for the newest page of each path.
        caches: cache the rows too.  Then `follow` must be called after each commit.
    Attributes:
        native: the caches.
    """

    def __init__(self, values: Values, rows: BaseRows, memory: Memory, *, caches: bool) -> None:
        self._values = values
        self._stored = rows
        shares = [memory.share(name) for name in ("bases", "rows of bases", "siblings")]
        shares[1] *= caches
        self.native = docstore_native.Bases(shares[0], shares[1], shares[2], ENTRY_BYTES)
        for place, name in enumerate(("bases", "rows of bases", "siblings")):
            memory.figures[name] = lambda place=place: self.native.figures()[place]  # type: ignore[misc]

    def reader(self, cell_values: Callable[[bytes, int], object]) -> tuple[Callable[..., object], set[bytes]]:
        """What native code asks for what no cache has, and the names of bases that may not be used.

        Args:
            cell_values: gives the cell values of body and text of a live page, by row key and time.
        """
        stored, unreadable = self._stored, self._values.unreadable

        def read(what: str, key: bytes, timestamp: int = 0, cell_value: bytes = b"") -> object:
            if what == "page":
                return cell_values(key, timestamp)
            if what == "row":
                return stored.cell_value(key) or b""
            if what == "sound":
                return unreadable.attempt(lambda: self._verified(key)) is not None
            place = Place(key, *(BODY if what == "body" else MAIN), timestamp)
            return unreadable.attempt(lambda: self._values.fetch_or_base(cell_value), place)

        return read, stored.retired

    def base_for(self, cell_value: bytes, column: Column, pointer: PagePointer) -> Base | None:
        """The base for a new value that resembles a stored one: the stored value, or its own base if it is a delta.

        None if the stored value is too small or too large for a base, or cannot be read.

        Args:
            cell_value: of the stored value.
            column, pointer: of the stored value.
        """
        found = self.native.base_for(self.reader(_no_page), cell_value, int(column != BODY), pointer)
        return None if found is None else Base(*found, pointer)

    def _verified(self, value: bytes) -> bool:
        self._values.verify(value)
        return True

    def follow(self, rows: Sequence[RowMutations], is_sure: bool) -> None:
        """After a commit: update the caches; see `Committer.followers`."""
        self.native.follow([row.row_key for row in rows_of_table(rows, BASES)], is_sure)

    def drop(self) -> None:
        """Drop what an encoded batch would add, because it is not committed."""
        self.native.drop_new()

    def clear(self) -> None:
        """Clear the caches: another writer may have committed."""
        self.native.clear()


def _no_page(row_key: bytes, timestamp: int) -> object:
    """Where cell values are given, none is looked up."""
    raise AssertionError((row_key, timestamp))


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
