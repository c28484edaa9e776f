"""Build small charts of several trends on common axes: days, and per cent of the first level of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise

from perfci.number_format import DisplayScale, format_count, format_day, format_signed_percent
from perfci.report.charts.build_graph_scene import first_level
from perfci.report.charts.label_placement import text_width_px
from perfci.report.charts.scene import Scene, SceneDot, SceneFrame, SceneSegment, SceneText
from perfci.report.charts.scene_axes import EPOCH, ValueAxis
from perfci.report.series_trend import Trend
from perfci.report.trend_dots import Dot

WIDTH, HEIGHT = 340, 150
TOP_PX, BOTTOM_PX, RIGHT_PX, INSET_PX = 8.0, 26.0, 10.0, 8.0
TICKS = 3

LOGARITHMIC_FROM = 8.0
"""The highest value over the lowest from which the axis is logarithmic, so that smaller moves still show."""


@dataclass(frozen=True, slots=True)
class SmallMultiple:
    """What one of the small charts shows: a trend, or several with the names of their lines."""

    name: str
    trends: tuple[Trend, ...]
    names: tuple[str, ...] = ()


def build_small_multiples(multiples: Sequence[SmallMultiple]) -> list[Scene | None]:
    """Build the scenes of small charts on common axes; None for one without a value."""
    trends = [trend for multiple in multiples for trend in multiple.trends if trend.measured_dots]
    if not trends:
        return [None] * len(multiples)
    axes = _CommonAxes(trends)
    return [
        axes.build_scene(multiple) if any(trend.measured_dots for trend in multiple.trends) else None
        for multiple in multiples
    ]


class _CommonAxes:
    """The axes that all charts share."""

    def __init__(self, trends: Sequence[Trend]) -> None:
        dots = [dot for trend in trends for dot in trend.dots]
        self.has_days = all(dot.commit.committed_at for dot in dots)
        values = [
            value / first_level(trend) for trend in trends for value in (*_dot_levels(trend), *_ends(trend))
        ]
        low, high = min(*values, 1.0), max(*values, 1.0)
        is_logarithmic = low > 0 and high / low >= LOGARITHMIC_FROM
        self.values = ValueAxis("log" if is_logarithmic else "ratio", DisplayScale(0.01, "%"), 1.0)
        places = [self.values.position_of(value) for value in (low, high)]
        padding = max((places[1] - places[0]) * 0.08, 0.01)
        self.y_range = places[0] - padding, places[1] + padding
        unit = " %" if is_logarithmic else ""
        self.ticks = [(y, f"{text}{unit}") for y, text in self.values.ticks(*self.y_range, TICKS)]
        xs = [self._x(trend, dot) for trend in trends for dot in trend.dots]
        first, last = min(xs), max(xs)
        self.days = min(dots, key=_day), max(dots, key=_day)
        left = 10 + max((text_width_px(text) for _, text in self.ticks), default=0.0)
        right = WIDTH - RIGHT_PX
        margin = (last - first) * INSET_PX / (right - left - 2 * INSET_PX) or 1.0
        self.frame = SceneFrame(
            WIDTH,
            HEIGHT,
            left,
            right,
            TOP_PX,
            HEIGHT - BOTTOM_PX,
            first - margin,
            last + margin,
            *self.y_range,
        )

    def build_scene(self, multiple: SmallMultiple) -> Scene:
        """Build one of the charts."""
        frame = self.frame
        return Scene(
            frame,
            name=multiple.name,
            place="",
            description="; ".join(_describe(trend) for trend in multiple.trends if trend.measured_dots) + ".",
            caption="",
            x_kind="date" if self.has_days else "commits",
            y_kind=self.values.kind,
            grid=tuple(y for y, _ in self.ticks),
            texts=tuple(self._texts()),
            segments=tuple(self._segments(multiple)),
            dots=tuple(self._dots(multiple)),
            lines=multiple.names,
        )

    def _x(self, trend: Trend, dot: Dot) -> float:
        """The day of a commit; its share of the history where a commit has no date."""
        return _day(dot) if self.has_days else dot.index / max(1, len(trend.dots) - 1)

    def _texts(self) -> Iterator[SceneText]:
        frame = self.frame
        for y, text in self.ticks:
            yield SceneText(frame.left - 6, frame.y_at(y) + 4, text, "end")
        if self.has_days:
            first, last = (dot.commit.committed_at for dot in self.days)
            assert first is not None
            assert last is not None
            yield SceneText(frame.left, frame.bottom + 17, format_day(first))
            yield SceneText(frame.right, frame.bottom + 17, format_day(last), "end")

    def _y(self, trend: Trend, value: float) -> float:
        return self.values.position_of(value / first_level(trend))

    def _dots(self, multiple: SmallMultiple) -> Iterator[SceneDot]:
        for line, trend in enumerate(multiple.trends):
            for dot in trend.measured_dots:
                assert dot.level is not None
                y, sha = self._y(trend, dot.level), dot.commit.sha
                yield SceneDot(self._x(trend, dot), y, y, y, sha, sha, sha, dot.merged, "", line)

    def _segments(self, multiple: SmallMultiple) -> Iterator[SceneSegment]:
        for line, trend in enumerate(multiple.trends):
            if not trend.measured_dots:
                continue
            for level in trend.levels:
                x0, x1 = (self._x(trend, trend.dots[index]) for index in (level.first, level.last))
                y0, y1 = self._y(trend, level.value), self._y(trend, level.end)
                yield SceneSegment(x0, y0, x1, y1, line=line)
            for before, after in pairwise(trend.levels):
                x = self._x(trend, trend.dots[after.first])
                y0, y1 = self._y(trend, before.end), self._y(trend, after.value)
                yield SceneSegment(x, y0, x, y1, riser=True, line=line)


def _dot_levels(trend: Trend) -> list[float]:
    levels: list[float] = trend.measured_levels.tolist()
    return levels


def _ends(trend: Trend) -> list[float]:
    return [value for level in trend.levels for value in (level.value, level.end)]


def _day(dot: Dot) -> float:
    moment = dot.commit.committed_at
    return (moment - EPOCH) / timedelta(days=1) if moment else 0.0


def _describe(trend: Trend) -> str:
    """What the picture of a trend says."""
    level, start = trend.current_level, first_level(trend)
    assert level is not None
    size = format_signed_percent(level / start - 1)
    return f"{format_count(trend.commit_count, 'commit')}, now {size} against the first level"
