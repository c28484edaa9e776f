"""Levels: the one number by which a process, a point or a benchmark is judged."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles

from perfci.model import ALTERNATING_FLAG, Clock, Point, Process, SampleSummary
from perfci.stats.location_estimates import lower_quartile, trimmed_mean
from perfci.stats.warmup_length import warmup_length
from perfci.verdicts.usable_processes import select_displayed_processes, select_usable_processes

MIN_TURNS = 5
"""Turns two processes must share for their levels to rest on them: a fifth of them, the trim, is
then one sample."""


def process_level(process: Process, warmup: int = 0) -> float:
    """Level of one process without its first ``warmup`` samples.

    The lower quartile of CPU time, which is only ever inflated, else the median.
    """
    samples = process.samples[warmup:]
    return lower_quartile(samples) if process.clock is Clock.CPU else float(median(samples))


def displayed_point_level(point: Point) -> float | None:
    """Level of one commit to show: the median of its usable processes, or of flagged ones if there are no
    others, or a foreign tool's summary."""
    processes = select_displayed_processes(point.processes)
    if processes:
        return median([process_level(process) for process in processes])
    return point.summary.value if point.summary else None


def displayed_point_spread(point: Point, level: float) -> tuple[float, float]:
    """Interquartile range of the processes around a displayed level; of a foreign tool's summary its
    quartiles or interval."""
    levels = [process_level(process) for process in select_displayed_processes(point.processes)]
    if len(levels) >= 2:
        quartiles = quantiles(levels, n=4, method="inclusive")
        return min(quartiles[0], level), max(quartiles[2], level)
    if point.summary and not levels:
        return summary_spread(point.summary, level)
    return level, level


def summary_spread(summary: SampleSummary, level: float) -> tuple[float, float]:
    """Quartiles or interval of a foreign tool's summary, around its level."""
    lo = summary.q25 if summary.q25 is not None else summary.ci_lo
    hi = summary.q75 if summary.q75 is not None else summary.ci_hi
    return (level if lo is None else min(lo, level)), (level if hi is None else max(hi, level))


def steady_levels(base: Sequence[Process], head: Sequence[Process]) -> tuple[list[float], list[float]]:
    """Levels of both sides without the warm-up that all their processes share.

    Two processes that alternated get trimmed means over their shared samples: the drift of the
    machine is then common to both, sample by sample, and a mean keeps it so, where quartiles would
    not.
    """
    cut = warmup_length([process.samples for process in (*base, *head)])
    shared = _shared_turns(base, head)

    def level(process: Process) -> float:
        turns = shared.get(process.pair)
        return process_level(process, cut) if turns is None else trimmed_mean(process.samples[:turns])

    return [level(process) for process in base], [level(process) for process in head]


def _shared_turns(base: Sequence[Process], head: Sequence[Process]) -> dict[int | None, int]:
    """Number of samples both processes of a pair took in turns, for timed pairs with enough to
    trim."""
    sides: list[dict[int | None, int]] = []
    for side in (base, head):
        timed = [process for process in side if process.clock in (Clock.CPU, Clock.WALL, Clock.DEVICE)]
        in_turns = [process for process in timed if ALTERNATING_FLAG in process.flags]
        sides.append({process.pair: len(process.samples) for process in in_turns if process.pair is not None})
    turns = {pair: min(sides[0][pair], sides[1][pair]) for pair in sides[0].keys() & sides[1].keys()}
    return {pair: count for pair, count in turns.items() if count >= MIN_TURNS}


def steady_level(side: Sequence[Process]) -> float | None:
    """Median level of one side's usable processes; None if there are none."""
    levels = steady_levels(select_usable_processes(side), [])[0]
    return median(levels) if levels else None
