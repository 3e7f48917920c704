"""Band keys and 0-mod-p fingerprints -> text numbers: the seam behind the index, and the buckets kept as rows.

Knows the engine protocol and `format`; must not know what a key stands for, nor runs (`runbuckets` has those).

Two implementations answer the same questions: `RunBuckets` where one process writes, which costs the same however much
is stored, and `RowBuckets`, a bare row of the engine a posting, which needs nothing but the engine: for engines that
several processes write, and for what a dry run adds.  `LayeredBuckets` puts one over another for a dry run.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

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

TABLE: Final = "postings"
FAMILY: Final = "p"

_KIND: Final = bytes((POSTING_BAND,))


class Buckets(Protocol):
    """Key -> the first `BUCKET_LIMIT` texts that were posted under it.  Thread-safe; one thread at a time posts."""

    def find(self, keys: Keys) -> tuple[Numbers, Keys]:
        """Look up keys in all that was posted, the group in flight included.

        Args:
            keys: (m,) uint64.
        Returns:
            For each posting found: which key (index in `keys`, ascending), and its text number as uint64.
        """
        ...

    def propose(self, query: IndexQuery) -> Proposal:
        """Look up what a page asks, and rank what is found: `ranking.propose`."""
        return propose(query, self.find)

    def rows_of(self, queries: Iterable[IndexQuery]) -> list[bytes]:
        """The rows that `prepare` reads for pages, whatever is stored."""
        return []

    def prepare(self, queries: Iterable[IndexQuery]) -> None:
        """Say which pages are asked for next; what is read for that holds until the end of the group in flight."""
        return

    def post(self, text: int, *keys: Keys) -> None:
        """Add a text to the group in flight, found by look-ups from now on.

        Args:
            text: its number.
            keys: (m,) uint64 each, different ones in all of them.
        """
        ...

    def mutations(self) -> list[RowMutations]:
        """What to write with the group in flight."""
        ...

    def end_group(self, *, committed: bool) -> None:
        """The group in flight was written, or it failed; never raises for what is derived and can be made again."""
        ...

    def texts_in_order(self) -> Keys | None:
        """Numbers of all texts in the order in which they were posted, (n,) uint64; one posted twice is there twice.

        None where that is not known.  The first texts of a bucket are found by its key, so the order tells them.
        """
        return None

    def begin_prune(self) -> None:
        """Say that somebody is about to look which texts are there, for `prune`.  No group is in flight."""
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
        self._lock = threading.Lock()
        self._pending: dict[bytes, list[bytes]] = {}

    def find(self, keys: Keys) -> tuple[Numbers, Keys]:
        """See `Buckets`."""
        found = self._read([_row_key(key) for key in keys.tolist()])
        owner = np.repeat(np.arange(len(found)), [len(texts) for texts in found])
        return owner, np.array([int.from_bytes(text, "big") for texts in found for text in texts], np.uint64)

    def _read(self, row_keys: Sequence[bytes]) -> list[list[bytes]]:
        stored = self._stored(row_keys)
        with self._lock:
            pending = [self._pending.get(row_key, ()) for row_key in row_keys]
            return [
                sorted({*texts, *more})[:BUCKET_LIMIT] if more else texts
                for texts, more in zip(stored, pending, strict=True)
            ]

    def _stored(self, row_keys: Sequence[bytes]) -> list[list[bytes]]:
        return self._engine.qualifiers_of_rows(TABLE, row_keys, BUCKET_LIMIT)

    def post(self, text: int, *keys: Keys) -> None:
        """See `Buckets`."""
        number = text.to_bytes(TEXT_NUMBER_BYTES, "big")
        row_keys = [_row_key(key) for part in keys for key in part.tolist()]
        found = self._read(row_keys)
        with self._lock:
            for row_key, texts in zip(row_keys, found, strict=True):
                if len(texts) < BUCKET_LIMIT:
                    self._pending.setdefault(row_key, []).append(number)

    def mutations(self) -> list[RowMutations]:
        """See `Buckets`."""
        return [
            RowMutations(TABLE, row_key, [SetCell(FAMILY, number, 0, b"") for number in numbers])
            for row_key, numbers in self._pending.items()
        ]

    def end_group(self, *, committed: bool) -> None:
        """See `Buckets`."""
        with self._lock:
            self._pending = {}


class BandBuckets(RowBuckets):
    """Rows for the bands alone, read together for a group: where each row is a call's worth of work.

    A text is not found by other fingerprints, so one that lies in a longer page is not found here.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self._held: dict[bytes, list[bytes]] = {}

    def rows_of(self, queries: Iterable[IndexQuery]) -> list[bytes]:
        """See `Buckets`."""
        keys = {key for query in queries for key in query.band_keys[:BANDS].tolist()}
        return [_row_key(key) for key in sorted(keys)]

    def prepare(self, queries: Iterable[IndexQuery]) -> None:
        """See `Buckets`."""
        row_keys = self.rows_of(queries)
        found = self._engine.qualifiers_of_rows(TABLE, row_keys, BUCKET_LIMIT)
        self._held = dict(zip(row_keys, found, strict=True))

    def propose(self, query: IndexQuery) -> Proposal:
        """See `Buckets`."""
        return propose(query._replace(fingerprints=NO_KEYS, runs=NO_KEYS), self.find)

    def _stored(self, row_keys: Sequence[bytes]) -> list[list[bytes]]:
        held = self._held  # another thread may end a group meanwhile
        missing = [row_key for row_key in row_keys if row_key not in held]
        if not missing:
            return [held[row_key] for row_key in row_keys]
        found = dict(zip(missing, self._engine.qualifiers_of_rows(TABLE, missing, BUCKET_LIMIT), strict=True))
        return [found[row_key] if row_key in found else held[row_key] for row_key in row_keys]

    def post(self, text: int, *keys: Keys) -> None:
        """See `Buckets`; the first keys are a page's bands, then its other fingerprints."""
        super().post(text, keys[0][:BANDS], *keys[1:])

    def end_group(self, *, committed: bool) -> None:
        """See `Buckets`."""
        super().end_group(committed=committed)
        self._held = {}


class LayeredBuckets:
    """Buckets over others: looks up both, posts to the upper ones alone.  What a dry run stands on."""

    def __init__(self, lower: Buckets, upper: Buckets) -> None:
        self._lower = lower
        self._upper = upper
        self.post = upper.post
        self.mutations = upper.mutations
        self.end_group = upper.end_group
        self.texts_in_order = lower.texts_in_order
        self.rows_of = upper.rows_of
        self.prepare = upper.prepare
        self.begin_prune = upper.begin_prune
        self.prune = upper.prune
        self.close = upper.close

    def find(self, keys: Keys) -> tuple[Numbers, Keys]:
        """See `Buckets`."""
        lower, upper = self._lower.find(keys), self._upper.find(keys)
        if not len(upper[0]):
            return lower
        return first_of_each(np.concatenate([lower[0], upper[0]]), np.concatenate([lower[1], upper[1]]))

    def propose(self, query: IndexQuery) -> Proposal:
        """See `Buckets`."""
        return propose(query, self.find)


def _row_key(key: int) -> bytes:
    return _KIND + key.to_bytes(8, "big")
