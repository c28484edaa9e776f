"""How the level of a series came about since a commit: changes as steps that add up, and their picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from perfci.model import Metric
from perfci.number_format import (
    MINUS,
    DisplayScale,
    choose_display_scale,
    format_count,
    format_signed_percent,
)
from perfci.report.charts.label_placement import text_width_px
from perfci.report.charts.plot_axes import MIN_RELATIVE_SPAN, START_AT_ZERO_BELOW, tick_values
from perfci.report.charts.scene import Scene, SceneBar, SceneFrame, SceneSegment, SceneText, SceneTone
from perfci.report.series_trend import ChangeMark, TrendLevel

MAX_STEPS = 14
"""Changes that have a bar of their own: the largest; smaller ones are in the remainder."""

DIGITS, MAX_DECIMALS = 4, 6
"""Significant digits of the smaller end, so that numbers of one waterfall have as many decimals."""

REMAINDER = "drift and small changes"

TOP_PX, BOTTOM_PX, RIGHT_PX = 40.0, 46.0, 12.0
BAR_SHARE = 0.72
"""The width of a bar over the room it has."""


@dataclass(frozen=True, slots=True)
class WaterfallStep:
    """One change, with what it added and the sum after it, in units of the last decimal."""

    number: int
    mark: ChangeMark
    size: int
    sum_after: int


@dataclass(frozen=True, slots=True)
class Waterfall:
    """The level at a start, what changes added, and the level now.

    All numbers are whole multiples of the last decimal that is shown, so that what a reader adds up is what
    stands there: ``start`` + steps + ``remainder`` = ``now``. ``small`` counts the changes in the remainder.
    """

    metric: Metric
    scale: DisplayScale
    decimals: int
    start: int
    now: int
    steps: tuple[WaterfallStep, ...]
    small: int = 0

    @property
    def remainder(self) -> int:
        """What the steps do not explain: drift between the changes, and changes too small for a bar."""
        return self.now - self.start - sum(step.size for step in self.steps)

    @property
    def remainder_label(self) -> str:
        return f"{REMAINDER} ({format_count(self.small, 'change')})" if self.small else REMAINDER

    @property
    def sentence(self) -> str:
        """From where to where, and by what."""
        size = f" ({format_signed_percent(self.now / self.start - 1)})" if self.start > 0 else ""
        text = f"{self.write(self.start)} to {self.write(self.now)}{size}"
        explained = sum(step.size for step in self.steps)
        if self.steps:
            text += f": {format_count(len(self.steps), 'change')} {self.write_signed(explained)}"
        return (
            f"{text}{',' if self.steps else ':'} {self.remainder_label} {self.write_signed(self.remainder)}"
        )

    def value_of(self, units: int) -> float:
        """A number in the unit of the metric."""
        return units / 10.0**self.decimals * self.scale.factor

    def write(self, units: int) -> str:
        """Write a number with its unit."""
        text = f"{units / 10.0**self.decimals:,.{self.decimals}f}".replace("-", MINUS)
        return f"{text} {self.scale.symbol}".rstrip()

    def write_signed(self, units: int) -> str:
        """Write a difference with its sign and unit."""
        return f"+{self.write(units)}" if units > 0 else self.write(units)

    def is_worse(self, units: int) -> bool:
        """Whether a difference is for the worse."""
        return (units > 0) == (self.metric.direction == "lower")


def build_waterfall(metric: Metric, start: float, now: float, marks: Sequence[ChangeMark]) -> Waterfall:
    """Build the waterfall from one level to another by the changes in between, in their order."""
    scale = choose_display_scale([start, now], metric.unit, metric.name)
    decimals = _choose_decimals([start / scale.factor, now / scale.factor])

    def in_units(value: float) -> int:
        return round(value / scale.factor * 10.0**decimals)

    sizes = [in_units(mark.change.after - mark.change.before) for mark in marks]
    largest = sorted(range(len(marks)), key=lambda index: -abs(sizes[index]))[:MAX_STEPS]
    kept = sorted(index for index in largest if sizes[index])
    sums = list(accumulate((sizes[index] for index in kept), initial=in_units(start)))[1:]
    steps = [
        WaterfallStep(number, marks[index], sizes[index], sum_after)
        for number, (index, sum_after) in enumerate(zip(kept, sums, strict=True), start=1)
    ]
    return Waterfall(
        metric, scale, decimals, in_units(start), in_units(now), tuple(steps), len(marks) - len(steps)
    )


def level_at(levels: Sequence[TrendLevel], place: int) -> float | None:
    """The level that a chart draws at a place of a history; after the last value the last one."""
    passed = [level for level in levels if level.first <= place]
    if not passed:
        return None
    level = passed[-1]
    if level.last == level.first:
        return level.value
    share = min(1.0, (place - level.first) / (level.last - level.first))
    return level.value + (level.end - level.value) * share


def build_waterfall_scene(
    waterfall: Waterfall, *, name: str, start_label: str, width: int = 860, height: int = 320
) -> Scene:
    """Draw a waterfall: the two levels as bars from below, each change from where the one before ended."""
    return _WaterfallDrawing(waterfall, start_label, width, height).build(name)


def _choose_decimals(values: Sequence[float]) -> int:
    """The decimals that give the smaller value four significant digits."""
    sizes = [abs(value) for value in values if value]
    if not sizes:
        return 0
    return min(MAX_DECIMALS, max(0, DIGITS - 1 - math.floor(math.log10(min(sizes)))))


class _WaterfallDrawing:
    """The bars of one waterfall and their axis."""

    def __init__(self, waterfall: Waterfall, start_label: str, width: int, height: int) -> None:
        self.waterfall, self.start_label = waterfall, start_label
        sums = [waterfall.start, *(step.sum_after for step in waterfall.steps), waterfall.now]
        values = [waterfall.value_of(units) for units in sums]
        self.low, high = _axis_range(min(values), max(values))
        scale = waterfall.scale
        self.ticks = [
            (value, scale.format_without_unit(value)) for value in tick_values(self.low, high, scale, 4)
        ]
        left = 14 + max((text_width_px(text) for _, text in self.ticks), default=0.0)
        self.count = len(waterfall.steps) + 3
        self.frame = SceneFrame(
            width,
            height,
            left,
            width - RIGHT_PX,
            TOP_PX,
            height - BOTTOM_PX,
            -0.5,
            self.count - 0.5,
            self.low,
            high,
        )

    def build(self, name: str) -> Scene:
        """Build the scene."""
        waterfall = self.waterfall
        return Scene(
            self.frame,
            name=name,
            place="",
            description=f"{waterfall.sentence}.",
            caption="",
            x_kind="commits",
            y_kind="auto",
            grid=tuple(value for value, _ in self.ticks),
            texts=tuple(self._texts()),
            segments=tuple(self._joints()),
            bars=tuple(self._bars()),
        )

    @property
    def _columns(self) -> list[tuple[int, int, SceneTone, bool, str]]:
        """Of each bar the sums before and after it, its tone, whether it is hollow, and what stands below."""
        waterfall = self.waterfall
        columns: list[tuple[int, int, SceneTone, bool, str]] = []
        before = waterfall.start
        for step in waterfall.steps:
            tone: SceneTone = "worse" if waterfall.is_worse(step.size) else "better"
            columns.append((before, step.sum_after, tone, step.mark.state != "confirmed", str(step.number)))
            before = step.sum_after
        return [*columns, (before, waterfall.now, "same", False, "rest")]

    def _bars(self) -> Iterator[SceneBar]:
        waterfall = self.waterfall
        start, now = waterfall.value_of(waterfall.start), waterfall.value_of(waterfall.now)
        yield self._bar(
            0, self.low, start, "muted", False, f"{self.start_label}: {waterfall.write(waterfall.start)}"
        )
        for place, (before, after, tone, hollow, label) in enumerate(self._columns, start=1):
            title = f"{label}: {waterfall.write_signed(after - before)}"
            ends = waterfall.value_of(before), waterfall.value_of(after)
            yield self._bar(place, *ends, tone, hollow, title)
        yield self._bar(
            self.count - 1, self.low, now, "muted", False, f"now: {waterfall.write(waterfall.now)}"
        )

    def _bar(self, place: int, y0: float, y1: float, tone: SceneTone, hollow: bool, title: str) -> SceneBar:
        half = BAR_SHARE / 2
        return SceneBar(place - half, place + half, min(y0, y1), max(y0, y1), tone, hollow, title)

    def _joints(self) -> Iterator[SceneSegment]:
        """Thin lines from each bar to the next, at the sum that both share."""
        waterfall = self.waterfall
        sums = [waterfall.start, *(step.sum_after for step in waterfall.steps), waterfall.now]
        for place, units in enumerate(sums):
            y, half = waterfall.value_of(units), BAR_SHARE / 2
            yield SceneSegment(place + half, y, place + 1 - half, y, riser=True)

    def _texts(self) -> Iterator[SceneText]:
        frame, waterfall = self.frame, self.waterfall
        for value, text in self.ticks:
            yield SceneText(frame.left - 6, frame.y_at(value) + 4, text, "end")
        unit = waterfall.scale.symbol or waterfall.metric.unit or waterfall.metric.name
        yield SceneText(12, 16, f"{unit} · {waterfall.metric.direction} is better")
        if self.low > 0:
            yield SceneText(
                frame.right, 16, f"y starts at {waterfall.scale.format_with_unit(self.low)}", "end"
            )
        room = (frame.right - frame.left) / self.count
        yield from self._labels(0, waterfall.start, self.start_label, waterfall.write(waterfall.start), room)
        for place, (before, after, tone, _, label) in enumerate(self._columns, start=1):
            text = waterfall.write_signed(after - before).removesuffix(f" {waterfall.scale.symbol}")
            yield from self._labels(place, max(before, after), label, text, room, tone)
        yield from self._labels(self.count - 1, waterfall.now, "now", waterfall.write(waterfall.now), room)

    def _labels(
        self, place: int, top: int, below: str, above: str, room: float, tone: SceneTone = "ink"
    ) -> Iterator[SceneText]:
        """What stands below a bar, and its size above it where there is room."""
        frame = self.frame
        x = frame.x_at(place)
        while text_width_px(below) > room and len(below) > 1:
            below = f"{below.removesuffix('…')[:-1]}…"
        yield SceneText(x, frame.bottom + 18, below, "middle")
        if text_width_px(above) <= room * 1.15:
            y = frame.y_at(self.waterfall.value_of(top)) - 6
            yield SceneText(x, y, above, "middle", tone, strong=True)


def _axis_range(low: float, high: float) -> tuple[float, float]:
    """The axis begins at zero unless all levels are close together."""
    if 0 <= low < START_AT_ZERO_BELOW * high:
        return 0.0, high * 1.08
    padding = max((high - low) * 0.35, MIN_RELATIVE_SPAN * max(abs(low), abs(high)), 1e-12)
    return (max(0.0, low - padding) if low >= 0 else low - padding), high + padding * 0.6
