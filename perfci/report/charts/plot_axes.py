"""Where a trend lies in its picture: the range of values, round ticks, and the map onto pixels."""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfci.report.charts.series_trend import Trend
from perfci.report.number_format import DisplayScale, choose_scale

MIN_RELATIVE_SPAN = 0.06
"""A chart shows at least 6 % of the level from bottom to top, so that noise of 0.1 % does not look like a storm."""

START_AT_ZERO_BELOW = 0.4
"""Where the lowest value is under this share of the highest, the axis starts at zero: nothing is won by cutting it."""

CHARACTER_WIDTH_PX = 6.6
"""About how wide a character of the 11 px chart text is; labels are placed by it."""


@dataclass(frozen=True, slots=True)
class PlotFrame:
    """Where the plot lies in the picture, and how commits and values map onto it."""

    width: int
    height: int
    left: float
    right: float
    top: float
    bottom: float
    commit_count: int
    low: float
    high: float

    def x(self, index: float) -> float:
        inset = min(14.0, (self.right - self.left) / 8)
        if self.commit_count <= 1:
            return (self.left + self.right) / 2
        return self.left + inset + (self.right - self.left - 2 * inset) * index / (self.commit_count - 1)

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * (value - self.low) / (self.high - self.low)


def build_plot_frame(trend: Trend, scale: DisplayScale, width: int, height: int) -> PlotFrame:
    low, high = value_range(trend)
    widest = max(
        len(scale.format_number(value)) for value in tick_values(low, high, scale, tick_count(height))
    )
    left = 12 + widest * CHARACTER_WIDTH_PX
    commits = trend.dots[-1].index + 1
    return PlotFrame(width, height, left, width - 12.0, 58.0, height - 62.0, commits, low, high)


def value_range(trend: Trend) -> tuple[float, float]:
    """Hold every dot and the spread around it, without letting one wild spread flatten the rest."""
    values = [dot.level for dot in trend.measured_dots if dot.level is not None]
    lows, highs = _trimmed_spread_bounds(trend)
    low, high = min(*values, *lows, values[0]), max(*values, *highs, values[0])
    if 0 <= low < START_AT_ZERO_BELOW * high:
        return 0.0, high * 1.08
    least = MIN_RELATIVE_SPAN * max(abs(low), abs(high)) or 1.0
    padding = max((high - low) * 0.1, (least - (high - low)) / 2)
    start = low - padding
    return (max(0.0, start) if low >= 0 else start), high + padding


def _trimmed_spread_bounds(trend: Trend) -> tuple[list[float], list[float]]:
    lows = sorted(dot.lo for dot in trend.measured_dots if dot.lo is not None)
    highs = sorted(dot.hi for dot in trend.measured_dots if dot.hi is not None)
    cut = len(lows) // 20
    return lows[cut:] or lows, highs[: len(highs) - cut] or highs


def tick_count(height: int) -> int:
    return 5 if height >= 300 else 4


def tick_values(low: float, high: float, scale: DisplayScale, count: int) -> list[float]:
    """Round numbers in the unit that is shown."""
    rough = (high - low) / scale.factor / count
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    first = math.ceil(low / scale.factor / step - 1e-9)
    last = math.floor(high / scale.factor / step + 1e-9)
    return [k * step * scale.factor for k in range(first, last + 1)]


def trend_scale(trend: Trend) -> DisplayScale:
    """One unit for the whole picture."""
    metric = trend.series.metric
    return choose_scale(
        (dot.level for dot in trend.measured_dots if dot.level is not None), metric.unit, metric.name
    )
