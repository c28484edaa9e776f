"""Load the stored points of series, in blocks, and which of them hold. The caller owns ``tx``."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import SampleSummary, Status
from perfci.store.column_conversions import STATUSES
from perfci.store.queries.history_conditions import project_id_condition, restrict_to_history
from perfci.store.tables.measurements import BenchmarkRow, ProcessRow, ResultRow, RunRow, SeriesRow
from perfci.store.tables.series_points import PointBlockRow, SeriesPointsRow
from perfci.store.transactions import CHUNK, in_chunks

POINTS, BLOCKS, SERIES = SeriesPointsRow.__table__, PointBlockRow.__table__, SeriesRow.__table__
RESULTS, RUNS, PROCESSES = ResultRow.__table__, RunRow.__table__, ProcessRow.__table__


@dataclass(frozen=True, slots=True)
class SeriesPointsRecord:
    """What lists show of the history of a series.

    ``result_id`` is its newest result, ``judged`` whether verdicts are given on it. ``failures`` counts the
    commits since the last one with a value, ``failing_since`` is the date of the first of these. ``level`` is
    the median of all values, ``noise`` the standard deviation of the log of one level in the last commits.
    """

    series_id: int
    result_id: int
    judged: bool
    commits: int
    failures: int
    failing_since: datetime | None
    last_commit_id: int
    last_status: Status
    last_reason: str
    last_value_at: datetime | None
    level: float | None
    noise: float | None

    @property
    def is_last_failed(self) -> bool:
        """Whether the newest commit should have a value and has none; one that was skipped should not."""
        return self.last_status not in (Status.OK, Status.SKIPPED)


@dataclass(frozen=True, slots=True)
class PointBlock:
    """Consecutive points of a series as packed columns."""

    block: int
    levels: bytes
    details: bytes


RECORD_COLUMNS = tuple(POINTS.c[name] for name in SeriesPointsRecord.__dataclass_fields__)
STATUS_PLACE = [*SeriesPointsRecord.__dataclass_fields__].index("last_status")


class PlainResult(NamedTuple):
    """A result with how many processes it has, how many of these succeeded and how many are flagged."""

    series_id: int
    commit_id: int
    result_id: int
    status: str
    reason: str
    value: float | None
    ci_lo: float | None
    ci_hi: float | None
    q25: float | None
    q75: float | None
    level: float | None
    processes: int
    ok_processes: int
    flagged_processes: int

    @property
    def summary(self) -> SampleSummary:
        """What another tool gave in place of samples."""
        assert self.value is not None
        return SampleSummary(self.value, self.ci_lo, self.ci_hi, self.q25, self.q75)


def load_plain_results(tx: Session, commits: Mapping[int, Collection[int]]) -> Iterator[PlainResult]:
    """Load the results of series at some commits without samples, in no order.

    ``commits`` are the ids of the commits of each series, by series id.
    """
    ids = {commit_id for commit_ids in commits.values() for commit_id in commit_ids}
    columns = [RESULTS.c[name] for name in PlainResult._fields[3:11]]
    of_result = (RESULTS.c.series_id, RUNS.c.commit_id, RESULTS.c.id, *columns)
    counts = (
        sa.func.count(PROCESSES.c.id),
        sa.func.count(sa.case((PROCESSES.c.status == Status.OK.value, 1))),
        sa.func.count(sa.case((sa.type_coerce(PROCESSES.c.flags, sa.Text) != "[]", 1))),
    )
    query = restrict_to_history(sa.select(*of_result, *counts)).outerjoin(
        PROCESSES, PROCESSES.c.result_id == RESULTS.c.id
    )
    for some in in_chunks(commits):
        chosen = query.where(RESULTS.c.series_id.in_(some)).group_by(*of_result)
        if len(ids) <= CHUNK:  # of a whole history, nearly all results are needed
            chosen = chosen.where(RUNS.c.commit_id.in_(ids))
        for row in tx.connection().execute(chosen):
            if row[1] in commits[row[0]]:
                yield PlainResult(*row)


def load_series_points_records(
    tx: Session, series_ids: Collection[int] | None = None, *, project: str | None = None
) -> dict[int, SeriesPointsRecord]:
    """Load the records of series, or of a project, that hold, by series id.

    Left out are series whose points were never stored, those with newer results, and stale ones.
    """
    valid = sa.select(*RECORD_COLUMNS).where(POINTS.c.stale.is_(False), ~_newer_results_exist())
    queries = [valid]
    if project is not None:
        queries = [valid.where(project_id_condition(POINTS.c.project_id, project))]
    if series_ids is not None:
        queries = [
            query.where(POINTS.c.series_id.in_(some)) for query in queries for some in in_chunks(series_ids)
        ]
    records = {}
    for query in queries:
        for row in tx.connection().execute(query):
            values: list[Any] = [*row]
            values[STATUS_PLACE] = STATUSES[values[STATUS_PLACE]]
            records[row[0]] = SeriesPointsRecord(*values)
    return records


def load_point_blocks(tx: Session, series_ids: Collection[int]) -> dict[int, list[PointBlock]]:
    """Load the blocks of series in order; a series without any is left out."""
    query = sa.select(BLOCKS.c.series_id, BLOCKS.c.block, BLOCKS.c.levels, BLOCKS.c.details)
    blocks: dict[int, list[PointBlock]] = defaultdict(list)
    for some in in_chunks(series_ids):
        chosen = query.where(BLOCKS.c.series_id.in_(some)).order_by(BLOCKS.c.series_id, BLOCKS.c.block)
        for series_id, block, levels, details in tx.connection().execute(chosen):
            blocks[series_id].append(PointBlock(block, bytes(levels), bytes(details)))
    return blocks


def load_blocks_of_levels(tx: Session, series_ids: Collection[int]) -> dict[int, bytes]:
    """Load the levels of all points of series, without their details."""
    query = sa.select(BLOCKS.c.series_id, BLOCKS.c.levels)
    blocks: dict[int, list[bytes]] = defaultdict(list)
    for some in in_chunks(series_ids):
        chosen = query.where(BLOCKS.c.series_id.in_(some)).order_by(BLOCKS.c.series_id, BLOCKS.c.block)
        for series_id, levels in tx.connection().execute(chosen):
            blocks[series_id].append(levels)
    return {series_id: b"".join(parts) for series_id, parts in blocks.items()}


def find_series_without_valid_points(tx: Session, project_id: int, limit: int) -> list[int]:
    """Find series of a project with a history whose stored points do not hold, or that have none."""
    history = restrict_to_history(sa.select(ResultRow.id)).where(ResultRow.series_id == SeriesRow.id)
    valid = sa.select(POINTS.c.series_id).where(
        POINTS.c.series_id == SeriesRow.id, POINTS.c.stale.is_(False), ~_newer_results_exist()
    )
    query = (
        sa.select(SeriesRow.id)
        .join(BenchmarkRow, SeriesRow.benchmark_id == BenchmarkRow.id)
        .where(BenchmarkRow.project_id == project_id, ~valid.correlate(SeriesRow).exists())
        .where(history.correlate(SeriesRow).exists())
        .order_by(SeriesRow.id)
        .limit(limit)
    )
    return list(tx.scalars(query))


def find_series_of_same_processes(tx: Session, series_ids: Collection[int]) -> set[int]:
    """Find the series that the processes of some series also measured, these included."""
    other = SERIES.alias()
    names = ("benchmark_id", "parameters", "machine_id", "variant_id", "harness")
    query = sa.select(other.c.id).join(SERIES, sa.and_(*(SERIES.c[name] == other.c[name] for name in names)))
    return {
        row_id for some in in_chunks(series_ids) for row_id in tx.scalars(query.where(SERIES.c.id.in_(some)))
    }


def _newer_results_exist() -> sa.ColumnElement[bool]:
    newer = restrict_to_history(sa.select(ResultRow.id)).where(
        ResultRow.series_id == POINTS.c.series_id, ResultRow.id > POINTS.c.result_id
    )
    exists: sa.ColumnElement[bool] = newer.correlate(POINTS).exists()
    return exists
