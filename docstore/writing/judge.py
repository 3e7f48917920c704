"""Judging a page: what it is to the store and to its own row, and what becomes of its body.

`Judge` gives the verdict; `TakenTimes` finds a free time in the row that the page goes into; `GroupReads` reads
together what judging a group will ask for, where each read alone is a call to another machine.

Knows rows, the detector and the rules of policies; must not know where values go, nor what a plan holds.  Nothing is
written here.  Where the group in flight has to be committed first, whoever runs it is told why (`Cut`): a policy may
hide a page that the verdict asks for as soon as the group is committed; a page is rejected or stored by reference only
against a committed page, and rejected only while that page still shows what it duplicates (`StoredPages.stands`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from docstore.dedup.buckets import TABLE as POSTINGS
from docstore.dedup.buckets import NewPostings
from docstore.dedup.comparable import bodies_compare
from docstore.dedup.detector import Detector, Judgement, stored_verdict
from docstore.dedup.index import POINTER_SLICE, HashIndex
from docstore.dedup.kernel import decides_alone
from docstore.model import capture
from docstore.model.capture import BODY, VERDICT, StoredVerdict, decode_verdict
from docstore.model.errors import CorruptionError
from docstore.model.format import CAPTURE_FAMILY, CAPTURE_NOT_MODIFIED, CAPTURE_REJECTED, TIMESTAMP_MAX
from docstore.model.keys import same_host
from docstore.model.pointers import PagePointer
from docstore.model.types import Policy, Previous, ReadSpec, SetCell, VerdictKind
from docstore.storage.bases import value_name
from docstore.storage.cache import LruCache
from docstore.storage.captures import CaptureRecord, LiveCapture, decode_capture, not_modified
from docstore.storage.engine import FirstQualifiers, ReadsAhead
from docstore.storage.plan import Cut, Plan, Stage
from docstore.storage.port import Values
from docstore.storage.table import FIRST_RECORDS, TIMESTAMP_STEP_MICROS, Table
from docstore.storage.unreadable import Place
from docstore.storage.values import is_absent
from docstore.writing.batch import PAGES, GroupPages, OwnRow, Write
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


class Judge:
    """Judges pages in their order.

    Args:
        pages: committed ones and those of the group in flight.
        table: of pages.
        placement: where values lie.
        detector: judges against pages of other rows.
        taken: milliseconds that are taken.
        commit: commits the group in flight, for a reason.
    """

    def __init__(
        self,
        pages: GroupPages,
        table: Table,
        placement: Values,
        detector: Detector,
        taken: TakenTimes,
        commit: Callable[[Cut], None],
    ) -> None:
        self._pages = pages
        self._table = table
        self._placement = placement
        self._detector = detector
        self._taken = taken
        self._commit = commit

    def page(self, one: Prepared, policies: Policies) -> Write:
        """Judge a page with a body.

        A capture that was rejected is judged anew when it comes again: what it was rejected for may be gone.
        """
        analysis = one.analysed
        if not one.keep_body and not decides_alone(analysis.body_checksum):
            return refused(one, _NEEDS_BODY)
        own, timestamp = self._settle(one)
        if own is None:
            error = f"no millisecond is free from {one.timestamp} on; give it an earlier time"
            return refused(one, error)
        taken, before = own
        known, is_damaged = None, False
        if taken is not None:
            known = self._verdict(one.row_key, taken) or _UNJUDGED
            is_damaged = self._is_damaged(one.row_key, taken)
        if is_damaged or (taken is not None and one.keep_body and self._has_text_alone(one.row_key, taken)):
            known = None  # it is judged and stored again, at its own time
        if known is not None and known.stored != capture.STORED_REJECTED:
            write = _known(one, timestamp, known)
            write.says = True  # it may have been stored without that
            return write
        previous, previous_similarity = self._compare_with_previous(one, before)
        judgement = self._detector.judge(one.row_key, one.page.body, analysis, status=one.page.status)
        if self._pages.in_doubt:
            self._commit(Cut.POLICY)
            judgement = self._detector.judge(one.row_key, one.page.body, analysis, status=one.page.status)
        confirms = previous is Previous.SAME_BYTES and self._answers_alike(one, before)
        if confirms and before is not None:
            is_damaged = is_damaged or self._is_damaged(one.row_key, before)
        if is_damaged:
            stored = capture.STORED_BODY  # the only copy that can be read, whatever the policy
        elif taken is not None and taken.kind != CAPTURE_REJECTED:  # a page or visit is shown there: it stays one
            stored = self.kept_as(one, judgement, policies.get(judgement.kind, Policy.FLAG))
            stored = capture.STORED_BODY if stored == capture.STORED_REJECTED else stored
        elif confirms and before is not None and not (one.keep_body and is_absent(before.columns[BODY])):
            stored = capture.STORED_CONFIRMED
        else:
            stored = self.kept_as(one, judgement, policies.get(judgement.kind, Policy.FLAG))
        kept = _UNJUDGED._replace(previous=previous, previous_similarity=previous_similarity, stored=stored)
        verdict = stored_verdict(judgement, kept)
        if known is not None and _same_answer(known, verdict):
            return _known(one, timestamp, known)
        write = Write(one, timestamp, verdict)
        write.is_stored, write.says = True, stored != capture.STORED_REJECTED
        write.judgement, write.previous = judgement, before
        write.is_damaged, write.rewrites = is_damaged, taken is not None
        return write

    def _has_text_alone(self, row_key: bytes, taken: CaptureRecord) -> bool:
        """Whether a capture, or the page that it confirms, was stored with `keep_body=False`."""
        source = self._pages.own(row_key, taken.confirms)[0] if taken.confirms else taken
        verdict = None if source is None else self._verdict(row_key, source)
        return verdict is not None and verdict.stored == capture.STORED_TEXT

    def visit(self, one: Prepared) -> Write:
        """Judge a visit that found nothing new (304): it confirms the page before it, and is answered its verdict."""
        timestamp = one.timestamp
        taken, before = self._pages.own(one.row_key, timestamp)
        while taken is not None and taken.kind != CAPTURE_NOT_MODIFIED:  # a page was fetched at that very time
            timestamp += TIMESTAMP_STEP_MICROS
            if timestamp > TIMESTAMP_MAX:
                return refused(one, f"no millisecond is free from {one.timestamp} on; give it an earlier time")
            taken, before = self._pages.own(one.row_key, timestamp)
        verdict = _NOT_MODIFIED
        if before is not None:
            confirmed = self._verdict(one.row_key, before)
            verdict = _CONFIRMED if confirmed is None else not_modified(confirmed)
        if taken is not None:
            return _known(one, timestamp, verdict)
        write = Write(one, timestamp, verdict)
        write.is_stored, write.previous = True, before
        return write

    def kept_as(self, one: Prepared, judgement: Judgement, policy: Policy) -> str:
        """What becomes of the body of a page by the policy for its verdict: one of the STORED_ words."""
        of = judgement.of
        whole = capture.STORED_BODY if one.keep_body else capture.STORED_TEXT
        if of is None or policy is Policy.FLAG or (policy is Policy.REJECT and not same_host(one.row_key, of.row_key)):
            return whole
        if policy is Policy.REFERENCE and not one.keep_body:
            return whole
        if of.row_key in self._pages.batch.rows:
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
        own = self._pages.own(one.row_key, timestamp)
        while own[0] is not None and not self._same_body(one, own[0]):
            timestamp += TIMESTAMP_STEP_MICROS
            probes += 1
            if probes >= MOST_PROBES:
                timestamp = self._taken.next(one.row_key, timestamp, checksum)
            if timestamp > TIMESTAMP_MAX:
                return None, timestamp
            own = self._pages.own(one.row_key, timestamp)
        return own, timestamp

    def _same_body(self, one: Prepared, stored: CaptureRecord | LiveCapture) -> bool:
        """Whether a body is that of a capture; a visit without a body (304) has none."""
        assert one.analysis is not None
        if isinstance(stored, CaptureRecord) and stored.kind == CAPTURE_NOT_MODIFIED:
            return False
        checksum = one.analysis.body_checksum
        if checksum != stored.checksum:
            return False
        return decides_alone(checksum) or stored.body_name in (b"", value_name(one.page.body))

    def _compare_with_previous(self, one: Prepared, previous: LiveCapture | None) -> tuple[Previous, float]:
        assert one.analysis is not None
        if previous is None:
            return Previous.NONE, 0.0
        if self._same_body(one, previous):
            return Previous.SAME_BYTES, 1.0
        text_checksum = previous.columns.get(capture.TEXT_CHECKSUM, b"")[1:]
        similarity = self._detector.similarity(
            one.analysis, text_checksum, lambda: self._pages.text(PagePointer(previous.source, one.row_key))
        )
        if one.analysis.text_checksum and one.analysis.text_checksum == text_checksum:
            return Previous.SAME_TEXT, similarity
        return Previous.CHANGED, similarity

    def _answers_alike(self, one: Prepared, previous: LiveCapture | None) -> bool:
        """Whether a page's status is like that of the version before it: an error's body does not confirm a page."""
        assert previous is not None
        return bodies_compare(one.page.status, int(previous.columns.get(capture.STATUS, b"")[1:] or b"0"))

    def _verdict(self, row_key: bytes, found: CaptureRecord | LiveCapture) -> StoredVerdict | None:
        """The stored verdict of a capture; None if there is none that can be read."""
        if VERDICT not in found.columns:
            return None
        place = Place(row_key, *VERDICT, found.timestamp)
        value = self._placement.unreadable.attempt(lambda: self._placement.fetch(found.columns[VERDICT]), place)
        return None if value is None else decode_verdict(value)

    def _is_damaged(self, row_key: bytes, found: CaptureRecord | LiveCapture) -> bool:
        """Whether a value that a capture shows cannot be read; all that cannot are listed."""
        is_damaged = False
        if isinstance(found, CaptureRecord) and found.confirms:  # a visit shows another record's values
            source = self._table.record(row_key, found.confirms)
            is_damaged = source is not None and self._is_damaged(row_key, source)
        for column, value in found.refs:
            try:
                self._placement.verify(value)
            except CorruptionError as error:
                self._placement.unreadable.note(error, Place(row_key, *column, found.timestamp))
                is_damaged = True
        return is_damaged


def refused(one: Prepared, error: str) -> Write:
    """The answer to a page that cannot be stored."""
    return Write(one._replace(url=one.page.url), one.timestamp, _UNJUDGED, error=error)


def _known(one: Prepared, timestamp: int, known: capture.StoredVerdict) -> Write:
    """The answer to a capture that is there already."""
    write = Write(one, timestamp, known._replace(stored=capture.STORED_KNOWN))
    write.known_as = known.stored
    return write


def _same_answer(one: capture.StoredVerdict, other: capture.StoredVerdict) -> bool:
    """Whether two verdicts say the same of a page, and the same became of it."""
    return (one.kind, one.of_row_key, one.of_timestamp, one.stored) == (
        other.kind,
        other.of_row_key,
        other.of_timestamp,
        other.stored,
    )


WINDOW_MICROS = 1000 * TIMESTAMP_STEP_MICROS
"""Captures read at a time to find a free one."""
ROWS_HELD = 16
"""Rows of which taken times are in the cache: the ones that were asked for last."""


class TakenTimes:
    """Runs of taken milliseconds, of a few rows; the caller verifies each.

    Args:
        table: of pages.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._runs: LruCache[bytes, _Run] | None = None  # hardly any row has so many taken times in a row

    def next(self, row_key: bytes, timestamp: int, checksum: bytes) -> int:
        """The first time, from this one on, that is free, or has this checksum."""
        if self._runs is None:
            self._runs = LruCache(ROWS_HELD)
        run = self._runs.get(row_key)
        if run is None or not run.start <= timestamp <= run.end + TIMESTAMP_STEP_MICROS:
            run = _Run(timestamp)
        if timestamp > run.end or not run.is_read:
            self._read(row_key, run)
        self._runs.put(row_key, run)
        same = run.at.get(checksum, [])
        return min([run.end, *same[(place := bisect_left(same, timestamp)) : place + 1]])

    def follow(self, plan: Plan, known: bool) -> None:
        """A commit has ended; see `Committer.followers`."""
        if self._runs is None:
            return
        for row in plan.changed(Stage.PAGES):
            run = self._runs.get(row.row_key)
            for one in () if run is None else row.mutations:
                if not isinstance(one, SetCell):
                    self._runs.drop(row.row_key)
                elif run is not None and one.family == CAPTURE_FAMILY and one.timestamp >= run.end:
                    if known and one.timestamp == run.end:
                        run.add(decode_capture(one.timestamp, one.value).checksum)
                    else:
                        self._runs.drop(row.row_key)

    def clear(self) -> None:
        """Other processes write: what is cached holds for one group of pages."""
        self._runs = None

    def _read(self, row_key: bytes, run: _Run) -> None:
        """Go on behind the run's end, to the first free time."""
        run.is_read = True
        while True:
            window = run.end, run.end + WINDOW_MICROS
            captures = {one.timestamp: one.checksum for one in self._table.records(row_key, *window)}
            for _ in range(WINDOW_MICROS // TIMESTAMP_STEP_MICROS):
                if run.end not in captures:
                    return
                run.add(captures[run.end])


class _Run:
    """Taken times from `start` on, and before `end`, which is free; by checksum, ascending."""

    __slots__ = ("at", "end", "is_read", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.at: dict[bytes, list[int]] = {}
        self.is_read = False

    def add(self, checksum: bytes) -> None:
        self.at.setdefault(checksum, []).append(self.end)
        self.end += TIMESTAMP_STEP_MICROS


class GroupReads:
    """The reads of a group.

    Args:
        engine: where the rows are.
        pages: rows that pages go into.
        index: of fingerprints.
        detector: says which candidates it will look at.
    """

    def __init__(self, engine: ReadsAhead, pages: GroupPages, index: HashIndex, detector: Detector) -> None:
        self._engine = engine
        self._pages = pages
        self._index = index
        self._detector = detector

    def begin(self, pages: Sequence[Prepared]) -> None:
        """Read what judging these pages asks for first, whatever is stored: their own rows, and their postings."""
        self._engine.forget_ahead()
        judged = [one for one in pages if one.analysis is not None and not one.error]
        own = [
            (one.row_key, ReadSpec((CAPTURE_FAMILY,), end=one.timestamp + 1, cell_limit=FIRST_RECORDS))
            for one in pages
            if not one.error and not self._pages.is_absent(one.row_key)
        ]
        rows = self._index.rows_of(one.analysis for one in judged if one.analysis is not None)
        self._engine.read_ahead(PAGES, own, FirstQualifiers(POSTINGS, rows, POINTER_SLICE))

    def prepare(self, pages: Sequence[Prepared], new: NewPostings) -> None:
        """Read what that leads to; for pages for which `begin` was called, and the index prepared."""
        judged = [one for one in pages if one.analysis is not None and not one.error]
        analyses = [one.analysis for one in judged if one.analysis is not None]
        found = list(self._index.read_together(analyses, self._detector.asked, new))
        for one, analysis in zip(judged, analyses, strict=True):
            _, previous = self._pages.own(one.row_key, one.timestamp)
            if previous is not None and previous.checksum == analysis.body_checksum:  # its values are to be readable
                found.append(PagePointer(previous.source, one.row_key))
        # With their values: a page that a verdict names has to be readable.
        specs = [(row_key, ReadSpec(start=at, end=at + 1)) for at, row_key in dict.fromkeys(found)]
        self._engine.read_ahead(PAGES, specs)

    def follow(self, plan: Plan, known: bool) -> None:
        """A part of the group was written, or may be: its rows are read again; see `Committer.followers`."""
        rows = [*plan.rows(), *(slot.row for turn in plan.slots() for slot in turn)]
        self._engine.drop_ahead((row.table, row.row_key) for row in rows)

    def end(self) -> None:
        """The group is committed, or has failed."""
        self._engine.forget_ahead()
