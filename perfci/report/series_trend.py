"""Build the trend of a series that charts, pages, JSON and sentences share: dots, levels and change marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from perfci.model import (
    ChangePoint,
    Commit,
    InvalidMark,
    Metric,
    Point,
    Series,
    Stage,
    Status,
    TailVerdict,
    Verdict,
    VerdictKind,
)
from perfci.report.trend_dots import (
    FAILED,
    MEASURED,
    Dot,
    DotColumns,
    Places,
    clip_dots,
    merge_dots,
    merge_neighbours,
    take_dots,
)
from perfci.report.verdict_text import CHANGE_KINDS, change_size_phrase, classify_change
from perfci.verdicts.process_levels import displayed_point_level, displayed_point_spread
from perfci.verdicts.usable_processes import disqualifying_flags, select_displayed_processes

MarkState = Literal["confirmed", "candidate", "refuted"]
"""The state of a change mark: confirmed on new pairs, a candidate, or refuted by new pairs."""


@dataclass(frozen=True, slots=True)
class TrendLevel:
    """The level between two marks, drawn from ``value`` at the dot ``first`` to ``end`` at the dot ``last``.

    ``value`` is the level after the change that begins it, ``end`` the one before the change that ends it.
    ``is_labelled`` says that both may be written beside the size of the latter: a size measured on pairs has
    levels of its own.
    """

    first: int
    last: int
    value: float
    end: float
    is_labelled: bool = True


@dataclass(frozen=True, slots=True)
class ChangeMark:
    """A change as the chart of its series marks it; ``verdict`` is what pairs said of it, if any.

    ``on_pairs`` says that levels and size are those of the verdict, not those of the history.
    """

    index: int
    last_good_index: int
    change: ChangePoint
    kind: VerdictKind
    state: MarkState
    verdict: Verdict | None = None
    on_pairs: bool = False

    @property
    def commit(self) -> str:
        """The first commit of the new level."""
        return self.change.commit

    @property
    def last_good(self) -> str:
        """The commit before the change."""
        return self.change.last_good

    @property
    def ratio(self) -> float:
        """The level after the change over that before it."""
        return 1 + self.change.relative_change

    @property
    def tail(self) -> TailVerdict | None:
        """What the tail of the samples did in the pairs that the size was measured on."""
        return self.verdict.tail if self.on_pairs and self.verdict else None


@dataclass(frozen=True)
class Trend:
    """One series over its commits, in commit order."""

    series: Series
    dots: Sequence[Dot]
    levels: tuple[TrendLevel, ...]
    marks: tuple[ChangeMark, ...]

    @cached_property
    def columns(self) -> DotColumns:
        """What charts compute with of the dots."""
        return DotColumns.read(self.dots)

    @cached_property
    def measured_dots(self) -> Sequence[Dot]:
        """The dots that have a level."""
        return take_dots(self.dots, self._measured_numbers)

    @cached_property
    def _measured_numbers(self) -> Places:
        return np.flatnonzero(self.columns.kinds == MEASURED)

    @property
    def measured_levels(self) -> NDArray[np.float64]:
        """The levels of the dots that have one."""
        return self.columns.levels[self._measured_numbers]

    @property
    def failed_dots(self) -> Sequence[Dot]:
        """The dots without a level, except skipped ones."""
        return take_dots(self.dots, np.flatnonzero(self.columns.kinds == FAILED))

    @property
    def failed_commit_count(self) -> int:
        """The number of commits without a level, except skipped ones."""
        return int(self.columns.merged[self.columns.kinds == FAILED].sum())

    @property
    def dots_since_last_value(self) -> Sequence[Dot]:
        """The failed dots after the newest measured one: where there are any, the benchmark is broken."""
        measured, failed = self._measured_numbers, np.flatnonzero(self.columns.kinds == FAILED)
        newest = measured[-1] if len(measured) else -1
        return take_dots(self.dots, failed[failed > newest])

    @property
    def commit_count(self) -> int:
        """The number of commits, those of merged dots included."""
        return int(self.columns.merged.sum())

    @property
    def newest_measured_level(self) -> float | None:
        """The newest measured level."""
        levels = self.measured_levels
        return float(levels[-1]) if len(levels) else None

    def find_measured_before(self, number: int) -> Dot | None:
        """The last dot with a level before that of a number."""
        place = int(np.searchsorted(self._measured_numbers, number))
        return self.dots[int(self._measured_numbers[place - 1])] if place else None

    def find_number(self, sha: str) -> int | None:
        """The number of the dot of a commit, whose sha may be short."""
        commits = enumerate(self.columns.commits)
        return next((number for number, commit in commits if sha and commit.sha.startswith(sha)), None)

    def find_commit(self, index: int) -> Commit | None:
        """The commit at a place of the history; None where no dot is drawn there."""
        number = int(np.searchsorted(self.columns.indexes, index))
        has_place = number < len(self.columns) and self.columns.indexes[number] == index
        return self.columns.commits[number] if has_place else None

    @property
    def current_level(self) -> float | None:
        """The level after the last change; of a series that is not judged, the newest value."""
        return self.levels[-1].value if self.levels else self.newest_measured_level

    def confirmed_marks(self) -> tuple[ChangeMark, ...]:
        """List the confirmed changes in commit order."""
        return tuple(mark for mark in self.marks if mark.state == "confirmed")


def build_trend(
    series: Series,
    points: Sequence[Point],
    change_points: Iterable[ChangePoint] = (),
    verdicts: Iterable[Verdict] = (),
) -> Trend:
    """Build a trend from the points, change points and verdicts (newest first) of a series."""
    return build_trend_from_dots(series, build_dots(points), change_points, verdicts)


def build_trend_from_dots(
    series: Series, dots: tuple[Dot, ...], change_points: Iterable[ChangePoint], verdicts: Iterable[Verdict]
) -> Trend:
    """Build a trend from dots that are already aggregated."""
    index_by_sha = {dot.commit.sha: dot.index for dot in dots}
    marks = build_marks(series, index_by_sha, change_points, verdicts)
    return Trend(series, dots, build_levels(DotColumns.read(dots).levels, marks), marks)


def build_dots(points: Iterable[Point]) -> tuple[Dot, ...]:
    """Build one dot per point."""
    return tuple(_build_dot(index, point) for index, point in enumerate(points))


def clip_levels(levels: Iterable[TrendLevel], start: int, end: int) -> tuple[TrendLevel, ...]:
    """The levels between two places of a history, re-indexed from the first."""
    return tuple(
        replace(level, first=max(start, level.first) - start, last=min(end - 1, level.last) - start)
        for level in levels
        if level.last >= start and level.first < end
    )


def clip_marks(marks: Iterable[ChangeMark], start: int, end: int) -> tuple[ChangeMark, ...]:
    """The marks between two places of a history, re-indexed from the first."""
    return tuple(
        replace(mark, index=mark.index - start, last_good_index=max(0, mark.last_good_index - start))
        for mark in marks
        if start <= mark.index < end
    )


def keep_commits_between(trend: Trend, first_sha: str, last_sha: str) -> Trend:
    """Keep the commits from one to another, both included; a sha that is not among them sets no limit.

    A sha may be short.
    """
    if not first_sha and not last_sha:
        return trend
    start, end = 0, len(trend.dots)
    for number, commit in enumerate(trend.columns.commits):
        if first_sha and commit.sha.startswith(first_sha):
            start = number
        if last_sha and commit.sha.startswith(last_sha):
            end = number + 1
    if start >= end:
        return trend
    levels, marks = clip_levels(trend.levels, start, end), clip_marks(trend.marks, start, end)
    return Trend(trend.series, clip_dots(trend.dots, start, end), levels, marks)


def downsample_trend(trend: Trend, max_dots: int) -> Trend:
    """Merge neighbouring commits until about ``max_dots`` dots are left.

    A merged dot is the median of its commits with the full spread around it; commits that failed are merged
    with each other alone. Both sides of a mark, the first and the last commit are never merged, so that these
    are drawn at their exact position.
    """
    if len(trend.dots) <= max_dots:
        return trend
    return replace(trend, dots=merge_dots(trend.dots, group_neighbours(trend, max_dots)))


def group_neighbours(trend: Trend, max_dots: int, unmerged_shas: Iterable[str] = ()) -> list[Places]:
    """Group the numbers of neighbouring commits that are drawn as one dot, see ``downsample_trend``."""
    columns, shas = trend.columns, set(unmerged_shas) - {""}
    unmerged: set[int] = set()
    if len(columns) > max_dots:
        marked = [index for mark in trend.marks for index in (mark.index, mark.last_good_index)]
        unmerged = {0, len(columns) - 1, *np.flatnonzero(np.isin(columns.indexes, marked)).tolist()}
        if shas:
            unmerged |= {number for number, commit in enumerate(columns.commits) if commit.sha in shas}
    return merge_neighbours(columns.kinds, unmerged, max_dots)


def list_unmerged_places(count: int, marks: Iterable[ChangeMark]) -> set[int]:
    """The places of a history of ``count`` commits that stand alone in every chart."""
    return {0, count - 1, *(place for mark in marks for place in (mark.index, mark.last_good_index))}


def _build_dot(index: int, point: Point) -> Dot:
    dot = _build_measured_dot(index, point)
    if point.invalid is None:
        return dot
    return replace(dot, invalid=True, reason=invalid_mark_sentence(point.invalid))


def invalid_mark_sentence(mark: InvalidMark) -> str:
    """Say that something is marked invalid, by whom and why."""
    return f"marked invalid by {mark.marked_by}: {mark.reason}"


def _build_measured_dot(index: int, point: Point) -> Dot:
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
    lo, hi = displayed_point_spread(point, level)
    return Dot(index, point.commit, Status.OK, level, lo, hi, len(point.processes), reason)


def build_marks(
    series: Series,
    index_by_sha: Mapping[str, int],
    change_points: Iterable[ChangePoint],
    verdicts: Iterable[Verdict],
) -> tuple[ChangeMark, ...]:
    """Mark what incidents show: a change confirmed on pairs, else one of the history, else a candidate of
    pairs alone.

    ``index_by_sha`` is the place of each commit in the history; only those of decisions are needed.
    """
    decisive = _decisive_verdicts(verdicts, index_by_sha)
    marks = {
        sha: _mark_from_verdict(verdict, index_by_sha)
        for sha, verdict in decisive.items()
        if verdict.kind in CHANGE_KINDS
    }
    confirmed = [mark for mark in marks.values() if mark.state == "confirmed"]
    for change in change_points:
        if change.commit in index_by_sha:
            mark = _mark_from_change(series, change, decisive.get(change.commit), index_by_sha)
            if not any(
                mark.last_good_index <= other.last_good_index < other.index <= mark.index
                for other in confirmed
            ):
                marks[change.commit] = mark
    return tuple(sorted(marks.values(), key=lambda mark: mark.index))


def _decisive_verdicts(verdicts: Iterable[Verdict], index_by_sha: Mapping[str, int]) -> dict[str, Verdict]:
    """Choose the verdict of each commit: confirmation outranks screening, then the newest wins, which comes
    first, as in incidents."""
    verdict_by_commit: dict[str, Verdict] = {}
    for verdict in verdicts:
        base, head = index_by_sha.get(verdict.base), index_by_sha.get(verdict.head)
        if base is None or head is None or base >= head:
            continue  # not a commit of this history against an earlier one of it
        previous = verdict_by_commit.get(verdict.head)
        outranks = previous is not None and previous.stage is Stage.SCREENING
        if previous is None or (outranks and verdict.stage is Stage.CONFIRMATION):
            verdict_by_commit[verdict.head] = verdict
    return verdict_by_commit


def _mark_from_verdict(verdict: Verdict, index_by_sha: Mapping[str, int]) -> ChangeMark:
    head, base = index_by_sha[verdict.head], index_by_sha[verdict.base]
    state: MarkState = "confirmed" if verdict.stage is Stage.CONFIRMATION else "candidate"
    return ChangeMark(head, base, verdict.as_change_point, verdict.kind, state, verdict, on_pairs=True)


def _mark_from_change(
    series: Series, change: ChangePoint, verdict: Verdict | None, index_by_sha: Mapping[str, int]
) -> ChangeMark:
    index = index_by_sha[change.commit]
    kind = classify_change(1 + change.relative_change, series.metric.direction)
    refuted = (
        verdict is not None and verdict.stage is Stage.CONFIRMATION and verdict.kind is VerdictKind.UNCHANGED
    )
    last_good = index_by_sha.get(change.last_good, max(0, index - 1))
    return ChangeMark(index, last_good, change, kind, "refuted" if refuted else "candidate", verdict)


def build_levels(values: NDArray[np.float64], marks: Sequence[ChangeMark]) -> tuple[TrendLevel, ...]:
    """Compute one level between each two marks from the levels of all commits, NaN where there is none;
    refuted marks do not split levels."""
    marks_by_index = {mark.index: mark for mark in marks if mark.state != "refuted"}
    levels = []
    measured = np.flatnonzero(~np.isnan(values))
    edges = sorted({0, *marks_by_index, len(values)})
    for (first, end), (start, stop) in zip(
        pairwise(edges), pairwise(np.searchsorted(measured, edges).tolist()), strict=True
    ):
        if start < stop:
            begun_by, ended_by = marks_by_index.get(first), marks_by_index.get(end)
            # A benchmark that is broken has no level any more.
            last = end - 1 if ended_by else int(measured[stop - 1])
            levels.append(_build_level(first, last, values[measured[start:stop]], begun_by, ended_by))
    return tuple(levels)


def median_of(values: NDArray[np.float64]) -> float:
    """The median of at least one value; numpy's own takes ten times as long for a few hundred."""
    upper = len(values) // 2
    lower = (len(values) - 1) // 2
    parted = np.partition(values, (lower, upper))
    return float((parted[lower] + parted[upper]) / 2)


def _build_level(
    first: int,
    last: int,
    values: NDArray[np.float64],
    begun_by: ChangeMark | None,
    ended_by: ChangeMark | None,
) -> TrendLevel:
    """The level of these values, as the changes of the history beside it have it; else their median."""
    start = end = None
    if begun_by is not None and not begun_by.on_pairs:
        start = begun_by.change.after
    if ended_by is not None and not ended_by.on_pairs:
        end = ended_by.change.before
    if start is None:
        start = median_of(values) if end is None else end
    is_labelled = ended_by is None or not ended_by.on_pairs
    return TrendLevel(first, last, start, start if end is None else end, is_labelled)


def change_mark_sentence(mark: ChangeMark, metric: Metric) -> str:
    """Describe one change point, with the interval of its size."""
    states = {
        "confirmed": "confirmed on new pairs",
        "candidate": "candidate",
        "refuted": "checked, not confirmed",
    }
    return f"{change_size_phrase(mark.change, metric)}, {states[mark.state]}"
