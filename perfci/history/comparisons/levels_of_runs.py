"""What some runs came to in each series: level, status and clocks, joined over runs, without samples."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from sqlalchemy.orm import Session as Transaction

from perfci.history.series_histories import OK_READINGS, ReadingSet, compute_result_summaries
from perfci.model import ResultSummary, Status
from perfci.store.queries.comparisons.results_of_runs import StoredRunResult, load_results_of_runs
from perfci.store.queries.judging_inputs import (
    load_process_statuses_and_clocks,
    load_processes_of_ok_results,
)
from perfci.verdicts.judged_series import StatusAndClock


@dataclass(frozen=True, slots=True)
class SeriesLevel:
    """One series over some runs: the median of their levels, or why there is none.

    ``readings`` are the statuses and clocks of what was read, by which judged series are selected.
    """

    level: float | None
    status: Status
    reason: str
    readings: ReadingSet
    result_ids: tuple[int, ...]


def load_levels_of_runs(
    tx: Transaction, run_ids: Collection[int], series_ids: Collection[int] | None = None
) -> dict[int, SeriesLevel]:
    """Load what some runs came to, by series id (of all, or some); a value counts for more than a failure."""
    results: dict[int, list[StoredRunResult]] = defaultdict(list)
    for result in load_results_of_runs(tx, run_ids, series_ids):
        results[result.series_id].append(result)
    every = [result for several in results.values() for result in several]
    unread = [result.id for result in every if result.summary is None]
    computed = compute_result_summaries(load_processes_of_ok_results(tx, unread)) if unread else {}
    statuses = load_process_statuses_and_clocks(tx, [row_id for row_id in unread if row_id not in computed])
    return {series_id: _join_results(several, computed, statuses) for series_id, several in results.items()}


def _join_results(
    results: Sequence[StoredRunResult],
    computed: Mapping[int, ResultSummary],
    statuses: Mapping[int, Collection[StatusAndClock]],
) -> SeriesLevel:
    levels, readings = [], ReadingSet()
    for result in results:
        summary = result.summary or computed.get(result.id)
        level = summary.level if summary is not None and summary.level is not None else result.value
        if level is not None and result.status is Status.OK:
            levels.append(level)
        readings |= frozenset(statuses.get(result.id, ()))
        if summary is not None:
            readings |= OK_READINGS.get(summary.clock, ReadingSet())
    newest = max(results, key=lambda result: (result.status is Status.OK, result.id))
    usable = tuple(result.id for result in results if result.status is Status.OK)
    return SeriesLevel(median(levels) if levels else None, newest.status, newest.reason, readings, usable)
