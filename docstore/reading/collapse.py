"""Pages that are alike: what is said of them, and which of them are one result.

Pages are one result by the clusters of the last sweep, else by the page that a verdict names.  The newest version of a
page decides: its cluster if a sweep has seen it, else its verdict, which makes a star around the named page.  Stars are
not joined into chains: two pages are one result only if both are within the threshold of a third page, or one of the
other.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from docstore.model import capture
from docstore.model.capture import ClusterPlace
from docstore.model.choices import VerdictKind
from docstore.model.errors import CorruptionError
from docstore.model.plain import asdict
from docstore.model.types import SAME_PAGE, Cell, ReadSpec, Verdict
from docstore.storage.captures import LiveCapture


class Similar(NamedTuple):
    """A live page like another.

    Attributes:
        url: of the page.
        timestamp: of its version, in microseconds since 1970.
        kind: exact, same_text, near, contained (in either direction) or similar; new if titles set the two apart.
        similarity: exact Jaccard coefficient of the texts.
        contained: share of the asking page's shingles that lie in this one.
        contains: share of this page's shingles that lie in the asking one.
        reason: "title_mismatch" if titles set the two apart; else "".
    """

    url: str
    timestamp: int
    kind: VerdictKind
    similarity: float
    contained: float
    contains: float
    reason: str = ""

    def asdict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: times in ISO 8601, bytes as text."""
        return dict(asdict(self))


class Loss(enum.StrEnum):
    """What became of the page that another was rejected for."""

    GONE = "gone"
    """It was deleted, a policy hides it or has dropped its body, or it cannot be seen for another reason."""
    CHANGED = "changed"
    """Its URL shows something else now; the old version can still be read."""


class Orphan(NamedTuple):
    """A page that was rejected as a duplicate of a page that does not show that content any more.

    Attributes:
        url: of the page that was rejected; its body is in no other capture of this URL.
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

    def asdict(self) -> dict[str, Any]:
        """Plain data for `json.dumps`: times in ISO 8601, bytes as text."""
        return dict(asdict(self))


# --- one result a cluster


class Rows(Protocol):
    """Where rows are read: the table, or a server."""

    def captures(self, row_key: bytes, end: int | None = None) -> Iterator[LiveCapture]:
        """Live captures of a row, newest first; before a time, if one is given."""
        ...

    def stored_row(self, row_key: bytes, spec: ReadSpec) -> Sequence[Cell]:
        """The cells of a row."""
        ...


class Membership(NamedTuple):
    """The cluster or star of a version of a page.

    Attributes:
        row_key: its row.
        timestamp: of the version: when its bytes were first seen, in microseconds.
        place: its cluster; None if no sweep has seen it, or if it is alone.
        of_row_key, of_timestamp, similarity: the page that its verdict names as the same, and the similarity to it; b""
            and 0 for none.
        seen: time of the capture asked about, which may be a later visit that found the version again.
        contains_row_key: an older page that it contains, or b"", if contained pages were asked for.
    """

    row_key: bytes
    timestamp: int
    place: ClusterPlace | None
    of_row_key: bytes = b""
    of_timestamp: int = 0
    similarity: float = 0.0
    seen: int = 0
    contains_row_key: bytes = b""

    @property
    def canonical(self) -> bytes:
        """Row of the page that stands for it: its own if it is alone."""
        return self.place.row_key if self.place is not None else self.of_row_key or self.row_key


class ClusterLookup:
    """Reads which cluster a page belongs to.  Thread-safe."""

    def __init__(
        self,
        table: Rows,
        fetch: Callable[[bytes], bytes],
        read_together: Callable[[Callable[[], Membership | None]], Membership | None] = lambda work: work(),
    ) -> None:
        self._table = table
        self._fetch = fetch  # gives the value that a cell's value leads to
        self._read_together = read_together  # see `Values`

    def of(self, row_key: bytes, at: int | None = None, *, contained: bool = False) -> Membership | None:
        """What the newest version up to a time belongs to; None if there is none.

        Args:
            row_key: of the page.
            at: the time; None for now.
            contained: take a page that is contained in another one as the same page.
        """
        return self._read_together(lambda: self._read(row_key, at, contained))

    def _read(self, row_key: bytes, at: int | None, contained: bool) -> Membership | None:
        captures = (one for one in self._table.captures(row_key, None if at is None else at + 1) if one.shows_page)
        seen = next(captures, None)
        if seen is None:
            return None
        checksum = seen.columns.get(capture.CHECKSUM)
        if checksum is None:
            return Membership(row_key, seen.timestamp, None, seen=seen.timestamp)
        first = seen
        for one in captures:
            if one.columns.get(capture.CHECKSUM) != checksum:
                break
            first = one
        place = self._place(row_key, {seen.source, first.source})
        verdict = self._verdict(seen) if place is None else None
        if verdict is not None:
            contains = verdict.contains_row_key if contained else b""
            if verdict.kind in SAME_PAGE or (contained and verdict.kind is VerdictKind.CONTAINED):
                named = (verdict.of_row_key, verdict.of_timestamp, verdict.similarity)
                return Membership(row_key, first.timestamp, None, *named, seen.timestamp, contains)
            return Membership(row_key, first.timestamp, None, seen=seen.timestamp, contains_row_key=contains)
        return Membership(row_key, first.timestamp, place, seen=seen.timestamp)

    def _verdict(self, seen: LiveCapture) -> capture.StoredVerdict | None:
        """The verdict of a capture; None if it has none, or a damaged one, which `docstore check` finds."""
        with suppress(CorruptionError, KeyError):
            return capture.decode_verdict(self._fetch(seen.columns[capture.VERDICT]))
        return None

    def _place(self, row_key: bytes, timestamps: Iterable[int]) -> ClusterPlace | None:
        family, qualifier = capture.CANONICAL_PAGE
        for timestamp in timestamps:
            spec = ReadSpec((family,), qualifier, timestamp, timestamp + 1)
            for cell in self._table.stored_row(row_key, spec):
                with suppress(CorruptionError):  # `docstore check` finds it, and the verdict still says what is alike
                    return capture.decode_cluster_place(self._fetch(cell.value))
        return None

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

    def is_first(self, row_key: bytes, taken: set[bytes]) -> bool:
        """Whether a page is the first of its group among results in the order of their ranks.

        A page that is not stored always is.

        Args:
            row_key: of the page.
            taken: names of the groups of earlier results; those of a first page are added.
        """
        page = self.of(row_key)
        if page is None:
            return True
        names = {self.group(page), own_group(page)}
        if not taken.isdisjoint(names):
            return False
        taken |= names
        return True


def own_group(page: Membership) -> bytes:
    """Name of the group around a page."""
    return ClusterPlace(page.row_key, page.timestamp, 1.0).cluster
