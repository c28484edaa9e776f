"""Which of the series that were measured a verdict is given on; the rest are witnesses, shown beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from perfci.model import CPU_TWIN, Clock, Process, Series, Status
from perfci.verdicts.process_levels import cpu_bound, place_of

ByCommit = dict[str, list[Process]]

Reading = tuple[Status, Clock]
"""How a process ended, and what its samples were read from: all that gating asks of most of them."""

Readings = Mapping[Series, Collection[Reading]]


def gated(processes: Mapping[Series, Sequence[Process]]) -> list[Series]:
    """The judged series, in the order given.

    A metric that was read with two clocks is judged by its CPU time, except where the benchmark mostly waits for it.
    What was declared a witness is never judged, nor what no process could read beside other metrics it gave.
    """
    return gated_readings(readings_of(processes), lambda cpu, wall: cpu_bound(processes[cpu], processes[wall]))


def gated_readings(readings: Readings, bound: Callable[[Series, Series], bool]) -> list[Series]:
    """The same of what is known without samples; ``bound`` says of CPU time and its wall twin whether it computes."""
    twins = cpu_twins(readings)
    waiting = {cpu for cpu, wall in twins.items() if not bound(cpu, wall)}
    witnesses = waiting | {wall for cpu, wall in twins.items() if cpu not in waiting}
    gave = {place_of(series) for series, given in readings.items() if _gave(given)}
    return [
        series
        for series, given in readings.items()
        if series not in witnesses and not _only_a_witness(given) and not (place_of(series) in gave and _absent(given))
    ]


def readings_of(processes: Mapping[Series, Iterable[Process]]) -> dict[Series, set[Reading]]:
    return {series: {(one.status, one.clock) for one in given} for series, given in processes.items()}


def cpu_twins(readings: Readings) -> dict[Series, Series]:
    """The series of CPU seconds, each with the series that the same processes read with another clock."""
    named = [series for series in readings if series.metric.name.startswith(CPU_TWIN)]
    if not named:
        return {}
    places = {(place_of(series), series.metric.name): series for series in readings}
    found = {}
    for series in named:
        wall = places.get((place_of(series), series.metric.name.removeprefix(CPU_TWIN)))
        if wall is not None and _read_from_the_cpu_clock(readings[series]):
            found[series] = wall
    return found


def gated_by_commit(measured: Mapping[str, Iterable[tuple[Series, Process]]]) -> dict[Series, ByCommit]:
    """Turn what each commit gave into the judged series with their processes by commit."""
    found: dict[Series, ByCommit] = {}
    for sha, rows in measured.items():
        for series, process in rows:
            found.setdefault(series, {}).setdefault(sha, []).append(process)
    together = {series: [process for one in by_sha.values() for process in one] for series, by_sha in found.items()}
    twins = cpu_twins(readings_of(together))
    return {
        series: _with_failures(found[series], found[twins[series]]) if series in twins else found[series]
        for series in gated(together)
    }


def _with_failures(cpu: ByCommit, wall: ByCommit) -> ByCommit:
    """A process that gave nothing is known only under the metric it was to give: CPU seconds fail with it."""
    together = {sha: list(processes) for sha, processes in cpu.items()}
    for sha, processes in wall.items():
        failed = [replace(process, clock=Clock.CPU) for process in processes if not _ended_well(process)]
        new = [process for process in failed if process not in cpu.get(sha, ())]
        if new:
            together[sha] = together.get(sha, []) + new
    return together


def _read_from_the_cpu_clock(given: Collection[Reading]) -> bool:
    """By the clock of the processes; a summary from elsewhere has only its name to go by."""
    return not given or any(clock is Clock.CPU for _, clock in given)


def _only_a_witness(given: Collection[Reading]) -> bool:
    return {clock for status, clock in given if status is Status.OK} == {Clock.WITNESS}


def _absent(given: Collection[Reading]) -> bool:
    """Whether every process that got as far as this metric could not read it."""
    return not _gave(given) and any(status is Status.SKIPPED for status, _ in given)


def _gave(given: Collection[Reading]) -> bool:
    return any(status is Status.OK for status, _ in given)


def _ended_well(process: Process) -> bool:
    return process.status is Status.OK
