"""Write and read single rows of a store, for tests that need one run or one series."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Benchmark, ChangePoint, Run, Series
from perfci.store.queries.history_conditions import project_id_condition
from perfci.store.tables.measurements import BenchmarkRow
from perfci.store.verdicts_and_change_points import save_change_points
from perfci.store.writes.find_or_add_rows import ensure_project_id, ensure_series_id
from perfci.store.writes.ingest import ProcessSummarizer, ingest_run_batch


def ingest_run(
    tx: Session,
    run: Run,
    key: str,
    body_hash: str,
    *,
    kind: str = "import",
    received_at: datetime | None = None,
    summarize: ProcessSummarizer | None = None,
) -> bool:
    """Store one whole run once; return False if the same run is stored already."""
    keyed_run = (run, key, body_hash)
    project_id = ensure_project_id(tx, run.project)
    return bool(
        ingest_run_batch(tx, project_id, [keyed_run], kind=kind, received_at=received_at, summarize=summarize)
    )


def replace_change_points(tx: Session, project: str, series: Series, points: Sequence[ChangePoint]) -> None:
    """Set all the change points of one series."""
    series_id = ensure_series_id(tx, ensure_project_id(tx, project), series)
    save_change_points(tx, {series_id: points})


def load_benchmark_code(tx: Session, project: str, benchmark: Benchmark) -> str | None:
    """Load the stored source code of one version of a benchmark."""
    named = (BenchmarkRow.name == benchmark.name, BenchmarkRow.version == benchmark.version)
    return tx.scalar(
        sa.select(BenchmarkRow.code).where(project_id_condition(BenchmarkRow.project_id, project), *named)
    )
