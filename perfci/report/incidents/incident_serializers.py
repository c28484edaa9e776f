"""Incidents, retests and creep as plain JSON values, each with the sentence that every surface prints."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.model import ChangePoint, Retest
from perfci.report.incidents import incident_text as words
from perfci.report.serializers import Json, commit_fields, series_fields
from perfci.verdicts.history.release_creep import Creep
from perfci.verdicts.incidents.page_budget import Told


def situation_fields(
    project: str,
    told: Sequence[Told],
    retests: Sequence[Retest],
    creeps: Sequence[Creep],
    commits: words.Commits,
    pages_per_week: int,
) -> Json:
    """Everything ``perfci alerts list`` and the page of incidents say."""
    return {
        "project": project,
        "sentence": words.summary(told, len(retests), len(creeps)),
        "pages_per_week": pages_per_week,
        "incidents": [incident_fields(one, commits, pages_per_week) for one in told],
        "retests": [retest_fields(one) for one in retests],
        "creeps": [creep_fields(one) for one in creeps],
    }


def incident_fields(told: Told, commits: words.Commits, pages_per_week: int) -> Json:
    members = [member_fields(change) for change in told.incident.members]
    return about_fields(told, commits, pages_per_week) | {"members": members}


def about_fields(told: Told, commits: words.Commits, pages_per_week: int) -> Json:
    """All of an incident but its members, which may be thousands."""
    incident = told.incident
    moment = incident.measured_at
    return {
        "id": incident.id,
        "kind": incident.kind.value,
        "sentence": words.headline(incident, commits),
        "explanation": words.explanation(incident, commits),
        "say": told.say.value,
        "standing": incident.standing,
        "open": told.open,
        "told": words.standing(told, pages_per_week),
        "week": told.week or None,
        "last_good": incident.last_good,
        "commit": incident.commit,
        "measured_at": moment.isoformat(timespec="seconds") if moment else None,
        "cause": incident.cause or None,
        "environment": [
            {"name": one.name, "before": one.before or None, "after": one.after or None} for one in incident.observed
        ],
        "ambiguous": incident.ambiguous,
        "went_away_with": incident.until or None,
        "sessions": list(incident.sessions),
        "p_value": incident.p_value,
        "convicted": incident.convicted,
        "settled": incident.settled,
        "suspects": [
            {**commit_fields(one.commit), "members": one.members, "weight": round(one.weight, 6)}
            for one in incident.suspects
        ],
        "measure": words.measure_command(incident) or None,
    }


def member_fields(change: ChangePoint) -> Json:
    return {
        "series": series_fields(change.series),
        "sentence": words.member(change),
        "last_good": change.last_good,
        "commit": change.commit,
        "rel": change.rel,
        "before": change.before,
        "after": change.after,
    }


def retest_fields(retest: Retest) -> Json:
    return {
        "series": series_fields(retest.series),
        "base": retest.base,
        "head": retest.head,
        "reason": retest.reason,
        "command": words.retest_command(retest),
    }


def creep_fields(creep: Creep) -> Json:
    return {
        "series": series_fields(creep.series),
        "sentence": words.creep_sentence(creep),
        "release": creep.release,
        "base": creep.base,
        "head": creep.head,
        "drift": creep.drift,
        "interval": [creep.interval.lo, creep.interval.hi] if creep.interval else None,
        "total": creep.total,
        "p_value": creep.p_value,
        "paired": creep.paired,
        "command": words.creep_command(creep),
    }
