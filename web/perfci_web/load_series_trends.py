"""Load the trends of series from their stored points, with the verdicts and change points on them."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

import numpy as np
from sqlalchemy.orm import Session as Transaction

from perfci.history.incident_inputs import group_by_series
from perfci.history.load_series_points import load_point_columns, load_series_points
from perfci.history.point_columns import STATUS_CODES, STATUS_OF_CODE, Columns, PointColumns, PointKey
from perfci.model import ChangePoint, Commit, Point, Series, Status, Verdict
from perfci.report.series_trend import (
    ChangeMark,
    Trend,
    TrendLevel,
    build_dots,
    build_levels,
    build_marks,
    build_trend_from_dots,
    clip_levels,
    clip_marks,
    list_unmerged_places,
)
from perfci.report.trend_dots import (
    FAILED,
    MEASURED,
    SKIPPED,
    Dot,
    DotColumns,
    LazyDots,
    Places,
    merge_dots,
    merge_neighbours,
)
from perfci.store.queries.branch_commits import load_commits_of_history
from perfci.store.queries.measured_samples import load_points_at_commits, load_points_of_results
from perfci.store.queries.project_status import load_change_points_of_series, load_current_verdicts
from perfci.store.queries.series_commits_machines import (
    load_commit_ids_by_sha,
    load_series_by_ids,
)
from perfci.store.queries.series_points import SeriesPointsRecord

SPARKLINE_COMMITS = 60
"""The commits of a trend in a list."""

SPARKLINE_DOTS = 60
"""The dots of a trend over a whole history in a list."""


@dataclass(frozen=True, slots=True)
class VerdictsAndChangePoints:
    """The current verdicts and change points of some series."""

    verdicts: Sequence[Verdict]
    changes: Sequence[ChangePoint]

    @classmethod
    def load(cls, tx: Transaction, series_ids: Collection[int]) -> VerdictsAndChangePoints:
        return cls(load_current_verdicts(tx, series_ids), load_change_points_of_series(tx, series_ids))

    def build_trends(self, points: Mapping[Series, Sequence[Point]]) -> dict[Series, Trend]:
        """Join the points of series with the decisions on them."""
        verdicts, changes = group_by_series(self.verdicts), group_by_series(self.changes)
        return {
            series: build_trend_from_dots(series, build_dots(points), changes[series], verdicts[series])
            for series, points in points.items()
        }


@dataclass(frozen=True, slots=True, eq=False)
class SeriesTrend:
    """A series with its whole history as columns, and the marks and levels on it.

    ``judged`` tells whether verdicts are given on it; one that is not has no level.
    """

    series: Series
    record: SeriesPointsRecord
    columns: Columns
    marks: tuple[ChangeMark, ...]
    levels: tuple[TrendLevel, ...]

    @property
    def current_level(self) -> float | None:
        """The level after the last change; of a series that is not judged, the newest value."""
        if self.levels:
            return self.levels[-1].value
        values = self.columns["level"][~np.isnan(self.columns["level"])]
        return float(values[-1]) if len(values) else None

    @property
    def last_change(self) -> ChangeMark | None:
        """The last change that was not refuted."""
        return next((mark for mark in reversed(self.marks) if mark.state != "refuted"), None)


def load_series_trends(
    tx: Transaction,
    project: str,
    series_ids: Collection[int],
    decisions: VerdictsAndChangePoints | None = None,
) -> dict[int, SeriesTrend]:
    """Load the trends of series by series id; a series without a history has none."""
    points = load_series_points(tx, series_ids)
    decisions = decisions or VerdictsAndChangePoints.load(tx, points)
    verdicts, changes = group_by_series(decisions.verdicts), group_by_series(decisions.changes)
    shas = {sha for change in decisions.changes for sha in (change.commit, change.last_good)}
    shas |= {sha for verdict in decisions.verdicts for sha in (verdict.base, verdict.head)}
    commit_ids = load_commit_ids_by_sha(tx, project, shas)
    trends = {}
    for series_id, series in load_series_by_ids(tx, points).items():
        item = points[series_id]
        mine = {sha for change in changes[series] for sha in (change.commit, change.last_good)}
        mine |= {sha for verdict in verdicts[series] for sha in (verdict.base, verdict.head)}
        places = find_places(item.levels, {sha: commit_ids[sha] for sha in mine & commit_ids.keys()})
        marks = build_marks(series, places, changes[series], verdicts[series])
        levels = build_levels(item.levels["level"], marks) if item.record.judged or marks else ()
        trends[series_id] = SeriesTrend(series, item.record, item.levels, marks, levels)
    return trends


def find_places(columns: Columns, commit_ids: Mapping[str, int]) -> dict[str, int]:
    """The places of commits in a history, by sha; commits that are not in it are left out."""
    places = {sha: np.flatnonzero(columns["commit_id"] == row_id) for sha, row_id in commit_ids.items()}
    return {sha: int(place[0]) for sha, place in places.items() if len(place)}


def show_last_commits(
    tx: Transaction, project: str, trends: Mapping[int, SeriesTrend], count: int = SPARKLINE_COMMITS
) -> dict[int, Trend]:
    """The ends of trends, a dot for each commit."""
    windows = {}
    for series_id, trend in trends.items():
        commits = len(trend.columns)
        windows[series_id] = _Window(trend, range(max(0, commits - count), commits))
    return _draw_windows(tx, project, windows)


def show_commits_around(
    tx: Transaction, project: str, trends: Mapping[int, SeriesTrend], shas: Mapping[int, str], count: int
) -> dict[int, Trend]:
    """The commit of each trend that ``shas`` gives by series id, with ``count`` commits on either side; a
    trend without a change there ends it."""
    windows = {}
    for series_id, trend in trends.items():
        place = next((mark.index for mark in trend.marks if mark.commit == shas[series_id]), None)
        place = len(trend.columns) - 1 if place is None else place
        end = min(len(trend.columns), place + count + 1)
        windows[series_id] = _Window(trend, range(max(0, place - count), end))
    return _draw_windows(tx, project, windows)


def show_whole_histories(
    tx: Transaction, project: str, trends: Mapping[int, SeriesTrend], max_dots: int = SPARKLINE_DOTS
) -> dict[int, Trend]:
    """The whole histories of trends in a word's size, with neighbours merged."""
    windows = {}
    for series_id, trend in trends.items():
        unmerged = list_unmerged_places(len(trend.columns), trend.marks)
        groups = merge_neighbours(classify_points(trend.columns), unmerged, max_dots)
        windows[series_id] = _Window(trend, range(len(trend.columns)), groups)
    return _draw_windows(tx, project, windows)


def classify_points(columns: Columns) -> Places:
    """The kind of each point in a chart."""
    skipped = columns["status"] == STATUS_CODES[Status.SKIPPED]
    absent = np.isnan(columns["level"])
    return np.where(absent, np.where(skipped, SKIPPED, FAILED), MEASURED)


@dataclass(frozen=True, slots=True, eq=False)
class _Window:
    """The part of a trend that a list draws: a dot for each of its places, or for each group of the whole."""

    trend: SeriesTrend
    places: range
    groups: Sequence[Places] | None = None

    @property
    def middles(self) -> Sequence[int]:
        """The place that stands for each dot."""
        if self.groups is None:
            return self.places
        return [int(group[len(group) // 2]) for group in self.groups]

    def draw(self, commits: Mapping[int, Commit]) -> Trend:
        """Build the trend, its dots numbered from zero."""
        middles, start, end = self.middles, self.places.start, self.places.stop - 1
        dots = _read_level_dots(self.trend.columns[start : end + 1], commits)
        if self.groups is not None:
            dots = _without_spread(merge_dots(dots, self.groups))
        return Trend(
            self.trend.series,
            dots,
            tuple(
                replace(level, first=_renumber(middles, level.first), last=_renumber(middles, level.last))
                for level in self.trend.levels
                if level.last >= start and level.first <= end
            ),
            tuple(
                replace(
                    mark,
                    index=_renumber(middles, mark.index),
                    last_good_index=_renumber(middles, mark.last_good_index),
                )
                for mark in self.trend.marks
                if start <= mark.index <= end
            ),
        )


def _renumber(middles: Sequence[int], place: int) -> int:
    """The dot at a place of the history, or the nearest."""
    return min(bisect_left(middles, place), len(middles) - 1)


def _without_spread(dots: LazyDots) -> LazyDots:
    """The same dots numbered from zero; so small a picture shows no spread of what was merged."""

    def build(number: int) -> Dot:
        dot = dots[number]
        return replace(dot, index=number, lo=dot.level, hi=dot.level)

    levels, numbers = dots.columns.levels, np.arange(len(dots))
    return LazyDots(replace(dots.columns, indexes=numbers, lows=levels, highs=levels), build)


def _draw_windows(tx: Transaction, project: str, windows: Mapping[int, _Window]) -> dict[int, Trend]:
    """Draw windows; the commits of all of them are loaded together."""
    commit_ids = {
        row_id
        for window in windows.values()
        for row_id in window.trend.columns["commit_id"][list(window.middles)].tolist()
    }
    commits = load_commits_of_history(tx, project, commit_ids)
    return {series_id: window.draw(commits) for series_id, window in windows.items()}


def draw_charts(
    tx: Transaction,
    project: str,
    trends: Mapping[int, SeriesTrend],
    max_dots: int,
    ranges: Mapping[int, tuple[int, int]] = MappingProxyType({}),
) -> dict[int, Trend]:
    """Draw trends with the spread of their points, neighbours merged down to about ``max_dots``.

    ``ranges`` are the places that a chart begins and ends at, by series id; without one it shows all. Dots
    keep their places in the whole history.
    """
    columns = load_point_columns(tx, trends)
    charts = {
        series_id: _Chart(trend, columns[series_id], ranges.get(series_id, (0, len(trend.columns))), max_dots)
        for series_id, trend in trends.items()
    }
    ids = {row_id for chart in charts.values() for row_id in chart.commit_ids}
    commits = load_commits_of_history(tx, project, ids)
    points = _load_remarked_points(tx, charts)
    return {series_id: chart.draw(commits, points[series_id]) for series_id, chart in charts.items()}


def _load_remarked_points(tx: Transaction, charts: Mapping[int, _Chart]) -> dict[int, dict[int, Point]]:
    """Load the points that have a reason or a flag to read, by series id and commit id."""
    remarked = {series_id: chart.remarked_keys for series_id, chart in charts.items()}
    single = [key.result_id for keys in remarked.values() for key in keys if key.results == 1]
    joined = {
        series_id: ids
        for series_id, keys in remarked.items()
        if (ids := {key.commit_id for key in keys if key.results > 1})
    }
    points: dict[int, dict[int, Point]] = defaultdict(dict)
    loaded = chain(load_points_of_results(tx, single), load_points_at_commits(tx, joined))
    for series_id, commit_id, point in loaded:
        points[series_id][commit_id] = point
    return points


def find_range(tx: Transaction, project: str, trend: SeriesTrend, first: str, last: str) -> tuple[int, int]:
    """The places from one commit to another, given by full sha; one that is not in the history limits
    nothing."""
    commit_ids = load_commit_ids_by_sha(tx, project, {sha for sha in (first, last) if sha})
    places = find_places(trend.columns, commit_ids)
    start, end = places.get(first, 0), places.get(last, len(trend.columns) - 1)
    return min(start, end), max(start, end) + 1


@dataclass(frozen=True, slots=True, eq=False)
class _Chart:
    """The part of a trend that a chart draws."""

    trend: SeriesTrend
    columns: PointColumns
    range: tuple[int, int]
    max_dots: int
    groups: Sequence[Places] | None = field(init=False)
    """The places of each dot; None where each place is one."""

    def __post_init__(self) -> None:
        start, end = self.range
        groups = None
        if end - start > self.max_dots:
            marks = clip_marks(self.trend.marks, start, end)
            kinds = classify_points(self.trend.columns[start:end])
            groups = merge_neighbours(kinds, list_unmerged_places(end - start, marks), self.max_dots)
        object.__setattr__(self, "groups", groups)

    @property
    def commit_ids(self) -> list[int]:
        """The commit of each dot."""
        ids = self.columns.levels["commit_id"][slice(*self.range)]
        if self.groups is not None:
            ids = ids[[group[len(group) // 2] for group in self.groups]]
        commit_ids: list[int] = ids.tolist()
        return commit_ids

    @property
    def remarked_keys(self) -> list[PointKey]:
        """The points that are a dot alone and have a reason or a flag to read."""
        start, end = self.range
        places = np.arange(start, end)
        if self.groups is not None:
            places = start + np.array([group[0] for group in self.groups if len(group) == 1], np.int64)
        return self.columns.list_keys(places[self.columns.details["has_remark"][places] > 0].tolist())

    def draw(self, commits: Mapping[int, Commit], points: Mapping[int, Point]) -> Trend:
        """Build the trend."""
        start, end = self.range
        dots = self._read_dots(commits, points)
        levels = tuple(
            replace(level, first=level.first + start, last=level.last + start)
            for level in clip_levels(self.trend.levels, start, end)
        )
        marks = tuple(mark for mark in self.trend.marks if start <= mark.index < end)
        return Trend(
            self.trend.series, dots if self.groups is None else merge_dots(dots, self.groups), levels, marks
        )

    def _read_dots(self, commits: Mapping[int, Commit], points: Mapping[int, Point]) -> LazyDots:
        start, end = self.range
        details = self.columns.details[start:end]
        plain = _read_level_dots(self.columns.levels[start:end], commits, start, details)
        ids = self.columns.levels["commit_id"][start:end]

        def build(number: int) -> Dot:
            point = points.get(int(ids[number]))
            if point is None:
                return plain[number]
            [dot] = build_dots([point])
            return replace(dot, index=start + number)

        return LazyDots(plain.columns, build) if points else plain


class _CommitsOfPoints(Sequence[Commit]):
    """The commits of points, looked up as they are read: a merged history reads few of them."""

    def __init__(self, ids: Columns, commits: Mapping[int, Commit]) -> None:
        self._ids, self._commits = ids.tolist(), commits

    def __len__(self) -> int:
        return len(self._ids)

    def __getitem__(self, number: Any) -> Any:
        return self._commits[self._ids[number]]


def _read_level_dots(
    levels: Columns, commits: Mapping[int, Commit], start: int = 0, details: Columns | None = None
) -> LazyDots:
    """The dots of points, the first at the place ``start``; without details, none has a spread."""
    kinds, values, statuses = classify_points(levels), levels["level"], levels["status"]
    lows, highs = (values, values) if details is None else (details["lo"], details["hi"])
    nothing = np.zeros(len(levels), np.int64)
    processes = nothing if details is None else details["processes"].astype(np.int64)
    columns = DotColumns(
        np.arange(start, start + len(levels)),
        _CommitsOfPoints(levels["commit_id"], commits),
        *(values, lows, highs, kinds, processes, nothing + 1),
    )

    def build(number: int) -> Dot:
        status, total = STATUS_OF_CODE[int(statuses[number])], int(processes[number])
        commit, index = columns.commits[number], start + number
        if kinds[number] != MEASURED:
            return Dot(index, commit, status, processes=total)
        level, lo, hi = float(values[number]), float(lows[number]), float(highs[number])
        return Dot(index, commit, status, level, lo, hi, total)

    return LazyDots(columns, build)
