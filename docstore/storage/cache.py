"""The only cache class: LRU, bounded by the cost of its values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key; the least recently used is evicted first.  Thread-safe.

    Args:
        capacity: of all values together, in the unit of `cost`; a value that costs more is not cached.
        cost: of a value; None for 1 each, then `capacity` is their number.
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

    def missing(self, keys: Iterable[K]) -> list[K]:
        """The keys that are not cached."""
        return [key for key in keys if key not in self._values]

    def get(self, key: K) -> V | None:
        """The value of a key, which becomes the most recently used; None if it is not cached."""
        cached = self._values.get(key)  # without the lock, which takes as long: each of the two steps is atomic
        if cached is None:
            return None
        try:  # noqa: SIM105 half of the time of `suppress`
            self._values.move_to_end(key)
        except KeyError:
            pass  # another thread has just dropped it
        return cached[0]

    def put(self, key: K, value: V) -> None:
        """Cache a value in place of the key's last one; it becomes the most recently used."""
        cost = 1 if self._cost is None else self._cost(value)
        with self._lock:
            old = self._values.pop(key, None)
            if old is not None:
                self._used -= old[1]
            if cost > self._capacity:
                return
            self._values[key] = value, cost
            self._used += cost
            while self._used > self._capacity:
                self._used -= self._values.popitem(last=False)[1][1]

    def drop(self, key: K) -> None:
        """Remove a key, if it is cached."""
        with self._lock:
            old = self._values.pop(key, None)
            if old is not None:
                self._used -= old[1]

    def clear(self) -> None:
        """Remove all keys."""
        with self._lock:
            self._values.clear()
            self._used = 0
