"""Whether this process lives, and whether it can do its work: for orchestrators and load balancers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from flask import Flask, Response, jsonify

from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.maintenance.database_stats import load_database_stats, require_writable, sqlite_file_of

WRITE_LOCK_WAIT_S = 1.0
"""How long another writer may hold the database before uploads are better sent elsewhere."""

MIN_FREE_BYTES = 100 * 2**20
"""Bytes on the disk of a SQLite database: a day of uploads of a busy team, and the log that each commit needs first."""

MAX_JUDGE_DELAY_S = 900
"""An upload that nobody judged for so long is told; the server that took it is as good as before."""


def init_app(app: Flask, store: Store, *, read_only: bool, clock: Callable[[], datetime]) -> None:
    @app.get("/healthz")
    def healthz() -> Response:
        return jsonify(status="ok")

    @app.get("/readyz")
    def readyz() -> tuple[Response, int]:
        """Why not in the words of the store, its address aside; what only somebody should look at is a warning."""
        try:
            warnings = _load_warnings(store, clock())
            if not read_only:
                require_writable(store, WRITE_LOCK_WAIT_S)
                _require_free_space(sqlite_file_of(store.url))
        except PerfciError as error:
            return jsonify(
                status="not ready", problems=[_hide_database_url(store, str(error))], warnings=[]
            ), 503
        return jsonify(status="ready", problems=[], warnings=warnings), 200


def _load_warnings(store: Store, now: datetime) -> list[str]:
    with store.read() as tx:
        found = load_database_stats(tx, now)
    late = f"The oldest upload waits for {found.outbox_oldest_s:.0f} s to be judged: does `perfci judge-worker` run?"
    stuck = f"{found.outbox_failed} uploads could not be judged: see `perfci db check`."
    unsent = f"{found.deliveries_failed} notifications could not be sent."
    untold = (
        f"{found.run_events_failed} pull requests could not be told of their runs: see `perfci db check`."
    )
    return [
        *([late] if found.outbox_oldest_s > MAX_JUDGE_DELAY_S else []),
        *([stuck] if found.outbox_failed else []),
        *([unsent] if found.deliveries_failed else []),
        *([untold] if found.run_events_failed else []),
    ]


def _require_free_space(file: Path | None) -> None:
    if file is not None and (free := shutil.disk_usage(file.parent).free) < MIN_FREE_BYTES:
        raise PerfciError(
            f"{free // 2**20} MiB are free where the database is, {MIN_FREE_BYTES // 2**20} are needed."
        )


def _hide_database_url(store: Store, sentence: str) -> str:
    return sentence.replace(store.url, "of this server").replace(store.display_name, "of this server")
