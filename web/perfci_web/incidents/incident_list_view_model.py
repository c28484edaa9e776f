"""The view model of the list of incidents, and the open ones of the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from perfci.model import ChangePoint, IncidentKind, IncidentState
from perfci.project_policies import ProjectPolicies
from perfci.report.incidents import incident_sections, notification_text
from perfci.report.incidents import incident_text as words
from perfci.report.verdict_text import Tone
from perfci.service.incidents.evaluate_project import ProjectEvaluation, evaluate_incidents_only
from perfci.store.column_conversions import EPOCH
from perfci.store.incidents import incident_lists
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_records import DATA_KIND, EvaluationRecord, IncidentRecord
from perfci.store.incidents.incident_store import load_member_change_points, load_members_by_incident
from perfci.store.projects import Project
from perfci.verdicts.incidents.paging_budget import Disposition

MAX_ON_OVERVIEW = 5
MAX_IN_SECTION = 50
"""Older ones are in the API, and at their own address."""

MAX_MEMBERS, MAX_ENTRIES_WITH_MEMBERS = 5, 20
"""The page of an incident has all members."""

SECTION_TITLES: Mapping[str, str] = {
    "open": "Open",
    "held": "Not alerted",
    "waiting": "Waiting",
    "snoozed": "Snoozed",
    "rest": "Resolved or informational",
}

STATE_TONES: Mapping[IncidentState, Tone] = {
    IncidentState.NEW: "unsure",
    IncidentState.FIXED: "better",
    IncidentState.REVERTED: "better",
    IncidentState.INVALID: "same",
}


@dataclass(frozen=True, slots=True)
class IncidentEntry:
    """One incident of a list; ``members`` are its largest changes where it is open."""

    record: IncidentRecord
    members: tuple[ChangePoint, ...] = ()

    @property
    def derived_id(self) -> str:
        return self.record.derived_id

    @property
    def hidden_member_count(self) -> int:
        return self.record.series_count - len(self.members)

    @property
    def tone(self) -> Tone:
        return "worse" if self.record.kind == DATA_KIND else words.TONES[IncidentKind(self.record.kind)]

    @property
    def glyph(self) -> str:
        return "?" if self.record.kind == DATA_KIND else words.GLYPHS[IncidentKind(self.record.kind)]

    @property
    def state_label(self) -> str:
        return notification_text.STATE_LABELS[self.record.state]

    @property
    def state_tone(self) -> Tone:
        return STATE_TONES.get(self.record.state, "same")

    @property
    def detail(self) -> Mapping[str, Any]:
        return self.record.detail


@dataclass(frozen=True, slots=True)
class IncidentSection:
    """The newest incidents under one heading; ``count`` is the number of all."""

    name: str
    title: str
    entries: tuple[IncidentEntry, ...]
    count: int


@dataclass(frozen=True, slots=True)
class IncidentListView:
    """The page of incidents."""

    project: str
    sentence: str
    pages_per_week: int
    sections: tuple[IncidentSection, ...]
    evaluation: EvaluationRecord


def build_incident_list(
    tx: Session, project: str, project_id: int, evaluation: EvaluationRecord
) -> IncidentListView:
    """Build the list from stored incidents; each is in exactly one section."""
    counts = incident_lists.count_incidents_by_section(tx, project_id)
    sections = [
        IncidentSection(name, SECTION_TITLES[name], tuple(_load_entries(tx, project_id, name)), count)
        for name, count in counts.items()
        if count
    ]
    sentence = incident_sections.section_counts_sentence(
        counts, len(evaluation.retests), len(evaluation.creeps)
    )
    return IncidentListView(project, sentence, evaluation.pages_per_week, tuple(sections), evaluation)


@dataclass(frozen=True, slots=True)
class OpenIncidents:
    """The number of open incidents, and those with most evidence."""

    count: int
    entries: tuple[IncidentEntry, ...]


def load_or_derive_open_incidents(
    tx: Session, project_record: Project, standards: ProjectPolicies
) -> OpenIncidents:
    """Load the open incidents; a project that was never evaluated has them derived here."""
    count, records = incident_lists.count_and_load_open_incidents(tx, project_record.id, limit=MAX_IN_SECTION)
    if not records and not stored.was_project_evaluated(tx, project_record.id):
        evaluation = evaluate_incidents_only(tx, project_record.slug, standards.policy, standards.history)
        derived = [
            evaluation.build_derived_incident_record(incident, EPOCH) for incident in evaluation.incidents
        ]
        records = [record for record in derived if record.is_open]
        count = len(records)
    strongest = sort_incidents_by_evidence(records)[:MAX_ON_OVERVIEW]
    return OpenIncidents(count, tuple(map(IncidentEntry, strongest)))


def build_list_from_evaluation(evaluation: ProjectEvaluation, now: datetime) -> IncidentListView:
    """Build the list from an evaluation that was not stored: an imported history, an older database."""
    sections: dict[str, list[IncidentEntry]] = {name: [] for name in SECTION_TITLES}
    for budgeted in evaluation.incidents:
        record = evaluation.build_derived_incident_record(budgeted, now)
        if record.is_open:
            sections["open"].append(IncidentEntry(record, budgeted.incident.members[:MAX_MEMBERS]))
        else:
            sections[SECTION_OF_DECISION.get(budgeted.disposition, "rest")].append(IncidentEntry(record))
    open_entries = {entry.record.derived_id: entry for entry in sections["open"]}
    strongest_first = sort_incidents_by_evidence([entry.record for entry in sections["open"]])
    sections["open"] = [open_entries[record.derived_id] for record in strongest_first]
    evaluation_record = evaluation.build_evaluation_record(now)
    counts = {name: len(entries) for name, entries in sections.items()}
    sentence = incident_sections.section_counts_sentence(
        counts, len(evaluation_record.retests), len(evaluation_record.creeps)
    )
    shown_sections = tuple(
        IncidentSection(name, SECTION_TITLES[name], tuple(entries[:MAX_IN_SECTION]), len(entries))
        for name, entries in sections.items()
        if entries
    )
    return IncidentListView(
        evaluation.project, sentence, evaluation.pages_per_week, shown_sections, evaluation_record
    )


SECTION_OF_DECISION = {
    Disposition.HELD_BACK: "held",
    Disposition.TOO_WEAK: "held",
    Disposition.WAITING: "waiting",
}


def sort_incidents_by_evidence(records: Sequence[IncidentRecord]) -> list[IncidentRecord]:
    """Sort confirmed incidents first, then by p-value, number of series and age."""

    def sort_key(record: IncidentRecord) -> tuple[object, ...]:
        return (
            not record.detail.get("confirmed_series"),
            record.detail.get("p_value", 0.0),
            -record.series_count,
            -record.number,
        )

    return sorted(records, key=sort_key)


def _load_entries(tx: Session, project_id: int, section: str) -> list[IncidentEntry]:
    records = incident_lists.list_incidents_of_section(tx, project_id, section, limit=MAX_IN_SECTION)
    if section != "open":
        return [IncidentEntry(record) for record in records]
    records = sort_incidents_by_evidence(records)
    ids = [record.id for record in records[:MAX_ENTRIES_WITH_MEMBERS]]
    members = [
        (incident_id, member)
        for incident_id, all_members in load_members_by_incident(tx, ids).items()
        for member in all_members[:MAX_MEMBERS]
    ]
    changes = load_member_change_points(tx, [member for _, member in members])
    changes_by_incident: dict[int, list[ChangePoint]] = {}
    for (incident_id, _), change in zip(members, changes, strict=True):
        changes_by_incident.setdefault(incident_id, []).append(change)
    return [IncidentEntry(record, tuple(changes_by_incident.get(record.id, ()))) for record in records]
