"""Load incidents and format them for a terminal: stored ones, or those derived from the history now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from sqlalchemy.orm import Session

from perfci.cli.shared.repository_and_config import current_config
from perfci.cli.shared.store_and_machine_lock import open_store_to_read
from perfci.model import IncidentKind
from perfci.report.change_id import format_change_id
from perfci.report.incidents import (
    activity_log_text,
    incident_sections,
    notification_text,
    retest_and_creep_text,
)
from perfci.report.incidents import incident_text as words
from perfci.service.incidents.evaluate_project import ProjectEvaluation
from perfci.service.incidents.load_incidents import (
    IncidentDetail,
    IncidentOverview,
    load_incident_detail,
    load_incidents_with_evaluation,
)
from perfci.store import projects
from perfci.store.column_conversions import series_identity
from perfci.store.incidents import incident_store
from perfci.store.incidents.incident_records import DATA_KIND, IncidentRecord
from perfci.store.projects import Project
from perfci.verdicts.incidents.paging_budget import BudgetedIncident

MISSING_DATA_GLYPH = "?"
MAX_LISTED = 100
"""Incidents listed of each section; the others are counted."""

SECTION_TITLES = {
    "open": "Open",
    "held": "Not alerted",
    "waiting": "Waiting",
    "snoozed": "Snoozed",
    "rest": "Closed or informational",
}


def load_stored_incident_list() -> IncidentOverview | None:
    """The stored incidents of this project; None if it has never been evaluated."""
    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        project = projects.find_project(tx, config.project)
        return load_incidents_with_evaluation(tx, project) if project else None


def format_stored_incident_list(overview: IncidentOverview) -> Iterator[str]:
    """A summary line, then every section; re-measurements and slow drift come with their commands."""
    yield f"{overview.project}: {overview.summary_sentence}"
    for name, records in overview.sections.items():
        if records:
            yield from ("", SECTION_TITLES[name])
            for record in records[:MAX_LISTED]:
                yield from format_stored_list_entry(record)
                lines = (record.detail.get("disposition_text"), record.detail.get("next_measurement"))
                yield from (f"    {line}" for line in lines if line)
            if len(records) > MAX_LISTED:
                yield f"  and {len(records) - MAX_LISTED:,} more"
    for title, entries in (
        ("Suggested re-measurements", overview.evaluation.retests),
        ("Slow drift since a release", overview.evaluation.creeps),
    ):
        if entries:
            yield from ("", title)
            for entry in entries:
                yield from (f"  {entry['sentence']}", f"    {entry['command']}")


def find_stored_incident(name: str) -> tuple[Project, IncidentDetail] | None:
    """The stored incident with a number, or whose derived id begins with ``name``.

    Notifications sent before an incident had a number hold only the derived id.
    """

    def find(tx: Session, project: Project) -> tuple[Project, IncidentDetail] | None:
        if name.lstrip("#").isdecimal() and len(name) < 8:
            number = int(name.lstrip("#"))
            if incident_store.find_incident(tx, project.id, number) is None:
                return None
            return project, load_incident_detail(tx, project, number)
        matches = incident_store.find_incidents_by_id_prefix(tx, project.id, name.lower()) if name else []
        if len(matches) != 1:
            return None
        return project, load_incident_detail(tx, project, matches[0].number)

    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        project = projects.find_project(tx, config.project)
        return find(tx, project) if project else None


def format_stored_list_entry(record: IncidentRecord) -> Iterator[str]:
    """One incident of a list: its headline and, indented, what is known about it."""
    glyph = MISSING_DATA_GLYPH if record.kind == DATA_KIND else words.GLYPHS[IncidentKind(record.kind)]
    yield f"  {glyph} #{record.number}  {notification_text.STATE_LABELS[record.state]}  {record.headline}"
    assignee = f"for {record.assignee}" if record.assignee else ""
    largest, explained = (record.detail.get(name) or "" for name in ("largest", "explanation"))
    explanation = f"{largest}. {explained}".strip() if largest else explained
    yield from (f"    {line}" for line in (explanation, record.reason, assignee) if line)


def format_stored_incident(project: str, incident: IncidentDetail) -> Iterator[str]:
    """One incident with its series, candidate commits and history."""
    record = incident.record
    yield from format_stored_list_entry(record)
    identity = (record.derived_id, f"revision {record.revision}", record.detail.get("disposition_text"))
    yield f"    {', '.join(filter(None, identity))}"
    if incident.members:
        yield from ("", "Changed series, largest first")
        for member, series in incident.members:
            tail = incident.tails.get(member.series_id)
            name = format_change_id(series_identity(project, series), member.commit)
            yield f"  {name}  {words.member_change_detail(member.to_change_point(series), tail)}"
    for explanation in incident.explanations:
        yield from ("", f"Why, by profiles of {explanation.cell}", f"  {explanation.sentence}")
    if candidates := record.detail.get("candidate_commits"):
        yield from ("", "Candidate commits, most likely first")
        for candidate in candidates:
            yield f"  {candidate['commit'][:10]} {candidate.get('subject') or ''}".rstrip()
    yield from ("", "History")
    for event in incident.events:
        heading = activity_log_text.activity_heading(event.action, event.text)
        text = activity_log_text.activity_text(event.action, event.before, event.after, event.text)
        yield f"  {event.at:%Y-%m-%d %H:%M}  {event.actor}  {heading}: {text}"
    if command := record.detail.get("next_measurement"):
        yield from ("", "Next measurement", f"  {command}")


def format_derived_incident_list(evaluation: ProjectEvaluation) -> Iterator[str]:
    """A summary line, then every section; re-measurements and slow drift come with their commands."""
    summary = incident_sections.incident_counts_sentence(
        evaluation.incidents, len(evaluation.retests), len(evaluation.creeps)
    )
    yield f"{evaluation.project}: {summary}"
    for title, incidents in incident_sections.group_incidents_by_section(evaluation.incidents):
        yield from ("", title)
        for incident in incidents:
            yield from format_derived_list_entry(incident, evaluation)
    if evaluation.retests:
        yield from ("", "Suggested re-measurements")
        for retest in evaluation.retests:
            yield from (
                f"  {retest_and_creep_text.retest_sentence(retest)}",
                f"    {retest_and_creep_text.retest_command(retest)}",
            )
    if evaluation.creeps:
        yield from ("", "Slow drift since a release")
        for creep in evaluation.creeps:
            yield from (
                f"  {retest_and_creep_text.creep_sentence(creep)}",
                f"    {retest_and_creep_text.creep_compare_command(creep)}",
            )


def format_derived_list_entry(budgeted: BudgetedIncident, evaluation: ProjectEvaluation) -> Iterator[str]:
    """One incident of a list: its headline and, indented, what is known about it."""
    incident = budgeted.incident
    headline = words.incident_headline(incident, evaluation.commits)
    yield f"  {words.GLYPHS[incident.kind]} {incident.id}  {headline}"
    explained = words.incident_explanation(incident, evaluation.commits)
    yield f"    {words.member_change_sentence(incident.members[0])}. {explained}".rstrip()
    yield f"    {words.alert_decision_sentence(budgeted, evaluation.pages_per_week)}"
    if command := words.next_measurement_command(incident):
        yield f"    {command}"


def format_derived_incident(budgeted: BudgetedIncident, evaluation: ProjectEvaluation) -> Iterator[str]:
    """One incident with its series and candidate commits."""
    incident = budgeted.incident
    yield f"{words.GLYPHS[incident.kind]} {words.incident_headline(incident, evaluation.commits)}"
    yield from filter(None, [words.incident_explanation(incident, evaluation.commits)])
    yield f"{incident.id}, {words.alert_decision_sentence(budgeted, evaluation.pages_per_week)}"
    yield from ("", "Changed series, largest first")
    yield from (f"  {words.member_change_detail(change)}" for change in incident.members)
    if incident.candidates:
        yield from ("", "Candidate commits, most likely first")
        yield from (f"  {line}" for line in words.candidate_commit_lines(incident))
    if command := words.next_measurement_command(incident):
        yield from ("", "Next measurement", f"  {command}")
