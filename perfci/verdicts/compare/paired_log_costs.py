"""Log costs of base and head per process, in the pairs they were measured in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfci.model import Process, Series
from perfci.stats.location_estimates import Floats
from perfci.stats.location_shift import NoisePrior, Shift, estimate_shift
from perfci.verdicts.process_levels import steady_levels
from perfci.verdicts.usable_processes import select_usable_processes


@dataclass(frozen=True, slots=True)
class PairedLogCosts:
    """Log costs of both sides, shapes (n,) and (m,), n = m if paired; a cost rises when things get
    worse.

    ``has_single_values`` says that every process gave one value: nothing is known of what happens within.
    """

    base: Floats
    head: Floats
    sign: float
    is_paired: bool
    has_single_values: bool = False

    @classmethod
    def from_processes(
        cls, series: Series, base: Sequence[Process], head: Sequence[Process]
    ) -> PairedLogCosts:
        """Costs of the usable processes, matched in pairs where possible."""
        base, head, in_pairs = match_pairs(base, head)
        levels = steady_levels(base, head)
        sign = series.metric.cost_sign
        costs = [sign * np.log(np.asarray(side, dtype=float)) for side in levels]
        has_single_values = all(len(process.samples) == 1 for process in (*base, *head))
        return cls(costs[0], costs[1], sign, in_pairs, has_single_values)

    @property
    def pair_count(self) -> int:
        """Number of pairs, or of the smaller side."""
        return min(len(self.base), len(self.head))

    def estimate_shift(self, prior: NoisePrior | None = None) -> Shift:
        """Shift in cost, shrunk towards a prior if one is given."""
        return estimate_shift(self.base, self.head, is_paired=self.is_paired, prior=prior)

    def truncate_to_pairs(self, pairs: int) -> PairedLogCosts:
        """Costs after the first ``pairs`` pairs."""
        return replace(self, base=self.base[:pairs], head=self.head[:pairs])


def match_pairs(
    base: Sequence[Process], head: Sequence[Process]
) -> tuple[list[Process], list[Process], bool]:
    """Usable processes of both sides in the order of their pair (else round) numbers, and whether
    they are paired.

    Only pairs with both processes count. Sides without numbers are unpaired.
    """
    sides: list[dict[int | None, Process]] = [
        {
            process.round if process.pair is None else process.pair: process
            for process in select_usable_processes(side)
        }
        for side in (base, head)
    ]
    if any(None in side for side in sides):
        return select_usable_processes(base), select_usable_processes(head), False
    both = sorted(number for number in sides[0].keys() & sides[1].keys() if number is not None)
    return [sides[0][number] for number in both], [sides[1][number] for number in both], True
