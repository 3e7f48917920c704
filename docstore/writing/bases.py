"""Bodies and texts to lean on: read where they lie, and kept in LRU caches.

Knows shared bodies, their texts and where values lie; must not know verdicts, nor pages of the group in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from docstore.model.capture import BODY, MAIN
from docstore.model.pointers import PagePointer
from docstore.model.types import RowMutations, SetCell
from docstore.storage.cache import LruCache
from docstore.storage.envelope import envelope_raw_bytes, is_ref
from docstore.storage.port import Values
from docstore.storage.sharing import BODY_FAMILY, ENVELOPE, LARGEST_BASE_BYTES, TEXT, Base, SharedBodies, body_name
from docstore.storage.unreadable import Place

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
        self._of_group: dict[bytes, TextBase | None] = {}
        """Texts that bases of these names have or get in the group in flight."""
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

    def text(self, base: Base, of_holder: Callable[[Base], TextBase | None]) -> TextBase | None:
        """What the text of a page can lean on whose body leans on a base; None where there is none that can be read.

        Args:
            base: of the body.
            of_holder: gives the text of the page that holds the base: it is that, while the base's row names none.
        """
        known = self._texts.get(base.name)
        if known is not None:
            return known
        if base.name in self._of_group:
            return self._of_group[base.name]
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
        self._of_group[base.name] = text
        return text

    def plain_text(self, envelope: bytes) -> TextBase | None:
        """A text that lies there, to lean on; None where it leans on another itself."""
        held = self._plain.get(envelope)
        if held is not None:
            return TextBase(held, envelope, False)
        raw, leans_on = self._placement.fetch_leaning(envelope)
        return None if leans_on else TextBase(raw, envelope, False)

    def name_text(self, name: bytes, text: TextBase) -> None:
        """The base's row names this text, from this group on."""
        self._of_group[name] = text._replace(named=True)

    def remember(self, envelope: bytes, base: Base, text: bytes | None) -> None:
        """A page of the group was written.

        Args:
            envelope: of its body.
            base: what pages like it can lean on.
            text: its own, where that lies in a record and leans on nothing.
        """
        if text is not None:
            self._plain.put(base.text, text)
        if envelope not in self._bases:
            self._bases.put(envelope, base)

    def end_group(self, *, committed: bool, shared: Iterable[RowMutations]) -> None:
        """The group in flight is committed, or has failed.

        Args:
            committed: which of the two.
            shared: what it wrote to rows of shared bodies: set cells alone.
        """
        if committed:
            for _, name, mutations in shared:
                before = self._rows.get(name)
                if before is not None:
                    cells = (cell for cell in mutations if isinstance(cell, SetCell) and cell.family == BODY_FAMILY)
                    self._rows.put(name, before | {cell.qualifier: cell.value for cell in cells})
            for name, text in self._of_group.items():
                if text is not None and text.named:
                    self._texts.put(name, text)
        self._of_group.clear()

    def forget(self) -> None:
        """Others may have committed: read everything anew."""
        for cache in (self._rows, self._bases, self._texts, self._plain):
            cache.clear()
