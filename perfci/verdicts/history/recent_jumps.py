"""Jumps at the end of a history that deserve fresh pairs before anybody is paged."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfci.model import ChangePoint, Retest, Series, Stage, Verdict
from perfci.stats.location import MAD_TO_SIGMA
from perfci.stats.segmentation import MIN_SIGMA
from perfci.verdicts.history.step_estimate import MAX_SIDE_POINTS, LevelPoint
from perfci.verdicts.rule import RuleLookup, default_rule

JUMP_SIGMAS = 6.0
"""A point this many sigmas from the level before it is a jump (docs/design/statistics.md)."""

NEWEST_POINTS = 2
"""One or two points are no level; with the third the segmentation decides."""

MIN_POINTS_BEFORE = 7
"""Points before a jump: with it, the eight that a history needs
(``incremental_segmentation.MIN_POINTS``)."""


@dataclass(frozen=True, slots=True)
class Jump:
    """A commit whose points stand out; ``persists`` tells whether the next run saw it as well, None
    without one.

    ``size`` is a log ratio, ``log_cost`` the same with positive meaning worse.
    """

    series: Series
    base: str
    head: str
    size: float
    log_cost: float
    sigmas: float
    before: float
    after: float
    persists: bool | None = None

    @property
    def change(self) -> ChangePoint:
        """The jump as the change point it may turn out to be."""
        return ChangePoint(self.series, self.head, self.base, math.expm1(self.size), self.before, self.after)

    @property
    def retest(self) -> Retest:
        """The pairs to measure, with the reason."""
        points = "two newest points" if self.persists else "newest point"
        change = f"{100 * math.expm1(self.size):+.1f} % on the {points}"
        reason = f"{change}, {self.sigmas:.0f} sigmas from the level before"
        return Retest(self.series, self.base, self.head, reason)


def find_jumps(
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
    for series, points in newest_points.items():
        step_shas = steps.get(series, ())
        starts = [index for index, point in enumerate(points) if point.sha in step_shas]
        present_level = points[starts[-1] :] if starts else points
        jump = _find_jump(series, present_level, math.log1p(rules(series).bar))
        if jump and (series, jump.head) not in settled:
            unsettled.append(jump)
    return sorted(unsettled, key=lambda jump: (-jump.sigmas, jump.series.label, repr(jump.series)))


def list_retests(jumps: Iterable[Jump]) -> list[Retest]:
    """Pairs to measure; a jump that went back needs none."""
    return [jump.retest for jump in jumps if jump.persists is not False]


def _find_jump(series: Series, points: Sequence[LevelPoint], bar: float) -> Jump | None:
    points = points[-MAX_SIDE_POINTS - NEWEST_POINTS :]
    levels = [point.level for point in points]
    if len(points) < MIN_POINTS_BEFORE + 1 or any(level <= 0 for level in levels):
        return None
    # cheap filter: no newest level is half a bar away from the median of all
    middle, factor = statistics.median(levels), math.exp(bar / 2)
    if all(middle / factor < level < middle * factor for level in levels[-NEWEST_POINTS:]):
        return None
    logs = np.log(levels)
    has_both = len(points) >= MIN_POINTS_BEFORE + NEWEST_POINTS
    for index in range(len(points) - NEWEST_POINTS if has_both else len(points) - 1, len(points)):
        before = logs[:index]
        centre = float(np.median(before))
        sigma = max(MAD_TO_SIGMA * float(np.median(np.abs(before - centre))), MIN_SIGMA)
        distances = logs[index:] - centre
        is_outlying = (
            (np.abs(distances) > bar)
            & (np.abs(distances) > JUMP_SIGMAS * sigma)
            & (np.sign(distances) == np.sign(distances[0]))
        )
        if is_outlying[0]:
            size = float(np.median(distances[is_outlying]))
            log_cost = size * series.metric.cost_sign
            persists = bool(is_outlying[1]) if len(is_outlying) > 1 else None
            return Jump(
                series,
                points[index - 1].sha,
                points[index].sha,
                size,
                log_cost,
                sigmas=abs(size) / sigma,
                before=math.exp(centre),
                after=math.exp(centre + size),
                persists=persists,
            )
    return None
