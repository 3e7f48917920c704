"""What a batch posts, committed to an engine as a store does it, or lost on the way; and what is found then."""

from __future__ import annotations

import numpy as np
from queries import NO_KEYS, IndexQuery

from docstore.cluster.rowindex import RowIndex
from docstore.dedup.index import BUCKET_LIMIT, NOTHING_NEW, NewPostings, TextIndex
from docstore.model.choices import Durability
from docstore.storage.engine import Engine


def commit_postings(
    engine: Engine, texts: TextIndex, new: NewPostings, *, known: bool = True, is_applied: bool = True
) -> None:
    """Commit what a batch posts.

    Args:
        engine: holds rows and log.
        texts: in which it posts.
        new: what it posts.
        known: the outcome of the commit is known.
        is_applied: it was applied.
    """
    rows = [*new.mutations(), *texts.log(new)]
    if is_applied:
        engine.mutate_rows(rows, Durability.SYNC)
        if isinstance(texts, RowIndex):
            texts.write(Durability.SYNC)
    texts.follow(rows, known)


def texts_under(texts: TextIndex, band_key: int, new: NewPostings = NOTHING_NEW) -> list[int]:
    """The texts in the bucket of one band key."""
    query = IndexQuery(np.array([band_key], np.uint64), NO_KEYS, NO_KEYS, (1 << 48) - 1, BUCKET_LIMIT)
    return texts.propose(query, new).numbers
