"""Load series by id, project or identity. Series never change, so readers of a store share a cache."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Benchmark, Metric, Series
from perfci.store.column_conversions import named_values_from_json
from perfci.store.queries.history_conditions import Condition, project_id_condition
from perfci.store.queries.machines_variants_environments import load_machines, load_variants
from perfci.store.tables.measurements import (
    BenchmarkRow,
    ProjectRow,
    SeriesRow,
)
from perfci.store.transactions import CHUNK, SERIES_CACHE, in_chunks

MAX_CACHED_SERIES = 50_000
"""Series a store caches for readers, in at most some hundred MB."""


def load_series_by_ids(tx: Session, ids: Iterable[int]) -> dict[int, Series]:
    """Load series by id. Series never change, so all readers of a store share a cache."""
    cache: dict[int, Series] = tx.info.get(SERIES_CACHE, {})
    cached = {row_id: cache.get(row_id) for row_id in sorted(ids)}
    missing = [row_id for row_id, series in cached.items() if series is None]
    read: dict[int, Series] = {}
    if missing:
        machines, variants = load_machines(tx), load_variants(tx)
        query = sa.select(*SeriesRow.__table__.c, BenchmarkRow.name, BenchmarkRow.version).join(
            BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id
        )
        for some in in_chunks(missing):
            for row in tx.connection().execute(query.where(SeriesRow.id.in_(some))):
                read[row.id] = Series(
                    benchmark=Benchmark(row.name, row.version),
                    parameters=named_values_from_json(row.parameters),
                    metric=Metric(row.metric, row.unit, row.direction),
                    machine=machines[row.machine_id],
                    variant=variants[row.variant_id],
                    harness=row.harness,
                )
        if len(cache) + len(read) > MAX_CACHED_SERIES:
            cache.clear()
        cache.update(islice(read.items(), MAX_CACHED_SERIES))
    return {row_id: series or read[row_id] for row_id, series in cached.items()}


def load_project_series(tx: Session, project: str, *conditions: Condition) -> dict[int, Series]:
    """Load the series of a project that meet all conditions, by id."""
    query = sa.select(SeriesRow.id).join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
    chosen = query.where(project_id_condition(BenchmarkRow.project_id, project), *conditions)
    return load_series_by_ids(tx, tx.connection().scalars(chosen))


def find_series_ids_by_identity(tx: Session, identities: Collection[str]) -> dict[str, int]:
    """Find the ids of stored series by identity; identities that are not stored are left out."""
    query = sa.select(SeriesRow.identity, SeriesRow.id)
    ids_by_identity: dict[str, int] = {}
    for some in in_chunks(identities):
        ids_by_identity |= dict(tx.execute(query.where(SeriesRow.identity.in_(some))).all())
    return ids_by_identity


def load_series_of_same_cells(tx: Session, project: str, series: Iterable[Series]) -> list[Series]:
    """Load all series with the same benchmarks and parameters, to make addresses unambiguous."""
    cells: dict[str, list[Any]] = defaultdict(list)
    for item in series:
        cells[item.benchmark.name].append(item.parameters)
    matching: list[Series] = []
    for start in range(0, len(names := sorted(cells)), BENCHMARKS_PER_QUERY):
        some = names[start : start + BENCHMARKS_PER_QUERY]
        parameters = list(dict.fromkeys(cell for name in some for cell in cells[name]))[:CHUNK]
        chosen = (BenchmarkRow.name.in_(some), SeriesRow.parameters.in_(parameters))
        matching += load_project_series(tx, project, *chosen).values()
    return matching


BENCHMARKS_PER_QUERY = 50
"""Benchmarks per query: a page names few, and their parameters mostly agree."""


def load_series_identities(tx: Session) -> Iterator[tuple[int, str, str, Series]]:
    """Every series as (id, stored identity, project, what its columns say)."""
    query = (
        sa.select(SeriesRow.id, SeriesRow.identity, ProjectRow.slug)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .join(ProjectRow, BenchmarkRow.project_id == ProjectRow.id)
    )
    rows = tx.execute(query).all()
    series = load_series_by_ids(tx, [row.id for row in rows])
    for row_id, stored, slug in rows:
        yield row_id, stored, slug, series[row_id]
