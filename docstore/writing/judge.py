"""Judging a page: what a verdict sees, the verdict against the store and the page's own row, and how it is stored.

    judge(page, policies, view) -> Write

`View` has the committed store and the pages of the batch before this one, which become durable together with it or not
at all.  So a page may be rejected, or stored by reference, against a page of its own batch.  Judging is pure: it asks
the view for all that it needs, and the `Write` that it returns says everything that is to be written.  It writes and
commits nothing.

    1. the time        the first free millisecond from the page's own on; a page with the same body there is `known`
    2. its own row     `before` is the page before it; with the same bytes this page only confirms it
    3. other rows      `LivePages.compare` gives the verdict, and the pages that body and text may be deltas against
    4. the policy      `policy.how_stored` says how the page is stored, from facts about it and its policy
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from docstore.dedup.comparable import REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH, bodies_compare
from docstore.dedup.pages import Bases, LivePages
from docstore.model import capture
from docstore.model.capture import (
    BODY,
    STORED_BODY,
    STORED_REFERENCE,
    Column,
    PagePointer,
    StoredVerdict,
)
from docstore.model.choices import VerdictKind
from docstore.model.errors import CorruptionError
from docstore.model.format import (
    CAPTURE_CONFIRMED,
    CAPTURE_FAMILY,
    CAPTURE_NOT_MODIFIED,
    CAPTURE_REJECTED,
    CAPTURE_STORED,
    REASON_NOT_MODIFIED,
    TIMESTAMP_MAX,
)
from docstore.model.keys import same_site
from docstore.model.types import (
    SAME_PAGE,
    Cell,
    DeleteCells,
    Headers,
    Mutation,
    Policy,
    Previous,
    RowMutations,
    SetCell,
)
from docstore.reading.index import kernel_of, open_texts
from docstore.storage.cache import LruCache
from docstore.storage.captures import CaptureRecord, LiveCapture, decode_capture, not_modified
from docstore.storage.engine import PackedRows, rows_of_table
from docstore.storage.port import Backend
from docstore.storage.table import PAGES, TIMESTAMP_STEP_MICROS, Table
from docstore.storage.unreadable import Place
from docstore.storage.values import encode_absent, encode_inline, is_absent
from docstore.storage.writes import ANCHOR_FAMILY, Anchor, PolicyByVerdict, Prepared, Write
from docstore.writing.policy import Facts, how_stored
from docstore.writing.stream import GROUP_BYTES, GROUP_PAGES

_new_tuple = tuple.__new__
"""Takes half the time of a NamedTuple's constructor; there are a few a page."""
_FLAG, _REFERENCE, _REJECT = Policy.FLAG, Policy.REFERENCE, Policy.REJECT
_NONE, _SAME_BYTES = Previous.NONE, Previous.SAME_BYTES
"""Python 3.11 looks up a member of an enumeration in .3 us, a name of the module in .02."""
BATCH_ANCHORS = 20_000
"""A batch with so many anchors is committed before its next pages, because they are in memory."""
LONGEST_VALIDATOR = 200
"""Characters of an ETag that a rejected page keeps; servers write 10 to 70."""
MOST_PROBES = 8
"""Milliseconds that are looked up one by one; after that, runs of taken milliseconds are read at once."""

_UNJUDGED = StoredVerdict(VerdictKind.NEW, b"", 0, 0.0, "", b"", 0, 0, Previous.NONE, 0.0, capture.STORED_REFUSED)
_NOT_MODIFIED = _UNJUDGED._replace(reason=REASON_NOT_MODIFIED, stored=capture.STORED_VISIT)
_CONFIRMED = _NOT_MODIFIED._replace(
    previous=Previous.SAME_BYTES, previous_similarity=1.0, stored=capture.STORED_CONFIRMED
)
_WITHOUT_TEXT = {capture.STORED_CONFIRMED: CAPTURE_CONFIRMED, capture.STORED_REJECTED: CAPTURE_REJECTED}
"""Kinds of records without body and text of their own, by how the page is stored."""


# --- what a verdict sees


WINDOW_MICROS = 1000 * TIMESTAMP_STEP_MICROS
"""Range of times that is read at once."""
MAX_CACHED_ROWS = 16


class TakenTimes:
    """A cache of runs of taken milliseconds, for a few rows; the caller verifies each answer."""

    def __init__(self) -> None:
        self._runs: LruCache[bytes, _TakenRun] = LruCache(MAX_CACHED_ROWS)

    def next(
        self,
        row_key: bytes,
        timestamp: int,
        checksum: bytes,
        records: Callable[[int, int], Iterable[CaptureRecord]],
    ) -> int:
        """The first time, from this one on, that is free or has this checksum.

        Args:
            row_key: of the row.
            timestamp: see above.
            checksum: of a body.
            records: gives the capture records of the row in a range of time.
        """
        run = self._runs.get(row_key)
        if run is None or not run.start <= timestamp <= run.end + TIMESTAMP_STEP_MICROS:
            run = _TakenRun(timestamp)
        if timestamp > run.end or not run.is_read:
            run.extend(records)
        self._runs.put(row_key, run)
        same = run.at.get(checksum, [])
        return min([run.end, *same[(place := bisect_left(same, timestamp)) : place + 1]])

    def follow(self, row_key: bytes, mutations: Iterable[Mutation], is_sure: bool) -> None:
        """A commit has changed the captures of a row; see `Committer.followers`."""
        run = self._runs.get(row_key)
        for cell in () if run is None else mutations:
            if not isinstance(cell, SetCell):
                self._runs.drop(row_key)
            elif run is not None and cell.family == CAPTURE_FAMILY and cell.timestamp >= run.end:
                if is_sure and cell.timestamp == run.end:
                    run.add(decode_capture(cell.timestamp, cell.value).checksum)
                else:
                    self._runs.drop(row_key)


class _TakenRun:
    """The taken times ``start <= time < end``, by checksum, ascending; `end` is free."""

    __slots__ = ("at", "end", "is_read", "start")

    def __init__(self, start: int) -> None:
        self.start = self.end = start
        self.at: dict[bytes, list[int]] = {}
        self.is_read = False

    def add(self, checksum: bytes) -> None:
        self.at.setdefault(checksum, []).append(self.end)
        self.end += TIMESTAMP_STEP_MICROS

    def extend(self, records: Callable[[int, int], Iterable[CaptureRecord]]) -> None:
        """Extend the run to the first free time."""
        self.is_read = True
        while True:
            window = self.end, self.end + WINDOW_MICROS
            captures = {record.timestamp: record.checksum for record in records(*window)}
            for _ in range(WINDOW_MICROS // TIMESTAMP_STEP_MICROS):
                if self.end not in captures:
                    return
                self.add(captures[self.end])


class View:
    """What a verdict sees: live pages, the index, and the row that a page goes into.  Not thread-safe.

    The batch comes first, then the caches, then the stored rows.  The caches have committed data alone; each commit
    updates them by key, and what look-ups learnt from a batch is dropped with it.

    Attributes:
        pages: live pages, and the verdicts on others; `pages.batch` is the batch that is being judged.
        bases: committed values that deltas are made against.
        kernel: that pages are analysed with.
        now: gives the time.

    Args:
        backend: the backend.
        table: of pages.
        now: gives the time, in microseconds since 1970.
        caches: cache committed data.  Then `follow` must be called after each commit, or `clear` before each batch.
    """

    def __init__(self, backend: Backend, table: Table, now: Callable[[], int], *, caches: bool) -> None:
        memory, values = backend.memory, backend.values
        self.now = now
        self.kernel = kernel_of(backend)
        self.bases = Bases(values, backend.base_rows, memory, caches=caches)
        bases = self.bases if caches and values.shares_values else None  # else there are no rows of bases to ask for
        texts = open_texts(backend, table)
        self.pages = LivePages(table, values, backend, self.kernel, texts, bases, caches=caches)
        self._table = table.passing_over(values.unreadable.record)
        self._values = values
        self._engine = backend.engine
        self._times: TakenTimes | None = None  # made when needed: few rows have long runs of taken times

    # --- the row that a page goes into

    def is_new(self, row_key: bytes) -> bool:
        """Whether a row is known to have no record, neither stored nor in the batch."""
        batch = self.pages.batch
        return row_key in batch.absent and row_key not in batch.rows

    def record(self, row_key: bytes, timestamp: int) -> CaptureRecord | None:
        """The capture record of a row at a time, hidden by a policy or not: a write at that time replaces it."""
        if self.is_new(row_key):
            return None
        return self._table.record(row_key, timestamp, self.pages.batch.records(row_key))

    def newest_before(self, row_key: bytes, timestamp: int) -> LiveCapture | None:
        """The newest live page of a row before a time."""
        if self.is_new(row_key):
            return None
        return self._table.newest_capture(row_key, timestamp, self.pages.batch.records(row_key))

    def last_fetch(self, row_key: bytes, timestamp: int) -> LiveCapture | None:
        """The newest page or rejected capture of a row before a time."""
        captures = self._table.captures(row_key, timestamp, self.pages.batch.records(row_key))
        return next((one for one in captures if one.kind != CAPTURE_NOT_MODIFIED), None)

    def next_time(self, row_key: bytes, timestamp: int, checksum: bytes) -> int:
        """The first time, from this one on, that is free or has this checksum; the caller verifies it."""
        pending = self.pages.batch.records(row_key)
        if self._times is None:
            self._times = TakenTimes()
        return self._times.next(
            row_key, timestamp, checksum, lambda start, end: self._table.records(row_key, start, end, pending)
        )

    def verdict_of(self, row_key: bytes, capture: CaptureRecord | LiveCapture) -> StoredVerdict | None:
        """The verdict of a capture; None if it has none or cannot be read."""
        return self._values.unreadable.verdict(self._values.fetch, row_key, capture.timestamp, capture.columns)

    def is_damaged(self, row_key: bytes, capture: CaptureRecord | LiveCapture) -> bool:
        """Whether a value of a capture cannot be read; each such value is listed."""
        is_damaged = False
        if isinstance(capture, CaptureRecord) and capture.confirms:  # a visit shows another record's values
            source = self.record(row_key, capture.confirms)
            is_damaged = source is not None and self.is_damaged(row_key, source)
        for column, value in capture.refs:
            try:
                self._values.verify(value)
            except CorruptionError as error:
                self._values.unreadable.record(error, Place(row_key, *column, capture.timestamp))
                is_damaged = True
        return is_damaged

    def has_anchor(self, target: bytes, source: bytes, timestamp: int, text: bytes) -> bool:
        """Whether the newest anchor from a page to another has this text, and is not newer than this time.

        Of two anchors with the same time, the later one of the batch counts.
        """
        newest: Cell | SetCell | None = self._table.newest(target, ANCHOR_FAMILY, source)
        for cell in self.pages.batch.anchors.get(target, ()):
            if cell.qualifier == source and (newest is None or cell.timestamp >= newest.timestamp):
                newest = cell
        return newest is not None and newest.timestamp <= timestamp and newest.value == encode_inline(text)

    # --- the batch

    def read_ahead(self, pages: Sequence[Prepared]) -> None:
        """Read for the next pages of the batch, in few calls, the rows that every verdict reads first."""
        if self._engine.caps.single_writer:
            row_keys = [page.row_key for page in pages if not page.error]
            self.pages.batch.absent |= self._engine.absent_rows(PAGES, row_keys)
        self.pages.prepare([page.analysis for page in pages if not (page.error or page.is_visit)])

    def add(self, write: Write) -> None:
        """Add a page to the batch: later pages see its record, and are judged against it if it stores its text."""
        if write.anchors:
            batch, source = self.pages.batch, write.prepared.url.encode()
            for anchor in write.anchors:
                cell = SetCell(ANCHOR_FAMILY, source, write.pointer.timestamp, encode_inline(anchor.text))
                batch.anchors.setdefault(anchor.row_key, []).append(cell)
            batch.anchor_count += len(write.anchors)
        self.pages.add(write)

    @property
    def is_full(self) -> bool:
        """Whether the batch has to be committed before its next pages."""
        batch = self.pages.batch
        return (
            len(batch.writes) >= GROUP_PAGES or batch.body_bytes >= GROUP_BYTES or batch.anchor_count >= BATCH_ANCHORS
        )

    def pack_postings(self, rows: PackedRows) -> None:
        """Add the rows of the index that the batch writes; verdicts need none of the names that are posted here."""
        for write in self.pages.batch.writes:
            page = write.prepared.page
            if page.payload_digest or page.docno:
                self.pages.post_names(write.pointer, page.payload_digest, page.docno)
        self.pages.pack_postings(rows)

    def committed(self, columns: Sequence[Mapping[Column, bytes]]) -> None:
        """The batch is committed: cache its pages, and begin the next one.

        Args:
            columns: cell values of the record of each of its writes, as they were written.
        """
        self.pages.committed(columns)

    def drop(self) -> None:
        """Drop the batch, whose commit failed, or whose outcome is not known."""
        self.pages.drop()
        self._times = None
        self.bases.drop()

    def clear(self) -> None:
        """Clear the caches: other processes may have written."""
        self.drop()
        self.pages.clear()
        self.bases.clear()

    def follow(self, rows: Sequence[RowMutations], is_sure: bool) -> None:
        """After a commit: update the caches by key; see `Committer.followers`."""
        self.bases.follow(rows, is_sure)
        absent = self.pages.batch.absent
        changed = self.pages.core.follow(rows, is_sure)
        absent.difference_update(changed)
        if self._times is None and (isinstance(rows, PackedRows) or not self._table.collects):
            return
        rows_changed = set(changed)
        for _, row_key, mutations in rows_of_table(rows, PAGES):
            if row_key not in rows_changed:
                continue
            if self._times is not None:
                self._times.follow(row_key, mutations, is_sure)
            if self._table.collects and any(isinstance(mutation, DeleteCells) for mutation in mutations):
                # An older page of the row may be live again, and its text is known as gone.
                self.pages.core.clear_postings()


# --- the verdict


def judge(page: Prepared, policies: PolicyByVerdict, view: View) -> Write:
    """Judge a page.

    A rejected capture that comes again is judged again: the page that it duplicated may be gone.

    Args:
        page: the prepared page.
        policies: what to do with a page, per verdict; a verdict without one stores it.
        view: the store with the pages before this one.
    """
    if page.error:
        return refused(page, page.error)
    if page.is_visit:
        return _judge_visit(page, view)
    row_key, status = page.row_key, page.page.status
    is_new = view.is_new(row_key)  # nearly all pages of a first crawl
    taken, timestamp = (None, page.timestamp) if is_new else _first_free_time(page, view)
    if timestamp > TIMESTAMP_MAX:
        return refused(page, _no_free_time(page))
    known, is_damaged = None, False
    if taken is not None:
        known = view.verdict_of(row_key, taken) or _UNJUDGED
        is_damaged = view.is_damaged(row_key, taken)
        if is_damaged or (page.keep_body and _has_text_alone(row_key, taken, view)):
            known = None  # it is judged and stored again, at its own time
    if known is not None and known.stored != capture.STORED_REJECTED:
        anchors = _anchors_to_store(page, timestamp, view, compares=True)  # it may have been stored without them
        return _already_stored(page, timestamp, known)._replace(anchors=anchors)
    before = None if is_new else view.newest_before(row_key, timestamp)
    previous, previous_similarity, is_confirmation = _NONE, 0.0, False
    if before is not None:
        previous, previous_similarity = _compare_with_previous(page, before, view)
        its_status = int(before.columns.get(capture.STATUS, b"")[1:] or b"0")
        # An error page does not confirm a page.
        is_confirmation = previous is _SAME_BYTES and bodies_compare(status, its_status)
        is_damaged = is_damaged or (is_confirmation and view.is_damaged(row_key, before))
        is_confirmation = is_confirmation and not (page.keep_body and is_absent(before.columns[BODY]))
    verdict, contains, nearest = view.pages.compare(row_key, page.page.body, page.analysis, status=status)
    is_shown = taken is not None and taken.kind != CAPTURE_REJECTED  # readers see a page or visit at this time
    policy = policies.get(verdict.kind, _FLAG)
    facts = Facts(is_damaged, is_confirmation, is_shown, page.keep_body, False, False, False, False)
    if policies and not is_damaged and (is_shown or not is_confirmation):
        verdict, policy, facts = _choose_page(page, verdict, policies, facts, view)
    stored = how_stored(facts, policy)
    verdict = _new_tuple(StoredVerdict, (*verdict[:8], previous, previous_similarity, stored))
    if known is not None and (known.kind, known.of, known.stored) == (verdict.kind, verdict.of, verdict.stored):
        return _already_stored(page, timestamp, known)
    is_linked = stored != capture.STORED_REJECTED
    anchors = _anchors_to_store(page, timestamp, view, compares=before is not None) if is_linked else ()
    record = _record(page, timestamp, verdict, before, view.now())
    pointer = _new_tuple(PagePointer, (timestamp, row_key))
    rewrites = taken is not None
    # By place: half the time of the constructor.
    fields = page, pointer, verdict, record, anchors, "", "", contains, nearest, before, is_damaged, rewrites
    return _new_tuple(Write, fields)


def _judge_visit(page: Prepared, view: View) -> Write:
    """Judge a visit without a body (304): it confirms the page before it, and gets that page's verdict.

    A visit after a rejected fetch confirms no page: it has the checksum of what was rejected, so that it shows no
    older version again.  A visit that is stored already keeps what it confirmed when it was written.
    """
    timestamp, row_key = page.timestamp, page.row_key
    taken = view.record(row_key, timestamp)
    while taken is not None and taken.kind != CAPTURE_NOT_MODIFIED:  # a page has the same time
        timestamp += TIMESTAMP_STEP_MICROS
        if timestamp > TIMESTAMP_MAX:
            return refused(page, _no_free_time(page))
        taken = view.record(row_key, timestamp)
    before, last = view.newest_before(row_key, timestamp), view.last_fetch(row_key, timestamp)
    fetch, verdict = before, _NOT_MODIFIED
    if last is not None and last.kind == CAPTURE_REJECTED and (taken is None or not taken.confirms):
        before, fetch = None, last
        rejected = view.verdict_of(row_key, last)
        verdict = _NOT_MODIFIED if rejected is None else not_modified(rejected)._replace(stored=capture.STORED_VISIT)
    elif before is not None:
        confirmed = view.verdict_of(row_key, before)
        verdict = _CONFIRMED if confirmed is None else not_modified(confirmed)
    if taken is not None:
        stored = capture.STORED_CONFIRMED if taken.confirms else capture.STORED_VISIT
        return _already_stored(page, timestamp, verdict._replace(stored=stored))
    columns = {capture.VISIT: encode_inline(capture.encode_visit(page.page.status, page.page.headers))}
    if fetch is not None and capture.CHECKSUM in fetch.columns:
        columns[capture.CHECKSUM] = fetch.columns[capture.CHECKSUM]
    confirms = 0
    if before is not None:
        confirms = before.source
        columns[capture.VERDICT] = encode_inline(capture.encode_verdict(verdict))
    if page.page.crawl:
        columns[capture.CRAWL] = encode_inline(page.page.crawl.encode())
    record = CaptureRecord(timestamp, CAPTURE_NOT_MODIFIED, columns, view.now(), confirms)
    return Write(page, PagePointer(timestamp, row_key), verdict, record, previous=before)


def _record(
    page: Prepared, timestamp: int, verdict: StoredVerdict, before: LiveCapture | None, now: int
) -> CaptureRecord:
    """The record of a page without its body and text; the encoder puts long values elsewhere."""
    short, long = page.values
    kind = _WITHOUT_TEXT.get(verdict.stored, CAPTURE_STORED)
    columns: dict[Column, bytes] = dict(short)
    if long:
        columns |= {column: encode_inline(value) for column, value in long.items()}
    if verdict.stored == capture.STORED_TEXT:
        columns[BODY] = encode_absent(len(page.page.body))
    elif kind != CAPTURE_STORED:
        family = "" if kind == CAPTURE_REJECTED else capture.STATUS[0]
        columns = {
            column: value for column, value in columns.items() if column[0] == family or column == capture.CHECKSUM
        }
    if kind == CAPTURE_REJECTED:
        columns |= validator_columns(page.page.headers)
    columns[capture.VERDICT] = encode_inline(capture.encode_verdict(verdict))
    if page.page.crawl:
        columns[capture.CRAWL] = encode_inline(page.page.crawl.encode())
    confirms = before.source if before is not None and kind == CAPTURE_CONFIRMED else 0
    return _new_tuple(CaptureRecord, (timestamp, kind, columns, now, confirms))


def validator_columns(headers: Headers) -> dict[Column, bytes]:
    """Of the headers of a rejected page, those with which it is asked for again."""
    kept = [
        (name, value)
        for name, value in headers
        if name.lower() in ("etag", "last-modified") and len(value) <= LONGEST_VALIDATOR
    ]
    return {capture.HEADERS: encode_inline(capture.encode_headers(tuple(kept)))} if kept else {}


def _choose_page(
    page: Prepared, verdict: StoredVerdict, policies: PolicyByVerdict, facts: Facts, view: View
) -> tuple[StoredVerdict, Policy, Facts]:
    """The policy's page: the one that the verdict names; or one of the page's own site for which `reject` rejects it.

    Returns:
        The verdict that names that page, the policy for it, and what is known of it.
    """
    row_key, policy, of = page.row_key, policies.get(verdict.kind, _FLAG), verdict.of
    facts = _facts_of_page(facts, row_key, of, policy, view)
    if (
        of is None
        or verdict.kind not in SAME_PAGE
        or _REJECT not in policies.values()
        or (policy is not _REJECT and facts.same_site)
        or _rejects(facts, policy)
    ):
        return verdict, policy, facts
    kinds = [kind for kind in SAME_PAGE if policies.get(kind) is _REJECT]
    own = view.pages.of_site(row_key, page.page.body, page.analysis, kinds, status=page.page.status)
    if own is not None and own.kind in kinds:
        of_site = _facts_of_page(facts, row_key, own.of, _REJECT, view)
        if _rejects(of_site, _REJECT):
            return own, _REJECT, of_site
    return verdict, policy, facts


def _facts_of_page(facts: Facts, row_key: bytes, of: PagePointer | None, policy: Policy, view: View) -> Facts:
    """What is known of a policy's page; a fact that costs a read is read only if it decides, and else is True."""
    if of is None:
        return facts
    facts = facts._replace(
        names_page=True, same_site=same_site(row_key, of.row_key), body_is_kept=True, is_current=True
    )
    without = facts._replace(is_shown=False, confirms=False)
    if how_stored(without, policy) != how_stored(without._replace(body_is_kept=False), policy):
        body = view.pages.cell_value(of, BODY)
        is_kept = body is not None and not is_absent(body)
        facts, without = facts._replace(body_is_kept=is_kept), without._replace(body_is_kept=is_kept)
    if how_stored(without, policy) != how_stored(without._replace(is_current=False), policy):
        facts = facts._replace(is_current=view.pages.is_current(of))
    return facts


def _rejects(facts: Facts, policy: Policy) -> bool:
    return how_stored(facts._replace(is_shown=False, confirms=False), policy) == capture.STORED_REJECTED


def _has_text_alone(row_key: bytes, taken: CaptureRecord, view: View) -> bool:
    """Whether a capture, or the page that it confirms, was stored with `keep_body=False`."""
    source = view.record(row_key, taken.confirms) if taken.confirms else taken
    verdict = None if source is None else view.verdict_of(row_key, source)
    return verdict is not None and verdict.stored == capture.STORED_TEXT


def _first_free_time(page: Prepared, view: View) -> tuple[CaptureRecord | None, int]:
    """The first millisecond, from the page's own on, that is free or has the same body; and the record there.

    The time is beyond TIMESTAMP_MAX if there is no such millisecond.
    """
    timestamp, probes = page.timestamp, 0
    taken = view.record(page.row_key, timestamp)
    while taken is not None and not _same_body(page, taken):
        timestamp += TIMESTAMP_STEP_MICROS
        probes += 1
        if probes >= MOST_PROBES:
            timestamp = view.next_time(page.row_key, timestamp, page.analysis.body_checksum)
        taken = None if timestamp > TIMESTAMP_MAX else view.record(page.row_key, timestamp)
    return taken, timestamp


def _same_body(page: Prepared, stored: CaptureRecord | LiveCapture) -> bool:
    """Whether a capture has the same body; a visit without a body (304) has none."""
    if isinstance(stored, CaptureRecord) and stored.kind == CAPTURE_NOT_MODIFIED:
        return False
    return page.analysis.body_checksum == stored.checksum


def _compare_with_previous(page: Prepared, previous: LiveCapture, view: View) -> tuple[Previous, float]:
    if _same_body(page, previous):
        return _SAME_BYTES, 1.0
    analysis = page.analysis
    text_checksum = previous.columns.get(capture.TEXT_CHECKSUM, b"")[1:]
    source = PagePointer(previous.source, page.row_key)
    similarity, _ = view.pages.shares(analysis, text_checksum, source)
    if analysis.text_checksum and analysis.text_checksum == text_checksum:
        return Previous.SAME_TEXT, similarity
    return Previous.CHANGED, similarity


def _anchors_to_store(page: Prepared, timestamp: int, view: View, *, compares: bool) -> tuple[Anchor, ...]:
    """The anchors of a page; if they are compared with the stored ones, without those that are the same."""
    if not compares or not page.anchors:
        return page.anchors
    source = page.url.encode()
    return tuple(
        anchor for anchor in page.anchors if not view.has_anchor(anchor.row_key, source, timestamp, anchor.text)
    )


def _no_free_time(page: Prepared) -> str:
    return f"no millisecond from {page.timestamp} on is free in this row; write the page with an earlier time"


def refused(page: Prepared, error: str) -> Write:
    """The answer to a page that cannot be stored."""
    pointer = PagePointer(page.timestamp, page.row_key)
    return Write(page._replace(url=page.page.url), pointer, _UNJUDGED, error=error)


def _already_stored(page: Prepared, timestamp: int, known: StoredVerdict) -> Write:
    """The answer to a capture that is stored already."""
    pointer = PagePointer(timestamp, page.row_key)
    return Write(page, pointer, known._replace(stored=capture.STORED_KNOWN), known_as=known.stored)


# --- totals


COUNTED_REASONS = frozenset({REASON_CROWDED, REASON_DOUBTFUL, REASON_TITLE_MISMATCH})
"""Reasons that make a verdict less sure; the other reasons say why there is no verdict."""


def counts_of_writes(writes: Sequence[Write]) -> Counter[str]:
    """What pages and visits of a batch add to the totals of a store."""
    pages = [(write.verdict, len(write.prepared.page.body)) for write in writes if not write.prepared.is_visit]
    return counts_of(pages, sum(write.prepared.is_visit for write in writes))


def counts_of(captures: Iterable[tuple[StoredVerdict, int]], visits: int = 0) -> Counter[str]:
    """What captures and visits without a body (304) add to the totals of a store.

    Names: `captures`, `visits`, `urls`, `body_bytes`, `crowded`, `doubtful_text`, `title_mismatch`, `verdict.KIND`,
    `previous.KIND`, `stored.KIND`.  Deletes subtract the same.  GC policies do not lower the totals until a compaction
    counts what is live (`maintenance.live_pages`).

    Args:
        captures: verdict and length of the body in bytes of each.
        visits: number of visits without a body.
    """
    combinations: Counter[tuple[VerdictKind, Previous, str]] = Counter()
    counts: Counter[str] = Counter()
    if visits:
        counts["visits"] = visits
    for verdict, body_bytes in captures:
        combinations[verdict.kind, verdict.previous, verdict.stored] += 1
        if verdict.reason in COUNTED_REASONS:
            counts[verdict.reason] += 1
        if verdict.stored in (STORED_BODY, STORED_REFERENCE):
            counts["body_bytes"] += body_bytes
    for (kind, previous, stored), number in combinations.items():
        names = ["captures", f"verdict.{kind}", f"previous.{previous}", f"stored.{stored}"]
        if previous is Previous.NONE:
            names.append("urls")
        counts.update(dict.fromkeys(names, number))
    return counts
