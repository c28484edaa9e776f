"""One question: this series, these two commits, this rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.model import Series, Stage, Verdict, VerdictKind
from perfci.stats.location_shift import Prior
from perfci.verdicts.compare.decision_limits import Limits
from perfci.verdicts.rule import Rule


@dataclass(frozen=True, slots=True)
class Case:
    """One question: this series, these two commits, this rule."""

    series: Series
    base_sha: str
    head_sha: str
    stage: Stage
    rule: Rule
    aa: Sequence[float] = ()
    prior: Prior | None = None

    @property
    def limits(self) -> Limits:
        return Limits.of(self.rule, self.aa)

    def answer(self, kind: VerdictKind, reason: str, **known: object) -> Verdict:
        return Verdict(kind, self.stage, self.series, self.base_sha, self.head_sha, reason=reason, **known)  # type: ignore[arg-type]
