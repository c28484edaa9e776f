"""Environment changes: what differs between two points, and whether it explains a step."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from perfci.model import Environment, EnvironmentChange
from perfci.verdicts.history.step_estimate import LevelPoint, StepEstimate

MAX_CHANGE_SHARE = 0.2
"""A value that changes at more than one boundary in five (a host name, a timestamp) coincides with
steps by chance and explains nothing."""


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
    stable_names = _find_stable_names(points)
    changes = _changes_at(points, step.index, stable_names)
    if changes:
        return EnvironmentCoincidence(changes, ambiguous=has_commits_between)
    reach = range(
        max(1, step.index - step.position_uncertainty),
        min(len(points), step.index + step.position_uncertainty + 1),
    )
    candidates = sorted(
        (index for index in reach if _changes_at(points, index, stable_names)),
        key=lambda index: (abs(index - step.index), index),
    )
    return (
        EnvironmentCoincidence(_changes_at(points, candidates[0], stable_names), ambiguous=True)
        if candidates
        else None
    )


def _changes_at(
    points: Sequence[LevelPoint], index: int, stable_names: frozenset[str]
) -> tuple[EnvironmentChange, ...]:
    before, after = points[index - 1].environment, points[index].environment
    if before == after:
        return ()
    return tuple(change for change in diff_environments(before, after) if change.name in stable_names)


def _find_stable_names(points: Sequence[LevelPoint]) -> frozenset[str]:
    """Names of values that rarely change; a single change always counts."""
    counts: Counter[str] = Counter()
    for before, after in itertools.pairwise(points):
        if before.environment != after.environment:
            counts.update(change.name for change in diff_environments(before.environment, after.environment))
    limit = max(1.0, MAX_CHANGE_SHARE * (len(points) - 1))
    return frozenset(name for name, count in counts.items() if count <= limit)
