"""Notice what does not come, and that it came again: each silence is an incident, told like a regression."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session as Transaction

from perfci.model import Status
from perfci.service.missing_data import cadence
from perfci.service.missing_data.cadence import EXAMINED_REPORTS, REPORT_WINDOW, SuiteReport
from perfci.service.missing_data.data_incidents import (
    close_data_incident,
    open_data_incident,
    open_data_incidents,
)
from perfci.service.missing_data.find_missing import (
    FAILED,
    LATE,
    SHRUNKEN,
    SILENT,
    UNRESOLVED_UNIT,
    VANISHED,
    MissingData,
    build_missing_data_key,
    find_late_suites,
    find_missing_in_reports,
    find_unresolved_units,
)
from perfci.store.incidents import reporting_schedules as stored
from perfci.store.incidents.incident_members import load_members
from perfci.store.incidents.records import IncidentRecord
from perfci.store.incidents.reporting_schedules import ReportingSchedule, ReportSource
from perfci.store.projects import Project
from perfci.store.queries import unresolved_results

MACHINE_INCIDENT_INTERVAL = timedelta(hours=1)
"""A clock that jumps makes everything late at once: a machine opens one incident an hour, and no hundred."""

MAX_UNRESOLVED = 1_000

ReportsBySource = Mapping[ReportSource, Sequence[SuiteReport]]


class MissingDataMonitor:
    """Called for a project as often as one likes. It remembers which reports it has looked into, to save time only."""

    def __init__(self) -> None:
        self._examined: dict[tuple[int, ReportSource], datetime] = {}

    def __call__(self, tx: Transaction, project: Project, now: datetime) -> list[MissingData]:
        """Learn from what came, open an incident for what did not, and close those whose data is there again."""
        reports = {
            source: cadence.group_reports(found)
            for source, found in stored.load_arrivals(tx, project.id).items()
        }
        _update_schedules(tx, project, reports)
        expected = [one for one in stored.load_reporting_schedules(tx, project.id) if not one.muted]
        clock = max(
            [now, *filter(None, [stored.load_latest_report_at(tx)])]
        )  # one set back must not make the last report new
        found = find_late_suites(expected, clock) + find_unresolved_units(
            unresolved_results.list_unresolved_results(tx, project.id, limit=MAX_UNRESOLVED), now
        )
        for one in expected:
            found += self._examine_reports(tx, project, one, reports.get(one.source, ()), clock)
        _close_incidents(
            tx,
            project,
            expected,
            reports,
            {key for one in found for key in (one.key, *one.covered_keys)},
            now,
        )
        _open_incidents(tx, project, found, now)
        return found

    def _examine_reports(
        self,
        tx: Transaction,
        project: Project,
        schedule: ReportingSchedule,
        reports: Sequence[SuiteReport],
        clock: datetime,
    ) -> list[MissingData]:
        """What the newest complete report lacks, looked into once; one of the last hour may still be arriving."""
        complete = [report for report in reports if clock - report.started_at >= REPORT_WINDOW][
            -EXAMINED_REPORTS:
        ]
        place = (project.id, schedule.source)
        if not complete or self._examined.get(place) == complete[-1].ended_at:
            return []
        self._examined[place] = complete[-1].ended_at
        return find_missing_in_reports(schedule, [_load_statuses(tx, report) for report in complete])


def _update_schedules(tx: Transaction, project: Project, reports: ReportsBySource) -> None:
    """Write down what came since the last look.

    A branch teaches a cadence only where most reports of its suite on its machine are its own: others end with their
    work.
    """
    known = {one.source: one.last_run_at for one in stored.load_reporting_schedules(tx, project.id)}
    most: dict[tuple[str, int], int] = defaultdict(int)
    for source, found in reports.items():
        most[source.suite, source.machine_id] = max(most[source.suite, source.machine_id], len(found))
    for source, found in reports.items():
        last = found[-1]
        if known.get(source) != last.ended_at:
            every_s = (
                cadence.learn_interval_s(found)
                if len(found) == most[source.suite, source.machine_id]
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
        build_missing_data_key(word, one): one.source
        for one in schedules
        for word in (VANISHED, SHRUNKEN, FAILED)
    }
    for record in open_data_incidents(tx, project):
        word, key = record.derived_id.partition(" ")[0], record.derived_id
        source = sources.get(key)
        if key in missing:
            continue
        its = reports.get(source) if source else None
        if word in (LATE, SILENT, UNRESOLVED_UNIT) or (its and _has_returned(tx, record, word, its)):
            close_data_incident(tx, project, key, now)


def _has_returned(tx: Transaction, record: IncidentRecord, kind: str, reports: Sequence[SuiteReport]) -> bool:
    """Whether the last report holds what one before it lacked."""
    held = _load_statuses(tx, reports[-1])
    good = {series_id for series_id, status in held.items() if status is Status.OK}
    return bool(good) if kind == FAILED else {one.series_id for one in load_members(tx, record.id)} <= good


def _open_incidents(tx: Transaction, project: Project, missing: Sequence[MissingData], now: datetime) -> None:
    known = {one.derived_id: one for one in open_data_incidents(tx, project)}
    recent = {one.derived_id for one in known.values() if now - one.first_seen < MACHINE_INCIDENT_INTERVAL}
    busy = {key.split(" ")[1] for key in recent if not key.startswith(UNRESOLVED_UNIT)}
    for one in missing:
        if one.key not in known:
            if one.machine_key in busy:
                continue  # a look an hour from now opens it, if it is still missing then
            busy |= {one.machine_key} - {""}
        open_data_incident(
            tx, project, one.key, one.headline, now, explanation=one.explanation, series_ids=one.series_ids
        )


def _load_statuses(tx: Transaction, report: SuiteReport) -> dict[int, Status]:
    """How each series of a report ended, well where any run of it did."""
    found: dict[int, Status] = {}
    for held in stored.load_run_series_statuses(tx, report.run_ids).values():
        found |= {k: status for k, status in held.items() if found.get(k) is not Status.OK}
    return found
