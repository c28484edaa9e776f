"""The page of incidents: what asks a person, what explains the rest, and what to measure again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from perfci.model import ChangePoint, IncidentKind, IncidentState
from perfci.policies import ProjectPolicies
from perfci.report.incidents import incident_text as words
from perfci.report.incidents import notification_text
from perfci.report.verdict_labels import Tone
from perfci.service.incidents.derive_incidents import ProjectEvaluation, derive_open_incidents
from perfci.service.incidents.incident_columns import build_evaluation_record, build_incident_record
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_members import load_member_change_points, load_members_by_incident
from perfci.store.incidents.records import DATA_KIND, EvaluationRecord, IncidentRecord
from perfci.store.projects import Project
from perfci.store.tables.base import EPOCH
from perfci.verdicts.incidents.page_budget import Disposition

MAX_ON_OVERVIEW = 5
MAX_IN_SECTION = 50
"""What is older is found by its number, by state, and in the API."""

MAX_MEMBERS, MAX_ENTRIES_WITH_MEMBERS = 5, 20
"""The page of an incident has them all."""

SECTION_TITLES: Mapping[str, str] = {
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
class IncidentEntry:
    """One incident in words, with what a page links to; ``members`` are the largest few, where it is open."""

    record: IncidentRecord
    members: tuple[ChangePoint, ...] = ()

    @property
    def id(self) -> str:
        return self.record.derived_id

    @property
    def hidden_members(self) -> int:
        return self.record.series_count - len(self.members)

    @property
    def tone(self) -> Tone:
        return "worse" if self.record.kind == DATA_KIND else words.TONES[IncidentKind(self.record.kind)]

    @property
    def glyph(self) -> str:
        return "?" if self.record.kind == DATA_KIND else words.GLYPHS[IncidentKind(self.record.kind)]

    @property
    def state(self) -> str:
        return notification_text.STATE_LABELS[self.record.state]

    @property
    def state_tone(self) -> Tone:
        return STATE_TONES.get(self.record.state, "same")

    @property
    def detail(self) -> Mapping[str, Any]:
        return self.record.detail


@dataclass(frozen=True, slots=True)
class IncidentSection:
    name: str
    title: str
    entries: tuple[IncidentEntry, ...]
    count: int


@dataclass(frozen=True, slots=True)
class IncidentListView:
    project: str
    sentence: str
    pages_per_week: int
    sections: tuple[IncidentSection, ...]
    evaluation: EvaluationRecord


def build_incident_list(
    tx: Session, project: str, project_id: int, evaluation: EvaluationRecord
) -> IncidentListView:
    """Every incident in exactly one section, the newest of each."""
    counts = stored.count_sections(tx, project_id)
    sections = [
        IncidentSection(name, SECTION_TITLES[name], tuple(_load_entries(tx, project_id, name)), count)
        for name, count in counts.items()
        if count
    ]
    sentence = words.format_incident_counts(counts, len(evaluation.retests), len(evaluation.creeps))
    return IncidentListView(project, sentence, evaluation.pages_per_week, tuple(sections), evaluation)


@dataclass(frozen=True, slots=True)
class OpenIncidents:
    """What the overview shows of it: how many are open, and those with most evidence."""

    count: int
    entries: tuple[IncidentEntry, ...]


def load_open_incidents(tx: Session, project_record: Project, standards: ProjectPolicies) -> OpenIncidents:
    """One question to the store, where incidents are open; they are derived where no look was ever kept."""
    count, found = stored.load_open(tx, project_record.id, limit=MAX_IN_SECTION)
    if not found and not stored.has_evaluation(tx, project_record.id):
        derived = derive_open_incidents(tx, project_record.slug, standards.policy, standards.history)
        found = [
            one for told in derived.incidents if (one := build_incident_record(told, derived, EPOCH)).is_open
        ]
        count = len(found)
    return OpenIncidents(
        count, tuple(IncidentEntry(one) for one in sort_by_evidence(found)[:MAX_ON_OVERVIEW])
    )


def build_preview(evaluation: ProjectEvaluation, now: datetime) -> IncidentListView:
    """The same of a store in which nothing was written down yet: an imported history, an older database."""
    entries: dict[str, list[IncidentEntry]] = {name: [] for name in SECTION_TITLES}
    for told in evaluation.incidents:
        record = build_incident_record(told, evaluation, now)
        heading = "open" if record.is_open else SECTION_OF_DECISION.get(told.disposition, "rest")
        entries[heading].append(
            IncidentEntry(record, told.incident.members[:MAX_MEMBERS] if record.is_open else ())
        )
    ordered = {one.record.derived_id: one for one in entries["open"]}
    entries["open"] = [
        ordered[one.derived_id] for one in sort_by_evidence([one.record for one in entries["open"]])
    ]
    look = build_evaluation_record(evaluation, now)
    sections = tuple(
        IncidentSection(name, SECTION_TITLES[name], tuple(mine[:MAX_IN_SECTION]), len(mine))
        for name, mine in entries.items()
        if mine
    )
    sentence = words.format_incident_counts(
        {k: len(mine) for k, mine in entries.items()}, len(look.retests), len(look.creeps)
    )
    return IncidentListView(evaluation.project, sentence, evaluation.pages_per_week, sections, look)


SECTION_OF_DECISION = {
    Disposition.HELD_BACK: "held",
    Disposition.TOO_WEAK: "held",
    Disposition.WAITING: "waiting",
}


def sort_by_evidence(records: Sequence[IncidentRecord]) -> list[IncidentRecord]:
    """Confirmed ones first, then the clearest."""

    def sort_key(record: IncidentRecord) -> tuple[object, ...]:
        return (
            not record.detail.get("confirmed_series"),
            record.detail.get("p_value", 0.0),
            -record.series_count,
            -record.number,
        )

    return sorted(records, key=sort_key)


def _load_entries(tx: Session, project_id: int, section: str) -> list[IncidentEntry]:
    found = stored.list_section(tx, project_id, section, limit=MAX_IN_SECTION)
    if section != "open":
        return [IncidentEntry(one) for one in found]
    found = sort_by_evidence(found)
    shown = [one.id for one in found[:MAX_ENTRIES_WITH_MEMBERS]]
    largest = {k: moved[:MAX_MEMBERS] for k, moved in load_members_by_incident(tx, shown).items()}
    flat = [(k, member) for k, moved in largest.items() for member in moved]
    series: dict[int, list[ChangePoint]] = {k: [] for k in largest}
    for (k, _), change in zip(
        flat, load_member_change_points(tx, [member for _, member in flat]), strict=True
    ):
        series[k].append(change)
    return [IncidentEntry(one, tuple(series.get(one.id, ()))) for one in found]
