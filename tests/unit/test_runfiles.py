"""Runs as files: failures stop the order, a full disk is an error and no crash."""

from __future__ import annotations

import errno
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from docstore.dedup.runs import RunFiles, Span
from docstore.model.errors import CorruptionError, StorageError, StoreUnavailable
from docstore.storage.files import Files


def test_a_run_that_was_not_synced_is_no_run(tmp_path: Path) -> None:
    class NeverSyncs(Files):
        def sync(self, descriptor: int) -> None:
            raise OSError(errno.EIO, "the power is gone")

    (tmp_path / "runs").mkdir()  # a new folder is synced at once
    storage = RunFiles(tmp_path / "runs", NeverSyncs())
    assert storage.write(Span(0, 1), [b"7"])[0] == ord("7")
    storage.close()
    assert not storage.is_durable
    assert RunFiles(tmp_path / "runs").names() == []
    assert list((tmp_path / "runs").iterdir()) == []


def test_after_a_failed_sync_no_later_task_runs(tmp_path: Path) -> None:
    class Fails(Files):
        def sync(self, descriptor: int) -> None:
            raise OSError(errno.EIO, "broken")

    (tmp_path / "runs").mkdir()  # a new folder is synced at once
    storage = RunFiles(tmp_path / "runs", Fails())
    old, new = Span(0, 1), Span(0, 2)
    with pytest.raises(StorageError, match="EIO"):
        for name in (old, new):
            storage.write(name, [b"7777"])
        storage.remove(old)
        storage.finish_merges()
    with pytest.raises(StorageError, match="EIO"):
        storage.names()
    assert (tmp_path / "runs" / "0000000000000000-0000000000000001.part").exists()


def test_a_merge_is_done_in_the_background_and_named_once_it_is_durable(tmp_path: Path) -> None:
    storage = RunFiles(tmp_path / "runs")
    go_on = threading.Event()

    def parts() -> Iterator[bytes]:
        yield b"one"
        assert go_on.wait(60)
        yield b"two"

    storage.merge(Span(0, 9), parts(), 6)
    assert storage.merged() == []
    assert storage.names() == []
    go_on.set()
    storage.finish_merges()
    assert storage.merged() == [Span(0, 9)]
    assert storage.merged() == []
    assert storage.open(Span(0, 9)).tobytes() == b"onetwo"


def test_small_merges_and_other_tasks_come_between_the_steps_of_a_large_one(tmp_path: Path) -> None:
    storage = RunFiles(tmp_path / "runs")
    begun, go_on = threading.Event(), threading.Event()
    order: list[str] = []

    def large() -> Iterator[bytes]:
        begun.set()
        assert go_on.wait(60)
        for _ in range(5):
            order.append("large")
            yield b"x" * 1000

    def small() -> Iterator[bytes]:
        for _ in range(3):
            order.append("small")
            yield b"y"

    storage.merge(Span(0, 5), large(), 5000)
    assert begun.wait(60)
    storage.merge(Span(5, 9), small(), 3)
    storage.write(Span(9, 10), [b"z"])
    go_on.set()
    storage.finish_merges()
    assert order == ["large"] + ["small"] * 3 + ["large"] * 4
    assert storage.merged() == [Span(5, 9), Span(0, 5)]
    assert storage.names() == [Span(0, 5), Span(5, 9), Span(9, 10)]


def test_large_merges_need_not_be_waited_for_and_are_aborted_at_close(tmp_path: Path) -> None:
    storage = RunFiles(tmp_path / "runs")
    begun, go_on = threading.Event(), threading.Event()

    def waits() -> Iterator[bytes]:
        begun.set()
        assert go_on.wait(60)
        yield from [b"large"] * 1000

    storage.merge(Span(0, 1), waits(), 5000)
    assert begun.wait(60)
    storage.merge(Span(1, 2), iter([b"small"]), 5)
    go_on.set()
    storage.finish_merges(5)
    assert storage.merged() == [Span(1, 2)]
    storage.close()
    assert (tmp_path / "runs" / "0000000000000001-0000000000000002.run").read_bytes() == b"small"
    assert not list((tmp_path / "runs").glob("*.part"))


def test_an_error_of_a_merge_is_raised_by_the_next_call(tmp_path: Path) -> None:
    def damaged() -> Iterator[bytes]:
        yield b"begin"
        raise CorruptionError("a run is damaged")

    storage = RunFiles(tmp_path / "runs")
    storage.merge(Span(0, 2), damaged(), 6)
    with pytest.raises(CorruptionError, match="a run is damaged"):
        storage.finish_merges()
    storage.close()

    def broken() -> Iterator[bytes]:
        yield b""
        raise ZeroDivisionError

    storage = RunFiles(tmp_path / "runs")
    storage.merge(Span(0, 2), broken(), 6)
    with pytest.raises(StorageError, match="ZeroDivisionError"):
        storage.finish_merges()
    storage.close()
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_run_that_does_not_fit_the_disk_is_refused(tmp_path: Path) -> None:
    class Full(Files):
        def write(self, descriptor: int, raw: memoryview) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    storage = RunFiles(tmp_path / "runs", Full())
    with pytest.raises(StorageError, match="the disk is full"):
        storage.write(Span(0, 1), [b"7"])
    assert list((tmp_path / "runs").iterdir()) == [], "an unfinished file takes space"
    storage.merge(Span(0, 2), iter([b"7"]), 1)
    with pytest.raises(StorageError, match="the disk is full"):
        storage.finish_merges()
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_mapped_run_stays_readable_when_it_is_removed(tmp_path: Path) -> None:
    storage = RunFiles(tmp_path / "runs")
    mapped = storage.write(Span(3, 9), [b"1" * 5000])
    storage.remove(Span(3, 9))
    storage.finish_merges()
    assert storage.names() == []
    assert mapped.tobytes() == b"1" * 5000


def test_the_map_of_a_removed_run_is_released_in_the_background(tmp_path: Path) -> None:
    class Held:
        pass

    class Waits(Files):
        def sync(self, descriptor: int) -> None:
            assert go_on.wait(60)
            super().sync(descriptor)

    go_on = threading.Event()
    (tmp_path / "runs").mkdir()  # a new folder is synced at once
    storage = RunFiles(tmp_path / "runs", Waits())
    storage.write(Span(0, 1), [b"1"])
    held = Held()
    weak = weakref.ref(held)
    where: list[str] = []
    weakref.finalize(held, lambda: where.append(threading.current_thread().name))
    storage.remove(Span(0, 1), held)
    del held
    assert weak() is not None
    go_on.set()
    storage.finish_merges()
    assert weak() is None and where == ["runs"]


def test_an_earlier_removal_does_not_remove_a_rewritten_run(tmp_path: Path) -> None:
    storage = RunFiles(tmp_path / "runs")
    for number in range(60):
        name = Span(number % 3, 9)
        assert storage.write(name, [bytes([number])])[0] == number
        storage.remove(name)
        assert storage.write(name, [b"\xff"])[0] == 255
    storage.finish_merges()
    assert sorted(storage.names()) == [Span(0, 9), Span(1, 9), Span(2, 9)]


def test_closed_files_say_so(tmp_path: Path) -> None:
    storage = RunFiles(tmp_path / "runs")
    storage.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        storage.names()
