"""When LevelDB is made to compact: ranges of many deleted keys, and a log that has grown too long.

Must not know LevelDB's handle, nor what a key means beyond its first byte, the table's tag.

LevelDB writes a mark for each deleted key, and an iterator that starts before such marks passes every one of them until
a compaction drops them.  Deleting and writing pages of one body over and over made a page cost 16 times as much after
14,000 deletes (`tools.bench.growth`).  A range is compacted once its deletes are worth it: what is rewritten stays in
proportion to what was deleted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

LEAST_DELETES: Final = 4096
"""Fewer marks in a table cost a look-up less than a compaction is worth."""
REWRITTEN_BYTES_A_DELETE: Final = 2048
"""Most bytes of tables rewritten for each deleted key, some ten times a key with its value."""
AMPLE_BYTES: Final = 64 << 20
"""If less is free beyond what a compaction needs, the writer waits for its end."""
_LEVEL0_MOST: Final = 4
"""LevelDB compacts so many tables of level 0."""
_POLL_SECONDS: Final = 0.002
_MOST_POLLS: Final = 2500


class _Range(NamedTuple):
    """Deleted keys of a table since its last compaction: the first, the last, and how many."""

    first: bytes
    last: bytes
    deletes: int


class DeletedKeys:
    """Counts deleted keys by table.  Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ranges: dict[bytes, _Range] = {}

    def note(self, keys: Iterable[bytes]) -> None:
        """Count keys that a batch deletes."""
        with self._lock:
            for key in keys:
                tag = key[:1]
                known = self._ranges.get(tag)
                if known is None:
                    self._ranges[tag] = _Range(key, key, 1)
                else:
                    self._ranges[tag] = _Range(min(known.first, key), max(known.last, key), known.deletes + 1)

    def take_due(self, size_bytes: Callable[[bytes, bytes], int]) -> list[tuple[bytes, bytes]]:
        """Give the ranges that are to be compacted now, and forget their keys.

        Args:
            size_bytes: gives what the tables of a range [low, high) take.
        Returns:
            (low, high) of each range, high behind its last deleted key.
        """
        due = []
        with self._lock:
            for tag, (first, last, deletes) in list(self._ranges.items()):
                high = last + b"\x00"
                if deletes >= LEAST_DELETES and size_bytes(first, high) <= deletes * REWRITTEN_BYTES_A_DELETE:
                    del self._ranges[tag]
                    due.append((first, high))
        return due


def shorten_log(db: Any, before_all: bytes, after_all: bytes, keep_room: Callable[[], int]) -> None:
    """Make a table of LevelDB's log, unless LevelDB might then compact without the room for it.

    LevelDB compacts level 0 at four tables, and writes no more after a compaction that failed on a full disk.  Recovery
    makes one table more.  So three are not left while there is room, and no fourth is made without.

    Args:
        db: the database; nobody else writes meanwhile.
        before_all, after_all: keys that are not there, on both sides of all others.
        keep_room: gives the bytes that are free beyond what a compaction needs.
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
    while polls and _level0_tables(db) >= _LEVEL0_MOST:  # others may take the room
        time.sleep(_POLL_SECONDS)
        polls -= 1


def _level0_tables(db: Any) -> int:
    return int(db.get_property(b"leveldb.num-files-at-level0"))
