"""Reconcile stored incidents with those that an evaluation derived.

Differences are planned in a read transaction and written in short ones, each incident only at the revision
that was read. Incidents that a person changed meanwhile are planned again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy.orm import Session as Transaction

from perfci.config import Config
from perfci.model import IncidentState
from perfci.project_policies import build_policy
from perfci.service.audit_context import SYSTEM_ACTOR
from perfci.service.incidents.due_transitions import (
    TRANSITION_STATES,
    BeginTransaction,
    apply_due_transitions,
)
from perfci.service.incidents.evaluate_project import ProjectEvaluation, evaluate_project
from perfci.service.incidents.match_incidents import DerivedIncident
from perfci.service.incidents.mute_benchmarks import mute_noisy_benchmarks
from perfci.service.incidents.stored_incident_planner import (
    COMMIT_KINDS,
    IncidentWrite,
    StoredIncidentPlanner,
    decide_expected_incident_state,
)
from perfci.service.notify.enqueue_notifications import (
    enqueue_notifications,
    enqueue_paged_incident_notifications,
)
from perfci.store import Store
from perfci.store.column_conversions import change_point_values
from perfci.store.incidents import incident_store
from perfci.store.incidents.expected_changes_and_muted_benchmarks import load_mutes
from perfci.store.incidents.incident_records import IncidentEvent, IncidentMember, Mute
from perfci.store.incidents.incident_store import (
    add_incident_members,
    mark_members_dropped,
    save_impacts,
    set_impacts_accepted,
)
from perfci.store.projects import Project, find_project, mark_projects_changed
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.verdicts.judging_policy import Policy

MAX_ROWS_PER_TRANSACTION = 500
"""Rows written in one transaction, which takes some ten milliseconds."""

MAX_NEWS_AGE = timedelta(days=7)
"""Older changes of an imported history are not notified at its first evaluation."""

MAX_ATTEMPTS = 5
"""Planning rounds; an incident that a person changes in each round is left to the next evaluation."""


@dataclass(frozen=True, slots=True)
class ReconcileResult:
    """Numbers of the incidents that an evaluation created, changed or found gone."""

    new: tuple[int, ...] = ()
    changed: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()


def reconcile_incidents(
    store: Store,
    project: Project,
    policy: Policy,
    evaluation: ProjectEvaluation,
    now: datetime,
    begin: BeginTransaction | None = None,
) -> ReconcileResult:
    """Write an evaluation into the stored incidents and enqueue notifications.

    ``begin`` opens a write transaction, by default of the store. After a crash the same evaluation writes
    the rest; notifications are enqueued once, after all incidents are written.
    """
    begin = begin or store.begin
    written: list[tuple[IncidentWrite, int]] = []
    for _ in range(MAX_ATTEMPTS):
        with store.read() as tx:
            steps = plan_incident_writes(tx, project, evaluation, now)
        taken: list[int | None] = []
        for batch in _batch_writes(steps):
            with begin() as tx:
                mark_projects_changed(tx, [project.id])
                taken += [_apply_write(tx, project, step, now) for step in batch]
        written += [(step, number) for step, number in zip(steps, taken, strict=True) if number is not None]
        if None not in taken:
            break
    # Most projects have no incident that mutes a benchmark or ends by itself.
    with store.read() as tx:
        states = incident_store.load_distinct_incident_states(tx, project.id)
    if IncidentState.INVALID in states:
        mute_noisy_benchmarks(store, project, now, begin)
    if states & TRANSITION_STATES:
        apply_due_transitions(store, project, policy, now, begin)
    with begin() as tx:
        paged = incident_store.mark_unpaged_incidents_paged(tx, project.id, now)
        if incident_store.save_evaluation(tx, project.id, evaluation.build_evaluation_record(now)):
            # The first evaluation: old changes of an imported history are no news.
            since = now - MAX_NEWS_AGE
            paged = [record for record in paged if record.measured_at is None or record.measured_at >= since]
        if paged:
            enqueue_paged_incident_notifications(tx, project, paged, now)
        mark_projects_changed(tx, [project.id])
    return ReconcileResult(
        tuple(number for step, number in written if step.record is None),
        tuple(number for step, number in written if step.record is not None and not step.gone),
        tuple(number for step, number in written if step.gone),
    )


def evaluate_and_reconcile(
    store: Store, config: Config, tags: Mapping[str, Collection[str]] | None = None
) -> ReconcileResult:
    """Evaluate and reconcile a project without a server; ``tags`` as in ``evaluate_project``."""
    policy = build_policy(config.settings)
    with store.read() as tx:
        project = find_project(tx, config.project)
        if project is None:
            return ReconcileResult()
        evaluation = evaluate_project(tx, config.project, policy, config.settings.history, tags)
    return reconcile_incidents(store, project, policy, evaluation, datetime.now(UTC))


def plan_incident_writes(
    tx: Transaction, project: Project, evaluation: ProjectEvaluation, now: datetime
) -> list[IncidentWrite]:
    """Plan the writes of all changed incidents: the new ones first, each time the oldest first."""
    moved = {change.series for budgeted in evaluation.incidents for change in budgeted.incident.members}
    project_series = load_project_series(tx, project.slug) if moved else {}
    row_ids = {series: row_id for row_id, series in project_series.items() if series in moved}
    new = []
    for budgeted in reversed(evaluation.incidents):
        members: dict[int, IncidentMember] = {}
        for change in budgeted.incident.members:
            row_id = row_ids[change.series]
            # Largest first: a series with several changes is one member, with its largest.
            members.setdefault(row_id, IncidentMember(row_id, *change_point_values(change)))
        new.append(DerivedIncident(budgeted, members))
    mutes = load_mutes(tx, project.id, now)
    records = incident_store.load_incidents(tx, project.id, incident_store.MEASURED)[::-1]
    updates: list[IncidentWrite] = []
    if records:
        new, updates = StoredIncidentPlanner(tx, evaluation, mutes, now).match_and_plan_updates(records, new)
    return [_plan_new_incident(derived, evaluation, mutes, now) for derived in new] + updates


def _plan_new_incident(
    derived: DerivedIncident, evaluation: ProjectEvaluation, mutes: Sequence[Mute], now: datetime
) -> IncidentWrite:
    """Plan the write of an incident that is not stored yet; one that was expected starts accepted."""
    budgeted, members = derived.budgeted, list(derived.members.values())
    columns = evaluation.build_incident_columns(budgeted, mutes)
    columns |= {"state": IncidentState.NEW.value, "first_seen": now, "changed_at": now}
    events = [IncidentEvent(now, SYSTEM_ACTOR, "state", "", IncidentState.NEW.value, columns["headline"])]
    if budgeted.expected_change_match is not None:
        decided = decide_expected_incident_state(budgeted.expected_change_match, now)
        columns |= decided.columns
        events += decided.events
    is_impact = budgeted.incident.settled and budgeted.incident.kind in COMMIT_KINDS
    return IncidentWrite(None, columns, events, members, moves=members if is_impact else ())


def _batch_writes(planned: Sequence[IncidentWrite]) -> Iterator[list[IncidentWrite]]:
    """Batch writes by row count, so that uploads wait for short transactions only."""
    portion: list[IncidentWrite] = []
    for step in planned:
        if portion and sum(write.row_count for write in portion) + step.row_count > MAX_ROWS_PER_TRANSACTION:
            yield portion
            portion = []
        portion.append(step)
    if portion:
        yield portion


def _apply_write(tx: Transaction, project: Project, planned: IncidentWrite, now: datetime) -> int | None:
    """Write one incident with what belongs to it; return its number, None if it was changed meanwhile.

    Destinations that were notified of the incident before hear of its new state.
    """
    record = planned.record or incident_store.add_incident(tx, project.id, planned.columns)
    if planned.record is not None:
        write = (
            incident_store.update_incident
            if planned.bumps_revision
            else incident_store.update_derived_columns_if_unchanged
        )
        if not write(tx, record.id, record.revision, planned.columns):
            return None
    add_incident_members(tx, record.id, planned.members, is_new_incident=planned.record is None)
    if planned.dropped:
        mark_members_dropped(tx, record.id, planned.dropped, now)
    save_impacts(tx, project.id, record.id, planned.moves, now)
    incident_store.add_incident_events(tx, [(record.id, event) for event in planned.events])
    if planned.record is None:
        if record.state is IncidentState.ACCEPTED:
            set_impacts_accepted(tx, [record.id], True)
    elif "state" in planned.columns or record.state is IncidentState.ACCEPTED:
        written = incident_store.find_incident(tx, project.id, record.number)
        assert written is not None
        set_impacts_accepted(tx, [written.id], written.state is IncidentState.ACCEPTED)
        if "state_number" in planned.columns and written.paged_at is not None:
            enqueue_notifications(tx, project, written, now, actor=SYSTEM_ACTOR, reason=written.reason)
    return record.number
