"""Encoding and appending the values of a judged page: delta, dictionary or plain, and the choice of a base.

Body and text are encoded by what they resemble, the rest as it is.  Bases are tried in this order: the row's own older
version, the same path in another version or language of the site (`Siblings`), then the nearest relative.  Knows bases
and where values lie; must not know how a verdict comes about, nor the commit.  The caller holds the committer's
lock, and writes the pages of a batch in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from docstore.dedup.kernel import decides_alone
from docstore.model import capture
from docstore.model.capture import Column
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
from docstore.storage.bases import LARGEST_BASE_BYTES, Base, NewPage, Offers, value_name
from docstore.storage.cache import LruCache
from docstore.storage.captures import LiveCapture
from docstore.storage.port import Values
from docstore.storage.values import INLINE_TAG, encode_absent
from docstore.writing.batch import Bases, Batch, GroupPages, Write

_FETCHED_ALONE = {capture.STORED_CONFIRMED: CAPTURE_CONFIRMED, capture.STORED_REJECTED: CAPTURE_REJECTED}
"""Kinds of records without body and text of their own, by what became of the page."""


def set_columns(write: Write) -> None:
    """Give a page that has its verdict the columns of its record, as far as nothing has to be appended for them."""
    one, verdict = write.page, write.verdict
    kind = _FETCHED_ALONE.get(verdict.stored)
    if kind is None:
        write.kind = CAPTURE_STORED
        write.columns, write.long = map(dict.copy, one.values)
    else:
        write.kind = kind
        family = "" if kind == CAPTURE_REJECTED else capture.STATUS[0]
        write.columns, write.long = (
            {column: value for column, value in values.items() if column[0] == family or column == capture.CHECKSUM}
            for values in one.values
        )
    checksum = one.analysed.body_checksum
    write.body_name = b"" if decides_alone(checksum) else value_name(one.page.body)
    _set(write, capture.VERDICT, capture.encode_verdict(verdict))
    if one.page.crawl:
        _set(write, capture.CRAWL, one.page.crawl.encode())


def set_visit_columns(write: Write) -> None:
    """Give a visit without a body (304) the columns of its record; those of the page that it confirms show through."""
    page, confirmed = write.page.page, write.previous
    write.kind = CAPTURE_NOT_MODIFIED
    _set(write, capture.VISIT, capture.encode_visit(page.status, page.headers))
    if confirmed is not None:
        write.body_name = confirmed.body_name
        if capture.CHECKSUM in confirmed.columns:
            write.columns[capture.CHECKSUM] = confirmed.columns[capture.CHECKSUM]
        _set(write, capture.VERDICT, capture.encode_verdict(write.verdict))
    if page.crawl:
        _set(write, capture.CRAWL, page.crawl.encode())


def _set(write: Write, column: Column, raw: bytes) -> None:
    if len(raw) <= INLINE_LIMIT_BYTES:
        write.columns[column] = INLINE_TAG + raw
    else:
        write.long[column] = raw


class ValueWriter:
    """Encodes and appends the values of pages, and adds rows of bases to their plan."""

    def __init__(self, values: Values, pages: GroupPages, bases: Bases) -> None:
        self._values = values
        self._pages = pages
        self._bases = bases
        self._siblings = Siblings()

    def write(self, writes: Sequence[Write], batch: Batch) -> None:
        """Append the values of pages and visits; the rows of bases that they need go into the batch's plan."""
        new = [self._new_page(write, batch) for write in writes]
        self._values.append_pages(new)
        for write, page in zip(writes, new, strict=True):
            write.columns |= page.cell_values
            for base in page.bases.values():
                if base.cell_value not in page.cell_values.values():  # its own values need no row
                    self._bases.use(base, batch)

    def _new_page(self, write: Write, batch: Batch) -> NewPage:
        """The values of a page that are appended, and what they resemble."""
        values: dict[Column, bytes] = {}
        offers: list[Offers] = []
        shared: Base | None = None
        body = write.page.page.body
        if write.kind == CAPTURE_STORED:
            duplicate = write.verdict.of if write.verdict.stored == capture.STORED_REFERENCE else None
            if write.verdict.stored == capture.STORED_TEXT:
                write.columns[capture.BODY] = encode_absent(len(body))
            elif duplicate is not None and write.verdict.kind is VerdictKind.EXACT:
                base = self._of_page(duplicate, capture.BODY)
                if isinstance(base, Base) and base.raw == body:
                    self._bases.use(base, batch)
                    shared = base
                    write.columns[capture.BODY] = shared.cell_value
                    offers = [partial(self._of_page, duplicate)]
            if capture.BODY not in write.columns:
                values[capture.BODY] = body
                offers = [] if write.is_damaged else self._relatives(write)
            values[capture.MAIN] = write.page.analysed.main_bytes
        values |= write.long
        page = write.new = NewPage(write.pointer, values, offers)
        if capture.BODY in values:  # the analysis has mostly made its name, the head of its BLAKE3
            checksum = write.page.analysed.body_checksum
            page.body_name = checksum[1:17] if checksum[0] == SCHEME_BLAKE3_256 else value_name(body)
        if shared is not None:
            page.bases[capture.BODY] = shared
        return page

    def _relatives(self, write: Write) -> list[Offers]:
        """What to try for the body, and then for the text; the cheapest to find first.

        It is the page's own older version, or the page of the same path in another version of the site; then its
        nearest relative.  None where each value has a cell of its own.
        """
        if not self._values.shares_values:
            return []
        found: list[Offers] = []
        sibling = self._siblings.meet(write.page.path_key, write.pointer)
        if write.previous is not None:
            found.append(partial(self._of_previous, write.previous, write.page.row_key))
        elif sibling is not None:
            found.append(partial(self._of_page, sibling))
        if write.relative is not None:
            found.append(partial(self._of_page, write.relative))
        return found

    def _of_page(self, pointer: PagePointer, column: Column) -> Base | NewPage | None:
        """What a page offers as a base, if it may be used; of a page of the batch, that page."""
        base = self._pages.base(pointer, column)
        if isinstance(base, NewPage):
            name, cell_value = base.body_name if column == capture.BODY else base.text_name, b""
            if len(base.values.get(column, b"")) > LARGEST_BASE_BYTES:
                return None
        elif base is not None:
            name, cell_value = base.name, base.cell_value
        return base if base is not None and self._bases.is_usable(name, cell_value) else None

    def _of_previous(self, previous: LiveCapture, row_key: bytes, column: Column) -> Base | None:
        value = previous.columns.get(column)
        base = None if value is None else self._bases.at(value, column, PagePointer(previous.source, row_key))
        return base if base is not None and self._bases.is_usable(base.name, base.cell_value) else None


MAX_CACHED_KEYS = 65_536
"""Some 20 MB; the oldest goes first.  After a restart the map fills again: compaction finds what was missed."""


class Siblings:
    """The newest page of each key without its versions.  Not thread-safe: the sequencer owns it."""

    def __init__(self) -> None:
        self._newest: LruCache[bytes, PagePointer] = LruCache(MAX_CACHED_KEYS)

    def meet(self, key: bytes, pointer: PagePointer) -> PagePointer | None:
        """The page that came last under a key of `version_less`, if its row is another; this one is next."""
        if not key:
            return None
        before = self._newest.get(key)
        self._newest.put(key, pointer)
        return before if before is not None and before.row_key != pointer.row_key else None
