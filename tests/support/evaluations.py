"""What a look at a project found, made by hand: incidents that a test can keep, change and lose again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from perfci.model import CandidateCommit, ChangePoint, Commit, Incident, IncidentKind, Series
from perfci.service.incidents.evaluate_project import ProjectEvaluation
from perfci.service.incidents.reconcile_incidents import ReconcileResult, reconcile_incidents
from perfci.store import Store, projects
from perfci.store.projects import Project
from perfci.store.writes.find_or_add_rows import ensure_series_ids
from perfci.verdicts.incidents.paging_budget import BudgetedIncident, Disposition
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import NOON, PROJECT, a_change_point, a_commit, a_series, a_sha

LINE = 60


def a_move(series: Series | str = "training.Step.time_step", at: int = 12, rel: float = 0.2) -> ChangePoint:
    """A step at a commit, right after the one before it."""
    named = a_series(series) if isinstance(series, str) else series
    return a_change_point(named, commit=a_sha(at), last_good=a_sha(at - 1), before=1.0, after=1 + rel)


def a_budgeted_incident(
    name: str = "a1",
    *moves: ChangePoint,
    good: int = 11,
    bad: int = 12,
    disposition: Disposition = Disposition.PAGE,
    **changes: Any,
) -> BudgetedIncident:
    """An incident of a look that asks for a person."""
    values: dict[str, Any] = {
        "id": name,
        "kind": IncidentKind.REGRESSION,
        "last_good": a_sha(good),
        "commit": a_sha(bad),
        "members": moves or (a_move(at=bad),),
        "candidates": (CandidateCommit(a_commit(bad), 1, 1.0),),
        "p_value": 1e-9,
        "settled": True,
        "ongoing": True,
        "measured_at": NOON + timedelta(hours=bad),
    }
    return BudgetedIncident(Incident(**(values | changes)), disposition, "2026-W09", 1)


def an_evaluation(
    *incidents: BudgetedIncident, commits: Sequence[Commit] = (), project: str = PROJECT
) -> ProjectEvaluation:
    line = commits or [a_commit(number) for number in range(LINE, 0, -1)]
    return ProjectEvaluation(project, incidents, (), (), {entry.sha: entry for entry in line}, 5)


def a_project(store: Store, slug: str = PROJECT) -> Project:
    with store.read() as tx:
        existing = projects.find_project(tx, slug)
    if existing is not None:
        return existing
    with store.begin() as tx:
        return projects.create_project(tx, slug, "private", NOON)


def reconcile(
    store: Store, now: datetime, *incidents: BudgetedIncident, slug: str = PROJECT
) -> ReconcileResult:
    """Keep what a look found."""
    return reconcile_incidents(
        store,
        measured_project(store, *incidents, slug=slug),
        Policy(),
        an_evaluation(*incidents, project=slug),
        now,
    )


def measured_project(store: Store, *incidents: BudgetedIncident, slug: str = PROJECT) -> Project:
    """The project with every series that moved: a look finds only what was measured."""
    project = a_project(store, slug)
    with store.begin() as tx:
        ensure_series_ids(
            tx, project.id, [change.series for entry in incidents for change in entry.incident.members]
        )
    return project


def with_changes(budgeted: BudgetedIncident, **changes: Any) -> BudgetedIncident:
    """The same incident as a later look sees it."""
    return replace(budgeted, incident=replace(budgeted.incident, **changes))
