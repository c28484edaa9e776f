"""Proof for every boundary that a segmentation proposes.

A boundary stays only when the step is large enough for the user, significant for the noise, separated in ranks, not
gone again at once, and no mere hop of a machine that keeps returning to the same states.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from perfci.stats.boundary_evidence import Evidence, in_order, middle
from perfci.stats.boundary_test import BRIEF, FARTHEST, Gone, Trial, place_of
from perfci.stats.location import Floats
from perfci.stats.preprocessing import CLIP_REACH
from perfci.stats.segmentation import MIN_SEGMENT

NEAR = 2 * CLIP_REACH
"""So far from a boundary points may lie that spikes had pulled in, or be such spikes."""

CLEARLY = 0.5
"""A boundary gives way to another place where that brings the points nearer to their levels by half of the step."""

ALIKE = 0.6
"""Neighbouring points that resemble each other more than this are a level that moves."""


@dataclass(frozen=True, slots=True)
class Step:
    """The level moves at ``index``, the first point of the new level, by the log ratio ``size``."""

    index: int
    size: float


def prove(trial: Trial, proposed: Sequence[int]) -> tuple[Step, ...]:
    """Drop the least proven boundary until every one left is proven; its neighbours are judged anew each time.

    First as if neighbouring points had nothing in common, then with what those levels say of that; a boundary that
    fails already the first time costs no look at the whole line, nor do boundaries that stand whatever it says.
    """
    kept = _standing(trial, _gone_again(trial, proposed))
    trial.used.points, trial.used.proposed = len(trial.logs), proposed
    while kept and (least := _least_proven(trial, kept)) is not None:
        kept.remove(least)
    return _steps(trial, trial.edges(kept))


def _steps(trial: Trial, edges: Sequence[int]) -> tuple[Step, ...]:
    found: list[Step] = []
    for k in range(1, len(edges) - 1):
        evidence = trial.evidence(place_of(edges, k))
        after_last = (found[-1].index if found else 0) + MIN_SEGMENT
        at = _parting(trial.logs, edges[k], evidence, after_last, edges[k + 1] - MIN_SEGMENT)
        found.append(Step(at, evidence.size))
    return tuple(found)


def _parting(logs: Floats, at: int, sides: Evidence, first: int, last: int) -> int:
    """Where near a boundary the points as they are part best into the levels of its two sides.

    Segmentation sees spikes pulled in towards their neighbours, and the last points before a step, where spikes went
    before them, towards the level that follows.
    """
    first, last = min(max(first, at - NEAR), at), max(min(last, at + NEAR), at)
    near = logs[first:last]
    costs = np.concatenate([[0.0], np.cumsum(np.abs(near - sides.before) - np.abs(near - sides.after))])
    best = int(costs.argmin())
    return first + best if costs[at - first] - costs[best] > CLEARLY * abs(sides.after - sides.before) else at


def _standing(trial: Trial, boundaries: Sequence[int]) -> list[int]:
    """The boundaries that are left when all are proven as if neighbouring points had nothing in common."""
    edges = trial.edges(boundaries)
    proofs = [trial.proof(edges, k) for k in range(1, len(edges) - 1)]
    while proofs and (least := min(proofs)) < 1:
        weakest = proofs.index(least)
        del proofs[weakest]
        next_proof = min(proofs, default=math.inf) if weakest == len(proofs) else math.inf
        trial.used.gone.append(Gone(edges.pop(weakest + 1), least, next_proof))
        for k in range(_first_affected(edges, weakest), min(weakest + 1, len(proofs))):
            proofs[k] = trial.proof(edges, k + 1)
    return edges[1:-1]


def _first_affected(edges: Sequence[int], gone: int) -> int:
    """The first boundary to be judged anew: the last but one before the gap only if what follows it is brief."""
    return max(gone - 2 if edges[gone] - edges[gone - 1] <= BRIEF else gone - 1, 0)


def _gone_again(trial: Trial, proposed: Sequence[int]) -> list[int]:
    """The boundaries that are left when those are gone that went before and surely go again, as points were appended.

    Those speak only for the last boundary, and for a hop. As long as they say nothing of a hop that was not said
    before, and the last boundary is proven not less than the one that went instead, the others go in the same order.
    """
    known, edges = trial.known, trial.edges(proposed)
    if not known.gone or trial.same != known.points or proposed != known.proposed or not _hop_as_before(trial):
        return edges[1:-1]
    trial.used.evidence |= {place: found for place, found in known.evidence.items() if place[2] < known.points}
    seen: list[int] = []
    for gone in known.gone:
        last, own = edges[-2], gone.proof
        if last + FARTHEST >= known.points:
            if last - edges[-3] <= BRIEF:
                break
            if edges[-3:] != seen:
                seen, last_proof = edges[-3:], trial.proof(edges, len(edges) - 2)
            own = last_proof
            if own >= min(gone.next_proof, 1.0) if gone.boundary == last else own < gone.proof:
                break
        trial.used.gone.append(gone._replace(proof=own) if gone.boundary == last else gone)
        edges.remove(gone.boundary)
    return edges[1:-1]


def _hop_as_before(trial: Trial) -> bool:
    """Whether the boundaries that hop are the same; what the end of the line said does not matter any more."""
    points, past = trial.known.points, {}
    for place, found in trial.known.hops.items():
        if found.end < points or (found.settled and place[2] < points):
            past[place] = found
        elif place[2] < points and trial.is_hop(place) != found.is_one:
            return False
    trial.used.hops |= past
    return True


def _least_proven(trial: Trial, boundaries: Sequence[int]) -> int | None:
    """The boundary that is not proven, least of all, where neighbouring points have something in common."""
    edges = trial.edges(boundaries)
    places = range(1, len(edges) - 1)
    if all(trial.proof(edges, k, MOST_WIDER) >= 1 for k in places):
        return None
    wider = math.sqrt(_inflation(trial.scaled, boundaries))
    proofs = [trial.proof(edges, k, wider) for k in places]
    least = min(proofs)
    return boundaries[proofs.index(least)] if least < 1 else None


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


MOST_WIDER = math.sqrt(_inflated(ALIKE))
"""What errors are widened by at most: what stands that needs no look at how much it is."""
