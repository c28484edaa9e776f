"""Pooled verdict over all benchmarks of a change: 1 or 2 % everywhere, which no benchmark alone
could show.

It is a screening beside the other verdicts: it hides none of them, and no check turns red for it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scipy.special import stdtrit

from perfci.model import Interval, MetricClass, Series
from perfci.number_format import format_percent, format_signed_percent
from perfci.stats.binomial_statistics import passes_sign_test
from perfci.stats.location_shift import Shift
from perfci.stats.random_effects import PooledShift, pool_shifts
from perfci.verdicts.judging_policy import Policy

POOLED_CLASSES = (MetricClass.TIME, MetricClass.THROUGHPUT)
"""Pooled metric classes: time, and throughput, its inverse. Memory and counts repeat and need no
pooling."""

MIN_BENCHMARKS = 5
"""Benchmarks the sign test needs: four of four on one side come about by chance once in sixteen."""

POOLED_BAR_SHARE = 0.2
"""Bar of the mean as a share of the bar of one benchmark: 1 % of 5 %.

One benchmark is confirmed where half its bar is excluded; the mean of five is known sqrt(5) times
better, and half a bar over that is 0.22 of a bar.
"""


class PooledKind(StrEnum):
    """Outcomes of pooling."""

    WORSE = "worse_everywhere"
    BETTER = "better_everywhere"
    NO_SHIFT = "no_shift"
    INCONCLUSIVE = "inconclusive"
    TOO_FEW = "too_few"


@dataclass(frozen=True, slots=True)
class PooledVerdict:
    """``ratio`` is the geometric mean of head/base in cost: 1.02 = 2 % worse, for throughput too.

    ``between_sd`` is the standard deviation of the true shifts between benchmarks (0.01 = 1 %),
    ``agreeing`` how many moved the way the mean did.
    """

    kind: PooledKind
    benchmarks: int
    bar: float
    ratio: float | None = None
    interval: Interval | None = None
    between_sd: float | None = None
    agreeing: int = 0
    reason: str = ""

    @property
    def shows_change(self) -> bool:
        """Whether all benchmarks together moved."""
        return self.kind in (PooledKind.WORSE, PooledKind.BETTER)


@dataclass(frozen=True, slots=True)
class BenchmarkShift:
    """Log shift in cost of one benchmark, and its standard error."""

    centre: float
    error: float


def pooled_verdict_of_series(shifts: Iterable[tuple[Series, Shift]], policy: Policy) -> PooledVerdict:
    """Pool the shifts of all series that measure time, every benchmark counting once."""
    timed = [(series, shift) for series, shift in shifts if policy.metric_class_of(series) in POOLED_CLASSES]
    return pooled_verdict_of_benchmarks(average_shifts_by_benchmark(timed), policy.default.bar)


def average_shifts_by_benchmark(series_shifts: Iterable[tuple[Series, Shift]]) -> list[BenchmarkShift]:
    """One shift per benchmark.

    Metrics of one process share its luck, so their errors are averaged as if they were one; the
    points of a parameter grid are independent processes, so their errors average out.
    """
    cells: dict[str, dict[tuple[object, ...], list[Shift]]] = defaultdict(lambda: defaultdict(list))
    for series, shift in series_shifts:
        if _has_known_error(shift):
            cells[series.benchmark.name][series.key_without_metric].append(shift)
    averages = []
    for shifts_by_cell in cells.values():
        means = [_average_within_process(shifts) for shifts in shifts_by_cell.values()]
        centre = sum(mean.centre for mean in means) / len(means)
        averages.append(BenchmarkShift(centre, math.hypot(*(mean.error for mean in means)) / len(means)))
    return averages


def convert_to_benchmark_shifts(shifts: Iterable[Shift]) -> list[BenchmarkShift]:
    """Benchmark shifts from shifts that are one benchmark each."""
    return [_average_within_process([shift]) for shift in shifts if _has_known_error(shift)]


def pooled_verdict_of_benchmarks(benchmarks: Sequence[BenchmarkShift], rule_bar: float) -> PooledVerdict:
    """Worse or better everywhere if the mean passes its bar, its interval excludes 0 and most
    benchmarks agree."""
    bar = POOLED_BAR_SHARE * rule_bar
    if len(benchmarks) < MIN_BENCHMARKS:
        too_few = f"{len(benchmarks)} of at least {MIN_BENCHMARKS} benchmarks have a time with an interval"
        return PooledVerdict(PooledKind.TOO_FEW, len(benchmarks), bar, reason=f"Nothing to pool: {too_few}.")
    centres = [member.centre for member in benchmarks]
    pool = pool_shifts(centres, [member.error for member in benchmarks])
    low, high = pool.bounds()
    agreeing = sum(centre * pool.centre > 0 for centre in centres)
    kind = _pooled_kind(pool, math.log1p(bar), one_sided=passes_sign_test(centres))
    return PooledVerdict(
        kind,
        len(benchmarks),
        bar,
        ratio=math.exp(pool.centre),
        interval=Interval(math.exp(low), math.exp(high)),
        between_sd=math.expm1(pool.between_sd),
        agreeing=agreeing,
        reason=_pooled_reason(kind, pool, bar, len(benchmarks), agreeing),
    )


def _has_known_error(shift: Shift) -> bool:
    return shift.df > 0 and math.isfinite(shift.error) and shift.error > 0


def _average_within_process(shifts: Sequence[Shift]) -> BenchmarkShift:
    """Mean shift and mean error; what the modes leave open counts as error."""
    count = len(shifts)
    errors = [shift.half_width() / -float(stdtrit(shift.df, 0.025)) for shift in shifts]
    return BenchmarkShift(sum(shift.centre for shift in shifts) / count, sum(errors) / count)


def _pooled_kind(pool: PooledShift, bar: float, *, one_sided: bool) -> PooledKind:
    low, high = pool.bounds()
    if pool.centre >= bar and low > 0 and one_sided:
        return PooledKind.WORSE
    if pool.centre <= -bar and high < 0 and one_sided:
        return PooledKind.BETTER
    return PooledKind.NO_SHIFT if -bar < low and high < bar else PooledKind.INCONCLUSIVE


def _pooled_reason(kind: PooledKind, pool: PooledShift, bar: float, count: int, agreeing: int) -> str:
    low, high = (math.expm1(bound) for bound in pool.bounds())
    text = (
        f"{format_signed_percent(math.expm1(pool.centre))} in cost over {count} benchmarks, "
        f"interval {format_signed_percent(low)} to {format_signed_percent(high)}"
    )
    if kind is PooledKind.NO_SHIFT:
        return f"{text}: inside {format_percent(bar)} either way."
    if kind is PooledKind.INCONCLUSIVE:
        conclusion = f"neither all one way beyond {format_percent(bar)} nor all inside it"
    else:
        conclusion = f"beyond the threshold of {format_percent(bar)} for all together"
    return f"{text}, {agreeing} of them this way: {conclusion}."
