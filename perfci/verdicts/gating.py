"""Which of the series that were measured a verdict is given on; the rest are witnesses, shown beside them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from perfci.model import CPU_TWIN, Clock, Process, Series, Status
from perfci.verdicts.levels import cpu_bound, place_of

ByCommit = dict[str, list[Process]]


def gated(processes: Mapping[Series, Sequence[Process]]) -> list[Series]:
    """The judged series, in the order given.

    A metric that was read with two clocks is judged by its CPU time, except where the benchmark mostly waits for it.
    What was declared a witness is never judged, nor what no process could read beside other metrics it gave.
    """
    twins = cpu_twins(processes)
    waiting = {cpu for cpu, wall in twins.items() if not cpu_bound(processes[cpu], processes[wall])}
    witnesses = waiting | {wall for cpu, wall in twins.items() if cpu not in waiting}
    gave = {place_of(series) for series, given in processes.items() if any(map(_ended_well, given))}
    return [
        series
        for series, given in processes.items()
        if series not in witnesses and not _only_a_witness(given) and not (place_of(series) in gave and _absent(given))
    ]


def cpu_twins(processes: Mapping[Series, Sequence[Process]]) -> dict[Series, Series]:
    """The series of CPU seconds, each with the series that the same processes read with another clock."""
    places = {(place_of(series), series.metric.name): series for series in processes}
    found = {}
    for series, given in processes.items():
        name = series.metric.name
        wall = places.get((place_of(series), name.removeprefix(CPU_TWIN)))
        if name.startswith(CPU_TWIN) and wall is not None and _read_from_the_cpu_clock(given):
            found[series] = wall
    return found


def gated_by_commit(measured: Mapping[str, Iterable[tuple[Series, Process]]]) -> dict[Series, ByCommit]:
    """Turn what each commit gave into the judged series with their processes by commit."""
    found: dict[Series, ByCommit] = {}
    for sha, rows in measured.items():
        for series, process in rows:
            found.setdefault(series, {}).setdefault(sha, []).append(process)
    together = {series: [process for one in by_sha.values() for process in one] for series, by_sha in found.items()}
    twins = cpu_twins(together)
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


def _read_from_the_cpu_clock(processes: Sequence[Process]) -> bool:
    """By the clock of the processes; a summary from elsewhere has only its name to go by."""
    return not processes or any(process.clock is Clock.CPU for process in processes)


def _only_a_witness(processes: Sequence[Process]) -> bool:
    clocks = {process.clock for process in processes if _ended_well(process)}
    return clocks == {Clock.WITNESS}


def _absent(processes: Sequence[Process]) -> bool:
    """Whether every process that got as far as this metric could not read it."""
    skipped = any(process.status is Status.SKIPPED for process in processes)
    return skipped and not any(map(_ended_well, processes))


def _ended_well(process: Process) -> bool:
    return process.status is Status.OK
