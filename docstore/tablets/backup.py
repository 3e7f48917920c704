"""Backup of an open store, segment by segment, and the way back.

Knows a store's files and the committer's lock; must not know what is in them.

A backup is a folder with copies of segments and dictionaries, a copy of the engine in a folder of its own, and the file
BACKUP, which names the store, the engine's folder and the length of each segment.  BACKUP is replaced as a whole and
last: until then the earlier backup stands, and a copy that was interrupted goes on with the next one.  Segments only
grow and their numbers are never given twice, so that what is there already is not copied again.

Before anything in the folder is changed it is compared: what its BACKUP names has to be an earlier state of this store.
Each backup has a mark, which the store keeps: what was restored of an earlier backup has not the marks of later ones.
Bytes that it names are never changed; a file that is written anew is written beside and renamed.

The runs of the index go with it, so that the first write after a restore need not make them anew.  They are derived:
where they changed while the engine's copy was fixed, or are not whole in the backup, they are left out.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from docstore.model.errors import CorruptionError, InvalidArgument, StorageError, UnsupportedFormat
from docstore.model.format import (
    BACKUP_ENGINE_PREFIX,
    BACKUP_FILE,
    BACKUP_FORMAT_VERSION,
    BACKUPS_ROW,
    DICTIONARY_DIRECTORY,
    DICTIONARY_SUFFIX,
    ENGINE_DIRECTORY,
    FORMAT_FILE,
    IDENTITY_BYTES,
    INDEX_DIRECTORY,
    RUN_FOOTER_BYTES,
    RUN_SUFFIX,
    SEGMENT_DIRECTORY,
    SET_ASIDE_DIRECTORY,
)
from docstore.model.types import RowMutations, SetCell
from docstore.storage.files import PRIVATE, Files, ReadFile
from docstore.storage.parts import Progress
from docstore.storage.plan import Plan, Stage
from docstore.storage.reports import BackupReport
from docstore.storage.schema import META_FAMILY
from docstore.tablets.commit import Committer
from docstore.tablets.layout import LocalBackend
from docstore.tablets.leftovers import list_set_aside

COPY_BYTES = 1 << 20
TAIL_BYTES = 4096
"""Compared at the end of a segment that is there already, to see that it is the same one."""

PARTIAL_SUFFIX = ".partial"
"""Of a file that is being copied."""

FOLDERS = (SEGMENT_DIRECTORY, DICTIONARY_DIRECTORY, INDEX_DIRECTORY, SET_ASIDE_DIRECTORY)


class _Piece(NamedTuple):
    """Bytes ``start <= offset < end`` of a file that are to be behind those of its copy; a file may be held open."""

    source: Path
    copy: Path
    start: int
    end: int
    held: ReadFile | None = None


class _OpenRun(NamedTuple):
    """A run of the index, readable as long as it is held; its footer names its content."""

    file: ReadFile
    footer: bytes


def backup(
    opened: LocalBackend, committer: Committer, folder: Path, on_progress: Progress | None = None
) -> BackupReport:
    """Copy an open store; see `DocumentStore.backup`."""
    files = opened.files
    if folder.resolve().is_relative_to(opened.path.resolve()):
        raise InvalidArgument(f"{folder} lies in the store itself and would go with it; name a folder outside")
    earlier = _read(files, folder) if files.exists(folder / BACKUP_FILE) else None
    if earlier is None and files.exists(folder) and set(files.names(folder)) - _ours(files, folder):
        raise InvalidArgument(f"{folder} holds something else; name an empty folder, or one of an earlier backup")
    with opened.bodies.pinned():
        if earlier is not None:
            with committer.lock:
                lengths = _segment_lengths(opened)
            _check_earlier(opened, folder, earlier, lengths)
        files.make_folder(folder, PRIVATE)
        for name in FOLDERS:
            files.make_folder(folder / name)
        engine = f"{BACKUP_ENGINE_PREFIX}{_next_engine(files, folder)}"
        committer.lock.acquire()
        fixed: list[dict[str, _OpenRun]] = []

        def release() -> None:
            if not fixed:
                fixed.append(_open_runs(opened))  # before anybody may post again
                committer.lock.release()

        try:
            opened.bodies.sync()
            if opened.is_read_only:  # it cannot note a mark: its state is the one that the earlier backup had, or later
                mark = earlier["mark"] if earlier is not None else ""
            else:
                mark = _note_mark(committer)
            lengths = _segment_lengths(opened)
            aside = [one.name for one in list_set_aside(files, opened.path / SET_ASIDE_DIRECTORY)]
            dictionaries = [checksum.hex() + DICTIONARY_SUFFIX for checksum in opened.dictionaries.names()]
            runs = _open_runs(opened)
            opened.engine.copy_to(folder / engine, release)
        finally:
            release()
        if {name: run.footer for name, run in runs.items()} != {name: run.footer for name, run in fixed[0].items()}:
            runs = {}
        named = {} if earlier is None else earlier["segments"]
        pieces = list(_segment_pieces(files, folder, lengths, named))
        copied_segments = len(pieces)
        whole = [Path(DICTIONARY_DIRECTORY, name) for name in dictionaries]
        whole += [Path(SET_ASIDE_DIRECTORY, name) for name in aside]
        copied_bytes = _copy_files(opened, folder, pieces, whole, runs, on_progress)
    files.replace_whole(folder / FORMAT_FILE, files.read_whole(opened.path / FORMAT_FILE))
    content = {
        "format": BACKUP_FORMAT_VERSION,
        "store": opened.identity.hex(),
        "mark": mark,
        "engine": engine,
        "segments": {path.name: length for path, length in lengths.items()},
        "dictionaries": dictionaries,
        "runs": {name: run.file.length_bytes() for name, run in runs.items()},
        "set_aside": aside,
        "made": int(time.time()),
    }
    files.replace_whole(folder / BACKUP_FILE, json.dumps(content, indent=1).encode() + b"\n")
    _remove_others(files, folder, content)
    return BackupReport(len(lengths), copied_segments, copied_bytes, files.tree_bytes(folder))


def _note_mark(committer: Committer) -> str:
    """Give the backup that begins a mark, and let the store keep it; -> the mark in hex."""
    mark = os.urandom(IDENTITY_BYTES)
    noted = RowMutations("meta", BACKUPS_ROW, [SetCell(META_FAMILY, mark, 0, b"")])
    # A full disk is a reason for a backup: the note may take room that other writes leave free.
    committer.free_space(lambda: committer.commit(Plan().write(Stage.ALLOCATION, [noted])))
    return mark.hex()


def restore(folder: Path, target: Path, files: Files | None = None, on_progress: Progress | None = None) -> None:
    """Make a store of a backup.

    Args:
        folder: of the backup.
        target: of the store; must not be there, or be empty.
        files: the file system.
        on_progress: called with the bytes copied, and of all there are.
    Raises:
        InvalidArgument: there is no backup, or the target is taken.
        CorruptionError: files of the backup are missing or too short.
    """
    files = Files() if files is None else files
    if not files.exists(folder / BACKUP_FILE):
        raise InvalidArgument(f"there is no backup in {folder}; name the folder that `docstore backup` wrote")
    content = _read(files, folder)
    files.make_folder(target, PRIVATE)
    if files.names(target):
        raise InvalidArgument(f"{target} is not empty; name a folder that is not there")
    wanted = {Path(SEGMENT_DIRECTORY, name): int(length) for name, length in content["segments"].items()}
    whole = [Path(DICTIONARY_DIRECTORY, name) for name in content["dictionaries"]]
    whole += [Path(SET_ASIDE_DIRECTORY, name) for name in content["set_aside"]]
    whole += [Path(content["engine"], name) for name in files.names(folder / content["engine"])]
    wanted |= {path: _length(files, folder / path) for path in whole}
    for path, length in wanted.items():
        if _length(files, folder / path) < length:
            raise CorruptionError("a file of the backup is too short", path=str(folder / path), expected=f"{length}")
    runs = {Path(INDEX_DIRECTORY, name): int(length) for name, length in content["runs"].items()}
    if all(files.exists(folder / path) and _length(files, folder / path) == length for path, length in runs.items()):
        wanted |= runs  # all or none: the store makes them anew where they are missing
    for name in (*FOLDERS, ENGINE_DIRECTORY):
        files.make_folder(target / name)
    total = sum(wanted.values())
    done = 0
    for path, length in wanted.items():
        place = Path(ENGINE_DIRECTORY, path.name) if path.parts[0] == content["engine"] else path
        _append(files, _Piece(folder / path, target / place, 0, length))
        done += length
        if on_progress is not None:
            on_progress(done, total)
    for name in (*FOLDERS, ENGINE_DIRECTORY):
        files.sync_folder(target / name)
    files.replace_whole(target / FORMAT_FILE, files.read_whole(folder / FORMAT_FILE))  # last: now it is a store


def _open_runs(opened: LocalBackend) -> dict[str, _OpenRun]:
    """The finished runs of the index by name; none where one was merged away meanwhile, or cannot be read."""
    assert opened.runs is not None
    folder = opened.runs.folder
    runs: dict[str, _OpenRun] = {}
    if not opened.files.exists(folder):
        return runs
    try:
        for name in opened.files.names(folder):
            if name.endswith(RUN_SUFFIX):
                file = opened.files.open_read(folder / name)
                runs[name] = _OpenRun(file, file.read(RUN_FOOTER_BYTES, max(file.length_bytes() - RUN_FOOTER_BYTES, 0)))
    except StorageError:
        return {}
    return runs


def _segment_lengths(opened: LocalBackend) -> dict[Path, int]:
    bodies = opened.bodies
    return {bodies.path(row.number): row.committed_bytes for row in opened.manifest.segments()}


def _copy_files(
    opened: LocalBackend,
    folder: Path,
    pieces: list[_Piece],
    whole: list[Path],
    runs: dict[str, _OpenRun],
    on_progress: Progress | None,
) -> int:
    """Copy what segments lack, and the whole files and runs that are not there; returns the bytes."""
    files = opened.files
    for place in whole:
        path = opened.path / place
        pieces += _whole_file(files, _Piece(path, folder / place, 0, _length(files, path)))
    for name, run in runs.items():
        piece = _Piece(run.file.path, folder / INDEX_DIRECTORY / name, 0, run.file.length_bytes(), run.file)
        pieces += _whole_file(files, piece, run.footer)
    total = sum(piece.end - piece.start for piece in pieces)
    done = 0
    for piece in pieces:
        _append(files, piece)
        done += piece.end - piece.start
        if on_progress is not None:
            on_progress(done, total)
    for name in FOLDERS:
        files.sync_folder(folder / name)
    files.sync_folder(folder)
    return total


def _check_earlier(opened: LocalBackend, folder: Path, earlier: dict[str, Any], lengths: dict[Path, int]) -> None:
    """Refuse a folder whose backup is not an earlier state of this store; changes nothing.

    Raises:
        InvalidArgument: it is the backup of another store, or of a later state of this one.
    """
    files = opened.files
    named = {name: int(length) for name, length in earlier["segments"].items()}
    if earlier["store"] and earlier["store"] != opened.identity.hex():
        raise InvalidArgument(f"{folder} holds the backup of another store; name another folder")
    marks = [cell.qualifier.hex() for cell in opened.engine.read_row("meta", BACKUPS_ROW)]
    if earlier["mark"] and earlier["mark"] not in marks:
        raise InvalidArgument(
            f"{folder} holds the backup of a later state of this store, or of another that was restored from an "
            "earlier backup; name another folder"
        )
    shared = {path: named[path.name] for path in lengths if path.name in named}
    is_later = not shared and min((path.name for path in lengths), default="") > max(named, default="")
    if named and not earlier["store"] and not shared and not is_later:
        raise InvalidArgument(f"{folder} shares no segment with this store: it may be the backup of another store")
    for path, length in shared.items():
        copy = folder / SEGMENT_DIRECTORY / path.name
        there = _length(files, copy) if files.exists(copy) else 0
        if length > lengths[path]:
            raise InvalidArgument(
                f"{folder} holds the backup of a later state of this store, or of another store: {copy.name} has "
                f"{length} bytes there and {lengths[path]} here; name another folder"
            )
        if there >= length and not _is_same(files, path, copy, length):
            raise InvalidArgument(
                f"{copy} is not a copy of {path}: this is the backup of another store; name another folder"
            )


def _segment_pieces(files: Files, folder: Path, lengths: dict[Path, int], named: dict[str, int]) -> Iterator[_Piece]:
    """What the copies of segments lack; bytes that BACKUP does not name stay only where they are those of the store."""
    for path, length in lengths.items():
        copy = folder / SEGMENT_DIRECTORY / path.name
        start = _length(files, copy) if files.exists(copy) else 0
        kept = min(start, named.get(path.name, 0))
        if start > kept and (start > length or not _is_same(files, path, copy, start)):
            files.truncate(copy, kept)  # left by a backup that was interrupted
            start = kept
        if start < length:
            yield _Piece(path, copy, start, length)


def _whole_file(files: Files, piece: _Piece, ends: bytes = b"") -> Iterator[_Piece]:
    """A file that never changes, unless its copy is there, is whole and ends so."""
    if files.exists(piece.copy) and _length(files, piece.copy) == piece.end and _tail(files, piece, len(ends)) == ends:
        return
    yield piece


def _tail(files: Files, piece: _Piece, length_bytes: int) -> bytes:
    return files.open_read(piece.copy).read(length_bytes, max(piece.end - length_bytes, 0))


def _append(files: Files, piece: _Piece) -> None:
    """Put a piece behind what there is of its copy; a copy that is made whole takes its name when it is synced."""
    source = files.open_read(piece.source) if piece.held is None else piece.held
    path = piece.copy if piece.start else piece.copy.with_name(piece.copy.name + PARTIAL_SUFFIX)
    if not piece.start and files.exists(path):
        files.unlink(path)
    copy = files.open_append(path, create=not piece.start)
    try:
        at = piece.start
        while at < piece.end:
            read = source.read(min(COPY_BYTES, piece.end - at), at)
            if not read:
                raise CorruptionError(
                    "a file is too short to copy",
                    path=str(piece.source),
                    offset=at,
                    expected=str(piece.end),
                    found=str(at),
                )
            copy.write(read)
            at += len(read)
        copy.sync()
    finally:
        copy.close()
    if path != piece.copy:
        files.rename(path, piece.copy)


def _is_same(files: Files, source: Path, copy: Path, length: int) -> bool:
    """Whether two segments end alike at a length."""
    begin = max(0, length - TAIL_BYTES)
    return files.open_read(source).read(length - begin, begin) == files.open_read(copy).read(length - begin, begin)


def _read(files: Files, folder: Path) -> dict[str, Any]:
    path = folder / BACKUP_FILE
    try:
        content = json.loads(files.read_whole(path))
        version = int(content["format"])
        if version == BACKUP_FORMAT_VERSION and {"engine", "segments", "dictionaries"} <= content.keys():
            return {"runs": {}, "set_aside": [], "store": "", "mark": "", **content}
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptionError("not a list of a backup", path=str(path), expected="JSON with a format") from error
    raise UnsupportedFormat(f"{path} has backup format {version}, this docstore knows {BACKUP_FORMAT_VERSION}")


def _ours(files: Files, folder: Path) -> set[str]:
    """Names that an interrupted first backup may have left."""
    engines = {name for name in files.names(folder) if name.startswith(BACKUP_ENGINE_PREFIX)}
    return {*FOLDERS, FORMAT_FILE, BACKUP_FILE + ".new", FORMAT_FILE + ".new"} | engines


def _next_engine(files: Files, folder: Path) -> int:
    numbers = [name.removeprefix(BACKUP_ENGINE_PREFIX) for name in _ours(files, folder)]
    return max((int(number) for number in numbers if number.isdecimal()), default=0) + 1


def _remove_others(files: Files, folder: Path, content: dict[str, Any]) -> None:
    """Remove what this backup does not name: segments that were compacted since, the engine of the one before."""
    for directory, named in zip(FOLDERS, ("segments", "dictionaries", "runs", "set_aside"), strict=True):
        for name in files.names(folder / directory):
            if name not in content[named]:
                files.unlink(folder / directory / name)
    for name in files.names(folder):
        if name.startswith(BACKUP_ENGINE_PREFIX) and name != content["engine"]:
            shutil.rmtree(folder / name)


def _length(files: Files, path: Path) -> int:
    if not files.exists(path):
        raise CorruptionError("a file of the backup is missing", path=str(path), expected="a file", found="none")
    return files.length_bytes(path)
