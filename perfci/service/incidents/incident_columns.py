"""Build the stored columns, records and events of derived incidents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from perfci.model import ChangePoint, IncidentState
from perfci.report.incidents import incident_text as words
from perfci.report.incidents.incident_serializers import (
    serialize_creep,
    serialize_incident_summary,
    serialize_retest,
)
from perfci.service.audit_context import SYSTEM_ACTOR
from perfci.service.incidents.compute_evaluation import ProjectEvaluation
from perfci.store.incidents.records import MONITORED, PAGE, EvaluationRecord, IncidentEvent, IncidentRecord
from perfci.verdicts.change_severity import compute_severity
from perfci.verdicts.incidents.page_budget import BudgetedIncident


def build_incident_columns(
    budgeted: BudgetedIncident, evaluation: ProjectEvaluation, *, muted: bool = False
) -> dict[str, Any]:
    """Build the columns of an incident, with its texts and without its members.

    A ``muted`` incident that would page is stored as monitored.
    """
    incident = budgeted.incident
    detail = serialize_incident_summary(budgeted, evaluation.commits, evaluation.pages_per_week)
    detail["largest"] = words.largest_change_sentence(incident) if incident.members else ""
    detail |= {"expected_change": sentence} if (sentence := words.expected_change_sentence(budgeted)) else {}
    silent = muted and budgeted.disposition.value == PAGE
    detail |= (
        {"disposition_text": "its benchmarks are muted: no notifications", "open": False} if silent else {}
    )
    return {
        "derived_id": incident.id,
        "kind": incident.kind.value,
        "last_good": incident.last_good,
        "commit": incident.commit,
        "headline": words.incident_headline(incident, evaluation.commits),
        "severity": max((compute_severity(change) for change in incident.members), default=None),
        "series_count": len({change.series for change in incident.members}),
        "disposition": MONITORED if silent else budgeted.disposition.value,
        "ongoing": incident.ongoing,
        "measured_at": incident.measured_at,
        "detail": detail,
    }


def build_incident_record(
    budgeted: BudgetedIncident, evaluation: ProjectEvaluation, now: datetime
) -> IncidentRecord:
    """Build the record of a derived incident that is not stored."""
    columns = build_incident_columns(budgeted, evaluation)
    state = IncidentState.ACCEPTED if budgeted.is_expected else IncidentState.NEW
    return IncidentRecord(
        id=0, number=0, state=state, revision=1, state_number=1, first_seen=now, changed_at=now, **columns
    )


def apply_pinned_range(
    budgeted: BudgetedIncident, record: IncidentRecord, members: Sequence[ChangePoint]
) -> BudgetedIncident:
    """Replace the range and the members of an incident by those that a person set."""
    ordered = tuple(sorted(members, key=lambda change: -abs(compute_severity(change))))
    return replace(
        budgeted,
        incident=replace(
            budgeted.incident, members=ordered, last_good=record.last_good, commit=record.commit
        ),
    )


def build_sync_events(
    record: IncidentRecord, changed_columns: Mapping[str, Any], now: datetime
) -> list[IncidentEvent]:
    """Build the history events of changed columns; a changed text alone is no event."""
    events = []
    if "kind" in changed_columns:
        events.append(
            IncidentEvent(
                now,
                SYSTEM_ACTOR,
                "sync",
                record.kind,
                changed_columns["kind"],
                changed_columns.get("headline", ""),
            )
        )
    if "commit" in changed_columns or "last_good" in changed_columns:
        before, after = (
            f"{good[:10]}..{bad[:10]}"
            for good, bad in (
                (record.last_good, record.commit),
                (
                    changed_columns.get("last_good", record.last_good),
                    changed_columns.get("commit", record.commit),
                ),
            )
        )
        events.append(
            IncidentEvent(now, SYSTEM_ACTOR, "sync", before, after, "more points show the range better")
        )
    if "gone_at" in changed_columns:
        events.append(IncidentEvent(now, SYSTEM_ACTOR, "sync", "gone", "seen", "seen again"))
    return events


def build_evaluation_record(evaluation: ProjectEvaluation, now: datetime) -> EvaluationRecord:
    """Build the stored record of an evaluation: its retests and slow drifts."""
    retests = tuple(
        serialize_retest(retest) | {"sentence": words.retest_sentence(retest)}
        for retest in evaluation.retests
    )
    return EvaluationRecord(
        now, evaluation.pages_per_week, retests, tuple(serialize_creep(creep) for creep in evaluation.creeps)
    )
