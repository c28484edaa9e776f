"""Proof for every boundary that a segmentation proposes.

A boundary stays only when the step is large enough for the user, significant for the noise, separated in ranks, not
gone again at once, and no mere hop of a machine that keeps returning to the same states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from perfci.stats.evidence import MEDIAN_ERROR, SHORT, Evidence, heard, in_order, middle
from perfci.stats.hops import HOP_WINDOW, Hop, hop
from perfci.stats.location import Floats

NO_PROOF = 0.5
"""The proof of a boundary that is ruled out: it goes before those that nearly pass."""

NEAREST, FARTHEST = 15, 40
"""A boundary is judged on this many points either side: what lies further back is another time."""

BRIEF = 3
"""A move that is told after three points and taken back by the fourth went away (study, 6.2): it was a spike."""

ALIKE = 0.6
"""Neighbouring points that resemble each other more than this are a level that moves."""


@dataclass(frozen=True, slots=True)
class Step:
    """The level moves at ``index``, the first point of the new level, by the log ratio ``size``."""

    index: int
    size: float


Place = tuple[int, int, int]
"""The first point that speaks for a boundary, the boundary, and the end of the points that speak."""


@dataclass(slots=True)
class Proofs:
    """What was found out about boundaries of one line at one bar, so that it is not found out again.

    All of it depends on the points at its places alone, and holds as long as they do.
    """

    evidence: dict[Place, Evidence] = field(default_factory=dict)
    hops: dict[Place, Hop] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """A line before the judge: its logs, the sums of the same with spikes pulled in, its noise and the user's bar.

    What is ``known`` holds for as many first points as are the ``same``.
    """

    logs: Floats
    sums: Floats
    sigma: float
    bar: float
    known: Proofs = field(default_factory=Proofs)
    same: int = 0
    used: Proofs = field(default_factory=Proofs)

    @cached_property
    def scaled(self) -> Floats:
        """In units of the noise, spikes pulled in."""
        return self.sums[1:] - self.sums[:-1]

    @cached_property
    def least(self) -> float:
        """The bar as a log ratio."""
        return math.log1p(self.bar)

    @cached_property
    def reach(self) -> int:
        """How many points either side tell the size: as few as the noise allows, for levels also creep.

        Enough that the standard error of the difference of two medians is a tenth of the bar.
        """
        if not self.bar:
            return FARTHEST
        needed = 2 * (10 * MEDIAN_ERROR * self.sigma / self.least) ** 2
        return int(min(max(needed, NEAREST), FARTHEST))

    def evidence(self, place: Place) -> Evidence:
        found = self.used.evidence.get(place)
        if found is None:
            start, at, end = place
            found = self.known.evidence.get(place) if end <= self.same else None
            found = found or heard(self.logs[start:at], self.logs[at:end], self.reach, self.sigma, self.least)
            self.used.evidence[place] = found
        return found

    def is_hop(self, place: Place) -> bool:
        found = self.used.hops.get(place)
        if found is None:
            found = self.known.hops.get(place)
            last = min(len(self.logs), place[1] + HOP_WINDOW)
            if found is None or max(place[2], found.end) > self.same or not (found.settled or found.end == last):
                sides = self.evidence(place)
                found = hop(self.logs[:last], place[1], sides.before, sides.after)
            self.used.hops[place] = found
        return found.is_one


def prove(case: Case, proposed: Sequence[int]) -> tuple[Step, ...]:
    """Drop the least proven boundary until every one left is proven; its neighbours are judged anew each time.

    First as if neighbouring points had nothing in common, then with what those levels say of that; a boundary that
    fails already the first time costs no look at the whole line, nor do boundaries that stand whatever it says.
    """
    kept = _proven(case, proposed, 1.0)
    while kept and not _stand(case, kept):
        left = _proven(case, kept, _inflation(case.scaled, kept), at_most=1)
        if len(left) == len(kept):
            break
        kept = left
    edges = [0, *kept, len(case.logs)]
    return tuple(Step(at, case.evidence(_place(edges, k)).size) for k, at in enumerate(kept, 1))


def _stand(case: Case, boundaries: Sequence[int]) -> bool:
    """Whether they are all proven even if neighbouring points have as much in common as they may."""
    edges, widest = [0, *boundaries, len(case.logs)], math.sqrt(_inflated(ALIKE))
    return all(_proof(case, edges, k, widest) >= 1 for k in range(1, len(edges) - 1))


def _proven(case: Case, boundaries: Sequence[int], inflation: float, at_most: int | None = None) -> list[int]:
    """The boundaries less those that are not proven, the least proven first, and at most so many."""
    edges, wider = [0, *boundaries, len(case.logs)], math.sqrt(inflation)
    proofs = [_proof(case, edges, k, wider) for k in range(1, len(edges) - 1)]
    while proofs and (least := min(proofs)) < 1 and at_most != 0:
        weakest = proofs.index(least)
        del edges[weakest + 1], proofs[weakest]
        for k in range(_first_affected(edges, weakest), min(weakest + 1, len(proofs))):
            proofs[k] = _proof(case, edges, k + 1, wider)
        at_most = None if at_most is None else at_most - 1
    return edges[1:-1]


def _first_affected(edges: Sequence[int], gone: int) -> int:
    """The first boundary to be judged anew: the last but one before the gap only if what follows it is brief."""
    return max(gone - 2 if edges[gone] - edges[gone - 1] <= BRIEF else gone - 1, 0)


def _place(edges: Sequence[int], k: int) -> Place:
    """Where to look for what is said of the boundary ``k``; ``max`` and ``min`` would take three times as long."""
    start, at, end = edges[k - 1], edges[k], edges[k + 1]
    return start if start > at - FARTHEST else at - FARTHEST, at, end if end < at + FARTHEST else at + FARTHEST


def _proof(case: Case, edges: Sequence[int], k: int, wider: float) -> float:
    """How well a boundary is proven by the points on both its sides, where errors are so much wider; 1 is enough."""
    place = start, at, end = _place(edges, k)
    if start == 0 and at < SHORT:
        return NO_PROOF
    found = case.evidence(place)
    if end - at <= BRIEF and k + 2 < len(edges) and found.size * case.evidence(_place(edges, k + 1)).size < 0:
        return NO_PROOF
    sigmas = found.sigmas / (wider * found.needed)
    proof = sigmas if sigmas < found.strength else found.strength
    return NO_PROOF if proof >= 1 and case.bar and case.is_hop(place) else proof


def _inflation(scaled: Floats, boundaries: Sequence[int]) -> float:
    """How much wider neighbouring points that resemble each other make the variance: they count less.

    Every level that is estimated hides some of r, of short ones much (Kendall 1954).
    """
    edges = [0, *boundaries, len(scaled)]
    parts = [scaled[start:end] for start, end in pairwise(edges)]
    rest = np.concatenate([part - middle(in_order(part)) for part in parts])
    r = float((rest[1:] * rest[:-1]).mean() / max(float((rest**2).mean()), 1e-12))
    hidden = (len(boundaries) + 1) * (1 + 3 * max(r, 0.0)) / len(scaled)
    return _inflated(min(max(r + hidden, 0.0), ALIKE))


def _inflated(r: float) -> float:
    """(1 + r) / (1 - r) of a first-order process whose neighbours correlate by r."""
    return (1 + r) / (1 - r)
