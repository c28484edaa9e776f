"""Derive incidents, retests and slow drifts of a project from its stored results, without writing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.config import HistoryTable
from perfci.history.incident_inputs import IncidentInputs
from perfci.model import Commit, Incident, IncidentState, Retest, Series
from perfci.report.incidents import incident_text as words
from perfci.report.incidents.retest_and_creep_text import retest_sentence
from perfci.report.serializers import (
    serialize_creep,
    serialize_derived_incident_summary,
    serialize_retest_request,
)
from perfci.store.incidents.expected_changes_and_muted_benchmarks import load_expected_changes
from perfci.store.incidents.incident_records import MONITORED, PAGE, EvaluationRecord, IncidentRecord, Mute
from perfci.verdicts.expected_change import ExpectedChange, MergedExpectedChange
from perfci.verdicts.history.change_points_and_jumps import find_newest_jumps
from perfci.verdicts.history.release_creep import Creep, Release, find_creeps
from perfci.verdicts.history.step_evidence import LevelPoint
from perfci.verdicts.incidents.incident_builder import (
    build_bad_session_incidents,
    build_incidents,
    request_cause_retests,
)
from perfci.verdicts.incidents.paging_budget import (
    PAGING_KINDS,
    BudgetedIncident,
    apply_paging_budget,
    match_expected_changes,
)
from perfci.verdicts.incidents.step_causes import HistoryContext
from perfci.verdicts.judging_policy import Policy

CREEP_DAYS = (30, 90)
"""Slow drifts are also computed against the first commits of the months in which these many days ago
were, which does not wait for a release."""

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

    def build_incident_columns(
        self, budgeted: BudgetedIncident, mutes: Sequence[Mute] = ()
    ) -> dict[str, Any]:
        """Build the columns of an incident, with its texts and without its members.

        One that would page is stored as monitored where all its series are muted.
        """
        incident = budgeted.incident
        detail = serialize_derived_incident_summary(budgeted, self.commits, self.pages_per_week)
        detail["largest"] = words.member_change_sentence(incident.members[0]) if incident.members else ""
        if budgeted.expected_change_match is not None:
            detail["expected_change"] = words.expected_change_sentence(budgeted.expected_change_match)
        silent = (
            budgeted.disposition.value == PAGE
            and bool(mutes)
            and all(any(mute.matches(change.series) for mute in mutes) for change in incident.members)
        )
        if silent:
            detail["disposition_text"] = "its benchmarks are muted: no notifications"
            detail["open"] = False
        return {
            "derived_id": incident.id,
            "kind": incident.kind.value,
            "last_good": incident.last_good,
            "commit": incident.commit,
            "headline": detail["sentence"],
            "severity": max((change.log_cost_change for change in incident.members), default=None),
            "series_count": len({change.series for change in incident.members}),
            "disposition": MONITORED if silent else budgeted.disposition.value,
            "ongoing": incident.ongoing,
            "measured_at": incident.measured_at,
            "detail": detail,
        }

    def build_derived_incident_record(self, budgeted: BudgetedIncident, now: datetime) -> IncidentRecord:
        """Build the record of an incident that is not stored."""
        return IncidentRecord(
            id=0,
            number=0,
            state=IncidentState.ACCEPTED if budgeted.is_expected else IncidentState.NEW,
            revision=1,
            state_number=1,
            first_seen=now,
            changed_at=now,
            **self.build_incident_columns(budgeted),
        )

    def build_evaluation_record(self, now: datetime) -> EvaluationRecord:
        """Build the record of the evaluation: its retests and slow drifts."""
        retests = tuple(
            serialize_retest_request(retest) | {"sentence": retest_sentence(retest)}
            for retest in self.retests
        )
        creeps = tuple(serialize_creep(creep) for creep in self.creeps)
        return EvaluationRecord(now, self.pages_per_week, retests, creeps)


def evaluate_project(
    tx: Transaction,
    project: str,
    policy: Policy,
    history: HistoryTable,
    tags: Mapping[str, Collection[str]] | None = None,
) -> ProjectEvaluation:
    """Evaluate a project; ``tags`` by sha come from a local git repository, else from the store."""
    inputs = IncidentInputs.load(tx, project, policy)
    newest, context = inputs.load_newest_points(), inputs.load_attribution_context(history.canaries)
    jumps = find_newest_jumps(newest, inputs.changes, inputs.verdicts, rules=policy.rule_for)
    incidents = build_incidents(inputs.changes, context)
    if jumps:
        # jumps that a bad session explains are incidents; what is left may be retested
        bad_sessions, jumps = build_bad_session_incidents(jumps, context)
        incidents = [*bad_sessions, *incidents]
    budgeted = _budget_incidents(incidents, inputs, context, history)
    tagged = inputs.visit_index.find_releases(history.releases, tags)[-MAX_RELEASES:]
    creeps = _find_creeps(inputs, tagged, newest)
    # a jump that went back needs no pairs
    retests = [jump.as_retest for jump in jumps if jump.persists is not False]
    retests += request_cause_retests(incidents)
    return ProjectEvaluation(
        project, budgeted, retests, creeps, inputs.visit_index.by_sha, history.pages_per_week
    )


def _find_creeps(
    inputs: IncidentInputs, tagged: Sequence[Release], newest: Mapping[Series, Sequence[LevelPoint]]
) -> list[Creep]:
    """Slow drifts since the tagged releases and since the months of 30 and of 90 days ago."""
    tagged_shas = {release.sha for release in tagged}
    by_age = (inputs.visit_index.find_month_start_release(days) for days in CREEP_DAYS)
    releases = [*tagged, *(release for release in by_age if release and release.sha not in tagged_shas)]
    if not releases:
        return []
    histories = inputs.load_creep_histories(releases, newest)
    positions, rules = inputs.visit_index.positions, inputs.policy.rule_for
    creeps = find_creeps(histories, positions, rules=rules)
    if not creeps:
        return []
    # how long a series remembers shows in its whole line, which is read for those that seem to creep
    lines = inputs.load_points_since_release(releases, {creep.series for creep in creeps})
    with_lines = [replace(history, line=lines.get(history.series, ())) for history in histories]
    return find_creeps(with_lines, positions, rules=rules)


def evaluate_incidents_only(
    tx: Transaction, project: str, policy: Policy, history: HistoryTable
) -> ProjectEvaluation:
    """Derive the incidents alone, without retests and slow drifts."""
    inputs = IncidentInputs.load(tx, project, policy)
    context = inputs.load_attribution_context(history.canaries)
    budgeted = _budget_incidents(build_incidents(inputs.changes, context), inputs, context, history)
    return ProjectEvaluation(project, budgeted, (), (), inputs.visit_index.by_sha, history.pages_per_week)


def _budget_incidents(
    derived: Sequence[Incident],
    inputs: IncidentInputs,
    move_context: HistoryContext,
    history: HistoryTable,
) -> list[BudgetedIncident]:
    """Decide which incidents page, after those that were expected."""
    merged = [
        MergedExpectedChange(
            record.sha,
            ExpectedChange(record.match, record.change, record.reason),
            record.source,
            record.merged_at,
        )
        for record in load_expected_changes(inputs.tx, inputs.project)
    ]
    matches = {}
    if merged:
        paging = [incident for incident in derived if incident.kind in PAGING_KINDS]
        matches = match_expected_changes(paging, merged, move_context)
    return apply_paging_budget(
        derived,
        inputs.visit_index.weekly_numbers,
        series_count=len(inputs.series),
        pages_per_week=history.pages_per_week,
        expected_change_matches=matches,
    )
