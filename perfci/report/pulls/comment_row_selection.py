"""Choose and order the rows of the Markdown tables of verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from perfci.model import MetricClass, Series, Verdict, VerdictKind
from perfci.report.pulls.comparison_findings import VerdictBar, may_fail_check
from perfci.verdicts.related_metrics import is_felt_by_users

SECTION_TITLES = {
    MetricClass.TIME: "Time",
    MetricClass.THROUGHPUT: "Time",
    MetricClass.TAIL: "Time",
    MetricClass.SLA: "Time",
    MetricClass.MEMORY: "Memory",
    MetricClass.COMPILE: "Compile and start time",
    MetricClass.COUNT: "Counts",
    MetricClass.NUMERICS: "Numerics",
    MetricClass.OTHER: "Other",
}
"""The section of each metric class, so that memory and time are not ranked in one table."""


MIN_NOISE_FLOOR = 0.005
"""The smallest noise floor used to rank changes.

Without it an exactly counted metric, such as one more operator, would outrank any slowdown."""


def sort_verdicts_by_attention(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Order verdicts: failures, then confirmed regressions, what users feel first, by size over noise."""

    def sort_key(verdict: Verdict) -> tuple[bool, bool, bool, float, str]:
        size = math.inf
        if verdict.ratio is not None and verdict.ratio > 0:
            noise = max(verdict.noise, MIN_NOISE_FLOOR)
            size = abs(math.log(verdict.ratio)) / noise
        is_failed = verdict.kind is VerdictKind.FAILED
        is_quiet = not is_felt_by_users(verdict.series)
        return not is_failed, not may_fail_check(verdict), is_quiet, -size, verdict.series.label

    return sorted(verdicts, key=sort_key)


def select_rows_per_section(
    verdicts: Sequence[Verdict], max_rows: int, bars: Mapping[Series, VerdictBar]
) -> list[Verdict]:
    """Select the first ``max_rows`` verdicts, and at least one of every section that has any."""
    # Reversed, so that the first verdict of each section wins; by identity, as equal verdicts may occur.
    leading_rows = {
        SECTION_TITLES[bars[verdict.series].metric_class]: verdict for verdict in reversed(verdicts)
    }
    chosen = {id(verdict) for verdict in leading_rows.values()}
    others = [verdict for verdict in verdicts if id(verdict) not in chosen]
    chosen |= {id(verdict) for verdict in others[: max(0, max_rows - len(chosen))]}
    return [verdict for verdict in verdicts if id(verdict) in chosen]
