"""Liveness and readiness for orchestrators and load balancers."""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from flask import Flask, Response, jsonify

from perfci.model import PerfciError
from perfci.number_format import format_count
from perfci.service.worker.lease import NOTIFICATION_LEASE
from perfci.store import Store
from perfci.store.jobs.work_queue_and_leases import LeaseRecord, find_lease
from perfci.store.maintenance.monitoring_figures import load_database_stats
from perfci.store.maintenance.write_check import require_writable_database
from perfci.store.open_database import find_sqlite_file
from perfci.store.writes.group_commit import GroupCommitter

WRITE_LOCK_WAIT_S = 1.0
"""How long a readiness check waits for the write lock of the database."""

MIN_FREE_BYTES = 100 * 2**20
"""Free bytes needed on the disk of a SQLite database: about a day of uploads, and its write-ahead log."""

MAX_JUDGE_DELAY_S = 900
"""An upload that waits longer is a warning; the server stays ready."""

MAX_DELIVERY_DELAY_S = 300
"""A due notification that waits longer is a warning."""

MAX_SILENCE_S = 60.0
"""A holder of the lease of notifications without a heartbeat for longer is a warning."""

WRITE_CHECK_INTERVAL_S = 1.0
"""How often a write is tried at most: anybody may ask whether the server is ready."""


def register_health_checks(
    app: Flask,
    store: Store,
    group_commit: GroupCommitter,
    *,
    read_only: bool,
    clock: Callable[[], datetime],
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Add ``/healthz`` and ``/readyz``."""
    write_check = WriteCheck(store, group_commit, monotonic)
    heartbeat = HeartbeatWatch(monotonic)

    @app.get("/healthz")
    def healthz() -> Response:
        return jsonify(status="ok")

    @app.get("/readyz")
    def readyz() -> tuple[Response, int]:
        """Report why the server is not ready; what needs attention but does not stop it is a warning."""
        try:
            warnings = _load_warnings(store, clock(), heartbeat)
            if not read_only:
                write_check.require_writable()
                _require_free_space(find_sqlite_file(store.url))
        except PerfciError as error:
            return jsonify(
                status="not ready", problems=[store.hide_address(str(error), "of this server")], warnings=[]
            ), 503
        return jsonify(status="ready", problems=[], warnings=warnings), 200


class WriteCheck:
    """Whether uploads can be stored, tried at most every ``WRITE_CHECK_INTERVAL_S``."""

    def __init__(self, store: Store, group_commit: GroupCommitter, monotonic: Callable[[], float]) -> None:
        self._store, self._group_commit, self._monotonic = store, group_commit, monotonic
        self._lock = threading.Lock()
        self._next_at = -math.inf
        self._problem = ""

    def require_writable(self) -> None:
        """Raise the problem of the last try."""
        with self._lock:
            if self._monotonic() >= self._next_at:
                self._problem = self._find_problem()
                self._next_at = self._monotonic() + WRITE_CHECK_INTERVAL_S
        if self._problem:
            raise PerfciError(self._problem)

    def _find_problem(self) -> str:
        if self._group_commit.is_stuck:
            return "Uploads wait for a transaction that does not end: another process holds the database."
        try:
            require_writable_database(self._store, WRITE_LOCK_WAIT_S)
        except PerfciError as error:
            return str(error)
        return ""


class HeartbeatWatch:
    """For how long the holder of the lease of notifications has been silent."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._last: LeaseRecord | None = None
        self._seen_at = 0.0

    def measure_silence_s(self, lease: LeaseRecord | None) -> float:
        """Measure it by this process's own clock; 0 where nobody holds the lease."""
        if lease is None or not lease.holder or lease != self._last:
            self._last, self._seen_at = lease, self._monotonic()
        return self._monotonic() - self._seen_at


def _load_warnings(store: Store, now: datetime, heartbeat: HeartbeatWatch) -> list[str]:
    with store.read() as tx:
        stats = load_database_stats(tx, now)
        silence_s = heartbeat.measure_silence_s(find_lease(tx, NOTIFICATION_LEASE))
    warnings = []
    if stats.outbox_oldest_s > MAX_JUDGE_DELAY_S:
        age_s = f"{stats.outbox_oldest_s:.0f} s"
        warnings.append(f"The oldest upload waits for {age_s} to be judged: does `perfci judge-worker` run?")
    if stats.outbox_failed:
        warnings.append(
            f"{format_count(stats.outbox_failed, 'upload')} could not be judged: see `perfci db check`."
        )
    if stats.deliveries_failed:
        warnings.append(f"{format_count(stats.deliveries_failed, 'notification')} could not be sent.")
    if stats.deliveries_oldest_due_s > MAX_DELIVERY_DELAY_S:
        age_s = f"{stats.deliveries_oldest_due_s:.0f} s"
        warnings.append(f"The oldest due notification waits for {age_s}: does `perfci judge-worker` run?")
    if silence_s > MAX_SILENCE_S:
        warnings.append(f"Whatever sends notifications has been silent for {silence_s:.0f} s: restart it.")
    if stats.run_events_failed:
        runs = format_count(stats.run_events_failed, "workflow run")
        warnings.append(f"{runs} could not be reported on a pull request: see `perfci db check`.")
    return warnings


def _require_free_space(file: Path | None) -> None:
    if file is not None and (free := shutil.disk_usage(file.parent).free) < MIN_FREE_BYTES:
        raise PerfciError(
            f"{free // 2**20} MiB are free where the database is, {MIN_FREE_BYTES // 2**20} are needed."
        )
