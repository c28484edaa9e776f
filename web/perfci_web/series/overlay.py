"""A second series in the chart of one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from perfci.model import Commit, Series
from perfci.report.charts.build_graph_scene import build_graph_scene
from perfci.report.charts.build_trend_scene import build_trend_scenes
from perfci.report.charts.drawn_trend import ChartView
from perfci.report.charts.scene import Scene
from perfci.report.series_places import name_lines
from perfci.report.series_trend import Trend
from perfci_web.load_series_trends import draw_charts, load_series_trends
from perfci_web.series.find_series import find_series_by_key
from perfci_web.series.load_series import LoadedSeries


@dataclass(frozen=True, slots=True)
class Overlay:
    """The trends of a series and of the one that is drawn over it, each with its name in the legend."""

    trends: tuple[Trend, Trend]
    names: tuple[str, str]
    commits: tuple[Commit, ...]

    @property
    def series(self) -> Series:
        """The series that is drawn over the other."""
        return self.trends[1].series


def load_overlay(tx: Session, project: str, loaded: LoadedSeries, key: str) -> tuple[Overlay | None, str]:
    """Load the series of a key to draw it over another; else none, and why not."""
    if not key:
        return None, ""
    record = find_series_by_key(tx, project, key)
    if record is None:
        return None, "Nothing is overlaid: the address names a series that this project does not have"
    own, other = loaded.record.series, record.series
    if other == own:
        return None, ""
    if other.metric.unit != own.metric.unit:
        units = f"{other.metric.unit or 'no unit'}, this one in {own.metric.unit or 'no unit'}"
        return None, f"{other.label} is not overlaid: it is measured in {units}"
    trends = load_series_trends(tx, project, [record.id])
    if record.id not in trends:
        return None, f"{other.label} is not overlaid: it has no value on a branch"
    names = name_lines([own, other])
    drawn = draw_charts(tx, project, trends, sys.maxsize)[record.id]
    return Overlay((loaded.trend, drawn), (names[own], names[other]), loaded.commits), ""


def build_series_scenes(
    loaded: LoadedSeries, views: Sequence[ChartView], overlay: Overlay | None = None, pinned_sha: str = ""
) -> list[Scene]:
    """Build the scenes of a series, alone or with the series that is drawn over it.

    The views differ in their size alone.
    """
    if overlay is not None:
        normalized = views[0].y_kind == "ratio"
        drawn = (overlay.trends, overlay.names, overlay.commits)
        scenes = [build_graph_scene(*drawn, view, normalized=normalized) for view in views]
        if all(scenes):
            return [scene for scene in scenes if scene is not None]
    return build_trend_scenes(loaded.charted, views, loaded.chart_context(pinned_sha))
