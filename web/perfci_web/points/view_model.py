"""The view model of one result: its value, what it differs from, its samples and its environment."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from markupsafe import Markup

from perfci.model import NamedValues, Point, Process, Series, Status
from perfci.number_format import DisplayScale, format_signed_percent
from perfci.report.charts.plot_axes import choose_trend_display_scale
from perfci.report.charts.sample_charts import render_distribution, render_sample_strips
from perfci.report.series_trend import ChangeMark, Trend, change_mark_sentence
from perfci.report.trend_dots import Dot
from perfci.report.verdict_text import status_label
from perfci.verdicts.usable_processes import disqualifying_flags

MIN_SAMPLES_OF_PERCENTILES = {50: 2, 90: 64, 99: 662}
"""Samples that a percentile needs: with fewer it would be the maximum under another name.

MLPerf LoadGen's early stopping, see ``perfci.bench.streams.request_metrics``.
"""

FIRST_ENVIRONMENT_NAMES = ("torch", "driver", "cuda", "python", "clock", "governor", "kernel")


WIDE_PX, NARROW_PX = 640, 348
"""Widths of the charts, on a phone as wide as its text, so that labels keep their size."""

NARROW_DOTS = 300
"""Samples that the strips of a phone draw: more are no more than a line there."""


@dataclass(frozen=True, slots=True)
class WideAndNarrow:
    """A chart for a screen and for a phone, of which a page shows one."""

    wide: Markup
    narrow: Markup


@dataclass(frozen=True, slots=True)
class Difference:
    """How far a value lies from another one."""

    label: str
    relative: str
    absolute: str


@dataclass(frozen=True, slots=True)
class SamplePercentile:
    """A percentile of all samples; without a text there are too few samples for it."""

    name: str
    text: str
    samples_needed: int


@dataclass(frozen=True, slots=True)
class PointView:
    """One result of a series."""

    series: Series
    dot: Dot
    point: Point
    value_text: str
    spread_text: str
    previous: Dot | None
    differences: tuple[Difference, ...]
    mark: ChangeMark | None
    mark_sentence: str
    incident_number: int | None
    scale: DisplayScale
    previous_point: Point | None

    @property
    def environment(self) -> list[tuple[str, str]]:
        """What was observed of the machine, what a reader looks for first at the top."""
        return sorted(self.point.environment.values, key=lambda pair: (_rank(pair[0]), pair[0]))

    @property
    def main_environment(self) -> list[tuple[str, str]]:
        """The few values that most often explain a step."""
        return [pair for pair in self.environment if _rank(pair[0]) < len(FIRST_ENVIRONMENT_NAMES)][:6]

    @property
    def flags(self) -> list[str]:
        """What speaks against the processes of this result."""
        return list(
            dict.fromkeys(flag for process in self.point.processes for flag in disqualifying_flags(process))
        )

    @property
    def processes(self) -> list[Process]:
        """Processes with samples, in the order they were measured."""
        return [process for process in self.point.processes if process.samples]

    @property
    def samples(self) -> list[float]:
        return samples_of(self.point)

    @property
    def strips(self) -> WideAndNarrow:
        """The samples of each process in the order they were taken."""
        processes = [process.samples for process in self.processes]
        narrow = render_sample_strips(processes, self.scale, width=NARROW_PX, max_dots=NARROW_DOTS)
        return WideAndNarrow(Markup(render_sample_strips(processes, self.scale)), Markup(narrow))

    @property
    def distribution(self) -> WideAndNarrow:
        """The distribution of the samples over that of the commit before."""
        others = samples_of(self.previous_point) if self.previous_point else []
        wide, narrow = (
            Markup(render_distribution(self.samples, others, self.scale, width=width))
            for width in (WIDE_PX, NARROW_PX)
        )
        return WideAndNarrow(wide, narrow)

    @property
    def percentiles(self) -> tuple[SamplePercentile, ...]:
        """Percentiles that the number of samples allows."""
        samples = self.samples
        cuts = quantiles(samples, n=100, method="inclusive") if len(samples) > 1 else []
        return tuple(
            SamplePercentile(
                f"p{percent}",
                self.scale.format_with_unit(cuts[percent - 1]) if len(samples) >= needed else "",
                needed,
            )
            for percent, needed in MIN_SAMPLES_OF_PERCENTILES.items()
        )

    @property
    def command(self) -> str:
        """The command that measures this commit and benchmark again."""
        return f"perfci run {self.dot.commit.sha[:10]} --bench '^{escape_regex(self.series.benchmark.name)}'"


def build_point_view(
    trend: Trend, points: Sequence[Point], sha: str, incident_numbers: Mapping[str, int]
) -> PointView | None:
    """Build the view of the result at a commit, whose sha may be short; None where there is none."""
    number = trend.find_number(sha)
    if number is None:
        return None
    dot = trend.dots[number]
    points_by_sha = {point.commit.sha: point for point in points}
    scale = choose_trend_display_scale(trend)
    previous = trend.find_measured_before(number)
    mark = next((mark for mark in trend.marks if mark.commit == dot.commit.sha), None)
    has_spread = dot.level is not None and dot.lo is not None and dot.hi is not None and dot.hi > dot.lo
    spread = (
        f"{scale.format_without_unit(dot.lo or 0)} – {scale.format_with_unit(dot.hi or 0)}"
        if has_spread
        else ""
    )
    return PointView(
        trend.series,
        dot,
        points_by_sha[dot.commit.sha],
        status_label(dot.status) if dot.level is None else scale.format_with_unit(dot.level),
        spread,
        previous,
        tuple(_differences(trend, dot, previous, mark, scale)),
        mark,
        change_mark_sentence(mark, trend.series.metric) if mark else "",
        incident_numbers.get(dot.commit.sha),
        scale,
        points_by_sha.get(previous.commit.sha) if previous else None,
    )


def _differences(
    trend: Trend, dot: Dot, previous: Dot | None, mark: ChangeMark | None, scale: DisplayScale
) -> list[Difference]:
    """How far a value lies from the commit before and from its level; at a change its size says it better."""
    if dot.level is None:
        return []
    level = next((each for each in trend.levels if each.first <= dot.index <= each.last), None)
    others = []
    if previous is not None and previous.level and (mark is None or mark.state == "refuted"):
        others.append((f"against {previous.commit.sha[:7]} before", previous.level))
    if level is not None and level.value:
        others.append(("against its level", level.value))
    return [
        Difference(
            label,
            format_signed_percent(dot.level / other - 1),
            _signed_quantity(dot.level - other, scale),
        )
        for label, other in others
    ]


def _signed_quantity(value: float, scale: DisplayScale) -> str:
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return f"{sign}{scale.format_with_unit(abs(value))}"


def samples_of(point: Point) -> list[float]:
    """All samples of the processes of a result that ended well."""
    return [value for process in point.processes if process.status is Status.OK for value in process.samples]


def serialize_point(page: PointView, origins: Sequence[NamedValues]) -> dict[str, Any]:
    """Every sample of a result, with where and how it was measured."""
    return {
        "commit": page.dot.commit.sha,
        "status": page.dot.status.value,
        "value": page.dot.level,
        "q25": page.dot.lo,
        "q75": page.dot.hi,
        "unit": page.series.metric.unit,
        "reason": page.dot.reason,
        "environment": dict(page.point.environment.values),
        "origins": [dict(origin) for origin in origins],
        "processes": [
            {
                "index": process.index,
                "status": process.status.value,
                "clock": process.clock.value,
                "round": process.round,
                "order": process.order,
                "started_at": process.started_at.isoformat() if process.started_at else None,
                "flags": list(process.flags),
                "reason": process.reason,
                "samples": list(process.samples),
            }
            for process in page.point.processes
        ],
    }


SAMPLE_COLUMNS = ("process", "round", "order", "started_at", "clock", "sample", "value", "flags")


def sample_rows(page: PointView) -> list[dict[str, Any]]:
    """One row for each sample, in the order they were taken."""
    return [
        {
            "process": process.index,
            "round": process.round,
            "order": process.order,
            "started_at": process.started_at.isoformat() if process.started_at else None,
            "clock": process.clock.value,
            "sample": number,
            "value": value,
            "flags": "; ".join(process.flags),
        }
        for process in page.point.processes
        for number, value in enumerate(process.samples)
        if math.isfinite(value)
    ]


def escape_regex(name: str) -> str:
    """A benchmark's name as a regular expression inside single quotes."""
    return "".join(character if character.isalnum() or character == "_" else "." for character in name)


def _rank(name: str) -> int:
    lower = name.lower()
    ranks = [rank for rank, part in enumerate(FIRST_ENVIRONMENT_NAMES) if part in lower]
    return ranks[0] if ranks else len(FIRST_ENVIRONMENT_NAMES)
