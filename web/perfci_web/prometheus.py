"""Figures for Prometheus. Labels come from the table of routes alone, so their number is bounded; none names a project.

The client library looks for the folder that several processes share when it is imported, which is why that waits until
an application is made: gunicorn has named the folder by then.
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
"""The budget of a read is 0.1 s, of an upload 0.25 s at half load: both are bounds of buckets."""

GAUGE_HELP = {
    "database_bytes": "bytes that the database takes",
    "outbox_waiting": "uploads that wait to be judged",
    "outbox_failed": "uploads that could not be judged and wait for a person",
    "outbox_oldest_seconds": "for how long the oldest upload waits to be judged",
    "deliveries_waiting": "notifications to be sent",
    "deliveries_failed": "notifications that could not be sent",
    "run_events_waiting": "runs of workflows that GitHub told of and a pull request is to hear of",
    "run_events_failed": "runs of workflows of which a pull request could not be told",
    "judge_beat": "grows while a process judges",
    "disk_free_bytes": "free bytes where a SQLite database is",
}


def init_app(app: Flask, store: Store, clock: Callable[[], datetime]) -> None:
    """Count every request, and answer ``/metrics``."""
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
    """What this process counted, or under gunicorn what all of them did."""
    from prometheus_client import CollectorRegistry, values
    from prometheus_client.multiprocess import MultiProcessCollector

    if values.ValueClass is values.MutexValue:
        return own_registry
    together = CollectorRegistry()
    MultiProcessCollector(together)  # type: ignore[no-untyped-call]
    return together


def _build_registry(collector: StoreCollector) -> Any:
    from prometheus_client import CollectorRegistry

    registry = CollectorRegistry()
    registry.register(collector)
    return registry


class StoreCollector:
    """What the database knows, asked whenever somebody looks."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store, self._clock = store, clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
        from prometheus_client.core import GaugeMetricFamily

        about = GaugeMetricFamily("perfci_build", "The version that runs", labels=["version"])
        about.add_metric([__version__], 1)
        yield about
        try:
            with self._store.read() as tx:
                found = load_database_stats(tx, self._clock())
        except PerfciError:
            yield GaugeMetricFamily("perfci_store_readable", "Whether the database answers", value=0)
            return
        yield GaugeMetricFamily("perfci_store_readable", "Whether the database answers", value=1)
        for name, value in self._gauge_values(found).items():
            yield GaugeMetricFamily(f"perfci_{name}", GAUGE_HELP[name].capitalize(), value=value)

    def _gauge_values(self, store_figures: DatabaseStats) -> dict[str, float]:
        values: dict[str, float] = {
            "database_bytes": store_figures.database_bytes,
            "outbox_waiting": store_figures.outbox_waiting,
            "outbox_failed": store_figures.outbox_failed,
            "outbox_oldest_seconds": store_figures.outbox_oldest_s,
            "deliveries_waiting": store_figures.deliveries_waiting,
            "deliveries_failed": store_figures.deliveries_failed,
            "run_events_waiting": store_figures.run_events_waiting,
            "run_events_failed": store_figures.run_events_failed,
            "judge_beat": store_figures.judge_beat,
        }
        if file := sqlite_file_of(self._store.url):
            values["disk_free_bytes"] = shutil.disk_usage(file.parent).free
        return values
