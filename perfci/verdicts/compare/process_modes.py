"""Benchmarks with two modes: which processes were in which, in words."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from perfci.model import Series
from perfci.stats.location import Floats
from perfci.stats.location_shift import MIX_TEST_LEVEL, ModeMix, describe_mode_mix


@dataclass(frozen=True, slots=True)
class ModeSummary:
    """Two modes of a benchmark as both sides visited them; the upper is called ``upper_name``."""

    mix: ModeMix
    upper_name: str

    @property
    def has_mix_changed(self) -> bool:
        """Whether the mixes differ so much that the sides are compared as they are."""
        return not self.mix.compared_within_modes and self.mix.p_value <= MIX_TEST_LEVEL

    @property
    def text(self) -> str:
        """``3 of 8 base and 4 of 8 head processes were in the slow mode, 12 % apart; compared
        within modes.``"""
        mix = self.mix
        base, head = f"{mix.base_upper} of {mix.base_total}", f"{mix.head_upper} of {mix.head_total}"
        apart = f"{100 * math.expm1(mix.mode_gap):.0f} % apart"
        where = f"were in the {self.upper_name} mode, {apart}{self._comparison_note}"
        return f"{base} base and {head} head processes {where}."

    @property
    def _comparison_note(self) -> str:
        if self.has_mix_changed:
            return ": the mix changed, so the sides are compared as they are"
        if not self.mix.compared_within_modes:
            return "; compared as they are"
        if self.mix.p_value <= MIX_TEST_LEVEL:
            return ": the mix may have changed, and the interval allows for it"
        if self.mix.spans_matchings:
            return "; compared within modes, and the interval holds for other matchings of the modes too"
        return "; compared within modes"


TIME_UNIT_PATTERN = r"(seconds|s|ms|us|ns)(/.*)?|.*/(s|seconds?)"
"""Units whose worse mode is the slow one."""


def summarize_modes(series: Series, base: Floats, head: Floats) -> ModeSummary | None:
    """Modes of both sides from their log costs, shapes (n,) and (m,); None where there is one."""
    mix = describe_mode_mix(base, head)
    if mix is None:
        return None
    is_time = re.fullmatch(TIME_UNIT_PATTERN, series.metric.unit)
    return ModeSummary(mix, "slow" if is_time else "worse")
