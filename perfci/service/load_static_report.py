"""Load the contents of a static report: open incidents, changes since a time, and the trends they are on."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session as Transaction

from perfci.history.incident_inputs import group_by_series
from perfci.model import Series
from perfci.number_format import format_count, format_day
from perfci.project_policies import ProjectPolicies
from perfci.report.html_report.report_contents import (
    ReportedChange,
    ReportedIncident,
    StaticReport,
    score_metrics,
)
from perfci.report.incidents.notification_text import STATE_LABELS
from perfci.report.notable_changes import find_open_regressions
from perfci.report.page_summaries import project_overview_summary
from perfci.report.series_trend import Trend, build_trend
from perfci.service.incidents.evaluate_project import evaluate_incidents_only
from perfci.store.incidents.incident_lists import count_and_load_open_incidents
from perfci.store.incidents.incident_records import IncidentRecord
from perfci.store.incidents.incident_store import was_project_evaluated
from perfci.store.incidents.recorded_changes import ChangeFilter, load_recorded_changes
from perfci.store.projects import Project
from perfci.store.queries.history_conditions import series_only_in_pulls_condition
from perfci.store.queries.measured_samples import load_histories_by_series_id
from perfci.store.queries.project_counts import load_project_with_counts
from perfci.store.queries.project_status import (
    count_changes_and_undecided_verdicts,
    find_newest_and_largest_changed_series,
    load_change_points_of_series,
    load_current_verdicts,
)
from perfci.store.queries.series_commits_machines import (
    load_commits_by_sha,
    load_project_series,
    load_series_by_ids,
)

MAX_INCIDENTS, MAX_CHANGES, MAX_READ_CHANGES = 20, 100, 10_000
"""Incidents and changes that a report lists, and changes that it sums up."""


@dataclass(frozen=True, slots=True)
class ReportWindow:
    """The time that a report is about, with how a headline names it."""

    since: datetime | None = None
    text: str = "so far"

    @classmethod
    def last_days(cls, days: int, now: datetime) -> ReportWindow:
        return cls(now - timedelta(days=days), f"in the last {format_count(days, 'day')}")

    @classmethod
    def since_day(cls, day: datetime) -> ReportWindow:
        return cls(day, f"since {format_day(day)}")


def load_static_report(
    tx: Transaction,
    project: Project,
    policies: ProjectPolicies,
    window: ReportWindow,
    now: datetime,
    *,
    max_trends: int,
) -> StaticReport:
    """Load a report; it draws at most ``max_trends`` series, those that changed last first."""
    record = load_project_with_counts(tx, project.slug)
    if was_project_evaluated(tx, project.id):
        incident_count, incidents = count_and_load_open_incidents(tx, project.id, limit=MAX_INCIDENTS)
        changes = _load_changes(tx, project, window)
    else:
        incidents, changes = _derive(tx, project, policies, window, now)
        incident_count = len(incidents)
    series_ids = {series: row_id for row_id, series in _load_series(tx, project).items()}
    changed = list(dict.fromkeys(item.change.series for item in changes))
    trends = _load_trends(tx, _choose_series(changed, series_ids, max_trends))
    confirmed = _load_trends(tx, find_newest_and_largest_changed_series(tx, project.slug, 0))
    regressions = [mark.verdict for trend in confirmed for mark in find_open_regressions(trend)]
    return StaticReport(
        project=project.slug,
        written_at=now,
        window=window.text,
        summary=project_overview_summary(
            [verdict for verdict in regressions if verdict],
            series=record.series - record.never_measured,
            commits=record.commits,
            compared=count_changes_and_undecided_verdicts(tx, project.slug).has_verdicts,
            incidents=incident_count,
        ),
        incidents=tuple(map(_report_incident, incidents[:MAX_INCIDENTS])),
        incident_count=incident_count,
        changes=tuple(changes[:MAX_CHANGES]),
        change_count=len(changes),
        worse_count=sum(item.is_worse for item in changes),
        scores=score_metrics((item.change for item in changes), series_ids),
        trends=tuple(trends),
        changed_series=len(changed),
        last_measured_at=record.last_measured_at,
    )


def _load_changes(tx: Transaction, project: Project, window: ReportWindow) -> list[ReportedChange]:
    recorded = load_recorded_changes(tx, project.id, ChangeFilter(since=window.since), limit=MAX_READ_CHANGES)
    return [ReportedChange(item.change, item.commit, item.confirmed, item.incident or 0) for item in recorded]


def _derive(
    tx: Transaction, project: Project, policies: ProjectPolicies, window: ReportWindow, now: datetime
) -> tuple[list[IncidentRecord], list[ReportedChange]]:
    """Derive the incidents of a project that was never evaluated, and the changes in them."""
    evaluation = evaluate_incidents_only(tx, project.slug, policies.policy, policies.history)
    records = [evaluation.build_derived_incident_record(item, now) for item in evaluation.incidents]
    members = [change for item in evaluation.incidents for change in item.incident.members]
    commits = load_commits_by_sha(tx, project.slug, {change.commit for change in members})
    verdicts = load_current_verdicts(tx, find_newest_and_largest_changed_series(tx, project.slug, 0))
    confirmed = {(verdict.series, verdict.head) for verdict in verdicts}
    changes = [
        ReportedChange(change, commits.get(change.commit), (change.series, change.commit) in confirmed)
        for change in members
    ]
    if window.since:
        changes = [item for item in changes if (_committed_at(item) or now) >= window.since]
    newest_first = sorted(changes, key=lambda item: _committed_at(item) or now, reverse=True)
    return [record for record in records if record.is_open], newest_first


def _committed_at(reported: ReportedChange) -> datetime | None:
    return reported.commit.committed_at if reported.commit else None


def _report_incident(record: IncidentRecord) -> ReportedIncident:
    return ReportedIncident(
        number=record.number,
        kind=record.kind,
        headline=record.headline,
        explanation=str(record.detail.get("explanation") or ""),
        state=STATE_LABELS[record.state],
        assignee=record.assignee,
    )


def _load_series(tx: Transaction, project: Project) -> dict[int, Series]:
    return load_project_series(tx, project.slug, ~series_only_in_pulls_condition())


def _choose_series(changed: Sequence[Series], series_ids: Mapping[Series, int], count: int) -> list[int]:
    """Choose the series that changed last; where none did, the first by name."""
    if changed:
        return [series_ids[series] for series in changed if series in series_ids][:count]
    by_name = sorted(series_ids, key=lambda series: series.label)
    return [series_ids[series] for series in by_name][:count]


def _load_trends(tx: Transaction, series_ids: Collection[int]) -> list[Trend]:
    histories = load_histories_by_series_id(tx, list(series_ids))
    verdicts = group_by_series(load_current_verdicts(tx, series_ids))
    changes = group_by_series(load_change_points_of_series(tx, series_ids))
    series = load_series_by_ids(tx, series_ids)
    trends = (
        build_trend(series[row_id], histories[row_id], changes[series[row_id]], verdicts[series[row_id]])
        for row_id in series_ids
    )
    return [trend for trend in trends if trend.dots]
