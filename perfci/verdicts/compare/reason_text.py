"""The reason of a verdict in one plain sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from perfci.model import Process, Stage, Status, Verdict, VerdictKind
from perfci.verdicts.number_format import format_percent_change
from perfci.verdicts.process_levels import disqualifying_flags, select_disqualified
from perfci.verdicts.rule import Rule


def format_reason(verdict: Verdict, rule: Rule, bar: float) -> str:
    """State what was measured and why the verdict follows."""
    pairs = f"{verdict.pairs} pair{'s' if verdict.pairs != 1 else ''}"
    text = f"{format_percent_change(verdict.ratio or 1.0)} over {pairs}"
    if verdict.interval is None:
        more = format_more_pairs(verdict.pairs_to_decide)
        return f"{text}: a single pair has no interval, so no verdict is possible yet; {more}."
    low, high = map(format_percent_change, (verdict.interval.lo, verdict.interval.hi))
    return f"{text}, interval {low} to {high}: {_format_conclusion(verdict, rule, bar)}."


def _format_conclusion(verdict: Verdict, rule: Rule, bar: float) -> str:
    if verdict.kind is VerdictKind.UNCHANGED:
        return f"inside the bar of {rule.bar:.1%}{rule.subject_phrase} either way"
    if verdict.kind is VerdictKind.INCONCLUSIVE:
        inside = "it" if math.isclose(bar, rule.bar) else f"{rule.bar:.1%}"
        more = format_more_pairs(verdict.pairs_to_decide)
        return f"neither beyond the bar of {bar:.1%}{rule.subject_phrase} nor inside {inside}, {more}"
    if verdict.stage is Stage.SCREENING:
        return f"beyond the bar of {bar:.1%}{rule.subject_phrase}, to be confirmed on fresh pairs"
    excluded = "all of it" if rule.strict else "half of it"
    return f"beyond the bar of {bar:.1%}{rule.subject_phrase}, and {excluded} is excluded"


def format_more_pairs(pairs: int | None) -> str:
    """How many pairs would decide; None means none would."""
    if pairs is None:
        return "too close to the bar for more pairs to settle"
    return f"about {pairs} more pair{'s' if pairs != 1 else ''} would decide"


def format_failure(side: Sequence[Process]) -> str:
    """How the first failed process ended."""
    failed = next(process for process in side if process.status not in (Status.OK, Status.SKIPPED))
    return f"ended as {failed.status.value}" + (f" ({failed.reason})" if failed.reason else "")


def format_missing_reason(side: Sequence[Process]) -> str:
    """Why a side has no usable process."""
    if not side:
        return "was not measured"
    if all(process.status is Status.SKIPPED for process in side):
        return f"was skipped ({side[0].reason or 'no reason given'})"
    return format_failure(side)


def add_disqualified_note(verdict: Verdict, base: Sequence[Process], head: Sequence[Process]) -> Verdict:
    """Append to the reason how many processes were not judged."""
    note = format_disqualified(base, head)
    return replace(verdict, reason=f"{verdict.reason} Not judged: {note}.") if note else verdict


def format_disqualified(base: Sequence[Process], head: Sequence[Process]) -> str:
    """How many processes were disqualified, and their flags; empty for none."""
    disqualified = select_disqualified([*base, *head])
    if not disqualified:
        return ""
    flags = list(dict.fromkeys(flag for process in disqualified for flag in disqualifying_flags(process)))
    rest = f" and {len(flags) - MAX_FLAGS_SHOWN} more" if len(flags) > MAX_FLAGS_SHOWN else ""
    count = f"{len(disqualified)} of {len(base) + len(head)} processes"
    return f"{count}, flagged {'; '.join(flags[:MAX_FLAGS_SHOWN])}{rest}"


MAX_FLAGS_SHOWN = 2
"""Flags listed in a reason."""
