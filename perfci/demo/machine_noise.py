"""Noise of the demo's machine: what ten fresh pairs show by themselves, and what they detect."""

from __future__ import annotations

import math

from perfci.stats.location_shift import NoisePrior
from perfci.stats.noise_floor import NORMAL_95
from perfci.stats.statistical_power import minimum_detectable_effect
from perfci.verdicts.compare.decision_limits import DecisionLimits
from perfci.verdicts.comparison_rule import Rule

FRESH_PAIRS = 10
"""Pairs that confirm a candidate (docs/design/statistics.md, section 8)."""


def noise_floor_from_pair_noise(pair_noise: NoisePrior) -> float:
    """Difference of an A/A comparison that 95 in 100 stay below, as a ratio minus one."""
    return math.expm1(NORMAL_95 * pair_noise.sd / math.sqrt(FRESH_PAIRS))


def detectable_effect_from_pair_noise(pair_noise: NoisePrior) -> float:
    """Smallest change (0.08 = 8 %) that the pairs would confirm in 80 of 100 comparisons."""
    limits = DecisionLimits.from_rule(Rule())
    error = pair_noise.sd / math.sqrt(FRESH_PAIRS)
    return math.expm1(minimum_detectable_effect(error, pair_noise.df, limits.bar, limits.null))
