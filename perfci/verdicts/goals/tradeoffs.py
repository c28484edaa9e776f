"""Speed that was paid for with memory or start time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfci.model import MetricClass, Series, Verdict, VerdictKind
from perfci.verdicts.variants.variant_contrast import owner


@dataclass(frozen=True, slots=True)
class Trade:
    """Speed that was paid for: one gain beyond its bar, and one cost beyond its own."""

    gain: Verdict
    cost: Verdict


def trades(verdicts: Sequence[Verdict], class_of: Callable[[Series], MetricClass]) -> list[Trade]:
    """Each cost in memory or start time beyond its bar, next to the largest gain in speed of the same class."""
    gains = [v for v in verdicts if v.kind is VerdictKind.IMPROVEMENT and class_of(v.series) in SPEED]
    costs = [v for v in verdicts if v.kind is VerdictKind.REGRESSION and class_of(v.series) in PRICE]
    found = []
    for cost in costs:
        own = [gain for gain in gains if _one_thing(gain.series, cost.series)]
        if own:
            found.append(Trade(max(own, key=_size), cost))
    return found


SPEED = (MetricClass.TIME, MetricClass.THROUGHPUT, MetricClass.TAIL)
PRICE = (MetricClass.MEMORY, MetricClass.COMPILE)


def _one_thing(one: Series, other: Series) -> bool:
    return owner(one.benchmark.name) == owner(other.benchmark.name) and one.parameters == other.parameters


def _size(verdict: Verdict) -> float:
    return abs(math.log(verdict.ratio)) if verdict.ratio else 0.0
