"""Steps that undo each other: quick reverts, and levels a machine returns to repeatedly."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from perfci.model import ChangePoint

MAX_REVERSAL_COMMITS = 8
"""A level gone within eight commits is a note: observed reverts came after four to six
(docs/design/statistics.md)."""

MIN_SWITCHES = 4
"""Steps to and fro between two levels that make them modes of the machine
(docs/design/statistics.md)."""


def find_mode_switches(steps: Sequence[ChangePoint]) -> set[str]:
    """Commits at which a series, its ``steps`` in order, switches between two recurring levels."""
    commits: set[str] = set()
    chain: list[ChangePoint] = []
    for step in steps:
        chain = (
            [*chain, step] if chain and _is_reversal(chain[-1], step, _within_a_third(chain[-1])) else [step]
        )
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
        if (
            is_soon
            and step.commit not in used
            and _is_reversal(step, following, lambda shift: shift <= tolerance)
        ):
            reversals[step.commit] = following
            used.add(following.commit)
    return reversals


def _is_reversal(step: ChangePoint, following: ChangePoint, is_returned: Callable[[float], bool]) -> bool:
    opposite = (step.after - step.before) * (following.after - following.before) < 0
    return opposite and is_returned(_log_distance(step.before, following.after))


def _within_a_third(step: ChangePoint) -> Callable[[float], bool]:
    """Predicate: within a third of the step from where it began, as segmentation separates modes."""
    size = _log_distance(step.before, step.after)
    return lambda shift: shift <= size / 3


def _log_distance(first: float, second: float) -> float:
    """Absolute log ratio of two levels; infinite between zero and another value."""
    if first > 0 and second > 0:
        return abs(math.log(second / first))
    return 0.0 if first == second else math.inf
