"""Trade-offs: speed gained at the cost of memory or start time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from perfci.model import MetricClass, Series, Verdict, VerdictKind
from perfci.verdicts.variants.variant_contrast import get_benchmark_class


@dataclass(frozen=True, slots=True)
class Tradeoff:
    """A gain in speed and a cost in memory or start time, both beyond their bars."""

    gain: Verdict
    cost: Verdict


def find_tradeoffs(
    verdicts: Sequence[Verdict], metric_class_of: Callable[[Series], MetricClass]
) -> list[Tradeoff]:
    """Each cost beyond its bar, with the largest gain in speed of the same benchmark class and
    parameters."""
    gains = [
        v
        for v in verdicts
        if v.kind is VerdictKind.IMPROVEMENT and metric_class_of(v.series) in SPEED_CLASSES
    ]
    costs = [
        v for v in verdicts if v.kind is VerdictKind.REGRESSION and metric_class_of(v.series) in COST_CLASSES
    ]
    tradeoffs = []
    for cost in costs:
        subject = get_benchmark_class(cost.series.benchmark.name), cost.series.parameters
        related = [
            gain
            for gain in gains
            if (get_benchmark_class(gain.series.benchmark.name), gain.series.parameters) == subject
        ]
        if related:
            largest = max(related, key=lambda gain: abs(math.log(gain.ratio)) if gain.ratio else 0.0)
            tradeoffs.append(Tradeoff(largest, cost))
    return tradeoffs


SPEED_CLASSES = (MetricClass.TIME, MetricClass.THROUGHPUT, MetricClass.TAIL)
"""Metric classes that count as speed."""
COST_CLASSES = (MetricClass.MEMORY, MetricClass.COMPILE)
"""Metric classes speed is traded for."""
