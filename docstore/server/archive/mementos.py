"""Mementos of a URL: when it was captured, which capture is nearest to a time, and the links that say so (RFC 7089).

Knows the table of pages; must not know HTTP beyond the values of headers.  http and https captures are mementos of one
original, as in CDX.  Of a URL with very many captures, those around the wanted time are looked at, and the newest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from docstore.model import capture, keys
from docstore.model.types import Cell, Headers, ReadSpec
from docstore.server.archive.addresses import Address, Asked, address_of, in_links, rows_of_path
from docstore.server.archive.answers import LONGEST_HEADER
from docstore.server.archive.budget import TooLong
from docstore.server.archive.captures import ALWAYS, ANY_CELL, SHORT_ROWS, Span, is_kept_body
from docstore.server.archive.times import SECOND, digits14, http_date
from docstore.storage.table import Table

_HOUR = 3600 * SECOND
_LOOKS = (_HOUR, 24 * _HOUR, 30 * 24 * _HOUR, 365 * 24 * _HOUR)
"""Times after a moment in which the next capture is looked for, one after the other."""


class Memento(NamedTuple):
    """A capture by its time and row; in order of time."""

    timestamp: int
    row_key: bytes

    @property
    def url(self) -> str:
        """Of its row."""
        return keys.url_of(self.row_key)


class TimeLine(NamedTuple):
    """Captures of a URL.

    Attributes:
        mementos: oldest first.
        is_whole: these are all; else they are the newest, and some around the wanted time.
    """

    mementos: Sequence[Memento]
    is_whole: bool

    def closest(self, wanted: int, row_key: bytes = b"") -> Memento:
        """The memento nearest to a time, to the second; of equals the one of this row, then the later one."""

        def distance(one: Memento) -> tuple[int, bool, int]:
            return abs(one.timestamp // SECOND - wanted // SECOND), one.row_key != row_key, -one.timestamp

        return min(self.mementos, key=distance)

    def of_row(self, row_key: bytes) -> TimeLine:
        """Those of one row; all where it has none."""
        own = [one for one in self.mementos if one.row_key == row_key]
        return self._replace(mementos=own) if own else self


class TimeLines:
    """Finds mementos.  Thread-safe, as the table is.

    Args:
        table: of pages.
        most: captures of a row that are looked at together.
        is_short: raise `TooLong` for a row that has more, and for a path with many rows.
    """

    def __init__(self, table: Table, most: int, *, is_short: bool = False) -> None:
        self._table = table
        self._most = most
        self._is_short = is_short

    def find(self, page: Asked, wanted: int) -> TimeLine:
        """Mementos of a URL; none where it was never captured.

        Args:
            page: asked for.
            wanted: a time near which mementos are needed, where there are too many.
        """
        family, qualifier = capture.BODY
        spec = ReadSpec((family,), qualifier, end=ALWAYS.end, cell_limit=self._most)
        found: list[Memento] = []
        is_whole = True
        for number, row in enumerate(self._table.scan(*rows_of_path(page.address.path_key), spec)):
            if self._is_short and (row.truncated or number == SHORT_ROWS):
                raise TooLong
            if not _same_port(page.address, address_of(row.row_key)):
                continue
            cells: Sequence[Cell] = row.cells
            if row.truncated:
                is_whole = False
                cells = [*cells[:1], *self._around(row.row_key, wanted)]
            times = {cell.timestamp for cell in cells if is_kept_body(cell)}
            found += [Memento(timestamp, row.row_key) for timestamp in times]
        return TimeLine(sorted(found), is_whole)

    def between(self, page: Asked, span: Span, most: int) -> tuple[list[Memento], int | None]:
        """The first `most` mementos of a time, and when the next one is, if there is one."""
        found: list[Memento] = []
        for row in self._table.scan(*rows_of_path(page.address.path_key), ANY_CELL):
            if _same_port(page.address, address_of(row.row_key)):
                found += [Memento(timestamp, row.row_key) for timestamp in self._oldest(row.row_key, span, most + 1)]
        found.sort()
        return found[:most], found[most].timestamp if len(found) > most else None

    def _oldest(self, row_key: bytes, span: Span, most: int) -> list[int]:
        """Times of at least the oldest `most` captures of a row in a time, or all of them."""
        spec = ReadSpec((capture.BODY[0],), capture.BODY[1], span.start, span.end)
        cells = self._table.read_row(row_key, spec._replace(cell_limit=2 * most))
        low, high = span
        while len(cells) == 2 * most:  # rows are read newest first: halve the time until it holds no more than that
            middle = (low + high) // 2
            found = self._table.read_row(row_key, spec._replace(end=middle, cell_limit=2 * most))
            if len(found) < most:
                low = middle
            else:
                high, cells = middle, found
        return [cell.timestamp for cell in cells if is_kept_body(cell)]

    def _around(self, row_key: bytes, wanted: int) -> Iterator[Cell]:
        """The captures of a row before, at and after a time."""
        family, qualifier = capture.BODY
        spec = ReadSpec((family,), qualifier)
        yield from self._table.read_row(row_key, spec._replace(end=wanted + SECOND, versions=2))
        for ahead in (*_LOOKS, ALWAYS.end):
            cells = self._table.read_row(row_key, spec._replace(start=wanted + SECOND, end=wanted + SECOND + ahead))
            if cells:
                yield cells[-1]
                return


def _same_port(one: Address, other: Address | None) -> bool:
    return other is not None and one.port == other.port


class Links:
    """Addresses of ours, and links between them.

    Args:
        base: scheme, host and port by which a client came, and the path of the archive API.
    """

    def __init__(self, base: str) -> None:
        self.base = base

    def memento(self, one: Memento, modifier: str = "id_") -> str:
        """Where a capture is replayed."""
        return f"{self.base}/{digits14(one.timestamp)}{modifier}/{in_links(one.url)}"

    def replay(self, timestamp: int, modifier: str, url: str) -> str:
        """Where what a page leads to is replayed, as of the time of the page."""
        return f"{self.base}/{digits14(timestamp)}{modifier}/{in_links(url)}"

    def of_url(self, url: str, *, is_timemap: bool = False) -> list[str]:
        """Links to the original, its TimeGate and its TimeMap."""
        rel = "self" if is_timemap else "timemap"
        return [
            f'<{_without_semicolon(url)}>; rel="original"',
            f'<{self.base}/{in_links(url)}>; rel="timegate"',
            f'<{self.base}/timemap/link/{in_links(url)}>; rel="{rel}"; type="application/link-format"',
        ]

    def next_timemap(self, url: str, begin: int) -> str:
        """Link to the TimeMap of later captures."""
        place = f"{self.base}/timemap/link/{digits14(begin)}/{in_links(url)}"
        return f'<{place}>; rel="timemap"; type="application/link-format"; from="{http_date(begin)}"'

    def header(self, url: str, line: TimeLine, chosen: Memento) -> Headers:
        """All of them as a `Link` header; of a very long URL as much as clients read."""
        said = ", ".join([*self.of_url(url), *self.of_mementos(line, chosen)])
        if len(said) > LONGEST_HEADER:
            said = ", ".join([*self.of_url(url)[:1], self.link(chosen)])
        return (("Link", said),) if len(said) <= LONGEST_HEADER else ()

    def of_mementos(self, line: TimeLine, chosen: Memento) -> list[str]:
        """Links to the chosen memento, the ones beside it, and first and last; each with all that it is."""
        rels: dict[Memento, list[str]] = {}
        at = line.mementos.index(chosen)
        if line.is_whole:
            rels[line.mementos[0]] = ["first"]
        for other, rel in ((at - 1, "prev"), (at + 1, "next")):
            if 0 <= other < len(line.mementos):
                rels.setdefault(line.mementos[other], []).append(rel)
        rels.setdefault(chosen, [])
        rels.setdefault(line.mementos[-1], []).append("last")
        return [self.link(one, *rels[one]) for one in sorted(rels)]

    def link(self, one: Memento, *rels: str) -> str:
        """One memento."""
        rel = " ".join((*rels, "memento"))
        return f'<{self.memento(one)}>; rel="{rel}"; datetime="{http_date(one.timestamp)}"'


def _without_semicolon(url: str) -> str:
    """The original, as clients can read it that take a semicolon for the end of a link."""
    return url.replace(";", "%3B")
