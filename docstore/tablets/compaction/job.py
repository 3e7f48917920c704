"""Compaction: garbage out, values rewritten in row-key order with fitting dictionaries and bases, space given back.

The sequence of one compaction over the parts of an open store; each part knows its own order.

    seal      the active segment is finished, so that all its records can be moved; writers go on in another
    mark      shared bodies that no live page holds are dying: nobody new leans on them
    move      tablet by tablet: policies applied, dictionary sampled, values written into segments of the tablet's own,
              refs changed one by one where they are still what they were
    free      shared bodies that nobody leans on lose their rows
    prune     postings that lead to no live page go
    engine    its own files give back what was overwritten, and every changed ref is durable from here on
    unlink    segments that no row refers to are drained and removed, then dictionaries that no record needs

Readers and writers of this process go on.  A crash at any point leaves a sound store; run again, compaction goes on
with the tablets that were not finished.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgpack

from docstore.model.capture import BODY
from docstore.model.errors import InvalidArgument, StoreUnavailable
from docstore.model.format import (
    CAPTURE_FAMILY,
    COMPACTION_ROW,
    SET_ASIDE_DIRECTORY,
    TABLE_TAGS,
)
from docstore.model.types import DeleteRow, ReadSpec, RowMutations, SetCell
from docstore.storage.captures import sound_records
from docstore.storage.counts import fold
from docstore.storage.envelope import envelope_raw_bytes
from docstore.storage.parts import Progress
from docstore.storage.plan import Plan, Stage
from docstore.storage.port import Upkeep
from docstore.storage.reports import CompactionReport
from docstore.storage.table import Table
from docstore.tablets.bodies import SegmentRow
from docstore.tablets.commit import Committer
from docstore.tablets.compaction.lifetime import Lifetimes
from docstore.tablets.compaction.relatives import Relatives
from docstore.tablets.compaction.relocation import PAGES, Relocator, check_movable
from docstore.tablets.compaction.segments import (
    SegmentWriter,
    cell_values,
    codec_totals,
    dictionaries_named,
    removable,
    remove_segments,
    segment_of,
    segments_of,
    usage,
)
from docstore.tablets.dictionaries import plan_for_tablet
from docstore.tablets.encoding import LEVELS, Column, Encoder, Level, make_dictionaries
from docstore.tablets.layout import LocalBackend
from docstore.tablets.leftovers import dictionaries_set_aside
from docstore.tablets.manifest import Tablet
from docstore.tablets.values import ValueCodec

PASSES = 3
"""Looks at a tablet: what lost a race in one is moved in the next; what is left then waits for the next compaction."""
RESUME_SECONDS = 86_400
"""An interrupted run older than this is not gone on with: what it wrote may hold much garbage by now."""
META = "meta"
_FULL_SCAN = ReadSpec(cell_limit=10_000)
_SAMPLED_SCAN = ReadSpec((CAPTURE_FAMILY,), cell_limit=10_000)
"""What dictionaries are made of."""


def compact(
    opened: LocalBackend,
    table: Table,
    committer: Committer,
    *,
    tablets: Sequence[int] | None = None,
    level: str = "fast",
    dry_run: bool = False,
    on_progress: Progress | None = None,
    upkeep: Callable[[], Upkeep],
) -> CompactionReport:
    """Compact a store, or some of its tablets.

    Args:
        opened: its parts.
        table: of its pages, with their policies.
        committer: of all its writers.
        tablets: numbers of those to compact; None for all.
        level: `fast` or `best`.
        dry_run: only say what there is to do.
        on_progress: called with the bytes of records dealt with, and of all there are.
        upkeep: asked for when pages and the index have to be seen to.
    Raises:
        InvalidArgument: no such level or tablet.
        StoreUnavailable: another compaction of this store is under way.
        StorageError: what was done stays done; free space, and run it again.
    """
    return Compaction(opened, table, committer, level, on_progress, upkeep).run(tablets, dry_run=dry_run)


def codec_stats(opened: LocalBackend, committer: Committer) -> dict[str, dict[str, int]]:
    """See `DocumentStore.codec_stats`."""
    with opened.bodies.pinned():
        with committer.lock:
            opened.bodies.flush()
            rows = opened.manifest.segments()
        return codec_totals(opened.bodies, rows)


class Compaction:
    """One run; see the top of this file."""

    def __init__(
        self,
        opened: LocalBackend,
        table: Table,
        committer: Committer,
        level: str,
        on_progress: Progress | None,
        upkeep: Callable[[], Upkeep],
    ) -> None:
        if level not in LEVELS:
            raise InvalidArgument(f"level {level!r} is none of {', '.join(LEVELS)}")
        check_movable(opened.engine)
        self._opened = opened
        self._bodies = opened.bodies
        self._table = table
        self._committer = committer
        self._level_name = level
        self._level: Level = LEVELS[level]
        self._on_progress = on_progress
        self._upkeep = upkeep
        self._done_bytes = 0
        self._total_bytes = 0
        self._left_values = 0

    def run(self, numbers: Sequence[int] | None, *, dry_run: bool) -> CompactionReport:
        """Do it, or say what there is to do."""
        began = time.monotonic()
        report = CompactionReport(self._level_name, dry_run)
        chosen = self._chosen(numbers)
        if dry_run:
            self._survey(chosen, report)
        else:
            with self._alone(), self._opened.placement.unreadable.collecting() as unreadable:
                self._compact(chosen, report, whole=numbers is None)
            report.unreadable = list(unreadable)
        report.seconds = time.monotonic() - began
        return report

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._committer.compacting.acquire(blocking=False):
            raise StoreUnavailable("a compaction of this store is under way; wait until it has finished")
        try:
            yield
        finally:
            self._committer.compacting.release()

    def _chosen(self, numbers: Sequence[int] | None) -> list[Tablet]:
        tablets = self._opened.manifest.tablets()
        if numbers is None:
            return tablets
        known = {tablet.number for tablet in tablets}
        for number in numbers:
            if number not in known:
                raise InvalidArgument(f"there is no tablet {number}; `docstore stats --json` lists them")
        return [tablet for tablet in tablets if tablet.number in set(numbers)]

    def _survey(self, chosen: list[Tablet], report: CompactionReport) -> None:
        report.tablets = len(chosen)
        for tablet in chosen:
            for row in self._opened.engine.scan(PAGES, tablet.start, tablet.end, _FULL_SCAN):
                report.rows += 1
                report.expired_cells += len(self._table.dropped_of(row.cells))
                refs = {value for value in cell_values(row.cells) if segment_of(value) is not None}
                report.values += len(refs)
                report.raw_bytes += sum(envelope_raw_bytes(ref) for ref in refs)
        report.old_bytes = sum(row.committed_bytes for row in self._opened.manifest.segments())
        report.live_bytes = sum(used.record_bytes for used in usage(self._opened.engine).values())

    # --- the run

    def _compact(self, chosen: list[Tablet], report: CompactionReport, *, whole: bool) -> None:
        opened, committer = self._opened, self._committer
        lifetimes = Lifetimes(opened.engine, opened.bodies, opened.sharing, self._table, committer)
        old = self._seal(whole=whole)
        report.old_bytes = sum(row.committed_bytes for row in opened.manifest.segments() if row.number in old)
        self._total_bytes = report.old_bytes
        lifetimes.mark_dying()
        relocator = Relocator(
            engine=opened.engine,
            table=self._table,
            placement=opened.placement,
            sharing=opened.sharing,
            committer=committer,
            old=old,
            begin_segment=lambda number: SegmentWriter(opened.files, self._bodies, number, old),
            on_bytes=self._tell,
        )
        codec = ValueCodec(self._level.zstd)
        held_bytes: dict[int, int] = {}
        for tablet in chosen:
            held_bytes[tablet.number] = self._move(tablet, relocator, codec, old)
        moved = relocator.moved
        report.tablets = len(chosen)
        report.rows, report.values, report.raw_bytes = moved.rows, moved.values, moved.raw_bytes
        report.expired_cells, report.damaged_values = moved.expired_cells, moved.damaged
        report.lost_races, report.left_values = moved.lost_races, self._left_values
        report.codec_bytes = dict(moved.codecs)
        report.live_bytes = self._done_bytes
        opened.sharing.takes_texts = False
        try:
            self._give_back(report, lifetimes, held_bytes, old)
        finally:
            opened.sharing.takes_texts = True
        report.removed_dictionaries = self._drop_dictionaries(relocator.dictionaries)
        with committer.lock:
            plan = fold(opened.engine)
            committer.commit(plan.remove(Stage.ALLOCATION, [RowMutations(META, COMPACTION_ROW, [DeleteRow()])]))
        if whole:
            self._upkeep().recount()
        self._tell(self._total_bytes)
        report.new_bytes = sum(row.committed_bytes for row in opened.manifest.segments())

    def _give_back(
        self, report: CompactionReport, lifetimes: Lifetimes, held_bytes: dict[int, int], old: set[int]
    ) -> None:
        """From freeing shared bodies to unlinking the segments of records that leant on them."""
        opened, committer = self._opened, self._committer
        report.freed_bodies = lifetimes.free_unused()
        report.pruned_postings = self._upkeep().prune()
        with committer.lock:
            opened.manifest.recount(held_bytes, committer.durability)
            opened.manifest.merge_small(committer.durability)
            opened.manifest.split_grown(committer.durability)
        for name in TABLE_TAGS:
            opened.engine.compact(name)  # which makes the changed refs durable, whatever the level of their commits
        report.removed_segments, report.kept_segments = self._unlink(old)

    def _tell(self, record_bytes: int) -> None:
        self._done_bytes += record_bytes
        if self._on_progress is not None:
            self._on_progress(min(self._done_bytes, self._total_bytes), self._total_bytes)

    def _seal(self, *, whole: bool) -> set[int]:
        """Finish the active segment; returns the segments to be emptied.

        Those that an interrupted run has written already are left out, if it was a run like this one.
        """
        engine = self._opened.engine
        with self._committer.lock:
            first_new = self._opened.manifest.next_segment
            cells = engine.read_row(META, COMPACTION_ROW)
            if cells and whole:
                noted = msgpack.unpackb(cells[0].value)
                if noted["level"] == self._level_name and time.time() - noted["began"] < RESUME_SECONDS:
                    first_new = min(first_new, noted["first_segment"])
            note = msgpack.packb({"level": self._level_name, "first_segment": first_new, "began": int(time.time())})
            plan = Plan()
            if whole:
                plan.write(Stage.ALLOCATION, [RowMutations(META, COMPACTION_ROW, [SetCell("m", b"run", 0, note)])])
            self._bodies.seal()
            self._committer.commit(plan)
            return {
                row.number for row in self._opened.manifest.segments() if not (row.tablet and row.number >= first_new)
            }

    def _move(self, tablet: Tablet, relocator: Relocator, codec: ValueCodec, old: set[int]) -> int:
        opened = self._opened
        envelopes: dict[Column, list[bytes]] = defaultdict(list)
        for row in opened.engine.scan(PAGES, tablet.start, tablet.end, _SAMPLED_SCAN):
            records = list(sound_records(row.cells))
            dropped = {record.timestamp for record in self._table.dropped_records(records)}
            hidden = self._table.bodies_to_drop(records)
            kept = dict.fromkeys(
                (column, value)
                for record in records
                if record.timestamp not in dropped
                for column, value in record.columns.items()
                if segment_of(value) in old and not (column == BODY and record.timestamp in hidden)
            )
            for column, value in kept:
                envelopes[column].append(value)
        placement = opened.placement
        dictionaries = make_dictionaries(envelopes, placement.fetch, placement.leans, self._level, opened.dictionaries)
        encoder = Encoder(self._level, dictionaries, codec)
        body_bytes = 0
        for number in range(PASSES):
            relatives = Relatives(
                tablet,
                opened.placement,
                opened.sharing,
                self._table,
                least_likeness=self._level.least_likeness,
                by_likeness=self._level.tries,
            )
            before = relocator.moved.lost_races
            body_bytes = relocator.move(tablet, encoder, relatives, again=number > 0)
            if not relocator.moved.left and relocator.moved.lost_races == before:
                break
        self._left_values += relocator.moved.left
        if envelopes:
            self._use_dictionaries(tablet, {column: made.checksum for column, made in dictionaries.items()})
        return body_bytes

    def _use_dictionaries(self, tablet: Tablet, checksums: dict[Column, bytes]) -> None:
        """The tablet's next values get the dictionaries made now; those of its sites go."""
        with self._committer.lock:
            plan = plan_for_tablet(self._opened.engine, tablet, checksums)
            self._committer.commit(plan)
            self._opened.placement.forget_dictionaries()

    # --- files

    def _unlink(self, old: set[int]) -> tuple[int, int]:
        """Remove the old segments that no row refers to; -> how many went, how many stay."""
        opened, committer = self._opened, self._committer
        written: set[int] = set()
        with committer.lock:
            committer.watch = lambda plan: written.update(segments_of(plan))
        try:
            referred_to = set(usage(opened.engine))
            with committer.lock:
                referred_to |= written
                rows: list[SegmentRow] = opened.manifest.segments()
            removed = 0
            for number in removable(rows, old, referred_to):
                with committer.lock:  # for each: every one costs two fsyncs and an unlink
                    if self._bodies.is_pinned() or number in written:
                        break  # those behind it may hold delete marks that concern it
                    remove_segments(opened.manifest, self._bodies, [number])
                removed += 1
        finally:
            committer.watch = None
        return removed, len(old) - removed

    def _drop_dictionaries(self, known: dict[int, set[bytes]]) -> int:
        """Remove dictionaries that no record needs and no tablet uses.

        One that is of no use yet may come into use while records are looked through: a site that was deleted is
        crawled again, and its first pages make the same dictionary.
        """
        opened = self._opened
        with opened.placement.noting_dictionaries() as used:
            with self._committer.lock:
                self._bodies.flush()
                names = opened.dictionaries.names()
                rows = [row for row in opened.manifest.segments() if row.number not in known]
            needed = dictionaries_named(opened.engine, self._bodies, rows).union(*known.values())
            needed |= dictionaries_set_aside(opened.files, opened.path / SET_ASIDE_DIRECTORY)
            with self._committer.lock:
                if self._bodies.is_pinned():
                    return 0
                gone = [name for name in names if name not in needed and name not in used]
                if gone:
                    opened.dictionaries.remove(gone)
                    opened.placement.forget_dictionaries()  # none of these may be held for the next values
        return len(gone)
