"""Which ranges of LevelDB's keys hold so many deleted keys that compacting them pays.

Counts and ranges; must not know LevelDB's handle, nor what a key means beyond its first byte, the table's tag.

LevelDB writes a mark for each deleted key, and an iterator that starts before such marks passes every one of them until
a compaction drops them.  Deleting and writing pages of one body over and over made a page cost 16 times as much after
14,000 deletes (`tools.bench.growth`).  A range is compacted once its deletes are worth it: what is rewritten stays in
proportion to what was deleted.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

LEAST_DELETES: Final = 4096
"""Fewer marks in a table cost a look-up less than a compaction is worth."""
REWRITTEN_BYTES_A_DELETE: Final = 2048
"""Most bytes of tables rewritten for each deleted key, some ten times a key with its value."""


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
