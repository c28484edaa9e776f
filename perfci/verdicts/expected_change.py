"""Changes that a pull request announces beforehand: how much of what, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from perfci.model import Series, Verdict, VerdictKind

EXPECT_TRAILER = "Perfci-Expect:"
TRAILER_PATTERN = re.compile(
    EXPECT_TRAILER + r" +(\S{1,200}) +([+\-\N{MINUS SIGN}]?\d{1,6}(?:\.\d{1,6})?) ?% +(\S.{0,499})",
    re.IGNORECASE,
)
"""As git has trailers: a metric, a benchmark or both, by name or with ``*``; the change of the value; a reason."""

MAX_EXPECTED_CHANGES = 20
"""Announcements of one pull request."""

MIN_NOISE = 0.0005
"""Half of the last digit that anybody writes into an announcement."""


class ExpectedChangeOutcome(StrEnum):
    """What became of an announcement."""

    AS_EXPECTED = "as expected"
    MORE_THAN_EXPECTED = "larger than expected"
    NOT_SEEN = "not observed"


@dataclass(frozen=True, slots=True)
class ExpectedChange:
    """``change`` is that of the value, relative: +0.03 bytes are worse, +0.03 tokens a second better.

    ``counts`` tells whether who announced it may write to the repository; else it is only shown.
    """

    match: str
    change: float
    reason: str
    is_authorized: bool = True

    def matches_series(self, series: Series) -> bool:
        benchmark, cell, metric = series.benchmark.name, series.cell, series.metric.name
        return any(
            fnmatchcase(candidate, self.match)
            for candidate in (metric, benchmark, cell, f"{benchmark}.{metric}")
        )

    def covers_verdict(self, verdict: Verdict) -> bool:
        return verdict.ratio is not None and self.allows_change(
            verdict.series, verdict.ratio - 1, verdict.noise_floor or 0.0
        )

    def allows_change(self, series: Series, relative_change: float, noise: float) -> bool:
        """Whether a change is the announced one: of this series, in this direction, and no larger than noise allows."""
        as_large = abs(relative_change) <= abs(self.change) + max(noise, MIN_NOISE)
        return self.matches_series(series) and relative_change * self.change > 0 and as_large

    def compute_outcome(self, verdicts: Iterable[Verdict]) -> ExpectedChangeOutcome:
        """What was found of it among the changes that are worse."""
        worse = [
            verdict
            for verdict in verdicts
            if verdict.kind is VerdictKind.REGRESSION and self.matches_series(verdict.series)
        ]
        if not worse:
            return ExpectedChangeOutcome.NOT_SEEN
        return (
            ExpectedChangeOutcome.AS_EXPECTED
            if all(map(self.covers_verdict, worse))
            else ExpectedChangeOutcome.MORE_THAN_EXPECTED
        )


def parse_expected_changes(text: str) -> list[ExpectedChange]:
    """The announcements in the description of a pull request; a line that is written in another way is none."""
    lines = (TRAILER_PATTERN.fullmatch(line.strip()) for line in text.splitlines())
    changes = (
        ExpectedChange(match[1], _parse_change(match[2]), _replace_unprintable(match[3]))
        for match in lines
        if match
    )
    return [match for match in changes if match.change and match.match.isprintable()][:MAX_EXPECTED_CHANGES]


def _parse_change(text: str) -> float:
    return float(text.replace("\N{MINUS SIGN}", "-")) / 100


def _replace_unprintable(text: str) -> str:
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text
    )
