"""Columns of what runs came to tell the same as the objects that single series have."""

import math
import random
from itertools import product

import numpy as np

from perfci.history.comparisons.levels_of_runs import SeriesLevel
from perfci.history.comparisons.run_level_columns import RunLevels, find_judged
from perfci.history.comparisons.series_columns import SeriesColumns
from perfci.model import Clock, Series, Status
from perfci.store.queries.comparisons.results_of_runs import PlainLevel
from perfci.verdicts.judged_series import select_judged_series_by_status
from tests.support.builders import a_machine, a_series

CELLS = [
    a_series(f"m.time_{number}", metric, machine=machine)
    for number, metric, machine in product(
        range(40), ("time", "cpu_time", "peak_bytes", "note"), (a_machine(), a_machine(cpu="other"))
    )
]
SERIES = SeriesColumns.build(dict(enumerate(CELLS, start=7)))


def some_levels(dice: random.Random) -> dict[int, SeriesLevel]:
    """Levels of some of the series, by id: of several clocks, failed, skipped or without processes."""
    levels = {}
    for row_id in dice.sample(SERIES.ids.tolist(), 200):
        ends = [Status.OK, Status.FAILED, Status.SKIPPED]
        readings = frozenset(
            (dice.choice(ends), dice.choice(list(Clock))) for _ in range(dice.choice([0, 1, 1, 2]))
        )
        levels[row_id] = SeriesLevel(dice.choice([None, 0.1, 1.0, 9.0]), dice.choice(ends), "", readings, ())
    return levels


def test_finds_the_series_that_verdicts_are_given_on() -> None:
    for seed in range(20):
        dice = random.Random(seed)
        sides = [some_levels(dice), some_levels(dice)]
        readings: dict[Series, frozenset[tuple[Status, Clock]]] = {}
        for side in sides:
            for row_id, level in side.items():
                series = CELLS[row_id - 7]
                readings[series] = readings.get(series, frozenset()) | level.readings

        judged = find_judged(SERIES, [RunLevels.build([], side, SERIES) for side in sides], lambda unsure: [])
        expected = select_judged_series_by_status(readings, lambda pairs: [])

        assert {CELLS[place] for place in np.flatnonzero(judged)} & readings.keys() == set(expected)


def test_asks_for_samples_where_no_level_tells_that_a_benchmark_computes() -> None:
    wall, cpu, other = (
        a_series("m.time_0", "time"),
        a_series("m.time_0", "cpu_time"),
        a_series("m.time_1", "time"),
    )
    series = SeriesColumns.build({1: wall, 2: cpu, 3: other})
    plain = [PlainLevel(1, 1.0, "wall"), PlainLevel(2, 0.1, "cpu"), PlainLevel(3, 1.0, "wall")]
    levels = RunLevels.build(plain, {}, series)
    asked: list[int] = []

    def wait(places: np.ndarray) -> list[int]:
        asked.extend(places.tolist())
        return asked

    waiting = find_judged(series, [levels], wait)
    busy = find_judged(series, [RunLevels.build([*plain[::2], PlainLevel(2, 0.9, "cpu")], {}, series)], wait)

    assert asked == [1]
    assert (waiting.tolist(), busy.tolist()) == ([True, False, True], [False, True, True])


def test_joins_the_levels_of_several_runs_as_their_median() -> None:
    series = SeriesColumns.build({1: CELLS[0], 2: CELLS[1], 3: CELLS[2]})
    plain = [PlainLevel(2, level, "wall") for level in (9.0, 1.0, 2.0)]
    plain += [
        PlainLevel(1, level, clock) for level, clock in ((1.0, "informational"), (2.0, "informational"))
    ]
    others = {3: SeriesLevel(None, Status.FAILED, "boom", frozenset(), ())}

    levels = RunLevels.build([*plain, PlainLevel(3, 5.0, "wall")], others, series)

    assert levels.rows["level"].tolist()[:2] == [1.5, 2.0]
    assert math.isnan(levels.rows["level"][2])
    assert levels.rows["is_context"].tolist() == [True, False, False]
    assert levels.others == {2: others[3]}
