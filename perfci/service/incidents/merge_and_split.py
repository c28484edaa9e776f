"""Merge incidents, or split members off into a new one, on request of a person."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState, PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.manual_change_steps import (
    build_member_columns,
    finish_change,
    load_at_revision,
    load_visit_index,
    pin_incident,
)
from perfci.service.incidents.triage import require_incident
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import add_members, drop_members, load_members
from perfci.store.incidents.records import IncidentEvent, IncidentRecord
from perfci.store.projects import Project

COPIED_FIELDS = (
    "kind",
    "last_good",
    "commit",
    "headline",
    "series_count",
    "disposition",
    "ongoing",
    "measured_at",
    "paged_at",
    "reason",
    "snoozed_until",
    "accepted_until",
)
"""Fields that an incident split off takes over."""


def merge_incidents(
    tx: Transaction,
    project: Project,
    number: int,
    revision: int,
    others: Mapping[int, int],
    context: AuditContext,
) -> IncidentRecord:
    """Merge other incidents (number to revision) into this one; they become its duplicates."""
    kept = load_at_revision(tx, project, number, revision)
    if kept.duplicate_number is not None:
        raise PerfciError(
            f"Incident {number} is a duplicate of {kept.duplicate_number}: merge into that one."
        )
    line = load_visit_index(tx, project)
    ends = [kept]
    for other, other_revision in sorted(others.items()):
        merged = load_at_revision(tx, project, other, other_revision)
        if merged.id == kept.id:
            raise PerfciError(f"Incident {number} cannot be merged with itself.")
        ends.append(merged)
        _move_members(tx, merged, kept, context)
    good = min(
        (record.last_good for record in ends), key=lambda sha: line.positions.get(sha, len(line.positions))
    )
    bad = max((record.commit for record in ends), key=lambda sha: line.positions.get(sha, -1))
    pin_incident(tx, kept, build_member_columns(tx, kept, good, bad, line.by_sha), context)
    return finish_change(tx, project, number, "incident.merge", {"others": sorted(others)}, context)


def _move_members(
    tx: Transaction, merged: IncidentRecord, kept: IncidentRecord, context: AuditContext
) -> None:
    """Move the members of an incident into another one, whose duplicate it becomes."""
    taken = load_members(tx, merged.id)
    kept_ids = {member.series_id for member in load_members(tx, kept.id)}
    new = [
        replace(member, added_by=context.actor.name) for member in taken if member.series_id not in kept_ids
    ]
    add_members(tx, kept.id, new)
    drop_members(tx, merged.id, [member.series_id for member in taken], context.at)
    columns = {
        "state": IncidentState.DUPLICATE.value,
        "duplicate_of": kept.id,
        "accepted_until": None,
        "snoozed_until": None,
        "changed_at": context.at,
        "series_count": 0,
    }
    pin_incident(tx, merged, columns, context)
    into, out_of = str(kept.number), str(merged.number)
    event = IncidentEvent(context.at, context.actor.name, "merge", out_of, into, f"merged into {into}")
    stored.add_events(tx, [(merged.id, event), (kept.id, replace(event, text=f"took in {out_of}"))])


def split_members(
    tx: Transaction,
    project: Project,
    number: int,
    revision: int,
    series_ids: Collection[int],
    context: AuditContext,
) -> tuple[IncidentRecord, IncidentRecord]:
    """Split members off into a new incident; return the remaining and the new one."""
    kept = load_at_revision(tx, project, number, revision)
    all_members = load_members(tx, kept.id)
    chosen = [member for member in all_members if member.series_id in series_ids]
    if not chosen or len(chosen) == len(all_members):
        problem = (
            f"some of its {len(all_members)} series are to go and some to stay, and {len(chosen)} would go"
        )
        raise PerfciError(f"Incident {number} cannot be split so: {problem}.")
    line = load_visit_index(tx, project)
    columns = {name: getattr(kept, name) for name in COPIED_FIELDS} | {
        "detail": dict(kept.detail),
        "derived_id": "",
        "state": kept.state.value,
        "first_seen": kept.first_seen,
        "changed_at": context.at,
        "pinned": True,
    }
    new = stored.add_incident(tx, project.id, columns)
    drop_members(tx, kept.id, [member.series_id for member in chosen], context.at)
    add_members(tx, new.id, [replace(member, added_by=context.actor.name) for member in chosen])
    stored.update_derived(tx, new.id, build_member_columns(tx, new, new.last_good, new.commit, line.by_sha))
    pin_incident(tx, kept, build_member_columns(tx, kept, kept.last_good, kept.commit, line.by_sha), context)
    text = f"{len(chosen)} series went to {new.number}"
    event = IncidentEvent(context.at, context.actor.name, "split", str(number), str(new.number), text)
    stored.add_events(tx, [(kept.id, event), (new.id, replace(event, text=f"came out of {number}"))])
    left = finish_change(
        tx, project, number, "incident.split", {"new": new.number, "series": len(chosen)}, context
    )
    return left, require_incident(tx, project, new.number)
