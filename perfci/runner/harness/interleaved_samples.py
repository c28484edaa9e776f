"""Take the samples of asv's timing benchmarks in turns: one sample is one turn.

The k-th samples of two processes that take turns were taken next to each other. That is what makes them
comparable, sample by sample, on a machine that is never the same for long; so every sample has to last long
enough to be a turn.
"""

from __future__ import annotations

import functools
import math
from time import perf_counter
from typing import Any

from .turn_slots import process_turns

MIN_SAMPLE_S = 0.005
"""How long a sample lasts at least. Shorter ones follow the machine closer, but the first call of each
finds cold caches: of a training step's +12 %, turns of 0.5 ms showed 8, of 2 ms 10.5 and of 5 ms all.
"""

SAMPLING_BUDGET_S = 0.5
"""Seconds one process samples at most, where the suite sets no limit: about as long as its start-up."""

TARGET_HALF_WIDTH = 0.0125
"""Half of the 95 % interval of their median, relative to it, at which samples suffice: a quarter of the 5 %
that verdicts are about, as for the blocks of ``perfci.bench.timers.timed_blocks``.
"""

MIN_JUDGED_SAMPLES = 30
"""Checked only from here on: an interval between order statistics of fewer is mostly luck."""

MIN_SAMPLES = 5
"""What asv takes by default, and no fewer: unless they last longer than asv's own limit."""


def enable_interleaved_sampling(benchmark: Any) -> None:
    """Offer a turn before every sample; where the suite sets no number, a sample lasts one turn."""
    if benchmark.number == 0:
        benchmark.sample_time = min(benchmark.sample_time, MIN_SAMPLE_S)
    benchmark.benchmark_timing = functools.partial(take_interleaved_samples, benchmark)


def take_interleaved_samples(
    benchmark: Any, timer: Any, min_repeat: int, max_repeat: int, *, max_time: float, **limits: Any
) -> tuple[list[float], int]:
    """Warm up and choose the number of calls as asv does, then take samples, one per turn.

    All take the same number of calls: the first one of a turn finds cold caches, and a mean over twice as
    many calls would be less of it.
    """
    # By the class: on the instance the method is this very function.
    _, number = type(benchmark).benchmark_timing(benchmark, timer, 1, 1, max_time=max_time, **limits)
    # Then asv times single calls, each set up anew.
    single_calls = benchmark.number == 0 and benchmark._setups
    calls = process_turns.agree_on_number(choose_calls_per_turn(timer) if single_calls else 1)
    number = process_turns.agree_on_number(number)
    samples: list[float] = []
    spent = 0.0
    while not has_enough_samples(benchmark, samples, spent, (min_repeat, max_repeat, max_time)):
        process_turns.offer_turn()
        begin = perf_counter()
        samples.append(sum(timer.timeit(number) for _ in range(calls)))
        spent += perf_counter() - begin
    return samples, number * calls


def has_enough_samples(
    benchmark: Any, samples: list[float], spent_s: float, limits: tuple[int, int, float]
) -> bool:
    """As the suite asks; where it leaves it to us, when the median is known or its time is over."""
    min_repeat, max_repeat, max_time = limits
    if benchmark.repeat != 0:
        return len(samples) >= max_repeat or (len(samples) >= min_repeat and spent_s >= max_time)
    if len(samples) < MIN_SAMPLES:
        return spent_s >= max_time
    return spent_s >= SAMPLING_BUDGET_S or is_median_precise(samples)


def is_median_precise(samples: list[float]) -> bool:
    """Whether the 95 % interval of the median lies within ``TARGET_HALF_WIDTH`` of it.

    Their ranks are those of the binomial by its normal limit (Conover, *Practical Nonparametric
    Statistics*, 3.2).
    """
    count = len(samples)
    if count < MIN_JUDGED_SAMPLES:
        return False
    ordered = sorted(samples)
    reach = math.ceil(0.98 * math.sqrt(count))
    return (
        ordered[count // 2 + reach] - ordered[count // 2 - reach]
        <= 2 * TARGET_HALF_WIDTH * ordered[count // 2]
    )


def choose_calls_per_turn(timer: Any) -> int:
    """How many calls, each set up anew, last a turn by the fastest of three."""
    return math.ceil(MIN_SAMPLE_S / min(time_single_call(timer) for _ in range(3)))


def time_single_call(timer: Any) -> float:
    begin = perf_counter()
    timer.timeit(1)
    return perf_counter() - begin
