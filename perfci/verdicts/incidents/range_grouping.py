"""Ranges of commits that belong together: grouped by the commit their evidence agrees on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfci.stats.location import Floats

TIE_TOLERANCE = 1 - 1e-9
"""What arithmetic may do to two sums that are equal."""


@dataclass(frozen=True, slots=True)
class WeightedRange:
    """The commits after place ``first`` and up to place ``last`` of the line, one of which moved something.

    ``weight`` is the evidence that it moved. ``beside`` are ranges right before and after in which it may have moved
    as well, each with how likely that is against the stretch itself.
    """

    first: int
    last: int
    weight: float = 1.0
    adjacent: tuple[tuple[int, int, float], ...] = ()

    @property
    def likelihoods(self) -> tuple[tuple[int, int, float], ...]:
        """Weight per commit on each range, in all the weight of the stretch: each commit of a range is as likely."""
        ranges = ((self.first, self.last, 1.0), *self.adjacent)
        total = sum(share for _, _, share in ranges)
        return tuple((lo, hi, self.weight * share / total / (hi - lo)) for lo, hi, share in ranges if hi > lo)

    def may_contain(self, position: int) -> bool:
        return any(lo < position <= hi for lo, hi, _ in self.likelihoods)


def group_ranges(weighted_ranges: Sequence[WeightedRange]) -> list[list[int]]:
    """Part stretches into groups that have a commit in common, the one with most evidence first.

    Greedy: the commit that most evidence points at takes all stretches that may mean it, and so on with those left.
    Chains of overlapping ranges are not one group, or a series measured once a month would join a month's incidents.
    Positions are answered in ascending order; the order of the input changes nothing but them.
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
    """The evidence for each commit, from the one after the earliest start of a stretch on."""
    ranges = [likelihood for weighted_range in weighted_ranges for likelihood in weighted_range.likelihoods]
    start, end = min(lo for lo, _, _ in ranges), max(hi for _, hi, _ in ranges)
    steps = np.zeros(end - start + 1)
    np.add.at(steps, [lo - start for lo, _, _ in ranges], [share for _, _, share in ranges])
    np.add.at(steps, [hi - start for _, hi, _ in ranges], [-share for _, _, share in ranges])
    return np.asarray(np.cumsum(steps)[:-1])


def find_common_range(weighted_ranges: Sequence[WeightedRange]) -> tuple[int, int]:
    """The range all have in common, or, where some only may mean it, the range of all."""
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
    """How likely a step lies so many points away from its best place: each point costs half its square in sigmas."""
    return math.exp(-points * sigmas**2 / 2)


def _sort_key(weighted_range: WeightedRange) -> tuple[object, ...]:
    return (weighted_range.first, weighted_range.last, weighted_range.weight, weighted_range.adjacent)
