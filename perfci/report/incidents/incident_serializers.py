"""Serialize incidents, retests and creep to JSON fields, each with its sentence."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.model import ChangePoint, Retest
from perfci.report.incidents import incident_text
from perfci.report.serializers import JsonFields, serialize_commit, serialize_series
from perfci.verdicts.history.release_creep import Creep
from perfci.verdicts.incidents.page_budget import BudgetedIncident


def serialize_incident_overview(
    project: str,
    budgeted_incidents: Sequence[BudgetedIncident],
    retests: Sequence[Retest],
    creeps: Sequence[Creep],
    commits: incident_text.CommitsBySha,
    pages_per_week: int,
) -> JsonFields:
    """Serialize what ``perfci incidents list`` and the incidents page show."""
    return {
        "project": project,
        "sentence": incident_text.incidents_summary(budgeted_incidents, len(retests), len(creeps)),
        "pages_per_week": pages_per_week,
        "incidents": [
            serialize_incident(budgeted, commits, pages_per_week) for budgeted in budgeted_incidents
        ],
        "retests": [serialize_retest(retest) for retest in retests],
        "slow_drifts": [serialize_creep(creep) for creep in creeps],
    }


def serialize_incident(
    budgeted: BudgetedIncident, commits: incident_text.CommitsBySha, pages_per_week: int
) -> JsonFields:
    """Serialize an incident with its members."""
    members = [serialize_member(change) for change in budgeted.incident.members]
    return serialize_incident_summary(budgeted, commits, pages_per_week) | {"members": members}


def serialize_incident_summary(
    budgeted: BudgetedIncident, commits: incident_text.CommitsBySha, pages_per_week: int
) -> JsonFields:
    """Serialize an incident without its members, which may be thousands."""
    incident = budgeted.incident
    moment = incident.measured_at
    return {
        "id": incident.id,
        "kind": incident.kind.value,
        "sentence": incident_text.incident_headline(incident, commits),
        "explanation": incident_text.incident_explanation(incident, commits),
        "disposition": budgeted.disposition.value,
        "ongoing": incident.ongoing,
        "open": budgeted.is_open,
        "disposition_text": incident_text.disposition_sentence(budgeted, pages_per_week),
        "week": budgeted.week or None,
        "last_good": incident.last_good,
        "commit": incident.commit,
        "measured_at": moment.isoformat(timespec="seconds") if moment else None,
        "cause": incident.cause or None,
        "environment": [
            {"name": change.name, "before": change.before or None, "after": change.after or None}
            for change in incident.environment_changes
        ],
        "ambiguous": incident.ambiguous,
        "recovered_at": incident.reverted_by or None,
        "sessions": list(incident.sessions),
        "p_value": incident.p_value,
        "confirmed_series": incident.confirmed_count,
        "has_sufficient_evidence": incident.settled,
        "candidate_commits": [
            {
                **serialize_commit(candidate.commit),
                "members": candidate.members,
                "weight": round(candidate.weight, 6),
            }
            for candidate in incident.candidates
        ],
        "next_measurement": incident_text.measure_command(incident) or None,
    }


def serialize_member(change: ChangePoint) -> JsonFields:
    """Serialize the change of one series of an incident."""
    return {
        "series": serialize_series(change.series),
        "sentence": incident_text.member_sentence(change),
        "last_good": change.last_good,
        "commit": change.commit,
        "relative_change": change.relative_change,
        "before": change.before,
        "after": change.after,
    }


def serialize_retest(retest: Retest) -> JsonFields:
    """Serialize a retest and the command that runs it."""
    return {
        "series": serialize_series(retest.series),
        "base": retest.base,
        "head": retest.head,
        "reason": retest.reason,
        "command": incident_text.retest_command(retest),
    }


def serialize_creep(creep: Creep) -> JsonFields:
    """Serialize the slow drift of a series since a release."""
    return {
        "series": serialize_series(creep.series),
        "sentence": incident_text.creep_sentence(creep),
        "release": creep.release,
        "base": creep.base,
        "head": creep.head,
        "drift": creep.drift_ratio,
        "interval": [creep.interval.lo, creep.interval.hi] if creep.interval else None,
        "total": creep.total_ratio,
        "p_value": creep.p_value,
        "paired": creep.paired,
        "command": incident_text.creep_command(creep),
    }
