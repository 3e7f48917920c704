"""Writes of one store from many callers: slow sources, shared commits, asyncio, and callers that end early."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import docstore
from docstore import Durability, Page, PutResult, Schema, StorageError, StoreUnavailable
from docstore.dedup.kernel import Kernel
from docstore.model.errors import InvalidArgument
from docstore.storage.writes import Prepared
from docstore.store import DocumentStore
from docstore.tablets.layout import StoreDirectory
from docstore.writing import writer
from docstore.writing.judge import View
from docstore.writing.prepare import Preparer
from docstore.writing.stream import GROUP_BYTES, GROUP_PAGES
from docstore.writing.writer import PORTION_PAGES, Sequencer, WriteQueue

T0 = 1_700_000_000_000_000


class Groups:
    """Records the sizes of the groups that a store writes; the group number `stops` blocks until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.written = threading.Condition()
        self.stops: Callable[[list[str]], bool] = lambda urls: False
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.fails: Callable[[list[str]], Exception | None] = lambda urls: None
        write = Sequencer.write

        def noted(sequencer: Sequencer, pages: list[Prepared], *others: Any) -> object:
            urls = [one.url for one in pages]
            if self.stops(urls):
                self.reached.set()
                assert self.go_on.wait(60)
            if error := self.fails(urls):
                return [], error
            written = write(sequencer, pages, *others)
            with self.written:
                self.sizes.append(len(written[0]))
                self.written.notify_all()
            return written

        monkeypatch.setattr(Sequencer, "write", noted)

    def wait(self, pages: int) -> None:
        """Until so many pages are committed."""
        with self.written:
            assert self.written.wait_for(lambda: sum(self.sizes) >= pages, 60)


@pytest.fixture
def groups(store: DocumentStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[Groups]:
    made = Groups(monkeypatch)
    yield made
    made.go_on.set()


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """No source counts as slow, so that a busy machine splits no groups."""
    monkeypatch.setattr("docstore.writing.stream.GROUP_SECONDS", 1e9)


def page(number: int) -> Page:
    return Page(f"https://a.example/{number}", b"<p>page %d" % number, fetched_at=T0)


def pages(count: int) -> list[Page]:
    return [page(number) for number in range(count)]


class Sure(list[Page]):
    """Pages that arrive slowly but claim to be in memory: the second is read before the first is answered."""

    def __init__(self, source: Iterator[Page]) -> None:
        super().__init__()
        self.source = source

    def __iter__(self) -> Iterator[Page]:
        return self.source


# --- sources of pages


@pytest.mark.parametrize("threads", [1, 2])
def test_a_slow_source_gets_each_answer_before_it_is_asked_again(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr("docstore.writing.stream.GROUP_SECONDS", -1)  # any source is slow
    answered: list[PutResult] = []

    def source() -> Iterator[Page]:
        for number in range(3):
            assert len(answered) == number
            yield page(number)

    for result in store.put_pages(source(), threads=threads):
        answered.append(result)
    assert [result.stored for result in answered] == ["body"] * 3


@pytest.mark.usefixtures("fast")
def test_the_first_answer_comes_before_the_second_page_is_asked_for(store: DocumentStore) -> None:
    answered: list[PutResult] = []

    def source() -> Iterator[Page]:
        yield page(0)
        assert len(answered) == 1
        yield page(1)

    for result in store.put_pages(source()):
        answered.append(result)
    assert len(answered) == 2


def test_pages_are_committed_while_a_slow_source_reads_the_next(store: DocumentStore, groups: Groups) -> None:
    def source() -> Iterator[Page]:
        yield from pages(5)
        groups.wait(5)
        assert page(4).url in store
        yield page(5)

    assert len(list(store.put_pages(source()))) == 6


def test_prepared_pages_are_committed_while_the_next_one_is_awaited(store: DocumentStore, groups: Groups) -> None:
    ready = prepared(store, 3)

    def source() -> Iterator[Prepared]:
        yield from ready[:2]
        groups.wait(2)
        yield ready[2]

    assert [result.stored for result in store.put_prepared(source())] == ["body"] * 3


def prepared(store: DocumentStore, count: int) -> list[Prepared]:
    kernel = Kernel(extractor=store.schema.extractor, shingle_words=store.schema.shingle_words)
    return Preparer(kernel, lambda: T0).prepare(pages(count))


@pytest.mark.usefixtures("fast")
@pytest.mark.parametrize("threads", [1, 2])
def test_a_fast_source_fills_whole_groups(store: DocumentStore, groups: Groups, threads: int) -> None:
    list(store.put_pages(pages(GROUP_PAGES + 3), threads=threads))
    assert groups.sizes == [GROUP_PAGES, 3]
    list(store.put_pages(iter(pages(GROUP_PAGES + 3)), threads=threads))
    assert groups.sizes[2:] == [1, GROUP_PAGES, 2]


@pytest.mark.usefixtures("fast")
def test_a_long_page_is_alone_and_answered_before_the_next_is_asked_for(store: DocumentStore, groups: Groups) -> None:
    long = Page("https://long.example/", b"x" * (GROUP_BYTES + 1), fetched_at=T0)
    answered: list[PutResult] = []

    def source() -> Iterator[Page]:
        yield from pages(3)
        yield long
        assert len(answered) == 4
        yield page(3)

    for result in store.put_pages(source()):
        answered.append(result)
    assert groups.sizes == [1, 2, 1, 1]


def test_a_source_is_read_by_the_thread_that_asks(store: DocumentStore) -> None:
    readers = set()

    def source() -> Iterator[Page]:
        for number in range(40):
            readers.add(threading.get_ident())
            yield page(number)

    assert len(list(store.put_pages(source()))) == 40
    assert readers == {threading.get_ident()}


def test_nothing_is_read_or_written_before_the_first_result_is_asked_for(store: DocumentStore, groups: Groups) -> None:
    asked: list[int] = []

    def source() -> Iterator[Page]:
        asked.append(1)
        yield page(0)

    results = store.put_pages(source())
    assert asked == [] and groups.sizes == []
    assert len(list(results)) == 1


@pytest.mark.usefixtures("fast")
def test_an_error_of_the_source_is_raised_after_all_earlier_answers(store: DocumentStore) -> None:
    def source() -> Iterator[Page]:
        yield from pages(20)
        raise ZeroDivisionError("the source")

    answered = []
    with pytest.raises(ZeroDivisionError):
        for result in store.put_pages(source()):
            answered.append(result)
    assert len(answered) == 20 and page(19).url in store


@pytest.mark.parametrize("collects", [True, False])
def test_garbage_is_collected_between_groups_alone_and_only_if_the_caller_wants_it(
    tmp_path: Path, collects: bool
) -> None:
    seen: list[bool] = []
    fails = False

    def clock() -> int:
        seen.append(gc.isenabled())
        if fails and not seen[-1]:
            raise StorageError("disk full")
        return T0

    before = gc.isenabled()
    opened = StoreDirectory(tmp_path / "store").open(create=True, schema=Schema())
    with DocumentStore(opened, Durability.NONE, clock=clock) as store:
        try:
            (gc.enable if collects else gc.disable)()
            store.put_page("https://a.example/", b"<p>tea")
            assert not seen[-1] and gc.isenabled() is collects
            fails = True
            with pytest.raises(StorageError):
                store.put_page("https://a.example/other", b"<p>tea")
            assert not seen[-1] and gc.isenabled() is collects
        finally:
            (gc.enable if before else gc.disable)()


def test_the_collector_is_on_after_two_stores_have_written_at_once(tmp_path: Path) -> None:
    pages = [(f"https://a.example/{number}", b"<p>page %d" % number) for number in range(200)]

    def write(name: str) -> None:
        with docstore.open(tmp_path / name, create=True, durability="none") as store:
            for url, body in pages:
                store.put_page(url, body)

    threads = [threading.Thread(target=write, args=(name,)) for name in ("one", "other")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert gc.isenabled()


@pytest.mark.parametrize("threads", [1, 2])
def test_nothing_is_written_after_a_failed_group(
    store: DocumentStore, groups: Groups, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    failed, taken = threading.Event(), threading.Event()
    prepare = Preparer.prepare

    def noted(preparer: Preparer, given: list[Page], **options: bool) -> list[Prepared]:
        if page(GROUP_PAGES) in given:  # alone, when its group is taken to be written
            taken.set()
        return prepare(preparer, given, **options)

    monkeypatch.setattr(Preparer, "prepare", noted)

    def fail(urls: list[str]) -> Exception | None:
        if page(0).url not in urls:
            return None
        failed.set()
        return StorageError("disk full")

    def source() -> Iterator[Page]:
        yield from pages(GROUP_PAGES)
        yield page(GROUP_PAGES)
        assert failed.wait(60) and taken.wait(60)
        for number in range(3):
            store.put_page(f"https://b.example/{number}", b"x")
        yield page(GROUP_PAGES + 1)

    groups.fails = fail
    with pytest.raises(StorageError, match="disk full"):
        list(store.put_pages(Sure(source()), threads=threads))
    assert page(GROUP_PAGES).url not in store


@pytest.mark.usefixtures("fast")
def test_an_idle_iterator_reads_little_and_blocks_no_other_caller(store: DocumentStore, groups: Groups) -> None:
    read: list[int] = []

    def source() -> Iterator[Page]:
        for number in range(10**6):
            read.append(number)
            yield Page(f"https://b.example/{number}", b"x")

    results = store.put_pages(source())
    for _ in range(2):
        next(results)
    assert len(read) <= 2 * GROUP_PAGES + 1
    assert store.put_page("https://a.example/", b"x").stored == "body"
    assert len(list(store.put_pages(pages(3)))) == 3
    del results
    gc.collect()
    assert store.put_page("https://a.example/2", b"x").stored == "body"


@pytest.mark.usefixtures("fast")
def test_an_iterator_may_be_dropped_by_a_thread_that_its_writes_wait_for(store: DocumentStore, groups: Groups) -> None:
    groups.stops = lambda urls: page(GROUP_PAGES + 1).url in urls
    results = store.put_pages(iter(pages(600)))
    next(results)
    next(results)
    with store.committer.lock:  # as if the garbage collector drops it in a thread that deletes
        assert groups.reached.wait(60)
        groups.go_on.set()
        dropping = threading.Thread(target=results.close, daemon=True)  # type: ignore[attr-defined]
        dropping.start()
        dropping.join(60)
        assert not dropping.is_alive()
    assert store.put_page("https://b.example/", b"x").stored == "body"


# --- callers that share commits


def test_pages_of_many_threads_share_a_commit_each_with_its_own_policies(store: DocumentStore, groups: Groups) -> None:
    store.put_page("https://a.example/original", b"<p>the same", fetched_at=T0)
    groups.stops = lambda urls: urls == ["https://a.example/0"]
    policies: list[dict[str, str]] = [{"exact": ("flag", "reject", "reference")[number % 3]} for number in range(12)]
    results: dict[int, PutResult] = {}

    def put(number: int) -> None:
        url = f"https://a.example/{number}"
        results[number] = store.put_page(url, b"<p>the same", fetched_at=T0, policies=policies[number])

    threads = [threading.Thread(target=put, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
        assert thread is not threads[0] or groups.reached.wait(60)
    groups.go_on.set()
    for thread in threads:
        thread.join(60)
    stored = {"flag": "body", "reject": "rejected", "reference": "reference"}
    assert [results[number].stored for number in range(12)] == [stored[one["exact"]] for one in policies]


@pytest.mark.usefixtures("fast")
def test_a_single_page_is_written_before_a_long_group_ends(
    store: DocumentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged: list[str] = []
    is_queued = threading.Event()
    judge, add = View.judge, WriteQueue.add

    def noted(view: View, portion: list[Prepared], *others: Any) -> Any:
        judged.extend(one.url for one in portion)
        if len(judged) == 2 * PORTION_PAGES:
            single.start()
            assert is_queued.wait(60)
        return judge(view, portion, *others)

    def added(queue: WriteQueue, request: writer.Request) -> None:
        add(queue, request)
        if not request.is_long:
            is_queued.set()

    monkeypatch.setattr(View, "judge", noted)
    monkeypatch.setattr(WriteQueue, "add", added)
    single = threading.Thread(target=store.put_page, args=("https://b.example/", b"<p>single"))
    results = list(store.put_pages(pages(4 * PORTION_PAGES), threads=1))
    single.join(60)
    assert judged.index("https://b.example/") == 2 * PORTION_PAGES
    assert [result.url for result in results] == [one.url for one in pages(4 * PORTION_PAGES)]
    assert len(store) == 4 * PORTION_PAGES + 1


def test_tasks_share_commits_and_a_page_that_is_refused_fails_alone(store: DocumentStore, groups: Groups) -> None:
    async def main() -> list[PutResult | BaseException]:
        puts = [store.put_page_async(one.url, one.body, fetched_at=T0, links=True) for one in pages(100)]
        bad = store.put_page_async("no url at all")
        return await asyncio.gather(*puts[:50], bad, *puts[50:], return_exceptions=True)

    store.put_page("https://b.example/", b"loaded")
    results = asyncio.run(main())
    refused = results.pop(50)
    assert isinstance(refused, InvalidArgument) and "scheme" in str(refused)
    assert [one.url for one in results if isinstance(one, PutResult)] == [one.url for one in pages(100)]
    assert sum(groups.sizes) == 102 and len(groups.sizes) < 20


def test_a_task_that_is_cancelled_in_time_writes_nothing(store: DocumentStore, groups: Groups) -> None:
    async def main() -> None:
        first = asyncio.create_task(store.put_page_async(page(0).url, b"0"))
        await asyncio.to_thread(groups.reached.wait, 60)
        second = asyncio.create_task(store.put_page_async(page(1).url, b"1"))
        third = asyncio.create_task(store.put_page_async(page(2).url, b"2"))
        await asyncio.sleep(0)
        third.cancel()
        groups.go_on.set()
        await asyncio.gather(first, second)
        with pytest.raises(asyncio.CancelledError):
            await third

    store.put_page("https://b.example/", b"loaded")
    groups.stops = lambda urls: not groups.reached.is_set()
    asyncio.run(main())
    assert page(1).url in store


def test_closing_a_store_fails_waiting_pages_with_their_names(store: DocumentStore, groups: Groups) -> None:
    results = store.put_pages(iter(pages(600)))
    assert next(results).stored == "body"
    assert next(results).stored == "body"
    store.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        list(results)
    with pytest.raises(StoreUnavailable, match="closed"):
        asyncio.run(store.put_page_async("https://a.example/", b"x"))


def test_a_forked_child_closes_its_copy_while_the_parent_writes(store: DocumentStore, groups: Groups) -> None:
    groups.stops = lambda urls: True
    writing = threading.Thread(target=store.put_page, args=("https://a.example/", b"x"))
    writing.start()
    assert groups.reached.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        store.close()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    groups.go_on.set()
    writing.join(60)
    assert "https://a.example/" in store


def test_an_interpreter_ends_with_unfinished_writes(tmp_path: Path) -> None:
    program = """
import asyncio, sys, threading
import docstore
store = docstore.open(sys.argv[1], create=True, durability="none")
def source():
    for number in range(10**6):
        yield docstore.Page(f"https://a.example/{number}", b"x")
results = store.put_pages(source())
print(next(results).stored, next(results).stored)
other = store.put_pages(source())
async def main():
    task = asyncio.create_task(store.put_page_async("https://b.example/", b"x"))
    await asyncio.sleep(0)
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "s")], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "body body\n", "")
