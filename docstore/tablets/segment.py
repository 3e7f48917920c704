"""Bodies in append-only files: one active segment, group appends, one fsync a group, positioned reads.

Knows `record`, `bodies` and `files`.  Must not know the engine, the manifest, or what a payload holds.

Order of a group: `append` encodes into a buffer, `flush` is one write call, `sync` one fsync (and one of the folder if
the segment is new); then the store commits rows and manifest together.  Before a group's records stands a mark with the
number of its commit, and `close` leaves that of the next one.  Bytes behind the manifest's committed length belong to
no row: what is left over of a group is cut off at open, what shows that rows were lost is set aside (`leftovers`).
After a failed write or fsync a segment is never written again.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from docstore.model.errors import CorruptionError, StorageError
from docstore.model.format import (
    SEGMENT_ACTIVE,
    SEGMENT_DRAINING,
    SEGMENT_HEADER_BYTES,
    SEGMENT_SUFFIX,
    SET_ASIDE_DIRECTORY,
)
from docstore.storage.files import AppendFile, Files, ReadFile
from docstore.tablets.bodies import Ref, SegmentProgress, SegmentRow, Tail, decode_ref, encode_ref
from docstore.tablets.header import encode_header, header_damage, refuse_other_format
from docstore.tablets.leftovers import Surplus, judge, list_set_aside, set_aside
from docstore.tablets.record import Record, decode_record, encode_record, group_mark
from docstore.tablets.walk import Damage, walk_records

if TYPE_CHECKING:  # loaded at the first write
    from docstore.tablets.recordbatch import Encode

SEGMENT_LIMIT_BYTES = 256 << 20
"""A segment that has reached this takes no further group."""
OPEN_SEGMENTS = 128
"""Read descriptors held at most: 32 GB of segments, an eighth of the usual limit of 1024."""
BUFFER_LIMIT_BYTES = 8 << 20
"""A group larger than this is written in several calls, so that memory stays bounded."""
READ_GAP_BYTES = 32 << 10
"""`read_many` reads over a gap this small rather than make another call."""
READ_RUN_BYTES = 1 << 20
"""`read_many` reads at most about so much at once."""
READ_AHEAD_RUNS = 8
"""`read_many` announces so many reads before it makes them: a disk serves several at once."""


class LostRange(NamedTuple):
    """Committed bytes of a segment that are not there or not sound; versions that refer into it are to be dropped."""

    segment: int
    start: int
    end: int
    reason: str


class Recovery(NamedTuple):
    """What `recover` found and did.

    Attributes:
        lost: committed bytes that are missing or damaged; empty after every crash at durability `sync`.
        cut: (segment, bytes) cut off behind the committed length.
        orphans: names of files without a manifest row, removed.
        gone: draining segments whose file is removed already; their rows can go.
        set_aside: names of files with records that no row names, though a commit must have named them.
        last_group: highest number of a mark behind the committed bytes; 0 for none.
    """

    lost: tuple[LostRange, ...] = ()
    cut: tuple[tuple[int, int], ...] = ()
    orphans: tuple[str, ...] = ()
    gone: tuple[int, ...] = ()
    set_aside: tuple[str, ...] = ()
    last_group: int = 0

    def is_lost(self, ref: bytes) -> bool:
        """Whether any byte of this ref's record is lost."""
        segment, offset, length = decode_ref(ref)
        return any(item.segment == segment and offset < item.end and item.start < offset + length for item in self.lost)


class _Run(NamedTuple):
    """Bytes of one segment to be read in one call, and which of the sorted places they hold."""

    segment: int
    begin: int
    end: int
    first: int
    stop: int


class _Active:
    """The segment that takes the next records, with the records that are not written yet."""

    def __init__(self, number: int, file: AppendFile, *, folder_synced: bool) -> None:
        self.number = number
        self.file = file
        self.folder_synced = folder_synced
        self.synced_bytes = file.length_bytes
        self.tail_bytes = file.length_bytes
        self.group = 0
        """Of the last mark in it, as far as that is known."""
        self.closed_bytes: int | None = None
        """Committed bytes of a segment that stands as it was closed: only that mark is behind them."""
        self.pending: dict[int, bytes] = {}
        self.pending_bytes = 0

    def take(self, encoded: bytes) -> None:
        """Put bytes behind the others, where `tail_bytes` is."""
        self.pending[self.tail_bytes] = encoded
        self.tail_bytes += len(encoded)
        self.pending_bytes += len(encoded)


class SegmentBodies:
    """Bodies in files of one folder.  Call `recover` before anything else.

    Args:
        files: the file system.
        folder: where the segments lie; must exist.
        limit_bytes: size at which the next group starts another segment.
        open_segments: read descriptors held at most.
        aside: folder for segments that are set aside; made when there is one.
        read_only: `recover` changes nothing, and nothing is appended.
    """

    def __init__(
        self,
        files: Files,
        folder: Path,
        *,
        aside: Path | None = None,
        read_only: bool = False,
        limit_bytes: int = SEGMENT_LIMIT_BYTES,
        open_segments: int = OPEN_SEGMENTS,
    ) -> None:
        self._files = files
        self._folder = folder
        self._aside = folder / SET_ASIDE_DIRECTORY if aside is None else aside
        self._read_only = read_only
        self._limit_bytes = limit_bytes
        self._open_segments = open_segments
        self._lock = Lock()
        """Guards the active segment and its buffer; held over writes, and over an fsync only when a segment is full."""
        self._handle_lock = Lock()
        self._active: _Active | None = None
        self._active_number = -1
        self._written_bytes = 0
        """Of the active segment; read without the lock by `read`."""
        self._handles: dict[int, ReadFile] = {}
        self._closed_progress: dict[int, SegmentProgress] = {}
        self._next_number = 1
        self._group = 0
        self._pins = 0
        self._encode: Encode | None = None

    # --- opening ---

    def recover(self, rows: Iterable[SegmentRow], next_number: int = 1, group: int = 0) -> Recovery:
        """Make the folder agree with the manifest, and get ready to append.

        What is left over in files without a row, and behind the committed length, goes; records there that a commit
        must have named are set aside.  Bytes between synced and committed length are verified.  Records behind a
        damaged one are judged each by its own CRC.

        Args:
            rows: of all segments.
            next_number: of the next segment.
            group: number of the last commit.
        Raises:
            UnsupportedFormat: a segment was written by a newer docstore.
        """
        by_number = {row.number: row for row in rows}
        numbers = [_number_of(name) for name in self._files.names(self._folder)]
        there = by_number.keys() & set(numbers)
        lost: list[LostRange] = []
        cut: list[tuple[int, int]] = []
        gone: list[int] = []
        orphans: list[str] = []
        aside: list[str] = []
        surplus: dict[int, Surplus] = {}
        for number in sorted(set(numbers) - by_number.keys() - {-1}):
            surplus[number] = self._judge(number, SEGMENT_HEADER_BYTES, group, there)
        for row in sorted(by_number.values()):
            if row.number in there:
                length_bytes = self._files.length_bytes(self.path(row.number))
                lost.extend(self._verify(row, length_bytes))
                if length_bytes > row.committed_bytes:
                    surplus[row.number] = self._judge(row.number, row.committed_bytes, group, there)
            elif row.state == SEGMENT_DRAINING:
                gone.append(row.number)
            else:
                lost.append(LostRange(row.number, 0, row.committed_bytes, "the file is missing"))
        last_group = max((one.last_group for one in surplus.values()), default=0)
        for number, one in () if self._read_only else surplus.items():
            row_of = by_number.get(number)
            start = 0 if row_of is None else row_of.committed_bytes
            path = self.path(number)
            if not one.is_leftover(group, last_group):
                aside.append(set_aside(self._files, path, number, start, self._aside))
            if row_of is None:
                if self._files.exists(path):
                    orphans.append(path.name)
                    self._files.unlink(path)
            elif not (one.is_mark and row_of.state == SEGMENT_ACTIVE):
                cut.append((number, self._files.length_bytes(path) - start))
                self._files.truncate(path, start)
        if orphans or aside:
            self._files.sync_folder(self._folder)
        known = [*by_number, *(one.segment for one in list_set_aside(self._files, self._aside))]
        self._next_number = max(next_number, *(number + 1 for number in known), 1)
        active = [row for row in by_number.values() if row.state == SEGMENT_ACTIVE]
        if len(active) == 1 and not self._read_only and not any(item.segment == active[0].number for item in lost):
            self._reopen(active[0], surplus.get(active[0].number))
        return Recovery(tuple(lost), tuple(cut), tuple(orphans), tuple(gone), tuple(aside), last_group)

    def _judge(self, number: int, start: int, group: int, there: Collection[int]) -> Surplus:
        handle = self._files.open_read(self.path(number))
        refuse_other_format(handle, self.path(number))
        return judge(handle, number, start, group, there)

    def _verify(self, row: SegmentRow, length_bytes: int) -> list[LostRange]:
        """What is missing or damaged of a segment's committed bytes, as far as they were not synced."""
        path = self.path(row.number)
        lost = []
        if length_bytes < row.committed_bytes:
            # Whether the last bytes that are there make a whole record is seen below, where damage ends at `length`.
            lost.append(LostRange(row.number, length_bytes, row.committed_bytes, "the file is too short"))
        handle = self._files.open_read(path)
        refuse_other_format(handle, path)
        start = max(SEGMENT_HEADER_BYTES, row.synced_bytes)
        if length_bytes < start:
            start = SEGMENT_HEADER_BYTES  # bytes that were synced are gone: nothing about this file can be trusted
        end = min(length_bytes, row.committed_bytes)
        for offset, found in walk_records(handle, row.number, start, end):
            if isinstance(found, Damage):
                lost.append(LostRange(row.number, offset, found.end, found.reason))
        if lost and not self._read_only:
            self._files.sync_file(path)  # so that the manifest can call what is left synced
        return sorted(lost)

    def _reopen(self, row: SegmentRow, closing: Surplus | None) -> None:
        header = self._files.open_read(self.path(row.number)).read(SEGMENT_HEADER_BYTES, 0)
        if row.committed_bytes >= self._limit_bytes or header_damage(header, row.number):
            return
        active = _Active(row.number, self._files.open_append(self.path(row.number), create=False), folder_synced=True)
        active.synced_bytes = min(row.synced_bytes, row.committed_bytes)
        if closing is not None and closing.is_mark:  # left and synced by `close`
            active.group = closing.last_group
            active.closed_bytes = row.committed_bytes
            if row.synced_bytes == row.committed_bytes:
                active.synced_bytes = active.tail_bytes
        self._active = active
        self._written_bytes = active.tail_bytes
        self._active_number = row.number

    # --- writing ---

    def begin_group(self, number: int) -> None:
        """See `Bodies`; 0, as it is at first, for records that no mark is to stand before."""
        with self._lock:
            self._group = number

    def append(self, records: Sequence[Record]) -> list[bytes]:
        """See `Bodies`."""
        with self._lock:
            active = self._active
            if active is None or active.tail_bytes >= self._limit_bytes:
                active = self._roll()
            self._mark_group(active)
            active.closed_bytes = None
            if self._encode is None:
                # Loaded at the first write: native code comes with it, which reading does without.
                self._encode = import_module("docstore.tablets.recordbatch").encoder()
            encoded, refs = self._encode(records, active.number, active.tail_bytes)
            for raw in encoded:
                active.take(raw)
                if active.pending_bytes >= BUFFER_LIMIT_BYTES:
                    self._flush()
        return refs

    def flush(self) -> None:
        """See `Bodies`."""
        with self._lock:
            self._flush()

    def sync(self) -> None:
        """See `Bodies`."""
        with self._lock:
            self._flush()
            active = self._active
            written_bytes = self._written_bytes
        if active is None or active.synced_bytes == written_bytes:
            return
        self._sync(active, written_bytes)

    def drop(self) -> None:
        """See `Bodies`; the next record begins a segment, so that no ref is given twice."""
        with self._lock:
            if self._active is not None and self._active.pending:
                self._give_up()

    def abandon(self) -> None:
        """See `Bodies`."""
        with self._lock:
            self._give_up()

    def seal(self) -> None:
        """Finish the active segment: the next record begins another, so that compaction can move all of this one."""
        with self._lock:
            if self._active is not None:
                self._finish(self._active)

    def new_number(self) -> int:
        """The number of a segment that somebody else writes: compaction."""
        with self._lock:
            number = self._next_number
            self._next_number += 1
        return number

    def tail(self) -> Tail:
        """See `Bodies`."""
        with self._lock:
            if self._active is None:
                return Tail(self._next_number, SEGMENT_HEADER_BYTES)
            return Tail(self._active.number, self._active.tail_bytes)

    def progress(self) -> list[SegmentProgress]:
        """See `Bodies`."""
        with self._lock:
            found = list(self._closed_progress.values())
            if self._active is not None:
                found.append(self._progress_of(self._active, is_active=True))
        return found

    def _roll(self) -> _Active:
        """Finish the active segment, if there is one, and start the next."""
        if self._active is not None:
            self._finish(self._active)
        number = self._next_number
        self._next_number += 1  # also when creating fails: what that left behind has no row and goes at open
        file = self._files.open_append(self.path(number), create=True)
        active = _Active(number, file, folder_synced=False)
        active.take(encode_header(number))
        self._written_bytes = 0
        self._active_number = number
        self._active = active
        return active

    def _mark_group(self, active: _Active) -> None:
        if self._group > active.group:
            active.take(encode_record(group_mark(self._group), active.number))
            active.group = self._group

    def _finish(self, finished: _Active) -> None:
        self._flush()
        self._sync(finished, self._written_bytes)
        self._closed_progress[finished.number] = self._progress_of(finished, is_active=False)
        self._active, self._active_number = None, -1
        finished.file.close()

    def _flush(self) -> None:
        active = self._active
        if active is None or not active.pending:
            return
        try:
            active.file.write(b"".join(active.pending.values()))
        except BaseException:
            self._give_up()
            with suppress(StorageError):  # on a full disk others need the room that half a group has taken
                self._files.truncate(active.file.path, self._written_bytes)
            raise
        self._written_bytes = active.tail_bytes
        active.pending = {}
        active.pending_bytes = 0

    def _sync(self, active: _Active, written_bytes: int) -> None:
        try:
            active.file.sync()
            if not active.folder_synced:
                self._files.sync_folder(self._folder)
                active.folder_synced = True
        except BaseException:
            if self._active is active:
                self._give_up()
            raise
        active.synced_bytes = max(active.synced_bytes, written_bytes)

    def _give_up(self) -> None:
        active, self._active, self._active_number = self._active, None, -1
        if active is not None:
            self._closed_progress[active.number] = SegmentProgress(active.number, False, None, active.synced_bytes)
            active.file.close()

    def _progress_of(self, active: _Active, *, is_active: bool) -> SegmentProgress:
        written_bytes = self._written_bytes if active.closed_bytes is None else active.closed_bytes
        return SegmentProgress(active.number, is_active, written_bytes, min(active.synced_bytes, written_bytes))

    # --- reading ---

    def source(self, segment: int, offset: int, length: int) -> bytes:
        """See `Bodies`."""
        if segment == self._active_number and offset >= self._written_bytes:
            pending = self._read_pending(segment, offset)
            if pending is not None:
                return pending
        handle = self._handles.get(segment) or self._open(segment)
        handle.used = True
        return handle.read(length, offset)

    def read(self, ref: bytes) -> Record:
        """See `Bodies`."""
        segment, offset, length = decode_ref(ref)
        raw = self.source(segment, offset, length)
        try:
            return decode_record(raw, segment)
        except CorruptionError as error:
            raise self._located(error, segment, offset) from error

    def read_many(self, refs: Sequence[bytes]) -> Iterator[tuple[int, Record]]:
        """See `Bodies`.  Neighbours are read in one call, and the system is told ahead what comes next."""
        places = sorted((decode_ref(ref), index) for index, ref in enumerate(refs))
        runs = list(_runs(places))
        for run in runs[1:READ_AHEAD_RUNS]:
            self._announce(run)
        for number, run in enumerate(runs):
            if number + READ_AHEAD_RUNS < len(runs):
                self._announce(runs[number + READ_AHEAD_RUNS])
            if run.segment == self._active_number and run.end > self._written_bytes:
                for _, index in places[run.first : run.stop]:
                    yield index, self.read(refs[index])
                continue
            handle = self._handles.get(run.segment) or self._open(run.segment)
            handle.used = True
            raw = handle.read(run.end - run.begin, run.begin)
            for place, index in places[run.first : run.stop]:
                try:
                    yield index, decode_record(raw, run.segment, place.offset - run.begin)
                except CorruptionError as error:
                    raise self._located(error, run.segment, place.offset) from error

    def _announce(self, run: _Run) -> None:
        handle = self._handles.get(run.segment)
        if handle is not None:
            handle.announce(run.end - run.begin, run.begin)

    def walk(
        self, segment: int, start: int = SEGMENT_HEADER_BYTES, end: int | None = None
    ) -> Iterator[tuple[int, Record | Damage]]:
        """Every record that is written in a segment, and every stretch between them that is none.

        Args:
            segment: its number.
            start: offset of the first record; 0 also judges the segment's header.
            end: stop there; None reads to the end of the file.
        """
        handle = self._files.open_read(self.path(segment))
        if start < SEGMENT_HEADER_BYTES:
            reason = header_damage(handle.read(SEGMENT_HEADER_BYTES, 0), segment)
            if reason:
                yield 0, Damage(SEGMENT_HEADER_BYTES, reason)
            start = SEGMENT_HEADER_BYTES
        yield from walk_records(handle, segment, start, handle.length_bytes() if end is None else end)

    def records(
        self, segment: int, start: int = SEGMENT_HEADER_BYTES, end: int | None = None
    ) -> Iterator[tuple[bytes, Record]]:
        """Refs and records that `walk` finds, without what is damaged."""
        last: tuple[int, Record] | None = None
        stop = start
        for stop, found in self.walk(segment, start, end):
            if last is not None:
                yield encode_ref(segment, last[0], stop - last[0]), last[1]
            last = None if isinstance(found, Damage) else (stop, found)
        if last is not None:
            stop = self._files.length_bytes(self.path(segment)) if end is None else end
            yield encode_ref(segment, last[0], stop - last[0]), last[1]

    def _read_pending(self, segment: int, offset: int) -> bytes | None:
        with self._lock:
            active = self._active
            return active.pending.get(offset) if active is not None and active.number == segment else None

    def _open(self, segment: int) -> ReadFile:
        with self._handle_lock:
            handle = self._handles.get(segment)
            if handle is not None:
                return handle
            try:
                handle = self._files.open_read(self.path(segment))
            except StorageError as error:
                if error.errno != errno.ENOENT:
                    raise
                raise CorruptionError(
                    "a segment is missing", path=str(self.path(segment)), expected="the file", found="none"
                ) from error
            while len(self._handles) >= self._open_segments:
                self._evict()
            self._handles[segment] = handle
            return handle

    def _evict(self) -> None:
        """Drop the handle that was opened first and not used since it was last looked at (second chance)."""
        for number in list(self._handles):
            handle = self._handles.pop(number)
            if not handle.used:
                return
            handle.used = False
            self._handles[number] = handle
        self._handles.pop(next(iter(self._handles)))

    def _located(self, error: CorruptionError, segment: int, offset: int) -> CorruptionError:
        return CorruptionError(
            error.message, path=str(self.path(segment)), offset=offset, expected=error.expected, found=error.found
        )

    # --- the rest ---

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """No segment goes as long as this is held: by a backup, or a dry run that has refs of its own."""
        with self._lock:
            self._pins += 1
        try:
            yield
        finally:
            with self._lock:
                self._pins -= 1

    def is_pinned(self) -> bool:
        """Whether somebody holds the segments in place."""
        return self._pins > 0

    def remove(self, segment: int) -> None:
        """Unlink a draining segment that no row refers to; whoever still reads from it reads on.

        The manifest's row goes after this: `recover` knows a draining segment without a file for what it is.
        """
        with self._lock:
            self._closed_progress.pop(segment, None)
        with self._handle_lock:  # a reader that opens it meanwhile would keep its bytes on the disk
            if self._files.exists(self.path(segment)):
                self._files.unlink(self.path(segment))
            self._handles.pop(segment, None)
        self._files.sync_folder(self._folder)

    def path(self, segment: int) -> Path:
        """Where a segment lies."""
        return self._folder / f"{segment:08d}{SEGMENT_SUFFIX}"

    def close(self) -> None:
        """See `Bodies`; where records were taken, the mark of the next group says that all of them were committed."""
        try:
            with self._lock:
                if self._active is not None and self._active.group and self._active.closed_bytes is None:
                    self._mark_group(self._active)
            self.sync()
        finally:
            with self._lock:
                if self._active is not None:
                    self._active.file.close()
                    self._active, self._active_number = None, -1
            self._handles.clear()


def _number_of(name: str) -> int:
    """The number of the segment of this name; -1 where it is no segment's."""
    stem = name.removesuffix(SEGMENT_SUFFIX)
    return int(stem) if name == f"{int(stem) if stem.isdecimal() else 0:08d}{SEGMENT_SUFFIX}" else -1


def _runs(places: Sequence[tuple[Ref, int]]) -> Iterator[_Run]:
    """Runs of sorted places that lie near each other."""
    first = 0
    while first < len(places):
        segment, begin, length = places[first][0]
        end = begin + length
        stop = first + 1
        while stop < len(places) and _is_near(places[stop][0], segment, begin, end):
            end = max(end, places[stop][0].offset + places[stop][0].length)
            stop += 1
        yield _Run(segment, begin, end, first, stop)
        first = stop


def _is_near(place: Ref, segment: int, begin: int, end: int) -> bool:
    return (
        place.segment == segment
        and place.offset <= end + READ_GAP_BYTES
        and place.offset + place.length - begin <= READ_RUN_BYTES
    )
