"""How well the alarms of a project serve those who get them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState
from perfci.service.incidents.incident_columns import PERFCI
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import benchmarks_of
from perfci.store.incidents.mutes import suspend, suspensions, was_released
from perfci.store.incidents.records import OPEN, IncidentRecord, Suspension
from perfci.store.projects import Project

NOISY_RATE, FEWEST_JUDGED = 0.2, 10
"""A benchmark of which more than a fifth of at least ten judged incidents were nothing is watched and told no more."""

LASTING = timedelta(days=30)
"""A quarantine ends by itself: who repaired a benchmark should not have to know of it."""

WITHIN = timedelta(days=180)
"""What was longer ago tells of a program and of benchmarks that are no more."""

JUDGED = frozenset(IncidentState) - OPEN - {IncidentState.SNOOZED, IncidentState.DUPLICATE}


@dataclass(frozen=True, slots=True)
class Noisy:
    """How often an incident of a benchmark was nothing."""

    benchmark: str
    judged: int
    invalid: int

    @property
    def rate(self) -> float:
        return self.invalid / self.judged


@dataclass(frozen=True, slots=True)
class Health:
    open: int
    overdue: int
    paged: int
    judged: int
    invalid: int
    hours_to_triage: float | None
    hours_to_close: float | None
    series_per_incident: float | None
    noisy: tuple[Noisy, ...]

    @property
    def false_rate(self) -> float | None:
        return self.invalid / self.judged if self.judged else None


def health(tx: Transaction, project: Project, now: datetime) -> Health:
    """Of what asked for a person in the last half year."""
    paged = stored.paged_since(tx, project.id, now - WITHIN)
    judged = [one for one in paged if one.state in JUDGED]
    still_open = [one for one in paged if one.open]
    return Health(
        open=len(still_open),
        overdue=sum(one.due_at is not None and one.due_at < now for one in still_open),
        paged=len(paged),
        judged=len(judged),
        invalid=sum(one.state is IncidentState.INVALID for one in judged),
        hours_to_triage=_hours([(one.triaged_at - one.paged_at) for one in paged if one.triaged_at and one.paged_at]),
        hours_to_close=_hours([one.changed_at - one.paged_at for one in judged if one.paged_at]),
        series_per_incident=median([one.series_count for one in paged]) if paged else None,
        noisy=tuple(_noisy(tx, judged)),
    )


def noisy(tx: Transaction, project: Project, now: datetime) -> list[Noisy]:
    """What cried wolf too often and is in no quarantine, unless a person let it out."""
    known = {one.benchmark for one in suspensions(tx, project.id, now)}
    loud = [one for one in health(tx, project, now).noisy if one.judged >= FEWEST_JUDGED and one.rate > NOISY_RATE]
    return [one for one in loud if one.benchmark not in known and not _released(tx, project, one, now)]


def suspend_noisy(tx: Transaction, project: Project, loud: Sequence[Noisy], now: datetime) -> None:
    """Put into quarantine what ``noisy`` found, unless a person let it out meanwhile."""
    for one in loud:
        if not _released(tx, project, one, now):
            reason = f"{one.invalid} of its {one.judged} judged incidents were nothing"
            suspend(tx, project.id, Suspension(one.benchmark, "", one.rate, reason, now, now + LASTING, PERFCI))


def _released(tx: Transaction, project: Project, one: Noisy, now: datetime) -> bool:
    return was_released(tx, project.id, one.benchmark, now - LASTING)


def _noisy(tx: Transaction, judged: Sequence[IncidentRecord]) -> list[Noisy]:
    """Benchmarks of which at least one incident was nothing, the worst first."""
    states = {one.id: one.state for one in judged}
    every, invalid = Counter[str](), Counter[str]()
    for incident_id, pairs in benchmarks_of(tx, list(states)).items():
        for name in {name for name, _ in pairs}:
            every[name] += 1
            invalid[name] += states[incident_id] is IncidentState.INVALID
    found = [Noisy(name, count, invalid[name]) for name, count in every.items() if invalid[name]]
    return sorted(found, key=lambda one: (-one.rate, -one.judged, one.benchmark))


def _hours(spans: Sequence[timedelta]) -> float | None:
    return median(span.total_seconds() for span in spans) / 3600 if spans else None
