"""The costs of base and head, process by process, in the pairs they were measured in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfci.model import Process, Series
from perfci.stats.location import Floats
from perfci.stats.location_shift import Prior, Shift, shift, side_by_side
from perfci.verdicts.process_levels import settled_levels, usable


@dataclass(frozen=True, slots=True)
class Sides:
    """Log costs of both sides, one per process: a cost rises when things get worse, whatever the metric's direction."""

    base: Floats
    head: Floats
    sign: float
    in_pairs: bool

    @classmethod
    def of(cls, series: Series, base: Sequence[Process], head: Sequence[Process]) -> Sides:
        base, head, in_pairs = paired_up(base, head)
        levels = settled_levels(base, head)
        sign = 1.0 if series.metric.direction == "lower" else -1.0
        costs = [sign * np.log(np.asarray(side, dtype=float)) for side in levels]
        return cls(costs[0], costs[1], sign, in_pairs)

    @property
    def pairs(self) -> int:
        return min(len(self.base), len(self.head))

    def shift(self, prior: Prior | None = None) -> Shift:
        if self.in_pairs:
            return shift(self.base, self.head, prior=prior)
        return side_by_side(self.base, self.head, prior=prior)

    def first(self, pairs: int) -> Sides:
        """What was known after so many pairs."""
        return replace(self, base=self.base[:pairs], head=self.head[:pairs])


def paired_up(base: Sequence[Process], head: Sequence[Process]) -> tuple[list[Process], list[Process], bool]:
    """Usable processes of both sides in the order of their pair (else round) numbers.

    Only pairs with both processes count. Sides without numbers are compared side against side, which is not in pairs.
    """
    sides = [{_number_of(process): process for process in usable(side)} for side in (base, head)]
    if any(None in side for side in sides):
        return usable(base), usable(head), False
    both = sorted(number for number in sides[0].keys() & sides[1].keys() if number is not None)
    return [sides[0][number] for number in both], [sides[1][number] for number in both], True


def _number_of(process: Process) -> int | None:
    return process.pair if process.pair is not None else process.round
