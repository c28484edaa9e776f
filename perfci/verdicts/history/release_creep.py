"""Creep: what got worse since a release so slowly that no commit shows it.

Segmentation sees steps; a ramp of half a percent a commit has none. So the level around each release is held against
the level now, by the statistics of any comparison, and what the steps in between explain is taken off.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfci.model import ChangePoint, Interval, Series, Verdict, VerdictKind
from perfci.stats import fdr
from perfci.stats.location_shift import Shift, side_by_side
from perfci.verdicts.compare.decision_limits import Limits
from perfci.verdicts.compare.round_candidates import Rules, plainly
from perfci.verdicts.history.step_estimate import SETTLED_POINTS, Seen
from perfci.verdicts.incidents.step_causes import cost_of

AROUND = 2
"""Points either side of a release that speak for its level: with itself five, as many as a first look at pairs has.
On a ramp those before and those after cancel."""

NEWEST = 2 * AROUND + 1
"""As many speak for the level now."""


@dataclass(frozen=True, slots=True)
class Release:
    """A tagged commit of the line."""

    tag: str
    sha: str


@dataclass(frozen=True, slots=True)
class Line:
    """What is known of one series: the points around each release and the newest, its steps, and compared pairs."""

    series: Series
    around: Mapping[Release, Sequence[Seen]]
    newest: Sequence[Seen]
    steps: Sequence[ChangePoint] = ()
    verdicts: Sequence[Verdict] = ()


@dataclass(frozen=True, slots=True)
class Creep:
    """How far a series drifted since a release beyond the steps that are known; ``total`` has them in.

    Both are ratios now/then of the raw value. ``base`` and ``head`` are the pair of commits to compare.
    """

    series: Series
    release: str
    base: str
    head: str
    drift: float
    interval: Interval | None
    total: float
    p_value: float
    paired: bool = False


def creeps(lines: Sequence[Line], place: Mapping[str, int], *, rules: Rules = plainly) -> list[Creep]:
    """Every series that got worse by its bar since a release, as seen from the newest release that shows it.

    False discoveries are controlled over all series and releases that were looked at (Benjamini & Hochberg 1995).
    """
    looked = [found for line in lines for found in _of_line(line, place, rules)]
    accepted = fdr.accepted([creep.p_value for creep, _ in looked])
    worse = [creep for (creep, bad), ok in zip(looked, accepted, strict=True) if bad and ok]
    nearest: dict[Series, Creep] = {}
    for creep in worse:
        held = nearest.get(creep.series)
        if held is None or place[creep.base] > place[held.base]:
            nearest[creep.series] = creep
    return sorted(nearest.values(), key=lambda one: (-abs(math.log(one.drift)), one.series.label, repr(one.series)))


def _of_line(line: Line, place: Mapping[str, int], rules: Rules) -> list[tuple[Creep, bool]]:
    """What each release shows, and whether it is bad enough."""
    limits = Limits.of(rules(line.series))
    now = _since(line.newest[-NEWEST:], line.steps, place)
    if len(now) < SETTLED_POINTS:
        return []
    found = []
    for release, around in line.around.items():
        steps = [step for step in line.steps if place[release.sha] < place.get(step.commit, -1)]
        explained = sum(cost_of(step) for step in steps)
        known = _compared(line, release, now[-1].sha, place)
        told = known or _measured(line, release, around, now, place, worse_by=explained + limits.bar / 2)
        if told and math.isfinite(explained):
            found.append(_creep(line, release, now[-1].sha, told, explained, limits, paired=known is not None))
    return found


def _creep(
    line: Line, release: Release, head: str, total: Shift, explained: float, limits: Limits, *, paired: bool
) -> tuple[Creep, bool]:
    drift = replace(total, centre=total.centre - explained)
    sign = 1.0 if line.series.metric.direction == "lower" else -1.0
    low, high = sorted(math.exp(sign * bound) for bound in drift.bounds())
    interval = Interval(low, high) if math.isfinite(high) else None
    ratios = math.exp(sign * drift.centre), math.exp(sign * total.centre)
    creep = Creep(
        line.series, release.tag, release.sha, head, ratios[0], interval, ratios[1], limits.p_value(drift), paired
    )
    return creep, limits.kind(drift) is VerdictKind.REGRESSION


def _measured(
    line: Line,
    release: Release,
    around: Sequence[Seen],
    now: Sequence[Seen],
    place: Mapping[str, int],
    *,
    worse_by: float,
) -> Shift | None:
    """The shift of the points now against those around the release, as costs; None with too few of either.

    What plainly did not get worse has no error either, so that ten thousand series take no longer than they must.
    """
    near = _at_one_level(around, release, line.steps, place)
    apart = not {one.sha for one in near} & {one.sha for one in now}
    if len(near) < SETTLED_POINTS or not apart or any(one.level <= 0 for one in (*near, *now)):
        return None
    sign = 1.0 if line.series.metric.direction == "lower" else -1.0
    then, today = ([one.level for one in side] for side in (near, now))
    if sign * math.log(statistics.median(today) / statistics.median(then)) < worse_by:
        return Shift(0.0, math.inf, 0.0, len(now))
    return side_by_side(sign * np.log(then), sign * np.log(today))


def _compared(line: Line, release: Release, head: str, place: Mapping[str, int]) -> Shift | None:
    """What interleaved pairs of the release and a commit as new as the newest points said, as a shift of costs."""
    for verdict in line.verdicts:
        recent = place.get(verdict.head, -1) >= place[head] - NEWEST
        if verdict.base == release.sha and recent and verdict.ratio and verdict.interval and verdict.pairs >= NEWEST:
            sign = 1.0 if line.series.metric.direction == "lower" else -1.0
            half = (math.log(verdict.interval.hi) - math.log(verdict.interval.lo)) / 2
            whole = Shift(sign * math.log(verdict.ratio), 1.0, verdict.pairs - 1.0, verdict.pairs)
            return replace(whole, error=half / whole.half_width())
    return None


def _at_one_level(
    around: Sequence[Seen], release: Release, steps: Sequence[ChangePoint], place: Mapping[str, int]
) -> list[Seen]:
    """The points nearest to the release, either side, that no step parts from it."""
    at = place[release.sha]
    edges = [place[step.commit] for step in steps if step.commit in place]
    first = max((edge for edge in edges if edge <= at), default=-1)
    end = min((edge for edge in edges if edge > at), default=len(place))
    inside = [one for one in around if first <= place.get(one.sha, -1) < end]
    before = [one for one in inside if place[one.sha] < at][-AROUND:]
    after = [one for one in inside if place[one.sha] > at][:AROUND]
    return [*before, *(one for one in inside if one.sha == release.sha), *after]


def _since(newest: Sequence[Seen], steps: Sequence[ChangePoint], place: Mapping[str, int]) -> list[Seen]:
    """The newest points since the last step."""
    last = max((place[step.commit] for step in steps if step.commit in place), default=-1)
    return [one for one in newest if place.get(one.sha, -1) >= last]
