"""Which pages are one: clusters that a sweep wrote, else what the verdict of each page names.

Floor 5: knows the `dedup` columns of a row; must not know how verdicts and clusters come about.  A page belongs to a
cluster only by the columns of its newest version: what was written after a sweep goes by its verdict, a star around
the page that it names.  Stars are not joined into chains: two pages are one only where both are within the threshold of
a third, or one of the other.
"""

from __future__ import annotations

from typing import NamedTuple

from docstore import capture
from docstore.capture import ClusterPlace
from docstore.model import ReadSpec, VerdictKind
from docstore.table import Table
from docstore.tablets.placement import Placement

DUPLICATES = (VerdictKind.EXACT, VerdictKind.SAME_TEXT, VerdictKind.NEAR)
"""Verdicts that make two pages one; a contained page holds less than the other and is not the same."""


class Belonging(NamedTuple):
    """What a version of a page belongs to.

    Attributes:
        row_key: its row.
        timestamp: of its columns, in microseconds.
        place: where the last sweep put it; None where none saw it, or it stands alone.
        of_row_key, of_timestamp, similarity: the page that its verdict names as the same, and how like it is; b"" and
            0 for none.
    """

    row_key: bytes
    timestamp: int
    place: ClusterPlace | None
    of_row_key: bytes = b""
    of_timestamp: int = 0
    similarity: float = 0.0


class Belongings:
    """Reads what pages belong to.  Thread-safe."""

    def __init__(self, table: Table, placement: Placement) -> None:
        self._table = table
        self._placement = placement

    def of(self, row_key: bytes, at: int | None = None) -> Belonging | None:
        """What the newest version up to a time belongs to; None where there is none."""
        spec = ReadSpec(families=("dedup", "page"), end=None if at is None else at + 1, versions=1)
        columns = {(cell.family, cell.qualifier): cell for cell in self._table.read_row(row_key, spec)}
        body = columns.get(capture.BODY)
        if body is None:
            return None
        if any(cell.timestamp > body.timestamp for cell in columns.values()):  # a rejected capture is newer
            spec = spec._replace(end=body.timestamp + 1)
            columns = {(cell.family, cell.qualifier): cell for cell in self._table.read_row(row_key, spec)}
        full = columns.get(capture.TEXT_CHECKSUM)
        timestamp = body.timestamp if full is None else full.timestamp
        placed = columns.get(capture.CANONICAL_PAGE)
        place = None
        if placed is not None and placed.timestamp == timestamp:
            place = capture.decode_cluster_place(self._placement.fetch(placed.value))
        encoded = columns.get(capture.VERDICT)
        if place is None and encoded is not None:
            verdict = capture.decode_verdict(self._placement.fetch(encoded.value))
            if verdict.kind in DUPLICATES:
                return Belonging(row_key, timestamp, None, verdict.of_row_key, verdict.of_timestamp, verdict.similarity)
        return Belonging(row_key, timestamp, place)

    def group(self, page: Belonging) -> bytes:
        """Name of the group that a page is in: its cluster, or the star around the page that its verdict names."""
        if page.place is not None:
            return page.place.cluster
        if not page.of_row_key:
            return own_group(page)
        centre = self.of(page.of_row_key, page.of_timestamp)
        if centre is None or centre.timestamp != page.of_timestamp:
            return own_group(Belonging(page.of_row_key, page.of_timestamp, None))
        return own_group(centre) if centre.place is None else centre.place.cluster


def own_group(page: Belonging) -> bytes:
    """Name of the group around a page."""
    return ClusterPlace(page.row_key, page.timestamp, 1.0).cluster


class Collapser:
    """Takes pages in rank order and keeps one of each group."""

    def __init__(self, belongings: Belongings) -> None:
        self._belongings = belongings
        self._taken: set[bytes] = set()

    def keeps(self, row_key: bytes) -> bool:
        """Whether a page is the first of its group; pages that are not stored are always kept."""
        page = self._belongings.of(row_key)
        if page is None:
            return True
        names = {self._belongings.group(page), own_group(page)}
        if not self._taken.isdisjoint(names):
            return False
        self._taken |= names
        return True
