"""The storage port: what a store asks of a backend, whichever it is.

Knows rows, values behind opaque refs, plans and reports; must not know a segment, nor any backend.  These are types
alone: what reads a page loads none of them.  A backend is one package: `tablets/` is the local one, in a directory.
What it offers:

    rows         `engine`, cells by row; read and scanned at any time, written by plans alone
    values       `placement`, where long values lie
    bases        `base_rows`: values that others are deltas against
    postings     rows of `engine`; where `runs` is not None, buckets may be kept as files instead
    lease        taken when it is opened, held until `close`: this process is the one that writes
    commit       `committer`, the one commit point
    maintenance  `compact`; `backup` takes the state away
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from docstore.model.pointers import PagePointer
from docstore.model.types import Durability, Mutation, Schema
from docstore.storage.bases import Base, BaseRows
from docstore.storage.engine import Engine
from docstore.storage.parts import Problem, Progress, RunStorage
from docstore.storage.plan import Plan
from docstore.storage.reports import BackupReport, CompactionReport
from docstore.storage.table import Table
from docstore.storage.unreadable import UnreadableValues
from docstore.storage.values import Column

Result = TypeVar("Result")
Follower = Callable[[Plan, bool], None]
"""Told of a plan whose commit has ended, and whether it is known to be applied; else it may be, or a part of it."""


class Closing(Protocol):
    """Something that is let go of with the store."""

    def close(self) -> None:
        """Let go; a second call does nothing."""
        ...


class Upkeep(Protocol):
    """What compaction asks of those who know pages and the index."""

    def prune(self) -> int:
        """Remove postings that lead to no page; returns how many."""
        ...

    def recount(self) -> bool:
        """Let the totals count what is live; False, and they stay as they are, if others write all the time."""
        ...


class Values(Protocol):
    """Values of cells.  Reading is thread-safe; placing is for whoever holds the commit lock.

    What is placed can be read at once and is durable before the rows of its plan are written.

    Attributes:
        unreadable: values and dictionaries that could not be read, and were done without.
        shares_values: one value may stand for several cells, and others be deltas against it; else each cell has
            its own.
    """

    unreadable: UnreadableValues
    shares_values: bool

    def append(self, row_key: bytes, column: Column, timestamp: int, raw: bytes) -> bytes:
        """Encode a value by itself and append it; -> the value to put into its cell."""
        ...

    def append_near(
        self, row_key: bytes, column: Column, timestamp: int, raw: bytes, bases: Sequence[Base]
    ) -> tuple[bytes, Base | None]:
        """Encode a value in the smallest way, as a delta against one of the bases or by itself, and append it.

        Args:
            row_key, column, timestamp: of the cell.
            raw: the value.
            bases: to try, the likeliest first.
        Returns:
            The value to put into its cell, and the base that it is a delta against, or None.
        """
        ...

    def append_page(
        self, row_key: bytes, timestamp: int, body: bytes, text: bytes, bases: Sequence[Base]
    ) -> tuple[bytes, bytes | None, Base | None]:
        """Append a body as `append_near` does; and its text, unless the body is a delta.

        Returns:
            The values to put into the cells of body and text, and the base that the body is a delta against.  If there
            is a base, there is no text: the caller appends it against the text of that base's page.
        """
        ...

    def mark_deleted(self, row_key: bytes, mutation: Mutation, now: int) -> None:
        """Note a delete beside the values, so that rows rebuilt from them do not bring back what was deleted."""
        ...

    def fetch(self, envelope: bytes) -> bytes:
        """The value of a cell.

        Raises:
            CorruptionError: it is damaged or not there.
        """
        ...

    def fetch_many(self, envelopes: Sequence[bytes]) -> list[bytes]:
        """Values of cells in the order given, read in the order in which they lie.

        Holds all of them at once, so ask for `READ_AHEAD_BYTES` at a time.

        Raises:
            CorruptionError: one is damaged or not there; fetch one by one to learn which.
        """
        ...

    def fetch_with_base(self, envelope: bytes) -> tuple[bytes, bytes]:
        """The value of a cell, and the name of the base that it is a delta against: b"" for none."""
        ...

    def fetch_with_owner(self, envelope: bytes) -> tuple[bytes, Column, bytes]:
        """A value that may be shared: the row key and column for which it was placed, and the value."""
        ...

    def verify(self, envelope: bytes) -> None:
        """Make sure that the value of a cell can be read, without decoding it.

        Raises:
            CorruptionError: it is damaged or not there, or the dictionary or base that it needs.
        """
        ...

    def same_value(self, one: bytes, other: bytes) -> bool:
        """Whether two cells hold the same value, wherever it lies; one that cannot be read is like no other."""
        ...

    def stored_bytes(self, envelope: bytes) -> int:
        """Bytes that a value takes where it is stored."""
        ...


class Committer(Protocol):
    """The one commit point of a store.

    Attributes:
        commits: how many were tried.
        followers: caches of what is stored: told at the end of each commit, under the lock, they follow it by key.
        durability: what an acknowledged write survives.
        fills_slots: other processes write too: pages go into the slots of a plan, and `lost` has to be asked for.
        lost: pages of the last plan's slots that are not written, for another process was faster, or because they name
            such a page: to be judged anew.  Empty where one process writes.
    """

    commits: int
    followers: set[Follower]
    durability: Durability
    fills_slots: bool
    lost: Collection[PagePointer]

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held by whoever places values, until they are committed."""
        ...

    def commit(self, plan: Plan) -> None:
        """Make placed values durable, then write a plan; the caller holds the lock.

        Raises:
            StorageError: nothing was applied.
            CommitUnknown: it may be applied; the same write again is safe.
        """
        ...

    def drop_placed(self) -> None:
        """Forget values that were placed for a plan which is not committed; the caller holds the lock."""
        ...

    def wait(self) -> None:
        """Give other processes time, before what was lost is judged anew."""
        ...

    def note_writes(self, writes: Iterable[tuple[bytes, int]]) -> None:
        """Count bodies of the plan being made: the row of each, and its length in bytes."""
        ...

    def give_back(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        """Do what gives space back, with what room is kept for that."""
        ...


class Backend(Protocol):
    """An open store below its pages; made by `docstore.backends.open_backend`.

    Attributes:
        path: a folder of the store's own, where a sweep may keep what it has done so far.
        schema: what the store declares.
        engine: rows of cells.
        base_rows: of values that others are deltas against.
        band_secret: chooses the bins of bands; b"" where they are as they come.
        runs: where an index may keep sorted runs; None where postings are rows.
        index: the index, once somebody has opened it: reading never does.  Closed with the backend.
        below: of a layer, the backend that it lies over.
        session: names this writer among all that ever wrote; b"" where one process writes.
    """

    path: Path
    schema: Schema
    engine: Engine
    base_rows: BaseRows
    band_secret: bytes
    runs: RunStorage | None
    index: Closing | None
    below: Backend | None
    session: bytes

    @property
    def placement(self) -> Values:
        """Where values lie."""
        ...

    @property
    def lost(self) -> tuple[Any, ...]:
        """Captures that an open found to be lost, until that is acknowledged."""
        ...

    @property
    def lost_commits(self) -> tuple[Any, ...]:
        """Commits that an open found to be lost, until that is acknowledged."""
        ...

    @property
    def set_aside(self) -> tuple[Any, ...]:
        """Files of records that no row names."""
        ...

    def committer(self, durability: Durability) -> Committer:
        """The one commit point, at a durability; made once."""
        ...

    def layer(self) -> Backend:
        """A backend over this one: reads see both, what is written is gone when it is closed."""
        ...

    def compact(
        self,
        table: Table,
        committer: Any,
        upkeep: Callable[[], Upkeep],
        *,
        tablets: Sequence[int] | None,
        level: str,
        full: bool,
        dry_run: bool,
        on_progress: Progress | None,
    ) -> CompactionReport:
        """Drop what was deleted or has expired, write the rest anew, and give space back.

        Args:
            table: of pages, with their policies.
            committer: of all writers.
            upkeep: asked for when pages and the index have to be seen to.
            tablets, level, full, dry_run, on_progress: see `DocumentStore.compact`.
        """
        ...

    def backup(self, committer: Any, folder: Path, on_progress: Progress | None) -> BackupReport:
        """Copy the store as it is now; see `DocumentStore.backup`."""
        ...

    def acknowledge(self) -> None:
        """Forget what was found to be lost."""
        ...

    def publish_server(self, server: str) -> None:
        """Tell other processes that want this store where to ask, such as "unix:/path"; "" takes it back."""
        ...

    def check_writable(self) -> None:
        """Refuse a change of a store that is open for reading only.

        Raises:
            StorageError: it is; `errno` is EROFS.
        """
        ...

    def make_reserve(self) -> None:
        """Keep room for a full disk; for whoever has begun to write, or has given space back."""
        ...

    def problems(self) -> Iterator[Problem]:
        """What is wrong with the backend's own bookkeeping."""
        ...

    def stored_bytes(self) -> int:
        """Bytes of values, records that nothing refers to any more included."""
        ...

    def stats(self) -> dict[str, Any]:
        """Totals, sizes and tablets as plain data."""
        ...

    def codec_stats(self, committer: Any) -> dict[str, dict[str, int]]:
        """What records take by column and codec; reads all of them."""
        ...

    def close(self) -> None:
        """Finish and let go; a second call does nothing."""
        ...
