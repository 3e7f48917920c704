"""Where the values of a judged page go: its body and text by what they resemble, the rest as it is.

Knows rows, shared bodies and where values lie; must not know how a verdict comes about, nor the commit.
Whoever calls holds the committer's lock, and places the pages of a group in their order.
"""

from __future__ import annotations

from typing import NamedTuple

from docstore.dedup.checksum import decides_alone
from docstore.dedup.detector import Judgement
from docstore.model import capture
from docstore.model.format import (
    CAPTURE_CONFIRMED,
    CAPTURE_NOT_MODIFIED,
    CAPTURE_REJECTED,
    CAPTURE_STORED,
    INLINE_LIMIT_BYTES,
    SCHEME_BLAKE3_256,
)
from docstore.model.pointers import PagePointer
from docstore.model.types import RowMutations, VerdictKind
from docstore.storage.captures import CaptureRecord, LiveCapture
from docstore.storage.envelope import encode_absent, encode_inline
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Values
from docstore.storage.sharing import DYING, LARGEST_BASE_BYTES, Base, SharedBodies, body_name
from docstore.storage.values import TEXT_DELTA, Sorted
from docstore.writing.bases import Bases
from docstore.writing.pages import GroupPages, PendingPage
from docstore.writing.prepare import Prepared
from docstore.writing.siblings import Siblings

PAGES = "pages"


class Judged(NamedTuple):
    """A page of the group in flight that has its verdict, and is to be placed.

    Attributes:
        page: as it was prepared.
        pointer: its row and time.
        verdict: as its row will hold it.
        judgement: against other rows.
        previous: its own row's version before it.
        pending: as later pages of the group see it; None where they do not.
        cells: of its row, as far as they are known.
        long: values of its row that go into Bodies, beside body and text.
        is_damaged: what its row has of the same bytes cannot be read: it leans on nothing.
        arrived: when it was written, in microseconds.
        turn: of its row in the plan: behind the pages of the plan that its verdict asked for.
        rewrites: it takes the place of what its row has at its time.
    """

    page: Prepared
    pointer: PagePointer
    verdict: capture.StoredVerdict
    judgement: Judgement
    previous: LiveCapture | None
    pending: PendingPage | None
    cells: capture.Values
    long: capture.Values
    is_damaged: bool = False
    arrived: int = 0
    turn: int = 0
    rewrites: bool = False

    def row(self) -> RowMutations:
        """Its row, once all values are placed."""
        kind = _KINDS.get(self.verdict.stored, CAPTURE_STORED)
        confirms = 0
        if kind == CAPTURE_CONFIRMED:
            assert self.previous is not None
            confirms = self.previous.source
        name = _body_name(self.page)
        record = CaptureRecord(self.pointer.timestamp, kind, self.cells, self.arrived, confirms, name)
        return RowMutations(PAGES, self.pointer.row_key, [record.cell()])


_KINDS = {capture.STORED_CONFIRMED: CAPTURE_CONFIRMED, capture.STORED_REJECTED: CAPTURE_REJECTED}


class Visit(NamedTuple):
    """A visit of the group in flight that found nothing new (304).

    Attributes:
        page: as it was prepared.
        timestamp: of its record.
        confirms: the page that it confirms, or None.
        verdict: of that page, marked as not judged again.
        arrived: when it was written, in microseconds.
    """

    page: Prepared
    timestamp: int
    confirms: LiveCapture | None
    verdict: capture.StoredVerdict | None
    arrived: int


def known_cells(one: Prepared, verdict: capture.StoredVerdict) -> Sorted:
    """What a page's row holds by what became of its body, as far as nothing has to be placed for it."""
    inline, long = one.values
    if verdict.stored in (capture.STORED_BODY, capture.STORED_TEXT, capture.STORED_REFERENCE):
        inline, long = inline.copy(), long.copy()
    else:
        family = "" if verdict.stored == capture.STORED_REJECTED else capture.STATUS[0]
        kept = {column for column in [*inline, *long] if column[0] == family or column == capture.CHECKSUM}
        inline = {column: value for column, value in inline.items() if column in kept}
        long = {column: value for column, value in long.items() if column in kept}
    encoded = capture.encode_verdict(verdict)
    if len(encoded) <= INLINE_LIMIT_BYTES:
        inline[capture.VERDICT] = encode_inline(encoded)
    else:
        long[capture.VERDICT] = encoded
    return Sorted(inline, long)


class PagePlacer:
    """Places the values of pages, and adds to their plan what they change in other rows."""

    def __init__(self, placement: Values, pages: GroupPages, bases: Bases, sharing: SharedBodies) -> None:
        self._placement = placement
        self._pages = pages
        self._bases = bases
        self._sharing = sharing
        self._siblings = Siblings()

    def place(self, one: Judged, plan: Plan) -> None:
        """Place the values of a page that has its verdict; what it needs of shared bodies goes into the plan."""
        timestamp, row_key = one.pointer
        if one.verdict.stored not in (capture.STORED_CONFIRMED, capture.STORED_REJECTED):
            base = None
            if one.verdict.stored == capture.STORED_TEXT:
                one.cells[capture.BODY] = encode_absent(len(one.page.page.body))
                self._place_text(one, None, plan)
            else:
                base = self._place_body(one, plan)
            if one.pending is not None:
                self._pages.add_pending(one.pointer, PendingPage(*one.pending[:5], one.cells, base))
        if one.long:
            one.cells.update(self._placement.place_all(row_key, timestamp, one.long))

    def place_visit(self, one: Visit) -> RowMutations:
        """Place the values of a visit; -> its row."""
        timestamp, row_key = one.timestamp, one.page.row_key
        visit = capture.encode_visit(one.page.page.status, one.page.page.headers)
        columns = {capture.VISIT: self._placement.place(row_key, capture.VISIT, timestamp, visit)}
        confirms, name = 0, b""
        if one.confirms is not None:
            confirms, name = one.confirms.source, one.confirms.body_name
            if capture.CHECKSUM in one.confirms.columns:
                columns[capture.CHECKSUM] = one.confirms.columns[capture.CHECKSUM]
            if one.verdict is not None:
                verdict = capture.encode_verdict(one.verdict)
                columns[capture.VERDICT] = self._placement.place(row_key, capture.VERDICT, timestamp, verdict)
        record = CaptureRecord(timestamp, CAPTURE_NOT_MODIFIED, columns, one.arrived, confirms, name)
        return RowMutations(PAGES, row_key, [record.cell()])

    def _place_body(self, one: Judged, plan: Plan) -> Base | None:
        """Place body and text by what became of them, and by what they resemble.

        Returns:
            What pages like it can lean on: the base that its body leans on, or that body itself.
        """
        timestamp, row_key = pointer = one.pointer
        body = one.page.page.body
        duplicate = one.judgement.of if one.verdict.stored == capture.STORED_REFERENCE else None
        if duplicate is not None and one.verdict.kind is VerdictKind.EXACT:
            shared = self._pages.base(duplicate)
            if shared is not None and shared.raw == body and self._lean_on(shared, pointer, plan):
                one.cells[capture.BODY] = shared.envelope
                self._place_text(one, shared, plan)
                return shared
        bases = [] if one.is_damaged else self._to_lean_on(one)
        envelope, leans_on = self._placement.place_near(
            row_key, capture.BODY, timestamp, body, [(base.name, base.raw) for base in bases]
        )
        one.cells[capture.BODY] = envelope
        base = next((base for base in bases if base.name == leans_on), None)
        if base is not None:
            self._lean_on(base, pointer, plan)
        text = self._place_text(one, base, plan)
        if base is None and INLINE_LIMIT_BYTES < len(body) <= LARGEST_BASE_BYTES:
            base = Base(_name(one.page), body, envelope, pointer, text)
        return base

    def _place_text(self, one: Judged, base: Base | None, plan: Plan) -> bytes:
        """Place the text of a page whose body leans on that base, or on none; -> its envelope.

        Where it leans on one, the text goes as a delta against the base's text, if that pays.
        """
        timestamp, row_key = one.pointer
        raw = _text(one.page)
        text_base = None if base is None else self._pages.text_base(base)
        if base is None or text_base is None:
            envelope = self._placement.place(row_key, capture.MAIN, timestamp, raw)
        else:
            envelope, leans_on = self._placement.place_near(
                row_key, capture.MAIN, timestamp, raw, [(base.name, text_base.raw)], cost=TEXT_DELTA
            )
            if leans_on and not text_base.named:
                name = body_name(text_base.raw)
                plan.write(Stage.BASES, [self._sharing.name_text(base.name, text_base.envelope, name)])
                self._bases.name_text(base.name, text_base)
        one.cells[capture.MAIN] = envelope
        return envelope

    def _to_lean_on(self, one: Judged) -> list[Base]:
        """What the page may lean on, the cheapest to find first: its own older version, the page of the same path in
        another version of the site, then its nearest relative.  Nothing where no value leans on another."""
        if not self._placement.shares_values:
            return []
        found: list[Base | None] = []
        sibling = self._siblings.meet(one.page.path_key, one.pointer)
        if one.previous is not None:
            body = one.previous.columns[capture.BODY]
            found.append(self._bases.at(body, PagePointer(one.previous.source, one.pointer.row_key)))
        elif sibling is not None:
            found.append(self._pages.base(sibling))
        if one.judgement.relative is not None:
            found.append(self._pages.base(one.judgement.relative))
        bases = {
            base.name: base for base in found if base is not None and DYING not in self._bases.shared_cells(base.name)
        }
        return list(bases.values())

    def _lean_on(self, base: Base, pointer: PagePointer, plan: Plan) -> bool:
        row = self._sharing.lean_on(base, pointer, self._bases.shared_cells(base.name))
        if row is not None:
            plan.write(Stage.BASES, [row])
        return row is not None


def _name(one: Prepared) -> bytes:
    """What the body is named by among shared bodies: the head of its BLAKE3, which the analysis has mostly made."""
    assert one.analysis is not None
    checksum = one.analysis.body_checksum
    return checksum[1:17] if checksum[0] == SCHEME_BLAKE3_256 else body_name(one.page.body)


def _body_name(one: Prepared) -> bytes:
    """What a record says of the body beside its checksum: nothing where that decides alone."""
    checksum = b"" if one.analysis is None else one.analysis.body_checksum
    return b"" if not checksum or decides_alone(checksum) else body_name(one.page.body)


def _text(one: Prepared) -> bytes:
    """Its main text, in UTF-8."""
    assert one.analysis is not None
    return one.analysis.main_bytes
