"""Change points in the history of a series."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from perfci.model import ChangePoint, Point, Series
from perfci.stats.incremental_segmentation import (
    SegmentedSeries,
    detect_change_points_in_many,
    update_segmentations,
)
from perfci.stats.location import median
from perfci.verdicts.process_levels import judged_level, summarize_result
from perfci.verdicts.rule import Rule, RuleLookup, default_rule

LevelHistory = Sequence[tuple[str, float]]
"""Sha and level of every measured commit, oldest first."""

MAX_CACHED_POINTS = 5_000_000
"""Points of cached segmentations: 10,000 histories of 500, in some 200 MB."""


class SegmentationCache:
    """Cache of segmented histories, so that an evaluation computes only what is new; may be dropped
    at any time.

    An entry is valid as far as its values are unchanged. The least recently used is evicted first.
    """

    def __init__(self, max_points: int = MAX_CACHED_POINTS) -> None:
        self._segmented: dict[tuple[Series, float], SegmentedSeries] = {}
        self._max_points = max_points

    def __contains__(self, series: Series) -> bool:
        return any(cached == series for cached, _ in self._segmented)

    def segment_histories(
        self, histories: Mapping[Series, LevelHistory], bar: float
    ) -> dict[Series, list[tuple[int, float]]]:
        """Steps of each history of at least ``bar``, as (index, after/before - 1); unchanged ones
        come from the cache."""
        empty = SegmentedSeries(bar=bar)
        previous = [self._segmented.pop((series, bar), empty) for series in histories]
        lines = update_segmentations(
            previous, [[level for _, level in levels] for levels in histories.values()]
        )
        # popped and added again: the order of the dictionary is the order of use
        self._segmented |= {(series, bar): line for series, line in zip(histories, lines, strict=True)}
        points = sum(len(line.values) for line in self._segmented.values())
        while points > self._max_points:
            points -= len(self._segmented.pop(next(iter(self._segmented))).values)
        return {series: line.change_points for series, line in zip(histories, lines, strict=True)}


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
    cache: SegmentationCache | None = None,
) -> dict[Series, list[ChangePoint]]:
    """Change points of many series."""
    levels = {
        series: [(point.commit.sha, level) for point in points if (level := judged_level(point)) is not None]
        for series, points in histories.items()
    }

    def is_exact(series: Series) -> bool:
        summaries = [summarize_result(point.processes) for point in histories[series]]
        return all(summary is None or summary.repeats for summary in summaries)

    return find_change_points_of_levels(levels, is_exact, rules=rules, cache=cache)


def find_change_points_of_levels(
    histories: Mapping[Series, LevelHistory],
    is_exact: Callable[[Series], bool],
    *,
    rules: RuleLookup = default_rule,
    cache: SegmentationCache | None = None,
) -> dict[Series, list[ChangePoint]]:
    """Change points from levels; ``is_exact`` says whether all values of a series repeat exactly."""
    counted = {
        series: _find_exact_changes(series, levels, rules(series))
        for series, levels in histories.items()
        if rules(series).exact_bar is not None and is_exact(series)
    }
    measured = {series: levels for series, levels in histories.items() if series not in counted}
    return counted | segment_histories(measured, rules=rules, cache=cache)


def segment_history(series: Series, measured: LevelHistory, *, rule: Rule | None = None) -> list[ChangePoint]:
    """Change points of one series by segmentation, from its levels."""
    return segment_histories({series: measured}, rules=lambda _: rule or Rule())[series]


def segment_histories(
    histories: Mapping[Series, LevelHistory],
    *,
    rules: RuleLookup = default_rule,
    cache: SegmentationCache | None = None,
) -> dict[Series, list[ChangePoint]]:
    """Change points of many series by segmentation; those with one bar share a batch."""
    by_bar: dict[float, dict[Series, LevelHistory]] = defaultdict(dict)
    for series, levels in histories.items():
        by_bar[rules(series).bar][series] = levels
    change_points: dict[Series, list[ChangePoint]] = {}
    for bar, group in by_bar.items():
        steps = cache.segment_histories(group, bar) if cache else _segment_levels(group, bar)
        change_points |= {
            series: _build_change_points(series, histories[series], steps[series]) for series in group
        }
    return {
        series: [
            change
            for change in change_points[series]
            if abs(change.after - change.before) > rules(series).floor
        ]
        for series in histories
    }


def _segment_levels(
    histories: Mapping[Series, LevelHistory], bar: float
) -> dict[Series, list[tuple[int, float]]]:
    values = [[level for _, level in levels] for levels in histories.values()]
    return dict(zip(histories, detect_change_points_in_many(values, bar), strict=True))


def _find_exact_changes(series: Series, measured: LevelHistory, rule: Rule) -> list[ChangePoint]:
    """Every commit whose exact value differs from the one before: there is no noise."""
    return [
        ChangePoint(
            series,
            sha,
            last_good,
            # from zero, where no ratio exists, 100 % in the direction of the change
            relative_change=after / before - 1 if before else math.copysign(1.0, after),
            before=before,
            after=after,
        )
        for (last_good, before), (sha, after) in itertools.pairwise(measured)
        if abs(after - before) > max(rule.floor, rule.effective_exact_bar * abs(before))
    ]


def _build_change_points(
    series: Series, measured: LevelHistory, steps: Sequence[tuple[int, float]]
) -> list[ChangePoint]:
    levels = [level for _, level in measured]
    edges = [0, *(index for index, _ in steps), len(levels)]
    return [
        ChangePoint(
            series,
            commit=measured[index][0],
            last_good=measured[index - 1][0],
            relative_change=relative_change,
            before=median(levels[edges[k] : index]),
            after=median(levels[index : edges[k + 2]]),
        )
        for k, (index, relative_change) in enumerate(steps)
    ]
