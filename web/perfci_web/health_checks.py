"""Whether this process lives, and whether it can do its work: for orchestrators and load balancers."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from flask import Flask, Response, jsonify

from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.maintenance.database_stats import database_file, figures, require_writable

WAIT_S = 1.0
"""How long another writer may hold the database before uploads are better sent elsewhere."""

LEAST_FREE = 100 * 2**20
"""Bytes on the disk of a SQLite database: a day of uploads of a busy team, and the log that each commit needs first."""

JUDGED_WITHIN_S = 900
"""An upload that nobody judged for so long is told; the server that took it is as good as before."""


def install(app: Flask, store: Store, *, read_only: bool, clock: Callable[[], datetime]) -> None:
    @app.get("/healthz")
    def alive() -> Response:
        return jsonify(status="ok")

    @app.get("/readyz")
    def ready() -> tuple[Response, int]:
        """Why not in the words of the store, its address aside; what only somebody should look at is a warning."""
        try:
            warnings = _warnings(store, clock())
            if not read_only:
                require_writable(store, WAIT_S)
                _require_space(database_file(store.url))
        except PerfciError as error:
            return jsonify(status="not ready", problems=[_without_address(store, str(error))], warnings=[]), 503
        return jsonify(status="ready", problems=[], warnings=warnings), 200


def _warnings(store: Store, now: datetime) -> list[str]:
    with store.read() as tx:
        found = figures(tx, now)
    late = f"The oldest upload waits for {found.outbox_oldest_s:.0f} s to be judged: does `perfci judge-worker` run?"
    stuck = f"{found.outbox_failed} uploads could not be judged: see `perfci db check`."
    unsent = f"{found.deliveries_failed} notifications could not be sent."
    untold = f"{found.run_events_failed} pull requests could not be told of their runs: see `perfci db check`."
    return [
        *([late] if found.outbox_oldest_s > JUDGED_WITHIN_S else []),
        *([stuck] if found.outbox_failed else []),
        *([unsent] if found.deliveries_failed else []),
        *([untold] if found.run_events_failed else []),
    ]


def _require_space(file: Path | None) -> None:
    if file is not None and (free := shutil.disk_usage(file.parent).free) < LEAST_FREE:
        raise PerfciError(f"{free // 2**20} MiB are free where the database is, {LEAST_FREE // 2**20} are needed.")


def _without_address(store: Store, sentence: str) -> str:
    return sentence.replace(store.url, "of this server").replace(store.shown, "of this server")
