"""Axes of a scene: positions of commits, how values become positions, and the ticks of both."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import accumulate

from perfci.model import Commit
from perfci.number_format import DisplayScale, format_signed_percent
from perfci.report.charts.plot_axes import tick_values
from perfci.report.charts.scene import XKind, YKind

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class CommitAxis:
    """Where commits lie: by their number on the branch or by their date.

    ``commits`` are all of the branch that are known, oldest first, measured or not.
    """

    kind: XKind
    commits: tuple[Commit, ...]
    positions: Mapping[str, float]

    def unmeasured_between(self, first: float, last: float, measured: set[str]) -> tuple[float, ...]:
        """Positions of commits that have no result, within a range."""
        return tuple(
            self.positions[commit.sha]
            for commit in self.commits
            if commit.sha not in measured and first <= self.positions[commit.sha] <= last
        )


def build_commit_axis(commits: Sequence[Commit], kind: XKind = "commits") -> CommitAxis:
    """Place commits, oldest first; by date only where all of them have one."""
    if kind == "date" and commits and all(commit.committed_at for commit in commits):
        days = [_days_of(commit) for commit in commits]
        # A rebased commit may be dated before its parent: it is drawn where the parent is.
        monotone = accumulate(days, max)
        return CommitAxis(
            "date", tuple(commits), {commit.sha: x for commit, x in zip(commits, monotone, strict=True)}
        )
    numbers = {commit.sha: float(number) for number, commit in enumerate(commits)}
    return CommitAxis("commits", tuple(commits), numbers)


def _days_of(commit: Commit) -> float:
    assert commit.committed_at is not None
    return (commit.committed_at - EPOCH) / timedelta(days=1)


@dataclass(frozen=True, slots=True)
class ValueAxis:
    """How values become positions; ``reference`` is the value that stands for 0 % on a ratio axis."""

    kind: YKind
    scale: DisplayScale
    reference: float = 1.0

    def position_of(self, value: float) -> float:
        """The position of a value: its logarithm on a logarithmic axis."""
        if self.kind == "log":
            return math.log10(value)
        return value

    def ticks(self, low: float, high: float, count: int) -> list[tuple[float, str]]:
        """Round values between two positions, each with its text."""
        if self.kind == "log":
            return self._logarithmic_ticks(low, high, count)
        if self.kind == "ratio":
            percent = DisplayScale(abs(self.reference) / 100, "%")
            shifted = tick_values(low - self.reference, high - self.reference, percent, count)
            return [
                (value + self.reference, format_signed_percent(value / abs(self.reference)))
                for value in shifted
            ]
        return [
            (value, self.scale.format_without_unit(value))
            for value in tick_values(low, high, self.scale, count)
        ]

    def _logarithmic_ticks(self, low: float, high: float, count: int) -> list[tuple[float, str]]:
        factor = self.scale.factor
        mantissas: tuple[float, ...] = (1, 2, 5)
        if high - low < 0.7:  # less than a factor of five: round values of a linear axis lie close enough
            values = tick_values(10**low, 10**high, self.scale, count)
        else:
            if high - low > 4:
                mantissas = (1,)
            first, last = math.floor(low - math.log10(factor)), math.ceil(high - math.log10(factor))
            values = [
                mantissa * 10.0**power * factor for power in range(first, last + 1) for mantissa in mantissas
            ]
        return [
            (math.log10(value), self.scale.format_without_unit(value))
            for value in values
            if value > 0 and low <= math.log10(value) <= high
        ]
