"""The series page: what is the trend, and when did it step?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfci.model import Commit, Series
from perfci.report.sentences import Told, trend_sentence
from perfci.report.svg import drawn_note
from perfci.report.trend import Dot, Mark, Trend
from perfci.store.records import SeriesRecord, VerdictRecord
from perfci_web.urls import answers_to

MOST_ROWS = 200
"""The table below the chart holds the newest commits; the CSV has them all."""

ENOUGH_FOR_CHANGES = 8
"""Below this many measured commits no change point is looked for."""

POINT_COLUMNS = (
    "commit", "committed_at", "subject", "status", "value", "q25", "q75", "processes", "reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """A mark with the commits at its two ends."""

    mark: Mark
    commit: Commit | None
    last_good: Commit | None


@dataclass(frozen=True, slots=True)
class Line:
    """One commit in the table: its dot and how far it lies from the commit measured before it."""

    dot: Dot
    before: Dot | None

    @property
    def change(self) -> float | None:
        if self.before is None or not self.before.level or self.dot.level is None:
            return None
        return self.dot.level / self.before.level - 1


@dataclass(frozen=True, slots=True)
class SeriesPage:
    project: str
    trend: Trend
    sentence: Told
    drawn: str
    needs: int
    changes: tuple[Change, ...]
    verdicts: tuple[VerdictRecord, ...]
    lines: tuple[Line, ...]
    namesakes: tuple[Series, ...]
    cells: tuple[Series, ...]

    @property
    def series(self) -> Series:
        return self.trend.series


def chosen(records: Sequence[SeriesRecord], query: Mapping[str, str]) -> list[SeriesRecord]:
    """The series an address means, those measured last first; of several cells it means none."""
    fitting = [record for record in records if answers_to(record.series, query)]
    return fitting if len({record.series.parameters for record in fitting}) == 1 else []


def series_page(
    project: str, trend: Trend, verdicts: Sequence[VerdictRecord], records: Sequence[SeriesRecord]
) -> SeriesPage:
    """Join a series with its namesakes: the same cell elsewhere, and the other cells of its benchmark."""
    commits = {dot.commit.sha: dot.commit for dot in trend.dots}
    series = trend.series
    return SeriesPage(
        project=project,
        trend=trend,
        sentence=trend_sentence(trend),
        drawn=drawn_note(trend),
        needs=max(0, ENOUGH_FOR_CHANGES - len(trend.measured)),
        changes=tuple(
            Change(mark, commits.get(mark.commit), commits.get(mark.last_good)) for mark in reversed(trend.marks)
        ),
        verdicts=tuple(verdicts),
        lines=tuple(lines(trend)[:MOST_ROWS]),
        namesakes=tuple(one.series for one in records if one.series.parameters == series.parameters),
        cells=_cells(series, records),
    )


def lines(trend: Trend) -> list[Line]:
    """The commits as table rows, newest first."""
    rows, before = [], None
    for dot in trend.dots:
        rows.append(Line(dot, before))
        before = dot if dot.level is not None else before
    return rows[::-1]


def _cells(series: Series, records: Sequence[SeriesRecord]) -> tuple[Series, ...]:
    """One series for each set of parameters, like this one in everything else where there is such a one."""
    nearest: dict[object, Series] = {}
    for record in records:
        one = record.series
        alike = (one.machine, one.variant, one.benchmark) == (series.machine, series.variant, series.benchmark)
        if alike or one.parameters not in nearest:
            nearest[one.parameters] = one
    return tuple(sorted(nearest.values(), key=lambda one: one.label))
