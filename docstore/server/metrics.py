"""Numbers for Prometheus: requests, waiting bytes, verdicts, and the store's own totals.

Knows the Prometheus client and the shape of results; must not know routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from docstore.model.capture import STORED_REFUSED
from docstore.model.types import PutResult
from docstore.server.page.rate import Rate

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Counts what a server does.  Thread-safe.

    Attributes:
        rate: pages written in each of the last minutes.
    """

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.rate = Rate()
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
        self.registry.register(_Gauges(lambda: [_gauge(name, text, value())]))

    def note_request(self, route: str, method: str, status: int, seconds: float) -> None:
        """A request was answered; status 0 where its client had gone."""
        made = self._of_requests.get((route, method, status))
        if made is None:
            known = method if method in ("GET", "POST", "PUT", "DELETE", "HEAD") else "other"
            made = self._requests.labels(route, known, str(status)), self._seconds.labels(route)
            if known == method:
                self._of_requests[route, method, status] = made
        made[0].inc()
        made[1].observe(seconds)

    def note_results(self, results: Iterable[PutResult], body_bytes: int) -> None:
        """Pages were written."""
        written = 0
        counts: dict[tuple[str, str], int] = {}
        for result in results:
            kind = (str(result.verdict.kind), result.stored)
            counts[kind] = counts.get(kind, 0) + 1
            written += result.stored != STORED_REFUSED
        self.rate.note(written)
        for kind, count in counts.items():
            self._pages.labels(*kind).inc(count)
        self._page_bytes.inc(body_bytes)

    def text(self, stats: dict[str, Any]) -> bytes:
        """All numbers, with those of a store (`DocumentStore.stats`), as Prometheus reads them."""
        registry = CollectorRegistry()
        registry.register(_Gauges(lambda: _of_store(stats)))
        return generate_latest(self.registry) + generate_latest(registry)


class _Gauges:
    def __init__(self, made: Callable[[], list[Metric]]) -> None:
        self._made = made

    def collect(self) -> Iterable[Metric]:
        return self._made()


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=value)


def _of_store(stats: dict[str, Any]) -> list[Metric]:
    totals = GaugeMetricFamily("docstore_total", "Totals of the store", labels=["name"])
    for name, value in stats.get("totals", {}).items():
        if isinstance(value, int | float):
            totals.add_metric([str(name)], value)
    return [
        totals,
        _gauge("docstore_segments", "Segment files", stats.get("segments", 0)),
        _gauge("docstore_segment_bytes", "Bytes in segment files", stats.get("segment_bytes", 0)),
        _gauge("docstore_tablets", "Tablets", len(stats.get("tablets", ()))),
    ]
