"""Change points on the history of a series."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from perfci.model import ChangePoint, Point, Series
from perfci.stats.incremental_segmentation import Growing, detect, detect_many, grow
from perfci.stats.location import median
from perfci.verdicts.compare.round_candidates import Rules, plainly
from perfci.verdicts.process_levels import digest, judged_level
from perfci.verdicts.rule import Rule

__all__ = ["Memory", "change_points", "changes_of_histories", "detect"]

Levels = Sequence[tuple[str, float]]
"""Sha and level of every measured commit, the oldest first."""

MOST_POINTS = 5_000_000
"""Points whose lines are remembered: 10,000 histories of 500, in some 200 MB."""


class Memory:
    """Histories as they were last looked at, so that another look costs only what is new; it may be lost at any time.

    A line is trusted no further than its values are still the same. The one unseen for longest is forgotten first.
    """

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self._lines: dict[tuple[Series, float], Growing] = {}
        self._most_points = most_points

    def __contains__(self, series: Series) -> bool:
        return any(known == series for known, _ in self._lines)

    def moves(self, histories: Mapping[Series, Levels], bar: float) -> dict[Series, list[tuple[int, float]]]:
        """The moves of each history by at least ``bar``; one that has not changed is not looked at."""
        nothing = Growing.of((), bar)
        known = [self._lines.pop((series, bar), nothing) for series in histories]
        lines = grow(known, [[level for _, level in levels] for levels in histories.values()])
        self._lines |= {(series, bar): line for series, line in zip(histories, lines, strict=True)}
        self._forget()
        return {series: line.moves for series, line in zip(histories, lines, strict=True)}

    def _forget(self) -> None:
        points = sum(len(line.values) for line in self._lines.values())
        while points > self._most_points:
            points -= len(self._lines.pop(next(iter(self._lines))).values)


def change_points(series: Series, points: Sequence[Point], *, rule: Rule | None = None) -> list[ChangePoint]:
    """Every commit where the level moves by at least the bar; none on fewer than eight measured points.

    Commits without a level to judge are stepped over: the move then happened after ``last_good`` and not later than
    ``commit``. Where any change of a value that repeats exactly counts, every one is told, on however few points.
    """
    return changes_of_histories({series: points}, rules=lambda _: rule or Rule())[series]


def changes_of_histories(
    histories: Mapping[Series, Sequence[Point]], *, rules: Rules = plainly, memory: Memory | None = None
) -> dict[Series, list[ChangePoint]]:
    """The same for many series."""
    levels = {
        series: [(point.commit.sha, level) for point in points if (level := judged_level(point)) is not None]
        for series, points in histories.items()
    }
    return changes_of_levels(levels, lambda one: all(map(_repeats, histories[one])), rules=rules, memory=memory)


def changes_of_levels(
    histories: Mapping[Series, Levels],
    repeats: Callable[[Series], bool],
    *,
    rules: Rules = plainly,
    memory: Memory | None = None,
) -> dict[Series, list[ChangePoint]]:
    """The same on levels; ``repeats`` says whether all that was measured of a series repeats exactly."""
    counted = {
        series: _changes_of_counts(series, levels, rules(series))
        for series, levels in histories.items()
        if rules(series).exact_bar is not None and repeats(series)
    }
    measured = {series: levels for series, levels in histories.items() if series not in counted}
    return counted | moves_of_histories(measured, rules=rules, memory=memory)


def moves_of_levels(series: Series, measured: Levels, *, rule: Rule | None = None) -> list[ChangePoint]:
    """The same on bare levels."""
    return moves_of_histories({series: measured}, rules=lambda _: rule or Rule())[series]


def moves_of_histories(
    histories: Mapping[Series, Levels], *, rules: Rules = plainly, memory: Memory | None = None
) -> dict[Series, list[ChangePoint]]:
    """The same for many series; those with one bar are looked at together, which is faster."""
    by_bar: dict[float, dict[Series, Levels]] = defaultdict(dict)
    for series, levels in histories.items():
        by_bar[rules(series).bar][series] = levels
    found: dict[Series, list[ChangePoint]] = {}
    for bar, together in by_bar.items():
        moves = memory.moves(together, bar) if memory else _moves(together, bar)
        found |= {series: _change_points(series, histories[series], moves[series]) for series in together}
    return {
        series: [move for move in found[series] if abs(move.after - move.before) > rules(series).floor]
        for series in histories
    }


def _moves(histories: Mapping[Series, Levels], bar: float) -> dict[Series, list[tuple[int, float]]]:
    values = [[level for _, level in levels] for levels in histories.values()]
    return dict(zip(histories, detect_many(values, bar), strict=True))


def _repeats(point: Point) -> bool:
    found = digest(point.processes)
    return found is None or found.repeats


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
