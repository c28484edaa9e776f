"""The series page: what is the trend, and when did it step?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfci.model import CPU_METRIC_PREFIX, Commit, Series
from perfci.report.charts.series_trend import ChangeMark, Dot, Trend
from perfci.report.charts.svg_charts import downsampling_note
from perfci.report.number_format import format_quantity
from perfci.report.verdict_labels import QUIET_KINDS
from perfci.report.verdict_sentences import PageSummary, counts_sentence, trend_sentence, unavailable_sentence
from perfci.store.queries.records import SeriesRecord, VerdictRecord
from perfci.verdicts.process_levels import key_without_metric
from perfci_web.page_urls import matches_query
from perfci_web.view_parts.cells import group_by_cell

MAX_ROWS = 200
"""The table below the chart holds the newest commits; the CSV has them all."""

MIN_COMMITS_FOR_CHANGES = 8
"""Below this many measured commits no change point is looked for."""

POINT_COLUMNS = (
    "commit",
    "committed_at",
    "subject",
    "status",
    "value",
    "q25",
    "q75",
    "processes",
    "reason",
)


@dataclass(frozen=True, slots=True)
class MarkedChange:
    """A mark with the commits at its two ends."""

    mark: ChangeMark
    commit: Commit | None
    last_good: Commit | None


@dataclass(frozen=True, slots=True)
class SeriesCommitRow:
    """One commit in the table: its dot and how far it lies from the commit measured before it."""

    dot: Dot
    previous: Dot | None

    @property
    def change(self) -> float | None:
        if self.previous is None or not self.previous.level or self.dot.level is None:
            return None
        return self.dot.level / self.previous.level - 1


@dataclass(frozen=True, slots=True)
class ClockTwin:
    """What the same processes read with the other clock, and where that stands."""

    series: Series
    level_text: str
    is_cpu: bool


@dataclass(frozen=True, slots=True)
class SeriesView:
    """``judged`` says whether verdicts are given on it, ``available`` whether it ever had a value or may yet have one;
    ``metrics`` are what else its processes gave.
    """

    project: str
    trend: Trend
    sentence: PageSummary
    chart_note: str
    commits_needed: int
    changes: tuple[MarkedChange, ...]
    verdicts: tuple[VerdictRecord, ...]
    quiet_verdicts: tuple[VerdictRecord, ...]
    commit_rows: tuple[SeriesCommitRow, ...]
    judged: bool
    available: bool
    twin: ClockTwin | None
    metrics: tuple[SeriesRecord, ...]
    namesakes: tuple[Series, ...]
    other_parameters: tuple[Series, ...]

    @property
    def quiet_summary(self) -> str:
        return counts_sentence(record.verdict for record in self.quiet_verdicts)

    @property
    def series(self) -> Series:
        return self.trend.series


def match_series(records: Sequence[SeriesRecord], query: Mapping[str, str]) -> list[SeriesRecord]:
    """The series an address means, those measured last first; of several cells it means none."""
    fitting = [record for record in records if matches_query(record.series, query)]
    return fitting if len({record.series.parameters for record in fitting}) == 1 else []


def find_clock_twin(record: SeriesRecord, records: Iterable[SeriesRecord]) -> SeriesRecord | None:
    """The series with the name that the other clock gives this metric, of the same processes."""
    name, place = record.series.metric.name, key_without_metric(record.series)
    named = {one.series.metric.name: one for one in records if key_without_metric(one.series) == place}
    return named.get(f"{CPU_METRIC_PREFIX}{name}") or (
        named.get(name.removeprefix(CPU_METRIC_PREFIX)) if name.startswith(CPU_METRIC_PREFIX) else None
    )


def build_series_view(
    project: str,
    trend: Trend,
    verdicts: Sequence[VerdictRecord],
    records: Sequence[SeriesRecord],
    *,
    twin_trend: Trend | None = None,
    judged: bool = True,
) -> SeriesView:
    """Join a series with its kin: the other metrics of its processes, the same elsewhere, and its other parameters.

    ``records`` are all series of its benchmark, ``beside`` is the trend of its twin.
    """
    commits = {dot.commit.sha: dot.commit for dot in trend.dots}
    series = trend.series
    never = next((one for one in records if one.series == series and one.never_measured), None)
    alike = [record for record in records if record.series.metric.name == series.metric.name]
    return SeriesView(
        project=project,
        trend=trend,
        sentence=unavailable_sentence(series, never.last_reason) if never else trend_sentence(trend),
        chart_note=downsampling_note(trend),
        commits_needed=max(0, MIN_COMMITS_FOR_CHANGES - len(trend.measured_dots)),
        changes=tuple(
            MarkedChange(mark, commits.get(mark.commit), commits.get(mark.last_good))
            for mark in reversed(trend.marks)
        ),
        verdicts=tuple(one for one in verdicts if one.verdict.kind not in QUIET_KINDS),
        quiet_verdicts=tuple(one for one in verdicts if one.verdict.kind in QUIET_KINDS),
        commit_rows=tuple(build_commit_rows(trend)[:MAX_ROWS]),
        judged=judged,
        available=never is None,
        twin=_build_twin(series, twin_trend) if twin_trend else None,
        metrics=_sibling_metrics(series, records),
        namesakes=tuple(one.series for one in alike if one.series.parameters == series.parameters),
        other_parameters=_other_parameters(series, alike),
    )


def build_commit_rows(trend: Trend) -> list[SeriesCommitRow]:
    """The commits as table rows, newest first."""
    rows, before = [], None
    for dot in trend.dots:
        rows.append(SeriesCommitRow(dot, before))
        before = dot if dot.level is not None else before
    return rows[::-1]


def _build_twin(series: Series, twin_trend: Trend) -> ClockTwin:
    metric, level = (
        twin_trend.series.metric,
        twin_trend.levels[-1].value if twin_trend.levels else twin_trend.last_level,
    )
    shown = "" if level is None else format_quantity(level, metric.unit, metric.name)
    return ClockTwin(
        twin_trend.series, shown, is_cpu=metric.name == f"{CPU_METRIC_PREFIX}{series.metric.name}"
    )


def _sibling_metrics(series: Series, records: Iterable[SeriesRecord]) -> tuple[SeriesRecord, ...]:
    """What one process of this cell gives, itself among it, in the order of every list; what never was, last."""
    together = [
        record for record in records if key_without_metric(record.series) == key_without_metric(series)
    ]
    stored = sorted(together, key=lambda record: record.id)
    cells = group_by_cell(
        stored, lambda one: one.series, lambda one: one.is_informational or one.never_measured
    )
    return cells[0].rows if cells else ()


def _other_parameters(series: Series, records: Sequence[SeriesRecord]) -> tuple[Series, ...]:
    """One series for each set of parameters, like this one in everything else where there is such a one."""
    nearest: dict[object, Series] = {}
    for record in records:
        one = record.series
        alike = (one.machine, one.variant, one.benchmark) == (
            series.machine,
            series.variant,
            series.benchmark,
        )
        if alike or one.parameters not in nearest:
            nearest[one.parameters] = one
    return tuple(sorted(nearest.values(), key=lambda one: one.label))
