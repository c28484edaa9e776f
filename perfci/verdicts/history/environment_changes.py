"""Epochs of the environment: what became another between two points, and whether it explains a step there."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from perfci.model import Environment, ObservedChange
from perfci.verdicts.history.step_estimate import Boundary, Seen

MOST_CHANGES = 0.2
"""What becomes another at more than one boundary in five (a host name, a timestamp) coincides with every fifth step by
chance: such a value explains nothing."""


@dataclass(frozen=True, slots=True)
class Coincidence:
    """An environment that changed where a step may have been; ``ambiguous`` where it is not the only place."""

    observed: tuple[ObservedChange, ...]
    ambiguous: bool


def changed(before: Environment, after: Environment) -> tuple[ObservedChange, ...]:
    """The values that differ, in the order of their names."""
    old, new = dict(before.values), dict(after.values)
    return tuple(
        ObservedChange(name, old.get(name, ""), new.get(name, ""))
        for name in sorted(old.keys() | new.keys())
        if old.get(name, "") != new.get(name, "")
    )


def coincidence(seen: Sequence[Seen], step: Boundary, between: bool) -> Coincidence | None:
    """What of the environment changed with a step; ``between`` says that commits lie unmeasured between its points.

    A change at the boundary itself explains the step. Where commits were left out between, or the step may have come
    some points earlier or later and the environment changed only there, code and environment cannot be told apart.
    """
    steady = _steady(seen)
    here = _changes_at(seen, step.at, steady)
    if here:
        return Coincidence(here, ambiguous=between)
    reach = range(max(1, step.at - step.uncertainty), min(len(seen), step.at + step.uncertainty + 1))
    near = sorted((at for at in reach if _changes_at(seen, at, steady)), key=lambda at: (abs(at - step.at), at))
    return Coincidence(_changes_at(seen, near[0], steady), ambiguous=True) if near else None


def _changes_at(seen: Sequence[Seen], at: int, steady: frozenset[str]) -> tuple[ObservedChange, ...]:
    before, after = seen[at - 1].environment, seen[at].environment
    if before == after:
        return ()
    return tuple(one for one in changed(before, after) if one.name in steady)


def _steady(seen: Sequence[Seen]) -> frozenset[str]:
    """The names of the values that stay as they are from most points to the next; one single change is always told."""
    counts: Counter[str] = Counter()
    for before, after in itertools.pairwise(seen):
        if before.environment != after.environment:
            counts.update(one.name for one in changed(before.environment, after.environment))
    most = max(1.0, MOST_CHANGES * (len(seen) - 1))
    return frozenset(name for name, count in counts.items() if count <= most)
