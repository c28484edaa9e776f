"""Stopping rule of a comparison: when it has enough pairs, and how many to buy until the next look."""

from __future__ import annotations

import math
from dataclasses import replace

from perfci.model import VerdictKind
from perfci.stats.group_sequential import next_look_pairs, nominal_look_levels, plan_error_spending
from perfci.stats.location_shift import NoisePrior, Shift
from perfci.stats.mode_mix import values_to_exclude_mode
from perfci.stats.statistical_power import predictive_probability_between
from perfci.verdicts.compare.decision_limits import DecisionLimits
from perfci.verdicts.compare.paired_log_costs import PairedLogCosts
from perfci.verdicts.comparison_rule import Rule

FUTILITY_LEVEL = 0.02
"""A decision less likely than one in fifty is not waited for; at one in twenty, a comparison at 4 % noise
takes half a pair less and one in ninety is decided no more."""

DECIDING_SIGMAS = 3.6
"""Standard errors of a difference that is decided: 1.96 for the interval and 1.64 for power 95 %."""


def plan_next_pairs(
    costs: PairedLogCosts, rule: Rule, limits: DecisionLimits, prior: NoisePrior | None = None
) -> tuple[int, float]:
    """Number of pairs to buy next, and the tail probability of this look's interval.

    Earlier looks are replayed from the pairs they saw, so no state is kept.
    """
    looks = rule.planned_looks
    past_looks = [look for look in looks if look <= costs.pair_count] or looks[:1]
    # own shifts without the prior: what a prior says may change between two calls, a replay must not
    shifts = [costs.truncate_to_pairs(look).estimate_shift() for look in past_looks]
    # the share of the information that decides a change half a bar away from a limit
    deciding_error = limits.equivalence / 2 / DECIDING_SIGMAS
    information = [(deciding_error / shift.error) ** 2 if shift.df > 0 else 0.0 for shift in shifts]
    tail = nominal_look_levels(plan_error_spending(information, past_looks, looks[-1]))[-1]
    if costs.pair_count >= looks[-1]:
        return 0, tail
    if costs.pair_count >= looks[0]:
        shift = costs.estimate_shift(prior)
        kind = limits.classify(shift, tail)
        missing = _pairs_missing_to_exclude_mode(costs, shift, looks[-1])
        if kind is VerdictKind.UNCHANGED and missing > 0:
            return missing, tail
        is_decided = kind is not VerdictKind.INCONCLUSIVE
        if is_decided or limits.is_near_bar(shift, tail) or _is_futile(shift, limits, tail, looks[-1]):
            return 0, tail
    return next_look_pairs(looks, costs.pair_count) - costs.pair_count, tail


def _pairs_missing_to_exclude_mode(costs: PairedLogCosts, shift: Shift, cap: int) -> int:
    """Pairs still to buy before *unchanged* may be said of processes that gave one value each.

    Many values show how a process behaves from call to call; a single one does not, so the number of
    processes has to. Where a mode or an outlier is seen, the interval holds what it may do.
    """
    if not costs.has_single_values or shift.mix is not None:
        return 0
    return min(values_to_exclude_mode(0), cap) - costs.pair_count


def _is_futile(shift: Shift, limits: DecisionLimits, tail: float, cap: int) -> bool:
    """Whether all pairs up to the cap will hardly decide.

    Judged from half of the cap on, where the spread is known well enough (Snapinn et al. 2006), by
    the predictive probability of a decision. Levels of looks are nearly equal, so this look's
    ``tail`` stands for the last one's. Never where the modes can be matched in several ways, where
    outliers may be the first of a mode, or where the mix would have changed: more pairs may settle that.
    """
    mix = shift.mix
    awaits_outliers = mix is not None and mix.largest_outlier_cluster > 0 and mix.is_part_of_interval
    if 2 * shift.pairs < cap or shift.df <= 0 or shift.readings or awaits_outliers:
        return False
    last = shift.scale_to_pairs(cap)
    if last.is_shift_of_mean and not shift.is_shift_of_mean:
        return False
    low, high = last.bounds_of_move(tail)
    beyond = max(limits.bar, limits.null + (high - low) / 2)
    moved = 1 - predictive_probability_between(shift, cap, -beyond, beyond)
    inside = limits.equivalence - last.half_width(tail)
    mean = (
        replace(shift, error=math.hypot(shift.error, mix.mean_shift_error))
        if mix and mix.is_part_of_interval
        else shift
    )
    unchanged = predictive_probability_between(mean, cap, -inside, inside)
    return unchanged + moved < FUTILITY_LEVEL
