"""A page on its way into the store, analysed and not judged yet.  Pure data: nothing here reads or decides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from docstore.model.analysis import Analysis
from docstore.model.choices import VerdictKind
from docstore.model.format import INLINE_LIMIT_BYTES
from docstore.model.types import Page, Policy

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
        analysis: of its body, with the columns of its record; `NOT_ANALYSED` for a visit and for a refused page.
        error: why it was refused; else "".
        anchors: of its links, if the caller asked for them.
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
    is_visit: bool = False
    keep_body: bool = True
