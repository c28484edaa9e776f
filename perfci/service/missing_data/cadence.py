"""How often something reports, from when it did: numbers and times in, findings out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from perfci.model import Status
from perfci.store.incidents.reporting_schedules import RunArrival

REPORT_WINDOW = timedelta(hours=1)
"""Runs that arrive within an hour of the first belong together: rounds over several commits, a matrix of jobs."""

MAX_GAPS = 10
"""The longest of the last ten gaps counts, so that a weekend is no alarm."""

MIN_REPORTS = 4
"""Fewer teach nothing: two gaps of one week say little about the next."""

LATE_FACTOR, LATE_SLACK = 2.0, timedelta(hours=1)
"""Late is what has not come after twice its longest gap and an hour."""

EXAMINED_REPORTS, MIN_REPORTS_PRESENT, MIN_REPORTS_ABSENT = 5, 3, 2
"""Of the last five reports a series was in three, but not in the last two: it has vanished."""

SHRUNKEN_SHARE = 0.8
"""A report with less than this share of the series that reports before it had has lost some."""


@dataclass(frozen=True, slots=True)
class SuiteReport:
    """Runs that arrived together: the first when it ``began``, the last ``at``."""

    started_at: datetime
    ended_at: datetime
    run_ids: tuple[int, ...]


def group_reports(arrivals: Sequence[RunArrival]) -> list[SuiteReport]:
    """Runs that arrive together, oldest first."""
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
    """Seconds of the longest of the last gaps; nothing after too few reports."""
    if len(reports) < MIN_REPORTS:
        return None
    times = [report.ended_at for report in reports][-MAX_GAPS - 1 :]
    return max((later - earlier).total_seconds() for earlier, later in pairwise(times))


def compute_late_time(last: datetime, every_s: float) -> datetime:
    """The moment from which a report is missed."""
    return last + LATE_FACTOR * timedelta(seconds=every_s) + LATE_SLACK


def find_vanished_series(reports: Sequence[AbstractSet[int]]) -> set[int]:
    """Series of the last five reports, oldest first, that have stopped."""
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
    """Whether the last report holds far fewer series than the median of the four before."""
    before = sorted(counts[-EXAMINED_REPORTS:-1])
    return len(before) == EXAMINED_REPORTS - 1 and counts[-1] < SHRUNKEN_SHARE * (before[1] + before[2]) / 2


def has_only_failures(statuses: Mapping[int, Status]) -> bool:
    """Whether a report measured nothing at all; what was skipped was not meant to be measured."""
    tried = [status for status in statuses.values() if status is not Status.SKIPPED]
    return bool(tried) and Status.OK not in tried
