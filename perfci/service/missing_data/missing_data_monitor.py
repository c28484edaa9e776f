"""Notice what does not come, and that it came again: each silence is an incident, told like a regression."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy.orm import Session as Transaction

from perfci.model import Status
from perfci.service.missing_data import cadence
from perfci.service.missing_data.cadence import LOOKED_AT, ONE_REPORT, Report
from perfci.service.missing_data.data_incidents import close_data_incident, open_data_incident, open_data_incidents
from perfci.service.missing_data.find_missing import (
    FAILED,
    LATE,
    SHRUNKEN,
    SILENT,
    UNGUARDED,
    VANISHED,
    Absence,
    in_reports,
    key_of,
    late,
    unguarded,
)
from perfci.store.incidents import reporting_schedules as stored
from perfci.store.incidents.incident_members import members
from perfci.store.incidents.records import IncidentRecord
from perfci.store.incidents.reporting_schedules import Expectation, Source
from perfci.store.projects import Project
from perfci.store.queries import unresolved_results

ONE_AN_HOUR = timedelta(hours=1)
"""A clock that jumps makes everything late at once: a machine opens one incident an hour, and no hundred."""

MOST_WAITING = 1_000

Reports = Mapping[Source, Sequence[Report]]


class Watch:
    """Called for a project as often as one likes. It remembers which reports it has looked into, to save time only."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, Source], datetime] = {}

    def __call__(self, tx: Transaction, project: Project, now: datetime) -> list[Absence]:
        """Learn from what came, open an incident for what did not, and close those whose data is there again."""
        reports = {source: cadence.reports_of(found) for source, found in stored.arrivals(tx, project.id).items()}
        _learn(tx, project, reports)
        expected = [one for one in stored.expectations(tx, project.id) if not one.muted]
        clock = max([now, *filter(None, [stored.latest_report(tx)])])  # one set back must not make the last report new
        found = late(expected, clock) + unguarded(unresolved_results.waiting(tx, project.id, limit=MOST_WAITING), now)
        for one in expected:
            found += self._lacking(tx, project, one, reports.get(one.source, ()), clock)
        _close(tx, project, expected, reports, {key for one in found for key in (one.key, *one.covers)}, now)
        _open(tx, project, found, now)
        return found

    def _lacking(
        self, tx: Transaction, project: Project, one: Expectation, reports: Sequence[Report], clock: datetime
    ) -> list[Absence]:
        """What the newest complete report lacks, looked into once; one of the last hour may still be arriving."""
        complete = [report for report in reports if clock - report.began >= ONE_REPORT][-LOOKED_AT:]
        place = (project.id, one.source)
        if not complete or self._seen.get(place) == complete[-1].at:
            return []
        self._seen[place] = complete[-1].at
        return in_reports(one, [_held(tx, report) for report in complete])


def _learn(tx: Transaction, project: Project, reports: Reports) -> None:
    """Write down what came since the last look.

    A branch teaches a cadence only where most reports of its suite on its machine are its own: others end with their
    work.
    """
    known = {one.source: one.last_run_at for one in stored.expectations(tx, project.id)}
    most: dict[tuple[str, int], int] = defaultdict(int)
    for source, found in reports.items():
        most[source.suite, source.machine_id] = max(most[source.suite, source.machine_id], len(found))
    for source, found in reports.items():
        last = found[-1]
        if known.get(source) != last.at:
            every_s = cadence.learned_every(found) if len(found) == most[source.suite, source.machine_id] else None
            stored.learn(tx, project.id, source, every_s, len(_held(tx, last)), last.at)


def _close(
    tx: Transaction,
    project: Project,
    expected: Sequence[Expectation],
    reports: Reports,
    missing: set[str],
    now: datetime,
) -> None:
    sources = {key_of(word, one): one.source for one in expected for word in (VANISHED, SHRUNKEN, FAILED)}
    for record in open_data_incidents(tx, project):
        word, key = record.derived_id.partition(" ")[0], record.derived_id
        source = sources.get(key)
        if key in missing:
            continue
        its = reports.get(source) if source else None
        if word in (LATE, SILENT, UNGUARDED) or (its and _there_again(tx, record, word, its)):
            close_data_incident(tx, project, key, now)


def _there_again(tx: Transaction, record: IncidentRecord, word: str, reports: Sequence[Report]) -> bool:
    """Whether the last report holds what one before it lacked."""
    held = _held(tx, reports[-1])
    good = {series_id for series_id, status in held.items() if status is Status.OK}
    return bool(good) if word == FAILED else {one.series_id for one in members(tx, record.id)} <= good


def _open(tx: Transaction, project: Project, found: Sequence[Absence], now: datetime) -> None:
    known = {one.derived_id: one for one in open_data_incidents(tx, project)}
    recent = {one.derived_id for one in known.values() if now - one.first_seen < ONE_AN_HOUR}
    busy = {key.split(" ")[1] for key in recent if not key.startswith(UNGUARDED)}
    for one in found:
        if one.key not in known:
            if one.place in busy:
                continue  # a look an hour from now opens it, if it is still missing then
            busy |= {one.place} - {""}
        open_data_incident(
            tx, project, one.key, one.headline, now, explanation=one.explanation, series_ids=one.series_ids
        )


def _held(tx: Transaction, report: Report) -> dict[int, Status]:
    """How each series of a report ended, well where any run of it did."""
    found: dict[int, Status] = {}
    for held in stored.held(tx, report.run_ids).values():
        found |= {k: status for k, status in held.items() if found.get(k) is not Status.OK}
    return found
