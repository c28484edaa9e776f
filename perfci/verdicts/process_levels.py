"""The one number a process, a point or a benchmark is judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfci.model import ALTERNATING_FLAG, Clock, Point, Process, ResultSummary, Series, Status
from perfci.stats.location import lower_quartile, median, trimmed_mean, warmup_length

DISQUALIFYING_PREFIXES = ("throttled", "shared_gpu")
"""How the flags begin of a process that did not have the machine it was promised (DESIGN 7): shown, never judged."""

MIN_TURNS = 5
"""Turns that two processes have to share for their levels to rest on them: a fifth of them is then one sample."""

MIN_CPU_SHARE = 0.2
"""A benchmark that never computes for a fifth of its wall time waits, and CPU time would not see it get slower."""


def process_level(process: Process) -> float:
    """The level of one process, as its clock asks: CPU time can only be swollen, so its lower quartile counts."""
    return _clock_level(process.samples, process.clock)


def judged_level(point: Point) -> float | None:
    """The level of one commit: the median of its usable processes, or what a foreign tool left of it."""
    return _median_or_summary_level(select_usable(point.processes), point)


def point_level(point: Point) -> float | None:
    """The level to show: the judged one, or that of flagged processes where there are no others."""
    return _median_or_summary_level(select_displayed(point.processes), point)


def summarize_result(processes: Sequence[Process]) -> ResultSummary | None:
    """What processes came to; nothing where none of them ended well."""
    clocks = {process.clock for process in processes if process.status is Status.OK}
    if not clocks:
        return None
    clock = clocks.pop() if len(clocks) == 1 else None
    judged = select_usable(processes)
    if not judged:
        return ResultSummary(None, clock, None)
    samples = [sample for process in judged for sample in process.samples]
    return ResultSummary(_median_level(judged), clock, max(samples) - min(samples))


def select_usable(processes: Sequence[Process]) -> list[Process]:
    """Processes that ended well and that nothing is known against; other flags only tell how one was measured."""
    return [
        process for process in processes if process.status is Status.OK and not disqualifying_flags(process)
    ]


def select_disqualified(processes: Sequence[Process]) -> list[Process]:
    """Processes that ended well on a machine that was not what it promised."""
    return [process for process in processes if process.status is Status.OK and disqualifying_flags(process)]


def select_displayed(processes: Sequence[Process]) -> list[Process]:
    """The usable processes, or where all of them are flagged those that ended well."""
    return select_usable(processes) or [process for process in processes if process.status is Status.OK]


def disqualifying_flags(process: Process) -> list[str]:
    """What is known against a process that ended well."""
    return [flag for flag in process.flags if flag.startswith(DISQUALIFYING_PREFIXES)]


def steady_levels(base: Sequence[Process], head: Sequence[Process]) -> tuple[list[float], list[float]]:
    """Levels of both sides after dropping the warm-up that all their processes share.

    Two processes that took turns have their levels over the turns they shared: the machine's mood is then the same in
    both, sample by sample, and a mean keeps it so where a quartile of each would take its own part of it.
    """
    cut = warmup_length([process.samples for process in (*base, *head)])
    shared = _shared_turns(base, head)

    def level(process: Process) -> float:
        turns = shared.get(process.pair)
        return (
            _clock_level(process.samples[cut:], process.clock)
            if turns is None
            else trimmed_mean(process.samples[:turns])
        )

    return [level(process) for process in base], [level(process) for process in head]


def _shared_turns(base: Sequence[Process], head: Sequence[Process]) -> dict[int | None, int]:
    """How many samples the sides of a pair took in turns, where they are times and enough of them to trim."""
    sides = [
        {process.pair: len(process.samples) for process in side if _has_alternated(process)}
        for side in (base, head)
    ]
    turns = {pair: min(sides[0][pair], sides[1][pair]) for pair in sides[0].keys() & sides[1].keys()}
    return {pair: count for pair, count in turns.items() if count >= MIN_TURNS}


def _has_alternated(process: Process) -> bool:
    timed = process.clock in (Clock.CPU, Clock.WALL, Clock.DEVICE)
    return timed and process.pair is not None and ALTERNATING_FLAG in process.flags


def steady_level(side: Sequence[Process]) -> float | None:
    """The median level of one side's usable processes; None where there are none."""
    levels = steady_levels(select_usable(side), [])[0]
    return median(levels) if levels else None


def is_cpu_bound(cpu: Sequence[Process], wall: Sequence[Process]) -> bool:
    """Whether CPU time tells the story: False for a benchmark that mostly sleeps or waits for input and output."""
    cpu_samples = [sample for process in cpu if process.status is Status.OK for sample in process.samples]
    wall_samples = [sample for process in wall if process.status is Status.OK for sample in process.samples]
    shares = [c / w for c, w in zip(cpu_samples, wall_samples, strict=False) if w > 0]
    return not shares or max(shares) >= MIN_CPU_SHARE


def is_clearly_cpu_bound(cpu: Mapping[int, float], wall: Mapping[int, float]) -> bool:
    """Whether levels at some commit show it already: were the share of every sample small, theirs would be."""
    return any(
        level >= MIN_CPU_SHARE * wall[commit] for commit, level in cpu.items() if wall.get(commit, 0) > 0
    )


def key_without_metric(series: Series) -> tuple[object, ...]:
    """All of a series but its metric: what metrics of one process share."""
    return (series.benchmark, series.parameters, series.machine, series.variant, series.harness)


def _median_or_summary_level(processes: Sequence[Process], point: Point) -> float | None:
    if processes:
        return _median_level(processes)
    return point.summary.value if point.summary else None


def _median_level(processes: Sequence[Process]) -> float:
    levels = [process_level(process) for process in processes]
    return levels[0] if len(levels) == 1 else median(levels)


def _clock_level(samples: Sequence[float], clock: Clock) -> float:
    return lower_quartile(samples) if clock is Clock.CPU else median(samples)
