"""What compaction asks of those who know pages and the index: see `Upkeep`."""

from __future__ import annotations

from docstore.dedup.prune import Pruner
from docstore.model.errors import CorruptionError
from docstore.model.pointers import PagePointer, body_head
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
        try:
            found = self._table.capture_at(pointer.row_key, pointer.timestamp)
        except CorruptionError:
            return True  # nobody knows; `docstore check` lists it
        if found is None or not found.shows_page:
            return False
        return not body or not found.checksum or body_head(found.checksum) == body
