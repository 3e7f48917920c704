"""Running totals: what a group adds, and what it takes back where it fails."""

from __future__ import annotations

from memory_engine import MemoryEngine

from docstore.dedup.comparable import REASON_CROWDED
from docstore.model import capture
from docstore.model.capture import StoredVerdict
from docstore.model.types import Durability, Previous, VerdictKind
from docstore.storage.counts import totals
from docstore.writing.tally import Tally


def verdict(reason: str) -> StoredVerdict:
    return StoredVerdict(VerdictKind.NEW, b"", 0, 0.0, reason, b"", 0, 0, Previous.NONE, 0.0, capture.STORED_BODY)


def test_pages_for_which_the_index_ran_out_of_depth_are_counted() -> None:
    engine = MemoryEngine()
    tally = Tally(engine)
    tally.count([(verdict(REASON_CROWDED), 10)])
    tally.rollback()
    tally.count([(verdict(""), 10), (verdict(REASON_CROWDED), 10), (verdict("short_text"), 10)])
    engine.mutate_rows(tally.rows(), Durability.NONE)
    tally.committed()
    found = totals(engine)
    assert (found[REASON_CROWDED], found["captures"], found["verdict.new"]) == (1, 3, 3)


def test_a_commit_of_which_nobody_knows_whether_it_failed_is_counted_where_it_did_not() -> None:
    engine = MemoryEngine()
    tally = Tally(engine)
    for _ in range(2):
        tally.count_visit()
        engine.mutate_rows(tally.rows(), Durability.NONE)
        tally.rollback()
    tally.count_visit()
    tally.rollback()
    tally.count_visit()
    engine.mutate_rows(tally.rows(), Durability.NONE)
    assert totals(engine) == {"visits": 3}
