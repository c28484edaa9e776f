"""Changes that a pull request announces beforehand: how much of what, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from perfci.model import Series, Verdict, VerdictKind

TRAILER = "Perfci-Expect:"
LINE = re.compile(
    TRAILER + r" +(\S{1,200}) +([+\-\N{MINUS SIGN}]?\d{1,6}(?:\.\d{1,6})?) ?% +(\S.{0,499})", re.IGNORECASE
)
"""As git has trailers: a metric, a benchmark or both, by name or with ``*``; the change of the value; a reason."""

MOST = 20
"""Announcements of one pull request."""

LEAST_NOISE = 0.0005
"""Half of the last digit that anybody writes into an announcement."""


class Kept(StrEnum):
    """What became of an announcement."""

    AS_ANNOUNCED = "as announced"
    EXCEEDED = "more than announced"
    NOT_SEEN = "not seen"


@dataclass(frozen=True, slots=True)
class Announcement:
    """``change`` is that of the value, relative: +0.03 bytes are worse, +0.03 tokens a second better.

    ``counts`` tells whether who announced it may write to the repository; else it is only shown.
    """

    match: str
    change: float
    reason: str
    counts: bool = True

    def names(self, series: Series) -> bool:
        benchmark, cell, metric = series.benchmark.name, series.cell, series.metric.name
        return any(fnmatchcase(name, self.match) for name in (metric, benchmark, cell, f"{benchmark}.{metric}"))

    def covers(self, verdict: Verdict) -> bool:
        return verdict.ratio is not None and self.allows(verdict.series, verdict.ratio - 1, verdict.noise_floor or 0.0)

    def allows(self, series: Series, found: float, noise: float) -> bool:
        """Whether a change is the announced one: of this series, in this direction, and no larger than noise allows."""
        as_large = abs(found) <= abs(self.change) + max(noise, LEAST_NOISE)
        return self.names(series) and found * self.change > 0 and as_large

    def kept(self, verdicts: Iterable[Verdict]) -> Kept:
        """What was found of it among the changes that are worse."""
        worse = [one for one in verdicts if one.kind is VerdictKind.REGRESSION and self.names(one.series)]
        if not worse:
            return Kept.NOT_SEEN
        return Kept.AS_ANNOUNCED if all(map(self.covers, worse)) else Kept.EXCEEDED


def announcements(text: str) -> list[Announcement]:
    """The announcements in the description of a pull request; a line that is written in another way is none."""
    lines = (LINE.fullmatch(line.strip()) for line in text.splitlines())
    found = (Announcement(one[1], _change(one[2]), _visible(one[3])) for one in lines if one)
    return [one for one in found if one.change and one.match.isprintable()][:MOST]


def _change(text: str) -> float:
    return float(text.replace("\N{MINUS SIGN}", "-")) / 100


def _visible(text: str) -> str:
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
