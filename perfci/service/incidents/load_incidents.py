"""Load stored incidents to show them: one with all details, or all of a project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.model import Series, TailVerdict
from perfci.report.incidents import incident_sections
from perfci.service.incidents.triage import require_incident
from perfci.store.explanations import StoredExplanation, load_explanations
from perfci.store.incidents import incident_store as stored
from perfci.store.incidents.incident_lists import SECTIONS, list_incidents_of_section
from perfci.store.incidents.incident_records import (
    EvaluationRecord,
    IncidentEvent,
    IncidentMember,
    IncidentRecord,
)
from perfci.store.incidents.incident_store import load_incident_members
from perfci.store.jobs.notification_queue import Delivery, load_deliveries
from perfci.store.projects import Project
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.verdicts_and_change_points import load_tail_verdicts_of_changes

MAX_EXPLAINED_RANGES = 5
"""Ranges of an incident's members whose explanations are loaded; most incidents have one."""


@dataclass(frozen=True, slots=True)
class IncidentDetail:
    """One incident with its members, history and notifications.

    ``tails`` are what the tails did in the pairs that members were measured on, by series id;
    ``explanations`` the newest of each benchmark between the commits of the incident or of a member.
    """

    record: IncidentRecord
    members: Sequence[tuple[IncidentMember, Series]]
    events: Sequence[IncidentEvent]
    deliveries: Sequence[Delivery]
    tails: Mapping[int, TailVerdict]
    explanations: Sequence[StoredExplanation] = ()


def load_incident_detail(tx: Transaction, project: Project, number: int) -> IncidentDetail:
    """Load an incident with its members, history and notifications."""
    record = require_incident(tx, project, number)
    moved = load_incident_members(tx, record.id)
    series = load_series_by_ids(tx, {member.series_id for member in moved})
    named = [(member, series[member.series_id]) for member in moved]
    return IncidentDetail(
        record,
        named,
        stored.load_incident_events(tx, record.id),
        load_deliveries(tx, project.id, incident_id=record.id),
        load_tail_verdicts_of_changes(
            tx, {member.series_id: member.to_change_point(of_member) for member, of_member in named}
        ),
        _load_explanations(tx, project, record, moved),
    )


def _load_explanations(
    tx: Transaction, project: Project, record: IncidentRecord, members: Sequence[IncidentMember]
) -> list[StoredExplanation]:
    ranges = dict.fromkeys(
        [(record.last_good, record.commit), *((member.last_good, member.commit) for member in members)]
    )
    rows = [
        row
        for base, head in list(ranges)[:MAX_EXPLAINED_RANGES]
        for row in load_explanations(tx, project.id, base, head)
    ]
    return sorted(rows, key=lambda row: -row.id)


@dataclass(frozen=True, slots=True)
class IncidentOverview:
    """The incidents of a project by section, with the last evaluation."""

    project: str
    sections: Mapping[str, Sequence[IncidentRecord]]
    counts: Mapping[str, int]
    evaluation: EvaluationRecord

    @property
    def all_incidents(self) -> list[IncidentRecord]:
        return [record for records in self.sections.values() for record in records]

    @property
    def summary_sentence(self) -> str:
        return incident_sections.section_counts_sentence(
            self.counts, len(self.evaluation.retests), len(self.evaluation.creeps)
        )


def load_incidents_with_evaluation(tx: Transaction, project: Project) -> IncidentOverview | None:
    """Load all incidents; None before the first evaluation."""
    evaluation = stored.find_last_evaluation(tx, project.id)
    if evaluation is None:
        return None
    sections = {name: list_incidents_of_section(tx, project.id, name) for name in SECTIONS}
    counts = {name: len(records) for name, records in sections.items()}
    return IncidentOverview(project.slug, sections, counts, evaluation)
