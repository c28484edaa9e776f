"""Hops between the states a machine keeps returning to, which are no change of its level."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from perfci.stats.location import Floats

HOP_WINDOW, HOP_RUNS = 150, 5
"""Five stays in turn at the old and the new level within 150 points either side are a machine's states, no change."""

LONGER, LONG_STAY = 3, 20
"""A stay three times as long as any other at its level, and of twenty points, is a new level after all."""


@dataclass(frozen=True, slots=True)
class Hop:
    """Whether a boundary is a mere hop, by the points up to ``end``; no later point changes it once it is settled."""

    is_one: bool
    settled: bool
    end: int


def hop(logs: Floats, at: int, old: float, new: float) -> Hop:
    """Whether the boundary is one more hop between two states the machine keeps returning to.

    A stay clearly longer than all others at its level is a new level after all. Points that follow make the last stay
    longer or add one: what does not hang on the last stay is settled.
    """
    first = max(0, at - HOP_WINDOW)
    stays = _stays(logs[first:], old, new)
    begun_after = len(stays) > 1 and stays[1][0] >= at - first
    if len(stays) < HOP_RUNS or begun_after:
        return Hop(False, settled=begun_after, end=len(logs))
    this = next((k for k, (_, end, there) in enumerate(stays) if there and end > at - first), len(stays) - 1)
    others = [end - start for k, (start, end, there) in enumerate(stays) if there and k != this]
    is_one = stays[this][1] - stays[this][0] < max(LONGER * max(others, default=0), LONG_STAY)
    return Hop(is_one, settled=is_one and this < len(stays) - 1, end=len(logs))


def _stays(logs: Floats, old: float, new: float) -> list[tuple[int, int, bool]]:
    """Stays in turn at the old (False) and the new (True) level, as (start, end, which); one point is no stay."""
    near = abs(new - old) / 3
    at_new = np.abs(logs - new) < near
    places = (at_new | (np.abs(logs - old) < near)).nonzero()[0]
    stays: list[tuple[int, int, bool]] = []
    for run in RUN.finditer(at_new[places].tobytes()):
        first, last = run.span()
        start, end, there = int(places[first]), int(places[last - 1]) + 1, run[0][0] == 1
        if stays and stays[-1][2] == there:
            start = stays.pop()[0]
        stays.append((start, end, there))
    return stays


RUN = re.compile(rb"\x00{2,}|\x01{2,}")
"""Two points or more at the same level in turn: False and True as the bytes they are kept in."""
