"""What a server tells of itself: a log of JSON lines, numbers for Prometheus, and pages written by the minute.

A thread writes the log, so that a slow reader of it stalls nobody: lines wait in memory up to a bound; beyond it they
are dropped and counted.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Any, Final, TextIO

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)
from prometheus_client.exposition import generate_latest

from docstore.model.capture import STORED_KNOWN, STORED_REFUSED
from docstore.model.types import PutResult

# --- the log

MOST_WAITING = 10_000
WRITE_SECONDS = 0.1
"""Lines are written so often: to wake a thread for each would cost a request half a millisecond."""


class Log:
    """A log of JSON lines.  Thread-safe without a lock: a signal handler writes too, and an interrupt keeps none.

    Args:
        stream: to write to.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._waiting: deque[tuple[float, str, dict[str, Any]]] = deque()
        self._dropped = 0
        self._closing: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="docstore-log", daemon=True)
        self._thread.start()

    def write(self, event: str, **fields: Any) -> None:
        """Write what happened; fields that are None are left out."""
        if len(self._waiting) >= MOST_WAITING:
            self._dropped += 1
        else:
            self._waiting.append((time.time(), event, fields))

    def close(self) -> None:
        """Write what waits, for a second at most, and end."""
        self._closing.put(None)
        self._thread.join(1.0)

    def _write(self) -> None:
        ends = False
        while not ends:
            with suppress(Empty):
                self._closing.get(timeout=WRITE_SECONDS)
                ends = True
            lines = [_line(*self._waiting.popleft()) for _ in range(len(self._waiting))]
            dropped, self._dropped = self._dropped, 0
            if dropped:
                lines.append(json.dumps({"event": "log lines dropped", "count": dropped}) + "\n")
            if lines:
                with suppress(OSError, ValueError):
                    self._stream.write("".join(lines))
                    self._stream.flush()


@lru_cache(maxsize=1)
def _second(at: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at))


def _line(at: float, event: str, fields: dict[str, Any]) -> str:
    given = {name: value for name, value in fields.items() if value is not None}
    return _encode({"time": f"{_second(int(at))}.{int(at % 1 * 1000):03d}Z", "event": event, **given}) + "\n"


_encode: Final = json.JSONEncoder(separators=(",", ":"), default=str).encode

# --- numbers for Prometheus: requests, waiting bytes, verdicts, and the totals of the store

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)

MINUTES = 60


class Metrics:
    """Counts what a server does.  Thread-safe.

    Args:
        clock: seconds since a fixed time.
    Attributes:
        started: when counting began, in microseconds since 1970.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.started = time.time_ns() // 1000
        self.registry = CollectorRegistry()
        self._clock = clock
        self._lock = threading.Lock()
        self._minutes = [0] * (MINUTES + 1)
        self._minute = int(clock() // 60)
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self._requests = Counter(
            "docstore_requests", "Requests answered", ("route", "method", "status"), registry=self.registry
        )
        self._seconds = Histogram(
            "docstore_request_seconds", "Time of requests", ("route",), buckets=SECONDS, registry=self.registry
        )
        self._of_requests: dict[tuple[str, str, int], tuple[Counter, Histogram]] = {}
        """Looked up by labels they cost 0.1 ms a request."""
        self._pages = Counter(
            "docstore_pages", "Pages written, by verdict and by what was stored", ("verdict", "stored"),
            registry=self.registry,
        )  # fmt: skip
        self._page_bytes = Counter("docstore_page_bytes", "Bytes of bodies of written pages", registry=self.registry)

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Show a number that is read when Prometheus asks."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def count_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered; status 0 if its client had gone."""
        made = self._of_requests.get((route, method, status))
        if made is None:
            known = method if method in ("GET", "POST", "PUT", "DELETE", "HEAD") else "other"
            made = self._requests.labels(route, known, str(status)), self._seconds.labels(route)
            if known == method:
                self._of_requests[route, method, status] = made
        made[0].inc()
        made[1].observe(seconds)

    def count_results(self, results: Iterable[PutResult], body_bytes: int) -> None:
        """Pages were written."""
        written = 0
        counts: dict[tuple[str, str], int] = {}
        for result in results:
            kind = (str(result.verdict.kind), result.stored)
            counts[kind] = counts.get(kind, 0) + 1
            written += result.stored not in (STORED_REFUSED, STORED_KNOWN)
        with self._lock:
            self._drop_old_minutes()
            self._minutes[-1] += written
        for kind, count in counts.items():
            self._pages.labels(*kind).inc(count)
        self._page_bytes.inc(body_bytes)

    def text(self, stats: dict[str, Any]) -> bytes:
        """All numbers, with those of a store (`DocumentStore.stats`), as Prometheus reads them."""
        registry = CollectorRegistry()
        totals = Gauge("docstore_total", "Totals of the store", ("name",), registry=registry)
        for name, value in stats.get("totals", {}).items():
            if isinstance(value, int | float):
                totals.labels(str(name)).set(value)
        for name, text, value in (
            ("docstore_segments", "Segment files", stats.get("segments", 0)),
            ("docstore_segment_bytes", "Bytes in segment files", stats.get("segment_bytes", 0)),
            ("docstore_tablets", "Tablets", len(stats.get("tablets", ()))),
        ):
            Gauge(name, text, registry=registry).set(value)
        return generate_latest(self.registry) + generate_latest(registry)

    def minutes(self) -> list[int]:
        """Pages written in each of the last MINUTES minutes, the oldest first, and in the minute that is not over."""
        with self._lock:
            self._drop_old_minutes()
            return list(self._minutes)

    def _drop_old_minutes(self) -> None:
        """REQUIRES: self._lock."""
        passed = min(int(self._clock() // 60) - self._minute, MINUTES + 1)
        if passed > 0:
            self._minutes = self._minutes[passed:] + [0] * passed
            self._minute = int(self._clock() // 60)
