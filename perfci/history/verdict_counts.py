"""Counts of verdicts: false alarms in A/A runs, and what became of candidates between different commits.

Every verdict ever given counts, superseded or not: an alarm that was seen is not undone by a later
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perfci.model import Stage, VerdictKind
from perfci.verdicts.comparison_rule import MOVE_KINDS
from perfci.verdicts.project_noise import (
    CandidateCounts,
    ConfirmationCounts,
    FalseAlarmMeter,
    FalseAlarmRate,
)

StagedKind = tuple[Stage, VerdictKind]
"""Stage and kind of one verdict."""

ALARM_KINDS = (*MOVE_KINDS, VerdictKind.FAILED)
"""False alarms of an A/A run; a false improvement misleads like a false regression."""

TESTED_KINDS = (*ALARM_KINDS, VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE)
"""Verdicts that could have been an alarm; not those with a missing or incomparable side."""


def count_aa_false_alarms(aa_verdict_counts: Mapping[StagedKind, int]) -> FalseAlarmMeter:
    """Count false alarms from the number of A/A verdicts of each stage and kind."""

    def count(stage: Stage, kinds: Sequence[VerdictKind]) -> int:
        return sum(aa_verdict_counts.get((stage, kind), 0) for kind in kinds)

    screened, screening_alarms = count(Stage.SCREENING, TESTED_KINDS), count(Stage.SCREENING, ALARM_KINDS)
    candidates = count(Stage.SCREENING, MOVE_KINDS)
    confirmed_alarms = count(Stage.CONFIRMATION, ALARM_KINDS) + screening_alarms - candidates
    confirmed = screened - candidates + count(Stage.CONFIRMATION, TESTED_KINDS)
    total = sum(aa_verdict_counts.values())
    not_compared = total - screened - count(Stage.CONFIRMATION, TESTED_KINDS)
    # a crash (FAILED) is no candidate: it stands at once, so it stays among the confirmed alarms
    return FalseAlarmMeter(
        FalseAlarmRate(screening_alarms, screened), FalseAlarmRate(confirmed_alarms, confirmed), not_compared
    )


def count_candidate_fates(verdict_histories: Iterable[Sequence[StagedKind]]) -> CandidateCounts:
    """Follow every candidate to the verdict after it; each history has its verdicts in order."""
    fates = [
        _candidate_fate(kind, verdicts[k + 1] if k + 1 < len(verdicts) else None)
        for verdicts in verdict_histories
        for k, (stage, kind) in enumerate(verdicts)
        if stage is Stage.SCREENING and kind in MOVE_KINDS
    ]
    return CandidateCounts(
        *(fates.count(fate) for fate in ("confirmed", "refuted", "undecided", "unsettled"))
    )


def _candidate_fate(kind: VerdictKind, next_verdict: StagedKind | None) -> str:
    if next_verdict is None or next_verdict[0] is Stage.SCREENING:
        return "unsettled"
    if next_verdict[1] is kind:
        return "confirmed"
    return (
        "refuted"
        if next_verdict[1] in TESTED_KINDS and next_verdict[1] is not VerdictKind.INCONCLUSIVE
        else "undecided"
    )


def count_retracted_confirmations(verdict_histories: Iterable[Sequence[StagedKind]]) -> ConfirmationCounts:
    """Count confirmed moves, and those with any later verdict of another kind."""
    retracted = [
        any(later is not kind for _, later in verdicts[k + 1 :])
        for verdicts in verdict_histories
        for k, (stage, kind) in enumerate(verdicts)
        if stage is Stage.CONFIRMATION and kind in MOVE_KINDS
    ]
    return ConfirmationCounts(len(retracted), sum(retracted))
