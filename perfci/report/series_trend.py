"""Build the trend of a series that charts, pages, JSON and sentences share: dots, levels and change marks."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

from perfci.model import ChangePoint, Commit, Metric, Point, Series, Stage, Status, Verdict, VerdictKind
from perfci.report.verdict_text import CHANGE_KINDS, classify_change, level_change_phrase
from perfci.verdicts.process_levels import (
    displayed_point_level,
    disqualifying_flags,
    process_level,
    select_displayed_processes,
)

MarkState = Literal["confirmed", "candidate", "refuted"]
"""The state of a change mark: confirmed on new pairs, a candidate, or refuted by new pairs."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One commit, or several merged neighbours: the level and the interquartile range of its processes."""

    index: int
    commit: Commit
    status: Status
    level: float | None = None
    lo: float | None = None
    hi: float | None = None
    processes: int = 0
    reason: str = ""
    merged: int = 1


@dataclass(frozen=True, slots=True)
class TrendLevel:
    """The level between two marks: the median of the dots from ``first`` to ``last``."""

    first: int
    last: int
    value: float


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """A commit where the level changed, with its state; ``last_good`` is the commit before the change."""

    index: int
    last_good_index: int
    commit: str
    last_good: str
    ratio: float
    kind: VerdictKind
    state: MarkState
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Trend:
    """One series over its commits, in commit order."""

    series: Series
    dots: tuple[Dot, ...]
    levels: tuple[TrendLevel, ...]
    marks: tuple[ChangeMark, ...]

    @property
    def measured_dots(self) -> tuple[Dot, ...]:
        """The dots that have a level."""
        return tuple(dot for dot in self.dots if dot.level is not None)

    @property
    def failed_dots(self) -> tuple[Dot, ...]:
        """The dots without a level, except skipped ones."""
        return tuple(dot for dot in self.dots if dot.level is None and dot.status is not Status.SKIPPED)

    @property
    def commit_count(self) -> int:
        """The number of commits, those of merged dots included."""
        return sum(dot.merged for dot in self.dots)

    @property
    def last_level(self) -> float | None:
        """The newest measured level."""
        return self.measured_dots[-1].level if self.measured_dots else None

    def confirmed_marks(self) -> tuple[ChangeMark, ...]:
        """List the confirmed changes in commit order."""
        return tuple(mark for mark in self.marks if mark.state == "confirmed")


def build_trend(
    series: Series,
    points: Sequence[Point],
    change_points: Iterable[ChangePoint] = (),
    verdicts: Iterable[Verdict] = (),
) -> Trend:
    """Build a trend from the points, change points and verdicts of a series."""
    return build_trend_from_dots(series, build_dots(points), change_points, verdicts)


def build_trend_from_dots(
    series: Series, dots: tuple[Dot, ...], change_points: Iterable[ChangePoint], verdicts: Iterable[Verdict]
) -> Trend:
    """Build a trend from dots that are already aggregated."""
    marks = _build_marks(series, dots, change_points, verdicts)
    return Trend(series, dots, _build_levels(dots, marks), marks)


def build_dots(points: Iterable[Point]) -> tuple[Dot, ...]:
    """Build one dot per point."""
    return tuple(_build_dot(index, point) for index, point in enumerate(points))


def build_dot_from_level(index: int, commit: Commit, status: Status, level: float | None) -> Dot:
    """Build a dot from a level alone; status OK without a level counts as failed."""
    if status is not Status.OK or level is None:
        return Dot(index, commit, Status.FAILED if status is Status.OK else status)
    return Dot(index, commit, status, level, level, level)


def hide_levels_of_informational_trend(trend: Trend) -> Trend:
    """Remove the level line of a trend without marks.

    An informational series is not searched for changes, so one level over all of it would mislead.
    """
    return trend if trend.marks else replace(trend, levels=())


def keep_last_commits(trend: Trend, count: int) -> Trend:
    """Keep the last ``count`` commits and re-index them from zero; levels keep their values."""
    offset = max(0, len(trend.dots) - count)
    dots = tuple(replace(dot, index=dot.index - offset) for dot in trend.dots[offset:])
    levels = tuple(
        replace(level, first=max(0, level.first - offset), last=level.last - offset)
        for level in trend.levels
        if level.last >= offset
    )
    marks = tuple(
        replace(mark, index=mark.index - offset, last_good_index=max(0, mark.last_good_index - offset))
        for mark in trend.marks
        if mark.index >= offset
    )
    return Trend(trend.series, dots, levels, marks)


def downsample_trend(trend: Trend, max_dots: int) -> Trend:
    """Merge neighbouring commits until about ``max_dots`` dots are left.

    A merged dot is the median of its commits with the full spread around it. Failed commits, both sides
    of a mark, the first and the last commit are never merged, so that these are drawn at their exact
    position.
    """
    if len(trend.dots) <= max_dots:
        return trend
    max_merged = math.ceil(len(trend.dots) / max_dots)
    unmerged = {0, len(trend.dots) - 1}
    for mark in trend.marks:
        unmerged |= {mark.index, mark.last_good_index}
    groups: list[list[Dot]] = []
    previous_mergeable = False
    for dot in trend.dots:
        mergeable = dot.index not in unmerged and dot.level is not None
        if mergeable and previous_mergeable and len(groups[-1]) < max_merged:
            groups[-1].append(dot)
        else:
            groups.append([dot])
        previous_mergeable = mergeable
    return replace(trend, dots=tuple(_merge_dots(group) for group in groups))


def _build_dot(index: int, point: Point) -> Dot:
    level = displayed_point_level(point) if point.status is Status.OK else None
    if level is None:
        status = Status.FAILED if point.status is Status.OK else point.status
        return Dot(index, point.commit, status, processes=len(point.processes), reason=point.reason)
    displayed = select_displayed_processes(point.processes)
    reason = point.reason
    # A level is shown even where no process of it may be judged, with the flags that say why.
    flags = dict.fromkeys(flag for process in displayed for flag in disqualifying_flags(process))
    if flags and not reason:
        reason = f"not judged: {'; '.join(flags)}"
    lo, hi = _spread(point, level)
    return Dot(index, point.commit, Status.OK, level, lo, hi, len(point.processes), reason)


def _spread(point: Point, level: float) -> tuple[float, float]:
    """Return the interquartile range of the processes; of an imported summary its quartiles or interval."""
    levels = [process_level(process) for process in select_displayed_processes(point.processes)]
    if len(levels) >= 2:
        quartiles = statistics.quantiles(levels, n=4, method="inclusive")
        return min(quartiles[0], level), max(quartiles[2], level)
    if point.summary and not levels:
        lo = point.summary.q25 if point.summary.q25 is not None else point.summary.ci_lo
        hi = point.summary.q75 if point.summary.q75 is not None else point.summary.ci_hi
        return (level if lo is None else min(lo, level)), (level if hi is None else max(hi, level))
    return level, level


def _build_marks(
    series: Series, dots: Sequence[Dot], change_points: Iterable[ChangePoint], verdicts: Iterable[Verdict]
) -> tuple[ChangeMark, ...]:
    index_by_sha = {dot.commit.sha: dot.index for dot in dots}
    decisive = _decisive_verdicts(verdicts, index_by_sha)
    marks = {}
    for sha, verdict in decisive.items():
        if verdict.kind in CHANGE_KINDS:
            state: MarkState = "confirmed" if verdict.stage is Stage.CONFIRMATION else "candidate"
            head, base = index_by_sha[verdict.head], index_by_sha[verdict.base]
            ratio = 1.0 if verdict.ratio is None else verdict.ratio
            marks[sha] = ChangeMark(
                head, base, verdict.head, verdict.base, ratio, verdict.kind, state, verdict
            )
    for change in change_points:
        if change.commit in index_by_sha and change.commit not in marks:
            verdict_there = decisive.get(change.commit)
            marks[change.commit] = _mark_from_change(series, change, verdict_there, index_by_sha)
    return tuple(sorted(marks.values(), key=lambda mark: mark.index))


def _decisive_verdicts(verdicts: Iterable[Verdict], index_by_sha: dict[str, int]) -> dict[str, Verdict]:
    """Choose the verdict of each commit: confirmation outranks screening, then the last one wins."""
    verdict_by_commit: dict[str, Verdict] = {}
    for verdict in verdicts:
        base, head = index_by_sha.get(verdict.base), index_by_sha.get(verdict.head)
        if base is None or head is None or base >= head:
            continue  # not a commit of this history against an earlier one of it
        previous = verdict_by_commit.get(verdict.head)
        if previous is None or verdict.stage is Stage.CONFIRMATION or previous.stage is Stage.SCREENING:
            verdict_by_commit[verdict.head] = verdict
    return verdict_by_commit


def _mark_from_change(
    series: Series, change: ChangePoint, verdict: Verdict | None, index_by_sha: dict[str, int]
) -> ChangeMark:
    index = index_by_sha[change.commit]
    kind = classify_change(1 + change.relative_change, series.metric.direction)
    refuted = (
        verdict is not None and verdict.stage is Stage.CONFIRMATION and verdict.kind is VerdictKind.UNCHANGED
    )
    last_good = index_by_sha.get(change.last_good, max(0, index - 1))
    state: MarkState = "refuted" if refuted else "candidate"
    return ChangeMark(
        index, last_good, change.commit, change.last_good, 1 + change.relative_change, kind, state, verdict
    )


def _build_levels(dots: Sequence[Dot], marks: Sequence[ChangeMark]) -> tuple[TrendLevel, ...]:
    """Compute one level between each two marks; refuted marks do not split levels."""
    starts = sorted({0, *(mark.index for mark in marks if mark.state != "refuted"), len(dots)})
    levels = []
    for first, end in pairwise(starts):
        values = [dot.level for dot in dots[first:end] if dot.level is not None]
        if values:
            levels.append(TrendLevel(first, end - 1, statistics.median(values)))
    return tuple(levels)


def _merge_dots(group: Sequence[Dot]) -> Dot:
    if len(group) == 1:
        return group[0]
    middle = group[len(group) // 2]
    levels = [dot.level for dot in group if dot.level is not None]
    lows = [dot.lo for dot in group if dot.lo is not None]
    highs = [dot.hi for dot in group if dot.hi is not None]
    return replace(
        middle,
        level=statistics.median(levels),
        lo=min(lows),
        hi=max(highs),
        processes=sum(dot.processes for dot in group),
        merged=len(group),
    )


def change_mark_sentence(mark: ChangeMark, metric: Metric) -> str:
    """Describe one change point."""
    states = {
        "confirmed": "confirmed on new pairs",
        "candidate": "candidate",
        "refuted": "checked, not confirmed",
    }
    return f"{level_change_phrase(mark.ratio, metric)}, {states[mark.state]}"
