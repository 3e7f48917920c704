"""The index with its log: committed postings are found again, whatever else was lost; failures are repaired."""

from __future__ import annotations

import errno
import logging
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from committed import commit_postings, texts_under
from memory_engine import MemoryEngine
from numpy.typing import NDArray
from queries import IndexQuery, text_under

from docstore.compiled import docstore_native
from docstore.dedup.index import NewPostings
from docstore.dedup.runs import RunFiles, RunIndex, Span
from docstore.model.choices import Durability
from docstore.model.errors import StorageError
from docstore.model.format import RUN_LOG_PREFIX, RUN_REBUILD_ROW, RUN_TEXT_GONE
from docstore.model.types import RowMutations, SetCell
from docstore.storage.engine import Engine
from docstore.storage.files import Files
from docstore.writing.maintenance import Pruner

FLUSH = 50
NO_PAGES = docstore_native.Totals((None, None, False), (None, None, False))


def query(number: int) -> IndexQuery:
    """Of a text with a key of its own, one that ten have, and one that all have."""
    none = np.empty(0, np.uint64)
    return IndexQuery(none, np.array([number, 10**6 + number // 10, 1 << 50], np.uint64), none, number)


class Store:
    """An engine, a folder, and the texts that were committed."""

    def __init__(self, folder: Path) -> None:
        self.engine: Engine = MemoryEngine()
        self.folder = folder
        self.committed: list[IndexQuery] = []
        self.asked_for_texts = 0
        self.cut_short_at: int | None = None

    def texts(self) -> Iterable[IndexQuery]:
        self.asked_for_texts += 1
        yield from self.committed[: self.cut_short_at]
        if self.cut_short_at is not None:
            raise KeyboardInterrupt

    def open(self, files: Files | None = None) -> RunIndex:
        return RunIndex(self.engine, self.folder, self.texts, files, flush_texts=FLUSH)

    def write(self, buckets: RunIndex, groups: int, group_texts: int = 7) -> None:
        for _ in range(groups):
            first = len(self.committed)
            group = [query(n) for n in range(first, first + group_texts)]
            new = NewPostings()
            for each in group:
                buckets.post(new, each)
            self.committed += group
            commit_postings(self.engine, buckets, new)

    def log_rows(self) -> list[int]:
        scanned = self.engine.scan("meta", RUN_LOG_PREFIX, RUN_LOG_PREFIX + b"\xff")
        return [int.from_bytes(row.row_key[len(RUN_LOG_PREFIX) :], "big") for row in scanned]

    def all_found(self, buckets: RunIndex) -> bool:
        for each in self.committed:
            found = buckets.propose(each.changed(fingerprints=each.fingerprints[:1]))
            if not found.has_own or found.candidates != 1:
                return False
        return True


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "index")


def test_committed_postings_are_found_after_opening_again(store: Store) -> None:
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
        left.append(buckets)  # not closed: its thread continues, as before a later kill
        assert buckets.damaged() == []  # waits for its thread
    assert store.asked_for_texts == 0


def test_a_merged_run_takes_the_place_of_its_sources_in_the_folder(store: Store) -> None:
    buckets = store.open()
    for _ in range(20):
        store.write(buckets, 10)
        assert buckets.damaged() == []  # waits for its thread
    assert store.all_found(buckets)
    assert len(list(store.folder.glob("*.run"))) < 200 * 7 // FLUSH // 2


def test_the_log_stays_short_and_keeps_its_newest_row(store: Store) -> None:
    buckets = store.open()
    for _ in range(20):
        store.write(buckets, 10)
        assert buckets.damaged() == []
    assert len(store.log_rows()) <= 2 * FLUSH // 7 + 2
    assert store.log_rows()[-1] == 199


@pytest.mark.parametrize("groups", [1, 7, 8, 9, 40])
def test_a_closed_index_keeps_no_log_row_of_durable_runs(store: Store, groups: int) -> None:
    for _ in range(3):
        buckets = store.open()
        store.write(buckets, groups)
        buckets.close()
        ends = [int(path.stem.split("-")[1], 16) for path in store.folder.glob("*.run")]
        assert min(store.log_rows()) >= max(ends, default=0)
    again = store.open()
    assert store.all_found(again)
    assert store.asked_for_texts == 0


def test_rows_that_a_killed_process_left_go_with_the_next_writes(store: Store) -> None:
    killed = store.open()
    store.write(killed, FLUSH // 7 + 2)
    assert killed.damaged() == []  # waits for its thread
    rows = store.log_rows()
    again = store.open()
    for _ in range(3):  # fewer texts than a run needs
        store.write(again, 1)
        assert again.damaged() == []
    assert min(store.log_rows()) > min(rows)
    assert store.all_found(store.open())


def test_a_run_that_was_lost_after_closing_is_detected(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, -(-FLUSH // 7))  # the last group makes the run
    buckets.close()
    (run,) = store.folder.glob("*.run")
    run.unlink()
    assert store.all_found(store.open())
    assert store.asked_for_texts == 1


@pytest.mark.parametrize("lost", ["all", "newest", "oldest"])
def test_lost_runs_are_detected_and_rebuilt(store: Store, lost: str, caplog: pytest.LogCaptureFixture) -> None:
    buckets = store.open()
    for _ in range(4):
        store.write(buckets, 10)
        assert buckets.damaged() == []
    store.write(buckets, 2)  # the second says that the runs so far are durable
    buckets.close()
    runs = sorted(store.folder.glob("*.run"))
    if lost == "all":
        shutil.rmtree(store.folder)
    else:
        runs[0 if lost == "oldest" else -1].unlink()
    with caplog.at_level(logging.WARNING):
        again = store.open()
    assert "is rebuilt from the stored pages" in caplog.text
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


def test_a_damaged_part_is_listed_and_detected_by_look_ups(store: Store) -> None:
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
    store.all_found(again)  # it leads outside the run, so the runs are rebuilt, or to no text
    store.write(again, 40)  # merging reads all of it
    assert store.asked_for_texts == 1
    assert again.damaged() == []
    assert store.all_found(again)


def test_a_flipped_bit_in_a_text_number_is_listed_and_mended_by_the_next_open(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, 20)
    buckets.close()
    buckets = store.open()
    flip(sorted(store.folder.glob("*.run"))[-1], 9)
    (line,) = buckets.damaged()
    assert "texts" in line
    buckets.close()
    again = store.open()
    assert store.asked_for_texts == 1
    assert again.damaged() == [] and store.all_found(again)


def flip(path: Path, at: int) -> None:
    """Flip a bit of a byte of a file."""
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


def test_runs_that_have_each_the_name_of_the_other_are_rebuilt(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, 24)
    buckets.close()
    one, other = sorted(store.folder.glob("*.run"))[:2]
    raw = one.read_bytes(), other.read_bytes()
    one.write_bytes(raw[1])
    other.write_bytes(raw[0])
    again = store.open()
    assert store.asked_for_texts == 1
    assert again.damaged() == [] and store.all_found(again)


def test_damage_that_a_merge_meets_is_listed_too_and_the_next_write_mends_it(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, 20)
    buckets.close()
    again = store.open()
    flip(min(store.folder.glob("*.run")), 9)
    for _ in range(60):
        store.write(again, 1)
        assert store.asked_for_texts or any("texts" in line for line in again.damaged())
    assert store.asked_for_texts == 1
    assert again.damaged() == [] and store.all_found(again)


def test_a_rebuild_leaves_no_more_in_the_log_than_a_table_holds(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    buckets = store.open()
    store.write(buckets, 5)  # 35 texts: fewer than FLUSH
    buckets.rebuild()
    assert not list(store.folder.glob("*.run"))
    monkeypatch.setattr("docstore.dedup.runs.FLUSH_POSTINGS", 90)  # of 105
    buckets.rebuild()
    assert len(list(store.folder.glob("*.run"))) == 1
    assert store.all_found(buckets)
    buckets.close()
    assert store.all_found(store.open())


def test_a_rebuild_that_was_cut_short_is_begun_again(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, 20)
    store.cut_short_at = 60
    with pytest.raises(KeyboardInterrupt):
        buckets.rebuild()
    buckets.close()
    assert store.engine.read_row("meta", RUN_REBUILD_ROW)
    store.cut_short_at = None
    again = store.open()
    assert store.asked_for_texts == 2
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
    (problem,) = buckets.damaged()  # waits for the background thread, which has met the failure
    assert "EIO" in problem
    store.write(buckets, 30)
    assert store.all_found(buckets)
    assert caplog.text.count("continues in memory") >= 1
    log = store.log_rows()
    files.broken = False
    store.write(buckets, 60)
    assert buckets.damaged() == []
    store.write(buckets, 20)
    assert store.all_found(buckets)
    assert min(store.log_rows()) > min(log), "rows that runs hold must go again"
    buckets.close()
    assert store.all_found(store.open())
    assert store.asked_for_texts == 0


def test_an_index_whose_folder_vanished_is_rebuilt_while_it_is_open(store: Store) -> None:
    buckets = store.open()
    for _ in range(10):
        store.write(buckets, 10)
        assert buckets.damaged() == []
    assert store.log_rows()[0] > 0, "the log lacks what the runs have"
    shutil.rmtree(store.folder)
    for _ in range(30):
        store.write(buckets, 10)
        buckets.damaged()  # waits for the background thread
    assert store.asked_for_texts == 1
    assert store.all_found(buckets)
    assert len(store.log_rows()) < 100, "rows that runs hold must go again"
    buckets.close()
    assert store.all_found(store.open())
    assert store.asked_for_texts == 1


def live_numbers(store: Store) -> NDArray[np.uint64]:
    return np.array([each.own_number for each in store.committed], np.uint64)


def test_texts_that_are_gone_are_dropped_once_they_are_many(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, 40)
    buckets.begin_prune()
    assert buckets.prune(live_numbers(store)[10:]) == 0
    store.committed = store.committed[100:]
    buckets.begin_prune()
    assert buckets.prune(live_numbers(store)) > 100
    assert store.asked_for_texts == 0
    for again in before_and_after_close(store, buckets):
        assert store.all_found(again)
        assert texts_under(again, 50) == []


def before_and_after_close(store: Store, buckets: RunIndex) -> Iterator[RunIndex]:
    yield buckets
    buckets.close()
    yield store.open()


class Paused(Files):
    """Waits before a file takes its name, until somebody says so."""

    def __init__(self) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.waits = threading.Event()
        self.go_on.set()

    def rename(self, path: Path, target: Path) -> None:
        self.waits.set()
        self.go_on.wait()
        super().rename(path, target)


def put(store: Store, buckets: RunIndex, number: int) -> None:
    """A text as its page would be posted."""
    asked, new = query(number), NewPostings()
    if not buckets.propose(asked, new).has_own:
        buckets.post(new, asked)
    commit_postings(store.engine, buckets, new)
    store.committed.append(asked)


@pytest.mark.parametrize("known", [True, False])
def test_a_text_of_a_group_that_failed_is_in_the_log_once_it_is_written_again(store: Store, known: bool) -> None:
    buckets = store.open()
    put(store, buckets, 0)
    new = NewPostings()
    buckets.post(new, query(1))
    if not known:
        commit_postings(store.engine, buckets, new, known=False, is_applied=False)
    assert not buckets.propose(query(1)).has_own
    for _ in range(2):
        put(store, buckets, 1)
    store.committed.pop()
    for again in (buckets, store.open()):  # the first is not closed: a crash
        assert store.all_found(again)


def test_a_group_of_unknown_outcome_that_was_written_is_found_after_the_next_commit(store: Store) -> None:
    buckets = store.open()
    put(store, buckets, 0)
    for number in (1, 2):
        new = NewPostings()
        buckets.post(new, query(number))
        commit_postings(store.engine, buckets, new, known=False)
        store.committed.append(query(number))
    put(store, buckets, 3)
    assert buckets.damaged() == []  # waits for merges: the other index removes files that are not finished
    for again in (buckets, store.open()):  # the first is not closed: a crash
        assert store.all_found(again)
    store.write(buckets, 20)
    assert buckets.damaged() == []
    for again in (buckets, store.open()):
        assert store.all_found(again)


def test_a_group_of_unknown_outcome_that_was_written_is_found_before_the_next_commit(store: Store) -> None:
    buckets = store.open()
    put(store, buckets, 0)
    new = NewPostings()
    buckets.post(new, query(1))
    commit_postings(store.engine, buckets, new, known=False)
    assert buckets.propose(query(1)).has_own


def test_writers_continue_while_removed_texts_are_pruned(store: Store) -> None:
    files = Paused()
    buckets = store.open(files)
    store.write(buckets, 40)
    assert buckets.damaged() == []
    store.committed = store.committed[100:]
    live = live_numbers(store)
    buckets.begin_prune()
    put(store, buckets, 20)  # comes back after the rows were read
    files.go_on.clear()
    files.waits.clear()
    pruning = threading.Thread(target=buckets.prune, args=[live])
    pruning.start()
    files.waits.wait()
    put(store, buckets, 30)  # posted again while the runs are rewritten
    put(store, buckets, 30)
    put(store, buckets, 5000)
    store.committed.pop(-2)
    files.go_on.set()
    pruning.join()
    for again in before_and_after_close(store, buckets):
        assert store.all_found(again)
        assert texts_under(again, 50) == []
        assert again.propose(query(30)).has_own and not again.propose(query(40)).has_own
    assert store.asked_for_texts == 0


def test_compaction_lets_writers_go_on_while_buckets_are_pruned(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = threading.Lock()
    was_locked = []
    buckets = store.open()

    def recording(method: Callable[..., Any]) -> Callable[..., Any]:
        def recorded(*args: Any) -> Any:
            was_locked.append(lock.locked())
            return method(*args)

        return recorded

    monkeypatch.setattr(buckets, "begin_prune", recording(buckets.begin_prune))
    monkeypatch.setattr(buckets, "prune", recording(buckets.prune))
    store.write(buckets, 40)
    removed = Pruner(store.engine, buckets, lambda page, body: True, lock, lambda rows: None, NO_PAGES).run()
    assert removed > 100, "there are no rows of texts, so all of them are gone"
    assert was_locked == [True, False]


def test_runs_are_rewritten_only_in_the_background(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Writers wait for some steps a run, whatever its size."""
    threads = []

    merge = RunFiles.merge

    def recorded(files: RunFiles, name: Span, parts: Iterator[memoryview], size_bytes: int) -> None:
        def steps() -> Iterator[memoryview]:
            for part in parts:
                threads.append(threading.current_thread().name)
                yield part

        merge(files, name, steps(), size_bytes)

    monkeypatch.setattr(RunFiles, "merge", recorded)
    buckets = store.open()
    store.write(buckets, 40)
    store.committed = store.committed[100:]
    buckets.begin_prune()
    assert buckets.prune(live_numbers(store)) > 100
    assert set(threads) == {"runs"}
    assert store.asked_for_texts == 0


class FailsToRename(Files):
    """The disk gives so many more names to files, and refuses all others."""

    left = 1 << 30

    def rename(self, path: Path, target: Path) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(errno.EIO, "no more names")
        super().rename(path, target)


REMOVED = 140


def half_pruned(store: Store, begun: Callable[[RunIndex], None] = lambda buckets: None) -> RunIndex:
    """Two runs of which the smaller was rewritten without texts 0 to 139, before the rename of the other failed."""
    files = FailsToRename()
    buckets = store.open(files)
    for _ in range(25):  # merges end before the next group comes, so that the runs are the same each time
        store.write(buckets, 1)
        assert buckets.damaged() == []
    assert len(list(store.folder.glob("*.run"))) == 2
    store.committed = store.committed[REMOVED:]
    files.left = 1
    buckets.begin_prune()
    begun(buckets)
    buckets.prune(live_numbers(store))
    return buckets


def test_a_crash_while_texts_are_dropped_leaves_each_run_as_it_was_or_without_them(store: Store) -> None:
    half_pruned(store)
    again = store.open()
    assert store.all_found(again) and again.damaged() == []
    assert store.asked_for_texts == 0


def test_after_half_a_pruning_the_index_equals_the_disk(store: Store) -> None:
    """A text that is written again is posted if its run was rewritten, and not posted twice otherwise."""
    buckets = half_pruned(store)
    for number in range(1, REMOVED):
        put(store, buckets, number)
    for again in (buckets, store.open()):  # the first is not closed: a crash
        assert store.all_found(again)
    assert store.asked_for_texts == 0


def test_postings_of_a_batch_survive_half_a_pruning(store: Store) -> None:
    """The runs are opened again while a batch is in flight: missing texts are known, and the batch's postings stay."""
    new: list[NewPostings] = []

    def begun(buckets: RunIndex) -> None:
        new.append(NewPostings())
        buckets.post(new[0], query(9000))

    buckets = half_pruned(store, begun)
    assert buckets.propose(query(9000), new[0]).has_own and not buckets.propose(query(9000)).has_own
    dropped = [number for number in range(1, REMOVED) if not buckets.propose(query(number)).has_own]
    assert 0 < len(dropped) < REMOVED - 1
    commit_postings(store.engine, buckets, new[0])
    store.committed.append(query(9000))
    for number in range(1, REMOVED):
        put(store, buckets, number)
    again = store.open()
    assert store.all_found(again)
    assert store.asked_for_texts == 0


def test_a_text_under_longer_keys_is_found_after_a_full_bucket_has_lost_texts(store: Store) -> None:
    """The 64 texts of the full bucket go; what came later is under the next key of the chain."""

    def chained(number: int) -> IndexQuery:
        none = np.empty(0, np.uint64)
        fingerprints, runs = [number, 1 << 40], [1000 + number, 1 << 41]
        return IndexQuery(none, np.array(fingerprints, np.uint64), np.array(runs, np.uint64), number)

    buckets = store.open()
    for number in range(1, 201):
        proposal, new = buckets.propose(chained(number)), NewPostings()
        buckets.post(new, chained(number), proposal)
        commit_postings(store.engine, buckets, new)
    assert buckets.damaged() == []
    live = np.arange(66, 129, dtype=np.uint64)
    buckets.begin_prune()
    assert buckets.prune(live) > 0
    for again in before_and_after_close(store, buckets):
        found = set(again.propose(chained(500)).numbers) | set(again.propose(chained(500)).further)
        assert len(found & set(live.tolist())) >= 24 and RUN_TEXT_GONE not in found
        assert set(live.tolist()) <= set(texts_under(again, 1 << 41))
        assert not again.propose(chained(7)).has_own, "it is posted again when it is written again"


def test_a_group_of_any_size_is_one_row_of_bounded_cells(store: Store) -> None:
    buckets = store.open()
    new = NewPostings()
    for text in range(2500):
        buckets.post(new, text_under(text, np.arange(text, text + 80, dtype=np.uint64)))
    (row,) = buckets.log(new)
    assert len(row.mutations) == 3
    store.engine.mutate_rows([row], Durability.SYNC)
    again = RunIndex(store.engine, store.folder.with_name("other"), store.texts)
    assert len(texts_under(again, 1000)) == 64


class Full(Files):
    """A disk without space for another byte, once it is told to."""

    is_full = False

    def write(self, descriptor: int, data: Any) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "full")
        return super().write(descriptor, data)


def damage(store: Store, byte: int, place: str = "slices") -> None:
    """Byte 4 of the slices of every run, or all of its index, becomes another; in a mapped file, too."""
    for path in store.folder.glob("*.run"):
        raw = bytearray(path.read_bytes())
        texts, slices_bytes = (int.from_bytes(raw[at : at + 4], "little") for at in (len(raw) - 44, len(raw) - 24))
        slices = 8 + (texts * 6 + 7) // 8 * 8
        if place == "slices":
            raw[slices + 4] = byte
        else:
            raw[slices + slices_bytes : -56] = bytes((byte,)) * (len(raw) - 56 - slices - slices_bytes)
        path.write_bytes(raw)


def test_a_put_goes_on_without_a_damaged_run_while_the_disk_is_too_full_to_rebuild_it(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    files = Full()
    buckets = store.open(files)
    store.write(buckets, 20)
    buckets.close()
    buckets = store.open(files)
    damage(store, 3)
    files.is_full = True
    put(store, buckets, 500)
    for number in range(501, 520):
        put(store, buckets, number)
        assert buckets.propose(query(number)).has_own, "what is in memory is found"
    assert not buckets.propose(query(3)).has_own
    assert caplog.text.count("goes on without damaged postings") == 1
    assert len(caplog.records) <= 4
    files.is_full = False
    store.write(buckets, 60, group_texts=5)  # a rebuild is tried again as texts are written
    for again in before_and_after_close(store, buckets):
        assert store.all_found(again) and again.damaged() == []


def test_a_damaged_index_of_slices_is_detected_at_open(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, 20)
    buckets.close()
    damage(store, 0xFF, "index")
    again = store.open()
    assert store.asked_for_texts == 1
    assert store.all_found(again) and again.damaged() == []


def test_a_look_up_during_a_commit_does_not_rebuild_the_runs_without_the_texts_of_the_commit(store: Store) -> None:
    buckets = store.open()
    store.write(buckets, 20)
    buckets.close()
    buckets = store.open()
    damage(store, 3)
    new = NewPostings()
    buckets.post(new, query(900))
    rows = buckets.log(new)
    store.engine.mutate_rows(rows, Durability.SYNC)
    assert not buckets.propose(query(3)).has_own  # of another thread
    buckets.follow(rows, True)
    store.committed.append(query(900))
    again = store.open()  # a crash
    assert store.all_found(again) and store.asked_for_texts == 1


def test_a_dry_run_leaves_the_runs_of_its_store_alone(store: Store, tmp_path: Path) -> None:
    buckets = store.open()
    store.write(buckets, 20)
    buckets.close()
    buckets = store.open()
    damage(store, 3)
    dry = RunIndex(MemoryEngine(), tmp_path / "dry", store.texts, lower=buckets)
    assert not dry.propose(query(3)).has_own and store.asked_for_texts == 0
    assert buckets.propose(query(3)).has_own and store.asked_for_texts == 1
    assert dry.propose(query(3)).has_own


def test_a_check_of_the_runs_lets_look_ups_go_on(store: Store) -> None:
    files = Paused()
    buckets = store.open(files)
    files.go_on.clear()
    store.write(buckets, 20)
    files.waits.wait()
    found: list[list[str]] = []
    checks = threading.Thread(target=lambda: found.append(buckets.damaged()))
    checks.start()
    assert store.all_found(buckets), "the check waits for the background thread, and look-ups do not wait for it"
    assert not found
    files.go_on.set()
    checks.join()
    assert found == [[]]


def test_a_pruner_that_fails_keeps_nothing_in_memory(store: Store) -> None:
    class Fails(MemoryEngine):
        def scan(self, *args: Any, **options: Any) -> Iterator[Any]:
            if len(args) == 4:  # of the texts that have a page
                raise StorageError(errno.EIO, "broken")
            return super().scan(*args, **options)

    buckets = store.open()
    store.write(buckets, 40)
    pruner = Pruner(Fails(), buckets, lambda page, body: True, threading.Lock(), lambda rows: None, NO_PAGES)
    with pytest.raises(StorageError):
        pruner.run()
    assert buckets.prune(np.empty(0, np.uint64)) == 0, "that pruning has ended"


def test_files_of_others_in_the_folder_are_no_runs(store: Store) -> None:
    store.folder.mkdir(parents=True)
    (store.folder / f"{'x' * 16}-{'y' * 16}.run").write_text("foreign")
    buckets = store.open()
    store.write(buckets, 20)
    assert store.all_found(buckets)
