"""Backup of an open store, segment by segment, and restore.

A backup is a folder with copies of segments and dictionaries, a copy of the engine in a folder of its own, and the file
BACKUP, which names the store, the engine's folder and the length of each segment.  BACKUP is replaced atomically, as
the last step: until then the earlier backup is valid, and the next backup resumes an interrupted copy.  Segments only
grow and their numbers are never used again, so bytes that are in the backup already are not copied again.

Before the folder is changed, its BACKUP is checked: it must be an earlier state of this store.  Each backup has a mark,
which the store keeps.  A store that was restored from an older backup lacks the marks of later backups.  Bytes that
BACKUP names are never changed; a file is replaced by writing a new one and renaming it.

The runs of the index are copied too, so that the first write after a restore does not have to rebuild them.  They are
derived data: if they changed during the copy of the engine, or are incomplete in the backup, they are left out.
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
    RESTORE_FILE,
    RUN_FOOTER_BYTES,
    RUN_SUFFIX,
    SEGMENT_DIRECTORY,
    SET_ASIDE_DIRECTORY,
)
from docstore.model.types import RowMutations, SetCell
from docstore.storage.engine import Plan
from docstore.storage.files import PRIVATE, Files, ReadFile, check_name, plain_name, uninterrupted
from docstore.storage.reports import BackupReport, Progress
from docstore.storage.schema import META_FAMILY
from docstore.tablets.commit import LocalCommitter
from docstore.tablets.layout import LocalBackend
from docstore.tablets.leftovers import list_set_aside

COPY_BYTES = 1 << 20
TAIL_BYTES = 4096
"""The last bytes of a segment, compared to check that it is the same segment."""

PARTIAL_SUFFIX = ".partial"
"""Suffix of a file during its copy."""

_NAMING = ("segments", "dictionaries", "runs", "set_aside")
"""The parts of BACKUP that name files."""

FOLDERS = (SEGMENT_DIRECTORY, DICTIONARY_DIRECTORY, INDEX_DIRECTORY, SET_ASIDE_DIRECTORY)


class _Piece(NamedTuple):
    """Bytes ``start <= offset < end`` of a file to append to its copy; `file` is the source if it is open already."""

    source: Path
    copy: Path
    start: int
    end: int
    file: ReadFile | None = None


_OpenRuns = dict[str, tuple[ReadFile, bytes]]
"""Open runs of the index by name, each with its footer, which identifies its content."""


def backup(
    backend: LocalBackend, committer: LocalCommitter, folder: Path, on_progress: Progress | None = None
) -> BackupReport:
    """Copy an open store; see `DocumentStore.backup`."""
    files = backend.files
    check_name(folder)
    if folder.resolve().is_relative_to(backend.path.resolve()):
        raise InvalidArgument(f"{folder} is inside the store and would be lost with it; name a folder outside")
    earlier = _read(files, folder) if files.exists(folder / BACKUP_FILE) else None
    if earlier is None and files.exists(folder) and set(files.names(folder)) - _ours(files, folder):
        raise InvalidArgument(f"{folder} has other files; name an empty folder, or one of an earlier backup")
    is_new_folder = not files.exists(folder)
    try:
        return _copy(backend, committer, folder, earlier, on_progress)
    except StorageError:
        if earlier is None:  # a full disk gets its bytes back; an interrupted backup stays, and goes on
            for name in _ours(files, folder) & set(files.names(folder)) if files.exists(folder) else ():
                path = folder / name
                shutil.rmtree(path) if path.is_dir() else files.unlink(path)
            if is_new_folder and files.exists(folder):
                folder.rmdir()
        raise


def _copy(
    backend: LocalBackend,
    committer: LocalCommitter,
    folder: Path,
    earlier: dict[str, Any] | None,
    on_progress: Progress | None,
) -> BackupReport:
    """Copy a store into a folder that is empty or has an earlier backup of it."""
    files = backend.files
    with backend.value_log.pinned():
        if earlier is not None:
            with committer.lock:
                lengths = _segment_lengths(backend)
            _check_earlier(backend, folder, earlier, lengths)
        files.make_folder(folder, PRIVATE)
        for name in FOLDERS:
            files.make_folder(folder / name)
        numbers = [name.removeprefix(BACKUP_ENGINE_PREFIX) for name in _ours(files, folder)]
        engine = (
            f"{BACKUP_ENGINE_PREFIX}{max((int(number) for number in numbers if number.isdecimal()), default=0) + 1}"
        )
        content, lengths, runs = _state(backend, committer, folder / engine, earlier)
        named = {} if earlier is None else earlier["segments"]
        pieces = list(_segment_pieces(files, folder, lengths, named))
        copied_segments = len(pieces)
        whole = [Path(DICTIONARY_DIRECTORY, name) for name in content["dictionaries"]]
        whole += [Path(SET_ASIDE_DIRECTORY, name) for name in content["set_aside"]]
        copied_bytes = _copy_files(backend, folder, pieces, whole, runs, on_progress)
    content["format_file"] = files.read_whole(backend.path / FORMAT_FILE).decode()
    files.replace_whole(folder / BACKUP_FILE, json.dumps(content, indent=1).encode() + b"\n")
    _remove_others(files, folder, content)
    return BackupReport(len(lengths), copied_segments, copied_bytes, files.tree_bytes(folder))


def _state(
    backend: LocalBackend, committer: LocalCommitter, engine: Path, earlier: dict[str, Any] | None
) -> tuple[dict[str, Any], dict[Path, int], _OpenRuns]:
    """Copy the rows of a store as they are at one moment, and list the files that belong to them.

    Args:
        engine: folder for the rows.
        earlier: content of the earlier backup there, if any.
    Returns:
        The content of the file BACKUP; the length of each segment; and the finished runs of the index, opened, or none
        if they changed meanwhile.
    """
    lock, is_held = committer.lock, False
    runs_after: list[_OpenRuns] = []

    def release() -> None:
        nonlocal is_held
        with uninterrupted():
            if is_held:
                try:
                    runs_after.append(_open_runs(backend))  # before the next write can post
                finally:
                    is_held = False
                    lock.release()

    try:
        with uninterrupted():
            lock.acquire()
            is_held = True
        backend.value_log.sync()
        if backend.is_read_only:  # it cannot record a mark; its state is that of the earlier backup, or later
            mark = earlier["mark"] if earlier is not None else ""
        else:
            mark = _record_mark(committer)
        lengths = _segment_lengths(backend)
        aside = [file.name for file in list_set_aside(backend.files, backend.path / SET_ASIDE_DIRECTORY)]
        dictionaries = [checksum.hex() + DICTIONARY_SUFFIX for checksum in backend.dictionaries.names()]
        runs = _open_runs(backend)
        backend.engine.copy_to(engine, release)
        release()
    finally:
        if is_held:
            lock.release()
    footers, footers_after = ({name: footer for name, (_, footer) in each.items()} for each in (runs, runs_after[0]))
    if footers != footers_after:
        runs = {}
    content = {
        "format": BACKUP_FORMAT_VERSION,
        "store": backend.identity.hex(),
        "mark": mark,
        "engine": engine.name,
        "segments": {path.name: length for path, length in lengths.items()},
        "dictionaries": dictionaries,
        "runs": {name: file.length_bytes() for name, (file, _) in runs.items()},
        "set_aside": aside,
        "made": int(time.time()),
    }
    return content, lengths, runs


def _record_mark(committer: LocalCommitter) -> str:
    """Record the mark of a new backup in the store; returns the mark in hex."""
    mark = os.urandom(IDENTITY_BYTES)
    row = RowMutations("meta", BACKUPS_ROW, [SetCell(META_FAMILY, mark, 0, b"")])
    # A full disk is a reason for a backup, so this write may use the reserve.
    committer.run_with_reserve(lambda: committer.commit(Plan([row])))
    return mark.hex()


def restore(folder: Path, target: Path, files: Files | None = None, on_progress: Progress | None = None) -> None:
    """Make a store from a backup.

    Args:
        folder: of the backup.
        target: folder of the store; must be empty or missing, or left by an interrupted restore, which goes on.
        files: the file system.
        on_progress: called with the bytes copied, and the bytes in total.
    Raises:
        InvalidArgument: there is no backup, or the target is not empty.
        CorruptionError: files of the backup are missing or too short.
    """
    files = Files() if files is None else files
    if not files.exists(folder / BACKUP_FILE):
        raise InvalidArgument(f"there is no backup in {folder}; name the folder that `docstore backup` wrote")
    check_name(target)
    content = _read(files, folder)
    files.make_folder(target, PRIVATE)
    if not _begin_restore(files, target, files.read_whole(folder / BACKUP_FILE)):
        return
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
        wanted |= runs  # all or none: the store rebuilds missing ones
    for name in (*FOLDERS, ENGINE_DIRECTORY):
        files.make_folder(target / name)
    total = sum(wanted.values())
    done = 0
    for path, length in wanted.items():
        target_path = Path(ENGINE_DIRECTORY, path.name) if path.parts[0] == content["engine"] else path
        if not files.exists(target / target_path) or files.length_bytes(target / target_path) != length:
            _append(files, _Piece(folder / path, target / target_path, 0, length))
        done += length
        if on_progress is not None:
            on_progress(done, total)
    for name in (*FOLDERS, ENGINE_DIRECTORY):
        files.sync_folder(target / name)
    files.replace_whole(target / FORMAT_FILE, content["format_file"].encode())  # this makes it a store
    files.unlink(target / RESTORE_FILE)


def _begin_restore(files: Files, target: Path, of_backup: bytes) -> bool:
    """Mark a folder as one that a restore fills, so that the same restore goes on there after an interruption.

    Returns False if the same restore was complete but for this mark.

    Args:
        files: the file system.
        target: the folder.
        of_backup: content of the file BACKUP; files that were restored from another state of a backup are removed.
    """
    marker, names = target / RESTORE_FILE, files.names(target)
    is_same = RESTORE_FILE in names and files.read_whole(marker) == of_backup
    if is_same and FORMAT_FILE in names:
        files.unlink(marker)
        return False
    if set(names) - {RESTORE_FILE + ".new"} and (RESTORE_FILE not in names or FORMAT_FILE in names):
        raise InvalidArgument(f"{target} is not empty; name an empty or a new folder")
    if is_same:
        return True
    for name in (*FOLDERS, ENGINE_DIRECTORY):
        if name in names:
            shutil.rmtree(target / name)
    files.replace_whole(marker, of_backup)
    return True


def _open_runs(backend: LocalBackend) -> _OpenRuns:
    """The finished runs of the index by name; empty if one was removed by a merge, or cannot be read."""
    assert backend.runs is not None
    folder = backend.runs.folder
    runs: _OpenRuns = {}
    if not backend.files.exists(folder):
        return runs
    try:
        for name in backend.files.names(folder):
            if name.endswith(RUN_SUFFIX):
                file = backend.files.open_read(folder / name)
                runs[name] = file, file.read(RUN_FOOTER_BYTES, max(file.length_bytes() - RUN_FOOTER_BYTES, 0))
    except StorageError:
        return {}
    return runs


def _segment_lengths(backend: LocalBackend) -> dict[Path, int]:
    value_log = backend.value_log
    return {value_log.path(row.number): row.committed_bytes for row in backend.manifest.segments()}


def _copy_files(
    backend: LocalBackend,
    folder: Path,
    pieces: list[_Piece],
    whole: list[Path],
    runs: _OpenRuns,
    on_progress: Progress | None,
) -> int:
    """Copy the pieces of segments, and whole files and runs that the backup lacks; returns the bytes."""
    files = backend.files
    for relative in whole:
        path = backend.path / relative
        pieces += _whole_file(files, _Piece(path, folder / relative, 0, _length(files, path)))
    for name, (file, footer) in runs.items():
        piece = _Piece(file.path, folder / INDEX_DIRECTORY / name, 0, file.length_bytes(), file)
        pieces += _whole_file(files, piece, footer)
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


def _check_earlier(backend: LocalBackend, folder: Path, earlier: dict[str, Any], lengths: dict[Path, int]) -> None:
    """Refuse a folder whose backup is not an earlier state of this store; changes nothing.

    Raises:
        InvalidArgument: it is the backup of another store, or of a later state of this one.
    """
    files = backend.files
    named = {name: int(length) for name, length in earlier["segments"].items()}
    if earlier["store"] != backend.identity.hex():
        raise InvalidArgument(f"{folder} has the backup of another store; name another folder")
    marks = [cell.qualifier.hex() for cell in backend.engine.read_row("meta", BACKUPS_ROW)]
    if earlier["mark"] and earlier["mark"] not in marks:
        raise InvalidArgument(
            f"{folder} has the backup of a later state of this store, or of another store that was restored from an "
            "earlier backup; name another folder"
        )
    shared = {path: named[path.name] for path in lengths if path.name in named}
    for path, length in shared.items():
        copy = folder / SEGMENT_DIRECTORY / path.name
        copy_bytes = _length(files, copy) if files.exists(copy) else 0
        if length > lengths[path]:
            raise InvalidArgument(
                f"{folder} has the backup of a later state of this store, or of another store: {copy.name} has "
                f"{length} bytes there and {lengths[path]} here; name another folder"
            )
        if copy_bytes >= length and not _is_same(files, path, copy, length):
            raise InvalidArgument(
                f"{copy} is not a copy of {path}: this is the backup of another store; name another folder"
            )


def _segment_pieces(files: Files, folder: Path, lengths: dict[Path, int], named: dict[str, int]) -> Iterator[_Piece]:
    """The bytes that copies of segments lack.  Bytes that BACKUP does not name are kept if they equal the store's."""
    for path, length in lengths.items():
        copy = folder / SEGMENT_DIRECTORY / path.name
        start = _length(files, copy) if files.exists(copy) else 0
        kept = min(start, named.get(path.name, 0))
        if start > kept and (start > length or not _is_same(files, path, copy, start)):
            files.truncate(copy, kept)  # left by an interrupted backup
            start = kept
        if start < length:
            yield _Piece(path, copy, start, length)


def _whole_file(files: Files, piece: _Piece, ends: bytes = b"") -> Iterator[_Piece]:
    """A file that never changes; nothing if its copy has the same length and ends with `ends`."""
    if files.exists(piece.copy) and _length(files, piece.copy) == piece.end:
        tail = files.open_read(piece.copy).read(len(ends), max(piece.end - len(ends), 0))
        if tail == ends:
            return
    yield piece


def _append(files: Files, piece: _Piece) -> None:
    """Append a piece to its copy; a new copy gets its name after it is synced."""
    source = files.open_read(piece.source) if piece.file is None else piece.file
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
    """Whether two segments have the same last bytes before a length."""
    begin = max(0, length - TAIL_BYTES)
    return files.open_read(source).read(length - begin, begin) == files.open_read(copy).read(length - begin, begin)


def _read(files: Files, folder: Path) -> dict[str, Any]:
    path = folder / BACKUP_FILE
    try:
        content = json.loads(files.read_whole(path))
        version = int(content["format"])
        if version == BACKUP_FORMAT_VERSION:
            for names in ([content["engine"]], *(content[part] for part in _NAMING)):
                for name in names:
                    plain_name(name)
            return {**content, **{field: str(content[field]) for field in ("store", "mark", "format_file")}}
    except (ValueError, KeyError, TypeError, InvalidArgument) as error:
        raise CorruptionError(
            "the BACKUP file is damaged", path=str(path), expected=f"JSON with a format and names of files ({error})"
        ) from error
    raise UnsupportedFormat(
        f"{path} has backup format {version}, this docstore reads {BACKUP_FORMAT_VERSION}; restore it with the "
        "docstore version that wrote it"
    )


def _ours(files: Files, folder: Path) -> set[str]:
    """Names that an interrupted first backup may have left."""
    engines = {name for name in files.names(folder) if name.startswith(BACKUP_ENGINE_PREFIX)}
    return {*FOLDERS, BACKUP_FILE + ".new"} | engines


def _remove_others(files: Files, folder: Path, content: dict[str, Any]) -> None:
    """Remove files that this backup does not name: segments that were compacted away, the engine of the last backup."""
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
