"""One verdict over all benchmarks of a change: 1 or 2 % everywhere, which no benchmark alone could show.

It is a screening and stands beside the verdicts: it hides none of them, and no check turns red for it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from perfci.model import Interval, MetricClass, Series, Stage
from perfci.stats.location_shift import Shift
from perfci.stats.random_effects import Pool, mostly_one_sided, pool
from perfci.verdicts.policy import Policy
from perfci.verdicts.process_levels import place_of

TIMES = (MetricClass.TIME, MetricClass.THROUGHPUT)
"""What is pooled: time and work over time, which is time upside down. Memory and counts repeat and need no pooling."""

MIN_BENCHMARKS = 5
"""The sign test speaks from five on: four of four on one side come about by chance once in sixteen."""

BAR_SHARE = 0.2
"""The bar of the mean as a share of the bar of one benchmark: 1 % of 5 %.

One benchmark is convicted where half its bar is excluded; the mean of five is known the square root of five better,
and half a bar over that is 0.22 of a bar.
"""


class PooledKind(StrEnum):
    """What all benchmarks together can say."""

    WORSE = "worse_everywhere"
    BETTER = "better_everywhere"
    NO_SHIFT = "no_shift"
    INCONCLUSIVE = "inconclusive"
    TOO_FEW = "too_few"


@dataclass(frozen=True, slots=True)
class PooledVerdict:
    """``ratio`` is the geometric mean of head/base in cost: 1.02 = 2 % worse, for throughput too.

    ``between`` is how far the true shifts of the benchmarks lie apart (one standard deviation, 0.01 = 1 %) and
    ``agreeing`` how many of them moved the way the mean did.
    """

    kind: PooledKind
    benchmarks: int
    bar: float
    ratio: float | None = None
    interval: Interval | None = None
    between: float | None = None
    agreeing: int = 0
    stage: Stage = Stage.SCREENING
    reason: str = ""

    @property
    def is_finding(self) -> bool:
        """Whether somebody should look at it."""
        return self.kind in (PooledKind.WORSE, PooledKind.BETTER)


@dataclass(frozen=True, slots=True)
class Member:
    """What one benchmark contributes: a log shift in cost, and its standard error."""

    centre: float
    error: float


def pooled_verdict(found: Iterable[tuple[Series, Shift]], policy: Policy) -> PooledVerdict:
    """Pool what was found of the series that measure time, every benchmark counting once."""
    timed = [(series, shift) for series, shift in found if policy.class_of(series) in TIMES]
    return pooled(members_of(timed), policy.default.bar)


def members_of(found: Iterable[tuple[Series, Shift]]) -> list[Member]:
    """One member per benchmark.

    The metrics of one process share its luck, so their errors are averaged as if they were one; the points of a grid
    are measured in processes of their own, so theirs average out.
    """
    cells: dict[str, dict[tuple[object, ...], list[Shift]]] = defaultdict(lambda: defaultdict(list))
    for series, shift in found:
        if _is_known(shift):
            cells[series.benchmark.name][place_of(series)].append(shift)
    return [_member([_of_one_process(shifts) for shifts in places.values()]) for places in cells.values()]


def members_alone(found: Iterable[Shift]) -> list[Member]:
    """Shifts of which each is a benchmark of its own."""
    return [_of_one_process([shift]) for shift in found if _is_known(shift)]


def pooled(members: Sequence[Member], rule_bar: float) -> PooledVerdict:
    """Worse or better everywhere where the mean passes its bar, its interval excludes 0 and most benchmarks agree."""
    bar = BAR_SHARE * rule_bar
    if len(members) < MIN_BENCHMARKS:
        few = f"{len(members)} of at least {MIN_BENCHMARKS} benchmarks have a time with an interval"
        return PooledVerdict(PooledKind.TOO_FEW, len(members), bar, reason=f"Nothing to pool: {few}.")
    centres = [member.centre for member in members]
    found = pool(centres, [member.error for member in members])
    low, high = found.bounds()
    agreeing = sum(centre * found.centre > 0 for centre in centres)
    kind = _kind(found, math.log1p(bar), one_sided=mostly_one_sided(centres))
    return PooledVerdict(
        kind,
        len(members),
        bar,
        ratio=math.exp(found.centre),
        interval=Interval(math.exp(low), math.exp(high)),
        between=math.expm1(found.between),
        agreeing=agreeing,
        reason=_reason(kind, found, bar, len(members), agreeing),
    )


def _is_known(shift: Shift) -> bool:
    return shift.df > 0 and math.isfinite(shift.error) and shift.error > 0


def _of_one_process(shifts: Sequence[Shift]) -> Member:
    """What other readings of the pairs leave open is error too."""
    count = len(shifts)
    errors = [math.hypot(shift.error, (shift.below + shift.above) / 2) for shift in shifts]
    return Member(sum(shift.centre for shift in shifts) / count, sum(errors) / count)


def _member(cells: Sequence[Member]) -> Member:
    count = len(cells)
    return Member(sum(one.centre for one in cells) / count, math.hypot(*(one.error for one in cells)) / count)


def _kind(found: Pool, bar: float, *, one_sided: bool) -> PooledKind:
    low, high = found.bounds()
    if found.centre >= bar and low > 0 and one_sided:
        return PooledKind.WORSE
    if found.centre <= -bar and high < 0 and one_sided:
        return PooledKind.BETTER
    return PooledKind.NO_SHIFT if -bar < low and high < bar else PooledKind.INCONCLUSIVE


def _reason(kind: PooledKind, found: Pool, bar: float, count: int, agreeing: int) -> str:
    low, high = (math.expm1(bound) for bound in found.bounds())
    told = f"{math.expm1(found.centre):+.1%} in cost over {count} benchmarks, interval {low:+.1%} to {high:+.1%}"
    if kind is PooledKind.NO_SHIFT:
        return f"{told}: inside {bar:.1%} either way."
    if kind is PooledKind.INCONCLUSIVE:
        return f"{told}, {agreeing} of them this way: neither all one way beyond {bar:.1%} nor all inside it."
    return f"{told}, {agreeing} of them this way: beyond the bar of {bar:.1%} for all together."
