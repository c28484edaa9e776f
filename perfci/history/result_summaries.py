"""Keep with every result what it came to, so that histories are judged, and commits compared, without a sample."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sqlalchemy.orm import Session as Transaction

from perfci.model import Digest
from perfci.store.queries.result_summaries import Measured, results_by_ids, results_with, set_levels
from perfci.verdicts.process_levels import digest


def digests_of(tx: Transaction, result_ids: Collection[int]) -> dict[int, Digest]:
    """What these results came to, by their ids; one of which no process ended well came to nothing."""
    return _digests(results_by_ids(tx, result_ids))


def keep_measured(tx: Transaction, process_ids: Sequence[int]) -> None:
    """Keep what results came to that grew by these processes."""
    set_levels(tx, _digests(results_with(tx, process_ids)))


def _digests(measured: Iterable[Measured]) -> dict[int, Digest]:
    return {result_id: found for result_id, processes in measured if (found := digest(processes)) is not None}
