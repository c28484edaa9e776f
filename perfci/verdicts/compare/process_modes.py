"""Benchmarks that sit in two states: which processes were in which, in words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from perfci.model import Series
from perfci.stats.location import Floats
from perfci.stats.location_shift import MIX_LEVEL, Mix, mix


@dataclass(frozen=True, slots=True)
class States:
    """Two states of a benchmark as both sides visited them, the upper of which is called ``upper``."""

    mix: Mix
    upper: str

    @property
    def changed(self) -> bool:
        """Whether the sides visit the states so differently that they are compared as they are."""
        return not self.mix.compared and self.mix.chance <= MIX_LEVEL

    @property
    def told(self) -> str:
        """``3 of 8 base and 4 of 8 head processes were in the slow state, 12 % apart; compared within states.``"""
        return (
            f"{self.mix.base} of {self.mix.of_base} base and {self.mix.head} of {self.mix.of_head} head processes "
            f"were in the {self.upper} state, {100 * math.expm1(self.mix.apart):.0f} % apart{self._compared}."
        )

    @property
    def _compared(self) -> str:
        if self.changed:
            return ": the mix changed, so the sides are compared as they are"
        if not self.mix.compared:
            return "; compared as they are"
        if self.mix.chance <= MIX_LEVEL:
            return ": the mix may have changed, and the interval allows for it"
        allowing = ", and the interval holds for other readings of the states too" if self.mix.spanning else ""
        return f"; compared within states{allowing}"


TIMED = r"(seconds|s|ms|us|ns)(/.*)?|.*/(s|seconds?)"
"""Units whose worse state is the slow one."""


def states_of(series: Series, base: Floats, head: Floats) -> States | None:
    """The states of both sides, from their log costs, which rise when things get worse; None where there is one."""
    found = mix(base, head)
    return States(found, "slow" if re.fullmatch(TIMED, series.metric.unit) else "worse") if found else None
