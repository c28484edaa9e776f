"""Which of the series that were measured a verdict is given on; the rest are witnesses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfci.model import Process, Series
from perfci.verdicts.levels import JUDGED_TIME, cpu_bound, judged, place_of


def gated(processes: Mapping[Series, Sequence[Process]]) -> list[Series]:
    """CPU time is judged before wall time, except for a benchmark that mostly waits: there the wall clock counts."""
    chosen = judged(list(processes))
    walls = {place_of(series): series for series in processes if series not in chosen}
    return [_by_its_clock(series, walls.get(place_of(series)), processes) for series in chosen]


def gated_by_commit(measured: Mapping[str, Sequence[tuple[Series, Process]]]) -> dict[Series, dict[str, list[Process]]]:
    """Turn what each commit gave into the judged series with their processes by commit."""
    found: dict[Series, dict[str, list[Process]]] = {}
    for sha, rows in measured.items():
        for series, process in rows:
            found.setdefault(series, {}).setdefault(sha, []).append(process)
    together = {series: [process for one in by_sha.values() for process in one] for series, by_sha in found.items()}
    return {series: found[series] for series in gated(together)}


def _by_its_clock(series: Series, wall: Series | None, processes: Mapping[Series, Sequence[Process]]) -> Series:
    if series.metric.name != JUDGED_TIME or wall is None:
        return series
    return series if cpu_bound(processes[series], processes[wall]) else wall
