"""Creep since a release: a slowdown so gradual that no commit shows it.

Segmentation finds steps, not ramps of half a percent a commit. So the level around each release is
compared with the present one, by the statistics of any comparison, and the steps in between are
subtracted. The first commits of the months of 30 and 90 days ago stand for releases as well.

Neighbouring points resemble each other, and a level that wanders by itself looks like creep. So the
standard error is widened by sqrt((1 + r) / (1 - r)), r the lag-1 autocorrelation of the whole line
since the first release without its steps and its trend. How often lines without a change pass
the test, with it and without: docs/design/statistics.md, section 10.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfci.model import ChangePoint, Interval, Series, Verdict, VerdictKind
from perfci.stats.autocorrelation import ar1_variance_inflation, estimate_trend_autocorrelation
from perfci.stats.location_shift import Shift, estimate_shift
from perfci.stats.multiple_comparisons import benjamini_hochberg
from perfci.verdicts.compare.decision_limits import DecisionLimits
from perfci.verdicts.comparison_rule import RuleLookup, default_rule
from perfci.verdicts.history.step_evidence import MIN_LEVEL_POINTS, LevelPoint

RELEASE_SIDE_POINTS = 2
"""Points either side of a release that estimate its level: with its own five, as many pairs as a
first look has. On a ramp those before and after cancel."""

CURRENT_POINTS = 2 * RELEASE_SIDE_POINTS + 1
"""Newest points that estimate the present level."""


@dataclass(frozen=True, slots=True)
class Release:
    """A tagged commit of the line, or the first one of a month that stands for it."""

    tag: str
    sha: str
    is_by_age: bool = False


@dataclass(frozen=True, slots=True)
class CreepHistory:
    """One series: points around each release, newest points, steps, and compared pairs.

    ``line`` are all points since the first release, where they are known.
    """

    series: Series
    release_points: Mapping[Release, Sequence[LevelPoint]]
    newest_points: Sequence[LevelPoint]
    steps: Sequence[ChangePoint] = ()
    verdicts: Sequence[Verdict] = ()
    line: Sequence[LevelPoint] = ()


@dataclass(frozen=True, slots=True)
class Creep:
    """Drift of a series since a release beyond its known steps; ``total_ratio`` includes them.

    Ratios are present/release of the raw value. ``base`` and ``head`` are the commits to compare.
    """

    series: Series
    release: str
    base: str
    head: str
    drift_ratio: float
    interval: Interval | None
    total_ratio: float
    p_value: float
    paired: bool = False


def find_creeps(
    histories: Sequence[CreepHistory], positions: Mapping[str, int], *, rules: RuleLookup = default_rule
) -> list[Creep]:
    """Series that drifted by their bar since a release, each by the newest release that shows it.

    False discoveries are controlled over all series and releases tested (Benjamini & Hochberg
    1995).
    """
    tested = [result for history in histories for result in _find_series_creeps(history, positions, rules)]
    accepted = benjamini_hochberg([creep.p_value for creep, _ in tested])
    nearest: dict[Series, Creep] = {}
    for (creep, is_worse), is_accepted in zip(tested, accepted, strict=True):
        current = nearest.get(creep.series)
        is_nearest = current is None or positions[creep.base] > positions[current.base]
        if is_worse and is_accepted and is_nearest:
            nearest[creep.series] = creep
    return sorted(
        nearest.values(),
        key=lambda creep: (-abs(math.log(creep.drift_ratio)), creep.series.label, repr(creep.series)),
    )


def _find_series_creeps(
    history: CreepHistory, positions: Mapping[str, int], rules: RuleLookup
) -> list[tuple[Creep, bool]]:
    """Creep since each release, and whether it is a regression."""
    limits = DecisionLimits.from_rule(rules(history.series))
    last_step = max(
        (positions[step.commit] for step in history.steps if step.commit in positions), default=-1
    )
    newest = history.newest_points[-CURRENT_POINTS:]
    current = [point for point in newest if positions.get(point.sha, -1) >= last_step]
    if len(current) < MIN_LEVEL_POINTS:
        return []
    inflation = math.sqrt(ar1_variance_inflation(_line_autocorrelation(history, positions)))
    results = []
    for release, nearby in history.release_points.items():
        steps = [step for step in history.steps if positions[release.sha] < positions.get(step.commit, -1)]
        explained = sum(step.log_cost_change for step in steps)
        paired = _shift_from_pairs(history, release, current[-1].sha, positions)
        shift = paired
        if shift is None:
            least = explained + limits.bar / 2
            shift = _measure_shift(history, release, nearby, current, positions, min_log_cost=least)
            shift = shift and replace(shift, error=shift.error * inflation)
        if shift and math.isfinite(explained):
            drift = replace(shift, centre=shift.centre - explained)
            creep = _build_creep(history.series, release, current[-1].sha, shift, drift, limits.null)
            creep = replace(creep, paired=paired is not None)
            results.append((creep, limits.classify(drift) is VerdictKind.REGRESSION))
    return results


def _line_autocorrelation(history: CreepHistory, positions: Mapping[str, int]) -> float:
    """Lag-1 autocorrelation of the whole line in log cost, without its known steps."""
    points = [point for point in history.line if point.sha in positions]
    if not points or any(point.level <= 0 for point in points):
        return 0.0
    logs = history.series.metric.cost_sign * np.log([point.level for point in points])
    places = np.array([positions[point.sha] for point in points])
    for step in history.steps:
        if step.commit in positions and math.isfinite(step.log_cost_change):
            logs[places >= positions[step.commit]] -= step.log_cost_change
    return estimate_trend_autocorrelation(logs)


def _build_creep(
    series: Series, release: Release, head: str, total: Shift, drift: Shift, null: float
) -> Creep:
    sign = series.metric.cost_sign
    low, high = sorted(math.exp(sign * bound) for bound in drift.bounds())
    return Creep(
        series,
        release.tag,
        release.sha,
        head,
        drift_ratio=math.exp(sign * drift.centre),
        interval=Interval(low, high) if math.isfinite(high) else None,
        total_ratio=math.exp(sign * total.centre),
        p_value=drift.p_value(null),
    )


def _measure_shift(
    history: CreepHistory,
    release: Release,
    release_points: Sequence[LevelPoint],
    current_points: Sequence[LevelPoint],
    positions: Mapping[str, int],
    *,
    min_log_cost: float,
) -> Shift | None:
    """Shift of the current points against those around the release, as cost; None with too few of
    either.

    A shift that is plainly no regression gets an infinite error, which saves its statistics.
    """
    near = _points_at_release_level(release_points, release, history.steps, positions)
    is_disjoint = not {point.sha for point in near} & {point.sha for point in current_points}
    has_logarithms = all(point.level > 0 for point in (*near, *current_points))
    if len(near) < MIN_LEVEL_POINTS or not is_disjoint or not has_logarithms:
        return None
    sign = history.series.metric.cost_sign
    release_levels, current_levels = ([point.level for point in side] for side in (near, current_points))
    if sign * math.log(statistics.median(current_levels) / statistics.median(release_levels)) < min_log_cost:
        return Shift(0.0, math.inf, 0.0, len(current_points))
    return estimate_shift(sign * np.log(release_levels), sign * np.log(current_levels), is_paired=False)


def _shift_from_pairs(
    history: CreepHistory, release: Release, head: str, positions: Mapping[str, int]
) -> Shift | None:
    """Shift in cost from interleaved pairs of the release and a commit as new as the newest points."""
    for verdict in history.verdicts:
        is_recent = positions.get(verdict.head, -1) >= positions[head] - CURRENT_POINTS
        is_of_release = verdict.base == release.sha and verdict.pairs >= CURRENT_POINTS
        if is_recent and is_of_release and verdict.ratio and verdict.interval:
            sign = history.series.metric.cost_sign
            half_width = (math.log(verdict.interval.hi) - math.log(verdict.interval.lo)) / 2
            unscaled = Shift(sign * math.log(verdict.ratio), 1.0, verdict.pairs - 1.0, verdict.pairs)
            return replace(unscaled, error=half_width / unscaled.half_width())
    return None


def _points_at_release_level(
    release_points: Sequence[LevelPoint],
    release: Release,
    steps: Sequence[ChangePoint],
    positions: Mapping[str, int],
) -> list[LevelPoint]:
    """Points nearest to the release on either side, with no step in between."""
    position = positions[release.sha]
    edges = [positions[step.commit] for step in steps if step.commit in positions]
    first = max((edge for edge in edges if edge <= position), default=-1)
    end = min((edge for edge in edges if edge > position), default=len(positions))
    inside = [point for point in release_points if first <= positions.get(point.sha, -1) < end]
    before = [point for point in inside if positions[point.sha] < position][-RELEASE_SIDE_POINTS:]
    after = [point for point in inside if positions[point.sha] > position][:RELEASE_SIDE_POINTS]
    return [*before, *(point for point in inside if point.sha == release.sha), *after]
