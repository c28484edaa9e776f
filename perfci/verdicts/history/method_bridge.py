"""Link two methods of measuring one thing by the commits that both measured.

A series does not cross another method (harness): asv's seconds and perfci's are not the same. What both read
at the same commits says how the one translates into the other, with an interval; nothing else does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfci.model import Interval, Point
from perfci.stats.location_shift import student_paired_shift
from perfci.verdicts.process_levels import displayed_point_level

MIN_COMMITS_FOR_INTERVAL = 2


@dataclass(frozen=True, slots=True)
class MethodBridge:
    """What the later method reads of what the earlier one read as 1: the mean over ``commits``, oldest first.

    ``interval`` is that of Student's t on the log ratios; one commit alone has none.
    """

    ratio: float
    commits: tuple[str, ...]
    interval: Interval | None = None


def link_methods(earlier: Sequence[Point], later: Sequence[Point]) -> MethodBridge | None:
    """Link two histories of one thing; None where no commit has a positive value by both methods."""
    levels = _find_positive_levels(later)
    pairs = {
        sha: (level, levels[sha]) for sha, level in _find_positive_levels(earlier).items() if sha in levels
    }
    if not pairs:
        return None
    before, after = np.log(np.array(list(pairs.values()))).T
    if len(pairs) < MIN_COMMITS_FOR_INTERVAL:
        return MethodBridge(math.exp(float(after[0] - before[0])), tuple(pairs))
    shift = student_paired_shift(before, after)
    lo, hi = shift.bounds()
    return MethodBridge(math.exp(shift.centre), tuple(pairs), Interval(math.exp(lo), math.exp(hi)))


def _find_positive_levels(points: Sequence[Point]) -> dict[str, float]:
    levels = {point.commit.sha: displayed_point_level(point) for point in points if point.invalid is None}
    return {sha: level for sha, level in levels.items() if level is not None and level > 0}
