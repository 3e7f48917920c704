"""The one cache: values by key, bounded by what they cost.

Knows nothing of what it holds.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


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

    def missing(self, keys: Iterable[K]) -> list[K]:
        """Of some keys those that are not held."""
        return [key for key in keys if key not in self._values]

    def get(self, key: K) -> V | None:
        """The value of a key, which becomes the last used; None if there is none."""
        held = self._values.get(key)  # without the lock, which takes as long: each of the two steps is whole
        if held is None:
            return None
        try:  # noqa: SIM105 half of the time of `suppress`
            self._values.move_to_end(key)
        except KeyError:
            pass  # another thread has just dropped it
        return held[0]

    def put(self, key: K, value: V) -> None:
        """Hold a value, in the place of the key's; it becomes the last used."""
        cost = 1 if self._cost is None else self._cost(value)
        with self._lock:
            held = self._values.pop(key, None)
            if held is not None:
                self._used -= held[1]
            if cost > self._capacity:
                return
            self._values[key] = value, cost
            self._used += cost
            while self._used > self._capacity:
                self._used -= self._values.popitem(last=False)[1][1]

    def drop(self, key: K) -> None:
        """Forget a key; nothing happens if it is not held."""
        with self._lock:
            held = self._values.pop(key, None)
            if held is not None:
                self._used -= held[1]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self._used = 0
