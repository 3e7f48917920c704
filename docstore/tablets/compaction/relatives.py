"""Which bases a body or text may have when a tablet is compacted, the likeliest first.

Knows sketches, bases and page pointers; must not know how a delta is made.  A base is never a delta itself, so what is
offered is a value written plain in this run, or one that is a base already.  Sources for a body, in order: the row's
own versions; the body of the same bytes; the plain bodies of the tablet by the likeness of their sketches; the base
that it has now; the page that its verdict names.  For a text: the text of the page that gave the base of its body; the
base that it has now.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from docstore.model.capture import BODY, MAIN, Column
from docstore.model.format import CODEC_ZSTD_DELTA, SKETCH_BYTES
from docstore.model.pointers import PagePointer
from docstore.storage.bases import LARGEST_BASE_BYTES, Base, BaseRows, value_name
from docstore.storage.cache import LruCache
from docstore.storage.table import Table
from docstore.storage.unreadable import Place
from docstore.storage.values import INLINE_TAG, envelope_raw_bytes, is_ref
from docstore.tablets.manifest import Tablet
from docstore.tablets.placement import Placement

CACHE_BYTES = 64 << 20
CANDIDATES = 8192
"""Plain bodies of a tablet that are compared: later ones take the place of the first."""
LEAST_BASE_BYTES = 1024
SMALL_BASE_BYTES = 64 << 10
TIMES_LARGER = 2
"""A base above SMALL_BASE_BYTES may be so many times as long as the body: every read of the body decodes it as well."""
BINS = SKETCH_BYTES - 1


class Relatives:
    """Bases for the bodies of one tablet, filled as its bodies are written."""

    def __init__(
        self,
        tablet: Tablet,
        placement: Placement,
        base_rows: BaseRows,
        table: Table,
        *,
        least_likeness: float,
        by_likeness: int,
    ) -> None:
        self._tablet = tablet
        self._placement = placement
        self._base_rows = base_rows
        self._table = table
        self._least_equal = int(BINS * least_likeness)
        self._by_likeness = by_likeness
        self._sketches = np.zeros((CANDIDATES, BINS), np.uint8)
        self._sketched: list[Base] = []
        self._places: dict[bytes, int] = {}
        self._next = 0
        self._by_old_envelope: dict[bytes, Base] = {}
        self._old_envelopes: dict[bytes, bytes] = {}
        self._row: tuple[bytes, list[Base]] = (b"", [])
        self._last: Base | None = None
        self._texts: dict[bytes, Base] = {}
        """Texts written plain in this run, of bodies written plain: by the name of the body."""
        self._verified: set[bytes] = set()
        self._raw: LruCache[bytes, bytes] = LruCache(CACHE_BYTES, len)

    def add(self, sketch: bytes, base: Base, old_envelope: bytes) -> None:
        """A body that was written plain, with its raw bytes, and the envelope that still leads to them."""
        if not LEAST_BASE_BYTES <= len(base.raw) <= LARGEST_BASE_BYTES:
            return
        self._last = bare = self._bare(base, old_envelope)
        if self._row[0] != base.pointer.row_key:
            self._row = (base.pointer.row_key, [])
        self._row[1].append(bare)
        if len(sketch) == SKETCH_BYTES:
            place = self._next % CANDIDATES
            self._sketches[place] = np.frombuffer(sketch, np.uint8, offset=1)
            if place == len(self._sketched):
                self._sketched.append(bare)
            else:
                self._places.pop(self._sketched[place].name, None)
                self._sketched[place] = bare
            self._places[bare.name] = place
            self._next += 1

    def likeness(self, sketch: bytes, base: Base) -> float:
        """How like a base's text is to the text of a sketch, estimated; 0.0 where that is not known."""
        place = self._places.get(base.name)
        if place is None or len(sketch) != SKETCH_BYTES:
            return 0.0
        equal = self._sketches[place] == np.frombuffer(sketch, np.uint8, offset=1)
        return float(equal.mean())

    def add_text(self, body_name: bytes, base: Base, old_envelope: bytes) -> None:
        """The text of a body that was written plain, written plain as well; of several the first."""
        if body_name not in self._texts and len(base.raw) <= LARGEST_BASE_BYTES:
            self._texts[body_name] = self._bare(base, old_envelope)

    def _bare(self, base: Base, old_envelope: bytes) -> Base:
        """A base without its raw bytes, which go into the cache."""
        self._raw.put(base.name, base.raw)
        bare = base._replace(raw=b"")
        self._by_old_envelope[old_envelope] = bare
        self._old_envelopes[base.name] = old_envelope
        return bare

    def texts_near(
        self, row_key: bytes, name: bytes, raw: bytes, body_base: Base | None, current: bytes
    ) -> Iterator[Base]:
        """Bases to try for a text, with their raw bytes.

        Args:
            row_key, name, raw: of the text.
            body_base: the base of its page's body, or None.
            current: the name of the base that it has now; b"" for none.
        """
        if self._is_usable(name):
            yield Base(name, raw, b"", PagePointer(0, row_key))
            return
        found: list[Base | None] = []
        if body_base is not None:
            text = self._texts.get(body_base.name)
            pointer = body_base.pointer
            if text is None and pointer.timestamp:
                place = Place(pointer.row_key, *MAIN, pointer.timestamp)
                text = self._placement.unreadable.attempt(lambda: self._of(pointer, MAIN), place)
            found.append(text)
        if current and (not found or found[0] is None or found[0].name != current) and self._is_usable(current):
            found.append(Base(current, b"", b"", PagePointer(0, row_key)))
        for base in found:
            with_raw = None
            if base is not None and base.name != name:
                with_raw = self._placement.unreadable.attempt(partial(self._with_raw, base))
            if with_raw is not None:
                yield with_raw

    def near(
        self, row_key: bytes, name: bytes, raw: bytes, sketch: bytes, current: bytes, of_page: PagePointer | None
    ) -> Iterator[Base]:
        """Bases to try for a body, with their raw bytes, none of them twice."""
        given: set[bytes] = set()
        if self._is_usable(name):
            yield Base(name, raw, b"", PagePointer(0, row_key))
            return
        for base in self._candidates(row_key, sketch, current, of_page):
            if base.name in given or base.name == name:
                continue
            given.add(base.name)
            found = self._placement.unreadable.attempt(partial(self._with_raw, base))
            if found is not None and len(found.raw) <= max(SMALL_BASE_BYTES, TIMES_LARGER * len(raw)):
                yield found

    def _candidates(self, row_key: bytes, sketch: bytes, current: bytes, of_page: PagePointer | None) -> Iterator[Base]:
        if self._row[0] == row_key:
            yield from reversed(self._row[1][-2:])
        if len(sketch) == SKETCH_BYTES and self._sketched:
            yield from self._alike(sketch)
        elif self._last is not None:
            yield self._last
        if current and self._is_usable(current):
            yield Base(current, b"", b"", PagePointer(0, row_key))
        if of_page is not None:
            base = self._placement.unreadable.attempt(
                lambda: self._of(of_page), Place(of_page.row_key, *BODY, of_page.timestamp)
            )
            if base is not None:
                yield base

    def _alike(self, sketch: bytes) -> Iterator[Base]:
        count = len(self._sketched)
        equal = (self._sketches[:count] == np.frombuffer(sketch, np.uint8, offset=1)).sum(axis=1)
        best = np.argsort(-equal, kind="stable")[: self._by_likeness]
        for place in best.tolist():
            if equal[place] >= self._least_equal:
                yield self._sketched[place]

    def _of(self, pointer: PagePointer, column: Column = BODY) -> Base | None:
        """The body or text of a page that is like this one, or the base of that."""
        capture = self._table.capture_at(pointer.row_key, pointer.timestamp)
        envelope = INLINE_TAG if capture is None else capture.columns.get(column, INLINE_TAG)
        known = self._by_old_envelope.get(envelope)
        if known is not None:
            return known
        if not is_ref(envelope) or envelope_raw_bytes(envelope) > LARGEST_BASE_BYTES:
            return None
        record, raw = self._placement.fetch_record(envelope)
        if record.codec == CODEC_ZSTD_DELTA:
            return Base(record.related, b"", b"", pointer) if self._is_usable(record.related) else None
        inside = self._tablet.start <= pointer.row_key and (
            self._tablet.end is None or pointer.row_key < self._tablet.end
        )
        if inside or len(raw) < LEAST_BASE_BYTES:
            return None  # it may be on its way to becoming a delta itself
        name = value_name(raw)
        self._raw.put(name, raw)
        return Base(name, b"", envelope, pointer)

    def _is_usable(self, name: bytes) -> bool:
        """Whether there is a base of that name that deltas may be made against."""
        envelope = None if name in self._base_rows.retired else self._base_rows.envelope(name)
        if envelope is None or envelope_raw_bytes(envelope) > LARGEST_BASE_BYTES:
            return False
        return self._placement.unreadable.attempt(lambda: self._verify(envelope)) is not None

    def _verify(self, envelope: bytes) -> bool:
        """Make sure, once, that the record can be read that the row of a base names: deltas will need that one."""
        if envelope not in self._verified:
            self._placement.verify(envelope)
            self._verified.add(envelope)
        return True

    def _with_raw(self, base: Base) -> Base | None:
        lies = None if base.name in self._base_rows.retired else self._base_rows.envelope(base.name)
        if lies is not None:
            self._verify(lies)
        raw = self._raw.get(base.name)
        if raw is None:
            envelope = self._old_envelopes.get(base.name) or lies
            if envelope is None:
                return None
            raw = self._placement.fetch(envelope)
            self._raw.put(base.name, raw)
        return base._replace(raw=raw)
