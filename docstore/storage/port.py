"""The storage port: the interface of a backend.

Types only, which a reader of pages does not load.  A backend is one package.  "Go to definition" leads from `store.py`
to the protocols here; the classes behind them are in the package:

    protocol     in a directory: `tablets/`             in HBase: `cluster/`
    Location     layout.py: StoreDirectory              backend.py: HBaseLocation
    Backend      layout.py: LocalBackend                backend.py: HBaseBackend
    Values       values.py: LocalValues                 values.py: CellValues
    Committer    commit.py: LocalCommitter              commit.py: SlotCommitter
    Engine       engines/leveldb.py: LevelDBEngine      engine.py: HBaseEngine
    GroupWriter  docstore/writing/writer.py: Sequencer  writer.py: HBaseWriter

A backend offers:

    rows         `engine`: cells by row; read at any time, written only by plans
    values       `values`: long values
    bases        `base_rows`: values that deltas are made against
    postings     rows of `engine`; if `runs` is not None, those of the keys of texts are files
    lease        from open to `close`: this process is the only writer
    commit       `committer`, the only commit point
    writing      `group_writer`, if several processes write; else None
    maintenance  `compact` and `backup`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from docstore.compiled import docstore_native
from docstore.model.capture import Column
from docstore.model.choices import Durability
from docstore.model.types import Mutation, PutResult, RowMutations, Schema
from docstore.storage.bases import BaseRows
from docstore.storage.cache import Memory
from docstore.storage.engine import Engine, Plan, RunStorage
from docstore.storage.reports import BackupReport, CompactionReport, Progress
from docstore.storage.table import Table
from docstore.storage.unreadable import Finding, SetAside, UnreadableValues
from docstore.storage.writes import PolicyByVerdict, Prepared

Result = TypeVar("Result")
Follower = Callable[[Sequence[RowMutations], bool], None]
"""Called after each commit with its rows and `is_sure`: True if all of them are known to be applied, False if some may
be."""


class Values(Protocol):
    """Values of cells.  Reading is thread-safe; storing requires the commit lock.

    A stored value can be read at once, and is durable before the rows of its plan are written.

    Attributes:
        unreadable: values and dictionaries that could not be read.
    """

    unreadable: UnreadableValues

    @property
    def shares_values(self) -> bool:
        """Whether cells may share a value, and values be deltas; else each cell has a value of its own."""
        ...

    @property
    def fill(self) -> Callable[[bytes, Mapping[int, Any], list[Any], int], bool] | None:
        """Fills in the values of a stored capture's record in one call; None if there is no such call.

        It takes the record, fields by number, the list to fill, and the most bytes.  It returns False if the values
        have to be fetched one by one.
        """
        ...

    @property
    def check_rows(self) -> Callable[..., tuple[list[int], Any]] | None:
        """Finds rows of pages sound in native code; None if there is no such call.

        It takes rows, declared families, rules, the kernel, and hashes of postings.  It returns the other rows, and
        what to ask the index for.
        """
        ...

    def read_together(self, work: Callable[[], Result]) -> Result:
        """Run work that looks rows up and then fetches their values: none of the values goes away in between.

        Values that were looked up before may be gone: compaction moves them, and other processes delete them.

        Args:
            work: one call, or one slice of a scan, because compaction waits for it.  It may run again.
        """
        ...

    def append(self, row_key: bytes, column: Column, timestamp: int, raw: bytes) -> bytes:
        """Encode a value by itself and append it; -> the value to put into its cell."""
        ...

    def append_group(self, group: docstore_native.Group) -> None:
        """Encode the values of a group in the smallest way and append them: then it has their cell values."""
        ...

    def mark_deleted(self, row_key: bytes, mutation: Mutation, now: int) -> None:
        """Record a delete next to the values, so that a salvage from the values does not restore what was deleted."""
        ...

    def fetch(self, cell_value: bytes) -> bytes:
        """The value of a cell.

        Raises:
            CorruptionError: it is damaged or missing.
        """
        ...

    def fetch_many(self, cell_values: Sequence[bytes]) -> list[bytes]:
        """Values of cells, in the given order; read in their order on disk.

        All are in memory at once, so ask for `READ_AHEAD_BYTES` at a time.

        Raises:
            CorruptionError: one is damaged or missing; fetch them one by one to find it.
        """
        ...

    def fetch_or_base(self, cell_value: bytes) -> tuple[bytes, bytes]:
        """The value of a cell and b"", or b"" and the name of its base if it is a delta, which is not decoded."""
        ...

    def fetch_with_owner(self, cell_value: bytes) -> tuple[bytes, Column, bytes]:
        """A value that may be shared: the row key and column for which it was stored, and the value."""
        ...

    def verify(self, cell_value: bytes) -> None:
        """Check that the value of a cell can be read, without decoding it.

        Raises:
            CorruptionError: it, or the dictionary or base that it needs, is damaged or missing.
        """
        ...

    def same_value(self, one: bytes, other: bytes) -> bool:
        """Whether two cells have the same value, in any form; an unreadable value equals no other."""
        ...

    def stored_bytes(self, cell_value: bytes) -> int:
        """Bytes that a value takes on disk."""
        ...


class Committer(Protocol):
    """The only commit point of a store.

    Attributes:
        commits: number of attempts.
        followers: caches of stored data; called after each commit, under the lock, to update them by key.
        durability: what an acknowledged write survives.
        many_writers: other processes commit, too, and tell no follower here.
    """

    commits: int
    followers: set[Follower]
    durability: Durability
    many_writers: bool

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held from storing values until they are committed."""
        ...

    def commit(self, plan: Plan) -> None:
        """Make stored values durable, then write a plan: in one atomic batch if there are any, else row by row.

        REQUIRES: lock.

        Raises:
            StorageError: nothing was applied.
            CommitUnknown: it may be applied; the same write again is safe.
        """
        ...

    def drop_values(self) -> None:
        """Drop the values that were appended since the last commit, because their plan will not be committed.

        REQUIRES: lock.
        """
        ...

    def run_with_reserve(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        """Run work that frees space, such as a delete.  On a full disk the work may use the reserve of the store.

        Args:
            work: is run again after a StorageError, so it must be repeatable.
            in_parts: release the reserve a quarter at a time.  False, for a compaction: release most of it at once.
        """
        ...


class GroupWriter(Protocol):
    """Judges and commits groups of pages."""

    def write(
        self,
        pages: Sequence[Prepared],
        policies: Sequence[PolicyByVerdict],
        is_awaited: Callable[[], bool],
    ) -> tuple[list[PutResult], BaseException | None]:
        """Judge, store and commit pages, in order; see `docstore.writing.writer.Sequencer.write`."""
        ...


class Closing(Protocol):
    """What is closed with its backend."""

    def close(self) -> None:
        """Close files; a second call does nothing."""
        ...


class Location(Protocol):
    """Where a store is, or can be made: what an address names."""

    def exists(self) -> bool:
        """Whether there is a store."""
        ...

    def server(self) -> str:
        """The address of the server that has the store open; "" for none.

        Only valid while the store is locked: an ended process may have left its address there.
        """
        ...

    def open(self, *, create: bool, schema: Schema | None, read_only: bool | None, memory: str | int | None) -> Backend:
        """Open the store, making it first if asked to; see `docstore.open`."""
        ...


class Backend(Protocol):
    """An open store without its pages; `Location.open` makes it.

    Attributes:
        schema: of the store.
        base_rows: bases of deltas.
        memory: what it may hold in memory.
        band_secret: key of the bins of bands; b"" for none.
        runs: where an index may keep sorted runs; None if postings are rows.
        index: of texts by their keys; None if they are not open: reading does not open them.  Closed with the
            backend.
        lower: for an overlay, the backend under it.
    """

    schema: Schema
    base_rows: BaseRows
    memory: Memory
    band_secret: bytes
    runs: RunStorage | None
    index: Closing | None
    lower: Backend | None

    @property
    def path(self) -> Path:
        """A folder of the store; a sweep may keep its progress there."""
        ...

    @property
    def engine(self) -> Engine:
        """Rows of cells."""
        ...

    @property
    def values(self) -> Values:
        """Values of cells."""
        ...

    @property
    def lost(self) -> tuple[Finding, ...]:
        """Captures and commits that an open found to be lost, until they are acknowledged."""
        ...

    @property
    def set_aside(self) -> tuple[SetAside, ...]:
        """Files of records that no row names."""
        ...

    def committer(self, durability: Durability) -> Committer:
        """Make a commit point with a durability.  The writers of a store share one: the store calls this once."""
        ...

    def group_writer(self, table: Table, committer: Committer, clock: Callable[[], int]) -> GroupWriter | None:
        """The backend's own writer of groups of pages; None if one atomic batch a group will do.

        Args:
            table: of pages.
            committer: of all writers.
            clock: microseconds since 1970.
        """
        ...

    def overlay(self) -> Backend:
        """A backend over this one: reads see both; its writes are dropped when it is closed."""
        ...

    def compact(
        self,
        table: Table,
        committer: Committer,
        prune: Callable[[], int],
        *,
        tablets: Sequence[int] | None,
        level: str,
        full: bool,
        dry_run: bool,
        on_progress: Progress | None,
    ) -> CompactionReport:
        """Drop deleted and expired data, rewrite the rest, and free space.

        Args:
            table: of pages, with their policies.
            committer: of all writers.
            prune: sets the totals to what is live, unless others write all the time, and removes postings that lead
                to no page; -> how many.  Loads the index.
            tablets, level, full, dry_run, on_progress: see `DocumentStore.compact`.
        """
        ...

    def backup(self, committer: Committer, folder: Path, on_progress: Progress | None) -> BackupReport:
        """Copy the store as it is now; see `DocumentStore.backup`."""
        ...

    def acknowledge(self) -> None:
        """Clear `lost`."""
        ...

    def publish_server(self, server: str) -> None:
        """Publish the address of this process's server, such as "unix:/path", for other processes; "" removes it."""
        ...

    def check_writable(self) -> None:
        """Refuse a change of a store that is open for reading only.

        Raises:
            StorageError: it is; `errno` is EROFS.
        """
        ...

    def make_reserve(self) -> None:
        """Reserve space for a full disk; called at the first write and after space was freed."""
        ...

    def problems(self) -> Iterator[Finding]:
        """Inconsistencies in the backend's own metadata."""
        ...

    def remarks(self) -> Iterator[Finding]:
        """What a user may want to know, and is no sign of damage."""
        ...

    def stored_bytes(self) -> int:
        """Bytes of values, garbage included."""
        ...

    def stats(self) -> dict[str, Any]:
        """Totals, sizes and tablets as plain data."""
        ...

    def codec_stats(self, committer: Committer) -> dict[str, dict[str, int]]:
        """Sizes of records by column and codec; reads all records."""
        ...

    def close(self) -> None:
        """Finish writing and release everything; a second call does nothing."""
        ...
