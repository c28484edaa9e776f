"""The noise of a project: how often A/A runs raise false alarms, and the noise floor of each series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from perfci.model import MetricClass, Series
from perfci.stats.binomial_statistics import clopper_pearson_interval
from perfci.stats.noise_floor import raise_bar_to_noise


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


@dataclass(frozen=True, slots=True)
class NoiseWindow:
    """The noise over the last ``days``; None for all time."""

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
class ProjectNoise:
    """How far verdicts can be trusted; ``last_compared_at`` is the time of the last A/A run."""

    windows: Sequence[NoiseWindow]
    floors: Sequence[SeriesNoiseFloor]
    last_compared_at: datetime | None
