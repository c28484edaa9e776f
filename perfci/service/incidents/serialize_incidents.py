"""Serialize stored incidents to JSON values, shared by the command line, the pages and the API."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from perfci.model import Series, TailVerdict
from perfci.report.change_id import format_change_id
from perfci.report.incidents import incident_text as words
from perfci.report.serializers import serialize_change_size, serialize_series, serialize_tail_verdict
from perfci.service.incidents.load_incidents import IncidentDetail, IncidentOverview
from perfci.store.column_conversions import series_identity
from perfci.store.explanations import StoredExplanation
from perfci.store.incidents.incident_records import (
    ImpactRecord,
    IncidentEvent,
    IncidentMember,
    IncidentRecord,
)
from perfci.store.jobs.notification_queue import Delivery
from perfci.store.projects import Project


def serialize_stored_incident(record: IncidentRecord) -> dict[str, Any]:
    """Serialize an incident for a list; stored decisions override derived details of the same name."""
    return dict(record.detail) | {
        "id": record.derived_id,
        "sentence": record.headline,
        "state": record.state.value,
        "number": record.number,
        "kind": record.kind,
        "revision": record.revision,
        "last_good": record.last_good,
        "commit": record.commit,
        "headline": record.headline,
        "series_count": record.series_count,
        "severity": record.severity,
        "assignee": record.assignee,
        "reason": record.reason,
        "issue_url": record.issue_url,
        "fix_sha": record.fix_sha,
        "culprit_sha": record.culprit_sha,
        "pinned": record.pinned,
        "disposition": record.disposition,
        "ongoing": record.ongoing,
        "first_seen": _format_time(record.first_seen),
        "changed_at": _format_time(record.changed_at),
        "due_at": _format_time(record.due_at),
        "snoozed_until": _format_time(record.snoozed_until),
        "accepted_until": _format_time(record.accepted_until),
        "verified_at": _format_time(record.verified_at),
        "gone_at": _format_time(record.gone_at),
        "measured_at": _format_time(record.measured_at),
        "paged_at": _format_time(record.paged_at),
        "triaged_at": _format_time(record.triaged_at),
        "open": record.is_open,
        "duplicate_of": record.duplicate_number,
    }


def serialize_stored_incident_overview(overview: IncidentOverview) -> dict[str, Any]:
    """Serialize all incidents of a project with its last evaluation."""
    return {
        "project": overview.project,
        "sentence": overview.summary_sentence,
        "pages_per_week": overview.evaluation.pages_per_week,
        "evaluated_at": _format_time(overview.evaluation.evaluated_at),
        "incidents": [
            serialize_stored_incident(record)
            for record in sorted(overview.all_incidents, key=lambda record: -record.number)
        ],
        "retests": list(overview.evaluation.retests),
        "slow_drifts": list(overview.evaluation.creeps),
    }


def serialize_incident_detail(project: Project, detail: IncidentDetail) -> dict[str, Any]:
    """Serialize an incident with its members, events and deliveries."""
    return serialize_stored_incident(detail.record) | {
        "members": [
            serialize_incident_member(project.slug, member, series, detail.tails.get(member.series_id))
            for member, series in detail.members
        ],
        "events": [serialize_incident_event(event) for event in detail.events],
        "deliveries": [serialize_delivery(delivery) for delivery in detail.deliveries],
        "explanations": [serialize_stored_explanation(row) for row in detail.explanations],
    }


def serialize_stored_explanation(row: StoredExplanation) -> dict[str, Any]:
    """Serialize why a benchmark got slower: the sentence, its causes, and what grew most."""
    fields = ("sentence", "causes", "counts", "phases", "lines", "operators", "kernels", "environment")
    return {
        "benchmark": row.cell,
        "metric": row.metric,
        "base": row.base,
        "head": row.head,
        "conclusion": row.conclusion,
        "explained_at": _format_time(row.created_at),
        **{name: row.document.get(name) for name in fields},
    }


def serialize_incident_member(
    project: str, member: IncidentMember, series: Series, tail: TailVerdict | None
) -> dict[str, Any]:
    """Serialize a series of an incident with its change, and what its tail did in the pairs."""
    change, identity = member.to_change_point(series), series_identity(project, series)
    return {
        "id": format_change_id(identity, member.commit),
        "series_id": identity,
        "series": serialize_series(series),
        "sentence": words.member_change_sentence(change),
        "last_good": member.last_good,
        "commit": member.commit,
        **serialize_change_size(change),
        "tail": serialize_tail_verdict(tail, series.metric),
        "added_by": member.added_by,
    }


def serialize_incident_event(event: IncidentEvent) -> dict[str, Any]:
    """Serialize one line of the history of an incident."""
    return {
        "at": _format_time(event.at),
        "actor": event.actor,
        "action": event.action,
        "before": event.before,
        "after": event.after,
        "text": event.text,
    }


def serialize_commit_impact(row: ImpactRecord) -> dict[str, Any]:
    """Serialize the impact of a commit on a series."""
    return {
        "commit": row.change.commit,
        **serialize_change_size(row.change),
        "incident": row.incident,
        "accepted": row.accepted,
        "series": serialize_series(row.change.series),
        "sentence": words.member_change_sentence(row.change),
        "state": row.state.value if row.state else None,
        "recorded_at": _format_time(row.recorded_at),
    }


def serialize_delivery(delivery: Delivery) -> dict[str, Any]:
    """Serialize the delivery of a notification."""
    return {
        "uid": delivery.uid,
        "destination": delivery.destination.name,
        "incident": delivery.number,
        "state": delivery.state,
        "incident_state": delivery.body.get("state", ""),
        "attempts": delivery.attempts,
        "not_before": _format_time(delivery.not_before),
        "sent_at": _format_time(delivery.sent_at),
        "problem": delivery.problem,
    }


def _format_time(moment: datetime | None) -> str | None:
    return moment.isoformat(timespec="milliseconds") if moment else None
