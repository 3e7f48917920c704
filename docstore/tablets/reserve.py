"""Room that is kept for a full disk, so that what gives space back can still run: deletes and compaction.

Knows `files`.  Must not know what else is in a store.

A file of zeros, allocated while there is room.  It is removed where a delete, a compaction or an open meets a full
disk, which then goes on; a later write makes it again, once there is room.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from docstore.model.errors import StorageError
from docstore.storage.files import Files

LEAST_BYTES = 1 << 20
MOST_BYTES = 40 << 20
"""LevelDB's log has 32 MB at most, and recovery after a failed write makes a table of it."""
SHARE_OF_STORE = 2
SHARE_OF_ROOM = 4
"""The reserve takes at most a half of what the store has, and a quarter of the room that is left."""
PARTS = 4
WORTH_BYTES = 256 << 10
"""A smaller reserve is not made."""

Result = TypeVar("Result")


class Reserve:
    """The reserve of one store.

    Args:
        files: the file system.
        path: of the reserve.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path

    def length_bytes(self) -> int:
        """How large it is now; 0 where there is none."""
        return self._files.length_bytes(self._path) if self._files.exists(self._path) else 0

    def make(self, store_bytes: int) -> None:
        """Make it, or make it again where the store has grown, if there is room; never fails.

        Args:
            store_bytes: of the store's segments and its engine.
        """
        there = self.length_bytes()
        wanted = min(max(store_bytes // SHARE_OF_STORE, LEAST_BYTES), MOST_BYTES)
        wanted = min(wanted, (self._files.free_bytes(self._path.parent) + there) // SHARE_OF_ROOM)
        if wanted < WORTH_BYTES or there * 2 > wanted:
            return
        try:
            self.release()
            self._files.allocate(self._path, wanted)
        except StorageError:
            return  # somebody else took the room

    def release(self, length_bytes: int | None = None) -> bool:
        """Give room back; False where there was none.

        Args:
            length_bytes: of the room; None for all.
        """
        there = self.length_bytes()
        if not there:
            return False
        if length_bytes is None or length_bytes >= there:
            self._files.unlink(self._path)
        else:
            self._files.truncate(self._path, there - length_bytes)
        return True

    def spend(self, work: Callable[[], Result], *, in_parts: bool = True) -> Result:
        """Do what gives space back; where the disk is full, again with room of the reserve.

        Args:
            work: can be done again after a StorageError.
            in_parts: with a quarter of the reserve at a time, so that the next one finds some as well; False for
                what takes long and needs much.
        Raises:
            StorageError: there is no room all the same.
        """
        part_bytes = self.length_bytes() // PARTS + 1 if in_parts else None
        while True:
            try:
                return work()
            except StorageError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not self.release(part_bytes):
                    raise
