"""The view model of the list of incidents, and the open ones of the overview."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from perfci.model import ChangePoint, Commit, IncidentKind, IncidentState
from perfci.project_policies import ProjectPolicies
from perfci.report.incidents import incident_sections, notification_text
from perfci.report.incidents import incident_text as words
from perfci.report.series_places import SeriesPlaces
from perfci.report.verdict_text import Tone
from perfci.service.incidents.evaluate_project import ProjectEvaluation, evaluate_incidents_only
from perfci.store.column_conversions import EPOCH
from perfci.store.incidents import incident_lists
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_records import DATA_KIND, EvaluationRecord, IncidentRecord
from perfci.store.incidents.incident_store import load_member_change_points, load_members_by_incident
from perfci.store.projects import Project
from perfci.store.queries.series_commits_machines import load_commits_by_sha
from perfci.verdicts.incidents.paging_budget import Disposition

MAX_IN_SECTION = 50
"""Older ones are in the API, and at their own address."""

MAX_IN_QUEUE = 500
"""Open incidents that the keys of an incident step through."""

MAX_MEMBERS, MAX_ENTRIES_WITH_MEMBERS = 5, 20
"""The page of an incident has all members."""

SECTION_TITLES: Mapping[str, str] = {
    "open": "Open",
    "held": "Below the weekly limit or too weak",
    "waiting": "Waiting",
    "snoozed": "Snoozed",
    "rest": "Closed or informational",
}

STATE_TONES: Mapping[IncidentState, Tone] = {
    IncidentState.NEW: "unsure",
    IncidentState.FIXED: "better",
    IncidentState.REVERTED: "better",
    IncidentState.INVALID: "same",
}


@dataclass(frozen=True, slots=True)
class IncidentEntry:
    """One incident of a list; ``members`` are its largest changes where it is open, ``commit`` is the first
    commit of the new level.
    """

    record: IncidentRecord
    members: tuple[ChangePoint, ...] = ()
    commit: Commit | None = None

    @property
    def changed_at(self) -> datetime:
        """When what it tells of happened: the date of its commit, else when it was first seen."""
        return (self.commit and self.commit.committed_at) or self.record.first_seen

    @property
    def place(self) -> str:
        """What its series share of machine and variant."""
        return SeriesPlaces(change.series for change in self.members).common

    @property
    def size(self) -> float | None:
        """Its largest relative change, None where levels have no ratio."""
        largest = max(self.members, key=lambda change: abs(change.log_cost_change), default=None)
        return largest.relative_change if largest and largest.before > 0 else None

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


AGE_GROUPS: tuple[tuple[int | None, str], ...] = (
    (7, "Last 7 days"),
    (30, "Last 30 days"),
    (90, "Last 90 days"),
    (None, "Older than 90 days: close or keep"),
)
"""The parts of the open incidents by the age of their change in days."""


def find_age_group(changed_at: datetime, until: datetime) -> int:
    """Return the place of the age group that a change belongs to."""
    age = until - changed_at
    return next(
        index for index, (days, _) in enumerate(AGE_GROUPS) if days is None or age <= timedelta(days=days)
    )


def group_entries_by_age(
    entries: Sequence[IncidentEntry], until: datetime
) -> list[tuple[str, list[IncidentEntry]]]:
    """Group incidents by the age of their change, newest group first; groups without any are left out."""
    groups: list[tuple[str, list[IncidentEntry]]] = [(title, []) for _, title in AGE_GROUPS]
    for entry in entries:
        groups[find_age_group(entry.changed_at, until)][1].append(entry)
    return [group for group in groups if group[1]]


@dataclass(frozen=True, slots=True)
class IncidentListView:
    """The page of incidents."""

    project: str
    sentence: str
    pages_per_week: int
    sections: tuple[IncidentSection, ...]
    evaluation: EvaluationRecord


def build_incident_list(
    tx: Session, project: Project, evaluation: EvaluationRecord, *, confirmed_only: bool = False
) -> IncidentListView:
    """Build the list from stored incidents; each is in exactly one section.

    ``confirmed_only`` leaves those that an A/B rerun confirmed, and neither retests nor slow drifts.
    """
    if confirmed_only:
        evaluation = replace(evaluation, retests=(), creeps=())
    counts = incident_lists.count_incidents_by_section(tx, project.id, confirmed_only=confirmed_only)
    sections = []
    for name, count in counts.items():
        if count:
            entries = add_commits(tx, project, load_section_entries(tx, project.id, name, confirmed_only))
            sections.append(IncidentSection(name, SECTION_TITLES[name], tuple(entries), count))
    sentence = incident_sections.section_counts_sentence(
        counts, len(evaluation.retests), len(evaluation.creeps), confirmed_only=confirmed_only
    )
    return IncidentListView(project.slug, sentence, evaluation.pages_per_week, tuple(sections), evaluation)


@dataclass(frozen=True, slots=True)
class OpenIncidents:
    """The number of open incidents, and those with most evidence."""

    count: int
    entries: tuple[IncidentEntry, ...]


def load_or_derive_open_incidents(
    tx: Session, project_record: Project, standards: ProjectPolicies, *, confirmed_only: bool = False
) -> OpenIncidents:
    """Load the open incidents, or the confirmed ones; a project that was never evaluated has them derived
    here."""
    count = incident_lists.count_open_incidents(tx, project_record.id, confirmed_only=confirmed_only)
    entries = load_section_entries(tx, project_record.id, "open", confirmed_only)
    if not entries and not stored.was_project_evaluated(tx, project_record.id):
        entries = _derive_open_entries(tx, project_record, standards)
        if confirmed_only:
            entries = [entry for entry in entries if entry.detail.get("confirmed_series")]
        count = len(entries)
    return OpenIncidents(count, tuple(add_commits(tx, project_record, entries)))


def _derive_open_entries(tx: Session, project: Project, standards: ProjectPolicies) -> list[IncidentEntry]:
    evaluation = evaluate_incidents_only(tx, project.slug, standards.policy, standards.history)
    entries = {}
    for budgeted in evaluation.incidents:
        record = evaluation.build_derived_incident_record(budgeted, EPOCH)
        if record.is_open:
            entries[record.derived_id] = IncidentEntry(record, budgeted.incident.members[:MAX_MEMBERS])
    strongest_first = sort_incidents_by_evidence([entry.record for entry in entries.values()])
    return [entries[record.derived_id] for record in strongest_first]


def load_queue(tx: Session, project: Project, until: datetime, *, keep: int) -> list[IncidentEntry]:
    """Load the open incidents in the order of the list, and the incident ``keep`` at the place it had."""
    _, records = incident_lists.count_and_load_open_incidents(tx, project.id, limit=MAX_IN_QUEUE)
    if all(record.number != keep for record in records):
        kept = stored.find_incident(tx, project.id, keep)
        records = [*records, *([kept] if kept else [])]
    entries = add_commits(tx, project, map(IncidentEntry, sort_incidents_by_evidence(records)))
    return [entry for _, group in group_entries_by_age(entries, until) for entry in group]


def add_commits(tx: Session, project: Project, entries: Iterable[IncidentEntry]) -> list[IncidentEntry]:
    """Add the commit of each incident, which has its date."""
    entries = list(entries)
    commits = load_commits_by_sha(tx, project.slug, {entry.record.commit for entry in entries} - {""})
    return [replace(entry, commit=commits.get(entry.record.commit)) for entry in entries]


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


def load_section_entries(
    tx: Session, project_id: int, section: str, confirmed_only: bool = False
) -> list[IncidentEntry]:
    records = incident_lists.list_incidents_of_section(
        tx, project_id, section, limit=MAX_IN_SECTION, confirmed_only=confirmed_only
    )
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
