"""Disk space reserved for a full disk, so that work that frees space can still run: deletes, compaction, opening.

1.  Ordinary writes are refused if they leave less than `kept_bytes`, which LevelDB and the index need to recover and
    to compact.  This helps if the store itself fills the disk.
2.  A file of zeros is allocated while there is space.  If others fill the disk, a delete, a compaction or an open
    shortens it and continues; opening and closing a store, and the end of a compaction, take back what was not used.
    A later write makes it again when there is space.
3.  LevelDB's log, which recovery rewrites as a table, is kept shorter than half of that file (`log_limit_bytes`).  The
    part of the file that recovery needs is left to it: a compaction that fails or is killed may have filled the rest.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from docstore.model.errors import StorageError
from docstore.model.format import ENGINE_DIRECTORY, INDEX_DIRECTORY
from docstore.storage.files import Files

LEAST_BYTES = 1 << 20
MOST_BYTES = 40 << 20
SHARE_OF_STORE = 50
SHARE_OF_ROOM = 4
"""The reserve is at most `LEAST_BYTES` plus 2% of the store, and at most a quarter of the free space."""
MOST_COMPACTION_BYTES = 26 << 20
"""The most that LevelDB rewrites at once: level 0 and the 10 MB of level 1, or a table and those that it overlaps."""
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
PARTS = 4
WORTH_BYTES = 256 << 10
"""A smaller reserve is not made."""

RECOVERY_BYTES = 64 << 10
"""Recovery needs this, and space for a compressed table of the log, for which half of the log's length was measured."""

AMPLE_BYTES = 64 << 20
"""If less than this is free beyond the needs of a compaction, the next rewriting of the log waits for its end."""
_LEVEL0_MOST = 4
"""LevelDB starts a compaction at so many tables in level 0."""
_POLL_SECONDS = 0.002
_MOST_POLLS = 2500

Result = TypeVar("Result")


def recovery_bytes(log_bytes: int) -> int:
    """Free space without which recovery of a log of LevelDB could fail: its table is compressed."""
    return log_bytes * 3 // 4 + RECOVERY_BYTES


def shorten_log(db: Any, before_all: bytes, after_all: bytes, keep_room: Callable[[], int]) -> None:
    """Rewrite LevelDB's log as a table, unless LevelDB might then start a compaction without space for it.

    LevelDB compacts level 0 at four tables, and refuses writes after a compaction that failed on a full disk.  Recovery
    adds one table.  So with space, level 0 is not left with three tables; without space, no fourth table is made.

    Args:
        db: the database; others may write meanwhile.
        before_all, after_all: missing keys, before and after all others.
        keep_room: returns the free bytes beyond the needs of a compaction.
    """
    if _level0_tables(db) >= _LEVEL0_MOST - 1 and keep_room() < 0:
        return
    db.compact_range(start=after_all, stop=after_all)
    spare_bytes = keep_room()
    if spare_bytes >= 0 and _level0_tables(db) == _LEVEL0_MOST - 1:
        with db.write_batch() as batch:
            batch.delete(before_all)
            batch.delete(after_all)
        db.compact_range(start=after_all, stop=after_all)
    polls = _MOST_POLLS if 0 <= spare_bytes < AMPLE_BYTES else 0
    while polls and _level0_tables(db) >= _LEVEL0_MOST:  # other programs may take the space
        time.sleep(_POLL_SECONDS)
        polls -= 1


def _level0_tables(db: Any) -> int:
    return int(db.get_property(b"leveldb.num-files-at-level0"))


class LastRoom(StorageError):
    """This write must not use the reserve."""


class Reserve:
    """The reserve of one store.

    Args:
        files: the file system.
        path: of the reserve, in the store's folder.
    Attributes:
        log_limit_bytes: largest size of LevelDB's log.
        shorten_log: rewrites LevelDB's log as a table.
        compaction_bytes: free space that LevelDB needs to compact.
        kept_bytes: free space that ordinary writes must leave.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._lock = threading.RLock()
        self._freeing: set[int] = set()
        """Threads inside `spend`."""
        self._held_bytes = 0
        """Its length before any work shortened it."""
        self._is_spent = False
        """Work that needs much of it is running."""
        self.log_limit_bytes = LEAST_BYTES // 2
        self.shorten_log: Callable[[], None] = lambda: None
        self.compaction_bytes = 0
        self.kept_bytes = LEAST_BYTES

    def length_bytes(self) -> int:
        """Its size now; 0 if there is none."""
        return self._files.length_bytes(self._path) if self._files.exists(self._path) else 0

    def make(self) -> None:
        """Make the reserve, or adapt its size to the store, if there is space; never fails."""
        store = self._path.parent
        with self._lock, suppress(StorageError):  # another process may take the space
            old_bytes = self.length_bytes()
            wanted_bytes = min(LEAST_BYTES + (self._files.tree_bytes(store) - old_bytes) // SHARE_OF_STORE, MOST_BYTES)
            self.log_limit_bytes = wanted_bytes // 2
            self.compaction_bytes = min(self._files.tree_bytes(store / ENGINE_DIRECTORY), MOST_COMPACTION_BYTES)
            index_bytes = min(self._files.tree_bytes(store / INDEX_DIRECTORY), MOST_COMPACTION_BYTES)
            self.kept_bytes = self.compaction_bytes + index_bytes + wanted_bytes
            if old_bytes > wanted_bytes:
                self._files.truncate(self._path, wanted_bytes)
            self._held_bytes = min(self._held_bytes, wanted_bytes)
            wanted_bytes = min(wanted_bytes, (self.free_bytes() + old_bytes) // SHARE_OF_ROOM)
            if (
                not self._is_spent
                and wanted_bytes >= WORTH_BYTES
                and wanted_bytes - old_bytes > wanted_bytes // (2 * PARTS)
            ):
                self._files.allocate(self._path, wanted_bytes)

    def free_bytes(self) -> int:
        """Free space, without the reserve."""
        return self._files.free_bytes(self._path.parent)

    def is_scarce(self) -> bool:
        """Whether ordinary writes are refused."""
        return self.free_bytes() < self.kept_bytes

    def check_room(self, pending_bytes: int = 0) -> None:
        """Refuse an ordinary write that leaves less than `kept_bytes`.

        Work inside `spend` is refused only if recovery might then lack space.

        Args:
            pending_bytes: length of the values that the write adds.
        Raises:
            StorageError: ENOSPC.
        """
        free_bytes = self.free_bytes() - pending_bytes
        if free_bytes >= self.kept_bytes:
            return
        if threading.get_ident() in self._freeing:
            if self._is_recoverable():
                return
            if self.length_bytes() * (PARTS - 1) // PARTS >= self._recovery_bytes():
                raise StorageError(errno.ENOSPC, "the disk is full")  # so that `spend` releases a part of the reserve
            self.shorten_log()
            if self._is_recoverable():
                return
            raise LastRoom(
                errno.ENOSPC,
                f"the disk of {self._path.parent} is full, and the rest of it is needed to open the store again; free "
                f"{self._least_free_bytes() - self.free_bytes()} bytes outside of the store",
            )
        raise StorageError(
            errno.ENOSPC,
            f"the disk of {self._path.parent} is full: {max(free_bytes, 0)} bytes would be free, and {self.kept_bytes} "
            f"are reserved for deletes and compaction; free {self.kept_bytes - free_bytes} bytes, or delete pages and "
            "run `docstore compact`",
        )

    def _is_recoverable(self) -> bool:
        """Whether the store can be opened after one more write, even if others take all that is free."""
        return self.free_bytes() >= self._least_free_bytes()

    def _least_free_bytes(self) -> int:
        needed_bytes = self._recovery_bytes()
        return RECOVERY_BYTES if self.length_bytes() >= needed_bytes else needed_bytes

    def lacking_bytes(self) -> int:
        """How many bytes have to be freed so that the store can be opened, after that has failed on a full disk."""
        return max(RECOVERY_BYTES, self._recovery_bytes() - self.free_bytes() - self.length_bytes())

    def _recovery_bytes(self) -> int:
        engine = self._path.parent / ENGINE_DIRECTORY
        logs = [engine / name for name in self._files.names(engine) if name.endswith(".log")]
        return recovery_bytes(sum(map(self._files.length_bytes, logs)))

    def release(self, length_bytes: int | None = None) -> bool:
        """Release the reserve, or a part of it; False if there was none.

        Args:
            length_bytes: of the part; None for all.
        """
        with self._lock:
            old_bytes = self.length_bytes()
            if not old_bytes:
                return False
            if length_bytes is None or length_bytes >= old_bytes:
                self._files.unlink(self._path)
            else:
                self._files.truncate(self._path, old_bytes - length_bytes)
            return True

    def spend(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        """Run work that frees space; if the disk is full, release reserve and run it again.

        Args:
            work: must be repeatable after a StorageError.
            in_parts: release a quarter at a time; False for work that needs much space: if ordinary writes are refused
                it gets at once all that an open does not need, because what a first run has written takes space from a
                second one.
        Raises:
            StorageError: the reserve was not enough.
        """
        held_bytes = self.length_bytes()
        self._held_bytes = max(self._held_bytes, held_bytes)
        spare_bytes = max(0, held_bytes - recovery_bytes(self.log_limit_bytes))
        part_bytes = held_bytes // PARTS + 1 if in_parts else spare_bytes
        thread = threading.get_ident()
        is_outermost = thread not in self._freeing
        try:
            self._freeing.add(thread)
            if not in_parts and self.is_scarce():
                self.release(part_bytes)
            self._is_spent |= not in_parts
            while True:
                try:
                    return work()
                except StorageError as error:
                    if isinstance(error, LastRoom) or error.errno not in FULL_DISK:
                        raise
                    if (not in_parts and self.length_bytes() < held_bytes) or not self.release(part_bytes):
                        raise
        finally:
            if is_outermost:
                self._is_spent = False
                self._freeing.discard(thread)
                if not in_parts:
                    self.take_back()

    def take_back(self) -> None:
        """Make the reserve as long as it was before work that shortened it, as far as there is space; never fails."""
        with self._lock, suppress(StorageError):  # another process may take the space
            old_bytes = self.length_bytes()
            length_bytes = min(self._held_bytes, old_bytes + self.free_bytes())
            if length_bytes > old_bytes and length_bytes >= WORTH_BYTES:
                self._files.allocate(self._path, length_bytes)
