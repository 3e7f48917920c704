"""The keys of a range of a LevelDB database, in chunks that grow.

Knows the iterator of the database that it is given; must not know what a key means.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import Any

from docstore.tablets.engines.barekeys import TAKE_FIRST, TAKE_MOST


def take_keys(db: Any, start: bytes, stop: bytes, limit: int | None) -> list[bytes]:
    """The first `limit` keys of a range, in growing chunks that end behind it or at the limit."""
    found: list[bytes] = []
    if start >= stop:
        return found
    chunk = TAKE_FIRST
    with db.iterator(start=start, include_value=False, verify_checksums=True) as stream:
        while limit is None or len(found) < limit:
            chunk_keys = list(islice(stream, chunk if limit is None else min(chunk, limit - len(found))))
            if not chunk_keys:
                raise StopIteration
            found += chunk_keys
            if chunk_keys[-1] >= stop:
                del found[bisect_left(found, stop) :]
                break
            chunk = min(chunk * 4, TAKE_MOST)
    return found
