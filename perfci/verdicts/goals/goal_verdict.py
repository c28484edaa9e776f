"""Whether a goal was reached, as one verdict.

A clause is met when the whole 95 % interval lies on its good side, broken when it lies on the bad side, and undecided
where the interval spans the limit. The goal is broken by one broken clause and met only by all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from perfci.model import CPU_TWIN, Interval, MetricClass, Process, Series, Status, Verdict, VerdictKind
from perfci.stats.location_shift import paired
from perfci.stats.power import MAX_PAIRS_TO_DECIDE
from perfci.verdicts.compare.pairwise import screen
from perfci.verdicts.goals.goal_clauses import Clause, Goal, resolve, scale
from perfci.verdicts.goals.tradeoffs import Trade, trades
from perfci.verdicts.process_levels import settled_levels, usable
from perfci.verdicts.variants.numeric_parity import refusal


class Outcome(StrEnum):
    MET = "met"
    BROKEN = "broken"
    UNDECIDED = "undecided"
    REJECTED = "rejected"


WORST_FIRST = (Outcome.REJECTED, Outcome.BROKEN, Outcome.UNDECIDED, Outcome.MET)


@dataclass(frozen=True, slots=True)
class Compared:
    """One series as it was measured on both sides, and what was decided about it; witnesses have no verdict."""

    series: Series
    base: Sequence[Process]
    head: Sequence[Process]
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class ClauseVerdict:
    """What became of one clause at one series; estimate and interval are in what the clause limits."""

    clause: Clause
    outcome: Outcome
    series: Series | None = None
    estimate: float | None = None
    interval: Interval | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class GoalVerdict:
    """One word for a goal, with each clause's own interval; ``about`` says which variants it was judged on."""

    name: str
    outcome: Outcome
    clauses: tuple[ClauseVerdict, ...]
    trades: tuple[Trade, ...] = ()
    about: str = ""
    reason: str = ""


def judge_goal(
    goal: Goal,
    compared: Sequence[Compared],
    class_of: Callable[[Series], MetricClass],
    *,
    about: str = "",
    rejected: str = "",
) -> GoalVerdict | None:
    """Every clause at every series it is about, and all of them as one; None where the goal is about nothing here.

    ``rejected`` says why a variant computes something else, as a head may say itself: then no number of it counts.
    """
    mine = [one for one in compared if goal.concerns(one.series.cell)]
    if why := rejected or next(filter(None, (refusal(one.head) for one in mine)), ""):
        return GoalVerdict(goal.name, Outcome.REJECTED, (), about=about, reason=why)
    if not mine:
        return None
    clauses = tuple(found for clause in goal.clauses for found in _judged(clause, mine, class_of))
    outcome = min((one.outcome for one in clauses), key=WORST_FIRST.index)
    verdicts = [one.verdict for one in mine if one.verdict is not None]
    return GoalVerdict(goal.name, outcome, clauses, tuple(trades(verdicts, class_of)), about)


def _judged(
    clause: Clause, compared: Sequence[Compared], class_of: Callable[[Series], MetricClass]
) -> list[ClauseVerdict]:
    about = _about(clause, compared)
    if not about:
        return [ClauseVerdict(clause, Outcome.UNDECIDED, reason="it was not measured")]
    return [_at(clause, one, class_of(one.series) is MetricClass.NUMERICS) for one in about]


def _about(clause: Clause, compared: Sequence[Compared]) -> list[Compared]:
    """The series a clause speaks of; a ratio of one that was read with two clocks is taken by the one that is judged.

    A level is meant as it is named: two seconds of waiting are no two seconds of computing.
    """
    name = resolve(clause.metric, (one.series.metric.name for one in compared))
    named = [one for one in compared if one.series.metric.name == name]
    if not clause.of_ratio:
        return named
    twins = {one.series.cell: one for one in compared if one.series.metric.name == f"{CPU_TWIN}{name}" and one.verdict}
    return [one if one.verdict else twins.get(one.series.cell, one) for one in named]


def _at(clause: Clause, one: Compared, numerics: bool) -> ClauseVerdict:
    failed = one.verdict is not None and one.verdict.kind is VerdictKind.FAILED
    estimate, interval, reason = _ratio(one) if clause.of_ratio else _level(clause, one)
    if failed or (_from_nothing(clause, one) and clause.bounds.hi < math.inf):
        outcome = Outcome.BROKEN
    elif interval is None:
        outcome = Outcome.UNDECIDED
    else:
        outcome = _where(clause, interval)
    if numerics and outcome is Outcome.BROKEN:
        outcome = Outcome.REJECTED
    if outcome is Outcome.UNDECIDED and interval is not None:
        reason = _what_would_decide(clause, one, interval)
    return ClauseVerdict(clause, outcome, one.series, estimate, interval, reason)


def _what_would_decide(clause: Clause, one: Compared, found: Interval) -> str:
    """An interval narrows with the square root of its pairs: how many it takes to leave the limit outside."""
    pairs = one.verdict.pairs if one.verdict else min(len(usable(one.base)), len(usable(one.head)))
    limits = [limit for limit in (clause.bounds.lo, clause.bounds.hi) if math.isfinite(limit) and limit > 0]
    if found.lo <= 0 or not limits or not pairs:
        return ""
    centre, half = math.log(found.lo * found.hi) / 2, math.log(found.hi / found.lo) / 2
    distance = min(abs(centre - math.log(limit)) for limit in limits)
    more = math.ceil(pairs * (half / distance) ** 2) - pairs if distance else math.inf
    if more > MAX_PAIRS_TO_DECIDE:
        return "too close to the limit for more pairs to settle"
    return f"about {more} more pair{'s' if more != 1 else ''} would decide"


def _where(clause: Clause, found: Interval) -> Outcome:
    inside = [_inside(clause, end) for end in (found.lo, found.hi)]
    if all(inside):
        return Outcome.MET
    spans = found.lo < clause.bounds.lo and found.hi > clause.bounds.hi
    return Outcome.UNDECIDED if any(inside) or spans else Outcome.BROKEN


def _inside(clause: Clause, value: float) -> bool:
    bounds = clause.bounds
    if clause.comparison in ("<", ">"):
        return bounds.lo < value < bounds.hi
    return bounds.lo - ROUNDING <= value <= bounds.hi + ROUNDING


ROUNDING = 1e-9
"""What arithmetic may do to a ratio of values that repeat exactly."""


def _ratio(one: Compared) -> tuple[float | None, Interval | None, str]:
    """As decided; what is not judged is looked at once, as it was measured."""
    verdict = one.verdict or screen(one.series, "", "", one.base, one.head)
    if verdict.interval is not None:
        return verdict.ratio, verdict.interval, ""
    why = verdict.reason.partition(": ")[2] if verdict.ratio is not None else ""  # without the numbers, told beside it
    return verdict.ratio, None, why or verdict.reason


def _from_nothing(clause: Clause, one: Compared) -> bool:
    """Whether something is there that the base has nothing of: more than any factor of it."""
    known = one.verdict
    return clause.of_ratio and known is not None and known.base_level == 0 and (known.head_level or 0) > 0


def _level(clause: Clause, one: Compared) -> tuple[float | None, Interval | None, str]:
    """The head's level with Student's interval over its processes, on logarithms, in the unit of the clause."""
    per = scale(clause, one.series.metric.unit)
    levels = [level / per for level in settled_levels(usable(one.head), [])[0]]
    if not levels:
        return None, None, _why_nothing(one.head)
    if len(set(levels)) == 1 and _exact(one.head):
        return levels[0], Interval(levels[0], levels[0]), ""
    if min(levels) <= 0:
        return float(np.median(levels)), None, "some levels are zero or less, which have no logarithm"
    if len(levels) == 1:
        return levels[0], None, "a single process has no interval"
    logs = np.log(np.asarray(levels))
    found = paired(np.zeros_like(logs), logs)
    low, high = found.bounds()
    return math.exp(found.centre), Interval(math.exp(low), math.exp(high)), ""


def _exact(side: Sequence[Process]) -> bool:
    return len({sample for process in usable(side) for sample in process.samples}) == 1


def _why_nothing(side: Sequence[Process]) -> str:
    if not side:
        return "the head was not measured"
    if all(process.status is Status.SKIPPED for process in side):
        return f"not available: {side[0].reason or 'no reason given'}"
    if any(process.status is Status.OK for process in side):
        return "every process of the head was flagged"
    return f"the head {side[0].status.value}" + (f": {side[0].reason}" if side[0].reason else "")
