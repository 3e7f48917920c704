"""Encoding and appending the values of a judged page: delta, dictionary or plain, and the choice of a base.

Body and text are encoded by what they resemble, the rest as it is.  Bases are tried in this order: the row's own older
version, the same path in another version or language of the site (`Siblings`), then the nearest relative.  Knows shared
bodies and where values lie; must not know how a verdict comes about, nor the commit.  The caller holds the committer's
lock, and places the pages of a batch in their order.
"""

from __future__ import annotations

from docstore.dedup.kernel import decides_alone
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
from docstore.model.types import VerdictKind
from docstore.storage.cache import LruCache
from docstore.storage.envelope import encode_absent, encode_inline
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Values
from docstore.storage.sharing import (
    LARGEST_BASE_BYTES,
    Base,
    SharedBodies,
    body_name,
)
from docstore.storage.values import TEXT_DELTA
from docstore.writing.batch import Bases, Batch, GroupPages, Write
from docstore.writing.prepare import Prepared

_FETCHED_ALONE = {capture.STORED_CONFIRMED: CAPTURE_CONFIRMED, capture.STORED_REJECTED: CAPTURE_REJECTED}
"""Kinds of records without body and text of their own, by what became of the page."""


def set_columns(write: Write) -> None:
    """Give a page that has its verdict the columns of its record, as far as nothing has to be placed for them."""
    one, verdict = write.page, write.verdict
    inline, long = one.values
    kind = _FETCHED_ALONE.get(verdict.stored)
    if kind is None:
        write.kind = CAPTURE_STORED
        write.columns, write.long = inline.copy(), long.copy()
    else:
        write.kind = kind
        family = "" if kind == CAPTURE_REJECTED else capture.STATUS[0]
        kept = {column for column in [*inline, *long] if column[0] == family or column == capture.CHECKSUM}
        write.columns = {column: value for column, value in inline.items() if column in kept}
        write.long = {column: value for column, value in long.items() if column in kept}
    checksum = one.analysed.body_checksum
    write.body_name = b"" if decides_alone(checksum) else body_name(one.page.body)
    _set_verdict(write)


def set_visit_columns(write: Write) -> None:
    """Give a visit without a body (304) the columns of its record; those of the page that it confirms show through."""
    page, confirmed = write.page.page, write.previous
    write.kind = CAPTURE_NOT_MODIFIED
    visit = capture.encode_visit(page.status, page.headers)
    if len(visit) <= INLINE_LIMIT_BYTES:
        write.columns[capture.VISIT] = encode_inline(visit)
    else:
        write.long[capture.VISIT] = visit
    if confirmed is not None:
        write.body_name = confirmed.body_name
        if capture.CHECKSUM in confirmed.columns:
            write.columns[capture.CHECKSUM] = confirmed.columns[capture.CHECKSUM]
        _set_verdict(write)


def _set_verdict(write: Write) -> None:
    encoded = capture.encode_verdict(write.verdict)
    if len(encoded) <= INLINE_LIMIT_BYTES:
        write.columns[capture.VERDICT] = encode_inline(encoded)
    else:
        write.long[capture.VERDICT] = encoded


class ValueWriter:
    """Places the values of pages, and adds to their plan what they change in other rows."""

    def __init__(self, placement: Values, pages: GroupPages, bases: Bases, sharing: SharedBodies) -> None:
        self._placement = placement
        self._pages = pages
        self._bases = bases
        self._sharing = sharing
        self._siblings = Siblings()

    def place(self, write: Write, batch: Batch) -> None:
        """Place the values of a page or visit; what it needs of shared bodies goes into the batch's plan."""
        if write.kind == CAPTURE_STORED:
            if write.verdict.stored == capture.STORED_TEXT:
                write.columns[capture.BODY] = encode_absent(len(write.page.page.body))
                self._place_text(write, None, batch)
            else:
                write.base = self._place_body(write, batch)
        if write.long:
            write.columns.update(self._placement.place_all(write.page.row_key, write.timestamp, write.long))

    def _place_body(self, write: Write, batch: Batch) -> Base | None:
        """Place body and text by what became of them, and by what they resemble.

        Returns:
            What pages like it can lean on: the base that its body leans on, or that body itself.
        """
        timestamp, row_key = pointer = write.pointer
        body = write.page.page.body
        is_reference = write.verdict.stored == capture.STORED_REFERENCE and write.judgement is not None
        duplicate = write.judgement.of if is_reference and write.judgement is not None else None
        if duplicate is not None and write.verdict.kind is VerdictKind.EXACT:
            shared = self._pages.base(duplicate)
            if shared is not None and shared.raw == body and self._lean_on(shared, pointer, batch.plan):
                write.columns[capture.BODY] = shared.envelope
                self._place_text(write, shared, batch)
                return shared
        bases = [] if write.is_damaged else self._to_lean_on(write)
        envelope, leans_on = self._placement.place_near(
            row_key, capture.BODY, timestamp, body, [(base.name, base.raw) for base in bases]
        )
        write.columns[capture.BODY] = envelope
        base = next((base for base in bases if base.name == leans_on), None)
        if base is not None:
            self._lean_on(base, pointer, batch.plan)
        text = self._place_text(write, base, batch)
        if base is None and INLINE_LIMIT_BYTES < len(body) <= LARGEST_BASE_BYTES:
            base = Base(_name(write.page), body, envelope, pointer, text)
        return base

    def _place_text(self, write: Write, base: Base | None, batch: Batch) -> bytes:
        """Place the text of a page whose body leans on that base, or on none; -> its envelope.

        Where it leans on one, the text goes as a delta against the base's text, if that pays.
        """
        timestamp, row_key = write.pointer
        raw = write.page.analysed.main_bytes
        text_base = None if base is None else self._pages.text_base(base)
        if base is None or text_base is None:
            envelope = self._placement.place(row_key, capture.MAIN, timestamp, raw)
        else:
            envelope, leans_on = self._placement.place_near(
                row_key, capture.MAIN, timestamp, raw, [(base.name, text_base.raw)], cost=TEXT_DELTA
            )
            if leans_on and not text_base.named:
                name = body_name(text_base.raw)
                batch.plan.write(Stage.BASES, [self._sharing.name_text(base.name, text_base.envelope, name)])
                batch.base_texts[base.name] = text_base._replace(named=True)
        write.columns[capture.MAIN] = envelope
        return envelope

    def _to_lean_on(self, write: Write) -> list[Base]:
        """What the page may lean on, the cheapest to find first: its own older version, the page of the same path in
        another version of the site, then its nearest relative.  Nothing where no value leans on another."""
        if not self._placement.shares_values:
            return []
        found: list[Base | None] = []
        sibling = self._siblings.meet(write.page.path_key, write.pointer)
        if write.previous is not None:
            body = write.previous.columns[capture.BODY]
            found.append(self._bases.at(body, PagePointer(write.previous.source, write.page.row_key)))
        elif sibling is not None:
            found.append(self._pages.base(sibling))
        if write.judgement is not None and write.judgement.relative is not None:
            found.append(self._pages.base(write.judgement.relative))
        bases = {base.name: base for base in found if base is not None and self._bases.is_sound(base)}
        return list(bases.values())

    def _lean_on(self, base: Base, pointer: PagePointer, plan: Plan) -> bool:
        row = self._sharing.lean_on(base, pointer, self._bases.shared_cells(base.name))
        if row is not None:
            plan.write(Stage.BASES, [row])
        return row is not None


def _name(one: Prepared) -> bytes:
    """What the body is named by among shared bodies: the head of its BLAKE3, which the analysis has mostly made."""
    checksum = one.analysed.body_checksum
    return checksum[1:17] if checksum[0] == SCHEME_BLAKE3_256 else body_name(one.page.body)


KEYS_HELD = 65_536
"""Some 20 MB; the oldest goes first.  After a restart the map fills again: compaction finds what was missed."""


class Siblings:
    """The newest page of each key without its versions.  Not thread-safe: the sequencer owns it."""

    def __init__(self) -> None:
        self._newest: LruCache[bytes, PagePointer] = LruCache(KEYS_HELD)

    def meet(self, key: bytes, pointer: PagePointer) -> PagePointer | None:
        """The page that came last under a key of `version_less`, if its row is another; this one is next."""
        if not key:
            return None
        before = self._newest.get(key)
        self._newest.put(key, pointer)
        return before if before is not None and before.row_key != pointer.row_key else None
