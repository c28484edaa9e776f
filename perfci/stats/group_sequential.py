"""Looking at growing data more than once without paying for it in false verdicts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import ndtr, ndtri

ALPHA = 0.025
"""Error of each side over all looks together: the 95 % interval of every verdict."""


def pocock_spending(fraction: float, alpha: float = ALPHA) -> float:
    """Error spent once this share of the information is in: Lan & DeMets (1983), the Pocock-like function."""
    return alpha * math.log1p((math.e - 1) * min(max(fraction, 0.0), 1.0))


def look_levels(fractions: tuple[float, ...], alpha: float = ALPHA) -> tuple[float, ...]:
    """One-sided nominal level at every look, so that all looks together spend ``alpha``.

    ``fractions`` are the shares of the final information, increasing. The recursion over the density of the score
    that has not stopped yet is that of Armitage, McPherson & Rowe (1969).
    """
    return tuple(_spend_through(fractions[: k + 1], alpha)[0] for k in range(len(fractions)))


@lru_cache(maxsize=2048)
def _spend_through(fractions: tuple[float, ...], alpha: float) -> tuple[float, np.ndarray]:
    """The level of the last look and the density of the score after it; plans that begin alike share the work."""
    grid = np.linspace(-GRID_REACH, GRID_REACH, GRID_POINTS)
    width = grid[1] - grid[0]
    if len(fractions) == 1:
        level = pocock_spending(fractions[0], alpha)
        density = _normal_density(grid, math.sqrt(fractions[0]))
        density[grid > -ndtri(level) * math.sqrt(fractions[0])] = 0.0
        return level, density
    before, now = fractions[-2:]
    budget = pocock_spending(now, alpha) - pocock_spending(before, alpha)
    step = _normal_density(grid, math.sqrt(max(now - before, width**2)))
    density = np.convolve(_spend_through(fractions[:-1], alpha)[1], step, "same") * width
    mass_above = np.cumsum(density[::-1])[::-1] * width
    border = float(np.interp(-budget, -mass_above, grid - width / 2))
    density[grid > border] = 0.0
    return float(ndtr(-border / math.sqrt(now))), density


GRID_REACH, GRID_POINTS = 6.0, 1201
"""The score of a full sample has sd 1, so +-6 holds all but 2e-9 of it, in steps of 0.01."""


def spending_plan(information: Sequence[float], looks: Sequence[int], cap: int) -> tuple[float, ...]:
    """The share of the error that may be spent by each look, from the share of the needed information it had.

    Information-based monitoring (Mehta & Tsiatis 2001): a quiet benchmark has all it needs at its first look and may
    spend there; a noisy one spends by the clock of pairs. Something is always left while pairs are,
    and every look has its part of that.
    """
    plan: list[float] = []
    for k, (share, look) in enumerate(zip(information, looks, strict=True)):
        allowed = 1.0 if look >= cap else min(max(share, look / cap), (1 + look / cap) / 2)
        by_the_clock = (
            plan[-1] + (1 - plan[-1]) * (look - looks[k - 1]) / (cap - looks[k - 1])
            if plan
            else INFORMATION_STEP
        )
        plan.append(max(INFORMATION_STEP * math.floor(allowed / INFORMATION_STEP + 1e-9), by_the_clock))
    return tuple(plan)


INFORMATION_STEP = 0.05
"""Information is rounded to this, so that like noise gets like plans and their levels are computed once."""


def next_look(looks: Sequence[int], pairs: int) -> int:
    """The number of pairs at which to look next; where all looks are past, the present."""
    return min((look for look in looks if look > pairs), default=pairs)


def _normal_density(grid: np.ndarray, sd: float) -> np.ndarray:
    return np.asarray(np.exp(-0.5 * (grid / sd) ** 2) / (sd * math.sqrt(2 * math.pi)))
