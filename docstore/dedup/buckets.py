"""Band keys and 0-mod-p fingerprints -> text numbers: the interface of buckets, and buckets stored as rows.

Postings of a batch are in its `NewPostings` until it is committed, and each look-up gets that object.  Dropping the
batch drops them.

There are two implementations: `RunBuckets` for a single writing process, whose cost does not depend on the size of the
store, and `RowBuckets`, one bare row of the engine a posting, which needs only the engine: for engines with several
writing processes, and for the additions of a dry run.  `LayeredBuckets` is an overlay of one over another, for a dry
run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np

from docstore.compiled import docstore_native
from docstore.model.analysis import BANDS
from docstore.model.format import POSTING_BAND, TEXT_NUMBER_BYTES
from docstore.model.sets import Keys, Numbers
from docstore.model.types import RowMutations, SetCell
from docstore.storage.engine import Engine

TABLE: Final = "postings"
FAMILY: Final = "p"

BUCKET_LIMIT: Final = 64
"""Texts in one bucket; `docs/benchmarks.md` has the share of duplicates that are flagged all the same."""
LOOKS_NEAR: Final = 24
LOOKS_INSIDE: Final = 16
LOOKS_MOST: Final = 8
"""Texts looked at a page: of those that share a band, of those that share a 0-mod-p fingerprint, and of all, by how
many keys they share: a text that was among the first of full buckets is in no others."""
FURTHER: Final = 48
"""Texts of each of the first two lists that may be looked at next."""
LOOKS: Final = LOOKS_NEAR, LOOKS_INSIDE, LOOKS_MOST, FURTHER
"""For native code."""
NO_KEYS: Final[Keys] = np.empty(0, np.uint64)

_KIND: Final = bytes((POSTING_BAND,))
_new_tuple = tuple.__new__
"""Takes half the time of a NamedTuple's constructor; there are eight a page."""


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
        further: texts that come next, where the others are no more than alike.
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
        recent: texts that it posts, if buckets are not rows; None if there are none.
    """

    __slots__ = ("recent", "rows")

    def __init__(self) -> None:
        self.rows: dict[bytes, list[bytes]] = {}
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


class Buckets(Protocol):
    """Key -> the first `BUCKET_LIMIT` texts that were posted under it.  Thread-safe; one thread at a time posts."""

    def find(self, keys: Keys, new: NewPostings = NOTHING_NEW) -> tuple[Numbers, Keys]:
        """Look up keys in all postings.

        Args:
            keys: (m,) uint64.
            new: of the batch in flight.
        Returns:
            For each posting: its key (index in `keys`, ascending), and its text number as uint64.
        """
        ...

    def propose(self, query: IndexQuery, new: NewPostings = NOTHING_NEW) -> Proposal:
        """Look up the keys of a page, and rank the texts.

        A key is the first of a chain: bands of more and more bins, runs of more and more shingles (LSH Forest: Bawa,
        Condie, Ganesan 2005).  A bucket that is full stays full, and the texts after its first are posted under the
        next key of the chain as well, so a look-up goes along each chain until a bucket has room.
        """
        return propose(query, lambda keys: self.find(keys, new))

    def post(self, new: NewPostings, text: int, *keys: Keys) -> None:
        """Add a text to the postings of a batch.

        Args:
            new: of the batch.
            text: its number.
            keys: (m,) uint64 each; no key twice: `IndexQuery.first_keys`, then further ones.
        """
        ...

    def log(self, new: NewPostings) -> list[RowMutations]:
        """Mutations to write with a batch in addition to its rows."""
        return []

    def follow(self, rows: Sequence[RowMutations], known: bool) -> None:
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

    def prune(self, live: Keys) -> int:
        """Drop postings of removed texts; may wait until there are many.  Writers continue meanwhile.

        Args:
            live: (n,) uint64, the numbers of texts that were live since `begin_prune`, ascending; texts posted since,
                or seen by a look-up as posted, count as live.
        Returns:
            Dropped postings.
        """
        return 0

    def close(self) -> None:
        """Close files; a second call does nothing."""
        return


class RowBuckets(Buckets):
    """One bare row a posting.  Nothing to prune: `Pruner` sweeps the rows with the other rows of the index."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def find(self, keys: Keys, new: NewPostings = NOTHING_NEW) -> tuple[Numbers, Keys]:
        """See `Buckets`."""
        buckets = self._read([row_key_of(key) for key in keys.tolist()], new)
        owner = np.repeat(np.arange(len(buckets)), [len(texts) for texts in buckets])
        return owner, np.array([int.from_bytes(text, "big") for texts in buckets for text in texts], np.uint64)

    def _read(self, row_keys: Sequence[bytes], new: NewPostings) -> list[list[bytes]]:
        """The first texts of rows, including those of the batch."""
        added = [new.rows.get(row_key, ()) for row_key in row_keys]
        return [
            sorted({*texts, *more})[:BUCKET_LIMIT] if more else texts
            for texts, more in zip(self.stored(row_keys, new), added, strict=True)
        ]

    def stored(self, row_keys: Sequence[bytes], new: NewPostings) -> list[list[bytes]]:
        """The first texts of committed rows, for a look-up of a page of a batch."""
        return self._engine.qualifiers_of_rows(TABLE, row_keys, BUCKET_LIMIT)

    def post(self, new: NewPostings, text: int, *keys: Keys) -> None:
        """See `Buckets`."""
        number = text.to_bytes(TEXT_NUMBER_BYTES, "big")
        row_keys = [row_key_of(key) for part in keys for key in part.tolist()]
        read = zip(row_keys, self._read(row_keys, new), strict=True)
        new.add(number, [row_key for row_key, texts in read if len(texts) < BUCKET_LIMIT])


class LayeredBuckets:
    """An overlay for a dry run: looks up in both, posts only to the upper buckets."""

    def __init__(self, lower: Buckets, upper: Buckets) -> None:
        self._lower = lower
        self._upper = upper
        self.post = upper.post
        self.log = upper.log
        self.follow = upper.follow
        self.texts_in_order = lower.texts_in_order
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


def propose(query: IndexQuery, find: Callable[[Keys], tuple[Numbers, Keys]]) -> Proposal:
    """Rank what look-ups by a function find, which takes and gives the same as `Buckets.find`."""
    found = docstore_native.propose(query, BUCKET_LIMIT, LOOKS, lambda keys: find(np.frombuffer(keys, np.uint64)))
    return proposal_of(found)


def proposal_of(found: docstore_native.Proposed) -> Proposal:
    """A proposal as native code gives it."""
    *fields, further_keys = found
    return _new_tuple(Proposal, (*fields, np.frombuffer(further_keys, np.uint64) if further_keys else NO_KEYS))


def first_of_each(owner: Numbers, texts: Keys, limit: int = BUCKET_LIMIT) -> tuple[Numbers, Keys]:
    """Sort what a look-up found by key, the order of one key's texts kept, and keep the first `limit` of each."""
    order = np.argsort(owner, kind="stable")
    owner, texts = owner[order], texts[order]
    keep = np.arange(len(owner)) - np.searchsorted(owner, owner) < limit
    return (owner, texts) if keep.all() else (owner[keep], texts[keep])


def row_key_of(key: int) -> bytes:
    """The row of a bucket."""
    return _KIND + key.to_bytes(8, "big")
