"""Draw the samples of one result: a strip per process in the order of measurement, and their distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from typing import TypeVar

from perfci.number_format import DisplayScale
from perfci.report.charts.plot_axes import CHARACTER_WIDTH_PX, tick_values
from perfci.report.charts.svg_elements import format_px, svg_circle, svg_line, svg_text

MAX_STRIPS, MAX_STRIP_DOTS, MAX_STEPS = 12, 600, 200

T = TypeVar("T")

LEFT_PX, RIGHT_PX, STRIP_PX = 70.0, 12.0, 26.0


def render_sample_strips(
    processes: Sequence[Sequence[float]],
    scale: DisplayScale,
    *,
    width: int = 640,
    max_dots: int = MAX_STRIP_DOTS,
) -> str:
    """Draw the samples of each process from left to right in the order they were taken.

    All strips share one value axis, so that warm-up, drift and two modes can be seen beside each other.
    """
    shown = processes[:MAX_STRIPS]
    samples = [value for process in shown for value in process]
    if not samples:
        return ""
    low, high = _padded_range(samples)
    height = STRIP_PX * len(shown) + 8
    parts, each = [], max(1, max_dots // len(shown))
    for row, process in enumerate(shown):
        top = 4 + STRIP_PX * row
        middle = top + STRIP_PX / 2
        parts.append(svg_line(LEFT_PX, top + STRIP_PX - 2, width - RIGHT_PX, top + STRIP_PX - 2, "pc-grid"))
        parts.append(svg_text(LEFT_PX - 6, middle + 4, f"process {row + 1}", "pc-end"))
        taken = _thin(list(enumerate(process)), each)
        for order, value in taken:
            share = order / max(1, len(process) - 1) if len(process) > 1 else 0.5
            x = LEFT_PX + 4 + (width - LEFT_PX - RIGHT_PX - 8) * share
            y = top + 3 + (STRIP_PX - 8) * (1 - (value - low) / (high - low))
            title = scale.format_with_unit(value) if len(taken) <= 60 else ""
            parts.append(svg_circle(x, y, 2.0, "pc-dot", title))
    label = f"{len(samples)} samples of {len(shown)} processes in the order of measurement"
    return _wrap(parts, width, height, label)


def render_distribution(
    samples: Sequence[float],
    others: Sequence[float],
    scale: DisplayScale,
    *,
    names: tuple[str, str] = ("this", "before"),
    width: int = 640,
    height: int = 220,
) -> str:
    """Draw the share of samples up to each value, of this result and of the one before it."""
    if not samples:
        return ""
    low, high = _padded_range([*samples, *others])
    left, right, top, bottom = 46.0, width - RIGHT_PX, 12.0, height - 34.0

    def x(value: float) -> float:
        return left + (right - left) * (value - low) / (high - low)

    def y(share: float) -> float:
        return bottom - (bottom - top) * share

    parts = []
    for share in (0.0, 0.5, 0.9, 1.0):
        parts.append(svg_line(left, y(share), right, y(share), "pc-grid"))
        parts.append(svg_text(left - 6, y(share) + 4, f"{share:.0%}".replace("%", " %"), "pc-end"))
    last_end = -1.0
    for value in tick_values(low, high, scale, 5):
        text = scale.format_with_unit(value)
        half = len(text) * CHARACTER_WIDTH_PX / 2
        if x(value) - half > last_end + 6 and x(value) + half <= width:
            parts.append(svg_text(x(value), bottom + 18, text, "pc-middle"))
            last_end = x(value) + half
    for values, css_class in ((others, "pc-riser"), (samples, "pc-level")):
        if values:
            parts.append(f'<path class="pc-steps {css_class}" d="{_step_path(values, x, y)}"/>')
    label = f"Distribution of {len(samples)} samples of {names[0]}"
    if others:
        label += f", dotted: {len(others)} of {names[1]}"
    return _wrap(parts, width, height, label)


def _step_path(values: Sequence[float], x: Callable[[float], float], y: Callable[[float], float]) -> str:
    ordered = sorted(values)
    shares = [(value, (rank + 1) / len(ordered)) for rank, value in enumerate(ordered)]
    path = f"M{format_px(x(ordered[0]))},{format_px(y(0.0))}"
    for value, share in _thin(shares, MAX_STEPS):
        path += f"H{format_px(x(value))}V{format_px(y(share))}"
    return path


def _thin(values: list[T], count: int) -> list[T]:
    """Every k-th value, and the last."""
    if len(values) <= count:
        return values
    step = -(-len(values) // count)
    return [*values[:-1:step], values[-1]]


def _padded_range(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    padding = (high - low) * 0.05 or abs(high) * 0.02 or 1.0
    return low - padding, high + padding


def _wrap(parts: Sequence[str], width: int, height: float, label: str) -> str:
    return (
        f'<svg class="pc-samples" viewBox="0 0 {width} {format_px(height)}" role="img"'
        f' aria-label="{escape(label)}">{"".join(parts)}</svg>'
    )
