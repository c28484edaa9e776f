"""Learn reporting intervals from arrival times, and find late, vanished and incomplete reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from perfci.model import Status
from perfci.store.incidents.reporting_schedules import RunArrival

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


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """Runs that arrived together, with the arrival of the first and the last one."""

    started_at: datetime
    ended_at: datetime
    run_ids: tuple[int, ...]


def group_reports(arrivals: Sequence[RunArrival]) -> list[SuiteReport]:
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


def learn_interval_s(reports: Sequence[SuiteReport]) -> float | None:
    """Return the longest recent gap in seconds; None after too few reports."""
    if len(reports) < MIN_REPORTS:
        return None
    times = [report.ended_at for report in reports][-MAX_GAPS - 1 :]
    return max((later - earlier).total_seconds() for earlier, later in pairwise(times))


def compute_late_time(last: datetime, every_s: float) -> datetime:
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


def has_shrunk(counts: Sequence[int]) -> bool:
    """Return whether the last report has far fewer series than the median of the four before."""
    before = sorted(counts[-EXAMINED_REPORTS:-1])
    return len(before) == EXAMINED_REPORTS - 1 and counts[-1] < SHRUNKEN_SHARE * (before[1] + before[2]) / 2


def has_only_failures(statuses: Mapping[int, Status]) -> bool:
    """Return whether every result of a report failed; skipped results do not count."""
    tried = [status for status in statuses.values() if status is not Status.SKIPPED]
    return bool(tried) and Status.OK not in tried
