"""Load the points of series for pages: the stored ones where they hold, else derived from results."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.history.point_columns import (
    STATUS_CODES,
    Columns,
    PointColumns,
    PointRow,
    unpack_levels,
)
from perfci.history.series_histories import (
    JudgedHistories,
    JudgedPoint,
    SeriesHistories,
    select_judged_series_by_points,
)
from perfci.history.store_series_points import (
    build_series_points_records,
    derive_columns,
    load_point_rows,
)
from perfci.model import Status
from perfci.store import Store
from perfci.store.column_conversions import STATUSES
from perfci.store.derived_values import load_or_derive
from perfci.store.projects import Project, load_projects
from perfci.store.queries.series_commits_machines import load_series_by_ids
from perfci.store.queries.series_points import (
    SeriesPointsRecord,
    find_series_of_same_processes,
    find_series_without_valid_points,
    load_blocks_of_levels,
    load_point_blocks,
    load_series_points_records,
)
from perfci.store.writes.series_points import save_series_points

SERIES_PER_TRANSACTION = 100
"""Series whose points one transaction stores: some hundred milliseconds."""


@dataclass(frozen=True, slots=True, eq=False)
class SeriesPoints:
    """What lists show of a series, and the levels of all its points, oldest commit first."""

    record: SeriesPointsRecord
    levels: Columns


def load_series_points(tx: Transaction, series_ids: Collection[int]) -> dict[int, SeriesPoints]:
    """Load the points of series by series id; one without a history is left out."""
    records = load_series_points_records(tx, series_ids)
    packed = load_blocks_of_levels(tx, records)
    points = {
        series_id: SeriesPoints(record, unpack_levels(packed[series_id]))
        for series_id, record in records.items()
    }
    if missing := set(series_ids) - records.keys():
        points |= _derive_from_results(tx, missing)
    return points


def load_points_records(
    tx: Transaction, series_ids: Collection[int], *, project: str | None = None
) -> dict[int, SeriesPointsRecord]:
    """Load what lists show of series, without their points; for most series of a project, its name helps."""
    if project is None:
        records = load_series_points_records(tx, series_ids)
    else:
        shared = load_project_points_records(tx, project)
        records = {row_id: shared[row_id] for row_id in series_ids if row_id in shared}
    missing = {row_id for row_id in series_ids if row_id not in records}
    derived = _derive_from_results(tx, missing) if missing else {}
    return records | {row_id: points.record for row_id, points in derived.items()}


def load_project_points_records(tx: Transaction, project: str) -> Mapping[int, SeriesPointsRecord]:
    """Load the records of all series of a project that hold, which readers share."""
    return load_or_derive(
        tx, project, "records of series points", lambda: load_series_points_records(tx, project=project)
    )


def load_noise_between_runs(
    tx: Transaction, series_ids: Collection[int], *, project: str | None = None
) -> dict[int, float]:
    """Load the noise of series by id; one that was measured rarely has none."""
    records = load_points_records(tx, series_ids, project=project)
    return {row_id: record.noise for row_id, record in records.items() if record.noise is not None}


def load_point_columns(tx: Transaction, series_ids: Collection[int]) -> dict[int, PointColumns]:
    """Load all columns of the points of series by series id; a series without a history has none."""
    records = load_series_points_records(tx, series_ids)
    blocks = load_point_blocks(tx, series_ids)
    columns = {series_id: PointColumns.from_blocks(blocks.get(series_id, ())) for series_id in series_ids}
    if missing := set(series_ids) - records.keys():
        keys = JudgedHistories.load(tx, missing).list_keys()
        columns |= derive_columns(tx, keys, {series_id: columns[series_id] for series_id in missing})
    return columns


def refresh_series_points(store: Store, project: Project) -> int:
    """Store the points of the series whose stored ones do not hold; return how many were."""
    stored = 0
    while True:
        with store.begin() as tx:
            series_ids = find_series_without_valid_points(tx, project.id, SERIES_PER_TRANSACTION)
            if not series_ids:
                return stored
            histories = SeriesHistories.load(tx, find_series_of_same_processes(tx, series_ids))
            save_series_points(tx, project.slug, histories.derive_points(tx))
        stored += len(series_ids)


def find_wrong_series_points(tx: Transaction) -> Iterator[str]:
    """Compare the stored points that readers rely on with the results; yield a sentence for each series that
    differs."""
    for project in load_projects(tx):
        valid = sorted(load_series_points_records(tx, project=project.slug))
        for start in range(0, len(valid), SERIES_PER_TRANSACTION):
            some = valid[start : start + SERIES_PER_TRANSACTION]
            histories, blocks = JudgedHistories.load(tx, some), load_point_blocks(tx, some)
            keys = histories.list_keys()
            for series_id in some:
                columns = PointColumns.from_blocks(blocks.get(series_id, ()))
                levels = [point.level for point in histories.points[series_id] if point.summary is not None]
                if columns.keys != keys[series_id] or not _has_levels(columns, levels):
                    yield f"The stored points of series {series_id} differ from its results."


def _has_levels(columns: PointColumns, levels: Iterable[float | None]) -> bool:
    """Whether columns hold all these levels."""
    stored = set(columns.levels["level"].tolist())
    return all(level in stored for level in levels if level is not None)


def _derive_from_results(tx: Transaction, series_ids: Collection[int]) -> dict[int, SeriesPoints]:
    """Derive levels from results; samples are read only of series that a flagged process has the level of."""
    histories = JudgedHistories.load(tx, find_series_of_same_processes(tx, series_ids))
    series = load_series_by_ids(tx, histories.points)
    row_ids = {item: row_id for row_id, item in series.items()}
    judged = {row_ids[item] for item in select_judged_series_by_points(tx, row_ids, histories.points)}
    measured = {series_id for series_id in series_ids if histories.points.get(series_id)}
    flagged = {row_id for row_id in measured if histories.has_commit_without_unflagged_process(row_id)}
    keys = histories.list_keys()
    rows = {
        row_id: [_build_row(point) for point in histories.points[row_id]] for row_id in measured - flagged
    }
    rows |= load_point_rows(tx, {row_id: keys[row_id] for row_id in flagged})
    columns = {row_id: PointColumns.from_rows(series_rows) for row_id, series_rows in rows.items()}
    records = build_series_points_records(tx, columns, histories.commits, judged)
    return {row_id: SeriesPoints(records[row_id], columns[row_id].levels) for row_id in columns}


def _build_row(point: JudgedPoint) -> PointRow:
    level = math.nan if point.level is None or point.status != Status.OK.value else point.level
    status = STATUSES[point.status]
    if math.isnan(level) and status is Status.OK:
        status = Status.FAILED
    code = STATUS_CODES[status]
    return PointRow(point.commit_id, level, code, point.result_id, point.results, 0, level, level, False)
