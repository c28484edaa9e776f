"""Find missing data: late suites, silent machines, incomplete reports and unresolved units."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from perfci.model import Status
from perfci.number_format import format_count
from perfci.store.incidents.reporting_schedules_and_run_arrivals import ReportingSchedule, RunArrival
from perfci.store.unresolved_results import UnresolvedResult

REPORT_WINDOW = timedelta(hours=1)
"""Runs that arrive within this time of the first one form one report, such as a matrix of jobs."""

MAX_GAPS = 10
"""Gaps considered; the longest of them is the interval, so that a weekend is not late."""

MIN_REPORTS = 4
"""Reports needed to learn an interval."""

LATE_FACTOR, LATE_SLACK = 2.0, timedelta(hours=1)
"""A report is late after this multiple of its interval plus the slack."""

EXAMINED_REPORTS, MIN_REPORTS_PRESENT, MIN_REPORTS_ABSENT = 5, 3, 2
"""A series has vanished if it was in three of the last five reports but not in the last two."""

SHRUNKEN_SHARE = 0.8
"""A report with less than this share of the earlier number of series has shrunk."""

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
class SuiteReport:
    """Runs that arrived together, with the arrival of the first and the last one."""

    started_at: datetime
    ended_at: datetime
    run_ids: tuple[int, ...]


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


def group_arrivals_by_time(arrivals: Sequence[RunArrival]) -> list[SuiteReport]:
    """Group arrivals into reports, oldest first."""
    groups: list[list[RunArrival]] = []
    for arrival in arrivals:
        if groups and arrival.arrived_at - groups[-1][0].arrived_at < REPORT_WINDOW:
            groups[-1].append(arrival)
        else:
            groups.append([arrival])
    return [
        SuiteReport(group[0].arrived_at, group[-1].arrived_at, tuple(arrival.run_id for arrival in group))
        for group in groups
    ]


def longest_recent_report_gap_s(reports: Sequence[SuiteReport]) -> float | None:
    """Return the longest recent gap in seconds; None after too few reports."""
    if len(reports) < MIN_REPORTS:
        return None
    times = [report.ended_at for report in reports][-MAX_GAPS - 1 :]
    return max((later - earlier).total_seconds() for earlier, later in pairwise(times))


def build_missing_data_key(kind: str, schedule: ReportingSchedule) -> str:
    """Build the incident key of a kind of missing data of a suite."""
    return f"{kind} {schedule.source.machine_id} {schedule.source.suite} {schedule.source.branch}"


def find_late_reports(schedules: Iterable[ReportingSchedule], now: datetime) -> list[MissingData]:
    """Find late suites; if all suites of a machine are late, report the machine instead."""
    by_machine: dict[int, list[ReportingSchedule]] = defaultdict(list)
    for schedule in schedules:
        if schedule.every_s is not None and schedule.last_run_at is not None:
            by_machine[schedule.source.machine_id].append(schedule)
    missing = []
    for machine_schedules in by_machine.values():
        missed = [
            schedule
            for schedule in machine_schedules
            if schedule.last_run_at is not None
            and now > compute_report_deadline(schedule.last_run_at, schedule.every_s or 0.0)
        ]
        missing += (
            [_build_silent_machine(machine_schedules)]
            if len(missed) == len(machine_schedules) > 1
            else list(map(_build_late_suite, missed))
        )
    return missing


def find_missing_in_newest_report(
    schedule: ReportingSchedule, reports: Sequence[SeriesStatuses]
) -> list[MissingData]:
    """Find what the newest report lacks; the loss of many series at once is one finding."""
    good = [{k for k, status in held.items() if status is Status.OK} for held in reports]
    where = f"{_format_suite_name(schedule)} on {schedule.machine.label}"
    if has_only_failed_results(reports[-1]):
        measured = format_count(len(reports[-1]), "series", "series")
        explanation = f"None of {measured} was measured: see the reason of each."
        return [
            _build_incomplete_report(
                FAILED, schedule, f"everything failed in {where}", explanation, reports[-1]
            )
        ]
    if has_series_count_dropped([len(held) for held in good]):
        lost = set().union(*good[:-1]) - good[-1]
        explanation = f"{len(good[-1])} series were measured, and up to {max(map(len, good))} before."
        return [
            _build_incomplete_report(
                SHRUNKEN, schedule, f"{where} measures less than before", explanation, lost
            )
        ]
    if gone := find_vanished_series([set(held) for held in reports]):
        explanation = "Was a benchmark renamed or deleted, or does it not start any more?"
        return [
            _build_incomplete_report(
                VANISHED, schedule, f"{len(gone)} series vanished from {where}", explanation, gone
            )
        ]
    return []


def find_metrics_without_unit(unresolved: Iterable[UnresolvedResult], now: datetime) -> list[MissingData]:
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


def compute_report_deadline(last: datetime, every_s: float) -> datetime:
    """Compute the time after which a report is late."""
    return last + LATE_FACTOR * timedelta(seconds=every_s) + LATE_SLACK


def find_vanished_series(reports: Sequence[AbstractSet[int]]) -> set[int]:
    """Find series that vanished from the last five reports (oldest first)."""
    if len(reports) < EXAMINED_REPORTS:
        return set()
    recent = reports[-EXAMINED_REPORTS:]
    often = {
        series_id
        for held in recent
        for series_id in held
        if sum(series_id in other for other in recent) >= MIN_REPORTS_PRESENT
    }
    return often - set().union(*recent[-MIN_REPORTS_ABSENT:])


def has_series_count_dropped(counts: Sequence[int]) -> bool:
    """Return whether the last report has far fewer series than the median of the four before."""
    before = sorted(counts[-EXAMINED_REPORTS:-1])
    return len(before) == EXAMINED_REPORTS - 1 and counts[-1] < SHRUNKEN_SHARE * (before[1] + before[2]) / 2


def has_only_failed_results(statuses: Mapping[int, Status]) -> bool:
    """Return whether every result of a report failed; skipped results do not count."""
    tried = [status for status in statuses.values() if status is not Status.SKIPPED]
    return bool(tried) and Status.OK not in tried


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
