"""Pages as judging sees them: committed ones, through a cache, and those of the group in flight.

Knows which columns a verdict asks for, and when a policy may hide a version; must not know how values are placed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from docstore.dedup.detector import StoredPage
from docstore.dedup.doubt import TitledPage
from docstore.model.capture import BODY, MAIN, Column
from docstore.model.format import INLINE_LIMIT_BYTES
from docstore.model.pointers import PagePointer
from docstore.reading.pages import StoredPages
from docstore.storage.cache import LruCache
from docstore.storage.envelope import is_absent, is_ref
from docstore.storage.port import Values
from docstore.storage.sharing import Base
from docstore.storage.table import Table
from docstore.writing.bases import Bases, TextBase

PAGES_HELD = 16_384
"""Some 18 MB: nearly every candidate is one of the last pages of the same site."""


class PendingPage(NamedTuple):
    """A page of the group in flight, as later pages of the group see it.

    Attributes:
        page: what every verdict needs.
        title: as shown.
        status: of HTTP.
        text: main text in UTF-8, as stored.
        body: as fetched.
        columns: cell values of its record, once they are placed.
        base: what a page like this one can lean on: this body, or the base that it leans on itself.
    """

    page: StoredPage
    title: str
    status: int
    text: bytes
    body: bytes
    columns: Mapping[Column, bytes]
    base: Base | None


class RecentPage:
    """A live page with what was made of it.

    Attributes:
        page: what every verdict needs.
        columns: its cell values.
        titled: its title and text as words; None if that has not been asked for yet.
    """

    __slots__ = ("columns", "page", "titled")

    def __init__(self, page: StoredPage, columns: Mapping[Column, bytes], titled: TitledPage | None = None) -> None:
        self.page = page
        self.columns = columns
        self.titled = titled


class RecentPages:
    """The last live versions read or written, by row: at most `most`."""

    def __init__(self, most: int = PAGES_HELD) -> None:
        self._rows: LruCache[bytes, dict[int, RecentPage]] = LruCache(most, len)

    def page(self, pointer: PagePointer) -> RecentPage | None:
        """A live version."""
        versions = self._rows.get(pointer.row_key)
        return None if versions is None else versions.get(pointer.timestamp)

    def put_page(self, pointer: PagePointer, page: RecentPage) -> None:
        """Hold a live version."""
        versions = self._rows.get(pointer.row_key) or {}
        versions[pointer.timestamp] = page
        self._rows.put(pointer.row_key, versions)

    def forget_rows(self, row_keys: Iterable[bytes]) -> None:
        """Let go of all versions of some rows."""
        for row_key in row_keys:
            self._rows.drop(row_key)

    def forget(self) -> None:
        """Let go of everything."""
        self._rows.clear()


class GroupPages(StoredPages):
    """Pages for the detector, with those of the group in flight.  Not thread-safe: the sequencer owns it.

    Attributes:
        in_doubt: since the group in flight was begun, a version was asked for of which only its commit can tell whether
            a policy hides it.
        hides: whether a policy may hide versions at all.
        turn: of the page that is judged: behind the pages in flight that were asked for since this was set to 0.

    Args:
        table: of pages.
        placement: where values lie.
        bases: bodies that others lean on.
        remembers: cache the last live versions, as far as the policies let them live until they are written
            again.  Whoever asks for that calls `forget` before the next read, once anybody else may have committed.
    """

    def __init__(self, table: Table, placement: Values, bases: Bases, *, remembers: bool) -> None:
        super().__init__(table, placement)
        self._bases = bases
        self._pending: dict[PagePointer, PendingPage] = {}
        self._pending_titled: dict[PagePointer, TitledPage] = {}
        self._pending_rows: set[bytes] = set()
        self._turns: dict[PagePointer, int] = {}
        self._lasting: set[PagePointer] = set()
        self.turn = 0
        self.in_doubt = False
        self.hides = table.collects_captures or table.collects_bodies
        self._remembers = remembers
        self._recent = RecentPages(PAGES_HELD if remembers and not table.ages_captures else 0)
        self._remembers_writes = remembers and not self.hides
        """A capture older than the ones that are stored may be hidden as soon as it is written."""

    # --- for the detector

    def page(self, pointer: PagePointer) -> StoredPage | None:
        """As of committed pages; None too, and `in_doubt`, where a policy may hide the version as soon as the group in
        flight is committed."""
        if self.hides and pointer.row_key in self._pending_rows and pointer not in self._lasting:
            self.in_doubt = True
            return None
        pending = self._pending.get(pointer)
        if pending is not None:
            self.turn = max(self.turn, self._turns[pointer] + 1)
            return pending.page
        recent = self._recent_page(pointer)
        return None if recent is None else recent.page

    def _recent_page(self, pointer: PagePointer) -> RecentPage | None:
        """A committed page, from the cache or the row."""
        recent = self._recent.page(pointer)
        if recent is None and pointer not in self._unusable:
            found = super().capture(pointer)
            page = None if found is None else self._page_of(found)
            if found is not None and page is not None:
                recent = RecentPage(page, found.columns)
                self._recent.put_page(pointer, recent)
        return recent

    def title(self, pointer: PagePointer) -> str:
        """Its shown title."""
        pending = self._pending.get(pointer)
        return super().title(pointer) if pending is None else pending.title

    def titled(self, pointer: PagePointer) -> TitledPage:
        """Its title and text; a page of a template is compared with by many, its words are found once."""
        recent = None if pointer in self._pending else self._recent.page(pointer)
        found = self._pending_titled.get(pointer) if recent is None else recent.titled
        if found is None:
            found = super().titled(pointer)
            if recent is not None:
                recent.titled = found
            elif pointer in self._pending:
                self._pending_titled[pointer] = found
        return found

    def status(self, pointer: PagePointer) -> int:
        """Its HTTP status."""
        pending = self._pending.get(pointer)
        return super().status(pointer) if pending is None else pending.status

    def text(self, pointer: PagePointer) -> str | None:
        """Its stored text; None where it cannot be read."""
        pending = self._pending.get(pointer)
        return super().text(pointer) if pending is None else pending.text.decode("utf-8", "surrogatepass")

    def body(self, pointer: PagePointer) -> bytes | None:
        """Its stored body; None where it cannot be read."""
        pending = self._pending.get(pointer)
        return super().body(pointer) if pending is None else pending.body

    def is_readable(self, pointer: PagePointer) -> bool:
        """Whether its body can be read."""
        if pointer in self._pending:
            return True
        envelope = self.envelope(pointer, BODY)
        if envelope is not None and not is_ref(envelope):
            return True
        if envelope is not None and self._remembers and self._bases.at(envelope, pointer) is not None:
            return True  # and held for whoever leans on it next
        return self.body(pointer) is not None

    def keeps_body(self, pointer: PagePointer) -> bool:
        """Whether the body of a committed version was kept."""
        envelope = self.envelope(pointer, BODY)
        return envelope is not None and not is_absent(envelope)

    # --- for what is placed

    def base(self, pointer: PagePointer) -> Base | None:
        """What a page like this one can lean on: its body, or the base that its body leans on.

        None when the version is gone, or its body too small to be worth it, or too large, or cannot be read.
        """
        pending = self._pending.get(pointer)
        if pending is not None:
            return pending.base
        envelope = self.envelope(pointer, BODY)
        return None if envelope is None else self._bases.at(envelope, pointer)

    def text_base(self, base: Base) -> TextBase | None:
        """What the text of a page can lean on whose body leans on a base: see `Bases.text`."""
        return self._bases.text(base, self._text_of_holder)

    def _text_of_holder(self, base: Base) -> TextBase | None:
        """The text of the page that holds a base; None where that leans on another itself."""
        pending = self._pending.get(base.pointer)
        envelope = base.text
        if pending is None:
            if self.envelope(base.pointer, BODY) != base.envelope:
                return None  # the page leans on the base itself
            envelope = self.envelope(base.pointer, MAIN) or b""
        if not envelope or not is_ref(envelope):
            return None
        if pending is not None and pending.base is base:
            return TextBase(pending.text, envelope, False)
        return self._bases.plain_text(envelope)

    def envelope(self, pointer: PagePointer, column: Column) -> bytes | None:
        """Where a value of a committed page lies; None where it has none."""
        recent = self._recent_page(pointer)
        return None if recent is None else recent.columns.get(column)

    def _column(self, pointer: PagePointer, column: Column) -> bytes | None:
        value = super()._column(pointer, column)
        if value is None:
            self._recent.forget_rows((pointer.row_key,))
        return value

    # --- the group in flight

    def add_pending(self, pointer: PagePointer, pending: PendingPage | None) -> None:
        """Let later pages of the group see this one; None marks the row as touched without a page to judge against."""
        self._pending_rows.add(pointer.row_key)
        if pending is not None:
            self._pending[pointer] = pending
            self._turns.setdefault(pointer, self.turn)
            if self.hides and self._table.keeps_newest(pointer.row_key, pointer.timestamp):
                self._lasting.add(pointer)

    def in_flight(self, row_key: bytes) -> bool:
        """Whether the group in flight writes this row."""
        return row_key in self._pending_rows

    def end_group(self, *, committed: bool) -> None:
        """The group in flight is committed, or has failed: its pages are stored ones now, or nothing."""
        self._recent.forget_rows(self._pending_rows)
        if committed and self._remembers_writes:
            for pointer, page in self._pending.items():
                if page.base is not None:
                    is_held = page.base.pointer == pointer  # its body leans on nothing, and its text neither
                    is_long = len(page.text) > INLINE_LIMIT_BYTES
                    self._bases.remember(page.columns[BODY], page.base, page.text if is_held and is_long else None)
                self._recent.put_page(pointer, RecentPage(page.page, page.columns, self._pending_titled.get(pointer)))
        if self._unusable:
            self._unusable = {pointer for pointer in self._unusable if pointer.row_key not in self._pending_rows}
        self._pending.clear()
        self._pending_titled.clear()
        self._turns.clear()
        self._pending_rows.clear()
        self._lasting.clear()
        self.in_doubt = False

    def forget_row(self, row_key: bytes) -> None:
        """A row was deleted."""
        self._recent.forget_rows((row_key,))

    def forget(self) -> None:
        """Others may have committed: read everything anew."""
        self._unusable.clear()
        self._recent.forget()
