"""Goal verdicts: whether a goal was reached.

A clause is met if the whole 95 % interval lies on its good side, broken if on the bad side,
undecided if the interval spans the limit. One broken clause breaks the goal; all must be met to
meet it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from perfci.model import (
    CPU_METRIC_PREFIX,
    Interval,
    MetricClass,
    Process,
    Series,
    Status,
    Verdict,
    VerdictKind,
)
from perfci.stats.location_shift import student_paired_shift
from perfci.stats.statistical_power import MAX_PAIRS_TO_DECIDE
from perfci.verdicts.compare.pairwise_verdict import screening_verdict
from perfci.verdicts.compare.reason_text import format_missing_reason
from perfci.verdicts.comparison_rule import ROUNDING_TOLERANCE
from perfci.verdicts.goals.goal_clauses import Goal, GoalClause, resolve_metric_name, unit_conversion_factor
from perfci.verdicts.goals.tradeoffs import Tradeoff, find_tradeoffs
from perfci.verdicts.process_levels import steady_levels
from perfci.verdicts.usable_processes import select_usable_processes
from perfci.verdicts.variants.numeric_parity import find_parity_failure_reason


class GoalOutcome(StrEnum):
    """Outcome of a clause or a goal."""

    MET = "met"
    BROKEN = "broken"
    UNDECIDED = "undecided"
    REJECTED = "rejected"


OUTCOMES_WORST_FIRST = (GoalOutcome.REJECTED, GoalOutcome.BROKEN, GoalOutcome.UNDECIDED, GoalOutcome.MET)
"""Order in which the outcome of the worst clause becomes that of the goal."""


@dataclass(frozen=True, slots=True)
class ComparedSeries:
    """One series as measured on both sides, with its verdict; informational series have none."""

    series: Series
    base: Sequence[Process]
    head: Sequence[Process]
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class ClauseVerdict:
    """Outcome of one clause at one series; estimate and interval are in the unit of the clause."""

    clause: GoalClause
    outcome: GoalOutcome
    series: Series | None = None
    estimate: float | None = None
    interval: Interval | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GoalVerdict:
    """Outcome of a goal with those of its clauses; ``subject`` names the variants it was judged on."""

    name: str
    outcome: GoalOutcome
    clauses: tuple[ClauseVerdict, ...]
    trades: tuple[Tradeoff, ...] = ()
    subject: str = ""
    reason: str = ""


def judge_goal(
    goal: Goal,
    compared: Sequence[ComparedSeries],
    metric_class_of: Callable[[Series], MetricClass],
    *,
    subject: str = "",
    rejection_reason: str = "",
) -> GoalVerdict | None:
    """Judge every clause at every series it is about; None where the goal matches nothing.

    ``rejection_reason`` says why a variant computes something else; a head may say so itself. Then
    no number of it counts.
    """
    matching = [item for item in compared if goal.matches_cell(item.series.cell)]
    if reason := rejection_reason or next(
        filter(None, (find_parity_failure_reason(item.head) for item in matching)), ""
    ):
        return GoalVerdict(goal.name, GoalOutcome.REJECTED, (), subject=subject, reason=reason)
    if not matching:
        return None
    clauses: list[ClauseVerdict] = []
    for clause in goal.clauses:
        items = _select_clause_series(clause, matching)
        if not items:
            clauses.append(ClauseVerdict(clause, GoalOutcome.UNDECIDED, reason="it was not measured"))
        for item in items:
            clauses.append(
                _judge_clause_at(clause, item, metric_class_of(item.series) is MetricClass.NUMERICS)
            )
    outcome = min((verdict.outcome for verdict in clauses), key=OUTCOMES_WORST_FIRST.index)
    verdicts = [item.verdict for item in matching if item.verdict is not None]
    return GoalVerdict(
        goal.name, outcome, tuple(clauses), tuple(find_tradeoffs(verdicts, metric_class_of)), subject
    )


def _select_clause_series(clause: GoalClause, compared: Sequence[ComparedSeries]) -> list[ComparedSeries]:
    """Series a clause is about; a ratio of a metric read with two clocks uses the judged one.

    A level is taken by its name: two seconds of waiting are not two seconds of computing.
    """
    name = resolve_metric_name(clause.metric, (item.series.metric.name for item in compared))
    named = [item for item in compared if item.series.metric.name == name]
    if not clause.is_ratio:
        return named
    twins = {
        item.series.cell: item
        for item in compared
        if item.series.metric.name == f"{CPU_METRIC_PREFIX}{name}" and item.verdict
    }
    return [item if item.verdict else twins.get(item.series.cell, item) for item in named]


def _judge_clause_at(clause: GoalClause, compared: ComparedSeries, numerics: bool) -> ClauseVerdict:
    failed = compared.verdict is not None and compared.verdict.kind is VerdictKind.FAILED
    estimate, interval, reason = (
        _measure_ratio(compared) if clause.is_ratio else _measure_level(clause, compared)
    )
    if failed or (_is_from_zero(clause, compared) and clause.allowed_interval.hi < math.inf):
        outcome = GoalOutcome.BROKEN
    elif interval is None:
        outcome = GoalOutcome.UNDECIDED
    else:
        outcome = _clause_outcome(clause, interval)
    if numerics and outcome is GoalOutcome.BROKEN:
        outcome = GoalOutcome.REJECTED
    if outcome is GoalOutcome.UNDECIDED and interval is not None:
        reason = _more_pairs_text(clause, compared, interval)
    return ClauseVerdict(clause, outcome, compared.series, estimate, interval, reason)


def _more_pairs_text(clause: GoalClause, compared: ComparedSeries, interval: Interval) -> str:
    """How many more pairs would decide: an interval narrows with the square root of its pairs."""
    pairs = (
        compared.verdict.pairs
        if compared.verdict
        else min(len(select_usable_processes(compared.base)), len(select_usable_processes(compared.head)))
    )
    limits = [
        limit
        for limit in (clause.allowed_interval.lo, clause.allowed_interval.hi)
        if math.isfinite(limit) and limit > 0
    ]
    if interval.lo <= 0 or not limits or not pairs:
        return ""
    centre, half = math.log(interval.lo * interval.hi) / 2, math.log(interval.hi / interval.lo) / 2
    distance = min(abs(centre - math.log(limit)) for limit in limits)
    more = math.ceil(pairs * (half / distance) ** 2) - pairs if distance else math.inf
    if more > MAX_PAIRS_TO_DECIDE:
        return "too close to the limit for more pairs to settle"
    return f"about {more} more pair{'s' if more != 1 else ''} would decide"


def _clause_outcome(clause: GoalClause, interval: Interval) -> GoalOutcome:
    lo, hi, ends = clause.allowed_interval.lo, clause.allowed_interval.hi, (interval.lo, interval.hi)
    if clause.comparison in ("<", ">"):
        inside = [lo < end < hi for end in ends]
    else:
        inside = [lo - ROUNDING_TOLERANCE <= end <= hi + ROUNDING_TOLERANCE for end in ends]
    if all(inside):
        return GoalOutcome.MET
    spans = interval.lo < lo and interval.hi > hi
    return GoalOutcome.UNDECIDED if any(inside) or spans else GoalOutcome.BROKEN


def _measure_ratio(compared: ComparedSeries) -> tuple[float | None, Interval | None, str]:
    """Ratio and interval of the verdict, or of screening for a series without one."""
    verdict = compared.verdict or screening_verdict(compared.series, "", "", compared.base, compared.head)
    if verdict.interval is not None:
        return verdict.ratio, verdict.interval, ""
    # without the numbers, which are shown beside it
    detail = verdict.reason.partition(": ")[2] if verdict.ratio is not None else ""
    return verdict.ratio, None, detail or verdict.reason


def _is_from_zero(clause: GoalClause, compared: ComparedSeries) -> bool:
    """Whether the head has something of which the base has none: more than any factor of it."""
    verdict = compared.verdict
    return (
        clause.is_ratio and verdict is not None and verdict.base_level == 0 and (verdict.head_level or 0) > 0
    )


def _measure_level(clause: GoalClause, compared: ComparedSeries) -> tuple[float | None, Interval | None, str]:
    """Level of the head with Student's interval over its processes, on logarithms, in the unit of
    the clause."""
    factor = unit_conversion_factor(clause, compared.series.metric.unit)
    levels = [level / factor for level in steady_levels(select_usable_processes(compared.head), [])[0]]
    if not levels:
        is_flagged = any(process.status is Status.OK for process in compared.head)
        missing = "has flagged processes only" if is_flagged else format_missing_reason(compared.head)
        return None, None, f"the head {missing}"
    samples = {sample for process in select_usable_processes(compared.head) for sample in process.samples}
    if len(set(levels)) == len(samples) == 1:
        return levels[0], Interval(levels[0], levels[0]), ""
    if min(levels) <= 0:
        return float(np.median(levels)), None, "some levels are zero or less, which have no logarithm"
    if len(levels) == 1:
        return levels[0], None, "a single process has no interval"
    logs = np.log(np.asarray(levels))
    shift = student_paired_shift(np.zeros_like(logs), logs)
    low, high = shift.bounds()
    return math.exp(shift.centre), Interval(math.exp(low), math.exp(high)), ""
