"""The inputs of one comparison: series, two commits, rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.model import Series, Stage, Verdict, VerdictKind
from perfci.stats.location_shift import NoisePrior
from perfci.verdicts.compare.decision_limits import DecisionLimits
from perfci.verdicts.rule import Rule


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
