"""False-discovery control over the verdicts of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfci.model import Verdict, VerdictKind
from perfci.stats.multiple_comparisons import DEFAULT_FDR, benjamini_hochberg
from perfci.stats.statistical_power import estimate_pairs_to_p_value
from perfci.verdicts.compare.reason_text import format_pairs_to_decide
from perfci.verdicts.comparison_rule import MOVE_KINDS

FALSE_DISCOVERY_RATE = 0.01
"""Of a hundred confirmed changes one may be false; at the usual 5 % every other range with ten true
changes has one."""

HELD_BACK_TEXT = (
    "Not counted, by false-discovery control: among this many comparisons a difference of this size"
    " is expected by chance"
)
"""Appended to the reason of a move that is held back."""


def control_false_discoveries(verdicts: Sequence[Verdict], rate: float = DEFAULT_FDR) -> list[Verdict]:
    """Turn moves that Benjamini & Hochberg (1995) do not accept into *inconclusive*.

    Exact values are certain and no part of the group: many certain changes would make room for
    chance among the others.
    """
    tested = [
        verdict.p_value
        for verdict in verdicts
        if verdict.p_value is not None and not is_exact_verdict(verdict)
    ]
    accepted = [p for p, ok in zip(tested, benjamini_hochberg(tested, rate), strict=True) if ok]
    threshold, target_p_value = max(accepted, default=0.0), rate * (len(accepted) + 1) / max(len(tested), 1)
    return [
        verdict if is_exact_verdict(verdict) else _hold_back(verdict, threshold, target_p_value)
        for verdict in verdicts
    ]


def is_exact_verdict(verdict: Verdict) -> bool:
    """Whether the verdict rests on exact values, so that chance has no part in it."""
    bounds = verdict.interval
    repeats = bounds is not None and bounds.lo == bounds.hi
    return verdict.p_value in (0.0, 1.0) and (
        repeats if verdict.noise_floor is None else verdict.noise_floor == 0
    )


def _hold_back(verdict: Verdict, threshold: float, target_p_value: float) -> Verdict:
    """Hold back a move above the threshold; ``target_p_value`` would have been accepted."""
    if verdict.kind not in MOVE_KINDS or verdict.p_value is None or verdict.p_value <= threshold:
        return verdict
    more = estimate_pairs_to_p_value(verdict.pairs, verdict.p_value, target_p_value)
    text = f"{verdict.reason} {HELD_BACK_TEXT}"
    reason = f"{text}; {format_pairs_to_decide(more)}." if more else f"{text}."
    return replace(verdict, kind=VerdictKind.INCONCLUSIVE, pairs_to_decide=more, reason=reason)
