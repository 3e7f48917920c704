"""On a full disk pages can be deleted and the store compacted: a reserve is kept for that."""

from __future__ import annotations

import errno
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_case import Terminal
from pages import page, words

import docstore
from docstore import DeleteFamily, Page, StorageError
from docstore.reports.check import check
from docstore.storage.files import Files
from docstore.tablets.reserve import LEAST_BYTES, MOST_BYTES, SHARE_OF_ROOM, Reserve

HTML = (("content-type", "text/html"),)
T0 = 1_700_000_000_000_000
GB = 1 << 30


class Room(Files):
    """A disk with so much room left."""

    def __init__(self, free_bytes: int) -> None:
        self.free = free_bytes

    def free_bytes(self, path: Path) -> int:
        return self.free


@pytest.mark.parametrize(
    ("store_bytes", "free_bytes", "reserve_bytes"),
    [
        (0, GB, LEAST_BYTES),
        (30 << 20, GB, 15 << 20),
        (GB, GB, MOST_BYTES),
        (GB, 8 << 20, (8 << 20) // SHARE_OF_ROOM),
        (GB, 100_000, 0),
    ],
)
def test_the_reserve_is_as_large_as_store_and_disk_ask_for(
    tmp_path: Path, store_bytes: int, free_bytes: int, reserve_bytes: int
) -> None:
    reserve = Reserve(Room(free_bytes), tmp_path / "RESERVE")
    reserve.make(store_bytes)
    assert reserve.length_bytes() == reserve_bytes
    if reserve_bytes:
        assert (tmp_path / "RESERVE").stat().st_blocks * 512 >= reserve_bytes, "room that is not taken is no reserve"


def test_the_reserve_grows_with_the_store_and_is_left_alone_otherwise(tmp_path: Path) -> None:
    reserve = Reserve(Room(GB), tmp_path / "RESERVE")
    reserve.make(0)
    inode = (tmp_path / "RESERVE").stat().st_ino
    reserve.make(LEAST_BYTES * 3)
    assert (tmp_path / "RESERVE").stat().st_ino == inode
    reserve.make(LEAST_BYTES * 4)
    assert reserve.length_bytes() == LEAST_BYTES * 2


def test_a_small_store_has_a_small_reserve_that_grows_with_it(tmp_path: Path) -> None:
    def length_bytes() -> int:
        return (tmp_path / "s" / "RESERVE").stat().st_size

    with docstore.open(tmp_path / "s", create=True) as store:
        store.put_page("https://a.example/", b"x")
        assert length_bytes() == LEAST_BYTES == 1 << 20
        list(store.put_pages(filler(number) for number in range(600)))
    assert length_bytes() > 2 * LEAST_BYTES


def test_the_reserve_is_spent_on_a_full_disk_alone(tmp_path: Path) -> None:
    reserve = Reserve(Room(GB), tmp_path / "RESERVE")
    reserve.make(0)
    calls: list[int] = []

    def fails_with(number: int) -> None:
        calls.append(number)
        raise StorageError(number, "no")

    with pytest.raises(StorageError):
        reserve.spend(lambda: fails_with(errno.EIO))
    assert (len(calls), reserve.length_bytes()) == (1, LEAST_BYTES)
    with pytest.raises(StorageError):
        reserve.spend(lambda: fails_with(errno.ENOSPC), in_parts=False)
    assert (len(calls), reserve.length_bytes()) == (3, 0)
    with pytest.raises(StorageError):
        reserve.spend(lambda: fails_with(errno.ENOSPC))
    assert len(calls) == 4
    assert reserve.spend(lambda: 7) == 7


def test_the_reserve_is_spent_in_parts(tmp_path: Path) -> None:
    reserve = Reserve(Room(GB), tmp_path / "RESERVE")
    reserve.make(0)

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


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(disk: Path) -> None:
    """Write until there is no room left."""
    with (disk / "ballast").open("ab", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError as error:
            assert error.errno == errno.ENOSPC


def filler(number: int) -> Page:
    noise = random.Random(number).randbytes(8000)
    return Page(f"https://a.example/{number}", page(words(number, 200)) + noise, 200, HTML, T0)


def test_pages_can_be_deleted_and_the_store_compacted(small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = small_disk / "s"
    with docstore.open(path, create=True) as store:
        list(store.put_pages(filler(number) for number in range(200)))
        assert store.opened.reserve.length_bytes() > 0
    fill(small_disk)
    with docstore.open(path) as store:
        fill(small_disk)  # LevelDB gives room back when it opens
        with pytest.raises(StorageError):
            list(store.put_pages(filler(number) for number in range(200, 260)))
        assert store.opened.reserve.length_bytes() > 0, "a page must not take it"
        for number in range(20, 200):
            assert store.delete(f"https://a.example/{number}")
        store.cells.apply("https://a.example/0", [DeleteFamily("text")])
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
        assert list(check(store.opened)) == []
        assert store.get("https://a.example/2") is not None
        assert store.get("https://a.example/1") is None
