"""Find and list runs and sessions. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections.abc import Collection
from itertools import groupby
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import (
    Commit,
    NamedValues,
    Status,
)
from perfci.store.column_conversions import named_values_from_json
from perfci.store.queries.history_conditions import HISTORY_KINDS, Condition, project_id_condition
from perfci.store.queries.invalid_marks import load_marks_of_runs
from perfci.store.queries.query_records import (
    RunRecord,
    SessionRecord,
)
from perfci.store.queries.series_commits_machines import (
    load_commits_by_id,
    load_environments_by_id,
    load_machines_by_id,
    load_variants_by_id,
    sort_commits,
)
from perfci.store.tables.measurements import (
    CommitRow,
    ResultRow,
    RunRow,
    SessionRow,
)


def find_run_id_by_key(tx: Session, key: str) -> int | None:
    """Find the id of a run by its key."""
    return tx.scalar(sa.select(RunRow.id).where(RunRow.key == key))


def load_session_run_ids(tx: Session, uid: str) -> list[int]:
    """Load the ids of the runs of a session in the order they started."""
    query = (
        sa.select(RunRow.id).join(SessionRow, RunRow.session_id == SessionRow.id).where(SessionRow.uid == uid)
    )
    return list(tx.scalars(query.order_by(RunRow.started_at, RunRow.id)))


def find_sessions_started_after(tx: Session, uid: str, others: Collection[str]) -> set[str]:
    """Find which of some other sessions started after this one."""
    mine = sa.select(SessionRow.started_at).where(SessionRow.uid == uid).scalar_subquery()
    return set(
        tx.scalars(sa.select(SessionRow.uid).where(SessionRow.uid.in_(others), SessionRow.started_at > mine))
    )


def load_run_origins_of_session(tx: Session, uid: str) -> list[NamedValues]:
    """Load the distinct origins of the runs of a session."""
    query = (
        sa.select(RunRow.origin)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(SessionRow.uid == uid)
    )
    return [named_values_from_json(row) for row in tx.scalars(query.distinct())]


def load_origins_of_results(tx: Session, series_id: int, sha: str) -> list[NamedValues]:
    """Load where the results of a series at a commit come from, newest first."""
    query = (
        sa.select(RunRow.origin)
        .join(ResultRow, ResultRow.run_id == RunRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(ResultRow.series_id == series_id, CommitRow.sha == sha)
        .order_by(RunRow.started_at.desc())
    )
    return list(dict.fromkeys(named_values_from_json(row) for row in tx.scalars(query)))


def load_history_run_ids(tx: Session, project: str) -> list[list[int]]:
    """Load the ids of the runs in a project's histories, oldest commit first.

    Runs of pull requests and A/A runs are in no history.
    """
    rows = tx.execute(
        sa.select(RunRow.id, RunRow.commit_id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .where(project_id_condition(SessionRow.project_id, project), SessionRow.kind.in_(HISTORY_KINDS))
        .order_by(RunRow.started_at, RunRow.id)
    ).all()
    commits = load_commits_by_id(tx, project_id_condition(CommitRow.project_id, project))
    ids = {commit: row_id for row_id, commit in commits.items()}
    place = {ids[commit]: number for number, commit in enumerate(sort_commits(ids))}
    ordered = sorted(rows, key=lambda row: place[row.commit_id])
    return [[row.id for row in of_commit] for _, of_commit in groupby(ordered, key=lambda row: row.commit_id)]


def load_run_ids_in_sha_order(tx: Session, project: str, max_results: int) -> list[list[int]]:
    """Load the ids of the runs in a project's histories by the sha of their commits.

    They come in parts of whole commits, of at most ``max_results`` results unless a single commit has more.
    """
    query = (
        sa.select(RunRow.id, RunRow.commit_id, sa.func.count(ResultRow.id).label("results"))
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .join(ResultRow, ResultRow.run_id == RunRow.id)
        .where(project_id_condition(SessionRow.project_id, project), SessionRow.kind.in_(HISTORY_KINDS))
        .group_by(RunRow.id, RunRow.commit_id, CommitRow.sha)
        .order_by(CommitRow.sha, RunRow.id)
    )
    parts: list[list[int]] = []
    results = 0
    for _, runs in groupby(tx.execute(query), key=lambda row: row.commit_id):
        of_commit = list(runs)
        results += sum(row.results for row in of_commit)
        if not parts or results > max_results:
            parts.append([])
            results = sum(row.results for row in of_commit)
        parts[-1].extend(row.id for row in of_commit)
    return parts


def load_runs_of_commit(tx: Session, project: str, sha: str) -> list[RunRecord]:
    """Load the runs of a commit, newest first, with the number of failed results."""
    return _load_runs(tx, project_id_condition(CommitRow.project_id, project), CommitRow.sha == sha)


def find_run(tx: Session, project: str, key: str) -> RunRecord | None:
    """Find a run of a project by its key."""
    return next(
        iter(_load_runs(tx, project_id_condition(CommitRow.project_id, project), RunRow.key == key)), None
    )


def load_run_commit_and_origin(tx: Session, run_id: int) -> tuple[Commit, NamedValues]:
    """Load the commit that a run measured, and which job uploaded it."""
    row = tx.execute(sa.select(RunRow.commit_id, RunRow.origin).where(RunRow.id == run_id)).one()
    return load_commits_by_id(tx, ids=[row.commit_id])[row.commit_id], named_values_from_json(row.origin)


def _load_runs(tx: Session, *conditions: Condition) -> list[RunRecord]:
    """Load the runs that meet all conditions, newest first."""
    results = sa.select(sa.func.count(ResultRow.id)).where(ResultRow.run_id == RunRow.id)
    failed = results.where(ResultRow.status.not_in([Status.OK.value, Status.SKIPPED.value]))
    query = (
        sa.select(
            *RunRow.__table__.c,
            SessionRow.uid.label("session_uid"),
            results.correlate(RunRow).scalar_subquery().label("results"),
            failed.correlate(RunRow).scalar_subquery().label("failed"),
        )
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(*conditions)
        .order_by(RunRow.started_at.desc(), RunRow.id.desc())
    )
    rows = tx.execute(query).all()
    environments = load_environments_by_id(tx, {row.environment_id for row in rows})
    machines, variants = load_machines_by_id(tx), load_variants_by_id(tx)
    marks = load_marks_of_runs(tx, [row.id for row in rows])
    return [
        RunRecord(
            id=row.id,
            key=row.key,
            session_uid=row.session_uid,
            machine=machines[row.machine_id],
            environment=environments[row.environment_id],
            variant=variants[row.variant_id],
            suite=row.suite,
            harness=row.harness,
            started_at=row.started_at,
            finished_at=row.finished_at,
            results=row.results,
            failed=row.failed,
            invalid=marks.get((row.id, None)),
        )
        for row in rows
    ]


def load_sessions(tx: Session, project: str) -> list[SessionRecord]:
    """Load the sessions of a project, newest first."""
    query = sa.select(*SessionRow.__table__.c).where(project_id_condition(SessionRow.project_id, project))
    newest_first = query.order_by(SessionRow.started_at.desc(), SessionRow.id.desc())
    return [build_session_record(row, project) for row in tx.execute(newest_first)]


def build_session_record(row: Any, project: str) -> SessionRecord:
    """Build a session record from a row of ``sessions``."""
    return SessionRecord(
        uid=row.uid,
        project=project,
        kind=row.kind,
        spec_hash=row.spec_hash,
        seed=int(row.seed),
        rounds=row.rounds,
        state=row.state,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def find_project_run_id(tx: Session, project_id: int, key: str) -> int | None:
    """Find a run of a project by its key."""
    query = sa.select(RunRow.id).join(SessionRow, RunRow.session_id == SessionRow.id)
    return tx.scalar(query.where(SessionRow.project_id == project_id, RunRow.key == key))
