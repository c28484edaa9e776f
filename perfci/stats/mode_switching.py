"""Switches between modes a machine keeps returning to, which are no change of the level."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perfci.stats.location import Floats

SWITCH_WINDOW, MIN_RUNS = 150, 5
"""Five alternating runs at the old and the new level within 150 points either side are modes of the
machine (docs/design/statistics.md)."""

LONG_RUN_FACTOR, LONG_RUN_POINTS = 3, 20
"""A run three times as long as any other at its level, and of at least twenty points, is a new
level after all."""


@dataclass(frozen=True, slots=True)
class ModeSwitch:
    """Whether a boundary is a mode switch, from points up to ``end``; if ``is_final``, no later
    point changes the answer."""

    is_switch: bool
    is_final: bool
    end: int


def classify_mode_switch(logs: Floats, boundary: int, old_level: float, new_level: float) -> ModeSwitch:
    """Decide whether a boundary is one more switch between two modes of the machine.

    ``logs`` has shape (n,); levels are log values. Later points only lengthen the last run or add
    one, so a decision that does not rest on the last run is final.
    """
    first = max(0, boundary - SWITCH_WINDOW)
    runs = _find_runs(logs[first:], old_level, new_level)
    begun_after = len(runs) > 1 and runs[1][0] >= boundary - first
    if len(runs) < MIN_RUNS or begun_after:
        return ModeSwitch(False, is_final=begun_after, end=len(logs))
    own = next(
        (k for k, (_, end, is_new) in enumerate(runs) if is_new and end > boundary - first), len(runs) - 1
    )
    other_lengths = [end - start for k, (start, end, is_new) in enumerate(runs) if is_new and k != own]
    is_switch = runs[own][1] - runs[own][0] < max(
        LONG_RUN_FACTOR * max(other_lengths, default=0), LONG_RUN_POINTS
    )
    return ModeSwitch(is_switch, is_final=is_switch and own < len(runs) - 1, end=len(logs))


def _find_runs(logs: Floats, old_level: float, new_level: float) -> list[tuple[int, int, bool]]:
    """Alternating runs at the old (False) and the new (True) level, as (start, end, is_new); single
    points are no runs.

    A point belongs to a level within a third of the distance between the two.
    """
    near = abs(new_level - old_level) / 3
    at_new = np.abs(logs - new_level) < near
    positions = (at_new | (np.abs(logs - old_level) < near)).nonzero()[0]
    runs: list[tuple[int, int, bool]] = []
    for run in RUN_PATTERN.finditer(at_new[positions].tobytes()):
        first, last = run.span()
        start, end, is_new = int(positions[first]), int(positions[last - 1]) + 1, run[0][0] == 1
        # two runs at one level with stray points between them are one run
        if runs and runs[-1][2] == is_new:
            start = runs.pop()[0]
        runs.append((start, end, is_new))
    return runs


RUN_PATTERN = re.compile(rb"\x00{2,}|\x01{2,}")
"""Two or more points in a row at one level, booleans as the bytes numpy stores them in."""
