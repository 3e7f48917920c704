"""File I/O, the lock, and the faults that other tests use."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from faulty_files import FaultyFiles, SimulatedCrash

from docstore.model.errors import StorageError, StoreUnavailable
from docstore.storage.files import Files, StoreLock, read_holder


def test_appended_bytes_are_read_back_at_their_offsets(tmp_path: Path) -> None:
    files = Files()
    handle = files.open_append(tmp_path / "a", create=True)
    handle.write(b"hello ")
    handle.write(b"world")
    handle.sync()
    assert handle.length_bytes == 11
    handle.close()
    handle.close()
    reader = files.open_read(tmp_path / "a")
    assert reader.read(5, 6) == b"world"
    assert reader.read(50, 6) == b"world"
    assert reader.read(5, 100) == b""
    assert reader.length_bytes() == files.length_bytes(tmp_path / "a") == 11
    again = files.open_append(tmp_path / "a", create=False)
    again.write(b"!")
    assert again.length_bytes == 12
    assert files.read_whole(tmp_path / "a") == b"hello world!"
    files.truncate(tmp_path / "a", 5)
    assert files.read_whole(tmp_path / "a") == b"hello"


def test_folders_are_made_listed_and_synced(tmp_path: Path) -> None:
    files = Files()
    folder = tmp_path / "f"
    assert not files.exists(folder)
    files.make_folder(folder)
    files.make_folder(folder)
    files.replace_whole(folder / "b", b"1")
    files.replace_whole(folder / "a", b"2")
    files.sync_folder(folder)
    assert files.names(folder) == ["a", "b"]
    files.rename(folder / "a", folder / "b")
    assert files.read_whole(folder / "b") == b"2"
    files.unlink(folder / "b")
    assert files.names(folder) == []


def test_replacing_a_file_is_atomic_at_every_point(tmp_path: Path) -> None:
    point = 0
    while True:
        folder = tmp_path / str(point)
        folder.mkdir()
        (folder / "FORMAT").write_bytes(b"old")
        (folder / "FORMAT.new").write_bytes(b"left over")
        files = FaultyFiles(folder)
        files.crash_at = point
        try:
            files.replace_whole(folder / "FORMAT", b"new!")
        except SimulatedCrash:
            assert (folder / "FORMAT").read_bytes() in (b"old", b"new!")
            files.power_loss(torn=True)
            assert (folder / "FORMAT").read_bytes() in (b"old", b"new!")
            point += 1
            continue
        files.power_loss()
        assert (folder / "FORMAT").read_bytes() == b"new!"
        break
    assert point > 8


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda files, path: files.open_read(path), "cannot open"),
        (lambda files, path: files.open_append(path, create=False), "ENOENT"),
        (lambda files, path: files.unlink(path), "cannot remove"),
        (lambda files, path: files.truncate(path, 0), "cannot truncate"),
        (lambda files, path: files.length_bytes(path), "no such file"),
        (lambda files, path: files.names(path), "cannot list"),
        (lambda files, path: files.sync_folder(path), "cannot sync folder"),
        (lambda files, path: files.rename(path, path.with_name("x")), "cannot rename"),
        (lambda files, path: files.open_append(path.parent, create=True), "EEXIST"),
    ],
)
def test_every_os_error_becomes_a_storage_error_that_names_file_and_cause(tmp_path: Path, call, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(StorageError, match=words) as caught:
        call(Files(), tmp_path / "missing")
    assert caught.value.errno in (errno.ENOENT, errno.EEXIST)
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_error_names_the_next_step_and_poisons_the_file(tmp_path: Path, number: int) -> None:
    files = FaultyFiles(tmp_path)
    handle = files.open_append(tmp_path / "a", create=True)
    files.fail_at = {len(files.points): number}
    with pytest.raises(StorageError, match=f"{errno.errorcode[number]}.*write again") as caught:
        handle.write(b"x")
    assert caught.value.errno == number
    assert handle.poisoned
    with pytest.raises(StorageError, match="an earlier write or sync of it failed"):
        handle.write(b"x")


def test_a_failed_sync_is_never_tried_twice(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    handle = files.open_append(tmp_path / "a", create=True)
    handle.write(b"x")
    files.fail_at = {len(files.points): errno.EIO}
    with pytest.raises(StorageError, match="cannot sync"):
        handle.sync()
    points = len(files.points)
    with pytest.raises(StorageError, match="an earlier write or sync"):
        handle.sync()
    assert len(files.points) == points


def test_a_short_write_goes_on_until_the_disk_is_full(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    files.disk_limit_bytes = 10
    handle = files.open_append(tmp_path / "a", create=True)
    handle.write(b"12345678")
    with pytest.raises(StorageError, match="ENOSPC"):
        handle.write(b"90abc")
    assert (tmp_path / "a").read_bytes() == b"1234567890"
    assert handle.length_bytes == 8


def test_a_file_that_does_not_fit_takes_no_room_afterwards(tmp_path: Path) -> None:
    files = FaultyFiles(tmp_path)
    files.disk_limit_bytes = 10
    with pytest.raises(StorageError):
        files.replace_whole(tmp_path / "a", bytes(100))
    assert list(tmp_path.iterdir()) == []


def test_power_loss_leaves_what_was_synced_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "old").write_bytes(b"old")
    files = FaultyFiles(tmp_path)
    one = files.open_append(tmp_path / "one", create=True)
    one.write(b"synced")
    one.sync()
    files.sync_folder(tmp_path)
    one.write(b" and not")
    two = files.open_append(tmp_path / "two", create=True)
    two.write(b"no name")
    two.sync()
    files.unlink(tmp_path / "old")
    files.power_loss()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"old": b"old", "one": b"synced"}


# --- the lock ---


def in_another_process(path: Path, code: str) -> str:
    imports = "from docstore.storage.files import StoreLock\nfrom pathlib import Path"
    source = f"{imports}\nlock = StoreLock(Path({str(path)!r}))\n{code}"
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_a_second_process_gets_the_holder_of_the_lock_and_the_next_step(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path / "LOCK", "1.2.3")
    lock.acquire()
    answer = in_another_process(tmp_path / "LOCK", "lock.acquire()")
    assert "StoreUnavailable" in answer
    assert f"process {os.getpid()}" in answer
    assert "wait until it has finished, or stop it" in answer
    holder = read_holder(tmp_path / "LOCK")
    assert (holder.pid, holder.version) == (os.getpid(), "1.2.3")
    assert holder.started > 0
    assert json.loads((tmp_path / "LOCK").read_text())["host"] == holder.host
    lock.release()
    assert in_another_process(tmp_path / "LOCK", "lock.acquire(); print('got it')") == "got it\n"


def test_one_process_cannot_open_twice(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path / "LOCK")
    lock.acquire()
    with pytest.raises(StoreUnavailable, match="already open in this process"):
        StoreLock(tmp_path / "LOCK").acquire()
    with pytest.raises(StoreUnavailable):
        lock.acquire()
    lock.check()
    lock.release()
    lock.release()
    with pytest.raises(StoreUnavailable, match="closed"):
        lock.check()
    other = StoreLock(tmp_path / "LOCK")
    other.acquire()
    other.release()


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    answer = in_another_process(
        tmp_path / "LOCK",
        "import os, signal\nlock.acquire()\nprint('held', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)",
    )
    assert answer == "held\n"
    assert read_holder(tmp_path / "LOCK").pid > 0  # the left-over text locks nobody out
    lock = StoreLock(tmp_path / "LOCK")
    lock.acquire()
    lock.release()


def test_a_server_can_be_published(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path / "LOCK")
    lock.acquire()
    lock.publish_server("unix:/run/x")
    assert read_holder(tmp_path / "LOCK").server == "unix:/run/x"
    lock.release()
    assert read_holder(tmp_path / "LOCK") == (0, 0, "", "", "")


def child_of_fork(work) -> int:  # type: ignore[no-untyped-def]
    """Run in a forked child; 0 if it returned."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_forked_child_cannot_use_or_release_the_lock(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path / "LOCK")
    lock.acquire()

    def work() -> None:
        with pytest.raises(StoreUnavailable, match="belongs to the parent process"):
            lock.check()
        lock.release()
        with pytest.raises(StoreUnavailable):
            StoreLock(tmp_path / "LOCK").acquire()

    assert child_of_fork(work) == 0
    lock.check()
    assert "StoreUnavailable" in in_another_process(tmp_path / "LOCK", "lock.acquire()")
    lock.release()


def test_a_forked_child_does_not_keep_the_lock_of_a_dead_parent(tmp_path: Path) -> None:
    code = (
        "import os, signal\nlock.acquire()\npid = os.fork()\n"
        "if pid == 0:\n    os.close(0); os.close(1); os.close(2); signal.pause()\n"
        "print(pid, flush=True)\nos._exit(0)"
    )
    child = int(in_another_process(tmp_path / "LOCK", code))
    try:
        lock = StoreLock(tmp_path / "LOCK")
        lock.acquire()
        assert read_holder(tmp_path / "LOCK").pid == os.getpid()
        lock.release()
    finally:
        os.kill(child, signal.SIGKILL)  # it never ends by itself


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("leads_to", ["victim", "nothing"])
def test_a_link_in_place_of_the_lock_is_not_followed(tmp_path: Path, shared: bool, leads_to: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text('{"pid": 1, "server": "unix:/evil.sock"}')
    (tmp_path / "store").mkdir()
    lock = tmp_path / "store" / "LOCK"
    lock.symlink_to(tmp_path / leads_to)
    with pytest.raises(StorageError, match="symbolic link"):
        StoreLock(lock).acquire(shared=shared)
    assert read_holder(lock) == (0, 0, "", "", "")
    assert victim.read_text().startswith("{") and not (tmp_path / "nothing").exists()
