"""Judging a page: what it is to the store and to its own row, and what becomes of its body.

Knows rows, the detector and the rules of policies; must not know where values go, nor what a plan holds.  Nothing is
written here.  Where the group in flight has to be committed first, whoever runs it is told why (`Cut`): a policy may
hide a page that the verdict asks for as soon as the group is committed; a page is rejected or stored by reference only
against a committed page, and rejected only while that page still shows what it duplicates (`StoredPages.stands`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from docstore.dedup.comparable import bodies_compare
from docstore.dedup.detector import Detector, Judgement
from docstore.dedup.kernel import decides_alone
from docstore.model import capture
from docstore.model.format import TIMESTAMP_MAX
from docstore.model.keys import same_host
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, Policy, Previous, VerdictKind
from docstore.storage.envelope import is_absent
from docstore.storage.plan import Cut
from docstore.storage.table import TIMESTAMP_STEP_MICROS
from docstore.writing.own import OwnRow, OwnRows, OwnVersion, TakenTimes
from docstore.writing.pages import GroupPages
from docstore.writing.prepare import Prepared

MOST_PROBES = 8
"""Milliseconds that are looked up one by one, before those that are taken are read together."""

Policies = Mapping[VerdictKind, Policy]
_NEEDS_BODY = (
    "this store's checksum does not tell two bodies apart by itself, so that it must keep each body; make a store with "
    "checksum blake3, or leave keep_body at True"
)
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


class Verdict(NamedTuple):
    """The verdict on a page that is to be stored.

    Attributes:
        pointer: its row and time.
        stored: as its row will hold it.
        judgement: against other rows.
        previous: its own row's version before it.
        damaged: cells of its row's version of the same bytes that cannot be read; what is stored now takes their place.
        rewrites: it takes the place of what its row has at its time.
    """

    pointer: PagePointer
    stored: capture.StoredVerdict
    judgement: Judgement
    previous: OwnVersion | None
    damaged: Sequence[Cell]
    rewrites: bool


class Decision(NamedTuple):
    """What was decided on a page.

    Attributes:
        answer: for its caller.
        verdict: by which it is stored; None where nothing is.
        says: whether what it says of other pages is stored.
    """

    answer: Answer
    verdict: Verdict | None = None
    says: bool = False


class VisitDecision(NamedTuple):
    """What was decided on a visit that found nothing new (304).

    Attributes:
        answer: for its caller.
        is_stored: whether it is noted, for the first time or again.
        is_first: whether it is new.
        confirms: the version that stands for it; None where there is none.
    """

    answer: Answer
    is_stored: bool = False
    is_first: bool = False
    confirms: OwnVersion | None = None


class Judge:
    """Judges pages in their order.

    Args:
        pages: committed ones and those of the group in flight.
        own: the row that a page goes into.
        detector: judges against pages of other rows.
        taken: milliseconds that are taken.
        commit: commits the group in flight, for a reason.
    """

    def __init__(
        self, pages: GroupPages, own: OwnRows, detector: Detector, taken: TakenTimes, commit: Callable[[Cut], None]
    ) -> None:
        self._pages = pages
        self._own = own
        self._detector = detector
        self._taken = taken
        self._commit = commit

    def page(self, one: Prepared, policies: Policies) -> Decision:
        """Judge a page with a body.

        A capture that was rejected is judged anew when it comes again: what it was rejected for may be gone.
        """
        assert one.analysis is not None
        if not one.keep_body and not decides_alone(one.analysis.body_checksum):
            return Decision(refused(one, _NEEDS_BODY))
        own, timestamp = self._settle(one)
        if own is None:
            error = f"no millisecond is free from {one.timestamp} on; give it an earlier time"
            return Decision(refused(one, error))
        known = None
        if own.taken is not None:
            known = capture.decode_verdict(own.verdict) if own.verdict else _UNJUDGED
        damaged = [] if known is None else self._own.unreadable_cells(one.row_key, {timestamp})
        if damaged or (known is not None and known.stored == capture.STORED_TEXT and one.keep_body):
            known = None  # it is judged and stored anew, in its own place
        if known is not None and known.stored != capture.STORED_REJECTED:
            return Decision(_known(one.url, timestamp, known), says=True)  # may have been stored without them
        previous, previous_similarity = self._compare_with_previous(one, own.previous)
        judgement = self._detector.judge(one.row_key, one.page.body, one.analysis, status=one.page.status)
        if self._pages.in_doubt:
            self._commit(Cut.POLICY)
            judgement = self._detector.judge(one.row_key, one.page.body, one.analysis, status=one.page.status)
        confirms = previous is Previous.SAME_BYTES and self._answers_alike(one, own.previous)
        if confirms and own.previous is not None:
            damaged += self._own.unreadable_cells(
                one.row_key, {own.previous.timestamp, own.previous.text_timestamp or own.previous.timestamp}
            )
        if damaged:
            stored = capture.STORED_BODY  # the only copy that can be read, whatever the policy
        elif confirms and not (one.keep_body and own.previous is not None and is_absent(own.previous.body)):
            stored = capture.STORED_CONFIRMED
        else:
            stored = self.kept_as(one, judgement, policies.get(judgement.kind, Policy.FLAG))
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
            return Decision(_known(one.url, timestamp, known))
        pointer = PagePointer(timestamp, one.row_key)
        return Decision(
            Answer(one.url, timestamp, verdict),
            Verdict(pointer, verdict, judgement, own.previous, damaged, own.taken is not None),
            says=stored != capture.STORED_REJECTED,
        )

    def visit(self, one: Prepared) -> VisitDecision:
        """Judge a visit that found nothing new (304): it confirms the version before it, and is kept beside it.

        It is answered the verdict of that version.  One that came when there was no version to confirm is taken again
        when there is.
        """
        own = self._own.own(one.row_key, one.timestamp)
        answer = _NOT_MODIFIED
        if own.previous is not None:
            answer = self._own.confirmed_verdict(one.row_key, own.previous) or _CONFIRMED
        is_known = self._own.has_visit(PagePointer(one.timestamp, one.row_key))
        if is_known and (own.taken is not None or own.previous is None):
            return VisitDecision(_known(one.url, one.timestamp, answer))
        confirms = own.previous if own.taken is None else None
        return VisitDecision(Answer(one.url, one.timestamp, answer), True, not is_known, confirms)

    def kept_as(self, one: Prepared, judgement: Judgement, policy: Policy) -> str:
        """What becomes of the body of a page by the policy for its verdict: one of the STORED_ words."""
        of = judgement.of
        whole = capture.STORED_BODY if one.keep_body else capture.STORED_TEXT
        if of is None or policy is Policy.FLAG or (policy is Policy.REJECT and not same_host(one.row_key, of.row_key)):
            return whole
        if policy is Policy.REFERENCE and not one.keep_body:
            return whole
        if self._pages.in_flight(of.row_key):
            self._commit(Cut.ORIGINAL)
        if one.keep_body and not self._pages.keeps_body(of):
            return whole  # else nobody had its bytes
        if policy is Policy.REFERENCE:
            return capture.STORED_REFERENCE
        return capture.STORED_REJECTED if self._pages.stands(of) else whole

    def _settle(self, one: Prepared) -> tuple[OwnRow | None, int]:
        """The row's state at the first millisecond from the page's own on that is free or holds this very body.

        None where there is none: the page came at the end of time.
        """
        assert one.analysis is not None
        checksum = one.analysis.body_checksum
        timestamp = one.timestamp
        probes = 0
        own = self._own.own(one.row_key, timestamp)
        while own.taken is not None and not self._same_body(one, timestamp, own.taken):
            timestamp += TIMESTAMP_STEP_MICROS
            probes += 1
            if probes >= MOST_PROBES:
                timestamp = self._taken.next(one.row_key, timestamp, checksum)
            if timestamp > TIMESTAMP_MAX:
                return None, timestamp
            own = self._own.own(one.row_key, timestamp)
        self._taken.take(one.row_key, timestamp, checksum)
        return own, timestamp

    def _same_body(self, one: Prepared, timestamp: int, stored_checksum: bytes) -> bool:
        """Whether a body is the one that its row holds at a time.

        Bytes are compared where the checksum is too weak to decide alone, or not known any more.  Where they cannot be
        read, or were rejected, a weak checksum has to do.
        """
        assert one.analysis is not None
        checksum = one.analysis.body_checksum
        if stored_checksum and checksum != stored_checksum:
            return False
        if stored_checksum and decides_alone(checksum):
            return True
        stored = self._own.stored_body(one.row_key, timestamp)
        return bool(stored_checksum) if stored is None else stored == one.page.body

    def _compare_with_previous(self, one: Prepared, previous: OwnVersion | None) -> tuple[Previous, float]:
        assert one.analysis is not None
        if previous is None:
            return Previous.NONE, 0.0
        if self._same_body(one, previous.timestamp, previous.checksum):
            return Previous.SAME_BYTES, 1.0
        similarity = self._detector.similarity(
            one.analysis,
            previous.text_checksum,
            lambda: self._pages.text(PagePointer(previous.text_timestamp, one.row_key)),
        )
        if one.analysis.text_checksum and one.analysis.text_checksum == previous.text_checksum:
            return Previous.SAME_TEXT, similarity
        return Previous.CHANGED, similarity

    def _answers_alike(self, one: Prepared, previous: OwnVersion | None) -> bool:
        """Whether a page's status is like that of the version before it: an error's body does not confirm a page."""
        assert previous is not None
        return bodies_compare(one.page.status, self._pages.status(PagePointer(previous.timestamp, one.row_key)))


def refused(one: Prepared, error: str) -> Answer:
    """The answer to a page that cannot be stored."""
    return Answer(one.page.url, one.timestamp, _UNJUDGED, error)


def _known(url: str, timestamp: int, known: capture.StoredVerdict) -> Answer:
    """The answer to a capture that is there already."""
    return Answer(url, timestamp, known._replace(stored=capture.STORED_KNOWN), known_as=known.stored)


def _same_answer(one: capture.StoredVerdict, other: capture.StoredVerdict) -> bool:
    """Whether two verdicts say the same of a page, and the same became of it."""
    return (one.kind, one.of_row_key, one.of_timestamp, one.stored) == (
        other.kind,
        other.of_row_key,
        other.of_timestamp,
        other.stored,
    )
