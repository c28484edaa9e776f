"""Hops between the states a machine keeps returning to, which are no change of its level."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perfci.stats.location import Floats

SWITCH_WINDOW, MIN_RUNS = 150, 5
"""Five stays in turn at the old and the new level within 150 points either side are a machine's states, no change."""

LONG_RUN_FACTOR, LONG_RUN_POINTS = 3, 20
"""A stay three times as long as any other at its level, and of twenty points, is a new level after all."""


@dataclass(frozen=True, slots=True)
class ModeSwitch:
    """Whether a boundary is a mere hop, by the points up to ``end``; no later point changes it once it is settled."""

    is_switch: bool
    is_final: bool
    end: int


def classify_mode_switch(logs: Floats, boundary: int, old_level: float, new_level: float) -> ModeSwitch:
    """Whether the boundary is one more hop between two states the machine keeps returning to.

    A stay clearly longer than all others at its level is a new level after all. Points that follow make the last stay
    longer or add one: what does not hang on the last stay is settled.
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
    """Stays in turn at the old (False) and the new (True) level, as (start, end, which); one point is no stay."""
    near = abs(new_level - old_level) / 3
    at_new = np.abs(logs - new_level) < near
    positions = (at_new | (np.abs(logs - old_level) < near)).nonzero()[0]
    runs: list[tuple[int, int, bool]] = []
    for run in RUN_PATTERN.finditer(at_new[positions].tobytes()):
        first, last = run.span()
        start, end, is_new = int(positions[first]), int(positions[last - 1]) + 1, run[0][0] == 1
        if runs and runs[-1][2] == is_new:
            start = runs.pop()[0]
        runs.append((start, end, is_new))
    return runs


RUN_PATTERN = re.compile(rb"\x00{2,}|\x01{2,}")
"""Two points or more at the same level in turn: False and True as the bytes they are kept in."""
