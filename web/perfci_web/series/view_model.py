"""The view model of one series: its trend, its changes, its verdicts and related series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfci.model import CPU_METRIC_PREFIX, Commit, Series
from perfci.number_format import format_quantity
from perfci.report.escaping import escape_csv_cell
from perfci.report.page_summaries import PageSummary, unmeasurable_series_summary
from perfci.report.series_places import SeriesPlaces
from perfci.report.series_trend import ChangeMark, Trend
from perfci.report.trend_dots import Dot
from perfci.report.verdict_text import QUIET_KINDS, verdict_counts_sentence
from perfci.store.queries.query_records import SeriesRecord, VerdictRecord
from perfci_web.load_series_trends import SeriesTrend
from perfci_web.page_urls import series_matches_url_query
from perfci_web.series.load_series import LoadedSeries
from perfci_web.view_parts.table_row_groups import group_rows_by_benchmark_cell

MAX_ROWS = 30
"""Rows of the table below the chart; the CSV has all commits."""

MIN_COMMITS_FOR_CHANGES = 8
"""Change points are searched from this many measured commits on."""

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


def format_point_cells(dot: Dot) -> tuple[str, ...]:
    """Format the cells of one commit of a series, under ``POINT_COLUMNS``."""
    commit, moment = dot.commit, dot.commit.committed_at
    numbers = ("" if value is None else repr(value) for value in (dot.level, dot.lo, dot.hi))
    return (
        commit.sha,
        moment.isoformat(timespec="seconds") if moment else "",
        escape_csv_cell(commit.subject),
        dot.status.value,
        *numbers,
        repr(dot.processes),
        escape_csv_cell(dot.reason),
    )


@dataclass(frozen=True, slots=True)
class MarkedChange:
    """A mark with the commits at its two ends."""

    mark: ChangeMark
    commit: Commit | None
    last_good: Commit | None


@dataclass(frozen=True, slots=True)
class SeriesCommitRow:
    """One commit in the table: its dot and how far it lies from the commit measured before it.

    Where the level changed, ``mark`` has the size of that: two single points would give another number.
    """

    dot: Dot
    previous: Dot | None
    mark: ChangeMark | None = None

    @property
    def relative_change(self) -> float | None:
        if self.previous is None or not self.previous.level or self.dot.level is None:
            return None
        return self.dot.level / self.previous.level - 1


@dataclass(frozen=True, slots=True)
class ClockTwin:
    """The series of the same processes by the other clock (CPU or wall time), and its level."""

    series: Series
    level_text: str
    is_cpu: bool


@dataclass(frozen=True, slots=True)
class SeriesChoice:
    """One of the series that a menu leads to."""

    label: str
    series: Series
    is_current: bool


@dataclass(frozen=True, slots=True)
class SeriesView:
    """The page of one series.

    ``judged`` tells whether verdicts are given on it, ``available`` whether it can have a value on its
    machine. ``metrics`` are all series of the same processes; ``places``, ``parameters``, ``metric_choices``
    are the menus that lead to other series of the benchmark. ``elsewhere`` has their trends.
    """

    project: str
    trend: Trend
    sentence: PageSummary
    commits_needed: int
    changes: tuple[MarkedChange, ...]
    verdicts: tuple[VerdictRecord, ...]
    quiet_verdicts: tuple[VerdictRecord, ...]
    commit_rows: tuple[SeriesCommitRow, ...]
    judged: bool
    available: bool
    twin: ClockTwin | None
    metrics: tuple[SeriesRecord, ...]
    places: tuple[SeriesChoice, ...]
    parameters: tuple[SeriesChoice, ...]
    metric_choices: tuple[SeriesChoice, ...]
    elsewhere: tuple[tuple[SeriesChoice, Trend], ...]

    @property
    def quiet_verdict_counts_sentence(self) -> str:
        return verdict_counts_sentence(record.verdict for record in self.quiet_verdicts)

    @property
    def series(self) -> Series:
        return self.trend.series


def find_series_of_url(
    records: Sequence[SeriesRecord], query: Mapping[str, str]
) -> tuple[SeriesRecord | None, list[SeriesRecord]]:
    """Find the series that an address means, and all that match it; ``records`` are latest first.

    Several versions of one series in one place are one to an address: it means the one measured last. None
    where what matches differs in parameters, machine or variant.
    """
    matches = [record for record in records if series_matches_url_query(record.series, query)]
    places = {(record.series.parameters, record.series.machine, record.series.variant) for record in matches}
    return (matches[0] if len(places) == 1 else None), matches


def find_series_of_other_clock(record: SeriesRecord, records: Iterable[SeriesRecord]) -> SeriesRecord | None:
    """Find the series of the same processes whose metric is read by the other clock."""
    name, process_key = record.series.metric.name, record.series.key_without_metric
    siblings = {
        sibling.series.metric.name: sibling
        for sibling in records
        if sibling.series.key_without_metric == process_key
    }
    cpu_twin = siblings.get(f"{CPU_METRIC_PREFIX}{name}")
    if cpu_twin is None and name.startswith(CPU_METRIC_PREFIX):
        return siblings.get(name.removeprefix(CPU_METRIC_PREFIX))
    return cpu_twin


def find_namesakes(record: SeriesRecord, records: Iterable[SeriesRecord]) -> list[SeriesRecord]:
    """The same benchmark, parameters and metric in every place, one series each: the one measured last."""
    series = record.series
    by_place: dict[object, SeriesRecord] = {}
    for other in records:
        is_same = (other.series.metric.name, other.series.parameters) == (
            series.metric.name,
            series.parameters,
        )
        if is_same and other.points:
            by_place.setdefault((other.series.machine, other.series.variant), other)
    by_place[series.machine, series.variant] = record
    return list(by_place.values())


def build_series_view(
    loaded: LoadedSeries,
    verdicts: Sequence[VerdictRecord],
    records: Sequence[SeriesRecord],
    elsewhere: Mapping[Series, Trend],
) -> SeriesView:
    """Join a series with the other metrics of its processes, its places and its other parameters.

    ``records`` are all series of its benchmark, ``elsewhere`` the trends of the same series in all places.
    """
    trend = loaded.trend
    commits = {commit.sha: commit for commit in trend.columns.commits}
    series = trend.series
    never_measured = next(
        (record for record in records if record.series == series and record.never_measured), None
    )
    same_metric = [record for record in records if record.series.metric.name == series.metric.name]
    namesakes = [record.series for record in find_namesakes(loaded.record, records)]
    in_pairs = {mark.verdict for mark in trend.marks if mark.verdict is not None}
    places = _choices(namesakes, series)
    return SeriesView(
        project=loaded.project.slug,
        trend=trend,
        sentence=unmeasurable_series_summary(series, never_measured.last_reason)
        if never_measured
        else loaded.summary,
        commits_needed=max(0, MIN_COMMITS_FOR_CHANGES - len(trend.measured_dots)),
        changes=tuple(
            MarkedChange(mark, commits.get(mark.commit), commits.get(mark.last_good))
            for mark in reversed(trend.marks)
        ),
        verdicts=tuple(
            record
            for record in verdicts
            if record.verdict.kind not in QUIET_KINDS and record.verdict not in in_pairs
        ),
        quiet_verdicts=tuple(
            record
            for record in verdicts
            if record.verdict.kind in QUIET_KINDS and record.verdict not in in_pairs
        ),
        commit_rows=tuple(build_commit_rows(trend)),
        judged=loaded.judged,
        available=never_measured is None,
        twin=_build_twin(series, loaded.twin) if loaded.twin else None,
        metrics=_sibling_metrics(series, records),
        places=places,
        parameters=_parameter_choices(series, same_metric),
        metric_choices=tuple(
            SeriesChoice(record.series.metric.name, record.series, record.series == series)
            for record in _sibling_metrics(series, records)
            if not record.never_measured or record.series == series
        ),
        elsewhere=tuple(
            (choice, elsewhere[choice.series]) for choice in places if choice.series in elsewhere
        ),
    )


def _choices(others: Sequence[Series], current: Series) -> tuple[SeriesChoice, ...]:
    """The places of a series, each by what tells it apart from the others."""
    places = SeriesPlaces(others)
    labels = {other: places.label(other) or other.machine.label or "unnamed machine" for other in others}
    return tuple(
        SeriesChoice(labels[other], other, other == current)
        for other in sorted(others, key=labels.__getitem__)
    )


def _parameter_choices(series: Series, records: Sequence[SeriesRecord]) -> tuple[SeriesChoice, ...]:
    others = _other_parameters(series, records)
    return tuple(
        SeriesChoice(
            ", ".join(f"{name} = {value}" for name, value in other.parameters) or "no parameters",
            other,
            other == series,
        )
        for other in others
    )


def build_commit_rows(trend: Trend, count: int = MAX_ROWS) -> list[SeriesCommitRow]:
    """Return the newest commits as table rows, newest first."""
    start = max(0, len(trend.dots) - count)
    rows = []
    previous = trend.find_measured_before(start)
    marks = {mark.index: mark for mark in trend.marks if mark.state != "refuted"}
    for dot in trend.dots[start:]:
        rows.append(SeriesCommitRow(dot, previous, marks.get(dot.index)))
        previous = dot if dot.level is not None else previous
    return rows[::-1]


def _build_twin(series: Series, twin_trend: Trend | SeriesTrend) -> ClockTwin:
    metric, level = twin_trend.series.metric, twin_trend.current_level
    level_text = "" if level is None else format_quantity(level, metric.unit, metric.name)
    is_cpu = metric.name == f"{CPU_METRIC_PREFIX}{series.metric.name}"
    return ClockTwin(twin_trend.series, level_text, is_cpu)


def _sibling_metrics(series: Series, records: Iterable[SeriesRecord]) -> tuple[SeriesRecord, ...]:
    """Return all metrics of the processes of a series, those that were never measured last."""
    process_key = series.key_without_metric
    siblings = [record for record in records if record.series.key_without_metric == process_key]
    cells = group_rows_by_benchmark_cell(
        sorted(siblings, key=lambda record: record.id),
        lambda record: record.series,
        lambda record: record.is_informational or record.never_measured,
    )
    return cells[0].rows if cells else ()


def _other_parameters(series: Series, records: Sequence[SeriesRecord]) -> tuple[Series, ...]:
    """Return one series for each set of parameters, preferably of the machine, variant and version of this
    one.
    """
    nearest: dict[object, Series] = {}
    for record in records:
        other = record.series
        own_place = (series.machine, series.variant, series.benchmark)
        is_same_place = (other.machine, other.variant, other.benchmark) == own_place
        if is_same_place or other.parameters not in nearest:
            nearest[other.parameters] = other
    return tuple(sorted(nearest.values(), key=lambda other: other.label))
