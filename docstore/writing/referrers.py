"""Pages stored by reference: whom the detector has to see once their original is gone.

Knows rows of pages, their verdicts and the rows of shared bodies; must not know fingerprints: whoever posts
pages is told which.  A page stored by reference to one that is like it has no postings, for whatever resembles it
resembles its original.  That may go in many ways: by a delete of the page, of its cells or of a family, or by a policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from docstore.model import capture
from docstore.model.pointers import PagePointer
from docstore.model.types import DeleteCells, DeleteFamily, DeleteRow, Mutation, ReadSpec, SetCell, VerdictKind
from docstore.reading.documents import DocumentReader
from docstore.storage.sharing import SharedBodies, body_name
from docstore.storage.table import Table

if TYPE_CHECKING:  # types alone: a cold read counts milliseconds
    from docstore.storage.port import Values


_ORIGINAL = (capture.BODY, capture.CHECKSUM)
"""Without one of these a page is none that others are judged against."""


class Referrers:
    """Finds pages stored by reference.  Thread-safe."""

    def __init__(self, table: Table, placement: Values, sharing: SharedBodies) -> None:
        self._table = table
        self._sharing = sharing
        self._reader = DocumentReader(table, placement)

    def of_row(self, row_key: bytes) -> set[PagePointer]:
        """Pages of other rows stored by reference to bodies of a row; left-overs among them."""
        found: set[PagePointer] = set()
        seen: set[bytes] = set()
        for timestamp in self._reader.timestamps(row_key):
            body = self._reader.value(row_key, capture.BODY, timestamp)
            if not body or (name := body_name(body)) in seen:
                continue
            seen.add(name)
            found.update(pointer for pointer in self._sharing.referrers(name) if pointer.row_key != row_key)
        return found

    def losing(self, row_key: bytes, mutations: Sequence[Mutation]) -> Iterator[PagePointer]:
        """Pages of other rows that were stored by reference to what these mutations of a row take away."""
        if any(isinstance(mutation, DeleteRow | DeleteFamily | DeleteCells) for mutation in mutations):
            for pointer in self.of_row(row_key):
                encoded = self._reader.value(pointer.row_key, capture.VERDICT, pointer.timestamp)
                verdict = capture.decode_verdict(encoded) if encoded else None
                if verdict is None or verdict.of_row_key != row_key or not _refers(verdict):
                    continue
                if any(_takes(mutations, column, verdict.of_timestamp) for column in _ORIGINAL):
                    yield pointer

    def all(self) -> Iterator[PagePointer]:
        """All pages stored by reference, left-overs among them; some of them several times."""
        for name in self._sharing.names_with_referrers():
            yield from self._sharing.referrers(name)

    def checksum_of_unseen(self, pointer: PagePointer) -> bytes:
        """The body's checksum of a page stored by reference to a page that is gone; b"" where that is not so."""
        encoded = self._reader.value(pointer.row_key, capture.VERDICT, pointer.timestamp)
        if not encoded or not self.lost_original(capture.decode_verdict(encoded)):
            return b""
        return self._reader.value(pointer.row_key, capture.CHECKSUM, pointer.timestamp) or b""

    def lost_original(self, verdict: capture.StoredVerdict) -> bool:
        """Whether a page with this verdict was stored by reference to a page that is gone."""
        if not _refers(verdict):
            return False
        at = verdict.of_timestamp
        families = tuple(sorted(family for family, _ in _ORIGINAL))
        spec = ReadSpec(families=families, start=at, end=at + 1, keys_only=True)
        columns = {(cell.family, cell.qualifier) for cell in self._table.read_row(verdict.of_row_key, spec)}
        return not columns.issuperset(_ORIGINAL)


def _refers(verdict: capture.StoredVerdict) -> bool:
    """Whether a page with this verdict has no postings: it was stored by reference to one that is like it."""
    return verdict.stored == capture.STORED_REFERENCE and verdict.kind is not VerdictKind.EXACT


def _takes(mutations: Sequence[Mutation], column: capture.Column, timestamp: int) -> bool:
    """Whether a cell is gone after these mutations of its row."""
    gone = False
    for mutation in mutations:
        if isinstance(mutation, DeleteRow):
            gone = True
        elif isinstance(mutation, DeleteFamily):
            gone |= mutation.family == column[0]
        elif (mutation.family, mutation.qualifier) == column:
            if isinstance(mutation, SetCell):
                gone &= mutation.timestamp != timestamp
            else:
                start, end = mutation.start or 0, timestamp + 1 if mutation.end is None else mutation.end
                gone |= start <= timestamp < end
    return gone
