"""What belongs together and what does not: people merge incidents and take them apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState, PerfciError
from perfci.service.audit_context import AuditContext
from perfci.service.incidents.pin_members import done, line_of, of_members, pin, seen_at
from perfci.service.incidents.triage import incident_of
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import add_members, drop_members, members
from perfci.store.incidents.records import Event, IncidentRecord
from perfci.store.projects import Project


def merge(
    tx: Transaction, project: Project, number: int, revision: int, others: Mapping[int, int], by: AuditContext
) -> IncidentRecord:
    """Take the members of other incidents (number to revision) into this one; those become its duplicates."""
    kept = seen_at(tx, project, number, revision)
    if kept.duplicate_number is not None:
        raise PerfciError(f"Incident {number} is a duplicate of {kept.duplicate_number}: merge into that one.")
    line = line_of(tx, project)
    ends = [kept]
    for other, other_revision in sorted(others.items()):
        one = seen_at(tx, project, other, other_revision)
        if one.id == kept.id:
            raise PerfciError(f"Incident {number} cannot be merged with itself.")
        ends.append(one)
        taken = members(tx, one.id)
        known = {member.series_id for member in members(tx, kept.id)}
        new = [replace(member, added_by=by.actor.name) for member in taken if member.series_id not in known]
        add_members(tx, kept.id, new)
        drop_members(tx, one.id, [member.series_id for member in taken], by.at)
        ended = dict.fromkeys(("accepted_until", "snoozed_until"))
        columns = {"state": IncidentState.DUPLICATE.value, "duplicate_of": kept.id, "pinned": True}
        pin(tx, one, columns | ended | {"changed_at": by.at, "series_count": 0}, by)
        told = Event(by.at, by.actor.name, "merge", str(one.number), str(number), f"merged into {number}")
        stored.add_events(tx, [(one.id, told), (kept.id, replace(told, text=f"took in {one.number}"))])
    good = min((one.last_good for one in ends), key=lambda sha: line.place.get(sha, len(line.place)))
    bad = max((one.commit for one in ends), key=lambda sha: line.place.get(sha, -1))
    pin(tx, kept, of_members(tx, kept, good, bad, line.by_sha), by)
    return done(tx, project, number, "incident.merge", {"others": sorted(others)}, by)


def split(
    tx: Transaction, project: Project, number: int, revision: int, series_ids: Collection[int], by: AuditContext
) -> tuple[IncidentRecord, IncidentRecord]:
    """Give some members of an incident a number of their own; answers what is left and what is new."""
    kept = seen_at(tx, project, number, revision)
    all_members = members(tx, kept.id)
    chosen = [member for member in all_members if member.series_id in series_ids]
    if not chosen or len(chosen) == len(all_members):
        some = f"some of its {len(all_members)} series are to go and some to stay, and {len(chosen)} would go"
        raise PerfciError(f"Incident {number} cannot be split so: {some}.")
    line = line_of(tx, project)
    same = (
        "kind", "last_good", "commit", "headline", "series_count", "say", "standing", "measured_at", "paged_at",
        "reason", "snoozed_until", "accepted_until",
    )  # fmt: skip
    columns = {name: getattr(kept, name) for name in same} | {"detail": dict(kept.detail), "derived_id": ""}
    state = {"state": kept.state.value, "first_seen": kept.first_seen, "changed_at": by.at, "pinned": True}
    new = stored.add_incident(tx, project.id, columns | state)
    drop_members(tx, kept.id, [member.series_id for member in chosen], by.at)
    add_members(tx, new.id, [replace(member, added_by=by.actor.name) for member in chosen])
    stored.refresh(tx, new.id, of_members(tx, new, new.last_good, new.commit, line.by_sha))
    pin(tx, kept, of_members(tx, kept, kept.last_good, kept.commit, line.by_sha), by)
    told = Event(
        by.at, by.actor.name, "split", str(number), str(new.number), f"{len(chosen)} series went to {new.number}"
    )
    stored.add_events(tx, [(kept.id, told), (new.id, replace(told, text=f"came out of {number}"))])
    left = done(tx, project, number, "incident.split", {"new": new.number, "series": len(chosen)}, by)
    return left, incident_of(tx, project, new.number)
