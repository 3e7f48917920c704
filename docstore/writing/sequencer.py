"""The sequencer of writes: verdicts in input order, groups committed in input order, one commit point.

Knows both tablets and dedup.  One page after the other is judged against the committed store and the pages of its own
group before it; then the values of the group are appended to the active segment; the segment is synced and one plan
writes manifest, postings and rows.  An answer is handed out after its own and every earlier group is committed, so a
crash leaves a prefix of the input, and any number of analysing threads gives the same store.

A group goes through these steps together, because each finds in the processor's cache what it needs: zstd between two
verdicts would push that out, and a write would take a twentieth longer.  Nothing that a verdict asks of a page in
flight depends on where its values lie.

Three rules keep input order true, and cut a plan short (`Cut`).  A row that the group in flight has touched is
committed before it is touched again.  Where a policy may hide a page that a verdict asks for as soon as the group is
committed, it is committed first.  A page is rejected or stored by reference only against a committed page, and rejected
only while that page still shows what it duplicates (`PageRows.stands`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from docstore.dedup.comparable import bodies_compare, near_compares, text_compares
from docstore.dedup.detector import Detector, Judgement, StoredPage
from docstore.dedup.index import HashIndex
from docstore.model import capture
from docstore.model.format import TIMESTAMP_MAX
from docstore.model.keys import same_host
from docstore.model.pointers import PagePointer
from docstore.model.types import Mutation, Policy, Previous, PutResult, RowMutations, SetCell, VerdictKind
from docstore.storage.envelope import encode_inline
from docstore.storage.plan import Cut, Plan, Stage
from docstore.storage.port import Committer, Values
from docstore.storage.sharing import SharedBodies
from docstore.storage.table import TIMESTAMP_STEP_MICROS
from docstore.writing.anchors import FAMILY as ANCHOR_FAMILY
from docstore.writing.placing import PAGES, Judged, PagePlacer, Visit, known_cells
from docstore.writing.prepared import Prepared
from docstore.writing.rows import PageRows
from docstore.writing.taken import TakenTimes
from docstore.writing.tally import Tally
from docstore.writing.versions import OwnRow, OwnVersion, PendingPage

GROUP_PAGES = 256
GROUP_BYTES = 8 << 20
"""A group is committed when it has so many pages, or so many bytes of bodies."""
GROUP_ANCHORS = 20_000
"""A group with so many anchors is committed before its next page: they wait in memory."""

MOST_PROBES = 8
"""Milliseconds that are looked up one by one, before those that are taken are read together."""

Policies = Mapping[VerdictKind, Policy]
_UNJUDGED = capture.StoredVerdict(
    VerdictKind.NEW, b"", 0, 0.0, "", b"", 0, 0, Previous.NONE, 0.0, capture.STORED_REFUSED
)
_NOT_MODIFIED = _UNJUDGED._replace(reason=capture.REASON_NOT_MODIFIED, stored=capture.STORED_VISIT)
_CONFIRMED = _NOT_MODIFIED._replace(
    previous=Previous.SAME_BYTES, previous_similarity=1.0, stored=capture.STORED_CONFIRMED
)


class Answer(NamedTuple):
    """What one page is answered, once its group is committed."""

    url: str
    timestamp: int
    verdict: capture.StoredVerdict
    error: str = ""
    known_as: str = ""


class Written(NamedTuple):
    """What became of pages: the results of those that are committed, the first ones, and why the others are not."""

    results: list[PutResult]
    error: BaseException | None


def _known(url: str, timestamp: int, known: capture.StoredVerdict) -> Answer:
    """The answer to a capture that is there already."""
    return Answer(url, timestamp, known._replace(stored=capture.STORED_KNOWN), known_as=known.stored)


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
        self._detector = detector
        self._taken = taken
        self._tally = tally
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
                        answer = self._judge(one, policy)
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

    # --- verdicts

    def _judge(self, one: Prepared, policies: Policies) -> Answer:
        """Judge a page, and put it into the group in flight.

        A capture that was rejected is judged anew when it comes again: what it was rejected for may be gone.
        """
        if one.error:
            return Answer(one.page.url, one.timestamp, _UNJUDGED, one.error)
        if self._rows.in_flight(one.row_key):
            self.commit(Cut.ROW_AGAIN)
        elif self._anchor_count >= GROUP_ANCHORS:
            self.commit(Cut.ANCHORS)
        self._rows.turn = 0
        if one.analysis is None:
            return self._judge_visit(one)
        own, timestamp = self._settle(one)
        if own is None:
            error = f"no millisecond is free from {one.timestamp} on; give it an earlier time"
            return Answer(one.page.url, one.timestamp, _UNJUDGED, error)
        known = None
        if own.taken is not None:
            known = capture.decode_verdict(own.verdict) if own.verdict else _UNJUDGED
        damaged = [] if known is None else self._rows.unreadable_cells(one.row_key, {timestamp})
        if damaged:
            known = None  # it is judged and stored anew, in its own place
        if known is not None and known.stored != capture.STORED_REJECTED:
            self._add_anchors(one, timestamp, again=True)  # it may have been stored before without them
            return _known(one.url, timestamp, known)
        previous, previous_similarity = self._compare_with_previous(one, own.previous)
        judgement = self._detector.judge(one.row_key, one.page.body, one.analysis, status=one.page.status)
        if self._rows.in_doubt:
            self.commit(Cut.POLICY)
            judgement = self._detector.judge(one.row_key, one.page.body, one.analysis, status=one.page.status)
        confirms = previous is Previous.SAME_BYTES and self._answers_alike(one, own.previous)
        if confirms and own.previous is not None:
            damaged += self._rows.unreadable_cells(
                one.row_key, {own.previous.timestamp, own.previous.text_timestamp or own.previous.timestamp}
            )
        if damaged:
            stored = capture.STORED_BODY  # the only copy that can be read, whatever the policy
        elif confirms:
            stored = capture.STORED_CONFIRMED
        else:
            stored = self._kept_as(one.row_key, judgement, policies.get(judgement.kind, Policy.FLAG))
        verdict = capture.StoredVerdict(
            judgement.kind,
            judgement.of.row_key if judgement.of else b"",
            judgement.of.timestamp if judgement.of else 0,
            judgement.similarity,
            judgement.reason,
            judgement.contains.row_key if judgement.contains else b"",
            judgement.candidates,
            judgement.verified,
            previous,
            previous_similarity,
            stored,
        )
        if known is not None and _same_answer(known, verdict):
            return _known(one.url, timestamp, known)
        pointer = PagePointer(timestamp, one.row_key)
        pending = self._post(one, pointer, verdict)
        self._rows.add_pending(pointer, pending)
        cells, long = known_cells(one, verdict)
        turn = self._rows.turn
        self._in_flight.append(
            Judged(one, pointer, verdict, judgement, own.previous, pending, cells, long, damaged, turn)
        )
        if one.anchors and stored != capture.STORED_REJECTED:
            self._add_anchors(one, timestamp, again=own.previous is not None)
        return Answer(one.url, timestamp, verdict)

    def _kept_as(self, row_key: bytes, judgement: Judgement, policy: Policy) -> str:
        """What becomes of the body of a page by the policy for its verdict."""
        of = judgement.of
        if of is None or policy is Policy.FLAG or (policy is Policy.REJECT and not same_host(row_key, of.row_key)):
            return capture.STORED_BODY
        if self._rows.in_flight(of.row_key):
            self.commit(Cut.ORIGINAL)
        if policy is Policy.REFERENCE:
            return capture.STORED_REFERENCE
        return capture.STORED_REJECTED if self._rows.stands(of) else capture.STORED_BODY

    def _judge_visit(self, one: Prepared) -> Answer:
        """A visit that found nothing new (304): confirms the version before it, and is kept beside it.

        One that came when there was no version to confirm is taken again when there is.
        """
        own = self._rows.own(one.row_key, one.timestamp)
        answer = _NOT_MODIFIED if own.previous is None else _CONFIRMED
        pointer = PagePointer(one.timestamp, one.row_key)
        known = self._rows.has_visit(pointer)
        if known and (own.taken is not None or own.previous is None):
            return _known(one.url, one.timestamp, answer)
        self._rows.add_pending(pointer, None)
        self._in_flight.append(Visit(one, own.previous if own.taken is None else None))
        if not known:
            self._tally.count_visit()
        return Answer(one.url, one.timestamp, answer)

    def _settle(self, one: Prepared) -> tuple[OwnRow | None, int]:
        """The row's state at the first millisecond from the page's own on that is free or holds this very body.

        None where there is none: the page came at the end of time.
        """
        assert one.analysis is not None
        checksum = one.analysis.body_checksum
        timestamp = one.timestamp
        probes = 0
        own = self._rows.own(one.row_key, timestamp)
        while own.taken is not None and not self._same_body(one, timestamp, own.taken):
            timestamp += TIMESTAMP_STEP_MICROS
            probes += 1
            if probes >= MOST_PROBES:
                timestamp = self._taken.next(one.row_key, timestamp, checksum)
            if timestamp > TIMESTAMP_MAX:
                return None, timestamp
            own = self._rows.own(one.row_key, timestamp)
        self._taken.take(one.row_key, timestamp, checksum)
        return own, timestamp

    def _same_body(self, one: Prepared, timestamp: int, stored_checksum: bytes) -> bool:
        assert one.analysis is not None
        pointer = PagePointer(timestamp, one.row_key)
        return self._rows.same_body(one.page.body, one.analysis.body_checksum, pointer, stored_checksum)

    def _compare_with_previous(self, one: Prepared, previous: OwnVersion | None) -> tuple[Previous, float]:
        assert one.analysis is not None
        if previous is None:
            return Previous.NONE, 0.0
        if self._same_body(one, previous.timestamp, previous.checksum):
            return Previous.SAME_BYTES, 1.0
        similarity = self._detector.similarity(
            one.analysis, previous.text_checksum, lambda: self._rows.own_text(one.row_key, previous)
        )
        if one.analysis.text_checksum and one.analysis.text_checksum == previous.text_checksum:
            return Previous.SAME_TEXT, similarity
        return Previous.CHANGED, similarity

    def _answers_alike(self, one: Prepared, previous: OwnVersion | None) -> bool:
        """Whether a page's status is like that of the version before it: an error's body does not confirm a page."""
        assert previous is not None
        return bodies_compare(one.page.status, self._rows.status(PagePointer(previous.timestamp, one.row_key)))

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


def _same_answer(one: capture.StoredVerdict, other: capture.StoredVerdict) -> bool:
    """Whether two verdicts say the same of a page, and the same became of it."""
    return (one.kind, one.of_row_key, one.of_timestamp, one.stored) == (
        other.kind,
        other.of_row_key,
        other.of_timestamp,
        other.stored,
    )


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
