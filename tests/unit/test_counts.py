"""Totals: what a group adds, and what a commit of unknown outcome adds."""

from __future__ import annotations

from memory_engine import MemoryEngine

from docstore.dedup.comparable import REASON_CROWDED
from docstore.model import capture
from docstore.model.capture import StoredVerdict
from docstore.model.types import Durability, Previous, VerdictKind
from docstore.storage.counts import Counts, totals
from docstore.storage.plan import Plan, Stage, apply
from docstore.writing.batch import counts_of


def verdict(reason: str) -> StoredVerdict:
    return StoredVerdict(VerdictKind.NEW, b"", 0, 0.0, reason, b"", 0, 0, Previous.NONE, 0.0, capture.STORED_BODY)


def test_pages_with_crowded_candidates_are_counted() -> None:
    engine = MemoryEngine()
    written = counts_of([(verdict(""), 10), (verdict(REASON_CROWDED), 10), (verdict("short_text"), 10)])
    apply(engine, Plan().write(Stage.COUNTS, Counts(engine).rows(written)), Durability.NONE)
    found = totals(engine)
    assert (found[REASON_CROWDED], found["captures"], found["verdict.new"]) == (1, 3, 3)


def test_unknown_commit_that_succeeded_is_counted() -> None:
    engine = MemoryEngine()
    counts = Counts(engine)
    for is_applied, known in ((True, False), (True, True), (False, False), (True, True)):
        plan = Plan().write(Stage.COUNTS, counts.rows({"visits": 1}))
        if is_applied:
            apply(engine, plan, Durability.NONE)
        counts.follow(plan, known)
    assert totals(engine) == {"visits": 3}
