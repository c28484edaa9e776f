"""What a chart draws of a trend, whatever the size of the picture: dots, bands and the two axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from perfci.model import Commit
from perfci.number_format import format_count
from perfci.report.charts.plot_axes import choose_trend_display_scale
from perfci.report.charts.scene import SceneBand, SceneDot, XKind, YKind
from perfci.report.charts.scene_axes import CommitAxis, ValueAxis, build_commit_axis
from perfci.report.escaping import make_printable
from perfci.report.page_summaries import trend_summary
from perfci.report.series_trend import Trend, group_neighbours
from perfci.report.trend_dots import FAILED, Dot, Places, merge_dots

MAX_DOTS = 300
"""The number of dots that can be distinguished on a page; beyond it neighbours are merged."""


@dataclass(frozen=True, slots=True)
class ChartView:
    """What a reader wants to see of a trend, and in which size; shas of an empty range mean all of it."""

    width: int = 960
    height: int = 340
    x_kind: XKind = "commits"
    y_kind: YKind = "auto"
    first_sha: str = ""
    last_sha: str = ""


@dataclass(frozen=True, slots=True)
class ChartContext:
    """What a chart shows beside the trend itself.

    ``commits`` are those of the branch, oldest first: the ones that were not measured become ticks.
    ``smallest_step`` is what noise hides, relative to the level. ``environment_changes`` say by sha what
    changed before a commit was measured, ``incident_numbers`` which incident a change belongs to, ``notes``
    what people wrote at a commit.
    """

    commits: tuple[Commit, ...] = ()
    smallest_step: float | None = None
    environment_changes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    breaks: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    incident_numbers: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    notes: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    pinned_sha: str = ""
    place: str = ""


class DrawnTrend:
    """The part ``trend`` of a ``whole`` trend in the units of its axes; ``view`` is any of its sizes."""

    def __init__(self, whole: Trend, trend: Trend, view: ChartView, context: ChartContext) -> None:
        self.whole, self.trend, self.context = whole, trend, context
        self._measured = replace(trend, dots=trend.measured_dots)
        unmerged = [context.pinned_sha, *context.breaks]
        self._groups = group_neighbours(self._measured, MAX_DOTS, unmerged)
        self.dots = list(merge_dots(trend.measured_dots, self._groups))
        self.scale = choose_trend_display_scale(trend)
        self.axis = self._place_commits(view.x_kind)
        self.positions = [self.axis.positions[commit.sha] for commit in trend.columns.commits]
        self.values = self._choose_value_axis(view.y_kind)
        self.break_places = self._find_breaks()

    def _find_breaks(self) -> set[int]:
        """The places of the commits that another harness measured before."""
        if not self.context.breaks:
            return set()
        columns = self.trend.columns
        numbers = [k for k, commit in enumerate(columns.commits) if commit.sha in self.context.breaks]
        return set(columns.indexes[numbers].tolist())

    def x(self, index: float) -> float:
        """The position of a commit of the view; a half lies between two commits."""
        lower, upper = math.floor(index), min(math.ceil(index), len(self.positions) - 1)
        return (self.positions[max(0, lower)] + self.positions[max(0, upper)]) / 2

    def y(self, value: float) -> float:
        """The position of a value."""
        return self.values.position_of(value)

    @cached_property
    def description(self) -> str:
        """What the whole trend says."""
        return str(trend_summary(self.whole))

    @cached_property
    def unmeasured(self) -> tuple[float, ...]:
        """The positions of commits without a result."""
        has_result = {commit.sha for commit in self.trend.columns.commits}
        return self.axis.unmeasured_between(self.positions[0], self.positions[-1], has_result)

    @cached_property
    def scene_dots(self) -> tuple[SceneDot, ...]:
        """The dots of the scene."""
        return tuple(self._build_dot(group, dot) for group, dot in zip(self._groups, self.dots, strict=True))

    @cached_property
    def bands(self) -> tuple[SceneBand, ...]:
        """The interquartile ranges, interrupted at changes of level and failed commits."""
        return tuple(self._build_bands())

    @cached_property
    def caption(self) -> str:
        """Say what is drawn of how many commits."""
        measured, drawn = sum(dot.merged for dot in self.dots), len(self.dots)
        parts = []
        if measured == drawn:
            parts.append(f"{format_count(measured, 'commit')}, one dot each")
        else:
            parts.append(
                f"{drawn:,} of {measured:,} commits drawn as dots, {measured - drawn:,} merged into them"
            )
        if failed := int(np.count_nonzero(self.trend.columns.kinds == FAILED)):
            parts.append(f"{format_count(failed, 'failed commit')} below the axis")
        if self.unmeasured:
            parts.append(f"{format_count(len(self.unmeasured), 'commit')} not measured, ticks below the axis")
        if len(self.trend.dots) < len(self.whole.dots):
            parts.append(f"{len(self.whole.dots) - len(self.trend.dots):,} more outside this range")
        return "; ".join(parts)

    def _place_commits(self, kind: XKind) -> CommitAxis:
        """Place the commits of the branch from the first to the last of the view.

        Where the branch is not known, those of the series alone.
        """
        shown = list(self.trend.columns.commits)
        shas = [commit.sha for commit in self.context.commits]
        branch = set(shas)
        if shown and all(commit.sha in branch for commit in shown):
            first, last = shas.index(shown[0].sha), shas.index(shown[-1].sha)
            if first <= last:
                return build_commit_axis(self.context.commits[first : last + 1], kind)
        return build_commit_axis(shown, kind)

    def _choose_value_axis(self, kind: YKind) -> ValueAxis:
        """The axis that is asked for; a logarithm of what is not positive is not drawn."""
        lows = [dot.lo for dot in self.dots if dot.lo is not None]
        reference = self.trend.levels[0].value if self.trend.levels else self.dots[0].level or 0.0
        if (kind == "log" and min(lows) <= 0) or (kind == "ratio" and not reference):
            kind = "auto"
        return ValueAxis(kind, self.scale, reference)

    def _build_dot(self, group: Places, dot: Dot) -> SceneDot:
        assert dot.level is not None
        assert dot.lo is not None
        assert dot.hi is not None
        commits = self._measured.columns.commits
        subject = f" {make_printable(dot.commit.subject, 72)}" if dot.commit.subject else ""
        merged = f" (median of {dot.merged} commits)" if dot.merged > 1 else ""
        title = f"{self.scale.format_with_unit(dot.level)}{merged} · {dot.commit.sha[:10]}{subject}"
        return SceneDot(
            self.x(dot.index),
            self.y(dot.level),
            self.y(dot.lo),
            self.y(dot.hi),
            dot.commit.sha,
            commits[int(group[0])].sha,
            commits[int(group[-1])].sha,
            dot.merged,
            title,
            invalid=dot.invalid,
        )

    def _build_bands(self) -> Iterator[SceneBand]:
        for run in self._split_into_level_runs():
            band = SceneBand(
                tuple(self.x(dot.index) for dot in run),
                tuple(self.y(dot.lo) for dot in run if dot.lo is not None),
                tuple(self.y(dot.hi) for dot in run if dot.hi is not None),
            )
            if len(run) > 1 or band.y_hi[0] > band.y_lo[0]:
                yield band

    def _split_into_level_runs(self) -> list[list[Dot]]:
        edges = sorted(
            {mark.index for mark in self.trend.marks if mark.state != "refuted"}
            | self.break_places
            | set(self.trend.columns.indexes[np.isnan(self.trend.columns.levels)].tolist())
        )
        runs: list[list[Dot]] = []
        edge = 0
        for dot in self.dots:
            is_new_run = not runs
            while edge < len(edges) and edges[edge] <= dot.index:
                edge, is_new_run = edge + 1, True
            if is_new_run:
                runs.append([])
            runs[-1].append(dot)
        return runs
