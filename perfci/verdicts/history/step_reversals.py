"""Steps that undo each other: what went away soon, and levels a machine returns to again and again."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from perfci.model import ChangePoint

SOON = 8
"""A level that is gone within eight commits is a note: reverts came after four to six (study of detection, 2 b)."""

HOPS = 4
"""Four steps to and fro between the same two levels are a machine's states, no changes (study of detection, 6.2)."""


def machine_states(steps: Sequence[ChangePoint]) -> set[str]:
    """The commits at which one series, its ``steps`` in order, hops between two levels it keeps returning to."""
    found: set[str] = set()
    chain: list[ChangePoint] = []
    for step in steps:
        chain = [*chain, step] if chain and _undoes(chain[-1], step, _third(chain[-1])) else [step]
        if len(chain) >= HOPS:
            found |= {one.commit for one in chain}
    return found


def went_away(steps: Sequence[ChangePoint], place: Mapping[str, int], same: float) -> dict[str, ChangePoint]:
    """For each step that the next one undid within ``SOON`` commits, by its commit, the step that did.

    ``same`` is the log shift up to which a level counts as returned.
    """
    found: dict[str, ChangePoint] = {}
    taken: set[str] = set()
    for step, following in itertools.pairwise(steps):
        near = place.get(following.commit, 0) - place.get(step.commit, 0) <= SOON
        if near and step.commit not in taken and _undoes(step, following, lambda shift: shift <= same):
            found[step.commit] = following
            taken.add(following.commit)
    return found


def _undoes(step: ChangePoint, following: ChangePoint, returned: Callable[[float], bool]) -> bool:
    opposite = (step.after - step.before) * (following.after - following.before) < 0
    return opposite and returned(_shift(step.before, following.after))


def _third(step: ChangePoint) -> Callable[[float], bool]:
    """Near enough to where a step began: within a third of it, as the segmentation tells states."""
    size = _shift(step.before, step.after)
    return lambda shift: shift <= size / 3


def _shift(one: float, other: float) -> float:
    """The log ratio of two levels, without its sign; of nothing and something it is without end."""
    if one > 0 and other > 0:
        return abs(math.log(other / one))
    return 0.0 if one == other else math.inf
