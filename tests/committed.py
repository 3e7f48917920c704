"""What a batch posts, committed to an engine as a store does it, or lost on the way."""

from __future__ import annotations

from docstore.dedup.buckets import Buckets, NewPostings
from docstore.dedup.index import HashIndex
from docstore.model.types import Durability
from docstore.storage.engine import Engine


def commit_postings(
    engine: Engine, buckets: Buckets, new: NewPostings, *indexes: HashIndex, known: bool = True, is_applied: bool = True
) -> None:
    """Commit what a batch posts.

    Args:
        engine: holds rows and log.
        buckets: in which it posts.
        new: what it posts.
        indexes: with caches that follow.
        known: the outcome of the commit is known.
        is_applied: it was applied.
    """
    rows = [*new.mutations(), *buckets.log(new)]
    if is_applied:
        engine.mutate_rows(rows, Durability.SYNC)
    buckets.follow(rows, known)
    for index in indexes:
        index.follow(rows, known)
