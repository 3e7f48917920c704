"""Backup of an open store, incremental by segment, and restore."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cli_case import Terminal
from faulty_files import SimulatedCrash
from pages import page, words

import docstore
from docstore import ColumnFamily, Page, Schema, SetCell
from docstore.cli.main import main
from docstore.dedup.runs import RunIndex
from docstore.model.errors import CorruptionError, InvalidArgument, StorageError, StoreUnavailable, UnsupportedFormat
from docstore.reports.check import check
from docstore.storage.files import Files
from docstore.store import DocumentStore
from docstore.tablets.backup import backup, restore
from docstore.tablets.format_file import FormatHead, decode_format, encode_format
from docstore.tablets.upgrade import upgrade
from tests import older_stores

HTML = (("content-type", "text/html"),)
T0 = 1_700_000_000_000_000


def some_pages(start: int, count: int) -> list[Page]:
    return [
        Page(f"https://h{n % 3}.example/{n}", page(words(n, 300)), 200, HTML, T0) for n in range(start, start + count)
    ]


def contents(store: DocumentStore) -> list[object]:
    return [(row.row_key, row.cells) for row in store.cells.scan()]


def test_restored_store_is_the_one_that_was_backed_up(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 40)))
        store.delete("https://h1.example/1")
        before = contents(store)
        report = store.backup(tmp_path / "b")
        assert report.copied_segments == report.segments == 1
        list(store.put_pages(some_pages(40, 10)))
    restore(tmp_path / "b", tmp_path / "r")
    with docstore.open(tmp_path / "r") as restored:
        assert restored.lost == ()
        assert contents(restored) == before
        assert list(check(restored.backend)) == []
        assert {result.stored for result in restored.put_pages(some_pages(40, 10))} == {"body"}
    restore(tmp_path / "b", tmp_path / "again")  # the backup is as it was


def test_second_backup_copies_new_data_and_drops_compacted_segments(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 40)))
        store.compact()
        first = store.backup(tmp_path / "b")
        list(store.put_pages(some_pages(40, 5)))
        second = store.backup(tmp_path / "b")
        assert (second.segments, second.copied_segments) == (2, 1)
        assert second.copied_bytes < first.copied_bytes / 2
        list(store.put_pages(some_pages(45, 5)))
        third = store.backup(tmp_path / "b")
        assert third.copied_segments == 1
        assert third.copied_bytes < second.copied_bytes * 2  # only what the active segment has grown by
        store.compact(full=True)
        fourth = store.backup(tmp_path / "b")
        assert fourth.segments == 1
        assert len(list((tmp_path / "b" / "segments").iterdir())) == 1
        before = contents(store)
    restore(tmp_path / "b", tmp_path / "r")
    with docstore.open(tmp_path / "r") as restored:
        assert contents(restored) == before
        assert list(check(restored.backend)) == []


def test_backup_during_writes_and_a_compaction_is_consistent(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 60)))
        failures: list[BaseException] = []

        def write() -> None:
            try:
                for one in some_pages(60, 40):
                    store.put_page(one.url, one.body, headers=HTML, fetched_at=T0)
                store.compact()
            except BaseException as error:
                failures.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        for number in range(4):
            store.backup(tmp_path / "b")
            restore(tmp_path / "b", tmp_path / f"r{number}")
        writer.join()
        assert failures == []
    for number in range(4):
        with docstore.open(tmp_path / f"r{number}") as restored:
            assert restored.lost == ()
            assert list(check(restored.backend)) == []
            assert len(contents(restored)) >= 60


def test_segments_stay_while_a_backup_copies_them(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 20)))
        kept = []
        store.backup(tmp_path / "b", lambda done, total: kept.append(store.compact().kept_segments))
        assert kept[0] >= 1
        assert store.compact().kept_segments == 0
    restore(tmp_path / "b", tmp_path / "r")
    with docstore.open(tmp_path / "r") as restored:
        assert list(check(restored.backend)) == []


class Stopping(Files):
    """Dies at the given whole-file replacement."""

    def __init__(self, at: str) -> None:
        self.at = at

    def replace_whole(self, path: Path, raw: bytes) -> None:
        if path.name == self.at:
            raise KeyboardInterrupt
        super().replace_whole(path, raw)


def test_interrupted_backup_leaves_the_earlier_one_and_resumes(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 20)))
        before = contents(store)
        store.backup(tmp_path / "b")
        list(store.put_pages(some_pages(20, 20)))
        real = store.backend.files
        store.backend.files = Stopping("BACKUP")
        with pytest.raises(KeyboardInterrupt):
            backup(store.backend, store.committer, tmp_path / "b")
        store.backend.files = real
        restore(tmp_path / "b", tmp_path / "r")
        report = store.backup(tmp_path / "b")
        assert report.copied_segments == 0  # the backup has them already
        after = contents(store)
    restore(tmp_path / "b", tmp_path / "r2")
    for name, wanted in (("r", before), ("r2", after)):
        with docstore.open(tmp_path / name) as restored:
            assert contents(restored) == wanted
            assert list(check(restored.backend)) == []


@contextmanager
def files_of_at_most(count_bytes: int) -> Iterator[None]:
    """No file of this process may grow beyond so many bytes, as if the disk were full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_backup_that_the_disk_does_not_take_is_named_and_removed(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages([Page("https://h.example/", os.urandom(300_000), fetched_at=T0)]))
        (tmp_path / "mine").mkdir()
        for name in ("b", "mine"):
            with files_of_at_most(200_000), pytest.raises(StorageError, match=f"{tmp_path / name}/"):
                store.backup(tmp_path / name)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "s"]
        assert list((tmp_path / "mine").iterdir()) == []
        store.backup(tmp_path / "b")
        list(store.put_pages([Page("https://h.example/2", os.urandom(300_000), fetched_at=T0)]))
        with files_of_at_most(400_000), pytest.raises(StorageError):
            store.backup(tmp_path / "b")
    restore(tmp_path / "b", tmp_path / "r")  # the earlier backup stays
    with docstore.open(tmp_path / "r") as restored:
        assert list(restored) == ["https://h.example/"]


def test_an_export_that_the_disk_does_not_take_names_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Terminal(tmp_path / "s", capsys)
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        store.put_page("https://h.example/", os.urandom(300_000))
    for kind in ("warc", "jsonl"):
        target = tmp_path / "out"
        with files_of_at_most(200_000):
            answer = run("export", "--format", kind, "--output", str(target), *(["--body"] if kind == "jsonl" else []))
        assert (answer.code, answer.err.count("\n")) == (6, 1)
        assert f"cannot write {target}" in answer.err
        assert not list(tmp_path.glob("out*"))


def test_folders_with_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 5)))
        with pytest.raises(InvalidArgument, match="has other files"):
            store.backup(tmp_path / "full")
        store.backup(tmp_path / "b")
    with docstore.open(tmp_path / "other", create=True, durability="none") as other:
        list(other.put_pages(some_pages(100, 30)))
        with pytest.raises(InvalidArgument, match="another store"):
            other.backup(tmp_path / "b")
    with pytest.raises(InvalidArgument, match="not empty"):
        restore(tmp_path / "b", tmp_path / "full")
    with pytest.raises(InvalidArgument, match="no backup"):
        restore(tmp_path / "s", tmp_path / "r")


def test_damaged_backups_are_named(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 5)))
        store.backup(tmp_path / "b")
    listing = tmp_path / "b" / "BACKUP"
    sound = listing.read_text()
    listing.write_text(sound.replace('"format": 2', '"format": 9'))
    with pytest.raises(UnsupportedFormat):
        restore(tmp_path / "b", tmp_path / "r")
    listing.write_text("{")
    with pytest.raises(CorruptionError):
        restore(tmp_path / "b", tmp_path / "r")
    listing.write_text(sound)
    (segment,) = (tmp_path / "b" / "segments").iterdir()
    segment.write_bytes(segment.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match="too short"):
        restore(tmp_path / "b", tmp_path / "r")


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of sixteen texts, so that a few pages have several of them and merges go on all the time."""
    monkeypatch.setitem(RunIndex.__init__.__kwdefaults__, "flush_texts", 16)


def refuse_rebuild(self: RunIndex) -> int:
    raise AssertionError("the index was made anew")


def runs_of(folder: Path) -> set[str]:
    return {path.name for path in (folder / "index").iterdir()}


def test_restored_store_has_its_index_and_does_not_rebuild_it(
    tmp_path: Path, small_runs: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 150)))
    with docstore.open(tmp_path / "s") as store:
        store.backup(tmp_path / "b")
    assert runs_of(tmp_path / "b") == runs_of(tmp_path / "s") != set()
    restore(tmp_path / "b", tmp_path / "r")
    monkeypatch.setattr(RunIndex, "rebuild", refuse_rebuild)
    with docstore.open(tmp_path / "r") as restored:
        same = [Page(f"https://z.example/{n}", page(words(n, 300)), 200, HTML, T0) for n in range(150)]
        assert {result.verdict.kind for result in restored.put_pages(same)} == {docstore.VerdictKind.EXACT}
        text = page(words(3, 295) + words(1000, 5))
        assert restored.put_page("https://y.example/", text, headers=HTML).verdict.kind is docstore.VerdictKind.NEAR
        assert list(check(restored.backend)) == []


def test_second_backup_copies_only_missing_runs(tmp_path: Path, small_runs: None) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 150)))
    with docstore.open(tmp_path / "s", durability="none") as store:
        store.backup(tmp_path / "b")
        assert store.backup(tmp_path / "b").copied_bytes == 0
        list(store.put_pages(some_pages(150, 100)))
    (tmp_path / "b" / "index" / sorted(runs_of(tmp_path / "b"))[0]).write_bytes(b"cut off")
    with docstore.open(tmp_path / "s") as store:
        store.backup(tmp_path / "b")
    assert runs_of(tmp_path / "b") == runs_of(tmp_path / "s")
    for name in runs_of(tmp_path / "s"):
        assert (tmp_path / "b" / "index" / name).read_bytes() == (tmp_path / "s" / "index" / name).read_bytes()


def test_rebuilt_runs_with_their_old_names_are_copied_again(tmp_path: Path, small_runs: None) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 100)))
    with docstore.open(tmp_path / "s") as store:
        store.backup(tmp_path / "b")
    (name,) = list(runs_of(tmp_path / "b"))[:1]
    run = tmp_path / "s" / "index" / name
    other = bytearray(run.read_bytes())
    other[-10] ^= 1  # a checksum in its footer: other slices under the same name, as long
    run.write_bytes(other)
    with docstore.open(tmp_path / "s") as store:
        store.backup(tmp_path / "b")
    assert (tmp_path / "b" / "index" / name).read_bytes() == other


def test_restore_omits_the_index_if_the_backup_has_only_a_part_of_it(tmp_path: Path, small_runs: None) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 150)))
    with docstore.open(tmp_path / "s") as store:
        store.backup(tmp_path / "b")
    (tmp_path / "b" / "index" / sorted(runs_of(tmp_path / "b"))[0]).unlink()
    restore(tmp_path / "b", tmp_path / "r")
    assert runs_of(tmp_path / "r") == set()
    with docstore.open(tmp_path / "r") as restored:
        assert list(check(restored.backend)) == []


def test_index_of_a_backup_made_during_writes_is_complete(tmp_path: Path, small_runs: None) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 50)))
        failures: list[BaseException] = []

        def write() -> None:
            try:
                for start in range(50, 450, 20):
                    list(store.put_pages(some_pages(start, 20)))
            except BaseException as error:
                failures.append(error)

        writer = threading.Thread(target=write)
        writer.start()
        for number in range(6):
            store.backup(tmp_path / "b")
            restore(tmp_path / "b", tmp_path / f"r{number}")
        writer.join()
        assert failures == []
    for number in range(6):
        with docstore.open(tmp_path / f"r{number}") as restored:
            assert list(check(restored.backend)) == []
            assert len(contents(restored)) >= 50


# --- 11.A2: a folder is compared before anything in it is changed


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_backup_of_another_store_is_refused_untouched(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 60)))
        store.backup(tmp_path / "b")
    before = tree(tmp_path / "b")
    with docstore.open(tmp_path / "small", create=True, durability="none") as other:
        list(other.put_pages(some_pages(100, 3)))
        with pytest.raises(InvalidArgument, match="another store"):
            other.backup(tmp_path / "b")
        other.compact()  # now no segment of the same number is in both
        with pytest.raises(InvalidArgument, match="another store"):
            other.backup(tmp_path / "b")
    assert tree(tmp_path / "b") == before


def test_the_backup_of_a_later_state_is_refused_untouched(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 10)))
        store.backup(tmp_path / "early")
        list(store.put_pages(some_pages(10, 40)))
        store.backup(tmp_path / "late")
    before = tree(tmp_path / "late")
    restore(tmp_path / "early", tmp_path / "r")
    with docstore.open(tmp_path / "r", durability="none") as restored:
        with pytest.raises(InvalidArgument, match="later state"):
            restored.backup(tmp_path / "late")
        assert tree(tmp_path / "late") == before
        assert restored.backup(tmp_path / "early").copied_segments == 0  # its own: the store is the same
        for one in some_pages(200, 60):  # longer than the later state, and another
            restored.put_page(one.url, one.body, headers=HTML, fetched_at=T0)
        with pytest.raises(InvalidArgument, match="restored from an earlier backup"):
            restored.backup(tmp_path / "late")
    assert tree(tmp_path / "late") == before


@pytest.mark.parametrize("goes_on", [0, 60])
def test_the_backup_of_a_later_state_is_detected_by_its_mark(tmp_path: Path, goes_on: int) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 10)))
        store.backup(tmp_path / "early")
        for one in some_pages(10, 40):
            store.put_page(one.url, one.body, headers=HTML, fetched_at=T0)
        store.backup(tmp_path / "late")
    before = tree(tmp_path / "late")
    restore(tmp_path / "early", tmp_path / "r")
    with docstore.open(tmp_path / "r", durability="none") as restored:
        for one in some_pages(50, goes_on):  # more commits than the later state has
            restored.put_page(one.url, one.body, headers=HTML, fetched_at=T0)
        restored.compact()  # now no segment of the same number is in both
        with pytest.raises(InvalidArgument, match="later state"):
            restored.backup(tmp_path / "late")
    assert tree(tmp_path / "late") == before
    with docstore.open(tmp_path / "r", durability="none") as restored:
        restored.backup(tmp_path / "early")
        restored.backup(tmp_path / "early")


def test_files_set_aside_are_in_a_backup(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        list(store.put_pages(some_pages(0, 10)))
    aside = tmp_path / "s" / "set-aside"
    aside.mkdir()
    [segment, *_] = sorted((tmp_path / "s" / "segments").iterdir())
    (aside / "00000009-0.seg").write_bytes(segment.read_bytes())
    with docstore.open(tmp_path / "s") as store:
        store.backup(tmp_path / "b")
    restore(tmp_path / "b", tmp_path / "r")
    assert (tmp_path / "r" / "set-aside" / "00000009-0.seg").read_bytes() == segment.read_bytes()
    (aside / "00000009-0.seg").unlink()
    with docstore.open(tmp_path / "s") as store:
        store.backup(tmp_path / "b")
    assert not list((tmp_path / "b" / "set-aside").iterdir())


def test_an_interrupted_backup_leaves_the_format_of_the_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade may lie between the two: the rows of one format must not come back under the number of another."""
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 10)))
        store.backup(tmp_path / "b")
    rows = decode_format((tmp_path / "s" / "FORMAT").read_bytes())
    assert rows is not None
    real = Files.replace_whole

    def stop_at_backup(files: Files, path: Path, content: bytes) -> None:
        if path.name == "BACKUP":
            raise SimulatedCrash("stopped")
        real(files, path, content)

    with docstore.open(tmp_path / "s") as store:
        (tmp_path / "s" / "FORMAT").write_bytes(encode_format(rows, FormatHead(2, "7.3")))
        monkeypatch.setattr(Files, "replace_whole", stop_at_backup)
        with pytest.raises(SimulatedCrash):
            store.backup(tmp_path / "b")
        monkeypatch.undo()
    restore(tmp_path / "b", tmp_path / "r")
    with docstore.open(tmp_path / "r") as restored:
        assert len(restored) == 10


def test_a_restored_store_of_an_older_format_is_upgraded(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, schema=Schema(families=(ColumnFamily("mark"),))) as store:
        store.cells.apply("https://a.example/", [SetCell("mark", b"a", 1000, b"1")])
        before = contents(store)
        store.backup(tmp_path / "b")
    older_stores.make_older(tmp_path / "s")
    listing = tmp_path / "b" / "BACKUP"
    content = json.loads(listing.read_text())
    shutil.rmtree(tmp_path / "b" / content["engine"])
    shutil.copytree(tmp_path / "s" / "engine", tmp_path / "b" / content["engine"])
    content["format_file"] = (tmp_path / "s" / "FORMAT").read_text()
    listing.write_text(json.dumps(content))
    assert main(["restore", str(tmp_path / "b"), str(tmp_path / "r")]) == UnsupportedFormat.exit_code
    upgrade(tmp_path / "r", steps=older_stores.STEPS)
    with docstore.open(tmp_path / "r") as restored:
        assert contents(restored) == before


def test_bytes_of_an_interrupted_backup_that_the_store_lost_are_copied_again(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        list(store.put_pages(some_pages(0, 10)))
        store.backup(tmp_path / "b")
        (copy,) = (tmp_path / "b" / "segments").iterdir()
        with copy.open("ab") as file:
            file.write(b"no backup names this" * 100_000)
        list(store.put_pages(some_pages(10, 10)))
        store.backup(tmp_path / "b")
        before = contents(store)
    restore(tmp_path / "b", tmp_path / "r")
    with docstore.open(tmp_path / "r") as restored:
        assert contents(restored) == before
        assert list(check(restored.backend)) == []


OUTSIDE = ["../victim", "/tmp/victim", "segments/../../victim", "..", ".", "", ".hidden", "a\\b", "a\0b", 7, None]


@pytest.mark.parametrize("name", OUTSIDE, ids=repr)
@pytest.mark.parametrize("part", ["engine", "segments", "dictionaries", "runs", "set_aside"])
def test_a_backup_that_names_a_file_elsewhere_is_refused_and_touches_nothing(
    tmp_path: Path, part: str, name: object
) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        store.put_page("https://a.example/", b"<p>one")
        store.backup(tmp_path / "b")
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    listed = json.loads((tmp_path / "b" / "BACKUP").read_text())
    if part == "engine":
        listed["engine"] = name
    elif isinstance(listed[part], dict):
        listed[part] = {name if isinstance(name, str) else "": 4}  # JSON has no other names of fields
    else:
        listed[part] = [name]
    (tmp_path / "b" / "BACKUP").write_text(json.dumps(listed))
    with pytest.raises(CorruptionError, match="BACKUP file is damaged"):
        restore(tmp_path / "b", tmp_path / "target")
    assert victim.read_bytes() == b"mine"
    assert not (tmp_path / "target").exists()


def test_a_backup_that_is_opened_as_a_store_is_named_as_a_backup(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True, durability="none") as store:
        store.backup(tmp_path / "b")
    with pytest.raises(StoreUnavailable, match="is a backup, not a store; `docstore restore"):
        docstore.open(tmp_path / "b")
