"""Buckets in sorted runs, with a log in the engine: committed postings are found after any crash.

A small LSM tree.  *Runs.*  Groups gather in a table in memory (the memtable), which is flushed to a run every
`flush_texts` texts.  Neighbouring runs of similar size are merged in the background, so no write waits for a merge.  A
run is named by its groups, ``first, end``: after a crash the runs that no other run covers are the index; unfinished
files are ignored.  A look-up reads the runs, oldest first, then the memtable, until a key has its `bucket_limit` texts.
Each run keeps the first texts of each key, so results do not depend on merges.

*Log.*  Each group that posts is one row of a log, committed with the group's other rows, so there is one commit point.
After the commit its texts go into the memtable; if its outcome is unknown, after the next commit shows it.  At open the
log gives what the runs lack.  Each row names the first group whose runs were not known to be durable, so lost runs are
detected, and rows of groups before it are deleted.  At close a row without texts names the final one.  The index is
derived data: its failures never fail a write; they are logged and repaired later.  If runs are damaged or missing, the
owner gives all texts with their keys again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from docstore.compiled import docstore_native
from docstore.dedup.buckets import (
    BUCKET_LIMIT,
    LOOKS,
    NOTHING_NEW,
    Buckets,
    IndexQuery,
    NewPostings,
    Proposal,
    proposal_of,
)
from docstore.dedup.runs import LIST_LIMIT, Run, RunFiles, Span, merged_parts, pruned_parts, recent_parts
from docstore.model.codec import decode_varint
from docstore.model.errors import CorruptionError, DocstoreError, InvalidArgument, StorageError, UnsupportedFormat
from docstore.model.format import (
    RUN_LOG_CELL_TEXTS,
    RUN_LOG_FAMILY,
    RUN_LOG_PREFIX,
    RUN_PLACE_BITS,
    RUN_REBUILD_ROW,
    RUN_TEXT_GONE,
)
from docstore.model.sets import Keys, Numbers
from docstore.model.types import Cell, DeleteRow, Durability, Mutation, RowMutations, SetCell
from docstore.storage.engine import Engine, ScannedRow
from docstore.storage.files import Files

Texts: TypeAlias = Iterable[IndexQuery]
"""Texts with their keys."""
Named: TypeAlias = tuple[Span, Run]

TABLE: Final = "meta"
FLUSH_TEXTS: Final = 2048
FLUSH_POSTINGS: Final = 1 << 17
"""The memtable is flushed at so many postings, however few texts they are of: some 5 MB in native code."""
GROUP_TEXTS: Final = 256
"""Texts that a rebuild posts together."""
_MERGED_AT_CLOSE_BYTES: Final = 32 << 20
_TRIMMED_AT_ONCE: Final = 256
_RETRY_TEXTS: Final = 256
_WORTH_A_REBUILD: Final = 4
_LOG_END: Final = RUN_LOG_PREFIX[:-1] + bytes((RUN_LOG_PREFIX[-1] + 1,))

_LOG: Final = logging.getLogger(__name__)


# --- runs and the table in memory


class RunLevels:
    """Key -> text numbers, in a few sorted runs and a memtable.

    Not thread-safe: one sequencer owns it.

    Attributes:
        postings: those of the runs, and those of the memtable, which no run has yet.
        end: groups below this number are in runs; when these are durable the log may drop them.  The groups from here
            on must be added again after `__init__`.
        next: number of the next group.
        pruned_postings: dropped by `begin_prune` so far.
    """

    def __init__(
        self,
        storage: RunFiles,
        *,
        bucket_limit: int = 64,
        flush_texts: int = 2048,
        fan_in: int = 2,
    ) -> None:
        """Open the runs of the storage.

        Args:
            storage: files of the runs.
            bucket_limit: texts kept for one key and returned by a look-up: the first ones.
            flush_texts: texts in the memtable before it is flushed.
            fan_in: runs of one level that are merged into one of the next; more means less merging and more runs to
                read.
        Raises:
            CorruptionError: a run is damaged or missing; remove all runs and rebuild the postings.
        """
        if fan_in < 2 or flush_texts < 1 or not 1 <= bucket_limit <= LIST_LIMIT:
            raise InvalidArgument(
                f"fan_in {fan_in} must be at least 2, flush_texts {flush_texts} at least 1 and bucket_limit "
                f"{bucket_limit} from 1 to {LIST_LIMIT}"
            )
        self._storage = storage
        self._bucket_limit = bucket_limit
        self._flush_texts = flush_texts
        self._fan_in = fan_in
        self._runs: list[Named] = []
        """Oldest first."""
        self._merges: dict[Span, list[Named]] = {}
        """Sources of each merge."""
        self._live: Keys | None = None
        """Numbers of texts that stay, ascending, while runs of groups before `_prune_end` are rewritten without others;
        `_pruned` has the runs whose rewriting has started."""
        self._prune_end = 0
        self._pruned: set[Span] = set()
        self.postings = docstore_native.Postings()
        self._ended_texts = 0
        """Texts of the memtable that are of ended groups."""
        self.end = self.pruned_postings = 0
        self._open()
        self._first = self.next = self.end
        self._begun = False

    def _open(self) -> None:
        for name in sorted(self._storage.names(), key=lambda name: (name.first, -name.end)):
            if name.end <= self.end:
                self._storage.remove(name)  # covered by a merged run
                continue
            if name.first != self.end:
                raise CorruptionError(
                    "a run of postings is missing", expected=f"one from group {self.end}", found=f"group {name.first}"
                )
            self._replace(len(self._runs), 0, (name, Run(self._storage.open(name))))
            self.end = name.end

    def _replace(self, at: int, count: int, entry: Named, postings: docstore_native.Postings | None = None) -> None:
        """Replace runs; with new postings, also those of the memtable."""
        runs = [*self._runs[:at], entry, *self._runs[at + count :]]
        postings = self.postings if postings is None else postings
        postings.read([run.view() for _, run in runs])
        self._runs, self.postings = runs, postings  # another thread may read them

    def _level(self, run: Run) -> int:
        """The power of `fan_in` for its size in full memtables."""
        level = 0
        size = max(run.texts // self._flush_texts, run.postings // FLUSH_POSTINGS)
        while size >= self._fan_in ** (level + 1):
            level += 1
        return level

    # --- reading ---

    @property
    def run_count(self) -> int:
        """Runs that a look-up reads."""
        return len(self._runs)

    def text_numbers(self) -> Keys:
        """Numbers of all texts in runs, (n,) uint64; a text that was posted twice is there twice.  Any thread."""
        parts = [run.text_numbers() for _, run in list(self._runs)]
        numbers = np.concatenate([np.empty(0, np.uint64), *parts])
        live: Keys = numbers[numbers != RUN_TEXT_GONE]
        return live

    # --- writing ---

    def end_group(self, group: int) -> None:
        """End a group of the log: it has the postings since the last call.

        Args:
            group: its number, larger than that of the last one; groups between them failed.
        Raises:
            CorruptionError: a source of a merge is damaged.
            StorageError: a run cannot be written; the log still has the postings.
        """
        if group < self.next:
            raise InvalidArgument(f"group {group} does not follow {self.next - 1}; end every group once, in order")
        self.next = group + 1
        texts = len(self.postings)
        if texts != self._ended_texts:
            self._ended_texts = texts
            if not self._begun:  # not at open: most processes only read, or write a page or two
                self._begun = True
                self._begin_merges()
        self._adopt()
        if texts >= self._flush_texts or self.postings.postings >= FLUSH_POSTINGS:
            self.flush()

    def flush(self) -> None:
        """Flush the memtable to a run, between two groups; `end` advances to the next group."""
        if len(self.postings) != self._ended_texts:
            raise InvalidArgument("a group is in flight; end it before you flush")
        if self.next == self._first:
            return
        name = Span(self._first, self.next)
        buffer = self._storage.write(name, recent_parts(self.postings, self._bucket_limit))
        self._replace(len(self._runs), 0, (name, Run(buffer)), docstore_native.Postings())
        self._ended_texts = 0
        self.end = self._first = self.next
        self._begun = True
        self._begin_merges()

    # --- merging ---

    def finish_merges(self) -> None:
        """Wait until there is nothing more to merge."""
        self._begin_merges()
        self._storage.finish_merges()
        while self._merges:
            self._adopt()
            self._storage.finish_merges()

    def close(self) -> None:
        """Finish small merges, so that a store that is opened for a page or two gathers no runs; write no more."""
        self._storage.finish_merges(_MERGED_AT_CLOSE_BYTES)
        self._adopt()

    def _begin_merges(self) -> None:
        """Start merges of neighbours whose oldest is not larger than the largest of the others.

        While texts are pruned, runs are rewritten without them instead.
        """
        busy = {name for sources in self._merges.values() for name, _ in sources}
        if self._live is not None:
            for name, run in self._runs:
                if name.end <= self._prune_end and name not in self._pruned | busy:
                    parts = pruned_parts(run, self._live, self._bucket_limit)
                    self._begin_merge(name, [(name, run)], parts)
                    self._pruned.add(name)
            if self._merges:
                return
            self._live = None
        for at in range(len(self._runs) - self._fan_in, -1, -1):
            sources = self._runs[at : at + self._fan_in]
            names, runs = [name for name, _ in sources], [run for _, run in sources]
            levels = [self._level(run) for run in runs]
            is_small = sum(run.texts for run in runs) <= 1 << RUN_PLACE_BITS
            if levels[0] <= max(levels[1:]) and is_small and busy.isdisjoint(names):
                parts = merged_parts(runs, self._bucket_limit)
                self._begin_merge(Span(names[0].first, names[-1].end), sources, parts)
                busy.update(names)

    def _begin_merge(self, name: Span, sources: list[Named], parts: Iterator[bytes | memoryview]) -> None:
        self._storage.merge(name, parts, sum(run.storage_bytes for _, run in sources))
        self._merges[name] = sources

    def _adopt(self) -> None:
        """Replace the sources of finished merges."""
        names = self._storage.merged()
        for name in names:
            sources = self._merges.pop(name)
            run = Run(self._storage.open(name))
            if sources[0][0] == name:
                self.pruned_postings += sources[0][1].postings - run.postings
            self._replace(self._runs.index(sources[0]), len(sources), (name, run))
            while sources:
                source, mapped = sources.pop()
                if source != name:
                    self._storage.remove(source, mapped)
        if names or self._live is not None:
            self._begin_merges()

    # --- pruning

    def begin_prune(self, live: Keys) -> None:
        """Rewrite the runs in the background without removed texts; no merges start until that is done.

        Args:
            live: (n,) uint64, the numbers of texts that stay, ascending.  Texts posted from now on stay as well.
        """
        self._live, self._prune_end, self._pruned = live, self.end, set()

    def is_pruned(self) -> bool:
        """Adopt finished rewrites and start the next ones; -> whether all are done.

        Raises:
            CorruptionError: a run is damaged.
            StorageError: no space; each run is either unchanged or rewritten.
        """
        self._adopt()
        return self._live is None


# --- the log, and the buckets of the index


class _Pruning:
    """State of a pruning.

    Attributes:
        live: numbers of texts that stay, ascending; None until they are known.
        kept: texts that stay because they were posted since, or a look-up saw them while `live` was unknown.
    """

    def __init__(self) -> None:
        self.live: Keys | None = None
        self.kept: set[int] = set()

    def stays(self, text: int) -> bool:
        """Whether the postings of a text will still exist after the pruning."""
        if self.live is None:
            self.kept.add(text)
            return True
        at = int(np.searchsorted(self.live, np.uint64(text)))
        return text in self.kept or (at < len(self.live) and int(self.live[at]) == text)


class RunBuckets(Buckets):
    """Buckets of a single process: the engine's `single_writer` must hold."""

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        texts: Callable[[], Texts],
        files: Files | None = None,
        *,
        flush_texts: int = FLUSH_TEXTS,
    ) -> None:
        """Open the runs in a folder and replay the log.

        Args:
            engine: has the log.
            folder: of the runs; created if it does not exist.
            texts: gives every text of the index, from the stored pages; called if runs are damaged or missing.
            files: the file system.
            flush_texts: texts in the memtable before it is flushed.
        Raises:
            StorageError: the folder cannot be read or created, or the engine cannot be read.
        """
        self._engine = engine
        self._folder = folder
        self._all_texts = texts
        self._files = Files() if files is None else files
        self._flush_texts = flush_texts
        self._lock = threading.RLock()
        self._has_written = False
        self._unknown: list[int] = []
        """Groups whose outcome the next commit shows."""
        self._following: int | None = None
        """The group that `follow` is working on."""
        self._writes_since_failure = 0
        """1 and the texts posted since the index failed; 0 while it works."""
        self._pruning: _Pruning | None = None
        self._storage = RunFiles(folder, self._files)
        try:
            self._open()
        except (CorruptionError, UnsupportedFormat) as error:
            _LOG.warning(
                "the detector's index in %s is rebuilt from the stored pages, as `docstore tool reindex` would: %s",
                folder,
                error,
            )
            self.rebuild()

    # --- opening

    def _open(self) -> None:
        """Open runs and log over a fresh storage; this object changes only if all of it succeeds."""
        if self._engine.read_row(TABLE, RUN_REBUILD_ROW):
            raise CorruptionError("an earlier rebuild of the runs was not finished", path=str(self._folder))
        levels = RunLevels(self._storage, bucket_limit=BUCKET_LIMIT, flush_texts=self._flush_texts)
        rows = [(_log_number(row.row_key), _values(row.cells)) for row in self._log_rows()]
        durable_end = decode_varint(rows[-1][1][0])[0] if rows else 0
        opened_end = levels.end
        if durable_end > opened_end:
            raise CorruptionError(
                "runs of postings are missing",
                path=str(self._folder),
                expected=f"groups below {durable_end}",
                found=f"groups below {opened_end}",
            )
        self._writes_since_failure = 0
        for number, cells in rows:
            if number >= levels.next:
                self._replay(levels, number, cells)
        self._levels = levels
        self._log = [number for number, _ in rows]
        self._newest = self._log[-1] if rows else -1
        self._next = levels.next
        self._durable_end = self._logged_durable = durable_end
        """Groups below the first number are in durable runs; the second is the number in the newest row."""
        self._unknown = []
        self._pruning = None  # the state on disk is known again

    def _replay(self, levels: RunLevels, number: int, cells: Sequence[bytes]) -> int:
        """Take a group of the log into the memtable; -> number of its texts.

        If the disk fails, its postings stay in memory and in the log.
        """
        before = len(levels.postings)
        for cell in cells:
            levels.postings.replay(cell)
        texts = len(levels.postings) - before
        try:
            levels.end_group(number)
        except CorruptionError:
            raise
        except DocstoreError as error:
            if not self._writes_since_failure:
                _LOG.warning("the detector's index in %s continues in memory and in its log: %s", self._folder, error)
                self._writes_since_failure = 1
        return texts

    def _log_rows(self) -> Iterator[ScannedRow]:
        return self._engine.scan(TABLE, RUN_LOG_PREFIX, _LOG_END)

    @property
    def is_new(self) -> bool:
        """Whether nothing was ever written here."""
        return not self._log and self._next == 0

    def rebuild(self) -> int:
        """Rebuild all runs from the stored texts; no other thread may write meanwhile.

        Returns:
            Number of texts in the runs.
        Raises:
            StorageError: no space; the next open starts again.
        """
        with self._lock:
            begun = SetCell(RUN_LOG_FAMILY, b"", 0, b"")
            self._engine.mutate_rows([RowMutations(TABLE, RUN_REBUILD_ROW, [begun])], Durability.SYNC)
            self._storage.close()
            storage = RunFiles(self._folder, self._files)
            try:
                for name in storage.names():
                    storage.remove(name)
                storage.finish_merges()
                levels = RunLevels(storage, bucket_limit=BUCKET_LIMIT, flush_texts=self._flush_texts)
                source = iter(self._all_texts())
                total = 0
                while batch := list(islice(source, GROUP_TEXTS)):
                    total += len(batch)
                    for query in batch:  # as its page would be posted
                        _, _, has_own, _, _, further = levels.postings.propose(query, BUCKET_LIMIT, LOOKS, None)
                        if not has_own:
                            keys = *query.first_keys(), np.frombuffer(further, np.uint64)
                            levels.postings.post(query.own_number, *keys)
                    levels.end_group(levels.next)
                levels.finish_merges()
                storage.finish_merges()
            finally:
                storage.close()
            log = _log_row(levels.end, levels.postings.log(levels.end, RUN_LOG_CELL_TEXTS))
            old = {row.row_key for row in self._log_rows()}
            rows = [log._replace(mutations=[DeleteRow(), *log.mutations])]
            rows += (RowMutations(TABLE, key, [DeleteRow()]) for key in (*(old - {log.row_key}), RUN_REBUILD_ROW))
            self._engine.mutate_rows(rows, Durability.SYNC)
            self._storage = RunFiles(self._folder, self._files)
            self._open()
            return total

    def texts_in_order(self) -> Keys:
        """See `Buckets`: those of the runs, then those that are in no run yet."""
        with self._lock:
            self._take_unknown()
            recent = np.frombuffer(self._levels.postings.texts(), np.uint64)
            return np.concatenate([self._levels.text_numbers(), recent])

    def begin_prune(self) -> None:
        """See `Buckets`."""
        with self._lock:
            if not self._writes_since_failure:  # else postings that an earlier pruning dropped may still be in memory
                self._pruning = _Pruning()

    def prune(self, live: Keys) -> int:
        """See `Buckets`: the runs are rewritten in the background once a quarter of their texts is gone."""
        levels, storage = self._levels, self._storage
        stored = levels.text_numbers()
        gone = int(np.isin(stored, live, invert=True).sum())
        with self._lock:
            if self._writes_since_failure:
                return 0
            if self._pruning is None or self._levels is not levels or gone * _WORTH_A_REBUILD < max(len(stored), 1):
                self._pruning = None
                return 0
            self._pruning.live = np.union1d(live, np.array(sorted(self._pruning.kept), np.uint64))
            levels.begin_prune(self._pruning.live)
        before = levels.pruned_postings
        try:
            while self._prune_continues(levels):
                storage.finish_merges()
        except DocstoreError as error:  # or a writer has rebuilt the runs
            with self._lock:
                if self._levels is levels:  # open the runs again: some on disk lack texts that those in memory have
                    _LOG.warning("the detector's index in %s keeps postings of removed texts: %s", self._folder, error)
                    self._recover(_RETRY_TEXTS + 1)
        return levels.pruned_postings - before

    def _prune_continues(self, levels: RunLevels) -> bool:
        """Adopt finished rewrites; whether there is more to wait for."""
        with self._lock:
            if self._levels is levels and not levels.is_pruned():
                return True
            self._pruning = None
            return False

    def damaged(self) -> list[str]:
        """Damage of the runs; reads all of them."""
        damage = []
        with self._lock:
            try:
                self._storage.finish_merges()
                names = self._storage.names()
            except DocstoreError as error:  # a background task failed, such as one that met a damaged run
                return [str(error)]
            for name in names:
                try:
                    parts = Run(self._storage.open(name)).damaged_parts()
                except CorruptionError as error:
                    parts = [str(error)]
                damage += [f"run {name.first:x}-{name.end:x}: {part}" for part in parts]
        return damage

    # --- looking up

    def find(self, keys: Keys, new: NewPostings = NOTHING_NEW) -> tuple[Numbers, Keys]:
        """See `Buckets`."""
        with self._lock:
            self._take_unknown()
            try:
                owner, texts = self._levels.postings.find(keys, BUCKET_LIMIT, new.recent)
            except CorruptionError as error:  # runs are not verified at open: that would read all of them
                self._rebuild_after(error)
                owner, texts = self._levels.postings.find(keys, BUCKET_LIMIT, new.recent)
        return np.frombuffer(owner, np.int64), np.frombuffer(texts, np.uint64)

    def propose(self, query: IndexQuery, new: NewPostings = NOTHING_NEW) -> Proposal:
        """See `Buckets`."""
        with self._lock:
            if self._unknown:
                self._take_unknown()
            try:
                found = self._levels.postings.propose(query, BUCKET_LIMIT, LOOKS, new.recent)
            except CorruptionError as error:
                self._rebuild_after(error)
                found = self._levels.postings.propose(query, BUCKET_LIMIT, LOOKS, new.recent)
            proposal = proposal_of(found)
            if proposal.has_own and self._pruning is not None and not self._pruning.stays(query.own_number):
                proposal = proposal._replace(has_own=False)
        if RUN_TEXT_GONE in proposal.numbers:
            proposal.numbers.remove(RUN_TEXT_GONE)
        return proposal

    # --- writing

    def post(self, new: NewPostings, text: int, *keys: Keys) -> None:
        """See `Buckets`."""
        if new.recent is None:
            new.recent = docstore_native.Postings()
        new.recent.post(text, *keys)
        if self._pruning is not None:  # stored postings may be dropped
            with self._lock:
                if self._pruning is not None:
                    self._pruning.kept.add(text)

    def log(self, new: NewPostings) -> list[RowMutations]:
        """See `Buckets`: one row of the log; also if the log is empty, to mark that there is an index."""
        if new.recent is None and self._log:
            return []
        posted = docstore_native.Postings() if new.recent is None else new.recent
        return [_log_row(self._next, posted.log(self._durable_end, RUN_LOG_CELL_TEXTS))]

    def follow(self, rows: Sequence[RowMutations], known: bool) -> None:
        """See `Buckets`: the row of the log has the postings of the commit."""
        of_log = [row for row in rows if row.table == TABLE and row.row_key.startswith(RUN_LOG_PREFIX)]
        with self._lock:
            for row in of_log:
                number = _log_number(row.row_key)
                if number == self._following:  # an interrupt stopped this: postings may be missing in memory
                    self._recover(_RETRY_TEXTS + 1)
                self._following = number
                if number not in self._log:  # else the runs were opened again, and the row was replayed
                    self._next = number + 1
                    self._log.append(number)
                    if known:
                        cells = _values(row.mutations)
                        self._logged_durable, _ = decode_varint(cells[0])
                        self._take(number, cells)
                    else:
                        self._unknown.append(number)
                self._following = None

    def _take_unknown(self) -> None:
        """Take groups of unknown outcome that the log has, without waiting for the next commit."""
        while self._unknown:
            number, *others = self._unknown
            cells = self._engine.read_row(TABLE, _log_key(number))
            if not cells:
                return
            self._unknown = []
            self._take(number, _values(cells))
            self._unknown += others

    def _take(self, number: int, cells: Sequence[bytes]) -> None:
        """Take the texts of a group into the memtable, after those of earlier groups of unknown outcome."""
        self._newest, self._has_written = number, True
        groups = [(number, cells)]
        if self._unknown:  # whether they were written can be read now
            unknown, self._unknown = self._unknown, []
            groups[:0] = [(group, _values(self._engine.read_row(TABLE, _log_key(group)))) for group in unknown]
        texts = 0
        try:
            if groups[0][0] < self._levels.next:
                raise CorruptionError("the runs were rebuilt while a group was written", path=str(self._folder))
            for group, group_cells in groups:
                texts = self._replay(self._levels, group, group_cells)
        except CorruptionError as error:
            self._rebuild_after(error)
            return
        if self._writes_since_failure:
            self._recover(texts)
        else:
            self._trim()

    def _rebuild_after(self, error: CorruptionError) -> None:
        _LOG.warning("the detector's index is rebuilt from the stored pages: %s", error)
        try:
            self.rebuild()
        except DocstoreError:
            self._writes_since_failure = max(self._writes_since_failure, 1)

    def _recover(self, texts: int) -> None:
        """After a failure open the files again from time to time; the log has what they lack."""
        self._writes_since_failure += texts
        if self._writes_since_failure <= _RETRY_TEXTS:
            return
        try:
            self._storage.close()
            self._storage = RunFiles(self._folder, self._files)
            self._open()
        except DocstoreError:
            self._writes_since_failure = 1

    def _trim(self) -> None:
        """Delete rows of the log whose groups are in durable runs by the newest row."""
        end = min(self._logged_durable, self._newest)
        if self._log and self._log[0] < end:
            old = [number for number in self._log[:_TRIMMED_AT_ONCE] if number < end]
            with suppress(StorageError):
                self._engine.mutate_rows(_deleted(old), Durability.NONE)
                self._log = self._log[len(old) :]
        if self._log and self._log[0] < self._levels.end > self._durable_end:
            self._storage.sync_names()
        if self._storage.is_durable:
            self._durable_end = max(self._durable_end, self._levels.end)

    def _trim_at_close(self) -> None:
        """Delete all rows of the log that are in durable runs; a row without texts records this."""
        old = [number for number in self._log if number < self._levels.end]
        if old and self._storage.is_durable:
            newest_row = _log_row(self._next, docstore_native.Postings().log(self._levels.end, RUN_LOG_CELL_TEXTS))
            self._engine.mutate_rows([newest_row, *_deleted(old)], Durability.NONE)

    def close(self) -> None:
        """See `Buckets`; the log has what is in memory."""
        with self._lock:
            with suppress(DocstoreError):
                self._levels.close()
                if self._has_written and not self._writes_since_failure:
                    self._trim_at_close()
            self._storage.close()


def _log_row(number: int, cells: Iterable[bytes]) -> RowMutations:
    """The row of the log for a group."""
    family = RUN_LOG_FAMILY
    return RowMutations(
        TABLE, _log_key(number), [SetCell(family, at.to_bytes(4, "big"), 0, cell) for at, cell in enumerate(cells)]
    )


def _deleted(numbers: Iterable[int]) -> list[RowMutations]:
    """Mutations that delete rows of the log."""
    return [RowMutations(TABLE, _log_key(number), [DeleteRow()]) for number in numbers]


def _values(cells: Iterable[Cell | Mutation]) -> list[bytes]:
    """The values of a row of the log."""
    return [cell.value for cell in cells if isinstance(cell, Cell | SetCell)]


def _log_key(number: int) -> bytes:
    return RUN_LOG_PREFIX + number.to_bytes(8, "big")


def _log_number(row_key: bytes) -> int:
    return int.from_bytes(row_key[len(RUN_LOG_PREFIX) :], "big")
