"""How asv's timing benchmarks take their samples where processes take turns: one sample is one turn.

The k-th samples of two processes that take turns were taken next to each other. That is what makes them comparable,
sample by sample, on a machine that is never the same for long; so every sample has to last long enough to be a turn.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from time import perf_counter
from typing import Any

from .turns import turns

TURN_S = 0.002
"""How long a sample lasts at least: twenty times what handing the turn over costs, and less than most moods last."""

SHARED_S = 0.5
"""How long one process takes samples, where the suite leaves it to us: about what its start and warm-up cost."""

LEAST_SAMPLES = 5
"""What asv takes by default, and no fewer: unless they last longer than asv's own limit."""


def share_turns(benchmark: Any) -> None:
    """Let the others run before every sample; where the suite leaves it to us, take samples that last a turn each."""
    if benchmark.repeat == 0 and benchmark.number == 0:
        benchmark.sample_time = min(benchmark.sample_time, TURN_S)
        benchmark.benchmark_timing = functools.partial(timing_in_turns, benchmark)
    else:
        benchmark.timer = offering(benchmark.timer)


def timing_in_turns(
    benchmark: Any, timer: Any, *_: int, max_time: float, **limits: Any
) -> tuple[list[float], int]:  # fmt: skip
    """Warm up and choose the number of calls as asv does, then take sample after sample, the others in between."""
    _, number = type(benchmark).benchmark_timing(benchmark, timer, 1, 1, max_time=max_time, **limits)
    calls = calls_in_a_turn(timer) if benchmark._setups else 1  # without hooks asv chose a number that lasts a turn
    samples: list[float] = []
    spent = 0.0
    while spent < SHARED_S or (len(samples) < LEAST_SAMPLES and spent < max_time):
        turns.offer()
        begin = perf_counter()
        samples.append(sum(timer.timeit(number) for _ in range(calls)))
        spent += perf_counter() - begin
    return samples, number * calls


def calls_in_a_turn(timer: Any) -> int:
    """How many calls, each set up anew, last a turn by the fastest of three."""
    return math.ceil(TURN_S / min(seconds_of_a_call(timer) for _ in range(3)))


def seconds_of_a_call(timer: Any) -> float:
    begin = perf_counter()
    timer.timeit(1)
    return perf_counter() - begin


def offering(read: Callable[[], float]) -> Callable[[], float]:
    """A timer that lets the others run whenever it starts: it is read at the start and at the end of what it times."""
    starts = itertools.cycle((True, False))

    def timer() -> float:
        if next(starts):
            turns.offer()
        return read()

    return timer
