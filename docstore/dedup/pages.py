"""Live pages as verdicts see them: those of the batch, over a cache, over the stored rows.

    Batch         pages that are judged and not committed
    StoredReads   what the core reads of rows, postings and values
    LivePages     the core: live pages, and the verdicts on pages that are compared with them
    Bases         reads and caches the stored values that deltas are made against

The caches have committed data alone, and each commit updates them by key.  Nothing here decides how a page is stored,
or commits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache

from docstore.compiled import docstore_native
from docstore.dedup.index import (
    FAMILY,
    IndexQuery,
    NewPostings,
    Proposal,
    TextIndex,
    name_rows,
    newest_first,
)
from docstore.dedup.index import TABLE as POSTINGS
from docstore.dedup.kernel import Kernel, visible_words
from docstore.model.analysis import IN_ORDER, Analysis
from docstore.model.capture import (
    BODY,
    CHECKSUM,
    ENTRIES,
    MAIN,
    SKETCH,
    STATUS,
    STORED_POSTED,
    STORED_REFUSED,
    STORED_TEXT,
    TEXT_CHECKSUM,
    TITLE,
    Column,
    PagePointer,
    StoredVerdict,
    decode_sketch,
)
from docstore.model.choices import VerdictKind
from docstore.model.format import VERDICT_KINDS
from docstore.model.types import Position, Previous, ReadSpec, RowMutations, SetCell
from docstore.storage.bases import TABLE as BASES
from docstore.storage.bases import Base, BaseRows
from docstore.storage.cache import ENTRY_BYTES, Memory
from docstore.storage.captures import CaptureRecord
from docstore.storage.engine import Engine, PackedRows, rows_of_table
from docstore.storage.port import Backend, Values
from docstore.storage.table import NONE_PENDING, CaptureRows, Pending
from docstore.storage.unreadable import Place
from docstore.storage.values import INLINE_TAG, is_ref
from docstore.storage.writes import Write


class Batch:
    """Pages that are judged and not committed.  It ends as a whole: it is committed, or dropped.

    Attributes:
        absent: rows of its pages that did not exist before it.
        writes: pages and visits that get a record, in input order.
        rows: the last of `writes` by row key and time.
        postings: of the texts of its pages; the core has the other postings.
        anchors, anchor_count: by row key of the page that is linked to, and their number.
        body_bytes: length of all bodies.
    """

    def __init__(self) -> None:
        self.absent: set[bytes] = set()
        self.writes: list[Write] = []
        self.rows: dict[bytes, dict[int, Write]] = {}
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
        memory.caches |= zip(("bases", "rows of bases", "siblings"), self.native.counts(), strict=True)

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


_COLUMNS = {"title": TITLE, "main": MAIN, "body": BODY}
_KINDS = tuple(VerdictKind(word) for word in VERDICT_KINDS)
_OWN_ROW = Previous.NONE, 0.0, STORED_REFUSED
"""The fields of a verdict about the page's own row; `writing.judge` fills them in."""
_new_tuple = tuple.__new__
"""Takes half the time of a NamedTuple's constructor; there are a few a page."""


class StoredReads:
    """Everything that the core reads while it judges a page, of any engine; see `docstore_native.Reads`.

    Attributes:
        batch: that is being judged; an empty one shows committed pages alone.
    """

    def __init__(
        self,
        table: CaptureRows,
        values: Values,
        engine: Engine | None,
        texts: TextIndex | None,
        bases: Bases | None,
        *,
        caches: bool,
    ) -> None:
        self.batch = Batch()
        self._table = table.passing_over(values.unreadable.record)
        self._values = values
        self._engine = engine
        self._texts = texts
        self._bases = bases
        self._caches = caches

    def postings(self, rows: list[bytes], limit: int) -> list[list[bytes]]:
        """The first qualifiers of rows of postings."""
        assert self._engine is not None
        return self._engine.qualifiers_of_rows(POSTINGS, rows, limit) if rows else []

    def postings_after(self, row: bytes, after: bytes, most: int) -> list[bytes]:
        """The next qualifiers of a row of postings."""
        assert self._engine is not None
        spec = ReadSpec((FAMILY,), cell_limit=most, after=Position(FAMILY, after, 0))
        return [cell.qualifier for cell in self._engine.read_row(POSTINGS, row, spec)]

    def page(self, timestamp: int, row_key: bytes) -> docstore_native.PageFields | None:
        """What verdicts need of a live page, with the records of the batch in their places."""
        found = self._table.capture_at(row_key, timestamp, self.batch.records(row_key))
        if found is None or not found.shows_page or CHECKSUM not in found.columns:
            return None
        columns, fetch = found.columns, self._values.fetch
        text_checksum = fetch(columns[TEXT_CHECKSUM]) if TEXT_CHECKSUM in columns and MAIN in columns else b""
        sketch = decode_sketch(fetch(columns[SKETCH]) if SKETCH in columns else b"")
        status = int(columns.get(STATUS, b"")[1:] or b"0")
        title = columns.get(TITLE, INLINE_TAG)
        shown = title[1:] if title[:1] == INLINE_TAG else None
        return fetch(columns[CHECKSUM]), text_checksum, *sketch, status, ENTRIES in columns, shown, columns

    def value(self, name: str, timestamp: int, row_key: bytes, columns: Mapping[Column, bytes]) -> bytes | None:
        """The title, main text or body of a page by its columns, b"" if it has none; None if it cannot be read."""
        column = _COLUMNS[name]
        cell_value = columns.get(column, INLINE_TAG)
        if cell_value[:1] == INLINE_TAG:  # nearly all titles, and all values of the batch
            return cell_value[1:]

        def read() -> bytes:
            if self._caches:  # no commit comes between a look-up and its read: the caller holds the lock
                return self._values.fetch(cell_value)
            found = self._table.capture_at(row_key, timestamp, self.batch.records(row_key))
            return self._values.fetch(INLINE_TAG if found is None else found.columns.get(column, INLINE_TAG))

        place = Place(row_key, *column, timestamp)
        return self._values.unreadable.attempt(lambda: self._values.read_together(read), place)

    def is_readable(self, timestamp: int, row_key: bytes, columns: Mapping[Column, bytes]) -> bool:
        """Whether the body of a page can be read."""
        cell_value = columns.get(BODY)
        if cell_value is not None and not is_ref(cell_value):
            return True
        pointer = PagePointer(timestamp, row_key)
        if cell_value is not None and self._bases is not None and self._bases.base_for(cell_value, BODY, pointer):
            return True
        return self.value("body", timestamp, row_key, columns) is not None

    def newest(self, row_key: bytes) -> int | None:
        """The time of the newest live page of a row."""
        newest = self._table.newest_capture(row_key, None, self.batch.records(row_key))
        return None if newest is None else newest.timestamp

    def visible_words(self, body: bytes) -> int:
        """How many words a body shows."""
        return visible_words(body)

    def propose(self, query: IndexQuery) -> Proposal:
        """The texts that share keys with a page."""
        assert self._texts is not None
        return self._texts.propose(query, self.batch.postings)

    def post(self, query: IndexQuery, proposal: Proposal) -> None:
        """Post the text of a page of the batch."""
        assert self._texts is not None
        self._texts.post(self.batch.postings, query, proposal)

    def log(self) -> list[RowMutations]:
        """The rows that the index writes with the batch in addition to its postings."""
        assert self._texts is not None
        return self._texts.log(self.batch.postings)


class LivePages:
    """Live pages, of the batch and committed ones, and the verdicts on others.  Not thread-safe.

    It is the face of the core (`native/store/src/core.rs`), which has the batch and the caches.  A reader of committed
    pages alone has an empty batch and no caches.

    Args:
        table: of pages.
        values: reads values.
        backend: of the store, if pages are compared.
        kernel, texts: of the store, if pages are compared.
        bases: if given, a body is read through it when it can be a base, and so is cached for the next delta.  The
            caller holds the commit lock then.
        caches: cache committed pages and postings; then `follow` must be called after each commit.
    """

    def __init__(
        self,
        table: CaptureRows,
        values: Values,
        backend: Backend | None = None,
        kernel: Kernel | None = None,
        texts: TextIndex | None = None,
        bases: Bases | None = None,
        *,
        caches: bool = False,
    ) -> None:
        self._table = table
        engine = None if backend is None else backend.engine
        self.reads = StoredReads(table, values, engine, texts, bases, caches=caches)
        rules: tuple[float, float, float | None, bool] = 1.0, 1.0, None, False
        shares = 0, 0, 0, 0
        if backend is not None:
            schema, memory = backend.schema, backend.memory
            rules = schema.near_threshold, schema.contained_threshold, schema.similar_threshold, schema.title_rule
            held = memory.share("pages") if caches and not table.ages_captures else 0, memory.share("postings")
            shares = *held, memory.share("sketches"), memory.share("shingles")
        native = _plain_kernel() if kernel is None else kernel.native
        self.core = docstore_native.Core(rules, native, shares, caches, table.collects)
        if backend is not None and caches:
            for name, counts in zip(("pages", "postings"), self.core.counts(), strict=True):
                backend.memory.caches[name] = counts

    @property
    def batch(self) -> Batch:
        """The batch that is being judged."""
        return self.reads.batch

    # --- pages

    def page(self, pointer: PagePointer) -> docstore_native.SeenPage | None:
        """The page at a row and time; None if it was deleted, has expired, or was never written.

        A page of the batch is live if it will be once the batch is committed.
        """
        return self.core.page(pointer, self.reads)

    def cell_value(self, pointer: PagePointer, column: Column) -> bytes | None:
        """Where a value of a page lies; None if it has none.  A page of the batch has its values in their cells."""
        page = self.page(pointer)
        if page is None:
            return None
        if column in (BODY, MAIN) and not self._table.collects and self.core.is_in_batch(pointer):
            return self.batch.record(self.batch.rows[pointer.row_key][pointer.timestamp]).columns.get(column)
        return page.columns.get(column)

    def text(self, pointer: PagePointer) -> str | None:
        """The text of a page; None if it cannot be read."""
        text = self.core.text(pointer, self.reads)
        return None if text is None else text.decode("utf-8", "surrogatepass")

    def is_readable(self, pointer: PagePointer) -> bool:
        """Whether the body of a page can be read."""
        return self.core.is_readable(pointer, self.reads)

    def is_current(self, pointer: PagePointer) -> bool:
        """Whether a page is live and what its URL shows today: nothing newer there has other bytes or another status
        class."""
        return self.core.is_current(pointer, self.reads)

    # --- verdicts: see `native/store/src/compare.rs`

    def compare(self, row_key: bytes, body: bytes, analysis: Analysis, *, status: int) -> Comparison:
        """Compare a page with the live pages of other rows, and give its verdict.

        Args:
            row_key: its own; a page is never a duplicate of itself.
            body: its bytes.
            analysis: of the body.
            status: HTTP status; it limits the pages to compare.
        """
        return _comparison(self.core.compare(row_key, body, analysis, status, self.reads))

    def compare_with(self, of: PagePointer, body: bytes, analysis: Analysis, *, status: int) -> StoredVerdict:
        """Compare a page with one live page of another row: exact, same_text, near, contained, or new; see `compare`.

        Titles are not compared: the sweep that proposes the pair has seen all evidence.
        """
        return _comparison(self.core.compare_with(of, body, analysis, status, self.reads))[0]

    def of_site(
        self, row_key: bytes, body: bytes, analysis: Analysis, kinds: Iterable[VerdictKind], *, status: int
    ) -> StoredVerdict | None:
        """The verdict of a page against the pages of its own site that show what they did; None if there is none.

        Only these kinds of verdicts are looked for.
        """
        found = self.core.of_site(row_key, body, analysis, [str(kind) for kind in kinds], status, self.reads)
        return None if found is None else _comparison(found)[0]

    def shares(self, analysis: Analysis, text_checksum: bytes, of: PagePointer) -> tuple[float, float]:
        """Exact Jaccard coefficient of a page and the text of a stored page, and the share of the page that is in it.

        Both are 0.0 if either text has no word, or is unreadable.
        """
        return self.core.shares(analysis, text_checksum, of, self.reads)

    def similar(
        self, row_key: bytes, body: bytes, analysis: Analysis, *, status: int, least: float, limit: int
    ) -> Iterator[tuple[PagePointer, VerdictKind, float, float, float]]:
        """Pages like a page: at most `limit` with its body or text, then others of at least this similarity.

        Gives of each the verdict (`new` if titles set the pages apart), the Jaccard coefficient, the share of the page
        that is in it, and the share of it that is in the page.
        """
        found = self.core.similar(row_key, body, analysis, status, least, limit, self.reads)
        for place, kind, *shares in found:
            alike, contained, contains = shares
            yield PagePointer(*place), VerdictKind(kind), alike, contained, contains

    # --- the batch

    def prepare(self, analyses: list[Analysis]) -> None:
        """Read into the cache, if there is one, the rows of postings of the pages that are judged next."""
        self.core.prepare(analyses, self.reads)

    def add(self, write: Write) -> None:
        """Add a page to the batch; later pages are judged against it if it stores its text."""
        batch, record, page, pointer = self.batch, write.record, write.prepared.page, write.pointer
        if record is None:
            return
        batch.writes.append(write)
        batch.rows.setdefault(pointer.row_key, {})[pointer.timestamp] = write
        batch.body_bytes += len(page.body)
        stored = write.verdict.stored
        columns = record.columns if stored in STORED_POSTED and page.body else None
        body = b"" if stored == STORED_TEXT else page.body
        self.core.add(pointer, body, write.prepared.analysis, page.status, columns, self.reads)

    def post(self, pointer: PagePointer, analysis: Analysis, *, status: int) -> None:
        """Post a stored page with the batch."""
        self.core.post(pointer, analysis, status, self.reads)

    def post_names(self, pointer: PagePointer, payload_digest: str, docno: str) -> None:
        """Post a page under its recorded payload digest and document number; verdicts do not use them."""
        self.core.post_in(name_rows(payload_digest, docno), newest_first(pointer))

    def pack_postings(self, rows: PackedRows) -> None:
        """Add the rows of the index to write with the batch."""
        self.core.pack_postings(rows)
        rows += self.reads.log()

    def committed(self, columns: Sequence[Mapping[Column, bytes]]) -> None:
        """The batch is committed: cache its pages, and begin the next one.

        Args:
            columns: cell values of the record of each of its writes, as they were written.
        """
        writes = self.batch.writes
        self.core.committed({write.pointer: its for write, its in zip(writes, columns, strict=True)})
        self.reads.batch = Batch()

    def drop(self) -> None:
        """Drop the batch, whose commit failed, or whose outcome is not known."""
        self.reads.batch = Batch()
        self.core.drop_batch()

    def clear(self) -> None:
        """Clear the caches: other processes may have written."""
        self.drop()
        self.core.clear_pages()


Comparison = tuple[StoredVerdict, PagePointer | None, PagePointer | None]
"""The result of comparing a page with other rows.

It is the verdict; the page that this page contains; and the nearest verified page, duplicate or not, as a base for a
delta.
"""


def _comparison(fields: docstore_native.VerdictFields) -> Comparison:
    kind, *others, contains, nearest = fields
    verdict = _new_tuple(StoredVerdict, (_KINDS[kind], *others, *_OWN_ROW))
    return (
        verdict,
        None if contains is None else _new_tuple(PagePointer, contains),
        None if nearest is None else _new_tuple(PagePointer, nearest),
    )


@cache
def _plain_kernel() -> docstore_native.Kernel:
    """For readers that compare nothing."""
    return docstore_native.Kernel("visible", 1, IN_ORDER)
