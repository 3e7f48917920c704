"""A restore that is killed or fails goes on when it is called again."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from pages import page, words

import docstore
from docstore.model.errors import CorruptionError, InvalidArgument, StorageError, StoreUnavailable
from docstore.reports.check import check
from docstore.storage.files import Files
from docstore.tablets.backup import restore

HTML = (("content-type", "text/html"),)
URLS = [f"https://a.example/{number}" for number in range(5)]


class Stopped(Files):
    """A disk that is full after so many writes."""

    def __init__(self, writes: int) -> None:
        super().__init__()
        self.left = writes

    def write(self, descriptor: int, raw: memoryview) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.ENOSPC, "full")
        return super().write(descriptor, raw)


def backed_up(tmp_path: Path, name: str, seed: int) -> Path:
    with docstore.open(tmp_path / f"store-{name}", create=True) as store:
        for number, url in enumerate(URLS):
            store.put_page(url, page(words(seed + number, 300)), headers=HTML)
        store.backup(tmp_path / name)
    return tmp_path / name


def assert_is(path: Path, seed: int) -> None:
    with docstore.open(path) as store:
        for number, url in enumerate(URLS):
            document = store.get(url)
            assert document is not None and document.body == page(words(seed + number, 300))
        assert list(check(store.backend)) == []
    assert not (path / "RESTORING").exists()


def test_a_restore_goes_on_after_a_failure_at_each_write(tmp_path: Path) -> None:
    backup = backed_up(tmp_path, "backup", 0)
    writes = 0
    while True:
        try:
            restore(backup, tmp_path / "s", Stopped(writes))
        except StorageError:
            with pytest.raises((StoreUnavailable, CorruptionError)):
                docstore.open(tmp_path / "s")
            writes += 1
            continue
        break
    assert writes > 1
    assert_is(tmp_path / "s", 0)
    with pytest.raises(InvalidArgument, match="not empty"):
        restore(backup, tmp_path / "s")


def test_a_restore_of_another_backup_begins_anew(tmp_path: Path) -> None:
    first, second = backed_up(tmp_path, "first", 0), backed_up(tmp_path, "second", 100)
    with pytest.raises(StorageError):
        restore(first, tmp_path / "s", Stopped(4))
    restore(second, tmp_path / "s")
    assert_is(tmp_path / "s", 100)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    backup = backed_up(tmp_path, "backup", 0)
    (tmp_path / "s" / "segments").mkdir(parents=True)
    (tmp_path / "s" / "segments" / "00000001.seg").write_bytes(b"precious")
    with pytest.raises(InvalidArgument, match="not empty"):
        restore(backup, tmp_path / "s")
    assert (tmp_path / "s" / "segments" / "00000001.seg").read_bytes() == b"precious"
