"""Writing pages: callers, groups, and the commit of a group.

    PageWriter   prepares a caller's pages, writes them through the queue, answers in input order
    WriteQueue   group commit: the pages that wait during one commit are the next group
    Sequencer    judges page by page, adds each to the batch, commits the batch
    WriteSide    builds these, and what changes stored pages, at the first write; a reader loads none of it

The source is read in the caller's thread, because it may belong to it, as a cursor of SQLite does; other threads
analyse and write.  The first waiting caller leads: it commits for all waiting callers until its own pages are answered,
then the next one leads.  So an idle store has no thread, and a single caller needs no thread switch.

The sequencer holds the committer's lock from the first verdict of a group to its commit.  Each page is judged against
the committed store and the earlier pages of the batch (`batch.GroupPages`).  Then the values of the batch are appended
to the active segment, the segment is synced, and one plan writes manifest, postings and rows.  A page is answered after
its own and all earlier groups are committed.  So a crash leaves a prefix of the input, and the store does not depend on
the number of threads.  A group does each step for all its pages, to keep the processor's caches warm: with zstd between
two verdicts a write took 5% longer.

A row of the batch is committed before it is written again; `FlushReason` lists what else ends a batch early.  If
several processes write, another process may win a page or its body.  Pages that lost are judged again until none is
left, so an answer is always about what was committed.
"""

from __future__ import annotations

import gc
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import groupby

from docstore.dedup.comparable import REASON_BLANK, status_class
from docstore.dedup.detector import Detector, StoredPage, Thresholds
from docstore.dedup.index import HashIndex, post_names
from docstore.model import capture
from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.keys import url_of
from docstore.model.types import Page, PutResult, RowMutations, SetCell, VerdictKind, WriteOptions, body_bytes
from docstore.reading.index import kernel_of, open_buckets
from docstore.storage.engine import ReadsAhead
from docstore.storage.plan import FlushReason, Plan, Slot, Stage
from docstore.storage.port import Backend, Committer, Values
from docstore.storage.table import Table
from docstore.storage.values import encode_inline
from docstore.writing.anchors import FAMILY as ANCHOR_FAMILY
from docstore.writing.batch import PAGES, Bases, GroupPages, Write, counts_of
from docstore.writing.judge import GroupReads, Judge, Policies, TakenTimes, refused
from docstore.writing.maintenance import PageDeleter, Poster, prune
from docstore.writing.place import ValueWriter, set_columns, set_visit_columns
from docstore.writing.prepare import Prepared, Preparer
from docstore.writing.stream import GROUP_BYTES, GROUP_PAGES, Stream

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
        return _accepted(self._write(self._prepare([page], options), options)[0])

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
            lambda batch: pool.submit(self._prepare, batch, options).result,
            lambda group: self._write(group, options),
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
            lambda batch: batch.copy, lambda group: self._write(group, options), self._queue.check
        )
        yield from stream.answers(prepared, lambda page: body_bytes(page.page), is_in_memory=False)

    def submit(self, page: Page, options: WriteOptions) -> Future[PutResult]:
        """Write one page in another thread; pages keep their order.  The thread ends when no page is left."""
        future: Future[PutResult] = Future()
        with self._lock:
            self._submitted.append((page, options, future))
            if self._submitters < SUBMITTERS:
                threading.Thread(target=self._write_submitted, name="docstore-submitted").start()
                self._submitters += 1
        return future

    def _write_submitted(self) -> None:
        is_overtaken = False
        while not is_overtaken:
            turn = self._take_turn()
            try:
                taken = self._take_submitted()
                if not taken:
                    return
                prepared: list[Prepared] = []
                for shared, submitted in groupby(taken, lambda item: item[1]._replace(policies={})):
                    prepared += self._prepare([page for page, _, _ in submitted], shared)
                request = Request(
                    [_without_anchors(page, item[1]) for page, item in zip(prepared, taken, strict=True)],
                    [options.policies for _, options, _ in taken],
                )
                self._queue.add(request)
            except Exception as error:  # for the callers, not for this thread
                for _, _, future in taken:
                    future.set_exception(error)
                continue
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

    def _take_submitted(self) -> list[_Submitted]:
        """The next pages that are not cancelled, at most one group; if there are none, the thread ends."""
        taken: list[_Submitted] = []
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
        return taken

    def _take_turn(self) -> threading.Lock:
        """The acquired lock of who prepares pages next."""
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
        prepared = self._preparer.prepare(pages, anchors=options.anchors or options.links, any_time=options.any_time)
        return prepared if options.keep_body else [page._replace(keep_body=False) for page in prepared]

    def _write(self, prepared: list[Prepared], options: WriteOptions) -> _Outcomes:
        """Write pages of one source.  The list is cleared if no links are asked for."""
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
_FORKED = "this process is a fork of the one that opened the store; open the store again in this process"


class Request:
    """Pages that are written in one group, and their outcomes.

    Args:
        pages: in order.  The request owns the list, and clears it when it is answered.
        policies: what to do per verdict, for each page.
    Attributes:
        outcomes: the result of each committed page, or why it is not written; for a prefix of the pages.
        is_answered: all outcomes are there.
        is_queued: the queue has it.
        wakeup: released once, when the request is answered or its caller must lead.
    """

    __slots__ = ("is_answered", "is_queued", "outcomes", "pages", "policies", "wakeup")

    def __init__(self, pages: list[Prepared], policies: Sequence[Policies]) -> None:
        self.pages = pages
        self.policies = policies
        self.outcomes: list[PutResult | Exception] = []
        self.is_answered = self.is_queued = False
        self.wakeup = threading.Lock()
        self.wakeup.acquire()


class WriteQueue:
    """Group commit: all pages reach the sequencer through here.  Thread-safe; callers may be interrupted anywhere."""

    def __init__(self, sequencer: Sequencer) -> None:
        self._sequencer = sequencer
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
            raise StoreUnavailable(_FORKED)
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
        """Write the waiting requests, up to the bounds of a group.

        REQUIRES: the caller leads.
        """
        collects = gc.isenabled()  # if two stores write at once, the one that switched it off switches it on again
        try:
            gc.disable()  # it would look through thousands of objects that live as long as the group
            with self._writing:
                group = self._next_group()
                self._write(group)
            for request in group:
                request.pages.clear()
                request.policies = ()
        finally:
            if collects:
                gc.enable()
        with self._lock:
            for request in group:
                request.is_answered = True
                if request is not self._leader:
                    request.wakeup.release()
            while self._waiting and self._waiting[0].is_answered:
                self._waiting.popleft()

    def _next_group(self) -> list[Request]:
        """The first requests that fit in a group; a request that is too long is a group of its own."""
        group: list[Request] = []
        pages = group_bytes = 0
        with self._lock:
            for request in self._waiting:
                pages += len(request.pages)
                if len(self._waiting) > 1:
                    group_bytes += sum([body_bytes(page.page) for page in request.pages])
                if group and (pages > GROUP_PAGES or group_bytes > GROUP_BYTES):
                    break
                group.append(request)
        return group

    def _write(self, group: Sequence[Request]) -> None:
        """Write pages without an outcome; after an error all that are not committed fail: bad pages were refused."""
        owners: list[Request] = []
        pages: list[Prepared] = []
        policies: list[Policies] = []
        for request in group:
            start = len(request.outcomes)
            pages += request.pages[start:]
            policies += request.policies[start:]
            owners += [request] * (len(request.pages) - start)
        results: Sequence[PutResult] = ()
        error: BaseException | None = StoreUnavailable(_CLOSED)
        if not self._is_closed:
            results, error = self._sequencer.write(pages, policies)
        for owner, result in zip(owners, results, strict=False):
            owner.outcomes.append(result)
        if error is None:
            return
        if not isinstance(error, Exception):
            raise error  # KeyboardInterrupt: the next leader writes what is left
        for owner in owners[len(results) :]:
            owner.outcomes.append(error)


GROUP_ANCHORS = 20_000
"""A batch with so many anchors is committed before its next page, because they are in memory."""


class Sequencer:
    """Judges and commits pages in order, under the committer's lock.

    Attributes:
        judge, value_writer: used also for changes of stored pages, under the same lock.
    """

    def __init__(
        self,
        *,
        committer: Committer,
        index: HashIndex,
        pages: GroupPages,
        bases: Bases,
        table: Table,
        values: Values,
        detector: Detector,
        value_writer: ValueWriter,
        reads: GroupReads | None,
        clock: Callable[[], int],
    ) -> None:
        self._committer = committer
        self._is_shared = committer.fills_slots
        self._lost: dict[int, bytes] = {}
        """Pages of this group that another process won: row key by `id` of the page."""
        self._index = index
        self._pages = pages
        self._bases = bases
        self._table = table
        self._taken = taken = TakenTimes(table)
        self._reads = reads
        """None if single reads are cheap."""
        self._clock = clock
        self.judge = Judge(pages, table, values, detector, taken, self.commit)
        self.value_writer = value_writer
        self._commits = 0
        """Number of committed batches."""
        committer.followers |= {index.follow, pages.follow, taken.follow}
        if reads is not None:
            committer.followers.add(reads.follow)

    def write(
        self, pages: Sequence[Prepared], policies: Sequence[Policies]
    ) -> tuple[list[PutResult], BaseException | None]:
        """Judge, store and commit pages, in order.

        Args:
            pages: to write.
            policies: what to do per verdict, for each page.
        Returns:
            The results of the committed pages, and the error that stopped the others.  After a StorageError these are
            not applied; after CommitUnknown they may be, and writing them again is safe.
        """
        answers: list[Write] = []
        committed = 0
        with self._committer.lock:
            try:
                self._prepare(pages)
                for page, policy in zip(pages, policies, strict=True):
                    commits = self._commits
                    try:
                        answer = self._admit(page, policy)
                    finally:
                        if self._commits != commits:  # the pages before this one are committed
                            committed = len(answers)
                    answers.append(answer)
                self.commit()
                committed = len(answers)
                while self._lost:
                    self._write_lost(pages, policies, answers)
            except BaseException as error:
                if self._lost:
                    committed = min(committed, self._lost_numbers(pages)[0])
                    self._lost = {}
                self._committer.drop_placed()
                self._pages.begin()
                return [_result(answer) for answer in answers[:committed]], error
            finally:
                if self._reads is not None:
                    self._reads.end()
        return [_result(answer) for answer in answers], None

    def _prepare(self, pages: Sequence[Prepared]) -> None:
        """Prefetch what judging these pages will read."""
        if self._is_shared:
            self._clear_caches()
        if self._reads is not None:
            self._reads.begin(pages)
        self._pages.prepare([page.row_key for page in pages if not page.error])
        self._index.prepare(page.analysis for page in pages if page.analysis is not None)
        if self._reads is not None:
            self._reads.prepare(pages, self._pages.postings)

    def _write_lost(self, pages: Sequence[Prepared], policies: Sequence[Policies], answers: list[Write]) -> None:
        """Judge and write the lost pages again, against what is committed now; replaces their answers."""
        self._committer.wait()
        numbers = self._lost_numbers(pages)
        lost, self._lost = self._lost, {}
        try:
            self._prepare([pages[number] for number in numbers])
            for number in numbers:
                answers[number] = self._admit(pages[number], policies[number])
            self.commit()
        except BaseException:
            self._lost |= lost
            raise

    def _lost_numbers(self, pages: Sequence[Prepared]) -> list[int]:
        return [number for number, page in enumerate(pages) if id(page) in self._lost]

    def _clear_caches(self) -> None:
        for cache in (self._index, self._pages, self._taken):
            cache.clear()
        self._bases.forget()

    def commit(self, reason: FlushReason | None = None) -> None:
        """Store the values of the batch and commit it.

        Args:
            reason: why it is committed before the group is complete.
        """
        batch = self._pages.batch
        if not batch.writes and not batch.anchors:
            return
        plan = batch.plan
        plan.flush_reason = reason
        self.value_writer.write(batch.writes, batch)
        pages: list[Write] = []
        rows: dict[int, list[RowMutations]] = {}
        for write in batch.writes:
            if write.page.analysis is not None:  # else a visit without a body
                pages.append(write)
                page = write.page.page
                if page.payload_digest or page.docno:
                    post_names(batch.postings, write.pointer, page.payload_digest, page.docno)
                if self._is_shared:
                    plan.fill(self._slot(write), order=write.commit_order)
                    continue
            rows.setdefault(write.commit_order, []).append(write.row())
        for order, its_rows in rows.items():
            plan.write(Stage.PAGES, its_rows, order=order)
        plan.bodies = [(write.page.row_key, len(write.page.page.body)) for write in pages]
        plan.write(Stage.POSTINGS, self._index.mutations(batch.postings))
        if batch.anchors:
            plan.write(Stage.ANCHORS, [RowMutations(PAGES, key, cells) for key, cells in batch.anchors.items()])
        visits = len(batch.writes) - len(pages)
        if not self._is_shared:
            counted = [(write.verdict, len(write.page.page.body)) for write in pages]
            plan.counts = counts_of(counted, visits)
        self._committer.commit(plan)
        self._commits += 1
        self._pages.begin()
        if self._is_shared:
            self._record_lost(pages, visits)

    def _slot(self, write: Write) -> Slot:
        """A page as it is written if several processes write: a new page claims its body first."""
        verdict = write.verdict
        named = frozenset(page for page in (verdict.of, write.contains) if page is not None)
        claim = b""
        if verdict.kind is VerdictKind.NEW and verdict.reason != REASON_BLANK and verdict.stored == capture.STORED_BODY:
            claim = bytes((status_class(write.page.page.status),)) + write.page.analysed.body_checksum
        return Slot(write.pointer, write.row(), claim, write.rewrites, named)

    def _record_lost(self, pages: Sequence[Write], visits: int) -> None:
        """Count the pages that were written, and record those that must be judged again."""
        lost = self._committer.lost
        counted = [(write.verdict, len(write.page.page.body)) for write in pages if write.pointer not in lost]
        if lost:
            self._lost |= {id(write.page): write.page.row_key for write in pages if write.pointer in lost}
            self._clear_caches()
        plan = Plan()
        plan.counts = counts_of(counted, visits)
        self._committer.commit(plan)

    def _admit(self, page: Prepared, policies: Policies) -> Write:
        """Judge a page, and add it to the batch."""
        if page.error:
            return refused(page, page.error)
        if self._lost and page.row_key in self._lost.values():  # it must come after the earlier page of its row
            self._lost[id(page)] = page.row_key
            return refused(page, "")
        batch = self._pages.batch
        if page.row_key in batch.rows:
            self.commit(FlushReason.ROW_AGAIN)
        elif batch.anchor_count >= GROUP_ANCHORS:
            self.commit(FlushReason.ANCHORS)
        self._pages.commit_order = 0
        if page.analysis is None:
            write = self.judge.visit(page)
            if write.is_stored:
                set_visit_columns(write)
                write.arrived = self._clock()
                self._pages.add(write)
            return write
        lost_before = len(self._lost)
        write = self.judge.page(page, policies)
        if len(self._lost) != lost_before:  # judging committed the batch, and a page that the verdict may name lost
            self._lost[id(page)] = page.row_key
            return write
        if write.is_stored:
            set_columns(write)
            write.commit_order = self._pages.commit_order
            write.arrived = self._clock()
            if write.verdict.stored in capture.STORED_POSTED and page.page.body:  # later pages are judged against it
                analysis = page.analysis
                self._index.add(self._pages.postings, write.pointer, analysis, status=page.page.status)
                fingerprints = analysis.body_checksum, analysis.text_checksum, analysis.sketch, analysis.shingle_count
                write.seen = StoredPage(*fingerprints, page.page.status, bool(analysis.entries))
            self._pages.add(write)
        if write.says and page.anchors:
            self._add_anchors(write)
        return write

    def _add_anchors(self, write: Write) -> None:
        """Add the anchors of a stored page; of a page that is written again, only those that changed."""
        source, batch = write.page.url.encode(), self._pages.batch
        again = not write.is_stored or write.previous is not None
        for anchor in write.page.anchors:
            value = encode_inline(anchor.text)
            newest = self._table.newest(anchor.row_key, ANCHOR_FAMILY, source) if again else None
            if newest is not None and newest.timestamp <= write.timestamp and newest.value == value:
                continue
            cell = SetCell(ANCHOR_FAMILY, source, write.timestamp, value)
            batch.anchors.setdefault(anchor.row_key, []).append(cell)
            batch.anchor_count += 1


def _result(write: Write) -> PutResult:
    verdict = write.verdict
    return PutResult(
        write.page.url,
        write.timestamp,
        capture.shown_verdict(verdict),
        verdict.previous,
        verdict.previous_similarity,
        verdict.stored,
        write.error,
        write.known_as,
    )


class WriteSide:
    """Builds all parts that write pages; they are its attributes."""

    def __init__(self, opened: Backend, table: Table, committer: Committer, clock: Callable[[], int]) -> None:
        self.opened, self.table, self.committer, self.clock = opened, table, committer, clock
        caches = opened.engine.caps.single_writer or committer.fills_slots
        values = opened.values
        self.kernel = kernel_of(opened)
        engine = opened.engine
        buckets = open_buckets(opened, table)
        committer.followers.add(buckets.follow)
        index = HashIndex(opened.engine, buckets, caches=caches)
        bases = Bases(values, opened.base_rows, caches=caches)
        self.pages = pages = GroupPages(table, values, bases, caches=caches, is_alone=opened.engine.caps.single_writer)
        self.detector = detector = Detector(
            index, self.kernel, pages, Thresholds.of(opened.schema), title_rule=opened.schema.title_rule
        )
        self.sequencer = sequencer = Sequencer(
            committer=committer,
            index=index,
            pages=pages,
            bases=bases,
            table=table,
            values=values,
            detector=detector,
            value_writer=ValueWriter(values, pages, bases),
            reads=GroupReads(engine, pages, index, detector) if isinstance(engine, ReadsAhead) else None,
            clock=clock,
        )
        self.poster = Poster(index, self.kernel, table, values, committer)
        self.deleter = PageDeleter(opened, table, committer, self.poster, clock)
        self.prune = partial(prune, opened, table, committer)
        self.queue = WriteQueue(sequencer)
        self.preparer = Preparer(self.kernel, clock)
        self.writer = PageWriter(self.preparer, self.queue)
