"""How a project stands: which confirmed regressions are still there, and what moved most."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable

from perfci.model import VerdictKind
from perfci.report.charts.series_trend import ChangeMark, Trend

RECOVERED_WITHIN = 0.025
"""A regression counts as gone once later moves leave at most half of the usual 5 % bar of it."""


def find_open_regressions(trend: Trend) -> list[ChangeMark]:
    """The confirmed regressions of a series that no later improvement has made good."""
    return [
        mark
        for k, mark in enumerate(trend.confirmed_marks())
        if mark.kind is VerdictKind.REGRESSION and _is_open(trend, k)
    ]


def find_largest_changes(trends: Iterable[Trend], count: int) -> list[tuple[Trend, ChangeMark]]:
    """The largest change of each series, the largest first; confirmed ones before candidates."""
    largest = []
    for trend in trends:
        marks = [mark for mark in trend.marks if mark.state != "refuted"]
        if marks:
            largest.append((trend, max(marks, key=change_size)))
    largest.sort(key=lambda entry: (entry[1].state != "confirmed", -change_size(entry[1])))
    return largest[:count]


def change_size(mark: ChangeMark) -> float:
    """How large a move is, the same for half and for double."""
    return abs(math.log(mark.ratio)) if mark.ratio > 0 else math.inf


def _is_open(trend: Trend, index: int) -> bool:
    """Whether the moves since have never taken it back; what came after a repair is another story."""
    ratios = [mark.ratio for mark in trend.confirmed_marks()[index:]]
    cost_ratios = list(itertools.accumulate(ratios, operator.mul))
    if trend.series.metric.direction == "higher":
        cost_ratios = [1 / ratio if ratio > 0 else math.inf for ratio in cost_ratios]
    return all(cost_ratio - 1 > RECOVERED_WITHIN for cost_ratio in cost_ratios)
