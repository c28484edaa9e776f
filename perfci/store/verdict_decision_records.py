"""Store and load how verdicts were reached, so that they can be recomputed."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Series
from perfci.store.queries.history_conditions import project_id_condition
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.tables.measurements import SessionRow
from perfci.store.tables.verdicts import DecisionRow, VerdictRow
from perfci.store.transactions import in_chunks


@dataclass(frozen=True, slots=True)
class LookRecord:
    """One interim look at the pairs: the data, the answer and the noise prior.

    ``spent`` counts the measured pairs, ``pairs`` the usable ones. ``tail`` is the error probability on
    either side of the interval; None where no statistics were needed. ``more`` is how many pairs were
    requested. ``base_results`` and ``head_results`` are the ids of the results that were compared where
    runs were not measured side by side.
    """

    spent: int
    pairs: int
    kind: str
    tail: float | None = None
    more: int = 0
    prior_sd: float | None = None
    prior_df: float | None = None
    base_results: Sequence[int] = ()
    head_results: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """How one verdict was reached.

    ``method`` is ``pairs`` (looks at pairs), ``rounds`` (neighbours screened once) or ``separate_runs``.
    ``rule`` holds the fields of the rule by name. A/A runs up to the verdict ``aa_verdicts_until`` were
    known. ``rate`` is the false discovery rate controlled over the verdicts of the session; None where none
    was. ``made_by`` names the versions of the software.
    """

    method: str
    rule: Mapping[str, Any]
    aa_verdicts_until: int
    looks: tuple[LookRecord, ...]
    rate: float | None = None
    made_by: str = ""


AA_WINDOW = timedelta(days=60)
"""How long an A/A run counts: the nightly runs of two months. What a machine was like before, it need
not be any more."""


class AAResult(NamedTuple):
    """The log ratio of one A/A run of a series, and the number of pairs behind it."""

    log_ratio: float
    pairs: int


def add_verdict_decision_records(tx: Session, records: Mapping[int, DecisionRecord]) -> None:
    """Store how verdicts were reached, by verdict id."""
    rows = [
        {
            "verdict_id": verdict_id,
            "method": record.method,
            "rule": dict(record.rule),
            "aa_verdicts_until": record.aa_verdicts_until,
            "rate": record.rate,
            "looks": [_drop_empty_sides(asdict(look)) for look in record.looks],
            "made_by": record.made_by,
        }
        for verdict_id, record in records.items()
    ]
    if rows:
        tx.execute(sa.insert(DecisionRow.__table__), rows)


def _drop_empty_sides(look: dict[str, Any]) -> dict[str, Any]:
    """Leave out the results of looks at pairs, which are those of their session."""
    return {name: value for name, value in look.items() if not name.endswith("_results") or value}


def load_verdict_decision_records(
    tx: Session, project: str, verdict_ids: Collection[int] | None = None
) -> dict[int, DecisionRecord]:
    """Load how the verdicts of a project were reached, by verdict id; of all, or of these."""
    query = (
        sa.select(*DecisionRow.__table__.c)
        .join(VerdictRow, DecisionRow.verdict_id == VerdictRow.id)
        .where(project_id_condition(VerdictRow.project_id, project))
    )
    queries = [query]
    if verdict_ids is not None:
        queries = [query.where(DecisionRow.verdict_id.in_(some)) for some in in_chunks(verdict_ids)]
    return {
        row.verdict_id: DecisionRecord(
            method=row.method,
            rule=row.rule,
            aa_verdicts_until=row.aa_verdicts_until,
            looks=tuple(LookRecord(**look) for look in row.looks),
            rate=row.rate,
            made_by=row.made_by,
        )
        for query in queries
        for row in tx.execute(query)
    }


def load_latest_verdict_id(tx: Session) -> int:
    """Return the id of the latest verdict; 0 before the first."""
    return tx.scalar(sa.select(sa.func.max(VerdictRow.id))) or 0


def load_aa_results_by_series(
    tx: Session, project: str, until_verdict_id: int | None = None
) -> dict[Series, Sequence[AAResult]]:
    """Load the results of A/A runs by series, oldest first, up to and including a verdict.

    Those of the ``AA_WINDOW`` before it, or before the latest, so that the same verdict always means
    the same runs.
    """
    newest = sa.select(VerdictRow.created_at).order_by(VerdictRow.id.desc()).limit(1)
    if until_verdict_id is not None:
        newest = newest.where(VerdictRow.id <= until_verdict_id)
    window_end = tx.scalar(newest)
    if window_end is None:
        return {}
    query = (
        sa.select(VerdictRow.series_id, VerdictRow.ratio, VerdictRow.pairs)
        .join(SessionRow, VerdictRow.session_id == SessionRow.id)
        .where(
            project_id_condition(VerdictRow.project_id, project),
            SessionRow.kind == "aa",
            VerdictRow.created_at >= window_end - AA_WINDOW,
        )
        .order_by(VerdictRow.id)
    )
    if until_verdict_id is not None:
        query = query.where(VerdictRow.id <= until_verdict_id)
    results: dict[int, list[AAResult]] = defaultdict(list)
    for series_id, ratio, pairs in tx.execute(query):
        if ratio:
            results[series_id].append(AAResult(math.log(ratio), pairs))
    series = load_series_by_ids(tx, results)
    return {series[series_id]: aa_results for series_id, aa_results in results.items()}
