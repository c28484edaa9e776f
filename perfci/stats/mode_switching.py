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
    stays = _find_runs(logs[first:], old_level, new_level)
    begun_after = len(stays) > 1 and stays[1][0] >= boundary - first
    if len(stays) < MIN_RUNS or begun_after:
        return ModeSwitch(False, is_final=begun_after, end=len(logs))
    this = next(
        (k for k, (_, end, there) in enumerate(stays) if there and end > boundary - first), len(stays) - 1
    )
    others = [end - start for k, (start, end, there) in enumerate(stays) if there and k != this]
    is_one = stays[this][1] - stays[this][0] < max(LONG_RUN_FACTOR * max(others, default=0), LONG_RUN_POINTS)
    return ModeSwitch(is_one, is_final=is_one and this < len(stays) - 1, end=len(logs))


def _find_runs(logs: Floats, old_level: float, new_level: float) -> list[tuple[int, int, bool]]:
    """Stays in turn at the old (False) and the new (True) level, as (start, end, which); one point is no stay."""
    near = abs(new_level - old_level) / 3
    at_new = np.abs(logs - new_level) < near
    places = (at_new | (np.abs(logs - old_level) < near)).nonzero()[0]
    stays: list[tuple[int, int, bool]] = []
    for run in RUN_PATTERN.finditer(at_new[places].tobytes()):
        first, last = run.span()
        start, end, there = int(places[first]), int(places[last - 1]) + 1, run[0][0] == 1
        if stays and stays[-1][2] == there:
            start = stays.pop()[0]
        stays.append((start, end, there))
    return stays


RUN_PATTERN = re.compile(rb"\x00{2,}|\x01{2,}")
"""Two points or more at the same level in turn: False and True as the bytes they are kept in."""
