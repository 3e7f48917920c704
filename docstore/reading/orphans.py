"""Rejected captures, and those whose content may be nowhere any more: what to fetch again.

Knows the verdicts in the rows and which versions stand (`StoredPages`); must not know how pages are fetched.  Both
scans give None for each row without a find: who reads for many can let others go first.
"""

from __future__ import annotations

from collections.abc import Iterator

from docstore.model import capture
from docstore.model.keys import url_of
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, ReadSpec, Verdict
from docstore.reading.answers import Loss, Orphan
from docstore.reading.cells import CellStore
from docstore.reading.pages import StoredPages
from docstore.storage.port import Values
from docstore.storage.table import Table


def rejected(cells: CellStore) -> Iterator[tuple[str, int, Verdict] | None]:
    """Captures that a policy rejected: URL, timestamp, verdict; in row-key order.  None for each other row."""
    family, qualifier = capture.VERDICT
    for row in cells.scan(spec=ReadSpec(families=(family,), qualifier_prefix=qualifier)):
        has_found = False
        for cell in row.cells:
            verdict = capture.decode_verdict(cell.value)
            if verdict.stored == capture.STORED_REJECTED:
                has_found = True
                yield row.url, cell.timestamp, capture.shown_verdict(verdict)
        if not has_found:
            yield None


def orphans(table: Table, placement: Values) -> Iterator[Orphan | None]:
    """Orphans of a store, in row-key order; one scan of the verdicts, no body is read.  None for each other row."""
    pages = StoredPages(table, placement)
    family, qualifier = capture.VERDICT
    for row in table.scan(spec=ReadSpec(families=(family,), qualifier_prefix=qualifier)):
        found = _newest_verdict(row.cells, placement)
        if found is None or found[1].stored != capture.STORED_REJECTED:
            yield None
            continue
        timestamp, verdict = found
        body = table.newest(row.row_key, *capture.BODY)
        of = PagePointer(verdict.of_timestamp, verdict.of_row_key)
        if (body is not None and body.timestamp > timestamp) or pages.stands(of):
            yield None
            continue
        loss = Loss.GONE if pages.page(of) is None else Loss.CHANGED
        checksum = _checksum(table, placement, row.row_key, timestamp)
        yield Orphan(url_of(row.row_key), timestamp, checksum, capture.shown_verdict(verdict), loss)


def _newest_verdict(cells: list[Cell], placement: Values) -> tuple[int, capture.StoredVerdict] | None:
    """The newest verdict of a row with its time; a visit without a body (304) has none of its own."""
    for cell in cells:
        verdict = capture.decode_verdict(placement.fetch(cell.value))
        if verdict.reason != capture.REASON_NOT_MODIFIED:
            return cell.timestamp, verdict
    return None


def _checksum(table: Table, placement: Values, row_key: bytes, timestamp: int) -> bytes:
    family, qualifier = capture.CHECKSUM
    spec = ReadSpec(families=(family,), qualifier_prefix=qualifier, start=timestamp, end=timestamp + 1)
    return next((placement.fetch(cell.value) for cell in table.read_row(row_key, spec)), b"")
