"""Exact counts, and the environment, that are stored for two commits and differ."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_histories import join_results_into_points
from perfci.model import Clock, EnvironmentChange, Series
from perfci.store.queries.judging_inputs import load_levels_at_commits
from perfci.store.queries.series_commits_machines import load_all_project_series, load_environments_by_id
from perfci.verdicts.environment_changes import diff_environments
from perfci.verdicts.explain.explanation import CountChange
from perfci.verdicts.related_metrics import model_bench_key


@dataclass(frozen=True, slots=True)
class StoredDifferences:
    """What differs between two commits without measuring anything."""

    counts: tuple[CountChange, ...] = ()
    environment: tuple[EnvironmentChange, ...] = ()


def load_stored_differences(
    tx: Transaction, project: str, base: str, head: str, cell: str
) -> StoredDifferences:
    """Compare the exact counts of a benchmark, those of the same model at the same parameters included."""
    stored = load_all_project_series(tx, project)
    keys = {model_bench_key(series) for series in stored.values() if series.cell == cell}
    series_by_id = {row_id: series for row_id, series in stored.items() if model_bench_key(series) in keys}
    rows = list(load_levels_at_commits(tx, project, {base, head}, series_by_id.keys()))
    sha_of = {row.commit_id: sha for sha, row in rows}
    judged = join_results_into_points(tx, [row for _, row in rows])
    counts = []
    for series_id, points in judged.points.items():
        levels = {
            sha_of[point.commit_id]: point.level
            for point in points
            if point.level is not None and point.summary is not None and point.summary.clock is Clock.EXACT
        }
        if base in levels and head in levels and levels[base] != levels[head]:
            counts.append(_count_change(series_by_id[series_id], levels[base], levels[head]))
    environment_of = {sha: row.environment_id for sha, row in rows}
    environments = load_environments_by_id(tx, set(environment_of.values()))
    changes: tuple[EnvironmentChange, ...] = ()
    if base in environment_of and head in environment_of:
        changes = diff_environments(environments[environment_of[base]], environments[environment_of[head]])
    return StoredDifferences(tuple(sorted(counts, key=lambda change: change.metric)), changes)


def _count_change(series: Series, base: float, head: float) -> CountChange:
    return CountChange(series.metric.name, series.metric.unit, base, head)
