"""The view model of several series in one chart."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict

from perfci.model import Commit, Series
from perfci.report.charts.build_graph_scene import MAX_LINES
from perfci.report.charts.scene import YKind
from perfci.report.series_places import name_lines
from perfci.report.series_trend import ChangeMark, Trend
from perfci.store.queries.branch_commits import load_branch_commits
from perfci.store.queries.query_records import SeriesRecord
from perfci_web.application_context import web_context
from perfci_web.load_series_trends import draw_charts, load_series_trends
from perfci_web.page_urls import ProjectLinks
from perfci_web.series.chart_view import Y_LABELS
from perfci_web.series.find_series import find_series_by_key
from perfci_web.url_lookups import build_project_links, require_project

MAX_KEYS = 100
"""Series that an address may name: somewhat more than a page of the list of benchmarks has rows."""

SERIES_KEY, NORM_KEY, NORM_FIRST = "s", "norm", "first"


class SceneInputs(NamedTuple):
    """What a chart of several trends is drawn from."""

    trends: Sequence[Trend]
    names: Sequence[str]
    commits: Sequence[Commit]


@dataclass(frozen=True, slots=True)
class GraphLine:
    """One series of a graph: ``number`` is that of its colour, ``name`` tells it apart from the others."""

    number: int
    name: str
    trend: Trend

    @property
    def series(self) -> Series:
        return self.trend.series

    @property
    def last_change(self) -> ChangeMark | None:
        marks = [mark for mark in self.trend.marks if mark.state != "refuted"]
        return marks[-1] if marks else None


@dataclass(frozen=True, slots=True)
class GraphPanel:
    """Lines that share a value axis."""

    title: str
    lines: tuple[GraphLine, ...]
    commits: tuple[Commit, ...]

    @property
    def trends(self) -> list[Trend]:
        return [line.trend for line in self.lines]

    @property
    def scene_inputs(self) -> SceneInputs:
        return SceneInputs(self.trends, [line.name for line in self.lines], self.commits)


@dataclass(frozen=True, slots=True)
class GraphView:
    """The page of a graph; ``unknown`` are the series of its address that the project does not have."""

    project: str
    lines: tuple[GraphLine, ...]
    panels: tuple[GraphPanel, ...]
    normalized: bool
    unknown: tuple[str, ...]
    dropped: int
    links: ProjectLinks

    @property
    def longest_trend(self) -> Trend | None:
        """The trend with most commits."""
        return max((line.trend for line in self.lines), key=lambda trend: len(trend.dots), default=None)

    @property
    def title(self) -> str:
        """What is in the graph."""
        names = sorted({line.series.label for line in self.lines})
        return names[0] if len(names) == 1 else f"{len(self.lines)} series"

    @property
    def y_labels(self) -> Mapping[YKind, str]:
        """The value axes to choose from: against first levels there is one."""
        return {} if self.normalized else {kind: Y_LABELS[kind] for kind in ("auto", "zero", "log")}

    def address(self, **query: str) -> str:
        """The address of this graph with another view."""
        norm = NORM_FIRST if self.normalized else ""
        return self.links.graph([line.series for line in self.lines], norm=norm, **query)

    def address_without(self, line: GraphLine) -> str:
        """The address of this graph without one of its lines."""
        norm = NORM_FIRST if self.normalized else ""
        return self.links.graph([each.series for each in self.lines if each != line], norm=norm)

    @property
    def other_norm_address(self) -> str:
        """The address with absolute values where these are relative, and the other way round."""
        return self.links.graph(
            [line.series for line in self.lines], norm="" if self.normalized else NORM_FIRST
        )


def load_graph(project: str, query: MultiDict[str, str], max_lines: int = MAX_LINES) -> GraphView:
    """Load the series that an address names, in their order."""
    keys = list(dict.fromkeys(query.getlist(SERIES_KEY)))[:MAX_KEYS]
    normalized = query.get(NORM_KEY) == NORM_FIRST
    with web_context().store.read() as tx:
        require_project(tx, project)
        records, unknown = _find_records(tx, project, keys)
        shown = records[:max_lines]
        ids = [record.id for record in shown]
        drawn = draw_charts(tx, project, load_series_trends(tx, project, ids), sys.maxsize)
        trends = {trend.series: trend for trend in drawn.values()}
        commits = load_branch_commits(tx, project).commits if ids else ()
    series = [record.series for record in shown]
    names = name_lines(series)
    lines = tuple(
        GraphLine(number, names[each], trends.get(each, Trend(each, (), (), ())))
        for number, each in enumerate(series, start=1)
    )
    return GraphView(
        project,
        lines,
        tuple(_build_panels(lines, commits, normalized)),
        normalized,
        tuple(unknown),
        len(records) - len(shown),
        build_project_links(project, series),
    )


def _find_records(tx: Session, project: str, keys: Sequence[str]) -> tuple[list[SeriesRecord], list[str]]:
    """Find the series of the keys, and the keys that name none or several."""
    records, unknown = [], []
    for key in keys:
        record = find_series_by_key(tx, project, key)
        if record is None:
            unknown.append(key)
        elif record not in records:
            records.append(record)
    return records, unknown


def _build_panels(
    lines: Sequence[GraphLine], commits: tuple[Commit, ...], normalized: bool
) -> list[GraphPanel]:
    """One panel, or one for each unit where absolute values of different units are shown."""
    if normalized or len({line.series.metric.unit for line in lines}) < 2:
        return [GraphPanel("", tuple(lines), commits)] if lines else []
    units = dict.fromkeys(line.series.metric.unit for line in lines)
    return [
        GraphPanel(unit, tuple(line for line in lines if line.series.metric.unit == unit), commits)
        for unit in units
    ]
