"""Band keys and 0-mod-p fingerprints -> text numbers: the seam behind the index, and the buckets kept as rows.

Knows the engine protocol and `format`; must not know what a key stands for, nor runs (`runbuckets` has those).

What a batch posts is in its `NewPostings` until it is committed, and look-ups are handed that.  A batch that is dropped
leaves nothing behind.

Two implementations answer the same questions: `RunBuckets` where one process writes, which costs the same however much
is stored, and `RowBuckets`, a bare row of the engine a posting, which needs nothing but the engine: for engines that
several processes write, and for what a dry run adds.  `LayeredBuckets` puts one over another for a dry run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from docstore.model.format import POSTING_BAND, TEXT_NUMBER_BYTES
from docstore.model.types import RowMutations, SetCell
from docstore.reference.fingerprints import BANDS, Numbers
from docstore.reference.ranking import (
    BUCKET_LIMIT,
    NO_KEYS,
    IndexQuery,
    Keys,
    Proposal,
    first_of_each,
    propose,
)
from docstore.storage.engine import Engine
from docstore.storage.plan import Plan

if TYPE_CHECKING:
    from docstore.dedup.kernel import Recent

TABLE: Final = "postings"
FAMILY: Final = "p"

_KIND: Final = bytes((POSTING_BAND,))


class NewPostings:
    """Postings of a batch: its later pages are judged by them at once, other pages once it is committed.

    Attributes:
        rows: what it adds to rows of the table: qualifiers in order, each once.
        texts: numbers of texts that it posts, and their keys as a log keeps them; where buckets are no rows.
        recent: the same, to be looked up; None if there are none.
        ahead: rows of buckets that were read together for its pages, as they are committed.
    """

    __slots__ = ("ahead", "recent", "rows", "texts")

    def __init__(self) -> None:
        self.rows: dict[bytes, list[bytes]] = {}
        self.texts: list[tuple[int, bytes]] = []
        self.recent: Recent | None = None
        self.ahead: dict[bytes, list[bytes]] = {}

    def add(self, row_key: bytes, qualifier: bytes) -> None:
        """Add a posting to a row."""
        ordered = self.rows.setdefault(row_key, [])
        at = bisect_left(ordered, qualifier)
        if at == len(ordered) or ordered[at] != qualifier:
            ordered.insert(at, qualifier)

    def mutations(self) -> list[RowMutations]:
        """The rows to write with the batch."""
        return [
            RowMutations(TABLE, row_key, [SetCell(FAMILY, qualifier, 0, b"") for qualifier in qualifiers])
            for row_key, qualifiers in self.rows.items()
        ]


NOTHING_NEW: Final = NewPostings()
"""For look-ups in what is committed alone."""


class Buckets(Protocol):
    """Key -> the first `BUCKET_LIMIT` texts that were posted under it.  Thread-safe; one thread at a time posts."""

    def find(self, keys: Keys, new: NewPostings = NOTHING_NEW) -> tuple[Numbers, Keys]:
        """Look up keys in all that was posted.

        Args:
            keys: (m,) uint64.
            new: of the batch in flight.
        Returns:
            For each posting found: which key (index in `keys`, ascending), and its text number as uint64.
        """
        ...

    def propose(self, query: IndexQuery, new: NewPostings = NOTHING_NEW) -> Proposal:
        """Look up what a page asks, and rank what is found: `ranking.propose`."""
        return propose(query, lambda keys: self.find(keys, new))

    def rows_of(self, queries: Iterable[IndexQuery]) -> list[bytes]:
        """The rows that `prepare` reads for pages, whatever is stored."""
        return []

    def prepare(self, queries: Iterable[IndexQuery], new: NewPostings) -> None:
        """Say which pages of a batch are asked for next."""
        return

    def post(self, new: NewPostings, text: int, *keys: Keys) -> None:
        """Add a text to what a batch posts.

        Args:
            new: of the batch.
            text: its number.
            keys: (m,) uint64 each, different ones in all of them.
        """
        ...

    def log(self, new: NewPostings) -> list[RowMutations]:
        """What to write with a batch beside its rows."""
        return []

    def follow(self, plan: Plan, known: bool) -> None:
        """A commit has ended: look-ups find what it posted; see `Committer.followers`."""
        return

    def texts_in_order(self) -> Keys | None:
        """Numbers of all texts in the order in which they were posted, (n,) uint64; one posted twice is there twice.

        None where that is not known.  The first texts of a bucket are found by its key, so the order tells them.
        """
        return None

    def begin_prune(self) -> None:
        """Say that somebody is about to look which texts are there, for `prune`.  No batch is in flight."""
        return

    def prune(self, live: Keys) -> int:
        """Drop postings of texts that are gone; may wait until they are many.  Writers go on meanwhile.

        Args:
            live: (n,) uint64, the numbers of texts that were there since `begin_prune`, ascending; those posted since,
                or found to be posted already, count as live.
        Returns:
            How many postings went.
        """
        return 0

    def close(self) -> None:
        """Let go of files; a second call does nothing."""
        return


class RowBuckets(Buckets):
    """A bare row a posting; nothing to prune: rows are swept with the other rows of the index."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, keys: Keys, new: NewPostings = NOTHING_NEW) -> tuple[Numbers, Keys]:
        """See `Buckets`."""
        found = self._read([_row_key(key) for key in keys.tolist()], new)
        owner = np.repeat(np.arange(len(found)), [len(texts) for texts in found])
        return owner, np.array([int.from_bytes(text, "big") for texts in found for text in texts], np.uint64)

    def _read(self, row_keys: Sequence[bytes], new: NewPostings) -> list[list[bytes]]:
        """The first texts of rows, those of the batch among them."""
        missing = [row_key for row_key in row_keys if row_key not in new.ahead]
        read = self._engine.qualifiers_of_rows(TABLE, missing, BUCKET_LIMIT) if missing else []
        stored = new.ahead | dict(zip(missing, read, strict=True)) if missing else new.ahead
        added = [new.rows.get(row_key, ()) for row_key in row_keys]
        return [
            sorted({*stored[row_key], *more})[:BUCKET_LIMIT] if more else stored[row_key]
            for row_key, more in zip(row_keys, added, strict=True)
        ]

    def post(self, new: NewPostings, text: int, *keys: Keys) -> None:
        """See `Buckets`."""
        number = text.to_bytes(TEXT_NUMBER_BYTES, "big")
        row_keys = [_row_key(key) for part in keys for key in part.tolist()]
        for row_key, texts in zip(row_keys, self._read(row_keys, new), strict=True):
            if len(texts) < BUCKET_LIMIT:
                new.add(row_key, number)


class BandBuckets(RowBuckets):
    """Rows for the bands alone, read together for a group: where each row is a call's worth of work.

    A text is not found by other fingerprints, so one that lies in a longer page is not found here.
    """

    def rows_of(self, queries: Iterable[IndexQuery]) -> list[bytes]:
        """See `Buckets`."""
        keys = {key for query in queries for key in query.band_keys[:BANDS].tolist()}
        return [_row_key(key) for key in sorted(keys)]

    def prepare(self, queries: Iterable[IndexQuery], new: NewPostings) -> None:
        """See `Buckets`."""
        row_keys = self.rows_of(queries)
        found = self._engine.qualifiers_of_rows(TABLE, row_keys, BUCKET_LIMIT)
        new.ahead = dict(zip(row_keys, found, strict=True))

    def propose(self, query: IndexQuery, new: NewPostings = NOTHING_NEW) -> Proposal:
        """See `Buckets`."""
        return super().propose(query._replace(fingerprints=NO_KEYS, runs=NO_KEYS), new)

    def post(self, new: NewPostings, text: int, *keys: Keys) -> None:
        """See `Buckets`; the first keys are a page's bands, then its other fingerprints."""
        super().post(new, text, keys[0][:BANDS], *keys[1:])


class LayeredBuckets:
    """Buckets over others: looks up both, posts to the upper ones alone.  What a dry run stands on."""

    def __init__(self, lower: Buckets, upper: Buckets) -> None:
        self._lower = lower
        self._upper = upper
        self.post = upper.post
        self.log = upper.log
        self.follow = upper.follow
        self.texts_in_order = lower.texts_in_order
        self.rows_of = upper.rows_of
        self.prepare = upper.prepare
        self.begin_prune = upper.begin_prune
        self.prune = upper.prune
        self.close = upper.close

    def find(self, keys: Keys, new: NewPostings = NOTHING_NEW) -> tuple[Numbers, Keys]:
        """See `Buckets`."""
        lower, upper = self._lower.find(keys), self._upper.find(keys, new)
        if not len(upper[0]):
            return lower
        return first_of_each(np.concatenate([lower[0], upper[0]]), np.concatenate([lower[1], upper[1]]))

    def propose(self, query: IndexQuery, new: NewPostings = NOTHING_NEW) -> Proposal:
        """See `Buckets`."""
        return propose(query, lambda keys: self.find(keys, new))


def _row_key(key: int) -> bytes:
    return _KIND + key.to_bytes(8, "big")
