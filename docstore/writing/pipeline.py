"""Pages in, results out: a caller's pages are prepared, written through the queue, and answered in input order.

Knows what prepares pages, and the queue.  A source is read in its caller's own thread, to which it may belong, as a
cursor of SQLite does.  Other threads analyse and write what has been read: a slow source is not waited for.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby

from docstore.model.errors import InvalidArgument
from docstore.model.keys import url_of
from docstore.model.types import Page, PutResult, WriteOptions
from docstore.writing.fields import body_bytes
from docstore.writing.prepare import Prepared, Preparer
from docstore.writing.queue import Request, WriteQueue
from docstore.writing.stream import GROUP_BYTES, GROUP_PAGES, Stream

SUBMITTERS = 2
"""Threads for pages without a thread of their own: one prepares pages while the other waits for the disk."""

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
        stream: Stream[Page, Prepared] = Stream(
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
        stream: Stream[Prepared, Prepared] = Stream(
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
        prepared = self._preparer.prepare(pages, anchors=options.anchors or options.links, any_time=options.any_time)
        return prepared if options.keep_body else [one._replace(keep_body=False) for one in prepared]

    def _write(self, prepared: list[Prepared], options: WriteOptions) -> _Outcomes:
        """Write pages that have all been read from one source."""
        if not options.links:
            request = Request(prepared, [options.policies] * len(prepared))
            self._queue.write(request)
            return request.outcomes
        request = Request([_bare(one, options) for one in prepared], [options.policies] * len(prepared))
        self._queue.write(request)
        return [_outcome(outcome, one, options) for outcome, one in zip(request.outcomes, prepared, strict=True)]


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
