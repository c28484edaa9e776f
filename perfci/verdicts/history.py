"""Change points on the history of a series."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from perfci.model import ChangePoint, Clock, Point, Series
from perfci.stats.location import median
from perfci.stats.growing import detect, detect_many
from perfci.verdicts.compare import Rule
from perfci.verdicts.levels import judged_level, usable
from perfci.verdicts.neighbours import Rules, plainly

__all__ = ["change_points", "detect"]

Levels = Sequence[tuple[str, float]]
"""Sha and level of every measured commit, the oldest first."""


def change_points(series: Series, points: Sequence[Point], *, rule: Rule | None = None) -> list[ChangePoint]:
    """Every commit where the level moves by at least the bar; none on fewer than eight measured points.

    Commits without a level to judge are stepped over: the move then happened after ``last_good`` and not later than
    ``commit``. Where any change of a value that repeats exactly counts, every one is told, on however few points.
    """
    rule = rule or Rule()
    measured = [(point.commit.sha, level) for point in points if (level := judged_level(point)) is not None]
    if rule.exact_bar is not None and all(map(_is_exact, points)):
        return _changes_of_counts(series, measured, rule)
    return moves_of_levels(series, measured, rule=rule)


def moves_of_levels(series: Series, measured: Levels, *, rule: Rule | None = None) -> list[ChangePoint]:
    """The same on bare levels."""
    return moves_of_histories({series: measured}, rules=lambda _: rule or Rule())[series]


def moves_of_histories(
    histories: Mapping[Series, Levels], *, rules: Rules = plainly
) -> dict[Series, list[ChangePoint]]:
    """The same for many series; those with one bar are looked at together, which is faster."""
    by_bar: dict[float, list[Series]] = defaultdict(list)
    for series in histories:
        by_bar[rules(series).bar].append(series)
    found: dict[Series, list[ChangePoint]] = {}
    for bar, together in by_bar.items():
        moves = detect_many([[level for _, level in histories[series]] for series in together], bar)
        found |= {
            series: _change_points(series, histories[series], steps)
            for series, steps in zip(together, moves, strict=True)
        }
    return {
        series: [move for move in found[series] if abs(move.after - move.before) > rules(series).floor]
        for series in histories
    }


def _is_exact(point: Point) -> bool:
    """Whether all that was measured repeats exactly."""
    processes = usable(point.processes)
    values = {sample for process in processes for sample in process.samples}
    return (len(values) == 1 and all(process.clock is Clock.EXACT for process in processes)) or not values


def _changes_of_counts(series: Series, measured: Levels, rule: Rule) -> list[ChangePoint]:
    """Every commit with another value than the one before it: there is no noise to see through."""
    return [
        ChangePoint(series, sha, last_good, rel=_rel(before, after), before=before, after=after)
        for (last_good, before), (sha, after) in itertools.pairwise(measured)
        if abs(after - before) > max(rule.floor, rule.counted_bar * abs(before))
    ]


def _rel(before: float, after: float) -> float:
    """After a level of nothing no ratio exists: whatever comes is told as a change by 100 %."""
    return after / before - 1 if before else math.copysign(1.0, after)


def _change_points(series: Series, measured: Levels, moves: Sequence[tuple[int, float]]) -> list[ChangePoint]:
    levels = [level for _, level in measured]
    edges = [0, *(index for index, _ in moves), len(levels)]
    return [
        ChangePoint(
            series,
            commit=measured[index][0],
            last_good=measured[index - 1][0],
            rel=rel,
            before=median(levels[edges[k] : index]),
            after=median(levels[index : edges[k + 2]]),
        )
        for k, (index, rel) in enumerate(moves)
    ]
