"""Load what the series of a commit came to: columns of all of them, and the dots of those that are shown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy.orm import Session as Transaction

from perfci.history.comparisons.levels_of_runs import SeriesLevel, load_levels_of_runs
from perfci.history.comparisons.run_level_columns import RunLevels, find_judged, select_waiting_by_samples
from perfci.history.comparisons.series_columns import load_series_columns
from perfci.model import Clock, Process, Run, Series, Status
from perfci.report.commits.measurements_by_series import collect_processes_by_series, merge_runs_into_dots
from perfci.report.trend_dots import Dot
from perfci.store.derived_values import load_or_derive
from perfci.store.queries.comparisons.results_of_runs import (
    load_plain_levels,
    load_series_of_other_results,
)
from perfci.store.queries.measured_samples import load_runs
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci_web.commits.view_model import CommitValues


def load_commit_values(tx: Transaction, project: str, run_ids: Sequence[int]) -> CommitValues:
    """Load what some runs of a commit, newest first, came to in each series, which all its lists share."""
    name = f"values of runs {list(run_ids)}"
    return load_or_derive(tx, project, name, lambda: _derive_commit_values(tx, project, run_ids))


def _derive_commit_values(tx: Transaction, project: str, run_ids: Sequence[int]) -> CommitValues:
    series = load_series_columns(tx, project)
    other_ids, invalid_ids = load_series_of_other_results(tx, run_ids)
    others = load_levels_of_runs(tx, run_ids, other_ids - invalid_ids)
    # A flagged process has a level to show and none to judge by; what is marked invalid is shown too.
    unclear = {row_id for row_id, each in others.items() if each.status is Status.OK and each.level is None}
    others |= _load_shown_levels(tx, run_ids, invalid_ids | unclear)
    levels = RunLevels.build(load_plain_levels(tx, run_ids), others, series)
    judged = find_judged(
        series, [levels], lambda places: select_waiting_by_samples(tx, series, [run_ids], places)
    )
    return CommitValues(series, levels, judged)


def load_dots(tx: Transaction, run_ids: Sequence[int], series_ids: Collection[int]) -> Mapping[Series, Dot]:
    """Load the dots of some series of a commit."""
    return merge_runs_into_dots(load_runs(tx, run_ids, series_ids)) if series_ids else {}


def _load_shown_levels(
    tx: Transaction, run_ids: Sequence[int], series_ids: Collection[int]
) -> dict[int, SeriesLevel]:
    """Load what is shown of some series, from their samples."""
    if not series_ids:
        return {}
    levels = derive_shown_levels(load_runs(tx, run_ids, series_ids))
    return {row_id: levels[item] for row_id, item in load_series_by_ids(tx, series_ids).items()}


def derive_shown_levels(runs: Sequence[Run]) -> dict[Series, SeriesLevel]:
    """What is shown of the series of some runs of a commit."""
    processes = collect_processes_by_series(runs)
    return {
        series: SeriesLevel(dot.level, dot.status, dot.reason, _list_readings(processes[series]), ())
        for series, dot in merge_runs_into_dots(runs).items()
    }


def _list_readings(processes: Iterable[Process]) -> frozenset[tuple[Status, Clock]]:
    return frozenset((process.status, process.clock) for process in processes)
