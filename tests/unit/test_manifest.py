"""Manifest: tablets cover the key space, counters are written with their group, segments change their states."""

from __future__ import annotations

import itertools
import random

import pytest
from memory_engine import MemoryEngine

from docstore.model.choices import Durability
from docstore.model.errors import CommitUnknown, CorruptionError
from docstore.model.format import MANIFEST_COUNTERS_ROW, SEGMENT_ACTIVE, SEGMENT_DRAINING, SEGMENT_LIVE
from docstore.model.types import DeleteRow, RowMutations, SetCell
from docstore.storage.engine import Plan
from docstore.tablets.manifest import MAX_COUNTED, READ_AT_ONCE, Manifest
from docstore.tablets.record import Damage
from docstore.tablets.segment import Recovery, SegmentProgress, SegmentRow

NONE = Durability.NONE


def write_group(
    engine: MemoryEngine, manifest: Manifest, row_keys: list[bytes], raw_bytes: int = 1000, written_bytes: int = 500
) -> None:
    rows = [RowMutations("pages", row_key, (SetCell("page", b"body", 0, b"x"),)) for row_key in row_keys]
    progress = [SegmentProgress(1, True, written_bytes, written_bytes)]
    bodies = [(row_key, raw_bytes) for row_key in row_keys]
    engine.mutate_rows([*rows, *rows_of(manifest, progress, *bodies)], NONE)
    manifest.committed()


def rows_of(manifest: Manifest, progress: list[SegmentProgress], *bodies: tuple[bytes, int]) -> list[RowMutations]:
    return manifest.rows_of(Plan(bodies=list(bodies)), progress)


def keys(count: int, seed: int = 1) -> list[bytes]:
    source = random.Random(seed)
    return [b"com,example,%d)/%d" % (source.randrange(50), source.randrange(10**6)) for _ in range(count)]


def put(engine: MemoryEngine, row_key: bytes, value: bytes) -> None:
    engine.mutate_rows([RowMutations("meta", row_key, (SetCell("manifest", b"row", 0, value),))], NONE)


def test_an_empty_engine_has_one_tablet_for_all_rows() -> None:
    manifest = Manifest.load(MemoryEngine())
    assert manifest.tablets() == [(1, b"", None, 0)]
    assert manifest.tablet_for(b"\xff" * 100) == (1, b"", None, 0)
    assert manifest.segments() == []
    assert manifest.next_segment == 1
    assert list(manifest.problems()) == []


def test_a_committed_group_is_loaded_again() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    write_group(engine, manifest, keys(10), raw_bytes=100, written_bytes=700)
    again = Manifest.load(engine)
    assert again.tablets() == manifest.tablets() == [(1, b"", None, 1000)]
    assert again.segments() == [SegmentRow(1, SEGMENT_ACTIVE, 700, 700)]
    assert again.next_segment == 2
    assert list(again.problems()) == []


def test_a_group_that_changes_nothing_writes_only_its_number() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    write_group(engine, manifest, keys(3))
    (row,) = rows_of(manifest, [SegmentProgress(1, True, 500, 500)])
    assert row.row_key == MANIFEST_COUNTERS_ROW
    assert (manifest.group, Manifest.load(engine).group) == (1, 1)
    engine.mutate_rows([row], NONE)
    assert Manifest.load(engine).group == 2


def test_the_next_group_has_the_number_of_a_failed_one() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    write_group(engine, manifest, [b"a"])
    rows_of(manifest, [])
    manifest.aborted()
    manifest.write_segment(SegmentRow(9, SEGMENT_LIVE, 24, 24), NONE)
    assert Manifest.load(engine).group == 1
    write_group(engine, manifest, [b"b"])
    assert Manifest.load(engine).group == manifest.group == 2


def test_an_aborted_group_leaves_no_count() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    write_group(engine, manifest, [b"a"])
    rows_of(manifest, [SegmentProgress(1, True, 900, 900)], (b"b", 5000))
    manifest.aborted()
    assert manifest.tablets() == [(1, b"", None, 1000)]
    write_group(engine, manifest, [b"c"], written_bytes=1000)
    assert Manifest.load(engine).tablets() == [(1, b"", None, 2000)]


@pytest.mark.parametrize("applied", [False, True])
def test_a_group_of_unknown_outcome_keeps_the_bytes_that_its_rows_may_refer_to(applied: bool) -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    write_group(engine, manifest, [b"a"])
    rows = rows_of(manifest, [SegmentProgress(1, True, 900, 900)], (b"b", 5000))
    if applied:
        engine.mutate_rows(rows, NONE)
    manifest.aborted()
    progress = [SegmentProgress(1, False, None, 900)]  # the store gave the segment up
    for _ in range(2):
        engine.mutate_rows(rows_of(manifest, progress), NONE)
        manifest.committed()
        assert Manifest.load(engine).segments() == manifest.segments() == [SegmentRow(1, SEGMENT_LIVE, 900, 900)]
        assert Manifest.load(engine).tablets() == manifest.tablets() == [(1, b"", None, 1000)]
        progress.append(SegmentProgress(2, False, None, 0))
    assert [row.row_key for row in rows_of(manifest, progress)] == [MANIFEST_COUNTERS_ROW]


def test_grown_tablets_split_into_ranges_that_cover_everything_in_order() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine, tablet_bytes=100_000)
    for group in range(40):
        write_group(engine, manifest, keys(25, seed=group))
        manifest.split_grown(NONE)
    tablets = manifest.tablets()
    assert 8 < len(tablets) < 30
    assert tablets[0].start == b""
    assert tablets[-1].end is None
    assert all(left.end == right.start for left, right in itertools.pairwise(tablets))
    assert all(tablet.raw_bytes <= 100_000 for tablet in tablets)
    assert sum(tablet.raw_bytes for tablet in tablets) == 40 * 25 * 1000
    for row_key in keys(200, seed=99):
        tablet = manifest.tablet_for(row_key)
        assert tablet.start <= row_key
        assert tablet.end is None or row_key < tablet.end
    assert Manifest.load(engine, 100_000).tablets() == tablets
    assert list(manifest.problems()) == []


def test_a_split_falls_near_the_middle_of_the_rows() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine, tablet_bytes=1_999_000)
    rows = sorted(set(keys(4000)))[:2000]
    write_group(engine, manifest, random.Random(5).sample(rows, len(rows)))
    (right,) = manifest.split_grown(NONE)
    assert 0.4 < rows.index(right.start) / len(rows) < 0.6


def test_a_split_is_the_same_whether_sampled_on_writing_or_scanned_after_reopening() -> None:
    row_keys = keys(3000)
    starts = []
    for reopen in (False, True):
        engine = MemoryEngine()
        manifest = Manifest.load(engine, tablet_bytes=1_000_000)
        order = random.Random(reopen).sample(row_keys, len(row_keys))
        write_group(engine, manifest, order)
        if reopen:
            manifest = Manifest.load(engine, tablet_bytes=1_000_000)
        while manifest.has_grown:
            manifest.split_grown(NONE)
        starts.append([tablet.start for tablet in manifest.tablets()])
    assert len(starts[0]) >= 4
    assert starts[0] == starts[1]


def test_a_call_reads_a_bounded_part_of_a_tablet_that_is_not_sampled() -> None:
    class CountingEngine(MemoryEngine):
        rows_read = 0

        def scan(self, *args, **options):  # type: ignore[no-untyped-def]
            for row in super().scan(*args, **options):
                self.rows_read += 1
                yield row

    engine = CountingEngine()
    write_group(engine, Manifest.load(engine), keys(3 * READ_AT_ONCE))
    manifest = Manifest.load(engine, tablet_bytes=READ_AT_ONCE * 2500)
    for call in range(1, 10):
        engine.rows_read = 0
        if manifest.split_grown(NONE):
            break
        assert engine.rows_read == READ_AT_ONCE
        write_group(engine, manifest, keys(10, seed=call))
    assert call in (3, 4)
    sizes = [tablet.raw_bytes for tablet in manifest.tablets()]
    assert len(sizes) == 2
    assert max(sizes) < 1.2 * min(sizes)


def test_a_single_row_larger_than_a_tablet_is_left_alone() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine, tablet_bytes=1000)
    for _ in range(5):
        write_group(engine, manifest, [b"same row"])
        assert manifest.split_grown(NONE) == []
    assert manifest.tablets() == [(1, b"", None, 5000)]


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_split_with_only_one_row_on_disk_leaves_a_valid_manifest(kept: int) -> None:
    class HalfEngine(MemoryEngine):
        half = False

        def mutate_rows(self, rows, durability):  # type: ignore[no-untyped-def]
            super().mutate_rows([rows[kept]] if self.half else rows, durability)

    engine = HalfEngine()
    manifest = Manifest.load(engine, tablet_bytes=100_000)
    write_group(engine, manifest, keys(150))
    engine.half = True
    manifest.split_grown(NONE)
    engine.half = False
    again = Manifest.load(engine, tablet_bytes=100_000)
    tablets = again.tablets()
    assert tablets[0].start == b""
    assert all(left.end == right.start for left, right in itertools.pairwise(tablets))
    assert len({tablet.number for tablet in tablets}) == len(tablets)
    write_group(engine, again, [b"x"])
    again.split_grown(NONE)
    assert list(Manifest.load(engine, 100_000).problems()) == []


@pytest.mark.parametrize("applied", [False, True])
def test_a_split_that_cannot_be_written_is_tried_again_under_another_number(applied: bool) -> None:
    class FailingEngine(MemoryEngine):
        failing = False

        def mutate_rows(self, rows, durability):  # type: ignore[no-untyped-def]
            if applied or not self.failing:
                super().mutate_rows(rows, durability)
            if self.failing:
                raise CommitUnknown("the answer got lost")

    engine = FailingEngine()
    manifest = Manifest.load(engine, tablet_bytes=100_000)
    write_group(engine, manifest, keys(150))
    engine.failing = True
    assert manifest.split_grown(NONE) == []
    engine.failing = False
    write_group(engine, manifest, [b"zzz"])
    assert manifest.split_grown(NONE)
    assert list(manifest.problems()) == []


def test_segments_go_from_active_to_live_and_keep_the_committed_length() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    write_group(engine, manifest, [b"a"], written_bytes=300)
    progress = [SegmentProgress(1, False, 400, 400), SegmentProgress(2, True, 90, 24)]
    engine.mutate_rows(rows_of(manifest, progress), NONE)
    manifest.committed()
    assert manifest.segments() == [
        SegmentRow(1, SEGMENT_LIVE, 400, 400),
        SegmentRow(2, SEGMENT_ACTIVE, 90, 24),
    ]
    assert Manifest.load(engine).segments() == manifest.segments()
    assert manifest.next_segment == 3


def test_a_failed_segment_keeps_its_committed_length() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    write_group(engine, manifest, [b"a"], written_bytes=300)
    engine.mutate_rows(
        rows_of(manifest, [SegmentProgress(1, False, None, 300), SegmentProgress(2, True, 90, 90)]), NONE
    )
    manifest.committed()
    assert manifest.segments() == [SegmentRow(1, SEGMENT_LIVE, 300, 300), SegmentRow(2, SEGMENT_ACTIVE, 90, 90)]


def test_a_segment_that_failed_before_its_first_commit_gets_no_row() -> None:
    manifest = Manifest.load(MemoryEngine())
    rows_of(manifest, [SegmentProgress(1, False, None, 0)])
    manifest.committed()
    assert manifest.segments() == []


def test_the_number_of_a_removed_segment_is_not_used_again() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    manifest.write_segment(SegmentRow(7, SEGMENT_DRAINING, 100, 100), NONE)
    manifest.remove_segment(7, NONE)
    again = Manifest.load(engine)
    assert again.segments() == []
    assert again.next_segment == 8


def test_a_recorded_recovery_is_not_reported_again() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    for number in (1, 2, 3, 4):
        manifest.write_segment(SegmentRow(number, SEGMENT_LIVE, 1000, 500), NONE)
    lost = (Damage(1, 0, 1000, "missing"), Damage(2, 600, 700, "crc"), Damage(3, 800, 1000, "too short"))
    manifest.record_recovery(Recovery(lost=lost, gone=(4,)), NONE)
    assert Manifest.load(engine).segments() == [
        SegmentRow(2, SEGMENT_LIVE, 1000, 1000),
        SegmentRow(3, SEGMENT_LIVE, 800, 800),
    ]


@pytest.mark.parametrize(
    ("row_key", "value", "words"),
    [
        (b"tablet:k", b"\x82\xa6number\x01\xa9raw_bytes\x00", "have the same number"),
        (b"tablet:k", b"\x82\xa6number\x09\xa9raw_bytes\x00", "is not below the counter"),
        (b"tablet:k", b"\x82\xa6number\x02\xa9raw_bytes\xff", "no valid count"),
        (
            b"segment:" + bytes(7) + b"\x01",
            b"\x86\xa5level\xa0\xa3run\x00\xa5state\xa4odd.\xafcommitted_bytes\x1e\xacsynced_bytes\x1f\xa6tablet\x00",
            "unknown state",
        ),
        (
            b"segment:" + bytes(7) + b"\x01",
            b"\x86\xa5level\xa0\xa3run\x00\xa5state\xa4live\xafcommitted_bytes\x1e\xacsynced_bytes\x1f\xa6tablet\x00",
            "contradict",
        ),
    ],
)
def test_problems_describes_each_error(row_key: bytes, value: bytes, words: str) -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    write_group(engine, manifest, [b"a"])
    put(engine, row_key, value)
    assert any(words in problem for problem in manifest.problems())


def test_problems_names_rows_without_a_tablet_and_loading_repairs_it() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine, tablet_bytes=10_000)
    write_group(engine, manifest, keys(30))
    manifest.split_grown(NONE)
    engine.mutate_rows([RowMutations("meta", b"tablet:", (DeleteRow(),))], NONE)
    assert any("belong to no tablet" in problem for problem in manifest.problems())
    again = Manifest.load(engine, tablet_bytes=10_000)
    assert again.tablet_for(b"").start == b""
    write_group(engine, again, [b"a"])
    assert list(again.problems()) == []


@pytest.mark.parametrize("value", [b"", b"\xc1", b"\x01", b"\x80", b"\x81\xa6number\xa1x"])
def test_a_row_that_cannot_be_read_is_corruption(value: bytes) -> None:
    engine = MemoryEngine()
    put(engine, b"tablet:", value)
    with pytest.raises(CorruptionError, match="table meta"):
        Manifest.load(engine)


def test_a_group_writes_one_row_while_its_segment_and_tablets_only_grow() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine)
    write_group(engine, manifest, [b"a"], written_bytes=500)
    rows = rows_of(manifest, [SegmentProgress(1, True, 900, 800)], (b"b", 70))
    assert [row.row_key for row in rows] == [MANIFEST_COUNTERS_ROW]
    engine.mutate_rows(rows, NONE)
    manifest.committed()
    again = Manifest.load(engine)
    assert again.segments() == manifest.segments() == [SegmentRow(1, SEGMENT_ACTIVE, 900, 800)]
    assert again.tablets() == manifest.tablets() == [(1, b"", None, 1070)]


def test_sizes_of_many_tablets_move_to_their_own_rows_and_stay_right() -> None:
    engine = MemoryEngine()
    manifest = Manifest.load(engine, tablet_bytes=2500)
    row_keys = [b"%04d" % number for number in range(500)]
    for row_key in row_keys:
        write_group(engine, manifest, [row_key])
        manifest.split_grown(NONE)
    assert len(manifest.tablets()) > MAX_COUNTED
    write_group(engine, manifest, row_keys[::2], raw_bytes=3)
    assert Manifest.load(engine, 2500).tablets() == manifest.tablets()
    write_group(engine, manifest, row_keys[:7], raw_bytes=2)
    manifest.recount({manifest.tablets()[3].number: 77}, NONE)
    assert Manifest.load(engine, 2500).tablets() == manifest.tablets()
    assert manifest.tablets()[3].raw_bytes == 77
    manifest = Manifest.load(engine, tablet_bytes=50_000)
    assert manifest.merge_small(NONE) > 0
    assert Manifest.load(engine, 50_000).tablets() == manifest.tablets()
    assert sum(tablet.raw_bytes for tablet in manifest.tablets()) > 400_000
    assert list(manifest.problems()) == []
