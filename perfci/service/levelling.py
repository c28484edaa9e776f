"""Keep with every result the level it is judged by, so that two commits compare without reading a sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy.orm import Session as Transaction

from perfci.stats.location import median
from perfci.store.levels import Measured, results_with, set_levels, without_level
from perfci.verdicts.levels import process_level, usable


def levels_of(tx: Transaction, run_keys: Sequence[str]) -> dict[int, float]:
    """The levels of the results of some runs that have none yet, by the ids of these; the unusable have none."""
    return _levels(without_level(tx, runs=run_keys))


def keep_imported(tx: Transaction, since: int) -> None:
    """Set the levels of results that came after one."""
    set_levels(tx, _levels(without_level(tx, since=since)))


def keep_measured(tx: Transaction, process_ids: Sequence[int]) -> None:
    """Set the levels of the results that grew by these processes."""
    set_levels(tx, _levels(results_with(tx, process_ids)))


def _levels(measured: Iterable[Measured]) -> dict[int, float]:
    return {
        result_id: levels[0] if len(levels) == 1 else median(levels)
        for result_id, processes in measured
        if (levels := [process_level(process) for process in usable(processes)])
    }
