"""Load machine classes, variants and environments by id."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Environment, Machine, Variant
from perfci.store.column_conversions import named_values_from_json
from perfci.store.tables.measurements import (
    EnvironmentRow,
    MachineRow,
    VariantRow,
)
from perfci.store.transactions import in_chunks


def load_machines(tx: Session) -> dict[int, Machine]:
    """Load all machine classes, by id."""
    return {
        row.id: Machine(
            cpu=row.cpu,
            cores=row.cores,
            memory_gb=row.memory_gb,
            accelerator=row.accelerator,
            accelerators=row.accelerators,
            name=row.name,
        )
        for row in tx.connection().execute(sa.select(*MachineRow.__table__.c))
    }


def load_variants(tx: Session) -> dict[int, Variant]:
    """Load all variants, by id."""
    rows = tx.execute(sa.select(VariantRow.id, VariantRow.chosen))
    return {row_id: Variant(named_values_from_json(chosen)) for row_id, chosen in rows}


def load_environments(tx: Session, ids: Collection[int]) -> dict[int, Environment]:
    """Load environments by id; only those needed, since each driver or clock change adds one."""
    query = sa.select(EnvironmentRow.id, EnvironmentRow.observed)
    rows = (row for some in in_chunks(ids) for row in tx.execute(query.where(EnvironmentRow.id.in_(some))))
    return {row_id: Environment(named_values_from_json(observed)) for row_id, observed in rows}
