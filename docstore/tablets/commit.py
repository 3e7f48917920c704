"""The commit point: makes values durable, then writes the rows of a plan.

All rows of pages, bases and postings are written here, under one lock, with the row of the manifest that says how far
segments are committed.  So the committed lengths always match the rows.  Other rows of table `meta` have writers of
their own: the manifest writes the rows of segments and tablets, `RunIndex` trims its log, an open records losses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from docstore.model.choices import Durability
from docstore.model.errors import CommitUnknown
from docstore.model.types import RowMutations
from docstore.storage.engine import Engine, Plan, joined_rows
from docstore.storage.files import read_only_error
from docstore.tablets.manifest import Manifest
from docstore.tablets.reserve import Reserve
from docstore.tablets.values import LocalValues

Result = TypeVar("Result")


class LocalCommitter:
    """Commits rows together with the values stored for them; see `Committer` of the port.

    Attributes:
        manifest: tablets and segments; its changes are written with each commit.
        watch: called with the rows of each plan before they are written.  Compaction sets it while it looks for
            segments without refs.

    Args:
        engine, values, manifest: that are written.
        durability: what a commit survives.
        reserve: of the disk.
        read_only: the folder of the store, if it is open for reading only.
    """

    many_writers = False

    def __init__(
        self,
        engine: Engine,
        values: LocalValues,
        manifest: Manifest,
        durability: Durability,
        reserve: Reserve,
        read_only: Path | None = None,
    ) -> None:
        self.lock = threading.RLock()
        self.manifest = manifest
        self.durability = durability
        self.commits = 0
        self.followers: set[Callable[[Sequence[RowMutations], bool], None]] = set()
        self.watch: Callable[[Sequence[RowMutations]], None] | None = None
        self._engine = engine
        self._values = values
        self._read_only = read_only
        self._reserve = reserve
        values.value_log.begin_group(manifest.group + 1)

    def commit(self, plan: Plan) -> None:
        rows = plan.all_rows
        if rows or plan.counts:
            if self._read_only is not None:
                raise read_only_error(self._read_only)
            self._reserve.check_room(self._values.value_log.pending_bytes())
        self.commits += 1
        if self.watch is not None:
            self.watch(rows)
        try:
            self._values.dictionaries.sync()
            if self.durability is Durability.SYNC:
                self._values.value_log.sync()
            else:
                self._values.value_log.flush()
        except BaseException:
            self._values.value_log.drop()
            raise
        first = self.manifest.rows_of(plan, self._values.value_log.progress())
        rows = joined_rows([*first, *self._values.dictionaries.mutations()], rows)
        known = False
        try:
            self._engine.mutate_rows(rows, self.durability)
            known = True
            self.manifest.committed()
        except BaseException as error:
            self.manifest.aborted()
            self._values.value_log.abandon()
            if isinstance(error, MemoryError):
                raise CommitUnknown("memory ran out during a commit; write it again") from error
            raise
        finally:
            # An interrupt (Ctrl-C) is held back until all followers have run.  One that it may have stopped is called
            # again with `is_sure` False, and reads what was written.  This loop is not a function of its own, because
            # an interrupt could stop the call before its first line.
            interrupt: KeyboardInterrupt | None = None
            waiting = list(self.followers)
            is_sure = known
            while waiting:
                try:
                    while waiting:
                        waiting[-1](rows, is_sure)
                        waiting.pop()
                except KeyboardInterrupt as error:
                    interrupt, is_sure = error, False
            if interrupt is not None and not known:
                raise interrupt
        self._values.value_log.begin_group(self.manifest.group + 1)
        if self.manifest.has_grown:
            self.manifest.split_grown(self.durability)
        if interrupt is not None:
            raise interrupt

    def drop_values(self) -> None:
        """Drop values that were appended and are not committed; otherwise the next commit would write them too."""
        self._values.value_log.drop()

    def run_with_reserve(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        return self._reserve.spend(work, in_parts=in_parts)
