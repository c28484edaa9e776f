"""Build the scene of a trend: what is drawn of it in a picture of a given size, and where its labels go."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, pairwise, zip_longest

import numpy as np

from perfci.number_format import format_count, format_day, format_signed_percent
from perfci.report.charts.drawn_trend import ChartContext, ChartView, DrawnTrend
from perfci.report.charts.label_placement import LabelSpace, text_width_px
from perfci.report.charts.plot_axes import (
    format_level_label,
    tick_count,
    value_axis_range,
)
from perfci.report.charts.scene import (
    Anchor,
    Scene,
    SceneFailure,
    SceneFlag,
    SceneFrame,
    SceneMark,
    SceneSegment,
    SceneText,
    SceneTone,
    SceneZone,
)
from perfci.report.escaping import make_printable
from perfci.report.page_summaries import trend_summary
from perfci.report.series_trend import ChangeMark, Trend, change_mark_sentence, keep_commits_between
from perfci.report.trend_dots import MEASURED, SKIPPED
from perfci.report.verdict_text import direction_arrow, status_label

FAILURE_SLOT_PX = 5.0
"""Failed commits that lie closer than this are one mark, so that a lane has at most some 200."""

MARK_DISTANCE_PX = 12.0
"""Changes of the environment that lie closer than this are one mark."""

INSET_PX = 14.0
X_LABEL_WIDTH_PX = 150
TOP_PX, BOTTOM_PX, ENVIRONMENT_PX = 58.0, 62.0, 18.0
FLAG_LABEL_Y = 33.0


def build_trend_scene(
    trend: Trend, view: ChartView | None = None, context: ChartContext | None = None
) -> Scene:
    """Build the scene of a trend, or of the part of it that a view asks for."""
    return build_trend_scenes(trend, [view or ChartView()], context)[0]


def build_trend_scenes(
    trend: Trend, views: Sequence[ChartView], context: ChartContext | None = None
) -> list[Scene]:
    """Build the scenes of views that differ in their size alone."""
    context = context or ChartContext()
    shown = keep_commits_between(trend, views[0].first_sha, views[0].last_sha)
    if not shown.measured_dots:
        return [_build_empty_scene(trend, view, context) for view in views]
    drawn = DrawnTrend(trend, shown, views[0], context)
    return [_TrendSceneBuilder(drawn, view).build() for view in views]


def _build_empty_scene(trend: Trend, view: ChartView, context: ChartContext) -> Scene:
    frame = SceneFrame(view.width, view.height, 40, view.width - 12, 58, view.height - 62, 0, 1, 0, 1)
    text = SceneText(view.width / 2, view.height / 2, "no commit has a measured value", "middle")
    return Scene(
        frame,
        trend.series.label,
        context.place,
        str(trend_summary(trend)),
        caption=format_count(trend.commit_count, "commit"),
        x_kind=view.x_kind,
        y_kind=view.y_kind,
        texts=(text,),
    )


class _TrendSceneBuilder:
    """Lays out one trend: axes first, then marks, then the labels that still find room."""

    def __init__(self, drawn: DrawnTrend, view: ChartView) -> None:
        self.drawn, self.view = drawn, view
        self.trend, self.context, self.dots = drawn.trend, drawn.context, drawn.dots
        self.scale, self.axis, self.values = drawn.scale, drawn.axis, drawn.values
        self._x, self._y = drawn.x, drawn.y
        self.frame = self._build_frame()
        self.labels = LabelSpace()

    def build(self) -> Scene:
        """Assemble the scene."""
        frame = self.frame
        ticks = self.values.ticks(frame.y_low, frame.y_high, tick_count(self.view.height))
        x_texts, x_ticks = self._label_commits()
        flags = tuple(self._build_flag(mark) for mark in self.trend.marks)
        environment_marks = self._merge_near_marks()
        marks = tuple(sorted((*environment_marks, *self._build_note_marks()), key=lambda mark: mark.x))
        texts = [
            *self._corner_texts(),
            *(SceneText(frame.left - 6, frame.y_at(y) + 4, text, "end") for y, text in ticks),
            *x_texts,
            *self._label_flags(flags),
            *self._label_levels(),
            *self._label_marks(marks),
        ]
        failures = tuple(self._build_failures())
        return Scene(
            frame,
            self.trend.series.label,
            self.context.place,
            self.drawn.description,
            self.drawn.caption,
            self.axis.kind,
            self.values.kind,
            grid=tuple(y for y, _ in ticks),
            x_ticks=tuple(x_ticks),
            texts=tuple(texts),
            zones=tuple(self._build_zones(environment_marks)),
            bands=self.drawn.bands,
            segments=tuple(self._build_segments()),
            dots=self.drawn.scene_dots,
            flags=flags,
            failures=failures,
            unmeasured=self._distinct_pixels(self.drawn.unmeasured),
            marks=marks,
        )

    def _build_frame(self) -> SceneFrame:
        low, high = self._value_range()
        ticks = self.values.ticks(low, high, tick_count(self.view.height))
        left = 12 + max((text_width_px(text) for _, text in ticks), default=0.0)
        right = self.view.width - 12.0
        bottom = self.view.height - BOTTOM_PX
        if self._has_environment_marks():
            bottom -= ENVIRONMENT_PX
        first, last = self._x(0), self._x(len(self.trend.dots) - 1)
        if first == last:
            x_low, x_high = first - 1, last + 1
        else:
            inset = min(INSET_PX, (right - left) / 8)
            margin = (last - first) * inset / (right - left - 2 * inset)
            x_low, x_high = first - margin, last + margin
        return SceneFrame(
            self.view.width, self.view.height, left, right, TOP_PX, bottom, x_low, x_high, low, high
        )

    def _value_range(self) -> tuple[float, float]:
        """The range of positions on the value axis."""
        low, high = value_axis_range(self.dots)
        if self.values.kind == "zero":
            return min(0.0, low), max(0.0, high)
        if self.values.kind == "log":
            values = [value for dot in self.dots for value in (dot.lo, dot.level) if value is not None]
            lowest, highest = math.log10(min(values)), math.log10(high)
            padding = max(0.04 * (highest - lowest), 0.012)
            return lowest - padding, highest + padding
        return low, high

    def _distinct_pixels(self, positions: Iterable[float]) -> tuple[float, ...]:
        """Of positions that fall on one pixel, the first."""
        by_pixel: dict[int, float] = {}
        for x in positions:
            by_pixel.setdefault(round(self.frame.x_at(x)), x)
        return tuple(by_pixel.values())

    def _corner_texts(self) -> Iterator[SceneText]:
        metric = self.trend.series.metric
        better = "lower is better ↓" if metric.direction == "lower" else "higher is better ↑"
        unit = make_printable(self.scale.symbol or metric.unit, 24)
        if self.values.kind == "ratio":
            unit = f"against {self.scale.format_with_unit(self.values.reference)}"
        yield SceneText(self.frame.left, 16, f"{unit} · {better}")
        yield SceneText(self.frame.right, 16, self._axis_start_note(), "end")

    def _axis_start_note(self) -> str:
        """Say where the value axis starts, as it may not be at zero."""
        low = self.frame.y_low
        if self.values.kind == "log":
            return f"log scale, y starts at {self.scale.format_with_unit(10**low)}"
        if self.values.kind == "ratio":
            return f"y starts at {format_signed_percent(low / self.values.reference - 1)}"
        return f"y starts at {self.scale.format_with_unit(low)}" if low > 0 else "y starts at 0"

    def _label_commits(self) -> tuple[list[SceneText], list[float]]:
        """Label commits at even distances with sha and date, always the first and the last."""
        commits = self.trend.columns.commits
        pixels = self.frame.x_at(np.array(self.drawn.positions))
        count = min(len(commits), max(2, int((self.frame.right - self.frame.left) / X_LABEL_WIDTH_PX)))
        steps = max(1, count - 1)
        wanted = [pixels[0] + (pixels[-1] - pixels[0]) * k / steps for k in range(count)]
        nearest = [int(np.argmin(np.abs(pixels - x))) for x in wanted]
        chosen = sorted({nearest[0], nearest[-1]})
        for k in nearest[1:-1]:
            if all(abs(pixels[k] - pixels[other]) > 0.8 * X_LABEL_WIDTH_PX for other in chosen):
                chosen.append(k)
        texts = []
        for k in sorted(chosen):
            x, anchor = _anchored_at_edge(float(pixels[k]), k == 0, k == len(commits) - 1 and len(chosen) > 1)
            texts.append(SceneText(x, self.frame.bottom + 36, commits[k].sha[:7], anchor))
            if moment := commits[k].committed_at:
                texts.append(SceneText(x, self.frame.bottom + 50, format_day(moment), anchor))
        return texts, [self.drawn.positions[k] for k in sorted(chosen)]

    def _build_segments(self) -> Iterator[SceneSegment]:
        """Levels as lines that step half way between the last good and the changed commit."""
        for level in self.trend.levels:
            left, right = self._level_ends(level.first, level.last)
            yield SceneSegment(left, self._y(level.value), right, self._y(level.end))
        for before, after in pairwise(self.trend.levels):
            if after.first in self.drawn.break_places:
                continue
            x, _ = self._level_ends(after.first, after.last)
            yield SceneSegment(x, self._y(before.end), x, self._y(after.value), riser=True)

    def _level_ends(self, first: int, last: int) -> tuple[float, float]:
        margin = (self._x(0) - self.frame.x_low) * 0.55
        left = self._x(first - 0.5) if first else self._x(0) - margin
        is_newest = last == len(self.trend.dots) - 1
        return left, self._x(last) + margin if is_newest else self._x(last + 0.5)

    def _build_zones(self, marks: Sequence[SceneMark]) -> Iterator[SceneZone]:
        edges = [
            self.frame.x_low,
            *(mark.x for mark in marks if mark.kind == "environment"),
            self.frame.x_high,
        ]
        for k, (x0, x1) in enumerate(pairwise(edges)):
            if k % 2:  # every other environment is tinted
                yield SceneZone("environment", x0, x1)
        if self.context.smallest_step:
            yield from self._blind_zones(self.context.smallest_step)
        for mark in self.trend.marks:
            if mark.state != "refuted" and mark.index - mark.last_good_index > 1:
                x0, x1 = self._x(mark.last_good_index), self._x(mark.index)
                yield SceneZone("candidates", x0, x1, tone=_tone_of_mark(mark, self.context.smallest_step))

    def _blind_zones(self, smallest_step: float) -> Iterator[SceneZone]:
        """Around each level the values that a step could reach without showing; before a break another
        harness has another noise."""
        begin = max(self.drawn.break_places, default=0)
        for level in (level for level in self.trend.levels if level.first >= begin):
            left, right = self._level_ends(level.first, level.last)
            low, high = sorted((level.value / (1 + smallest_step), level.value * (1 + smallest_step)))
            bottom = max(self.frame.y_low, self._y(low))
            top = min(self.frame.y_high, self._y(high))
            if bottom < top:
                yield SceneZone("blind", left, right, bottom, top)

    def _build_flag(self, mark: ChangeMark) -> SceneFlag:
        dot = next((dot for dot in self.dots if dot.index == mark.index), None)
        sentence = change_mark_sentence(mark, self.trend.series.metric)
        number = self.context.incident_numbers.get(mark.commit)
        incident = f", #{number}" if number else ""
        arrow = direction_arrow(mark.ratio > 1, solid=mark.state == "confirmed")
        return SceneFlag(
            self._x(mark.index),
            self._x(mark.last_good_index),
            mark.ratio > 1,
            _tone_of_mark(mark, self.context.smallest_step),
            mark.state,
            mark.commit,
            f"{arrow} {mark.commit[:10]} {sentence}{incident}",
            self._y(dot.level) if dot is not None and dot.level is not None else None,
        )

    def _label_flags(self, flags: Sequence[SceneFlag]) -> Iterator[SceneText]:
        """Write the sizes above the flags, the largest first, as far as they find room."""
        pairs = [
            (flag, mark)
            for flag, mark in zip(flags, self.trend.marks, strict=True)
            if mark.state != "refuted"
        ]
        for flag, mark in sorted(pairs, key=lambda pair: -abs(math.log(max(pair[1].ratio, 1e-9)))):
            number = self.context.incident_numbers.get(mark.commit)
            size = format_signed_percent(mark.ratio - 1)
            for text in [f"{size} #{number}", size] if number else [size]:
                half_width = text_width_px(text) / 2
                x = min(
                    max(self.frame.x_at(flag.x), self.frame.left + half_width), self.frame.right - half_width
                )
                label = SceneText(x, FLAG_LABEL_Y, text, "middle", flag.tone, strong=True)
                if self.labels.take(label):
                    yield label
                    break

    def _label_levels(self) -> Iterator[SceneText]:
        """Write each level's value on its line where there is room, that of the last level first."""
        levels = self.trend.levels
        for level in reversed(levels):
            left, right = map(self.frame.x_at, self._level_ends(level.first, level.last))
            text = format_level_label(level, self.scale)
            width = text_width_px(text) + 6
            is_last = level is levels[-1]
            if not text or (not is_last and right - left < width):
                continue
            x0 = max(self.frame.left, right - width) if is_last else left
            anchor: Anchor = "end" if is_last else "start"
            for y in self._free_heights(x0, x0 + width, level.end if is_last else level.value):
                label = SceneText(x0 + width if is_last else x0 + 3, y, text, anchor, "ink", strong=True)
                if self.labels.take(label):
                    yield label
                    break

    def _free_heights(self, left: float, right: float, value: float) -> list[float]:
        """Baselines above and below everything that is drawn between two x, inside the plot."""
        near = [dot for dot in self.dots if left - 4 <= self.frame.x_at(self._x(dot.index)) <= right + 4]
        tops = [value, *(dot.hi or value for dot in near), *(dot.level or value for dot in near)]
        lows = [value, *(dot.lo or value for dot in near)]
        above = self.frame.y_at(self._y(max(tops))) - 7
        below = self.frame.y_at(self._y(min(lows))) + 16
        heights = [above, below, above - 15, below + 15]
        inside = [y for y in heights if self.frame.top + 4 <= y <= self.frame.bottom - 4]
        return inside or [min(self.frame.bottom - 4, max(self.frame.top + 12, above))]

    def _has_environment_marks(self) -> bool:
        if any(sha in self.axis.positions for sha in self.context.notes):
            return True
        marked = {*self.context.environment_changes, *self.context.breaks}
        later = islice(self.trend.columns.commits, 1, None)
        return bool(marked) and any(commit.sha in marked for commit in later)

    def _merge_near_marks(self) -> tuple[SceneMark, ...]:
        """Changes of the environment and breaks, several as one where they lie close together."""
        if not self._has_environment_marks():
            return ()
        marks: list[SceneMark] = []
        counts: dict[int, int] = defaultdict(int)
        for number, commit in islice(enumerate(self.trend.columns.commits), 1, None):
            text = self.context.breaks.get(commit.sha)
            kind = "break" if text else "environment"
            text = text or self.context.environment_changes.get(commit.sha)
            if not text:
                continue
            x = self._x(number - 0.5)
            is_near = marks and self.frame.x_at(x) - self.frame.x_at(marks[-1].x) < MARK_DISTANCE_PX
            if is_near and kind == "environment":
                counts[len(marks) - 1] += 1
            else:
                marks.append(SceneMark(x, make_printable(text, 90), kind))  # type: ignore[arg-type]
        return tuple(
            replace(mark, text=f"{mark.text} (+{counts[k]} more)") if counts[k] else mark
            for k, mark in enumerate(marks)
        )

    def _build_note_marks(self) -> Iterator[SceneMark]:
        """Notes at the commits of the view, measured or not."""
        for sha, text in self.context.notes.items():
            if sha in self.axis.positions:
                yield SceneMark(self.axis.positions[sha], make_printable(f"✎ {text}", 90), "note")

    def _label_marks(self, marks: Sequence[SceneMark]) -> Iterator[SceneText]:
        """Write what changed below the dates, cut to the room until the next mark; the first mark has its
        text on the other side where that has more room."""
        y = self.frame.bottom + 50 + ENVIRONMENT_PX
        for mark, following in zip_longest(marks, marks[1:]):
            x = self.frame.x_at(mark.x)
            end = self.frame.x_at(following.x) - 8 if following else self.frame.right
            room, room_before = self._count_characters(x, end), self._count_characters(self.frame.left, x)
            if mark is marks[0] and room < min(len(mark.text), room_before):
                yield SceneText(x, y, make_printable(mark.text, room_before), "end")
            elif room >= 6:
                yield SceneText(x, y, make_printable(mark.text, room))

    def _count_characters(self, begin_px: float, end_px: float) -> int:
        return max(0, int((end_px - begin_px) / text_width_px("x")))

    def _build_failures(self) -> Iterator[SceneFailure]:
        """Commits without a value, as one mark where they fall into one slot of the lane."""
        slots: dict[tuple[int, bool], list[int]] = defaultdict(list)
        kinds = self.trend.columns.kinds
        for number in np.flatnonzero(kinds != MEASURED).tolist():
            slot = round(self.frame.x_at(self._x(number)) / FAILURE_SLOT_PX)
            slots[slot, bool(kinds[number] == SKIPPED)].append(number)
        for (_, is_skipped), numbers in slots.items():
            newest, total = self.trend.dots[numbers[-1]], len(numbers)
            note = make_printable(newest.reason or newest.commit.subject, 90)
            count = f"{total} commits, the last of them " if total > 1 else ""
            title = f"{status_label(newest.status)} · {count}{newest.commit.sha[:10]} {note}"
            x = self._x(numbers[total // 2])
            yield SceneFailure(x, newest.commit.sha, total, is_skipped, title)


def _tone_of_mark(mark: ChangeMark, smallest_step: float | None) -> SceneTone:
    """Worse or better; a change that noise could hide has no colour."""
    if mark.state == "refuted":
        return "muted"
    if (
        mark.state == "candidate"
        and smallest_step
        and abs(math.log(max(mark.ratio, 1e-9))) < math.log1p(smallest_step)
    ):
        return "same"
    return "worse" if mark.kind.value == "regression" else "better"


def _anchored_at_edge(x: float, is_first: bool, is_last: bool) -> tuple[float, Anchor]:
    """Keep the first and the last label inside the picture."""
    if is_first:
        return x - 6, "start"
    return (x + 6, "end") if is_last else (x, "middle")
