"""Load what a comparison of two sides shows: verdicts, levels, runs and what lies between."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
from sqlalchemy.orm import Session

from perfci.history.comparisons.run_level_columns import RunLevels, find_judged, select_waiting_by_samples
from perfci.history.comparisons.series_columns import Column, SeriesColumns, load_series_columns
from perfci.history.load_series_points import load_noise_between_runs
from perfci.model import ChangePoint, Commit, Series
from perfci.report.comparisons.comparison_rows import build_verdict_rows
from perfci.report.comparisons.row_table import RowTable
from perfci.store.derived_values import load_or_derive
from perfci.store.projects import Project
from perfci.store.queries.comparisons.results_of_runs import (
    load_commits_between,
    load_run_ids_at_place,
)
from perfci.store.queries.query_records import RunRecord, VerdictRecord
from perfci.store.queries.runs_and_sessions import load_runs_of_commit
from perfci.store.verdicts_and_change_points import load_change_points, load_verdict_records
from perfci_web.comparisons.separate_rows import SeparateRows, SidesOfSeries, join_rows
from perfci_web.comparisons.sides import Side

MAX_COMMITS = 12
"""Commits between two sides that a page lists."""


@dataclass(frozen=True, slots=True)
class LoadedComparison:
    """Two sides with their rows in no order, their runs, and the commits between, newest first."""

    base: Side
    head: Side
    verdicts: tuple[VerdictRecord, ...]
    rows: RowTable
    base_runs: tuple[RunRecord, ...]
    head_runs: tuple[RunRecord, ...]
    commits: tuple[Commit, ...]
    commits_between: int


def load_comparison(
    tx: Session, project: Project, base: Side, head: Side, gates: Callable[[Series], bool]
) -> LoadedComparison:
    """Load a comparison; of two places, series are joined across machines or variants."""
    records: list[VerdictRecord] = []
    if not base.is_place:
        records = load_verdict_records(
            tx, project.slug, base=base.commit.sha, head=head.commit.sha, with_pull_requests=True
        )
    sessions = {record.session_uid for record in records}
    runs = [_load_side_runs(tx, project, side, sessions) for side in (base, head)]
    run_ids = [[run.id for run in side_runs] for side_runs in runs]
    series = load_series_columns(tx, project.slug)
    levels = [_load_run_levels(tx, project, ids, series) for ids in run_ids]
    sides = SidesOfSeries(series, *levels)
    verdicts = [record.verdict for record in records]
    paired_levels = {verdict.series: sides.find_levels(verdict.series) for verdict in verdicts}
    decided = build_verdict_rows(verdicts, paired_levels, gates)
    separate = SeparateRows.join(
        sides,
        _number_placeless(base, series),
        judged=find_judged(
            series, levels, lambda places: select_waiting_by_samples(tx, series, run_ids, places)
        ),
        decided={row.series for row in decided},
        changes={} if base.is_place else _load_changes(tx, project, base.commit, head.commit),
        noise=_load_noise(tx, project, sides),
    )
    commits, count = load_commits_between(tx, project.id, base.commit, head.commit, MAX_COMMITS)
    return LoadedComparison(
        base,
        head,
        tuple(records),
        join_rows(series, decided, separate),
        tuple(runs[0]),
        tuple(runs[1]),
        tuple(commits),
        count,
    )


def _load_run_levels(tx: Session, project: Project, run_ids: list[int], series: SeriesColumns) -> RunLevels:
    """What the runs of a side came to, which all pages, sorts and searches of its comparisons share."""
    name = f"levels of runs {sorted(run_ids)}"
    return load_or_derive(tx, project.slug, name, lambda: RunLevels.load(tx, run_ids, series))


def _load_side_runs(tx: Session, project: Project, side: Side, sessions: Collection[str]) -> list[RunRecord]:
    """The valid runs of a side: of its place, or of the sessions that gave the verdicts, else all."""
    runs = [run for run in load_runs_of_commit(tx, project.slug, side.commit.sha) if not run.invalid]
    if side.is_place:
        ids = set(load_run_ids_at_place(tx, project.id, side.commit.sha, side.place))
        return [run for run in runs if run.id in ids]
    return [run for run in runs if run.session_uid in sessions] or runs


def _load_changes(tx: Session, project: Project, base: Commit, head: Commit) -> dict[Series, ChangePoint]:
    """The change points between exactly these commits: then levels and size are those of it."""
    changes = load_change_points(tx, project.slug, last_good=base.sha, commit=head.sha)
    return {change.series: change for change in changes}


def _number_placeless(base: Side, series: SeriesColumns) -> Column:
    """A number by place that two series share which are the same but for the machine, or the variant, that is
    compared."""
    if base.place.machine_id is not None:
        return series.cases * len(series.ids) + series.variants
    if base.place.variant_id is not None:
        return series.cases * len(series.ids) + series.machines
    return np.arange(len(series.ids))


def _load_noise(tx: Session, project: Project, sides: SidesOfSeries) -> Column:
    """The noise between runs of each series, by place; NaN where it is not known."""
    ids = sides.series.ids[sides.measured]
    noise_by_id = load_noise_between_runs(tx, ids.tolist(), project=project.slug)
    noise = np.full(len(sides.series.ids), np.nan)
    noise[sides.measured] = [noise_by_id.get(row_id, math.nan) for row_id in ids.tolist()]
    return noise
