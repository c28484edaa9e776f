"""Render trend charts, sparklines, interval bars and share bars as SVG text, coloured by CSS class."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise

from perfci.report.charts.plot_axes import (
    CHARACTER_WIDTH_PX,
    PlotFrame,
    build_plot_frame,
    choose_trend_display_scale,
    format_level_label,
    tick_count,
    tick_values,
    value_axis_range,
)
from perfci.report.charts.svg_elements import (
    SVG_STYLE,
    format_px,
    svg_background,
    svg_circle,
    svg_line,
    svg_rect,
    svg_text,
)
from perfci.report.color_palette import standalone_svg_palette_css
from perfci.report.escaping import make_printable
from perfci.report.number_format import DisplayScale, format_count, format_signed_percent
from perfci.report.page_summaries import trend_summary
from perfci.report.series_trend import ChangeMark, Dot, Trend, change_mark_sentence, downsample_trend
from perfci.report.verdict_text import (
    Tone,
    direction_arrow,
    status_label,
)

MAX_DOTS = 300
"""The number of dots that can be distinguished on a page; beyond it neighbours are merged."""


def render_trend_chart(
    trend: Trend, *, width: int = 960, height: int = 340, id_prefix: str = "trend", standalone: bool = False
) -> str:
    """Render a trend chart: spread, dots, levels, failed commits below the axis, change flags above.

    ``id_prefix`` keeps element ids unique on a page with several charts; ``standalone`` includes the
    style that a page would supply.
    """
    drawn = downsample_trend(trend, MAX_DOTS)
    parts = [svg_background(width, height)] if standalone else []
    if trend.measured_dots:
        scale = choose_trend_display_scale(trend)
        frame = build_plot_frame(drawn, scale, width, height)
        parts += [
            *_draw_axes(drawn, frame, scale),
            *_draw_unmeasured_ranges(drawn, frame),
            f'<g clip-path="url(#{id_prefix}-plot)">',
            *_draw_spread_bands(drawn, frame),
            *_draw_dots(drawn, frame, scale),
            *_draw_level_steps(drawn, frame),
            "</g>",
            *_draw_level_labels(drawn, frame, scale),
            *_draw_failures(drawn, frame),
            *_draw_change_flags(drawn, frame),
        ]
        plot_area = svg_rect(frame.left, frame.top - 6, frame.right, frame.bottom)
        parts.insert(0, f'<defs><clipPath id="{id_prefix}-plot">{plot_area}</clipPath></defs>')
    else:
        parts.append(svg_text(width / 2, height / 2, "no commit has a measured value", "pc-middle"))
    return _wrap_svg(
        parts, width, height, id_prefix, trend.series.label, str(trend_summary(trend)), standalone
    )


def render_sparkline(trend: Trend, *, width: int = 132, height: int = 30) -> str:
    """Render a word-sized trend, hidden from screen readers, since the text beside it says the same."""
    opening = f'<svg class="pc-sparkline" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    if not trend.measured_dots:
        return f'{opening} aria-hidden="true"></svg>'
    drawn = downsample_trend(trend, width // 2)
    low, high = value_axis_range(drawn)
    # The frame exceeds the picture by 6 px on either side, which offsets part of the inset of PlotFrame.x.
    frame = PlotFrame(width, height, -6.0, width + 6.0, 5.0, height - 5.0, len(trend.dots), low, high)
    marks = []
    for mark in drawn.marks:
        level = next((each.value for each in drawn.levels if each.first <= mark.index <= each.last), None)
        if mark.state != "refuted" and level is not None:
            css_class = f"pc-flag pc-{_mark_tone(mark)}{_flag_fill_class(mark)}"
            marks.append(svg_circle(frame.x_at(mark.index), frame.y_at(level), 2.6, css_class))
    parts = [
        f'<path class="pc-spark" d="{_sparkline_path(_split_into_level_runs(drawn), frame)}"/>',
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


def axis_start_note(trend: Trend) -> str:
    """Say where the value axis of a trend starts, as it may not be at zero."""
    if not trend.measured_dots:
        return ""
    low, _ = value_axis_range(downsample_trend(trend, MAX_DOTS))
    scale = choose_trend_display_scale(trend)
    return f"y starts at {scale.format_with_unit(low)}" if low > 0 else "y starts at 0"


def downsampling_note(trend: Trend) -> str:
    """Say how many commits the chart shows, and whether neighbours are merged."""
    drawn = downsample_trend(trend, MAX_DOTS)
    if len(drawn.dots) == trend.commit_count:
        return f"{format_count(trend.commit_count, 'commit')}, one dot each"
    counts = f"{len(drawn.dots):,} dots for {trend.commit_count:,} commits"
    return f"{counts}: adjacent commits are merged, changes never are"


def _wrap_svg(
    parts: Sequence[str],
    width: int,
    height: int,
    id_prefix: str,
    title: str,
    description: str,
    standalone: bool,
) -> str:
    style = f"<style>{standalone_svg_palette_css()}{SVG_STYLE}</style>" if standalone else ""
    size = f' width="{width}" height="{height}"' if standalone else ""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="pc-trend" viewBox="0 0 {width} {height}"{size}'
        f' role="img" aria-labelledby="{id_prefix}-title {id_prefix}-description">{style}'
        f'<title id="{id_prefix}-title">{escape(make_printable(title, 300))}</title>'
        f'<desc id="{id_prefix}-description">{escape(description)}</desc>'
        f"{''.join(parts)}</svg>"
    )


def _draw_axes(trend: Trend, frame: PlotFrame, scale: DisplayScale) -> Iterator[str]:
    metric = trend.series.metric
    unit = scale.symbol or metric.unit
    better = "lower is better ↓" if metric.direction == "lower" else "higher is better ↑"
    yield svg_text(frame.left, 16, f"{make_printable(unit, 24)} · {better}")
    yield svg_text(frame.right, 16, axis_start_note(trend), "pc-end")
    for value in tick_values(frame.low, frame.high, scale, tick_count(frame.height)):
        y = frame.y_at(value)
        yield svg_line(frame.left, y, frame.right, y, "pc-grid")
        yield svg_text(frame.left - 6, y + 4, scale.format_without_unit(value), "pc-end")
    yield svg_line(frame.left, frame.bottom, frame.right, frame.bottom, "pc-axis")
    yield from _draw_commit_labels(trend, frame)


def _draw_commit_labels(trend: Trend, frame: PlotFrame) -> Iterator[str]:
    """Label evenly spaced commits with sha and date, always including the first and the last."""
    dots = trend.dots
    count = min(len(dots), max(2, int((frame.right - frame.left) / 150)))
    chosen = sorted({round(k * (len(dots) - 1) / max(1, count - 1)) for k in range(count)})
    for k, position in enumerate(chosen):
        dot = dots[position]
        x = frame.x_at(dot.index)
        anchor = "pc-middle"
        if len(chosen) > 1 and k == 0:
            anchor = ""
        elif k and k == len(chosen) - 1:
            anchor = "pc-end"
        shift = {"pc-end": 6.0, "": -6.0}.get(anchor, 0.0)
        yield svg_line(x, frame.bottom, x, frame.bottom + 4, "pc-axis")
        yield svg_text(x + shift, frame.bottom + 36, dot.commit.sha[:7], anchor)
        if dot.commit.committed_at:
            moment = dot.commit.committed_at
            yield svg_text(x + shift, frame.bottom + 50, f"{moment.day} {moment:%b %Y}", anchor)


def _draw_unmeasured_ranges(trend: Trend, frame: PlotFrame) -> Iterator[str]:
    """Shade the commits between last good and changed where those in between were not measured."""
    for mark in trend.marks:
        x0, x1 = frame.x_at(mark.last_good_index), frame.x_at(mark.index)
        if mark.state != "refuted" and mark.index - mark.last_good_index > 1:
            yield svg_rect(x0, frame.top - 6, x1, frame.bottom, f"pc-range pc-{_mark_tone(mark)}")


def _draw_spread_bands(trend: Trend, frame: PlotFrame) -> Iterator[str]:
    """Draw the interquartile ranges as an area, interrupted at level changes and failed commits."""
    for run in _split_into_level_runs(trend):
        if len(run) == 1:
            dot = run[0]
            if dot.lo is not None and dot.hi is not None and dot.hi > dot.lo:
                x = frame.x_at(dot.index)
                yield svg_line(x, frame.y_at(dot.lo), x, frame.y_at(dot.hi), "pc-whisker")
            continue
        upper = [f"{format_px(frame.x_at(dot.index))},{format_px(frame.y_at(dot.hi or 0))}" for dot in run]
        lower = [
            f"{format_px(frame.x_at(dot.index))},{format_px(frame.y_at(dot.lo or 0))}"
            for dot in reversed(run)
        ]
        yield f'<path class="pc-band" d="M{"L".join(upper + lower)}Z"/>'


def _split_into_level_runs(trend: Trend) -> list[list[Dot]]:
    """Split the measured dots into runs of neighbours on the same level."""
    edges = {mark.index for mark in trend.marks if mark.state != "refuted"}
    runs: list[list[Dot]] = [[]]
    for dot in trend.dots:
        if dot.index in edges or dot.level is None:
            runs.append([])
        if dot.level is not None:
            runs[-1].append(dot)
    return [run for run in runs if run]


def _draw_dots(trend: Trend, frame: PlotFrame, scale: DisplayScale) -> Iterator[str]:
    radius = 3.2 if (frame.right - frame.left) / len(trend.dots) > 9 else 2.2
    for dot in trend.measured_dots:
        assert dot.level is not None
        subject = f" {make_printable(dot.commit.subject, 72)}" if dot.commit.subject else ""
        merged = f" (median of {dot.merged} commits)" if dot.merged > 1 else ""
        title = f"{scale.format_with_unit(dot.level)}{merged} · {dot.commit.sha[:10]}{subject}"
        yield svg_circle(frame.x_at(dot.index), frame.y_at(dot.level), radius, "pc-dot", title)


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


def _draw_level_labels(trend: Trend, frame: PlotFrame, scale: DisplayScale) -> Iterator[str]:
    """Write each level's value on its line where there is room, and always that of the last level."""
    for level in trend.levels:
        left, right = _level_start_x(level.first, frame), _level_end_x(level.last, frame)
        text = format_level_label(level, scale)
        width = (len(text) + 1) * CHARACTER_WIDTH_PX
        if level is trend.levels[-1]:
            y = _free_label_y(trend, frame, right - width, right, level.end)
            yield svg_text(right, y, text, "pc-end pc-strong pc-halo")
        elif text and right - left > width:
            y = _free_label_y(trend, frame, left, left + width, level.value)
            yield svg_text(left + 3, y, text, "pc-strong pc-halo")


def _free_label_y(trend: Trend, frame: PlotFrame, left: float, right: float, value: float) -> float:
    """Return a y just above everything drawn between two x, or below it at the top of the plot."""
    near = [dot for dot in trend.measured_dots if left - 4 <= frame.x_at(dot.index) <= right + 4]
    above = (
        frame.y_at(max([value, *(dot.hi or value for dot in near), *(dot.level or value for dot in near)]))
        - 7
    )
    if above >= frame.top + 4:
        return above
    return min(frame.bottom - 4, frame.y_at(min([value, *(dot.lo or value for dot in near)])) + 16)


def _draw_failures(trend: Trend, frame: PlotFrame) -> Iterator[str]:
    """Draw commits without a value as crosses below the axis, so that they do not read as zero."""
    y = frame.bottom + 13
    for dot in trend.dots:
        if dot.level is None:
            x = frame.x_at(dot.index)
            css_class = "pc-skipped" if dot.status.value == "skipped" else "pc-failed"
            note = make_printable(dot.reason or dot.commit.subject, 90)
            title = escape(f"{status_label(dot.status)} · {dot.commit.sha[:10]} {note}")
            cross = f"M{format_px(x - 3.5)},{format_px(y - 3.5)}l7,7m0,-7l-7,7"
            yield f'<path class="{css_class}" d="{cross}"><title>{title}</title></path>'


def _draw_change_flags(trend: Trend, frame: PlotFrame) -> Iterator[str]:
    """Draw a triangle per change above the plot, pointing the way the value moved, solid if confirmed."""
    last_label_end = -math.inf
    for mark in trend.marks:
        x = frame.x_at(mark.index)
        if mark.state != "refuted":
            # A thin line from the flag to just above its dot, which it does not cross.
            dot = next((dot for dot in trend.dots if dot.index == mark.index), None)
            end = frame.y_at(dot.level) - 8 if dot is not None and dot.level is not None else frame.bottom
            if end > 54:
                yield svg_line(x, 50, x, end, f"pc-stem pc-{_mark_tone(mark)}")
        yield _flag_triangle(mark, x, 42, change_mark_sentence(mark, trend.series.metric))
        text = format_signed_percent(mark.ratio - 1)
        half_width = len(text) * CHARACTER_WIDTH_PX / 2
        if mark.state != "refuted" and x - half_width > last_label_end + 4:
            middle = min(max(x, frame.left + half_width), frame.right - half_width)
            yield svg_text(middle, 33, text, f"pc-middle pc-strong pc-{_mark_tone(mark)}")
            last_label_end = middle + half_width


def _flag_triangle(mark: ChangeMark, x: float, y: float, sentence: str) -> str:
    up = mark.ratio > 1
    tip, base = (y - 5, y + 4) if up else (y + 5, y - 4)
    left, right, end = format_px(x - 5.5), format_px(x + 5.5), format_px(base)
    shape = f"M{format_px(x)},{format_px(tip)}L{right},{end}L{left},{end}Z"
    title = escape(f"{direction_arrow(up, solid=mark.state == 'confirmed')} {mark.commit[:10]} {sentence}")
    css_class = f"pc-flag pc-{_mark_tone(mark)}{_flag_fill_class(mark)}"
    return f'<path class="{css_class}" d="{shape}"><title>{title}</title></path>'


def _flag_fill_class(mark: ChangeMark) -> str:
    return {"confirmed": "", "candidate": " pc-hollow", "refuted": " pc-refuted"}[mark.state]


def _mark_tone(mark: ChangeMark) -> Tone:
    return "worse" if mark.kind.value == "regression" else "better"


def _sparkline_path(runs: Iterable[Sequence[Dot]], frame: PlotFrame) -> str:
    # A path of one point draws nothing: "h.01" makes it a dot, as its line caps are round.
    pieces = []
    for run in runs:
        dots = [
            f"{format_px(frame.x_at(dot.index))},{format_px(frame.y_at(dot.level))}"
            for dot in run
            if dot.level is not None
        ]
        pieces.append(f"M{'L'.join(dots)}" + ("h.01" if len(dots) == 1 else ""))
    return "".join(pieces)
