"""The series page: what is the trend, and when did it step?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfci.model import CPU_TWIN, Commit, Series
from perfci.report.charts.series_trend import Dot, Mark, Trend
from perfci.report.charts.svg_charts import drawn_note
from perfci.report.number_format import quantity
from perfci.report.verdict_labels import QUIET
from perfci.report.verdict_sentences import Told, counts_sentence, trend_sentence, unavailable_sentence
from perfci.store.queries.records import SeriesRecord, VerdictRecord
from perfci.verdicts.process_levels import place_of
from perfci_web.page_urls import answers_to
from perfci_web.view_parts.cells import by_cell

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
class Twin:
    """What the same processes read with the other clock, and where that stands."""

    series: Series
    shown: str
    is_cpu: bool


@dataclass(frozen=True, slots=True)
class SeriesPage:
    """``judged`` says whether verdicts are given on it, ``available`` whether it ever had a value or may yet have one;
    ``metrics`` are what else its processes gave.
    """

    project: str
    trend: Trend
    sentence: Told
    drawn: str
    needs: int
    changes: tuple[Change, ...]
    verdicts: tuple[VerdictRecord, ...]
    quiet_verdicts: tuple[VerdictRecord, ...]
    lines: tuple[Line, ...]
    judged: bool
    available: bool
    twin: Twin | None
    metrics: tuple[SeriesRecord, ...]
    namesakes: tuple[Series, ...]
    cells: tuple[Series, ...]

    @property
    def quiet_words(self) -> str:
        return counts_sentence(record.verdict for record in self.quiet_verdicts)

    @property
    def series(self) -> Series:
        return self.trend.series


def chosen(records: Sequence[SeriesRecord], query: Mapping[str, str]) -> list[SeriesRecord]:
    """The series an address means, those measured last first; of several cells it means none."""
    fitting = [record for record in records if answers_to(record.series, query)]
    return fitting if len({record.series.parameters for record in fitting}) == 1 else []


def twin_of(record: SeriesRecord, others: Iterable[SeriesRecord]) -> SeriesRecord | None:
    """The series with the name that the other clock gives this metric, of the same processes."""
    name, place = record.series.metric.name, place_of(record.series)
    named = {one.series.metric.name: one for one in others if place_of(one.series) == place}
    return named.get(f"{CPU_TWIN}{name}") or (
        named.get(name.removeprefix(CPU_TWIN)) if name.startswith(CPU_TWIN) else None
    )


def series_page(
    project: str,
    trend: Trend,
    verdicts: Sequence[VerdictRecord],
    records: Sequence[SeriesRecord],
    *,
    beside: Trend | None = None,
    judged: bool = True,
) -> SeriesPage:
    """Join a series with its kin: the other metrics of its processes, the same elsewhere, and its other parameters.

    ``records`` are all series of its benchmark, ``beside`` is the trend of its twin.
    """
    commits = {dot.commit.sha: dot.commit for dot in trend.dots}
    series = trend.series
    never = next((one for one in records if one.series == series and one.never_measured), None)
    alike = [record for record in records if record.series.metric.name == series.metric.name]
    return SeriesPage(
        project=project,
        trend=trend,
        sentence=unavailable_sentence(series, never.last_reason) if never else trend_sentence(trend),
        drawn=drawn_note(trend),
        needs=max(0, ENOUGH_FOR_CHANGES - len(trend.measured)),
        changes=tuple(
            Change(mark, commits.get(mark.commit), commits.get(mark.last_good)) for mark in reversed(trend.marks)
        ),
        verdicts=tuple(one for one in verdicts if one.verdict.kind not in QUIET),
        quiet_verdicts=tuple(one for one in verdicts if one.verdict.kind in QUIET),
        lines=tuple(lines(trend)[:MOST_ROWS]),
        judged=judged,
        available=never is None,
        twin=_twin(series, beside) if beside else None,
        metrics=_metrics(series, records),
        namesakes=tuple(one.series for one in alike if one.series.parameters == series.parameters),
        cells=_cells(series, alike),
    )


def lines(trend: Trend) -> list[Line]:
    """The commits as table rows, newest first."""
    rows, before = [], None
    for dot in trend.dots:
        rows.append(Line(dot, before))
        before = dot if dot.level is not None else before
    return rows[::-1]


def _twin(series: Series, beside: Trend) -> Twin:
    metric, level = beside.series.metric, beside.levels[-1].value if beside.levels else beside.last_level
    shown = "" if level is None else quantity(level, metric.unit, metric.name)
    return Twin(beside.series, shown, is_cpu=metric.name == f"{CPU_TWIN}{series.metric.name}")


def _metrics(series: Series, records: Iterable[SeriesRecord]) -> tuple[SeriesRecord, ...]:
    """What one process of this cell gives, itself among it, in the order of every list; what never was, last."""
    together = [record for record in records if place_of(record.series) == place_of(series)]
    stored = sorted(together, key=lambda record: record.id)
    cells = by_cell(stored, lambda one: one.series, lambda one: one.witness or one.never_measured)
    return cells[0].rows if cells else ()


def _cells(series: Series, records: Sequence[SeriesRecord]) -> tuple[Series, ...]:
    """One series for each set of parameters, like this one in everything else where there is such a one."""
    nearest: dict[object, Series] = {}
    for record in records:
        one = record.series
        alike = (one.machine, one.variant, one.benchmark) == (series.machine, series.variant, series.benchmark)
        if alike or one.parameters not in nearest:
            nearest[one.parameters] = one
    return tuple(sorted(nearest.values(), key=lambda one: one.label))
