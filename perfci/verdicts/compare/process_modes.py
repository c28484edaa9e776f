"""Benchmarks that sit in two states: which processes were in which, in words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from perfci.model import Series
from perfci.stats.location import Floats
from perfci.stats.location_shift import MIX_TEST_LEVEL, ModeMix, describe_mode_mix


@dataclass(frozen=True, slots=True)
class ModeSummary:
    """Two states of a benchmark as both sides visited them, the upper of which is called ``upper``."""

    mix: ModeMix
    upper_name: str

    @property
    def has_mix_changed(self) -> bool:
        """Whether the sides visit the states so differently that they are compared as they are."""
        return not self.mix.compared_within_modes and self.mix.p_value <= MIX_TEST_LEVEL

    @property
    def text(self) -> str:
        """``3 of 8 base and 4 of 8 head processes were in the slow state, 12 % apart; compared within states.``"""
        return (
            f"{self.mix.base_upper} of {self.mix.base_total} base and {self.mix.head_upper} of {self.mix.head_total} head processes "
            f"were in the {self.upper_name} state, {100 * math.expm1(self.mix.mode_gap):.0f} % apart{self._comparison_note}."
        )

    @property
    def _comparison_note(self) -> str:
        if self.has_mix_changed:
            return ": the mix changed, so the sides are compared as they are"
        if not self.mix.compared_within_modes:
            return "; compared as they are"
        if self.mix.p_value <= MIX_TEST_LEVEL:
            return ": the mix may have changed, and the interval allows for it"
        allowing = (
            ", and the interval holds for other readings of the states too"
            if self.mix.spans_matchings
            else ""
        )
        return f"; compared within states{allowing}"


TIME_UNIT_PATTERN = r"(seconds|s|ms|us|ns)(/.*)?|.*/(s|seconds?)"
"""Units whose worse state is the slow one."""


def summarize_modes(series: Series, base: Floats, head: Floats) -> ModeSummary | None:
    """The states of both sides, from their log costs, which rise when things get worse; None where there is one."""
    mix = describe_mode_mix(base, head)
    return (
        ModeSummary(mix, "slow" if re.fullmatch(TIME_UNIT_PATTERN, series.metric.unit) else "worse")
        if mix
        else None
    )
