"""Postings that lead nowhere, found and removed: after deletes and expiry, as a part of compaction.

Knows the rows of the index; must not know what a live page is: the caller says so.  From pages to buckets: a
posting that leads to a page goes when that is gone, a bucket's when its text has no page.  A text's own row goes before
its buckets are swept, because a writer that finds it there adds no buckets.  Every removal is judged once more under
the writers' lock.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.buckets import FAMILY, TABLE, Buckets
from docstore.dedup.index import page_of
from docstore.dedup.ranking import BUCKET_LIMIT
from docstore.model.format import (
    POSTING_BAND,
    POSTING_BODY,
    POSTING_DOCNO,
    POSTING_PAYLOAD_DIGEST,
    POSTING_TEXT,
    TEXT_NUMBER_BYTES,
)
from docstore.model.pointers import PagePointer
from docstore.model.types import DeleteCells, ReadSpec, RowMutations
from docstore.storage.engine import Engine
from docstore.storage.plan import Plan, Stage

SLICE_POSTINGS = 4096
REMOVED_AT_ONCE = 256
"""Postings judged once more and removed under one hold of the lock: a few milliseconds."""
_BODY = bytes((POSTING_BODY,))
_TEXT = bytes((POSTING_TEXT,))

IsLive = Callable[[PagePointer, bytes], bool]
"""Whether a page's version is there, and (where a body is named) has a body checksum with this head."""
Posting = tuple[bytes, bytes]
"""Row key and qualifier."""


class Pruner:
    """Removes postings that lead nowhere.

    Args:
        engine: holds the postings.
        buckets: hold those of texts, where they are no rows.
        is_live: of a page; takes b"" for any body.
        lock: held by writers from a page's verdict to its commit.
        commit: writes a plan, under the lock.
    """

    def __init__(
        self,
        engine: Engine,
        buckets: Buckets,
        is_live: IsLive,
        lock: AbstractContextManager[object],
        commit: Callable[[Plan], None],
    ) -> None:
        self._engine = engine
        self._buckets = buckets
        self._is_live = is_live
        self._lock = lock
        self._commit = commit

    def run(self) -> int:
        """Go over all postings; returns how many were removed."""
        kinds = (POSTING_BODY, POSTING_DOCNO, POSTING_PAYLOAD_DIGEST, POSTING_TEXT)
        removed = sum(self._sweep(kind, self._page_is_gone) for kind in kinds)
        with self._lock:
            self._buckets.begin_prune()
        live = self._texts()
        for postings in _slices(self._postings_of_bands()):
            numbers = np.fromiter((_number(qualifier) for _, qualifier in postings), np.uint64, len(postings))
            removed += self._remove([postings[i] for i in _missing(numbers, live)], self._text_is_gone)
        return removed + self._buckets.prune(live)

    def _sweep(self, kind: int, is_gone: Callable[[Posting], bool]) -> int:
        return sum(
            self._remove([posting for posting in postings if is_gone(posting)], is_gone)
            for postings in _slices(self._postings(kind))
        )

    def _remove(self, postings: Sequence[Posting], is_gone: Callable[[Posting], bool]) -> int:
        removed = 0
        for start in range(0, len(postings), REMOVED_AT_ONCE):
            with self._lock:
                gone = [posting for posting in postings[start : start + REMOVED_AT_ONCE] if is_gone(posting)]
                rows = (RowMutations(TABLE, key, (DeleteCells(FAMILY, qualifier),)) for key, qualifier in gone)
                self._commit(Plan().remove(Stage.POSTINGS, rows))
            removed += len(gone)
        return removed

    def _page_is_gone(self, posting: Posting) -> bool:
        row_key, qualifier = posting
        return not self._is_live(page_of(row_key, qualifier), row_key[1:] if row_key[:1] == _BODY else b"")

    def _text_is_gone(self, posting: Posting) -> bool:
        return not self._engine.qualifiers(TABLE, _TEXT + posting[1], 1)

    def _texts(self) -> NDArray[np.uint64]:
        """Numbers of the texts that some page has, ascending: 8 bytes each."""
        numbers = array("Q")
        for row in self._engine.scan(TABLE, _TEXT, bytes((POSTING_TEXT + 1,)), ReadSpec(cell_limit=1)):
            numbers.append(_number(row.row_key[1:]))
        return np.unique(np.frombuffer(numbers, np.uint64)) if numbers else np.empty(0, np.uint64)

    def _postings_of_bands(self) -> Iterator[Posting]:
        """Those of buckets that are not full: what came after the first texts of a full one is found through it."""
        for row in self._engine.scan(TABLE, bytes((POSTING_BAND,)), bytes((POSTING_BAND + 1,))):
            if len(row.cells) < BUCKET_LIMIT:
                for cell in row.cells:
                    yield row.row_key, cell.qualifier

    def _postings(self, kind: int) -> Iterator[Posting]:
        for row in self._engine.scan(TABLE, bytes((kind,)), bytes((kind + 1,))):
            for cell in row.cells:
                yield row.row_key, cell.qualifier


def _number(text_number: bytes) -> int:
    return int.from_bytes(text_number[:TEXT_NUMBER_BYTES], "big")


def _missing(numbers: NDArray[np.uint64], live: NDArray[np.uint64]) -> list[int]:
    """Places of the numbers that are not among the live ones."""
    if not len(live):
        return list(range(len(numbers)))
    places = np.minimum(np.searchsorted(live, numbers), len(live) - 1)
    return [int(place) for place in np.flatnonzero(live[places] != numbers)]


def _slices(postings: Iterator[Posting]) -> Iterator[list[Posting]]:
    while found := list(islice(postings, SLICE_POSTINGS)):
        yield found
