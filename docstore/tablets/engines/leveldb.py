"""The engine on LevelDB: the only importer of plyvel, and the owner of every iterator and of the handle's lifetime.

Knows `cellkeys`, `barekeys`, `handle`, `model`, `errors` and the argument checks.  Must not know what a page
is.

Reads.  Every call pins the handle; a scan holds an iterator for one slice, never while the caller has control.

Writes.  One lock orders them.  LevelDB acknowledges and loses whatever follows a failed write, so the handle is closed
and opened again before the next one.  A delete removes what is there when it is applied: up to `MARK_ABOVE_CELLS`
cells one by one, more by a mark.  A mark raises the delete epoch, which later cells carry, and is stored in the same
batch, so epochs never fall over a reopening.  Marks live in the engine's own key area and in memory: a read pays
nothing for them.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    import plyvel
except ModuleNotFoundError:  # plyvel-next: the same names, built for Pythons and systems that plyvel has no wheel for
    import plyvel_next as plyvel

from docstore.model.codec import decode_varint, encode_timestamp, encode_varint, escape
from docstore.model.errors import CommitUnknown, CorruptionError, DocstoreError, StorageError, StoreUnavailable
from docstore.model.format import BARE_TABLES, ENGINE_END_KEY, ENGINE_EPOCH_KEY, ENGINE_TAG
from docstore.model.types import (
    Cell,
    Condition,
    DeleteCells,
    DeleteFamily,
    Durability,
    Mutation,
    ReadSpec,
    RowMutations,
    SetCell,
)
from docstore.storage.engine import (
    EVERYTHING,
    Caps,
    ScannedRow,
    check_bare,
    check_family,
    check_mutations,
    check_not_bare,
    check_spec,
    check_table,
)
from docstore.tablets.engines import barekeys, cellkeys
from docstore.tablets.engines.barekeys import take_keys
from docstore.tablets.engines.cellkeys import CELL_KIND, FamilyKeys, Marks, RowReader, column_head, newest_version
from docstore.tablets.engines.deletedkeys import AMPLE_BYTES, DeletedKeys, shorten_log
from docstore.tablets.engines.handle import Handle

if TYPE_CHECKING:  # loaded at the first write
    from docstore.tablets.engines.cellbatch import Encode

MARK_ABOVE_CELLS = 1000
"""Deleting a million cells in one batch took 0.7 s and 93 MB; a thousand take about a millisecond (measured)."""

_COPY_PAIRS = 1000
_LARGEST_CELL_BYTES = 1 << 20
_WRITE_BUFFER_BYTES = 32 << 20
_CACHE_BYTES = 64 << 20
_BLOCK_BYTES = 16 << 10
"""Takes 18% less than LevelDB's 4 KB, for 6 us more where a block is not in the cache."""
_SCAN_FIRST_ROWS = 16
_SCAN_MOST_ROWS = 1024
_SCAN_SLICE_CELLS = 8192
_ENGINE_AREA_END = bytes((ENGINE_TAG + 1,))
_BEFORE_ALL = b"\0"
_NOWHERE = ENGINE_END_KEY * 2  # after the last key: compacting from here to here empties the log, no more
_FOREIGN_ERRORS = (plyvel.Error, StopIteration)
"""plyvel's iterators end in silence where the last block is damaged.  So none is given a stop: each must come to a key
behind its range, ENGINE_END_KEY at the latest, and StopIteration means damage."""


class _Mark(NamedTuple):
    """A mark on its way into the store; family None deletes the row."""

    prefix: bytes
    family: str | None
    epoch: int


class LevelDBEngine:
    """Cells in a LevelDB directory, for one process.

    Args:
        path: the directory.
        create: make it if it is missing; otherwise a missing one is StoreUnavailable.
    Attributes:
        path: the directory.
        log_limit_bytes: a longer log is made a table: recovery needs as much room on the disk as the log has.
        keep_room: called after that and before compactions; gives the bytes that are free beyond what one needs.
    Raises:
        StoreUnavailable: missing, or held by another engine.
        CorruptionError: LevelDB finds its files damaged.
    """

    caps = Caps(single_writer=True, largest_cell_bytes=_LARGEST_CELL_BYTES, atomic_batches=True)

    def __init__(self, path: str | os.PathLike[str], *, create: bool = False) -> None:
        self.path = Path(path)
        self.log_limit_bytes = _WRITE_BUFFER_BYTES
        self.keep_room: Callable[[], int] = lambda: AMPLE_BYTES
        self._create = create
        self._mark_lock = threading.Lock()
        self._log = self.path / "none.log"
        self._family_keys = FamilyKeys()
        self._encode: Encode | None = None
        self._cursors: dict[bytes, bytes] = {}
        self._marks: Marks = {}
        self._mark_generation = 0
        self._epoch = 0
        self._deleted = DeletedKeys()
        self._handle = Handle(self.path, self._open_database, _FOREIGN_ERRORS, self._translated)
        self._call = self._handle.call

    def _open_database(self) -> Any:
        try:
            # No bloom filters: they serve only `get`, every read here seeks, and they cost 1.25 bytes a cell on disk
            # and in memory.
            database = plyvel.DB(
                str(self.path),
                create_if_missing=self._create,
                paranoid_checks=True,
                block_size=_BLOCK_BYTES,
                write_buffer_size=_WRITE_BUFFER_BYTES,
                lru_cache_size=_CACHE_BYTES,
            )
            if database.get(ENGINE_END_KEY, verify_checksums=True) is None:
                database.put(ENGINE_END_KEY, b"", sync=True)
            own = {}
            with database.iterator(verify_checksums=True) as pairs:
                while (pair := next(pairs))[0] < _ENGINE_AREA_END:
                    own[pair[0]] = pair[1]
        except _FOREIGN_ERRORS as error:
            raise self._opening_error(error) from error
        self._create = False
        self._epoch = decode_varint(own[ENGINE_EPOCH_KEY])[0] if ENGINE_EPOCH_KEY in own else 0
        self._marks = cellkeys.decode_marks(iter(own.items()))
        self._cursors = {}
        return database

    def _opening_error(self, error: Exception) -> DocstoreError:
        text = str(error)
        if "does not exist" in text and "create_if_missing" in text:
            return StoreUnavailable(f"there is no LevelDB directory at {self.path}; create the store first")
        if f"{self.path}/LOCK" in text and not isinstance(error, plyvel.CorruptionError):
            return StoreUnavailable(f"the LevelDB directory {self.path} is held by another open engine: {text}")
        if isinstance(error, plyvel.CorruptionError):
            remedy = "restore a backup, or take bodies and texts from the records with `docstore salvage`"
            return CorruptionError(f"LevelDB found damage on opening: {text}", path=str(self.path), remedy=remedy)
        return self._translated(error, "opening it")

    def _translated(self, error: Exception, what: str) -> DocstoreError:
        text = str(error)
        if isinstance(error, StopIteration):
            return CorruptionError(
                f"LevelDB's keys end too early on {what}", path=str(self.path), expected="its end key"
            )
        if isinstance(error, plyvel.CorruptionError):
            return CorruptionError(f"LevelDB found damage on {what}: {text}", path=str(self.path))
        return StorageError(_errno_of(text), f"LevelDB at {self.path} failed on {what}: {text}; free space, try again")

    def close(self) -> None:
        """Empty LevelDB's log, so that the next open replays nothing, and let go; a second call does nothing."""
        self._handle.close(lambda db: db.compact_range(start=_NOWHERE, stop=_NOWHERE))

    # --- reads ---

    def _stream(self, make: Callable[..., Any], **options: Any) -> tuple[Any, Marks]:
        """An iterator, and the marks that belong to what it sees: a batch with a mark becomes visible whole."""
        generation = self._mark_generation
        if not generation & 1:
            marks = self._marks
            stream = make(**options)
            if self._mark_generation == generation:
                return stream, marks
            stream.close()
        with self._mark_lock:
            return make(**options), self._marks

    def read_row(self, table: str, row_key: bytes, spec: ReadSpec = EVERYTHING) -> list[Cell]:
        """See `Engine.read_row`."""
        check_table(table)
        if spec is not EVERYTHING:
            check_spec(spec, scanning=False)
        if table in BARE_TABLES:
            return self._read_bare_row(table, row_key, spec)
        prefix = cellkeys.row_prefix(table, row_key)
        return self._call(lambda db: self._read_cells(db, prefix, RowReader(spec)), f"reading a row of {table}")

    def _read_cells(self, db: Any, prefix: bytes, reader: RowReader) -> list[Cell]:
        cells = prefix + CELL_KIND
        start = reader.first_key(cells)
        if start is None:
            return []
        stream, marks = self._stream(db.iterator, start=start, verify_checksums=True)
        try:
            return reader.start(stream).read(stream, cells, marks.get(prefix))[0]
        finally:
            stream.close()

    def newest(self, table: str, row_key: bytes, family: str, qualifier: bytes) -> Cell | None:
        """See `Engine.newest`; a page's body is found so, thus nothing is made here that a read can do without."""
        if table in BARE_TABLES or table not in cellkeys.TAGS:
            check_not_bare(table)
        prefix = cellkeys.TAGS[table] + escape(row_key)
        head = prefix + column_head(family, qualifier)
        return self._call(lambda db: self._newest(db, prefix, head, family, qualifier), f"reading a row of {table}")

    def _newest(self, db: Any, prefix: bytes, head: bytes, family: str, qualifier: bytes) -> Cell | None:
        stream, marks = self._stream(db.raw_iterator, verify_checksums=True)
        try:
            epoch = marks[prefix].epoch_of(family) if prefix in marks else 0
            found = newest_version(stream, head, epoch)
            return found and Cell(family, qualifier, *found)
        finally:
            stream.close()

    def _read_bare_row(self, table: str, row_key: bytes, spec: ReadSpec) -> list[Cell]:
        first, stop = barekeys.row_range(table, row_key, spec)
        keys = self._call(lambda db: take_keys(db, first, stop, spec.cell_limit), f"reading a row of {table}")
        return barekeys.row_cells(table, row_key, keys)

    def qualifiers(self, table: str, row_key: bytes, limit: int) -> list[bytes]:
        """See `Engine.qualifiers`."""
        return self.qualifiers_of_rows(table, (row_key,), limit)[0]

    def qualifiers_of_rows(self, table: str, row_keys: Sequence[bytes], limit: int) -> list[list[bytes]]:
        """See `Engine.qualifiers_of_rows`."""
        if table not in BARE_TABLES:
            check_bare(table)
        tag = cellkeys.TAGS[table]

        def work(db: Any) -> list[list[bytes]]:
            stream = db.raw_iterator(verify_checksums=True)
            try:
                seek, valid, key_at, step = stream.seek, stream.valid, stream.key, stream.next
                found = []
                for row_key in row_keys:
                    prefix = tag + escape(row_key)
                    skip = len(prefix)
                    seek(prefix)
                    row: list[bytes] = []
                    while len(row) < limit and valid():
                        key = key_at()
                        if not key.startswith(prefix):
                            break
                        row.append(key[skip:])
                        step()
                    found.append(row)
                return found
            finally:
                stream.close()

        return self._call(work, f"reading qualifiers of {table}")

    def absent_rows(self, table: str, row_keys: Iterable[bytes]) -> set[bytes]:
        """See `Engine.absent_rows`."""
        check_table(table)
        prefixes = sorted((cellkeys.row_prefix(table, row_key), row_key) for row_key in row_keys)

        def work(db: Any) -> set[bytes]:
            stream = db.raw_iterator(verify_checksums=True)
            try:
                return cellkeys.absent_rows(stream, prefixes)
            finally:
                stream.close()

        return self._call(work, f"looking for rows of {table}")

    def scan(
        self, table: str, start: bytes = b"", end: bytes | None = None, spec: ReadSpec = EVERYTHING
    ) -> Iterator[ScannedRow]:
        """See `Engine.scan`; holds neither iterator nor snapshot while the caller has control."""
        check_table(table)
        check_spec(spec, scanning=True)
        self._call(lambda db: None, "scanning")
        low, high = cellkeys.table_range(table, start, end)
        if table in BARE_TABLES:
            if barekeys.holds_nothing(table, spec):
                return iter(())
            take = self._take_of(high, f"scanning {table}")
            return barekeys.scan_rows(take, table, low, high, spec)
        return self._scan_cells(table, low, high, spec)

    def _scan_cells(self, table: str, low: bytes, high: bytes, spec: ReadSpec) -> Iterator[ScannedRow]:
        reader = RowReader(spec)
        rows_wanted = _SCAN_FIRST_ROWS

        def work(db: Any) -> tuple[list[ScannedRow], bytes]:
            found: list[ScannedRow] = []
            stream, marks = self._stream(db.iterator, start=low, verify_checksums=True)
            try:
                reader.start(stream)
                cells_read, examined = 0, 0
                prefix = b""
                while reader.pair[0] < high:
                    if examined == rows_wanted or cells_read >= _SCAN_SLICE_CELLS:
                        return found, cellkeys.range_end(prefix)
                    key = reader.pair[0]
                    prefix = key[: cellkeys.prefix_length(key)]
                    cells, truncated = reader.read(stream, prefix + CELL_KIND, marks.get(prefix))
                    if cells:
                        found.append(ScannedRow(cellkeys.row_key_of(prefix), cells, truncated))
                    reader.advance_to(stream, cellkeys.range_end(prefix))
                    examined += 1
                    cells_read += len(cells)
                return found, b""
            finally:
                stream.close()

        while low < high:
            rows, low = self._call(work, f"scanning {table}")
            yield from rows
            if not low:
                return
            rows_wanted = min(rows_wanted * 4, _SCAN_MOST_ROWS)

    def _take_of(self, high: bytes, what: str) -> Callable[[bytes, int], list[bytes]]:
        return lambda low, limit: self._call(lambda db: take_keys(db, low, high, limit), what)

    # --- writes ---

    def mutate_rows(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        """See `Engine.mutate_rows`; here the whole call is one batch."""
        with self._handle.write_lock:
            self._apply(rows, durability)

    def _apply(self, rows: Sequence[RowMutations], durability: Durability) -> None:
        db = self._handle.writable()
        batch = db.write_batch(sync=durability is Durability.SYNC)
        marks: list[_Mark] = []
        pairs = self._encode_cells(rows)
        if pairs is not None:
            deque(map(batch.put, *pairs), maxlen=0)
        else:
            try:
                marks = self._put_with_deletes(db, batch, rows)
            except _FOREIGN_ERRORS as error:
                raise self._translated(error, "reading what a delete removes") from error
        self._commit(batch, marks, durability)

    def _encode_cells(self, rows: Sequence[RowMutations]) -> tuple[list[bytes], list[bytes]] | None:
        """Keys and values of rows that only set cells; None where there is a delete, or anything to refuse."""
        if self._encode is None:
            # Loaded at the first write: native code comes with it, which reading does without.
            self._encode = import_module("docstore.tablets.engines.cellbatch").encoder(_LARGEST_CELL_BYTES)
        return self._encode(rows, encode_varint(self._epoch), self._family_keys)

    def _put_with_deletes(self, db: Any, batch: Any, rows: Sequence[RowMutations]) -> list[_Mark]:
        """Fill a batch from any rows, in their order; gives the marks that it makes."""
        for table, _row_key, mutations in rows:
            check_mutations(table, mutations, _LARGEST_CELL_BYTES)
        epoch = self._epoch
        marks: list[_Mark] = []
        pending: dict[bytes, dict[bytes, bytes | None]] = {}
        for table, row_key, mutations in rows:
            prefix = cellkeys.row_prefix(table, row_key)
            row = pending.setdefault(prefix, {})
            for mutation in mutations:
                if isinstance(mutation, SetCell):
                    key, value = self._cell(table, prefix, mutation, epoch)
                    row[key] = value
                    continue
                bare = table in BARE_TABLES
                low, high = cellkeys.deleted_range(prefix, mutation, bare)
                keeps_all = isinstance(mutation, DeleteCells) or bare
                there = take_keys(db, low, high, None if keeps_all else MARK_ABOVE_CELLS + 1)
                if not keeps_all and len(there) > MARK_ABOVE_CELLS:
                    epoch += 1
                    marks.append(_Mark(prefix, mutation.family if isinstance(mutation, DeleteFamily) else None, epoch))
                    there = []
                row.update(dict.fromkeys([key for key in row if low <= key < high], None))
                row.update(dict.fromkeys(there, None))
        for row in pending.values():
            self._deleted.note([key for key, new_value in row.items() if new_value is None])
            for key, new_value in row.items():
                if new_value is None:
                    batch.delete(key)
                else:
                    batch.put(key, new_value)
        for mark in marks:
            batch.put(cellkeys.mark_key(mark.prefix, mark.family), encode_varint(mark.epoch))
        if marks:
            batch.put(ENGINE_EPOCH_KEY, encode_varint(epoch))
        return marks

    def _cell(self, table: str, prefix: bytes, cell: SetCell, epoch: int) -> tuple[bytes, bytes]:
        if table in BARE_TABLES:
            return prefix + cell.qualifier, b""
        family_key = self._family_keys[cell.family]
        stamp = encode_timestamp(cell.timestamp)
        return prefix + CELL_KIND + family_key + escape(cell.qualifier) + stamp, encode_varint(epoch) + cell.value

    def _commit(self, batch: Any, marks: Sequence[_Mark], durability: Durability) -> None:
        """Write a batch, and make its marks visible together with it; the write lock is held."""
        log_bytes = self._measure_log()
        try:
            if marks:
                with self._mark_lock:
                    self._mark_generation += 1
                    try:
                        batch.write()
                        for prefix, family, epoch in marks:
                            self._marks = cellkeys.with_mark(self._marks, prefix, family, epoch)
                            self._cursors.pop(prefix, None)
                            self._epoch = epoch
                    finally:
                        self._mark_generation += 1
            else:
                batch.write()
        except _FOREIGN_ERRORS as error:
            self._handle.fail()
            if durability is Durability.SYNC and self._landed(batch, log_bytes):
                raise CommitUnknown(
                    f"LevelDB at {self.path} wrote the batch but could not sync it: {error}; do the same write again"
                ) from error
            raise self._translated(error, "a write, which was not applied") from error
        if log_bytes + int(batch.approximate_size()) > self.log_limit_bytes:
            self._shorten_log()

    def shorten_log(self) -> None:
        """Make a table of the log, unless LevelDB might then compact without the room for it."""
        with self._handle.write_lock:
            self._shorten_log()

    def _shorten_log(self) -> None:
        try:
            shorten_log(self._handle.writable(), _BEFORE_ALL, _NOWHERE, self.keep_room)
        except _FOREIGN_ERRORS:
            self._handle.fail()  # what was written is in the log: the next write opens LevelDB again

    def _measure_log(self) -> int:
        """Size of the log that the next write goes to, which `_log` names afterwards."""
        with suppress(OSError):
            return self._log.stat().st_size
        self._log = max(self.path.glob("*.log"), default=self.path / "none.log")
        return self._log.stat().st_size if self._log.is_file() else 0

    def _landed(self, batch: Any, log_bytes: int) -> bool:
        """Whether the log grew by the whole batch: then only its sync failed, and a reopening will apply it."""
        newest = max(self.path.glob("*.log"), default=self.path / "none.log")
        before = log_bytes if newest == self._log else 0
        return newest.is_file() and newest.stat().st_size - before >= int(batch.approximate_size())

    def check_and_mutate(
        self,
        table: str,
        row_key: bytes,
        condition: Condition,
        then: Sequence[Mutation],
        otherwise: Sequence[Mutation] = (),
        durability: Durability = Durability.SYNC,
    ) -> bool:
        """See `Engine.check_and_mutate`."""
        check_family(condition.family)
        check_mutations(table, then, _LARGEST_CELL_BYTES)
        check_mutations(table, otherwise, _LARGEST_CELL_BYTES)
        with self._handle.write_lock:
            db = self._handle.writable()
            try:
                held = self._newest_value(db, table, row_key, condition) == condition.value
            except _FOREIGN_ERRORS as error:
                raise self._translated(error, f"reading a row of {table}") from error
            mutations = then if held else otherwise
            if mutations:
                self._apply([RowMutations(table, row_key, mutations)], durability)
            return held

    def _newest_value(self, db: Any, table: str, row_key: bytes, condition: Condition) -> bytes | None:
        """The newest value of the condition's column, or None."""
        prefix = cellkeys.row_prefix(table, row_key)
        if table in BARE_TABLES:
            there = condition.family == BARE_TABLES[table] and db.get(
                prefix + condition.qualifier, verify_checksums=True
            )
            return b"" if there == b"" else None
        head = prefix + column_head(condition.family, condition.qualifier)
        cell = self._newest(db, prefix, head, condition.family, condition.qualifier)
        return cell and cell.value

    # --- upkeep ---

    def finish_deletes(self, table: str, row_key: bytes, max_cells: int = 1000) -> bool:
        """See `Engine.finish_deletes`."""
        check_table(table)
        with self._handle.write_lock:
            db = self._handle.writable()
            finished = self._finish_slice(db, cellkeys.row_prefix(table, row_key), max_cells)
        if finished:
            due = self._deleted.take_due(self._size_bytes)
            for low, high in due if due and self.keep_room() >= 0 else ():  # else `compact` does it
                self._compact_keys(low, high, "compacting deleted keys")
        return finished

    def _finish_slice(self, db: Any, prefix: bytes, max_cells: int) -> bool:
        """Look at up to `max_cells` cells behind the row's cursor and remove the deleted ones; the marks go last."""
        row_marks = self._marks.get(prefix)
        if row_marks is None:
            return True
        cells = prefix + CELL_KIND
        batch = db.write_batch()
        low, high = self._cursors.get(prefix, cells), cellkeys.range_end(cells)
        seen = 0
        try:
            with db.iterator(start=low, verify_checksums=True) as stream:
                while (pair := next(stream))[0] < high and seen < max_cells:
                    seen += 1
                    low = pair[0] + b"\x00"
                    if decode_varint(pair[1])[0] < row_marks.epoch_of(cellkeys.family_of(pair[0], len(cells))):
                        batch.delete(pair[0])
                        self._deleted.note(pair[:1])
        except _FOREIGN_ERRORS as error:
            raise self._translated(error, "reading what a mark has deleted") from error
        finished = bool(pair[0] >= high)
        if finished:
            batch.delete(cellkeys.mark_key(prefix, None))
            for family in row_marks.family_epochs:
                batch.delete(cellkeys.mark_key(prefix, family))
        # Unsynced is enough: the log keeps the order, so a mark never goes before the cells that it hides.
        self._commit(batch, [], Durability.FLUSH)
        if finished:
            self._marks = {other: marks for other, marks in self._marks.items() if other != prefix}
            self._cursors.pop(prefix, None)
        else:
            self._cursors[prefix] = low
        return finished

    def approximate_bytes(self, table: str, start: bytes = b"", end: bytes | None = None) -> int:
        """See `Engine.approximate_bytes`; what is still in LevelDB's memory counts nothing."""
        check_table(table)
        low, high = cellkeys.table_range(table, start, end)
        return self._size_bytes(low, high)

    def _size_bytes(self, low: bytes, high: bytes) -> int:
        return int(self._call(lambda db: db.approximate_size(low, high), "sizing a range"))

    def compact(self, table: str, start: bytes = b"", end: bytes | None = None) -> None:
        """See `Engine.compact`; unfinished deletes of the range are finished first."""
        check_table(table)
        low, high = cellkeys.table_range(table, start, end)
        for prefix in sorted(self._marks):
            if low <= prefix < high:
                while not self.finish_deletes(table, cellkeys.row_key_of(prefix)):
                    pass
        self._compact_keys(low, high, f"compacting {table}")

    def _compact_keys(self, low: bytes, high: bytes, what: str) -> None:
        # LevelDB rewrites no file of the deepest level that has any, so what was deleted there would stay.  Deletes of
        # two keys that are not there, on both sides of the range, make a file above that overlaps all of them.
        self._call(lambda db: db.compact_range(start=_NOWHERE, stop=_NOWHERE), what)
        with self._handle.write_lock:
            db = self._handle.writable()
            batch = db.write_batch()
            for key in (low, high):
                if db.get(key) is None:  # what was deleted may have been written again
                    batch.delete(key)
            self._commit(batch, [], Durability.FLUSH)
        self._call(lambda db: db.compact_range(start=low, stop=high), what)

    def copy_to(self, path: Path, when_fixed: Callable[[], None]) -> None:
        """See `Copyable`; marks and epochs are keys like all others."""
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


def _errno_of(text: str) -> int:
    """The number behind LevelDB's words for a failed call."""
    for number in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EMFILE):
        if os.strerror(number) in text:
            return number
    return errno.EIO
