"""A line before the judge: how well each of its boundaries is proven by the points on both sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from perfci.stats.boundary_evidence import MEDIAN_ERROR, SHORT, Evidence, heard
from perfci.stats.location import Floats
from perfci.stats.mode_switching import HOP_WINDOW, Hop, hop

NO_PROOF = 0.5
"""The proof of a boundary that is ruled out: it goes before those that nearly pass."""

NEAREST, FARTHEST = 15, 40
"""A boundary is judged on this many points either side: what lies further back is another time."""

BRIEF = 3
"""A move that is told after three points and taken back by the fourth went away (study, 6.2): it was a spike."""

Place = tuple[int, int, int]
"""The first point that speaks for a boundary, the boundary, and the end of the points that speak."""


class Gone(NamedTuple):
    """A boundary that was dropped, how well it was proven, and the least proof of those that stayed, if it was last."""

    boundary: int
    proof: float
    next_proof: float


@dataclass(slots=True)
class Proofs:
    """What was found out about boundaries of one line at one bar, so that it is not found out again.

    Evidence and hops depend on the points at their places alone, and hold as long as those do. Of what was
    ``proposed`` of so many points, some were ``gone``, in this order, before the rest stood.
    """

    evidence: dict[Place, Evidence] = field(default_factory=dict)
    hops: dict[Place, Hop] = field(default_factory=dict)
    points: int = 0
    proposed: Sequence[int] = ()
    gone: list[Gone] = field(default_factory=list)


@dataclass(frozen=True)
class Trial:
    """A line: its logs, the sums of the same with spikes pulled in, its noise and the user's bar.

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

    def edges(self, boundaries: Sequence[int]) -> list[int]:
        """Boundaries between the two ends of the line."""
        return [0, *boundaries, len(self.logs)]

    def proof(self, edges: Sequence[int], k: int, wider: float = 1.0) -> float:
        """How well boundary ``k`` is proven between its neighbours, where errors are so much wider; 1 is enough."""
        place = start, at, end = place_of(edges, k)
        if start == 0 and at < SHORT:
            return NO_PROOF
        found = self.evidence(place)
        if end - at <= BRIEF and k + 2 < len(edges) and found.size * self.evidence(place_of(edges, k + 1)).size < 0:
            return NO_PROOF
        sigmas = found.sigmas / (wider * found.needed)
        proof = sigmas if sigmas < found.strength else found.strength
        return NO_PROOF if proof >= 1 and self.bar and self.is_hop(place) else proof

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


def place_of(edges: Sequence[int], k: int) -> Place:
    """Where to look for what is said of the boundary ``k``; ``max`` and ``min`` would take three times as long."""
    start, at, end = edges[k - 1], edges[k], edges[k + 1]
    return start if start > at - FARTHEST else at - FARTHEST, at, end if end < at + FARTHEST else at + FARTHEST
