"""Segments: append-only files of records; one active segment, one fsync for each group, positioned reads.

Order of a group: `append` encodes into a buffer, `flush` is one write call, `sync` one fsync (and one of the folder if
the segment is new); then the store commits rows and manifest together.  Before a group's records is a mark with the
number of its commit; `close` adds the mark of the next commit.  Bytes after the committed length belong to no row: at
open, garbage of a crash is truncated, and records whose rows were lost are set aside (`leftovers`).  After a failed
write or fsync a segment is never written again.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import NamedTuple
from zlib import crc32

from docstore.compiled import docstore_native
from docstore.model.errors import CorruptionError, StorageError, UnsupportedFormat
from docstore.model.format import (
    IDENTITY_BYTES,
    SEGMENT_ACTIVE,
    SEGMENT_DRAINING,
    SEGMENT_FORMAT_VERSION,
    SEGMENT_HEADER,
    SEGMENT_HEADER_BYTES,
    SEGMENT_MAGIC,
    SEGMENT_SUFFIX,
    SET_ASIDE_DIRECTORY,
)
from docstore.storage.files import AppendFile, Files, ReadFile
from docstore.storage.unreadable import SetAside
from docstore.tablets.leftovers import UncommittedPart, examine, list_set_aside, remove_unfinished, set_aside
from docstore.tablets.record import (
    Damage,
    Record,
    Ref,
    checked_records,
    decode_record,
    decode_ref,
    encode_record,
    encode_records,
    encode_ref,
    group_mark,
    walk_records,
)

_HEADER = Struct(SEGMENT_HEADER)
_CRC = Struct("<I")


FOREIGN = "a segment of another store"


def encode_header(segment: int, identity: bytes) -> bytes:
    """The first bytes of a segment."""
    header = _HEADER.pack(SEGMENT_MAGIC, SEGMENT_FORMAT_VERSION, 0, segment, identity)
    return header + _CRC.pack(crc32(header))


def header_damage(header: bytes, segment: int, identity: bytes) -> str:
    """What is wrong with the first bytes of a segment, in words; "" if nothing is."""
    if len(header) < SEGMENT_HEADER_BYTES:
        return f"segment header is cut off after {len(header)} bytes"
    if _CRC.unpack_from(header, _HEADER.size)[0] != crc32(header[: _HEADER.size]):
        return "segment header fails its CRC"
    magic, _, _, number, of_store = _HEADER.unpack_from(header)
    if magic != SEGMENT_MAGIC:
        return f"not a segment: it begins with {magic!r}"
    if of_store != identity:
        return FOREIGN
    return "" if number == segment else f"segment {number} lies under the name of segment {segment}"


def refuse_other_format(handle: ReadFile, path: Path) -> None:
    """Refuse a segment of another format.

    Raises:
        UnsupportedFormat: names both versions.
    """
    header = handle.read(SEGMENT_HEADER_BYTES, 0)
    if len(header) < SEGMENT_HEADER_BYTES or _CRC.unpack_from(header, _HEADER.size)[0] != crc32(header[: _HEADER.size]):
        return  # damage, which `check` reports; each record has a checksum of its own
    magic, version = _HEADER.unpack_from(header)[:2]
    if magic == SEGMENT_MAGIC and version != SEGMENT_FORMAT_VERSION:
        raise UnsupportedFormat(
            f"{path} has segment format {version}, this docstore knows {SEGMENT_FORMAT_VERSION}; "
            "use the docstore that wrote it"
        )


SEGMENT_LIMIT_BYTES = 256 << 20
"""At this size the next group starts another segment."""
OPEN_SEGMENTS = 128
"""Most open read descriptors: 32 GB of segments, an eighth of the usual limit of 1024."""
BUFFER_LIMIT_BYTES = 8 << 20
"""So many bytes are written before their group is complete, to bound memory."""
READ_GAP_BYTES = 32 << 10
"""`read_many` reads such a gap between two records instead of making another call."""
READ_RUN_BYTES = 1 << 20
"""`read_many` reads about so much in one call."""
READ_AHEAD_RUNS = 8
"""`read_many` announces so many reads in advance, because a disk serves several at once."""


class SegmentRow(NamedTuple):
    """What the manifest knows of one segment.

    Attributes:
        number: of the segment; never given twice.
        state: SEGMENT_ACTIVE, SEGMENT_LIVE or SEGMENT_DRAINING.
        committed_bytes: rows refer to nothing behind this.
        synced_bytes: this much has survived an fsync; at most `committed_bytes`.
        tablet: number of the tablet that its records belong to; 0 for records of any tablet.
        level: of the compaction that wrote it, or SEGMENT_OF_MARKS; "" for one of the write path.
        run: the number that this compaction kept for delete marks; 0 for one of the write path.
    """

    number: int
    state: str = SEGMENT_ACTIVE
    committed_bytes: int = SEGMENT_HEADER_BYTES
    synced_bytes: int = 0
    tablet: int = 0
    level: str = ""
    run: int = 0


class SegmentProgress(NamedTuple):
    """How far one segment has got since it was opened for appending.

    Attributes:
        segment: its number.
        active: it takes the next records.
        written_bytes: bytes handed to the operating system; None after a failure, when only the manifest's committed
            length can be trusted.
        synced_bytes: bytes that have survived an fsync.
    """

    segment: int
    active: bool
    written_bytes: int | None
    synced_bytes: int


class Recovery(NamedTuple):
    """What `recover` found and did.

    Attributes:
        lost: committed bytes that are missing or damaged; empty after every crash at durability `sync`.
        gone: draining segments whose file is removed already; their rows can be removed.
        last_group: highest number of a mark after the committed bytes; 0 for none.
        in_place: if the store is open for reading only, records that would be set aside.
    """

    lost: tuple[Damage, ...] = ()
    gone: tuple[int, ...] = ()
    last_group: int = 0
    in_place: tuple[SetAside, ...] = ()

    def is_lost(self, ref: bytes) -> bool:
        """Whether any byte of this ref's record is lost."""
        segment, offset, length = decode_ref(ref)
        return any(item.segment == segment and offset < item.end and item.start < offset + length for item in self.lost)


class _Active:
    """The segment for the next records, with its buffer of unwritten records."""

    def __init__(self, number: int, file: AppendFile, *, folder_synced: bool) -> None:
        self.number = number
        self.file = file
        self.folder_synced = folder_synced
        self.synced_bytes = file.length_bytes
        self.group = 0
        """Number of the last mark in it, if known."""
        self.closed_bytes: int | None = None
        """Committed length, if only the mark of an orderly close is after it."""
        self.pending = bytearray()

    @property
    def tail_bytes(self) -> int:
        """Offset of the next record."""
        return self.file.length_bytes + len(self.pending)


class ValueLog:
    """Records in files of one folder.  Call `recover` before anything else.

    Reads come from any thread; `append`, `flush` and `sync` from one at a time.  A failure of one of these concerns
    every record that no `sync` has confirmed: its ref is void, except in groups that were committed after a `flush`.

    Args:
        files: the file system.
        folder: of the segments; must exist.
        limit_bytes: size at which the next group starts another segment.
        open_segments: most open read descriptors.
        identity: of the store: each segment has it in its header.
        aside: folder for segments that are set aside; made when needed.
        read_only: `recover` changes nothing, and nothing is appended.
    """

    def __init__(
        self,
        files: Files,
        folder: Path,
        *,
        identity: bytes = bytes(IDENTITY_BYTES),
        aside: Path | None = None,
        read_only: bool = False,
        limit_bytes: int = SEGMENT_LIMIT_BYTES,
        open_segments: int = OPEN_SEGMENTS,
    ) -> None:
        self.identity = identity
        self._files = files
        self._folder = folder
        self._aside = folder / SET_ASIDE_DIRECTORY if aside is None else aside
        self._read_only = read_only
        self._limit_bytes = limit_bytes
        self._open_segments = open_segments
        self._lock = Lock()
        """Guards the active segment and its buffer; held during writes, and during an fsync only of a full segment."""
        self._handle_lock = Lock()
        self._active: _Active | None = None
        self._active_number = -1
        self._written_bytes = 0
        """Of the active segment; `read` reads it without the lock."""
        self._handles: dict[int, ReadFile] = {}
        self._closed_progress: dict[int, SegmentProgress] = {}
        self._next_number = 1
        self._group = 0
        self._pins: set[object] = set()

    # --- opening ---

    def missing(self, rows: Iterable[SegmentRow]) -> tuple[Damage, ...]:
        """Bytes of segments that have survived an fsync and are not there now: files are away, cut or empty.

        No crash leaves this.  The files may come back, so nothing that refers to them may be dropped for it.
        """
        found = []
        for row in rows:
            path = self.path(row.number)
            length_bytes = self._files.length_bytes(path) if self._files.exists(path) else None
            if row.state != SEGMENT_DRAINING and (length_bytes or 0) < row.synced_bytes:
                what = "no file" if length_bytes is None else f"{length_bytes} bytes"
                found.append(Damage(row.number, length_bytes or 0, row.committed_bytes, what))
        return tuple(found)

    def recover(self, rows: Iterable[SegmentRow], next_number: int = 1, group: int = 0) -> Recovery:
        """Make the folder agree with the manifest, and prepare for appends.

        Garbage in files without a row, and after the committed length, is removed; records there that a commit must
        have named are set aside.  Bytes between synced and committed length are verified, each record by its own CRC,
        also after a damaged one.

        Args:
            rows: of all segments.
            next_number: of the next segment.
            group: number of the last commit.
        Raises:
            UnsupportedFormat: a segment was written by a newer docstore.
        """
        by_number = {row.number: row for row in rows}
        numbers = [_number_of(name) for name in self._files.names(self._folder)]
        existing = by_number.keys() & set(numbers)
        lost: list[Damage] = []
        gone: list[int] = []
        in_place: list[SetAside] = []
        uncommitted: dict[int, UncommittedPart] = {}
        for number in sorted(set(numbers) - by_number.keys() - {-1}):
            uncommitted[number] = self._examine(number, SEGMENT_HEADER_BYTES, group, existing)
        for row in sorted(by_number.values()):
            if row.number in existing:
                length_bytes = self._files.length_bytes(self.path(row.number))
                lost.extend(self._verify(row, length_bytes))
                if length_bytes > row.committed_bytes:
                    uncommitted[row.number] = self._examine(row.number, row.committed_bytes, group, existing)
            elif row.state == SEGMENT_DRAINING:
                gone.append(row.number)
            else:
                lost.append(Damage(row.number, 0, row.committed_bytes, "the file is missing"))
        last_group = max((rest.last_group for rest in uncommitted.values()), default=0)
        is_moved = False
        for number, rest in uncommitted.items():
            row_of = by_number.get(number)
            start = 0 if row_of is None else row_of.committed_bytes
            path = self.path(number)
            is_leftover = rest.is_leftover(group, last_group)
            if self._read_only:
                if rest.holds_next or not is_leftover:
                    begin = start or SEGMENT_HEADER_BYTES
                    length_bytes = self._files.length_bytes(path) - begin
                    in_place.append(SetAside(path.name, number, length_bytes, is_leftover, begin, True))
                continue
            if not is_leftover:
                is_moved = True
                set_aside(self._files, path, number, start, self._aside)
            elif rest.holds_next:
                with suppress(StorageError):  # on a full disk they go: most likely, their commit was not made
                    is_moved |= start == 0
                    set_aside(self._files, path, number, start, self._aside, is_unfinished=True)
                    remove_unfinished(self._files, self._aside)
            if row_of is None:
                if self._files.exists(path):
                    is_moved = True
                    self._files.unlink(path)
            elif not (rest.is_mark and row_of.state == SEGMENT_ACTIVE):
                self._files.truncate(path, start)
        if is_moved:
            self._files.sync_folder(self._folder)
        used = [*by_number, *(file.segment for file in list_set_aside(self._files, self._aside))]
        self._next_number = max(next_number, *(number + 1 for number in used), 1)
        active = [row for row in by_number.values() if row.state == SEGMENT_ACTIVE]
        if len(active) == 1 and not self._read_only and not any(item.segment == active[0].number for item in lost):
            self._reopen(active[0], uncommitted.get(active[0].number))
        return Recovery(tuple(lost), tuple(gone), last_group, tuple(in_place))

    def _refuse_foreign(self, handle: ReadFile, segment: int) -> None:
        """Refuse a segment of another store: it may have records where refs of this store point."""
        if header_damage(handle.read(SEGMENT_HEADER_BYTES, 0), segment, self.identity) == FOREIGN:
            remedy = "move it away, and put back the file of this store or restore a backup"
            raise CorruptionError(FOREIGN, path=str(self.path(segment)), offset=0, remedy=remedy)

    def _examine(self, number: int, start: int, group: int, existing: Collection[int]) -> UncommittedPart:
        handle = self._files.open_read(self.path(number))
        refuse_other_format(handle, self.path(number))
        self._refuse_foreign(handle, number)
        return examine(handle, number, start, group, existing)

    def _verify(self, row: SegmentRow, length_bytes: int) -> list[Damage]:
        """The missing or damaged parts of a segment's committed bytes that were not synced."""
        path = self.path(row.number)
        lost = []
        if length_bytes < row.committed_bytes:
            # An incomplete last record is found below, as damage up to the end of the file.
            lost.append(Damage(row.number, length_bytes, row.committed_bytes, "the file is too short"))
        handle = self._files.open_read(path)
        refuse_other_format(handle, path)
        start = max(SEGMENT_HEADER_BYTES, row.synced_bytes)
        if length_bytes < start:
            start = SEGMENT_HEADER_BYTES  # synced bytes are missing, so the whole file must be verified
        end = min(length_bytes, row.committed_bytes)
        lost += [found for _, found in walk_records(handle, row.number, start, end) if isinstance(found, Damage)]
        if lost and not self._read_only:
            self._files.sync_file(path)  # the manifest will say that the rest is synced
        return sorted(lost)

    def _reopen(self, row: SegmentRow, closing: UncommittedPart | None) -> None:
        header = self._files.open_read(self.path(row.number)).read(SEGMENT_HEADER_BYTES, 0)
        if row.committed_bytes >= self._limit_bytes or header_damage(header, row.number, self.identity):
            return
        active = _Active(row.number, self._files.open_append(self.path(row.number), create=False), folder_synced=True)
        active.synced_bytes = min(row.synced_bytes, row.committed_bytes)
        if closing is not None and closing.is_mark:  # written and synced by `close`
            active.group = closing.last_group
            active.closed_bytes = row.committed_bytes
            if row.synced_bytes == row.committed_bytes:
                active.synced_bytes = active.tail_bytes
        self._active = active
        self._written_bytes = active.tail_bytes
        self._active_number = row.number

    # --- writing ---

    def begin_group(self, number: int) -> None:
        """Set the number of the commit of the next records: the last one's plus 1; 0, as at first, for no mark."""
        with self._lock:
            self._group = number

    def append(self, records: Sequence[Record]) -> list[bytes]:
        """Take records; returns a ref of each.  They can be read at once, and may still be in a buffer.

        Raises:
            StorageError: none was taken.
        """
        refs: list[bytes] = []

        def lay_out(segment: int, offset: int, commit: int) -> bytes:
            marks = [group_mark(commit)] if commit else []
            encoded, its_refs = encode_records([*marks, *records], segment, offset)
            refs.extend(its_refs[len(marks) :])
            return encoded

        self._append(lay_out)
        return refs

    def append_group(self, group: docstore_native.Group) -> None:
        """Take the records of an encoded group, which is told where they lie; as `append`."""
        self._append(lambda *place: checked_records(group.lay_out(*place)))

    def _append(self, lay_out: Callable[[int, int, int], bytes]) -> None:
        """Take what a function lays out in a segment, from an offset on, for the commit of a number; 0 for no mark."""
        with self._lock:
            active = self._active
            if active is None or active.tail_bytes >= self._limit_bytes:
                active = self._roll()
            commit = self._group if self._group > active.group else 0
            active.pending += lay_out(active.number, active.tail_bytes, commit)
            active.group = max(active.group, self._group)
            active.closed_bytes = None
            if len(active.pending) >= BUFFER_LIMIT_BYTES:
                self._flush()

    def pending_bytes(self) -> int:
        """Length of what was taken and is not yet in a file."""
        return 0 if self._active is None else len(self._active.pending)

    def flush(self) -> None:
        """Hand everything taken to the operating system: it survives kill -9 of this process.

        Call it before the commit of every group that is not synced, at every durability.
        """
        with self._lock:
            self._flush()

    def sync(self) -> None:
        """Make everything taken survive power loss.

        Raises:
            StorageError: the group's refs are void; the next `append` starts a new segment.
        """
        with self._lock:
            self._flush()
            active = self._active
            written_bytes = self._written_bytes
        if active is None or active.synced_bytes == written_bytes:
            return
        self._sync(active, written_bytes)

    def drop(self) -> None:
        """Drop what was appended and not flushed: its group is not committed, and its refs are void.

        The next record starts a new segment, so that no ref is used twice.
        """
        with self._lock:
            if self._active is not None and self._active.pending:
                self._give_up()

    def abandon(self) -> None:
        """Never append to the active segment again: the group that it was for could not be committed."""
        with self._lock:
            self._give_up()

    def seal(self) -> None:
        """Finish the active segment, so that compaction can move all of it; the next record starts another."""
        with self._lock:
            if self._active is not None:
                self._finish(self._active)

    def new_number(self) -> int:
        """A new segment number, for a segment that compaction writes."""
        with self._lock:
            number = self._next_number
            self._next_number += 1
        return number

    def progress(self) -> list[SegmentProgress]:
        """How far each segment written by this object has got; the manifest is told with the group's rows."""
        with self._lock:
            progress = list(self._closed_progress.values())
            if self._active is not None:
                progress.append(self._progress_of(self._active, is_active=True))
        return progress

    def _roll(self) -> _Active:
        """Finish the active segment, if there is one, and start the next."""
        if self._active is not None:
            self._finish(self._active)
        number = self._next_number
        self._next_number += 1  # also if creating fails: that file has no row and is removed at open
        file = self._files.open_append(self.path(number), create=True)
        active = _Active(number, file, folder_synced=False)
        active.pending += encode_header(number, self.identity)
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
            active.file.write(memoryview(active.pending))
        except BaseException:
            self._give_up()
            with suppress(StorageError):  # on a full disk, free the space of the incomplete group
                self._files.truncate(active.file.path, self._written_bytes)
            raise
        self._written_bytes = active.file.length_bytes
        active.pending = bytearray()

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
        """The bytes of a record as far as they are there; they are not checked.

        Raises:
            CorruptionError: the segment is missing.
        """
        if segment == self._active_number and offset >= self._written_bytes:
            with self._lock:
                active = self._active
                start = -1 if active is None else offset - active.file.length_bytes
                if active is not None and active.number == segment and start >= 0:
                    return bytes(memoryview(active.pending)[start : start + length])
        handle = self._handles.get(segment) or self._open(segment)
        handle.used = True
        return handle.read(length, offset)

    def read(self, ref: bytes) -> Record:
        """The record of a ref.

        Raises:
            CorruptionError: it is damaged, or not there.
        """
        return self.read_at(*decode_ref(ref))

    def read_at(self, segment: int, offset: int, length: int) -> Record:
        """The record at a place; see `read`."""
        raw = self.source(segment, offset, length)
        try:
            return decode_record(raw, segment)
        except CorruptionError as error:
            raise self._located(error, segment, offset) from error

    def read_many(self, refs: Sequence[bytes]) -> Iterator[tuple[int, Record]]:
        """Records of refs in the order in which they are stored, each with its index in `refs`.

        Neighbours are read in one call, and reads are announced to the system in advance.
        """
        sorted_refs = sorted((decode_ref(ref), index) for index, ref in enumerate(refs))
        runs = list(_runs(sorted_refs))
        for run, _, _ in runs[1:READ_AHEAD_RUNS]:
            self._announce(*run)
        for number, ((segment, begin, length), first, stop) in enumerate(runs):
            if number + READ_AHEAD_RUNS < len(runs):
                self._announce(*runs[number + READ_AHEAD_RUNS][0])
            if segment == self._active_number and begin < self._written_bytes < begin + length:  # partly in a buffer
                for _, index in sorted_refs[first:stop]:
                    yield index, self.read(refs[index])
                continue
            raw = self.source(segment, begin, length)
            for ref, index in sorted_refs[first:stop]:
                try:
                    yield index, decode_record(raw, segment, ref.offset - begin)
                except CorruptionError as error:
                    raise self._located(error, segment, ref.offset) from error

    def _announce(self, segment: int, begin: int, length: int) -> None:
        handle = self._handles.get(segment)
        if handle is not None:
            handle.announce(length, begin)

    def records(
        self, segment: int, start: int = SEGMENT_HEADER_BYTES, end: int | None = None
    ) -> Iterator[tuple[bytes, Record]]:
        """Refs and records of `walk_records`, without damage; none if the file is missing."""
        if self._files.exists(self.path(segment)):
            for ref, record in walk_records(self._files.open_read(self.path(segment)), segment, start, end):
                if not isinstance(record, Damage):
                    yield encode_ref(*ref), record

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
            self._refuse_foreign(handle, segment)
            while len(self._handles) >= self._open_segments:
                self._evict()
            self._handles[segment] = handle
            return handle

    def _evict(self) -> None:
        """Drop one handle, by the second-chance algorithm."""
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

    # --- removing and closing ---

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """No segment is removed inside this block: for a backup, or a dry run with refs of its own."""
        pin = object()
        try:
            with self._lock:
                self._pins.add(pin)
            yield
        finally:
            with self._lock:
                self._pins.discard(pin)

    def is_pinned(self) -> bool:
        """Whether a `pinned` block is running."""
        return bool(self._pins)

    def remove(self, segment: int) -> None:
        """Unlink a draining segment without refs; open readers can still read from it.

        The manifest's row is removed after this: `recover` accepts a draining segment without a file.
        """
        with self._lock:
            self._closed_progress.pop(segment, None)
        with self._handle_lock:  # else a reader could open it now and keep its bytes on the disk
            if self._files.exists(self.path(segment)):
                self._files.unlink(self.path(segment))
            self._handles.pop(segment, None)
        self._files.sync_folder(self._folder)

    def path(self, segment: int) -> Path:
        """The file of a segment."""
        return self._folder / f"{segment:08d}{SEGMENT_SUFFIX}"

    def close(self) -> None:
        """Sync and release; a second call does nothing.

        If records were appended, the mark of the next group says that all of them are committed.
        """
        try:
            with self._lock:
                active = self._active
                if active is not None and self._group > active.group > 0 and active.closed_bytes is None:
                    active.pending += encode_record(group_mark(self._group), active.number)
                    active.group = self._group
            self.sync()
        finally:
            with self._lock:
                if self._active is not None:
                    self._active.file.close()
                    self._active, self._active_number = None, -1
            self._handles.clear()


def _number_of(name: str) -> int:
    """The segment number in a file name; -1 if it is no segment."""
    stem = name.removesuffix(SEGMENT_SUFFIX)
    return int(stem) if name == f"{int(stem) if stem.isdecimal() else 0:08d}{SEGMENT_SUFFIX}" else -1


def _runs(sorted_refs: Sequence[tuple[Ref, int]]) -> Iterator[tuple[Ref, int, int]]:
    """Group sorted refs that are near each other: the bytes to read in one call, and the range of refs in it."""
    first = 0
    while first < len(sorted_refs):
        segment, begin, length = sorted_refs[first][0]
        stop = first + 1
        while stop < len(sorted_refs):
            ref = sorted_refs[stop][0]
            end = ref.offset + ref.length
            if ref.segment != segment or ref.offset > begin + length + READ_GAP_BYTES or end - begin > READ_RUN_BYTES:
                break
            length = max(length, end - begin)
            stop += 1
        yield Ref(segment, begin, length), first, stop
        first = stop
