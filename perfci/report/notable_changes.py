"""Rank trends: confirmed regressions that are still open, and the largest changes."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable

from perfci.model import VerdictKind
from perfci.report.series_trend import ChangeMark, Trend

RECOVERED_WITHIN = 0.025
"""The remaining relative cost at which a regression counts as recovered: half of the default 5 % bar."""


def find_open_regressions(trend: Trend) -> list[ChangeMark]:
    """List the confirmed regressions of a series that no later change made up for."""
    confirmed = trend.confirmed_marks()
    still_open = []
    for k, mark in enumerate(confirmed):
        if mark.kind is not VerdictKind.REGRESSION:
            continue
        # Open until it recovered once: a level that rises again after that has a mark of its own.
        costs = list(itertools.accumulate((later.ratio for later in confirmed[k:]), operator.mul))
        if trend.series.metric.direction == "higher":
            costs = [1 / ratio if ratio > 0 else math.inf for ratio in costs]
        if all(cost - 1 > RECOVERED_WITHIN for cost in costs):
            still_open.append(mark)
    return still_open


def rank_largest_change_per_series(trends: Iterable[Trend], count: int) -> list[tuple[Trend, ChangeMark]]:
    """List the largest change of each series: confirmed ones first, then by size."""
    largest = []
    for trend in trends:
        marks = [mark for mark in trend.marks if mark.state != "refuted"]
        if marks:
            largest.append((trend, max(marks, key=absolute_log_ratio)))
    largest.sort(key=lambda entry: (entry[1].state != "confirmed", -absolute_log_ratio(entry[1])))
    return largest[:count]


def absolute_log_ratio(mark: ChangeMark) -> float:
    """Return the absolute log ratio of a change, equal for halving and doubling."""
    return abs(math.log(mark.ratio)) if mark.ratio > 0 else math.inf
