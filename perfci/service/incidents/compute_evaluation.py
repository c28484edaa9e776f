"""Derive incidents, retests and slow drifts of a project from its stored results, without writing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.config import HistoryTable
from perfci.history.project_snapshot import ProjectSnapshot
from perfci.model import Commit, Incident, Retest
from perfci.service.expected_changes import load_merged_expected_changes
from perfci.verdicts.history.recent_jumps import find_jumps, list_retests
from perfci.verdicts.history.release_creep import Creep, find_creeps
from perfci.verdicts.incidents.expected_change_match import match_expected_changes
from perfci.verdicts.incidents.incident_builder import build_bad_session_incidents, build_incidents
from perfci.verdicts.incidents.page_budget import PAGING_KINDS, BudgetedIncident, allocate_pages
from perfci.verdicts.incidents.step_causes import HistoryContext
from perfci.verdicts.policy import Policy

MAX_RELEASES = 5
"""Newest releases that slow drifts are computed against."""


@dataclass(frozen=True, slots=True)
class ProjectEvaluation:
    """The result of an evaluation: incidents with their disposition, series to retest and slow drifts."""

    project: str
    incidents: Sequence[BudgetedIncident]
    retests: Sequence[Retest]
    creeps: Sequence[Creep]
    commits: Mapping[str, Commit]
    pages_per_week: int


def derive_evaluation(
    tx: Transaction,
    project: str,
    policy: Policy,
    history: HistoryTable,
    tags: Mapping[str, Collection[str]] | None = None,
) -> ProjectEvaluation:
    """Evaluate a project; ``tags`` by sha come from a local git repository, else from the store."""
    snapshot = ProjectSnapshot.load(tx, project, policy)
    newest, context = snapshot.load_newest_points(), snapshot.build_move_context(history.canaries)
    jumps = find_jumps(newest, snapshot.changes, snapshot.verdicts, rules=policy.rule_for)
    days, single = build_bad_session_incidents(jumps, context)
    budgeted = _budget_incidents(
        [*days, *build_incidents(snapshot.changes, context)], snapshot, context, history
    )
    releases = snapshot.visit_index.find_releases(history.releases, tags)[-MAX_RELEASES:]
    creeps = find_creeps(
        snapshot.load_release_lines(releases, newest), snapshot.visit_index.positions, rules=policy.rule_for
    )
    return ProjectEvaluation(
        project, budgeted, list_retests(single), creeps, snapshot.visit_index.by_sha, history.pages_per_week
    )


def derive_open_incidents(
    tx: Transaction, project: str, policy: Policy, history: HistoryTable
) -> ProjectEvaluation:
    """Derive the incidents alone, without retests and slow drifts."""
    snapshot = ProjectSnapshot.load(tx, project, policy)
    context = snapshot.build_move_context(history.canaries)
    budgeted = _budget_incidents(build_incidents(snapshot.changes, context), snapshot, context, history)
    return ProjectEvaluation(project, budgeted, (), (), snapshot.visit_index.by_sha, history.pages_per_week)


def _budget_incidents(
    derived: Sequence[Incident],
    snapshot: ProjectSnapshot,
    move_context: HistoryContext,
    history: HistoryTable,
) -> list[BudgetedIncident]:
    numbers, asking = (
        snapshot.visit_index.weekly_numbers,
        [incident for incident in derived if incident.kind in PAGING_KINDS],
    )
    expectation_by_incident = match_expected_changes(
        asking, load_merged_expected_changes(snapshot.tx, snapshot.project), snapshot.changes, move_context
    )
    series, pages = len(snapshot.series), history.pages_per_week
    return allocate_pages(
        derived,
        numbers,
        series_count=series,
        pages_per_week=pages,
        expected_change_matches=expectation_by_incident,
    )
