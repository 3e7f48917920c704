"""Bodies in append-only files: one active segment, group appends, one fsync a group, positioned reads.

Floor 3: knows `record`, `bodies` and `files`.  Must not know the engine, the manifest, or what a payload holds.

Order of a group: `append` encodes into a buffer, `flush` is one write call, `sync` one fsync (and one of the folder if
the segment is new); then the store commits rows and manifest together.  Bytes behind the manifest's committed length
belong to no row and are cut off at open.  After a failed write or fsync a segment is never written again.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

from docstore.errors import CorruptionError, StorageError, UnsupportedFormat
from docstore.files import AppendFile, Files, ReadFile
from docstore.format import (
    SEGMENT_ACTIVE,
    SEGMENT_DRAINING,
    SEGMENT_FORMAT_VERSION,
    SEGMENT_HEADER,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
    SEGMENT_SUFFIX,
)
from docstore.tablets.bodies import Ref, SegmentProgress, SegmentRow, Tail, decode_ref
from docstore.tablets.record import Record, decode_record
from docstore.tablets.walk import Damage, walk_records

if TYPE_CHECKING:  # loaded at the first write
    from docstore.tablets.recordbatch import Encode

_HEADER = Struct(SEGMENT_HEADER)
_CRC = Struct("<I")

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
    """

    lost: tuple[LostRange, ...] = ()
    cut: tuple[tuple[int, int], ...] = ()
    orphans: tuple[str, ...] = ()
    gone: tuple[int, ...] = ()

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
    """

    def __init__(
        self,
        files: Files,
        folder: Path,
        *,
        limit_bytes: int = SEGMENT_LIMIT_BYTES,
        open_segments: int = OPEN_SEGMENTS,
    ) -> None:
        self._files = files
        self._folder = folder
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
        self._freed_bytes: dict[int, int] = {}
        self._next_number = 1
        self._pins = 0
        self._encode: Encode | None = None

    # --- opening ---

    def recover(self, rows: Iterable[SegmentRow], next_number: int = 1) -> Recovery:
        """Make the folder agree with the manifest, and get ready to append.

        Files without a row are removed, bytes behind the committed length cut off, bytes between synced and committed
        length verified.  Records behind a damaged one are judged each by its own CRC.

        Raises:
            UnsupportedFormat: a segment was written by a newer docstore.
        """
        by_number = {row.number: row for row in rows}
        orphans = [
            name for name in self._files.names(self._folder) if _number_of(name) not in by_number and _is_ours(name)
        ]
        for name in orphans:
            self._files.unlink(self._folder / name)
        lost: list[LostRange] = []
        cut: list[tuple[int, int]] = []
        gone: list[int] = []
        for row in sorted(by_number.values()):
            if not self._files.exists(self.path(row.number)):
                if row.state == SEGMENT_DRAINING:
                    gone.append(row.number)
                else:
                    lost.append(LostRange(row.number, 0, row.committed_bytes, "the file is missing"))
                continue
            surplus_bytes, found = self._recover_segment(row)
            if surplus_bytes:
                cut.append((row.number, surplus_bytes))
            lost.extend(found)
        if orphans:
            self._files.sync_folder(self._folder)
        self._next_number = max(next_number, *(number + 1 for number in by_number), 1)
        active = [row for row in by_number.values() if row.state == SEGMENT_ACTIVE]
        if len(active) == 1 and not any(item.segment == active[0].number for item in lost):
            self._reopen(active[0])
        return Recovery(tuple(lost), tuple(cut), tuple(orphans), tuple(gone))

    def _recover_segment(self, row: SegmentRow) -> tuple[int, list[LostRange]]:
        path = self.path(row.number)
        length_bytes = self._files.length_bytes(path)
        lost = []
        if length_bytes < row.committed_bytes:
            # Whether the last bytes that are there make a whole record is seen below, where damage ends at `length`.
            lost.append(LostRange(row.number, length_bytes, row.committed_bytes, "the file is too short"))
        elif length_bytes > row.committed_bytes:
            self._files.truncate(path, row.committed_bytes)
        handle = self._files.open_read(path)
        _refuse_newer_format(handle, path)
        start = max(SEGMENT_HEADER_BYTES, row.synced_bytes)
        if length_bytes < start:
            start = SEGMENT_HEADER_BYTES  # bytes that were synced are gone: nothing about this file can be trusted
        end = min(length_bytes, row.committed_bytes)
        for offset, found in walk_records(handle, row.number, start, end):
            if isinstance(found, Damage):
                lost.append(LostRange(row.number, offset, found.end, found.reason))
        if lost:
            self._files.truncate(path, end)  # syncs what is left, so that the manifest can call it synced
        return max(0, length_bytes - row.committed_bytes), sorted(lost)

    def _reopen(self, row: SegmentRow) -> None:
        header = self._files.open_read(self.path(row.number)).read(SEGMENT_HEADER_BYTES, 0)
        if row.committed_bytes >= self._limit_bytes or header_damage(header, row.number):
            return
        self._active = _Active(
            row.number, self._files.open_append(self.path(row.number), create=False), folder_synced=True
        )
        self._active.synced_bytes = min(row.synced_bytes, row.committed_bytes)
        self._written_bytes = row.committed_bytes
        self._active_number = row.number

    # --- writing ---

    def append(self, records: Sequence[Record]) -> list[bytes]:
        """See `Bodies`."""
        with self._lock:
            active = self._active
            if active is None or active.tail_bytes >= self._limit_bytes:
                active = self._roll()
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
        return SegmentProgress(active.number, is_active, self._written_bytes, active.synced_bytes)

    # --- reading ---

    def read(self, ref: bytes) -> Record:
        """See `Bodies`."""
        segment, offset, length = decode_ref(ref)
        raw = None
        if segment == self._active_number and offset >= self._written_bytes:
            raw = self._read_pending(segment, offset)
        if raw is None:
            handle = self._handles.get(segment) or self._open(segment)
            handle.used = True
            raw = handle.read(length, offset)
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

    def free(self, refs: Sequence[bytes]) -> None:
        """See `Bodies`.  The bytes stay until compaction rewrites their segment."""
        with self._lock:
            for ref in refs:
                segment, _, length = decode_ref(ref)
                self._freed_bytes[segment] = self._freed_bytes.get(segment, 0) + length

    def take_freed(self) -> dict[int, int]:
        """See `Bodies`."""
        with self._lock:
            freed, self._freed_bytes = self._freed_bytes, {}
        return freed

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
        """See `Bodies`."""
        try:
            self.sync()
        finally:
            with self._lock:
                if self._active is not None:
                    self._active.file.close()
                    self._active, self._active_number = None, -1
            self._handles.clear()


def encode_header(segment: int) -> bytes:
    """The first bytes of a segment."""
    header = _HEADER.pack(SEGMENT_MAGIC, SEGMENT_FORMAT_VERSION, 0, segment)
    return header + _CRC.pack(crc32(header))


def header_damage(header: bytes, segment: int) -> str:
    """What is wrong with the first bytes of a segment, in words; "" if nothing is."""
    if len(header) < SEGMENT_HEADER_BYTES:
        return f"segment header is cut off after {len(header)} bytes"
    if _CRC.unpack_from(header, _HEADER.size)[0] != crc32(header[: _HEADER.size]):
        return "segment header fails its CRC"
    magic, _, _, number = _HEADER.unpack_from(header)
    if magic != SEGMENT_MAGIC:
        return f"not a segment: it begins with {magic!r}"
    return "" if number == segment else f"segment {number} lies under the name of segment {segment}"


def _refuse_newer_format(handle: ReadFile, path: Path) -> None:
    header = handle.read(SEGMENT_HEADER_BYTES, 0)
    if len(header) < SEGMENT_HEADER_BYTES or _CRC.unpack_from(header, _HEADER.size)[0] != crc32(header[: _HEADER.size]):
        return  # damage, which `check` reports; the records vouch for themselves
    magic, version, _, _ = _HEADER.unpack_from(header)
    if magic == SEGMENT_MAGIC and version > SEGMENT_FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{path} has segment format {version}, this docstore knows up to {SEGMENT_FORMAT_VERSION}; "
            "use a newer docstore"
        )


def _is_ours(name: str) -> bool:
    return name.endswith(SEGMENT_SUFFIX)


def _number_of(name: str) -> int:
    stem = name.removesuffix(SEGMENT_SUFFIX)
    return int(stem) if stem.isdecimal() else -1


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
