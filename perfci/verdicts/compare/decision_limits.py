"""Decision limits: what the interval of a shift decides, by the rule and the A/A history of a case."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfci.model import Series, Stage, Verdict, VerdictKind
from perfci.stats.group_sequential import ALPHA
from perfci.stats.location_shift import NoisePrior, Shift
from perfci.stats.noise_floor import compute_noise_floor, raise_bar_to_noise
from perfci.stats.statistical_power import estimate_pairs_to_decide
from perfci.verdicts.comparison_rule import MOVE_KINDS, ROUNDING_TOLERANCE, Rule

SCREENING_BAR_SHARE = 0.1
"""Share of the bar that the interval of a candidate excludes.

Of changes of +2 % in whole milliseconds at 20 ms, five pairs select 2.4 % where no change is excluded, 1.2 %
with a tenth of the bar, 0.8 % with a fifth; of +10 % between JMH forks 89, 88 and 86 %.
"""


@dataclass(frozen=True, slots=True)
class DecisionLimits:
    """Log shifts that decide: the estimate of a move must pass ``bar`` and its interval exclude
    ``null``.

    *Unchanged* needs the interval within ``equivalence``, the bar of the rule: a noise floor raises
    the bar of a move, but what that lets through is not thereby proven equal.
    """

    bar: float
    null: float
    equivalence: float

    @classmethod
    def from_rule(cls, rule: Rule, aa_log_ratios: Sequence[float] = ()) -> DecisionLimits:
        """Limits of a rule, the bar raised to the noise floor of A/A runs."""
        bar = raise_bar_to_noise(rule.bar, compute_noise_floor(aa_log_ratios))
        return cls(math.log1p(bar), math.log1p(bar if rule.strict else bar / 2), math.log1p(rule.bar))

    def for_screening(self) -> DecisionLimits:
        """Limits that select a candidate: the estimate beyond the bar and the interval beyond a tenth
        of it."""
        return replace(self, null=math.log1p(SCREENING_BAR_SHARE * math.expm1(self.bar)))

    def classify(self, shift: Shift, tail: float = ALPHA) -> VerdictKind:
        """Verdict of the interval that leaves ``tail`` out on either side
        (docs/design/statistics.md, section 4).

        *Unchanged* also needs what the mix of modes may add to be inside.
        """
        low, high = shift.bounds_of_move(tail)
        least, greatest = shift.centre_range
        bar = self.bar * (1 - ROUNDING_TOLERANCE)
        if least >= bar and low > self.null:
            return VerdictKind.REGRESSION
        if greatest <= -bar and high < -self.null:
            return VerdictKind.IMPROVEMENT
        low, high = shift.bounds(tail)
        return (
            VerdictKind.UNCHANGED
            if -self.equivalence < low and high < self.equivalence
            else VerdictKind.INCONCLUSIVE
        )

    def select_bounds(self, shift: Shift, tail: float = ALPHA) -> tuple[float, float]:
        """The interval on which the verdict of this shift rests."""
        is_move = self.classify(shift, tail) in MOVE_KINDS
        return shift.bounds_of_move(tail) if is_move else shift.bounds(tail)

    def is_near_bar(self, shift: Shift, tail: float = ALPHA) -> bool:
        """Whether the change is known to lie between half the bar and half as much again.

        It is then known as well as the bar was chosen: the indifference zone of Bechhofer (1954).
        Separating 4.8 from 5.2 % would take any number of pairs.
        """
        low, high = sorted(math.copysign(1, shift.centre) * bound for bound in shift.bounds(tail))
        return self.bar / 2 < low and high < 1.5 * self.bar

    def estimate_more_pairs(self, shift: Shift) -> int | None:
        """Further pairs that would decide: as a move where the estimate passes the bar, else as
        unchanged."""
        if self.is_near_bar(shift):
            return None
        distance = abs(shift.centre)
        return estimate_pairs_to_decide(
            shift, distance - self.null if distance >= self.bar else self.equivalence - distance
        )


@dataclass(frozen=True, slots=True)
class ComparisonCase:
    """The inputs of one comparison: series, two commits, rule, A/A history and noise prior."""

    series: Series
    base_sha: str
    head_sha: str
    stage: Stage
    rule: Rule
    aa_log_ratios: Sequence[float] = ()
    prior: NoisePrior | None = None

    @property
    def limits(self) -> DecisionLimits:
        """Decision limits of the rule and the A/A history."""
        return DecisionLimits.from_rule(self.rule, self.aa_log_ratios)

    def make_verdict(self, kind: VerdictKind, reason: str, **fields: object) -> Verdict:
        """A verdict on this case."""
        return Verdict(kind, self.stage, self.series, self.base_sha, self.head_sha, reason=reason, **fields)  # type: ignore[arg-type]
