"""Load the results of runs without samples, and find the commits and runs that a comparison reads."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Commit, ResultSummary, Status
from perfci.store.column_conversions import CLOCKS, STATUSES
from perfci.store.queries.history_conditions import HISTORY_KINDS
from perfci.store.queries.series_commits_machines import load_commits_by_id, sort_commits
from perfci.store.tables.measurements import CommitRow, ResultRow, RunRow, SessionRow
from perfci.store.transactions import CHUNK, in_chunks

RESULTS, RUNS, COMMITS, SESSIONS = (row.__table__ for row in (ResultRow, RunRow, CommitRow, SessionRow))


class StoredRunResult(NamedTuple):
    """One result of a run; ``summary`` is None until it is computed, ``value`` that without samples."""

    id: int
    series_id: int
    status: Status
    reason: str
    value: float | None
    summary: ResultSummary | None


def load_results_of_runs(
    tx: Session, run_ids: Collection[int], series_ids: Collection[int] | None = None
) -> list[StoredRunResult]:
    """Load the valid results of some runs, or of some series in them, by id."""
    columns = (
        RESULTS.c.id,
        RESULTS.c.series_id,
        RESULTS.c.status,
        RESULTS.c.reason,
        RESULTS.c.value,
        RESULTS.c.level,
        RESULTS.c.clock,
        RESULTS.c.spread,
    )
    query = sa.select(*columns).where(RESULTS.c.invalid.is_(False)).order_by(RESULTS.c.id)
    if series_ids is not None and len(series_ids) <= CHUNK:
        query = query.where(RESULTS.c.series_id.in_(series_ids))
    return [
        StoredRunResult(
            row.id,
            row.series_id,
            STATUSES[row.status],
            row.reason,
            row.value,
            ResultSummary(row.level, CLOCKS[row.clock], row.spread) if row.clock else None,
        )
        for some in in_chunks(run_ids)
        for row in tx.connection().execute(query.where(RESULTS.c.run_id.in_(some)))
        if series_ids is None or row.series_id in series_ids
    ]


class PlainLevel(NamedTuple):
    """The level of a result that needs no look at its processes."""

    series_id: int
    level: float
    clock: str


def load_plain_levels(tx: Session, run_ids: Collection[int]) -> list[PlainLevel]:
    """Load the levels of the valid results of some runs that have one, in no order."""
    query = sa.select(RESULTS.c.series_id, RESULTS.c.level, RESULTS.c.clock).where(_is_plain())
    rows: list[Any] = []
    for some in in_chunks(run_ids):
        rows += tx.connection().execute(query.where(RESULTS.c.run_id.in_(some))).all()
    return rows


def load_series_of_other_results(tx: Session, run_ids: Collection[int]) -> tuple[set[int], set[int]]:
    """Load the ids of the series of which some runs have a result that is not plain: a valid one, and one
    that is marked invalid."""
    is_invalid = sa.or_(RESULTS.c.invalid, RUNS.c.invalid)
    query = sa.select(RESULTS.c.series_id, is_invalid).join(RUNS, RESULTS.c.run_id == RUNS.c.id)
    other = query.where(sa.or_(is_invalid, ~_is_plain()))
    valid: set[int] = set()
    invalid: set[int] = set()
    for some in in_chunks(run_ids):
        for row_id, is_marked in tx.connection().execute(other.where(RESULTS.c.run_id.in_(some))):
            (invalid if is_marked else valid).add(row_id)
    return valid, invalid


def _is_plain() -> sa.ColumnElement[bool]:
    """Build the condition that a result is valid, ended well and has a summary with a level."""
    return sa.and_(
        RESULTS.c.invalid.is_(False),
        RESULTS.c.status == Status.OK.value,
        RESULTS.c.level.is_not(None),
        sa.func.coalesce(RESULTS.c.clock, "") != "",
    )


class Place(NamedTuple):
    """A machine and a variant by their ids; None stands for any."""

    machine_id: int | None = None
    variant_id: int | None = None


ANYWHERE = Place()


def find_newest_measured_commit(
    tx: Session,
    project_id: int,
    places: Collection[Place] = (ANYWHERE,),
    *,
    branch: str | None = None,
    tag: str | None = None,
    series_ids: Collection[int] = (),
) -> Commit | None:
    """Find the newest commit of the history that was measured at each of these places.

    With ``series_ids``, one that has a result of any of these series.

    Newest by the place on the first-parent line, else by the date.
    """
    query = (
        sa.select(COMMITS.c.id, COMMITS.c.tags)
        .where(COMMITS.c.project_id == project_id, COMMITS.c.dirty.is_(False))
        .where(*(_was_measured_at(place) for place in places))
        .order_by(COMMITS.c.position.desc().nulls_last(), COMMITS.c.committed_at.desc().nulls_last())
        .order_by(COMMITS.c.id.desc())
    )
    if series_ids:
        query = query.where(_has_result_of(series_ids))
    if branch is not None:
        query = query.where(COMMITS.c.branch == branch)
    if tag is not None:
        # Tags are a list in a column: its text finds candidates, the list decides.
        query = query.where(sa.type_coerce(COMMITS.c.tags, sa.Text).contains(tag, autoescape=True))
        commit_id = next((row.id for row in tx.execute(query) if tag in row.tags), None)
    else:
        commit_id = tx.scalar(query.limit(1))
    return next(iter(load_commits_by_id(tx, ids=[commit_id]).values())) if commit_id is not None else None


def load_commits_between(
    tx: Session, project_id: int, base: Commit, head: Commit, limit: int
) -> tuple[list[Commit], int]:
    """Load the commits after base up to head, newest first, at most ``limit`` of them, and their number.

    By place on the first-parent line, else by date; none where head does not follow base.
    """
    by_place = base.position is not None and head.position is not None
    column = COMMITS.c.position if by_place else COMMITS.c.committed_at
    first, last = (base.position, head.position) if by_place else (base.committed_at, head.committed_at)
    if first is None or last is None:
        return [], 0
    between = (
        COMMITS.c.project_id == project_id,
        COMMITS.c.dirty.is_(False),
        column > first,
        column <= last,
    )
    count = tx.scalar(sa.select(sa.func.count()).select_from(COMMITS).where(*between)) or 0
    newest = sa.select(COMMITS.c.id).where(*between).order_by(column.desc(), COMMITS.c.id.desc()).limit(limit)
    return sort_commits(load_commits_by_id(tx, ids=list(tx.scalars(newest))).values())[::-1], count


def load_run_ids_at_place(tx: Session, project_id: int, sha: str, place: Place = ANYWHERE) -> list[int]:
    """Load the ids of the valid runs that the history has of a commit at a place."""
    query = (
        _select_history_runs(place)
        .join(COMMITS, RUNS.c.commit_id == COMMITS.c.id)
        .where(COMMITS.c.project_id == project_id, COMMITS.c.sha == sha, COMMITS.c.dirty.is_(False))
    )
    return list(tx.scalars(query.order_by(RUNS.c.id)))


def _was_measured_at(place: Place) -> sa.ColumnElement[bool]:
    """Build the condition that a commit has a valid run of the history at a place."""
    return _select_history_runs(place).where(RUNS.c.commit_id == COMMITS.c.id).correlate(COMMITS).exists()


def _has_result_of(series_ids: Collection[int]) -> sa.ColumnElement[bool]:
    """Build the condition that a commit has a valid result of the history of one of some series."""
    results = sa.select(RESULTS.c.id).where(
        RESULTS.c.run_id == RUNS.c.id, RESULTS.c.invalid.is_(False), RESULTS.c.series_id.in_(series_ids)
    )
    runs = _select_history_runs(ANYWHERE).where(RUNS.c.commit_id == COMMITS.c.id)
    return runs.where(results.correlate(RUNS).exists()).correlate(COMMITS).exists()


def _select_history_runs(place: Place) -> sa.Select[tuple[int]]:
    query = (
        sa.select(RUNS.c.id)
        .join(SESSIONS, RUNS.c.session_id == SESSIONS.c.id)
        .where(SESSIONS.c.kind.in_(HISTORY_KINDS), RUNS.c.invalid.is_(False))
    )
    if place.machine_id is not None:
        query = query.where(RUNS.c.machine_id == place.machine_id)
    if place.variant_id is not None:
        query = query.where(RUNS.c.variant_id == place.variant_id)
    return query
