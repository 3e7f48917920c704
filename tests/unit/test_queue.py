"""The write queue: which requests share a commit, which fail alone, and who leads after an interrupted caller."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from unittest import mock

import pytest

from docstore.dedup.kernel import Kernel
from docstore.model.analysis import NOT_ANALYSED
from docstore.model.choices import VerdictKind
from docstore.model.errors import CommitUnknown, StorageError, StoreUnavailable
from docstore.model.types import Page, Policy, Previous, PutResult, Verdict, WriteOptions
from docstore.storage.writes import PolicyByVerdict, Prepared
from docstore.writing.prepare import Preparer
from docstore.writing.stream import GROUP_BYTES, GROUP_PAGES
from docstore.writing.writer import PORTION_PAGES, PageWriter, Request, WriteQueue

FLAG: PolicyByVerdict = {}
REJECT: PolicyByVerdict = {VerdictKind.EXACT: Policy.REJECT}


def prepared(name: str, length_bytes: int = 1) -> Prepared:
    return Prepared(Page(name, b"x" * length_bytes), b"", name, 0, NOT_ANALYSED, "", ())


def request(*names: str, policies: PolicyByVerdict = FLAG, length_bytes: int = 1) -> Request:
    return Request([prepared(name, length_bytes) for name in names], [policies] * len(names))


class Writes:
    """In place of a sequencer: blocks at the first group until it is released, and records its arguments."""

    def __init__(self) -> None:
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.groups: list[list[str]] = []
        self.policies: list[list[PolicyByVerdict]] = []
        self.judge: Callable[[list[str]], BaseException | None] = lambda names: None

    def write(
        self, pages: Sequence[Prepared], policies: Sequence[PolicyByVerdict], is_awaited: Callable[[], bool]
    ) -> tuple[list[PutResult], BaseException | None]:
        names = [one.url for one in pages][: PORTION_PAGES if is_awaited() else None]
        self.groups.append(names)
        self.policies.append(list(policies))
        if not self.reached.is_set():
            self.reached.set()
            assert self.go_on.wait(60)
        error = self.judge(names)
        done = names if error is None else []
        verdict = Verdict(VerdictKind.NEW)
        return [PutResult(name, 0, verdict, Previous.NONE, 0.0, "body") for name in done], error


@pytest.fixture
def writes() -> Writes:
    return Writes()


@pytest.fixture
def queue(writes: Writes) -> WriteQueue:
    return WriteQueue(writes)  # type: ignore[arg-type]


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as made:
        yield made


def busy(queue: WriteQueue, writes: Writes, pool: ThreadPoolExecutor, *behind: Request) -> list[Future[None]]:
    """Let a caller write "first"; while this runs, other requests are queued after it."""
    futures = [pool.submit(queue.write, request("first"))]
    assert writes.reached.wait(60)
    for one in behind:
        queue.add(one)
    return futures + [pool.submit(queue.write, one) for one in behind]


def answers(*requests: Request) -> list[list[str]]:
    shown = [[one.url if isinstance(one, PutResult) else str(one) for one in given.outcomes] for given in requests]
    assert all(given.is_answered for given in requests)
    return shown


def test_requests_that_wait_during_a_commit_are_the_next_group(
    queue: WriteQueue, writes: Writes, pool: ThreadPoolExecutor
) -> None:
    behind = [request("a"), request("b", "c", policies=REJECT), request("d")]
    futures = busy(queue, writes, pool, *behind)
    writes.go_on.set()
    for future in futures:
        future.result(60)
    assert writes.groups == [["first"], ["a", "b", "c", "d"]]
    assert writes.policies[1] == [FLAG, REJECT, REJECT, FLAG]
    assert answers(*behind) == [["a"], ["b", "c"], ["d"]]


def test_long_requests_go_on_after_the_short_ones_that_wait(
    queue: WriteQueue, writes: Writes, pool: ThreadPoolExecutor
) -> None:
    names = [[f"{name}{number}" for number in range(2 * PORTION_PAGES + 8)] for name in "ab"]
    behind = [request(*names[0]), request("c"), request(*names[1]), request("d", "e"), request("f")]
    futures = busy(queue, writes, pool, *behind)
    writes.go_on.set()
    for future in futures:
        future.result(60)
    (a, b), turn = names, PORTION_PAGES
    expected = [["first"], a[:turn], ["c"], b[:turn], ["d", "e", "f"], a[turn:], b[turn:]]
    assert writes.groups == expected
    assert answers(*behind) == [a, ["c"], b, ["d", "e"], ["f"]]


def test_many_submitted_pages_are_written_before_later_ones(queue: WriteQueue, writes: Writes) -> None:
    """Once, the rest of a long group of submitted pages was written after the next, short group of them."""
    order = [f"https://a.example/{number}" for number in range(3 * PORTION_PAGES)]
    writer = PageWriter(Preparer(Kernel(), lambda: 0), queue)
    with mock.patch.object(queue, "add", wraps=queue.add) as adding:
        first = writer.submit(Page(order[0], b"x"), WriteOptions(FLAG))
        assert writes.reached.wait(60)
        later = [writer.submit(Page(url, b"x"), WriteOptions(FLAG)) for url in order[1:]]
        writes.go_on.set()
        assert [future.result(60).url for future in (first, *later)] == order
    requests = [call.args[0] for call in adding.call_args_list]
    assert max(len(request.outcomes) for request in requests) > PORTION_PAGES
    assert not any(request.is_long for request in requests)


def test_a_long_request_that_fails_in_its_second_turn_keeps_the_answers_of_the_first(
    queue: WriteQueue, writes: Writes, pool: ThreadPoolExecutor
) -> None:
    names = [f"{number}" for number in range(3 * PORTION_PAGES)]
    writes.judge = lambda group: StorageError(28, "no room") if len(group) > PORTION_PAGES else None
    long, short = request(*names), request("short")
    futures = busy(queue, writes, pool, long, short)
    writes.go_on.set()
    for future in futures:
        future.result(60)
    kept, lost = long.outcomes[:PORTION_PAGES], long.outcomes[PORTION_PAGES:]
    assert [one.url for one in kept if isinstance(one, PutResult)] == names[:PORTION_PAGES]
    assert len(lost) == 2 * PORTION_PAGES
    assert all(isinstance(one, StorageError) for one in lost)
    assert answers(short) == [["short"]]


def test_a_single_caller_waits_for_no_other(queue: WriteQueue, writes: Writes) -> None:
    writes.go_on.set()
    for name in ("a", "b"):
        queue.write(request(name))
    assert writes.groups == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("sizes", "groups"),
    [
        ([(1, 1)] * (GROUP_PAGES + 2), [GROUP_PAGES, 2]),
        ([(PORTION_PAGES, 1)] * (GROUP_PAGES // PORTION_PAGES) + [(2, 1), (1, 1)], [GROUP_PAGES, 3]),
        ([(1, 1), (1, GROUP_BYTES + 1), (1, 1), (1, 1)], [1, 1, 2]),
        ([(1, GROUP_BYTES // 2), (1, GROUP_BYTES // 2), (1, 1)], [2, 1]),
    ],
)
def test_a_group_is_bounded_and_a_long_page_is_a_group_of_its_own(
    queue: WriteQueue, writes: Writes, pool: ThreadPoolExecutor, sizes: list[tuple[int, int]], groups: list[int]
) -> None:
    behind = [request(*"x" * count, length_bytes=length) for count, length in sizes]
    futures = [pool.submit(queue.write, request("first"))]
    assert writes.reached.wait(60)
    for one in behind:
        queue.add(one)
    writes.go_on.set()
    for one in behind:
        queue.write(one)
    futures[0].result(60)
    assert [len(group) for group in writes.groups[1:]] == groups


def test_a_page_that_cannot_be_written_fails_its_group(
    queue: WriteQueue, writes: Writes, pool: ThreadPoolExecutor
) -> None:
    writes.judge = lambda names: ValueError("bad page") if "bad" in names else None
    behind = [request("a"), request("b", "bad", "c"), request(*"d" * GROUP_PAGES)]
    futures = busy(queue, writes, pool, *behind)
    writes.go_on.set()
    for future in futures:
        future.result(60)
    assert answers(*behind) == [["bad page"], ["bad page"] * 3, ["d"] * GROUP_PAGES]


@pytest.mark.parametrize("error", [StorageError("disk full"), CommitUnknown("who knows")])
def test_a_group_that_fails_on_disk_fails_its_own_pages_once(
    queue: WriteQueue, writes: Writes, pool: ThreadPoolExecutor, error: Exception
) -> None:
    writes.judge = lambda names: error if "a" in names else None
    behind = [request("a"), request("b"), *(request(*"c" * GROUP_PAGES) for _ in range(2))]
    futures = busy(queue, writes, pool, *behind)
    writes.go_on.set()
    for future in futures:
        future.result(60)
    assert [len(group) for group in writes.groups] == [1, 2, GROUP_PAGES, GROUP_PAGES]
    assert [one.outcomes[-1] is error for one in behind] == [True, True, False, False]


def test_closing_finishes_the_running_group_and_fails_the_rest(
    queue: WriteQueue, writes: Writes, pool: ThreadPoolExecutor
) -> None:
    behind = request("late")
    first, _ = busy(queue, writes, pool, behind)
    closing = pool.submit(queue.close)
    with pytest.raises(StoreUnavailable):
        while True:
            queue.check()
    assert not closing.done()
    writes.go_on.set()
    closing.result(60)
    first.result(60)
    pool.shutdown()
    assert isinstance(behind.outcomes[0], StoreUnavailable) and "closed before this page was written" in str(
        behind.outcomes[0]
    )
    assert writes.groups == [["first"]]
    with pytest.raises(StoreUnavailable):
        queue.write(request("later"))


def test_a_queued_request_is_answered_after_closing(queue: WriteQueue) -> None:
    queued = request("queued")
    queue.add(queued)
    queue.close()
    queue.write(queued)
    assert isinstance(queued.outcomes[0], StoreUnavailable)


def test_after_an_interrupted_leader_the_next_caller_leads(
    queue: WriteQueue, writes: Writes, pool: ThreadPoolExecutor
) -> None:
    interrupts = [KeyboardInterrupt()]
    writes.judge = lambda names: interrupts.pop() if "a" in names and interrupts else None
    behind = [request("a"), request("b"), request("c")]
    futures = busy(queue, writes, pool, *behind)
    writes.go_on.set()
    with pytest.raises(KeyboardInterrupt):
        futures[1].result(60)
    for future in futures[2:]:
        future.result(60)
    assert writes.groups == [["first"], ["a", "b", "c"], ["b", "c"]]
    assert answers(*behind[1:]) == [["b"], ["c"]]


def test_pages_of_an_interrupted_follower_are_not_written(
    queue: WriteQueue, writes: Writes, pool: ThreadPoolExecutor
) -> None:
    """A signal just before the wait is handled only after it, so here the wait itself raises."""
    follower, other = request("follower"), request("other")
    futures = busy(queue, writes, pool)
    follower.wakeup = mock.Mock()
    follower.wakeup.acquire.side_effect = KeyboardInterrupt
    with pytest.raises(KeyboardInterrupt):
        queue.write(follower)
    assert follower.is_queued
    futures.append(pool.submit(queue.write, other))
    writes.go_on.set()
    for future in futures:
        future.result(60)
    assert answers(other) == [["other"]]
    queue.write(request("again"))
    assert writes.groups[-1] == ["again"]


class InterruptedLock:
    """A lock whose nth `acquire` is interrupted during the wait."""

    def __init__(self, nth: int) -> None:
        self._lock = threading.RLock()
        self._left = nth

    def __enter__(self) -> None:
        self._left -= 1
        if not self._left:
            raise KeyboardInterrupt
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@pytest.mark.parametrize("nth", range(1, 6))
def test_a_caller_interrupted_at_a_lock_blocks_no_other_caller(
    writes: Writes, pool: ThreadPoolExecutor, nth: int
) -> None:
    writes.go_on.set()
    with mock.patch("threading.Lock", lambda: InterruptedLock(nth)):
        queue = WriteQueue(writes)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        queue.write(request("a"))
    after = request("b")
    pool.submit(queue.write, after).result(60)
    assert [one.url for one in after.outcomes if isinstance(one, PutResult)] == ["b"]


def test_a_forked_child_is_refused_while_the_parent_writes(
    queue: WriteQueue, writes: Writes, pool: ThreadPoolExecutor
) -> None:
    futures = busy(queue, writes, pool)
    child = os.fork()
    if child == 0:
        try:
            queue.write(request("child"))
        except StoreUnavailable:
            os._exit(7)
        os._exit(8)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    writes.go_on.set()
    futures[0].result(60)
