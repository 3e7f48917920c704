"""Judging a page: its verdict against the store and its own row, and how it is stored.

    judge(page, policies, view) -> Write

The view has the committed store and the pages of the batch before this one, which become durable together with it or
not at all.  So a page may be rejected, or stored by reference, against a page of its own batch.  Judging is pure: it
asks the view for all that it needs, and the `Write` that it returns says everything that is to be written.  It writes
and commits nothing.

    1. the time        the first free millisecond from the page's own on; a page with the same body there is `known`
    2. its own row     `before` is the page before it; with the same bytes this page only confirms it
    3. other rows      `view.compare` gives the verdict, and the pages that body and text may be deltas against
    4. the policy      `stored_as` says how the page is stored, from its verdict and its policy
"""

from __future__ import annotations

from docstore.dedup.comparable import bodies_compare
from docstore.dedup.kernel import decides_alone
from docstore.model import capture
from docstore.model.capture import BODY, Column, PagePointer, StoredVerdict
from docstore.model.format import (
    CAPTURE_CONFIRMED,
    CAPTURE_NOT_MODIFIED,
    CAPTURE_REJECTED,
    CAPTURE_STORED,
    TIMESTAMP_MAX,
)
from docstore.model.keys import same_host
from docstore.model.types import Policy, Previous, VerdictKind
from docstore.storage.bases import value_name
from docstore.storage.captures import CaptureRecord, LiveCapture, not_modified
from docstore.storage.table import TIMESTAMP_STEP_MICROS
from docstore.storage.values import encode_absent, encode_inline, is_absent
from docstore.storage.writes import Anchor, PolicyByVerdict, Prepared, Write
from docstore.writing.batch import View

MOST_PROBES = 8
"""Milliseconds that are looked up one by one; after that, runs of taken milliseconds are read at once."""

_NEEDS_BODY = (
    "this store's checksum alone does not identify a body, so each body must be kept; leave keep_body at True, or make "
    "a store with checksum blake3"
)
_UNJUDGED = StoredVerdict(VerdictKind.NEW, b"", 0, 0.0, "", b"", 0, 0, Previous.NONE, 0.0, capture.STORED_REFUSED)
_NOT_MODIFIED = _UNJUDGED._replace(reason=capture.REASON_NOT_MODIFIED, stored=capture.STORED_VISIT)
_CONFIRMED = _NOT_MODIFIED._replace(
    previous=Previous.SAME_BYTES, previous_similarity=1.0, stored=capture.STORED_CONFIRMED
)
_WITHOUT_TEXT = {capture.STORED_CONFIRMED: CAPTURE_CONFIRMED, capture.STORED_REJECTED: CAPTURE_REJECTED}
"""Kinds of records without body and text of their own, by how the page is stored."""


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
    if not page.keep_body and not decides_alone(page.analysis.body_checksum):
        return refused(page, _NEEDS_BODY)
    row_key, status = page.row_key, page.page.status
    taken, timestamp = _first_free_time(page, view)
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
    before = view.newest_before(row_key, timestamp)
    previous, previous_similarity, is_confirmation = Previous.NONE, 0.0, False
    if before is not None:
        previous, previous_similarity = _compare_with_previous(page, before, view)
        its_status = int(before.columns.get(capture.STATUS, b"")[1:] or b"0")
        # An error page does not confirm a page.
        is_confirmation = previous is Previous.SAME_BYTES and bodies_compare(status, its_status)
        is_damaged = is_damaged or (is_confirmation and view.is_damaged(row_key, before))
        is_confirmation = is_confirmation and not (page.keep_body and is_absent(before.columns[BODY]))
    verdict, contains, nearest = view.compare(page)
    is_shown = taken is not None and taken.kind != CAPTURE_REJECTED  # readers see a page or visit at this time
    if is_damaged:
        stored = capture.STORED_BODY  # under every policy: it is the only readable copy
    elif is_confirmation and not is_shown:
        stored = capture.STORED_CONFIRMED
    else:
        stored = stored_as(page, verdict, policies.get(verdict.kind, Policy.FLAG), view)
        if is_shown and stored == capture.STORED_REJECTED:
            stored = capture.STORED_BODY
    verdict = verdict._replace(previous=previous, previous_similarity=previous_similarity, stored=stored)
    if known is not None and (known.kind, known.of, known.stored) == (verdict.kind, verdict.of, verdict.stored):
        return _already_stored(page, timestamp, known)
    is_linked = stored != capture.STORED_REJECTED
    anchors = _anchors_to_store(page, timestamp, view, compares=before is not None) if is_linked else ()
    return Write(
        page,
        PagePointer(timestamp, row_key),
        verdict,
        _record(page, timestamp, verdict, before, view.now()),
        anchors,
        contains=contains,
        nearest=nearest,
        previous=before,
        is_damaged=is_damaged,
        rewrites=taken is not None,
    )


def _judge_visit(page: Prepared, view: View) -> Write:
    """Judge a visit without a body (304): it confirms the page before it, and gets that page's verdict."""
    timestamp, row_key = page.timestamp, page.row_key
    taken = view.record(row_key, timestamp)
    while taken is not None and taken.kind != CAPTURE_NOT_MODIFIED:  # a page has the same time
        timestamp += TIMESTAMP_STEP_MICROS
        if timestamp > TIMESTAMP_MAX:
            return refused(page, _no_free_time(page))
        taken = view.record(row_key, timestamp)
    before = view.newest_before(row_key, timestamp)
    verdict = _NOT_MODIFIED
    if before is not None:
        confirmed = view.verdict_of(row_key, before)
        verdict = _CONFIRMED if confirmed is None else not_modified(confirmed)
    if taken is not None:
        return _already_stored(page, timestamp, verdict)
    columns = {capture.VISIT: encode_inline(capture.encode_visit(page.page.status, page.page.headers))}
    confirms, body_name = 0, b""
    if before is not None:
        confirms, body_name = before.source, before.body_name
        if capture.CHECKSUM in before.columns:
            columns[capture.CHECKSUM] = before.columns[capture.CHECKSUM]
        columns[capture.VERDICT] = encode_inline(capture.encode_verdict(verdict))
    if page.page.crawl:
        columns[capture.CRAWL] = encode_inline(page.page.crawl.encode())
    record = CaptureRecord(timestamp, CAPTURE_NOT_MODIFIED, columns, view.now(), confirms, body_name)
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
    columns[capture.VERDICT] = encode_inline(capture.encode_verdict(verdict))
    if page.page.crawl:
        columns[capture.CRAWL] = encode_inline(page.page.crawl.encode())
    confirms = before.source if before is not None and kind == CAPTURE_CONFIRMED else 0
    body_name = b"" if decides_alone(page.analysis.body_checksum) else value_name(page.page.body)
    return CaptureRecord(timestamp, kind, columns, now, confirms, body_name)


def stored_as(page: Prepared, verdict: StoredVerdict, policy: Policy, view: View) -> str:
    """How the policy for its verdict stores a page: one of the STORED_ words.

    A page is rejected only while the page that it duplicates is what its URL shows.
    """
    whole = capture.STORED_BODY if page.keep_body else capture.STORED_TEXT
    of = verdict.of
    if policy is Policy.FLAG or of is None or (policy is Policy.REFERENCE and not page.keep_body):
        return whole
    if policy is Policy.REJECT and not same_host(page.row_key, of.row_key):
        return whole
    body = view.cell_value(of, BODY)
    if page.keep_body and (body is None or is_absent(body)):
        return whole  # else its bytes would be nowhere
    if policy is Policy.REFERENCE:
        return capture.STORED_REFERENCE
    return capture.STORED_REJECTED if view.is_current(of) else whole


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
    checksum = page.analysis.body_checksum
    if checksum != stored.checksum:
        return False
    return decides_alone(checksum) or stored.body_name in (b"", value_name(page.page.body))


def _compare_with_previous(page: Prepared, previous: LiveCapture, view: View) -> tuple[Previous, float]:
    if _same_body(page, previous):
        return Previous.SAME_BYTES, 1.0
    analysis = page.analysis
    text_checksum = previous.columns.get(capture.TEXT_CHECKSUM, b"")[1:]
    source = PagePointer(previous.source, page.row_key)
    similarity, _ = view.detector.shares(analysis, text_checksum, lambda: view.text(source))
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
