"""Keep with every result the level it is judged by, so that two commits compare without reading a sample."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session as Transaction

from perfci.stats.location import median
from perfci.store.levels import without_level
from perfci.verdicts.levels import process_level, usable


def levels_of(tx: Transaction, run_keys: Sequence[str]) -> dict[int, float]:
    """The levels of the results of some runs that have none yet, by the ids of these; the unusable have none."""
    return {
        result_id: median([process_level(process) for process in good])
        for result_id, processes in without_level(tx, run_keys)
        if (good := usable(processes))
    }
