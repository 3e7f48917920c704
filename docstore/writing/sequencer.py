"""The sequencer of writes: verdicts in input order, groups committed in input order, one commit point.

Knows both tablets and dedup.  One page after the other is judged against the committed store and the pages of its own
group before it; then the values of the group are appended to the active segment; the segment is synced and one plan
writes manifest, postings and rows.  An answer is handed out after its own and every earlier group is committed, so a
crash leaves a prefix of the input, and any number of analysing threads gives the same store.

A group goes through these steps together, because each finds in the processor's cache what it needs: zstd between two
verdicts would push that out, and a write would take a twentieth longer.  Nothing that a verdict asks of a page in
flight depends on where its values lie.

A row that the group in flight has touched is committed before it is touched again; `judge` says what else cuts a plan
short (`Cut`).

Where several processes write, nothing is remembered from one group to the next, and the committer may find that another
process was faster with a page, or with its body.  Such pages are judged anew, until none is left: an answer is always
about what was committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from docstore.dedup.comparable import REASON_BLANK, status_class
from docstore.dedup.detector import Detector, StoredPage
from docstore.dedup.index import HashIndex
from docstore.model import capture
from docstore.model.pointers import PagePointer
from docstore.model.types import Mutation, PutResult, RowMutations, SetCell, VerdictKind
from docstore.storage.envelope import encode_inline
from docstore.storage.plan import Cut, Plan, Slot, Stage
from docstore.storage.port import Committer, Values
from docstore.storage.sharing import SharedBodies
from docstore.writing.ahead import GroupReads
from docstore.writing.anchors import FAMILY as ANCHOR_FAMILY
from docstore.writing.bases import Bases
from docstore.writing.judge import Answer, Judge, Policies, refused
from docstore.writing.own import OwnRows, TakenTimes
from docstore.writing.pages import GroupPages, PendingPage
from docstore.writing.placing import PAGES, Judged, PagePlacer, Visit, known_cells
from docstore.writing.prepare import Prepared
from docstore.writing.tally import Tally

GROUP_ANCHORS = 20_000
"""A group with so many anchors is committed before its next page: they wait in memory."""


class Written(NamedTuple):
    """What became of pages: the results of those that are committed, the first ones, and why the others are not."""

    results: list[PutResult]
    error: BaseException | None


class Sequencer:
    """Writes pages in order; the committer's lock is held from a group's first verdict to its commit.

    Attributes:
        judge, placer: for those who change stored pages, under the same lock.
    """

    def __init__(
        self,
        *,
        committer: Committer,
        placement: Values,
        index: HashIndex,
        pages: GroupPages,
        bases: Bases,
        own: OwnRows,
        detector: Detector,
        sharing: SharedBodies,
        taken: TakenTimes,
        tally: Tally,
        reads: GroupReads,
        clock: Callable[[], int],
    ) -> None:
        self._committer = committer
        self._is_shared = committer.fills_slots
        self._lost: dict[int, bytes] = {}
        """Row keys of pages of the group being written for which another process was faster, by `id`."""
        self._index = index
        self._pages = pages
        self._bases = bases
        self._own = own
        self._taken = taken
        self._tally = tally
        self._reads = reads
        self.judge = Judge(pages, own, detector, taken, self.commit)
        self.placer = PagePlacer(placement, pages, bases, sharing)
        self._clock = clock
        self._plan = Plan()
        """Of the group in flight."""
        self._in_flight: list[Judged | Visit] = []
        self._anchor_cells: dict[bytes, list[Mutation]] = {}
        self._anchor_count = 0
        self._commits = committer.commits
        """The committer's count when what is remembered was true: only our own commits move it along."""

    def write(self, pages: Sequence[Prepared], policies: Sequence[Policies]) -> Written:
        """Judge, store and commit pages, in order.

        Args:
            pages: to be written.
            policies: what to do per verdict, for each page.
        Returns:
            The results of all, committed at the store's durability; or of the first ones, and why there are no more.
            A StorageError says that the rest is not applied; after CommitUnknown, writing it again is safe.
        """
        answers: list[Answer] = []
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
                self._forget()
                return Written([_result(answer) for answer in answers[:committed]], error)
            finally:
                self._reads.forget()
        return Written([_result(answer) for answer in answers], None)

    def _prepare(self, pages: Sequence[Prepared]) -> None:
        """Forget what may not hold any more, and read together what judging these pages will ask for."""
        if not self.is_current():  # a compaction, a sweep, a cell set by hand, another process
            self.forget_rows()
        self._reads.begin(pages)
        self._own.prepare([one.row_key for one in pages if not one.error])
        self._index.prepare(one.analysis for one in pages if one.analysis is not None)
        self._reads.prepare(pages)

    def _write_lost(self, pages: Sequence[Prepared], policies: Sequence[Policies], answers: list[Answer]) -> None:
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

    def is_current(self) -> bool:
        """Whether what is remembered is what is stored; the caller holds the lock."""
        return not self._is_shared and self._committer.commits == self._commits

    def forget_rows(self) -> None:
        """Forget what is remembered of rows, for others have changed them; no group is in flight."""
        self._forget()
        for cache in (self._index, self._pages, self._bases, self._own, self._taken):
            cache.forget()
        self._commits = self._committer.commits

    def note_delete(self, row_key: bytes) -> None:
        """A row was deleted, by the last commit alone, and the index knows: what is remembered of it is forgotten."""
        self._pages.forget_row(row_key)
        self._taken.forget()
        self._commits = self._committer.commits

    def commit(self, cut: Cut | None = None) -> None:
        """Place the values of the group in flight and commit its plan: the one commit point.

        Args:
            cut: why it is not committed later, with more pages.
        """
        if not self._in_flight and not self._anchor_cells:
            return
        plan = self._plan
        plan.cut = cut
        judged = [one for one in self._in_flight if isinstance(one, Judged)]
        for one in self._in_flight:
            if isinstance(one, Judged):
                self.placer.place(one, plan)
                self._post_names(one)
                if self._is_shared:
                    plan.fill(self._slot(one), turn=one.turn)
                else:
                    plan.write(Stage.PAGES, (one.row(),), turn=one.turn)
            else:
                plan.write(Stage.PAGES, (self.placer.place_visit(one),))
        self._committer.note_writes((one.pointer.row_key, len(one.page.page.body)) for one in judged)
        plan.write(Stage.POSTINGS, self._index.group_mutations())
        plan.write(Stage.ANCHORS, (RowMutations(PAGES, key, cells) for key, cells in self._anchor_cells.items()))
        if not self._is_shared:
            self._tally.count((one.verdict, len(one.page.page.body)) for one in judged)
            plan.write(Stage.COUNTS, self._tally.rows())
        self._committer.commit(plan)
        some_lost = self._is_shared and self._note_lost(judged)
        self._commits = self._committer.commits
        self._tally.committed()
        self._forget(committed=not some_lost)

    def _slot(self, one: Judged) -> Slot:
        """A page as it is written where others may be faster: what is new claims its body first."""
        verdict, analysis = one.verdict, one.page.analysis
        assert analysis is not None
        named = [one.judgement.of, one.judgement.contains]
        claim = b""
        if verdict.kind is VerdictKind.NEW and verdict.reason != REASON_BLANK and verdict.stored == capture.STORED_BODY:
            claim = bytes((status_class(one.page.page.status),)) + analysis.body_checksum
        return Slot(one.pointer, one.row(), claim, one.rewrites, frozenset(page for page in named if page is not None))

    def _note_lost(self, judged: Sequence[Judged]) -> bool:
        """Count what is written, and note what is to be judged anew; whether there is any."""
        lost = self._committer.lost
        self._tally.count((one.verdict, len(one.page.page.body)) for one in judged if one.pointer not in lost)
        counts = Plan().write(Stage.COUNTS, self._tally.rows())
        if lost:
            self._lost |= {id(one.page): one.page.row_key for one in judged if one.pointer in lost}
            for cache in (self._index, self._pages, self._bases, self._own, self._taken):
                cache.forget()
        self._committer.commit(counts)
        return bool(lost)

    def _forget(self, *, committed: bool = False) -> None:
        plan, self._plan = self._plan, Plan()
        if committed:
            self._reads.drop(plan)
        else:
            self._reads.forget()
        self._in_flight.clear()
        self._anchor_cells = {}
        self._anchor_count = 0
        self._index.end_group(committed=committed)
        self._bases.end_group(committed=committed, shared=plan.written(Stage.BASES))
        self._pages.end_group(committed=committed)
        self._tally.rollback()
        if not committed:
            self._taken.forget()

    def _admit(self, one: Prepared, policies: Policies) -> Answer:
        """Judge a page, and take it into the group in flight."""
        if one.error:
            return refused(one, one.error)
        if self._lost and one.row_key in self._lost.values():  # after the page of its row that came before
            self._lost[id(one)] = one.row_key
            return refused(one, "")
        if self._pages.in_flight(one.row_key):
            self.commit(Cut.ROW_AGAIN)
        elif self._anchor_count >= GROUP_ANCHORS:
            self.commit(Cut.ANCHORS)
        self._pages.turn = 0
        if one.analysis is None:
            return self._admit_visit(one)
        lost_before = len(self._lost)
        answer, verdict, says = self.judge.page(one, policies)
        if len(self._lost) != lost_before:  # judging it has committed what its verdict may name
            self._lost[id(one)] = one.row_key
            return answer
        if verdict is not None:
            pending = self._post(one, verdict.pointer, verdict.stored)
            self._add_pending(verdict.pointer, pending)
            cells, long = known_cells(one, verdict.stored)
            self._in_flight.append(
                Judged(
                    one,
                    verdict.pointer,
                    verdict.stored,
                    verdict.judgement,
                    verdict.previous,
                    pending,
                    cells,
                    long,
                    verdict.is_damaged,
                    self._clock(),
                    self._pages.turn,
                    verdict.rewrites,
                )
            )
        if says and one.anchors:
            self._add_anchors(one, answer.timestamp, again=verdict is None or verdict.previous is not None)
        return answer

    def _admit_visit(self, one: Prepared) -> Answer:
        decision = self.judge.visit(one)
        if decision.is_stored:
            self._add_pending(PagePointer(decision.timestamp, one.row_key), None)
            verdict = None if decision.confirms is None else decision.answer.verdict
            self._in_flight.append(Visit(one, decision.timestamp, decision.confirms, verdict, self._clock()))
        if decision.is_first:
            self._tally.count_visit()
        return decision.answer

    def _post(self, one: Prepared, pointer: PagePointer, verdict: capture.StoredVerdict) -> PendingPage | None:
        """Post a page whose body can be read; -> how the group sees it."""
        analysis = one.analysis
        assert analysis is not None
        if verdict.stored not in capture.STORED_POSTED or not one.page.body:
            return None
        postings = self._index.add(one.row_key, pointer.timestamp, analysis, status=one.page.status)
        self._plan.write(Stage.POSTINGS, postings)
        stored = StoredPage(
            analysis.body_checksum,
            analysis.text_checksum,
            analysis.sketch,
            analysis.shingle_count,
            bool(analysis.entries),
        )
        return PendingPage(stored, analysis.title, one.page.status, analysis.main_bytes, one.page.body, {}, None)

    def _add_pending(self, pointer: PagePointer, pending: PendingPage | None) -> None:
        self._pages.add_pending(pointer, pending)
        self._own.note_write(pointer.row_key)

    def _post_names(self, one: Judged) -> None:
        """Post the names under which others know a page; no verdict asks for them."""
        page, analysis = one.page.page, one.page.analysis
        if analysis is not None and (page.payload_digest or page.docno):
            names = self._index.add_names(one.pointer, page.payload_digest, page.docno)
            self._plan.write(Stage.POSTINGS, names)

    def _add_anchors(self, one: Prepared, timestamp: int, *, again: bool) -> None:
        """What a page that is stored says of others; of a page that is written `again`, only what it said otherwise."""
        source = one.url.encode()
        for anchor in one.anchors:
            value = encode_inline(anchor.text)
            newest = self._own.anchor(anchor.row_key, source) if again else None
            if newest is not None and newest.timestamp <= timestamp and newest.value == value:
                continue
            cell = SetCell(ANCHOR_FAMILY, source, timestamp, value)
            self._anchor_cells.setdefault(anchor.row_key, []).append(cell)
            self._anchor_count += 1


def _result(answer: Answer) -> PutResult:
    url, timestamp, verdict, error, known_as = answer
    return PutResult(
        url,
        timestamp,
        capture.shown_verdict(verdict),
        verdict.previous,
        verdict.previous_similarity,
        verdict.stored,
        error,
        known_as,
    )
