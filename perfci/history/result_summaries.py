"""Compute and save the summary of every result, so that histories are judged without reading samples."""

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
    """The summaries of these results by id; a result without a successful process has none."""
    return _summarize_results(load_results_by_ids(tx, result_ids))


def save_summaries(tx: Transaction, process_ids: Sequence[int]) -> None:
    """Save the summaries of the results that these processes belong to."""
    save_result_summaries(tx, _summarize_results(load_results_of_processes(tx, process_ids)))


def _summarize_results(results: Iterable[ResultProcesses]) -> dict[int, ResultSummary]:
    summaries = {}
    for result_id, processes in results:
        summary = summarize_result(processes)
        if summary is not None:
            summaries[result_id] = summary
    return summaries
