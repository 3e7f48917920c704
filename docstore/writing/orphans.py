"""Rejected captures whose content may be nowhere any more: what to fetch again.

Knows the verdicts in the rows and which versions stand (`PageRows`); must not know how pages are fetched.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from docstore.model import capture
from docstore.model.keys import url_of
from docstore.model.pointers import PagePointer
from docstore.model.types import Cell, ReadSpec, Verdict
from docstore.storage.port import Values
from docstore.storage.table import Table
from docstore.writing.rows import PageRows


class Loss(enum.StrEnum):
    """What became of the page that another was rejected for."""

    GONE = "gone"
    """It was deleted, a policy hides it, or it cannot be seen for another reason."""
    CHANGED = "changed"
    """Its URL shows something else now; the old version can still be read."""


@dataclass(frozen=True, slots=True)
class Orphan:
    """A page that was rejected as a duplicate of a page that does not show that content any more.

    Attributes:
        url: of the page that was rejected, and not stored since.
        timestamp: of its capture, in microseconds since 1970.
        checksum: of its body: scheme byte and digest; b"" where a policy hides it.
        verdict: for which it was rejected.
        loss: what became of the page that the verdict names.
    """

    url: str
    timestamp: int
    checksum: bytes
    verdict: Verdict
    loss: Loss


def orphans(table: Table, placement: Values, rows: PageRows) -> Iterator[Orphan]:
    """Orphans of a store, in row-key order; one scan of the verdicts, no body is read."""
    family, qualifier = capture.VERDICT
    for row in table.scan(spec=ReadSpec(families=(family,), qualifier_prefix=qualifier)):
        found = _newest_verdict(row.cells, placement)
        if found is None or found[1].stored != capture.STORED_REJECTED:
            continue
        timestamp, verdict = found
        body = table.newest(row.row_key, *capture.BODY)
        of = PagePointer(verdict.of_timestamp, verdict.of_row_key)
        if (body is not None and body.timestamp > timestamp) or rows.stands(of):
            continue
        loss = Loss.GONE if rows.page(of) is None else Loss.CHANGED
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
