"""The view model of a week: from stored dates alone, so that a week that is over tells the same for ever."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy.orm import Session

from perfci.model import IncidentState
from perfci.number_format import format_day
from perfci.report.change_list_text import change_title, confirmation_label
from perfci.report.escaping import make_printable
from perfci.report.incidents.notification_text import STATE_LABELS
from perfci.report.incidents.week_report import Week, WeekLine, WeekReport, WeekSection, week_headline
from perfci.report.series_places import SeriesPlaces
from perfci.store.incidents.incidents_at_a_moment import IncidentAtMoment, load_incidents_at_moment
from perfci.store.incidents.recorded_changes import (
    ChangeFilter,
    RecordedChange,
    count_recorded_changes,
    load_recorded_changes,
)
from perfci.store.projects import Project
from perfci_web.page_urls import ProjectLinks

MAX_LINES = 10
"""Lines of a section; the others are counted."""

MAX_RANKED = 1000
"""Changes of a week among which the largest are found."""

FIXED_STATES = (IncidentState.FIXED, IncidentState.REVERTED)


def build_week_report(
    tx: Session,
    project: Project,
    week: Week,
    links: ProjectLinks,
    now: datetime,
    *,
    confirmed_only: bool = False,
) -> WeekReport:
    """Build the report of a week: changes by the dates of their commits, incidents by their events.

    ``confirmed_only`` leaves what an A/B rerun confirmed.
    """
    is_over = week.end <= now
    in_week = ChangeFilter(since=week.start, until=week.end, confirmed_only=confirmed_only)
    counts = count_recorded_changes(tx, project.id, in_week)
    changes = {
        worse: load_recorded_changes(tx, project.id, replace(in_week, worse=worse), limit=MAX_RANKED)
        for worse in (True, False)
    }
    incidents = load_incidents_at_moment(
        tx, project.id, week.end, settled_since=week.start, confirmed_only=confirmed_only
    )
    fixed = [each for each in incidents if each.state in FIXED_STATES and each.state_since >= week.start]
    opened = [each for each in incidents if each.is_open]
    missing = [each for each in opened if each.is_missing_data]
    measured = [each for each in opened if not each.is_missing_data]
    better = counts.total - counts.worse

    def list_changes(worse: bool) -> tuple[WeekLine, ...]:
        largest = sorted(changes[worse], key=lambda each: -abs(each.change.log_cost_change))[:MAX_LINES]
        places = SeriesPlaces(each.change.series for each in largest)
        return tuple(_change_line(each, places, incidents, links) for each in largest)

    def list_incidents(chosen: Sequence[IncidentAtMoment]) -> tuple[WeekLine, ...]:
        return tuple(_incident_line(each, links) for each in chosen[:MAX_LINES])

    sections = (
        WeekSection("Got worse", list_changes(True), counts.worse),
        WeekSection("Got better", list_changes(False), better),
        WeekSection("Fixed", list_incidents(fixed), len(fixed)),
        WeekSection("Open at its end" if is_over else "Open now", list_incidents(measured), len(measured)),
        WeekSection("Missing data", list_incidents(missing), len(missing)),
    )
    headline = week_headline(
        counts.worse, better, len(fixed), len(measured), is_over=is_over, confirmed_only=confirmed_only
    )
    filled = tuple(section for section in sections if section.count)
    return WeekReport(project.slug, week, is_over, headline, filled)


def _change_line(
    recorded: RecordedChange,
    places: SeriesPlaces,
    incidents: Sequence[IncidentAtMoment],
    links: ProjectLinks,
) -> WeekLine:
    """A change with its place, its author, whether it is confirmed, and who has its incident."""
    commit = recorded.commit
    parts = [
        make_printable(places.label(recorded.change.series), 160),
        make_printable(commit.author, 60) if commit else "",
        format_day(recorded.changed_at),
        confirmation_label(recorded.confirmed),
    ]
    if incident := next((each for each in incidents if each.record.number == recorded.incident), None):
        parts += [f"#{incident.record.number} {STATE_LABELS[incident.state]}", _owner_text(incident)]
    title = change_title(recorded.change, commit)
    return WeekLine(title, " · ".join(filter(None, parts)), links.changes(commit=recorded.change.commit))


def _incident_line(incident: IncidentAtMoment, links: ProjectLinks) -> WeekLine:
    record = incident.record
    since = f"{STATE_LABELS[incident.state]} since {format_day(incident.state_since)}"
    return WeekLine(
        f"#{record.number} {make_printable(record.headline, 300)}",
        f"{since} · {_owner_text(incident)}",
        links.incident(record.number),
    )


def _owner_text(incident: IncidentAtMoment) -> str:
    return make_printable(incident.assignee, 60) if incident.assignee else "nobody owns it"


def build_address_maker(host_url: str) -> Callable[[str], str]:
    """Return what makes a path on this server a whole address."""
    return lambda path: f"{host_url.rstrip('/')}{path}"
