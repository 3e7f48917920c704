"""A page on its way into the store: `Prepared` is analysed, `Write` has its verdict too.

The writer of a backend takes prepared pages, and commits writes.  Pure data: nothing here reads or decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from docstore.model.analysis import Analysis
from docstore.model.capture import BODY, MAIN, PagePointer, Sorted, StoredVerdict
from docstore.model.choices import VerdictKind
from docstore.model.format import CAPTURE_STORED, INLINE_LIMIT_BYTES
from docstore.model.types import Page, Policy
from docstore.storage.captures import CaptureRecord, LiveCapture
from docstore.storage.values import encode_inline

PolicyByVerdict = Mapping[VerdictKind, Policy]
"""The checked policies of a write; a page whose verdict has none is stored and marked."""
ANCHOR_FAMILY: Final = "anchor"
ANCHOR_BYTES: Final = INLINE_LIMIT_BYTES
"""Most bytes of text for one target.  It fits into a cell, so no anchor needs a record in a segment."""


class Anchor(NamedTuple):
    """The texts of one page's links to another.

    Attributes:
        row_key: of the page linked to.
        text: of the links, UTF-8, at most ANCHOR_BYTES.
    """

    row_key: bytes
    text: bytes


class Prepared(NamedTuple):
    """A page that is analysed and not judged yet.

    Attributes:
        page: the caller's page.
        row_key: b"" if the URL was refused.
        url: canonical; the caller's if it was refused.
        timestamp: microseconds, a multiple of 1000.
        analysis: of its body; `NOT_ANALYSED` for a visit and for a refused page.
        error: why it was refused; else "".
        anchors: of its links, if the caller asked for them.
        values: columns of its record except body, text and verdict; empty without an analysis.
        path_key: its row key without versions (`docstore_native.version_less`).
        is_visit: it is a visit of an unchanged page (304), which has no body.
        keep_body: whether the caller wants its body stored.
    """

    page: Page
    row_key: bytes
    url: str
    timestamp: int
    analysis: Analysis
    error: str
    anchors: tuple[Anchor, ...]
    values: Sorted
    path_key: bytes
    is_visit: bool = False
    keep_body: bool = True


class Write(NamedTuple):
    """A page with its verdict, and everything that its commit writes.

    Attributes:
        prepared: the analysed page.
        pointer: its row, and the time of its capture: the first free time from the page's own time on.
        verdict: for its record and its caller.
        record: its capture record; None if nothing is stored.  All values are in their cells, however long they are,
            except body and text, which `prepared` has.
        anchors: of its links, those that are not stored yet.
        error: why it is refused; else "".
        known_as: if the same capture was stored before: how it was stored then; else "".
        contains: the page that its verdict says it contains.
        nearest: the nearest page of another row: body and text may be deltas against its body and text.
        previous: the page of its own row before it.
        is_damaged: its row has the same bytes, but they cannot be read, so it is stored whole.
        rewrites: its record replaces another one at the same time.
    """

    prepared: Prepared
    pointer: PagePointer
    verdict: StoredVerdict
    record: CaptureRecord | None = None
    anchors: Sequence[Anchor] = ()
    error: str = ""
    known_as: str = ""
    contains: PagePointer | None = None
    nearest: PagePointer | None = None
    previous: LiveCapture | None = None
    is_damaged: bool = False
    rewrites: bool = False

    def whole_record(self) -> CaptureRecord:
        """The record with body and text in their cells, as the view shows it; REQUIRES: there is one."""
        assert self.record is not None
        if self.record.kind != CAPTURE_STORED:
            return self.record
        values = {BODY: encode_inline(self.prepared.page.body), MAIN: encode_inline(self.prepared.analysis.main_bytes)}
        return self.record._replace(columns=values | self.record.columns)
