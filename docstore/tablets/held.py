"""Raw values at hand: those used last, up to so many bytes.

Knows nothing but bytes and their names.  Thread-safe.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock

Name = tuple[bytes, str]


class HeldValues:
    """Values by name; the one that was not used for longest goes first.

    Args:
        most_bytes: of values together; a longer one is not held.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._held_bytes = 0
        self._held: OrderedDict[Name, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, name: Name) -> bytes | None:
        """The value of a name, if it is held."""
        with self._lock:
            raw = self._held.get(name)
            if raw is not None:
                self._held.move_to_end(name)
            return raw

    def put(self, name: Name, raw: bytes) -> None:
        """Hold a value."""
        if len(raw) > self._most_bytes:
            return
        with self._lock:
            self._held_bytes += len(raw) - len(self._held.pop(name, b""))
            self._held[name] = raw
            while self._held_bytes > self._most_bytes:
                self._held_bytes -= len(self._held.popitem(last=False)[1])
