"""What is in flight: pages that have their verdict and are not committed yet, and how later pages see them.

`Batch` holds the pages, rows, postings and anchors of the group that is written; it ends with the commit or is dropped,
and then it is forgotten as a whole.  `GroupPages` is how the detector sees pages: those of the batch first, then the
cache of committed pages, then the rows.  `Bases` does the same for bodies and texts that others may be encoded against.

Knows which columns a verdict asks for, and when a policy may hide a capture; must not know how values are encoded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from docstore.dedup.buckets import NewPostings
from docstore.dedup.comparable import REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH, TitledPage
from docstore.dedup.detector import Judgement, StoredPage
from docstore.model.capture import BODY, MAIN, STORED_BODY, STORED_REFERENCE, Column, StoredVerdict
from docstore.model.format import CAPTURE_FAMILY, CAPTURE_REJECTED, CAPTURE_STORED, INLINE_LIMIT_BYTES
from docstore.model.pointers import PagePointer
from docstore.model.types import Mutation, Previous, RowMutations, SetCell, VerdictKind
from docstore.reading.pages import StoredPages
from docstore.storage.cache import LruCache
from docstore.storage.captures import CaptureRecord, LiveCapture
from docstore.storage.envelope import envelope_raw_bytes, is_absent, is_ref
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Values
from docstore.storage.sharing import (
    BODY_FAMILY,
    DYING,
    ENVELOPE,
    LARGEST_BASE_BYTES,
    TEXT,
    Base,
    SharedBodies,
    body_name,
)
from docstore.storage.table import Table
from docstore.storage.unreadable import Place
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
        base: what a page like it can be a delta against: its body, or the base of that; once it is placed.
        body_name: see `CaptureRecord`.
        arrived: when it was written, in microseconds.
    """

    __slots__ = (
        "arrived", "base", "body_name", "columns", "error", "is_damaged", "is_stored", "judgement", "kind", "known_as",
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
        self.base: Base | None = None
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
        base_texts: texts that bases of these names have or get.
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
        self.base_texts: dict[bytes, TextBase | None] = {}


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


SHARED_ROWS_HELD = 16_384
"""Some 7 MB: a page of a template leans on the base that the last ones leaned on."""
BASES_BYTES = 32 << 20
"""Bodies, and as many bytes of their texts: the next page is likely to resemble the last ones."""
PLAIN_TEXTS_BYTES = 8 << 20
"""Texts of pages that others are about to lean on: mostly the next ones of the same site."""


class TextBase(NamedTuple):
    """The text of a base: what texts of pages that lean on the base lean on.

    Attributes:
        raw: the text, in UTF-8.
        envelope: where it lies.
        named: the base's row names it already.
    """

    raw: bytes
    envelope: bytes
    named: bool


class Bases:
    """Reads bodies to lean on, and their texts.  Not thread-safe: the sequencer owns it.

    Args:
        placement: where values lie.
        sharing: rows of shared bodies.
        remembers: cache those rows too.  Whoever asks for that calls `forget` before the next read, once anybody
            else may have committed.
    """

    def __init__(self, placement: Values, sharing: SharedBodies, *, remembers: bool) -> None:
        self._placement = placement
        self._sharing = sharing
        self._rows: LruCache[bytes, dict[bytes, bytes]] = LruCache(SHARED_ROWS_HELD if remembers else 0)
        self._bases: LruCache[bytes, Base] = LruCache(BASES_BYTES, lambda base: len(base.raw))
        """By the envelope of a body: what its page leans on."""
        self._texts: LruCache[bytes, TextBase] = LruCache(BASES_BYTES, lambda text: len(text.raw))
        self._plain: LruCache[bytes, bytes] = LruCache(PLAIN_TEXTS_BYTES, len)
        """Texts that lean on nothing, by envelope."""

    def at(self, envelope: bytes, pointer: PagePointer) -> Base | None:
        """What a page can lean on that is like one whose body lies there: that body, or the base that it leans on.

        None where the body is too small to be worth it, or too large, or cannot be read.
        """
        cached = self._bases.get(envelope)
        if cached is not None:
            return cached
        if not is_ref(envelope) or envelope_raw_bytes(envelope) > LARGEST_BASE_BYTES:
            return None
        place = Place(pointer.row_key, *BODY, pointer.timestamp)
        base = self._placement.unreadable.attempt(lambda: self._read(envelope, pointer), place)
        if base is not None:
            self._bases.put(envelope, base)
        return base

    def _read(self, envelope: bytes, pointer: PagePointer) -> Base | None:
        raw, leans_on = self._placement.fetch_leaning(envelope)
        if not leans_on:
            return Base(body_name(raw), raw, envelope, pointer)
        inner = self.shared_cells(leans_on).get(ENVELOPE)
        if inner is None or envelope_raw_bytes(inner) > LARGEST_BASE_BYTES:
            return None
        return Base(leans_on, self._placement.fetch(inner), inner, pointer)

    def shared_cells(self, name: bytes) -> dict[bytes, bytes]:
        """`SharedBodies.cells`, from the cache where it has them; not to be changed."""
        cells = self._rows.get(name)
        if cells is None:
            cells = self._sharing.cells_of_likely_absent(name)
            self._rows.put(name, cells)
        return cells

    def is_sound(self, base: Base) -> bool:
        """Whether a value may be encoded against a base: it is not being freed, and its row names what can be read."""
        shared = self.shared_cells(base.name)
        named = shared.get(ENVELOPE, base.envelope)
        if DYING in shared or named == base.envelope:
            return DYING not in shared
        place = Place(base.pointer.row_key, *BODY, base.pointer.timestamp)
        return self._placement.unreadable.attempt(lambda: self._verified(named), place) is not None

    def _verified(self, value: bytes) -> bool:
        self._placement.verify(value)
        return True

    def text(self, base: Base, of_holder: Callable[[Base], TextBase | None], batch: Batch) -> TextBase | None:
        """What the text of a page can lean on whose body leans on a base; None where there is none that can be read.

        Args:
            base: of the body.
            of_holder: gives the text of the page that holds the base: it is that, while the base's row names none.
            batch: in flight.
        """
        known = self._texts.get(base.name)
        if known is not None:
            return known
        if base.name in batch.base_texts:
            return batch.base_texts[base.name]
        named = self.shared_cells(base.name).get(TEXT)
        place = Place(base.pointer.row_key, *MAIN, base.pointer.timestamp)
        attempt = self._placement.unreadable.attempt
        if named is not None:
            raw = attempt(lambda: self._placement.fetch(named), place)
            if raw is None:
                return None
            found = TextBase(raw, named, True)
            self._texts.put(base.name, found)
            return found
        text = attempt(lambda: of_holder(base), place) if self._sharing.takes_texts else None
        batch.base_texts[base.name] = text
        return text

    def plain_text(self, envelope: bytes) -> TextBase | None:
        """A text that lies there, to lean on; None where it leans on another itself."""
        held = self._plain.get(envelope)
        if held is not None:
            return TextBase(held, envelope, False)
        raw, leans_on = self._placement.fetch_leaning(envelope)
        return None if leans_on else TextBase(raw, envelope, False)

    def remember(self, envelope: bytes, base: Base, text: bytes | None) -> None:
        """A page of the group was written.

        Args:
            envelope: of its body.
            base: what pages like it can lean on.
            text: its own, where that lies in a record and leans on nothing.
        """
        if text is not None:
            self._plain.put(base.text, text)
        if self._bases.get(envelope) is None:
            self._bases.put(envelope, base)

    def remember_batch(self, batch: Batch) -> None:
        """A batch was committed: rows of shared bodies hold what it wrote there, set cells alone."""
        for _, name, mutations in batch.plan.written(Stage.BASES):
            before = self._rows.get(name)
            if before is not None:
                cells = (cell for cell in mutations if isinstance(cell, SetCell) and cell.family == BODY_FAMILY)
                self._rows.put(name, before | {cell.qualifier: cell.value for cell in cells})
        for name, text in batch.base_texts.items():
            if text is not None and text.named:
                self._texts.put(name, text)

    def forget(self) -> None:
        """Others may have committed: read everything anew."""
        for cache in (self._rows, self._bases, self._texts, self._plain):
            cache.clear()


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
        if envelope is not None and self._remembers and self._bases.at(envelope, pointer) is not None:
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

    def base(self, pointer: PagePointer) -> Base | None:
        """What a page like this one can be a delta against: its body, or the base of its body.

        None when the page is gone, or its body too small to be worth it, or too large, or cannot be read; and where
        each value has a cell of its own.
        """
        if not self._placement.shares_values:
            return None
        pending = self.batch.pages.get(pointer)
        if pending is not None:
            return pending.base
        envelope = self.envelope(pointer, BODY)
        return None if envelope is None else self._bases.at(envelope, pointer)

    def text_base(self, base: Base) -> TextBase | None:
        """What the text of a page can be a delta against whose body is one against a base: see `Bases.text`."""
        return self._bases.text(base, self._text_of_holder, self.batch)

    def _text_of_holder(self, base: Base) -> TextBase | None:
        """The text of the page that holds a base; None where that is a delta itself."""
        pending = self.batch.pages.get(base.pointer)
        envelope = base.text
        if pending is None:
            if self.envelope(base.pointer, BODY) != base.envelope:
                return None  # the page's body is a delta against the base
            envelope = self.envelope(base.pointer, MAIN) or b""
        if not envelope or not is_ref(envelope):
            return None
        if pending is not None and pending.base is base:
            return TextBase(pending.page.analysed.main_bytes, envelope, False)
        return self._bases.plain_text(envelope)

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
            if write.base is not None:
                is_own = write.base.pointer == pointer  # its body is no delta, and its text neither
                text = write.page.analysed.main_bytes
                is_long = len(text) > INLINE_LIMIT_BYTES
                self._bases.remember(write.columns[BODY], write.base, text if is_own and is_long else None)
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
