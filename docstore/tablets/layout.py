"""The directory of a store: making, opening, recovering and closing it, as a `Backend`.

Open takes the lock, checks FORMAT, opens the engine, loads the manifest, and recovers segments against their committed
lengths.  If bytes of committed rows are missing that were never synced (power loss at a durability below `sync`), the
captures that need them are dropped and listed (`losses`).  If synced bytes are missing, because a file is away, cut or
empty, no row is dropped: the store opens for reading only, until the file is back or the loss is accepted.  If records
show that rows are missing (LevelDB's files were truncated or replaced by older ones), the loss is recorded and the
records are set aside.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docstore.model.capture import BODY, MAIN
from docstore.model.choices import Durability
from docstore.model.errors import (
    CommitUnknown,
    CorruptionError,
    InvalidArgument,
    StorageError,
    StoreUnavailable,
)
from docstore.model.format import (
    BACKUP_FILE,
    BAND_SECRET_BYTES,
    BAND_SECRET_ROW,
    DICTIONARY_DIRECTORY,
    ENGINE_DIRECTORY,
    FORMAT_FILE,
    FORMAT_VERSION,
    IDENTITY_BYTES,
    IDENTITY_ROW,
    INDEX_DIRECTORY,
    LOCK_FILE,
    RECORD_VALUE,
    RESERVE_FILE,
    ROW_FILTER_FILE,
    RUN_SUFFIX,
    SEGMENT_DIRECTORY,
    SET_ASIDE_DIRECTORY,
    TABLE_TAGS,
)
from docstore.model.plain import asdict
from docstore.model.types import RowMutations, Schema, SetCell
from docstore.storage.bases import BaseRows
from docstore.storage.cache import Memory
from docstore.storage.engine import Engine, RunStorage
from docstore.storage.files import (
    PRIVATE,
    Files,
    StoreLock,
    check_name,
    read_holder,
    read_only_error,
    translated,
)
from docstore.storage.schema import META_FAMILY, SCHEMA_QUALIFIER, SCHEMA_ROW, decode_schema, encode_schema
from docstore.storage.table import Table
from docstore.storage.unreadable import Finding, SetAside
from docstore.tablets.codec import ValueCodec
from docstore.tablets.commit import LocalCommitter
from docstore.tablets.dictionaries import DictionaryFiles, ScopeRows, SiteDictionaries
from docstore.tablets.engines.background import refuse_after_fork
from docstore.tablets.engines.leveldb import LevelDBEngine
from docstore.tablets.format_file import REBUILD, check_format, decode_format, encode_format
from docstore.tablets.leftovers import list_set_aside, records_of
from docstore.tablets.losses import acknowledge, drop_lost, losses, record_lost_commits
from docstore.tablets.manifest import Manifest
from docstore.tablets.record import Damage, SegmentNames
from docstore.tablets.reserve import FULL_DISK, Reserve
from docstore.tablets.segment import Recovery, ValueLog
from docstore.tablets.values import LocalValues
from docstore.version import __version__

if TYPE_CHECKING:
    from docstore.storage import port
    from docstore.storage.port import Backend
    from docstore.storage.reports import BackupReport, CompactionReport, Progress


SALVAGE = "take what you need with `docstore tool salvage`, then remove the file"
SALVAGE_IN_PLACE = "take what you need with `docstore tool salvage`; an open that may write sets them aside"
SALVAGE_ROWS = "restore a backup, or take bodies and texts from the records with `docstore tool salvage`"

PUT_BACK = (
    "no page was dropped: put the whole file back; or read the other pages with --read-only, restore a backup, or give "
    "up the pages in it with `docstore check --accept-loss`"
)

_REBUILT = (FORMAT_FILE, f"{ENGINE_DIRECTORY}/CURRENT")
"""Files that `docstore tool rebuild` makes again."""
_MADE_BEFORE_FORMAT = frozenset(
    (LOCK_FILE, ENGINE_DIRECTORY, SEGMENT_DIRECTORY, DICTIONARY_DIRECTORY, FORMAT_FILE + ".new", "lost+found")
)
"""Files that a folder for a new store may have: left by an interrupted creation, or by mkfs."""


class LocalBackend:
    """An open store in a directory; see `Backend`.  `StoreDirectory.open` makes it, and sets all attributes.

    Attributes:
        identity: random bytes that only this store and its copies have.
        scratch: for a store that is open for reading only, the folder with copies of files that LevelDB and the index
            would change; removed at close.
        reserve: disk space for work that frees space on a full disk.
        memory: what it may hold in memory.
        set_aside: files in the folder `set-aside`, with records that no row names.
        unfinished: files there with records of commits that may never have been made.
        missing: synced bytes of segments that are not there; then the store is open for reading only.
    """

    path: Path
    lock: StoreLock
    files: Files
    engine: LevelDBEngine
    value_log: ValueLog
    manifest: Manifest
    values: LocalValues
    dictionaries: DictionaryFiles
    scopes: ScopeRows
    base_rows: BaseRows
    schema: Schema
    identity: bytes
    band_secret: bytes
    lost: tuple[Finding, ...]
    set_aside: tuple[SetAside, ...]
    unfinished: tuple[SetAside, ...]
    runs: RunStorage | None
    scratch: Path | None
    reserve: Reserve
    memory: Memory
    missing: tuple[Damage, ...]
    index: port.Closing | None = None
    lower: Backend | None = None

    def committer(self, durability: Durability) -> LocalCommitter:
        read_only = self.path if self.is_read_only else None
        made = LocalCommitter(self.engine, self.values, self.manifest, durability, self.reserve, read_only)
        made.followers.add(self.scopes.follow)
        return made

    def group_writer(self, table: Table, committer: object, clock: object) -> None:
        """Give none: a group is one atomic batch here, which the `Sequencer` commits."""

    def overlay(self) -> Backend:
        from docstore.tablets.dry_run import open_overlay

        return open_overlay(self)

    def compact(
        self,
        table: Table,
        committer: port.Committer,
        prune: Callable[[], int],
        *,
        tablets: Sequence[int] | None,
        level: str,
        full: bool,
        dry_run: bool,
        on_progress: Progress | None,
    ) -> CompactionReport:
        from docstore.tablets.compaction.job import Compaction

        assert isinstance(committer, LocalCommitter)
        compaction = Compaction(self, table, committer, prune, level=level, full=full, on_progress=on_progress)
        return compaction.run(tablets, dry_run=dry_run)

    def backup(self, committer: port.Committer, folder: Path, on_progress: Progress | None) -> BackupReport:
        from docstore.tablets.backup import backup

        assert isinstance(committer, LocalCommitter)
        return backup(self, committer, folder, on_progress)

    def codec_stats(self, committer: port.Committer) -> dict[str, dict[str, int]]:
        with self.value_log.pinned():
            with committer.lock:
                self.value_log.flush()
                rows = self.manifest.segments()
            from docstore.tablets.compaction.segments import codec_totals

            return codec_totals(self.value_log, rows)

    def acknowledge(self) -> None:
        acknowledge(self.engine)
        self.lost = ()

    def publish_server(self, server: str) -> None:
        """Write the address of the server that holds the store into the lock file."""
        self.lock.publish_server(server)

    def problems(self) -> Iterator[Finding]:
        """Find errors of FORMAT and of the manifest, missing segments, and files that were set aside."""
        for item in self.missing:
            what = f"expected {item.end} bytes, found {item.reason}; pages in it cannot be read"
            yield Finding(str(self.value_log.path(item.segment).relative_to(self.path)), what, PUT_BACK)
        if decode_format(self.files.read_whole(self.path / FORMAT_FILE)) is None:
            yield Finding(FORMAT_FILE, "its copy of the schema is damaged", "run `docstore tool rebuild`")
        for problem in self.manifest.problems():
            yield Finding("manifest", problem, "report this with the output of `docstore stats --json`")
        for segment in self.manifest.segments():
            names, read = self.manifest.names(segment.number), SegmentNames()
            for _, record in self.value_log.records(segment.number, end=segment.committed_bytes) if names else ():
                read.note(record)
            if names and not (read.bases <= names.bases and read.dictionaries <= names.dictionaries):
                what = "its row does not name all bases and dictionaries that its records need"
                yield Finding(f"segment {segment.number}", what, "report this: compaction may free a base too early")
        yield from map(self._of_records, self.set_aside)

    def remarks(self) -> Iterator[Finding]:
        """Find records of commits that were not finished, or were lost with the end of LevelDB's log."""
        for file in self.unfinished:
            finding = self._of_records(file)
            what = f"a commit that a crash stopped, or that LevelDB's log has lost: {finding.what}"
            yield finding._replace(what=what)

    def _of_records(self, file: SetAside) -> Finding:
        """What a salvage would find in a file of records that no row names."""
        folder = SEGMENT_DIRECTORY if file.is_in_place else SET_ASIDE_DIRECTORY
        found = records_of(self.files, self.path / folder, file)
        values = [record for record in found if record.kind == RECORD_VALUE]
        bodies = sum((record.family, record.qualifier) == BODY for record in values)
        texts = sum((record.family, record.qualifier) == MAIN for record in values)
        place = f"from byte {file.start} on" if file.is_in_place else "set aside"
        return Finding(
            f"{folder}/{file.name}",
            f"records that no row names, {place}: {bodies} bodies and {texts} texts with their URLs and times, without "
            "status and headers",
            SALVAGE_IN_PLACE if file.is_in_place else SALVAGE,
        )

    def stored_bytes(self) -> int:
        """Give the committed bytes of all segments, of all families."""
        return sum(row.committed_bytes for row in self.manifest.segments())

    def close(self) -> None:
        """Close index, segments, engine and lock, in this order, even if one of them fails."""
        with ExitStack() as stack:
            stack.callback(self.lock.release)
            if not self.is_read_only:
                stack.callback(self.reserve.take_back)  # LevelDB has freed what its compactions took
            if self.scratch is not None:
                stack.callback(_remove_tree, self.scratch)
            stack.callback(self.engine.close)
            stack.callback(self.value_log.close)
            if not self.is_read_only:
                stack.callback(self._record_synced)
            if self.index is not None:
                stack.callback(self.index.close)

    def _record_synced(self) -> None:
        """Record that all values are synced: below durability `sync`, an open drops those that are missing if not."""
        with suppress(StorageError, CommitUnknown):  # on a full disk, values are in their file all the same
            self.value_log.sync()
            self.manifest.record_synced(self.value_log.progress(), Durability.FLUSH)

    @property
    def is_read_only(self) -> bool:
        """Whether it is open for reading only."""
        return self.scratch is not None

    def check_writable(self) -> None:
        if self.is_read_only:
            raise read_only_error(self.path)

    def make_reserve(self) -> None:
        if self.scratch is None:
            self.reserve.make()
            self.engine.log_limit_bytes = min(self.reserve.log_limit_bytes, self.memory.share("memtable") // 2)

    def keep_room(self) -> int:
        """Refill the reserve; gives the free bytes beyond the needs of a compaction."""
        self.make_reserve()
        return self.reserve.free_bytes() - self.reserve.compaction_bytes

    def stats(self) -> dict[str, Any]:
        """Totals, sizes and tablets as plain data; see `docs/operations.md` for each name."""
        segments = self.manifest.segments()
        in_tablet: Counter[int] = Counter()
        for segment in segments:
            in_tablet[segment.tablet] += segment.committed_bytes
        tables = {table: self.engine.approximate_bytes(table) for table in TABLE_TAGS}
        return {
            "path": str(self.path),
            "format_version": FORMAT_VERSION,
            "totals": self.manifest.totals(),
            "segments": len(segments),
            "dictionaries": len(self.dictionaries.names()),
            "segment_bytes": self.stored_bytes(),
            "engine_bytes": tables,
            "index_bytes": self.files.tree_bytes(self.path / INDEX_DIRECTORY),
            "tablets": [
                {
                    "number": tablet.number,
                    "start": tablet.start.decode("utf-8", "replace"),
                    "raw_bytes": tablet.raw_bytes,
                    "segment_bytes": in_tablet[tablet.number],
                }
                for tablet in self.manifest.tablets()
            ],
            "directory_bytes": self.files.tree_bytes(self.path),
            "reserve_bytes": self.reserve.length_bytes(),
            "memory_bytes": self.memory.limit_bytes,
            "caches": self.memory.stats(),
            "lost": asdict(self.lost),
            "unreadable": asdict(self.values.unreadable.listed()),
            "set_aside_bytes": sum(file.length_bytes for file in self.set_aside),
        }


class StoreDirectory:
    """The directory of a store, which may not be made yet; a `Location` of the port.

    Args:
        path: of the directory.
        files: the file system.
        check_schema: refuses a schema that cannot analyse pages, before the store is made.
    """

    def __init__(
        self, path: str | Path, files: Files | None = None, check_schema: Callable[[Schema], None] = lambda schema: None
    ) -> None:
        self._path = Path(path)
        self._files = Files() if files is None else files
        self._check_schema = check_schema

    def exists(self) -> bool:
        """Whether there is a store."""
        return self._files.exists(self._path / FORMAT_FILE)

    def server(self) -> str:
        """Give the address of the server that holds the store, from the lock file."""
        return read_holder(self._path / LOCK_FILE).server

    def open(
        self,
        *,
        create: bool,
        schema: Schema | None,
        read_only: bool | None = False,
        accept_loss: bool = False,
        memory: str | int | None = None,
    ) -> LocalBackend:
        """Open the store.

        Args:
            create: make it if there is none.
            schema: for a new store; an existing one must have the same.
            read_only: change nothing in its folder; None: only if it cannot be written to.
            accept_loss: drop what needs synced bytes of segments that are not there.
            memory: that it may hold; None for the default.
        Raises:
            StoreUnavailable: there is none, or another process holds it.
            UnsupportedFormat: it has another format, or its upgrade is unfinished.
            CorruptionError: parts of the store are missing or damaged.
            InvalidArgument: the schema differs from the store's own, or the folder of a new store is not empty.
        """
        check_name(self._path)
        is_new = self._is_new(schema, create=create)
        if read_only is None:
            read_only = not is_new and self._cannot_be_written()
        if not read_only:
            refuse_after_fork(self._path)
        files = Files(read_only=self._path) if read_only else self._files
        shares = Memory(memory, read_only=bool(read_only))
        files.make_folder(self._path, PRIVATE)
        with ExitStack() as undo:
            lock = StoreLock(self._path / LOCK_FILE, __version__)
            lock.acquire(shared=read_only)
            undo.callback(lock.release)
            self._check_format()
            scratch = self._copy_to_read(undo) if read_only else None
            opened = self._path if scratch is None else scratch
            reserve = Reserve(files, self._path / RESERVE_FILE)
            engine = self._open_engine(
                opened / ENGINE_DIRECTORY, reserve, shares, is_new=is_new, for_reading=bool(read_only)
            )
            undo.callback(engine.close)
            stored = self._read_or_write_schema(engine, schema, is_new=is_new)
            identity = _read_or_write_identity(engine)
            band_secret = _band_secret(engine, stored)
            manifest = Manifest.load(engine)
            segments, folder = self._path / SEGMENT_DIRECTORY, self._path / DICTIONARY_DIRECTORY
            if manifest.segments() and not self._files.exists(segments):
                raise self._missing(SEGMENT_DIRECTORY)
            files.make_folder(segments)
            aside = self._path / SET_ASIDE_DIRECTORY
            value_log = ValueLog(files, segments, identity=identity, aside=aside, read_only=read_only)
            undo.callback(value_log.close)
            missing = () if accept_loss else value_log.missing(manifest.segments())
            if missing and not read_only:
                raise self._incomplete(value_log, missing)
            recovery = _recover(value_log, engine, manifest, reserve, missing)
            base_rows, scopes = BaseRows(engine), ScopeRows(engine)
            files.make_folder(folder)
            dictionary_files = DictionaryFiles(files, folder, memory=shares)
            dictionaries = SiteDictionaries(dictionary_files, scopes.get, manifest.tablet_for, shares)
            values = LocalValues(value_log, ValueCodec(memory=shares), dictionaries, base_rows.stored_value, shares)
            reserve.take_back()
            if is_new:  # last, so that a crash during creation leaves no store
                content = encode_format((encode_schema(stored), identity, band_secret))
                self._files.replace_whole(self._path / FORMAT_FILE, content)
            undo.pop_all()
        listed = [*list_set_aside(self._files, aside), *recovery.in_place]
        backend = LocalBackend()
        backend.path = self._path
        backend.lock = lock
        backend.files = files
        backend.engine = engine
        backend.value_log = value_log
        backend.manifest = manifest
        backend.values = values
        backend.dictionaries = dictionary_files
        backend.scopes = scopes
        backend.base_rows = base_rows
        backend.schema = stored
        backend.identity = identity
        backend.band_secret = band_secret
        backend.lost = losses(engine)
        backend.set_aside = tuple(file for file in listed if not file.is_unfinished)
        backend.unfinished = tuple(file for file in listed if file.is_unfinished)
        backend.runs = RunStorage(engine, opened / INDEX_DIRECTORY, files)
        backend.scratch = scratch
        backend.reserve = reserve
        backend.memory = shares
        backend.missing = missing
        engine.keep_room, reserve.shorten_log = backend.keep_room, engine.shorten_log
        return backend

    def _is_new(self, schema: Schema | None, *, create: bool) -> bool:
        """Whether the store is to be made; refuses a folder that is neither a store nor for a new one."""
        is_new = not self.exists()
        if self._path.is_file():
            raise InvalidArgument(
                f"{self._path.absolute()} is a file; a store is a folder: name one that does not exist"
            )
        if is_new and self._has_records():
            raise self._missing(FORMAT_FILE)  # a new store has FORMAT before its first record
        if is_new and not create:
            if self._files.exists(self._path / BACKUP_FILE):
                raise StoreUnavailable(
                    f"{self._path.absolute()} is a backup, not a store; `docstore restore {self._path} STORE` makes a "
                    "store of it"
                )
            raise StoreUnavailable(
                f"there is no store at {self._path.absolute()}; make one with `docstore init`, or create=True; on a "
                "terminal --store FOLDER or the variable DOCSTORE_STORE names another one"
            )
        if not is_new:
            self._check_engine()
            return False
        self._check_empty()
        if schema is not None:
            self._check_schema(schema)
        return True

    def _copy_to_read(self, undo: ExitStack) -> Path:
        """A temporary folder with what LevelDB and the index would change; `undo` removes it if the open fails."""
        from tempfile import mkdtemp

        scratch = Path(mkdtemp(prefix="docstore-read-"))
        undo.callback(_remove_tree, scratch)
        copy_to_read(self._path / ENGINE_DIRECTORY, scratch / ENGINE_DIRECTORY)
        _link_runs(self._path / INDEX_DIRECTORY, scratch / INDEX_DIRECTORY)
        return scratch

    def _open_engine(
        self, folder: Path, reserve: Reserve, memory: Memory, *, is_new: bool, for_reading: bool
    ) -> LevelDBEngine:
        """Open LevelDB, which writes when it opens: on a full disk into the reserve."""
        opening = partial(LevelDBEngine, folder, memory=memory, for_reading=for_reading)
        try:
            return reserve.spend(lambda: _open_or_make(folder, opening, is_new=is_new))
        except StorageError as error:
            if error.errno not in FULL_DISK:
                raise
            lacking_bytes = reserve.lacking_bytes()
            what = f"the disk of {self._path} is full; free {lacking_bytes} bytes, then open the store again"
            raise StorageError(error.errno, what) from error

    def _cannot_be_written(self) -> bool:
        names = ("", ENGINE_DIRECTORY, SEGMENT_DIRECTORY, LOCK_FILE)
        there = (path for path in (self._path / name for name in names) if self._files.exists(path))
        return not all(self._files.can_write(path) for path in there)

    def _has_records(self) -> bool:
        segments = self._path / SEGMENT_DIRECTORY
        return self._files.exists(segments) and bool(self._files.names(segments))

    def _check_empty(self) -> None:
        """Refuse to make a store in a folder with other files than those of an interrupted creation."""
        names = set(self._files.names(self._path)) if self._files.exists(self._path) else set()
        foreign = sorted(names - _MADE_BEFORE_FORMAT)
        if foreign:
            raise InvalidArgument(
                f"{self._path} has files (such as {foreign[0]!r}) and is no store; name an empty or a new folder"
            )

    def _check_engine(self) -> None:
        """Refuse a store without its rows: with a new, empty engine all its segments would be garbage."""
        for name in (Path(ENGINE_DIRECTORY), Path(ENGINE_DIRECTORY, "CURRENT")):
            if not self._files.exists(self._path / name):
                raise self._missing(str(name))

    def _missing(self, name: str) -> CorruptionError:
        return CorruptionError(
            "a part of the store is missing",
            path=str(self._path),
            expected=name,
            found="none",
            remedy=f"put it back, {REBUILD if name in _REBUILT else SALVAGE_ROWS}",
        )

    def _incomplete(self, value_log: ValueLog, missing: Sequence[Damage]) -> CorruptionError:
        first, *others = missing
        path = str(value_log.path(first.segment))
        return CorruptionError(
            "a segment is missing or cut" if not others else f"{len(missing)} segments are missing or cut, the first",
            path=path,
            expected=f"{first.end} bytes",
            found=first.reason,
            remedy=PUT_BACK,
        )

    def _check_format(self) -> None:
        if not self.exists():
            return
        check_format(self._files.read_whole(self._path / FORMAT_FILE), self._path)

    @staticmethod
    def _read_or_write_schema(engine: Engine, schema: Schema | None, *, is_new: bool) -> Schema:
        cells = engine.read_row("meta", SCHEMA_ROW)
        if cells:
            stored = decode_schema(cells[0].value)
            if schema is not None and stored != schema:
                raise InvalidArgument(f"the store was made with another schema: {stored}; open it without one")
            return stored
        if not is_new:
            raise CorruptionError(
                "the store's rows are lost: its schema is missing", path="table meta, row `schema`", remedy=REBUILD
            )
        made = Schema() if schema is None else schema
        cell = SetCell(META_FAMILY, SCHEMA_QUALIFIER, 0, encode_schema(made))
        rows = [RowMutations("meta", SCHEMA_ROW, [cell])]
        if made.keyed_bands:  # before the schema, which promises it
            secret = SetCell(META_FAMILY, b"", 0, os.urandom(BAND_SECRET_BYTES))
            rows.insert(0, RowMutations("meta", BAND_SECRET_ROW, [secret]))
        engine.mutate_rows(rows, Durability.SYNC)
        return made


def _recover(
    value_log: ValueLog, engine: LevelDBEngine, manifest: Manifest, reserve: Reserve, missing: Sequence[Damage]
) -> Recovery:
    """Make segments and manifest agree; rows whose values are lost are dropped and listed.

    Args:
        missing: bytes that are away and may come back: nothing is dropped for them.
    """
    recovery = value_log.recover(manifest.segments(), manifest.next_segment, manifest.group)
    away = {item.segment for item in missing}
    recovery = recovery._replace(lost=tuple(item for item in recovery.lost if item.segment not in away))
    if recovery.lost:
        drop_lost(engine, value_log, manifest, recovery)
    reserve.spend(partial(manifest.record_recovery, recovery, Durability.SYNC))
    if recovery.last_group > manifest.group + 1:
        record_lost_commits(engine, manifest, recovery.last_group - 1)
    return recovery


def _open_or_make(folder: Path, opening: Callable[..., LevelDBEngine], *, is_new: bool) -> LevelDBEngine:
    """Open LevelDB, or make it, also where a power loss stopped that before LevelDB had synced its manifest."""
    try:
        return opening(create=is_new)
    except CorruptionError:
        if not is_new or any(folder.glob("*.ldb")):
            raise
    _remove_tree(folder)
    return opening(create=True)


def _remove_tree(folder: Path) -> None:
    from shutil import rmtree  # loaded here to keep a cold read fast

    rmtree(folder, ignore_errors=True)


def _link_runs(index: Path, copy: Path) -> None:
    """Make a folder with links to the runs of an index; there, runs can be removed and added."""
    with translated("copy", index):
        copy.mkdir()
        for source in sorted(index.iterdir()) if index.exists() else ():
            if source.suffix == RUN_SUFFIX:
                (copy / source.name).symlink_to(source.resolve())


def _band_secret(engine: Engine, schema: Schema) -> bytes:
    """The key of the bins of bands; b"" for none."""
    if not schema.keyed_bands:
        return b""
    cells = engine.read_row("meta", BAND_SECRET_ROW)
    if not cells:
        raise CorruptionError(
            "the secret key of the store's bands is missing", path="table meta, row `band-secret`", remedy=REBUILD
        )
    return cells[0].value


def _read_or_write_identity(engine: Engine) -> bytes:
    """16 random bytes that only a store and its copies have."""
    cells = engine.read_row("meta", IDENTITY_ROW)
    if cells:
        return cells[0].value
    made = os.urandom(IDENTITY_BYTES)
    cell = SetCell(META_FAMILY, b"", 0, made)
    engine.mutate_rows([RowMutations("meta", IDENTITY_ROW, [cell])], Durability.SYNC)
    return made


# --- opening without changing anything

_TABLE_SUFFIXES = (".ldb", ".sst")


def copy_to_read(path: Path, copy: Path) -> None:
    """Copy a LevelDB directory, so that opening the copy does not change the original.

    LevelDB writes when it opens: it makes a log, a MANIFEST and tables of the old log, and removes obsolete files.  So
    CURRENT, MANIFEST and logs are copied; tables and the filter of rows are symbolic links, so that removing or
    replacing one changes only the link.

    REQUIRES: nobody writes to the original.

    Args:
        path: the directory.
        copy: the new directory; it needs about twice the size of the logs.
    Raises:
        StorageError: it cannot be read, or the disk is too full for the copy.
    """
    with translated("copy", path):
        copy.mkdir()
        for source in sorted(path.iterdir()):
            if source.suffix in _TABLE_SUFFIXES or source.name == ROW_FILTER_FILE:
                (copy / source.name).symlink_to(source.resolve())
            elif source.name == "CURRENT" or source.name.startswith("MANIFEST-") or source.suffix == ".log":
                (copy / source.name).write_bytes(source.read_bytes())
