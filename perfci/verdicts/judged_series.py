"""Judged series: which of the measured series get a verdict.

A metric that was read with two clocks is judged by one of them. Series that get no verdict are informational
and shown beside the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from perfci.model import CPU_METRIC_PREFIX, Clock, Process, Series, Status
from perfci.verdicts.cpu_time_share import is_cpu_bound

StatusAndClock = tuple[Status, Clock]
"""How a process ended and what its samples were read from: all that selection needs of most
processes."""

StatusesBySeries = Mapping[Series, Collection[StatusAndClock]]
"""Statuses and clocks of each series' processes."""


def select_judged_series(processes: Mapping[Series, Sequence[Process]]) -> list[Series]:
    """Judged series, in the order given.

    A metric read with two clocks is judged by its CPU time, unless the benchmark mostly waits.
    Informational metrics are never judged, nor a metric that no process could read beside others it
    returned.
    """
    return select_judged_series_by_status(
        collect_statuses_and_clocks(processes),
        lambda wall_by_cpu: {
            cpu for cpu, wall in wall_by_cpu.items() if not is_cpu_bound(processes[cpu], processes[wall])
        },
    )


def select_judged_series_by_status(
    statuses: StatusesBySeries, select_waiting: Callable[[Mapping[Series, Series]], Collection[Series]]
) -> list[Series]:
    """Judged series from statuses alone.

    ``select_waiting`` gets the series of CPU time, each with its wall twin, and returns those whose
    benchmark mostly waits.
    """
    wall_by_cpu = pair_cpu_with_wall_series(statuses)
    waiting = select_waiting(wall_by_cpu) if wall_by_cpu else ()
    informational = {cpu if cpu in waiting else wall for cpu, wall in wall_by_cpu.items()}
    usable_clocks = {
        series: {clock for status, clock in ends if status is Status.OK} for series, ends in statuses.items()
    }
    measured_cells: set[object] = set()
    # asked for only where a series has no value, and its key is slow to compute
    if not all(usable_clocks.values()):
        measured_cells = {series.key_without_metric for series, clocks in usable_clocks.items() if clocks}
    judged = []
    for series, clocks in usable_clocks.items():
        if series in informational or clocks == {Clock.INFORMATIONAL}:
            continue
        # every process that reached this metric could not read it, beside others it returned
        is_unavailable = not clocks and any(status is Status.SKIPPED for status, _ in statuses[series])
        if not (is_unavailable and series.key_without_metric in measured_cells):
            judged.append(series)
    return judged


def collect_statuses_and_clocks(
    processes: Mapping[Series, Iterable[Process]],
) -> dict[Series, set[StatusAndClock]]:
    """Statuses and clocks of each series."""
    return {
        series: {(process.status, process.clock) for process in ends} for series, ends in processes.items()
    }


def pair_cpu_with_wall_series(statuses: StatusesBySeries) -> dict[Series, Series]:
    """Series of CPU seconds, each with the series the same processes read with another clock."""
    cpu_series = [series for series in statuses if series.metric.name.startswith(CPU_METRIC_PREFIX)]
    if not cpu_series:
        return {}
    series_by_key = {(series.key_without_metric, series.metric.name): series for series in statuses}
    twins = {}
    for series in cpu_series:
        wall = series_by_key.get(
            (series.key_without_metric, series.metric.name.removeprefix(CPU_METRIC_PREFIX))
        )
        # a summary without processes is trusted by its name
        clocks = {clock for _, clock in statuses[series]}
        if wall is not None and (not clocks or Clock.CPU in clocks):
            twins[series] = wall
    return twins
