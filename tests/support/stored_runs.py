"""Write and read single rows of a store, for tests that need one run or one series."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Benchmark, ChangePoint, Run, Series
from perfci.store.queries.loaders import matches_project
from perfci.store.tables.measurements import BenchmarkRow
from perfci.store.verdict_store import save_change_points
from perfci.store.writes.ingest import ProcessSummarizer, ingest_batch


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
    return bool(ingest_batch(tx, [keyed_run], kind=kind, received_at=received_at, summarize=summarize))


def replace_change_points(tx: Session, project: str, series: Series, points: Sequence[ChangePoint]) -> None:
    """Set all the change points of one series."""
    save_change_points(tx, project, {series: points})


def load_benchmark_code(tx: Session, project: str, benchmark: Benchmark) -> str | None:
    """Load the stored source code of one version of a benchmark."""
    named = (BenchmarkRow.name == benchmark.name, BenchmarkRow.version == benchmark.version)
    return tx.scalar(
        sa.select(BenchmarkRow.code).where(matches_project(BenchmarkRow.project_id, project), *named)
    )
