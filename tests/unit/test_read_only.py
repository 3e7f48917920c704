"""Reading a store whose directory must not, or cannot, be changed."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from cli_case import Terminal
from pages import changed, page, words

import docstore
from docstore import Page, StorageError, StoreUnavailable, VerdictKind
from docstore.reports.check import check
from docstore.storage.files import Files
from docstore.store import DocumentStore
from docstore.tablets.backup import restore
from docstore.tablets.layout import StoreDirectory

HTML = (("content-type", "text/html"),)
T0 = 1_700_000_000_000_000


def some_pages(start: int, count: int) -> list[Page]:
    return [
        Page(f"https://h{n % 3}.example/{n}", page(words(n, 300)), 200, HTML, T0) for n in range(start, start + count)
    ]


def made(path: Path, count: int = 40) -> Path:
    with docstore.open(path, create=True) as store:
        list(store.put_pages(some_pages(0, count)))
    return path


def state(path: Path) -> dict[str, tuple[int, bytes]]:
    """Every file with its time of change and content."""
    return {
        str(file.relative_to(path)): (file.stat().st_mtime_ns, file.read_bytes())
        for file in path.rglob("*")
        if file.is_file()
    }


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made; nothing may be left in it."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def read_all(store: DocumentStore, count: int = 40) -> None:
    for one in some_pages(0, count):
        document = store.get(one.url)
        assert document is not None and document.body == one.body
    near = store.similar(page(changed(words(3, 300), 1, 2)), limit=1)
    assert [(one.url, one.kind) for one in near] == [("https://h0.example/3", VerdictKind.NEAR)]


def test_a_store_is_read_and_nothing_in_it_changes(tmp_path: Path, scratch: Path) -> None:
    path = made(tmp_path / "s")
    before = state(path)
    with docstore.open(path, read_only=True) as store, docstore.open(path, read_only=True) as beside:
        read_all(store)
        read_all(beside)
        assert list(check(store.backend)) == []
        assert store.stats()["totals"]["captures"] == 40
        assert store.compact(dry_run=True).rows == 40
        with store.dry_run() as dry:
            results = list(dry.put_pages([Page("https://new.example/", some_pages(5, 1)[0].body, 200, HTML)]))
            assert [result.verdict.kind for result in results] == [VerdictKind.EXACT]
        store.backup(tmp_path / "b")
    assert state(path) == before
    assert list(scratch.iterdir()) == []
    for is_read_only in (False, True, False):  # each takes the backup of the one before it for an earlier state
        with docstore.open(path, read_only=is_read_only) as store:
            store.backup(tmp_path / "b")
    restore(tmp_path / "b", tmp_path / "r")
    with docstore.open(tmp_path / "r") as store:
        read_all(store)


def test_every_write_is_refused(tmp_path: Path, scratch: Path) -> None:
    path = made(tmp_path / "s")
    before = state(path)
    with docstore.open(path, read_only=True) as store:
        for write in (
            lambda: store.put_page("https://new.example/", b"<p>new"),
            lambda: list(store.put_pages(some_pages(50, 2))),
            lambda: store.delete("https://h0.example/0"),
            lambda: store.delete("https://h0.example/0", purge=True),
            store.compact,
            store.acknowledge_lost,
            lambda: store.add_anchor("https://h0.example/0", "https://b.example/", "text"),
            lambda: store.cells.apply("https://h0.example/0", [docstore.DeleteRow()]),
            lambda: store.post_again([(store.cells.row_key("https://h0.example/0"), T0)]),
        ):
            with pytest.raises(StorageError, match="reading only") as refused:
                write()
            assert refused.value.errno == errno.EROFS
        read_all(store)
    assert state(path) == before
    assert list(scratch.iterdir()) == []


def test_a_store_of_a_dead_writer_is_recovered_in_the_copy_alone(tmp_path: Path, scratch: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(some_pages(0, 40)))
        shutil.copytree(tmp_path / "s", tmp_path / "dead")
        list(store.put_pages(some_pages(40, 5)))
        shutil.copytree(tmp_path / "s" / "segments", tmp_path / "segments")
    shutil.rmtree(tmp_path / "dead" / "segments")
    (tmp_path / "segments").rename(tmp_path / "dead" / "segments")  # a group behind what the rows know
    before = state(tmp_path / "dead")
    assert max(len(raw) for name, (_, raw) in before.items() if name.endswith(".log")) > 10_000
    with docstore.open(tmp_path / "dead", read_only=True) as store:
        read_all(store)
        assert store.lost == ()
        assert list(check(store.backend)) == []
        assert store.get("https://h1.example/40") is None
    assert state(tmp_path / "dead") == before


def test_missing_bytes_are_dropped_in_the_copy_alone(tmp_path: Path, scratch: Path) -> None:
    path = tmp_path / "s"
    with docstore.open(made(tmp_path / "whole", 0), durability="flush") as store:
        list(store.put_pages(some_pages(0, 40)))
        shutil.copytree(tmp_path / "whole", path)
    (segment,) = (path / "segments").iterdir()
    segment.write_bytes(segment.read_bytes()[: segment.stat().st_size // 2])
    before = state(path)
    for _ in range(2):
        with docstore.open(path, read_only=True) as store:
            assert 10 < len(store.lost) < 40
            assert all(store.get(lost.url) is None for lost in store.lost)
    assert state(path) == before


def test_reading_is_refused_while_another_writes_and_writing_while_another_reads(tmp_path: Path) -> None:
    path = made(tmp_path / "s", 3)
    with docstore.open(path), pytest.raises(StoreUnavailable, match="already open"):
        docstore.open(path, read_only=True)
    with docstore.open(path, read_only=True), pytest.raises(StoreUnavailable):
        docstore.open(path, read_only=False)
    docstore.open(path).close()


class WithoutPermission(Files):
    """The store's folder belongs to somebody else."""

    def can_write(self, path: Path) -> bool:
        return False


def test_a_folder_that_cannot_be_written_is_read_by_itself(tmp_path: Path, scratch: Path) -> None:
    path = made(tmp_path / "s", 3)
    (path / "LOCK").unlink()  # a store may have been copied without it
    before = state(path)
    opened = StoreDirectory(path, WithoutPermission()).open(create=False, schema=None, read_only=None)
    assert opened.scratch is not None
    opened.close()
    assert state(path) == before
    opened = StoreDirectory(path).open(create=False, schema=None, read_only=None)
    assert opened.scratch is None
    opened.close()


def test_commands_that_read_take_read_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path / "s", 6)
    before = state(path)
    terminal = Terminal(path, capsys)
    assert "words" not in terminal("get", "https://h0.example/0", "--read-only").err
    assert terminal("check", "--read-only").code == 0
    assert terminal("stats", "--read-only").code == 0
    assert terminal("export", "--read-only", "--output", str(tmp_path / "out.warc.gz")).code == 0
    assert state(path) == before
    assert terminal("delete", "https://h0.example/0", "--read-only").code == 2


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a folder")
def test_a_read_only_mount_is_read_and_not_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path / "s", 6)
    there = tmp_path / "mounted"
    there.mkdir()
    done = subprocess.run(["mount", "--bind", str(path), str(there)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("needs the right to mount")
    try:
        remounted = ["mount", "-o", "remount,bind,ro", str(there)]
        if subprocess.run(remounted, capture_output=True, check=False).returncode:
            pytest.skip("needs the right to mount read-only")
        terminal = Terminal(there, capsys)
        assert terminal("get", "https://h0.example/0").code == 0
        assert terminal("check").code == 0
        answer = terminal("delete", "https://h0.example/0")
        assert answer.code == StorageError.exit_code
        assert "read-only" in answer.err
    finally:
        subprocess.run(["umount", str(there)], check=True)
