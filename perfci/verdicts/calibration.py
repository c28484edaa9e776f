"""How often verdicts are wrong: false alarms about equal commits, and what was taken back about different ones.

Every verdict ever given counts, whatever superseded it: an alarm somebody has seen is not undone by a later one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from perfci.model import MetricClass, Series, Stage, VerdictKind
from perfci.stats.proportion import exact_interval
from perfci.verdicts.rule import MOVES

Given = tuple[Stage, VerdictKind]
"""What was said once, and on what evidence."""

ALARMS = (*MOVES, VerdictKind.FAILED)
"""What is wrong to say of a commit against itself; an improvement that is none misleads like a regression."""

ANSWERS = (*ALARMS, VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE)
"""Verdicts that could have been an alarm; where a side is missing or not comparable none could."""


@dataclass(frozen=True, slots=True)
class Rate:
    """False alarms among verdicts on equals, with the exact 95 % interval of their share."""

    alarms: int
    verdicts: int

    @property
    def share(self) -> float | None:
        return self.alarms / self.verdicts if self.verdicts else None

    @property
    def interval(self) -> tuple[float, float]:
        return exact_interval(self.alarms, self.verdicts)


@dataclass(frozen=True, slots=True)
class Meter:
    """The false alarms of first looks, and those that fresh pairs confirmed.

    A first look that raises no alarm is the last word on its question, so ``convicted`` counts it beside the verdicts
    on fresh pairs; one that does is only a nomination. ``set_aside`` had nothing to compare.
    """

    first_look: Rate
    convicted: Rate
    set_aside: int


def meter(given: Mapping[Given, int]) -> Meter:
    """Read how many verdicts of each stage and kind equal commits were given."""

    def count(stage: Stage, kinds: Sequence[VerdictKind]) -> int:
        return sum(given.get((stage, kind), 0) for kind in kinds)

    looked, alarmed = count(Stage.SCREENING, ANSWERS), count(Stage.SCREENING, ALARMS)
    nominated = count(Stage.SCREENING, MOVES)
    convicted = count(Stage.CONVICTION, ALARMS) + alarmed - nominated  # a crash is no nomination: it stands at once
    settled = looked - nominated + count(Stage.CONVICTION, ANSWERS)
    everything = sum(given.values())
    aside = everything - looked - count(Stage.CONVICTION, ANSWERS)
    return Meter(Rate(alarmed, looked), Rate(convicted, settled), aside)


@dataclass(frozen=True, slots=True)
class Nominations:
    """What became of the moves that first looks suspected between different commits.

    A refuted one is no false alarm: nobody was paged, and finding out is what fresh pairs are for.
    """

    confirmed: int = 0
    refuted: int = 0
    undecided: int = 0
    unsettled: int = 0  # nobody has looked again

    @property
    def suspected(self) -> int:
        return self.confirmed + self.refuted + self.undecided + self.unsettled


@dataclass(frozen=True, slots=True)
class Convictions:
    """Moves between different commits told as facts, and how many of them something else was said of later."""

    given: int = 0
    retracted: int = 0


def nominations(questions: Iterable[Sequence[Given]]) -> Nominations:
    """Follow every suspicion to the verdict after it; a question has its verdicts in the order they were given."""
    fates = [
        _fate(kind, verdicts[k + 1] if k + 1 < len(verdicts) else None)
        for verdicts in questions
        for k, (stage, kind) in enumerate(verdicts)
        if stage is Stage.SCREENING and kind in MOVES
    ]
    return Nominations(*(fates.count(fate) for fate in ("confirmed", "refuted", "undecided", "unsettled")))


def _fate(suspected: VerdictKind, after: Given | None) -> str:
    if after is None or after[0] is Stage.SCREENING:
        return "unsettled"
    if after[1] is suspected:
        return "confirmed"
    return "refuted" if after[1] in ANSWERS and after[1] is not VerdictKind.INCONCLUSIVE else "undecided"


def convictions(questions: Iterable[Sequence[Given]]) -> Convictions:
    """Count moves told on fresh pairs, and those after which anything else was ever said of the same question."""
    found = [
        any(later is not kind for _, later in verdicts[k + 1 :])
        for verdicts in questions
        for k, (stage, kind) in enumerate(verdicts)
        if stage is Stage.CONVICTION and kind in MOVES
    ]
    return Convictions(len(found), sum(found))


@dataclass(frozen=True, slots=True)
class Window:
    """What a stretch of time says; ``days`` is absent for all of it."""

    days: int | None
    comparisons: int
    overall: Meter
    suites: Mapping[str, Meter]
    classes: Mapping[MetricClass, Meter]
    nominations: Nominations
    convictions: Convictions


@dataclass(frozen=True, slots=True)
class Floor:
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
    def raised(self) -> bool:
        return self.noise_floor > self.policy_bar


@dataclass(frozen=True, slots=True)
class Calibration:
    """All that is known of how far verdicts can be trusted; ``last_at`` is when equals were last compared."""

    windows: Sequence[Window]
    floors: Sequence[Floor]
    last_at: datetime | None
