"""Jumps at the newest points of a history, too few for a change point: they deserve fresh pairs first."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfci.model import ChangePoint, Retest, Series, Stage, Verdict
from perfci.stats.location_estimates import MAD_TO_SIGMA
from perfci.stats.optimal_partitioning import MIN_SIGMA
from perfci.verdicts.comparison_rule import RuleLookup, default_rule
from perfci.verdicts.history.step_evidence import MAX_SIDE_POINTS, LevelPoint

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
        change = f"{100 * self.change.relative_change:+.1f} % on the {points}"
        reason = f"{change}, {self.change.sigmas:.0f} sigmas from the level before"
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
