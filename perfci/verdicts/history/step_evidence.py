"""Evidence around a change point: size and position of the step, the environment, steps that undo it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfci.model import ChangePoint, Environment, EnvironmentChange
from perfci.stats.location_estimates import MAD_TO_SIGMA
from perfci.stats.location_shift import Shift, estimate_unpaired_shift
from perfci.stats.optimal_partitioning import MIN_SIGMA
from perfci.stats.variance_inflation import ar1_variance_inflation

MAX_SIDE_POINTS = 15
"""Points either side that estimate a step; what lies further back belongs to another time."""

MIN_LEVEL_POINTS = 3
"""Shortest level that may page; one or two points are a spike (docs/design/statistics.md)."""

BAI_FACTOR = 11.0
"""With 95 % the true position lies within 11 (sigma / step)^2 points of the estimated one (Bai
1997)."""

MIN_P_VALUE = 2.0**-52
"""Smallest p-value used: float rounding makes anything smaller meaningless."""

MAX_CHANGE_SHARE = 0.2
"""A value that changes at more than one boundary in five (a host name, a timestamp) coincides with
steps by chance and explains nothing."""

MAX_REVERSAL_COMMITS = 8
"""A level gone within eight commits is a note: observed reverts came after four to six
(docs/design/statistics.md)."""

MIN_SWITCHES = 4
"""Steps to and fro between two levels that make them modes of the machine
(docs/design/statistics.md)."""


@dataclass(frozen=True, slots=True)
class LevelPoint:
    """One measured commit of a series: its level, its environment, and whether it repeats exactly."""

    sha: str
    level: float
    environment: Environment = field(default_factory=Environment)
    exact: bool = False


@dataclass(frozen=True, slots=True)
class StepEstimate:
    """A step between two neighbouring points of a series.

    ``index`` is the first point of the new level, ``points_after`` how many points it has,
    ``sigmas`` the size in units of the noise of one point.
    """

    index: int
    points_after: int
    sigmas: float
    p_value: float
    exact: bool

    def likely_indices(self, point_count: int) -> range:
        """Points of a history of this length at which the step may have come (Bai 1997)."""
        reach = 0
        if not self.exact:
            reach = int(BAI_FACTOR / self.sigmas**2) if self.sigmas else MAX_SIDE_POINTS
        return range(max(1, self.index - reach), min(point_count, self.index + reach + 1))


def estimate_step(
    points: Sequence[LevelPoint], commit: str, other_steps: Sequence[str] = ()
) -> StepEstimate | None:
    """Estimate the step at ``commit`` from the points up to the neighbouring ``other_steps``; None
    where it is not seen."""
    positions = {point.sha: index for index, point in enumerate(points)}
    if commit not in positions or not positions[commit]:
        return None
    index = positions[commit]
    edges = sorted(positions[other] for other in other_steps if other in positions and other != commit)
    first = max([0, index - MAX_SIDE_POINTS, *(edge for edge in edges if edge < index)])
    end = min([len(points), *(edge for edge in edges if edge > index)])
    before, after = points[first:index], points[index : min(end, index + MAX_SIDE_POINTS)]
    if all(point.exact for point in (*before, *after)):
        return StepEstimate(index, end - index, math.inf, 0.0, exact=True)
    if any(point.level <= 0 for point in (*before, *after)):
        return StepEstimate(index, end - index, 0.0, 1.0, exact=False)
    sides = [np.log([point.level for point in side]) for side in (before, after)]
    medians = [np.median(side) for side in sides]
    residuals = np.concatenate([side - middle for side, middle in zip(sides, medians, strict=True)])
    noise = max(MAD_TO_SIGMA * float(np.median(np.abs(residuals))), MIN_SIGMA)
    sigmas = abs(float(medians[1] - medians[0])) / noise
    shift = estimate_unpaired_shift(*sides)
    # the error is widened by the lag-1 autocorrelation of the residuals, between 0 and 0.9
    deviations = [side - side.mean() for side in sides if len(side) > 2]
    squares = sum(float((deviation**2).sum()) for deviation in deviations)
    inflation = 1.0
    if squares > 0:
        r = sum(float((deviation[1:] * deviation[:-1]).sum()) for deviation in deviations) / squares
        inflation = ar1_variance_inflation(min(max(r, 0.0), 0.9))
    error = shift.error * math.sqrt(inflation)
    p_value = Shift(shift.centre, error, shift.df, shift.pairs, shift.method).p_value()
    return StepEstimate(index, end - index, sigmas, p_value, exact=False)


@dataclass(frozen=True, slots=True)
class EnvironmentCoincidence:
    """An environment that changed where a step may have been; ``ambiguous`` where that is not the
    only position."""

    changes: tuple[EnvironmentChange, ...]
    ambiguous: bool


def diff_environments(before: Environment, after: Environment) -> tuple[EnvironmentChange, ...]:
    """Values that differ, in the order of their names."""
    old, new = dict(before.values), dict(after.values)
    return tuple(
        EnvironmentChange(name, old.get(name, ""), new.get(name, ""))
        for name in sorted(old.keys() | new.keys())
        if old.get(name, "") != new.get(name, "")
    )


def find_environment_coincidence(
    points: Sequence[LevelPoint], step: StepEstimate, has_commits_between: bool
) -> EnvironmentCoincidence | None:
    """Environment changes that coincide with a step; ``has_commits_between`` says that unmeasured
    commits lie between its points.

    A change at the boundary itself explains the step. With commits left out in between, or with a
    change at another likely position of the step only, code and environment cannot be separated.
    """
    environments = [point.environment for point in points]
    differences = [
        () if after == before else diff_environments(before, after)
        for before, after in itertools.pairwise(environments)
    ]
    counts = Counter(change.name for changes in differences for change in changes)
    # a single change always counts
    limit = max(1.0, MAX_CHANGE_SHARE * (len(points) - 1))
    stable = [tuple(change for change in changes if counts[change.name] <= limit) for changes in differences]
    if stable[step.index - 1]:
        return EnvironmentCoincidence(stable[step.index - 1], ambiguous=has_commits_between)
    candidates = [k for k in step.likely_indices(len(points)) if stable[k - 1]]
    if not candidates:
        return None
    nearest = min(candidates, key=lambda k: (abs(k - step.index), k))
    return EnvironmentCoincidence(stable[nearest - 1], ambiguous=True)


def find_mode_switches(steps: Sequence[ChangePoint]) -> set[str]:
    """Commits at which a series, its ``steps`` in order, switches between two recurring levels."""
    commits: set[str] = set()
    chain: list[ChangePoint] = []
    for step in steps:
        # returned to within a third of the step, as segmentation separates modes
        tolerance = _log_distance(chain[-1].before, chain[-1].after) / 3 if chain else 0.0
        chain = [*chain, step] if chain and _is_reversal(chain[-1], step, tolerance) else [step]
        if len(chain) >= MIN_SWITCHES:
            commits |= {link.commit for link in chain}
    return commits


def find_reversals(
    steps: Sequence[ChangePoint], positions: Mapping[str, int], tolerance: float
) -> dict[str, ChangePoint]:
    """Steps undone by the next within ``MAX_REVERSAL_COMMITS``: sha of the step to the step that
    undid it.

    ``tolerance`` is the log shift up to which a level counts as returned.
    """
    reversals: dict[str, ChangePoint] = {}
    used: set[str] = set()
    for step, following in itertools.pairwise(steps):
        is_soon = positions.get(following.commit, 0) - positions.get(step.commit, 0) <= MAX_REVERSAL_COMMITS
        if is_soon and step.commit not in used and _is_reversal(step, following, tolerance):
            reversals[step.commit] = following
            used.add(following.commit)
    return reversals


def _is_reversal(step: ChangePoint, following: ChangePoint, tolerance: float) -> bool:
    opposite = (step.after - step.before) * (following.after - following.before) < 0
    return opposite and _log_distance(step.before, following.after) <= tolerance


def _log_distance(first: float, second: float) -> float:
    """Absolute log ratio of two levels; infinite between zero and another value."""
    if first > 0 and second > 0:
        return abs(math.log(second / first))
    return 0.0 if first == second else math.inf
