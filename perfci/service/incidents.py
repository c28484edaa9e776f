"""What is stored about a project, joined into incidents, retests and creep; nothing is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.config import HistoryTable
from perfci.model import Commit, Incident, Retest
from perfci.service.surroundings import Surroundings
from perfci.verdicts.budget import Told, budgeted
from perfci.verdicts.creep import Creep, creeps
from perfci.verdicts.incidents import incidents, incidents_of_days
from perfci.verdicts.policy import Policy
from perfci.verdicts.retests import jumps, retests

MOST_RELEASES = 5
"""Releases that are looked back at, the newest: of an older one nobody asks any more what it was like."""


@dataclass(frozen=True, slots=True)
class Situation:
    """How a project stands: its incidents with what is done about each, what to measure again, and what crept."""

    project: str
    told: Sequence[Told]
    retests: Sequence[Retest]
    creeps: Sequence[Creep]
    commits: Mapping[str, Commit]
    pages_per_week: int


def situation(
    tx: Transaction,
    project: str,
    policy: Policy,
    history: HistoryTable,
    tags: Mapping[str, Collection[str]] | None = None,
) -> Situation:
    """Derive it all anew from what is stored; ``tags`` by sha, where git is at hand, else those stored."""
    around = Surroundings.of(tx, project, policy)
    newest, known = around.newest(), around.known(history.canaries)
    seen = jumps(newest, around.changes, around.verdicts, rules=policy.rule_for)
    days, single = incidents_of_days(seen, known)
    told = _told([*days, *incidents(around.changes, known)], around, history)
    releases = around.timetable.releases(history.releases, tags)[-MOST_RELEASES:]
    crept = creeps(around.lines(releases, newest), around.timetable.place, rules=policy.rule_for)
    return Situation(project, told, retests(single), crept, around.timetable.by_sha, history.pages_per_week)


def open_incidents(tx: Transaction, project: str, policy: Policy, history: HistoryTable) -> Situation:
    """The incidents alone, without a look at the newest points and the releases of every series."""
    around = Surroundings.of(tx, project, policy)
    told = _told(incidents(around.changes, around.known(history.canaries)), around, history)
    return Situation(project, told, (), (), around.timetable.by_sha, history.pages_per_week)


def _told(found: Sequence[Incident], around: Surroundings, history: HistoryTable) -> list[Told]:
    numbers = around.timetable.numbers
    return budgeted(found, numbers, series=len(around.series), pages_per_week=history.pages_per_week)
