"""Totals: what a group adds, and what a commit of unknown outcome adds."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from memory_engine import MemoryEngine

from docstore.dedup.comparable import REASON_CROWDED
from docstore.model import capture
from docstore.model.capture import StoredVerdict
from docstore.model.choices import Durability, VerdictKind
from docstore.model.types import Previous, RowMutations
from docstore.storage.engine import Plan
from docstore.tablets.manifest import Manifest
from docstore.tablets.segment import SegmentRow
from docstore.writing.judge import counts_of


def verdict(reason: str) -> StoredVerdict:
    return StoredVerdict(VerdictKind.NEW, b"", 0, 0.0, reason, b"", 0, 0, Previous.NONE, 0.0, capture.STORED_BODY)


def planned(manifest: Manifest, counts: Mapping[str, int]) -> list[RowMutations]:
    return manifest.rows_of(Plan(counts=counts), [])


def test_pages_with_crowded_candidates_are_counted() -> None:
    engine = MemoryEngine()
    written = counts_of([(verdict(reason), 1, 10) for reason in ("", REASON_CROWDED, "short_text")])
    engine.mutate_rows(planned(Manifest.load(engine), written), Durability.NONE)
    found = Manifest.load(engine).totals()
    assert (found[REASON_CROWDED], found["captures"], found["verdict.new"]) == (1, 3, 3)


@pytest.mark.parametrize("outcomes", [*itertools.product(("known", "applied", "not applied"), repeat=3)])
@pytest.mark.parametrize("segments_change", [False, True])
def test_a_commit_counts_if_it_was_applied_whether_its_outcome_is_known_or_not(
    outcomes: tuple[str, ...], segments_change: bool
) -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    for number, outcome in enumerate(outcomes, 1):
        rows = planned(manifest, {"visits": 1, "urls": number})
        if outcome != "not applied":
            engine.mutate_rows(rows, Durability.NONE)
        if outcome == "known":
            manifest.committed()
        else:
            manifest.aborted()
        if segments_change:  # compaction writes the same row between two groups
            manifest.write_segment(SegmentRow(number, "live", 24, 24), Durability.NONE)
    counted = [number for number, outcome in enumerate(outcomes, 1) if outcome != "not applied"]
    expected = {"visits": len(counted), "urls": sum(counted)} if counted else {}
    assert manifest.totals() == Manifest.load(engine).totals() == expected


def test_a_count_that_becomes_zero_is_left_out() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    for counts in ({"urls": 2, "visits": 1}, {"urls": -1, "visits": -1}):
        engine.mutate_rows(planned(manifest, counts), Durability.NONE)
        manifest.committed()
    assert Manifest.load(engine).totals() == {"urls": 1}
