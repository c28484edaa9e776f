"""Selection of the series that get a verdict; the others are informational and shown beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from perfci.model import CPU_METRIC_PREFIX, Clock, Process, Series, Status
from perfci.verdicts.process_levels import is_cpu_bound

ProcessesByCommit = dict[str, list[Process]]
"""Processes of one series by sha."""

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
    return select_judged_by_status(
        collect_statuses_and_clocks(processes),
        lambda cpu, wall: is_cpu_bound(processes[cpu], processes[wall]),
    )


def select_judged_by_status(
    statuses: StatusesBySeries, computes: Callable[[Series, Series], bool]
) -> list[Series]:
    """Judged series from statuses alone; ``computes`` says of CPU time and its wall twin whether
    the benchmark computes."""
    twins = pair_cpu_with_wall_series(statuses)
    waiting = {cpu for cpu, wall in twins.items() if not computes(cpu, wall)}
    informational = waiting | {wall for cpu, wall in twins.items() if cpu not in waiting}
    available = {
        series.key_without_metric
        for series, ends in statuses.items()
        if any(status is Status.OK for status, _ in ends)
    }
    judged = []
    for series, ends in statuses.items():
        usable_clocks = {clock for status, clock in ends if status is Status.OK}
        if series in informational or usable_clocks == {Clock.INFORMATIONAL}:
            continue
        # every process that reached this metric could not read it, beside others it returned
        is_unavailable = not usable_clocks and any(status is Status.SKIPPED for status, _ in ends)
        if not (is_unavailable and series.key_without_metric in available):
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


def group_judged_by_commit(
    measured: Mapping[str, Iterable[tuple[Series, Process]]],
) -> dict[Series, ProcessesByCommit]:
    """Judged series with their processes by commit."""
    processes: dict[Series, ProcessesByCommit] = {}
    for sha, rows in measured.items():
        for series, process in rows:
            processes.setdefault(series, {}).setdefault(sha, []).append(process)
    pooled = {
        series: [process for commit_processes in by_sha.values() for process in commit_processes]
        for series, by_sha in processes.items()
    }
    twins = pair_cpu_with_wall_series(collect_statuses_and_clocks(pooled))
    return {
        series: _add_failures(processes[series], processes[twins[series]])
        if series in twins
        else processes[series]
        for series in select_judged_series(pooled)
    }


def _add_failures(cpu: ProcessesByCommit, wall: ProcessesByCommit) -> ProcessesByCommit:
    """Add failed processes to the CPU series: one that returned nothing is stored under the metric
    it was to return only."""
    merged = {sha: list(processes) for sha, processes in cpu.items()}
    for sha, processes in wall.items():
        failed = [
            replace(process, clock=Clock.CPU) for process in processes if process.status is not Status.OK
        ]
        new = [process for process in failed if process not in cpu.get(sha, ())]
        if new:
            merged[sha] = merged.get(sha, []) + new
    return merged
