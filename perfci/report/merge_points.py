"""Which neighbouring commits of a long history a chart draws as one dot."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from perfci.model import Status

MEASURED, FAILED, SKIPPED = range(3)
"""Commits of different kinds are never one dot."""

Places = NDArray[np.int64]
"""Places in a history, oldest first."""


def classify_point(has_level: bool, status: Status) -> int:
    """The kind of a commit in a chart."""
    if has_level:
        return MEASURED
    return SKIPPED if status is Status.SKIPPED else FAILED


def merge_neighbours(kinds: NDArray[np.integer], unmerged: Collection[int], max_groups: int) -> list[Places]:
    """Group the places of a history, so that about ``max_groups`` of each kind are left.

    Places in ``unmerged`` are groups of their own. Groups are in the order of their middle places, which is
    where they are drawn.
    """
    count = len(kinds)
    if count <= max_groups:
        return list(np.arange(count)[:, np.newaxis])
    keys = (np.arange(count) // math.ceil(count / max_groups)) * (SKIPPED + 1) + kinds
    alone = np.fromiter(unmerged, np.int64)
    keys[alone] = -1 - alone
    order = np.argsort(keys, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(keys[order])) + 1)
    return sorted(groups, key=lambda group: int(group[len(group) // 2]))
