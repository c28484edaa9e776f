"""What chance alone would show among many comparisons is held back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from perfci.model import Verdict, VerdictKind
from perfci.stats import fdr
from perfci.stats.power import pairs_for_evidence
from perfci.verdicts.compare.reason_text import how_many_more
from perfci.verdicts.rule import MOVES

FALSE_DISCOVERY_RATE = 0.01
"""Of a hundred confirmed changes one may be false; at the usual 5 % every other range with ten true changes has one."""


def control(verdicts: Sequence[Verdict], rate: float = fdr.FDR) -> list[Verdict]:
    """Hold back the moves of a group that Benjamini & Hochberg do not accept together; all else passes unchanged.

    What was counted exactly is certain and no part of the group: many certain changes would make room for chance
    among the others.
    """
    tested = [verdict.p_value for verdict in verdicts if verdict.p_value is not None and not is_exact(verdict)]
    accepted = [p for p, ok in zip(tested, fdr.accepted(tested, rate), strict=True) if ok]
    threshold, wanted = max(accepted, default=0.0), rate * (len(accepted) + 1) / max(len(tested), 1)
    return [one if is_exact(one) else _held_back(one, threshold, wanted) for one in verdicts]


def is_exact(verdict: Verdict) -> bool:
    """Whether it was counted rather than estimated, so that chance has no part in it."""
    return verdict.noise_floor == 0 and verdict.p_value in (0.0, 1.0)


def _held_back(verdict: Verdict, threshold: float, wanted: float) -> Verdict:
    """``wanted`` is the p-value with which it would have been accepted."""
    if verdict.kind not in MOVES or verdict.p_value is None or verdict.p_value <= threshold:
        return verdict
    more = pairs_for_evidence(verdict.pairs, verdict.p_value, wanted)
    told = f"{verdict.reason} Held back: among so many comparisons this much is to be expected by chance"
    reason = f"{told}; {how_many_more(more)}." if more else f"{told}."
    return replace(verdict, kind=VerdictKind.INCONCLUSIVE, pairs_to_decide=more, reason=reason)
