"""The index of a store in a directory: sorted runs in files, and a log in the engine.

A crash loses no committed posting.  The native object `Runs` has levels of runs, a table in memory (the memtable),
look-ups and merges.  `RunIndex` alone changes it, its files and its log.

*Log.*  Each group that posts is one row of a log, in the batch of the group's other rows.  After the commit its texts
go into the memtable; if its outcome is unknown, after the next commit shows it.  At open the log gives what the runs
lack.  Each row names the first group whose runs were not known to be durable, so lost runs are detected, and rows of
groups before it are deleted.

*Runs.*  A run keeps 40 bits of each key (docs/format.md), and the first `BUCKET_LIMIT` texts of it.  Two keys that have
these bits in common give a false candidate, 1 in 3,000 look-ups at 360 million postings; the detector rejects it.

*Damage.*  If runs are damaged or missing, all texts are posted again from the stored pages.  A look-up that meets
damage waits for this.  It goes on without the damaged postings in a dry run, during a commit, and if posting fails.

*Files.*  A run is named by its groups, ``first-end``, written sequentially, memory-mapped, and never changed.  After a
crash the runs that no other run covers are the index.  A background thread syncs, unlinks and merges.  Short tasks come
first; between them the smallest merge advances by one bounded step.  A run is renamed after its fsync, so a file with
the name of a run is complete, also after power loss; the sources of a merge are removed only after that.  After a
failure no later task runs, and the next call raises the error.
"""

from __future__ import annotations

import logging
import mmap
import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from docstore.compiled import docstore_native
from docstore.dedup.index import (
    BUCKET_LIMIT,
    LOOKS,
    NOTHING_NEW,
    IndexQuery,
    NewPostings,
    Proposal,
    TextIndex,
)
from docstore.model.choices import Durability
from docstore.model.errors import CorruptionError, DocstoreError, StorageError, StoreUnavailable, UnsupportedFormat
from docstore.model.format import (
    RUN_LOG_CELL_TEXTS,
    RUN_LOG_FAMILY,
    RUN_LOG_PREFIX,
    RUN_PART_SUFFIX,
    RUN_REBUILD_ROW,
    RUN_SUFFIX,
    RUN_TEXT_GONE,
)
from docstore.model.sets import Keys
from docstore.model.types import DeleteRow, RowMutations, SetCell
from docstore.storage.engine import Engine, ScannedRow, rows_of_table
from docstore.storage.files import AppendFile, Files, translated
from docstore.storage.heap import trim_heap

TABLE: Final = "meta"
FLUSH_TEXTS: Final = 2048
FLUSH_POSTINGS: Final = 1 << 17
"""The memtable is flushed at so many postings, however few texts they are of: some 5 MB in native code."""
GROUP_TEXTS: Final = 256
"""Texts that a rebuild posts together."""
SYNC_BYTES: Final = 8 << 20
"""Bytes before the next fsync of a merge: a commit of the engine waits for at most so much of it."""
_MERGED_AT_CLOSE_BYTES: Final = 32 << 20
_TRIMMED_AT_ONCE: Final = 256
_RETRY_TEXTS: Final = 256
_WORTH_A_REBUILD: Final = 4
_LOG_END: Final = RUN_LOG_PREFIX[:-1] + bytes((RUN_LOG_PREFIX[-1] + 1,))
_RUN_NAME: Final = re.compile(f"([0-9a-f]{{16}})-([0-9a-f]{{16}}){re.escape(RUN_SUFFIX)}")

_LOG: Final = logging.getLogger(__name__)


# --- the index and its log


@dataclass(eq=False)
class _Pruning:
    """The state of a pruning.

    Attributes:
        live: numbers of texts that stay, ascending; None until they are known.
        kept: texts that stay because they were posted since, or a look-up saw them while `live` was unknown.
    """

    live: Keys | None = None
    kept: set[int] = field(default_factory=set)

    def stays(self, text: int) -> bool:
        """Whether the postings of a text will still exist after the pruning."""
        if self.live is None:
            self.kept.add(text)
            return True
        at = int(np.searchsorted(self.live, np.uint64(text)))
        return text in self.kept or (at < len(self.live) and int(self.live[at]) == text)


class RunIndex(TextIndex):
    """The index of the only process that has the store.  Thread-safe; one thread at a time posts."""

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        texts: Callable[[], Iterable[IndexQuery]],
        files: Files | None = None,
        *,
        lower: RunIndex | None = None,
        flush_texts: int = FLUSH_TEXTS,
    ) -> None:
        """Open the runs in a folder and replay the log.

        Args:
            engine: has the log.
            folder: of the runs; created if it does not exist.
            texts: gives every text of the index, from the stored pages; called if runs are damaged or missing.
            lower: for a dry run, the index of the store under this one: look-ups see its postings first.
            flush_texts: texts in the memtable before it is flushed.
        Raises:
            StorageError: the folder cannot be read or created, or the engine cannot be read.
        """
        self._engine = engine
        self._folder = folder
        self._all_texts = texts
        self._files = Files() if files is None else files
        self._lower, self._flush_texts = lower, flush_texts
        self._lock: AbstractContextManager[object] = threading.RLock() if lower is None else lower._lock
        """Guards all fields below."""
        self._has_written = False
        self._unknown: list[int] = []
        """Groups whose outcome the next commit shows."""
        self._is_committing = False
        """Whether a group may have rows that `follow` has not got yet: a rebuild now would lose its texts."""
        self._following: int | None = None
        """The group that `follow` is working on."""
        self._writes_since_failure = 0
        """1 and the texts posted since the index failed; 0 while it works."""
        self._has_warned = False
        self._pruning: _Pruning | None = None
        self._storage = RunFiles(folder, self._files)
        try:
            self._open()
        except (CorruptionError, UnsupportedFormat) as error:
            _LOG.warning(
                "the detector's index in %s is rebuilt from the stored pages: %s",
                folder,
                error.what if isinstance(error, CorruptionError) else error,
            )
            self.rebuild()

    # --- opening

    def _open(self) -> None:
        """Open runs and log over a fresh storage; this object changes only if all of it succeeds."""
        if self._engine.read_row(TABLE, RUN_REBUILD_ROW):
            raise CorruptionError(
                "they are out of date: a rebuild of the runs was not finished, or the rows were rebuilt",
                path=str(self._folder),
            )
        runs = docstore_native.Runs(BUCKET_LIMIT, self._flush_texts, FLUSH_POSTINGS)
        for name in sorted(self._storage.names(), key=lambda name: (name.first, -name.end)):
            if not runs.open(*name, self._storage.open(name)):
                self._storage.remove(name)  # covered by a merged run
        rows = [(_number_of(row.row_key), [cell.value for cell in row.cells]) for row in self._log_rows()]
        durable_end = docstore_native.decode_varint(rows[-1][1][0])[0] if rows else 0
        if durable_end > runs.end:
            raise CorruptionError(
                "runs of postings are missing",
                path=str(self._folder),
                expected=f"groups below {durable_end}",
                found=f"groups below {runs.end}",
            )
        self._writes_since_failure = 0
        for number, cells in rows:
            if number >= runs.next:
                self._add(runs, number, cells)
        self._runs = runs
        self._log = [number for number, _ in rows]
        self._newest = self._log[-1] if rows else -1
        self._next = runs.next
        self._durable_end = self._logged_durable = durable_end
        """Groups below the first number are in durable runs; the second is the number in the newest row."""
        self._unknown = []
        self._pruning = None  # the state on disk is known again

    def _log_rows(self) -> Iterator[ScannedRow]:
        return self._engine.scan(TABLE, RUN_LOG_PREFIX, _LOG_END)

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever written here."""
        return not self._log and self._next == 0

    def rebuild(self) -> int:
        """Rebuild all runs from the stored texts; no other thread may write meanwhile.

        Returns the number of texts.

        Raises:
            StorageError: no space; the next open starts again.
        """
        with self._lock:
            begun = SetCell(RUN_LOG_FAMILY, b"", 0, b"")
            self._engine.mutate_rows([RowMutations(TABLE, RUN_REBUILD_ROW, [begun])], Durability.SYNC)
            self._storage.close()
            self._storage = storage = RunFiles(self._folder, self._files)
            try:
                for name in storage.names():
                    storage.remove(name)
                storage.finish_merges()
                runs = docstore_native.Runs(BUCKET_LIMIT, self._flush_texts, FLUSH_POSTINGS)
                source = iter(self._all_texts())
                total = 0
                while group := list(islice(source, GROUP_TEXTS)):
                    total += len(group)
                    new = docstore_native.Postings()
                    for query in group:  # as its page would be posted
                        proposal = runs.propose(query, LOOKS, new)
                        if not proposal.has_own:
                            new.post(query, proposal)
                    runs.add(runs.next, new.log(0, RUN_LOG_CELL_TEXTS))
                    self._settle(runs)
                while runs.is_merging:
                    storage.finish_merges()
                    self._settle(runs)
                storage.finish_merges()
            finally:
                storage.close()
            log = _log_row(runs.end, runs.log(RUN_LOG_CELL_TEXTS))
            old = {row.row_key for row in self._log_rows()}
            rows = [log._replace(mutations=[DeleteRow(), *log.mutations])]
            rows += (RowMutations(TABLE, key, [DeleteRow()]) for key in (*(old - {log.row_key}), RUN_REBUILD_ROW))
            self._engine.mutate_rows(rows, Durability.SYNC)
            self._storage = RunFiles(self._folder, self._files)
            self._open()
            return total

    def damaged(self) -> list[str]:
        """Damage of the runs; reads all of them, while writers go on."""
        storage = self._storage
        try:
            storage.finish_merges()
        except DocstoreError as error:  # a background task failed, such as one that met a damaged run
            if storage is self._storage:
                return [str(error)]
        with self._lock:
            runs = self._runs.runs
        return [f"run {run.span[0]:x}-{run.span[1]:x}: {part}" for run in runs for part in run.damaged_parts()]

    # --- looking up

    def propose(self, query: IndexQuery, new: NewPostings = NOTHING_NEW) -> Proposal:
        with self._lock:
            lower = self._lower
            if self._unknown:
                self._take_unknown()
            if lower is not None and lower._unknown:
                lower._take_unknown()
            asked = query, LOOKS, new.recent, None if lower is None else lower._runs
            try:
                found = self._runs.propose(*asked)
            except CorruptionError as error:  # runs are not verified at open: that would read all of them
                if lower is None and not (self._is_committing or self._writes_since_failure):
                    self._rebuild_after(error)
                elif not self._has_warned:
                    _LOG.warning("the detector's index in %s lacks damaged postings: %s", self._folder, error)
                    self._has_warned = True
                found = self._runs.propose(*asked, skips_damage=True)
            if self._pruning is not None and found.has_own and not self._pruning.stays(query.own_number):
                found = found.without_own()
        return found

    def lacking(self, queries: docstore_native.Queries) -> list[int]:
        """Rows of a check whose texts no look-up finds; all its rows if single look-ups have to say that."""
        with self._lock:
            self._take_unknown()
            if self._lower is None and self._pruning is None:
                with suppress(CorruptionError):
                    return self._runs.lacking(queries, LOOKS)
            return queries.rows()

    def texts_in_order(self) -> Keys:
        """Give the keys of all texts: first those of the runs, then those that are in no run yet."""
        with self._lock:
            self._take_unknown()
            return np.concatenate([_texts_of(self._runs.runs), np.frombuffer(self._runs.recent_texts(), np.uint64)])

    # --- writing

    def post(self, new: NewPostings, query: IndexQuery, proposal: Proposal | None = None) -> None:
        if new.recent is None:
            new.recent = docstore_native.Postings()
        new.recent.post(query, proposal)
        pruning = self._pruning  # it begins under the lock of the writer that posts
        if pruning is not None:  # stored postings may be dropped
            with self._lock:
                pruning.kept.add(query.own_number)

    def log(self, new: NewPostings) -> list[RowMutations]:
        """Give the row of the log.  It is written also if the log is empty, to mark that there is an index."""
        if new.recent is None and self._log:
            return []
        posted = docstore_native.Postings() if new.recent is None else new.recent
        with self._lock:
            self._is_committing = True
            return [_log_row(self._next, posted.log(self._durable_end, RUN_LOG_CELL_TEXTS))]

    def follow(self, rows: Sequence[RowMutations], is_sure: bool) -> None:
        """Take over the postings of a commit, which are in its row of the log."""
        with self._lock:
            for _, row_key, mutations in rows_of_table(rows, TABLE):
                if not row_key.startswith(RUN_LOG_PREFIX):
                    continue
                number = _number_of(row_key)
                if number == self._following:  # an interrupt stopped this: postings may be missing in memory
                    self._recover(_RETRY_TEXTS + 1)
                self._following = number
                self._is_committing = False
                if number not in self._log:  # else the runs were opened again, and the row was replayed
                    self._next = number + 1
                    self._log.append(number)
                    if is_sure:
                        cells = [cell.value for cell in mutations if isinstance(cell, SetCell)]
                        self._logged_durable, _ = docstore_native.decode_varint(cells[0])
                        self._take(number, cells)
                    else:
                        self._unknown.append(number)
                self._following = None

    def _take_unknown(self) -> None:
        """Take groups of unknown outcome that the log has, without waiting for the next commit."""
        while self._unknown:
            number, *others = self._unknown
            cells = self._logged(number)
            if not cells:
                return
            self._unknown = []
            self._take(number, cells)
            self._unknown += others

    def _logged(self, number: int) -> list[bytes]:
        return [cell.value for cell in self._engine.read_row(TABLE, _log_key(number))]

    def _take(self, number: int, cells: Sequence[bytes]) -> None:
        """Take the texts of a group into the memtable, after those of earlier groups of unknown outcome."""
        self._newest, self._has_written = number, True
        unknown, self._unknown = self._unknown, []  # whether they were written can be read now
        groups = [*((group, self._logged(group)) for group in unknown), (number, cells)]
        texts = 0
        try:
            if groups[0][0] < self._runs.next:
                raise CorruptionError("the runs were rebuilt while a group was written", path=str(self._folder))
            for group, its_cells in groups:
                texts = self._add(self._runs, group, its_cells)
        except CorruptionError as error:
            self._rebuild_after(error)
            return
        if self._writes_since_failure:
            self._recover(texts, rebuilds=True)
        else:
            self._trim()

    def _add(self, runs: docstore_native.Runs, number: int, cells: Sequence[bytes]) -> int:
        """Take a group of the log into the memtable; -> number of its texts.

        If the disk fails, its postings stay in memory and in the log.
        """
        texts = runs.add(number, cells)
        try:
            self._settle(runs)
        except CorruptionError:
            raise
        except DocstoreError as error:
            if not self._writes_since_failure:
                _LOG.warning("the detector's index in %s continues in memory and in its log: %s", self._folder, error)
                self._writes_since_failure = 1
        return texts

    def _adopt(self, runs: docstore_native.Runs) -> None:
        """Replace the sources of finished merges, and remove their files."""
        for name in self._storage.merged():
            replaced = runs.adopt(*name, self._storage.open(name))
            while replaced:
                self._storage.remove(Span(*replaced[-1].span), replaced.pop())

    def _settle(self, runs: docstore_native.Runs) -> None:
        """Adopt finished merges, flush a full memtable, and begin the next merges.

        Raises:
            CorruptionError: a run is damaged.
            StorageError: a run cannot be written; the log still has the postings.
        """
        storage = self._storage
        self._adopt(runs)
        if runs.is_full and (flushed := runs.flush()) is not None:
            runs.adopt(*flushed.span, storage.write(Span(*flushed.span), flushed))
        for parts in runs.merge():
            storage.merge(Span(*parts.span), parts, parts.size_bytes)

    def _rebuild_after(self, error: DocstoreError) -> None:
        try:
            if not self._is_committing:
                _LOG.warning("the detector's index is rebuilt from the stored pages: %s", error)
                self.rebuild()
                return
        except DocstoreError as failure:
            _LOG.warning("the detector's index in %s goes on without damaged postings: %s", self._folder, failure)
        self._writes_since_failure = max(self._writes_since_failure, 1)

    def _recover(self, texts: int, *, rebuilds: bool = False) -> None:
        """After a failure open the files again from time to time; rebuild damaged ones if nobody else writes."""
        self._writes_since_failure += texts
        if self._writes_since_failure <= _RETRY_TEXTS:
            return
        try:
            self._storage.close()
            self._storage = RunFiles(self._folder, self._files)
            self._open()
        except DocstoreError as error:
            self._writes_since_failure = 1
            if rebuilds and isinstance(error, CorruptionError | UnsupportedFormat):
                self._rebuild_after(error)

    def _trim(self) -> None:
        """Delete rows of the log whose groups are in durable runs by the newest row."""
        end = min(self._logged_durable, self._newest)
        if self._log and self._log[0] < end:
            old = [number for number in self._log[:_TRIMMED_AT_ONCE] if number < end]
            with suppress(StorageError):
                self._engine.mutate_rows(_deleted(old), Durability.NONE)
                self._log = self._log[len(old) :]
        if self._log and self._log[0] < self._runs.end > self._durable_end:
            self._storage.sync_names()
        if self._storage.is_durable:
            self._durable_end = max(self._durable_end, self._runs.end)

    # --- pruning

    def begin_prune(self) -> None:
        with self._lock:
            if not self._writes_since_failure:  # else postings that an earlier pruning dropped may still be in memory
                self._pruning = _Pruning()

    def prune(self, live: Keys | None) -> int:
        """Remove texts without a live page; once a quarter of the texts is gone, a thread rewrites the runs."""
        if live is None:
            self._pruning = None
            return 0
        with self._lock:  # a writer that adds to the runs lets go of the GIL
            runs, storage = self._runs, self._storage
            parts, before = runs.runs, runs.dropped
        stored = _texts_of(parts)
        gone = int(np.isin(stored, live, invert=True).sum())
        with self._lock:
            is_worth = gone * _WORTH_A_REBUILD >= max(len(stored), 1)
            if self._pruning is None or self._runs is not runs or self._writes_since_failure or not is_worth:
                self._pruning = None
                return 0
            self._pruning.live = np.union1d(live, np.array(sorted(self._pruning.kept), np.uint64))
            runs.prune(self._pruning.live)
        try:
            while self._continue_pruning(runs):
                storage.finish_merges()
        except DocstoreError as error:  # or a writer has rebuilt the runs
            with self._lock:
                if self._runs is runs:  # open the runs again: some on disk lack texts that those in memory have
                    _LOG.warning("the detector's index in %s keeps postings of removed texts: %s", self._folder, error)
                    self._recover(_RETRY_TEXTS + 1)
        with self._lock:
            return runs.dropped - before

    def _continue_pruning(self, runs: docstore_native.Runs) -> bool:
        """Adopt finished rewrites and begin the next ones; return True while some are left."""
        with self._lock:
            if self._runs is runs:
                self._settle(runs)
                if runs.is_pruning:
                    return True
            self._pruning = None
            return False

    def close(self) -> None:
        """Close the index.  Nothing is lost: the log has what is in memory.

        Small merges are finished first, so that a store that is opened for a page or two gathers no runs.
        """
        with self._lock:
            with suppress(DocstoreError):
                self._storage.finish_merges(_MERGED_AT_CLOSE_BYTES)
                self._adopt(self._runs)
                old = [number for number in self._log if number < self._runs.end]
                is_sound = self._has_written and not self._writes_since_failure
                if is_sound and old and self._storage.is_durable:  # a row without texts records this
                    cells = docstore_native.Postings().log(self._runs.end, RUN_LOG_CELL_TEXTS)
                    self._engine.mutate_rows([_log_row(self._next, cells), *_deleted(old)], Durability.NONE)
            self._storage.close()


def _texts_of(runs: Iterable[docstore_native.Run]) -> Keys:
    """Numbers of all texts in runs, (n,) uint64; a text that was posted twice is there twice.  Any thread."""
    parts = [np.frombuffer(run.text_numbers(), np.uint64) for run in runs]
    return np.concatenate([np.empty(0, np.uint64), *(part[part != RUN_TEXT_GONE] for part in parts)])


def _log_row(number: int, cells: Iterable[bytes]) -> RowMutations:
    """The row of the log for a group."""
    numbered = ((at.to_bytes(4, "big"), cell) for at, cell in enumerate(cells))
    return RowMutations(TABLE, _log_key(number), [SetCell(RUN_LOG_FAMILY, at, 0, cell) for at, cell in numbered])


def _deleted(numbers: Iterable[int]) -> list[RowMutations]:
    """Mutations that delete rows of the log."""
    return [RowMutations(TABLE, _log_key(number), [DeleteRow()]) for number in numbers]


def _log_key(number: int) -> bytes:
    return RUN_LOG_PREFIX + number.to_bytes(8, "big")


def _number_of(row_key: bytes) -> int:
    return int.from_bytes(row_key[len(RUN_LOG_PREFIX) :], "big")


# --- files


class Span(NamedTuple):
    """Groups of a run: ``first <= group < end``; the name of its file."""

    first: int
    end: int


@dataclass(eq=False)
class _Merge:
    """A run that the background thread writes."""

    parts: Iterator[bytes | memoryview]
    size_bytes: int
    file: AppendFile | None = None
    synced_bytes: int = 0


class RunFiles:
    """Files named ``first-end.run`` in hexadecimal.  One thread at a time."""

    def __init__(self, folder: Path, files: Files | None = None) -> None:
        """Use a folder, which is created if it does not exist; unfinished files in it are removed."""
        self._folder = folder
        self._files = files if files is not None else Files()
        self._files.make_folder(folder)
        for name in self._files.names(folder):
            if name.endswith(RUN_PART_SUFFIX):
                self._files.unlink(folder / name)
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)  # `with` takes the lock itself: an interrupt cannot keep it
        self._tasks: deque[Callable[[], None]] = deque()
        self._busy = False
        self._merges: dict[Span, _Merge] = {}
        self._merged: list[Span] = []
        self._error: DocstoreError | None = None
        self._pending: list[Span] = []
        self._unsealed: set[Span] = set()
        self._are_names_synced = False
        self._unfinished: set[Span] = set()
        self._closing = False
        self._thread: threading.Thread | None = threading.Thread(target=self._work, name="runs", daemon=True)
        self._thread.start()

    # --- the background thread

    def _work(self) -> None:
        while (step := self._next_step()) is not None:
            try:
                step()
            except DocstoreError as error:
                self._error = error
            except Exception as error:  # or callers that wait for this thread would wait for ever
                self._error = StorageError(f"cannot write the runs in {self._folder}: {error!r}")
                self._error.__cause__ = error
            del step  # frees what it references

    def _next_step(self) -> Callable[[], None] | None:
        with self._lock:
            self._busy = False
            self._changed.notify_all()
            while True:
                if self._error is not None:
                    self._tasks.clear()
                    self._abort(list(self._merges))
                    self._changed.notify_all()
                if self._tasks:
                    self._busy = True
                    return self._tasks.popleft()
                if self._closing:
                    self._abort(list(self._merges))
                    return None
                if self._merges:
                    name = min(self._merges, key=lambda name: self._merges[name].size_bytes)
                    return lambda: self._step(name)
                self._changed.wait()

    def _abort(self, names: list[Span]) -> None:
        for name in names:
            file = self._merges.pop(name).file
            if file is not None:
                file.close()
                self._remove_part(name)

    def _remove_part(self, name: Span) -> None:
        self._unfinished.discard(name)
        with suppress(StorageError):  # the next open removes it
            self._files.unlink(self._path(name, RUN_PART_SUFFIX))

    def _step(self, name: Span) -> None:
        merge = self._merges[name]
        if merge.file is None:
            merge.file = self._create(name)
        part = next(merge.parts, None)
        if part is not None:
            merge.file.write(part)
        if part is None or merge.file.length_bytes - merge.synced_bytes >= SYNC_BYTES:
            merge.file.sync()
            merge.synced_bytes = merge.file.length_bytes
        if part is None:
            merge.file.close()
            self._name(name)
            with self._lock:
                del self._merges[name]
                self._merged.append(name)

    def _name(self, name: Span) -> None:
        self._files.rename(self._path(name, RUN_PART_SUFFIX), self._path(name))
        self._files.sync_folder(self._folder)
        self._unfinished.discard(name)

    def _enqueue(self, name: Span, task: Callable[[], None]) -> None:
        def run_task() -> None:
            task()
            self._pending.remove(name)

        with self._lock:
            self._pending.append(name)
            self._tasks.append(run_task)
            self._changed.notify_all()

    # --- called by the owner

    @property
    def is_durable(self) -> bool:
        """Whether every written run is durable; pending merges and removals do not count."""
        return not self._unsealed and self._error is None

    def _path(self, name: Span, suffix: str = RUN_SUFFIX) -> Path:
        return self._folder / f"{name.first:016x}-{name.end:016x}{suffix}"

    def _check(self) -> None:
        if self._error is not None:
            raise self._error
        if self._thread is None:
            raise StoreUnavailable(f"the runs in {self._folder} are closed; open the store again")

    def names(self) -> list[Span]:
        """Finished runs; other files are ignored."""
        self._check()
        named = map(_RUN_NAME.fullmatch, self._files.names(self._folder))
        return [Span(int(name[1], 16), int(name[2], 16)) for name in named if name]

    def _create(self, name: Span) -> AppendFile:
        path = self._path(name, RUN_PART_SUFFIX)
        if self._files.exists(path):
            self._files.unlink(path)  # never truncate a file that may be mapped
        self._unfinished.add(name)
        return self._files.open_append(path, create=True)

    def write(self, name: Span, parts: Iterable[bytes | memoryview]) -> NDArray[np.uint8]:
        """Write a run and map it for reading; the background thread syncs and renames it.

        Raises:
            StorageError: no space; the run does not exist then.
        """
        self._check()
        if name in self._pending:
            self.finish_merges()  # or pending tasks for the old file would apply to the new one
        file = self._create(name)
        try:
            for part in parts:
                file.write(part)
            buffer = self._map(file.path)
        except BaseException:
            file.close()
            self._remove_part(name)
            raise

        def seal() -> None:
            try:
                file.sync()
            finally:
                file.close()
            self._name(name)
            self._unsealed.discard(name)
            trim_heap()  # what a group needed for a moment stays in the heaps of threads, and they grow with each

        self._unsealed.add(name)
        self._enqueue(name, seal)
        return buffer

    def sync_names(self) -> None:
        """Sync the folder in the background: an earlier process may have crashed between rename and fsync."""
        folder = Span(0, 0)

        def sync() -> None:
            self._files.sync_folder(self._folder)
            self._unsealed.discard(folder)

        if not self._are_names_synced:
            self._are_names_synced = True
            self._unsealed.add(folder)
            self._enqueue(folder, sync)

    def merge(self, name: Span, parts: Iterator[bytes | memoryview], size_bytes: int) -> None:
        """Write a run in the background, a part at a time, small ones first; `merged` lists it when it is durable.

        It then replaces the run that has its name; maps of that stay readable.
        """
        self._check()
        with self._lock:
            self._merges[name] = _Merge(parts, size_bytes)
            self._changed.notify_all()

    def merged(self) -> list[Span]:
        """Runs merged since the last call; each is durable and can be opened."""
        self._check()
        with self._lock:
            names, self._merged = self._merged, []
        return names

    def open(self, name: Span) -> NDArray[np.uint8]:
        """Map a run for reading; an empty file gives an empty array."""
        self._check()
        with translated("open", self._path(name)):
            return self._map(self._path(name))

    @staticmethod
    def _map(path: Path) -> NDArray[np.uint8]:
        with path.open("rb", buffering=0) as file:
            is_empty = not os.fstat(file.fileno()).st_size
            return np.frombuffer(b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)

    def remove(self, name: Span, mapped: object = None) -> None:
        """Remove a run in the background, where its buffer `mapped` is released: unmapping a large file takes time.

        Other maps of it stay readable.
        """
        self._check()
        mapping = [mapped]

        def unlink() -> None:
            for suffix in (RUN_PART_SUFFIX, RUN_SUFFIX):
                if self._files.exists(self._path(name, suffix)):
                    self._files.unlink(self._path(name, suffix))
            mapping.clear()

        self._unfinished.discard(name)
        self._enqueue(name, unlink)

    def finish_merges(self, largest_bytes: int = 1 << 63) -> None:
        """Wait until all tasks are done, except larger merges; raises the error of a failed task."""

        def is_done() -> bool:
            merging = any(merge.size_bytes <= largest_bytes for merge in self._merges.values())
            return self._thread is None or not (self._tasks or self._busy or merging)

        with self._lock:
            self._changed.wait_for(is_done)
        self._check()

    def close(self) -> None:
        """Finish pending tasks, abort merges, remove unfinished files, stop the thread; a second call does nothing."""
        if self._thread is not None:
            with self._lock:
                self._closing = True
                self._changed.notify_all()
            self._thread.join()
            self._thread = None
            for name in list(self._unfinished):
                self._remove_part(name)
