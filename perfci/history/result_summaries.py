"""Keep with every result what it came to, so that histories are judged, and commits compared, without a sample."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy.orm import Session as Transaction

from perfci.model import ResultSummary
from perfci.store.queries.result_summaries import (
    ResultProcesses,
    load_results_by_ids,
    load_results_of_processes,
    save_result_summaries,
)
from perfci.verdicts.process_levels import summarize_result


def compute_summaries(tx: Transaction, result_ids: Collection[int]) -> dict[int, ResultSummary]:
    """What these results came to, by their ids; one of which no process ended well came to nothing."""
    return _summarize_results(load_results_by_ids(tx, result_ids))


def save_summaries(tx: Transaction, process_ids: Sequence[int]) -> None:
    """Keep what results came to that grew by these processes."""
    save_result_summaries(tx, _summarize_results(load_results_of_processes(tx, process_ids)))


def _summarize_results(results: Iterable[ResultProcesses]) -> dict[int, ResultSummary]:
    return {
        result_id: found
        for result_id, processes in results
        if (found := summarize_result(processes)) is not None
    }
