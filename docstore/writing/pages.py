"""Pages as judging sees them: committed ones, through a cache, and those of the group in flight.

Knows which columns a verdict asks for, and when a policy may hide a version; must not know how values are placed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from docstore.dedup.comparable import TitledPage
from docstore.dedup.detector import StoredPage
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

FAMILIES_OF_A_VERSION = ("page", "http", "text", "dedup")
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
        envelope: where the body lies.
        base: what a page like this one can lean on: this body, or the base that it leans on itself.
    """

    page: StoredPage
    title: str
    status: int
    text: bytes
    body: bytes
    envelope: bytes
    base: Base | None


class RecentPage:
    """Columns of one live version; None where a column has not been asked for yet.

    Attributes:
        page: what every verdict needs.
        title: as shown.
        status: of HTTP.
        envelope: of its body.
        text: envelope of its text.
        titled: its title and text as words.
    """

    __slots__ = ("envelope", "page", "status", "text", "title", "titled")

    def __init__(
        self,
        page: StoredPage,
        title: str | None = None,
        status: int | None = None,
        envelope: bytes | None = None,
        text: bytes | None = None,
        titled: TitledPage | None = None,
    ) -> None:
        self.page = page
        self.title = title
        self.status = status
        self.envelope = envelope
        self.text = text
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
        self.hides = table.collects(FAMILIES_OF_A_VERSION)
        policies = [table.policy(family) for family in FAMILIES_OF_A_VERSION]
        ages = any(policy.max_age_seconds is not None for policy in policies)
        self._remembers = remembers
        self._recent = RecentPages(PAGES_HELD if remembers and not ages else 0)
        self._remembers_writes = remembers and all(policy.max_versions is None for policy in policies)
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
        recent = self._recent.page(pointer)
        if recent is not None:
            return recent.page
        page = super().page(pointer)
        if page is not None:
            self._recent.put_page(pointer, RecentPage(page))
        return page

    def title(self, pointer: PagePointer) -> str:
        """Its shown title."""
        pending = self._pending.get(pointer)
        if pending is not None:
            return pending.title
        recent = self._recent.page(pointer)
        if recent is not None and recent.title is not None:
            return recent.title
        title = super().title(pointer)
        if recent is not None:
            recent.title = title
        return title

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
        if pending is not None:
            return pending.status
        recent = self._recent.page(pointer)
        if recent is not None and recent.status is not None:
            return recent.status
        status = super().status(pointer)
        if recent is not None:
            recent.status = status
        return status

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
        envelope = self._body_envelope(pointer)
        if envelope is not None and not is_ref(envelope):
            return True
        if envelope is not None and self._remembers and self._bases.at(envelope, pointer) is not None:
            return True  # and held for whoever leans on it next
        return self.body(pointer) is not None

    def keeps_body(self, pointer: PagePointer) -> bool:
        """Whether the body of a committed version was kept."""
        envelope = self._body_envelope(pointer)
        return envelope is not None and not is_absent(envelope)

    # --- for what is placed

    def base(self, pointer: PagePointer) -> Base | None:
        """What a page like this one can lean on: its body, or the base that its body leans on.

        None when the version is gone, or its body too small to be worth it, or too large, or cannot be read.
        """
        pending = self._pending.get(pointer)
        if pending is not None:
            return pending.base
        envelope = self._body_envelope(pointer)
        return None if envelope is None else self._bases.at(envelope, pointer)

    def text_base(self, base: Base) -> TextBase | None:
        """What the text of a page can lean on whose body leans on a base: see `Bases.text`."""
        return self._bases.text(base, self._text_of_holder)

    def _text_of_holder(self, base: Base) -> TextBase | None:
        """The text of the page that holds a base; None where that leans on another itself."""
        pending = self._pending.get(base.pointer)
        envelope = base.text
        if pending is None:
            if self._body_envelope(base.pointer) != base.envelope:
                return None  # the page leans on the base itself
            recent = self._recent.page(base.pointer)
            known = None if recent is None else recent.text
            envelope = (self.envelope(base.pointer, MAIN) or b"") if known is None else known
        if not envelope or not is_ref(envelope):
            return None
        if pending is not None and pending.base is base:
            return TextBase(pending.text, envelope, False)
        return self._bases.plain_text(envelope)

    def _body_envelope(self, pointer: PagePointer) -> bytes | None:
        recent = self._recent.page(pointer)
        if recent is not None and recent.envelope is not None:
            return recent.envelope
        envelope = self.envelope(pointer, BODY)
        if recent is not None:
            recent.envelope = envelope
        return envelope

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
            if self.hides and self._table.keeps_newest(pointer.row_key, pointer.timestamp, FAMILIES_OF_A_VERSION):
                self._lasting.add(pointer)

    def in_flight(self, row_key: bytes) -> bool:
        """Whether the group in flight writes this row."""
        return row_key in self._pending_rows

    def end_group(self, *, committed: bool) -> None:
        """The group in flight is committed, or has failed: its pages are stored ones now, or nothing."""
        self._recent.forget_rows(self._pending_rows)
        if committed and self._remembers_writes:
            for pointer, page in self._pending.items():
                stored, title, status, raw_text, _, envelope, base = page
                text = None
                if base is not None:
                    is_held = base.pointer == pointer  # its body leans on nothing, and its text neither
                    text = base.text if is_held else None
                    self._bases.remember(
                        envelope, base, raw_text if is_held and len(raw_text) > INLINE_LIMIT_BYTES else None
                    )
                titled = self._pending_titled.get(pointer)
                self._recent.put_page(pointer, RecentPage(stored, title, status, envelope, text, titled))
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
