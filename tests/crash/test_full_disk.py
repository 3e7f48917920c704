"""On a full disk pages can be deleted and the store compacted: a reserve is kept for that."""

from __future__ import annotations

import errno
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from cli_case import Terminal
from pages import page, words

import docstore
from docstore import DeleteFamily, Page, StorageError
from docstore.reports.check import check
from docstore.storage.files import Files
from docstore.tablets.reserve import LEAST_BYTES, MOST_BYTES, RECOVERY_BYTES, SHARE_OF_ROOM, Reserve, recovery_bytes

HTML = (("content-type", "text/html"),)
T0 = 1_700_000_000_000_000
VOCABULARY = words(0, 5000)
GB = 1 << 30


class Room(Files):
    """A disk with so much room left, that says how much a store takes."""

    def __init__(self, free_bytes: int, store_bytes: int = 0) -> None:
        self.free = free_bytes
        self.store = store_bytes

    def free_bytes(self, path: Path) -> int:
        return self.free

    def tree_bytes(self, path: Path) -> int:
        reserve = path / "RESERVE"
        return self.store + (reserve.stat().st_size if reserve.exists() else 0)


@pytest.mark.parametrize(
    ("store_bytes", "free_bytes", "reserve_bytes"),
    [
        (0, GB, LEAST_BYTES),
        (14 << 20, GB, LEAST_BYTES + (14 << 20) // 50),
        (GB, GB, LEAST_BYTES + GB // 50),
        (100 * GB, GB, MOST_BYTES),
        (GB, 8 << 20, (8 << 20) // SHARE_OF_ROOM),
        (GB, 100_000, 0),
    ],
)
def test_the_reserve_takes_a_megabyte_and_two_percent_of_the_store_if_there_is_room(
    tmp_path: Path, store_bytes: int, free_bytes: int, reserve_bytes: int
) -> None:
    reserve = Reserve(Room(free_bytes, store_bytes), tmp_path / "RESERVE")
    reserve.make()
    there = reserve.length_bytes()
    assert abs(there - reserve_bytes) <= 1 and there <= LEAST_BYTES + store_bytes * 0.02
    assert reserve.log_limit_bytes * 2 <= min(LEAST_BYTES + store_bytes * 0.02, MOST_BYTES)
    if reserve_bytes:
        assert (tmp_path / "RESERVE").stat().st_blocks * 512 >= there, "room that is not taken is no reserve"


def test_the_reserve_grows_and_shrinks_with_the_store_and_is_left_alone_otherwise(tmp_path: Path) -> None:
    room = Room(GB)
    reserve = Reserve(room, tmp_path / "RESERVE")
    reserve.make()
    inode = (tmp_path / "RESERVE").stat().st_ino
    room.store = LEAST_BYTES * 5
    reserve.make()
    assert (tmp_path / "RESERVE").stat().st_ino == inode
    room.store = LEAST_BYTES * 100
    reserve.make()
    assert reserve.length_bytes() == LEAST_BYTES * 3
    room.free = 0  # what is there stays, however little room there is
    reserve.make()
    assert reserve.length_bytes() == LEAST_BYTES * 3
    room.store = LEAST_BYTES
    reserve.make()
    assert reserve.length_bytes() == LEAST_BYTES + LEAST_BYTES // 50


def test_ordinary_writes_leave_room_to_recover_and_to_compact(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    room = Room(GB, 10 << 20)
    reserve = Reserve(room, tmp_path / "RESERVE")
    reserve.make()
    reserve.check_room()
    room.free = 11 << 20
    with pytest.raises(StorageError, match="reserved for deletes and compaction") as error:
        reserve.check_room()
    assert error.value.errno == errno.ENOSPC
    reserve.spend(reserve.check_room)  # what frees space goes on
    room.free = reserve.kept_bytes + 1000
    reserve.check_room(1000)
    with pytest.raises(StorageError, match="would be free"):
        reserve.check_room(1001)


def test_nothing_is_written_that_could_keep_the_store_from_being_opened(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    log = tmp_path / "engine" / "000003.log"
    log.write_bytes(bytes(2 << 20))
    reserve = Reserve(Room(RECOVERY_BYTES), tmp_path / "RESERVE")
    with pytest.raises(StorageError, match="needed to open the store again"):
        reserve.spend(reserve.check_room)
    reserve.shorten_log = lambda: log.write_bytes(b"")  # type: ignore[assignment, return-value]
    reserve.spend(reserve.check_room)


def test_a_small_store_has_a_small_reserve_that_grows_while_it_is_open(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with docstore.open(path, create=True) as store:
        store.put_page("https://a.example/", b"x")
        assert LEAST_BYTES <= (path / "RESERVE").stat().st_size <= 1.02 * LEAST_BYTES
        for start in range(0, 600, 200):
            list(store.put_pages(filler(number, 20_000, 2000) for number in range(start, start + 200)))
            assert max(one.stat().st_size for one in (path / "engine").glob("*.log")) < 2 * LEAST_BYTES
        store_bytes = Files().tree_bytes(path) - (path / "RESERVE").stat().st_size
        assert 0.8 < (path / "RESERVE").stat().st_size / (LEAST_BYTES + store_bytes / 50) <= 1


def test_the_reserve_is_spent_on_a_full_disk_alone(tmp_path: Path) -> None:
    reserve = Reserve(Room(GB), tmp_path / "RESERVE")
    reserve.make()
    calls: list[int] = []

    def fails_with(number: int) -> None:
        calls.append(number)
        raise StorageError(number, "no")

    with pytest.raises(StorageError):
        reserve.spend(lambda: fails_with(errno.EIO))
    assert (len(calls), reserve.length_bytes()) == (1, LEAST_BYTES)
    with pytest.raises(StorageError):
        reserve.spend(lambda: fails_with(errno.ENOSPC), in_parts=False)
    assert (len(calls), reserve.length_bytes()) == (3, LEAST_BYTES), "what was released is taken back"
    with pytest.raises(StorageError):
        reserve.spend(lambda: fails_with(errno.EDQUOT))
    assert (len(calls), reserve.length_bytes()) == (3 + 5, 0)
    reserve.take_back()
    assert reserve.length_bytes() == LEAST_BYTES
    assert reserve.spend(lambda: 7) == 7


def test_the_reserve_is_spent_in_parts(tmp_path: Path) -> None:
    room = Room(GB)
    reserve = Reserve(room, tmp_path / "RESERVE")
    reserve.make()
    room.free = 0  # others take what is released

    def needs(room_bytes: int) -> int:
        if LEAST_BYTES - reserve.length_bytes() < room_bytes:
            raise StorageError(errno.ENOSPC, "no")
        return room_bytes

    assert reserve.spend(lambda: needs(1000)) == 1000
    assert 0.7 * LEAST_BYTES < reserve.length_bytes() < LEAST_BYTES
    assert reserve.spend(lambda: needs(LEAST_BYTES // 2)) == LEAST_BYTES // 2
    assert 0 < reserve.length_bytes() <= LEAST_BYTES // 2
    assert reserve.spend(lambda: needs(LEAST_BYTES)) == LEAST_BYTES
    assert reserve.length_bytes() == 0


def test_work_that_needs_much_leaves_what_an_open_needs(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir()
    room = Room(GB)
    reserve = Reserve(room, tmp_path / "RESERVE")
    reserve.make()
    room.free = 0
    assert reserve.spend(reserve.length_bytes, in_parts=False) == recovery_bytes(reserve.log_limit_bytes)
    room.free = 100_000
    reserve.take_back()
    assert reserve.length_bytes() == recovery_bytes(reserve.log_limit_bytes) + 100_000
    room.free = GB
    reserve.take_back()
    assert reserve.length_bytes() == LEAST_BYTES, "it is never longer than before"


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[Path]:
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "size=12m") as folder:
        yield folder


def fill(disk: Path) -> None:
    """Write until there is no room left."""
    with (disk / "ballast").open("ab", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError as error:
            assert error.errno == errno.ENOSPC


def filler(number: int, noise_bytes: int = 8000, word_count: int = 200) -> Page:
    source = random.Random(number)
    text = source.choices(VOCABULARY, k=word_count)
    noise = source.randbytes(noise_bytes).replace(b">", b"=")  # in a comment: it is no text
    return Page(f"https://a.example/{number}", page(text) + b"<!--" + noise + b"-->", 200, HTML, T0)


def load(store: docstore.DocumentStore, pages: Iterator[Page]) -> int:
    """Write pages until the disk is full; -> how many were acknowledged."""
    written = 0
    with pytest.raises(StorageError):
        for _ in store.put_pages(pages):
            written += 1
    return written


def fill_and_kill(path: Path, noise_bytes: int) -> int:
    """Fill the disk in a process that dies then; -> how many pages it was acknowledged."""
    script = (
        "import os, sys, docstore; from pathlib import Path; from itertools import count; import test_full_disk as t\n"
        "store = docstore.open(sys.argv[1], create=True)\n"
        "print(t.load(store, (t.filler(number, int(sys.argv[2])) for number in count())), flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    places = os.pathsep.join((str(Path(__file__).parent), str(Path(__file__).parents[1])))
    command = [sys.executable, "-c", script, str(path), str(noise_bytes)]
    run = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": places}, stdout=subprocess.PIPE, check=False, timeout=600
    )
    assert run.returncode == -signal.SIGKILL
    return int(run.stdout)


@pytest.mark.parametrize("ending", [pytest.param("open", marks=pytest.mark.slow), "killed"])
@pytest.mark.parametrize(
    ("disk_bytes", "noise_bytes"), [(12 << 20, 12_000), pytest.param(160 << 20, 40_000, marks=pytest.mark.slow)]
)
def test_a_disk_that_the_store_has_filled_while_open(
    tmp_path: Path, disk_bytes: int, noise_bytes: int, ending: str
) -> None:
    """Whatever the size of the disk: deletes, opening and compaction work, also after a kill."""

    def pages() -> Iterator[Page]:
        return (filler(number, noise_bytes) for number in count())

    with mounted(tmp_path / "disk", f"size={disk_bytes}") as disk:
        path = disk / "s"
        if ending == "killed":
            written = fill_and_kill(path, noise_bytes)
            store = docstore.open(path)
        else:
            store = docstore.open(path, create=True)
            written = load(store, pages())
        reserve_bytes = store.backend.reserve.length_bytes()
        assert 0 < reserve_bytes <= LEAST_BYTES + 0.02 * (Files().tree_bytes(path) - reserve_bytes)
        for number in range(20, written):
            assert store.delete(f"https://a.example/{number}")
        store.close()
        with docstore.open(path) as store:
            assert store.compact().rows == 20
            list(store.put_pages(filler(number, noise_bytes) for number in range(20, 60)))
        with docstore.open(path) as store:
            assert list(check(store.backend)) == []
        assert Files().tree_bytes(path) < disk_bytes / 4


def test_a_disk_that_others_have_filled_is_left_so_that_the_store_can_be_opened(tmp_path: Path) -> None:
    """With the reserve alone some hundred pages can be deleted; then the rest is kept for recovery."""
    with mounted(tmp_path / "disk", "size=12m") as disk:
        store = docstore.open(disk / "s", create=True)
        written = load(store, (filler(number, 4000) for number in count()))
        fill(disk)
        deleted = 0
        with pytest.raises(StorageError, match="needed to open the store again"):
            while store.delete(f"https://a.example/{deleted}"):
                deleted += 1
        assert deleted > 300
        store.close()
        fill(disk)
        with docstore.open(disk / "s") as store:
            assert store.get(f"https://a.example/{deleted - 1}") is None
            assert store.get(f"https://a.example/{deleted + 1}") is not None
            (disk / "ballast").unlink()
            for number in range(deleted + 1, written):
                assert store.delete(f"https://a.example/{number}")
            assert store.compact().rows <= 1
            assert list(check(store.backend)) == []


def test_each_page_is_deleted_by_an_open_of_its_own_while_others_take_all_that_is_freed(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=24m") as disk:
        with docstore.open(disk / "s", create=True) as store:
            list(store.put_pages(filler(number) for number in range(60)))
        for number in range(50):
            fill(disk)
            with docstore.open(disk / "s") as store:
                assert store.delete(f"https://a.example/{number}")
        fill(disk)
        with docstore.open(disk / "s") as store:
            assert len(list(store.urls())) == 10
            assert list(check(store.backend)) == []


def test_a_compaction_that_is_refused_runs_when_the_bytes_that_it_names_are_free(roomy_disk: Path) -> None:
    path, other = roomy_disk / "s", roomy_disk / "other"
    with docstore.open(path, create=True) as store:
        list(store.put_pages(noise(number) for number in range(400)))
        for number in range(0, 400, 2):
            assert store.delete(noise(number).url)
    Files().allocate(other, Files().free_bytes(roomy_disk))
    with docstore.open(path) as store:
        with pytest.raises(StorageError) as refused:
            store.compact(full=True)
        named = re.search(r"free (\d+) bytes", str(refused.value))
        assert named is not None
        Files().truncate(other, other.stat().st_size - int(named[1]))
        assert store.compact(full=True).removed_segments == 1
        assert list(check(store.backend)) == []


def test_a_compaction_moves_what_there_is_room_for_and_most_garbage_first(roomy_disk: Path) -> None:
    path = roomy_disk / "s"
    live = set(range(300))
    with docstore.open(path, create=True) as store:
        for numbers in (range(150), range(150, 250), range(250, 300)):  # a segment each
            list(store.put_pages(noise(number, 30_000) for number in numbers))
            store.backend.value_log.seal()
        garbage = {*range(150, 250, 2), *range(250, 295)}
        for number in garbage:
            assert store.delete(noise(number, 30_000).url)
        live -= garbage
    Files().allocate(roomy_disk / "other", Files().free_bytes(roomy_disk) - 900_000)
    with docstore.open(path) as store:
        for left in ([1, 2], [1]):  # what the first run freed is room for the second
            with pytest.raises(
                StorageError, match=r"take \d+ bytes .* and \d+ are free; free \d+ bytes, or delete pages"
            ):
                store.compact()
            old = [int(file.stem) for file in (path / "segments").iterdir() if int(file.stem) <= 3]
            assert sorted(old) == left
            assert all(store.get(noise(number).url).body == noise(number, 30_000).body for number in live)
        (roomy_disk / "other").unlink()
        store.compact()
        assert len(list(store.urls())) == len(live)
        assert list(check(store.backend)) == []


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_a_compaction_during_which_others_fill_the_disk_leaves_a_store_that_opens(
    roomy_disk: Path, share: float
) -> None:
    path = roomy_disk / "s"
    with docstore.open(path, create=True) as store:
        list(store.put_pages(noise(number) for number in range(400)))
    before = {file.name for file in path.rglob("*.[sd][ei][gc]*")}
    filled: list[int] = []

    def fill_once(done: int, total: int) -> None:
        if not filled and done >= share * total:
            filled.append(done)
            fill(roomy_disk)

    with docstore.open(path) as store, pytest.raises(StorageError, match=r"free \d+ bytes"):
        store.compact(full=True, on_progress=fill_once)
    assert {file.name for file in path.rglob("*.[sd][ei][gc]*")} == before, "what it made is removed"
    fill(roomy_disk)
    with docstore.open(path) as store:
        assert store.delete(noise(0).url)
        assert len(list(store.urls())) == 399
        assert list(check(store.backend)) == []


def test_a_crawl_can_be_deleted_and_the_store_compacted(small_disk: Path) -> None:
    with docstore.open(small_disk / "s", create=True) as store:
        list(store.put_pages(filler(number)._replace(crawl="x" if number >= 20 else "y") for number in range(200)))
    fill(small_disk)
    with docstore.open(small_disk / "s") as store:
        fill(small_disk)  # LevelDB frees room when it opens
        assert store.delete_crawl("x", purge=True) == 180
        assert store.compact().rows == 20
        assert list(check(store.backend)) == []


def test_pages_can_be_deleted_and_the_store_compacted(
    small_disk: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small_disk / "s"
    with docstore.open(path, create=True) as store:
        list(store.put_pages(filler(number) for number in range(200)))
        assert store.backend.reserve.length_bytes() > 0
    fill(small_disk)
    with docstore.open(path) as store:
        fill(small_disk)  # LevelDB frees room when it opens
        with pytest.raises(StorageError):
            list(store.put_pages(filler(number) for number in range(200, 260)))
        assert store.backend.reserve.length_bytes() > 0, "a page must not take it"
        assert store.backup(tmp_path / "backup").segments > 0
        for number in range(20, 200):
            assert store.delete(f"https://a.example/{number}")
        store.cells.apply("https://a.example/0", [DeleteFamily("anchor")])
        report = store.compact()
        assert report.removed_segments >= 1
        assert report.rows == 20
        list(store.put_pages(filler(number) for number in range(300, 320)))  # there is room again
    terminal = Terminal(path, capsys)
    assert terminal("check").code == 0
    fill(small_disk)
    assert terminal("delete", "https://a.example/1").code == 0
    assert terminal("compact").code == 0
    with docstore.open(path) as store:
        assert list(check(store.backend)) == []
        assert store.get("https://a.example/2") is not None
        assert store.get("https://a.example/1") is None


def noise(number: int, noise_bytes: int = 9000) -> Page:
    """A page that compresses badly."""
    body = b"<p>" + random.Random(number).randbytes(noise_bytes).hex().encode()
    return Page(f"https://a.example/{number}", body, 200, HTML)


@pytest.fixture
def roomy_disk(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path / "disk", "size=24m") as folder:
        yield folder


@pytest.mark.parametrize("others_take_the_rest", [pytest.param(False, marks=pytest.mark.slow), True])
def test_compactions_that_fail_leave_room_to_open_and_to_delete(roomy_disk: Path, others_take_the_rest: bool) -> None:
    path = roomy_disk / "s"
    written = 0
    with docstore.open(path, create=True) as store, pytest.raises(StorageError) as full:
        while True:
            list(store.put_pages([noise(number, 30_000) for number in range(written, written + 20)]))
            written += 20
    assert full.value.errno == errno.ENOSPC
    if others_take_the_rest:
        Files().allocate(roomy_disk / "other", Files().free_bytes(roomy_disk))
    names = {file.name for file in path.rglob("*.dict")}
    reserve_bytes = (path / "RESERVE").stat().st_size
    for _ in range(3):
        with docstore.open(path) as store:
            for is_full in (False, True):
                with pytest.raises(StorageError, match=r"free \d+ bytes, or delete pages") as refused:
                    store.compact(full=is_full)
                assert refused.value.errno == errno.ENOSPC
            assert len(list(store.urls())) == written
        assert {file.name for file in path.rglob("*.dict")} == names, "nothing was made"
        assert (path / "RESERVE").stat().st_size >= reserve_bytes // 2
    with docstore.open(path) as store:
        for number in range(20, 120):
            assert store.delete(noise(number).url)
        if others_take_the_rest:
            (roomy_disk / "other").unlink()
        for number in range(120, written):
            assert store.delete(noise(number).url)
        store.compact()
        assert Files().free_bytes(roomy_disk) > 10 << 20
        assert list(check(store.backend)) == []
    with docstore.open(path) as store:
        assert store.put_page(*noise(written)[:2], headers=HTML).stored == "body"
        assert len(list(store.urls())) == 21
