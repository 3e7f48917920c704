"""Which pages are one result: clusters of the last sweep, else the page that a verdict names.

Knows the `dedup` columns of a row; must not know how verdicts and clusters are made.  The newest version of a page
decides: its cluster if a sweep has seen it, else its verdict, which makes a star around the named page.  Stars are not
joined into chains: two pages are one result only if both are within the threshold of a third, or one of the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from docstore.model import capture
from docstore.model.capture import ClusterPlace
from docstore.model.types import SAME_PAGE, Cell, ReadSpec

_FAMILIES = ("dedup", "page")


class Rows(Protocol):
    """Where rows are read."""

    def read_row(self, row_key: bytes, spec: ReadSpec) -> Sequence[Cell]:
        """The cells of a row."""


class Fetches(Protocol):
    """Where the values of cells are read."""

    def fetch(self, envelope: bytes, /) -> bytes:
        """The value that a cell's value leads to."""


class Membership(NamedTuple):
    """The cluster or star of a version of a page.

    Attributes:
        row_key: its row.
        timestamp: of the version: when its bytes were first seen, in microseconds.
        place: its cluster; None if no sweep has seen it, or if it is alone.
        of_row_key, of_timestamp, similarity: the page that its verdict names as the same, and the similarity to it; b""
            and 0 for none.
        seen: time of the capture asked about, which may be a later visit that found the version again.
    """

    row_key: bytes
    timestamp: int
    place: ClusterPlace | None
    of_row_key: bytes = b""
    of_timestamp: int = 0
    similarity: float = 0.0
    seen: int = 0


class _Span(NamedTuple):
    """Successive captures of a row with the same bytes: one version."""

    first: int
    last: int


class ClusterLookup:
    """Reads which cluster a page belongs to.  Thread-safe."""

    def __init__(self, table: Rows, placement: Fetches) -> None:
        self._table = table
        self._placement = placement

    def of(self, row_key: bytes, at: int | None = None) -> Membership | None:
        """What the newest version up to a time belongs to; None where there is none."""
        spec = ReadSpec(families=_FAMILIES, end=None if at is None else at + 1, versions=2)
        cells = self._table.read_row(row_key, spec)
        body = next((cell for cell in cells if (cell.family, cell.qualifier) == capture.BODY), None)
        if body is None:
            return None
        if any(cell.timestamp > body.timestamp for cell in cells):  # a rejected capture is newer
            cells = self._table.read_row(row_key, spec._replace(end=body.timestamp + 1))
        checksums = [cell for cell in cells if (cell.family, cell.qualifier) == capture.CHECKSUM]
        if not checksums:
            return Membership(row_key, body.timestamp, None, seen=body.timestamp)
        seen = checksums[0].timestamp
        span = _Span(seen, seen)
        if at is not None or (len(checksums) > 1 and checksums[1].value == checksums[0].value):
            span = self._span(row_key, seen)
        place = self._place(row_key, span)
        if place is None:
            encoded = next(
                (c for c in cells if (c.family, c.qualifier) == capture.VERDICT and c.timestamp == seen), None
            )
            verdict = None if encoded is None else capture.decode_verdict(self._placement.fetch(encoded.value))
            if verdict is not None and verdict.kind in SAME_PAGE:
                named = (verdict.of_row_key, verdict.of_timestamp, verdict.similarity)
                return Membership(row_key, span.first, None, *named, seen)
        return Membership(row_key, span.first, place, seen=seen)

    def _span(self, row_key: bytes, seen: int) -> _Span:
        """The version that a capture belongs to; rejected captures have no body and are passed over."""
        bodies = {cell.timestamp for cell in self._column(row_key, capture.BODY, ReadSpec(keys_only=True))}
        captures = [
            (cell.timestamp, cell.value)
            for cell in self._column(row_key, capture.CHECKSUM, ReadSpec())
            if cell.timestamp in bodies
        ]
        wanted = dict(captures).get(seen)
        first = last = seen
        for timestamp, checksum in captures:  # newest first
            if checksum != wanted:
                if timestamp < seen:
                    break
                last = seen
            elif timestamp > seen:
                last = max(last, timestamp)
            else:
                first = timestamp
        return _Span(first, last)

    def _place(self, row_key: bytes, span: _Span) -> ClusterPlace | None:
        spec = ReadSpec(start=span.first, end=span.last + 1, versions=1)
        placed = self._column(row_key, capture.CANONICAL_PAGE, spec)
        return capture.decode_cluster_place(self._placement.fetch(placed[0].value)) if placed else None

    def _column(self, row_key: bytes, column: capture.Column, spec: ReadSpec) -> list[Cell]:
        family, qualifier = column
        cells = self._table.read_row(row_key, spec._replace(families=(family,), qualifier_prefix=qualifier))
        return [cell for cell in cells if cell.qualifier == qualifier]

    def group(self, page: Membership) -> bytes:
        """Name of the group that a page is in: its cluster, or the star around the page that its verdict names."""
        if page.place is not None:
            return page.place.cluster
        if not page.of_row_key:
            return own_group(page)
        centre = self.of(page.of_row_key, page.of_timestamp)
        if centre is None or centre.seen != page.of_timestamp:
            return own_group(Membership(page.of_row_key, page.of_timestamp, None))
        return own_group(centre) if centre.place is None else centre.place.cluster


def own_group(page: Membership) -> bytes:
    """Name of the group around a page."""
    return ClusterPlace(page.row_key, page.timestamp, 1.0).cluster


class Collapser:
    """Takes pages in rank order and keeps one of each group.

    Attributes:
        taken: names of the groups that a page was kept of.
    """

    def __init__(self, clusters: ClusterLookup, taken: Iterable[bytes] = ()) -> None:
        self._clusters = clusters
        self.taken = set(taken)

    def keeps(self, row_key: bytes) -> bool:
        """Whether a page is the first of its group; pages that are not stored are always kept."""
        page = self._clusters.of(row_key)
        if page is None:
            return True
        names = {self._clusters.group(page), own_group(page)}
        if not self.taken.isdisjoint(names):
            return False
        self.taken |= names
        return True
