"""The reason of a verdict in plain sentences: what was measured, in which modes, what was left out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from perfci.model import Process, Series, Stage, Status, Verdict, VerdictKind
from perfci.number_format import format_percent, format_signed_percent
from perfci.stats.location_shift import Shift
from perfci.verdicts.comparison_rule import MOVE_KINDS, Rule
from perfci.verdicts.usable_processes import disqualifying_flags, select_disqualified_processes

MAX_FLAGS_SHOWN = 2
"""Flags listed in a reason."""

MIN_STEP_SHOWN = 0.2
"""Steps of a clock below this share of the bar leave nothing open."""

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
        return f"inside the threshold of {format_percent(rule.bar)}{rule.subject_phrase} either way"
    bar_text = f"the threshold of {format_percent(bar)}{rule.subject_phrase}"
    is_raised = not math.isclose(bar, rule.bar)
    if is_raised:
        bar_text += f", raised from {format_percent(rule.bar)} to what its A/A runs show by themselves,"
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        inside = format_percent(rule.bar) if is_raised else "it"
        more = format_pairs_to_decide(verdict.pairs_to_decide)
        return f"neither beyond {bar_text} nor inside {inside}, {more}"
    if verdict.stage is Stage.SCREENING:
        return f"beyond {bar_text.removesuffix(',')}, to be confirmed by an A/B rerun"
    excluded = "all of it" if rule.strict else "half of it"
    return f"beyond {bar_text.removesuffix(',')}, and {excluded} is excluded"


def format_pairs_to_decide(pairs: int | None) -> str:
    """How many pairs would decide; None means none would."""
    if pairs is None:
        return "too close to the threshold for more pairs to decide"
    return f"about {pairs} more pair{'s' if pairs != 1 else ''} would decide"


def format_missing_reason(side: Sequence[Process]) -> str:
    """Why a side has no usable process."""
    if not side:
        return "was not measured"
    failed = next((process for process in side if process.status not in (Status.OK, Status.SKIPPED)), None)
    if failed is None:
        return f"was skipped ({side[0].reason or 'no reason given'})"
    return format_process_ending(failed.status, failed.reason)


def format_process_ending(status: Status, reason: str) -> str:
    """How a failed process ended."""
    return f"ended as {status.value}" + (f" ({reason})" if reason else "")


def format_disqualified_processes(base: Sequence[Process], head: Sequence[Process]) -> str:
    """How many processes were disqualified, and their flags; empty for none."""
    disqualified = select_disqualified_processes([*base, *head])
    if not disqualified:
        return ""
    flags = list(dict.fromkeys(flag for process in disqualified for flag in disqualifying_flags(process)))
    rest = f" and {len(flags) - MAX_FLAGS_SHOWN} more" if len(flags) > MAX_FLAGS_SHOWN else ""
    count = f"{len(disqualified)} of {len(base) + len(head)} processes"
    return f"{count}, flagged {'; '.join(flags[:MAX_FLAGS_SHOWN])}{rest}"


def describe_modes(series: Series, shift: Shift, kind: VerdictKind) -> str:
    """``3 of 8 base and 4 of 8 head processes were in the slow mode, 12 % apart; compared within modes.``

    Empty where there is one mode. Outliers are described where they may be the first of a second one and
    nothing is decided.
    """
    mix = shift.modes
    if mix is None:
        return _describe_outliers(shift) if kind is VerdictKind.INCONCLUSIVE else ""
    base, head = f"{mix.base_upper} of {mix.base_total}", f"{mix.head_upper} of {mix.head_total}"
    upper = "slow" if re.fullmatch(TIME_UNIT_PATTERN, series.metric.unit) else "worse"
    apart = f"{format_percent(math.expm1(mix.gap))} apart"
    note = "; compared within modes"
    if mix.has_changed:
        note = ": chance hardly explains that, so the mix is part of the difference"
    elif shift.readings:
        note = "; they can be matched in two ways, and the interval holds for both"
    elif kind not in MOVE_KINDS:
        note += ", and the interval allows for a change in how often each is visited"
    return f"{base} base and {head} head processes were in the {upper} mode, {apart}{note}."


def _describe_outliers(shift: Shift) -> str:
    mix = shift.mix
    if mix is None or not mix.is_part_of_interval:
        return ""
    count, apart = (
        mix.base_upper + mix.head_upper,
        f"about {format_percent(math.expm1(mix.gap))} from the others",
    )
    text = f"{count} of {mix.base_total + mix.head_total} processes {'was' if count == 1 else 'were'}"
    return f"{text} {apart}: an outlier or a second mode, which more pairs would show."


def describe_coarse_clock(shift: Shift, bar: float) -> str:
    """That the clock is too coarse for a bar; empty where its steps are small beside it."""
    step = math.expm1(shift.resolution_error * math.sqrt(6))
    if step < MIN_STEP_SHOWN * bar:
        return ""
    return f"The clock reads in steps of {format_percent(step)}: changes of that size stay open."


def format_percent_change(ratio: float) -> str:
    """Distance of a ratio from 1, in percent."""
    return format_signed_percent(ratio - 1)


def format_both_levels(before: float, after: float) -> str:
    """Both numbers, with all digits where fewer would look equal."""
    texts = [format_measured_level(value) for value in (before, after)]
    return " became ".join(texts if texts[0] != texts[1] else map(repr, (before, after)))


def format_measured_level(value: float) -> str:
    """A level in its own unit, without the unit."""
    return f"{value:,.10g}"
