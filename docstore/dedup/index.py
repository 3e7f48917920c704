"""The inverted hash index: from fingerprints to pages.

Knows the engine protocol, `buckets`, `format` and `analysis`; must not know what makes two pages duplicates.

Three steps lead from a fingerprint to a page, and each level holds a thing once:

    band key or 0-mod-p fingerprint -> text numbers -> bodies -> (timestamp, row key) of pages

The first step is that of `Buckets`; the others are bare rows of the engine's `postings` table, few and the same on
every engine.  A text number is the head of the text checksum, a body is named by the head of its checksum.  Pages of
equal text are therefore one posting in every bucket, however many they are; and when the page that brought a text is
deleted, its buckets lead to the others that still hold it.  Postings are idempotent and may be stale: whoever follows
one verifies it against the page's row.

Postings of pages that are not committed yet lie in an overlay, so that a page is judged against those before it in its
own group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import partial
from heapq import merge
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from blake3 import blake3

from docstore.dedup.buckets import FAMILY, TABLE, BandBuckets, Buckets
from docstore.dedup.comparable import near_compares, text_compares
from docstore.dedup.oldest import Fits, Oldest
from docstore.dedup.ranking import BUCKET_LIMIT, LOOKS_INSIDE, LOOKS_MOST, LOOKS_NEAR, IndexQuery, Proposal
from docstore.model.format import (
    POSTING_BODY,
    POSTING_DOCNO,
    POSTING_PAYLOAD_DIGEST,
    POSTING_TEXT,
    TEXT_NUMBER_BYTES,
)
from docstore.model.pointers import PagePointer, body_head, text_number
from docstore.model.types import DeleteCells, Position, ReadSpec, RowMutations, SetCell
from docstore.storage.cache import SequenceCache
from docstore.storage.engine import Engine

if TYPE_CHECKING:
    from docstore.dedup.analysis import Analysis

POINTER_SLICE = 64
"""Page pointers read at a time; a body that thousands of URLs share is read in slices."""
MOST_POINTERS = 1024
"""The same, of a body that is read to its end."""
ROWS_HELD = 131_072
"""Rows of texts and bodies in the cache, with their qualifiers, of which most have one: at most some 20 MB.  Most
candidates are texts of the last pages."""

LOOKS = LOOKS_NEAR + LOOKS_INSIDE + LOOKS_MOST
GONE_HELD = 65_536
"""Texts known to be gone."""
PAGES_HELD = 32_768
"""Texts whose pages are in the cache, with those pages: at most some 8 MB."""
CONDITIONS_HELD = 128
"""Conditions asked of one body that very many pages have: by status class, and by text."""
OLDEST_HELD = 8192
"""The same of all bodies, some 8 MB; those of the body go first that was asked for least recently."""

_new_tuple = tuple.__new__
"""Half of what it costs to make a pointer or a cell, of which there are a dozen a page."""
_BODY = bytes((POSTING_BODY,))
_TEXT = bytes((POSTING_TEXT,))


class Posted(NamedTuple):
    """A capture, and the names under which it was posted; "" and b"" where it has none."""

    timestamp: int
    body_checksum: bytes
    text_checksum: bytes
    payload_digest: str
    docno: str


def _name_key(kind: int, name: str) -> bytes:
    return bytes((kind,)) + blake3(name.encode("utf-8", "surrogateescape")).digest(8)


def _pointer(qualifier: bytes) -> PagePointer:
    return _new_tuple(PagePointer, (int.from_bytes(qualifier[:8], "big"), qualifier[8:]))


def _index_query(analysis: Analysis) -> IndexQuery:
    number = int.from_bytes(text_number(analysis.text_checksum), "big")
    return IndexQuery(analysis.band_keys, analysis.fingerprints, analysis.runs, number)


def _is_near_query(analysis: Analysis) -> bool:
    return bool(analysis.text_checksum) and len(analysis.band_keys) > 0


def _near_queries(analyses: Iterable[Analysis]) -> list[IndexQuery]:
    return [_index_query(analysis) for analysis in analyses if _is_near_query(analysis)]


def _posting(row_key: bytes, qualifier: bytes) -> RowMutations:
    return _new_tuple(RowMutations, (TABLE, row_key, (_new_tuple(SetCell, (FAMILY, qualifier, 0, b"")),)))


def body_postings(pointer: PagePointer, body_checksum: bytes, text_checksum: bytes) -> list[RowMutations]:
    """Postings that lead from a body to a page, and from its text, b"" for none, to the body."""
    body = body_head(body_checksum)
    rows = [_posting(_BODY + body, pointer.timestamp.to_bytes(8, "big") + pointer.row_key)]
    if text_checksum:
        rows.append(_posting(_TEXT + text_number(text_checksum), body))
    return rows


def _insert(ordered: list[bytes], qualifier: bytes) -> None:
    """Put a qualifier into a list that is in order and holds each once."""
    at = bisect_left(ordered, qualifier)
    if at == len(ordered) or ordered[at] != qualifier:
        ordered.insert(at, qualifier)


def _first_of(stored: Sequence[bytes], pending: Sequence[bytes], limit: int) -> Sequence[bytes]:
    """The first qualifiers of a row, each once; both lists are in order."""
    if not stored:  # most rows are of one page's own body or text
        return pending if len(pending) <= limit else pending[:limit]
    return list(dict.fromkeys(merge(stored[:limit], pending[:limit])))[:limit]


class HashIndex:
    """Look-ups over committed postings and those of the group in flight.

    Attributes:
        gone_seen: how often a text was noted to be gone.

    Not thread-safe: one sequencer owns it; a reader makes its own over the same engine and buckets.

    Args:
        engine: where postings are.
        buckets: first step of a look-up.
        remembers: keep rows of texts and bodies in a cache.  Whoever asks for that calls `forget` before the next
            look-up, once anybody else may have written postings.
    """

    def __init__(self, engine: Engine, buckets: Buckets, *, remembers: bool = False) -> None:
        self._engine = engine
        self._buckets = buckets
        self._pending: dict[bytes, list[bytes]] = {}
        self._rows: SequenceCache[bytes, Sequence[bytes]] | None = SequenceCache(ROWS_HELD) if remembers else None
        """The first POINTER_SLICE qualifiers of rows as they are committed, fewer where a row has no more; where
        remembered."""
        self._pages: SequenceCache[bytes, list[PagePointer]] = SequenceCache(PAGES_HELD)
        """Pages that texts lead to, those of the group in flight included; where rows are remembered."""
        self._oldest: OrderedDict[bytes, dict[Hashable, Oldest]] = OrderedDict()
        """Of bodies that very many pages have: what was asked of them; where rows are remembered."""
        self._oldest_count = 0
        self._last: tuple[Analysis, Proposal] | None = None
        """The last page that was asked for: judging a page and posting it ask for the same."""
        self._gone: dict[int, None] = {}
        """Texts that were seen to have no page that is left; the last ones."""
        self.gone_seen = 0

    # --- reading

    def pages_with_body(self, body_checksum: bytes) -> Iterable[PagePointer]:
        """Pages whose body has this checksum's head, oldest first; the caller verifies each."""
        row_key = _BODY + body_head(body_checksum)
        found = self._qualifiers(row_key, POINTER_SLICE)
        if not found:  # of most pages
            return []
        if len(found) < POINTER_SLICE:
            return [_pointer(qualifier) for qualifier in found]
        return map(_pointer, chain(found, self._qualifiers_behind(row_key, found[-1])))

    def _qualifiers_behind(self, row_key: bytes, last: bytes) -> Iterator[bytes]:
        """The qualifiers of a row behind one of them, read in slices."""
        pending = self._pending.get(row_key, [])
        pending = pending[bisect_left(pending, last) :]
        for qualifier in merge(self._stored_behind(row_key, last), pending):
            if qualifier > last:
                yield qualifier
                last = qualifier

    def _stored_behind(self, row_key: bytes, last: bytes) -> Iterator[bytes]:
        limit = POINTER_SLICE
        while True:
            spec = ReadSpec((FAMILY,), cell_limit=limit, after=Position(FAMILY, last, 0))
            cells = self._engine.read_row(TABLE, row_key, spec)
            for cell in cells:
                yield cell.qualifier
            if len(cells) < limit:
                return
            last, limit = cells[-1].qualifier, min(limit * 4, MOST_POINTERS)

    def oldest_with_body(
        self, body_checksum: bytes, row_key: bytes, fits: Fits, condition: Hashable
    ) -> PagePointer | None:
        """The oldest page with a body that fits and is of another row; None where there is none.

        Args:
            body_checksum: or its head.
            row_key: pages of this row are left out.
            fits: verifies a page; one that does not fit is not asked about again, until it is posted again.
            condition: names what `fits` asks for: the same for the same answers.
        """
        return self._oldest_of(body_checksum, self.pages_with_body(body_checksum), row_key, fits, condition)

    def _oldest_of(
        self, body: bytes, pages: Iterable[PagePointer], row_key: bytes, fits: Fits, condition: Hashable
    ) -> PagePointer | None:
        if self._rows is None or isinstance(pages, list):
            return next((page for page in pages if page.row_key != row_key and fits(page)), None)
        body_row = _BODY + body_head(body)
        asked = self._oldest.setdefault(body_row, {})
        self._oldest.move_to_end(body_row)
        oldest = asked.get(condition)
        if oldest is None:
            if len(asked) == CONDITIONS_HELD:
                del asked[next(iter(asked))]
                self._oldest_count -= 1
            oldest = asked[condition] = Oldest(partial(self._pages_behind, body_row))
            self._oldest_count += 1
            while self._oldest_count > OLDEST_HELD:
                self._oldest_count -= len(self._oldest.popitem(last=False)[1])
        return oldest.find(row_key, fits)

    def oldest_with_text(
        self, number: bytes, row_key: bytes, fits: Fits, also: Fits | None = None
    ) -> PagePointer | None:
        """The oldest page with a text that fits and is of another row; None where there is none.

        Args:
            number: of the text.
            row_key: pages of this row are left out.
            fits: verifies a page, by its text's number and its status alone.
            also: asks for more.  Of a body that very many pages have, POINTER_SLICE pages are asked, the oldest that
                fits and those behind it: pages with one body are alike.
        """
        pages = self._pages.get(number)
        if pages is None:
            pages = self._pages_to_ask(number, row_key, fits, 1 if also is None else POINTER_SLICE)
        for page in pages:
            if page.row_key != row_key and fits(page) and (also is None or also(page)):
                return page
        return None

    def _pages_to_ask(self, number: bytes, row_key: bytes, fits: Fits, most: int) -> list[PagePointer]:
        """All pages of a text, oldest first; but of each body that very many have the oldest that fits, and behind it
        as many as make `most`."""
        pages: list[PagePointer] = []
        is_whole = True
        for body in self._qualifiers(_TEXT + number, BUCKET_LIMIT):
            found = self.pages_with_body(body)
            if isinstance(found, list):
                pages += found
                continue
            is_whole = False
            oldest = self._oldest_of(body, found, row_key, fits, number)
            if oldest is not None:
                pages += [oldest, *islice(self._pages_behind(_BODY + body, oldest), most - 1)]
        pages.sort()
        if is_whole and self._rows is not None:
            self._pages.put(number, pages)
        return pages

    def _pages_behind(self, body_row: bytes, page: PagePointer) -> Iterator[PagePointer]:
        return map(_pointer, self._qualifiers_behind(body_row, page.timestamp.to_bytes(8, "big") + page.row_key))

    def pages_with_text(self, number: bytes) -> Iterable[PagePointer]:
        """Pages of the bodies that have this text, the oldest of each body first; the caller verifies each."""
        bodies = self._qualifiers(_TEXT + number, BUCKET_LIMIT)
        if len(bodies) == 1:
            return self.pages_with_body(bodies[0])
        return sorted(pointer for body in bodies for pointer in islice(self.pages_with_body(body), POINTER_SLICE))

    def pages_with_payload_digest(self, payload_digest: str) -> Iterator[PagePointer]:
        """Pages of bodies that this digest was recorded of; the caller verifies each."""
        for body in self._qualifiers(_name_key(POSTING_PAYLOAD_DIGEST, payload_digest), BUCKET_LIMIT):
            yield from self.pages_with_body(body)

    def pages_with_docno(self, docno: str) -> Iterator[PagePointer]:
        """Pages that came under this document number; the caller verifies each."""
        for qualifier in self._qualifiers(_name_key(POSTING_DOCNO, docno), BUCKET_LIMIT):
            yield PagePointer(int.from_bytes(qualifier[:8], "big"), qualifier[8:])

    def pages_with_text_of(self, analysis: Analysis) -> Iterable[PagePointer]:
        """Pages whose text has the same number as the page's."""
        return self.pages_with_text(text_number(analysis.text_checksum))

    def prepare(self, analyses: Iterable[Analysis]) -> None:
        """Say which pages are judged next: the rows of their texts and bodies are read together, where remembered."""
        pages = list(analyses)
        rows = self._rows
        if rows is None or len(pages) < 2:
            return
        wanted = {_BODY + body_head(analysis.body_checksum) for analysis in pages}
        wanted |= {_TEXT + text_number(analysis.text_checksum) for analysis in pages if analysis.text_checksum}
        missing = sorted(rows.missing(wanted))
        found = self._engine.qualifiers_of_rows(TABLE, missing, POINTER_SLICE)
        for row_key, stored in zip(missing, found, strict=True):
            self._hold(row_key, stored or (), POINTER_SLICE)  # what is new has none, mostly

    def rows_of(self, analyses: Iterable[Analysis]) -> list[bytes]:
        """Rows of postings that judging these pages asks for first, whatever is stored."""
        pages = list(analyses)
        rows = {_BODY + body_head(analysis.body_checksum) for analysis in pages}
        rows |= {_TEXT + text_number(analysis.text_checksum) for analysis in pages if analysis.text_checksum}
        bands = BandBuckets.rows_of(_near_queries(pages)) if isinstance(self._buckets, BandBuckets) else []
        return sorted(rows) + bands

    def read_together(
        self, analyses: Sequence[Analysis], asked: Callable[[Analysis, list[int]], list[int]]
    ) -> list[PagePointer]:
        """Read in few calls what judging these pages will ask the index for, and say which pages it leads to.

        Args:
            analyses: of pages for which `prepare` was called.
            asked: of a page, and of the texts that are proposed for it, those whose pages will be asked for.
        """
        self._buckets.prepare(_near_queries(analyses))
        near = [analysis for analysis in analyses if _is_near_query(analysis)]
        numbers = dict.fromkeys(
            number for one in near for number in asked(one, self._propose(_index_query(one)).numbers)
        )
        texts = [number.to_bytes(TEXT_NUMBER_BYTES, "big") for number in numbers]
        self._hold_together(_TEXT + text for text in texts)
        bodies = dict.fromkeys(body_head(analysis.body_checksum) for analysis in analyses)
        texts += [text_number(analysis.text_checksum) for analysis in analyses if analysis.text_checksum]
        bodies.update(
            dict.fromkeys(body for text in texts for body in self._qualifiers(_TEXT + text, BUCKET_LIMIT)[:1])
        )
        self._hold_together(_BODY + body for body in bodies)
        found = (self._qualifiers(_BODY + body, POINTER_SLICE)[:1] for body in bodies)
        return [_pointer(qualifier) for qualifiers in found for qualifier in qualifiers]

    def _hold_together(self, row_keys: Iterable[bytes]) -> None:
        rows = self._rows
        assert rows is not None
        missing = rows.missing(row_keys)
        for row_key, stored in zip(
            missing, self._engine.qualifiers_of_rows(TABLE, missing, POINTER_SLICE), strict=True
        ):
            self._hold(row_key, stored, POINTER_SLICE)

    def forget(self) -> None:
        """Others may have written postings: read rows anew."""
        if self._rows is not None:
            self._rows.clear()
        self._pages.clear()
        self._gone.clear()
        self._oldest.clear()
        self._oldest_count = 0

    def _hold(self, row_key: bytes, stored: Sequence[bytes], limit: int) -> None:
        """Cache the beginning of a row, unless a limit has cut it short of that."""
        rows = self._rows
        if rows is not None and (len(stored) < limit or limit >= POINTER_SLICE):
            rows.put(row_key, stored if len(stored) <= POINTER_SLICE else stored[:POINTER_SLICE])

    def propose(self, analysis: Analysis) -> Proposal:
        """Texts that share a band or a 0-mod-p fingerprint with the page: which of them to look at, and how many."""
        if self._last is None or self._last[0] is not analysis:
            self._last = analysis, self._propose(_index_query(analysis))
        return self._last[1]

    def _propose(self, query: IndexQuery) -> Proposal:
        """What the buckets propose, less what is known to be gone: that takes no place of what is left."""
        proposal = self._buckets.propose(query)
        while self._gone:
            left = [number for number in proposal.numbers if number not in self._gone]
            hidden = len(proposal.numbers) - len(left)
            if hidden <= query.more:
                further = [number for number in proposal.further if number not in self._gone]
                return proposal._replace(numbers=left[:LOOKS], further=further)
            query = query._replace(more=2 * hidden)
            proposal = self._buckets.propose(query)
        return proposal

    def note_gone(self, number: int) -> None:
        """Say that no page is left of a text, so that it is proposed no more; until a page with it is added."""
        self._gone[number] = None
        self.gone_seen += 1
        self._last = None
        if len(self._gone) > GONE_HELD:
            del self._gone[next(iter(self._gone))]

    def forget_gone(self) -> None:
        """Texts that were noted to be gone may be there again."""
        self._gone.clear()

    def _is_known_absent(self, row_key: bytes) -> bool:
        """Whether a row is in the cache, and empty, and the group in flight has not written to it."""
        stored = None if self._rows is None else self._rows.get(row_key)
        return stored is not None and not stored and row_key not in self._pending

    def _qualifiers(self, row_key: bytes, limit: int) -> Sequence[bytes]:
        """The first qualifiers of a row; not to be changed."""
        stored = None if self._rows is None else self._rows.get(row_key)
        if stored is None or POINTER_SLICE <= len(stored) < limit:
            stored = self._engine.qualifiers(TABLE, row_key, limit)
            self._hold(row_key, stored, limit)
        pending = self._pending.get(row_key)
        if pending is None:
            return stored if len(stored) <= limit else stored[:limit]
        return _first_of(stored, pending, limit)

    # --- writing

    def add(self, row_key: bytes, timestamp: int, analysis: Analysis, *, status: int) -> list[RowMutations]:
        """Postings of a page, visible to look-ups from now on.

        Args:
            row_key: of the page.
            timestamp: of its capture.
            analysis: its fingerprints.
            status: of HTTP: whether later pages are compared with its text (`comparable`).
        Returns:
            Mutations to write before or with the page's row; and `group_mutations` with the group.
        """
        body, number = body_head(analysis.body_checksum), text_number(analysis.text_checksum)
        body_row, text_row = _BODY + body, _TEXT + number
        here = timestamp.to_bytes(8, "big") + row_key
        # A body has one text, or one for each way to read it: pages of the others are no pages of this one.
        self._pages.pop(number)
        self._gone.pop(int.from_bytes(number, "big"), None)
        rows = []
        if number and text_compares(status):
            if near_compares(status, analysis.word_count):
                self._post(number, analysis)
            if self._is_known_absent(text_row) and self._is_known_absent(body_row):
                self._pages.put(number, [_new_tuple(PagePointer, (timestamp, row_key))])
            _insert(self._pending.setdefault(text_row, []), body)
            rows.append(_posting(text_row, body))
        _insert(self._pending.setdefault(body_row, []), here)
        if body_row in self._oldest:
            for oldest in self._oldest[body_row].values():
                oldest.add(_new_tuple(PagePointer, (timestamp, row_key)))
        rows.append(_posting(body_row, here))
        return rows

    def _post(self, number: bytes, analysis: Analysis) -> None:
        """Post a text, unless it is: by an earlier page with this text, and that one may be gone."""
        proposal = self.propose(analysis)
        if not proposal.has_own:
            keys = _index_query(analysis).first_keys()
            self._buckets.post(int.from_bytes(number, "big"), keys, proposal.further_keys)
            self._last = None

    def group_mutations(self) -> list[RowMutations]:
        """What the buckets write with the group in flight, beside the mutations that `add` gave."""
        return self._buckets.mutations()

    def add_names(
        self, pointer: PagePointer, body_checksum: bytes, payload_digest: str, docno: str
    ) -> list[RowMutations]:
        """Postings under which a page is found by its recorded payload digest and document number."""
        rows = []
        if payload_digest:
            rows.append((_name_key(POSTING_PAYLOAD_DIGEST, payload_digest), body_head(body_checksum)))
        if docno:
            rows.append((_name_key(POSTING_DOCNO, docno), pointer.timestamp.to_bytes(8, "big") + pointer.row_key))
        return [_posting(key, qualifier) for key, qualifier in rows]

    def remove(self, row_key: bytes, captures: Iterable[Posted]) -> list[RowMutations]:
        """Take back the postings of captures of a row that are deleted: no look-up finds them from now on.

        Where no page has a body any more, what led to the body goes too.  No group is in flight.

        Returns:
            Mutations to write with the delete, or after it.
        """
        gone: dict[bytes, list[Posted]] = {}
        for capture in captures:
            gone.setdefault(body_head(capture.body_checksum), []).append(capture)
        rows = []
        for body, of_body in gone.items():
            qualifiers = {one.timestamp.to_bytes(8, "big") + row_key for one in of_body}
            left = self._engine.qualifiers(TABLE, _BODY + body, len(qualifiers) + 1)
            names = {(_BODY + body, qualifier) for qualifier in qualifiers}
            names |= {
                (_name_key(POSTING_DOCNO, one.docno), one.timestamp.to_bytes(8, "big") + row_key)
                for one in of_body
                if one.docno
            }
            if qualifiers.issuperset(left):
                names |= {(_TEXT + text_number(one.text_checksum), body) for one in of_body if one.text_checksum}
                names |= {
                    (_name_key(POSTING_PAYLOAD_DIGEST, one.payload_digest), body)
                    for one in of_body
                    if one.payload_digest
                }
            for name, qualifier in sorted(names):
                self._let_go(name, qualifier)
                rows.append(RowMutations(TABLE, name, (DeleteCells(FAMILY, qualifier),)))
        return rows

    def _let_go(self, row_key: bytes, qualifier: bytes) -> None:
        """Drop this qualifier from a row in the cache; where the row goes on behind what is cached, read it anew."""
        if row_key.startswith(_TEXT):
            self._pages.pop(row_key[len(_TEXT) :])
        stored = None if self._rows is None else self._rows.pop(row_key)
        if self._rows is not None and stored is not None and len(stored) < POINTER_SLICE:
            self._rows.put(row_key, [one for one in stored if one != qualifier])

    def end_group(self, *, committed: bool) -> None:
        """Forget the overlay: its group is committed, or has failed."""
        if committed and self._rows is not None:
            for row_key, qualifiers in self._pending.items():
                stored = self._rows.get(row_key)
                if stored is not None:
                    self._rows.put(row_key, _first_of(stored, qualifiers, POINTER_SLICE))
        if not committed:
            self._pages.clear()
        self._pending.clear()
        self._last = None
        self._buckets.end_group(committed=committed)

    def holds(self, row_key: bytes, timestamp: int, body_checksum: bytes) -> bool:
        """Whether the page's body posting is there: without it the detector cannot see the page."""
        return self._holds(_BODY + body_head(body_checksum), timestamp.to_bytes(8, "big") + row_key)

    def holds_text(self, text_checksum: bytes, body_checksum: bytes) -> bool:
        """Whether a text leads to a body: without that no page is found by its text."""
        return self._holds(_TEXT + text_number(text_checksum), body_head(body_checksum))

    def _holds(self, posting_row: bytes, wanted: bytes) -> bool:
        if wanted in self._pending.get(posting_row, ()):
            return True
        cells = self._engine.read_row(TABLE, posting_row, ReadSpec((FAMILY,), qualifier_prefix=wanted, cell_limit=1))
        return bool(cells) and cells[0].qualifier == wanted
