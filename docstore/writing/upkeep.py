"""What compaction asks of those who know pages and the index: see `Upkeep`."""

from __future__ import annotations

from docstore.dedup.index import Pruner
from docstore.model.capture import BODY, CHECKSUM
from docstore.model.pointers import PagePointer, body_head
from docstore.model.types import ReadSpec
from docstore.reading.index import open_buckets
from docstore.storage.counts import corrected, totals
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Backend, Committer
from docstore.storage.table import Table
from docstore.writing.tally import live_totals

RECOUNTS = 3
"""Times that live captures are counted before it is given up because others write."""


class PageUpkeep:
    """Sees to pages and the index of an open store.

    Args:
        opened: the backend.
        table: of pages.
        committer: of all writers.
    """

    def __init__(self, opened: Backend, table: Table, committer: Committer) -> None:
        self._opened = opened
        self._table = table
        self._committer = committer
        self._buckets = open_buckets(opened, table)

    def prune(self) -> int:
        """See `Upkeep`."""
        committer = self._committer
        return Pruner(self._opened.engine, self._buckets, self._is_live, committer.lock, committer.commit).run()

    def recount(self) -> bool:
        """See `Upkeep`."""
        engine, committer = self._opened.engine, self._committer
        for _ in range(RECOUNTS):
            with committer.lock:
                commits, before = committer.commits, totals(engine)
            live = live_totals(self._table, self._opened.placement)
            with committer.lock:
                if committer.commits == commits:
                    committer.commit(Plan().write(Stage.COUNTS, [corrected(engine, before, live)]))
                    return True
        return False

    def _is_live(self, pointer: PagePointer, body: bytes) -> bool:
        """Whether a version is there; with a body's head also whether that is its body."""
        spec = ReadSpec((BODY[0], CHECKSUM[0]), start=pointer.timestamp, end=pointer.timestamp + 1)
        cells = {(c.family, c.qualifier): c.value for c in self._table.read_row(pointer.row_key, spec)}
        checksum = cells.get(CHECKSUM, b"")
        return BODY in cells and (not body or not checksum or body_head(checksum[1:]) == body)
