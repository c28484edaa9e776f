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


def _by_its_clock(series: Series, wall: Series | None, processes: Mapping[Series, Sequence[Process]]) -> Series:
    if series.metric.name != JUDGED_TIME or wall is None:
        return series
    return series if cpu_bound(processes[series], processes[wall]) else wall
