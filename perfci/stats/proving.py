"""Proof for every boundary that a segmentation proposes.

A boundary stays only when the step is large enough for the user, significant for the noise, separated in ranks, not
gone again at once, and no mere hop of a machine that keeps returning to the same states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perfci.stats.location import MAD_TO_SIGMA, Floats
from perfci.stats.ranks import least_separation, separation

Z_LONG, Z_SHORT, SHORT = 4.0, 6.0, 5
"""Sigmas a step must stand out; more where a side has fewer than five points, whose noise is hardly known.
Fewer than five points at the very beginning are no level to depart from, and there is no hurry to tell."""

NO_PROOF = 0.5
"""The proof of a boundary that is ruled out: it goes before those that nearly pass."""

MIN_SEPARATION = 0.85
"""Share of (before, after) pairs in the order of the step (study, 6.2)."""

RARE = 1e-3
"""No boundary is believed that a rank test finds more likely by chance than this: one page in a thousand points is
wanted at most. It asks for more than ``MIN_SEPARATION`` where a side has less than a dozen points."""

NEAREST, FARTHEST = 15, 40
"""A boundary is judged on this many points either side: what lies further back is another time."""

LONG, CORE = 15, 0.75
"""From this many points a side its share of spikes is known; the quarter furthest out may then be spikes."""

MEDIAN_ERROR = 1.2533
"""Standard error of a median against that of a mean in normal data: sqrt(pi / 2)."""

BRIEF = 3
"""A move that is told after three points and taken back by the fourth went away (study, 6.2): it was a spike."""

PRIOR_DF = 8.0
"""What the noise of the line is worth beside that of one side: eight more points, as in comparisons of pairs. Three
points that happen to lie close together, which neighbours often do, are no proof that a level is quiet."""

HOP_WINDOW, HOP_RUNS = 150, 5
"""Five stays in turn at the old and the new level within 150 points either side are a machine's states, no change."""


@dataclass(frozen=True, slots=True)
class Step:
    """The level moves at ``index``, the first point of the new level, by the log ratio ``size``."""

    index: int
    size: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the points on both sides of a boundary say of it; of ``strength`` 1 is enough."""

    size: float
    strength: float
    """Size or rank separation, whichever is less of what is needed."""
    sigmas: float
    """The size in standard errors of the difference of two medians, if neighbouring points have nothing in common."""
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Hop:
    """Whether a boundary is a mere hop, by the points up to ``end``; no later point changes it once it is settled."""

    is_one: bool
    settled: bool
    end: int


Place = tuple[int, int, int]
"""The first point that speaks for a boundary, the boundary, and the end of the points that speak."""


@dataclass(slots=True)
class Proofs:
    """What was found out about boundaries of one line at one bar, so that it is not found out again.

    All of it depends on the points at its places alone, and holds as long as they do.
    """

    evidence: dict[Place, Evidence] = field(default_factory=dict)
    hops: dict[Place, Hop] = field(default_factory=dict)

    def on_the_first(self, points: int) -> Proofs:
        """What still holds where only so many points are the same."""
        return Proofs(
            {place: found for place, found in self.evidence.items() if place[2] <= points},
            {place: found for place, found in self.hops.items() if max(place[2], found.end) <= points},
        )


@dataclass(frozen=True)
class Case:
    """A line before the judge: its logs, the sums of the same with spikes pulled in, its noise and the user's bar."""

    logs: Floats
    sums: Floats
    sigma: float
    bar: float
    known: Proofs = field(default_factory=Proofs)
    used: Proofs = field(default_factory=Proofs)

    @cached_property
    def scaled(self) -> Floats:
        """In units of the noise, spikes pulled in."""
        return np.diff(self.sums)

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
        used = self.used.evidence
        if place in used:
            return used[place]
        used[place] = found = self.known.evidence.get(place) or self._heard(place)
        return found

    def is_hop(self, place: Place) -> bool:
        found = self.used.hops.get(place)
        if found is None:
            found = self.known.hops.get(place)
            last = min(len(self.logs), place[1] + HOP_WINDOW)
            if found is None or not (found.settled or found.end == last):
                heard = self.evidence(place)
                found = _hop(self.logs[:last], place[1], heard.before, heard.after)
            self.used.hops[place] = found
        return found.is_one

    def _heard(self, place: Place) -> Evidence:
        first, at, last = place
        before, after, reach = self.logs[first:at], self.logs[at:last], self.reach
        levels = _median(before), _median(after)
        nearest = _median(before[-reach:]) if at - first > reach else levels[0]
        size = (_median(after[:reach]) if last - at > reach else levels[1]) - nearest
        errors = [self._variance(side, level) / len(side) for side, level in zip((before, after), levels, strict=True)]
        return Evidence(
            size=size,
            strength=_strength(before, after, abs(size) / self.least if self.bar else math.inf),
            sigmas=abs(size) / (MEDIAN_ERROR * math.sqrt(sum(errors))),
            before=levels[0],
            after=levels[1],
        )

    def _variance(self, side: Floats, level: float) -> float:
        """Of one side; what a quiet one shows is moderated by the noise of the whole line (Smyth 2004)."""
        own, degrees = (MAD_TO_SIGMA * _median(np.abs(side - level))) ** 2, len(side) - 1
        return max(own, (degrees * own + PRIOR_DF * self.sigma**2) / (degrees + PRIOR_DF))


def prove(case: Case, proposed: Sequence[int]) -> tuple[Step, ...]:
    """Drop the least proven boundary until every one left is proven; its neighbours are judged anew each time.

    First as if neighbouring points had nothing in common, then with what those levels say of that; a boundary that
    fails already the first time costs no look at the whole line.
    """
    kept = _proven(case, proposed, 1.0)
    while kept:
        left = _proven(case, kept, _inflation(case.scaled, kept), at_most=1)
        if len(left) == len(kept):
            edges = [0, *kept, len(case.logs)]
            return tuple(Step(at, case.evidence(_place(edges, k)).size) for k, at in enumerate(kept, 1))
        kept = left
    return ()


def _proven(case: Case, boundaries: Sequence[int], inflation: float, at_most: int | None = None) -> list[int]:
    """The boundaries less those that are not proven, the least proven first, and at most so many."""
    edges, wider = [0, *boundaries, len(case.logs)], math.sqrt(inflation)
    proofs = [_proof(case, edges, k, wider) for k in range(1, len(edges) - 1)]
    while proofs and (least := min(proofs)) < 1 and at_most != 0:
        weakest = proofs.index(least)
        del edges[weakest + 1], proofs[weakest]
        for k in range(max(weakest - 2, 0), min(weakest + 1, len(proofs))):
            proofs[k] = _proof(case, edges, k + 1, wider)
        at_most = None if at_most is None else at_most - 1
    return edges[1:-1]


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
    needed = Z_SHORT if at - start < SHORT or end - at < SHORT else Z_LONG
    sigmas = found.sigmas / (wider * needed)
    proof = sigmas if sigmas < found.strength else found.strength
    return NO_PROOF if proof >= 1 and case.bar and case.is_hop(place) else proof


def _strength(before: Floats, after: Floats, size: float) -> float:
    """Size or rank separation, whichever is less of what is needed.

    Of long sides the separation of their cores counts too, so that a share of spikes does not hide a step.
    """
    needed = _needed(len(before), len(after))
    apart = separation(before, after) / needed
    if apart >= min(size, 1.0) or min(len(before), len(after)) < LONG:
        return min(size, apart)
    return min(size, max(apart, separation(_core(before), _core(after)) / needed))


def _needed(before: int, after: int) -> float:
    if min(before, after) >= LONG:
        return MIN_SEPARATION
    return max(MIN_SEPARATION, least_separation(before, after, RARE))


def _core(side: Floats) -> Floats:
    """The three quarters nearest to the median."""
    distance = np.abs(side - _median(side))
    return np.asarray(side[distance <= np.sort(distance)[int(CORE * (len(side) - 1))]])


def _median(side: Floats) -> float:
    """As ``np.median``, which takes five times as long over so few points."""
    ordered, half = side.copy(), len(side) // 2
    ordered.sort()
    return float(ordered[half] if len(side) % 2 else (ordered[half - 1] + ordered[half]) / 2)


def _inflation(scaled: Floats, boundaries: Sequence[int]) -> float:
    """Neighbouring points that resemble each other count less: (1 + r) / (1 - r) of a first-order process.

    Every level that is estimated hides some of r, of short ones much (Kendall 1954); above 0.6 it is the level itself
    that moves.
    """
    rest = np.concatenate([part - _median(part) for part in np.split(scaled, list(boundaries))])
    r = float((rest[1:] * rest[:-1]).mean() / max(float((rest**2).mean()), 1e-12))
    hidden = (len(boundaries) + 1) * (1 + 3 * max(r, 0.0)) / len(scaled)
    r = min(max(r + hidden, 0.0), 0.6)
    return (1 + r) / (1 - r)


def _hop(logs: Floats, at: int, old: float, new: float) -> Hop:
    """Whether the boundary is one more hop between two states the machine keeps returning to.

    A stay clearly longer than all others at its level is a new level after all. Points that follow make the last stay
    longer or add one: what does not hang on the last stay is settled.
    """
    first = max(0, at - HOP_WINDOW)
    stays = _stays(logs[first:], old, new)
    if len(stays) < HOP_RUNS or stays[1][0] >= at - first:
        return Hop(False, settled=len(stays) > 1 and stays[1][0] >= at - first, end=len(logs))
    this = next((k for k, (_, end, there) in enumerate(stays) if there and end > at - first), len(stays) - 1)
    others = [end - start for k, (start, end, there) in enumerate(stays) if there and k != this]
    is_one = stays[this][1] - stays[this][0] < max(3 * max(others, default=0), 20)
    return Hop(is_one, settled=is_one and this < len(stays) - 1, end=len(logs))


def _stays(logs: Floats, old: float, new: float) -> list[tuple[int, int, bool]]:
    """Stays in turn at the old (False) and the new (True) level, as (start, end, which); one point is no stay."""
    near = abs(new - old) / 3
    at_new = abs(logs - new) < near
    places = (at_new | (abs(logs - old) < near)).nonzero()[0]
    if not len(places):
        return []
    lengths = np.diff(_edges_of_runs(at_new[places]))
    places = places[(lengths > 1).repeat(lengths)]
    which = at_new[places]
    edges = _edges_of_runs(which)[: len(places) + 1].tolist()
    begins, ends = places.take(edges[:-1]).tolist(), (places.take([edge - 1 for edge in edges[1:]]) + 1).tolist()
    return list(zip(begins, ends, which.take(edges[:-1]).tolist(), strict=True))


def _edges_of_runs(which: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Where each stretch of equal values begins, and where the last one ends."""
    return np.concatenate([[0], (which[1:] != which[:-1]).nonzero()[0] + 1, [len(which)]])
