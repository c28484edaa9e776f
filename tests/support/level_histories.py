"""Small histories for tests of incidents: levels with a pinch of noise, seen commit by commit."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

from perfci.history.result_summaries import summarize_processes
from perfci.model import ChangePoint, Commit, Environment, Machine, Point, Series
from perfci.verdicts.comparison_rule import Rule, RuleLookup, default_rule
from perfci.verdicts.history.change_points_and_jumps import find_change_points_in_levels
from perfci.verdicts.history.step_evidence import LevelPoint
from perfci.verdicts.incidents.step_causes import HistoryContext, SessionVisit
from tests.support.builders import NOON, PROJECT, a_commit, a_sha

LENGTH = 40
CALM = Environment((("torch", "2.12.1"),))


def judged_level(point: Point) -> float | None:
    """The level of a point as it is stored for judging."""
    if summary := summarize_processes(point.processes):
        return summary.level
    return point.summary.value if point.summary else None


def a_line(length: int = LENGTH) -> list[Commit]:
    """Commits 1 to ``length``, each the parent of the next."""
    return [a_commit(number) for number in range(1, length + 1)]


def simulate_points(
    level: Callable[[int], float],
    *,
    length: int = LENGTH,
    noise: float = 0.004,
    seed: int = 1,
    environment: Callable[[int], Environment] = lambda number: CALM,
    measured: Callable[[int], bool] = lambda number: True,
) -> list[LevelPoint]:
    """One point for each measured commit at ``level(number)`` with normal noise."""
    chance = random.Random(seed)
    draws = {number: chance.gauss(0, noise) for number in range(1, length + 1)}
    return [
        LevelPoint(a_sha(number), level(number) * math.exp(draws[number]), environment(number))
        for number in range(1, length + 1)
        if measured(number)
    ]


def stepped_level(*steps: tuple[int, float], start: float = 1.0) -> Callable[[int], float]:
    """A level that is multiplied at each of the given commits."""
    return lambda number: start * math.prod(factor for at, factor in steps if number >= at)


def history_context_of(
    seen: Mapping[Series, Sequence[LevelPoint]],
    *,
    is_measured_apart: bool = True,
    session: Callable[[int], str] = "session-{}".format,
    hours_apart: float = 1.0,
    **changes: object,
) -> HistoryContext:
    """A project in which each commit was measured on its own, or all of them in rounds of one session."""
    machines = {series.machine for series in seen} or {Machine()}
    line = a_line(
        max((int(point.sha[:8], 16) for points in seen.values() for point in points), default=LENGTH)
    )
    visits = {
        (commit.sha, machine): [
            SessionVisit(
                session(number) if is_measured_apart else "rounds",
                NOON + timedelta(hours=number * hours_apart),
                interleaved=not is_measured_apart,
            )
        ]
        for number, commit in enumerate(line, start=1)
        for machine in machines
    }
    return HistoryContext(PROJECT, line, seen, visits=visits, **changes)  # type: ignore[arg-type]


def change_points_of(seen: Mapping[Series, Sequence[LevelPoint]]) -> list[ChangePoint]:
    """The change points of these histories, as the segmentation finds them."""
    levels = {series: [(point.sha, point.level) for point in points] for series, points in seen.items()}
    return [change for changes in find_change_points_in_levels(levels).values() for change in changes]


def find_change_points(
    series: Series, points: Sequence[Point], *, rule: Rule | None = None
) -> list[ChangePoint]:
    """Commits where the level moves by at least the bar; none for fewer than eight measured points.

    Commits without a judged level are skipped: the move then happened after ``last_good`` and not
    later than ``commit``. Where any change of an exact value counts, every one is returned, on
    however few points.
    """
    return find_change_points_of_many({series: points}, rules=lambda _: rule or Rule())[series]


def find_change_points_of_many(
    histories: Mapping[Series, Sequence[Point]],
    *,
    rules: RuleLookup = default_rule,
) -> dict[Series, list[ChangePoint]]:
    """Change points of many series."""
    levels = {
        series: [(point.commit.sha, level) for point in points if (level := judged_level(point)) is not None]
        for series, points in histories.items()
    }
    exact_series = set()
    for series, points in histories.items():
        if rules(series).exact_bar is not None:
            summaries = [summarize_processes(point.processes) for point in points]
            if all(summary is None or summary.repeats_exactly for summary in summaries):
                exact_series.add(series)
    return find_change_points_in_levels(levels, exact_series, rules=rules)
