"""What stands in segments behind the bytes that rows were committed for: left over, or lost to its rows.

Knows records and files.  Must not know the engine, nor what a record's row means.

A group's records are durable before its rows are committed, so a crash leaves records that no row names: at most those
of one group, the one after the last commit, for a group begins only when the one before it is committed.  Each group's
records stand behind a mark with its number.  So what stands behind the mark of the next commit, or of an earlier number
(a group that failed and was written again), is left over and goes.  A mark of a higher number, or records behind none,
show that rows were lost: LevelDB's log or MANIFEST was cut, or its files were put back from an earlier time.  Such
records are never destroyed.

Compaction writes segments of copies, which get a row when they are whole.  One without a row is left over as long as
the segments are there that it was copied from; they go only when all that was changed is durable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

from docstore.model.format import (
    CODEC_ZSTD_DICTIONARY,
    RECORD_COPIES,
    RECORD_GROUP,
    SEGMENT_HEADER_BYTES,
    SEGMENT_SUFFIX,
)
from docstore.storage.files import Files, ReadFile
from docstore.tablets.record import Record, copied_segments, marked_group
from docstore.tablets.walk import Damage, walk_records

COPY_BYTES = 1 << 20


class Surplus(NamedTuple):
    """What stands in a part of a segment that no row was committed for.

    Attributes:
        last_group: highest number of a mark; 0 for none.
        is_explained: no record is there that the last commit, or an earlier one, must have named.
        holds_next: there are records of the commit behind the last one.
        is_mark: it is one mark, of that commit or an earlier one, and nothing else: the segment was closed so.
    """

    last_group: int
    is_explained: bool
    holds_next: bool
    is_mark: bool

    def is_leftover(self, group: int, last_group: int) -> bool:
        """Whether nothing of it is needed.

        Args:
            group: the number of the last commit that the engine knows.
            last_group: highest number of a mark in any segment: the commit before that one was made.
        """
        return self.is_explained and not (self.holds_next and last_group > group + 1)


class SetAside(NamedTuple):
    """A file of records that no row names.

    Attributes:
        name: of the file.
        segment: number of the segment that its records were written to.
        length_bytes: of the file.
    """

    name: str
    segment: int
    length_bytes: int


def judge(handle: ReadFile, segment: int, start: int, group: int, segments: Collection[int]) -> Surplus:
    """Look at a segment from an offset to its end.

    Args:
        handle: the segment.
        segment: its number.
        start: offset where a record begins.
        group: the number of the last commit that the engine knows.
        segments: numbers of segments that have a row and a file.
    """
    last_group = marks = records = 0
    is_explained = is_whole = True
    holds_next = is_known = is_next = False
    for offset, found in walk_records(handle, segment, start, handle.length_bytes()):
        if isinstance(found, Damage):
            is_whole = False
            if offset == start:  # power loss, before which the next group's mark did not reach the disk
                is_known = is_next = True
        elif found.kind == RECORD_GROUP:
            number = marked_group(found)
            last_group = max(last_group, number)
            is_known, is_next = number <= group + 1, number == group + 1
            marks += 1
        elif found.kind == RECORD_COPIES:
            is_known, is_next = all(source in segments for source in copied_segments(found)), False
        else:
            records += 1
            is_explained &= is_known
            holds_next |= is_next
    return Surplus(last_group, is_explained, holds_next, is_whole and is_known and marks == 1 and not records)


def set_aside(files: Files, path: Path, segment: int, start: int, folder: Path) -> str:
    """Keep a segment from an offset to its end in another folder, durably; returns the name of the file there.

    A whole segment is moved.  A part is copied behind the segment's header: it is a segment of the same
    number.
    """
    files.make_folder(folder)
    name = f"{segment:08d}-{start}{SEGMENT_SUFFIX}"
    if start == 0:
        files.rename(path, folder / name)
        files.sync_folder(folder)
        files.sync_folder(folder.parent)
        return name
    source = files.open_read(path)
    partial = folder / (name + ".new")
    if files.exists(partial):
        files.unlink(partial)
    copy = files.open_append(partial, create=True)
    try:
        copy.write(source.read(SEGMENT_HEADER_BYTES, 0))
        at = max(start, SEGMENT_HEADER_BYTES)
        while raw := source.read(COPY_BYTES, at):
            copy.write(raw)
            at += len(raw)
        copy.sync()
    finally:
        copy.close()
    files.rename(partial, folder / name)
    files.sync_folder(folder)
    files.sync_folder(folder.parent)
    return name


def list_set_aside(files: Files, folder: Path) -> list[SetAside]:
    """What lies in the folder of segments set aside, which need not be there."""
    if not files.exists(folder):
        return []
    found = []
    for name in files.names(folder):
        segment = segment_of_name(name)
        if segment is not None:
            found.append(SetAside(name, segment, files.length_bytes(folder / name)))
    return found


def segment_of_name(name: str) -> int | None:
    """The segment's number in the name of a file that was set aside; None for another file."""
    number, dash, offset = name.removesuffix(SEGMENT_SUFFIX).partition("-")
    is_name = name.endswith(SEGMENT_SUFFIX) and dash and number.isdecimal() and offset.isdecimal()
    return int(number) if is_name else None


def records_set_aside(files: Files, folder: Path) -> Iterator[Record]:
    """Every sound record of the segments set aside."""
    for one in list_set_aside(files, folder):
        handle = files.open_read(folder / one.name)
        for _, found in walk_records(handle, one.segment, SEGMENT_HEADER_BYTES, handle.length_bytes()):
            if not isinstance(found, Damage):
                yield found


def dictionaries_set_aside(files: Files, folder: Path) -> set[bytes]:
    """Dictionaries that records set aside need."""
    return {record.related for record in records_set_aside(files, folder) if record.codec == CODEC_ZSTD_DICTIONARY}
