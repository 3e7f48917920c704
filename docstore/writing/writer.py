"""Writing pages: callers, groups, and the commit of a group.

    PageWriter   a caller's pages are prepared, written through the queue, and answered in input order
    WriteQueue   group commit: what waits while one group is committed is the next group
    Sequencer    one page after the other is judged and taken into the batch; then the batch is committed
    WriteSide    builds these, and what changes stored pages, at the first write; reading loads none of it

A source is read in its caller's own thread, to which it may belong, as a cursor of SQLite does; other threads analyse
and write what has been read.  The first caller that waits leads: it commits for all that wait until its own pages are
answered, then hands over to the next one.  So an idle store has no thread, and a lone caller hands nothing over.

The sequencer holds the committer's lock from a group's first verdict to its commit.  Each page is judged against the
committed store and the pages of the batch before it (`batch.GroupPages`); then the values of the batch are appended to
the active segment; the segment is synced and one plan writes manifest, postings and rows.  An answer is given after its
own and every earlier group is committed, so a crash leaves a prefix of the input, and any number of analysing threads
gives the same store.  A group goes through these steps together, because each finds in the processor's cache what it
needs: zstd between two verdicts would push that out, and a write would take a twentieth longer.

A row that the batch writes is committed before it is touched again; `judge` says what else ends a batch early (`Cut`).
Where several processes write, the committer may find that another process was faster with a page, or with its body.
Such pages are judged again, until none is left: an answer is always about what was committed.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import groupby

from docstore.dedup.comparable import REASON_BLANK, status_class
from docstore.dedup.detector import Detector, StoredPage, Thresholds
from docstore.dedup.index import HashIndex, post_names
from docstore.model import capture
from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.keys import url_of
from docstore.model.types import Page, PutResult, RowMutations, SetCell, VerdictKind, WriteOptions, body_bytes
from docstore.reading.index import kernel_of, open_buckets
from docstore.storage.counts import Counts
from docstore.storage.engine import ReadsAhead
from docstore.storage.plan import Cut, Plan, Slot, Stage
from docstore.storage.port import Backend, Committer, Values
from docstore.storage.table import Table
from docstore.storage.values import encode_inline
from docstore.writing.anchors import FAMILY as ANCHOR_FAMILY
from docstore.writing.batch import PAGES, Bases, GroupPages, Write, counts_of
from docstore.writing.judge import GroupReads, Judge, Policies, TakenTimes, refused
from docstore.writing.maintenance import PageDeleter, PageUpkeep, Poster
from docstore.writing.place import ValueWriter, set_columns, set_visit_columns
from docstore.writing.prepare import Prepared, Preparer
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


_CLOSED = "the store was closed before this page was written, and does not hold it; open it again"
_FORKED = "this process is a fork of the one that opened the store; open the store here again"


class Request:
    """Pages that are written in one group, and what became of them.

    Args:
        pages: in order; the request gives them up once it is answered.
        policies: what to do per verdict, for each page.
    Attributes:
        outcomes: a page's result once it is committed, or why it is not written; for the first pages, or all.
        is_answered: whether the outcomes are all there.
        is_queued: whether the queue has taken it.
        turn: released once, when the request is answered or its caller is to lead.
    """

    __slots__ = ("body_bytes", "is_answered", "is_queued", "outcomes", "pages", "policies", "turn")

    def __init__(self, pages: Sequence[Prepared], policies: Sequence[Policies]) -> None:
        self.pages = pages
        self.policies = policies
        self.body_bytes = sum(body_bytes(one.page) for one in pages)
        self.outcomes: list[PutResult | Exception] = []
        self.is_answered = self.is_queued = False
        self.turn = threading.Lock()
        self.turn.acquire()


class WriteQueue:
    """The one way of pages to the sequencer.  Thread-safe; a caller may be interrupted anywhere."""

    def __init__(self, sequencer: Sequencer) -> None:
        self._sequencer = sequencer
        self._lock = threading.Lock()
        self._waiting: deque[Request] = deque()
        """Requests without an answer; those of the group that is being written are at the head."""
        self._leader: Request | None = None
        """Whose caller commits."""
        self._writing = threading.RLock()
        """Held while a group is written; reentrant, for a signal handler may close the store meanwhile."""
        self._is_closed = False
        self._process = os.getpid()

    def check(self) -> None:
        """Refuse a caller who must not write.

        Raises:
            StoreUnavailable: the store is closed, or belongs to the parent process.
        """
        if os.getpid() != self._process:
            raise StoreUnavailable(_FORKED)
        if self._is_closed:
            raise StoreUnavailable(_CLOSED)

    def add(self, request: Request) -> None:
        """Give a request its place; whoever does so goes on to `write`, which a signal must not keep it from."""
        self.check()
        with self._lock:
            request.is_queued = True
            self._waiting.append(request)

    def write(self, request: Request) -> None:
        """Write a request, and return when it is answered; one that has its place is, whoever closes the store.

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
                request.turn.acquire()
            while not request.is_answered:
                self._write_group()
        finally:
            self._leave(request)

    def _leave(self, request: Request) -> None:
        """Let the next one lead; a KeyboardInterrupt that comes meanwhile is raised when that is done."""
        interrupt: KeyboardInterrupt | None = None
        is_done = False
        while not is_done:
            try:
                # Python looks for signals after a call: none can part handing over from waking the heir.
                with self._lock:
                    if not request.is_answered or (self._waiting and self._waiting[0].is_answered):  # interrupted
                        self._waiting = deque(one for one in self._waiting if not (one is request or one.is_answered))
                    if self._leader is request:
                        self._leader = heir = self._waiting[0] if self._waiting else None
                        if heir is not None:
                            heir.turn.release()
                is_done = True
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def close(self) -> None:
        """Let the group that is being written be finished, and fail what waits behind it."""
        self._is_closed = True
        with self._writing:
            pass

    def _write_group(self) -> None:
        """Write what waits, up to the bounds of a group; the caller leads."""
        with self._writing:
            group = self._next_group()
            self._write(group)
        with self._lock:
            for request in group:
                request.pages = request.policies = ()
                request.is_answered = True
                if request is not self._leader:
                    request.turn.release()
            while self._waiting and self._waiting[0].is_answered:
                self._waiting.popleft()

    def _next_group(self) -> list[Request]:
        """The first requests, as many as fit; one that fits in no group is one."""
        group: list[Request] = []
        pages = body_bytes = 0
        with self._lock:
            for request in self._waiting:
                pages += len(request.pages)
                body_bytes += request.body_bytes
                if group and (pages > GROUP_PAGES or body_bytes > GROUP_BYTES):
                    break
                group.append(request)
        return group

    def _write(self, group: Sequence[Request]) -> None:
        """Write what is not written yet; what is not committed fails together: bad pages were refused before."""
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
"""A group with so many anchors is committed before its next page: they wait in memory."""


class Sequencer:
    """Writes pages in order; the committer's lock is held from a group's first verdict to its commit.

    Attributes:
        judge, values: for those who change stored pages, under the same lock.
    """

    def __init__(
        self,
        *,
        committer: Committer,
        index: HashIndex,
        pages: GroupPages,
        bases: Bases,
        table: Table,
        placement: Values,
        detector: Detector,
        values: ValueWriter,
        counts: Counts,
        reads: GroupReads | None,
        clock: Callable[[], int],
    ) -> None:
        self._committer = committer
        self._is_shared = committer.fills_slots
        self._lost: dict[int, bytes] = {}
        """Row keys of pages of the group being written for which another process was faster, by `id`."""
        self._index = index
        self._pages = pages
        self._bases = bases
        self._table = table
        self._taken = taken = TakenTimes(table)
        self._counts = counts
        self._reads = reads
        """None where each read alone costs little."""
        self._clock = clock
        self.judge = Judge(pages, table, placement, detector, taken, self.commit)
        self.values = values
        self._commits = 0
        """Batches that were committed."""
        committer.followers |= {index.follow, pages.follow, taken.follow, counts.follow, self._follow}
        if reads is not None:
            committer.followers.add(reads.follow)

    def write(
        self, pages: Sequence[Prepared], policies: Sequence[Policies]
    ) -> tuple[list[PutResult], BaseException | None]:
        """Judge, store and commit pages, in order.

        Args:
            pages: to be written.
            policies: what to do per verdict, for each page.
        Returns:
            The results of all, committed at the store's durability; or of the first ones, and why there are no more.
            A StorageError says that the rest is not applied; after CommitUnknown, writing it again is safe.
        """
        answers: list[Write] = []
        committed = 0
        with self._committer.lock:
            try:
                self._prepare(pages)
                for one, policy in zip(pages, policies, strict=True):
                    commits = self._commits
                    try:
                        answer = self._admit(one, policy)
                    finally:
                        if self._commits != commits:  # what came before is committed
                            committed = len(answers)
                    answers.append(answer)
                self.commit()
                committed = len(answers)
                while self._lost:
                    self._write_lost(pages, policies, answers)
            except BaseException as error:
                if self._lost:
                    committed = min(committed, self._numbers(pages)[0])
                    self._lost = {}
                self._committer.drop_placed()
                self._pages.begin()
                return [_result(answer) for answer in answers[:committed]], error
            finally:
                if self._reads is not None:
                    self._reads.end()
        return [_result(answer) for answer in answers], None

    def _prepare(self, pages: Sequence[Prepared]) -> None:
        """Read together what judging these pages will ask for."""
        if self._is_shared:
            self._clear_caches()
        if self._reads is not None:
            self._reads.begin(pages)
        self._pages.prepare([one.row_key for one in pages if not one.error])
        self._index.prepare(one.analysis for one in pages if one.analysis is not None)
        if self._reads is not None:
            self._reads.prepare(pages, self._pages.postings)

    def _write_lost(self, pages: Sequence[Prepared], policies: Sequence[Policies], answers: list[Write]) -> None:
        """Write pages for which another process was faster, by what is committed now; changes their answers."""
        self._committer.wait()
        numbers = self._numbers(pages)
        lost, self._lost = self._lost, {}
        try:
            self._prepare([pages[number] for number in numbers])
            for number in numbers:
                answers[number] = self._admit(pages[number], policies[number])
            self.commit()
        except BaseException:
            self._lost |= lost
            raise

    def _numbers(self, pages: Sequence[Prepared]) -> list[int]:
        """Which of the pages are lost, in order."""
        return [number for number, one in enumerate(pages) if id(one) in self._lost]

    def _follow(self, plan: Plan, known: bool) -> None:
        """Another commit may have moved or freed bases; see `Committer.followers`."""
        if plan is not self._pages.batch.plan:
            self._bases.forget()

    def _clear_caches(self) -> None:
        for cache in (self._index, self._pages, self._taken):
            cache.clear()
        self._bases.forget()

    def commit(self, cut: Cut | None = None) -> None:
        """Place the values of the batch and commit it: the one commit point.

        Args:
            cut: why it is not committed later, with more pages.
        """
        batch = self._pages.batch
        if not batch.writes and not batch.anchors:
            return
        plan = batch.plan
        plan.cut = cut
        pages = [write for write in batch.writes if write.judgement is not None]
        for write in batch.writes:
            self.values.write(write, batch)
            if write.judgement is None:
                plan.write(Stage.PAGES, (write.row(),))
                continue
            page = write.page.page
            if page.payload_digest or page.docno:
                post_names(batch.postings, write.pointer, page.payload_digest, page.docno)
            if self._is_shared:
                plan.fill(self._slot(write), turn=write.turn)
            else:
                plan.write(Stage.PAGES, (write.row(),), turn=write.turn)
        self._committer.note_writes((write.page.row_key, len(write.page.page.body)) for write in pages)
        plan.write(Stage.POSTINGS, self._index.mutations(batch.postings))
        plan.write(Stage.ANCHORS, (RowMutations(PAGES, key, cells) for key, cells in batch.anchors.items()))
        visits = len(batch.writes) - len(pages)
        if not self._is_shared:
            counted = [(write.verdict, len(write.page.page.body)) for write in pages]
            plan.write(Stage.COUNTS, self._counts.rows(counts_of(counted, visits)))
        self._committer.commit(plan)
        self._commits += 1
        self._pages.begin()
        if self._is_shared:
            self._note_lost(pages, visits)

    def _slot(self, write: Write) -> Slot:
        """A page as it is written where others may be faster: what is new claims its body first."""
        verdict, judgement = write.verdict, write.judgement
        assert judgement is not None
        named = frozenset(page for page in (judgement.of, judgement.contains) if page is not None)
        claim = b""
        if verdict.kind is VerdictKind.NEW and verdict.reason != REASON_BLANK and verdict.stored == capture.STORED_BODY:
            claim = bytes((status_class(write.page.page.status),)) + write.page.analysed.body_checksum
        return Slot(write.pointer, write.row(), claim, write.rewrites, named)

    def _note_lost(self, pages: Sequence[Write], visits: int) -> None:
        """Count what is written, and note what is to be judged again."""
        lost = self._committer.lost
        counted = [(write.verdict, len(write.page.page.body)) for write in pages if write.pointer not in lost]
        if lost:
            self._lost |= {id(write.page): write.page.row_key for write in pages if write.pointer in lost}
            self._clear_caches()
        self._committer.commit(Plan().write(Stage.COUNTS, self._counts.rows(counts_of(counted, visits))))

    def _admit(self, one: Prepared, policies: Policies) -> Write:
        """Judge a page, and take it into the batch."""
        if one.error:
            return refused(one, one.error)
        if self._lost and one.row_key in self._lost.values():  # after the page of its row that came before
            self._lost[id(one)] = one.row_key
            return refused(one, "")
        batch = self._pages.batch
        if one.row_key in batch.rows:
            self.commit(Cut.ROW_AGAIN)
        elif batch.anchor_count >= GROUP_ANCHORS:
            self.commit(Cut.ANCHORS)
        self._pages.turn = 0
        if one.analysis is None:
            write = self.judge.visit(one)
            if write.is_stored:
                set_visit_columns(write)
                write.arrived = self._clock()
                self._pages.add(write)
            return write
        lost_before = len(self._lost)
        write = self.judge.page(one, policies)
        if len(self._lost) != lost_before:  # judging it has committed what its verdict may name
            self._lost[id(one)] = one.row_key
            return write
        if write.is_stored:
            set_columns(write)
            write.turn = self._pages.turn
            write.arrived = self._clock()
            if write.verdict.stored in capture.STORED_POSTED and one.page.body:  # later pages see it, and find it
                its = one.analysis
                self._index.add(self._pages.postings, write.pointer, its, status=one.page.status)
                write.seen = StoredPage(
                    its.body_checksum, its.text_checksum, its.sketch, its.shingle_count, bool(its.entries)
                )
            self._pages.add(write)
        if write.says and one.anchors:
            self._add_anchors(write)
        return write

    def _add_anchors(self, write: Write) -> None:
        """What a page that is stored says of others; of a page that is written again, only what it said otherwise."""
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


# --- all of it put together


class WriteSide:
    """Everything that writes pages.

    Attributes:
        opened, table, committer, clock: as given.
        kernel: that analyses pages.
        pages, detector, sequencer: of this writer.
        preparer: of pages.
        queue: of groups.
        writer: of pages.
        poster: of pages that are stored.
        deleter: of pages.
        upkeep: what compaction asks.
    """

    def __init__(self, opened: Backend, table: Table, committer: Committer, clock: Callable[[], int]) -> None:
        self.opened, self.table, self.committer, self.clock = opened, table, committer, clock
        remembers = opened.engine.caps.single_writer or committer.fills_slots
        placement = opened.placement
        self.kernel = kernel_of(opened)
        engine = opened.engine
        buckets = open_buckets(opened, table)
        committer.followers.add(buckets.follow)
        index = HashIndex(opened.engine, buckets, remembers=remembers)
        bases = Bases(placement, opened.base_rows, remembers=remembers)
        self.pages = pages = GroupPages(
            table, placement, bases, remembers=remembers, is_alone=opened.engine.caps.single_writer
        )
        self.detector = detector = Detector(
            index, self.kernel, pages, Thresholds.of(opened.schema), title_rule=opened.schema.title_rule
        )
        self.sequencer = sequencer = Sequencer(
            committer=committer,
            index=index,
            pages=pages,
            bases=bases,
            table=table,
            placement=placement,
            detector=detector,
            values=ValueWriter(placement, pages, bases),
            counts=Counts(opened.engine, opened.session),
            reads=GroupReads(engine, pages, index, detector) if isinstance(engine, ReadsAhead) else None,
            clock=clock,
        )
        self.poster = Poster(index, self.kernel, table, placement, committer)
        self.deleter = PageDeleter(opened, table, committer, self.poster, clock)
        self.upkeep = PageUpkeep(opened, table, committer)
        self.queue = WriteQueue(sequencer)
        self.preparer = Preparer(self.kernel, clock)
        self.writer = PageWriter(self.preparer, self.queue)
