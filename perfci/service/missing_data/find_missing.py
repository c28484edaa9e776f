"""Find missing data: late suites, silent machines, incomplete reports and unresolved units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from perfci.model import Status
from perfci.report.number_format import format_count
from perfci.service.missing_data import cadence
from perfci.store.incidents.reporting_schedules import ReportingSchedule
from perfci.store.queries.unresolved_results import UnresolvedResult

UNRESOLVED_UNIT_AFTER = timedelta(days=7)
"""Time after which an unresolved metric is reported, since it is not judged until then."""

LATE, SILENT, VANISHED, SHRUNKEN, FAILED, UNRESOLVED_UNIT = (
    "late",
    "silent",
    "vanished",
    "shrunken",
    "failed",
    "unresolved-unit",
)

SeriesStatuses = Mapping[int, Status]
"""Status of each series of a report."""


@dataclass(frozen=True, slots=True)
class MissingData:
    """Missing data, identified by ``key``; ``machine_key`` is the machine that should have reported.

    ``covered_keys`` are the keys of other items that this one includes.
    """

    key: str
    headline: str
    explanation: str
    machine_key: str = ""
    series_ids: frozenset[int] = field(default_factory=frozenset)
    covered_keys: frozenset[str] = field(default_factory=frozenset)


def build_missing_data_key(kind: str, schedule: ReportingSchedule) -> str:
    """Build the incident key of a kind of missing data of a suite."""
    return f"{kind} {schedule.source.machine_id} {schedule.source.suite} {schedule.source.branch}"


def find_late_suites(schedules: Iterable[ReportingSchedule], now: datetime) -> list[MissingData]:
    """Find late suites; if all suites of a machine are late, report the machine instead."""
    by_machine: dict[int, list[ReportingSchedule]] = defaultdict(list)
    for schedule in schedules:
        if schedule.every_s is not None and schedule.last_run_at is not None:
            by_machine[schedule.source.machine_id].append(schedule)
    missing = []
    for machine_schedules in by_machine.values():
        missed = [schedule for schedule in machine_schedules if _is_late(schedule, now)]
        missing += (
            [_build_silent_machine(machine_schedules)]
            if len(missed) == len(machine_schedules) > 1
            else list(map(_build_late_suite, missed))
        )
    return missing


def find_missing_in_reports(
    schedule: ReportingSchedule, reports: Sequence[SeriesStatuses]
) -> list[MissingData]:
    """Find what the newest report lacks; the loss of many series at once is one finding."""
    good = [{k for k, status in held.items() if status is Status.OK} for held in reports]
    where = f"{_format_suite_name(schedule)} on {schedule.machine.label}"
    if cadence.has_only_failures(reports[-1]):
        measured = format_count(len(reports[-1]), "series", "series")
        explanation = f"None of {measured} was measured: see the reason of each."
        return [
            _build_incomplete_report(
                FAILED, schedule, f"everything failed in {where}", explanation, reports[-1]
            )
        ]
    if cadence.has_shrunk([len(held) for held in good]):
        lost = set().union(*good[:-1]) - good[-1]
        explanation = f"{len(good[-1])} series were measured, and up to {max(map(len, good))} before."
        return [
            _build_incomplete_report(
                SHRUNKEN, schedule, f"{where} measures less than before", explanation, lost
            )
        ]
    if gone := cadence.find_vanished_series([set(held) for held in reports]):
        explanation = "Was a benchmark renamed or deleted, or does it not start any more?"
        return [
            _build_incomplete_report(
                VANISHED, schedule, f"{len(gone)} series vanished from {where}", explanation, gone
            )
        ]
    return []


def find_unresolved_units(unresolved: Iterable[UnresolvedResult], now: datetime) -> list[MissingData]:
    """Find metrics that are not judged because their unit is unresolved."""
    old = {
        (result.format, result.metric)
        for result in unresolved
        if result.created_at < now - UNRESOLVED_UNIT_AFTER
    }
    return [
        MissingData(
            f"{UNRESOLVED_UNIT} {format} {metric}",
            f"{metric} of {format} is measured, but not judged",
            "Its unit or direction is not known: set them with --metric at ingest, or over the API.",
        )
        for format, metric in sorted(old)
    ]


def _is_late(schedule: ReportingSchedule, now: datetime) -> bool:
    assert schedule.last_run_at is not None
    return now > cadence.compute_late_time(schedule.last_run_at, schedule.every_s or 0.0)


def _build_late_suite(schedule: ReportingSchedule) -> MissingData:
    return MissingData(
        build_missing_data_key(LATE, schedule),
        f"{_format_suite_name(schedule)} has not reported from {schedule.machine.label} "
        f"since {schedule.last_run_at:%Y-%m-%d %H:%M} UTC",
        f"It reports at least every {_format_interval(schedule.every_s or 0.0)}: is its job still there, "
        "and does it still upload?",
        str(schedule.source.machine_id),
    )


def _build_silent_machine(schedules: Sequence[ReportingSchedule]) -> MissingData:
    last, first = max(schedule.last_run_at for schedule in schedules if schedule.last_run_at), schedules[0]
    return MissingData(
        f"{SILENT} {first.source.machine_id}",
        f"{first.machine.label} has not reported anything since {last:%Y-%m-%d %H:%M} UTC",
        f"All {len(schedules)} suites that it measures are late: is the runner up and connected?",
        str(first.source.machine_id),
        covered_keys=frozenset(build_missing_data_key(LATE, schedule) for schedule in schedules),
    )


def _build_incomplete_report(
    kind: str, schedule: ReportingSchedule, headline: str, explanation: str, series_ids: Iterable[int]
) -> MissingData:
    return MissingData(
        build_missing_data_key(kind, schedule),
        headline,
        explanation,
        str(schedule.source.machine_id),
        frozenset(series_ids),
    )


def _format_suite_name(schedule: ReportingSchedule) -> str:
    suite = schedule.source.suite or "a suite without a name"
    return f"{suite} ({schedule.source.branch})" if schedule.source.branch else suite


def _format_interval(seconds: float) -> str:
    hours = seconds / 3600
    return (
        format_count(round(hours / 24), "day") if hours >= 48 else format_count(max(1, round(hours)), "hour")
    )
