"""The inverted hash index: from fingerprints to pages.

A look-up of a fingerprint has two steps, that of a name one:

    band key or 0-mod-p fingerprint -> text numbers -> (timestamp, row key) of pages
    text number and title, body, recorded payload digest, document number -> (timestamp, row key) of pages

`TextIndex` is the first step; the others are bare rows of the engine's `postings` table, few and the same on every
engine (`HashIndex`).  A text number is a prefix of the text checksum; a body is named by a prefix of its checksum.  So
pages of equal text are one posting in every bucket, however many they are; and when the page that brought a text is
deleted, its buckets still lead to the others.  The pages of a row are sorted oldest first, those of a digest or a
document number newest first.  Postings are idempotent and may be stale: the reader verifies each against its row.

`Oldest` caches the oldest page that fits a query; `writing.maintenance` removes stale postings.

Uncommitted postings belong to their batch (`NewPostings`), which each look-up gets: a page is compared with those
before it in its own group.  Caches have only committed postings; each commit updates them by key.  Nothing here
compares two pages.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import chain, islice
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
from blake3 import blake3

from docstore.compiled import docstore_native
from docstore.dedup.comparable import MIN_NEAR_WORDS, text_compares
from docstore.dedup.kernel import posting_rows
from docstore.model.analysis import BANDS, Analysis
from docstore.model.capture import PagePointer, body_head, normal_digest, text_number
from docstore.model.format import (
    POSTING_BODY,
    POSTING_DOCNO,
    POSTING_PAYLOAD_DIGEST,
    POSTING_TEXT,
    TEXT_NUMBER_BYTES,
    TIMESTAMP_MAX,
)
from docstore.model.keys import site
from docstore.model.sets import Keys, Numbers
from docstore.model.types import DeleteCells, Position, ReadSpec, RowMutations, SetCell
from docstore.storage.cache import LruCache, Memory
from docstore.storage.engine import Engine, PackedRows

TABLE: Final = "postings"
FAMILY: Final = "p"

BUCKET_LIMIT: Final = 64
"""Texts in one bucket; `docs/benchmarks.md` has the share of duplicates that are flagged all the same."""
LOOKS_NEAR: Final = 24
LOOKS_INSIDE: Final = 16
LOOKS_MOST: Final = 8
"""For each page, so many texts are compared: of those that share a band, of those that share a 0-mod-p fingerprint, and
of all texts those that share the most keys.  A text that is among the first of full buckets is in no other buckets."""
FURTHER: Final = 48
"""Further texts of each of the first two lists.  They are compared if many are alike, but none is near."""
LOOKS: Final = LOOKS_NEAR, LOOKS_INSIDE, LOOKS_MOST, FURTHER
"""For native code."""
NO_KEYS: Final[Keys] = np.empty(0, np.uint64)

POINTER_SLICE = 64
"""Page pointers in the first read; the pages of a body that thousands of URLs share are read in slices."""
NEXT_POINTERS = 8
MOST_POINTERS = 1024
"""Page pointers in the next reads: few, then more and more."""
FEW_PAGES = 8
"""With fewer pages of a body or text, each query goes through all; with more, the result is cached."""
MOST_LOOKS = LOOKS_NEAR + LOOKS_INSIDE + LOOKS_MOST
HASHED_ROWS = 1024
"""Rows whose postings `posting_hashes` hashes at a time."""
HASHED_PAGES = 1 << 16
"""Page pointers of a row that `posting_hashes` reads; more of them are looked up."""
MAX_CACHED_GONE = 65_536
"""Cached numbers of texts without a live page."""
MAX_CACHED_CONDITIONS = 128
"""Cached conditions of one row of postings: by status class, and by title."""
MOST_ABSENT = 4096
"""Rows that are known to be empty; when there are more, all are forgotten."""
OLDEST_COST = 6
"""Cost of an `Oldest` in the cache, in qualifiers."""

Fits: TypeAlias = Callable[[PagePointer], bool]
"""A test that reads the row of a posted page: the page is live, and is what the caller looks for."""
_END: Final = PagePointer(1 << 64, b"")
"""After every page."""
_BEGIN: Final = PagePointer(0, b"")
_new_tuple = tuple.__new__
"""Takes half the time of a NamedTuple's constructor; there are a dozen pointers and cells a page."""
BODY_ROW: Final = bytes((POSTING_BODY,))
TEXT_ROW: Final = bytes((POSTING_TEXT,))
"""Prefixes of rows: with a `body_head` the row of the pages with a body, with a `text_number` that of the pages with a
text.  `titled_row` gives the row of the pages with a text and the words of a title."""
_CACHED_KINDS = (POSTING_BODY, POSTING_TEXT)


# --- keys of texts


class IndexQuery(NamedTuple):
    """What a page asks the index, and what it is posted under.

    Attributes:
        band_keys: of its sketch, depth by depth.
        fingerprints: all under which it is posted; a large page does not ask for all of them.
        runs: of its fingerprints, length by length.
        own_number: of its text.
        more: so many more texts are wanted than are looked at otherwise.
    """

    band_keys: Keys
    fingerprints: Keys
    runs: Keys
    own_number: int
    more: int = 0

    def first_keys(self) -> tuple[Keys, Keys]:
        """The first keys of all chains that are posted: its bands', and its fingerprints."""
        return self.band_keys[:BANDS], self.fingerprints


class Proposal(NamedTuple):
    """What the index answers.

    Attributes:
        numbers: of texts, in the order in which to look at them.
        candidates: different texts found, looked at or not.
        has_own: whether the page's own text is among them: it is posted already.
        further: texts that are compared next, if many of the first are alike but none is near.
        is_crowded: half of the bands, or all fingerprints, ended in full buckets: texts may have been left out.
        further_keys: those of chains beyond their first that were asked for, and of a text in the middle of a crowd
            those of its second buckets: a text is posted under them as well.
    """

    numbers: list[int]
    candidates: int
    has_own: bool
    further: list[int]
    is_crowded: bool
    further_keys: Keys


class NewPostings:
    """Postings of a batch: its later pages see them at once, other pages after the commit.

    Attributes:
        rows: its additions to rows of the table: qualifiers in order, each once.
        buckets: texts that it posts, by key, if buckets are in a table of a cluster.
        recent: texts that it posts, if buckets are in runs; None if there are none.
    """

    __slots__ = ("buckets", "recent", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, list[bytes]] = {}
        self.buckets: dict[int, list[int]] = {}
        self.recent: docstore_native.Postings | None = None

    def add(self, qualifier: bytes, row_keys: Iterable[bytes]) -> None:
        """Add a posting to rows."""
        rows = self.rows
        for row_key in row_keys:
            ordered = rows.setdefault(row_key, [])
            if not ordered:  # most rows have one page
                ordered.append(qualifier)
            elif qualifier not in ordered[(at := bisect_left(ordered, qualifier)) : at + 1]:
                ordered.insert(at, qualifier)

    def mutations(self) -> list[RowMutations]:
        """The rows to write with the batch."""
        return [
            _new_tuple(
                RowMutations,
                (TABLE, row_key, [_new_tuple(SetCell, (FAMILY, qualifier, 0, b"")) for qualifier in qualifiers]),
            )
            for row_key, qualifiers in self.rows.items()
        ]


NOTHING_NEW: Final = NewPostings()
"""For look-ups in committed postings only."""


class TextIndex(Protocol):
    """The first step of a look-up: key -> the first `BUCKET_LIMIT` texts that were posted under it.

    `runs.RunIndex` keeps it in files, and is owned by one process; on HBase it is a table.
    """

    def propose(self, query: IndexQuery, new: NewPostings = NOTHING_NEW) -> Proposal:
        """Look up the keys of a page, also in the postings of its batch, and rank the texts.

        A key is the first of a chain: bands of more and more bins, runs of more and more shingles (LSH Forest: Bawa,
        Condie, Ganesan 2005).  A bucket that is full stays full, and the texts after its first are posted under the
        next key of the chain as well, so a look-up goes along each chain until a bucket has room.
        """
        ...

    def post(self, new: NewPostings, text: int, *keys: Keys) -> None:
        """Add a text to the postings of a batch.

        Args:
            new: of the batch.
            text: its number.
            keys: (m,) uint64 each; no key twice: `IndexQuery.first_keys`, then further ones.
        """
        ...

    def read_ahead(self, queries: Iterable[IndexQuery], new: NewPostings) -> None:
        """Read what the look-ups of a batch need, if each look-up would be a call to another machine."""
        return

    def log(self, new: NewPostings) -> list[RowMutations]:
        """Mutations to write with a batch in addition to its rows."""
        return []

    def follow(self, rows: Sequence[RowMutations], is_sure: bool) -> None:
        """After a commit: look-ups include its postings; see `Committer.followers`."""
        return

    def texts_in_order(self) -> Keys | None:
        """Numbers of all texts in the order of posting, (n,) uint64; a text that was posted twice is there twice.

        None if the order is unknown.  It decides which texts are the first of a bucket.
        """
        return None

    def begin_prune(self) -> None:
        """Call before the live texts are collected for `prune`, while no batch is in flight."""
        return

    def prune(self, live: Keys | None) -> int:
        """Drop postings of removed texts; may wait until there are many.  Writers continue meanwhile.

        Args:
            live: (n,) uint64, the numbers of texts that were live since `begin_prune`, ascending; texts posted since,
                or seen by a look-up as posted, count as live.  None: they could not be read, and nothing is dropped.
        Returns:
            Dropped postings.
        """
        return 0

    def close(self) -> None:
        """Close files; a second call does nothing."""
        return


def propose(query: IndexQuery, find: Callable[[Keys], tuple[Numbers, Keys]]) -> Proposal:
    """Go along the chains of a page with look-ups by a function, and rank what it finds.

    Args:
        query: of the page.
        find: takes keys, (m,) uint64; gives for each posting the index of its key, ascending, and its text number.
    """
    found = docstore_native.propose(query, BUCKET_LIMIT, LOOKS, lambda keys: find(np.frombuffer(keys, np.uint64)))
    return proposal_of(found)


def proposal_of(found: docstore_native.Proposed) -> Proposal:
    """A proposal as native code gives it."""
    *fields, further_keys = found
    return _new_tuple(Proposal, (*fields, np.frombuffer(further_keys, np.uint64) if further_keys else NO_KEYS))


# --- rows of postings


class Posted(NamedTuple):
    """A capture, and the names under which it was posted; "" and b"" for names that it lacks."""

    timestamp: int
    body_checksum: bytes
    text_checksum: bytes
    title: str
    payload_digest: str
    docno: str


def _name_key(kind: int, name: str) -> bytes:
    if kind == POSTING_PAYLOAD_DIGEST:
        name = normal_digest(name)
    return bytes((kind,)) + blake3(name.encode("utf-8", "surrogateescape")).digest(8)


def _pointer(qualifier: bytes) -> PagePointer:
    return _new_tuple(PagePointer, (int.from_bytes(qualifier[:8], "big"), qualifier[8:]))


def _qualifier(pointer: PagePointer) -> bytes:
    return pointer[0].to_bytes(8, "big") + pointer[1]


def _newest_first(pointer: PagePointer) -> bytes:
    """The qualifier of a page under a digest or a document number."""
    return (TIMESTAMP_MAX - pointer[0]).to_bytes(8, "big") + pointer[1]


def posted_page(posting_row: bytes, qualifier: bytes) -> PagePointer:
    """The page that a posting leads to."""
    pointer = _pointer(qualifier)
    is_name = posting_row[0] in (POSTING_PAYLOAD_DIGEST, POSTING_DOCNO)
    return PagePointer(TIMESTAMP_MAX - pointer.timestamp, pointer.row_key) if is_name else pointer


def stored_postings(engine: Engine, row_key: bytes, last: bytes = b"") -> Iterator[bytes]:
    """The committed qualifiers of a row of postings after one of them, in order, read in slices."""
    limit = NEXT_POINTERS
    while True:
        spec = ReadSpec((FAMILY,), cell_limit=limit, after=Position(FAMILY, last, 0) if last else None)
        cells = engine.read_row(TABLE, row_key, spec)
        for cell in cells:
            yield cell.qualifier
        if len(cells) < limit:
            return
        last, limit = cells[-1].qualifier, min(limit * 4, MOST_POINTERS)


def number_of(row_key: bytes) -> int:
    """The number of the text of a row: the row of its pages, or of those with a title."""
    return int.from_bytes(row_key[1 : 1 + TEXT_NUMBER_BYTES], "big")


def titled_row(number: bytes, title: str) -> bytes:
    """The row of the pages with a text and the words of a title; it follows that of the text."""
    return posting_rows(b"", b"\0" + number, title)[2]


def index_query(analysis: Analysis) -> IndexQuery:
    """What a page asks the index."""
    number = int.from_bytes(text_number(analysis.text_checksum), "big")
    return _new_tuple(IndexQuery, (analysis.band_keys, analysis.fingerprints, analysis.runs, number, 0))


def first_rows(pages: Sequence[Analysis]) -> list[bytes]:
    """The rows of the bodies and texts of pages, in order, each once."""
    rows = {BODY_ROW + body_head(analysis.body_checksum) for analysis in pages}
    rows |= {TEXT_ROW + text_number(analysis.text_checksum) for analysis in pages if analysis.text_checksum}
    return sorted(rows)


def post_page(new: NewPostings, pointer: PagePointer, body_checksum: bytes, text_checksum: bytes, title: str) -> None:
    """Post a page in the rows of `posting_rows`."""
    new.add(_qualifier(pointer), posting_rows(body_checksum, text_checksum, title))


def post_names(new: NewPostings, pointer: PagePointer, payload_digest: str, docno: str) -> None:
    """Post a page under its recorded payload digest and document number; verdicts do not use them."""
    new.add(_newest_first(pointer), _name_rows(payload_digest, docno))


def _name_rows(payload_digest: str, docno: str) -> list[bytes]:
    names = ((POSTING_PAYLOAD_DIGEST, payload_digest), (POSTING_DOCNO, docno))
    return [_name_key(kind, name) for kind, name in names if name]


def _first_of(stored: Sequence[bytes], pending: Sequence[bytes]) -> Sequence[bytes]:
    """The first POINTER_SLICE qualifiers of a row, each once; both lists are sorted."""
    if not stored:  # most rows are of one page's own body or text
        return pending[:POINTER_SLICE]
    return list(dict.fromkeys(merge(stored, pending[:POINTER_SLICE])))[:POINTER_SLICE]


# --- the oldest page that fits


class Oldest:
    """Cache for one condition of a row: the oldest fitting page, and the oldest fitting page of another row.

    A verdict needs the oldest page that fits and is of another row.  If there are very many pages, each that does not
    fit is skipped once, not once a query: it is assumed never to fit until it is posted again.  That is true for
    deleted pages and those of another status class.  It is wrong for an expired version that a later equal value shows
    again: that version is found after the next open.

    Args:
        after: gives the pages after a page, in order.
    """

    __slots__ = ("_after", "_ahead", "_first", "_second")

    def __init__(self, after: Callable[[PagePointer], Iterator[PagePointer]]) -> None:
        self._after = after
        self._ahead: Iterator[PagePointer] | None = None
        """Pages after the first, until one is posted: many that do not fit are skipped in one read."""
        self._first = _BEGIN
        self._first = self._next()
        self._second = self._next_of_another_row(self._first)

    def find(self, row_key: bytes, fits: Fits, new: Iterable[PagePointer] = ()) -> PagePointer | None:
        """The oldest page that fits and is not of this row; None if there is none.

        Args:
            row_key: pages of this row are skipped.
            fits: verifies a page.
            new: uncommitted pages, in order.
        """
        news = iter(page for page in new if page.row_key != row_key)
        newest = next(news, _END)
        while True:
            is_other = self._first.row_key != row_key
            page = self._first if is_other else self._second
            while newest < page:
                if fits(newest):
                    return newest
                newest = next(news, _END)
            if page is _END:
                return None
            if fits(page):
                return page
            if is_other:
                self._pass_first()
            else:
                self._second = self._next_of_another_row(page)

    def add(self, page: PagePointer) -> None:
        """Add a posted page."""
        self._ahead = None
        if page < self._first:
            if page.row_key != self._first.row_key:
                self._second = self._first
            self._first = page
        elif page < self._second and page.row_key != self._first.row_key:
            self._second = page

    def _pass_first(self) -> None:
        passed, self._first = self._first, self._next()
        if self._first.row_key != passed.row_key:  # pages between are of the passed row, or do not fit
            self._second = self._next_of_another_row(self._first)

    def _next(self) -> PagePointer:
        if self._ahead is None:
            self._ahead = self._after(self._first)
        return next(self._ahead, _END)

    def _next_of_another_row(self, page: PagePointer) -> PagePointer:
        """The next page after a page that is of another row than the first."""
        if page is _END:
            return _END
        first_row = self._first.row_key
        return next((each for each in self._after(page) if each.row_key != first_row), _END)


# --- look-ups and postings


CachedRow: TypeAlias = tuple[tuple[bytes, ...], dict[Hashable, Oldest]]
"""The first POINTER_SLICE qualifiers of a row, or all if it has fewer, as a tuple, which the garbage collector skips.
For a row of more than a few pages also the oldest fitting pages, by condition."""


class HashIndex:
    """Look-ups over committed postings and those of a batch.

    Attributes:
        gone_seen: number of `note_gone` calls.

    Not thread-safe: one sequencer owns it; a reader makes its own over the same engine and text index.

    Args:
        engine: has the postings.
        texts: the first step of a look-up.
        memory: a share to cache rows of texts and bodies; then `follow` must be called for each commit.
    """

    def __init__(self, engine: Engine, texts: TextIndex, memory: Memory | None = None) -> None:
        self._engine = engine
        self._texts = texts
        self._rows: LruCache[bytes, CachedRow] | None = None
        if memory is not None:
            self._rows = memory.cache("postings", lambda row: 200 + 100 * (len(row[0]) + OLDEST_COST * len(row[1])))
        """Committed rows, if cached."""
        self._absent: set[bytes] = set()
        """Rows that `prepare` found to be empty, and no commit has written since."""
        self._last: tuple[Analysis, NewPostings, tuple[int, int], Proposal] | None = None
        """The last query, its state and its result: judging a page and posting it make the same query."""
        self._gone: LruCache[int, bool] = LruCache(MAX_CACHED_GONE)
        """Recent texts without a live page."""
        self.gone_seen = 0

    # --- reading

    def pages(
        self, row: bytes, new: NewPostings = NOTHING_NEW, after: PagePointer | None = None
    ) -> Iterator[PagePointer]:
        """Pages of a row, or those after a page, oldest first; the caller verifies each."""
        first = self._first(row, new)
        last = b"" if after is None else _qualifier(after)
        rest = first[bisect_right(first, last) :] if last else first
        if len(first) < POINTER_SLICE:
            return map(_pointer, rest)
        return map(_pointer, chain(rest, self._qualifiers_after(row, max(last, first[-1]), new)))

    def pages_of_site(self, row: bytes, name: bytes, most: int, new: NewPostings) -> Iterator[PagePointer]:
        """Of the first pages of a row, at most so many, those of a site by its name (`keys.site`), oldest first."""
        first = self._first(row, new)
        rest = self._qualifiers_after(row, first[-1], new) if len(first) == POINTER_SLICE else ()
        for qualifier in islice(chain(first, rest), most):
            if qualifier.startswith(name, 8) and site(qualifier[8:]) == name:
                yield _pointer(qualifier)

    def few_pages(self, row: bytes, new: NewPostings = NOTHING_NEW) -> list[PagePointer] | None:
        """All pages of a row, oldest first; None if there are more than a few.  The caller verifies each."""
        first = self._first(row, new)
        return [_pointer(qualifier) for qualifier in first] if len(first) < FEW_PAGES else None

    def _qualifiers_after(self, row_key: bytes, last: bytes, new: NewPostings = NOTHING_NEW) -> Iterator[bytes]:
        """The qualifiers of a row after one of them, read in slices."""
        pending = new.rows.get(row_key, [])
        pending = pending[bisect_left(pending, last) :]
        for qualifier in merge(stored_postings(self._engine, row_key, last), pending):
            if qualifier > last:
                yield qualifier
                last = qualifier

    def oldest(
        self,
        row: bytes,
        row_key: bytes,
        fits: Fits,
        condition: Hashable = None,
        new: NewPostings = NOTHING_NEW,
    ) -> PagePointer | None:
        """The oldest posted page that fits and does not belong to a given row of pages; None if there is none.

        Args:
            row: of postings.
            row_key: of the row of pages whose postings are skipped.
            fits: verifies a page; a page that does not fit is not verified again, until it is posted again.
            condition: identifies `fits` among those for this row: equal conditions mean equal results.
            new: of the batch in flight.
        """
        few = self.few_pages(row, new)
        if few is not None or self._rows is None:
            for page in self.pages(row, new) if few is None else few:
                if page.row_key != row_key and fits(page):
                    return page
            return None
        cached = self._rows.get(row)
        by_condition = {} if cached is None else cached[1]
        oldest = by_condition.get(condition)
        if oldest is None:
            if len(by_condition) == MAX_CACHED_CONDITIONS:
                del by_condition[next(iter(by_condition))]
            oldest = by_condition[condition] = Oldest(lambda page: self.pages(row, after=page))
            if cached is not None:
                self._rows.put(row, cached)
        return oldest.find(row_key, fits, map(_pointer, new.rows.get(row, ())))

    def pages_named(self, kind: int, name: str, after: PagePointer | None = None) -> Iterator[PagePointer]:
        """Pages with a recorded payload digest or document number, newest first; the caller verifies each.

        Args:
            kind: POSTING_PAYLOAD_DIGEST or POSTING_DOCNO.
            name: the digest or number.
            after: only those after this page.
        """
        row = _name_key(kind, name)
        last = b"" if after is None else _newest_first(after)
        return (posted_page(row, qualifier) for qualifier in self._qualifiers_after(row, last))

    def prepare(self, analyses: Iterable[Analysis]) -> None:
        """Read into the cache, if there is one, the rows of texts and bodies of the pages that are judged next."""
        if len(self._absent) > MOST_ABSENT:
            self._absent.clear()
        if self._rows is not None:
            self.read_rows(first_rows(list(analyses)))

    def read_rows(self, row_keys: Iterable[bytes]) -> None:
        """Read rows that are not cached, in one call; only for an index with caches."""
        rows = self._rows
        assert rows is not None
        missing = [row_key for row_key in row_keys if not (row_key in rows or row_key in self._absent)]
        read = self._engine.qualifiers_of_rows(TABLE, missing, POINTER_SLICE)
        for row_key, stored in zip(missing, read, strict=True):
            if stored:
                rows.put(row_key, (tuple(stored), {}))
            else:  # most rows
                self._absent.add(row_key)

    def clear(self) -> None:
        """Clear the caches: other processes may have written, or a batch that look-ups included was dropped."""
        if self._rows is not None:
            self._rows.clear()
        self._absent.clear()
        self._gone.clear()

    def propose(self, analysis: Analysis, new: NewPostings = NOTHING_NEW) -> Proposal:
        """Propose the texts that share a band or a 0-mod-p fingerprint with a page, ranked.

        Texts that are known to be gone are left out, and take no place of others.
        """
        last = self._last
        state = len(new.rows), self.gone_seen
        if last is not None and last[0] is analysis and last[1] is new and last[2] == state:
            return last[3]
        query = index_query(analysis)
        proposal = self._texts.propose(query, new)
        while self.gone_seen:
            left = [number for number in proposal.numbers if not self._is_gone(number, new)]
            hidden = len(proposal.numbers) - len(left)
            if hidden <= query.more:
                further = [number for number in proposal.further if not self._is_gone(number, new)]
                proposal = proposal._replace(numbers=left[:MOST_LOOKS], further=further)
                break
            query = query._replace(more=2 * hidden)
            proposal = self._texts.propose(query, new)
        self._last = analysis, new, state, proposal
        return proposal

    def _is_gone(self, number: int, new: NewPostings) -> bool:
        return number in self._gone and TEXT_ROW + number.to_bytes(TEXT_NUMBER_BYTES, "big") not in new.rows

    def note_gone(self, number: int) -> None:
        """Record that a text has no live page, so that it is not proposed until a page with it is posted."""
        self._gone.put(number, True)
        self.gone_seen += 1

    def first_pages(self, row_keys: Iterable[bytes], new: NewPostings) -> list[PagePointer]:
        """The oldest page of each row that has one; of a body, a text, or a text with a title."""
        firsts = (self._first(row_key, new)[:1] for row_key in row_keys)
        return [_pointer(qualifier) for qualifiers in firsts for qualifier in qualifiers]

    def _first(self, row_key: bytes, new: NewPostings) -> Sequence[bytes]:
        """The first POINTER_SLICE qualifiers of a row; not to be changed."""
        stored: Sequence[bytes] = ()
        if row_key not in self._absent:
            cached = None if self._rows is None else self._rows.get(row_key)
            stored = self._engine.qualifiers(TABLE, row_key, POINTER_SLICE) if cached is None else cached[0]
            if cached is None and self._rows is not None:
                self._rows.put(row_key, (tuple(stored), {}))
        pending = new.rows.get(row_key)
        return stored if pending is None else _first_of(stored, pending)

    # --- writing

    def add(self, new: NewPostings, pointer: PagePointer, analysis: Analysis, *, status: int) -> None:
        """Post a page with its batch; later pages of the batch find it.

        Args:
            new: of the batch.
            pointer: row and time of the page.
            analysis: its fingerprints.
            status: HTTP status: whether later pages are compared with its text (`comparable`).
        """
        text_checksum = analysis.text_checksum if text_compares(status) else b""
        if text_checksum and analysis.word_count >= MIN_NEAR_WORDS:
            proposal = self.propose(analysis, new)
            if not proposal.has_own:  # else an earlier page with this text posted it, and may be gone
                keys = analysis.band_keys[:BANDS], analysis.fingerprints, proposal.further_keys
                self._texts.post(new, int.from_bytes(text_number(text_checksum), "big"), *keys)
        new.add(_qualifier(pointer), posting_rows(analysis.body_checksum, text_checksum, analysis.title))

    def pack(self, new: NewPostings, rows: PackedRows) -> None:
        """Add the rows to write with a batch."""
        rows.add_qualifiers(TABLE, FAMILY, new.rows)
        rows += self._texts.log(new)

    def mutations(self, new: NewPostings) -> list[RowMutations]:
        """Mutations to write with a batch."""
        return new.mutations() + self._texts.log(new)

    def follow(self, written: Sequence[RowMutations], is_sure: bool) -> None:
        """After a commit: update the cached postings that it changed; see `Committer.followers`."""
        rows, absent = self._rows, self._absent
        for row_key, added, removed in _changed(written):
            cached = None if rows is None or row_key in absent else rows.get(row_key)
            if cached is None and row_key not in absent and not self.gone_seen:
                continue
            if added and self.gone_seen and row_key[0] == POSTING_TEXT:
                self._gone.drop(number_of(row_key))
            if rows is None:
                continue
            if row_key in absent:
                absent.remove(row_key)
                if is_sure and row_key[0] == POSTING_TEXT:  # later pages may be near to it; few bodies come again
                    rows.put(row_key, (tuple(added[:POINTER_SLICE]), {}))
            if cached is None:
                continue
            first, by_condition = cached
            if not is_sure or (removed and len(first) == POINTER_SLICE):
                rows.drop(row_key)  # the row may continue after the cached part
                continue
            left = tuple([qualifier for qualifier in _first_of(first, added) if qualifier not in removed])
            for oldest in by_condition.values():
                for qualifier in added:
                    oldest.add(_pointer(qualifier))
            rows.put(row_key, (left, by_condition))

    def remove(self, row_key: bytes, captures: Iterable[Posted]) -> list[RowMutations]:
        """Remove the postings of captures of a row that are deleted.

        Returns:
            Mutations to write with the delete, or after it.
        """
        gone: set[tuple[bytes, bytes]] = set()
        for capture in captures:
            pointer = PagePointer(capture.timestamp, row_key)
            rows = posting_rows(capture.body_checksum, capture.text_checksum, capture.title)
            gone |= {(row, _qualifier(pointer)) for row in rows}
            gone |= {(row, _newest_first(pointer)) for row in _name_rows(capture.payload_digest, capture.docno)}
        return [RowMutations(TABLE, row, (DeleteCells(FAMILY, qualifier),)) for row, qualifier in sorted(gone)]

    def holds(
        self,
        pointer: PagePointer,
        body_checksum: bytes,
        text_checksum: bytes = b"",
        title: str = "",
        *,
        known: docstore_native.PostingHashes | None = None,
    ) -> bool:
        """Whether a page has all its postings; without them the detector cannot see it.

        Args:
            pointer, body_checksum, text_checksum, title: of the page.
            known: of `posting_hashes`; other postings are looked up.
        """
        here = _qualifier(pointer)
        spec = ReadSpec((FAMILY,), qualifier_prefix=here, cell_limit=1)
        for row in posting_rows(body_checksum, text_checksum, title):
            if known is not None and known.holds(row, here):
                continue
            if [cell.qualifier for cell in self._engine.read_row(TABLE, row, spec)] != [here]:
                return False
        return True


def _changed(written: Sequence[RowMutations]) -> Iterator[tuple[bytes, list[bytes], set[bytes]]]:
    """Row key, added and removed qualifiers of the rows of postings that are cached."""
    if isinstance(written, PackedRows):
        for row_key, added in written.qualifiers(TABLE, bytes(_CACHED_KINDS)):
            yield row_key, added, set()
        return
    for table, row_key, mutations in written:
        if table == TABLE and row_key[0] in _CACHED_KINDS:
            added = [mutation.qualifier for mutation in mutations if isinstance(mutation, SetCell)]
            yield row_key, added, {one.qualifier for one in mutations if isinstance(one, DeleteCells)}


def posting_hashes(engine: Engine) -> docstore_native.PostingHashes:
    """Hashes of the postings of bodies and texts; 8 bytes each.

    One scan is cheaper than three look-ups a page.  A posting that is missing has the hash of another one with a
    probability of about one in 2**40, if there are 10 million.
    """
    spec = ReadSpec(cell_limit=HASHED_PAGES)
    kinds = (POSTING_BODY, POSTING_TEXT)
    rows = chain.from_iterable(engine.scan(TABLE, bytes((kind,)), bytes((kind + 1,)), spec) for kind in kinds)
    return docstore_native.PostingHashes(iter(lambda: list(islice(rows, HASHED_ROWS)), []))
