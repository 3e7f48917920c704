"""What an open store may hold in memory; and the only cache class, LRU, bounded by the cost of its values.

One number, `docstore.open(memory="512 MB")`, bounds the memory of a store: each cache takes its share of it (`SHARES`).
The rest is for code, pages in flight, and what LevelDB keeps of its open tables.  Mapped files do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from docstore.compiled import docstore_native
from docstore.model.errors import InvalidArgument

LruCache = docstore_native.LruCache
"""In native code: a write puts some five values and asks ten times, and in Python each put took 1.6 us."""
MB = 1_000_000
DEFAULT_BYTES = 512 * MB, 64 * MB
"""Of a store that may be written, and of one that is open for reading only; and so below."""
FIXED_BYTES = 64 * MB, 16 * MB
"""Of code, and of pages in flight, however much the caches may hold."""
LEAST_BYTES = 96 * MB, 32 * MB
MOST_BYTES = 1 << 50
SHARES: dict[str, tuple[float, float]] = {
    "blocks": (56, 10),
    "memtable": (32, 0),
    "filter of rows": (24, 4),
    "prepared dictionaries": (60, 0),
    "contents of dictionaries": (8, 0),
    "samples": (24, 0),
    "dictionaries": (48, 20),
    "decoded bases": (12, 6),
    "refs of bases": (8, 2),
    "bases": (40, 0),
    "rows of bases": (6, 0),
    "pages": (44, 0),
    "postings": (28, 0),
    "sketches": (12, 2),
    "shingles": (20, 4),
    "siblings": (16, 0),
}
"""MB of each cache with the default."""
_UNITS = {"": 1, "B": 1, "KB": 1000, "MB": MB, "GB": 1000 * MB, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
ENTRY_BYTES = 250
"""Of one entry of a cache, roughly, next to its value: key, places in the table and in the order."""


def parse_memory(text: str | int, name: str = "memory") -> int:
    """Bytes of a setting such as "512 MB", which errors call by its name; a KB is 1000 bytes.

    Raises:
        InvalidArgument: it is no size.
    """
    matched = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)", str(text).strip())
    unit = _UNITS.get(matched[2].upper()) if matched else None
    size = float(matched[1]) * unit if matched and unit else 0
    if not matched or not unit or size > MOST_BYTES:
        raise InvalidArgument(f"{name} is a number and a unit, such as 512MB or 2GB, not {text!r:.100}")
    return round(size)


class Memory:
    """What an open store may hold in memory, divided among its caches.

    Args:
        limit: of all: bytes, or text such as "512 MB"; None for the default of a writer or reader.
        read_only: the store is open for reading only.
        divisor: of all shares: those of a dry run come on top of those of its store.
    Attributes:
        limit_bytes: of all.
        caches: those that were made, by name of their share.
    """

    def __init__(self, limit: str | int | None = None, *, read_only: bool = False, divisor: int = 1) -> None:
        self.limit_bytes = DEFAULT_BYTES[read_only] if limit is None else parse_memory(limit)
        if self.limit_bytes < LEAST_BYTES[read_only]:
            raise InvalidArgument(
                f"memory is at least {LEAST_BYTES[0] // MB}MB, or {LEAST_BYTES[1] // MB}MB of a store that is open for "
                f"reading only, not {self.limit_bytes} bytes"
            )
        self.caches: dict[str, LruCache[Any, Any] | docstore_native.CacheCounts] = {}
        self._read_only = read_only
        self._divisor = divisor

    def share(self, name: str) -> int:
        """Bytes of one share."""
        default_bytes, fixed_bytes = DEFAULT_BYTES[self._read_only], FIXED_BYTES[self._read_only]
        part = (self.limit_bytes - fixed_bytes) / (default_bytes - fixed_bytes)
        return int(SHARES[name][self._read_only] * MB * part / self._divisor)

    def cache(self, name: str, cost: Callable[[Any], int], *, holds: bool = True) -> LruCache[Any, Any]:
        """A cache that is bounded by a share.

        Args:
            name: of the share.
            cost: memory of a value in bytes, without that of its entry.
            holds: False for one that never holds anything.
        """
        made: LruCache[Any, Any] = LruCache(self.share(name) if holds else 0, cost, ENTRY_BYTES)
        self.caches[name] = made
        return made

    def stats(self) -> dict[str, dict[str, int]]:
        """Of each cache its bound, bytes in use, entries, and look-ups that found a value or none."""
        return {
            name: {
                "limit_bytes": self.share(name),
                "used_bytes": cache.used,
                "entries": len(cache),
                "hits": cache.hits,
                "misses": cache.misses,
            }
            for name, cache in self.caches.items()
        }
