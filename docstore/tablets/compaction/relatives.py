"""Candidates for the base of a body or text in a compaction, the most likely first.

A base is never a delta, so candidates are values that were written whole in this run, and existing bases.  For a body,
in order: a base of the same bytes; versions of the same row; whole bodies of the tablet, by the similarity of their
sketches; its current base; the page that its verdict names.  For a text: the text of the page of its body's base; its
current base.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from docstore.model.capture import BODY, MAIN, Column, sketch_bins
from docstore.model.format import CODEC_ZSTD_DELTA, SKETCH_BYTES
from docstore.model.pointers import PagePointer
from docstore.reference.fingerprints import BINS, estimate
from docstore.storage.bases import LARGEST_BASE_BYTES, Base, BaseRows, value_name
from docstore.storage.cache import LruCache
from docstore.storage.table import Table
from docstore.storage.unreadable import Place
from docstore.storage.values import INLINE_TAG, is_ref, raw_bytes_of
from docstore.tablets.manifest import Tablet
from docstore.tablets.values import LocalValues

CACHE_BYTES = 64 << 20
"""Raw bytes of bases, of all threads together."""
CANDIDATES = 8192
"""Whole bodies of a tablet that are compared; later ones replace the first."""
LEAST_BASE_BYTES = 1024
SMALL_BASE_BYTES = 64 << 10
TIMES_LARGER = 2
"""A base above SMALL_BASE_BYTES may be so many times as long as the body: each read of the body decodes the base."""


class Relatives:
    """Bases for the bodies and texts of one tablet, filled as they are written."""

    def __init__(
        self,
        tablet: Tablet,
        values: LocalValues,
        base_rows: BaseRows,
        table: Table,
        *,
        least_likeness: float,
        by_likeness: int,
        cache_bytes: int,
    ) -> None:
        self._tablet = tablet
        self._values = values
        self._base_rows = base_rows
        self._table = table
        self._least_likeness = least_likeness
        self._by_likeness = by_likeness
        self._sketches = np.zeros((CANDIDATES, BINS), np.uint8)
        self._sketched: list[Base] = []
        self._indexes: dict[bytes, int] = {}
        """Index in `_sketches` and `_sketched`, by name of the base."""
        self._next = 0
        self._by_old_value: dict[bytes, Base] = {}
        self._old_values: dict[bytes, bytes] = {}
        self._row: tuple[bytes, list[Base]] = (b"", [])
        self._last: Base | None = None
        self._texts: dict[bytes, Base] = {}
        """Texts written whole in this run, of bodies written whole, by the name of the body."""
        self._verified: set[bytes] = set()
        self._raw: LruCache[bytes, bytes] = LruCache(cache_bytes, len)

    def add(self, sketch: bytes, base: Base, old_value: bytes) -> None:
        """Add a body that was written whole, with its raw bytes, and its old cell value, which is still valid."""
        if not LEAST_BASE_BYTES <= len(base.raw) <= LARGEST_BASE_BYTES:
            return
        self._last = base = self._cached(base, old_value)
        if self._row[0] != base.pointer.row_key:
            self._row = (base.pointer.row_key, [])
        self._row[1].append(base)
        if len(sketch) == SKETCH_BYTES:
            index = self._next % CANDIDATES
            self._sketches[index] = np.frombuffer(sketch_bins(sketch), np.uint8)
            if index == len(self._sketched):
                self._sketched.append(base)
            else:
                self._indexes.pop(self._sketched[index].name, None)
                self._sketched[index] = base
            self._indexes[base.name] = index
            self._next += 1

    def likeness(self, sketch: bytes, base: Base) -> float:
        """Estimated similarity of a base's text and the text of a sketch; 0.0 if it is not known."""
        index = self._indexes.get(base.name)
        if index is None or len(sketch) != SKETCH_BYTES:
            return 0.0
        equal = self._sketches[index] == np.frombuffer(sketch_bins(sketch), np.uint8)
        return estimate(int(np.count_nonzero(equal)), BINS)

    def add_text(self, body_name: bytes, base: Base, old_value: bytes) -> None:
        """Add a text that was written whole, as its body was; only the first for each body counts."""
        if body_name not in self._texts and len(base.raw) <= LARGEST_BASE_BYTES:
            self._texts[body_name] = self._cached(base, old_value)

    def _cached(self, base: Base, old_value: bytes) -> Base:
        """Put the raw bytes of a base into the cache; returns the base without them."""
        self._raw.put(base.name, base.raw)
        base = base._replace(raw=b"")
        self._by_old_value[old_value] = base
        self._old_values[base.name] = old_value
        return base

    def texts_near(
        self, row_key: bytes, name: bytes, raw: bytes, body_base: Base | None, current: bytes
    ) -> Iterator[Base]:
        """Bases to try for a text, with their raw bytes.

        Args:
            row_key, name, raw: of the text.
            body_base: the base of its page's body, or None.
            current: the name of its current base; b"" for none.
        """
        if self.is_usable(name):
            yield Base(name, raw, b"", PagePointer(0, row_key))
            return
        candidates: list[Base | None] = []
        if body_base is not None:
            text = self._texts.get(body_base.name)
            pointer = body_base.pointer
            if text is None and pointer.timestamp:
                place = Place(pointer.row_key, *MAIN, pointer.timestamp)
                text = self._values.unreadable.attempt(lambda: self._of(pointer, MAIN), place)
            candidates.append(text)
        is_other = not candidates or candidates[0] is None or candidates[0].name != current
        if current and is_other and self.is_usable(current):
            candidates.append(Base(current, b"", b"", PagePointer(0, row_key)))
        for base in candidates:
            with_raw = None
            if base is not None and base.name != name:
                with_raw = self._values.unreadable.attempt(partial(self._with_raw, base))
            if with_raw is not None:
                yield with_raw

    def near(
        self, row_key: bytes, name: bytes, raw: bytes, sketch: bytes, current: bytes, of_page: PagePointer | None
    ) -> Iterator[Base]:
        """Bases to try for a body, with their raw bytes, each once."""
        tried: set[bytes] = set()
        if self.is_usable(name):
            yield Base(name, raw, b"", PagePointer(0, row_key))
            return
        for base in self._candidates(row_key, sketch, current, of_page):
            if base.name in tried or base.name == name:
                continue
            tried.add(base.name)
            with_raw = self._values.unreadable.attempt(partial(self._with_raw, base))
            if with_raw is not None and len(with_raw.raw) <= max(SMALL_BASE_BYTES, TIMES_LARGER * len(raw)):
                yield with_raw

    def _candidates(self, row_key: bytes, sketch: bytes, current: bytes, of_page: PagePointer | None) -> Iterator[Base]:
        if self._row[0] == row_key:
            yield from reversed(self._row[1][-2:])
        if len(sketch) == SKETCH_BYTES and self._sketched:
            yield from self._similar(sketch)
        elif self._last is not None:
            yield self._last
        if current and self.is_usable(current):
            yield Base(current, b"", b"", PagePointer(0, row_key))
        if of_page is not None:
            base = self._values.unreadable.attempt(
                lambda: self._of(of_page), Place(of_page.row_key, *BODY, of_page.timestamp)
            )
            if base is not None:
                yield base

    def _similar(self, sketch: bytes) -> Iterator[Base]:
        count = len(self._sketched)
        equal = (self._sketches[:count] == np.frombuffer(sketch_bins(sketch), np.uint8)).sum(axis=1)
        best = np.argsort(-equal, kind="stable")[: self._by_likeness]
        for index in best.tolist():
            if estimate(int(equal[index]), BINS) >= self._least_likeness:
                yield self._sketched[index]

    def _of(self, pointer: PagePointer, column: Column = BODY) -> Base | None:
        """The body or text of a page, or its base if it is a delta."""
        capture = self._table.capture_at(pointer.row_key, pointer.timestamp)
        cell_value = INLINE_TAG if capture is None else capture.columns.get(column, INLINE_TAG)
        base = self._by_old_value.get(cell_value)
        if base is not None:
            return base
        if not is_ref(cell_value) or raw_bytes_of(cell_value) > LARGEST_BASE_BYTES:
            return None
        record, raw = self._values.fetch_record(cell_value)
        if record.codec == CODEC_ZSTD_DELTA:
            return Base(record.related, b"", b"", pointer) if self.is_usable(record.related) else None
        inside = self._tablet.start <= pointer.row_key and (
            self._tablet.end is None or pointer.row_key < self._tablet.end
        )
        if inside or len(raw) < LEAST_BASE_BYTES:
            return None  # inside the tablet, this run may make it a delta
        name = value_name(raw)
        self._raw.put(name, raw)
        return Base(name, b"", cell_value, pointer)

    def is_usable(self, name: bytes) -> bool:
        """Whether deltas may be made against the base of that name."""
        cell_value = None if name in self._base_rows.retired else self._base_rows.cell_value(name)
        if cell_value is None or raw_bytes_of(cell_value) > LARGEST_BASE_BYTES:
            return False
        return self._values.unreadable.attempt(lambda: self._verify(cell_value)) is not None

    def _verify(self, cell_value: bytes) -> bool:
        """Check, once, that the record of a base's row can be read: deltas will need it."""
        if cell_value not in self._verified:
            self._values.verify(cell_value)
            self._verified.add(cell_value)
        return True

    def _with_raw(self, base: Base) -> Base | None:
        in_row = None if base.name in self._base_rows.retired else self._base_rows.cell_value(base.name)
        if in_row is not None:
            self._verify(in_row)
        raw = self._raw.get(base.name)
        if raw is None:
            cell_value = self._old_values.get(base.name) or in_row
            if cell_value is None:
                return None
            raw = self._values.fetch(cell_value)
            self._raw.put(base.name, raw)
        return base._replace(raw=raw)
