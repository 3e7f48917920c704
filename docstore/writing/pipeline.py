"""Pages in, results out: a caller's pages are prepared, written through the queue, and answered in input order.

Knows what prepares pages, and the queue.  A source is read in its caller's own thread, to which it may belong, as a
cursor of SQLite does.  Other threads analyse and write what has been read: a slow source is not waited for.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby
from typing import Generic, TypeVar

from docstore.model.errors import InvalidArgument
from docstore.model.keys import url_of
from docstore.model.types import Page, PutResult, WriteOptions
from docstore.writing.prepare import BATCH_BYTES, BATCH_PAGES, Prepared, Preparer, body_bytes
from docstore.writing.queue import Request, WriteQueue
from docstore.writing.sequencer import GROUP_BYTES, GROUP_PAGES

GROUP_SECONDS = 0.1
"""A group is written when its first page was read so long ago; a source that takes longer for a page is a slow one."""
MOST_GROUPS = 2
"""Groups of one caller that are read and not answered yet."""
SUBMITTERS = 2
"""Threads for pages without a thread of their own: one prepares pages while the other waits for the disk."""

_Given = TypeVar("_Given")
_Outcomes = list[PutResult | Exception]
_Submitted = tuple[Page, WriteOptions, Future[PutResult]]


class PageWriter:
    """Analyses and writes pages.  Thread-safe."""

    def __init__(self, preparer: Preparer, queue: WriteQueue) -> None:
        self._preparer = preparer
        self._queue = queue
        self._lock = threading.Lock()
        self._submitted: deque[_Submitted] = deque()
        self._submitters = 0
        self._preparing = threading.Lock()
        """Held by the one submitter that prepares pages, until they have their place in the queue."""

    def put(self, page: Page, options: WriteOptions) -> PutResult:
        """Write one page; the answer is committed.

        Raises:
            InvalidArgument: it cannot be stored.
        """
        return _accepted(self._write(self._prepare([page], options), options)[0])

    def put_all(
        self, pages: Iterable[Page | tuple[str, bytes]], options: WriteOptions, threads: int
    ) -> Iterator[PutResult]:
        """Write pages; yields results in input order, each after its group is committed.

        Args:
            pages: to be written.
            options: of all of them.
            threads: that analyse pages.
        """
        if threads < 1:
            raise InvalidArgument(f"threads must be at least 1, not {threads}")
        pool = ThreadPoolExecutor(threads, "docstore-analyse")
        stream: _Stream[Page] = _Stream(
            lambda batch: pool.submit(self._prepare, batch, options).result,
            lambda group: self._write(group, options),
            self._queue.check,
        )
        try:
            # Unlike a generator, `map` does not hold a long page until the next one is there.
            yield from stream.answers(map(_as_page, pages), body_bytes, is_in_memory=isinstance(pages, Sized))
        finally:
            pool.shutdown(wait=False)  # nothing is left to do, or the group that is being written needs it

    def put_prepared(self, prepared: Iterable[Prepared], options: WriteOptions) -> Iterator[PutResult]:
        """Write pages that were prepared elsewhere, as `put_all` does."""
        stream: _Stream[Prepared] = _Stream(
            lambda batch: batch.copy, lambda group: self._write(group, options), self._queue.check
        )
        yield from stream.answers(prepared, lambda one: body_bytes(one.page), is_in_memory=False)

    def submit(self, page: Page, options: WriteOptions) -> Future[PutResult]:
        """Write one page in another thread, which ends when nothing is left to write; pages keep their order."""
        future: Future[PutResult] = Future()
        with self._lock:
            self._submitted.append((page, options, future))
            if self._submitters < SUBMITTERS:
                threading.Thread(target=self._write_submitted, name="docstore-submitted").start()
                self._submitters += 1
        return future

    def _write_submitted(self) -> None:
        while True:
            with self._preparing:
                taken = self._take_submitted()
                if not taken:
                    return
                try:
                    prepared = self._prepare_submitted(taken)
                    request = Request(
                        [_bare(one, options) for one, (_, options, _) in zip(prepared, taken, strict=True)],
                        [options.policies for _, options, _ in taken],
                        in_order=False,
                    )
                    self._queue.add(request)
                except Exception as error:  # it is its callers', not this thread's
                    for _, _, future in taken:
                        future.set_exception(error)
                    continue
            self._queue.write(request)
            for (_, options, future), one, outcome in zip(taken, prepared, request.outcomes, strict=True):
                try:
                    future.set_result(_accepted(_outcome(outcome, one, options)))
                except Exception as error:
                    future.set_exception(error)
            del taken, prepared, request

    def _take_submitted(self) -> list[_Submitted]:
        """The next pages that still are waited for, as many as a group takes; none ends the thread."""
        taken: list[_Submitted] = []
        taken_bytes = 0
        with self._lock:
            while self._submitted and len(taken) < GROUP_PAGES and taken_bytes < GROUP_BYTES:
                page, options, future = self._submitted.popleft()
                if future.set_running_or_notify_cancel():
                    taken.append((page, options, future))
                    taken_bytes += body_bytes(page)
            self._submitters -= not taken
        return taken

    def _prepare_submitted(self, taken: Sequence[_Submitted]) -> list[Prepared]:
        prepared: list[Prepared] = []
        for _, alike in groupby(taken, lambda one: one[1]._replace(policies={})):
            some = list(alike)
            prepared += self._prepare([page for page, _, _ in some], some[0][1])
        return prepared

    def _prepare(self, pages: Sequence[Page], options: WriteOptions) -> list[Prepared]:
        return self._preparer.prepare(pages, anchors=options.anchors or options.links, any_time=options.any_time)

    def _write(self, prepared: list[Prepared], options: WriteOptions) -> _Outcomes:
        """Write pages that have all been read from one source."""
        if not options.links:
            request = Request(prepared, [options.policies] * len(prepared))
            self._queue.write(request)
            return request.outcomes
        request = Request([_bare(one, options) for one in prepared], [options.policies] * len(prepared))
        self._queue.write(request)
        return [_outcome(outcome, one, options) for outcome, one in zip(request.outcomes, prepared, strict=True)]


class _Group(Generic[_Given]):
    """Pages of one source as they are read, until they are taken to be written.

    Args:
        prepare: begins to prepare pages; -> what gives them.
    """

    def __init__(self, prepare: Callable[[list[_Given]], Callable[[], list[Prepared]]]) -> None:
        self._prepare = prepare
        self._lock = threading.Lock()
        self._batch: list[_Given] = []
        self._batch_bytes = 0
        self._ready: deque[Callable[[], list[Prepared]]] = deque()
        self._pages = self._bytes = 0
        self._is_taken = False
        self._ends = time.monotonic() + GROUP_SECONDS
        self._is_complete = threading.Event()

    def add(self, page: _Given, length_bytes: int) -> bool:
        """Add a page; False where the group has been taken."""
        with self._lock:
            if self._is_taken:
                return False
            self._pages += 1
            self._bytes += length_bytes
            self._batch.append(page)
            self._batch_bytes += length_bytes
            if len(self._batch) >= BATCH_PAGES or self._batch_bytes >= BATCH_BYTES:
                self._end_batch()
        return True

    def is_full(self) -> bool:
        """Whether it has as many pages or bytes as are written at once."""
        return self._pages >= GROUP_PAGES or self._bytes >= GROUP_BYTES

    def complete(self) -> None:
        """Say that no more pages come."""
        self._is_complete.set()

    def take(self) -> list[Prepared]:
        """Its pages, ready, once it is complete or GROUP_SECONDS old."""
        self._is_complete.wait(max(0.0, self._ends - time.monotonic()))
        with self._lock:
            self._is_taken = True
            self._end_batch()
        prepared: list[Prepared] = []
        while self._ready:  # a long page is not held here while it is written
            prepared += self._ready.popleft()()
        return prepared

    def _end_batch(self) -> None:
        if self._batch:
            self._ready.append(self._prepare(self._batch))
        self._batch, self._batch_bytes = [], 0


class _Stream(Generic[_Given]):
    """One source of pages and its answers.

    Args:
        prepare: as of a group.
        write: a group; -> an outcome for each of its pages.
        check: refuses whoever must not write.
    """

    def __init__(
        self,
        prepare: Callable[[list[_Given]], Callable[[], list[Prepared]]],
        write: Callable[[list[Prepared]], _Outcomes],
        check: Callable[[], None],
    ) -> None:
        self._prepare = prepare
        self._write = write
        self._check = check
        self._has_failed = self._is_dropped = False

    def answers(
        self, source: Iterable[_Given], size: Callable[[_Given], int], *, is_in_memory: bool
    ) -> Iterator[PutResult]:
        """Read a source, write its pages, and give their results.

        Of a fast source whole groups are written, whatever the threads do, and results are given between two groups.
        Of a slow one each page is answered before the next is asked for.

        Args:
            source: read in the thread that asks for results.
            size: length of a page in bytes.
            is_in_memory: no page has to be waited for; else the first one is answered before the second is asked for.
        """
        pages = iter(source)
        window: deque[Future[_Outcomes]] = deque()
        group: _Group[_Given] | None = None
        failure: Exception | None = None
        is_slow = not is_in_memory
        waits = True
        writer = ThreadPoolExecutor(1, "docstore-write")
        try:
            while True:
                asked = time.monotonic()
                try:
                    page = next(pages, None)
                except Exception as error:  # raised when what was read before it has been answered
                    failure = error
                    break
                if page is None:
                    break
                is_slow = is_slow or time.monotonic() - asked > GROUP_SECONDS
                length_bytes = size(page)
                is_long = length_bytes > GROUP_BYTES
                if is_long:  # nothing is held beside it
                    if group is not None:
                        group.complete()
                        group = None
                    yield from self._results(window, 0)
                if group is None or not group.add(page, length_bytes):
                    yield from self._results(window, MOST_GROUPS - 1)
                    group = _Group(self._prepare)
                    group.add(page, length_bytes)
                    window.append(writer.submit(self._write_group, group))
                del page
                if is_slow or is_long or group.is_full():
                    group.complete()
                    group = None
                    yield from self._results(window, 0 if is_slow or is_long else MOST_GROUPS - 1)
                    is_slow = False
            if group is not None:
                group.complete()
            yield from self._results(window, 0)
        except GeneratorExit:
            # The collector of garbage may close this in a thread that holds what the writing one waits for.
            waits = False
            raise
        finally:
            self._is_dropped = True
            if group is not None:
                group.complete()
            writer.shutdown(wait=waits, cancel_futures=True)
        if failure is not None:
            raise failure

    def _results(self, window: deque[Future[_Outcomes]], most: int) -> Iterator[PutResult]:
        """The results of the first groups, until no more than `most` are left."""
        while len(window) > most:
            self._check()  # in a fork the threads that write are missing
            for outcome in window.popleft().result():
                if isinstance(outcome, Exception):
                    raise outcome
                yield outcome

    def _write_group(self, group: _Group[_Given]) -> _Outcomes:
        """Write a group, unless one before it has failed: what is written of a source is its beginning."""
        has_failed, self._has_failed = self._has_failed, True
        prepared = group.take()
        if has_failed or self._is_dropped:
            return []
        outcomes = self._write(prepared)
        self._has_failed = isinstance(outcomes[-1], Exception)
        return outcomes


def _as_page(given: Page | tuple[str, bytes]) -> Page:
    return given if isinstance(given, Page) else Page(*given)


def _bare(prepared: Prepared, options: WriteOptions) -> Prepared:
    """A page without what it says of others, where that was asked for its result alone."""
    return prepared._replace(anchors=()) if prepared.anchors and not options.anchors else prepared


def _outcome(outcome: PutResult | Exception, prepared: Prepared, options: WriteOptions) -> PutResult | Exception:
    """An outcome with the links of the page, where they were asked for."""
    if not options.links or isinstance(outcome, Exception):
        return outcome
    return outcome._replace(links=tuple(url_of(anchor.row_key) for anchor in prepared.anchors))


def _accepted(outcome: PutResult | Exception) -> PutResult:
    """The result of a page that was stored, or need not be."""
    if isinstance(outcome, Exception):
        raise outcome
    if outcome.error:
        raise InvalidArgument(outcome.error)
    return outcome
