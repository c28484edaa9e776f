"""Which series go on under other names, for lists and for addresses from before."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Series
from perfci.store.queries.history_conditions import project_id_condition
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.tables.measurements import BenchmarkRow, ResultRow, RunRow, SeriesRow
from perfci.store.transactions import in_chunks


def load_renamed_series(tx: Session, project: str) -> list[tuple[Series, Series]]:
    """Load the series that were renamed, each with the one under whose name it goes on."""
    query = (
        sa.select(SeriesRow.id, SeriesRow.renamed_to)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(project_id_condition(BenchmarkRow.project_id, project), SeriesRow.renamed_to.is_not(None))
        .order_by(SeriesRow.id)
    )
    rows = tx.connection().execute(query).all()
    series = load_series_by_ids(tx, {row_id for row in rows for row_id in row})
    return [(series[row.id], series[row.renamed_to]) for row in rows]


def count_results_of_series(tx: Session, series_ids: Collection[int]) -> int:
    """Count the results of series."""
    return sum(
        tx.scalar(sa.select(sa.func.count()).where(ResultRow.series_id.in_(some))) or 0
        for some in in_chunks(series_ids)
    )


def load_newest_run_keys(tx: Session, series_ids: Collection[int]) -> list[str]:
    """Load the keys of the newest run of each series."""
    keys: set[str] = set()
    for some in in_chunks(series_ids):
        newest = (
            sa.select(sa.func.max(ResultRow.run_id))
            .where(ResultRow.series_id.in_(some))
            .group_by(ResultRow.series_id)
        )
        keys.update(tx.scalars(sa.select(RunRow.key).where(RunRow.id.in_(newest))))
    return sorted(keys)
