"""The page of incidents: what asks a person, what explains the rest, and what to measure again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.model import ChangePoint, Commit, Retest
from perfci.report import incidents as words
from perfci.service.incidents import Situation
from perfci.verdicts.budget import Told
from perfci.verdicts.creep import Creep

MOST_ON_OVERVIEW = 5
MOST_IN_SECTION = 100
"""What is older is in the JSON twin."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One incident in words, with what a page links to."""

    told: Told
    headline: str
    explanation: str
    standing: str
    command: str
    members: tuple[ChangePoint, ...]
    suspects: tuple[Commit, ...]

    @property
    def id(self) -> str:
        return self.told.incident.id


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    entries: tuple[Entry, ...]
    count: int


@dataclass(frozen=True, slots=True)
class IncidentsPage:
    project: str
    sentence: str
    pages_per_week: int
    sections: tuple[Section, ...]
    retests: tuple[Retest, ...]
    creeps: tuple[Creep, ...]


def incidents_page(found: Situation) -> IncidentsPage:
    """Every incident in exactly one section."""
    return IncidentsPage(
        project=found.project,
        sentence=words.summary(found.told, len(found.retests), len(found.creeps)),
        pages_per_week=found.pages_per_week,
        sections=tuple(
            Section(title, tuple(entries(found, mine[:MOST_IN_SECTION])), len(mine))
            for title, mine in words.sections(found.told)
        ),
        retests=tuple(found.retests),
        creeps=tuple(found.creeps),
    )


def entries(found: Situation, told: Sequence[Told]) -> list[Entry]:
    return [
        Entry(
            told=one,
            headline=words.headline(one.incident, found.commits),
            explanation=words.explanation(one.incident, found.commits),
            standing=words.standing(one, found.pages_per_week),
            command=words.measure_command(one.incident),
            members=one.incident.members,
            suspects=tuple(suspect.commit for suspect in one.incident.suspects),
        )
        for one in told
    ]


def open_entries(found: Situation) -> list[Entry]:
    """What the overview shows of it, by evidence."""
    opened = next((mine for title, mine in words.sections(found.told) if title == "Open"), [])
    return entries(found, opened[:MOST_ON_OVERVIEW])
