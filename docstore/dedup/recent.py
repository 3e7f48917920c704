"""Postings that no run holds yet: a table in memory; the readable reference.

Pure; knows how keys lie in a log; must not know files.  `native/core/src/recent.rs` gives the same answers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from docstore.dedup.candidates import Numbers
from docstore.dedup.runs import keys_of_bytes
from docstore.model.format import RUN_PLACE_BITS

Keys = NDArray[np.uint64]


class Recent:
    """Mixed key -> text numbers, in order of arrival.  Not thread-safe."""

    def __init__(self) -> None:
        self._table: dict[int, int | list[int]] = {}
        self._texts: list[int] = []
        self._parts: list[Keys] = []
        self._postings = 0

    def __len__(self) -> int:
        """Texts posted."""
        return len(self._texts)

    @property
    def postings(self) -> int:
        """Postings held."""
        return self._postings

    def post(self, text: int, logged: bytes) -> None:
        """Add a text under keys as `runs.key_bytes` gives them, different ones."""
        mixed = keys_of_bytes(logged)
        self._parts.append(mixed << np.uint64(RUN_PLACE_BITS) | np.uint64(len(self._texts)))
        self._texts.append(text)
        self._postings += len(mixed)
        table = self._table
        for key in mixed.tolist():
            bucket = table.get(key)
            if bucket is None:
                table[key] = text  # a list for each of so many keys would keep the garbage collector busy
            elif isinstance(bucket, int):
                table[key] = [bucket, text]
            else:
                bucket.append(text)

    def find(self, mixed: Keys, limit: int) -> tuple[Numbers, Keys]:
        """Look up keys: for each posting which key (its index, ascending), and its text; at most `limit` of a key."""
        places: list[int] = []
        texts: list[int] = []
        for place, key in enumerate(mixed.tolist()):
            bucket = self._table.get(key)
            if isinstance(bucket, int):
                places.append(place)
                texts.append(bucket)
            elif bucket is not None:
                places += [place] * min(len(bucket), limit)
                texts += bucket[:limit]
        return np.array(places, np.int64), np.array(texts, np.uint64)

    def packed(self) -> Keys:
        """All postings, ``key << 24 | place``, in order of arrival."""
        return np.concatenate(self._parts) if self._parts else np.empty(0, np.uint64)

    def texts(self) -> Keys:
        """Text numbers by place."""
        return np.array(self._texts, np.uint64)
