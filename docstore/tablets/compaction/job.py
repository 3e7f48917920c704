"""Compaction: removes garbage, rewrites values in row-key order with new dictionaries and bases, and frees space.

    seal      finish the active segment, so that all its records can be moved; writers continue in another
    mark      find the live data; retire bases without a live capture, so that no new delta is made against them
    move      for each tablet: apply policies, sample dictionaries, write values into segments of the tablet, and swap
              refs by compare and set
    sweep     remove the rows of bases that no remaining segment names and that pages do not share
    prune     remove postings that lead to no live page
    engine    compact the engine's files; after this all swapped refs are durable
    unlink    remove segments without refs, then dictionaries without records

Readers and writers continue during a compaction.  Before bases and before segments are removed, it waits for the
readers who may have read rows that named them.  A crash at any point leaves a consistent store; the next run
continues with the tablets that were not finished.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from itertools import islice

from docstore.compiled import docstore_native
from docstore.model.capture import BODY, Column
from docstore.model.choices import Durability
from docstore.model.errors import InvalidArgument, StorageError
from docstore.model.format import (
    CAPTURE_FAMILY,
    CAPTURE_FIELDS,
    PURGED_ROW,
    SEGMENT_DRAINING,
    SEGMENT_OF_MARKS,
    SET_ASIDE_DIRECTORY,
    TABLE_TAGS,
)
from docstore.model.types import Cell, DeleteCells, ReadSpec, RowMutations
from docstore.storage.bases import freed_row
from docstore.storage.captures import sound_records
from docstore.storage.engine import Plan
from docstore.storage.files import uninterrupted
from docstore.storage.heap import collecting_by_hand
from docstore.storage.reports import CompactionReport, Progress
from docstore.storage.schema import META_FAMILY
from docstore.storage.table import PAGES, Table
from docstore.tablets.commit import LocalCommitter
from docstore.tablets.compaction.encoding import (
    CACHE_BYTES,
    DICTIONARY_SHARE,
    LEVELS,
    Level,
    make_dictionaries,
)
from docstore.tablets.compaction.relocation import Relocator, ValueMover
from docstore.tablets.compaction.segments import (
    SMALL_GARBAGE_BYTES,
    SURVEYED_ROWS,
    LiveData,
    NamesBySegment,
    SegmentWriter,
    SkipRules,
    Usage,
    find_live_data,
    needed,
    refs_among,
    removable,
    segment_of,
    segments_to_skip,
    survey,
    surveyor,
)
from docstore.tablets.dictionaries import TabletDictionaries, checksums_in_use
from docstore.tablets.layout import LocalBackend
from docstore.tablets.leftovers import dictionaries_set_aside, remove_unfinished
from docstore.tablets.manifest import Tablet
from docstore.tablets.record import SegmentNames, encode_records
from docstore.tablets.reserve import FULL_DISK
from docstore.tablets.segment import SegmentRow

PASSES = 3
"""Passes over a tablet: values that lost a race in one are moved in the next, or by the next compaction."""
SLICE_BASES = 64
"""Bases freed under one hold of the lock."""
MOST_GARBAGE = 0.2
"""A segment with at most this part of garbage is skipped, if a run of at least this level wrote it."""
SLACK_BYTES = 256 << 10
"""What a run may write before it looks for room: a refused run asks for so much more."""
COUNTED = ("rows", "values", "raw_bytes", "expired_cells", "damaged_values", "lost_races", "left_values")
"""What the report of a run adds up over its tablets."""
META = "meta"
_SAMPLED_SCAN = ReadSpec((CAPTURE_FAMILY,), cell_limit=10_000)
"""The cells from which dictionaries are sampled."""
_ANY_ROW = ReadSpec(keys_only=True, cell_limit=1)


class Compaction:
    """One run; see the top of this file.

    Args:
        backend: parts of the store.
        table: of its pages, with their policies.
        committer: of all its writers.
        level: `fast` or `best`.
        full: also rewrite segments with little garbage.
        on_progress: called with the bytes of records processed, and the bytes in total.
        prune: see `Backend.compact`.
    """

    def __init__(
        self,
        backend: LocalBackend,
        table: Table,
        committer: LocalCommitter,
        prune: Callable[[], int],
        *,
        level: str = "fast",
        full: bool = False,
        on_progress: Progress | None = None,
    ) -> None:
        if level not in LEVELS:
            raise InvalidArgument(f"there is no level {level!r}; use one of {', '.join(LEVELS)}")
        self._backend = backend
        self._value_log = backend.value_log
        self._table = table
        self._committer = committer
        self._level_name = level
        self._level: Level = LEVELS[level]
        self._on_progress = on_progress
        self._prune = prune
        self._full = full
        self._telling = threading.Lock()
        self._done_bytes = 0
        self._total_bytes = 0
        self._made: set[bytes] = set()
        self._named = NamesBySegment(backend.manifest, self._value_log)

    def run(self, numbers: Sequence[int] | None = None, *, dry_run: bool = False) -> CompactionReport:
        """Compact the tablets of these numbers, None for all, or with `dry_run` report what a compaction would do.

        Raises:
            InvalidArgument: no such tablet.
            StorageError: finished work is kept; free space, and run it again.  With ENOSPC the values of some segments
                were not moved, because the disk has no room for their copies.
        """
        started = time.monotonic()
        report = CompactionReport(self._level_name, dry_run)
        chosen = self._chosen(numbers)
        if dry_run:
            self._survey(chosen, report)
        else:
            committer, base_rows = self._committer, self._backend.base_rows
            with ExitStack() as stack:
                stack.enter_context(base_rows.cached(committer.lock, committer.followers))
                unreadable = stack.enter_context(self._backend.values.unreadable.collecting())
                try:
                    self._compact(chosen, report, whole=numbers is None)
                finally:
                    with committer.lock:
                        base_rows.retired.clear()
            report.unreadable = list(unreadable)
        report.seconds = time.monotonic() - started
        return report

    def _chosen(self, numbers: Sequence[int] | None) -> list[Tablet]:
        tablets = self._backend.manifest.tablets()
        if numbers is None:
            return tablets
        known = {tablet.number for tablet in tablets}
        for number in numbers:
            if number not in known:
                raise InvalidArgument(f"there is no tablet {number}; `docstore stats --json` lists them")
        return [tablet for tablet in tablets if tablet.number in set(numbers)]

    def _survey(self, chosen: list[Tablet], report: CompactionReport) -> None:
        backend = self._backend
        report.tablets = len(chosen)
        found = surveyor((), self._table)

        def values_of(cells: Sequence[Cell]) -> list[tuple[bool, bytes]]:
            report.expired_cells += len(self._table.dropped_of(cells))
            return [(False, value) for value in refs_among(cells)]

        for tablet in chosen:
            survey(found, backend.engine, values_of, tablet.start, tablet.end, collects=self._table.collects)
        report.rows, report.values, report.raw_bytes = found.rows, found.values, found.raw_bytes
        backend.value_log.flush()
        rows = backend.manifest.segments()
        live_data = find_live_data(backend.engine, self._table, backend.base_rows, backend.manifest)
        report.old_bytes = sum(row.committed_bytes for row in rows)
        report.live_bytes = sum(life.live_bytes for life in live_data.segments.values())
        rules, next_segment = self._skip_rules(chosen, full=bool(self._purge_id())), backend.manifest.next_segment
        skipped, _ = segments_to_skip(rows, rules, live_data, self._named, next_segment)
        report.skipped_segments = len(skipped)

    # --- the run

    def _compact(self, chosen: list[Tablet], report: CompactionReport, *, whole: bool) -> None:
        """Do the steps of a run; see the top of this file."""
        manifest, dictionaries = self._backend.manifest, self._backend.dictionaries
        purge_id, first_new = self._seal()
        live_data = self._mark(whole=whole)
        rows = [row for row in manifest.segments() if row.number < first_new]
        numbers = {tablet.number for tablet in chosen}
        chosen = [tablet for tablet in manifest.tablets() if whole or tablet.number in numbers]
        rules = self._skip_rules(chosen, full=bool(purge_id))
        dictionaries_before = set(dictionaries.names())
        skipped, marks_number = segments_to_skip(rows, rules, live_data, self._named, first_new)
        old, live_bytes, left_bytes = self._fitting([row for row in rows if row.number not in skipped], live_data)
        report.skipped_segments = len(skipped)
        report.old_bytes = self._total_bytes = sum(row.committed_bytes for row in rows if row.number in old)
        try:
            with collecting_by_hand():  # `Relocator.publish` does it
                moves = self._move_all(chosen, rows, old, first_new, purged=bool(purge_id))
        except StorageError as error:
            if error.errno in FULL_DISK:  # what stays has to leave room to open the store
                with suppress(StorageError):
                    self._drop_dictionaries()
                if self._lacking_bytes(live_bytes) > 0:  # others have filled the disk meanwhile
                    raise self._no_room(live_bytes) from error
            raise
        report.tablets = len(chosen)
        report.live_bytes = self._done_bytes
        _add_counts(report, moves)
        self._free_space(report, old, marks_number)
        report.removed_dictionaries = self._drop_dictionaries()
        if left_bytes:
            raise self._no_room(left_bytes)
        self._finish(purge_id, dictionaries_before, rewrites_all=whole and not report.kept_segments)
        report.new_bytes = sum(row.committed_bytes for row in manifest.segments())

    def _mark(self, *, whole: bool) -> LiveData:
        """Find the live data; retire bases without a live capture, and adapt the tablets to what is live."""
        backend, committer = self._backend, self._committer
        live_data = find_live_data(backend.engine, self._table, backend.base_rows, backend.manifest)
        with committer.lock:
            backend.base_rows.retired |= live_data.unused_bases
            backend.manifest.recount(live_data.body_bytes, committer.durability)
            if whole:
                backend.manifest.merge_small(committer.durability)
            backend.manifest.split_grown(committer.durability)
        return live_data

    def _finish(self, purge_id: bytes, dictionaries_before: set[bytes], *, rewrites_all: bool) -> None:
        """Commit once more.  If nothing is left from before the last purge, record that, and remove set aside files.

        Args:
            purge_id: of the last purge when the run began.
            dictionaries_before: checksums of the dictionaries that there were then.
            rewrites_all: no old segment was kept, in no tablet.
        """
        backend, committer = self._backend, self._committer
        with committer.lock:
            plan = Plan()
            # Before their tablet had new dictionaries, writers may have used some from before the purge.
            is_clean = dictionaries_before.isdisjoint(set(backend.dictionaries.names()) - self._made)
            if rewrites_all and is_clean and purge_id == self._purge_id():
                plan.rows.append(RowMutations(META, PURGED_ROW, [DeleteCells(META_FAMILY, b"")]))
                remove_unfinished(backend.files, backend.path / SET_ASIDE_DIRECTORY, kept=0)
            committer.commit(plan)
        self._tell(self._total_bytes)

    def _fitting(self, rows: Sequence[SegmentRow], live_data: LiveData) -> tuple[set[int], int, int]:
        """Choose the segments to empty: all of them, or on a full disk those with most garbage, while there is room.

        Args:
            rows: of the segments that should be emptied.
            live_data: what the policies keep of each segment.
        Returns:
            Their numbers, the bytes of their live values, and those of the values that have to wait.
        Raises:
            StorageError: ENOSPC, because nothing can be freed in the room that there is.
        """
        self._backend.make_reserve()
        segments = live_data.segments
        live = {row: segments[row.number].live_bytes if row.number in segments else 0 for row in rows}
        all_bytes = sum(live.values())
        if self._lacking_bytes(all_bytes) <= 0:
            return {row.number for row in rows}, all_bytes, 0
        fitting: set[int] = set()
        live_bytes = 0
        for row in sorted(rows, key=lambda row: live[row] / row.committed_bytes):
            is_worth = row.committed_bytes - live[row] > SMALL_GARBAGE_BYTES
            if (is_worth or not live[row]) and self._lacking_bytes(live_bytes + live[row]) <= 0:
                fitting.add(row.number)
                live_bytes += live[row]
        if not fitting:
            raise self._no_room(all_bytes)
        return fitting, live_bytes, all_bytes - live_bytes

    def _needed_bytes(self, live_bytes: int) -> int:
        """What is written before anything is freed, if so many bytes of live values are moved.

        That is their copy, their dictionaries, LevelDB's log of the new refs, and what LevelDB rewrites at once.
        """
        reserve = self._backend.reserve
        log_bytes = min(live_bytes // 4, reserve.log_limit_bytes)
        return int(live_bytes * (1 + DICTIONARY_SHARE)) + log_bytes + reserve.compaction_bytes

    def _lacking_bytes(self, live_bytes: int) -> int:
        return self._needed_bytes(live_bytes) - self._backend.reserve.free_bytes()

    def _no_room(self, live_bytes: int) -> StorageError:
        """The error for so many bytes of live values that cannot be moved."""
        free_bytes, needed_bytes = self._backend.reserve.free_bytes(), self._needed_bytes(live_bytes)
        return StorageError(
            errno.ENOSPC,
            f"the disk of {self._backend.path} is too full to compact {live_bytes} live bytes: copies and tables of "
            f"LevelDB take {needed_bytes} bytes before any are freed, and {free_bytes} are free; free "
            f"{max(needed_bytes - free_bytes, 0) + SLACK_BYTES} bytes, or delete pages, and run it again",
        )

    def _free_space(self, report: CompactionReport, old: set[int], marks_number: int) -> None:
        """The steps from sweep to unlink."""
        backend, committer = self._backend, self._committer
        used = Usage()
        try:
            with committer.lock:
                committer.watch = used.add_written
            used.add_rows(backend.engine, backend.base_rows)
            report.freed_bodies = self._sweep(used, old)
            with ThreadPoolExecutor(1, "docstore-compact") as pool:
                pages = pool.submit(backend.engine.compact, PAGES)  # LevelDB does it meanwhile, without the GIL
                if backend.reserve.is_scarce():
                    pages.result()  # both together need more space
                report.pruned_postings = self._prune()
                pages.result()
            for name in (name for name in TABLE_TAGS if name != PAGES):
                backend.engine.compact(name)  # makes the swapped refs durable, at any durability of their commits
            report.removed_segments, report.kept_segments = self._unlink(used, old, marks_number)
        finally:
            committer.watch = None

    def _tell(self, record_bytes: int) -> None:
        with self._telling:
            self._done_bytes += record_bytes
            if self._on_progress is not None:
                self._on_progress(min(self._done_bytes, self._total_bytes), self._total_bytes)

    def _seal(self) -> tuple[bytes, int]:
        """Finish the active segment; return the id of the last purge (see `_purge_id`), and a segment number.

        The number is for a segment of delete marks.  All segments that are started from now on have higher numbers.
        """
        with self._committer.lock:
            self._value_log.seal()
            self._backend.values.forget_dictionaries()  # samples may have bytes of purged pages
            self._committer.commit(Plan())
            return self._purge_id(), self._value_log.new_number()

    def _purge_id(self) -> bytes:
        """The id of the last purge, until a run has rewritten all segments after it; then b""."""
        cell = self._backend.engine.newest(META, PURGED_ROW, META_FAMILY, b"")
        return b"" if cell is None else cell.value

    def _skip_rules(self, chosen: Sequence[Tablet], *, full: bool = False) -> SkipRules:
        tablets = {tablet.number: tablet for tablet in self._backend.manifest.tablets()}
        names = list(LEVELS)
        levels = frozenset(names[names.index(self._level_name) :])
        most = -1.0 if full or self._full else MOST_GARBAGE
        return SkipRules(tablets, {tablet.number for tablet in chosen}, levels, most)

    def _move_all(
        self, chosen: Sequence[Tablet], rows: Sequence[SegmentRow], old: set[int], first_new: int, *, purged: bool
    ) -> list[CompactionReport]:
        """Move the values of the tablets that are in old segments; each tablet by a thread of its own.

        Threads share the engine, the committer and the dictionaries; a tablet's segment, candidates and counts are of
        one thread.  A page of another tablet can be a base whether that tablet is moved before, later or meanwhile.
        """
        backend = self._backend
        copies = not (self._level.compares or self._full or purged)
        shared = docstore_native.SharedMoves()
        threads = max(1, min(len(chosen), os.cpu_count() or 1))
        failures: list[BaseException] = []
        stop = threading.Event()

        def work(tablet: Tablet) -> CompactionReport:
            is_part = any(
                row.tablet == tablet.number or not (row.tablet or row.level) for row in rows if row.number not in old
            )
            has_rows = next(backend.engine.scan("pages", tablet.start, tablet.end, _ANY_ROW), None) is not None
            dictionaries = TabletDictionaries(
                tablet,
                backend.engine,
                lambda checksum: backend.values.unreadable.attempt(partial(backend.dictionaries.load, checksum)),
                self._level.zstd,
                keeps=has_rows and (is_part or copies),
                of_sites=copies,
            )
            mover = ValueMover(
                backend,
                self._table,
                tablet,
                dictionaries,
                self._level,
                old=old,
                begin_segment=lambda number: SegmentWriter(
                    backend.files, self._value_log, number, old, self._level_name, first_new
                ),
                copies=copies,
                shared=shared,
                cache_bytes=CACHE_BYTES // threads,
            )
            relocator = Relocator(
                backend, self._table, self._committer, tablet, mover, old=old, on_bytes=self._tell, stop=stop
            )
            try:
                self._move(tablet, relocator, dictionaries, old, is_part=is_part)
            except BaseException as error:
                if not stop.is_set():  # else it only says that it was stopped
                    failures.append(error)
                stop.set()
                raise
            return mover.counts

        if threads == 1:
            return [work(tablet) for tablet in chosen]
        with ThreadPoolExecutor(threads, "docstore-compact") as pool:
            futures = [pool.submit(work, tablet) for tablet in chosen]
            try:
                return [future.result() for future in futures]
            except BaseException as error:
                stop.set()
                pool.shutdown(cancel_futures=True)
                raise (failures or [error])[0] from None  # later ones only say that they were stopped

    def _move(
        self,
        tablet: Tablet,
        relocator: Relocator,
        dictionaries: TabletDictionaries,
        old: set[int],
        *,
        is_part: bool,
    ) -> None:
        """Move the values of a tablet that are in old segments; `is_part`: some of its segments are skipped."""
        backend = self._backend
        cell_values: dict[Column, list[bytes]] = defaultdict(list)
        moves_values = False
        scan = backend.engine.scan(PAGES, tablet.start, tablet.end, _SAMPLED_SCAN)
        while rows := list(islice(scan, SURVEYED_ROWS)):
            found = [None] * len(rows) if self._table.collects else docstore_native.refs_into(rows, old, CAPTURE_FIELDS)
            for row, refs in zip(rows, found, strict=True):
                kept = self._kept_refs(row.cells, old) if refs is None else refs
                moves_values |= bool(kept)
                for column, value in kept:
                    if self._level.compares or dictionaries.wants_sample(row.row_key, column):
                        cell_values[column].append(value)
        for column, made in make_dictionaries(cell_values, backend.values, self._level, backend.dictionaries).items():
            dictionaries.add(column, made)
        for number in range(PASSES):
            if not relocator.move(again=number > 0):
                break
        self._made |= dictionaries.made
        if moves_values or not is_part:  # also without values: its old dictionaries may have bytes of purged pages
            with self._committer.lock:  # for the next values
                self._committer.commit(dictionaries.plan())
                backend.values.forget_dictionaries()

    def _kept_refs(self, cells: Sequence[Cell], old: set[int]) -> list[tuple[Column, bytes]]:
        """The refs of a row into old segments that the policies keep, by column."""
        records = list(sound_records(cells))
        dropped = {record.timestamp for record in self._table.dropped_records(records)}
        hidden = self._table.bodies_to_drop(records)
        refs = (
            (column, value)
            for record in records
            if record.timestamp not in dropped
            for column, value in record.refs
            if segment_of(value) in old and not (column == BODY and record.timestamp in hidden)
        )
        return list(dict.fromkeys(refs))

    # --- files

    def _sweep(self, used: Usage, old: set[int]) -> int:
        """Free bases without users; returns how many."""
        backend, committer = self._backend, self._committer
        self._needed(used, old)  # reads the names of all segments, so that under the lock few are left to read
        with committer.lock:
            _, bases = self._needed(used, old)
            free = sorted(used.base_rows.keys() - bases)
            backend.base_rows.retired.update(free)
        backend.values.wait_for_readers()  # they may have deltas against these bases
        for start in range(0, len(free), SLICE_BASES):
            with committer.lock:
                rows = [freed_row(name) for name in free[start : start + SLICE_BASES]]
                committer.commit(Plan(rows))
        for name in free:
            used.base_rows.pop(name)
        return len(free)

    def _needed(self, used: Usage, old: set[int]) -> tuple[set[int], set[bytes]]:
        """The segments and bases that must stay; see `needed`."""
        rows = self._backend.manifest.segments()
        return needed(rows, used.segments | {row.number for row in rows if row.number not in old}, self._named, used)

    def _unlink(self, used: Usage, old: set[int], marks_number: int) -> tuple[int, int]:
        """Remove old segments without refs; returns how many were removed, and how many stay."""
        backend, committer = self._backend, self._committer
        with committer.lock:
            staying, _ = self._needed(used, old)
            rows: list[SegmentRow] = backend.manifest.segments()
        numbers, marks = removable(rows, old, staying, self._named, marks_number)
        if marks and not self._value_log.is_pinned():
            with uninterrupted():
                writer = SegmentWriter(backend.files, self._value_log, 0, numbers, SEGMENT_OF_MARKS, marks_number)
                writer.add(encode_records(marks, writer.number, writer.length_bytes)[0])
                segment_of_marks = writer.finish()
                with committer.lock:
                    backend.manifest.write_segment(segment_of_marks, committer.durability, SegmentNames())
        removed = 0
        backend.values.wait_for_readers()  # they may have refs into these segments
        for number in numbers:
            # Taken for each segment, because a removal costs two fsyncs and an unlink.
            with uninterrupted(), committer.lock:
                if self._value_log.is_pinned() or number in used.segments:
                    break  # later segments may have delete marks for this one
                row = next(row for row in backend.manifest.segments() if row.number == number)
                backend.manifest.write_segment(row._replace(state=SEGMENT_DRAINING), Durability.SYNC)
                self._value_log.remove(number)
                backend.manifest.remove_segment(number, Durability.SYNC)
            removed += 1
        return removed, len(old - set(numbers[:removed]))

    def _drop_dictionaries(self) -> int:
        """Remove dictionaries that no record needs and no tablet uses; returns how many.

        A dictionary may come into use again during this: if a deleted site is crawled again, its first pages make the
        same dictionary.
        """
        backend = self._backend
        with backend.values.dictionaries.recording_use() as used:
            with self._committer.lock:
                self._value_log.flush()
                names = backend.dictionaries.names()
                rows = backend.manifest.segments()
            needed = set(checksums_in_use(backend.engine)).union(*(self._named.of(row).dictionaries for row in rows))
            needed |= dictionaries_set_aside(backend.files, backend.path / SET_ASIDE_DIRECTORY)
            with self._committer.lock:
                if self._value_log.is_pinned():
                    return 0
                unused = [name for name in names if name not in needed and name not in used]
                backend.dictionaries.remove(unused)
                backend.values.forget_dictionaries()  # a removed one may be cached
        return len(unused)


def _add_counts(report: CompactionReport, moves: Sequence[CompactionReport]) -> None:
    """Add up what was moved in each tablet."""
    for moved in moves:
        for name in COUNTED:
            setattr(report, name, getattr(report, name) + getattr(moved, name))
        report.codec_bytes = dict(Counter(report.codec_bytes) + Counter(moved.codec_bytes))
