"""The inverted hash index: from fingerprints to pages.

A look-up of a fingerprint has two steps, that of a name one:

    band key or 0-mod-p fingerprint -> text numbers -> (timestamp, row key) of pages
    text number and title, body, recorded payload digest, document number -> (timestamp, row key) of pages

`TextIndex` is the first step; the others are bare rows of the engine's `postings` table, few and the same on every
engine.  A text number is a prefix of the text checksum; a body is named by a prefix of its checksum.  So pages of equal
text are one posting in every bucket, however many they are; and when the page that brought a text is deleted, its
buckets still lead to the others.  The pages of a row are sorted oldest first, those of a digest or a document number
newest first.  Postings are idempotent and may be stale: the reader verifies each against its row.

Native code looks the rows up for verdicts, caches them and posts pages (`native/store/src/posted.rs`, `core.rs`);
`writing.maintenance` removes stale postings.  Uncommitted postings belong to their batch: a page is compared with those
before it in its own group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple, Protocol

import numpy as np
from blake3 import blake3

from docstore.compiled import docstore_native
from docstore.dedup.kernel import posting_rows
from docstore.model.analysis import Analysis
from docstore.model.capture import PagePointer, body_head, normal_digest, text_number
from docstore.model.format import (
    POSTING_BODY,
    POSTING_DOCNO,
    POSTING_PAYLOAD_DIGEST,
    POSTING_TEXT,
    TEXT_NUMBER_BYTES,
    TIMESTAMP_MAX,
)
from docstore.model.sets import Keys, Numbers
from docstore.model.types import DeleteCells, Position, ReadSpec, RowMutations, SetCell
from docstore.storage.engine import Engine

TABLE: Final = "postings"
FAMILY: Final = "p"

BUCKET_LIMIT: Final = 64
"""Texts in one bucket; `docs/benchmarks.md` has the share of duplicates that are flagged all the same."""
LOOKS: Final = docstore_native.LOOKS
LOOKS_NEAR, LOOKS_INSIDE, LOOKS_MOST, FURTHER = LOOKS
"""For each page, so many texts are compared: of those that share a band, of those that share a 0-mod-p fingerprint, and
of all texts those that share the most keys; then further texts of each of the first two lists, if many are alike, but
none is near.  A text that is among the first of full buckets is in no other buckets."""
NO_KEYS: Final[Keys] = np.empty(0, np.uint64)

POINTER_SLICE = docstore_native.POINTER_SLICE
"""Page pointers in the first read; the pages of a body that thousands of URLs share are read in slices."""
NEXT_POINTERS = 8
MOST_POINTERS = 1024
"""Page pointers in the next reads of a row that is read whole: few, then more and more."""
HASHED_ROWS = 1024
"""Rows whose postings `posting_hashes` hashes at a time."""
HASHED_PAGES = 1 << 16
"""Page pointers of a row that `posting_hashes` reads; more of them are looked up."""
_new_tuple = tuple.__new__
"""Takes half the time of a NamedTuple's constructor; there are a dozen pointers and cells a page."""
BODY_ROW: Final = bytes((POSTING_BODY,))
TEXT_ROW: Final = bytes((POSTING_TEXT,))
"""Prefixes of rows: with a `body_head` the row of the pages with a body, with a `text_number` that of the pages with a
text.  `titled_row` gives the row of the pages with a text and the words of a title."""


# --- keys of texts


IndexQuery = docstore_native.IndexQuery
"""What a page asks the index, and what it is posted under."""
Proposal = docstore_native.Proposal
"""What the index answers."""


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
        return posted_rows(self.rows.items())


def posted_rows(rows: Iterable[tuple[bytes, list[bytes]]]) -> list[RowMutations]:
    """The mutations that add postings: qualifiers by row."""
    return [
        _new_tuple(
            RowMutations,
            (TABLE, row_key, [_new_tuple(SetCell, (FAMILY, qualifier, 0, b"")) for qualifier in qualifiers]),
        )
        for row_key, qualifiers in rows
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

    def post(self, new: NewPostings, query: IndexQuery, proposal: Proposal | None = None) -> None:
        """Add the text of a query to the postings of a batch: under `IndexQuery.posted_keys`.

        Args:
            new: of the batch.
            query: of the page that has the text.
            proposal: what a look-up proposed for it; its further keys are those of chains beyond their first that were
                asked for, and of a text in the middle of a crowd those of its second buckets.
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
    return docstore_native.propose(query, BUCKET_LIMIT, LOOKS, lambda keys: find(np.frombuffer(keys, np.uint64)))


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


def newest_first(pointer: PagePointer) -> bytes:
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
    new.add(newest_first(pointer), name_rows(payload_digest, docno))


def name_rows(payload_digest: str, docno: str) -> list[bytes]:
    """The rows of the pages with a payload digest or a document number; "" for none."""
    names = ((POSTING_PAYLOAD_DIGEST, payload_digest), (POSTING_DOCNO, docno))
    return [_name_key(kind, name) for kind, name in names if name]


def pages_named(engine: Engine, kind: int, name: str, after: PagePointer | None = None) -> Iterator[PagePointer]:
    """Pages with a recorded payload digest or document number, newest first; the caller verifies each.

    Args:
        engine: has the postings.
        kind: POSTING_PAYLOAD_DIGEST or POSTING_DOCNO.
        name: the digest or number.
        after: only those after this page.
    """
    row = _name_key(kind, name)
    last = b"" if after is None else newest_first(after)
    return (posted_page(row, qualifier) for qualifier in stored_postings(engine, row, last))


def removals(row_key: bytes, captures: Iterable[Posted]) -> list[RowMutations]:
    """Mutations that remove the postings of captures of a row; to be written with their delete, or after it."""
    gone: set[tuple[bytes, bytes]] = set()
    for capture in captures:
        pointer = PagePointer(capture.timestamp, row_key)
        rows = posting_rows(capture.body_checksum, capture.text_checksum, capture.title)
        gone |= {(row, _qualifier(pointer)) for row in rows}
        gone |= {(row, newest_first(pointer)) for row in name_rows(capture.payload_digest, capture.docno)}
    return [RowMutations(TABLE, row, (DeleteCells(FAMILY, qualifier),)) for row, qualifier in sorted(gone)]


def has_postings(
    engine: Engine,
    pointer: PagePointer,
    body_checksum: bytes,
    text_checksum: bytes = b"",
    title: str = "",
    *,
    known: docstore_native.PostingHashes | None = None,
) -> bool:
    """Whether a page has all its postings; without them no verdict can name it.

    Args:
        engine: has the postings.
        pointer, body_checksum, text_checksum, title: of the page.
        known: of `posting_hashes`; other postings are looked up.
    """
    here = _qualifier(pointer)
    spec = ReadSpec((FAMILY,), qualifier_prefix=here, cell_limit=1)
    for row in posting_rows(body_checksum, text_checksum, title):
        if known is not None and known.holds(row, here):
            continue
        if [cell.qualifier for cell in engine.read_row(TABLE, row, spec)] != [here]:
            return False
    return True


def posting_hashes(engine: Engine) -> docstore_native.PostingHashes:
    """Hashes of the postings of bodies and texts; 8 bytes each.

    One scan is cheaper than three look-ups a page.  A posting that is missing has the hash of another one with a
    probability of about one in 2**40, if there are 10 million.
    """
    spec = ReadSpec(cell_limit=HASHED_PAGES)
    kinds = (POSTING_BODY, POSTING_TEXT)
    rows = chain.from_iterable(engine.scan(TABLE, bytes((kind,)), bytes((kind + 1,)), spec) for kind in kinds)
    return docstore_native.PostingHashes(iter(lambda: list(islice(rows, HASHED_ROWS)), []))
