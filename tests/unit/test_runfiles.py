"""Runs as files: levels over them survive closing, failures stop the order, a full disk is an error and no crash."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from docstore.dedup.levels import RunLevels, Span
from docstore.dedup.runfiles import RunFiles
from docstore.errors import StorageError, StoreUnavailable
from docstore.files import Files


def fill(levels: RunLevels, first: int, end: int) -> None:
    for group in range(first, end):
        for text in range(group * 5, group * 5 + 5):
            levels.post(text, np.array([text % 7, 1000 + text], np.uint64))
        levels.end_group(group)


def texts_of(levels: RunLevels, key: int) -> list[int]:
    found: list[int] = levels.find(np.array([key], np.uint64))[1].tolist()
    return found


def test_levels_over_files_give_the_same_after_closing_and_opening(tmp_path: Path) -> None:
    storage = RunFiles(tmp_path / "runs")
    levels = RunLevels(storage, flush_texts=10, fan_in=2, bucket_limit=1000)
    fill(levels, 0, 60)
    levels.flush()
    expected = [texts_of(levels, key) for key in range(7)]
    assert sum(map(len, expected)) == 300
    storage.settle()
    storage.close()
    storage.close()
    (tmp_path / "runs" / "stray.txt").write_text("not a run")
    again = RunLevels(RunFiles(tmp_path / "runs"), flush_texts=10, fan_in=2, bucket_limit=1000)
    assert again.end == 60
    assert [texts_of(again, key) for key in range(7)] == expected
    fill(again, 60, 80)
    assert texts_of(again, 1399) == [399]


def test_merged_sources_go_from_the_folder_and_names_are_plain(tmp_path: Path) -> None:
    storage = RunFiles(tmp_path / "runs")
    levels = RunLevels(storage, flush_texts=10, fan_in=2)
    fill(levels, 0, 200)
    storage.settle()
    names = storage.names()
    # five runs or so, and those that a merge under way still reads and writes
    assert levels.run_count <= len(names) <= levels.run_count + 8
    assert sorted(path.name for path in (tmp_path / "runs").glob("*.run")) == [
        f"{name.first:016x}-{name.end:016x}.run" for name in sorted(names)
    ]
    parts = list((tmp_path / "runs").glob("*.part"))
    assert 0 < len(parts) < 8  # targets of merges under way
    storage.close()
    assert not list((tmp_path / "runs").glob("*.part"))


def test_a_run_that_was_not_synced_is_no_run(tmp_path: Path) -> None:
    class NeverSyncs(Files):
        def sync(self, descriptor: int) -> None:
            raise OSError(errno.EIO, "the power is gone")

    storage = RunFiles(tmp_path / "runs", NeverSyncs())
    storage.create(Span(0, 1), 4096)[:] = 7
    assert storage.seal(Span(0, 1))[0] == 7
    storage.close()
    assert not storage.settled
    assert RunFiles(tmp_path / "runs").names() == []
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_failed_sync_keeps_everything_asked_for_after_it(tmp_path: Path) -> None:
    class Fails(Files):
        def sync(self, descriptor: int) -> None:
            raise OSError(errno.EIO, "broken")

    storage = RunFiles(tmp_path / "runs", Fails())
    old, new = Span(0, 1), Span(0, 2)
    for name in (old, new):
        storage.create(name, 4096)[:] = 7
    assert storage.seal(new).tolist() == [7] * 4096
    with pytest.raises(StorageError, match="EIO"):
        storage.remove(old)
        storage.settle()
    with pytest.raises(StorageError, match="EIO"):
        storage.names()
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_a_run_that_does_not_fit_the_disk_is_refused_before_it_is_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, offset: int, length: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    storage = RunFiles(tmp_path / "runs")
    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(StorageError, match="the disk is full"):
        storage.create(Span(0, 1), 4096)


def test_a_mapped_run_stays_readable_when_it_is_replaced_or_removed(tmp_path: Path) -> None:
    storage = RunFiles(tmp_path / "runs")
    name = Span(3, 9)
    storage.create(name, 4096)[:] = 1
    held = storage.open(name)
    storage.create(name, 8192)[:] = 2
    assert held.tolist() == [1] * 4096
    later = storage.open(name)
    storage.remove(name)
    storage.settle()
    assert storage.names() == []
    assert later.tolist() == [2] * 8192


def test_a_run_made_again_is_not_taken_by_an_earlier_removal(tmp_path: Path) -> None:
    storage = RunFiles(tmp_path / "runs")
    for number in range(300):
        name = Span(number % 3, 9)
        storage.create(name, 4096)[:] = number % 251
        assert storage.seal(name)[0] == number % 251
        storage.remove(name)
        storage.create(name, 4096)[:] = 255
        assert storage.seal(name)[0] == 255
    storage.settle()
    assert sorted(storage.names()) == [Span(0, 9), Span(1, 9), Span(2, 9)]


def test_closed_files_say_so(tmp_path: Path) -> None:
    storage = RunFiles(tmp_path / "runs")
    storage.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        storage.names()
