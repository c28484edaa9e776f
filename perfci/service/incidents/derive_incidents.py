"""What is stored about a project, joined into incidents, retests and creep; nothing is written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.config import HistoryTable
from perfci.history.project_snapshot import Surroundings
from perfci.model import Commit, Incident, Retest
from perfci.service.expected_changes.save_changes import arrived_in
from perfci.verdicts.history.recent_jumps import jumps, retests
from perfci.verdicts.history.release_creep import Creep, creeps
from perfci.verdicts.incidents.expected_change_match import answers
from perfci.verdicts.incidents.incident_builder import incidents, incidents_of_days
from perfci.verdicts.incidents.page_budget import ASKING, Told, budgeted
from perfci.verdicts.incidents.step_causes import Known
from perfci.verdicts.policy import Policy

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
    told = _told([*days, *incidents(around.changes, known)], around, known, history)
    releases = around.timetable.releases(history.releases, tags)[-MOST_RELEASES:]
    crept = creeps(around.lines(releases, newest), around.timetable.place, rules=policy.rule_for)
    return Situation(project, told, retests(single), crept, around.timetable.by_sha, history.pages_per_week)


def open_incidents(tx: Transaction, project: str, policy: Policy, history: HistoryTable) -> Situation:
    """The incidents alone, without a look at the newest points and the releases of every series."""
    around = Surroundings.of(tx, project, policy)
    known = around.known(history.canaries)
    told = _told(incidents(around.changes, known), around, known, history)
    return Situation(project, told, (), (), around.timetable.by_sha, history.pages_per_week)


def _told(found: Sequence[Incident], around: Surroundings, known: Known, history: HistoryTable) -> list[Told]:
    numbers, asking = around.timetable.numbers, [one for one in found if one.kind in ASKING]
    meant = answers(asking, arrived_in(around.tx, around.project), around.changes, known)
    series, pages = len(around.series), history.pages_per_week
    return budgeted(found, numbers, series=series, pages_per_week=pages, answers=meant)
