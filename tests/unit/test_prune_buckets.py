"""Buckets kept as rows: what is pruned of them, and what stays because later texts are found through it."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
from committed import commit_postings
from memory_engine import MemoryEngine

from docstore.dedup.buckets import BUCKET_LIMIT, NewPostings, RowBuckets
from docstore.dedup.index import Pruner
from docstore.model.types import Durability
from docstore.storage.engine import Plan

FULL, ROOMY = np.array([5], np.uint64), np.array([6], np.uint64)


def test_a_full_bucket_stays_full_and_others_lose_removed_texts() -> None:
    engine = MemoryEngine()
    buckets = RowBuckets(engine)
    new = NewPostings()
    for text in range(1, BUCKET_LIMIT + 10):
        buckets.post(new, text, FULL, *([ROOMY] if text < BUCKET_LIMIT else []))

    def commit(plan: Plan) -> None:
        engine.mutate_rows(plan.rows, Durability.NONE)

    commit_postings(engine, buckets, new)
    removed = Pruner(engine, buckets, lambda pointer, head: False, nullcontext(), commit).run()
    assert removed == BUCKET_LIMIT - 1
    assert len(buckets.find(FULL)[0]) == BUCKET_LIMIT
    assert len(buckets.find(ROOMY)[0]) == 0
