"""Derive the points of series from their results, and store what changed of them.

What is stored is what deriving all of it again would give: a point keeps its content while the results that
it joins are the same, and only blocks that differ are written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from sqlalchemy.orm import Session as Transaction

from perfci.history.noise_between_runs import NOISE_COMMITS, estimate_noise_between_runs
from perfci.history.point_columns import (
    STATUS_OF_CODE,
    PointColumns,
    PointKey,
    PointRow,
    build_plain_point_row,
    build_point_row,
    find_failures_at_end,
    list_last_levels,
    median_level,
)
from perfci.model import Commit
from perfci.store.queries.measured_samples import load_points_at_commits
from perfci.store.queries.measured_series import load_statuses_and_reasons
from perfci.store.queries.series_points import (
    PointBlock,
    SeriesPointsRecord,
    load_plain_results,
    load_point_blocks,
)
from perfci.store.writes.series_points import SeriesPointsUpdate

SERIES_PER_BATCH = 50
"""Series whose processes are in memory together."""

PointKeys = Mapping[int, Sequence[PointKey]]
"""The keys of all points of each series by series id, oldest commit first."""


def derive_series_points(
    tx: Transaction, keys: PointKeys, commits: Mapping[int, Commit], judged: Collection[int]
) -> list[SeriesPointsUpdate]:
    """Derive the points of series; stored ones whose results are the same are not read again."""
    updates: list[SeriesPointsUpdate] = []
    series_ids = sorted(series_id for series_id in keys if keys[series_id])
    for start in range(0, len(series_ids), SERIES_PER_BATCH):
        some = series_ids[start : start + SERIES_PER_BATCH]
        blocks = load_point_blocks(tx, some)
        stored = {row_id: PointColumns.from_blocks(parts) for row_id, parts in blocks.items()}
        derived = derive_columns(tx, {series_id: keys[series_id] for series_id in some}, stored)
        records = build_series_points_records(tx, derived, commits, judged)
        updates += [
            _build_update(records[series_id], columns, blocks.get(series_id, ()))
            for series_id, columns in derived.items()
        ]
    return updates


def build_series_points_records(
    tx: Transaction,
    columns: Mapping[int, PointColumns],
    commits: Mapping[int, Commit],
    judged: Collection[int],
) -> dict[int, SeriesPointsRecord]:
    """What lists show of series, each with at least one point."""
    failed_results = [
        int(item.details["result_id"][-1]) for item in columns.values() if np.isnan(item.levels["level"][-1])
    ]
    reasons = load_statuses_and_reasons(tx, failed_results)
    records = {}
    for series_id, item in columns.items():
        commit_ids, values = item.levels["commit_id"], item.levels["level"]
        failures, since = find_failures_at_end(item.levels)
        measured = np.flatnonzero(~np.isnan(values))
        _, reason = reasons.get(int(item.details["result_id"][-1]), (None, ""))
        records[series_id] = SeriesPointsRecord(
            series_id,
            int(item.details["result_id"].max()),
            series_id in judged,
            len(item),
            failures,
            None if since is None else commits[int(commit_ids[since])].committed_at,
            int(commit_ids[-1]),
            STATUS_OF_CODE[int(item.levels["status"][-1])],
            reason,
            commits[int(commit_ids[measured[-1]])].committed_at if len(measured) else None,
            median_level(item.levels),
            estimate_noise_between_runs(list_last_levels(item.levels, NOISE_COMMITS)),
        )
    return records


def _build_update(
    record: SeriesPointsRecord, columns: PointColumns, stored: Sequence[PointBlock]
) -> SeriesPointsUpdate:
    """The blocks to write: those from the first one on that differs from what is stored."""
    blocks = list(columns.split_blocks())
    pairs = enumerate(zip(blocks, stored, strict=False))
    shared = min(len(blocks), len(stored))
    first = next((place for place, (block, old) in pairs if block != old), shared)
    return SeriesPointsUpdate(record, first, blocks[first:])


def derive_columns(
    tx: Transaction, keys: PointKeys, stored: Mapping[int, PointColumns]
) -> dict[int, PointColumns]:
    """Join stored points with those whose results are new."""
    new: dict[int, list[PointKey]] = {}
    for series_id, series_keys in keys.items():
        stored_keys = set(stored[series_id].keys) if series_id in stored else set()
        new[series_id] = [key for key in series_keys if key not in stored_keys]
    rows = load_point_rows(tx, new)
    return {
        series_id: _merge_columns(series_keys, PointColumns.from_rows(rows[series_id]), stored.get(series_id))
        for series_id, series_keys in keys.items()
    }


def load_point_rows(tx: Transaction, keys: PointKeys) -> dict[int, list[PointRow]]:
    """Load the rows of points; samples are read only where results alone do not tell."""
    rows: dict[tuple[int, int], PointRow] = {}
    key_at = {
        (series_id, key.commit_id): key for series_id, series_keys in keys.items() for key in series_keys
    }
    for result in load_plain_results(tx, _list_commits(key_at)):
        place = (result.series_id, result.commit_id)
        if row := build_plain_point_row(key_at[place], result):
            rows[place] = row
    for series_id, commit_id, point in load_points_at_commits(tx, _list_commits(key_at.keys() - rows.keys())):
        rows[series_id, commit_id] = build_point_row(key_at[series_id, commit_id], point)
    return {
        series_id: [rows[series_id, key.commit_id] for key in series_keys]
        for series_id, series_keys in keys.items()
    }


def _list_commits(places: Iterable[tuple[int, int]]) -> dict[int, set[int]]:
    """The ids of commits by series id."""
    commits: dict[int, set[int]] = defaultdict(set)
    for series_id, commit_id in places:
        commits[series_id].add(commit_id)
    return commits


def _merge_columns(keys: Sequence[PointKey], new: PointColumns, stored: PointColumns | None) -> PointColumns:
    """Bring stored and new points into the order of their keys."""
    if stored is None:
        return new
    both = PointColumns(
        np.concatenate([stored.levels, new.levels]), np.concatenate([stored.details, new.details])
    )
    places = {key: place for place, key in enumerate(both.keys)}
    order = [places[key] for key in keys]
    return PointColumns(both.levels[order], both.details[order])
