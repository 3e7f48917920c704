"""Segments under faults: a stop, a failed call or a power loss at every fault point of append, flush and sync.

The committed state is what a manifest would hold: it is taken over only after `sync` (or `flush`) has returned, as the
store does it.  After each fault the folder is opened again with it, and every committed record must come back.
"""

from __future__ import annotations

import errno
import random
from pathlib import Path

import pytest
from faulty_files import FaultyFiles, SimulatedCrash

from docstore.model.errors import StorageError
from docstore.model.format import CODEC_STORED, RECORD_VALUE, SEGMENT_ACTIVE, SEGMENT_LIVE
from docstore.storage.files import Files
from docstore.tablets.record import Record
from docstore.tablets.segment import SegmentRow, ValueLog

LIMIT_BYTES = 900


def value(index: int) -> Record:
    payload = random.Random(index).randbytes(60 + index % 200)
    return Record(RECORD_VALUE, b"r%d" % index, "page", b"body", 0, CODEC_STORED, b"", len(payload), payload)


class Store:
    """The part of a store that matters here: bodies, and what is committed of them."""

    def __init__(self, files: Files, folder: Path, *, synced: bool) -> None:
        self.bodies = ValueLog(files, folder, limit_bytes=LIMIT_BYTES)
        self.rows: dict[int, SegmentRow] = {}
        self.refs: dict[bytes, Record] = {}
        self.failures = 0
        self.group = 0
        self._synced = synced

    def write_group(self, records: list[Record]) -> None:
        self.bodies.begin_group(self.group + 1)
        refs = self.bodies.append(records)
        if self._synced:
            self.bodies.sync()
        else:
            self.bodies.flush()
        rows = dict(self.rows)
        for item in self.bodies.progress():
            if item.written_bytes is not None:
                state = SEGMENT_ACTIVE if item.active else SEGMENT_LIVE
                rows[item.segment] = SegmentRow(item.segment, state, item.written_bytes, item.synced_bytes)
            elif item.segment in rows:
                rows[item.segment] = rows[item.segment]._replace(state=SEGMENT_LIVE)
        self.group += 1
        self.rows = rows  # the commit: all of it or nothing
        self.refs |= dict(zip(refs, records, strict=True))

    def write_groups(self, count: int) -> None:
        for group in range(count):
            records = [value(group * 10 + index) for index in range(group % 4 + 1)]
            try:
                self.write_group(records)
            except StorageError:
                self.failures += 1
                self.bodies.abandon()


def run(folder: Path, *, crash_at: int | None = None, fail_at: dict[int, int] | None = None, synced: bool = True):  # type: ignore[no-untyped-def]
    """Write groups to a fresh folder under faults; returns the files, the store, and whether it was stopped."""
    folder.mkdir()
    files = FaultyFiles(folder, seed=crash_at or 0)
    files.crash_at, files.fail_at = crash_at, fail_at or {}
    store = Store(files, folder, synced=synced)
    try:
        store.bodies.recover([])
        store.write_groups(9)
    except SimulatedCrash:
        return files, store, True
    return files, store, False


def reopened(folder: Path, store: Store) -> tuple[ValueLog, int]:
    """Open as a next process would; asserts that it can go on.  Returns the bodies and the number of lost records."""
    again = ValueLog(Files(), folder, limit_bytes=LIMIT_BYTES)
    recovery = again.recover(store.rows.values(), max(store.rows, default=0) + 1, store.group)
    assert all("unfinished" in path.name for path in folder.glob("set-aside/*"))
    lost = 0
    for ref, record in store.refs.items():
        if recovery.is_lost(ref):
            lost += 1
        else:
            assert again.read(ref) == record
    for number, row in store.rows.items():
        if not any(item.segment == number for item in recovery.lost):
            assert again.path(number).stat().st_size == row.committed_bytes
    assert {path.name for path in folder.iterdir()} - {"set-aside"} <= {
        again.path(number).name for number in store.rows
    }
    (ref,) = again.append([value(999)])
    again.sync()
    assert again.read(ref) == value(999)
    return again, lost


def all_points(tmp_path: Path) -> list[str]:
    files, store, stopped = run(tmp_path / "whole")
    assert not stopped
    assert len(store.refs) == 21
    assert len(store.rows) >= 3
    return list(files.points)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_failed_call_at_every_point_fails_one_group_and_the_others_stand(tmp_path: Path, number: int) -> None:
    points = all_points(tmp_path)
    failed = 0
    for point, name in enumerate(points):
        if not name.startswith("before"):
            continue
        folder = tmp_path / str(point)
        files, store, stopped = run(folder, fail_at={point: number})
        assert not stopped
        assert store.failures == 1, name
        failed += 1
        for ref, record in store.refs.items():
            assert store.bodies.read(ref) == record
        files.power_loss()
        assert reopened(folder, store)[1] == 0
    assert failed > 20


def test_after_a_failed_write_or_sync_nothing_more_goes_to_that_segment(tmp_path: Path) -> None:
    points = all_points(tmp_path)
    for point, name in enumerate(points):
        if name not in ("before write", "before sync"):
            continue
        folder = tmp_path / str(point)
        folder.mkdir()
        files = FaultyFiles(folder)
        files.fail_at = {point: errno.EIO}
        store = Store(files, folder, synced=True)
        store.bodies.recover([])
        sizes: dict[str, int] = {}
        for group in range(9):
            try:
                store.write_group([value(group * 10 + index) for index in range(group % 4 + 1)])
            except StorageError:
                sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        assert sizes
        assert {name: (folder / name).stat().st_size for name in sizes} == sizes


def test_a_full_disk_takes_pages_again_once_space_is_free(tmp_path: Path) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    files = FaultyFiles(folder)
    files.disk_limit_bytes = 2500
    store = Store(files, folder, synced=True)
    store.bodies.recover([])
    store.write_groups(9)
    assert store.failures > 0
    before = len(store.refs)
    files.disk_limit_bytes = None
    for index in range(100):
        store.write_group([value(5000 + index)])
    assert len(store.refs) == before + 100
    files.power_loss()
    assert reopened(folder, store)[1] == 0
