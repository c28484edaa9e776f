"""The page of incidents: what asks a person, what explains the rest, and what to measure again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from perfci.model import ChangePoint, IncidentKind, IncidentState
from perfci.policies import Standards
from perfci.report.incidents import incident_text as words
from perfci.report.incidents import notification_text
from perfci.report.verdict_labels import Tone
from perfci.service.incidents.derive_incidents import Situation, open_incidents
from perfci.service.incidents.incident_columns import as_record, look_of
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import changes, members_of
from perfci.store.incidents.records import DATA, IncidentRecord, Look
from perfci.store.projects import Project
from perfci.store.tables.measurements import EPOCH
from perfci.verdicts.incidents.page_budget import Say

MOST_ON_OVERVIEW = 5
MOST_IN_SECTION = 50
"""What is older is found by its number, by state, and in the API."""

MOST_MEMBERS, MOST_WITH_MEMBERS = 5, 20
"""The page of an incident has them all."""

TITLES: Mapping[str, str] = {
    "open": "Open",
    "held": "Held back",
    "waiting": "Waiting",
    "snoozed": "Snoozed",
    "rest": "Settled or noted",
}

STATE_TONES: Mapping[IncidentState, Tone] = {
    IncidentState.NEW: "unsure",
    IncidentState.FIXED: "better",
    IncidentState.REVERTED: "better",
    IncidentState.INVALID: "same",
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One incident in words, with what a page links to; ``members`` are the largest few, where it is open."""

    record: IncidentRecord
    members: tuple[ChangePoint, ...] = ()

    @property
    def id(self) -> str:
        return self.record.derived_id

    @property
    def more(self) -> int:
        return self.record.series_count - len(self.members)

    @property
    def tone(self) -> Tone:
        return "worse" if self.record.kind == DATA else words.TONES[IncidentKind(self.record.kind)]

    @property
    def glyph(self) -> str:
        return "?" if self.record.kind == DATA else words.GLYPHS[IncidentKind(self.record.kind)]

    @property
    def state(self) -> str:
        return notification_text.STATES[self.record.state]

    @property
    def state_tone(self) -> Tone:
        return STATE_TONES.get(self.record.state, "same")

    @property
    def detail(self) -> Mapping[str, Any]:
        return self.record.detail


@dataclass(frozen=True, slots=True)
class Section:
    name: str
    title: str
    entries: tuple[Entry, ...]
    count: int


@dataclass(frozen=True, slots=True)
class IncidentsPage:
    project: str
    sentence: str
    pages_per_week: int
    sections: tuple[Section, ...]
    look: Look


def incidents_page(tx: Session, project: str, project_id: int, look: Look) -> IncidentsPage:
    """Every incident in exactly one section, the newest of each."""
    counts = stored.section_counts(tx, project_id)
    sections = [
        Section(name, TITLES[name], tuple(_entries(tx, project_id, name)), count)
        for name, count in counts.items()
        if count
    ]
    sentence = words.summary_of(counts, len(look.retests), len(look.creeps))
    return IncidentsPage(project, sentence, look.pages_per_week, tuple(sections), look)


@dataclass(frozen=True, slots=True)
class OpenNow:
    """What the overview shows of it: how many are open, and those with most evidence."""

    count: int
    entries: tuple[Entry, ...]


def open_on_overview(tx: Session, known: Project, standards: Standards) -> OpenNow:
    """One question to the store, where incidents are open; they are derived where no look was ever kept."""
    count, found = stored.open_now(tx, known.id, limit=MOST_IN_SECTION)
    if not found and not stored.was_looked_at(tx, known.id):
        derived = open_incidents(tx, known.slug, standards.policy, standards.history)
        found = [one for told in derived.told if (one := as_record(told, derived, EPOCH)).open]
        count = len(found)
    return OpenNow(count, tuple(Entry(one) for one in by_evidence(found)[:MOST_ON_OVERVIEW]))


def preview(found: Situation, now: datetime) -> IncidentsPage:
    """The same of a store in which nothing was written down yet: an imported history, an older database."""
    entries: dict[str, list[Entry]] = {name: [] for name in TITLES}
    for told in found.told:
        record = as_record(told, found, now)
        heading = "open" if record.open else HEADINGS.get(told.say, "rest")
        entries[heading].append(Entry(record, told.incident.members[:MOST_MEMBERS] if record.open else ()))
    ordered = {one.record.derived_id: one for one in entries["open"]}
    entries["open"] = [ordered[one.derived_id] for one in by_evidence([one.record for one in entries["open"]])]
    look = look_of(found, now)
    sections = tuple(
        Section(name, TITLES[name], tuple(mine[:MOST_IN_SECTION]), len(mine)) for name, mine in entries.items() if mine
    )
    sentence = words.summary_of({k: len(mine) for k, mine in entries.items()}, len(look.retests), len(look.creeps))
    return IncidentsPage(found.project, sentence, found.pages_per_week, sections, look)


HEADINGS = {Say.HELD_BACK: "held", Say.WEAK: "held", Say.WAITING: "waiting"}


def by_evidence(records: Sequence[IncidentRecord]) -> list[IncidentRecord]:
    """Confirmed ones first, then the clearest."""

    def urgency(one: IncidentRecord) -> tuple[object, ...]:
        return (not one.detail.get("convicted"), one.detail.get("p_value", 0.0), -one.series_count, -one.number)

    return sorted(records, key=urgency)


def _entries(tx: Session, project_id: int, name: str) -> list[Entry]:
    found = stored.in_section(tx, project_id, name, limit=MOST_IN_SECTION)
    if name != "open":
        return [Entry(one) for one in found]
    found = by_evidence(found)
    shown = [one.id for one in found[:MOST_WITH_MEMBERS]]
    largest = {k: moved[:MOST_MEMBERS] for k, moved in members_of(tx, shown).items()}
    flat = [(k, member) for k, moved in largest.items() for member in moved]
    series: dict[int, list[ChangePoint]] = {k: [] for k in largest}
    for (k, _), change in zip(flat, changes(tx, [member for _, member in flat]), strict=True):
        series[k].append(change)
    return [Entry(one, tuple(series.get(one.id, ()))) for one in found]
