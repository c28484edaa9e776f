"""Apply state transitions of incidents that are due: ended snoozes and acceptances, verified fixes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_histories import JudgedHistories
from perfci.model import Commit, IncidentState
from perfci.service.audit_context import SYSTEM_ACTOR
from perfci.service.notify.enqueue_notifications import enqueue_notifications
from perfci.store import Store
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_records import (
    DATA_KIND,
    IncidentEvent,
    IncidentRecord,
)
from perfci.store.incidents.incident_store import (
    load_incident_members,
    set_impacts_accepted,
)
from perfci.store.projects import Project, mark_projects_changed
from perfci.store.queries.project_status import load_change_points_of_series
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.verdicts.judging_policy import Policy

FIX_VERIFICATION_POINTS = 3
"""Points needed to verify a fix: one or two may be a spike (see docs/design/statistics.md)."""

MAX_VERIFIED_SERIES = 20
"""Series that a fix is verified on, those with the largest changes."""

TRANSITION_STATES = frozenset({IncidentState.SNOOZED, IncidentState.ACCEPTED, IncidentState.FIXED})
"""States that an incident leaves, or is confirmed in, without a person."""

BeginTransaction = Callable[[], AbstractContextManager[Transaction]]


def apply_due_transitions(
    store: Store, project: Project, policy: Policy, now: datetime, begin: BeginTransaction | None = None
) -> int:
    """Apply all due transitions of a project; return how many incidents changed.

    Everything is computed in a read transaction first; ``begin`` opens the short write transaction.
    """
    with store.read() as tx:
        temporary = stored.load_incidents(
            tx, project.id, states=[IncidentState.SNOOZED, IncidentState.ACCEPTED]
        )
        fix_results = _evaluate_fixes(tx, project, policy)
    ends = [
        (record, record.snoozed_until if record.state is IncidentState.SNOOZED else record.accepted_until)
        for record in temporary
    ]
    expired = [record for record, end in ends if end is not None and end <= now]
    if not expired and not fix_results:
        return 0
    with (begin or store.begin)() as tx:
        changed = sum(_end_expired(tx, project, record, now) for record in expired)
        for record, holds in fix_results:
            if holds:
                changed += _mark_verified(tx, record, {"verified_at": now}, now)
            else:
                reason = "fixed, but three newer points are still off"
                changed += _reopen(tx, project, record, reason, now)
        if changed:
            mark_projects_changed(tx, [project.id])
    return changed


def _end_expired(tx: Transaction, project: Project, record: IncidentRecord, now: datetime) -> bool:
    """Reopen an expired incident that still needs attention; mark others as verified."""
    if record.gone_at is not None or not record.warrants_paging:
        return _mark_verified(
            tx, record, {"verified_at": now, "snoozed_until": None, "accepted_until": None}, now
        )
    if not _reopen(tx, project, record, f"{record.state} until {now:%Y-%m-%d}: that is over", now):
        return False
    set_impacts_accepted(tx, [record.id], False)
    return True


def _evaluate_fixes(tx: Transaction, project: Project, policy: Policy) -> list[tuple[IncidentRecord, bool]]:
    """Evaluate the fixes that have enough newer points; return whether each holds."""
    unproven = [
        record
        for record in stored.load_incidents(tx, project.id, states=[IncidentState.FIXED])
        if record.verified_at is None and record.kind != DATA_KIND
    ]
    results = [(record, _is_fix_holding(tx, record, policy)) for record in unproven]
    return [(record, holds) for record, holds in results if holds is not None]


def _is_fix_holding(tx: Transaction, record: IncidentRecord, policy: Policy) -> bool | None:
    """Return whether the fix holds by the bar of each series; None while too few points are newer."""
    moved = load_incident_members(tx, record.id)
    series = load_series_by_ids(tx, {member.series_id for member in moved})
    worse = [
        member for member in moved if member.to_change_point(series[member.series_id]).log_cost_change > 0
    ][:MAX_VERIFIED_SERIES]
    series_ids = [member.series_id for member in worse]
    histories = JudgedHistories.load(tx, series_ids)
    # pairs may run at another level than the history does: it is judged by its own level before the change
    history_levels = {
        (change.series, change.commit): change.before
        for change in load_change_points_of_series(tx, series_ids)
    }
    backs = []
    for member in worse:
        levels = _select_levels_since_fix(histories.get_commit_levels(member.series_id), record)
        changed_series = series[member.series_id]
        worse_sign = 1.0 if changed_series.metric.direction == "lower" else -1.0
        before = history_levels.get((changed_series, member.commit), member.before)
        backs.append(_is_level_back(levels, before, policy.rule_for(changed_series).bar, worse_sign))
    if False in backs:
        return False
    return None if None in backs or not backs else True


def _select_levels_since_fix(
    history: Sequence[tuple[Commit, float | None]], record: IncidentRecord
) -> list[float]:
    """Select the levels since the commit of the fix or, if unknown, since it was reported."""
    if record.fix_sha:
        at = next(
            (k for k, (commit, _) in enumerate(history) if commit.sha.startswith(record.fix_sha)),
            len(history),
        )
        chosen = history[at:]
    else:
        chosen = [
            point for point in history if point[0].committed_at and point[0].committed_at > record.changed_at
        ]
    return [level for _, level in chosen if level is not None]


def _is_level_back(levels: Sequence[float], before: float, bar: float, sign: float) -> bool | None:
    """Return whether the newest points are at most ``bar`` worse than the level before the change."""
    if len(levels) < FIX_VERIFICATION_POINTS:
        return None
    if before == 0:
        return all(level * sign <= 0 for level in levels[-FIX_VERIFICATION_POINTS:])
    return all((level / before - 1) * sign <= bar for level in levels[-FIX_VERIFICATION_POINTS:])


def _mark_verified(
    tx: Transaction, record: IncidentRecord, columns: Mapping[str, Any], now: datetime
) -> bool:
    if not stored.update_incident(tx, record.id, record.revision, columns):
        return False  # changed by a person meanwhile: left to the next sweep
    stored.add_incident_events(
        tx,
        [
            (
                record.id,
                IncidentEvent(now, SYSTEM_ACTOR, "verified", record.state, record.state, "the level is back"),
            )
        ],
    )
    return True


def _reopen(tx: Transaction, project: Project, record: IncidentRecord, reason: str, now: datetime) -> bool:
    columns = {
        "state": IncidentState.NEW.value,
        "state_number": record.state_number + 1,
        "reason": reason,
        "changed_at": now,
        "snoozed_until": None,
        "accepted_until": None,
        "fix_sha": "",
    }
    if not stored.update_incident(tx, record.id, record.revision, columns):
        return False
    stored.add_incident_events(
        tx, [(record.id, IncidentEvent(now, SYSTEM_ACTOR, "state", record.state, IncidentState.NEW, reason))]
    )
    again = stored.find_incident(tx, project.id, record.number)
    if again is not None and again.paged_at is not None:
        enqueue_notifications(tx, project, again, now, actor=SYSTEM_ACTOR, reason=reason)
    return True
