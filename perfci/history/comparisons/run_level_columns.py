"""What some runs came to in each series, as columns: of ten thousand series a page shows fifty."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy.orm import Session as Transaction

from perfci.history.comparisons.levels_of_runs import SeriesLevel, load_levels_of_runs
from perfci.history.comparisons.series_columns import Column, SeriesColumns
from perfci.history.point_columns import STATUS_CODES
from perfci.model import Clock, Status
from perfci.store.queries.comparisons.results_of_runs import (
    PlainLevel,
    load_plain_levels,
    load_series_of_other_results,
)
from perfci.store.queries.judging_inputs import load_processes_by_result
from perfci.verdicts.cpu_time_share import MIN_CPU_SHARE, is_cpu_bound

OK = STATUS_CODES[Status.OK]

RUN_LEVELS = np.dtype(
    [
        ("level", "<f8"),
        ("status", "u1"),
        ("has_reading", "?"),
        ("has_clock", "?"),
        ("is_context", "?"),
        ("has_cpu", "?"),
        ("was_skipped", "?"),
    ]
)
"""What is known of a series: its level, NaN without one; whether anything is known of
its processes, one ended well, all that did read what is never judged, one read the CPU, and one could not
measure it."""


@dataclass(frozen=True, slots=True, eq=False)
class RunLevels:
    """The series that some runs measured, in the order of their ids.

    ``places`` are those among the series of the project, ``rows`` what is known of each. ``others`` are, by
    place, those of which more than a level is to be known: why there is none.
    """

    places: Column
    rows: Column
    others: Mapping[int, SeriesLevel]

    @classmethod
    def load(cls, tx: Transaction, run_ids: Collection[int], series: SeriesColumns) -> RunLevels:
        """Load what some runs came to; a value counts for more than a failure."""
        other_ids, _ = load_series_of_other_results(tx, run_ids)
        others = load_levels_of_runs(tx, run_ids, other_ids) if other_ids else {}
        return cls.build(load_plain_levels(tx, run_ids), others, series)

    @classmethod
    def build(
        cls, plain: Sequence[PlainLevel], others: Mapping[int, SeriesLevel], series: SeriesColumns
    ) -> RunLevels:
        """Join the levels of results; ``others``, by series id, hold for all results of their series."""
        ids, rows = _join_plain_levels(plain)
        is_plain = ~np.isin(ids, list(others))
        ids = np.concatenate([ids[is_plain], np.array(list(others), np.int64)])
        rows = np.concatenate(
            [rows[is_plain], np.array([_build_row(each) for each in others.values()], RUN_LEVELS)]
        )
        order = np.argsort(ids)
        places = series.find_places(ids[order])
        place_of = dict(zip(series.ids[places].tolist(), places.tolist(), strict=True))
        return cls(places, rows[order], {place_of[row_id]: level for row_id, level in others.items()})

    def __len__(self) -> int:
        return len(self.places)


def _join_plain_levels(plain: Sequence[PlainLevel]) -> tuple[Column, Column]:
    """The ids of series, sorted, and their rows: the median of several levels, as of one run each."""
    series_ids, levels, clocks = zip(*plain, strict=True) if plain else ((), (), ())
    ids, values = np.array(series_ids, np.int64), np.array(levels, np.float64)
    order = np.lexsort((values, ids))
    unique, starts, counts = np.unique(ids[order], return_index=True, return_counts=True)
    low, high = order[starts + (counts - 1) // 2], order[starts + counts // 2]
    texts = np.array(clocks, "U16")[order]
    rows = np.zeros(len(unique), RUN_LEVELS)
    if not len(unique):
        return unique, rows
    rows["level"] = np.where(low == high, values[low], (values[low] + values[high]) / 2)
    rows["status"], rows["has_reading"], rows["has_clock"] = OK, True, True
    rows["is_context"] = np.logical_and.reduceat(texts == Clock.INFORMATIONAL.value, starts)
    rows["has_cpu"] = np.logical_or.reduceat(texts == Clock.CPU.value, starts)
    return unique, rows


def _build_row(level: SeriesLevel) -> tuple[object, ...]:
    """The row of a series of which not all results have a level."""
    usable = {clock for status, clock in level.readings if status is Status.OK}
    return (
        math.nan if level.level is None else level.level,
        STATUS_CODES[level.status],
        bool(level.readings),
        bool(usable),
        usable == {Clock.INFORMATIONAL},
        any(clock is Clock.CPU for _, clock in level.readings),
        any(status is Status.SKIPPED for status, _ in level.readings),
    )


def find_judged(
    series: SeriesColumns, sides: Sequence[RunLevels], select_waiting: Callable[[Column], Collection[int]]
) -> Column:
    """Which series verdicts are given on, of those that some sides measured, as
    ``select_judged_series_by_status`` finds them; by place.

    ``select_waiting`` gets the places of CPU times of which no level tells that their benchmark computes, and
    returns those where it mostly waits.
    """
    flags = np.zeros(len(series.ids), RUN_LEVELS)
    other_clocks, is_bound = np.zeros((2, len(flags)), bool)
    levels = np.full((len(sides), len(flags)), np.nan)
    for level, side in zip(levels, sides, strict=True):
        level[side.places] = side.rows["level"]
        for name in ("has_reading", "has_clock", "is_context", "has_cpu", "was_skipped"):
            flags[name][side.places] |= side.rows[name]
        other_clocks[side.places] |= side.rows["has_clock"] & ~side.rows["is_context"]
        is_bound |= level >= MIN_CPU_SHARE * np.where(level[series.walls] > 0, level[series.walls], np.nan)
    measured = np.zeros(len(flags), bool)
    measured[np.concatenate([side.places for side in sides])] = True
    is_pair = (
        measured & (series.walls >= 0) & measured[series.walls] & (flags["has_cpu"] | ~flags["has_reading"])
    )
    unsure = np.flatnonzero(is_pair & ~is_bound)
    waiting = list(select_waiting(unsure)) if len(unsure) else []
    by_cpu = is_pair.copy()
    by_cpu[waiting] = False
    informational = flags["is_context"] & ~other_clocks
    informational[waiting] = True
    informational[series.walls[by_cpu]] = True
    measured_processes = series.processes[flags["has_clock"]]
    unavailable = ~flags["has_clock"] & flags["was_skipped"] & np.isin(series.processes, measured_processes)
    judged: Column = ~informational & ~unavailable
    return judged


def select_waiting_by_samples(
    tx: Transaction, series: SeriesColumns, runs_of_sides: Sequence[Collection[int]], places: Column
) -> set[int]:
    """Those of some CPU times whose samples, of all sides, show a benchmark that mostly waits."""
    walls = dict(zip(places.tolist(), series.walls[places].tolist(), strict=True))
    ids = series.ids[[*walls.keys(), *walls.values()]].tolist()
    results: dict[int, list[int]] = defaultdict(list)
    for runs in runs_of_sides:
        levels = load_levels_of_runs(tx, runs, ids)
        for cpu, wall in walls.items():
            both = [levels.get(row_id) for row_id in series.ids[[cpu, wall]].tolist()]
            for place, level in zip((cpu, wall), both, strict=True):
                results[place] += level.result_ids if level and all(both) else ()
    processes = load_processes_by_result(tx, [each for several in results.values() for each in several])
    samples = {
        place: [process for row_id in several for process in processes.get(row_id, ())]
        for place, several in results.items()
    }
    return {cpu for cpu, wall in walls.items() if not is_cpu_bound(samples[cpu], samples[wall])}
