"""Calibration: false alarms in A/A runs, and what became of candidates between different commits.

Every verdict ever given counts, superseded or not: an alarm that was seen is not undone by a later
one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from perfci.model import MetricClass, Series, Stage, VerdictKind
from perfci.stats.binomial_statistics import clopper_pearson_interval
from perfci.stats.noise_floor import raise_bar_to_noise
from perfci.verdicts.comparison_rule import MOVE_KINDS

StagedKind = tuple[Stage, VerdictKind]
"""Stage and kind of one verdict."""

ALARM_KINDS = (*MOVE_KINDS, VerdictKind.FAILED)
"""False alarms of an A/A run; a false improvement misleads like a false regression."""

TESTED_KINDS = (*ALARM_KINDS, VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE)
"""Verdicts that could have been an alarm; not those with a missing or incomparable side."""


@dataclass(frozen=True, slots=True)
class FalseAlarmRate:
    """False alarms among the verdicts of A/A runs, with the exact 95 % interval of their share."""

    alarms: int
    verdicts: int

    @property
    def share(self) -> float | None:
        """Alarms per verdict; None without verdicts."""
        return self.alarms / self.verdicts if self.verdicts else None

    @property
    def interval(self) -> tuple[float, float]:
        """Interval of Clopper & Pearson (1934)."""
        return clopper_pearson_interval(self.alarms, self.verdicts)


@dataclass(frozen=True, slots=True)
class FalseAlarmMeter:
    """False alarms of screening, and those that fresh pairs confirmed.

    Screening without an alarm settles its question, so ``confirmed`` counts it beside the verdicts
    on fresh pairs; with one it only selects a candidate. ``not_compared`` had a side missing.
    """

    screening: FalseAlarmRate
    confirmed: FalseAlarmRate
    not_compared: int


def count_false_alarms(verdict_counts: Mapping[StagedKind, int]) -> FalseAlarmMeter:
    """Count false alarms from the number of A/A verdicts of each stage and kind."""

    def count(stage: Stage, kinds: Sequence[VerdictKind]) -> int:
        return sum(verdict_counts.get((stage, kind), 0) for kind in kinds)

    screened, screening_alarms = count(Stage.SCREENING, TESTED_KINDS), count(Stage.SCREENING, ALARM_KINDS)
    candidates = count(Stage.SCREENING, MOVE_KINDS)
    confirmed_alarms = count(Stage.CONFIRMATION, ALARM_KINDS) + screening_alarms - candidates
    confirmed = screened - candidates + count(Stage.CONFIRMATION, TESTED_KINDS)
    total = sum(verdict_counts.values())
    not_compared = total - screened - count(Stage.CONFIRMATION, TESTED_KINDS)
    # a crash (FAILED) is no candidate: it stands at once, so it stays among the confirmed alarms
    return FalseAlarmMeter(
        FalseAlarmRate(screening_alarms, screened), FalseAlarmRate(confirmed_alarms, confirmed), not_compared
    )


@dataclass(frozen=True, slots=True)
class CandidateCounts:
    """What became of the moves that screening selected between different commits.

    A refuted candidate is not a false alarm: it paged nobody, and refuting is what fresh pairs are
    for.
    """

    confirmed: int = 0
    refuted: int = 0
    undecided: int = 0
    unsettled: int = 0  # nobody has looked again

    @property
    def total(self) -> int:
        """All candidates."""
        return self.confirmed + self.refuted + self.undecided + self.unsettled


@dataclass(frozen=True, slots=True)
class ConfirmationCounts:
    """Confirmed moves between different commits, and how many of them a later verdict retracted."""

    total: int = 0
    retracted: int = 0


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


@dataclass(frozen=True, slots=True)
class CalibrationWindow:
    """Calibration over the last ``days``; None for all time."""

    days: int | None
    comparisons: int
    overall: FalseAlarmMeter
    suites: Mapping[str, FalseAlarmMeter]
    classes: Mapping[MetricClass, FalseAlarmMeter]
    candidates: CandidateCounts
    confirmations: ConfirmationCounts


@dataclass(frozen=True, slots=True)
class SeriesNoiseFloor:
    """Noise floor of a series from its A/A runs, and the bar of the policy alone."""

    series: Series
    noise_floor: float
    comparisons: int
    policy_bar: float

    @property
    def bar(self) -> float:
        """The policy bar, raised to the noise floor: a move must pass both."""
        return raise_bar_to_noise(self.policy_bar, self.noise_floor)

    @property
    def raises_bar(self) -> bool:
        """Whether the noise floor raises the bar."""
        return self.noise_floor > self.policy_bar


@dataclass(frozen=True, slots=True)
class Calibration:
    """How far verdicts can be trusted; ``last_compared_at`` is the time of the last A/A run."""

    windows: Sequence[CalibrationWindow]
    floors: Sequence[SeriesNoiseFloor]
    last_compared_at: datetime | None
