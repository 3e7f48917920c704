"""The log: one JSON object a line on stderr, written by a thread, so that a slow reader of the log stalls nobody.

Knows nothing of requests.  Lines wait in memory up to a bound; beyond it they are dropped and counted.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any, TextIO

MOST_WAITING = 10_000
WRITE_SECONDS = 0.1
"""Lines are written so often: to wake a thread for each would cost a request half a millisecond."""


class Log:
    """A log of JSON lines.  Thread-safe.

    Args:
        stream: to write to.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._waiting: deque[str] = deque()
        self._dropped = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._write, name="docstore-log", daemon=True)
        self._thread.start()

    def write(self, event: str, **fields: Any) -> None:
        """Write what happened; fields that are None are left out."""
        now = time.time()
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
        given = {name: value for name, value in fields.items() if value is not None}
        text = json.dumps({"time": stamp, "event": event, **given}, separators=(",", ":"), default=str)
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                self._dropped += 1
                return
            self._waiting.append(text)

    def close(self) -> None:
        """Write what waits, for a second at most, and end."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()
        self._thread.join(1.0)

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed, WRITE_SECONDS)
                lines = list(self._waiting)
                self._waiting.clear()
                dropped, self._dropped = self._dropped, 0
                ends = self._is_closed
            if not lines and not dropped and not ends:
                continue
            if dropped:
                lines.append(json.dumps({"event": "log lines dropped", "count": dropped}))
            with suppress(OSError, ValueError):
                self._stream.write("".join(f"{line}\n" for line in lines))
                self._stream.flush()
            if ends:
                return
