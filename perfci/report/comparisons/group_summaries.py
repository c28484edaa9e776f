"""What a group of rows came to: how many moved, and the geometric mean of their ratios."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from perfci.model import Interval, Series
from perfci.report.comparisons.comparison_rows import SEVERITY, Outcome
from perfci.report.comparisons.row_table import Column, RowTable

NORMAL_95 = 1.959964
"""Half the width of a 95 % interval of a normal distribution, in standard deviations."""


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """Rows of one group, such as a suite or a machine.

    ``mean_ratio`` is the geometric mean of head over base in cost (above 1 is worse, of throughput too)
    over the ``common`` rows that both sides measured; ``excluded`` have no ratio. ``interval`` is its 95 %
    interval from the uncertainty of every verdict; None where runs are separate, since these share the
    state of the machine on their day.
    """

    name: str
    rows: RowTable
    counts: Mapping[Outcome, int]
    common: int
    excluded: int
    mean_ratio: float | None
    interval: Interval | None


GROUPINGS: Mapping[str, Callable[[Series], str]] = {
    "suite": lambda series: series.benchmark.name.rpartition(".")[0] or series.benchmark.name,
    "machine": lambda series: series.machine.label,
    "variant": lambda series: series.variant.label,
    "metric": lambda series: series.metric.name,
}
"""What rows can be grouped by."""


def group_rows(rows: RowTable, grouping: str) -> list[GroupSummary]:
    """Group rows in the order of their first ones; without a known grouping, all are one group."""
    name_of = GROUPINGS.get(grouping)
    groups: dict[str, list[int]] = {}
    for number, series in enumerate(rows.series):
        groups.setdefault(name_of(series) if name_of else "", []).append(number)
    return [summarize_rows(rows.take(np.array(members)), name) for name, members in groups.items()]


def summarize_rows(rows: RowTable, name: str = "") -> GroupSummary:
    """Summarize rows; context metrics and verdicts that explain others are counted nowhere."""
    counted = rows.columns[~rows.columns["is_context"] & ~rows.columns["explains"]]
    common = counted[counted["ratio"] > 0]
    counts = np.bincount(counted["outcome"], minlength=len(SEVERITY)).tolist()
    return GroupSummary(
        name,
        rows,
        {outcome: count for outcome, count in zip(SEVERITY, counts, strict=True) if count},
        len(common),
        len(counted) - len(common),
        _geometric_mean_of_cost(common),
        _interval_of_mean(common),
    )


def _geometric_mean_of_cost(columns: Column) -> float | None:
    """exp of the mean of the log ratios, each with the sign of its cost."""
    if not len(columns):
        return None
    return math.exp(math.fsum((columns["log_ratio"] * columns["cost_sign"]).tolist()) / len(columns))


def _interval_of_mean(columns: Column) -> Interval | None:
    """The 95 % interval of the geometric mean of these very benchmarks.

    The standard error of each log ratio is the width of its interval over twice 1.96. The errors of
    interleaved pairs are independent, so that of the mean is the root of their sum of squares over n.
    """
    mean = _geometric_mean_of_cost(columns)
    if mean is None or not np.isfinite(columns["log_width"]).all():
        return None
    widths = (columns["log_width"] / (2 * NORMAL_95)).tolist()
    error = math.sqrt(math.fsum(width**2 for width in widths)) / len(widths)
    return Interval(mean * math.exp(-NORMAL_95 * error), mean * math.exp(NORMAL_95 * error))
