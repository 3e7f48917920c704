"""Caches, bounded by what their values cost.

Knows nothing of what it holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S", bound=Sequence[object])


class LruCache(Generic[K, V]):
    """Values by key; the least recently used goes first.  Thread-safe.

    Args:
        capacity: of all values together, in the unit of `cost`; a value that costs more is not held.
        cost: of a value; one each if not given, so that `capacity` is their number.
    """

    def __init__(self, capacity: int, cost: Callable[[V], int] | None = None) -> None:
        self._capacity = capacity
        self._cost = cost
        self._used = 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def get(self, key: K) -> V | None:
        """The value of a key, which becomes the last used; None if there is none."""
        with self._lock:
            held = self._values.get(key)
            if held is None:
                return None
            self._values.move_to_end(key)
            return held[0]

    def put(self, key: K, value: V) -> None:
        """Hold a value; it becomes the last used."""
        cost = 1 if self._cost is None else self._cost(value)
        with self._lock:
            self._drop(key)
            if cost > self._capacity:
                return
            self._values[key] = value, cost
            self._used += cost
            while self._used > self._capacity:
                self._used -= self._values.popitem(last=False)[1][1]

    def drop(self, key: K) -> None:
        """Forget a key; nothing happens if it is not held."""
        with self._lock:
            self._drop(key)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._used = 0

    def _drop(self, key: K) -> None:
        held = self._values.pop(key, None)
        if held is not None:
            self._used -= held[1]


class SequenceCache(Generic[K, S]):
    """Sequences by key, bounded by their items; those that came first go first.  For one thread.

    Attributes:
        get: the sequence of a key, or None.

    Args:
        capacity: of all keys and items together.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._values: dict[K, S] = {}
        self._used = 0
        self.get = self._values.get

    def __len__(self) -> int:
        return len(self._values)

    @property
    def used(self) -> int:
        """Keys and items held."""
        return self._used

    def missing(self, keys: Iterable[K]) -> list[K]:
        """Of some keys those that are not held."""
        held = self._values
        return [key for key in keys if key not in held]

    def put(self, key: K, value: S) -> None:
        """Hold a sequence, which is not to change; in the place of the key's, if that is held."""
        before = self._values.get(key)
        self._used += len(value) + 1 if before is None else len(value) - len(before)
        self._values[key] = value
        if self._used > self._capacity:
            self._let_oldest_go()

    def pop(self, key: K) -> S | None:
        """Let go of a key; gives its sequence, if it was held."""
        value = self._values.pop(key, None)
        if value is not None:
            self._used -= len(value) + 1
        return value

    def clear(self) -> None:
        """Let go of everything."""
        self._values.clear()
        self._used = 0

    def _let_oldest_go(self) -> None:
        """An eighth of the keys at a time: to find the first of a dict, its places that are free are passed."""
        while self._used > self._capacity:
            for key in list(islice(self._values, len(self._values) // 8 + 1)):
                self.pop(key)
