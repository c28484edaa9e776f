"""Metrics for Prometheus at ``/metrics``. Labels are route names only, so their number is bounded."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from flask import Flask, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest, multiprocess, values
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from perfci import __version__
from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.maintenance.monitoring_figures import DatabaseStats, load_database_stats
from perfci.store.open_database import find_sqlite_file

REQUEST_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Bounds of the buckets; 0.1 s (a read) and 0.25 s (an upload at half load) are budgets of this service."""

COUNTER_FOLDER_PREFIX = "perfci-metrics-"

GAUGE_HELP = {
    "database_bytes": "bytes that the database takes",
    "outbox_waiting": "uploads that wait to be judged",
    "outbox_failed": "uploads that could not be judged and wait for a person",
    "outbox_oldest_seconds": "for how long the oldest upload waits to be judged",
    "deliveries_waiting": "notifications to be sent",
    "deliveries_failed": "notifications that could not be sent",
    "deliveries_oldest_due_seconds": "for how long the oldest due notification waits",
    "run_events_waiting": "workflow runs waiting to be reported on a pull request",
    "run_events_failed": "workflow runs that could not be reported on a pull request",
    "judge_heartbeat": "heartbeat counter of the judge worker",
    "disk_free_bytes": "free bytes where a SQLite database is",
}


class RequestMetrics(NamedTuple):
    """Metrics of the requests that this process answered."""

    answered: Counter
    seconds: Histogram


def register_prometheus_metrics(app: Flask, store: Store, clock: Callable[[], datetime]) -> RequestMetrics:
    """Add ``/metrics``; return what counts the requests."""
    own_requests = CollectorRegistry()
    store_registry = CollectorRegistry()
    store_registry.register(StoreCollector(store, clock))

    @app.get("/metrics")
    def metrics() -> Response:
        all_requests = own_requests
        if values.ValueClass is not values.MutexValue:
            # Under gunicorn: merge what all its workers counted.
            all_requests = CollectorRegistry()
            multiprocess.MultiProcessCollector(all_requests)  # type: ignore[no-untyped-call]
        text = generate_latest(all_requests) + generate_latest(store_registry)
        return Response(text, content_type=CONTENT_TYPE_LATEST)

    return RequestMetrics(
        Counter("perfci_requests", "Requests answered", ["route", "method", "status"], registry=own_requests),
        Histogram(
            "perfci_request_seconds",
            "How long answers took",
            ["route"],
            buckets=REQUEST_BUCKETS_S,
            registry=own_requests,
        ),
    )


@contextlib.contextmanager
def share_counters_between_workers() -> Iterator[None]:
    """Count in files that forked workers share, and that this process alone makes and removes."""
    _remove_folders_of_dead_servers()
    before: Any = values.ValueClass
    folder, lock = _make_locked_folder()
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
    values.ValueClass = values.MultiProcessValue()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        values.ValueClass = before
        del os.environ["PROMETHEUS_MULTIPROC_DIR"]
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _make_locked_folder() -> tuple[str, int]:
    """Make a folder that is locked until the last process of this server ends, as systemd-tmpfiles(8) asks of
    those who want to keep one."""
    while True:
        folder = tempfile.mkdtemp(prefix=COUNTER_FOLDER_PREFIX)
        with contextlib.suppress(FileNotFoundError):
            lock = _open_folder(folder)
            fcntl.flock(lock, fcntl.LOCK_SH)
            if os.path.exists(folder):
                return folder, lock
            os.close(lock)  # a server that starts at the same time took it for a dead one's


def _remove_folders_of_dead_servers() -> None:
    """Remove what servers left that were killed: folders of this user that nobody holds locked."""
    for folder in Path(tempfile.gettempdir()).glob(f"{COUNTER_FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError):  # another user's, no folder, locked, or already gone
            lock = _open_folder(folder)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_uid == os.geteuid():
                    shutil.rmtree(folder)
            finally:
                os.close(lock)


def _open_folder(folder: str | Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


class StoreCollector:
    """Metrics of the database, read at each scrape."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store, self._clock = store, clock

    def collect(self) -> Iterator[GaugeMetricFamily]:
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
            "deliveries_oldest_due_seconds": stats.deliveries_oldest_due_s,
            "run_events_waiting": stats.run_events_waiting,
            "run_events_failed": stats.run_events_failed,
            "judge_heartbeat": stats.judge_beat,
        }
        if file := find_sqlite_file(self._store.url):
            values["disk_free_bytes"] = shutil.disk_usage(file.parent).free
        return values
