"""Room that is kept for a full disk, so that what frees space can still run: deletes, compaction and opening.

Knows `files` and which folder is the engine's.  Must not know what else is in a store.

Three rules work together:

1.  Ordinary writes are refused while less than `kept_bytes` are free: what LevelDB needs to recover and to compact.
    This holds if the store itself fills the disk.
2.  A file of zeros is allocated while there is room.  If others fill the disk, a delete, a compaction or an open
    removes it and goes on.  A later write makes it again, once there is room.
3.  LevelDB's log, of which recovery makes a table, is kept shorter than half of that file (`log_limit_bytes`).
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from docstore.model.errors import StorageError
from docstore.model.format import ENGINE_DIRECTORY
from docstore.storage.files import Files

LEAST_BYTES = 1 << 20
MOST_BYTES = 40 << 20
SHARE_OF_STORE = 50
SHARE_OF_ROOM = 4
"""The reserve takes at most `LEAST_BYTES` and 2% of what the store has, and a quarter of the room that is left."""
MOST_COMPACTION_BYTES = 26 << 20
"""LevelDB rewrites so much at a time at most: level 0 and the 10 MB of level 1, or a table and what it overlaps."""
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
PARTS = 4
WORTH_BYTES = 256 << 10
"""A smaller reserve is not made."""

RECOVERY_BYTES = 64 << 10
"""Recovery needs so much, and a table of the log, which is compressed: half of the log's length was measured."""

Result = TypeVar("Result")


class LastRoom(StorageError):
    """The reserve must not be spent on this write."""


class Reserve:
    """The reserve of one store.

    Args:
        files: the file system.
        path: of the reserve, in the store's folder.
    Attributes:
        log_limit_bytes: how long LevelDB's log may grow.
        shorten_log: makes a table of LevelDB's log.
        compaction_bytes: what LevelDB needs to compact.
        kept_bytes: ordinary writes leave so much free.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._lock = threading.RLock()
        self._freeing: set[int] = set()
        """Threads that free space now."""
        self.log_limit_bytes = LEAST_BYTES // 2
        self.shorten_log: Callable[[], None] = lambda: None
        self.compaction_bytes = 0
        self.kept_bytes = LEAST_BYTES

    def length_bytes(self) -> int:
        """How large it is now; 0 if there is none."""
        return self._files.length_bytes(self._path) if self._files.exists(self._path) else 0

    def make(self) -> None:
        """Make it, or make it anew if the store has grown or shrunk, if there is room; never fails."""
        store = self._path.parent
        with self._lock, suppress(StorageError):  # somebody else took the room
            there = self.length_bytes()
            wanted = min(LEAST_BYTES + (self._files.tree_bytes(store) - there) // SHARE_OF_STORE, MOST_BYTES)
            self.log_limit_bytes = wanted // 2
            self.compaction_bytes = min(self._files.tree_bytes(store / ENGINE_DIRECTORY), MOST_COMPACTION_BYTES)
            self.kept_bytes = self.compaction_bytes + wanted
            if there > wanted:
                self._files.truncate(self._path, wanted)
            wanted = min(wanted, (self.free_bytes() + there) // SHARE_OF_ROOM)
            if wanted >= WORTH_BYTES and wanted - there > wanted // (2 * PARTS):
                self.release()
                self._files.allocate(self._path, wanted)

    def free_bytes(self) -> int:
        """Room that is left beside the reserve."""
        return self._files.free_bytes(self._path.parent)

    def check_room(self) -> None:
        """Refuse an ordinary write while there is just enough room to recover and to compact.

        What frees space is refused only if recovery might not find the room that it needs afterwards.

        Raises:
            StorageError: ENOSPC.
        """
        free_bytes = self.free_bytes()
        if free_bytes >= self.kept_bytes:
            return
        if threading.get_ident() in self._freeing:
            if free_bytes < RECOVERY_BYTES and self.length_bytes():
                raise StorageError(errno.ENOSPC, "the disk is full")  # so that `spend` goes on with more room
            if not self._is_last_room():
                return
            self.shorten_log()
            if not self._is_last_room():
                return
            raise LastRoom(
                errno.ENOSPC,
                f"the disk of {self._path.parent} is full, and what is left is needed to open the store again: free "
                "space outside of the store",
            )
        raise StorageError(
            errno.ENOSPC,
            f"the disk of {self._path.parent} is full: {free_bytes} bytes are free, and "
            f"{self.kept_bytes} are kept for deletes and compaction; free space, or delete pages and run "
            "`docstore compact`",
        )

    def _is_last_room(self) -> bool:
        """Whether recovery could find less room than it needs after one more write."""
        engine = self._path.parent / ENGINE_DIRECTORY
        logs = [engine / name for name in self._files.names(engine) if name.endswith(".log")]
        log_bytes = sum(map(self._files.length_bytes, logs))
        return self.free_bytes() + self.length_bytes() < log_bytes * 3 // 4 + RECOVERY_BYTES

    def release(self, length_bytes: int | None = None) -> bool:
        """Free the room; False if there was none.

        Args:
            length_bytes: of the room; None for all.
        """
        with self._lock:
            there = self.length_bytes()
            if not there:
                return False
            if length_bytes is None or length_bytes >= there:
                self._files.unlink(self._path)
            else:
                self._files.truncate(self._path, there - length_bytes)
            return True

    def spend(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        """Do what frees space; if the disk is full, again with room of the reserve.

        Args:
            work: can be done again after a StorageError.
            in_parts: with a quarter of the reserve at a time, so that the next one finds some as well; False for
                what takes long and needs much.
        Raises:
            StorageError: there is no room all the same.
        """
        part_bytes = self.length_bytes() // PARTS + 1 if in_parts else None
        thread = threading.get_ident()
        is_outermost = thread not in self._freeing
        self._freeing.add(thread)
        try:
            while True:
                try:
                    return work()
                except StorageError as error:
                    if isinstance(error, LastRoom) or error.errno not in FULL_DISK or not self.release(part_bytes):
                        raise
        finally:
            if is_outermost:
                self._freeing.discard(thread)
