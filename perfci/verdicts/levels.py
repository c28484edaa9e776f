"""The one number a process, a point or a benchmark is judged by."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.model import Clock, Point, Process, Series, Status
from perfci.stats.location import lower_quartile, median, warmup_length

JUDGED_TIME = "cpu_time"
"""Where both clocks were read, CPU time is judged and wall time is shown beside it (DESIGN 7)."""

MIN_CPU_SHARE = 0.2
"""A benchmark that never computes for a fifth of its wall time waits, and CPU time would not see it get slower."""


def process_level(process: Process) -> float:
    """The level of one process, as its clock asks: CPU time can only be swollen, so its lower quartile counts."""
    return _level(process.samples, process.clock)


def point_level(point: Point) -> float | None:
    """The level of one commit: the median of its processes, or what a foreign tool left of it."""
    levels = [process_level(process) for process in point.processes if process.status is Status.OK]
    if levels:
        return median(levels)
    return point.summary.value if point.summary else None


def settled_levels(base: Sequence[Process], head: Sequence[Process]) -> tuple[list[float], list[float]]:
    """Levels of both sides after dropping the warm-up that all their processes share."""
    cut = warmup_length([process.samples for process in (*base, *head)])
    sides = [[_level(process.samples[cut:], process.clock) for process in side] for side in (base, head)]
    return sides[0], sides[1]


def judged(series: Sequence[Series]) -> list[Series]:
    """The series a verdict is given on; the others are witnesses, shown beside them."""
    with_cpu = {place_of(one) for one in series if one.metric.name == JUDGED_TIME}
    return [one for one in series if not (_is_time(one) and place_of(one) in with_cpu)]


def cpu_bound(cpu: Sequence[Process], wall: Sequence[Process]) -> bool:
    """Whether CPU time tells the story: False for a benchmark that mostly sleeps or waits for input and output."""
    cpu_samples = [sample for process in cpu if process.status is Status.OK for sample in process.samples]
    wall_samples = [sample for process in wall if process.status is Status.OK for sample in process.samples]
    shares = [c / w for c, w in zip(cpu_samples, wall_samples, strict=False) if w > 0]
    return not shares or max(shares) >= MIN_CPU_SHARE


def _level(samples: Sequence[float], clock: Clock) -> float:
    return lower_quartile(samples) if clock is Clock.CPU else median(samples)


def _is_time(series: Series) -> bool:
    """Whether this is the other clock: a benchmark that is read with two has one metric in seconds beside CPU time."""
    return series.metric.unit == "seconds" and series.metric.name != JUDGED_TIME


def place_of(series: Series) -> tuple[object, ...]:
    """All of a series but its metric: what metrics of one process share."""
    return (series.benchmark, series.parameters, series.machine, series.variant, series.harness)
