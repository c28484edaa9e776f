"""Contact sheets of histories: the points around one call, its levels and its interval, ten to a picture."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from perfci.model import ChangePoint
from perfci.number_format import choose_display_scale, format_signed_percent
from perfci.report.charts.svg_elements import (
    SVG_STYLE,
    format_px,
    svg_background,
    svg_line,
    svg_text,
)
from perfci.report.color_palette import standalone_svg_palette_css

PANEL_WIDTH, PANEL_HEIGHT, COLUMNS = 480, 158, 2
TOP, BOTTOM = 38.0, PANEL_HEIGHT - 14.0
DETAIL = 50.0, 344.0
WHOLE = 356.0, PANEL_WIDTH - 10.0
"""Left and right end of the points around the call, and of the whole history beside them."""

REACH = 60
"""Points either side of a call that are drawn one by one."""

MAX_OVERVIEW_POINTS = 250
"""A longer history is drawn by the medians of so many stretches."""

OUTER_SHARE = 0.02
"""Share of the points that may lie above, or below, what is drawn: they are drawn at its edge."""

AXIS_MARGIN = 1.01
"""The axis, a logarithmic one, goes this factor beyond what it must show."""

DOTS = (
    ".pc-dots{fill:none;stroke:var(--dot);stroke-width:3;stroke-linecap:round}"
    ".pc-old{stroke:var(--unsure-hatch)}.pc-small{stroke-width:1.6}"
    ".pc-call{stroke:var(--worse);stroke-dasharray:3 3}"
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One history, the call that is looked at (none: the whole history is), and what stands above it.

    ``late`` are the points measured long after their commit was written: its place in the order of author
    dates says little of what it was measured on top of.
    """

    heading: str
    note: str
    values: Sequence[float]
    late: Sequence[bool]
    calls: Sequence[tuple[int, ChangePoint]] = ()
    looked_at: int | None = None


def draw_sheet(panels: Sequence[Panel], title: str) -> str:
    """Draw panels in two columns as one SVG."""
    rows = -(-len(panels) // COLUMNS)
    width, height = COLUMNS * PANEL_WIDTH, rows * PANEL_HEIGHT
    drawn = [
        f'<g transform="translate({place % COLUMNS * PANEL_WIDTH} {place // COLUMNS * PANEL_HEIGHT})">'
        f"{''.join(_draw_panel(panel))}</g>"
        for place, panel in enumerate(panels)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
        f' height="{height}" role="img" aria-labelledby="title">'
        f"<style>{standalone_svg_palette_css()}{SVG_STYLE}{DOTS}</style>"
        f'<title id="title">{escape(title)}</title>{svg_background(width, height)}{"".join(drawn)}</svg>\n'
    )


@dataclass(frozen=True, slots=True)
class _Frame:
    """Maps points ``first`` to ``last`` (excluded) of a history and its values to pixels."""

    left: float
    right: float
    first: int
    last: int
    low: float
    high: float

    def x(self, place: float) -> float:
        return self.left + (self.right - self.left) * (place - self.first + 0.5) / (self.last - self.first)

    def y(self, value: float) -> float:
        inside = min(max(value, self.low), self.high)
        return BOTTOM - (BOTTOM - TOP) * math.log(inside / self.low) / math.log(self.high / self.low)


def _draw_panel(panel: Panel) -> Iterator[str]:
    yield svg_text(6, 14, panel.heading, "pc-strong")
    yield svg_text(6, 29, panel.note)
    if panel.looked_at is None:
        yield from _draw_detail(panel, 0, len(panel.values), WHOLE[1])
        return
    first = max(0, panel.looked_at - REACH)
    yield from _draw_detail(panel, first, min(len(panel.values), panel.looked_at + REACH), DETAIL[1])
    yield from _draw_overview(panel)


def _draw_detail(panel: Panel, first: int, last: int, right: float) -> Iterator[str]:
    calls = [(place, call) for place, call in panel.calls if first < place < last]
    levels = [level for _, call in calls for level in (call.before, call.after)]
    low, high = _range(panel.values[first:last], levels)
    frame = _Frame(DETAIL[0], right, first, last, low, high)
    scale = choose_display_scale(panel.values[first:last], "seconds", "time")
    for value in (low, high):
        yield svg_text(DETAIL[0] - 5, frame.y(value) + 4, scale.format_without_unit(value), "pc-end")
    yield svg_text(DETAIL[0] - 5, (TOP + BOTTOM) / 2 + 4, scale.symbol, "pc-end")
    yield svg_line(frame.left, BOTTOM + 4, frame.right, BOTTOM + 4, "pc-axis")
    for css_class, wanted in (("pc-dots", False), ("pc-dots pc-old", True)):
        places = [place for place in range(first, last) if panel.late[place] is wanted]
        if places:
            yield _dots(frame, places, [panel.values[place] for place in places], css_class)
    edges = [first, *(place for place, _ in calls), last]
    for number, (place, call) in enumerate(calls):
        start, x, end = (frame.x(edge - 0.5) for edge in edges[number : number + 3])
        before, after = frame.y(call.before), frame.y(call.after)
        yield svg_line(start, before, x, before, "pc-level")
        yield svg_line(x, after, end, after, "pc-level")
        is_looked_at = place == panel.looked_at
        yield svg_line(x, TOP - 4, x, BOTTOM + 4, "pc-call" if is_looked_at else "pc-grid")
        if is_looked_at and call.interval is not None:
            ends = [frame.y(call.before * end) for end in (call.interval.lo, call.interval.hi)]
            yield svg_line(x, ends[0], x, ends[1], "pc-line pc-worse")


def _draw_overview(panel: Panel) -> Iterator[str]:
    """The whole history, small, with a line where the call is."""
    count = len(panel.values)
    stretch = max(1, -(-count // MAX_OVERVIEW_POINTS))
    places = range(0, count, stretch)
    values = [statistics.median(panel.values[place : place + stretch]) for place in places]
    frame = _Frame(WHOLE[0], WHOLE[1], 0, count, *_range(values, ()))
    assert panel.looked_at is not None
    x = frame.x(panel.looked_at - 0.5)
    yield svg_line(x, TOP - 4, x, BOTTOM + 4, "pc-call")
    yield svg_line(frame.left, BOTTOM + 4, frame.right, BOTTOM + 4, "pc-axis")
    yield _dots(frame, list(places), values, "pc-dots pc-small")


def _range(values: Sequence[float], levels: Sequence[float]) -> tuple[float, float]:
    """Range of the logarithmic axis: all values but the outer ones, and every level."""
    ordered = sorted(values)
    cut = int(len(ordered) * OUTER_SHARE)
    inner = [ordered[cut], ordered[-1 - cut], *levels]
    return min(inner) / AXIS_MARGIN, max(inner) * AXIS_MARGIN


def _dots(frame: _Frame, places: Sequence[int], values: Sequence[float], css_class: str) -> str:
    """Dots as one path: lines of no length whose ends are round."""
    path = "".join(
        f"M{format_px(frame.x(place))} {format_px(frame.y(value))}h0"
        for place, value in zip(places, values, strict=True)
    )
    return f'<path class="{css_class}" d="{path}"/>'


def format_call(call: ChangePoint) -> str:
    """``+12.1 % (+10.8 to +13.5 %)``."""
    size = format_signed_percent(call.relative_change)
    if call.relative_interval is None:
        return size
    low, high = map(format_signed_percent, call.relative_interval)
    return f"{size} ({low} to {high})"
