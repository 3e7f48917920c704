"""Live pages as verdicts see them: those of the batch, over a cache, over the stored rows.

    StoredReads   what the core reads of rows, postings and values
    LivePages     the core: the batch, live pages, and the verdicts on pages that are compared with them
    Bases         reads and caches the stored values that deltas are made against

The caches have committed data alone, and each commit updates them by key.  Nothing here decides how a page is stored,
or commits.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
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
    KINDS,
    MAIN,
    SKETCH,
    STATUS,
    STORED_REFUSED,
    TEXT_CHECKSUM,
    TITLE,
    VERDICT,
    Column,
    PagePointer,
    StoredVerdict,
    decode_sketch,
    encode_verdict,
)
from docstore.model.choices import VerdictKind
from docstore.model.errors import CorruptionError
from docstore.model.format import CAPTURE_NOT_MODIFIED
from docstore.model.types import Cell, Policy, Position, Previous, ReadSpec, RowMutations, SetCell
from docstore.storage.bases import TABLE as BASES
from docstore.storage.bases import Base, BaseRows
from docstore.storage.cache import ENTRY_BYTES, Memory
from docstore.storage.captures import CaptureRecord, LiveCapture
from docstore.storage.engine import Engine, PackedRows, rows_of_table
from docstore.storage.port import Backend, Values
from docstore.storage.table import PAGES, CaptureRows, Pending
from docstore.storage.unreadable import Place
from docstore.storage.values import INLINE_TAG, encode_inline
from docstore.storage.writes import ANCHOR_FAMILY, PolicyByVerdict, Prepared


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
_POLICIES = list(Policy)
_OWN_ROW = Previous.NONE, 0.0, STORED_REFUSED
"""The fields of a verdict about the page's own row, which `compare_with` does not look at."""


Newest = Callable[[bytes, str, bytes], Cell | None]


class StoredReads:
    """Everything that the core reads while it judges a page, of any engine; see `docstore_native.Reads`.

    `pending` is the records of the batch in a row, by time: each stands in the place of a stored one.

    Attributes:
        new: postings of the texts of the batch; the core has its other postings.
        anchors, anchor_count: of the batch, by row key of the page that is linked to, and their number.
    """

    def __init__(
        self,
        table: CaptureRows,
        values: Values,
        engine: Engine | None,
        texts: TextIndex | None,
        bases: Bases | None,
        newest: Newest | None,
        *,
        caches: bool,
    ) -> None:
        self.begin_batch()
        self._newest = newest
        self._table = table.passing_over(values.unreadable.record)
        self._values = values
        self._engine = engine
        self._texts = texts
        self._bases = bases
        self._caches = caches

    def begin_batch(self) -> None:
        """Begin the next batch: the last one is committed, or dropped."""
        self.new = NewPostings()
        self.anchors: dict[bytes, list[SetCell]] = {}
        self.anchor_count = 0

    # --- postings

    def postings(self, rows: list[bytes], limit: int) -> list[list[bytes]]:
        """The first qualifiers of rows of postings."""
        assert self._engine is not None
        return self._engine.qualifiers_of_rows(POSTINGS, rows, limit) if rows else []

    def postings_after(self, row: bytes, after: bytes, most: int) -> list[bytes]:
        """The next qualifiers of a row of postings."""
        assert self._engine is not None
        spec = ReadSpec((FAMILY,), cell_limit=most, after=Position(FAMILY, after, 0))
        return [cell.qualifier for cell in self._engine.read_row(POSTINGS, row, spec)]

    # --- the row that a page goes into

    record_of_batch = staticmethod(CaptureRecord)
    """Makes a record of the batch as `pending` has it, of its fields."""

    def absent_rows(self, row_keys: list[bytes]) -> Collection[bytes]:
        """Those of some rows that have no cells; none if other processes may write them."""
        engine = self._engine
        if engine is None or not engine.caps.single_writer:
            return ()
        return engine.absent_rows(PAGES, row_keys)

    def record(self, row_key: bytes, timestamp: int, pending: Pending) -> CaptureRecord | None:
        """The capture record at a time, hidden by a policy or not: a write at that time replaces it."""
        return self._table.record(row_key, timestamp, pending)

    def record_and_page_before(
        self, row_key: bytes, timestamp: int, pending: Pending
    ) -> tuple[CaptureRecord | None, LiveCapture | None, bool]:
        """The record at a time; and in one read for most rows, if there is none, the newest live page before it.

        The last value says whether that page was looked for.
        """
        newest = None if pending else self._table.newest_record(row_key)
        if pending or (newest is not None and newest.timestamp >= timestamp):
            return self._table.record(row_key, timestamp, pending), None, False
        before = None if newest is None else self._table.newest_capture(row_key, timestamp, newest=newest)
        return None, before, True

    def before(self, row_key: bytes, timestamp: int, fetches: bool, pending: Pending) -> LiveCapture | None:
        """The newest live page before a time; with `fetches` the newest page or rejected capture."""
        if not fetches:
            return self._table.newest_capture(row_key, timestamp, pending)
        captures = self._table.captures(row_key, timestamp, pending)
        return next((one for one in captures if one.kind != CAPTURE_NOT_MODIFIED), None)

    def times(self, row_key: bytes, start: int, end: int, pending: Pending) -> list[tuple[int, bytes]]:
        """Times and checksums of the capture records of a range."""
        return [(one.timestamp, one.checksum) for one in self._table.records(row_key, start, end, pending)]

    def verdict(self, row_key: bytes, timestamp: int, cell_value: bytes) -> bytes | None:
        """The encoded verdict of a capture, by its cell value; None if it cannot be read."""
        columns = {VERDICT: cell_value}
        found = self._values.unreadable.verdict(self._values.fetch, row_key, timestamp, columns)
        return None if found is None else encode_verdict(found)

    def is_sound(self, row_key: bytes, timestamp: int, column: Column, cell_value: bytes) -> bool:
        """Whether a value of a capture can be read."""
        try:
            self._values.verify(cell_value)
        except CorruptionError as error:
            self._values.unreadable.record(error, Place(row_key, *column, timestamp))
            return False
        return True

    def add_anchors(self, page: Prepared, timestamp: int, compares: bool) -> None:
        """Add the anchors of a page to the batch; if they are compared, those that the rows do not have already."""
        source = page.url.encode()
        for anchor in page.anchors:
            if compares and self._has_anchor(anchor.row_key, source, timestamp, anchor.text):
                continue
            cell = SetCell(ANCHOR_FAMILY, source, timestamp, encode_inline(anchor.text))
            self.anchors.setdefault(anchor.row_key, []).append(cell)
            self.anchor_count += 1

    def _has_anchor(self, target: bytes, source: bytes, timestamp: int, text: bytes) -> bool:
        """Whether the newest anchor from a page to another has this text, and is not newer than this time.

        Of two anchors with the same time, the later one of the batch counts.
        """
        assert self._newest is not None
        newest: Cell | SetCell | None = self._newest(target, ANCHOR_FAMILY, source)
        for cell in self.anchors.get(target, ()):
            if cell.qualifier == source and (newest is None or cell.timestamp >= newest.timestamp):
                newest = cell
        return newest is not None and newest.timestamp <= timestamp and newest.value == encode_inline(text)

    # --- pages that are compared with it

    def page(self, timestamp: int, row_key: bytes, pending: Pending) -> docstore_native.PageFields | None:
        """What verdicts need of a live page."""
        found = self._table.capture_at(row_key, timestamp, pending)
        if found is None or not found.shows_page or CHECKSUM not in found.columns:
            return None
        columns, fetch = found.columns, self._values.fetch
        text_checksum = fetch(columns[TEXT_CHECKSUM]) if TEXT_CHECKSUM in columns and MAIN in columns else b""
        sketch = decode_sketch(fetch(columns[SKETCH]) if SKETCH in columns else b"")
        status = int(columns.get(STATUS, b"")[1:] or b"0")
        title = columns.get(TITLE, INLINE_TAG)
        shown = title[1:] if title[:1] == INLINE_TAG else None
        cells = [columns.get(column, b"") for column in _COLUMNS.values()]
        return fetch(columns[CHECKSUM]), text_checksum, *sketch, status, ENTRIES in columns, shown, cells

    def value(self, name: str, timestamp: int, row_key: bytes, cell_value: bytes, pending: Pending) -> bytes | None:
        """The title, main text or body of a page, by its cell value; None if it cannot be read."""
        column = _COLUMNS[name]

        def read() -> bytes:
            if self._caches:  # no commit comes between a look-up and its read: the caller holds the lock
                return self._values.fetch(cell_value)
            found = self._table.capture_at(row_key, timestamp, pending)
            return self._values.fetch(INLINE_TAG if found is None else found.columns.get(column, INLINE_TAG))

        place = Place(row_key, *column, timestamp)
        return self._values.unreadable.attempt(lambda: self._values.read_together(read), place)

    def is_readable(self, timestamp: int, row_key: bytes, cell_value: bytes, pending: Pending) -> bool:
        """Whether the body of a page can be read, by its cell value."""
        pointer = PagePointer(timestamp, row_key)
        if self._bases is not None and self._bases.base_for(cell_value, BODY, pointer):
            return True
        return self.value("body", timestamp, row_key, cell_value, pending) is not None

    def newest(self, row_key: bytes, pending: Pending) -> int | None:
        """The time of the newest live page of a row."""
        newest = self._table.newest_capture(row_key, None, pending)
        return None if newest is None else newest.timestamp

    def visible_words(self, body: bytes) -> int:
        """How many words a body shows."""
        return visible_words(body)

    def propose(self, query: IndexQuery) -> Proposal:
        """The texts that share keys with a page."""
        assert self._texts is not None
        return self._texts.propose(query, self.new)

    def post(self, query: IndexQuery, proposal: Proposal) -> None:
        """Post the text of a page of the batch."""
        assert self._texts is not None
        self._texts.post(self.new, query, proposal)

    def log(self) -> list[RowMutations]:
        """The rows that the index writes with the batch in addition to its postings."""
        assert self._texts is not None
        return self._texts.log(self.new)


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
        newest: gives the newest cell of a row, family and qualifier, if pages with anchors are judged.
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
        newest: Newest | None = None,
        *,
        caches: bool = False,
    ) -> None:
        self._table = table
        engine = None if backend is None else backend.engine
        self.reads = StoredReads(table, values, engine, texts, bases, newest, caches=caches)
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

    # --- pages

    def page(self, pointer: PagePointer) -> docstore_native.SeenPage | None:
        """The page at a row and time; None if it was deleted, has expired, or was never written.

        A page of the batch is live if it will be once the batch is committed.
        """
        return self.core.page(pointer, self.reads)

    def body_cell(self, pointer: PagePointer) -> bytes | None:
        """The cell value of the body of a page; None if there is no such page."""
        page = self.page(pointer)
        return None if page is None else page.cells[0]

    def text(self, pointer: PagePointer) -> str | None:
        """The text of a page; None if it cannot be read."""
        text = self.core.text(pointer, self.reads)
        return None if text is None else text.decode("utf-8", "surrogatepass")

    def is_current(self, pointer: PagePointer) -> bool:
        """Whether a page is live and what its URL shows today: nothing newer there has other bytes or another status
        class."""
        return self.core.is_current(pointer, self.reads)

    # --- verdicts: see `native/store/src/compare.rs`

    def compare_with(self, of: PagePointer, body: bytes, analysis: Analysis, *, status: int) -> StoredVerdict:
        """Compare a page with one live page of another row: exact, same_text, near, contained, or new; see `compare`.

        Titles are not compared: the sweep that proposes the pair has seen all evidence.
        """
        found = self.core.compare_with(of, body, analysis, status, self.reads)
        return StoredVerdict(KINDS[found[0]], *found[1:], *_OWN_ROW)

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

    def judge(
        self, pages: Sequence[Prepared], policies: Sequence[PolicyByVerdict], table: bytes, now: int
    ) -> list[docstore_native.Judged]:
        """Judge pages in order, each against the committed pages and those before it, and add them to the batch.

        Args:
            pages: at most some 30, because a signal waits for one of them, and their reads are made at once.
            policies: what to do with each, per verdict; a verdict without one stores it.
            table: the answers of `writing.policy`.
            now: the time of their arrival.
        """
        distinct = {id(each): each for each in policies}
        coded = {key: _coded(each) for key, each in distinct.items()}
        by_kind = b"".join([coded[id(each)] for each in policies])
        return self.core.judge(list(pages), by_kind, table, now, self.reads)

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

    def committed(self, group: docstore_native.Group) -> None:
        """The batch is committed: cache its pages, and begin the next one.

        Args:
            group: its values, encoded.
        """
        self.core.committed(group)
        self.reads.begin_batch()

    def drop(self) -> None:
        """Drop the batch, whose commit failed, or whose outcome is not known."""
        self.reads.begin_batch()
        self.core.drop_batch()

    def clear(self) -> None:
        """Clear the caches: other processes may have written."""
        self.drop()
        self.core.clear_pages()


def _coded(policies: PolicyByVerdict) -> bytes:
    """The number of the policy for each kind of verdict."""
    return bytes(_POLICIES.index(policies.get(kind, Policy.FLAG)) for kind in KINDS)


@cache
def _plain_kernel() -> docstore_native.Kernel:
    """For readers that compare nothing."""
    return docstore_native.Kernel("visible", 1, IN_ORDER)
