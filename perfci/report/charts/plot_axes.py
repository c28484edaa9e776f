"""Map a trend onto its plot: value range, round ticks and pixel coordinates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfci.number_format import DisplayScale, choose_display_scale
from perfci.report.series_trend import Trend, TrendLevel
from perfci.report.trend_dots import Dot, DotColumns

MIN_RELATIVE_SPAN = 0.06
"""The smallest height of the value axis, relative to the level, so that 0.1 % noise looks small."""

START_AT_ZERO_BELOW = 0.4
"""The axis starts at zero where the lowest value is below this share of the highest."""

CHARACTER_WIDTH_PX = 6.6
"""The approximate width in px of a character of the 11 px chart text, used to place labels."""


@dataclass(frozen=True, slots=True)
class PlotFrame:
    """The plot area in pixels, with the commits and values it spans."""

    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    commit_count: int
    low: float
    high: float

    def x_at(self, index: float) -> float:
        """Map the index of a commit to its x coordinate."""
        inset = min(14.0, (self.right - self.left) / 8)
        if self.commit_count <= 1:
            return (self.left + self.right) / 2
        return self.left + inset + (self.right - self.left - 2 * inset) * index / (self.commit_count - 1)

    def y_at(self, value: float) -> float:
        """Map a value to its y coordinate."""
        return self.bottom - (self.bottom - self.top) * (value - self.low) / (self.high - self.low)


def value_axis_range(dots: Sequence[Dot]) -> tuple[float, float]:
    """Compute the value range of an axis for dots: all levels, and their spreads but for the 5 % most
    extreme."""
    columns = DotColumns.read(dots)
    values = [value for value in columns.levels.tolist() if value == value]
    lows = sorted(value for value in columns.lows.tolist() if value == value)
    highs = sorted(value for value in columns.highs.tolist() if value == value)
    # One noisy commit of a hundred must not flatten all others.
    trimmed = len(lows) // 20
    lows, highs = lows[trimmed:] or lows, highs[: len(highs) - trimmed] or highs
    low, high = min(*values, *lows, values[0]), max(*values, *highs, values[0])
    if 0 <= low < START_AT_ZERO_BELOW * high:
        return 0.0, high * 1.08
    min_span = MIN_RELATIVE_SPAN * max(abs(low), abs(high)) or 1.0
    padding = max((high - low) * 0.1, (min_span - (high - low)) / 2)
    # Padding never shows negative values where none was measured.
    start = low - padding
    return (max(0.0, start) if low >= 0 else start), high + padding


def tick_count(height: int) -> int:
    """Return the approximate number of ticks of the value axis."""
    return 5 if height >= 300 else 4


def tick_values(low: float, high: float, scale: DisplayScale, count: int) -> list[float]:
    """Choose round tick values in the displayed unit."""
    rough = (high - low) / scale.factor / count
    power = 10.0 ** math.floor(math.log10(rough))
    # 0.999: a step that fits exactly must not fail by a rounding error.
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / scale.factor / step - 1e-9)
    last = math.floor(high / scale.factor / step + 1e-9)
    # Multiples of the step rather than a running sum, which would collect rounding errors.
    return [k * step * scale.factor for k in range(first, last + 1)]


def choose_trend_display_scale(trend: Trend) -> DisplayScale:
    """Choose one unit for the whole chart."""
    metric = trend.series.metric
    return choose_display_scale(trend.measured_levels.tolist(), metric.unit, metric.name)


def format_level_label(level: TrendLevel, scale: DisplayScale) -> str:
    """Format a level for a chart, both its ends where these differ; empty where it has no label."""
    if not level.is_labelled:
        return ""
    return " → ".join(dict.fromkeys(scale.format_with_unit(value) for value in (level.value, level.end)))
