"""What is in flight: pages that have their verdict and are not committed yet, and how later pages see them.

`Batch` holds the pages, rows, postings and anchors of the group that is written; it ends with the commit or is dropped,
and then it is forgotten as a whole.  `GroupPages` is how the detector sees pages: those of the batch first, then the
cache of committed pages, then the rows.  `Bases` does the same for bodies and texts that others may be encoded against.

Knows which columns a verdict asks for, and when a policy may hide a capture; must not know how values are encoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from docstore.dedup.buckets import NewPostings
from docstore.dedup.comparable import REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH, TitledPage
from docstore.dedup.detector import Judgement, StoredPage
from docstore.model.capture import BODY, STORED_BODY, STORED_REFERENCE, Column, StoredVerdict
from docstore.model.format import CAPTURE_FAMILY, CAPTURE_REJECTED, CAPTURE_STORED
from docstore.model.pointers import PagePointer
from docstore.model.types import Mutation, Previous, RowMutations, SetCell, VerdictKind
from docstore.reading.pages import StoredPages
from docstore.storage.bases import LARGEST_BASE_BYTES, Base, BaseRows, value_name
from docstore.storage.cache import LruCache
from docstore.storage.captures import CaptureRecord, LiveCapture
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Values
from docstore.storage.table import Table
from docstore.storage.unreadable import Place
from docstore.storage.values import envelope_raw_bytes, is_absent, is_ref
from docstore.writing.prepare import Prepared

PAGES = "pages"
"""Table of pages."""


class Write:
    """A page that is written, from its verdict to its answer.

    Attributes:
        page: as it was prepared.
        timestamp: of its capture, in microseconds: the first time from the page's own on that is free.
        verdict: as its record has it, and its caller is answered.
        kind: of its record, one of the CAPTURE_ kinds.
        is_stored: it gets a record; else it is known, or refused.
        says: what it says of other pages is stored.
        error: why it is refused; else "".
        known_as: how the same capture was stored before; else "".
        judgement: against other rows; None for a visit without a body (304), and for a page that is not judged.
        previous: the page of its own row before it; of a visit the one that it confirms.
        is_damaged: what its row has of the same bytes cannot be read: it is stored whole.
        rewrites: it takes the place of what its row has at its time.
        turn: of its row in the plan: behind the pages of the plan that its verdict asked for.
        seen: what verdicts on later pages need of it; None if no page is judged against it.
        columns: cell values of its record, as far as they are known.
        long: values of its record that are not placed yet, beside body and text.
        bases: what body and text of a page like it can be deltas against, by column: its own, or their base; once they
            are placed.
        body_name: see `CaptureRecord`.
        arrived: when it was written, in microseconds.
    """

    __slots__ = (
        "arrived", "bases", "body_name", "columns", "error", "is_damaged", "is_stored", "judgement", "kind", "known_as",
        "long", "page", "previous", "rewrites", "says", "seen", "timestamp", "turn", "verdict",
    )  # fmt: skip

    def __init__(self, page: Prepared, timestamp: int, verdict: StoredVerdict, *, error: str = "") -> None:
        self.page = page
        self.timestamp = timestamp
        self.verdict = verdict
        self.error = error
        self.known_as = ""
        self.kind = CAPTURE_STORED
        self.is_stored = self.says = self.is_damaged = self.rewrites = False
        self.judgement: Judgement | None = None
        self.previous: LiveCapture | None = None
        self.turn = 0
        self.seen: StoredPage | None = None
        self.columns: dict[Column, bytes] = {}
        self.long: dict[Column, bytes] = {}
        self.bases: dict[Column, Base] = {}
        self.body_name = b""
        self.arrived = 0

    @property
    def pointer(self) -> PagePointer:
        """Its row and time."""
        return PagePointer(self.timestamp, self.page.row_key)

    def row(self) -> RowMutations:
        """Its row, once all values are placed."""
        confirms = 0
        if self.kind != CAPTURE_STORED and self.previous is not None:
            confirms = self.previous.source if self.kind != CAPTURE_REJECTED else 0
        record = CaptureRecord(self.timestamp, self.kind, self.columns, self.arrived, confirms, self.body_name)
        return RowMutations(PAGES, self.page.row_key, [SetCell(CAPTURE_FAMILY, b"", self.timestamp, record.encode())])


class Batch:
    """Pages in flight, and all that their commit writes.

    Attributes:
        plan: rows by stage.
        postings: of its pages.
        writes: pages and visits with a record, in their order.
        rows: keys of the rows that these write.
        pages: of them those that later pages are judged against.
        titled: the same as words, where that was asked for.
        lasting: captures of which it is sure that no policy hides them once they are committed.
        anchors: what pages say of others, by row; and how many that are.
        base_rows: where bases lie that have no row before the batch, by name.
    """

    def __init__(self) -> None:
        self.plan = Plan()
        self.postings = NewPostings()
        self.writes: list[Write] = []
        self.rows: set[bytes] = set()
        self.pages: dict[PagePointer, Write] = {}
        self.titled: dict[PagePointer, TitledPage] = {}
        self.lasting: set[PagePointer] = set()
        self.anchors: dict[bytes, list[Mutation]] = {}
        self.anchor_count = 0
        self.base_rows: dict[bytes, bytes] = {}


ROWS_BYTES = 24 << 20
"""Some 16,000 pages: nearly every candidate is one of the last pages of the same site."""
ROW_BYTES = 600
"""What a page takes beside its cell values, roughly."""


class RecentPage:
    """A live page with what was made of it.

    Attributes:
        page: what every verdict needs.
        columns: its cell values.
        titled: its title and text as words; None if that has not been asked for yet.
        memory_bytes: roughly.
    """

    __slots__ = ("columns", "memory_bytes", "page", "titled")

    def __init__(self, page: StoredPage, columns: Mapping[Column, bytes], titled: TitledPage | None = None) -> None:
        self.page = page
        self.columns = columns
        self.titled = titled
        self.memory_bytes = ROW_BYTES + sum(map(len, columns.values()))


BASE_ROWS_HELD = 16_384
"""Some 2 MB: a page of a template is a delta against the base of the last ones."""
BASES_BYTES = 48 << 20
"""Bodies and texts: the next page is likely to resemble the last ones."""


class Bases:
    """Reads values to make deltas against.  Not thread-safe: the sequencer owns it.

    Args:
        placement: where values lie.
        rows: of bases.
        remembers: cache those rows too.  Whoever asks for that calls `forget` before the next read, once anybody
            else may have committed.
    """

    def __init__(self, placement: Values, rows: BaseRows, *, remembers: bool) -> None:
        self._placement = placement
        self._stored = rows
        self._rows: LruCache[bytes, bytes] = LruCache(BASE_ROWS_HELD if remembers else 0)
        """Where a base lies, by name; b"" where there is no such row."""
        self._bases: LruCache[bytes, Base] = LruCache(BASES_BYTES, lambda base: len(base.raw))
        """By the cell value of a body or text: what its page offers as a base."""

    def at(self, envelope: bytes, column: Column, pointer: PagePointer) -> Base | None:
        """The base that a value offers which lies there: the value itself, or the base that it is a delta against.

        None if the value is too small to be worth it, or too large, or cannot be read.

        Args:
            envelope: the cell value.
            column, pointer: of which page.
        """
        cached = self._bases.get(envelope)
        if cached is not None:
            return cached
        if not is_ref(envelope) or envelope_raw_bytes(envelope) > LARGEST_BASE_BYTES:
            return None
        place = Place(pointer.row_key, *column, pointer.timestamp)
        base = self._placement.unreadable.attempt(lambda: self._read(envelope, pointer), place)
        if base is not None:
            self._bases.put(envelope, base)
        return base

    def _read(self, envelope: bytes, pointer: PagePointer) -> Base | None:
        raw, name = self._placement.fetch_with_base(envelope)
        if not name:
            return Base(value_name(raw), raw, envelope, pointer)
        inner = self._row(name)
        if not inner or envelope_raw_bytes(inner) > LARGEST_BASE_BYTES:
            return None
        return Base(name, self._placement.fetch(inner), inner, pointer)

    def _row(self, name: bytes) -> bytes:
        """Where a base lies; b"" if it has no row yet."""
        envelope = self._rows.get(name)
        if envelope is None:
            envelope = self._stored.envelope_of_likely_absent(name) or b""
            self._rows.put(name, envelope)
        return envelope

    def is_usable(self, base: Base) -> bool:
        """Whether a value may become a delta against a base, or share its record.

        Not while compaction frees it, and not if the record cannot be read that its row names.
        """
        if base.name in self._stored.retired:
            return False
        envelope = self._row(base.name) or base.envelope
        if envelope == base.envelope:
            return True
        return self._placement.unreadable.attempt(lambda: self._verified(envelope)) is not None

    def _verified(self, value: bytes) -> bool:
        self._placement.verify(value)
        return True

    def use(self, base: Base, batch: Batch) -> None:
        """A value of the batch is a delta against a base, or shares its record: the batch makes its row, if need be."""
        if not self._row(base.name) and base.name not in batch.base_rows:
            batch.base_rows[base.name] = base.envelope
            batch.plan.write(Stage.BASES, [self._stored.row(base.name, base.envelope)])

    def remember(self, write: Write) -> None:
        """A page was committed."""
        for column, base in write.bases.items():
            if self._bases.get(write.columns[column]) is None:
                self._bases.put(write.columns[column], base)

    def remember_batch(self, batch: Batch) -> None:
        """A batch was committed."""
        for name, envelope in batch.base_rows.items():
            self._rows.put(name, envelope)

    def forget(self) -> None:
        """Others may have committed: read everything again."""
        self._rows.clear()
        self._bases.clear()


OwnRow = tuple[CaptureRecord | None, LiveCapture | None]
"""What a row holds at a time, hidden by a policy or not, None if that is free; and its newest live page before it."""


class GroupPages(StoredPages):
    """Pages for the detector, with those of the batch.  Not thread-safe: the sequencer owns it.

    Attributes:
        batch: in flight.
        in_doubt: since the batch was begun, a capture was asked for of which only its commit can tell whether a policy
            hides it.
        hides: whether a policy may hide captures at all.
        turn: of the page that is judged: behind the pages in flight that were asked for since this was set to 0.

    Args:
        table: of pages.
        placement: where values lie.
        bases: bodies that others are encoded against.
        remembers: cache the last live pages, as far as the policies let them live until they are written again:
            `follow` must be told of each commit.
        is_alone: no other process writes; else the rows of a group are read ahead.
    """

    def __init__(self, table: Table, placement: Values, bases: Bases, *, remembers: bool, is_alone: bool) -> None:
        super().__init__(table, placement)
        self._bases = bases
        self.begin()
        self.turn = 0
        self._absent: set[bytes] = set()
        """Rows that the group writes and that were found not to be there."""
        self.hides = table.collects_captures or table.collects_bodies
        self._is_alone = is_alone
        self._remembers = remembers
        held_bytes = ROWS_BYTES if remembers and not table.ages_captures else 0
        self._rows: LruCache[bytes, dict[int, RecentPage]] = LruCache(
            held_bytes, lambda row: sum([page.memory_bytes for page in row.values()])
        )
        """The last rows read or written: live pages by time.  Filled under the commit lock alone, so that no commit can
        come between a read and its fill."""
        self._remembers_writes = remembers and not self.hides
        """A capture older than the ones that are stored may be hidden as soon as it is written."""

    # --- for the detector

    def page(self, pointer: PagePointer) -> StoredPage | None:
        """As of committed pages; None too, and `in_doubt`, where a policy may hide the capture as soon as the batch is
        committed."""
        batch = self.batch
        if self.hides and pointer.row_key in batch.rows and pointer not in batch.lasting:
            self.in_doubt = True
            return None
        pending = batch.pages.get(pointer)
        if pending is not None:
            self.turn = max(self.turn, pending.turn + 1)
            return pending.seen
        recent = self._recent_page(pointer)
        return None if recent is None else recent.page

    def _cache(self, pointer: PagePointer, page: RecentPage) -> None:
        versions = self._rows.get(pointer.row_key) or {}
        versions[pointer.timestamp] = page
        self._rows.put(pointer.row_key, versions)

    def _recent_page(self, pointer: PagePointer) -> RecentPage | None:
        """A committed page, from the cache or the row."""
        recent = (self._rows.get(pointer.row_key) or {}).get(pointer.timestamp)
        if recent is None and pointer not in self._unusable:
            found = super().capture(pointer)
            page = None if found is None else self._page_of(found)
            if found is not None and page is not None:
                recent = RecentPage(page, found.columns)
                self._cache(pointer, recent)
        return recent

    def title(self, pointer: PagePointer) -> str:
        """Its shown title."""
        pending = self.batch.pages.get(pointer)
        return super().title(pointer) if pending is None else pending.page.analysed.title

    def titled(self, pointer: PagePointer) -> TitledPage:
        """Its title and text; a page of a template is compared with by many, its words are found once."""
        if pointer in self.batch.pages:
            found = self.batch.titled.get(pointer)
            if found is None:
                found = self.batch.titled[pointer] = super().titled(pointer)
            return found
        recent = (self._rows.get(pointer.row_key) or {}).get(pointer.timestamp)
        if recent is None:
            return super().titled(pointer)
        if recent.titled is None:
            recent.titled = super().titled(pointer)
        return recent.titled

    def status(self, pointer: PagePointer) -> int:
        """Its HTTP status."""
        pending = self.batch.pages.get(pointer)
        return super().status(pointer) if pending is None else pending.page.page.status

    def text(self, pointer: PagePointer) -> str | None:
        """Its stored text; None where it cannot be read."""
        pending = self.batch.pages.get(pointer)
        return super().text(pointer) if pending is None else pending.page.analysed.main

    def body(self, pointer: PagePointer) -> bytes | None:
        """Its stored body; None where it cannot be read."""
        pending = self.batch.pages.get(pointer)
        return super().body(pointer) if pending is None else pending.page.page.body

    def is_readable(self, pointer: PagePointer) -> bool:
        """Whether its body can be read."""
        if pointer in self.batch.pages:
            return True
        envelope = self.envelope(pointer, BODY)
        if envelope is not None and not is_ref(envelope):
            return True
        if envelope is not None and self._remembers and self._bases.at(envelope, BODY, pointer) is not None:
            return True  # and in the cache for the next page that is encoded against it
        return self.body(pointer) is not None

    def keeps_body(self, pointer: PagePointer) -> bool:
        """Whether the body of a committed page was kept."""
        envelope = self.envelope(pointer, BODY)
        return envelope is not None and not is_absent(envelope)

    # --- the row that a page goes into

    def prepare(self, row_keys: Sequence[bytes]) -> None:
        """Say which rows are written next: those that are not there yet, most of a crawl, are found out together."""
        self._absent = self._table.absent_rows(row_keys) if self._is_alone and len(row_keys) > 1 else set()

    def is_absent(self, row_key: bytes) -> bool:
        """Whether a row was found to be absent."""
        return row_key in self._absent

    def own(self, row_key: bytes, timestamp: int) -> OwnRow:
        """What the row holds at and before a timestamp; the row must not be in flight."""
        if row_key in self._absent:
            return None, None
        # What a policy hides is there all the same: a write at its timestamp would take its place.
        return self._table.record(row_key, timestamp), self._table.newest_capture(row_key, timestamp)

    # --- for what is placed

    def base(self, pointer: PagePointer, column: Column = BODY) -> Base | None:
        """What the body or text of a page like this one can be a delta against: see `Bases.at`.

        None if the page is gone, and if each value has a cell of its own.
        """
        if not self._placement.shares_values:
            return None
        pending = self.batch.pages.get(pointer)
        if pending is not None:
            return pending.bases.get(column)
        envelope = self.envelope(pointer, column)
        return None if envelope is None else self._bases.at(envelope, column, pointer)

    def envelope(self, pointer: PagePointer, column: Column) -> bytes | None:
        """Where a value of a committed page lies; None where it has none."""
        recent = self._recent_page(pointer)
        return None if recent is None else recent.columns.get(column)

    def _column(self, pointer: PagePointer, column: Column) -> bytes | None:
        value = super()._column(pointer, column)
        if value is None:
            self._rows.drop(pointer.row_key)
        return value

    # --- the batch

    def add(self, write: Write) -> None:
        """Take a page or visit into the batch; later pages see it if it has what verdicts need."""
        batch, pointer = self.batch, write.pointer
        batch.writes.append(write)
        batch.rows.add(pointer.row_key)
        if write.seen is not None:
            batch.pages[pointer] = write
            if self.hides and self._table.keeps_newest(pointer.row_key, pointer.timestamp):
                batch.lasting.add(pointer)

    def begin(self) -> None:
        """Begin another batch; the one before it is committed, or dropped.  What could not be read is tried again."""
        self.batch = Batch()
        self.postings = self.batch.postings
        self.in_doubt = False
        self._unusable.clear()

    def follow(self, plan: Plan, known: bool) -> None:
        """A commit has ended: what is cached of the rows that it changed goes, and what the batch wrote comes."""
        batch = self.batch
        for row in plan.changed(Stage.PAGES):
            self._absent.discard(row.row_key)
            self._rows.drop(row.row_key)
        if plan is not batch.plan or not known:
            return
        self._bases.remember_batch(batch)
        for pointer, write in batch.pages.items() if self._remembers_writes else ():
            self._bases.remember(write)
            assert write.seen is not None
            self._cache(pointer, RecentPage(write.seen, write.columns, batch.titled.get(pointer)))

    def clear(self) -> None:
        """Other processes write: what is cached holds for one group of pages."""
        self._rows.clear()


COUNTED_REASONS = frozenset({REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH})
"""What makes a verdict less sure; other reasons say that there could be none."""


def counts_of(captures: Iterable[tuple[StoredVerdict, int]], visits: int = 0) -> Counter[str]:
    """What the totals of a store count of captures, of each its verdict and the length of its body: `captures`, `urls`,
    `body_bytes`, `crowded`, `doubtful_text`, `title_mismatch`, `verdict.KIND`, `previous.KIND`, `stored.KIND`; and of
    visits without a body (304).

    Totals count what was written; deletes and expiry do not lower them until a compaction of all tablets counts what is
    live (`maintenance.live_totals`).
    """
    alike: Counter[tuple[VerdictKind, Previous, str]] = Counter()
    found: Counter[str] = Counter()
    if visits:
        found["visits"] = visits
    for verdict, body_bytes in captures:
        alike[verdict.kind, verdict.previous, verdict.stored] += 1
        if verdict.reason in COUNTED_REASONS:
            found[verdict.reason] += 1
        if verdict.stored in (STORED_BODY, STORED_REFERENCE):
            found["body_bytes"] += body_bytes
    for (kind, previous, stored), number in alike.items():
        names = ["captures", f"verdict.{kind}", f"previous.{previous}", f"stored.{stored}"]
        if previous is Previous.NONE:
            names.append("urls")
        found.update(dict.fromkeys(names, number))
    return found
