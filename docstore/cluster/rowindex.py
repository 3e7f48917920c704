"""The index of band keys as rows: one bare row of the engine a posting, for engines with several writing processes.

Each row costs a call to another machine, so only bands are looked up, and the rows for a group are read together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from docstore.dedup.index import (
    BUCKET_LIMIT,
    NO_KEYS,
    NOTHING_NEW,
    TABLE,
    IndexQuery,
    NewPostings,
    Proposal,
    TextIndex,
    propose,
)
from docstore.model.analysis import BANDS
from docstore.model.format import POSTING_BAND, TEXT_NUMBER_BYTES
from docstore.model.sets import Keys, Numbers
from docstore.storage.engine import Engine

_KIND: Final = bytes((POSTING_BAND,))


class RowIndex(TextIndex):
    """Bands in rows.  Other fingerprints are not looked up, so a text that a longer page contains is not found.

    There is nothing to prune: `StoreUpkeep` removes stale rows.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._ahead: tuple[NewPostings, dict[bytes, list[bytes]]] = NOTHING_NEW, {}
        """Rows that were read ahead, and the postings of the batch that they were read for."""

    def propose(self, query: IndexQuery, new: NewPostings = NOTHING_NEW) -> Proposal:
        """See `TextIndex`."""

        def find(keys: Keys) -> tuple[Numbers, Keys]:
            rows = self._read([row_key_of(key) for key in keys.tolist()], new)
            owner = np.repeat(np.arange(len(rows)), [len(texts) for texts in rows])
            return owner, np.array([int.from_bytes(text, "big") for texts in rows for text in texts], np.uint64)

        return propose(query._replace(fingerprints=NO_KEYS, runs=NO_KEYS), find)

    def post(self, new: NewPostings, text: int, *keys: Keys) -> None:
        """See `TextIndex`; without fingerprints, which are the second keys."""
        row_keys = [row_key_of(key) for part in (keys[0], *keys[2:]) for key in part.tolist()]
        read = zip(row_keys, self._read(row_keys, new), strict=True)
        number = text.to_bytes(TEXT_NUMBER_BYTES, "big")
        new.add(number, [row_key for row_key, texts in read if len(texts) < BUCKET_LIMIT])

    def rows_of(self, queries: Iterable[IndexQuery]) -> list[bytes]:
        """The rows that look-ups read."""
        keys = {key for query in queries for key in query.band_keys[:BANDS].tolist()}
        return [row_key_of(key) for key in sorted(keys)]

    def read_ahead(self, queries: Iterable[IndexQuery], new: NewPostings) -> None:
        """Read the rows for the look-ups of a batch in one call."""
        row_keys = self.rows_of(queries)
        read = self._engine.qualifiers_of_rows(TABLE, row_keys, BUCKET_LIMIT)
        self._ahead = new, dict(zip(row_keys, read, strict=True))

    def _read(self, row_keys: Sequence[bytes], new: NewPostings) -> list[list[bytes]]:
        """The first texts of rows, including those of the batch."""
        batch, ahead = self._ahead
        known = ahead if batch is new else {}
        missing = [row_key for row_key in row_keys if row_key not in known]
        read = self._engine.qualifiers_of_rows(TABLE, missing, BUCKET_LIMIT) if missing else []
        stored = known | dict(zip(missing, read, strict=True)) if missing else known
        return [
            sorted({*stored[row_key], *new.rows[row_key]})[:BUCKET_LIMIT] if row_key in new.rows else stored[row_key]
            for row_key in row_keys
        ]


def row_key_of(key: int) -> bytes:
    """The row of a bucket."""
    return _KIND + key.to_bytes(8, "big")
