"""Load how long the cells of a suite took in earlier runs."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Machine, NamedValues, Status, Variant
from perfci.store.column_conversions import hash_values, machine_identity, named_values_from_json
from perfci.store.queries.history_conditions import project_id_condition
from perfci.store.tables.measurements import (
    BenchmarkRow,
    MachineRow,
    ProcessRow,
    ResultRow,
    RunRow,
    SeriesRow,
    SessionRow,
    VariantRow,
)

RECENT_RUNS = 12
"""How many of the newest runs are looked through for a cell: a run within a budget has only some of them."""


def load_cell_durations(
    tx: Session, project: str, machine: Machine, variant: Variant
) -> dict[tuple[str, NamedValues], float]:
    """Load the mean seconds of a process by benchmark and parameters, of the newest run that has the cell.

    Only runs of this machine class and variant count. Processes that failed are left out: they end early.
    """
    recent = (
        sa.select(RunRow.id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(MachineRow, RunRow.machine_id == MachineRow.id)
        .join(VariantRow, RunRow.variant_id == VariantRow.id)
        .where(
            project_id_condition(SessionRow.project_id, project),
            MachineRow.identity == machine_identity(machine),
            VariantRow.identity == hash_values(variant.values),
        )
        .order_by(RunRow.started_at.desc(), RunRow.id.desc())
        .limit(RECENT_RUNS)
    )
    newest_first = list(tx.scalars(recent))
    mean = sa.func.avg(ProcessRow.duration_s)
    rows = tx.execute(
        sa.select(ResultRow.run_id, BenchmarkRow.name, SeriesRow.parameters, mean)
        .select_from(ProcessRow)
        .join(ResultRow, ProcessRow.result_id == ResultRow.id)
        .join(SeriesRow, ResultRow.series_id == SeriesRow.id)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(
            ResultRow.run_id.in_(newest_first),
            ProcessRow.duration_s > 0,
            ProcessRow.status.not_in([Status.FAILED.value, Status.CRASHED.value]),
        )
        .group_by(ResultRow.run_id, BenchmarkRow.name, SeriesRow.parameters)
    )
    durations: dict[tuple[str, NamedValues], float] = {}
    for _, name, parameters, seconds in sorted(rows, key=lambda row: -newest_first.index(row[0])):
        durations[name, named_values_from_json(parameters)] = float(seconds)
    return durations
