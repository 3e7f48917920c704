"""Judging a page: its verdict against the store and its own row, and whether its body is stored.

`Judge` gives the verdict.  `TakenTimes` finds a free time in the row of the page.  `GroupReads` prefetches the reads of
a group, if each read is a call to another machine.  Nothing is written here.

Judging may need the batch in flight to be committed first (`FlushReason`):
- The verdict needs a page of the batch that GC may drop as soon as the batch is committed.
- A page is rejected or stored by reference only against a committed page, and rejected only while that page still
  shows what it duplicates (`StoredPages.stands`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from docstore.dedup.buckets import TABLE as POSTINGS
from docstore.dedup.buckets import NewPostings
from docstore.dedup.comparable import bodies_compare
from docstore.dedup.detector import Detector
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
from docstore.storage.plan import FlushReason, Plan, Stage
from docstore.storage.port import Values
from docstore.storage.table import FIRST_RECORDS, TIMESTAMP_STEP_MICROS, Table
from docstore.storage.unreadable import Place
from docstore.storage.values import is_absent
from docstore.writing.batch import PAGES, GroupPages, RowState, Write
from docstore.writing.prepare import Prepared

MOST_PROBES = 8
"""Milliseconds that are looked up one by one; after that, runs of taken milliseconds are read at once."""

Policies = Mapping[VerdictKind, Policy]
_NEEDS_BODY = (
    "this store's checksum alone does not identify a body, so each body must be kept; leave keep_body at True, or make "
    "a store with checksum blake3"
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
        pages: committed pages and pages in flight.
        table: of pages.
        values: reads values.
        detector: judges against pages of other rows.
        taken: milliseconds that are taken.
        commit: commits the batch in flight.
    """

    def __init__(
        self,
        pages: GroupPages,
        table: Table,
        values: Values,
        detector: Detector,
        taken: TakenTimes,
        commit: Callable[[FlushReason], None],
    ) -> None:
        self._pages = pages
        self._table = table
        self._values = values
        self._detector = detector
        self._taken = taken
        self._commit = commit

    def page(self, prepared: Prepared, policies: Policies) -> Write:
        """Judge a page with a body.

        A rejected capture that comes again is judged again: the page that it duplicated may be gone.
        """
        analysis = prepared.analysed
        if not prepared.keep_body and not decides_alone(analysis.body_checksum):
            return refused(prepared, _NEEDS_BODY)
        state, timestamp = self._first_free_time(prepared)
        if state is None:
            return refused(prepared, _no_free_time(prepared))
        taken, before = state
        known, is_damaged = None, False
        if taken is not None:
            known = self._verdict(prepared.row_key, taken) or _UNJUDGED
            is_damaged = self._is_damaged(prepared.row_key, taken)
            if is_damaged or (prepared.keep_body and self._has_text_alone(prepared.row_key, taken)):
                known = None  # it is judged and stored again, at its own time
        if known is not None and known.stored != capture.STORED_REJECTED:
            write = _known(prepared, timestamp, known)
            write.says = True  # it may have been stored without its anchors
            return write
        row_key, body, status = prepared.row_key, prepared.page.body, prepared.page.status
        previous, previous_similarity, confirms = Previous.NONE, 0.0, False
        if before is not None:
            previous, previous_similarity = self._compare_with_previous(prepared, before)
            its_status = int(before.columns.get(capture.STATUS, b"")[1:] or b"0")
            # An error page does not confirm a page.
            confirms = previous is Previous.SAME_BYTES and bodies_compare(status, its_status)
        judged = self._detector.judge(row_key, body, analysis, status=status)
        if self._pages.visibility_unknown:
            self._commit(FlushReason.POLICY)
            judged = self._detector.judge(row_key, body, analysis, status=status)
        verdict, contains, relative = judged
        if confirms and before is not None:
            is_damaged = is_damaged or self._is_damaged(row_key, before)
        if is_damaged:
            stored = capture.STORED_BODY  # under every policy: it is the only readable copy
        elif taken is not None and taken.kind != CAPTURE_REJECTED:  # a page or visit is shown there: do not reject it
            stored = self.kept_as(prepared, verdict, policies.get(verdict.kind, Policy.FLAG))
            stored = capture.STORED_BODY if stored == capture.STORED_REJECTED else stored
        elif confirms and before is not None and not (prepared.keep_body and is_absent(before.columns[BODY])):
            stored = capture.STORED_CONFIRMED
        else:
            stored = self.kept_as(prepared, verdict, policies.get(verdict.kind, Policy.FLAG))
        verdict = verdict.in_row(previous, previous_similarity, stored)
        if known is not None and (known.kind, known.of, known.stored) == (verdict.kind, verdict.of, verdict.stored):
            return _known(prepared, timestamp, known)
        write = Write(prepared, timestamp, verdict)
        write.is_stored, write.says = True, stored != capture.STORED_REJECTED
        write.contains, write.relative, write.previous = contains, relative, before
        write.is_damaged, write.rewrites = is_damaged, taken is not None
        return write

    def _has_text_alone(self, row_key: bytes, taken: CaptureRecord) -> bool:
        """Whether a capture, or the page that it confirms, was stored with `keep_body=False`."""
        source = self._pages.history_at(row_key, taken.confirms)[0] if taken.confirms else taken
        verdict = None if source is None else self._verdict(row_key, source)
        return verdict is not None and verdict.stored == capture.STORED_TEXT

    def visit(self, prepared: Prepared) -> Write:
        """Judge a visit without a body (304): it confirms the page before it, and gets that page's verdict."""
        timestamp = prepared.timestamp
        taken, before = self._pages.history_at(prepared.row_key, timestamp)
        while taken is not None and taken.kind != CAPTURE_NOT_MODIFIED:  # a page has the same time
            timestamp += TIMESTAMP_STEP_MICROS
            if timestamp > TIMESTAMP_MAX:
                return refused(prepared, _no_free_time(prepared))
            taken, before = self._pages.history_at(prepared.row_key, timestamp)
        verdict = _NOT_MODIFIED
        if before is not None:
            confirmed = self._verdict(prepared.row_key, before)
            verdict = _CONFIRMED if confirmed is None else not_modified(confirmed)
        if taken is not None:
            return _known(prepared, timestamp, verdict)
        write = Write(prepared, timestamp, verdict)
        write.is_stored, write.previous = True, before
        return write

    def kept_as(self, prepared: Prepared, verdict: StoredVerdict, policy: Policy) -> str:
        """How the policy for its verdict stores a page: one of the STORED_ words."""
        whole = capture.STORED_BODY if prepared.keep_body else capture.STORED_TEXT
        if (
            policy is Policy.FLAG
            or (of := verdict.of) is None
            or (policy is Policy.REFERENCE and not prepared.keep_body)
        ):
            return whole
        if policy is Policy.REJECT and not same_host(prepared.row_key, of.row_key):
            return whole
        if of.row_key in self._pages.batch.rows:
            self._commit(FlushReason.ORIGINAL)
        if prepared.keep_body and not self._pages.keeps_body(of):
            return whole  # else its bytes would be nowhere
        if policy is Policy.REFERENCE:
            return capture.STORED_REFERENCE
        return capture.STORED_REJECTED if self._pages.stands(of) else whole

    def _first_free_time(self, prepared: Prepared) -> tuple[RowState | None, int]:
        """The first millisecond, from the page's own on, that is free or has the same body; and the row's state there.

        No state if there is no such millisecond up to TIMESTAMP_MAX.
        """
        checksum = prepared.analysed.body_checksum
        timestamp = prepared.timestamp
        probes = 0
        state = self._pages.history_at(prepared.row_key, timestamp)
        while state[0] is not None and not self._same_body(prepared, state[0]):
            timestamp += TIMESTAMP_STEP_MICROS
            probes += 1
            if probes >= MOST_PROBES:
                timestamp = self._taken.next(prepared.row_key, timestamp, checksum)
            if timestamp > TIMESTAMP_MAX:
                return None, timestamp
            state = self._pages.history_at(prepared.row_key, timestamp)
        return state, timestamp

    def _same_body(self, prepared: Prepared, stored: CaptureRecord | LiveCapture) -> bool:
        """Whether a capture has the same body; a visit without a body (304) has none."""
        if isinstance(stored, CaptureRecord) and stored.kind == CAPTURE_NOT_MODIFIED:
            return False
        checksum = prepared.analysed.body_checksum
        if checksum != stored.checksum:
            return False
        return decides_alone(checksum) or stored.body_name in (b"", value_name(prepared.page.body))

    def _compare_with_previous(self, prepared: Prepared, previous: LiveCapture) -> tuple[Previous, float]:
        if self._same_body(prepared, previous):
            return Previous.SAME_BYTES, 1.0
        analysis = prepared.analysed
        text_checksum = previous.columns.get(capture.TEXT_CHECKSUM, b"")[1:]
        similarity = self._detector.similarity(
            analysis, text_checksum, lambda: self._pages.text(PagePointer(previous.source, prepared.row_key))
        )
        if analysis.text_checksum and analysis.text_checksum == text_checksum:
            return Previous.SAME_TEXT, similarity
        return Previous.CHANGED, similarity

    def _verdict(self, row_key: bytes, stored: CaptureRecord | LiveCapture) -> StoredVerdict | None:
        """The verdict of a capture; None if it has none or cannot be read."""
        if VERDICT not in stored.columns:
            return None
        place = Place(row_key, *VERDICT, stored.timestamp)
        value = self._values.unreadable.attempt(lambda: self._values.fetch(stored.columns[VERDICT]), place)
        return None if value is None else decode_verdict(value)

    def _is_damaged(self, row_key: bytes, stored: CaptureRecord | LiveCapture) -> bool:
        """Whether a value of a capture cannot be read; each such value is listed."""
        is_damaged = False
        if isinstance(stored, CaptureRecord) and stored.confirms:  # a visit shows another record's values
            source = self._table.record(row_key, stored.confirms)
            is_damaged = source is not None and self._is_damaged(row_key, source)
        for column, value in stored.refs:
            try:
                self._values.verify(value)
            except CorruptionError as error:
                self._values.unreadable.record(error, Place(row_key, *column, stored.timestamp))
                is_damaged = True
        return is_damaged


def _no_free_time(prepared: Prepared) -> str:
    return f"no millisecond from {prepared.timestamp} on is free in this row; write the page with an earlier time"


def refused(prepared: Prepared, error: str) -> Write:
    """The answer to a page that cannot be stored."""
    return Write(prepared._replace(url=prepared.page.url), prepared.timestamp, _UNJUDGED, error=error)


def _known(prepared: Prepared, timestamp: int, known: capture.StoredVerdict) -> Write:
    """The answer to a capture that is stored already."""
    write = Write(prepared, timestamp, known._replace(stored=capture.STORED_KNOWN))
    write.known_as = known.stored
    return write


WINDOW_MICROS = 1000 * TIMESTAMP_STEP_MICROS
"""Range of times that is read at once."""
MAX_CACHED_ROWS = 16


class TakenTimes:
    """A cache of runs of taken milliseconds, for a few rows; the caller verifies each answer."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._runs: LruCache[bytes, _Run] | None = None  # made when needed: few rows have long runs

    def next(self, row_key: bytes, timestamp: int, checksum: bytes) -> int:
        """The first time, from this one on, that is free or has this checksum."""
        if self._runs is None:
            self._runs = LruCache(MAX_CACHED_ROWS)
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
            for cell in () if run is None else row.mutations:
                if not isinstance(cell, SetCell):
                    self._runs.drop(row.row_key)
                elif run is not None and cell.family == CAPTURE_FAMILY and cell.timestamp >= run.end:
                    if known and cell.timestamp == run.end:
                        run.add(decode_capture(cell.timestamp, cell.value).checksum)
                    else:
                        self._runs.drop(row.row_key)

    def clear(self) -> None:
        """Drop the cache: if other processes write, it is valid for one group of pages."""
        self._runs = None

    def _read(self, row_key: bytes, run: _Run) -> None:
        """Extend the run to the first free time."""
        run.is_read = True
        while True:
            window = run.end, run.end + WINDOW_MICROS
            captures = {record.timestamp: record.checksum for record in self._table.records(row_key, *window)}
            for _ in range(WINDOW_MICROS // TIMESTAMP_STEP_MICROS):
                if run.end not in captures:
                    return
                run.add(captures[run.end])


class _Run:
    """The taken times ``start <= time < end``, by checksum, ascending; `end` is free."""

    __slots__ = ("at", "end", "is_read", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.at: dict[bytes, list[int]] = {}
        self.is_read = False

    def add(self, checksum: bytes) -> None:
        self.at.setdefault(checksum, []).append(self.end)
        self.end += TIMESTAMP_STEP_MICROS


class GroupReads:
    """Prefetches what judging a group of pages reads."""

    def __init__(self, engine: ReadsAhead, pages: GroupPages, index: HashIndex, detector: Detector) -> None:
        self._engine = engine
        self._pages = pages
        self._index = index
        self._detector = detector

    def begin(self, pages: Sequence[Prepared]) -> None:
        """Prefetch the pages' own rows and their postings."""
        self._engine.forget_ahead()
        rows = [
            (prepared.row_key, ReadSpec((CAPTURE_FAMILY,), until=prepared.timestamp + 1, cell_limit=FIRST_RECORDS))
            for prepared in pages
            if not prepared.error and not self._pages.is_absent(prepared.row_key)
        ]
        postings = self._index.rows_of(prepared.analysed for prepared in _judged(pages))
        self._engine.read_ahead(PAGES, rows, FirstQualifiers(POSTINGS, postings, POINTER_SLICE))

    def prepare(self, pages: Sequence[Prepared], new: NewPostings) -> None:
        """Prefetch the candidates of the pages.

        REQUIRES: `begin` was called for these pages, and the index is prepared.
        """
        judged = _judged(pages)
        pointers = list(
            self._index.read_together([prepared.analysed for prepared in judged], self._detector.asked, new)
        )
        for prepared in judged:
            _, previous = self._pages.history_at(prepared.row_key, prepared.timestamp)
            if previous is not None and previous.checksum == prepared.analysed.body_checksum:  # its values are verified
                pointers.append(PagePointer(previous.source, prepared.row_key))
        # With their values: a page that a verdict names must be readable.
        specs = [(row_key, ReadSpec(since=at, until=at + 1)) for at, row_key in dict.fromkeys(pointers)]
        self._engine.read_ahead(PAGES, specs)

    def follow(self, plan: Plan, known: bool) -> None:
        """Drop prefetched rows that a commit may have changed; see `Committer.followers`."""
        rows = [*plan.rows(), *(slot.row for slots in plan.slots() for slot in slots)]
        self._engine.drop_ahead((row.table, row.row_key) for row in rows)

    def end(self) -> None:
        """Drop all prefetched rows: the group is committed or failed."""
        self._engine.forget_ahead()


def _judged(pages: Sequence[Prepared]) -> list[Prepared]:
    return [prepared for prepared in pages if prepared.analysis is not None and not prepared.error]
