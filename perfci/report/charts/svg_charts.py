"""Render trend charts, sparklines, interval bars and share bars as SVG text, coloured by CSS class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from perfci.report.charts.build_trend_scene import build_trend_scene
from perfci.report.charts.drawn_trend import ChartContext, ChartView
from perfci.report.charts.plot_axes import (
    PlotFrame,
    value_axis_range,
)
from perfci.report.charts.scene_svg import render_scene_svg
from perfci.report.charts.svg_elements import (
    svg_circle,
    svg_line,
    svg_rect,
    svg_relative_points,
)
from perfci.report.series_trend import ChangeMark, Trend, downsample_trend
from perfci.report.verdict_text import (
    Tone,
)


def render_trend_chart(
    trend: Trend,
    *,
    width: int = 960,
    height: int = 340,
    id_prefix: str = "trend",
    standalone: bool = False,
    context: ChartContext | None = None,
) -> str:
    """Render a trend chart: spread, dots, levels, failed commits below the axis, change flags above.

    ``id_prefix`` keeps element ids unique on a page with several charts; ``standalone`` includes the
    style that a page would supply.
    """
    scene = build_trend_scene(trend, ChartView(width, height), context)
    return render_scene_svg(scene, id_prefix=id_prefix, standalone=standalone)


def render_common_sparklines(trends: Sequence[Trend], *, width: int = 200, height: int = 36) -> list[str]:
    """Render sparklines of several trends on one value axis, so that their levels can be compared."""
    ranges = [value_axis_range(trend.dots) for trend in trends if trend.measured_dots]
    common = (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else None
    return [render_sparkline(trend, width=width, height=height, value_range=common) for trend in trends]


def render_sparkline(
    trend: Trend, *, width: int = 132, height: int = 30, value_range: tuple[float, float] | None = None
) -> str:
    """Render a word-sized trend, hidden from screen readers, since the text beside it says the same."""
    opening = f'<svg class="pc-sparkline" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    if not trend.measured_dots:
        return f'{opening} aria-hidden="true"></svg>'
    drawn = downsample_trend(trend, width // 2)
    low, high = value_range or value_axis_range(drawn.dots)
    # The frame exceeds the picture by 6 px on either side, which offsets part of the inset of PlotFrame.x.
    frame = PlotFrame(width, height, -6.0, width + 6.0, 5.0, height - 5.0, len(trend.dots), low, high)
    marks = []
    for mark in drawn.marks:
        level = next((each.value for each in drawn.levels if each.first <= mark.index <= each.last), None)
        if mark.state != "refuted" and level is not None:
            css_class = f"pc-flag pc-{_mark_tone(mark)}{_flag_fill_class(mark)}"
            marks.append(svg_circle(frame.x_at(mark.index), frame.y_at(level), 2.6, css_class))
    parts = [
        f'<path class="pc-spark" d="{_sparkline_path(drawn, frame)}"/>',
        *_draw_level_steps(drawn, frame),
        *marks,
    ]
    return f'{opening} aria-hidden="true">{"".join(parts)}</svg>'


def render_share_bar(shares: Sequence[tuple[str, int]], *, width: int = 320, height: int = 8) -> str:
    """Render counts as segments of one bar, each in the colour of its tone."""
    total = sum(count for _, count in shares) or 1
    x, parts = 0.0, []
    for tone, count in shares:
        if count:
            end = x + width * count / total
            # A gap of 2 px between segments, and at least 2 px for the smallest share.
            parts.append(svg_rect(x, 0, max(x + 2, end - 2), height, f"pc-{tone}"))
            x = end
    return (
        f'<svg class="pc-shares" viewBox="0 0 {width} {height}" preserveAspectRatio="none"'
        f' aria-hidden="true">{"".join(parts)}</svg>'
    )


def _draw_level_steps(trend: Trend, frame: PlotFrame) -> Iterator[str]:
    """Draw the level as a line that steps half way between the last good and the changed commit."""
    for level in trend.levels:
        left, right = _level_start_x(level.first, frame), _level_end_x(level.last, frame)
        yield svg_line(left, frame.y_at(level.value), right, frame.y_at(level.end), "pc-level")
    for before, after in pairwise(trend.levels):
        x = _level_start_x(after.first, frame)
        yield svg_line(x, frame.y_at(before.end), x, frame.y_at(after.value), "pc-riser")


def _level_start_x(first: int, frame: PlotFrame) -> float:
    return frame.x_at(max(0.0, first - 0.5)) if first else max(frame.left, frame.x_at(0) - 8)


def _level_end_x(last: int, frame: PlotFrame) -> float:
    return frame.x_at(last + 0.5) if last < frame.commit_count - 1 else min(frame.right, frame.x_at(last) + 8)


def _flag_fill_class(mark: ChangeMark) -> str:
    return {"confirmed": "", "candidate": " pc-hollow", "refuted": " pc-refuted"}[mark.state]


def _mark_tone(mark: ChangeMark) -> Tone:
    return "worse" if mark.kind.value == "regression" else "better"


def _sparkline_path(trend: Trend, frame: PlotFrame) -> str:
    """Draw the measured dots, interrupted where the level changes and where a commit has no value."""
    edges = {mark.index for mark in trend.marks if mark.state != "refuted"}
    runs: list[list[tuple[float, float]]] = [[]]
    columns = trend.columns
    for index, level in zip(columns.indexes.tolist(), columns.levels.tolist(), strict=True):
        if index in edges or level != level:
            runs.append([])
        if level == level:
            runs[-1].append((frame.x_at(index), frame.y_at(level)))
    # A path of one point draws nothing: "h.01" makes it a dot, as its line caps are round.
    pieces = []
    for run in filter(None, runs):
        first, *steps = svg_relative_points(run)
        pieces.append(f"M{first}l{' '.join(steps)}" if steps else f"M{first}h.01")
    return "".join(pieces)
