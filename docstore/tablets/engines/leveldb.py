"""The engine on LevelDB: the only importer of plyvel, and the owner of all iterators and of the handle's lifetime.

The handle.  To close it during a call, or after a fork, would crash the process.  So each call pins it; `close` and a
reopening hide it from new calls and wait until no pin is left.  After a failed write, the next write closes and reopens
the database first; other calls wait.  After a fork the child's engine is closed, and its handle is never freed there.

Reads.  All are by iterators.  A scan has one only while it reads a slice, not while the caller runs.

Writes.  One lock orders them.  After a failed write LevelDB acknowledges and loses later writes: hence the reopening.
A delete reads the existing keys and removes them in one batch: a row of a million cells takes about a second and 170
MB.

Deleted keys.  LevelDB writes a tombstone for each, which iterators must skip until a compaction drops it.  Deleting and
writing pages of the same body again and again made a page 16 times as slow after 14,000 deletes (`tools.bench.growth`).
So a range is compacted when the rewritten bytes are in proportion to its deletes.
"""

from __future__ import annotations

import errno
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

try:
    import plyvel
except ModuleNotFoundError:  # plyvel-next: the same names, built for Pythons and systems that plyvel has no wheel for
    import plyvel_next as plyvel

from docstore.compiled import docstore_native
from docstore.model.choices import Durability
from docstore.model.errors import FORKED, CommitUnknown, CorruptionError, DocstoreError, StorageError, StoreUnavailable
from docstore.model.format import (
    BARE_TABLES,
    ENGINE_DIRECTORY,
    ENGINE_END_KEY,
    KEY_END,
    KEY_ESCAPE,
)
from docstore.model.types import Cell, ReadSpec, RowMutations, SetCell
from docstore.storage.cache import Memory
from docstore.storage.engine import (
    EVERYTHING,
    Caps,
    PackedRows,
    ScannedRow,
    check_bare,
    check_mutations,
    check_not_bare,
    check_spec,
    check_table,
)
from docstore.storage.files import Files, bytes_if_there
from docstore.tablets.engines import background, cellkeys
from docstore.tablets.engines.cellkeys import (
    CELL_KIND,
    DeletedKeys,
    FamilyKeys,
    column_head,
    decode_timestamp,
    encode_timestamp,
    escape,
    row_reader,
    take_keys,
)
from docstore.tablets.engines.log_end import cut_unsynced_end, has_gap, without_damage
from docstore.tablets.engines.rowfilter import RowFilter
from docstore.tablets.reserve import AMPLE_BYTES, RECOVERY_BYTES, recovery_bytes, shorten_log

_CUT_TABLE = r"(\d+\.(?:ldb|sst)): (?:Invalid argument|No such file)"
"""LevelDB maps its tables, and reads where their end should be: a table that is shorter gives EINVAL."""
_DAMAGED = (
    "restore a backup; or run `docstore tool rebuild`, which leaves out what is damaged (if it fails, `docstore tool "
    "salvage` takes bodies and texts from the records)"
)
_LEFT_IN_LOG = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)  # harmless for a close: the next open reads the log
_CLOSE_POLL_SECONDS = 0.0005
_CLOSED = "the engine is closed; open the store again"

Result = TypeVar("Result")

_handles: weakref.WeakSet[Handle] = weakref.WeakSet()
_claim_lock = threading.Lock()
_claimed: set[Path] = set()
"""Directories open in this process.  A second open, which LevelDB refuses, would drop the lock of the first."""


def _after_fork_in_child() -> None:
    global _claim_lock  # noqa: PLW0603 - it may be locked by a thread that only the parent has
    _claim_lock = threading.Lock()
    for handle in list(_handles):
        handle.abandon()
    _claimed.clear()


os.register_at_fork(after_in_child=_after_fork_in_child)


class Handle:
    """A database that calls pin, and that one writer at a time may reopen or close.

    Args:
        path: the database's directory.
        open_database: opens it; raises only our errors.
        translate: turns one of `_FOREIGN_ERRORS`, and the name of the action, into one of our errors.
    Attributes:
        write_lock: held by a writer; `writable` requires it.
    """

    def __init__(
        self,
        path: Path,
        open_database: Callable[[], Any],
        translate: Callable[[Exception, str], DocstoreError],
    ) -> None:
        self.write_lock = threading.Lock()
        self._path = path
        self._open_database = open_database
        self._translate = translate
        self._pins: set[object] = set()
        self._closed_reason = ""
        self._write_failed = False
        self._written = False
        self._claim = path.resolve()
        with _claim_lock:
            if self._claim in _claimed:
                raise StoreUnavailable(f"{path} is open in another engine of this process; use that one, or close it")
            self._release_claim = weakref.finalize(self, _claimed.discard, self._claim)
            _claimed.add(self._claim)
        try:
            self._database: Any = open_database()
            _handles.add(self)
        except BaseException:
            self._release_claim()
            raise

    def call(self, work: Callable[..., Result], what: str, *args: object) -> Result:
        """Call `work` with the pinned database and more arguments, and translate its errors."""
        pin = object()
        while True:
            try:
                # Pin first, then read the handle: `_take_away` clears the handle first, then waits for pins.
                self._pins.add(pin)
                database = self._database
                if database is not None:
                    return work(database, *args)
            except _FOREIGN_ERRORS as error:
                raise self._translate(error, what) from error
            finally:
                self._pins.discard(pin)
            self._check_open()
            with self.write_lock:  # a reopening is running, or has failed
                if self._database is None and not self._closed_reason:
                    self._reopen()

    def try_call(self, work: Callable[[Any], None]) -> None:
        """Call `work` with the pinned database, unless it is closed or being reopened.  An error is one of a write."""
        pin = object()
        try:
            self._pins.add(pin)
            if (database := self._database) is not None:
                work(database)
        except _FOREIGN_ERRORS:
            self.fail()  # the data is in the log; the next write reopens LevelDB
        finally:
            self._pins.discard(pin)

    def writable(self) -> Any:
        """The database, reopened if a write failed.

        REQUIRES: write_lock.
        """
        self._check_open()
        if not self._written:
            background.check(self._path)
        self._written = True
        if self._write_failed and self._database is not None:
            self._check_room_to_reopen()
            self._take_away().close()
        if self._database is None:
            self._reopen()
        return self._database

    def fail(self) -> None:
        """Record that a write failed, so that the next write reopens the database."""
        self._write_failed = True

    def close(self, before_close: Callable[[Any], None]) -> None:
        """Close; a second call does nothing.

        `before_close` is called with the database if there were writes, and none failed.
        """
        if self._closed_reason:
            return
        with self.write_lock:
            if self._closed_reason:
                return
            self._closed_reason = _CLOSED
            database = self._take_away()
            try:
                if database is not None and self._written and not self._write_failed:
                    before_close(database)
            except _FOREIGN_ERRORS as error:
                translated = self._translate(error, "closing; what was acknowledged stays in its log")
                if not (isinstance(translated, StorageError) and translated.errno in _LEFT_IN_LOG):
                    raise translated from error
            finally:
                if database is not None:
                    background.close_or_leave(database)
                self._release_claim()

    def abandon(self) -> None:
        """Drop the database in a forked child without freeing it: its threads exist only in the parent."""
        if self._database is not None:
            background.never_free(self._database)  # even at exit that would wait for these threads
        self._database = None
        self.write_lock = threading.Lock()  # the old one may be locked by a thread that only the parent has
        self._release_claim.detach()
        self._closed_reason = self._closed_reason or FORKED

    def _check_open(self) -> None:
        if self._closed_reason:
            raise StoreUnavailable(f"{self._closed_reason} ({self._path})")

    def _take_away(self) -> Any:
        database, self._database = self._database, None
        while self._pins:
            time.sleep(_CLOSE_POLL_SECONDS)
        return database

    def _reopen(self) -> None:
        self._database = self._open_database()
        self._write_failed = False

    def free_and_log_bytes(self) -> tuple[int, int]:
        """Free space of the disk, and the length of the log."""
        return Files().free_bytes(self._path), sum(map(bytes_if_there, self._path.glob("*.log")))

    def _check_room_to_reopen(self) -> None:
        """Refuse a write if the disk is so full that a reopening would fail, because then reads would fail too."""
        free_bytes, log_bytes = self.free_and_log_bytes()
        needed_bytes = recovery_bytes(log_bytes)
        if free_bytes < needed_bytes:
            raise StorageError(
                errno.ENOSPC,
                f"an earlier write to {self._path} failed, and recovery needs {needed_bytes} free bytes, but only "
                f"{free_bytes} are free; free space, then write again",
            )


CLOSING_SHARE = 4
"""A close compacts a range if the deleted bytes are at least the bytes of all tables divided by this: after an ingest
into an empty store the deleted log of the runs was a quarter of the directory's tables."""
LEAST_CLOSING_BYTES = 1 << 20

_COPY_PAIRS = 1000
_LARGEST_CELL_BYTES = docstore_native.LARGEST_CELL_BYTES
_LEAST_BUFFER_BYTES = 1 << 20
_BUFFER_LIMITS = 8
"""LevelDB's buffer, in limits of its log: a log of two never fills it.  With the shortest keys one of .29 of it did.
So LevelDB begins another log only where `_commit` knows of it, and can sync the one before."""
_BLOCK_BYTES = 4 << 10
"""16 KB take 7% fewer bytes on disk, 2% of a store; a look-up of a key whose block is not cached takes 2.5 times as
long (decision 0026)."""
_SCAN_FIRST_ROWS = 16
_SCAN_MOST_ROWS = 1024
_SCAN_SLICE_CELLS = 8192
_BEFORE_ALL = b"\0"
_NOWHERE = ENGINE_END_KEY * 2  # after the last key: compacting from here to here only empties the log
_FOREIGN_ERRORS = (plyvel.Error, StopIteration)
"""plyvel's iterators end without an error if the last block is damaged.  So no iterator has a stop: each must reach a
key after its range, at last ENGINE_END_KEY, and StopIteration means damage."""


class LevelDBEngine:
    """Cells in a LevelDB directory, for one process.

    Args:
        path: the directory.
        create: make it if it is missing; else a missing one is StoreUnavailable.
        memory: shares for LevelDB's blocks and memtable.
        for_reading: nothing is written, so a forked child may open it, too.
    Attributes:
        path: the directory.
        log_limit_bytes: a longer log is rewritten as a table, because recovery needs free space of the log's size.
        keep_room: called after that and before compactions; returns the free bytes beyond the needs of a compaction.
    Raises:
        StoreUnavailable: missing, open in another engine, or see `background.refuse_after_fork`.
        CorruptionError: LevelDB finds its files damaged.
    """

    caps = Caps(single_writer=True, largest_cell_bytes=_LARGEST_CELL_BYTES)

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        create: bool = False,
        memory: Memory | None = None,
        for_reading: bool = False,
    ) -> None:
        self.path = Path(path)
        if not for_reading:
            background.refuse_after_fork(self.path)
        self._memory = memory or Memory()
        self.log_limit_bytes = self._memory.share("memtable") // 2
        self.keep_room: Callable[[], int] = lambda: AMPLE_BYTES
        self._create = create
        self._log = self.path / "none.log"
        self._family_keys = FamilyKeys()
        self._deleted = DeletedKeys()
        self._rows = RowFilter(self.path, self._memory.share("filter of rows"))
        self._is_first_open = True
        self._shortening: threading.Thread | None = None
        """Rewrites the log.  Guarded by the write lock."""
        self._compacting = 0
        """Calls that may make LevelDB begin another log at any time.  Raised under the write lock."""
        self._handle = Handle(self.path, self._open_database, self._translated)
        self._call = self._handle.call

    def _open_database(self) -> Any:
        open_database = partial(
            plyvel.DB,
            str(self.path),
            create_if_missing=self._create,
            paranoid_checks=True,
            block_size=_BLOCK_BYTES,
            # No Bloom filter of LevelDB: only `get` asks it, and each `get` that meets two tables, filter or not, makes
            # LevelDB compact (decision 0026).
            write_buffer_size=max(self._memory.share("memtable") // 2 * _BUFFER_LIMITS, _LEAST_BUFFER_BYTES),
            lru_cache_size=self._memory.share("blocks"),
        )
        background.may_run()
        database: Any = None
        try:
            if has_gap(self.path):  # LevelDB would lose a commit, and replay those behind it
                self._cut_log(plyvel.CorruptionError("zeros between the records of the log"))
            try:
                database = open_database()
            except plyvel.CorruptionError as error:
                self._cut_log(error)
                database = open_database()
            # LevelDB does not sync the new name of CURRENT.  If a power loss took it back, what is synced from here on
            # to the new log could be found only through a manifest that may have been removed, or was never synced.
            Files().sync_folder(self.path)
            token = database.get(ENGINE_END_KEY, verify_checksums=True)
            if token is None:
                database.put(ENGINE_END_KEY, b"", sync=True)
            elif self._is_first_open:
                self._rows.load(token)
            self._is_first_open = False  # a reopening after a failed write has the filter in memory
        except _FOREIGN_ERRORS as error:
            if database is not None:  # the error holds it, and with it LevelDB's lock
                background.close_or_leave(database)
            raise self._opening_error(error) from error
        self._create = False
        return database

    def _cut_log(self, error: Exception) -> None:
        if not (cut := cut_unsynced_end(self.path)):
            raise error
        import logging  # a cold `get` is faster without

        logging.getLogger(__name__).warning("a power loss left zeros in LevelDB's log; cut off: %s", cut)

    def _opening_error(self, error: Exception) -> DocstoreError:
        text = str(error)
        if "does not exist" in text and "create_if_missing" in text:
            return StoreUnavailable(f"there is no LevelDB directory at {self.path}; create the store first")
        if f"{self.path}/LOCK" in text and not isinstance(error, plyvel.CorruptionError):
            return StoreUnavailable(f"the LevelDB directory {self.path} is open in another engine; close it: {text}")
        return self._translated(error, "opening")

    def _translated(self, error: Exception, what: str) -> DocstoreError:
        text = str(error)
        if isinstance(error, StopIteration):
            return CorruptionError(
                f"LevelDB's keys end too early on {what}", path=str(self.path), expected="its end key"
            )
        cut = re.search(_CUT_TABLE, text)
        if isinstance(error, plyvel.CorruptionError) or cut:
            path = f"{ENGINE_DIRECTORY}/{cut[1]}" if cut else str(self.path)
            what = "a table of LevelDB is cut or empty" if cut else f"LevelDB found damage on {what}: {text}"
            return CorruptionError(what, path=path, remedy=_DAMAGED)
        return StorageError(
            _errno_of(text), f"LevelDB at {self.path} failed on {what}: {text}; free space, then try again"
        )

    def close(self) -> None:
        """Empty LevelDB's log, so that the next open replays nothing, and close; a second call does nothing.

        If much of the tables was deleted since the open, they are compacted before that.
        """
        self._handle.close(self._before_close)

    def _before_close(self, db: Any) -> None:
        self._rows.save(db, self.keep_room)
        db.compact_range(start=_NOWHERE, stop=_NOWHERE)
        table_bytes = int(db.approximate_size(_BEFORE_ALL, _NOWHERE))
        heavy = self._deleted.heavy(max(LEAST_CLOSING_BYTES, table_bytes // CLOSING_SHARE))
        for low, high in heavy if heavy and self.keep_room() >= 0 else ():
            _ends_of(db, low, high).write()
            db.compact_range(start=low, stop=high)

    # --- reads ---

    def read_row(self, table: str, row_key: bytes, spec: ReadSpec = EVERYTHING) -> list[Cell]:
        check_table(table)
        if spec is not EVERYTHING:
            check_spec(spec, scanning=False)
        prefix = cellkeys.row_prefix(table, row_key)
        if table in BARE_TABLES:
            first, stop = cellkeys.row_range(table, row_key, spec)

            def work(db: Any) -> list[bytes]:
                return take_keys(db, first, stop, spec.cell_limit) if self._rows.may_have(prefix) else []

            keys = self._call(work, f"reading a row of {table}")
            return cellkeys.row_cells(table, row_key, keys)
        return self._call(self._read_cells, f"reading a row of {table}", prefix, spec)

    def _read_cells(self, db: Any, prefix: bytes, spec: ReadSpec) -> list[Cell]:
        cells = prefix + CELL_KIND
        reader, first = row_reader(spec)
        if first is None or not self._rows.may_have(prefix):
            return []
        with db.iterator(start=cells + first, verify_checksums=True) as stream:
            return reader.read(stream, cells)

    def newest(self, table: str, row_key: bytes, family: str, qualifier: bytes) -> Cell | None:
        """Give the newest cell of a column.  Every read of a page calls it, so it makes as few objects as possible."""
        if table in BARE_TABLES or table not in cellkeys.TAGS:
            check_not_bare(table)
        prefix = cellkeys.TAGS[table] + row_key.replace(b"\x00", KEY_ESCAPE) + KEY_END
        head = column_head(family, qualifier)
        version = self._call(_newest_version, "reading a row", self._rows.may_have, prefix, head)
        return None if version is None else Cell(family, qualifier, *version)

    def value_at(self, table: str, row_key: bytes, family: str, qualifier: bytes, timestamp: int) -> bytes | None:
        if table in BARE_TABLES or table not in cellkeys.TAGS:
            check_not_bare(table)
        prefix = cellkeys.TAGS[table] + row_key.replace(b"\x00", KEY_ESCAPE) + KEY_END
        rest = column_head(family, qualifier) + encode_timestamp(timestamp)
        value: bytes | None = self._call(_value_of, "reading a cell", self._rows.may_have, prefix, rest)
        return value

    def qualifiers(self, table: str, row_key: bytes, limit: int) -> list[bytes]:
        return self.qualifiers_of_rows(table, (row_key,), limit)[0]

    def qualifiers_of_rows(self, table: str, row_keys: Sequence[bytes], limit: int) -> list[list[bytes]]:
        if table not in BARE_TABLES:
            check_bare(table)
        tag = cellkeys.TAGS[table]
        prefixes = [tag + row_key.replace(b"\x00", KEY_ESCAPE) + KEY_END for row_key in row_keys]  # as `row_prefix`

        def work(db: Any) -> dict[bytes, list[bytes]]:
            rows: dict[bytes, list[bytes]] = {}
            if not (asked := [prefix for prefix in prefixes if self._rows.may_have(prefix)]):
                return rows
            stream = db.raw_iterator(verify_checksums=True)
            try:
                seek, valid, key_at, step = stream.seek, stream.valid, stream.key, stream.next
                for prefix in asked:
                    skip = len(prefix)
                    seek(prefix)
                    row: list[bytes] = []
                    while len(row) < limit and valid():
                        key = key_at()
                        if not key.startswith(prefix):
                            break
                        row.append(key[skip:])
                        step()
                    rows[prefix] = row
                return rows
            finally:
                stream.close()

        read = self._call(work, f"reading qualifiers of {table}")
        return [read.get(prefix, []) for prefix in prefixes]

    def absent_rows(self, table: str, row_keys: Iterable[bytes]) -> set[bytes]:
        check_table(table)
        tag = cellkeys.TAGS[table]
        prefixes = sorted([(tag + key.replace(b"\x00", KEY_ESCAPE) + KEY_END, key) for key in row_keys])

        def work(db: Any) -> set[bytes]:
            asked = [item for item in prefixes if self._rows.may_have(item[0])]
            absent = {row_key for _, row_key in prefixes}.difference([row_key for _, row_key in asked])
            if not asked:
                return absent
            stream = db.raw_iterator(verify_checksums=True)
            try:
                return absent | cellkeys.absent_rows(stream, asked)
            finally:
                stream.close()

        return self._call(work, f"looking for rows of {table}")

    def scan(
        self, table: str, start: bytes = b"", end: bytes | None = None, spec: ReadSpec = EVERYTHING
    ) -> Iterator[ScannedRow]:
        """Scan rows.  No iterator and no snapshot is open while the caller runs."""
        check_table(table)
        check_spec(spec, scanning=True)
        self._call(lambda db: None, "scanning")
        low, high = cellkeys.table_range(table, start, end)
        if table in BARE_TABLES:
            if cellkeys.selects_nothing(table, spec):
                return iter(())

            def take(start: bytes, limit: int) -> list[bytes]:
                return self._call(lambda db: take_keys(db, start, high, limit), f"scanning {table}")

            return cellkeys.scan_rows(take, table, low, high, spec)
        return self._scan_cells(table, low, high, spec)

    def _scan_cells(self, table: str, low: bytes, high: bytes, spec: ReadSpec) -> Iterator[ScannedRow]:
        reader, _ = row_reader(spec)
        rows_wanted = _SCAN_FIRST_ROWS

        def work(db: Any) -> tuple[list[ScannedRow], bytes]:
            with db.iterator(start=low, verify_checksums=True) as stream:
                return reader.scan(stream, high, rows_wanted, _SCAN_SLICE_CELLS)

        while low < high:
            rows, low = self._call(work, f"scanning {table}")
            yield from rows
            if not low:
                return
            rows_wanted = min(rows_wanted * 4, _SCAN_MOST_ROWS)

    # --- writes ---

    def mutate_rows(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        """Write rows; the whole call is one atomic batch."""
        with self._handle.write_lock:
            self._apply(rows, durability)

    def _apply(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        """REQUIRES: the write lock."""
        db = self._handle.writable()
        batch = db.write_batch(sync=durability is Durability.SYNC)
        packed = rows if isinstance(rows, PackedRows) else PackedRows.of(rows)
        with suppress(*_FOREIGN_ERRORS):  # then the filter stays incomplete: reads tell what is damaged
            self._rows.read_on(db, len(rows))
        try:
            if packed is None:
                self._fill(db, batch, rows)
            else:
                packed.put_into(batch.put, self._rows.filter)
            batch.put(ENGINE_END_KEY, b"")  # the file of the filter is not valid any more
        except _FOREIGN_ERRORS as error:
            raise self._translated(error, "reading the keys of a delete") from error
        self._commit(batch, durability)

    def _fill(self, db: Any, batch: Any, rows: Sequence[RowMutations]) -> None:
        """Fill a batch from rows, in order; bad mutations are refused here, before anything is written.

        The way of rows with deletes, and of what may have to be refused; `PackedRows` puts all others.
        """
        written: list[bytes] = []
        for table, row_key, mutations in rows:
            check_mutations(table, mutations, _LARGEST_CELL_BYTES)
            prefix = cellkeys.row_prefix(table, row_key)
            for mutation in mutations:
                if not isinstance(mutation, SetCell):
                    deleted = cellkeys.deleted_range(prefix, mutation, table in BARE_TABLES)
                    self._fill_delete(db, batch, *deleted, written)
                    continue
                family, qualifier, timestamp, value = mutation
                key = prefix + qualifier
                if table not in BARE_TABLES:
                    column = self._family_keys[family] + escape(qualifier)
                    key = prefix + CELL_KIND + column + encode_timestamp(timestamp)
                batch.put(key, value)
                written.append(key)
        self._rows.filter.add_rows_of(written)

    def _fill_delete(self, db: Any, batch: Any, low: bytes, high: bytes, written: Iterable[bytes]) -> None:
        """Delete the keys of a range, including keys that the batch itself has `written`."""
        for key in written:
            if low <= key < high:
                batch.delete(key)
        if low < high:
            first, last, deletes, deleted_bytes = b"", b"", 0, 0
            with db.iterator(start=low, verify_checksums=True) as pairs:
                while (pair := next(pairs))[0] < high:
                    key, value = pair
                    batch.delete(key)
                    first, last, deletes = first or key, key, deletes + 1
                    deleted_bytes += len(key) + len(value)
            if deletes:
                self._deleted.count(first, last, deletes, deleted_bytes)

    def _commit(self, batch: Any, durability: Durability) -> None:
        """Write a batch.

        REQUIRES: the write lock.
        """
        is_busy = self._shortening is not None and self._shortening.is_alive()
        try:
            log_bytes = -1 if is_busy else self._log.stat().st_size
        except OSError:
            log_bytes = -1
        if log_bytes < 0:  # LevelDB has begun another one, or is about to
            self._log = max(self.path.glob("*.log"), default=self._log)
            log_bytes = bytes_if_there(self._log)
        may_switch = is_busy or self._compacting or log_bytes > 2 * self.log_limit_bytes
        for log in self.path.glob("*.log") if may_switch and durability is Durability.SYNC else ():
            try:  # what was only flushed to the log before this one comes before what is synced now
                Files().sync_file(log)
            except StorageError:
                if log.exists():  # else it is a table by now
                    raise
        try:
            batch.write()
        except _FOREIGN_ERRORS as error:
            self._handle.fail()
            if durability is Durability.SYNC and self._landed(batch, log_bytes):
                raise CommitUnknown(
                    f"LevelDB at {self.path} wrote the batch but could not sync it: {error}; do the same write again"
                ) from error
            raise self._translated(error, "a write, which was not applied") from error
        if log_bytes + int(batch.approximate_size()) > self.log_limit_bytes:
            # LevelDB may be busy for seconds.  Writers go on into a second log, and wait only if space is scarce.
            is_short = log_bytes < 2 * self.log_limit_bytes
            if is_busy and is_short and self._handle.free_and_log_bytes()[0] > AMPLE_BYTES:
                return
            if self._shortening is not None:
                self._shortening.join()
            thread = threading.Thread(target=self._shorten_log, name="docstore-log")
            with suppress(RuntimeError):  # no more threads: a later write tries again
                thread.start()
                self._shortening = thread

    def shorten_log(self) -> None:
        """Rewrite the log as a table, unless the disk lacks space for it or for a compaction that it might start."""
        with self._handle.write_lock:
            self._handle.writable()
            if self._shortening is not None:
                self._shortening.join()
            self._shorten_log()

    def _shorten_log(self) -> None:
        free_bytes, log_bytes = self._handle.free_and_log_bytes()
        if free_bytes < log_bytes // 2 + RECOVERY_BYTES:
            return
        self._handle.try_call(lambda db: shorten_log(db, _BEFORE_ALL, _NOWHERE, self.keep_room))

    def _landed(self, batch: Any, log_bytes: int) -> bool:
        """Whether the log grew by the whole batch: then only the sync failed, and a reopening applies the batch."""
        newest = max(self.path.glob("*.log"), default=self.path / "none.log")
        before = log_bytes if newest == self._log else 0
        return bytes_if_there(newest) - before >= int(batch.approximate_size())

    # --- maintenance ---

    def compact_deleted(self) -> None:
        due = self._deleted.take_due(self._size_bytes)
        for low, high in due if due and self.keep_room() >= 0 else ():  # else `compact` does it
            self._compact_keys(low, high, "compacting deleted keys")

    def approximate_bytes(self, table: str, start: bytes = b"", end: bytes | None = None) -> int:
        """Estimate the bytes of rows on disk.  LevelDB's memtable does not count."""
        check_table(table)
        low, high = cellkeys.table_range(table, start, end)
        return self._size_bytes(low, high)

    def _size_bytes(self, low: bytes, high: bytes) -> int:
        return int(self._call(lambda db: db.approximate_size(low, high), "sizing a range"))

    def compact(self, table: str, start: bytes = b"", end: bytes | None = None) -> None:
        check_table(table)
        self._compact_keys(*cellkeys.table_range(table, start, end), f"compacting {table}")

    def _compact_keys(self, low: bytes, high: bytes, what: str) -> None:
        with self._handle.write_lock:
            self._compacting += 1
        try:
            self._call(lambda db: db.compact_range(start=_NOWHERE, stop=_NOWHERE), what)
            with self._handle.write_lock:
                self._commit(_ends_of(self._handle.writable(), low, high), Durability.FLUSH)
            self._call(lambda db: db.compact_range(start=low, stop=high), what)
        finally:
            with self._handle.write_lock:
                self._compacting -= 1

    def copy_to(self, path: Path, when_fixed: Callable[[], None]) -> None:
        """Copy a snapshot of the whole engine.

        Args:
            path: a new directory; on return it is an engine, durable.
            when_fixed: called when the snapshot is taken, so that writes may continue.
        """
        copy = LevelDBEngine(path, create=True)

        def work(db: Any) -> None:
            with db.snapshot() as snapshot, copy._handle.write_lock:
                when_fixed()
                target = copy._handle.writable()
                with snapshot.iterator(verify_checksums=True) as pairs:
                    while chunk := list(islice(pairs, _COPY_PAIRS)):
                        with target.write_batch() as batch:
                            for key, value in chunk:
                                batch.put(key, value)
                target.write_batch(sync=True).write()

        try:
            self._call(work, f"copying to {path}")
        finally:
            copy.close()


def rebuild_leveldb(path: Path) -> None:
    """Make a MANIFEST of all that can be read in a LevelDB directory that no process has open; see `tablets.rebuild`.

    Raises:
        StorageError: LevelDB cannot read or write its files.
    """
    files = Files()
    for log in sorted(path.glob("*.log")):
        raw = files.read_whole(log)
        if (sound := without_damage(raw)) != raw:
            files.make_folder(path / "lost")
            files.replace_whole(path / "lost" / f"{log.name}.damaged", raw)
            files.replace_whole(log, sound)
    try:
        plyvel.repair_db(str(path), paranoid_checks=True, block_size=_BLOCK_BYTES)
    except plyvel.Error as error:
        raise StorageError(_errno_of(str(error)), f"LevelDB at {path} cannot be rebuilt: {error}") from error


def _ends_of(db: Any, low: bytes, high: bytes) -> Any:
    """A batch to write before a range is compacted.

    LevelDB does not rewrite files of the deepest level, so deleted data there would stay.  Deletes of two missing keys,
    on both sides of the range, make a file in a higher level that overlaps all of them.
    """
    batch = db.write_batch()
    for key in (low, high):
        if db.get(key) is None:  # a deleted key may have been written again
            batch.delete(key)
    return batch


def _newest_version(db: Any, may_have: Callable[[bytes], bool], prefix: bytes, head: bytes) -> tuple[int, bytes] | None:
    """Timestamp and value of the first cell whose key is prefix, head and a timestamp.

    Raises:
        StopIteration: the end key is missing, so data is lost.
    """
    if not may_have(prefix):
        return None
    head = prefix + head
    cursor = db.raw_iterator(verify_checksums=True)
    try:
        cursor.seek(head)
        if not cursor.valid():
            raise StopIteration
        key, value = cursor.item()
        return (decode_timestamp(key, len(head)), value) if key.startswith(head) else None
    finally:
        cursor.close()


def _value_of(db: Any, may_have: Callable[[bytes], bool], prefix: bytes, rest: bytes) -> Any:
    if not may_have(prefix):
        return None
    key = prefix + rest
    cursor = db.raw_iterator(verify_checksums=True)
    try:
        cursor.seek(key)
        if not cursor.valid():
            raise StopIteration
        return cursor.value() if cursor.key() == key else None
    finally:
        cursor.close()


def _errno_of(text: str) -> int:
    """The errno in the text of a LevelDB error; EIO if there is none."""
    for number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EMFILE):
        if os.strerror(number) in text:
            return number
    return errno.EIO
