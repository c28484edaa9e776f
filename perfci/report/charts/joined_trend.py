"""Join the history by an earlier method of measuring with that of a series: one trend, scaled and said so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfci.model import Commit, Point, Series
from perfci.report.number_format import format_count, format_number
from perfci.report.series_trend import ChangeMark, Dot, Trend, TrendLevel
from perfci.verdicts.history.method_bridge import MethodBridge, link_methods


@dataclass(frozen=True, slots=True)
class EarlierHistory:
    """The history of the same thing by another harness, which ends where a series begins.

    ``joined`` has both where a ``bridge`` links them: before the dot ``seam`` the earlier levels, scaled.
    """

    series: Series
    commits: int
    newest: Commit
    bridge: MethodBridge | None = None
    joined: Trend | None = None
    seam: int = 0

    @property
    def sentence(self) -> str:
        """Say how the two are linked, or why they are not."""
        harness = self.series.harness
        until = f"{harness} measured {format_count(self.commits, 'commit')} until {self.newest.short_sha}"
        if self.bridge is None:
            return f"{until}. No commit was measured by both, so that nothing says how the values compare"
        interval = self.bridge.interval
        error = ", without an interval: one commit gives none"
        if interval:
            error = f" [{format_number(interval.lo)}, {format_number(interval.hi)}]"
        linked = format_count(len(self.bridge.commits), "commit")
        reads = f"this series reads {format_number(self.bridge.ratio)} times what {harness} did{error}"
        return f"{until}. Of {linked} measured by both, {reads}"


def join_earlier_history(
    trend: Trend, points: Sequence[Point], earlier: Trend, earlier_points: Sequence[Point]
) -> EarlierHistory | None:
    """Join a trend with an earlier one that has older commits; None where it has none."""
    own = {dot.commit.sha for dot in trend.dots}
    head = [dot for dot in earlier.dots if dot.commit.sha not in own]
    measured = [dot.commit for dot in earlier.dots if dot.level is not None]
    if not head or not measured or not trend.dots or not _is_older(head[0].commit, trend.dots[0].commit):
        return None
    bridge = link_methods(earlier_points, points)
    history = EarlierHistory(earlier.series, len(measured), measured[-1], bridge)
    if bridge is None:
        return history
    return replace(history, joined=_join(trend, earlier, head, bridge.ratio), seam=len(head))


def _join(trend: Trend, earlier: Trend, head: Sequence[Dot], ratio: float) -> Trend:
    count, last = len(head), head[-1].index
    index = {dot.index: position for position, dot in enumerate(head)}
    dots = [_scale_dot(dot, ratio, position) for position, dot in enumerate(head)]
    dots += [replace(dot, index=dot.index + count) for dot in trend.dots]
    levels = [_scale_level(level, ratio, index) for level in earlier.levels if level.first <= last]
    levels += [_move_level(level, count) for level in trend.levels]
    marks = [_scale_mark(mark, ratio, index) for mark in earlier.marks if mark.index in index]
    marks += [
        replace(mark, index=mark.index + count, last_good_index=mark.last_good_index + count)
        for mark in trend.marks
    ]
    return Trend(trend.series, tuple(dots), tuple(levels), tuple(marks))


def _scale_dot(dot: Dot, ratio: float, position: int) -> Dot:
    level, lo, hi = (None if value is None else value * ratio for value in (dot.level, dot.lo, dot.hi))
    return replace(dot, index=position, level=level, lo=lo, hi=hi)


def _scale_level(level: TrendLevel, ratio: float, index: dict[int, int]) -> TrendLevel:
    """Scale a level and end it at the last of the dots that are kept."""
    kept = [position for old, position in index.items() if level.first <= old <= level.last]
    first, last = (kept[0], kept[-1]) if kept else (0, 0)
    return replace(level, first=first, last=last, value=level.value * ratio, end=level.end * ratio)


def _move_level(level: TrendLevel, count: int) -> TrendLevel:
    return replace(level, first=level.first + count, last=level.last + count)


def _scale_mark(mark: ChangeMark, ratio: float, index: dict[int, int]) -> ChangeMark:
    last_good = index.get(mark.last_good_index, max(0, index[mark.index] - 1))
    change = replace(mark.change, before=mark.change.before * ratio, after=mark.change.after * ratio)
    return replace(mark, index=index[mark.index], last_good_index=last_good, change=change)


def _is_older(commit: Commit, other: Commit) -> bool:
    """Whether a commit is older, by its position on the line where both have one, else by date."""
    if commit.position is not None and other.position is not None:
        return commit.position < other.position
    if commit.committed_at is None or other.committed_at is None:
        return False
    return commit.committed_at < other.committed_at
