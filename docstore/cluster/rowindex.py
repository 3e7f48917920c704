"""The index of band keys and fingerprints as rows, for engines with several writing processes.

A posting is one bare row of the engine.  Each look-up is a call to another machine, so the rows for a group of pages
are read together, depth by depth of their chains.  A full bucket stays full, so its row is read once and then cached.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

import numpy as np

from docstore.dedup.index import (
    BUCKET_LIMIT,
    NOTHING_NEW,
    TABLE,
    IndexQuery,
    NewPostings,
    Proposal,
    TextIndex,
    propose,
)
from docstore.model.format import POSTING_BAND, TEXT_NUMBER_BYTES
from docstore.model.sets import Keys, Numbers
from docstore.storage.cache import LruCache
from docstore.storage.engine import Engine

_KIND: Final = bytes((POSTING_BAND,))
MAX_FULL_ROWS: Final = 4096
MAX_COUNTED_ROWS: Final = 1 << 17


class RowIndex(TextIndex):
    """Bands and fingerprints in rows.  There is nothing to prune: `StoreUpkeep` removes stale rows.

    A large page is posted under more fingerprints than it asks for.  The rows of the others are not read: this process
    counts its own postings in them, and stops at `BUCKET_LIMIT`.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._batch, self._read = NOTHING_NEW, dict[bytes, list[bytes]]()
        """The postings of the batch that is judged, and rows that were read for it.  Only the writer of the store
        changes these, under its lock; other threads look up committed postings."""
        self._full: LruCache[bytes, list[bytes]] = LruCache(MAX_FULL_ROWS)
        self._counts: LruCache[bytes, int] = LruCache(MAX_COUNTED_ROWS)
        """Postings of this process in rows that were not read."""

    def propose(self, query: IndexQuery, new: NewPostings = NOTHING_NEW) -> Proposal:
        """See `TextIndex`.

        A writer that died may have posted a text under some of its keys only.  So the text counts as posted if it is in
        each of the first buckets that has room.
        """
        own = query.own_number.to_bytes(TEXT_NUMBER_BYTES, "big")
        is_posted: list[bool] = []

        def find(keys: Keys) -> tuple[Numbers, Keys]:
            rows = self._texts(rows_of_keys(keys), new)
            is_posted.append(all(own in texts for texts in rows if len(texts) < BUCKET_LIMIT))
            return _found(rows)

        proposal = propose(query, find)
        return proposal._replace(has_own=proposal.has_own and all(is_posted[:1]))

    def post(self, new: NewPostings, text: int, *keys: Keys) -> None:
        """See `TextIndex`."""
        number = text.to_bytes(TEXT_NUMBER_BYTES, "big")
        new.add(number, [row_key for part in keys for row_key in rows_of_keys(part) if self._has_room(row_key, new)])

    def _has_room(self, row_key: bytes, new: NewPostings) -> bool:
        """Whether a bucket takes another text; if its row was not read, the text is counted."""
        texts = self._known(row_key)
        if texts is not None:
            return len(texts) + len(new.rows.get(row_key, ())) < BUCKET_LIMIT
        count = self._counts.get(row_key) or 0
        self._counts.put(row_key, count + 1)
        return count < BUCKET_LIMIT

    def first_rows(self, queries: Iterable[IndexQuery]) -> list[bytes]:
        """Begin a batch; -> the rows that look-ups read first, in order: neighbours share a server."""
        self._batch, self._read = NOTHING_NEW, {}
        return sorted(set(chain.from_iterable(map(self._missing, queries))))

    def read_ahead(self, queries: Iterable[IndexQuery], new: NewPostings) -> None:
        """Read the rows for the look-ups of a batch in a few calls: one for each depth of the chains."""
        self._batch, self._read = new, {}
        waiting = list(queries)
        while waiting:
            missing = [self._missing(query) for query in waiting]
            row_keys = sorted(set(chain.from_iterable(missing)))
            read = self._engine.qualifiers_of_rows(TABLE, row_keys, BUCKET_LIMIT) if row_keys else []
            self._read.update(zip(row_keys, read, strict=True))
            for row_key, texts in self._read.items():
                if len(texts) == BUCKET_LIMIT:
                    self._full.put(row_key, texts)
            waiting = [query for query, rows in zip(waiting, missing, strict=True) if rows]

    def _missing(self, query: IndexQuery) -> list[bytes]:
        """The rows that a look-up needs next and that are not known."""
        missing: list[bytes] = []

        def find(keys: Keys) -> tuple[Numbers, Keys]:
            rows = [(row_key, self._known(row_key)) for row_key in rows_of_keys(keys)]
            missing.extend(row_key for row_key, texts in rows if texts is None)
            return _found([texts or [] for _, texts in rows])

        propose(query, find)
        return missing

    def _known(self, row_key: bytes) -> list[bytes] | None:
        """The first committed texts of a row that was read for the batch, or that is full; else None."""
        texts = self._read.get(row_key)
        return self._full.get(row_key) if texts is None else texts

    def _texts(self, row_keys: Sequence[bytes], new: NewPostings) -> list[list[bytes]]:
        """The first texts of rows, including those of a batch."""
        known = [self._known(row_key) if new is self._batch else None for row_key in row_keys]
        missing = [row_key for row_key, texts in zip(row_keys, known, strict=True) if texts is None]
        read = iter(self._engine.qualifiers_of_rows(TABLE, missing, BUCKET_LIMIT) if missing else ())
        rows = [next(read) if texts is None else texts for texts in known]
        return [
            sorted({*texts, *new.rows[row_key]})[:BUCKET_LIMIT] if row_key in new.rows else texts
            for row_key, texts in zip(row_keys, rows, strict=True)
        ]


def rows_of_keys(keys: Keys) -> list[bytes]:
    """The rows of buckets."""
    return [_KIND + key.to_bytes(8, "big") for key in keys.tolist()]


def _found(rows: Sequence[Sequence[bytes]]) -> tuple[Numbers, Keys]:
    """Postings as `propose` takes them."""
    owner = np.repeat(np.arange(len(rows)), [len(texts) for texts in rows])
    return owner, np.array([int.from_bytes(text, "big") for texts in rows for text in texts], np.uint64)
