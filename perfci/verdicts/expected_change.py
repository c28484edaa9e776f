"""Expected changes: how much of what a change may cost, and which verdicts that allows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase

from perfci.model import Series, Verdict

MIN_NOISE = 0.0005
"""Half of the last digit written in practice."""


@dataclass(frozen=True, slots=True)
class ExpectedChange:
    """A declared change: ``change`` is relative to the value, so +0.03 bytes are worse and +0.03
    tokens a second better.

    ``is_authorized`` says whether its author may write to the repository; else it is only shown.
    """

    match: str
    change: float
    reason: str
    is_authorized: bool = True

    def matches_series(self, series: Series) -> bool:
        """Whether metric, benchmark, cell or ``benchmark.metric`` matches."""
        benchmark, cell, metric = series.benchmark.name, series.cell, series.metric.name
        return any(
            fnmatchcase(candidate, self.match)
            for candidate in (metric, benchmark, cell, f"{benchmark}.{metric}")
        )

    def allows_verdict(self, verdict: Verdict) -> bool:
        """Whether the verdict's change is expected."""
        return verdict.ratio is not None and self.allows_change(
            verdict.series, verdict.ratio - 1, verdict.noise
        )

    def allows_change(self, series: Series, relative_change: float, noise: float) -> bool:
        """Whether a change is expected: this series, this direction, and no larger than declared
        plus the noise."""
        as_large = abs(relative_change) <= abs(self.change) + max(noise, MIN_NOISE)
        return self.matches_series(series) and relative_change * self.change > 0 and as_large


@dataclass(frozen=True, slots=True)
class MergedExpectedChange:
    """An expected change, the commit that brought it and when, and where it was declared: ``#12``,
    or a commit."""

    sha: str
    expected: ExpectedChange
    source: str
    merged_at: datetime | None = None
