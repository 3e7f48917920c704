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
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from docstore.dedup.comparable import near_compares, text_compares
from docstore.dedup.detector import Detector, StoredPage
from docstore.dedup.index import HashIndex
from docstore.model import capture
from docstore.model.pointers import PagePointer
from docstore.model.types import Mutation, PutResult, RowMutations, SetCell, VerdictKind
from docstore.storage.envelope import encode_inline
from docstore.storage.plan import Cut, Plan, Stage
from docstore.storage.port import Committer, Values
from docstore.storage.sharing import SharedBodies
from docstore.writing.anchors import FAMILY as ANCHOR_FAMILY
from docstore.writing.judge import Answer, Judge, Policies, refused
from docstore.writing.placing import PAGES, Judged, PagePlacer, Visit, known_cells
from docstore.writing.prepare import Prepared
from docstore.writing.rows import PageRows
from docstore.writing.taken import TakenTimes
from docstore.writing.tally import Tally
from docstore.writing.versions import PendingPage

GROUP_PAGES = 256
GROUP_BYTES = 8 << 20
"""A group is committed when it has so many pages, or so many bytes of bodies."""
GROUP_ANCHORS = 20_000
"""A group with so many anchors is committed before its next page: they wait in memory."""


class Written(NamedTuple):
    """What became of pages: the results of those that are committed, the first ones, and why the others are not."""

    results: list[PutResult]
    error: BaseException | None


class Sequencer:
    """Writes pages in order; the committer's lock is held from a group's first verdict to its commit."""

    def __init__(
        self,
        *,
        committer: Committer,
        placement: Values,
        index: HashIndex,
        rows: PageRows,
        detector: Detector,
        sharing: SharedBodies,
        taken: TakenTimes,
        tally: Tally,
    ) -> None:
        self._committer = committer
        self._index = index
        self._rows = rows
        self._taken = taken
        self._tally = tally
        self._judge = Judge(rows, detector, taken, self.commit)
        self._placer = PagePlacer(placement, rows, sharing)
        self._plan = Plan()
        """Of the group in flight."""
        self._in_flight: list[Judged | Visit] = []
        self._anchor_cells: dict[bytes, list[Mutation]] = {}
        self._anchor_count = 0
        self._commits = committer.commits
        """The committer's count when what index and rows remember was true: only our own commits move it along."""

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
                if not self.is_current():  # a compaction, a sweep, a cell set by hand
                    self._index.forget()
                    self._rows.forget()
                    self._taken.forget()
                    self._commits = self._committer.commits
                self._rows.prepare([one.row_key for one in pages if not one.error])
                self._index.prepare(one.analysis for one in pages if one.analysis is not None)
                for one, policy in zip(pages, policies, strict=True):
                    commits = self._commits
                    try:
                        answer = self._admit(one, policy)
                    finally:
                        if self._commits != commits:  # what came before is committed
                            committed = len(answers)
                    answers.append(answer)
                self.commit()
            except BaseException as error:
                self._forget()
                return Written([_result(answer) for answer in answers[:committed]], error)
        return Written([_result(answer) for answer in answers], None)

    def is_current(self) -> bool:
        """Whether what index and rows remember is what is stored; the caller holds the lock."""
        return self._committer.commits == self._commits

    def note_delete(self, row_key: bytes) -> None:
        """A row was deleted, by the last commit alone, and the index knows: what is remembered of it is forgotten."""
        self._rows.forget_row(row_key)
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
                self._placer.place(one, plan)
                self._post_names(one)
                plan.write(Stage.PAGES, (one.row(),), turn=one.turn)
            else:
                plan.write(Stage.PAGES, (self._placer.place_visit(one),))
        self._committer.note_writes((one.pointer.row_key, len(one.page.page.body)) for one in judged)
        self._tally.count((one.verdict, len(one.page.page.body)) for one in judged)
        plan.write(Stage.POSTINGS, self._index.group_mutations())
        plan.write(Stage.ANCHORS, (RowMutations(PAGES, key, cells) for key, cells in self._anchor_cells.items()))
        plan.write(Stage.COUNTS, self._tally.rows())
        self._committer.commit(plan)
        self._commits = self._committer.commits
        self._tally.committed()
        self._forget(committed=True)

    def _forget(self, *, committed: bool = False) -> None:
        plan, self._plan = self._plan, Plan()
        self._in_flight.clear()
        self._anchor_cells = {}
        self._anchor_count = 0
        self._index.end_group(committed=committed)
        if self._rows.hides:
            self._index.forget_gone()  # not seen while it was in doubt, or confirmed by this very group
        self._rows.end_group(committed=committed, shared=plan.written(Stage.BASES))
        self._tally.rollback()
        if not committed:
            self._taken.forget()

    def _admit(self, one: Prepared, policies: Policies) -> Answer:
        """Judge a page, and take it into the group in flight."""
        if one.error:
            return refused(one, one.error)
        if self._rows.in_flight(one.row_key):
            self.commit(Cut.ROW_AGAIN)
        elif self._anchor_count >= GROUP_ANCHORS:
            self.commit(Cut.ANCHORS)
        self._rows.turn = 0
        if one.analysis is None:
            return self._admit_visit(one)
        answer, verdict, says = self._judge.page(one, policies)
        if verdict is not None:
            pending = self._post(one, verdict.pointer, verdict.stored)
            self._rows.add_pending(verdict.pointer, pending)
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
                    verdict.damaged,
                    self._rows.turn,
                )
            )
        if says and one.anchors:
            self._add_anchors(one, answer.timestamp, again=verdict is None or verdict.previous is not None)
        return answer

    def _admit_visit(self, one: Prepared) -> Answer:
        decision = self._judge.visit(one)
        if decision.is_stored:
            self._rows.add_pending(PagePointer(one.timestamp, one.row_key), None)
            self._in_flight.append(Visit(one, decision.confirms))
        if decision.is_first:
            self._tally.count_visit()
        return decision.answer

    def _post(self, one: Prepared, pointer: PagePointer, verdict: capture.StoredVerdict) -> PendingPage | None:
        """Post a page that holds its own body, or shares the very same one; -> how the group sees it."""
        analysis = one.analysis
        assert analysis is not None
        exact_reference = verdict.stored == capture.STORED_REFERENCE and verdict.kind is VerdictKind.EXACT
        if not (verdict.stored == capture.STORED_BODY or exact_reference) or not one.page.body:
            return None
        good = text_compares(one.page.status)
        near = near_compares(one.page.status, analysis.word_count)
        postings = self._index.add(one.row_key, pointer.timestamp, analysis, text=good, near=near)
        self._plan.write(Stage.POSTINGS, postings)
        stored = StoredPage(analysis.body_checksum, analysis.text_checksum, analysis.sketch, analysis.shingle_count)
        return PendingPage(stored, analysis.title, one.page.status, analysis.main_bytes, one.page.body, b"", None)

    def _post_names(self, one: Judged) -> None:
        """Post the names under which others know a page; no verdict asks for them."""
        page, analysis = one.page.page, one.page.analysis
        if analysis is not None and (page.payload_digest or page.docno):
            names = self._index.add_names(one.pointer, analysis.body_checksum, page.payload_digest, page.docno)
            self._plan.write(Stage.POSTINGS, names)

    def _add_anchors(self, one: Prepared, timestamp: int, *, again: bool) -> None:
        """What a page that is stored says of others; of a page that is written `again`, only what it said otherwise."""
        source = one.url.encode()
        for anchor in one.anchors:
            value = encode_inline(anchor.text)
            newest = self._rows.anchor(anchor.row_key, source) if again else None
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
