"""The write half of a store: kernel, index, detector and sequencer put together at the first write.

The one file that builds them.  Loading it loads numpy, which reading never needs.
"""

from __future__ import annotations

from collections.abc import Callable

from docstore.dedup.detector import Detector, Thresholds
from docstore.dedup.index import HashIndex
from docstore.reading.index import kernel_of, open_buckets
from docstore.storage.counts import Counts
from docstore.storage.engine import ReadsAhead
from docstore.storage.port import Backend, Committer
from docstore.storage.table import Table
from docstore.writing.batch import Bases, GroupPages
from docstore.writing.judge import GroupReads
from docstore.writing.maintenance import PageDeleter, PageUpkeep, Poster
from docstore.writing.place import ValueWriter
from docstore.writing.prepare import Preparer
from docstore.writing.writer import PageWriter, Sequencer, WriteQueue


class WriteSide:
    """Everything that writes pages.

    Attributes:
        opened, table, committer, clock: as given.
        kernel: that analyses pages.
        pages, detector, sequencer: of this writer.
        preparer: of pages.
        queue: of groups.
        writer: of pages.
        poster: of pages that are stored.
        deleter: of pages.
        upkeep: what compaction asks.
    """

    def __init__(self, opened: Backend, table: Table, committer: Committer, clock: Callable[[], int]) -> None:
        self.opened, self.table, self.committer, self.clock = opened, table, committer, clock
        remembers = opened.engine.caps.single_writer or committer.fills_slots
        placement = opened.placement
        self.kernel = kernel_of(opened)
        engine = opened.engine
        buckets = open_buckets(opened, table)
        committer.followers.add(buckets.follow)
        index = HashIndex(opened.engine, buckets, remembers=remembers)
        bases = Bases(placement, opened.sharing, remembers=remembers)
        self.pages = pages = GroupPages(
            table, placement, bases, remembers=remembers, is_alone=opened.engine.caps.single_writer
        )
        self.detector = detector = Detector(
            index, self.kernel, pages, Thresholds.of(opened.schema), title_rule=opened.schema.title_rule
        )
        self.sequencer = sequencer = Sequencer(
            committer=committer,
            index=index,
            pages=pages,
            bases=bases,
            table=table,
            placement=placement,
            detector=detector,
            values=ValueWriter(placement, pages, bases, opened.sharing),
            counts=Counts(opened.engine, opened.session),
            reads=GroupReads(engine, pages, index, detector) if isinstance(engine, ReadsAhead) else None,
            clock=clock,
        )
        self.poster = Poster(index, self.kernel, table, placement, committer)
        self.deleter = PageDeleter(opened, table, committer, self.poster, clock)
        self.upkeep = PageUpkeep(opened, table, committer)
        self.queue = WriteQueue(sequencer)
        self.preparer = Preparer(self.kernel, clock)
        self.writer = PageWriter(self.preparer, self.queue)
