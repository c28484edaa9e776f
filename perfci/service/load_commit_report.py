"""Load what a commit came to: the levels of its series, those before it, and what was decided about it."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy.orm import Session as Transaction

from perfci.history.levels_before_commit import load_newest_levels_before
from perfci.model import Commit, PerfciError, Run, Series
from perfci.report.commits.commit_results import (
    BaseLevel,
    CommitReport,
    EarlierMethod,
    build_commit_results,
)
from perfci.report.commits.measurements_by_series import merge_runs_into_dots
from perfci.store.column_conversions import series_identity
from perfci.store.queries.measured_samples import load_run
from perfci.store.queries.runs_and_sessions import load_runs_of_commit
from perfci.store.queries.series_commits_machines import (
    find_commit,
    find_series_ids_by_identity,
    load_commits_newest_first,
    load_series_of_same_cells,
)
from perfci.store.verdicts_and_change_points import load_change_points, load_verdict_records
from perfci.verdicts.judging_policy import Policy
from perfci.verdicts.related_metrics import metric_name_without_clock


def load_commit_report(
    tx: Transaction, project: str, commit: Commit, policy: Policy, base: Commit | None = None
) -> CommitReport:
    """Load the results of a commit, compared with ``base`` or with the commit measured before it.

    A series that was measured in comparisons only is compared with the base of its newest verdict.
    """
    runs = _load_runs(tx, project, commit)
    records = load_verdict_records(
        tx, project, base=base.sha if base else None, head=commit.sha, with_pull_requests=True
    )
    verdicts = [record.verdict for record in records]
    if base is not None:
        dots = merge_runs_into_dots(_load_runs(tx, project, base))
        bases = {series: BaseLevel(base.sha, dot.level) for series, dot in dots.items()}
    else:
        bases = _load_bases_in_history(tx, project, commit, runs)
        for verdict in verdicts:
            bases.setdefault(verdict.series, BaseLevel(verdict.base, verdict.base_level))
    changes = load_change_points(tx, project, commit=commit.sha)
    new = {result.series for run in runs for result in run.results} - bases.keys()
    earlier = _find_earlier_methods(tx, project, commit, new) if base is None else {}
    return CommitReport(commit, build_commit_results(runs, bases, verdicts, changes, policy, earlier), base)


def _find_earlier_methods(
    tx: Transaction, project: str, commit: Commit, new: Collection[Series]
) -> dict[Series, EarlierMethod]:
    """Find which harness measured the cells and metrics of series before that begin at a commit."""
    stored = {series_identity(project, item): item for item in load_series_of_same_cells(tx, project, new)}
    ids = find_series_ids_by_identity(tx, stored)
    levels = load_newest_levels_before(tx, project, commit, list(ids.values()))
    before = {
        (_key_without_method(item), item.harness): EarlierMethod(item.harness, levels[ids[identity]][0])
        for identity, item in stored.items()
        if ids[identity] in levels
    }
    return {
        series: method
        for series in new
        for (key, harness), method in before.items()
        if key == _key_without_method(series) and harness != series.harness
    }


def _key_without_method(series: Series) -> tuple[object, ...]:
    metric = series.metric
    return series.benchmark.name, series.parameters, metric_name_without_clock(series), metric.unit


def find_measured_commit(tx: Transaction, project: str, sha: str) -> Commit:
    """Find a commit with results by a prefix of its sha; the newest one for an empty prefix."""
    if sha:
        commit = find_commit(tx, project, sha)
        if commit is None or not load_runs_of_commit(tx, project, commit.sha):
            raise PerfciError(f"{project} has no results of {sha[:10]}; perfci run {sha[:10]} measures it.")
        return commit
    for commit in load_commits_newest_first(tx, project):
        if load_runs_of_commit(tx, project, commit.sha):
            return commit
    raise PerfciError(f"{project} has no results yet; perfci run measures a commit.")


def _load_runs(tx: Transaction, project: str, commit: Commit) -> list[Run]:
    """The runs of a commit, oldest first; its working tree is another commit."""
    runs = [load_run(tx, record.id) for record in load_runs_of_commit(tx, project, commit.sha)]
    return [run for run in reversed(runs) if run.commit.dirty == commit.dirty]


def _load_bases_in_history(
    tx: Transaction, project: str, commit: Commit, runs: list[Run]
) -> dict[Series, BaseLevel]:
    identities = {
        series_identity(project, result.series): result.series for run in runs for result in run.results
    }
    ids = find_series_ids_by_identity(tx, identities)
    levels = load_newest_levels_before(tx, project, commit, list(ids.values()))
    return {
        series: BaseLevel(*levels[ids[identity]])
        for identity, series in identities.items()
        if ids.get(identity) in levels
    }
