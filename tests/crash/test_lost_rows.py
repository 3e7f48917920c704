"""LevelDB's files are cut or put back from an earlier time: what segments hold is kept and named."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from pages import page, words

import docstore
from docstore import Page
from docstore.model.errors import CorruptionError
from docstore.model.format import RECORD_VALUE
from docstore.reports.check import check
from docstore.storage.files import Files
from docstore.store import DocumentStore
from docstore.tablets.layout import StoreDirectory
from docstore.tablets.leftovers import MOST_UNFINISHED, list_set_aside, records_of
from docstore.tablets.record import Record
from docstore.tablets.salvage import Salvage
from docstore.tablets.segment import ValueLog

HTML = (("content-type", "text/html"),)
T0 = 1_700_000_000_000_000
GROUPS = 12
GROUP = 5


def group(number: int) -> list[Page]:
    first = number * GROUP
    return [Page(f"https://a.example/{n}", page(words(n, 300)), 200, HTML, T0) for n in range(first, first + GROUP)]


def write(store: DocumentStore, first: int = 0, count: int = GROUPS) -> None:
    for number in range(first, first + count):
        list(store.put_pages(group(number)))


def killed(tmp_path: Path, *, durability: str = "sync") -> Path:
    """A store whose writer died after its last commit."""
    with docstore.open(tmp_path / "s", create=True, durability=durability) as store:
        write(store)
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
    return tmp_path / "killed"


def closed(tmp_path: Path) -> Path:
    for first in range(0, GROUPS, 3):  # so that MANIFEST has several edits
        with docstore.open(tmp_path / "s", create=True) as store:
            write(store, first, 3)
    return tmp_path / "s"


def values(records: list[Record]) -> set[Record]:
    return {record for record in records if record.kind == RECORD_VALUE}


def records_set_aside(path: Path) -> list[Record]:
    folder = path / "set-aside"
    return [one for file in list_set_aside(Files(), folder) for one in records_of(Files(), folder, file)]


def all_records(path: Path) -> set[Record]:
    """Of segments and of what was set aside."""
    found = records_set_aside(path)
    bodies = ValueLog(Files(), path / "segments")
    for segment in (path / "segments").glob("*.seg"):
        found += [one for _, one in bodies.records(int(segment.stem))]
    return values(found)


def cut(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def commits_of(store: DocumentStore) -> tuple[int, int]:
    """The first and the last of the lost commits, which are the only loss."""
    (lost,) = store.lost
    found = re.search(r"commits (\d+) to (\d+) are lost", lost.what)
    assert found is not None and lost.where == "engine"
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("share", [0.3, 0.6, 0.8])
def test_records_behind_a_cut_log_are_set_aside_and_named(tmp_path: Path, share: float) -> None:
    path = killed(tmp_path)
    before = all_records(path)
    cut(max((path / "engine").glob("*.log")), share)
    with docstore.open(path, read_only=True) as store:
        while_reading = commits_of(store), len(list(check(store.backend)))
        assert store.backend.set_aside[0].is_in_place
    assert all_records(path) == before and not (path / "set-aside").exists()
    with docstore.open(path) as store:
        assert while_reading == (commits_of(store), len(list(check(store.backend))))
        first, last = commits_of(store)
        there = sum(store.get(one.url) is not None for number in range(GROUPS) for one in group(number))
        assert there % GROUP == 0
        assert there < GROUPS * GROUP
        lost = GROUPS - there // GROUP
        # The last group's mark says that the one before it was committed.
        assert last - first + 1 == lost - 1
        assert [one.segment for one in store.backend.set_aside] == [1]
        whats = [finding.what for finding in check(store.backend)]
        assert len(whats) == 2
        assert f"commits {first} to {last} are lost" in whats[0]
        assert f"{lost * GROUP} bodies" in whats[1]
        assert "without status and headers" in whats[1]
        write(store)  # the crawl is repeated
    assert before <= all_records(path)
    with docstore.open(path) as store:
        assert all(store.get(one.url) is not None for number in range(GROUPS) for one in group(number))
        assert len(store.lost) == 1  # still named
        assert len(store.backend.set_aside) == 1
        store.compact()
    with docstore.open(path) as store:
        assert len(list(check(store.backend))) == 2


def test_records_behind_a_cut_manifest_are_set_aside_and_named(tmp_path: Path) -> None:
    path = closed(tmp_path)
    before = all_records(path)
    cut(next((path / "engine").glob("MANIFEST-*")), 0.9)  # its last edit, which names the tables of the last session
    with docstore.open(path) as store:
        there = sum(store.get(one.url) is not None for number in range(GROUPS) for one in group(number))
        assert there < GROUPS * GROUP
        assert store.lost
        assert store.backend.set_aside
    assert all_records(path) == before


def test_after_an_orderly_close_even_the_last_commit_is_missed(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        write(store, 0, 3)
    shutil.copytree(tmp_path / "s" / "engine", tmp_path / "engine")
    with docstore.open(tmp_path / "s") as store:
        write(store, 3, 1)
    shutil.rmtree(tmp_path / "s" / "engine")
    (tmp_path / "engine").rename(tmp_path / "s" / "engine")
    before = all_records(tmp_path / "s")
    with docstore.open(tmp_path / "s") as store:
        first, last = commits_of(store)
        assert first == last
    assert all_records(tmp_path / "s") == before


def test_rows_from_before_a_compaction_leave_its_segments_set_aside(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        write(store)
    shutil.copytree(tmp_path / "s" / "engine", tmp_path / "engine")
    with docstore.open(tmp_path / "s") as store:
        store.compact()
    before = all_records(tmp_path / "s")
    (number,) = (int(file.stem) for file in (tmp_path / "s" / "segments").glob("*.seg"))
    shutil.rmtree(tmp_path / "s" / "engine")
    (tmp_path / "engine").rename(tmp_path / "s" / "engine")
    with pytest.raises(CorruptionError, match="put the whole file back"):
        docstore.open(tmp_path / "s")
    assert all_records(tmp_path / "s") == before
    StoreDirectory(tmp_path / "s").open(create=False, schema=None, accept_loss=True).close()
    with docstore.open(tmp_path / "s") as store:
        assert [one.segment for one in store.backend.set_aside] == [number]
        assert len(store.lost) > 0  # the old rows refer to segments that are gone
    assert values(records_set_aside(tmp_path / "s")) == before
    with docstore.open(tmp_path / "s") as store:
        assert store.backend.value_log.new_number() > number  # its number is not given again


def test_an_unmarked_segment_that_no_row_names_is_set_aside(tmp_path: Path) -> None:
    """A segment of format 1, which has no marks: what cannot be told is kept."""
    with docstore.open(tmp_path / "s", create=True) as store:
        write(store, 0, 1)
        identity = store.backend.identity
    record = Record(RECORD_VALUE, b"com,example)/", "page", b"body", T0, 0, b"", 5, b"stray")
    (tmp_path / "stray").mkdir()
    other = ValueLog(Files(), tmp_path / "stray", identity=identity)
    other.recover([], next_number=9)
    other.append([record])
    other.close()
    (tmp_path / "stray" / "00000009.seg").rename(tmp_path / "s" / "segments" / "00000009.seg")
    with docstore.open(tmp_path / "s") as store:
        assert [one.name for one in store.backend.set_aside] == ["00000009-0.seg"]
    assert records_set_aside(tmp_path / "s") == [record]


@pytest.mark.parametrize("durability", ["sync", "flush"])
def test_one_group_more_than_the_rows_know_is_no_finding(tmp_path: Path, durability: str) -> None:
    path = killed(tmp_path, durability=durability)
    with docstore.open(tmp_path / "s", durability=durability) as store:
        write(store, GROUPS, 1)
        segments = tmp_path / "more"
        shutil.copytree(tmp_path / "s" / "segments", segments)
    shutil.rmtree(path / "segments")
    segments.rename(path / "segments")  # as if the writer had died before it committed the rows
    with docstore.open(path) as store:
        assert store.lost == ()
        assert store.backend.set_aside == ()
        assert list(check(store.backend)) == []


def test_a_manifest_that_leveldb_cannot_read_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = closed(tmp_path)
    before = all_records(path)
    cut(next((path / "engine").glob("MANIFEST-*")), 0.3)
    with pytest.raises(docstore.CorruptionError, match=r"restore a backup"):
        docstore.open(path)
    assert all_records(path) == before


def test_a_log_that_is_gone_with_the_schema_is_refused(tmp_path: Path) -> None:
    path = killed(tmp_path)
    cut(max((path / "engine").glob("*.log")), 0)
    before = all_records(path)
    with pytest.raises(docstore.CorruptionError, match="rows are lost"):
        docstore.open(path)
    assert all_records(path) == before


def test_an_orderly_close_and_a_reading_session_change_no_segment(tmp_path: Path) -> None:
    with docstore.open(tmp_path / "s", create=True) as store:
        write(store, 0, 2)
    (segment,) = (tmp_path / "s" / "segments").iterdir()
    before = segment.read_bytes()
    for _ in range(2):
        with docstore.open(tmp_path / "s") as store:
            assert store.get("https://a.example/1") is not None
            store.backup(tmp_path / "b")
        assert segment.read_bytes() == before
    with docstore.open(tmp_path / "s") as store:
        write(store, 2, 1)
        assert store.get("https://a.example/11") is not None
        assert [row.number for row in store.backend.manifest.segments()] == [1]
    assert segment.read_bytes().startswith(before)


def test_the_last_commit_is_kept_if_leveldbs_log_has_lost_its_end(tmp_path: Path) -> None:
    """Nothing tells it from a group that a crash stopped before its commit; its records are kept, and named."""
    path = killed(tmp_path)
    before = all_records(path)
    log = max((path / "engine").glob("*.log"))
    os.truncate(log, log.stat().st_size - 1)
    with docstore.open(path, read_only=True) as store:  # it names them, too, and moves nothing
        assert list(check(store.backend)) == []
        (remark,) = store.backend.remarks()
        assert remark.where == "segments/00000001.seg" and f"{GROUP} bodies and {GROUP} texts" in remark.what
        assert not (path / "set-aside").exists()
    with docstore.open(path) as store:
        assert sum(store.get(one.url) is not None for number in range(GROUPS) for one in group(number)) == 55
        assert store.lost == () == store.backend.set_aside
        assert list(check(store.backend)) == []
        (remark,) = store.backend.remarks()
        assert "that LevelDB's log has lost" in remark.what
        assert f"{GROUP} bodies and {GROUP} texts" in remark.what
    assert all_records(path) == before
    salvage = Salvage(path, only_set_aside=True)
    assert sorted(one.url for one in salvage.captures() if one.body) == sorted(one.url for one in group(GROUPS - 1))
    with docstore.open(path) as store:
        assert len(list(store.backend.remarks())) == 1
        write(store)
    assert before <= all_records(path)


def test_of_groups_that_crashes_stopped_the_last_few_are_kept(tmp_path: Path) -> None:
    path = killed(tmp_path)
    for _ in range(MOST_UNFINISHED + 2):
        with docstore.open(path) as store:
            write(store, GROUPS, 1)
            for one in group(GROUPS):
                store.delete(one.url)
            shutil.copytree(path, tmp_path / "next")
        log = max((tmp_path / "next" / "engine").glob("*.log"))
        os.truncate(log, log.stat().st_size // 3)
        shutil.rmtree(path)
        (tmp_path / "next").rename(path)
    with docstore.open(path) as store:
        assert len(list(store.backend.remarks())) <= MOST_UNFINISHED
        for one in group(0):
            store.delete(one.url, purge=True, compact=False)
        store.compact()
    with docstore.open(path) as store:
        assert list(store.backend.remarks()) == [], "a purge leaves no copy of a page"
