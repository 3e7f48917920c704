"""Records after the committed length of a segment: garbage of a crash, or records whose rows were lost.

A group's records are durable before its rows are committed.  So a crash leaves records without rows, of at most one
group: the next after the last commit, because a group begins only after the last one is committed.  Before the records
of each group is a mark with the group's number.  Records after the mark of an earlier number (a group that failed and
was written again) are garbage and are removed.  A mark with a higher number, or records without a mark, show that rows
were lost: LevelDB's log or MANIFEST was truncated, or its files were replaced by older ones.  Such records are never
destroyed.

Records after the mark of the next commit are of a group that was not finished, or of the last commit, if LevelDB's log
has lost its end: nothing tells which.  So they are kept, too, and listed, but are no finding: the files of the last
`MOST_UNFINISHED` opens that found such records, if the disk has room.

Compaction writes segments of copies, which get a manifest row when they are complete.  One without a row is garbage as
long as its source segments exist; these are removed only after all changes are durable.
"""

from __future__ import annotations

import re
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
from docstore.storage.unreadable import SetAside
from docstore.tablets.record import Damage, Record, copied_segments, marked_group, walk_records

COPY_BYTES = 1 << 20
MOST_UNFINISHED = 4
_UNFINISHED = "-unfinished"
_NAME = rf"(\d+)-(\d+)({_UNFINISHED})?{re.escape(SEGMENT_SUFFIX)}"
"""Number of the segment, and the offset there of the first record."""


class UncommittedPart(NamedTuple):
    """The uncommitted part of a segment.

    Attributes:
        last_group: highest number of a mark; 0 for none.
        is_explained: it has no record that the last commit, or an earlier one, must have named.
        holds_next: it has records of the commit after the last one.
        is_mark: it is only one mark, of that commit or an earlier one, as an orderly close leaves it.
    """

    last_group: int
    is_explained: bool
    holds_next: bool
    is_mark: bool

    def is_leftover(self, group: int, last_group: int) -> bool:
        """Whether it is garbage.

        Args:
            group: number of the last commit in the engine.
            last_group: highest number of a mark in any segment; the commit before it was made.
        """
        return self.is_explained and not (self.holds_next and last_group > group + 1)


def examine(handle: ReadFile, segment: int, start: int, group: int, segments: Collection[int]) -> UncommittedPart:
    """Examine a segment from an offset to its end.

    Args:
        handle: the segment.
        segment: its number.
        start: offset where a record begins.
        group: number of the last commit in the engine.
        segments: numbers of segments that have a row and a file.
    """
    last_group = marks = records = 0
    is_explained = is_whole = True
    holds_next = is_known = is_next = False
    for ref, record in walk_records(handle, segment, start):
        if isinstance(record, Damage):
            is_whole = False
            if ref.offset == start:  # power loss before the next group's mark reached the disk
                is_known = is_next = True
        elif record.kind == RECORD_GROUP:
            number = marked_group(record)
            last_group = max(last_group, number)
            is_known, is_next = number <= group + 1, number == group + 1
            marks += 1
        elif record.kind == RECORD_COPIES:
            is_known, is_next = all(source in segments for source in copied_segments(record)), False
        else:
            records += 1
            is_explained &= is_known
            holds_next |= is_next
    return UncommittedPart(last_group, is_explained, holds_next, is_whole and is_known and marks == 1 and not records)


def set_aside(files: Files, path: Path, segment: int, start: int, folder: Path, *, is_unfinished: bool = False) -> None:
    """Save a segment from an offset to its end in another folder, durably.

    A whole segment is moved.  A part is copied after the segment's header, as a segment with the same number.
    """
    files.make_folder(folder)
    name = f"{segment:08d}-{start}{_UNFINISHED * is_unfinished}{SEGMENT_SUFFIX}"
    if start:
        source = files.open_read(path)
        path = folder / (name + ".new")
        if files.exists(path):
            files.unlink(path)
        copy = files.open_append(path, create=True)
        try:
            copy.write(source.read(SEGMENT_HEADER_BYTES, 0))
            at = max(start, SEGMENT_HEADER_BYTES)
            while raw := source.read(COPY_BYTES, at):
                copy.write(raw)
                at += len(raw)
            copy.sync()
        finally:
            copy.close()
    files.rename(path, folder / name)
    files.sync_folder(folder)
    files.sync_folder(folder.parent)


def list_set_aside(files: Files, folder: Path) -> list[SetAside]:
    """The files in the folder of segments set aside, which may be missing."""
    names = files.names(folder) if files.exists(folder) else []
    return [
        SetAside(name, int(parts[1]), files.length_bytes(folder / name), parts[3] is not None, int(parts[2]))
        for name, parts in zip(names, (re.fullmatch(_NAME, name, re.ASCII) for name in names), strict=True)
        if parts is not None
    ]


def remove_unfinished(files: Files, folder: Path, kept: int = MOST_UNFINISHED) -> None:
    """Remove all but the newest files of groups that may never have been committed."""
    unfinished = [file.name for file in list_set_aside(files, folder) if file.is_unfinished]
    for name in unfinished[: max(0, len(unfinished) - kept)]:
        files.unlink(folder / name)


def records_of(files: Files, folder: Path, file: SetAside) -> Iterator[Record]:
    """All valid records of a file in a folder that no row names."""
    start = file.start if file.is_in_place else SEGMENT_HEADER_BYTES
    for _, record in walk_records(files.open_read(folder / file.name), file.segment, start):
        if not isinstance(record, Damage):
            yield record


def dictionaries_set_aside(files: Files, folder: Path) -> set[bytes]:
    """Dictionaries that records set aside need."""
    records = (record for file in list_set_aside(files, folder) for record in records_of(files, folder, file))
    return {record.related for record in records if record.codec == CODEC_ZSTD_DICTIONARY}
