"""Search the series of a project by name or benchmark. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Series
from perfci.store.column_conversions import EPOCH
from perfci.store.derived_values import load_or_derive
from perfci.store.queries.history_conditions import series_only_in_pulls_condition
from perfci.store.queries.measured_series import load_series_with_clocks, load_series_with_newest_commits
from perfci.store.queries.query_records import (
    SeriesRecord,
    StoredSeries,
    series_matches_search,
)
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.tables.measurements import (
    BenchmarkRow,
    ResultRow,
    RunRow,
    SeriesRow,
)
from perfci.store.tables.series_points import SeriesPointsRow
from perfci.store.transactions import in_chunks


def search_series(tx: Session, project: str, *, search: str = "") -> list[SeriesRecord]:
    """Load the series of a project whose names contain every word of ``search``, with the ends of
    histories.
    """
    return load_series_with_newest_commits(
        tx, project, search_series_without_histories(tx, project, search=search)
    )


def search_series_without_histories(tx: Session, project: str, *, search: str = "") -> list[StoredSeries]:
    """Load the series of a project whose names contain every word of ``search``, without histories."""
    return [
        stored
        for stored in load_listed_series(tx, project)
        if not search or series_matches_search(stored.series, search)
    ]


def load_listed_series(tx: Session, project: str) -> tuple[StoredSeries, ...]:
    """Load the series of a project, sorted by name; not those that only pull requests measured."""

    def load() -> tuple[StoredSeries, ...]:
        all_series = load_project_series(tx, project, ~series_only_in_pulls_condition())
        return tuple(load_series_with_clocks(tx, project, all_series))

    return load_or_derive(tx, project, "listed series", load)


def load_series_of_metric(tx: Session, project: str, benchmark: str, metric: str) -> dict[int, Series]:
    """Load the series of one metric of a benchmark, by id; not those that only pull requests measured."""
    named = (BenchmarkRow.name == benchmark, SeriesRow.metric == metric)
    return load_project_series(tx, project, *named, ~series_only_in_pulls_condition())


def find_series_of_benchmark(
    tx: Session, project: str, benchmark: str, metric: str = "", parameters: Mapping[str, str] | None = None
) -> list[SeriesRecord]:
    """Find the series of one benchmark, those measured last first: the newest version leads.

    A ``metric`` or ``parameters`` keep only the series of that metric or cell.
    """
    named = [BenchmarkRow.name == benchmark, *([SeriesRow.metric == metric] if metric else [])]
    matching = {
        row_id: series
        for row_id, series in load_project_series(tx, project, *named).items()
        if parameters is None or dict(series.parameters) == dict(parameters)
    }
    last = _load_last_starts(tx, matching)
    records = load_series_with_newest_commits(tx, project, load_series_with_clocks(tx, project, matching))
    return sorted(records, key=lambda record: (last.get(record.id, EPOCH), record.id), reverse=True)


def _load_last_starts(tx: Session, series_ids: Collection[int]) -> dict[int, datetime]:
    """Load when the last run of each series began: of one with stored points, of its newest commit."""
    last: dict[int, datetime] = {}
    started = sa.func.max(RunRow.started_at)
    of_results = sa.select(ResultRow.series_id, started).join(RunRow, ResultRow.run_id == RunRow.id)
    of_newest = (
        sa.select(SeriesPointsRow.series_id, started)
        .join(RunRow, RunRow.commit_id == SeriesPointsRow.last_commit_id)
        .join(
            ResultRow,
            sa.and_(ResultRow.run_id == RunRow.id, ResultRow.series_id == SeriesPointsRow.series_id),
        )
        .where(SeriesPointsRow.stale.is_(False))
    )
    for query, column in ((of_newest, SeriesPointsRow.series_id), (of_results, ResultRow.series_id)):
        for some in in_chunks([row_id for row_id in series_ids if row_id not in last]):
            last |= dict(tx.execute(query.where(column.in_(some)).group_by(column)).all())
    return last
