"""Monitor missing data: open incidents for it and close them when the data returns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session as Transaction

from perfci.model import IncidentState, Status
from perfci.service.audit_context import SYSTEM_ACTOR
from perfci.service.missing_data.find_missing_data import (
    EXAMINED_REPORTS,
    FAILED,
    LATE,
    REPORT_WINDOW,
    SHRUNKEN,
    SILENT,
    UNRESOLVED_UNIT,
    VANISHED,
    MissingData,
    SuiteReport,
    build_missing_data_key,
    find_late_reports,
    find_metrics_without_unit,
    find_missing_in_newest_report,
    group_arrivals_by_time,
    longest_recent_report_gap_s,
)
from perfci.service.notify.enqueue_notifications import enqueue_paged_incident_notifications
from perfci.store import unresolved_results
from perfci.store.incidents import incident_store
from perfci.store.incidents import reporting_schedules_and_run_arrivals as stored
from perfci.store.incidents.incident_records import (
    DATA_KIND,
    OPEN_STATES,
    PAGE,
    IncidentEvent,
    IncidentMember,
    IncidentRecord,
)
from perfci.store.incidents.incident_store import add_incident_members, load_incident_members
from perfci.store.incidents.reporting_schedules_and_run_arrivals import ReportingSchedule, ReportSource
from perfci.store.projects import Project, mark_projects_changed

MACHINE_INCIDENT_INTERVAL = timedelta(hours=1)
"""Minimum time between new incidents of one machine, since a clock jump makes everything late at once."""

MAX_UNRESOLVED = 1_000

DATA_RETURNED = "data came again"

ReportsBySource = Mapping[ReportSource, Sequence[SuiteReport]]


class MissingDataMonitor:
    """Checks projects for missing data. Remembers examined reports, only to save time."""

    def __init__(self) -> None:
        self._examined: dict[tuple[int, ReportSource], datetime] = {}

    def __call__(self, tx: Transaction, project: Project, now: datetime) -> list[MissingData]:
        """Update schedules, open incidents for missing data and close those whose data returned."""
        reports = {
            source: group_arrivals_by_time(arrivals)
            for source, arrivals in stored.load_run_arrivals(tx, project.id).items()
        }
        _update_schedules(tx, project, reports)
        expected = [
            schedule for schedule in stored.load_reporting_schedules(tx, project.id) if not schedule.muted
        ]
        # A clock set back must not make the last report look new.
        clock = max([now, *filter(None, [stored.load_overall_latest_report_time(tx)])])
        missing = find_late_reports(expected, clock) + find_metrics_without_unit(
            unresolved_results.list_unresolved_results(tx, project.id, limit=MAX_UNRESOLVED), now
        )
        for schedule in expected:
            missing += self._examine_reports(tx, project, schedule, reports.get(schedule.source, ()), clock)
        _close_incidents(
            tx,
            project,
            expected,
            reports,
            {key for item in missing for key in (item.key, *item.covered_keys)},
            now,
        )
        _open_incidents(tx, project, missing, now)
        return missing

    def _examine_reports(
        self,
        tx: Transaction,
        project: Project,
        schedule: ReportingSchedule,
        reports: Sequence[SuiteReport],
        clock: datetime,
    ) -> list[MissingData]:
        """Find what the newest complete report lacks; reports of the last hour may still be arriving."""
        complete = [report for report in reports if clock - report.started_at >= REPORT_WINDOW][
            -EXAMINED_REPORTS:
        ]
        place = (project.id, schedule.source)
        if not complete or self._examined.get(place) == complete[-1].ended_at:
            return []
        self._examined[place] = complete[-1].ended_at
        return find_missing_in_newest_report(schedule, [_load_statuses(tx, report) for report in complete])


def _update_schedules(tx: Transaction, project: Project, reports: ReportsBySource) -> None:
    """Store the newest reports and the learned intervals.

    Only the branch with most reports of a suite on a machine has an interval: others end with their work.
    """
    last_run_times = {
        schedule.source: schedule.last_run_at for schedule in stored.load_reporting_schedules(tx, project.id)
    }
    max_reports: dict[tuple[str, int], int] = defaultdict(int)
    for source, source_reports in reports.items():
        max_reports[source.suite, source.machine_id] = max(
            max_reports[source.suite, source.machine_id], len(source_reports)
        )
    for source, source_reports in reports.items():
        last = source_reports[-1]
        if last_run_times.get(source) != last.ended_at:
            every_s = (
                longest_recent_report_gap_s(source_reports)
                if len(source_reports) == max_reports[source.suite, source.machine_id]
                else None
            )
            stored.save_learned_schedule(
                tx, project.id, source, every_s, len(_load_statuses(tx, last)), last.ended_at
            )


def _close_incidents(
    tx: Transaction,
    project: Project,
    schedules: Sequence[ReportingSchedule],
    reports: ReportsBySource,
    missing: set[str],
    now: datetime,
) -> None:
    sources = {
        build_missing_data_key(word, schedule): schedule.source
        for schedule in schedules
        for word in (VANISHED, SHRUNKEN, FAILED)
    }
    for record in incident_store.load_incidents(tx, project.id, incident_store.MISSING_DATA):
        word, key = record.derived_id.partition(" ")[0], record.derived_id
        source = sources.get(key)
        if key in missing:
            continue
        source_reports = reports.get(source) if source else None
        if word in (LATE, SILENT, UNRESOLVED_UNIT) or (
            source_reports and _has_returned(tx, record, word, source_reports)
        ):
            close_missing_data_incident(tx, project, key, now)


def _has_returned(tx: Transaction, record: IncidentRecord, kind: str, reports: Sequence[SuiteReport]) -> bool:
    """Return whether the last report contains the missing data."""
    held = _load_statuses(tx, reports[-1])
    good = {series_id for series_id, status in held.items() if status is Status.OK}
    return (
        bool(good)
        if kind == FAILED
        else {member.series_id for member in load_incident_members(tx, record.id)} <= good
    )


def _open_incidents(tx: Transaction, project: Project, missing: Sequence[MissingData], now: datetime) -> None:
    open_records = {
        record.derived_id: record
        for record in incident_store.load_incidents(tx, project.id, incident_store.MISSING_DATA)
    }
    recent = {
        record.derived_id
        for record in open_records.values()
        if now - record.first_seen < MACHINE_INCIDENT_INTERVAL
    }
    busy = {key.split(" ")[1] for key in recent if not key.startswith(UNRESOLVED_UNIT)}
    for item in missing:
        if item.key not in open_records:
            if item.machine_key in busy:
                continue  # opened an hour later, if it is still missing then
            busy |= {item.machine_key} - {""}
        open_missing_data_incident(
            tx,
            project,
            item.key,
            item.headline,
            now,
            explanation=item.explanation,
            series_ids=item.series_ids,
        )


def open_missing_data_incident(
    tx: Transaction,
    project: Project,
    key: str,
    headline: str,
    now: datetime,
    *,
    explanation: str = "",
    series_ids: Collection[int] = (),
) -> IncidentRecord:
    """Open an incident about missing data; ``key`` identifies it, such as ``late nightly on <machine>``.

    Repeated calls keep one open incident per key and notify once. Data that returned and is missing again
    opens a new incident.
    """
    existing = incident_store.find_missing_data_incident(tx, project.id, key)
    if existing is not None and existing.gone_at is None:
        if (existing.headline, existing.detail.get("explanation", "")) != (headline, explanation):
            incident_store.update_derived_columns(
                tx, existing.id, {"headline": headline, "detail": {"explanation": explanation}}
            )
        return existing
    record = _add_data_incident(tx, project.id, key, headline, now, explanation, set(series_ids))
    if paged := incident_store.mark_unpaged_incidents_paged(tx, project.id, now):
        enqueue_paged_incident_notifications(tx, project, paged, now)
    mark_projects_changed(tx, [project.id])
    return record


def _add_data_incident(
    tx: Transaction,
    project_id: int,
    key: str,
    headline: str,
    now: datetime,
    explanation: str,
    series_ids: set[int],
) -> IncidentRecord:
    columns = {
        "derived_id": key,
        "kind": DATA_KIND,
        "state": IncidentState.NEW.value,
        "last_good": "",
        "commit": "",
        "first_seen": now,
        "changed_at": now,
        "measured_at": now,
        "headline": headline,
        "series_count": len(series_ids),
        "disposition": PAGE,
        "detail": {"explanation": explanation},
    }
    record = incident_store.add_incident(tx, project_id, columns)
    add_incident_members(
        tx,
        record.id,
        [IncidentMember(series_id, "", "", 0.0, 0.0, 0.0) for series_id in sorted(series_ids)],
    )
    incident_store.add_incident_events(
        tx, [(record.id, IncidentEvent(now, SYSTEM_ACTOR, "state", "", record.state, headline))]
    )
    return record


def close_missing_data_incident(
    tx: Transaction, project: Project, key: str, now: datetime
) -> IncidentRecord | None:
    """Close the incident of a key after its data returned; return it, if one was open."""
    existing = incident_store.find_missing_data_incident(tx, project.id, key)
    if existing is None or existing.gone_at is not None:
        return None
    incident_store.update_derived_columns(tx, existing.id, {"gone_at": now})
    columns = {
        "state": IncidentState.FIXED.value,
        "reason": DATA_RETURNED,
        "verified_at": now,
        "changed_at": now,
    }
    is_open = existing.state in OPEN_STATES
    if is_open and incident_store.update_incident(tx, existing.id, existing.revision, columns):
        event = IncidentEvent(now, SYSTEM_ACTOR, "state", existing.state, IncidentState.FIXED, DATA_RETURNED)
    else:
        event = IncidentEvent(now, SYSTEM_ACTOR, "verified", "missing", "there", DATA_RETURNED)
    incident_store.add_incident_events(tx, [(existing.id, event)])
    mark_projects_changed(tx, [project.id])
    return incident_store.find_incident(tx, project.id, existing.number)


def _load_statuses(tx: Transaction, report: SuiteReport) -> dict[int, Status]:
    """Load the status of each series of a report; one successful run suffices."""
    statuses: dict[int, Status] = {}
    for held in stored.load_series_statuses_of_runs(tx, report.run_ids).values():
        statuses |= {k: status for k, status in held.items() if statuses.get(k) is not Status.OK}
    return statuses
