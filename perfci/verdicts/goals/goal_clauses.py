"""Goals written as clauses: what a change must reach in speed and memory, and how exact it must
stay."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from perfci.model import Interval, PerfciError, Series

ClauseOperator = Literal["<=", ">=", "<", ">", "within"]
"""Comparison operators of a clause."""

UNIT_SCALES: Mapping[str, Mapping[str, float]] = {
    "seconds": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9, "min": 60.0, "seconds": 1.0},
    "bytes": {
        "B": 1.0,
        "bytes": 1.0,
        "kB": 1e3,
        "KB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "TB": 1e12,
        "KiB": 2.0**10,
        "MiB": 2.0**20,
        "GiB": 2.0**30,
        "TiB": 2.0**40,
    },
    "ratio": {"%": 0.01},
}
"""Units a limit may be written in, by the unit of the metric; other metrics take their own unit, or
none."""

CLAUSE_PATTERN = re.compile(
    r"(?P<metric>[\w.:/-]+?)\s*(?P<comparison><=|>=|<|>|\bwithin\b)\s*"
    r"(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(?P<unit>\S.*)?"
)
"""Metric, comparison, number and unit of a clause."""
CLAUSE_EXAMPLES = "such as 'step_time <= 0.67x', 'loss within 1%' or 'e2el_p90 <= 2 s'"
"""Examples for error messages."""


@dataclass(frozen=True, slots=True)
class GoalClause:
    """One requirement. ``unit`` is ``x`` for a ratio to the base, ``%`` after *within*, else that
    of the level."""

    text: str
    metric: str
    comparison: ClauseOperator
    number: float
    unit: str = ""

    @property
    def is_ratio(self) -> bool:
        """Whether the clause limits head/base rather than a level."""
        return self.unit == "x" or self.comparison == "within"

    @property
    def allowed_interval(self) -> Interval:
        """Interval in which the ratio, or the level as written, must lie."""
        if self.comparison == "within":
            share = self.number / 100
            return Interval(1 - share, 1 + share)
        below = self.comparison in ("<=", "<")
        return Interval(-math.inf, self.number) if below else Interval(self.number, math.inf)


@dataclass(frozen=True, slots=True)
class Goal:
    """Clauses on the metrics of the benchmarks whose cell ``match`` finds."""

    name: str
    clauses: tuple[GoalClause, ...]
    match: str = ""

    def matches_cell(self, cell: str) -> bool:
        """Whether the goal is about this cell."""
        return re.search(self.match, cell) is not None

    def tolerance_for(self, series: Series) -> float | None:
        """Relative difference from the base that a *within* clause allows for this metric; None
        without one."""
        for clause in self.clauses if self.matches_cell(series.cell) else ():
            if clause.comparison == "within" and resolve_metric_name(clause.metric, [series.metric.name]):
                return clause.number / 100
        return None


def parse_clause(text: str) -> GoalClause:
    """Parse one clause; raises ``PerfciError`` with an example."""
    match = CLAUSE_PATTERN.fullmatch(text.strip())
    if match is None:
        raise PerfciError(
            f"the goal {text!r} cannot be read; a metric, a comparison and a limit were expected, "
            f"{CLAUSE_EXAMPLES}"
        )
    unit = (match["unit"] or "").strip()
    comparison: ClauseOperator = match["comparison"]  # type: ignore[assignment]
    if comparison == "within" and unit != "%":
        raise PerfciError(
            f"the goal {text!r} cannot be read; after 'within' a percentage was expected, such as 1%"
        )
    return GoalClause(text.strip(), match["metric"], comparison, float(match["number"]), unit)


def validate_goal_metrics(goal: Goal, units: Mapping[str, str]) -> None:
    """Refuse a goal on a metric its benchmarks lack, or in a unit that is not the metric's.

    ``units`` maps the available metrics to their units.
    """
    for clause in goal.clauses:
        name = resolve_metric_name(clause.metric, units)
        if name is None:
            raise PerfciError(f"the goal {clause.text!r}: {_unknown_metric_message(clause.metric, units)}")
        if not clause.is_ratio:
            unit_conversion_factor(clause, units[name])


def resolve_metric_name(metric: str, metrics: Iterable[str]) -> str | None:
    """Find a metric by its name, or by an unambiguous beginning: ``loss`` for ``loss_at_step_k``."""
    names = list(dict.fromkeys(metrics))
    if metric in names:
        return metric
    longer = [name for name in names if name.startswith(f"{metric}_")]
    return longer[0] if len(longer) == 1 else None


def unit_conversion_factor(clause: GoalClause, unit: str) -> float:
    """Factor from the clause's unit to the metric's; raises where there is none."""
    measure, slash, per = unit.partition("/")
    factors = UNIT_SCALES.get(measure, {measure: 1.0} if measure else {})
    factor_by_unit = {f"{symbol}{slash}{per}": factor for symbol, factor in factors.items()}
    if clause.unit in factor_by_unit:
        return factor_by_unit[clause.unit]
    if not clause.unit and measure not in ("seconds", "bytes"):
        return 1.0
    expected = ", ".join([*factor_by_unit, "x"])
    actual = f"found {clause.unit!r}" if clause.unit else "found none"
    raise PerfciError(
        f"the goal {clause.text!r}: a unit of {clause.metric} was expected ({expected}), {actual}"
    )


def _unknown_metric_message(metric: str, metrics: Iterable[str]) -> str:
    names = sorted(set(metrics))
    longer = [name for name in names if name.startswith(f"{metric}_")]
    if longer:
        return f"{metric!r} could be {' or '.join(longer)}; say which"
    close = difflib.get_close_matches(metric, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(names)}"
    return f"no benchmark it matches has a metric {metric!r}; {hint}"
