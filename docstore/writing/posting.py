"""Postings of stored pages, beside those of a group in flight: pages that the detector has to see from now on.

Knows the index, the kernel and stored pages; must not know why a page is to be posted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from docstore.dedup.index import HashIndex
from docstore.dedup.kernel import Kernel
from docstore.model import capture
from docstore.model.analysis import Analysis
from docstore.model.format import CAPTURE_STORED
from docstore.model.pointers import PagePointer
from docstore.model.types import RowMutations
from docstore.reading.documents import Capture, DocumentReader
from docstore.reference.fingerprints import text_checksum
from docstore.reference.words import words
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Committer, Values
from docstore.storage.table import Table

_MADE_AGAIN = frozenset(column for column in capture.COLUMNS if column[0] == "text") | frozenset(
    (capture.CHECKSUM, capture.TEXT_CHECKSUM, capture.SIMHASH, capture.SKETCH)
)
"""Columns that are computed from the body."""


class _Analysed(NamedTuple):
    """A stored page, analysed again; not whole where its body was not kept: then only what it is posted under."""

    page: Analysis
    status: int
    is_whole: bool = True


class Poster:
    """Posts stored pages.

    Attributes:
        index: the sequencer's: whoever uses it holds the committer's lock.
        kernel: that analyses pages.
    """

    def __init__(self, index: HashIndex, kernel: Kernel, table: Table, placement: Values, committer: Committer) -> None:
        self.index = index
        self._table = table
        self.kernel = kernel
        self._reader = DocumentReader(table, placement)
        self._placement = placement
        self._committer = committer

    def post_again(self, captures: Sequence[tuple[bytes, int]]) -> int:
        """Compute the fingerprints of captures (row key, timestamp) again, by today's schemes, and post them.

        Returns:
            How many of them still exist.
        """
        found = 0
        with self._committer.lock:
            plan = Plan()
            for row_key, timestamp in captures:
                pointer = PagePointer(timestamp, row_key)
                old = self._table.record(row_key, timestamp)
                one = self._analysed(pointer) if old is not None and old.kind == CAPTURE_STORED else None
                if old is None or one is None:
                    continue
                found += 1
                plan.write(Stage.POSTINGS, self._postings(pointer, one))
                if not one.is_whole:
                    continue
                values = capture.text_values(one.page) | capture.fingerprint_values(one.page)
                columns = {column: value for column, value in old.columns.items() if column not in _MADE_AGAIN}
                columns |= self._placement.place_all(row_key, timestamp, values)
                row = self._table.replacement(row_key, old, old._replace(columns=columns))
                if row is not None:
                    plan.write(Stage.PAGES, [row])
            self.commit(plan)
        return found

    def commit(self, plan: Plan) -> None:
        """Commit a plan and what was posted with it; the caller holds the lock."""
        committed = False
        try:
            if plan:
                plan.write(Stage.POSTINGS, self.index.group_mutations())
                self._committer.commit(plan)
            committed = True
        finally:
            self.index.end_group(committed=committed)

    def _analysed(self, pointer: PagePointer) -> _Analysed | None:
        document = self._reader.live(pointer)
        if document is None or document.body == b"":
            return None
        if document.body is None:
            return self._analysed_by_text(document.newest)
        analysis = self.kernel.analyse(document.body, document.newest.header("content-type"))
        return _Analysed(analysis, document.status or 0)

    def _analysed_by_text(self, taken: Capture) -> _Analysed | None:
        """A page whose body was not kept: what it is posted under, of its stored text; None where that has changed."""
        text = taken.text or ""
        found = words(text)
        if text_checksum(found) != taken.text_checksum:
            return None
        keys = self.kernel.text_keys(text)
        made = Analysis(
            True, taken.checksum or b"", word_count=len(found), text_checksum=text_checksum(found), **keys._asdict()
        )
        return _Analysed(made, taken.status or 0, is_whole=False)

    def _postings(self, pointer: PagePointer, analysed: _Analysed) -> list[RowMutations]:
        return self.index.add(pointer.row_key, pointer.timestamp, analysed.page, status=analysed.status)
