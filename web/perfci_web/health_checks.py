"""Liveness and readiness for orchestrators and load balancers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from flask import Flask, Response, jsonify

from perfci.model import PerfciError
from perfci.report.number_format import format_count
from perfci.store import Store
from perfci.store.maintenance.monitoring_figures import load_database_stats, require_writable_database
from perfci.store.open_database import find_sqlite_file

WRITE_LOCK_WAIT_S = 1.0
"""How long a readiness check waits for the write lock of the database."""

MIN_FREE_BYTES = 100 * 2**20
"""Free bytes needed on the disk of a SQLite database: about a day of uploads, and its write-ahead log."""

MAX_JUDGE_DELAY_S = 900
"""An upload that waits longer is a warning; the server stays ready."""


def register_health_checks(
    app: Flask, store: Store, *, read_only: bool, clock: Callable[[], datetime]
) -> None:
    """Add ``/healthz`` and ``/readyz``."""

    @app.get("/healthz")
    def healthz() -> Response:
        return jsonify(status="ok")

    @app.get("/readyz")
    def readyz() -> tuple[Response, int]:
        """Report why the server is not ready; what needs attention but does not stop it is a warning."""
        try:
            warnings = _load_warnings(store, clock())
            if not read_only:
                require_writable_database(store, WRITE_LOCK_WAIT_S)
                _require_free_space(find_sqlite_file(store.url))
        except PerfciError as error:
            return jsonify(
                status="not ready", problems=[store.hide_address(str(error), "of this server")], warnings=[]
            ), 503
        return jsonify(status="ready", problems=[], warnings=warnings), 200


def _load_warnings(store: Store, now: datetime) -> list[str]:
    with store.read() as tx:
        stats = load_database_stats(tx, now)
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
    if stats.run_events_failed:
        runs = format_count(stats.run_events_failed, "workflow run")
        warnings.append(f"{runs} could not be reported on a pull request: see `perfci db check`.")
    return warnings


def _require_free_space(file: Path | None) -> None:
    if file is not None and (free := shutil.disk_usage(file.parent).free) < MIN_FREE_BYTES:
        raise PerfciError(
            f"{free // 2**20} MiB are free where the database is, {MIN_FREE_BYTES // 2**20} are needed."
        )
