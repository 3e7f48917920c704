"""Writing pages: callers, groups, and the commit of a group.

    PageWriter   prepares a caller's pages, writes them through the queue, answers in input order
    WriteQueue   group commit: the pages that wait during one commit are the next group; a long request that keeps short
                 ones waiting is written in several turns
    Sequencer    judges pages in order, which adds them to the batch, and commits the batch
    WriteSide    builds these, and what changes stored pages, at the first write; a reader loads none of it

The source is read in the caller's thread, because it may belong to it, as a cursor of SQLite does; other threads
analyse and write.  The first waiting caller leads: it commits for all waiting callers until its own pages are answered,
then the next one leads.  So an idle store has no thread, and a single caller needs no thread switch.

The sequencer holds the committer's lock from the first verdict of a group to its commit.  Each page is judged against
the committed store and the earlier pages of its batch (`judge.View`).  Then the values of the batch are appended to the
active segment, the segment is synced, and one plan writes manifest, postings and rows in one atomic batch.  A page is
answered after its own and all earlier batches are committed.  So a crash leaves a prefix of the input, and the store
does not depend on the number of threads.  A batch does each step for all its pages, to keep the processor's caches
warm: with zstd between two verdicts a write took 5% longer.  Only its size ends a batch.

A backend that several processes write brings a writer of groups of its own (`Backend.group_writer`).
"""

from __future__ import annotations

import errno
import gc
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import groupby

from docstore.compiled import docstore_native
from docstore.model.capture import KINDS, PREVIOUS
from docstore.model.errors import FORKED, InvalidArgument, StorageError, StoreUnavailable, short_of_memory
from docstore.model.format import VERDICT_STORED
from docstore.model.keys import url_of
from docstore.model.types import Page, PutResult, Verdict, WriteOptions, body_bytes
from docstore.reading.index import open_texts
from docstore.storage.engine import PackedRows, Plan
from docstore.storage.port import Backend, Committer, GroupWriter
from docstore.storage.table import Table
from docstore.storage.writes import PolicyByVerdict, Prepared
from docstore.writing.encode import Encoder
from docstore.writing.judge import View, counts_of_judged
from docstore.writing.maintenance import PageDeleter, Poster, prune
from docstore.writing.prepare import Preparer
from docstore.writing.stream import GROUP_BYTES, GROUP_PAGES, Stream

PORTION_PAGES = 32
"""Pages of a batch that are judged together.  After them, a long request lets the short ones that wait go first."""
SUBMITTERS = 2
"""Threads for submitted pages: one prepares pages while the other waits for the disk."""
SLOW_SECONDS = 2.0
"""A submitted page whose analysis takes longer is overtaken by later pages."""
HEAVY_BYTES = 256 << 10
HEAVY_STARTS = (b"\x1f\x8b", b"%PDF")
"""A submitted page that is so long, or begins so, is analysed alone, so that no other page waits in its group."""

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
        """Submitters that are not slow."""
        self._turn = threading.Lock()
        """Held by a submitter from preparing pages until they are queued: so pages keep their order.  If that takes too
        long, the next submitter makes another lock, and another submitter may begin."""

    def put(self, page: Page, options: WriteOptions) -> PutResult:
        """Write one page and return its result after the commit.

        Raises:
            InvalidArgument: the page cannot be stored.
        """
        (outcome,) = self._write_prepared(self._prepare([page], options), options)
        return _accepted(outcome)

    def put_all(
        self, pages: Iterable[Page | tuple[str, bytes]], options: WriteOptions, threads: int
    ) -> Iterator[PutResult]:
        """Write pages; yields results in input order, each after its group is committed.

        Args:
            pages: to write.
            options: for all pages.
            threads: number of threads that analyse pages.
        """
        if threads < 1:
            raise InvalidArgument(f"threads must be at least 1, not {threads}")
        pool = ThreadPoolExecutor(threads, "docstore-analyse")
        stream: Stream[Page, Prepared] = Stream(
            lambda chunk: pool.submit(self._prepare, chunk, options).result,
            lambda group: self._write_prepared(group, options),
            self._queue.check,
        )
        try:
            # `map`, unlike a generator, does not keep a long page in memory until the next one is read.
            yield from stream.answers(map(_as_page, pages), body_bytes, is_in_memory=isinstance(pages, Sized))
        finally:
            pool.shutdown(wait=False)  # it is idle, or the group that is being written still needs it

    def put_prepared(self, prepared: Iterable[Prepared], options: WriteOptions) -> Iterator[PutResult]:
        """Write pages that another process prepared; as `put_all`."""
        stream: Stream[Prepared, Prepared] = Stream(
            lambda chunk: chunk.copy, lambda group: self._write_prepared(group, options), self._queue.check
        )
        yield from stream.answers(prepared, lambda page: body_bytes(page.page), is_in_memory=False)

    def submit(self, page: Page, options: WriteOptions) -> Future[PutResult]:
        """Write one page in another thread; pages keep their order.  The thread ends when no page is left."""
        future: Future[PutResult] = Future()
        with self._lock:
            self._submitted.append((page, options, future))
            if self._submitters < SUBMITTERS:
                try:
                    threading.Thread(target=self._write_submitted, name="docstore-submitted").start()
                    self._submitters += 1
                except RuntimeError as error:  # no more threads; one that runs takes the page, too
                    if not self._submitters:
                        self._submitted.clear()
                        what = (
                            f"the page was not written: {error}; raise `ulimit -u` or `ulimit -v`, then write it again"
                        )
                        raise StorageError(errno.EAGAIN, what) from error
        return future

    def _write_submitted(self) -> None:
        is_overtaken = False
        while not is_overtaken:
            turn = self._take_turn()
            taken: list[_Submitted] = []
            try:
                try:
                    if not self._take_submitted(taken):
                        return
                    prepared: list[Prepared] = []
                    for shared, submitted in groupby(taken, lambda item: item[1]._replace(policies={})):
                        prepared += self._prepare([page for page, _, _ in submitted], shared)
                    request = Request(
                        [_without_anchors(page, item[1]) for page, item in zip(prepared, taken, strict=True)],
                        [options.policies for _, options, _ in taken],
                        yields=False,
                    )
                    self._queue.add(request)
                finally:
                    with self._lock:
                        is_overtaken = turn is not self._turn
                        turn.release()
                self._queue.write(request)
                for (_, options, future), page, outcome in zip(taken, prepared, request.outcomes, strict=True):
                    try:
                        future.set_result(_accepted(_with_links(outcome, page, options)))
                    except Exception as error:
                        future.set_exception(error)
                del taken, prepared, request
            except BaseException as error:  # for the callers, not for this thread, which goes on with the next pages
                for _, _, future in taken:
                    if not future.done():
                        future.set_exception(error)

    def _take_submitted(self, taken: list[_Submitted]) -> bool:
        """Take the next pages that are not cancelled, at most one group; if there are none, the thread ends.

        Args:
            taken: gets the pages, each before it is looked at: they are answered also if that raises.
        """
        taken_bytes = 0
        with self._lock:
            while self._submitted and len(taken) < GROUP_PAGES and taken_bytes < GROUP_BYTES:
                page, options, future = self._submitted.popleft()
                if future.set_running_or_notify_cancel():
                    taken.append((page, options, future))
                    taken_bytes += body_bytes(page)
                    if _is_heavy(page):
                        break
                if taken and self._submitted and _is_heavy(self._submitted[0][0]):
                    break
            self._submitters -= not taken
        return bool(taken)

    def _take_turn(self) -> threading.Lock:
        """Wait until this thread may prepare pages; return the lock of the turn, which it holds then."""
        while True:
            turn = self._turn
            if turn.acquire(timeout=SLOW_SECONDS):
                if turn is self._turn:
                    return turn
                turn.release()  # it was replaced meanwhile
                continue
            with self._lock:
                if turn is self._turn and turn.locked():
                    self._turn = threading.Lock()
                    self._submitters -= 1

    def _prepare(self, pages: Sequence[Page], options: WriteOptions) -> list[Prepared]:
        anchors = options.anchors or options.links
        try:
            prepared = self._preparer.prepare(pages, anchors=anchors, any_time=options.any_time)
        except MemoryError as error:
            raise short_of_memory(error) from error
        return prepared if options.keep_body else [page._replace(keep_body=False) for page in prepared]

    def _write_prepared(self, prepared: list[Prepared], options: WriteOptions) -> _Outcomes:
        """Queue the pages of one caller as one request, and wait for their outcomes.

        The list is cleared if no links are asked for.
        """
        written = [_without_anchors(page, options) for page in prepared] if options.links else prepared
        request = Request(written, [options.policies] * len(prepared))
        self._queue.write(request)
        if not options.links:
            return request.outcomes
        return [_with_links(outcome, page, options) for outcome, page in zip(request.outcomes, prepared, strict=True)]


def _is_heavy(page: Page) -> bool:
    length_bytes = body_bytes(page)
    return length_bytes > HEAVY_BYTES or (length_bytes > 0 and page.body.startswith(HEAVY_STARTS))


def _as_page(page: Page | tuple[str, bytes]) -> Page:
    return page if isinstance(page, Page) else Page(*page)


def _without_anchors(prepared: Prepared, options: WriteOptions) -> Prepared:
    """The page without its anchors, if they were extracted only to give its result the links."""
    return prepared._replace(anchors=()) if options.links and not options.anchors else prepared


def _with_links(outcome: PutResult | Exception, prepared: Prepared, options: WriteOptions) -> PutResult | Exception:
    if not options.links or isinstance(outcome, Exception):
        return outcome
    return outcome._replace(links=tuple(url_of(anchor.row_key) for anchor in prepared.anchors))


def _accepted(outcome: PutResult | Exception) -> PutResult:
    """The result of a page that was not refused; raises otherwise."""
    if isinstance(outcome, Exception):
        raise outcome
    if outcome.error:
        raise InvalidArgument(outcome.error)
    return outcome


_CLOSED = "the store was closed before this page was written; open the store and write the page again"


class Request:
    """Pages that are written in one group, and their outcomes.

    Args:
        pages: in order.  The request owns the list, and clears it when it is answered.
        policies: what to do per verdict, for each page.
        yields: if it is long, it lets others go first; the rest of submitted pages would come after later ones.
    Attributes:
        outcomes: the result of each committed page, or why it is not written; for a prefix of the pages.
        is_long: it is written in several turns if shorter requests wait.
        is_answered: all outcomes are there.
        is_queued: the queue has it.
        wakeup: released once, when the request is answered or its caller must lead.
    """

    __slots__ = ("is_answered", "is_long", "is_queued", "outcomes", "pages", "policies", "wakeup")

    def __init__(self, pages: list[Prepared], policies: Sequence[PolicyByVerdict], *, yields: bool = True) -> None:
        self.pages = pages
        self.policies = policies
        self.outcomes: list[PutResult | Exception] = []
        self.is_long = yields and len(pages) > PORTION_PAGES
        self.is_answered = self.is_queued = False
        self.wakeup = threading.Lock()
        self.wakeup.acquire()


class WriteQueue:
    """Group commit: all pages reach the group writer through here.  Thread-safe; callers may be interrupted anywhere.

    Args:
        group_writer: a `Sequencer`, or the writer that the backend brings.
    """

    def __init__(self, group_writer: GroupWriter) -> None:
        self._group_writer = group_writer
        self._lock = threading.Lock()
        self._waiting: deque[Request] = deque()
        """Guarded by `_lock`, as `_leader`: requests without an answer; the group that is being written comes first."""
        self._leader: Request | None = None
        """The request whose caller commits."""
        self._writing = threading.RLock()
        """Held while a group is written; reentrant, because a signal handler may close the store then."""
        self._is_closed = False
        self._process = os.getpid()

    def check(self) -> None:
        """Refuse to write.

        Raises:
            StoreUnavailable: the store is closed, or belongs to the parent process.
        """
        if os.getpid() != self._process:
            raise StoreUnavailable(FORKED)
        if self._is_closed:
            raise StoreUnavailable(_CLOSED)

    def add(self, request: Request) -> None:
        """Queue a request.  The caller must then call `write`, even after a signal."""
        self.check()
        with self._lock:
            request.is_queued = True
            self._waiting.append(request)

    def write(self, request: Request) -> None:
        """Write a request; returns when it is answered.  A queued request is answered even if the store is closed.

        Raises:
            StoreUnavailable: the store is closed, or belongs to the parent process.
        """
        if not request.is_queued:
            self.check()
        try:
            if not request.is_queued:
                self.add(request)
            with self._lock:
                leads = self._leader is None
                if leads:
                    self._leader = request
            if not leads:
                request.wakeup.acquire()
            while not request.is_answered:
                self._write_group()
        finally:
            interrupt: KeyboardInterrupt | None = None
            has_left = False
            while not has_left:
                try:
                    self._leave(request)
                    has_left = True
                except KeyboardInterrupt as error:  # it may have come before the first step
                    interrupt = error
            if interrupt is not None:
                raise interrupt

    def _leave(self, request: Request) -> None:
        """Let the next caller lead; a second call does nothing."""
        # Python handles signals after a call, so none comes between setting the leader and waking it.
        with self._lock:
            if not request.is_answered or (self._waiting and self._waiting[0].is_answered):  # interrupted
                self._waiting = deque(other for other in self._waiting if not (other is request or other.is_answered))
            if self._leader is request:
                self._leader = successor = self._waiting[0] if self._waiting else None
                if successor is not None:
                    successor.wakeup.release()

    def close(self) -> None:
        """Finish the group that is being written; requests that wait after it fail."""
        self._is_closed = True
        with self._writing:
            pass

    def _write_group(self) -> None:
        """Write the requests of the next group, and wake the callers whose requests are answered.

        REQUIRES: the caller leads.
        """
        collects = gc.isenabled()  # if two stores write at once, the one that switched it off switches it on again
        try:
            gc.disable()  # it would look through thousands of objects that live as long as the group
            with self._writing:
                group = self._next_group()
                self._write_pages(group)
            for request in group:
                if len(request.outcomes) >= len(request.pages):
                    request.pages.clear()
                    request.policies = ()
        finally:
            if collects:
                gc.enable()
        with self._lock:
            for request in group:
                request.is_answered = not request.pages
                if request.is_answered and request is not self._leader:
                    request.wakeup.release()
            if self._waiting and self._waiting[0] is group[0] and not group[0].is_answered:
                self._waiting.rotate(-1)
            while self._waiting and self._waiting[0].is_answered:
                self._waiting.popleft()

    def _next_group(self) -> list[Request]:
        """The first requests that fit in a group; a long request is a group of its own."""
        group: list[Request] = []
        pages = group_bytes = 0
        with self._lock:
            for request in self._waiting:
                pages += len(request.pages)
                if len(self._waiting) > 1:
                    group_bytes += sum([body_bytes(page.page) for page in request.pages])
                if group and (pages > GROUP_PAGES or group_bytes > GROUP_BYTES or request.is_long or group[0].is_long):
                    break
                group.append(request)
        return group

    def _is_awaited(self) -> bool:
        """Whether a long request is being written while short ones wait."""
        with self._lock:
            lengths = [request.is_long for request in self._waiting]
        return lengths[:1] == [True] and not all(lengths)

    def _write_pages(self, group: Sequence[Request]) -> None:
        """Write those pages of the requests that have no outcome yet, and append their outcomes.

        After an error the pages that were not committed get the error as their outcome.
        """
        owners: list[Request] = []
        pages: list[Prepared] = []
        policies: list[PolicyByVerdict] = []
        for request in group:
            start = len(request.outcomes)
            pages += request.pages[start:]
            policies += request.policies[start:]
            owners += [request] * (len(request.pages) - start)
        results: Sequence[PutResult] = ()
        error: BaseException | None = StoreUnavailable(_CLOSED)
        if not self._is_closed:
            results, error = self._group_writer.write(pages, policies, self._is_awaited)
        for owner, result in zip(owners, results, strict=False):
            owner.outcomes.append(result)
        if error is None:
            return
        if not isinstance(error, Exception):
            raise error  # KeyboardInterrupt: the next leader writes what is left
        for owner in owners[len(results) :]:
            owner.outcomes.append(error)


class Sequencer:
    """Judges and commits pages in order, under the committer's lock.

    Attributes:
        encoder: of the values of pages; used also for changes of stored pages, under the same lock.
    """

    def __init__(self, view: View, encoder: Encoder, committer: Committer) -> None:
        self.encoder = encoder
        self._view = view
        self._committer = committer
        self._is_clean = True
        """The view has no batch.  False also if a second interrupt (Ctrl-C) came before a batch was dropped."""
        committer.followers.add(view.follow)

    def write(
        self, pages: Sequence[Prepared], policies: Sequence[PolicyByVerdict], is_awaited: Callable[[], bool]
    ) -> tuple[list[PutResult], BaseException | None]:
        """Judge, store and commit pages, in order.

        Args:
            pages: to write.
            policies: what to do per verdict, for each page.
            is_awaited: whether other callers wait for this one.  Then only the first pages are written.
        Returns:
            The results of the committed pages, and the error that stopped the others.  After a StorageError these are
            not applied; after CommitUnknown they may be, and writing them again is safe.  Without an error, pages
            without a result were not begun.
        """
        judged: list[docstore_native.Judged] = []
        committed = 0
        view = self._view
        with self._committer.lock:
            try:
                if not self._is_clean:
                    view.drop()
                self._is_clean = False
                for start in range(0, len(pages), PORTION_PAGES):
                    portion = pages[start : start + PORTION_PAGES]
                    if start and is_awaited():
                        break
                    if view.is_full:
                        self._commit()
                        committed = start
                    judged += view.judge(portion, policies[start : start + PORTION_PAGES])
                self._commit()
                self._is_clean = True
            except BaseException as error:
                self._committer.drop_values()
                view.drop()
                self._is_clean = True
                cause = short_of_memory(error) if isinstance(error, MemoryError) else error
                return results_of(judged[:committed]), cause
        return results_of(judged), None

    def _commit(self) -> None:
        """Append the values of the batch and commit it: bases and postings, then anchors, then pages in their order."""
        view = self._view
        if not view.is_begun:
            view.committed(docstore_native.Group())
            return
        pages = view.pages.core.pages()
        group = self.encoder.encode(pages)
        rows = PackedRows()
        self.encoder.pack_bases(group, rows)
        view.pack_postings(pages, rows)
        rows += view.anchor_rows()
        group.pack_captures(rows)
        prepared = [judged.prepared for judged in pages]
        bodies = [(page.row_key, len(page.page.body)) for page in prepared if not page.is_visit]
        self._committer.commit(Plan([], bodies, counts_of_judged(pages), rows))
        view.committed(group)


def results_of(pages: Sequence[docstore_native.Judged]) -> list[PutResult]:
    """The answers to the caller."""
    return [_result_of(*answer) for answer in docstore_native.answers(list(pages))]


def _result_of(
    prepared: Prepared,
    timestamp: int,
    others: tuple[int, bytes, int, float, str, bytes, int, int],
    own: tuple[int, float, int],
    refusal: str | None,
    known_as: int | None,
) -> PutResult:
    """The answer for a page, as `docstore_native.answers` gives its parts."""
    kind, of, of_timestamp, similarity, reason, contains, candidates, verified = others
    previous, previous_similarity, stored = own
    of_url, contained_url = url_of(of) if of else "", url_of(contains) if contains else ""
    fields = KINDS[kind], of_url, of_timestamp, similarity, reason, contained_url, candidates, verified
    url, error = prepared.url, ""
    if refusal is not None:
        url, error = prepared.page.url, refusal or prepared.error
    known = "" if known_as is None else VERDICT_STORED[known_as]
    verdict = tuple.__new__(Verdict, fields)  # half the time of the constructor
    its = url, timestamp, verdict, PREVIOUS[previous], previous_similarity, VERDICT_STORED[stored], error, known, ()
    return tuple.__new__(PutResult, its)


class WriteSide:
    """Builds all parts that write pages; they are its attributes."""

    def __init__(self, backend: Backend, table: Table, committer: Committer, clock: Callable[[], int]) -> None:
        self.backend, self.table, self.committer = backend, table, committer
        committer.followers.add(open_texts(backend, table).follow)
        self.view = view = View(backend, table, clock, caches=backend.engine.caps.single_writer)
        encoder = Encoder(backend.values, view.pages, view.bases)
        self.sequencer = Sequencer(view, encoder, committer)
        self.poster = Poster(backend, view.kernel, table, committer)
        self.deleter = PageDeleter(backend, table, committer, self.poster, clock)
        self.prune = partial(prune, backend, table, committer)
        self.queue = WriteQueue(backend.group_writer(table, committer, clock) or self.sequencer)
        self.preparer = Preparer(view.kernel, clock)
        self.writer = PageWriter(self.preparer, self.queue)
