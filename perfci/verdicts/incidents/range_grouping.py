"""Grouping of commit ranges by the commit their evidence agrees on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfci.stats.location import Floats

TIE_TOLERANCE = 1 - 1e-9
"""Relative rounding error of two equal sums."""


@dataclass(frozen=True, slots=True)
class WeightedRange:
    """The commits after position ``first`` and up to position ``last``, one of which moved
    something.

    ``weight`` is the evidence that it moved. ``adjacent`` are ranges (first, last, likelihood
    ratio) before and after in which it may have moved as well.
    """

    first: int
    last: int
    weight: float = 1.0
    adjacent: tuple[tuple[int, int, float], ...] = ()

    @property
    def likelihoods(self) -> tuple[tuple[int, int, float], ...]:
        """(first, last, weight per commit) of each range; commits of a range are equally likely,
        weights sum to ``weight``."""
        ranges = ((self.first, self.last, 1.0), *self.adjacent)
        total = sum(share for _, _, share in ranges)
        return tuple((lo, hi, self.weight * share / total / (hi - lo)) for lo, hi, share in ranges if hi > lo)

    def may_contain(self, position: int) -> bool:
        """Whether the commit at a position may be the cause."""
        return any(lo < position <= hi for lo, hi, _ in self.likelihoods)


def group_ranges(weighted_ranges: Sequence[WeightedRange]) -> list[list[int]]:
    """Split ranges into groups that have a commit in common, the one with most evidence first.

    Greedy: the commit with the highest score takes all ranges that may contain it, then the next.
    Chains of overlapping ranges are not one group, or a series measured monthly would join a
    month's incidents. Indices of a group are ascending and do not depend on the order of the input.
    """
    indices = list(range(len(weighted_ranges)))
    remaining = sorted(indices, key=lambda k: _sort_key(weighted_ranges[k]))
    groups = []
    while remaining:
        score = compute_commit_scores([weighted_ranges[k] for k in remaining])
        start = min(lo for k in remaining for lo, _, _ in weighted_ranges[k].likelihoods)
        position = start + 1 + int(np.flatnonzero(score >= score.max() * TIE_TOLERANCE)[0])
        groups.append(sorted(k for k in remaining if weighted_ranges[k].may_contain(position)))
        remaining = [k for k in remaining if not weighted_ranges[k].may_contain(position)]
    return groups


def compute_commit_scores(weighted_ranges: Sequence[WeightedRange]) -> Floats:
    """Evidence for each commit, shape (commits,), from the one after the earliest start of a range."""
    ranges = [likelihood for weighted_range in weighted_ranges for likelihood in weighted_range.likelihoods]
    start, end = min(lo for lo, _, _ in ranges), max(hi for _, hi, _ in ranges)
    steps = np.zeros(end - start + 1)
    np.add.at(steps, [lo - start for lo, _, _ in ranges], [share for _, _, share in ranges])
    np.add.at(steps, [hi - start for _, hi, _ in ranges], [-share for _, _, share in ranges])
    return np.asarray(np.cumsum(steps)[:-1])


def find_common_range(weighted_ranges: Sequence[WeightedRange]) -> tuple[int, int]:
    """Intersection of all ranges, or their union where it is empty."""
    first, last = (
        max(weighted_range.first for weighted_range in weighted_ranges),
        min(weighted_range.last for weighted_range in weighted_ranges),
    )
    if first < last:
        return first, last
    return min(weighted_range.first for weighted_range in weighted_ranges), max(
        weighted_range.last for weighted_range in weighted_ranges
    )


def compute_likelihood_drop(sigmas: float, points: int) -> float:
    """Likelihood ratio of a step lying so many points away from its best position: exp(-points
    sigmas^2 / 2)."""
    return math.exp(-points * sigmas**2 / 2)


def _sort_key(weighted_range: WeightedRange) -> tuple[object, ...]:
    return (weighted_range.first, weighted_range.last, weighted_range.weight, weighted_range.adjacent)
