"""Where the values of a judged page go: its body and text by what they resemble, the rest as it is.

Knows rows, shared bodies and where values lie; must not know how a verdict comes about, nor the commit.
Whoever calls holds the committer's lock, and places the pages of a group in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from docstore.dedup.detector import Judgement
from docstore.model import capture
from docstore.model.format import INLINE_LIMIT_BYTES, SCHEME_BLAKE3_256
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, CellsAt, RowMutations, SetCell, VerdictKind
from docstore.storage.envelope import encode_absent, encode_inline, is_ref
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Values
from docstore.storage.sharing import (
    BODY_FAMILY,
    DYING,
    ENVELOPE,
    LARGEST_BASE_BYTES,
    TABLE,
    TEXT,
    TEXT_NAME,
    Base,
    SharedBodies,
    body_name,
)
from docstore.storage.values import TEXT_DELTA, Sorted
from docstore.writing.bases import Bases
from docstore.writing.own import OwnRows, OwnVersion
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
        damaged: cells of its row's version of the same bytes that cannot be read; what is stored now takes their place.
        turn: of its row in the plan: behind the pages of the plan that its verdict asked for.
        rewrites: it takes the place of what its row has at its time.
    """

    page: Prepared
    pointer: PagePointer
    verdict: capture.StoredVerdict
    judgement: Judgement
    previous: OwnVersion | None
    pending: PendingPage | None
    cells: capture.Values
    long: capture.Values
    damaged: Sequence[Cell] = ()
    turn: int = 0
    rewrites: bool = False

    def row(self) -> RowMutations:
        """Its row, once all values are placed."""
        return RowMutations(PAGES, self.pointer.row_key, CellsAt(self.pointer.timestamp, self.cells))


class Visit(NamedTuple):
    """A visit of the group in flight that found nothing new (304), and the version that it confirms."""

    page: Prepared
    confirms: OwnVersion | None


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

    def __init__(self, placement: Values, pages: GroupPages, own: OwnRows, bases: Bases, sharing: SharedBodies) -> None:
        self._placement = placement
        self._pages = pages
        self._own = own
        self._bases = bases
        self._sharing = sharing
        self._siblings = Siblings()

    def place(self, one: Judged, plan: Plan) -> None:
        """Place the values of a page that has its verdict; what it needs of shared bodies goes into the plan."""
        timestamp, row_key = one.pointer
        if one.verdict.stored == capture.STORED_CONFIRMED:
            self._confirm(one)
        elif one.verdict.stored != capture.STORED_REJECTED:
            base = None if one.verdict.stored == capture.STORED_TEXT else self._place_body(one, plan)
            if one.verdict.stored == capture.STORED_TEXT:
                one.cells[capture.BODY] = encode_absent(len(one.page.page.body))
                self._place_text(one, None, plan)
            if one.pending is not None:
                pending = PendingPage(*one.pending[:5], one.cells[capture.BODY], base)
                self._pages.add_pending(one.pointer, pending)
        if one.long:
            one.cells.update(self._placement.place_all(row_key, timestamp, one.long))
        self._heal(one, plan)

    def place_visit(self, one: Visit) -> RowMutations:
        """Place the values of a visit; -> its row."""
        timestamp, row_key = one.page.timestamp, one.page.row_key
        visit = capture.encode_visit(one.page.page.status, one.page.page.headers)
        cells = [SetCell(*capture.VISIT, timestamp, self._placement.place(row_key, capture.VISIT, timestamp, visit))]
        if one.confirms is not None:
            confirmed = self._own.visit_cells(row_key, one.confirms, timestamp)
            cells += confirmed or [SetCell(*capture.BODY, timestamp, one.confirms.body)]
        return RowMutations(PAGES, row_key, cells)

    def _confirm(self, one: Judged) -> None:
        """Take the body of the version that is there again, and the cells that confirm its text."""
        version = one.previous
        assert version is not None
        one.cells[capture.BODY] = version.body
        for cell in self._own.confirmations(one.pointer.row_key, version, one.pointer.timestamp):
            one.cells[cell.family, cell.qualifier] = cell.value

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
        bases = [] if one.damaged else self._to_lean_on(one)
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

    def _heal(self, one: Judged, plan: Plan) -> None:
        """Put what was stored now where the row's other versions, and the row of the shared body, hold what is damaged.

        Body and text are those of the same bytes, so that what holds for one holds for all; headers are not.
        """
        row_key = one.pointer.row_key
        for damaged in one.damaged:
            column = (damaged.family, damaged.qualifier)
            envelope = one.cells.get(column)
            if envelope is None or damaged.family not in (capture.BODY[0], capture.MAIN[0]):
                continue
            others = (at for at in self._own.holders(row_key, damaged) if at != one.pointer.timestamp)
            cells = [SetCell(*column, at, envelope) for at in others]
            if cells:
                plan.write(Stage.PAGES, [RowMutations(PAGES, row_key, cells)])
            name = _name(one.page)
            shared = self._bases.shared_cells(name)
            qualifier = {capture.BODY: ENVELOPE, capture.MAIN: TEXT}.get(column, b"")
            if shared.get(qualifier) != damaged.value or DYING in shared:
                continue
            if qualifier == ENVELOPE or shared.get(TEXT_NAME) == encode_inline(body_name(_text(one.page))):
                plan.write(Stage.BASES, [RowMutations(TABLE, name, [SetCell(BODY_FAMILY, qualifier, 0, envelope)])])

    def _place_text(self, one: Judged, base: Base | None, plan: Plan) -> bytes:
        """Place the text of a page whose body leans on that base, or on none; -> its envelope.

        Where it leans on one, the text goes as a delta against the base's text, if that pays.
        """
        timestamp, row_key = one.pointer
        raw = _text(one.page)
        text_base = None if base is None else self._pages.text_base(base)
        if base is None or text_base is None:
            envelope = self._placement.place(row_key, capture.MAIN, timestamp, raw)
            if base is not None:
                self._mend_text(base, raw, envelope, plan)
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

    def _mend_text(self, base: Base, raw: bytes, envelope: bytes, plan: Plan) -> None:
        """Let a base's row name this text, placed by itself, where it names the same one and that cannot be read."""
        shared = self._bases.shared_cells(base.name)
        if TEXT in shared and is_ref(envelope) and shared[TEXT_NAME] == encode_inline(body_name(raw)):
            plan.write(Stage.BASES, [RowMutations(TABLE, base.name, [SetCell(BODY_FAMILY, TEXT, 0, envelope)])])

    def _to_lean_on(self, one: Judged) -> list[Base]:
        """What the page may lean on, the cheapest to find first: its own older version, the page of the same path in
        another version of the site, then its nearest relative.  Nothing where no value leans on another."""
        if not self._placement.shares_values:
            return []
        found: list[Base | None] = []
        sibling = self._siblings.meet(one.page.path_key, one.pointer)
        if one.previous is not None:
            found.append(self._bases.at(one.previous.body, PagePointer(one.previous.timestamp, one.pointer.row_key)))
        elif sibling is not None:
            found.append(self._pages.base(sibling))
        if one.judgement.relative is not None:
            found.append(self._pages.base(one.judgement.relative))
        bases = {
            base.name: base for base in found if base is not None and DYING not in self._bases.shared_cells(base.name)
        }
        return list(bases.values())

    def _lean_on(self, base: Base, pointer: PagePointer, plan: Plan) -> bool:
        shared = self._bases.shared_cells(base.name)
        row = self._sharing.lean_on(base, pointer, shared)
        if row is not None:
            plan.write(Stage.BASES, [row])
            if ENVELOPE in shared and not self._bases.can_read(base, shared[ENVELOPE]):
                plan.write(Stage.BASES, [self._sharing.replace(base)])
        return row is not None


def _name(one: Prepared) -> bytes:
    """What the body is named by among shared bodies: the head of its BLAKE3, which the analysis has mostly made."""
    assert one.analysis is not None
    checksum = one.analysis.body_checksum
    return checksum[1:17] if checksum[0] == SCHEME_BLAKE3_256 else body_name(one.page.body)


def _text(one: Prepared) -> bytes:
    """Its main text, in UTF-8."""
    assert one.analysis is not None
    return one.analysis.main_bytes
