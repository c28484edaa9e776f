"""Load what a comparison of two sides shows: verdicts, levels, runs and what lies between."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from sqlalchemy.orm import Session

from perfci.history.comparisons.levels_of_runs import (
    SeriesLevel,
    load_levels_of_runs,
    select_judged_series_of_sides,
)
from perfci.history.load_series_points import load_noise_between_runs
from perfci.history.noise_between_runs import join_noise_of_sides
from perfci.model import ChangePoint, Commit, Series
from perfci.report.comparisons.comparison_rows import (
    NOT_MEASURED,
    ComparisonRow,
    SideLevel,
    build_verdict_rows,
)
from perfci.store.projects import Project
from perfci.store.queries.comparisons.results_of_runs import (
    load_commits_between,
    load_run_ids_at_place,
)
from perfci.store.queries.query_records import RunRecord, VerdictRecord
from perfci.store.queries.runs_and_sessions import load_runs_of_commit
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.verdicts_and_change_points import load_change_points, load_verdict_records
from perfci_web.comparisons.sides import Side

MAX_COMMITS = 12
"""Commits between two sides that a page lists."""


@dataclass(frozen=True, slots=True)
class LoadedComparison:
    """Two sides with their rows in no order, their runs, and the commits between, newest first."""

    base: Side
    head: Side
    verdicts: tuple[VerdictRecord, ...]
    rows: tuple[ComparisonRow, ...]
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
    levels_by_id = [load_levels_of_runs(tx, [run.id for run in side_runs]) for side_runs in runs]
    series = load_series_by_ids(tx, levels_by_id[0].keys() | levels_by_id[1].keys())
    levels = [{series[row_id]: level for row_id, level in side.items()} for side in levels_by_id]
    judged = set(select_judged_series_of_sides(tx, levels))
    paired_levels = _pair_levels(levels[0], levels[1], lambda series: series)
    rows = build_verdict_rows((record.verdict for record in records), paired_levels, gates)
    separate = _build_separate_rows(base, levels[0], levels[1], judged, {row.series for row in rows})
    changes = {} if base.is_place else _load_changes(tx, project, base.commit, head.commit)
    noise = {series[row_id]: value for row_id, value in load_noise_between_runs(tx, series).items()}
    rows += [replace(row, change=changes.get(row.series), noise=_join_noise(row, noise)) for row in separate]
    commits, count = load_commits_between(tx, project.id, base.commit, head.commit, MAX_COMMITS)
    return LoadedComparison(
        base, head, tuple(records), tuple(rows), tuple(runs[0]), tuple(runs[1]), tuple(commits), count
    )


def _load_side_runs(tx: Session, project: Project, side: Side, sessions: Collection[str]) -> list[RunRecord]:
    """The valid runs of a side: of its place, or of the sessions that gave the verdicts, else all."""
    runs = [run for run in load_runs_of_commit(tx, project.slug, side.commit.sha) if not run.invalid]
    if side.is_place:
        ids = set(load_run_ids_at_place(tx, project.id, side.commit.sha, side.place))
        return [run for run in runs if run.id in ids]
    return [run for run in runs if run.session_uid in sessions] or runs


def _pair_levels(
    base: Mapping[Series, SeriesLevel], head: Mapping[Series, SeriesLevel], key: Callable[[Series], object]
) -> dict[Series, tuple[SideLevel, SideLevel]]:
    """The levels of both sides by the series of head, or of base where head did not measure it."""
    bases = {key(series): level for series, level in base.items()}
    heads = {key(series) for series in head}
    pairs = {
        series: (_side_level(bases.get(key(series))), _side_level(level)) for series, level in head.items()
    }
    only_base = {series: level for series, level in base.items() if key(series) not in heads}
    return pairs | {series: (_side_level(level), NOT_MEASURED) for series, level in only_base.items()}


def _side_level(level: SeriesLevel | None) -> SideLevel:
    return NOT_MEASURED if level is None else SideLevel(level.level, level.status, level.reason)


def _build_separate_rows(
    base_side: Side,
    base: Mapping[Series, SeriesLevel],
    head: Mapping[Series, SeriesLevel],
    judged: Collection[Series],
    decided: Collection[Series],
) -> list[ComparisonRow]:
    """The rows of series without a verdict, from the levels of separate runs."""
    key = _placeless_key(base_side)
    base_series = {key(series): series for series in base}
    return [
        ComparisonRow(series, base_series.get(key(series), series), *levels, is_context=series not in judged)
        for series, levels in _pair_levels(base, head, key).items()
        if series not in decided
    ]


def _placeless_key(side: Side) -> Callable[[Series], object]:
    """What two series share that are the same but for the machine, or the variant, that is compared."""
    if side.place.machine_id is not None:
        return lambda series: (_cell_key(series), series.variant)
    if side.place.variant_id is not None:
        return lambda series: (_cell_key(series), series.machine)
    return lambda series: series


def _cell_key(series: Series) -> object:
    return series.benchmark, series.parameters, series.metric, series.harness


def _load_changes(tx: Session, project: Project, base: Commit, head: Commit) -> dict[Series, ChangePoint]:
    """The change points between exactly these commits: then levels and size are those of it."""
    changes = load_change_points(tx, project.slug, last_good=base.sha, commit=head.sha)
    return {change.series: change for change in changes}


def _join_noise(row: ComparisonRow, noise: Mapping[Series, float]) -> float | None:
    return join_noise_of_sides(noise.get(row.base_series), noise.get(row.series))
