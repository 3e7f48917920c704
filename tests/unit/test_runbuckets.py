"""Runs with their log: what was committed is found again, whatever was lost beside it; failures are made good."""

from __future__ import annotations

import errno
import logging
import shutil
from pathlib import Path

import numpy as np
import pytest

from docstore.dedup.ranking import Question
from docstore.dedup.runbuckets import RunBuckets, Texts
from docstore.engines.memory import MemoryEngine
from docstore.engines.protocol import Engine
from docstore.errors import StorageError
from docstore.files import Files
from docstore.format import RUN_LOG_PREFIX, RUN_REBUILD_ROW
from docstore.model import Durability, RowMutations, SetCell

FLUSH = 50


def question(number: int) -> Question:
    """Of a text with a key of its own, one that ten have, and one that all have."""
    none = np.empty(0, np.uint64)
    return Question(none, np.array([number, 10**6 + number // 10, 1 << 50], np.uint64), none, number)


class Store:
    """An engine, a folder, and the texts that were committed."""

    def __init__(self, folder: Path) -> None:
        self.engine: Engine = MemoryEngine()
        self.folder = folder
        self.committed: list[Question] = []
        self.asked_for_texts = 0

    def texts(self) -> Texts:
        self.asked_for_texts += 1
        return iter(self.committed)

    def open(self, files: Files | None = None) -> RunBuckets:
        return RunBuckets(self.engine, self.folder, self.texts, files, flush_texts=FLUSH)

    def write(self, buckets: RunBuckets, groups: int, group_texts: int = 7) -> None:
        for _ in range(groups):
            first = len(self.committed)
            group = [question(n) for n in range(first, first + group_texts)]
            for each in group:
                buckets.post(each.own_number, each.first_keys())
            self.engine.mutate_rows(buckets.mutations(), Durability.SYNC)
            buckets.end_group(committed=True)
            self.committed += group

    def log_rows(self) -> list[int]:
        scanned = self.engine.scan("meta", RUN_LOG_PREFIX, RUN_LOG_PREFIX + b"\xff")
        return [int.from_bytes(row.row_key[len(RUN_LOG_PREFIX) :], "big") for row in scanned]

    def all_found(self, buckets: RunBuckets) -> bool:
        numbers = [each.own_number for each in self.committed]
        owner, texts = buckets.find(np.array(numbers, np.uint64))
        return owner.tolist() == list(range(len(numbers))) and texts.tolist() == numbers


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "index")


def test_what_is_committed_is_found_after_opening_again(store: Store) -> None:
    for _ in range(6):
        buckets = store.open()
        assert store.all_found(buckets)
        store.write(buckets, 11)
        assert store.all_found(buckets)
        buckets.close()
    assert store.asked_for_texts == 0


def test_without_an_orderly_close_too(store: Store) -> None:
    left = []
    for _ in range(6):
        buckets = store.open()
        assert store.all_found(buckets)
        store.write(buckets, 11)
        left.append(buckets)  # its thread goes on as one that is killed a little later would
        buckets._storage.settle()
    assert store.asked_for_texts == 0


def test_the_log_stays_short_and_keeps_its_newest_row(store: Store) -> None:
    buckets = store.open()
    for _ in range(20):
        store.write(buckets, 10)
        buckets._storage.settle()
    assert len(store.log_rows()) <= 2 * FLUSH // 7 + 2
    assert store.log_rows()[-1] == 199


@pytest.mark.parametrize("lost", ["all", "newest", "oldest"])
def test_runs_that_are_gone_are_missed_and_made_anew(store: Store, lost: str, caplog: pytest.LogCaptureFixture) -> None:
    buckets = store.open()
    for _ in range(4):
        store.write(buckets, 10)
        buckets._storage.settle()
    store.write(buckets, 2)  # the second says that the runs so far are durable
    buckets.close()
    runs = sorted(store.folder.glob("*.run"))
    if lost == "all":
        shutil.rmtree(store.folder)
    else:
        runs[0 if lost == "oldest" else -1].unlink()
    with caplog.at_level(logging.WARNING):
        again = store.open()
    assert "docstore reindex" in caplog.text
    assert store.asked_for_texts == 1
    assert store.all_found(again)
    store.write(again, 30)
    again.close()
    assert store.all_found(store.open())
    assert store.asked_for_texts == 1


def test_a_damaged_header_is_no_reason_to_refuse(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, 20)
    buckets.close()
    path = next(store.folder.glob("*.run"))
    raw = bytearray(path.read_bytes())
    raw[-20] ^= 1
    path.write_bytes(raw)
    again = store.open()
    assert store.asked_for_texts == 1
    assert store.all_found(again)


def test_a_damaged_column_is_listed_and_noticed_where_it_leads_astray(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, 20)
    buckets.close()
    path = next(store.folder.glob("*.run"))
    raw = bytearray(path.read_bytes())
    raw[4096 : 4096 + (4 << 16)] = b"\xff" * (4 << 16)  # the fence: no bucket is where it was
    path.write_bytes(raw)
    again = store.open()
    damaged_still = any("fence" in line for line in again.damaged())
    assert damaged_still or store.asked_for_texts == 1
    store.all_found(again)  # it leads outside the run, so the runs are made anew, or to nothing
    store.write(again, 40)  # merging reads all of it
    assert store.asked_for_texts == 1
    assert again.damaged() == []
    assert store.all_found(again)


def test_a_flipped_bit_in_a_text_number_is_listed(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, 20)
    buckets.close()
    path = sorted(store.folder.glob("*.run"))[-1]
    raw = bytearray(path.read_bytes())
    raw[9] ^= 1
    path.write_bytes(raw)
    again = store.open()
    (line,) = again.damaged()
    assert "texts" in line
    again.rebuild()
    assert again.damaged() == [] and store.all_found(again)


def test_a_rebuild_leaves_no_more_in_the_log_than_a_table_holds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    buckets = store.open()
    store.write(buckets, 5)  # 35 texts: fewer than FLUSH
    buckets.rebuild()
    assert not list(store.folder.glob("*.run"))
    monkeypatch.setattr("docstore.dedup.levels.FLUSH_POSTINGS", 90)  # of 105
    buckets.rebuild()
    assert len(list(store.folder.glob("*.run"))) == 1
    assert store.all_found(buckets)
    buckets.close()
    assert store.all_found(store.open())


def test_a_rebuild_that_was_cut_short_is_begun_again(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, 20)

    def cut_short() -> Texts:
        yield from store.committed[:60]
        raise KeyboardInterrupt

    buckets._all_texts = cut_short
    with pytest.raises(KeyboardInterrupt):
        buckets.rebuild()
    buckets.close()
    assert store.engine.read_row("meta", RUN_REBUILD_ROW)
    again = store.open()
    assert store.asked_for_texts == 1
    assert store.all_found(again)
    assert not store.engine.read_row("meta", RUN_REBUILD_ROW)


def test_the_runs_may_be_ahead_of_the_log(store: Store) -> None:
    """Below durability `sync` a power loss may take the newest rows, and leave the run that holds them."""
    buckets = store.open()
    store.write(buckets, 8)
    before = store.engine
    store.engine = MemoryEngine()
    for row in before.scan("meta"):
        if int.from_bytes(row.row_key[-8:], "big") < 5:
            cells = [SetCell(cell.family, cell.qualifier, 0, cell.value) for cell in row.cells]
            store.engine.mutate_rows([RowMutations("meta", row.row_key, cells)], Durability.SYNC)
    buckets.close()
    again = store.open()
    store.write(again, 20)
    again.close()
    assert store.all_found(store.open())
    assert store.asked_for_texts == 0


def test_a_disk_that_fails_costs_no_write_and_is_made_good(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Files):
        broken = False

        def sync(self, descriptor: int) -> None:
            if self.broken:
                raise OSError(errno.EIO, "broken")
            super().sync(descriptor)

    files = Fails()
    buckets = store.open(files)
    store.write(buckets, 20)
    files.broken = True
    store.write(buckets, 30)
    with pytest.raises(StorageError, match="EIO"):
        buckets._storage.settle()  # the background thread has met the failure
    store.write(buckets, 30)
    assert store.all_found(buckets)
    assert caplog.text.count("goes on in memory") >= 1
    log = store.log_rows()
    files.broken = False
    store.write(buckets, 60)
    buckets._storage.settle()
    store.write(buckets, 20)
    assert store.all_found(buckets)
    assert min(store.log_rows()) > min(log), "rows that runs hold must go again"
    buckets.close()
    assert store.all_found(store.open())
    assert store.asked_for_texts == 0


def test_texts_that_are_gone_are_dropped_once_they_are_many(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, 40)
    live = [each.own_number for each in store.committed]
    assert buckets.prune(np.array(live[10:], np.uint64)) == 0
    store.committed = store.committed[100:]
    assert buckets.prune(np.array([each.own_number for each in store.committed], np.uint64)) > 100
    assert store.all_found(buckets)
    assert len(buckets.find(np.array([50], np.uint64))[0]) == 0


def test_a_group_of_any_size_is_one_row_of_bounded_cells(store: Store) -> None:
    buckets = store.open()
    for text in range(2500):
        buckets.post(text, np.arange(text, text + 80, dtype=np.uint64))
    (row,) = buckets.mutations()
    assert len(row.mutations) == 3
    store.engine.mutate_rows([row], Durability.SYNC)
    again = RunBuckets(store.engine, store.folder.with_name("other"), store.texts)
    assert len(again.find(np.array([1000], np.uint64))[0]) == 64
