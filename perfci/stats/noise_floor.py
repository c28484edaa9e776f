"""Noise floor: how far comparisons of identical inputs (A/A runs) differ.

The floor is 1.96 times a robust standard deviation s of the A/A log ratios r, whose true value is
known to be 0. For two normal values (r1^2 + r2^2) / 2 is s^2 times a standard exponential variable,
whose median is log 2, so over all pairs of runs

    s^2 = median of (r_i^2 + r_j^2) / 2, i < j, divided by log 2.

A median over pairs is that of Hodges & Lehmann (1963): 29 % of the runs may be arbitrarily far out.
One of ten raises the floor by 23 %, whatever its size, where it raises a root mean square without
bound; the efficiency on normal data is 71 %. How often it holds: docs/design/statistics.md,
section 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

MIN_AA_RUNS = 3
"""Fewest A/A runs with a floor: of two, one bad night cannot be told from the other."""

NORMAL_95 = 1.96
"""97.5 % quantile of the normal distribution, for two-sided 95 %."""

MAX_NOISE_FLOOR = 0.5
"""Largest floor that a bar is raised to: what takes half as long again is reported, whatever A/A
runs show. Up to a standard deviation of 25 % that is a false alarm in no more than one of twenty."""

MAX_LOG_FLOOR = math.log(1e6)
"""Floors beyond a factor of a million are cut there, so that each is a number."""


def compute_noise_floor(aa_log_ratios: Sequence[float]) -> float | None:
    """Noise floor of a series from its A/A log ratios, as a ratio minus one; None for fewer than
    three."""
    if len(aa_log_ratios) < MIN_AA_RUNS:
        return None
    return math.expm1(min(NORMAL_95 * robust_sd_about_zero(aa_log_ratios), MAX_LOG_FLOOR))


def robust_sd_about_zero(values: Sequence[float]) -> float:
    """Standard deviation of at least two values whose mean is known to be 0 (see above)."""
    squares = np.asarray(values, dtype=float) ** 2
    first, second = np.triu_indices(len(squares), 1)
    means = (squares[first] + squares[second]) / 2
    # the lower of two middle ones, since outliers are large
    middle = (len(means) - 1) // 2
    return math.sqrt(float(np.partition(means, middle)[middle]) / math.log(2))


def raise_bar_to_noise(bar: float, noise_floor: float | None) -> float:
    """The larger of a bar and a noise floor, which counts up to ``MAX_NOISE_FLOOR``."""
    return max(bar, min(noise_floor or 0.0, MAX_NOISE_FLOOR))


def scale_aa_log_ratios(aa_runs: Sequence[tuple[float, int]], pairs: int) -> list[float]:
    """Log ratios that A/A runs, as (log ratio, pairs), would show with so many pairs.

    Fewer pairs wander more, by the square root of their number. More pairs are taken to wander as
    much: what differs from one session to the next does not shrink with the pairs of one.
    """
    return [ratio * math.sqrt(max(1.0, own_pairs / max(pairs, 1))) for ratio, own_pairs in aa_runs]
