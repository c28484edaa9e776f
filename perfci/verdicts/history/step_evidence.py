"""Evidence around a change point: its place among the points, the environment, steps that undo it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfci.model import ChangePoint, Environment, EnvironmentChange
from perfci.verdicts.environment_changes import MAX_CHANGE_SHARE, diff_environments

MAX_SIDE_POINTS = 15
"""Points either side that estimate a step; what lies further back belongs to another time."""

MIN_LEVEL_POINTS = 3
"""Shortest level that may page; one or two points are a spike (docs/design/statistics.md)."""

BAI_FACTOR = 11.0
"""With 95 % the true position lies within 11 (sigma / step)^2 points of the estimated one (Bai
1997)."""

MAX_REVERSAL_COMMITS = 8
"""A level gone within eight commits is a note: observed reverts came after four to six
(docs/design/statistics.md)."""


@dataclass(frozen=True, slots=True)
class LevelPoint:
    """One measured commit of a series: its level and its environment."""

    sha: str
    level: float
    environment: Environment = field(default_factory=Environment)


@dataclass(frozen=True, slots=True)
class StepPlace:
    """Which points of a history are at the level after a step, and which may be the first of them."""

    level: range
    likely_starts: range


def place_step(
    points: Sequence[LevelPoint], step: ChangePoint, steps: Sequence[ChangePoint]
) -> StepPlace | None:
    """Place a step, one of the ``steps`` of a series, among its points; None where they do not show it."""
    indices = {point.sha: index for index, point in enumerate(points)}
    index = indices.get(step.commit, 0)
    if not index:
        return None
    later = (at for other in steps if (at := indices.get(other.commit, 0)) > index)
    end = min(later, default=len(points))
    reach = int(BAI_FACTOR / step.sigmas**2) if step.sigmas else 0
    return StepPlace(range(index, end), range(max(1, index - reach), min(len(points), index + reach + 1)))


@dataclass(frozen=True, slots=True)
class EnvironmentCoincidence:
    """An environment that changed where a step may have been; ``ambiguous`` where that is not the
    only position."""

    changes: tuple[EnvironmentChange, ...]
    ambiguous: bool


def find_environment_coincidence(
    points: Sequence[LevelPoint], place: StepPlace, has_commits_between: bool
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
    start = place.level.start
    if stable[start - 1]:
        return EnvironmentCoincidence(stable[start - 1], ambiguous=has_commits_between)
    candidates = [k for k in place.likely_starts if stable[k - 1]]
    if not candidates:
        return None
    nearest = min(candidates, key=lambda k: (abs(k - start), k))
    return EnvironmentCoincidence(stable[nearest - 1], ambiguous=True)


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
        is_opposite = (step.after - step.before) * (following.after - following.before) < 0
        both = replace(following, before=step.before)
        has_returned = both.before == both.after or abs(both.log_cost_change) <= tolerance
        if is_soon and step.commit not in used and is_opposite and has_returned:
            reversals[step.commit] = following
            used.add(following.commit)
    return reversals
