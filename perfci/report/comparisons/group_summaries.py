"""What a group of rows came to: how many moved, and the geometric mean of their ratios."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfci.model import Interval, Series
from perfci.report.comparisons.comparison_rows import SEVERITY, ComparisonRow, Outcome

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
    rows: tuple[ComparisonRow, ...]
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


def group_rows(rows: Iterable[ComparisonRow], grouping: str) -> list[GroupSummary]:
    """Group rows in the order of their first ones; without a known grouping, all are one group."""
    name_of = GROUPINGS.get(grouping)
    groups: dict[str, list[ComparisonRow]] = {}
    for row in rows:
        groups.setdefault(name_of(row.series) if name_of else "", []).append(row)
    return [summarize_rows(members, name) for name, members in groups.items()]


def summarize_rows(rows: Sequence[ComparisonRow], name: str = "") -> GroupSummary:
    """Summarize rows; context metrics and verdicts that explain others are counted nowhere."""
    counted = [row for row in rows if not row.is_context and not row.explains]
    common = [row for row in counted if row.ratio is not None and row.ratio > 0]
    outcomes = Counter(row.outcome for row in counted)
    return GroupSummary(
        name,
        tuple(rows),
        {outcome: outcomes[outcome] for outcome in SEVERITY if outcomes[outcome]},
        len(common),
        len(counted) - len(common),
        _geometric_mean_of_cost(common),
        _interval_of_mean(common),
    )


def _geometric_mean_of_cost(rows: Sequence[ComparisonRow]) -> float | None:
    """exp of the mean of the log ratios, each with the sign of its cost."""
    if not rows:
        return None
    return math.exp(math.fsum(row.log_ratio * row.series.metric.cost_sign for row in rows) / len(rows))


def _interval_of_mean(rows: Sequence[ComparisonRow]) -> Interval | None:
    """The 95 % interval of the geometric mean of these very benchmarks.

    The standard error of each log ratio is the width of its interval over twice 1.96. The errors of
    interleaved pairs are independent, so that of the mean is the root of their sum of squares over n.
    """
    mean = _geometric_mean_of_cost(rows)
    intervals = [row.interval for row in rows if row.verdict is not None and row.interval]
    if mean is None or len(intervals) < len(rows) or any(interval.lo <= 0 for interval in intervals):
        return None
    widths = [math.log(interval.hi / interval.lo) / (2 * NORMAL_95) for interval in intervals]
    error = math.sqrt(math.fsum(width**2 for width in widths)) / len(rows)
    return Interval(mean * math.exp(-NORMAL_95 * error), mean * math.exp(NORMAL_95 * error))
