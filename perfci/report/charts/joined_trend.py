"""Join the history by an earlier method of measuring with that of a series: one trend, scaled and said so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perfci.model import Commit, Point, Series
from perfci.number_format import format_count, format_number
from perfci.report.series_trend import ChangeMark, Trend, TrendLevel
from perfci.report.trend_dots import Dot
from perfci.verdicts.history.method_bridge import MethodBridge, link_methods

EARLIER_DOTS = 60
"""The newest commits of the earlier history that are drawn, so that what came after it can be seen."""


@dataclass(frozen=True, slots=True)
class EarlierHistory:
    """The history of the same thing by another harness, which ends where a series begins.

    ``joined`` has both: before the dot ``seam`` the newest levels of the earlier one, scaled where a
    ``bridge`` links the two, else as they were measured.
    """

    series: Series
    commits: int
    newest: Commit
    joined: Trend
    seam: int
    bridge: MethodBridge | None = None

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

    @property
    def breaks(self) -> Mapping[str, str]:
        """The mark of the chart at the seam, by the commit that the series begins at."""
        how = "no common scale" if self.bridge is None else f"times {format_number(self.bridge.ratio)}"
        return {self._first_own.sha: f"until here {self.series.harness}, {how}"}

    @property
    def seam_sentence(self) -> str:
        """Say who measured what of the joined trend, and that no change is looked for between the two."""
        harness = self.series.harness
        scale = "as it measured" if self.bridge is None else f"times {format_number(self.bridge.ratio)}"
        drawn = f"the last {self.seam:,} of" if self.seam < self.commits else "all"
        last = self.joined.dots[self.seam - 1].commit
        return (
            f"Left of the dashed line, up to {last.short_sha}: {drawn} the commits that {harness} measured, "
            f"{scale}. Right of it, from {self._first_own.short_sha} on: this series. No change is looked "
            "for between the two, and what moved from there on is judged by this series alone"
        )

    @property
    def _first_own(self) -> Commit:
        return self.joined.dots[self.seam].commit


def join_earlier_history(
    trend: Trend, points: Sequence[Point], earlier: Trend, earlier_points: Sequence[Point]
) -> EarlierHistory | None:
    """Join a trend with an earlier one that has older commits; None where it has none."""
    own = {dot.commit.sha for dot in trend.dots}
    measured = [dot.commit for dot in earlier.dots if dot.level is not None]
    if not measured or not trend.dots:
        return None
    first = trend.dots[0].commit
    head = [dot for dot in earlier.dots if dot.commit.sha not in own and _is_older(dot.commit, first)]
    if not head:
        return None
    bridge = link_methods(earlier_points, points)
    drawn = head[-EARLIER_DOTS:]
    joined = _join(trend, earlier, drawn, bridge.ratio if bridge else 1.0)
    return EarlierHistory(earlier.series, len(measured), measured[-1], joined, len(drawn), bridge)


def _join(trend: Trend, earlier: Trend, head: Sequence[Dot], ratio: float) -> Trend:
    count, first, last = len(head), head[0].index, head[-1].index
    index = {dot.index: position for position, dot in enumerate(head)}
    dots = [_scale_dot(dot, ratio, position) for position, dot in enumerate(head)]
    dots += [replace(dot, index=dot.index + count) for dot in trend.dots]
    levels = [
        _scale_level(level, ratio, index)
        for level in earlier.levels
        if level.last >= first and level.first <= last
    ]
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
