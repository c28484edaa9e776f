"""The reason of a verdict in plain sentences: what was measured, in which modes, what was left out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfci.model import Process, Series, Stage, Status, Verdict, VerdictKind
from perfci.stats.location_estimates import Floats
from perfci.stats.location_shift import MIX_TEST_LEVEL, ModeMix, describe_mode_mix
from perfci.verdicts.comparison_rule import Rule
from perfci.verdicts.process_levels import disqualifying_flags, select_disqualified_processes

MAX_FLAGS_SHOWN = 2
"""Flags listed in a reason."""

TIME_UNIT_PATTERN = r"(seconds|s|ms|us|ns)(/.*)?|.*/(s|seconds?)"
"""Units whose worse mode is the slow one."""


def format_reason(verdict: Verdict, rule: Rule, bar: float) -> str:
    """State what was measured and why the verdict follows."""
    pairs = f"{verdict.pairs} pair{'s' if verdict.pairs != 1 else ''}"
    text = f"{format_percent_change(verdict.ratio or 1.0)} over {pairs}"
    if verdict.interval is None:
        more = format_pairs_to_decide(verdict.pairs_to_decide)
        return f"{text}: a single pair has no interval, so no verdict is possible yet; {more}."
    low, high = map(format_percent_change, (verdict.interval.lo, verdict.interval.hi))
    return f"{text}, interval {low} to {high}: {_format_conclusion(verdict, rule, bar)}."


def _format_conclusion(verdict: Verdict, rule: Rule, bar: float) -> str:
    if verdict.kind is VerdictKind.UNCHANGED:
        return f"inside the bar of {rule.bar:.1%}{rule.subject_phrase} either way"
    bar_text = f"the bar of {bar:.1%}{rule.subject_phrase}"
    is_raised = not math.isclose(bar, rule.bar)
    if is_raised:
        bar_text += f", raised from {rule.bar:.1%} to what its A/A runs show by themselves,"
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        inside = f"{rule.bar:.1%}" if is_raised else "it"
        more = format_pairs_to_decide(verdict.pairs_to_decide)
        return f"neither beyond {bar_text} nor inside {inside}, {more}"
    if verdict.stage is Stage.SCREENING:
        return f"beyond {bar_text.removesuffix(',')}, to be confirmed on fresh pairs"
    excluded = "all of it" if rule.strict else "half of it"
    return f"beyond {bar_text.removesuffix(',')}, and {excluded} is excluded"


def format_pairs_to_decide(pairs: int | None) -> str:
    """How many pairs would decide; None means none would."""
    if pairs is None:
        return "too close to the bar for more pairs to settle"
    return f"about {pairs} more pair{'s' if pairs != 1 else ''} would decide"


def format_missing_reason(side: Sequence[Process]) -> str:
    """Why a side has no usable process."""
    if not side:
        return "was not measured"
    failed = next((process for process in side if process.status not in (Status.OK, Status.SKIPPED)), None)
    if failed is None:
        return f"was skipped ({side[0].reason or 'no reason given'})"
    return format_ending(failed.status, failed.reason)


def format_ending(status: Status, reason: str) -> str:
    """How a failed process ended."""
    return f"ended as {status.value}" + (f" ({reason})" if reason else "")


def append_disqualified_note(verdict: Verdict, base: Sequence[Process], head: Sequence[Process]) -> Verdict:
    """Append to the reason how many processes were not judged."""
    note = format_disqualified_processes(base, head)
    return replace(verdict, reason=f"{verdict.reason} Not judged: {note}.") if note else verdict


def format_disqualified_processes(base: Sequence[Process], head: Sequence[Process]) -> str:
    """How many processes were disqualified, and their flags; empty for none."""
    disqualified = select_disqualified_processes([*base, *head])
    if not disqualified:
        return ""
    flags = list(dict.fromkeys(flag for process in disqualified for flag in disqualifying_flags(process)))
    rest = f" and {len(flags) - MAX_FLAGS_SHOWN} more" if len(flags) > MAX_FLAGS_SHOWN else ""
    count = f"{len(disqualified)} of {len(base) + len(head)} processes"
    return f"{count}, flagged {'; '.join(flags[:MAX_FLAGS_SHOWN])}{rest}"


@dataclass(frozen=True, slots=True)
class ModeSummary:
    """Two modes of a benchmark as both sides visited them; the upper is called ``upper_name``."""

    mix: ModeMix
    upper_name: str

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
        is_mix_doubtful = self.mix.p_value <= MIX_TEST_LEVEL
        if not self.mix.compared_within_modes:
            changed = ": the mix changed, so the sides are compared as they are"
            return changed if is_mix_doubtful else "; compared as they are"
        if is_mix_doubtful:
            return ": the mix may have changed, and the interval allows for it"
        if self.mix.spans_matchings:
            return "; compared within modes, and the interval holds for other matchings of the modes too"
        return "; compared within modes"


def summarize_modes(series: Series, base: Floats, head: Floats) -> ModeSummary | None:
    """Modes of both sides from their log costs, shapes (n,) and (m,); None where there is one."""
    mix = describe_mode_mix(base, head)
    if mix is None:
        return None
    is_time = re.fullmatch(TIME_UNIT_PATTERN, series.metric.unit)
    return ModeSummary(mix, "slow" if is_time else "worse")


def format_percent_change(ratio: float) -> str:
    """Distance of a ratio from 1, in percent."""
    return f"{ratio - 1:+.1%}"


def format_both_levels(before: float, after: float) -> str:
    """Both numbers, with all digits where fewer would look equal."""
    texts = [format_measured_level(value) for value in (before, after)]
    return " became ".join(texts if texts[0] != texts[1] else map(repr, (before, after)))


def format_measured_level(value: float) -> str:
    """A level in its own unit, without the unit."""
    return f"{value:,.10g}"
