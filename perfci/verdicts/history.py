"""Change points on the history of a series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfci.model import ChangePoint, Point, Series
from perfci.stats.location import median
from perfci.stats.segmentation import detect, detect_many
from perfci.verdicts.compare import Rule
from perfci.verdicts.levels import judged_level

__all__ = ["change_points", "detect"]


def change_points(series: Series, points: Sequence[Point], *, rule: Rule | None = None) -> list[ChangePoint]:
    """Every commit where the level moves by at least the bar; none on fewer than eight measured points.

    Commits without a level to judge are stepped over: the move then happened after ``last_good`` and not later than
    ``commit``.
    """
    measured = [(point.commit.sha, level) for point in points if (level := judged_level(point)) is not None]
    return moves_of_levels(series, measured, rule=rule)


def moves_of_levels(
    series: Series, measured: Sequence[tuple[str, float]], *, rule: Rule | None = None
) -> list[ChangePoint]:
    """The same on bare levels, given as (sha, level) with the oldest commit first."""
    return moves_of_histories({series: measured}, rule=rule)[series]


def moves_of_histories(
    histories: Mapping[Series, Sequence[tuple[str, float]]], *, rule: Rule | None = None
) -> dict[Series, list[ChangePoint]]:
    """The same for many series, which are only faster together."""
    found = detect_many([[level for _, level in measured] for measured in histories.values()], (rule or Rule()).bar)
    return {
        series: _change_points(series, measured, moves)
        for (series, measured), moves in zip(histories.items(), found, strict=True)
    }


def _change_points(
    series: Series, measured: Sequence[tuple[str, float]], moves: Sequence[tuple[int, float]]
) -> list[ChangePoint]:
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
