"""How often something reports, from when it did: numbers and times in, findings out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from perfci.model import Status
from perfci.store.incidents.reporting_schedules import Arrival

ONE_REPORT = timedelta(hours=1)
"""Runs that arrive within an hour of the first belong together: rounds over several commits, a matrix of jobs."""

GAPS = 10
"""The longest of the last ten gaps counts, so that a weekend is no alarm."""

FEWEST_REPORTS = 4
"""Fewer teach nothing: two gaps of one week say little about the next."""

PATIENCE, SLACK = 2.0, timedelta(hours=1)
"""Late is what has not come after twice its longest gap and an hour."""

LOOKED_AT, RAN_IN, NOT_IN = 5, 3, 2
"""Of the last five reports a series was in three, but not in the last two: it has vanished."""

SHRUNKEN = 0.8
"""A report with less than this share of the series that reports before it had has lost some."""


@dataclass(frozen=True, slots=True)
class Report:
    """Runs that arrived together: the first when it ``began``, the last ``at``."""

    began: datetime
    at: datetime
    run_ids: tuple[int, ...]


def reports_of(arrivals: Sequence[Arrival]) -> list[Report]:
    """Runs that arrive together, oldest first."""
    groups: list[list[Arrival]] = []
    for one in arrivals:
        if groups and one.at - groups[-1][0].at < ONE_REPORT:
            groups[-1].append(one)
        else:
            groups.append([one])
    return [Report(group[0].at, group[-1].at, tuple(one.run_id for one in group)) for group in groups]


def learned_every(reports: Sequence[Report]) -> float | None:
    """Seconds of the longest of the last gaps; nothing after too few reports."""
    if len(reports) < FEWEST_REPORTS:
        return None
    times = [report.at for report in reports][-GAPS - 1 :]
    return max((later - earlier).total_seconds() for earlier, later in pairwise(times))


def late_since(last: datetime, every_s: float) -> datetime:
    """The moment from which a report is missed."""
    return last + PATIENCE * timedelta(seconds=every_s) + SLACK


def vanished(ran: Sequence[AbstractSet[int]]) -> set[int]:
    """Series of the last five reports, oldest first, that have stopped."""
    if len(ran) < LOOKED_AT:
        return set()
    recent = ran[-LOOKED_AT:]
    often = {one for held in recent for one in held if sum(one in other for other in recent) >= RAN_IN}
    return often - set().union(*recent[-NOT_IN:])


def shrunken(counts: Sequence[int]) -> bool:
    """Whether the last report holds far fewer series than the median of the four before."""
    before = sorted(counts[-LOOKED_AT:-1])
    return len(before) == LOOKED_AT - 1 and counts[-1] < SHRUNKEN * (before[1] + before[2]) / 2


def all_failed(held: Mapping[int, Status]) -> bool:
    """Whether a report measured nothing at all; what was skipped was not meant to be measured."""
    tried = [status for status in held.values() if status is not Status.SKIPPED]
    return bool(tried) and Status.OK not in tried
