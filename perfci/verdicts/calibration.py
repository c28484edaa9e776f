"""How often verdicts are wrong: false alarms about equal commits, and what was taken back about different ones.

Every verdict ever given counts, whatever superseded it: an alarm somebody has seen is not undone by a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from perfci.model import MetricClass, Series, Stage, VerdictKind
from perfci.stats.proportion import clopper_pearson_interval
from perfci.verdicts.rule import MOVE_KINDS

StagedKind = tuple[Stage, VerdictKind]
"""What was said once, and on what evidence."""

ALARM_KINDS = (*MOVE_KINDS, VerdictKind.FAILED)
"""What is wrong to say of a commit against itself; an improvement that is none misleads like a regression."""

TESTED_KINDS = (*ALARM_KINDS, VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE)
"""Verdicts that could have been an alarm; where a side is missing or not comparable none could."""


@dataclass(frozen=True, slots=True)
class FalseAlarmRate:
    """False alarms among verdicts on equals, with the exact 95 % interval of their share."""

    alarms: int
    verdicts: int

    @property
    def share(self) -> float | None:
        return self.alarms / self.verdicts if self.verdicts else None

    @property
    def interval(self) -> tuple[float, float]:
        return clopper_pearson_interval(self.alarms, self.verdicts)


@dataclass(frozen=True, slots=True)
class FalseAlarmMeter:
    """The false alarms of first looks, and those that fresh pairs confirmed.

    A first look that raises no alarm is the last word on its question, so ``convicted`` counts it beside the verdicts
    on fresh pairs; one that does is only a nomination. ``set_aside`` had nothing to compare.
    """

    screening: FalseAlarmRate
    confirmed: FalseAlarmRate
    not_compared: int


def count_false_alarms(verdict_counts: Mapping[StagedKind, int]) -> FalseAlarmMeter:
    """Read how many verdicts of each stage and kind equal commits were given."""

    def count(stage: Stage, kinds: Sequence[VerdictKind]) -> int:
        return sum(verdict_counts.get((stage, kind), 0) for kind in kinds)

    screened, screening_alarms = count(Stage.SCREENING, TESTED_KINDS), count(Stage.SCREENING, ALARM_KINDS)
    candidates = count(Stage.SCREENING, MOVE_KINDS)
    confirmed_alarms = (
        count(Stage.CONFIRMATION, ALARM_KINDS) + screening_alarms - candidates
    )  # a crash is no nomination: it stands at once
    confirmed = screened - candidates + count(Stage.CONFIRMATION, TESTED_KINDS)
    total = sum(verdict_counts.values())
    not_compared = total - screened - count(Stage.CONFIRMATION, TESTED_KINDS)
    return FalseAlarmMeter(
        FalseAlarmRate(screening_alarms, screened), FalseAlarmRate(confirmed_alarms, confirmed), not_compared
    )


@dataclass(frozen=True, slots=True)
class CandidateCounts:
    """What became of the moves that first looks suspected between different commits.

    A refuted one is no false alarm: nobody was paged, and finding out is what fresh pairs are for.
    """

    confirmed: int = 0
    refuted: int = 0
    undecided: int = 0
    unsettled: int = 0  # nobody has looked again

    @property
    def total(self) -> int:
        return self.confirmed + self.refuted + self.undecided + self.unsettled


@dataclass(frozen=True, slots=True)
class ConfirmationCounts:
    """Moves between different commits told as facts, and how many of them something else was said of later."""

    total: int = 0
    retracted: int = 0


def count_candidates(verdict_histories: Iterable[Sequence[StagedKind]]) -> CandidateCounts:
    """Follow every suspicion to the verdict after it; a question has its verdicts in the order they were given."""
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


def count_confirmations(verdict_histories: Iterable[Sequence[StagedKind]]) -> ConfirmationCounts:
    """Count moves told on fresh pairs, and those after which anything else was ever said of the same question."""
    retracted = [
        any(later is not kind for _, later in verdicts[k + 1 :])
        for verdicts in verdict_histories
        for k, (stage, kind) in enumerate(verdicts)
        if stage is Stage.CONFIRMATION and kind in MOVE_KINDS
    ]
    return ConfirmationCounts(len(retracted), sum(retracted))


@dataclass(frozen=True, slots=True)
class CalibrationWindow:
    """What a stretch of time says; ``days`` is absent for all of it."""

    days: int | None
    comparisons: int
    overall: FalseAlarmMeter
    suites: Mapping[str, FalseAlarmMeter]
    classes: Mapping[MetricClass, FalseAlarmMeter]
    candidates: CandidateCounts
    confirmations: ConfirmationCounts


@dataclass(frozen=True, slots=True)
class SeriesNoiseFloor:
    """What equal commits of a series show, from how many comparisons, and the bar the policy alone would have."""

    series: Series
    noise_floor: float
    comparisons: int
    policy_bar: float

    @property
    def bar(self) -> float:
        """A move has to pass both: where equals wander further than the policy's bar, the floor is the bar."""
        return max(self.policy_bar, self.noise_floor)

    @property
    def is_raised(self) -> bool:
        return self.noise_floor > self.policy_bar


@dataclass(frozen=True, slots=True)
class Calibration:
    """All that is known of how far verdicts can be trusted; ``last_at`` is when equals were last compared."""

    windows: Sequence[CalibrationWindow]
    floors: Sequence[SeriesNoiseFloor]
    last_compared_at: datetime | None
