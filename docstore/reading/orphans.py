"""Rejected captures, and those whose content may be nowhere any more: what to fetch again.

Knows the verdicts in the rows and which versions stand (`StoredPages`); must not know how pages are fetched.  Both
scans give None for each row without a find: who reads for many can let others go first.
"""

from __future__ import annotations

from collections.abc import Iterator

from docstore.model import capture
from docstore.model.format import CAPTURE_REJECTED
from docstore.model.keys import url_of
from docstore.model.pointers import PagePointer
from docstore.model.types import Verdict
from docstore.reading.answers import Loss, Orphan
from docstore.reading.pages import StoredPages
from docstore.storage.port import Values
from docstore.storage.table import Table


def rejected(table: Table, placement: Values) -> Iterator[tuple[str, int, Verdict] | None]:
    """Captures that a policy rejected: URL, timestamp, verdict; in row-key order.  None for each other row."""
    for row in table.scan_captures():
        has_found = False
        for one in table.row_captures(row.cells):
            if one.kind == CAPTURE_REJECTED and capture.VERDICT in one.columns:
                has_found = True
                verdict = capture.decode_verdict(placement.fetch(one.columns[capture.VERDICT]))
                yield url_of(row.row_key), one.timestamp, capture.shown_verdict(verdict)
        if not has_found:
            yield None


def orphans(table: Table, placement: Values) -> Iterator[Orphan | None]:
    """Orphans of a store, in row-key order; one scan of the captures, no body is read.  None for each other row."""
    pages = StoredPages(table, placement)
    for row in table.scan_captures():
        newest = next((one for one in table.row_captures(row.cells) if capture.VERDICT in one.columns), None)
        if newest is None or newest.kind != CAPTURE_REJECTED:
            yield None
            continue
        verdict = capture.decode_verdict(placement.fetch(newest.columns[capture.VERDICT]))
        of = PagePointer(verdict.of_timestamp, verdict.of_row_key)
        if pages.stands(of):
            yield None
            continue
        loss = Loss.GONE if pages.page(of) is None else Loss.CHANGED
        checksum = placement.fetch(newest.columns[capture.CHECKSUM]) if capture.CHECKSUM in newest.columns else b""
        yield Orphan(url_of(row.row_key), newest.timestamp, checksum, capture.shown_verdict(verdict), loss)
