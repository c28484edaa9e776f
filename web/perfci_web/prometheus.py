"""Metrics for Prometheus at ``/metrics``. Labels are route names only, so their number is bounded.

``prometheus_client`` reads the folder that processes share when it is imported; it is imported late here
because gunicorn sets that folder just before.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from flask import Flask, Response, g, request

from perfci import __version__
from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.maintenance.database_stats import DatabaseStats, load_database_stats, sqlite_file_of

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily

REQUEST_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Bounds of the buckets; 0.1 s (a read) and 0.25 s (an upload at half load) are budgets of this service."""

GAUGE_HELP = {
    "database_bytes": "bytes that the database takes",
    "outbox_waiting": "uploads that wait to be judged",
    "outbox_failed": "uploads that could not be judged and wait for a person",
    "outbox_oldest_seconds": "for how long the oldest upload waits to be judged",
    "deliveries_waiting": "notifications to be sent",
    "deliveries_failed": "notifications that could not be sent",
    "run_events_waiting": "workflow runs waiting to be reported on a pull request",
    "run_events_failed": "workflow runs that could not be reported on a pull request",
    "judge_heartbeat": "heartbeat counter of the judge worker",
    "disk_free_bytes": "free bytes where a SQLite database is",
}


def init_app(app: Flask, store: Store, clock: Callable[[], datetime]) -> None:
    """Count every request, and add ``/metrics``."""
    from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

    own = CollectorRegistry()
    requests = Counter("perfci_requests", "Requests answered", ["route", "method", "status"], registry=own)
    seconds = Histogram(
        "perfci_request_seconds", "How long answers took", ["route"], buckets=REQUEST_BUCKETS_S, registry=own
    )

    @app.before_request
    def start_timer() -> None:
        g.counted_from = time.perf_counter()

    @app.after_request
    def count_request(response: Response) -> Response:
        route = request.endpoint or "none"
        requests.labels(route, _method_label(request.method), str(response.status_code)).inc()
        if "counted_from" in g:
            seconds.labels(route).observe(time.perf_counter() - g.counted_from)
        return response

    @app.get("/metrics")
    def metrics() -> Response:
        text = generate_latest(_merge_processes(own)) + generate_latest(
            _build_registry(StoreCollector(store, clock))
        )
        return Response(text, content_type=CONTENT_TYPE_LATEST)


def _method_label(method: str) -> str:
    return method if method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE") else "other"


def _merge_processes(own_registry: Any) -> Any:
    """Return the metrics of this process, or under gunicorn of all its workers."""
    from prometheus_client import CollectorRegistry, values
    from prometheus_client.multiprocess import MultiProcessCollector

    if values.ValueClass is values.MutexValue:
        return own_registry
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return registry


def _build_registry(collector: StoreCollector) -> Any:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(collector)
    return registry


class StoreCollector:
    """Metrics of the database, read at each scrape."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store, self._clock = store, clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
        from prometheus_client.core import GaugeMetricFamily

        build = GaugeMetricFamily("perfci_build", "The running version", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        try:
            with self._store.read() as tx:
                stats = load_database_stats(tx, self._clock())
        except PerfciError:
            yield GaugeMetricFamily("perfci_store_readable", "Whether the database answers", value=0)
            return
        yield GaugeMetricFamily("perfci_store_readable", "Whether the database answers", value=1)
        for name, value in self._gauge_values(stats).items():
            yield GaugeMetricFamily(f"perfci_{name}", GAUGE_HELP[name].capitalize(), value=value)

    def _gauge_values(self, stats: DatabaseStats) -> dict[str, float]:
        values: dict[str, float] = {
            "database_bytes": stats.database_bytes,
            "outbox_waiting": stats.outbox_waiting,
            "outbox_failed": stats.outbox_failed,
            "outbox_oldest_seconds": stats.outbox_oldest_s,
            "deliveries_waiting": stats.deliveries_waiting,
            "deliveries_failed": stats.deliveries_failed,
            "run_events_waiting": stats.run_events_waiting,
            "run_events_failed": stats.run_events_failed,
            "judge_heartbeat": stats.judge_beat,
        }
        if file := sqlite_file_of(self._store.url):
            values["disk_free_bytes"] = shutil.disk_usage(file.parent).free
        return values
