"""When a comparison has seen enough pairs, and how many to buy until it is asked again."""

from __future__ import annotations

import math
from dataclasses import replace

from perfci.model import VerdictKind
from perfci.stats.group_sequential import look_levels, next_look, spending_plan
from perfci.stats.location_shift import Prior, Shift
from perfci.stats.power import probability_at
from perfci.verdicts.compare.decision_limits import Limits
from perfci.verdicts.compare.side_costs import Sides
from perfci.verdicts.rule import Rule


def plan(sides: Sides, rule: Rule, limits: Limits, prior: Prior | None = None) -> tuple[int, float]:
    """How many pairs to buy next and the tail probability of this look's interval.

    The looks before this one are replayed from the pairs they saw, so nothing has to be remembered.
    """
    looks = rule.planned_looks
    seen = [look for look in looks if look <= sides.pairs] or looks[:1]
    known = [_known(sides.first(look).shift(), limits) for look in seen]
    tail = look_levels(spending_plan(known, seen, looks[-1]))[-1]
    looked = sides.pairs >= looks[0] and _settles(sides.shift(prior), limits, tail, looks[-1])
    settled = looked or sides.pairs >= looks[-1]
    return (0 if settled else next_look(looks, sides.pairs) - sides.pairs), tail


def _settles(found: Shift, limits: Limits, tail: float, cap: int) -> bool:
    """Whether more pairs are not worth buying: a verdict is reached, or plainly none will be."""
    decided = limits.kind(found, tail) is not VerdictKind.INCONCLUSIVE
    return decided or limits.at_the_bar(found, tail) or _hopeless(found, limits, tail, cap)


def _hopeless(found: Shift, limits: Limits, tail: float, cap: int) -> bool:
    """Whether all pairs together will hardly decide, so that the ones left are better spent elsewhere.

    Judged from half of the pairs on, where the spread is known well enough (Snapinn et al. 2006 on futility). The
    levels of looks are nearly equal, so this one's ``tail`` is that of the last. Where the pairs can be read in two
    ways more of them may tell.
    """
    if 2 * found.pairs < cap or found.df <= 0 or found.below or found.above:
        return False
    last = replace(found, error=found.error * math.sqrt(found.pairs / cap), df=found.df * cap / found.pairs)
    half = last.half_width(tail)
    inside, beyond = limits.same - half, max(limits.bar, limits.null + half)
    unchanged = probability_at(found, cap, -inside, inside)
    moved = 1 - probability_at(found, cap, -beyond, beyond)
    return unchanged + moved < HOPELESS


HOPELESS = 0.05
"""What happens in fewer than one of twenty cases is not waited for: the usual level."""


def _known(found: Shift, limits: Limits) -> float:
    """The share of the information with which a change half a bar away from a decision is decided."""
    return (limits.same / 2 / DECIDING_SIGMAS / found.error) ** 2 if found.df > 0 else 0.0


DECIDING_SIGMAS = 3.6
"""1.96 for the interval and 1.64 for power 95 %: what a difference must be in standard errors to be decided."""
