"""A comparison drawn: the levels of its pairs, and intervals between the bars that decide; shapes of the
one drawer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from perfci.model import Verdict
from perfci.number_format import choose_display_scale, format_signed_percent
from perfci.report.charts.plot_axes import CHARACTER_WIDTH_PX, tick_values
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
from perfci.report.verdict_text import verdict_label, verdict_tone

WIDTH, HEIGHT = 960, 300
TOP, BOTTOM = 44.0, HEIGHT - 44.0
LEVELS_END, CHANGES_FROM = 590.0, 690.0
"""Where the plot of levels ends and that of changes begins, in a picture that has both."""

BARS = (
    ".pc-bar{stroke:var(--control);stroke-dasharray:5 4}.pc-half{stroke:var(--control);stroke-dasharray:1 4}"
)
"""The style of lines that nothing measured: the bar, and half of it."""

LEAST_REACH = 1.08
"""The axis of changes shows at least 8 % either way, so that the bar of 5 % is always on it."""


LINE_HEIGHT = 13.0
"""Labels closer than this cannot be read; the less important one is left out."""


@dataclass(frozen=True, slots=True)
class Column:
    """One interval of several, and what stands below it."""

    label: str
    verdict: Verdict


def draw_pairs_svg(
    base: Sequence[float], head: Sequence[float], verdict: Verdict, *, bar: float = 0.05, key: str = "pairs"
) -> str:
    """Draw each pair of processes side by side, and to the right the change with its interval between the
    bars.
    """
    text = f"{len(base)} pairs: {verdict_label(verdict)}, {format_change(verdict)}"
    parts = [*_levels(base, head, verdict), *_changes([Column("", verdict)], bar, CHANGES_FROM, WIDTH - 16.0)]
    return _picture(parts, key, f"{make_printable(verdict.series.label, 300)}: pairs of processes", text)


def draw_intervals_svg(
    columns: Sequence[Column], *, bar: float = 0.05, key: str = "intervals", title: str
) -> str:
    """Draw several intervals between the same bars, each with what stands below it."""
    text = "; ".join(
        f"{column.label}: {verdict_label(column.verdict)}, {format_change(column.verdict)}"
        for column in columns
    )
    return _picture(list(_changes(columns, bar, 64.0, WIDTH - 16.0)), key, title, text)


def format_change(verdict: Verdict) -> str:
    """``+12.1 % (+10.8 to +13.5 %)``."""
    assert verdict.ratio is not None
    change = format_signed_percent(verdict.ratio - 1)
    if verdict.interval is None:
        return change
    lo, hi = (format_signed_percent(end - 1) for end in (verdict.interval.lo, verdict.interval.hi))
    return f"{change} ({lo} to {hi})"


def _levels(base: Sequence[float], head: Sequence[float], verdict: Verdict) -> Iterator[str]:
    """Base to the left and head to the right within every pair, joined by a hair line."""
    metric = verdict.series.metric
    scale = choose_display_scale([*base, *head], metric.unit, metric.name)
    least, most = min(*base, *head), max(*base, *head)
    padding = max(0.08 * (most - least), 0.01 * most)
    low, high = least - padding, most + padding
    marks = tick_values(low, high, scale, 4)
    left = 12 + max(len(scale.format_without_unit(value)) for value in marks) * CHARACTER_WIDTH_PX
    step = (LEVELS_END - left) / len(base)

    def y(value: float) -> float:
        return BOTTOM - (BOTTOM - TOP) * (value - low) / (high - low)

    better = "lower is better ↓" if metric.direction == "lower" else "higher is better ↑"
    yield svg_text(left, 16, f"{scale.symbol or metric.unit} · {better}")
    yield from _legend(left, verdict)
    for value in marks:
        yield svg_line(left, y(value), LEVELS_END, y(value), "pc-grid")
        yield svg_text(left - 6, y(value) + 4, scale.format_without_unit(value), "pc-end")
    yield svg_line(left, BOTTOM, LEVELS_END, BOTTOM, "pc-axis")
    for number, (before, after) in enumerate(zip(base, head, strict=True)):
        middle, aside = left + (number + 0.5) * step, min(8.0, step / 5)
        yield svg_line(middle - aside, y(before), middle + aside, y(after), "pc-axis")
        yield svg_circle(middle - aside, y(before), 3.4, "pc-dot")
        yield svg_circle(middle + aside, y(after), 3.4, _head_shade(verdict))
        yield svg_text(middle, BOTTOM + 16, str(number + 1), "pc-middle")
    yield svg_text((left + LEVELS_END) / 2, BOTTOM + 34, "pair", "pc-middle")


def _head_shade(verdict: Verdict) -> str:
    """The colour of the verdict; where that is the grey of the base, the dark of a level."""
    return "pc-measured" if verdict_tone(verdict) in ("same", "void") else f"pc-{verdict_tone(verdict)}"


def _legend(left: float, verdict: Verdict) -> Iterator[str]:
    yield svg_circle(LEVELS_END - 96, 12, 3.4, "pc-dot")
    yield svg_text(LEVELS_END - 88, 16, "base")
    yield svg_circle(LEVELS_END - 44, 12, 3.4, _head_shade(verdict))
    yield svg_text(LEVELS_END - 36, 16, "head")


def _changes(columns: Sequence[Column], bar: float, left: float, right: float) -> Iterator[str]:
    """Change on a ratio axis that is symmetric around none; dashed the bar, dotted half of it, grey the
    noise floor.
    """
    reach = math.log(_reach(columns, bar))
    step = (right - left) / len(columns)

    def y(ratio: float) -> float:
        share = max(-1.0, min(1.0, math.log(ratio) / reach))
        return (TOP + BOTTOM) / 2 - (BOTTOM - TOP) / 2 * share

    floor = columns[0].verdict.noise_floor if len(columns) == 1 else None
    if floor:
        yield svg_rect(left, y(1 + floor), right, y(1 / (1 + floor)), "pc-zone")
    yield svg_text(left, 16, "change")
    for size, shade in ((bar, "pc-bar"), (bar / 2, "pc-half")):
        for ratio in (1 + size, 1 / (1 + size)):
            yield svg_line(left, y(ratio), right, y(ratio), shade)
    yield svg_line(left, y(1), right, y(1), "pc-zero")
    labelled: list[float] = []
    for ratio in (1.0, 1 + bar, 1 / (1 + bar), 1 + bar / 2):
        if all(abs(y(ratio) - other) >= LINE_HEIGHT for other in labelled):
            labelled.append(y(ratio))
            yield svg_text(left - 6, y(ratio) + 4, format_signed_percent(ratio - 1), "pc-end")
    for number, item in enumerate(columns):
        yield from _interval(item, left + (number + 0.5) * step, y, shown=len(columns) == 1)


def _interval(column: Column, x: float, y: Callable[[float], float], *, shown: bool) -> Iterator[str]:
    verdict = column.verdict
    shade = f"pc-{verdict_tone(verdict)}"
    if verdict.interval is not None:
        low, high = y(verdict.interval.lo), y(verdict.interval.hi)
        yield svg_line(x, low, x, high, f"pc-line {shade}")
        for end in (low, high):
            yield svg_line(x - 6, end, x + 6, end, f"pc-line {shade}")
    yield svg_circle(x, y(verdict.ratio or 1.0), 4.5, shade)
    below = (
        [verdict_label(verdict), format_change(verdict)] if shown else [column.label, verdict_label(verdict)]
    )
    yield svg_text(x, BOTTOM + 16, below[0], "pc-middle pc-strong")
    yield svg_text(x, BOTTOM + 34, below[1], "pc-middle")


def _reach(columns: Sequence[Column], bar: float) -> float:
    """The largest ratio that is shown: every interval in whole, and a little more than the bar."""
    furthest = max(abs(math.log(end)) for column in columns for end in _ends(column.verdict))
    return max(LEAST_REACH, 1 + 1.3 * bar, math.exp(1.1 * furthest))


def _ends(verdict: Verdict) -> tuple[float, ...]:
    assert verdict.ratio is not None
    return (verdict.ratio,) if verdict.interval is None else (verdict.interval.lo, verdict.interval.hi)


def _picture(parts: Sequence[str], key: str, title: str, told: str) -> str:
    style = f"<style>{standalone_svg_palette_css()}{SVG_STYLE}{BARS}</style>"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {format_px(WIDTH)} {format_px(HEIGHT)}"'
        f' width="{WIDTH}"'
        f' height="{HEIGHT}" role="img" aria-labelledby="{key}-title {key}-told">{style}'
        f'<title id="{key}-title">{escape(title)}</title><desc id="{key}-told">{escape(told)}</desc>'
        f"{svg_background(WIDTH, HEIGHT)}{''.join(parts)}</svg>"
    )
