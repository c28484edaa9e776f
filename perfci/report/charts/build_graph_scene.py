"""Build the scene of several trends in one chart, absolute or against the first level of each."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from perfci.model import Commit
from perfci.number_format import (
    choose_display_scale,
    format_count,
    format_day,
    format_signed_percent,
)
from perfci.report.charts.build_trend_scene import BOTTOM_PX, INSET_PX, TOP_PX, X_LABEL_WIDTH_PX
from perfci.report.charts.drawn_trend import ChartView
from perfci.report.charts.label_placement import text_width_px
from perfci.report.charts.plot_axes import tick_count
from perfci.report.charts.scene import Anchor, Scene, SceneDot, SceneFrame, SceneSegment, SceneText
from perfci.report.charts.scene_axes import CommitAxis, ValueAxis, build_commit_axis
from perfci.report.series_trend import Trend, group_neighbours, keep_commits_between
from perfci.report.trend_dots import Dot, DotColumns, merge_dots

MAX_LINES, MAX_DOTS_OF_LINE = 8, 120


def build_graph_scene(
    trends: Sequence[Trend],
    names: Sequence[str],
    commits: Sequence[Commit] = (),
    view: ChartView | None = None,
    *,
    normalized: bool = False,
) -> Scene | None:
    """Build the scene of at most ``MAX_LINES`` trends; None where none of them has a value in view."""
    view = view or ChartView()
    first, last = _find_range(commits, view)
    shown = [_keep_range(trend, commits[first:last], view) for trend in trends[:MAX_LINES]]
    if not any(trend.measured_dots for trend in shown):
        return None
    return _GraphSceneBuilder(shown, names, commits, view, normalized).build()


def _find_range(commits: Sequence[Commit], view: ChartView) -> tuple[int, int]:
    """The places on the branch that a view begins and ends at."""
    first, last = 0, len(commits)
    for place, commit in enumerate(commits):
        if view.first_sha and commit.sha.startswith(view.first_sha):
            first = place
        if view.last_sha and commit.sha.startswith(view.last_sha):
            last = place + 1
    return first, max(first + 1, last)


def _keep_range(trend: Trend, commits: Sequence[Commit], view: ChartView) -> Trend:
    """Keep the commits in view, whether the ones at its ends were measured for this trend or not."""
    if not commits or not (view.first_sha or view.last_sha):
        return keep_commits_between(trend, view.first_sha, view.last_sha)
    inside = {commit.sha for commit in commits}
    shas = [commit.sha for commit in trend.columns.commits if commit.sha in inside]
    if not shas:
        return Trend(trend.series, (), (), ())
    return keep_commits_between(trend, shas[0], shas[-1])


class _GraphSceneBuilder:
    """Lays out several trends over one axis of commits."""

    def __init__(
        self,
        trends: Sequence[Trend],
        names: Sequence[str],
        commits: Sequence[Commit],
        view: ChartView,
        normalized: bool,
    ) -> None:
        self.trends, self.names, self.view = trends, tuple(names), view
        self.references = [first_level(trend) if normalized else 1.0 for trend in trends]
        self.groups = [
            group_neighbours(replace(trend, dots=trend.measured_dots), MAX_DOTS_OF_LINE) for trend in trends
        ]
        metric = trends[0].series.metric
        self.dots = [
            list(merge_dots(trend.measured_dots, groups))
            for trend, groups in zip(trends, self.groups, strict=True)
        ]
        levels = [level for trend in trends for level in trend.measured_levels.tolist()]
        scale = choose_display_scale(levels, metric.unit, metric.name)
        kind = view.y_kind if not normalized else "ratio"
        values = [level / self.references[line] for line, level in self._levels()]
        if kind == "log" and min(values) <= 0:
            kind = "auto"
        self.axis = self._place_commits(commits)
        self.values = ValueAxis("auto" if kind == "ratio" and not normalized else kind, scale, 1.0)
        self.positions = [self.values.position_of(value) for value in values]
        self.frame = self._build_frame()

    def build(self) -> Scene:
        """Assemble the scene."""
        frame = self.frame
        ticks = self.values.ticks(frame.y_low, frame.y_high, tick_count(self.view.height))
        labelled = self._labelled_commits()
        texts = [
            *self._corner_texts(),
            *(SceneText(frame.left - 6, frame.y_at(y) + 4, text, "end") for y, text in ticks),
            *self._commit_texts(labelled),
        ]
        names = "; ".join(self.names)
        return Scene(
            frame,
            name=names,
            place="",
            description=f"{format_count(len(self.trends), 'series', 'series')} in one chart: {names}.",
            caption=self._caption(),
            x_kind=self.axis.kind,
            y_kind=self.values.kind,
            grid=tuple(y for y, _ in ticks),
            x_ticks=tuple(self.axis.positions[commit.sha] for commit in labelled),
            texts=tuple(texts),
            segments=tuple(self._build_segments()),
            dots=tuple(self._build_dots()),
            lines=self.names,
        )

    def _levels(self) -> Iterator[tuple[int, float]]:
        for line, dots in enumerate(self.dots):
            for dot in dots:
                if dot.level is not None:
                    yield line, dot.level

    def _place_commits(self, commits: Sequence[Commit]) -> CommitAxis:
        """Place the commits of the branch from the first to the last of any line."""
        drawn = {commit.sha: commit for trend in self.trends for commit in trend.columns.commits}
        branch = [commit for commit in commits if commit.sha in drawn]
        if len(branch) == len(drawn):
            order: Mapping[str, int] = {commit.sha: k for k, commit in enumerate(commits)}
            first, last = order[branch[0].sha], order[branch[-1].sha]
            return build_commit_axis(commits[first : last + 1], self.view.x_kind)
        return build_commit_axis(list(drawn.values()), self.view.x_kind)

    def _build_frame(self) -> SceneFrame:
        low, high = min(self.positions), max(self.positions)
        if self.values.kind == "zero":
            low = min(0.0, low)
        padding = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
        low, high = (low if self.values.kind == "zero" else low - padding), high + padding
        ticks = self.values.ticks(low, high, tick_count(self.view.height))
        left = 12 + max((text_width_px(text) for _, text in ticks), default=0.0)
        right, bottom = self.view.width - 12.0, self.view.height - BOTTOM_PX
        placed = self.axis.positions.values()
        first, last = min(placed), max(placed)
        inset = min(INSET_PX, (right - left) / 8)
        margin = (last - first) * inset / (right - left - 2 * inset) or 1.0
        return SceneFrame(
            self.view.width,
            self.view.height,
            left,
            right,
            TOP_PX - 26,
            bottom,
            first - margin,
            last + margin,
            low,
            high,
        )

    def _corner_texts(self) -> Iterator[SceneText]:
        directions = {trend.series.metric.direction for trend in self.trends}
        better = {"lower": "lower is better ↓", "higher": "higher is better ↑"}
        word = better[directions.pop()] if len(directions) == 1 else "directions differ"
        metric = self.trends[0].series.metric
        unit = "against the first level of each" if self.values.kind == "ratio" else self.values.scale.symbol
        left = f"{unit or metric.unit} · {word}"
        yield SceneText(self.frame.left, 16, left)
        low = self.frame.y_low
        if self.values.kind == "ratio":
            note = f"y starts at {format_signed_percent(low - 1)}"
        elif self.values.kind == "log":
            note = f"log scale, y starts at {self.values.scale.format_with_unit(10**low)}"
        else:
            note = f"y starts at {self.values.scale.format_with_unit(low)}" if low else "y starts at 0"
        # On a phone they stand below each other.
        fits = text_width_px(f"{left}  {note}") < self.frame.right - self.frame.left
        y = 16 if fits else 29
        yield SceneText(self.frame.right, y, note, "end")

    def _labelled_commits(self) -> list[Commit]:
        commits = self.axis.commits
        count = min(len(commits), max(2, int((self.frame.right - self.frame.left) / X_LABEL_WIDTH_PX)))
        chosen = sorted({round(k * (len(commits) - 1) / max(1, count - 1)) for k in range(count)})
        return [commits[k] for k in chosen]

    def _commit_texts(self, labelled: Sequence[Commit]) -> Iterator[SceneText]:
        for k, commit in enumerate(labelled):
            x = self.frame.x_at(self.axis.positions[commit.sha])
            anchor: Anchor = "middle"
            if k == 0:
                x, anchor = x - 6, "start"
            elif k == len(labelled) - 1:
                x, anchor = x + 6, "end"
            yield SceneText(x, self.frame.bottom + 36, commit.sha[:7], anchor)
            if commit.committed_at:
                yield SceneText(x, self.frame.bottom + 50, format_day(commit.committed_at), anchor)

    def _position(self, line: int, value: float) -> float:
        return self.values.position_of(value / self.references[line])

    def _build_dots(self) -> Iterator[SceneDot]:
        for line, (trend, groups, dots) in enumerate(zip(self.trends, self.groups, self.dots, strict=True)):
            commits = DotColumns.read(trend.measured_dots).commits
            for group, dot in zip(groups, dots, strict=True):
                ends = commits[int(group[0])].sha, commits[int(group[-1])].sha
                yield self._build_dot(line, ends, dot)

    def _build_dot(self, line: int, ends: tuple[str, str], dot: Dot) -> SceneDot:
        assert dot.level is not None
        y = self._position(line, dot.level)
        metric = self.trends[line].series.metric
        scale = choose_display_scale([dot.level], metric.unit, metric.name)
        merged = f" (median of {dot.merged} commits)" if dot.merged > 1 else ""
        title = f"{scale.format_with_unit(dot.level)}{merged} · {self.names[line]} · {dot.commit.sha[:10]}"
        x = self.axis.positions[dot.commit.sha]
        return SceneDot(x, y, y, y, dot.commit.sha, *ends, dot.merged, title, line)

    def _build_segments(self) -> Iterator[SceneSegment]:
        for line, trend in enumerate(self.trends):
            for level in trend.levels:
                x0, x1 = (
                    self.axis.positions[trend.columns.commits[index].sha]
                    for index in (level.first, level.last)
                )
                y0, y1 = self._position(line, level.value), self._position(line, level.end)
                yield SceneSegment(x0, y0, x1, y1, line=line)

    def _caption(self) -> str:
        drawn = sum(len(groups) for groups in self.groups)
        measured = sum(len(group) for groups in self.groups for group in groups)
        if drawn == measured:
            return f"{format_count(measured, 'result')}, one dot each"
        return f"{drawn:,} of {measured:,} results drawn as dots, {measured - drawn:,} merged into them"


def first_level(trend: Trend) -> float:
    """What a normalized line starts at; 1 where it has no value, or one that no ratio can be made of."""
    values = [level.value for level in trend.levels[:1]] or trend.measured_levels[:1].tolist()
    return values[0] if values and math.isfinite(values[0]) and values[0] else 1.0
