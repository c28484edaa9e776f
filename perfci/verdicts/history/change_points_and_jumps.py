"""Change points of the histories of a project, and jumps of their newest points."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfci.model import ChangePoint, Interval, Retest, Series, Stage, Verdict
from perfci.number_format import format_signed_percent
from perfci.stats.incremental_segmentation import (
    SegmentedSeries,
    detect_change_points_in_many,
    update_segmentations,
)
from perfci.stats.location_estimates import MAD_TO_SIGMA
from perfci.stats.optimal_partitioning import MIN_SIGMA
from perfci.stats.step_size import LevelStep, estimate_level_step
from perfci.verdicts.comparison_rule import Rule, RuleLookup, default_rule
from perfci.verdicts.history.step_evidence import MAX_SIDE_POINTS, LevelPoint

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
    ) -> dict[Series, list[LevelStep]]:
        """Steps of each history of at least ``bar``; unchanged ones come from the cache."""
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


def find_change_points_in_levels(
    histories: Mapping[Series, LevelHistory],
    exact_series: Collection[Series] = (),
    *,
    rules: RuleLookup = default_rule,
    cache: SegmentationCache | None = None,
) -> dict[Series, list[ChangePoint]]:
    """Change points of many series by segmentation; those with one bar share a batch.

    The values of ``exact_series`` repeat exactly: they need no segmentation where their rule has an
    exact bar.
    """
    exact: dict[Series, list[ChangePoint]] = {}
    segmented: dict[Series, list[ChangePoint]] = {}
    by_bar: dict[float, dict[Series, LevelHistory]] = defaultdict(dict)
    for series, levels in histories.items():
        rule = rules(series)
        if series in exact_series and rule.exact_bar is not None:
            exact[series] = _find_exact_changes(series, levels, rule)
        else:
            by_bar[rule.bar][series] = levels
    for bar, group in by_bar.items():
        if cache:
            steps = cache.segment_histories(group, bar)
        else:
            values = [[level for _, level in levels] for levels in group.values()]
            steps = dict(zip(group, detect_change_points_in_many(values, bar), strict=True))
        for series, series_steps in steps.items():
            floor = rules(series).floor
            segmented[series] = [
                build_change_point(series, histories[series], step)
                for step in series_steps
                if abs(step.after - step.before) > floor
            ]
    # in the order given, not by bar
    return exact | {series: segmented[series] for series in histories if series in segmented}


def build_change_point(series: Series, levels: LevelHistory, step: LevelStep) -> ChangePoint:
    (last_good, _), (sha, _) = levels[step.index - 1], levels[step.index]
    interval = None
    if step.lower is not None and step.upper is not None:
        interval = Interval(1 + step.lower, 1 + step.upper)
    return ChangePoint(series, sha, last_good, step.before, step.after, interval, step.noise, step.p_value)


def measure_change_point(series: Series, levels: LevelHistory, index: int) -> ChangePoint:
    """The change at this point of a history, from at most ``MAX_SIDE_POINTS`` points a side, whether or not
    it is a step."""
    before, after = (
        np.array([level for _, level in side])
        for side in (levels[max(0, index - MAX_SIDE_POINTS) : index], levels[index : index + MAX_SIDE_POINTS])
    )
    if min(before.min(), after.min()) > 0:
        step = estimate_level_step(index, np.log(before), np.log(after))
    else:
        step = estimate_level_step(index, before, after, scale=1.0)
    return build_change_point(series, levels, step)


def _find_exact_changes(series: Series, measured: LevelHistory, rule: Rule) -> list[ChangePoint]:
    """Every commit whose exact value differs from the one before: there is no noise."""
    return [
        ChangePoint(
            series,
            sha,
            last_good,
            before,
            after,
            Interval(after / before, after / before) if before > 0 else None,
            p_value=0.0,
        )
        for (last_good, before), (sha, after) in itertools.pairwise(measured)
        if abs(after - before) > max(rule.floor, rule.effective_exact_bar * abs(before))
    ]


JUMP_SIGMAS = 6.0
"""A point this many sigmas from the level before it is a jump (docs/design/statistics.md)."""

NEWEST_POINTS = 2
"""One or two points are no level; with the third the segmentation decides."""

MIN_POINTS_BEFORE = 7
"""Points before a jump: with it, the eight that a history needs
(``incremental_segmentation.MIN_POINTS``)."""


@dataclass(frozen=True, slots=True)
class Jump:
    """A commit whose points stand out, as the change point it may turn out to be; ``persists`` is whether the
    next run saw it as well, None without one."""

    change: ChangePoint
    persists: bool | None = None

    @property
    def as_retest(self) -> Retest:
        """The pairs to measure, with the reason."""
        points = "two newest points" if self.persists else "newest point"
        change = f"{format_signed_percent(self.change.relative_change)} on the {points}"
        reason = f"{change}, far outside noise ({self.change.sigmas:.0f} sigma)"
        return Retest(self.change.series, self.change.last_good, self.change.commit, reason)


def find_newest_jumps(
    newest_points: Mapping[Series, Sequence[LevelPoint]],
    changes: Iterable[ChangePoint] = (),
    verdicts: Iterable[Verdict] = (),
    *,
    rules: RuleLookup = default_rule,
) -> list[Jump]:
    """Series whose newest two points stand out from those before, clearest first.

    Both stand out: ``persists``. Only the one before the newest: it went back. Only the newest: not
    known yet. Known change points and jumps settled on fresh pairs are left out.
    """
    steps: dict[Series, set[str]] = defaultdict(set)
    for change in changes:
        steps[change.series].add(change.commit)
    settled = {(verdict.series, verdict.head) for verdict in verdicts if verdict.stage is Stage.CONFIRMATION}
    unsettled = []
    for series, all_points in newest_points.items():
        step_shas = steps.get(series, ())
        starts = [index for index, point in enumerate(all_points) if point.sha in step_shas]
        present_level = all_points[starts[-1] :] if starts else all_points
        points = present_level[-MAX_SIDE_POINTS - NEWEST_POINTS :]
        levels = [point.level for point in points]
        if len(points) < MIN_POINTS_BEFORE + 1 or any(level <= 0 for level in levels):
            continue
        # cheap filter: no newest level is half a bar away from the median of all
        bar = math.log1p(rules(series).bar)
        middle, factor = statistics.median(levels), math.exp(bar / 2)
        if all(middle / factor < level < middle * factor for level in levels[-NEWEST_POINTS:]):
            continue
        jump = _measure_jump(series, points, bar)
        if jump and (series, jump.change.commit) not in settled:
            unsettled.append(jump)
    return sorted(unsettled, key=lambda jump: (-jump.change.sigmas, repr(jump.change.series)))


def _measure_jump(series: Series, points: Sequence[LevelPoint], bar: float) -> Jump | None:
    """The jump of the newest points against those before; None where it is smaller than the bar, a log
    ratio, or no clearer than noise."""
    logs = np.log([point.level for point in points])
    has_both = len(points) >= MIN_POINTS_BEFORE + NEWEST_POINTS
    for index in range(len(points) - NEWEST_POINTS if has_both else len(points) - 1, len(points)):
        centre = float(np.median(logs[:index]))
        sigma = max(MAD_TO_SIGMA * float(np.median(np.abs(logs[:index] - centre))), MIN_SIGMA)
        distances = logs[index:] - centre
        is_outlying = (
            (np.abs(distances) > bar)
            & (np.abs(distances) > JUMP_SIGMAS * sigma)
            & (np.sign(distances) == np.sign(distances[0]))
        )
        if is_outlying[0]:
            before, after = math.exp(centre), math.exp(centre + float(np.median(distances[is_outlying])))
            shas = points[index].sha, points[index - 1].sha
            persists = bool(is_outlying[1]) if len(is_outlying) > 1 else None
            return Jump(ChangePoint(series, *shas, before, after, noise=sigma), persists)
    return None
