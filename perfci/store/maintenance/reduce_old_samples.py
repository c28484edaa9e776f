"""Reduce old samples to the level that verdicts use."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import CPU_METRIC_PREFIX, Clock, Process, Status
from perfci.store.column_conversions import build_process, pack_samples, unpack_samples
from perfci.store.queries.history_conditions import HISTORY_KINDS
from perfci.store.tables.measurements import ProcessRow, ResultRow, RunRow, SeriesRow, SessionRow
from perfci.store.tables.verdicts import VerdictRow

REDUCED_FLAG = "thinned"
"""The flag of a process whose samples were reduced to one."""

PROCESSES, RESULTS, RUNS, SERIES, SESSIONS = (
    row.__table__ for row in (ProcessRow, ResultRow, RunRow, SeriesRow, SessionRow)
)


@dataclass(frozen=True, slots=True)
class ReducedSamples:
    """The outcome of one step; ``last_result_id`` is where the next step starts, 0 at the end."""

    last_result_id: int
    processes: int = 0
    samples: int = 0


def reduce_old_samples(
    tx: Session,
    project_id: int,
    older_than: datetime,
    *,
    compute_level: Callable[[Process], float],
    at: datetime,
    after: int = 0,
    limit: int = 1000,
) -> ReducedSamples:
    """Reduce the samples of up to ``limit`` old results of histories, oldest first.

    No level changes, bit for bit. Kept whole are processes that a verdict names as evidence, comparisons,
    exact counts that differ, and CPU time with its wall time, whose samples decide which of the two is
    judged.
    """
    result_ids = _select_results(tx, project_id, older_than, after, limit)
    if not result_ids:
        return ReducedSamples(0)
    measured = (PROCESSES.c.result_id.in_(result_ids), PROCESSES.c.status == Status.OK.value)
    processes = tx.execute(sa.select(PROCESSES).where(*measured)).all()
    evidence = _load_evidence_ids(tx, result_ids)
    thinnable = [row for row in processes if row.id not in evidence and _is_reducible(row)]
    _save_spread(tx, processes, {row.result_id for row in thinnable})
    _replace_samples(tx, thinnable, compute_level)
    tx.execute(sa.update(RESULTS).where(RESULTS.c.id.in_(result_ids)).values(thinned_at=at))
    samples = sum(len(row.samples) // 8 - 1 for row in thinnable)
    return ReducedSamples(result_ids[-1], len(thinnable), samples)


def _select_results(tx: Session, project_id: int, older_than: datetime, after: int, limit: int) -> list[int]:
    """Select the results to reduce; each is considered once, even if it had to be kept whole."""
    twin = SERIES.alias()
    same_place = [twin.c[name] == SERIES.c[name] for name in ("benchmark_id", "parameters", "machine_id")]
    same_place += [twin.c[name] == SERIES.c[name] for name in ("variant_id", "harness")]
    has_twin = sa.exists().where(*same_place, twin.c.metric == CPU_METRIC_PREFIX + SERIES.c.metric)
    query = (
        sa.select(RESULTS.c.id)
        .join(RUNS, RESULTS.c.run_id == RUNS.c.id)
        .join(SESSIONS, RUNS.c.session_id == SESSIONS.c.id)
        .join(SERIES, RESULTS.c.series_id == SERIES.c.id)
        .where(RESULTS.c.id > after, RESULTS.c.thinned_at.is_(None), RESULTS.c.status == Status.OK.value)
        .where(RUNS.c.started_at < older_than)
        .where(SESSIONS.c.project_id == project_id, SESSIONS.c.kind.in_(HISTORY_KINDS))
        .where(~SERIES.c.metric.startswith(CPU_METRIC_PREFIX, autoescape=True), ~has_twin)
    )
    return list(tx.scalars(query.order_by(RESULTS.c.id).limit(limit)))


def _load_evidence_ids(tx: Session, result_ids: Sequence[int]) -> set[int]:
    """Load the evidence processes of all verdicts on these series, superseded or not."""
    series = sa.select(RESULTS.c.series_id).where(RESULTS.c.id.in_(result_ids))
    named = tx.scalars(sa.select(VerdictRow.evidence).where(VerdictRow.series_id.in_(series)))
    return {process_id for evidence in named for process_id in evidence}


def _is_reducible(row: Any) -> bool:
    """Whether one number can replace the samples; exact counts only if all are equal."""
    samples = unpack_samples(row.samples)
    counted = Clock(row.clock) is Clock.EXACT
    return len(samples) > 1 and Clock(row.clock) is not Clock.CPU and (not counted or len(set(samples)) == 1)


def _save_spread(tx: Session, processes: Sequence[Any], result_ids: Collection[int]) -> None:
    """Store the number of samples of a result and their quartiles."""
    samples: dict[int, list[float]] = defaultdict(list)
    for row in processes:
        if row.result_id in result_ids:
            samples[row.result_id].extend(unpack_samples(row.samples))
    rows = []
    for result_id, those in samples.items():
        low, _, high = statistics.quantiles(those, n=4, method="inclusive")
        rows.append({"result": result_id, "lower": low, "upper": high, "count": len(those)})
    if rows:
        unknown = sa.and_(RESULTS.c.id == sa.bindparam("result"), RESULTS.c.value.is_(None))
        spread: dict[str, Any] = {
            "q25": sa.bindparam("lower"),
            "q75": sa.bindparam("upper"),
            "n": sa.bindparam("count"),
        }
        tx.connection().execute(sa.update(RESULTS).where(unknown).values(spread), rows)


def _replace_samples(tx: Session, rows: Sequence[Any], compute_level: Callable[[Process], float]) -> None:
    changed = [
        {
            "process": row.id,
            "left": pack_samples([compute_level(build_process(row))]),
            "new_flags": [*row.flags, REDUCED_FLAG],
        }
        for row in rows
    ]
    if changed:
        left = {
            "samples": sa.bindparam("left"),
            "flags": sa.bindparam("new_flags", type_=PROCESSES.c.flags.type),
        }
        tx.connection().execute(
            sa.update(PROCESSES).where(PROCESSES.c.id == sa.bindparam("process")).values(left), changed
        )
