"""Load what a pull request uploaded, and what runs of the main branch measured of the same series."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import Clock, NamedValues, Status
from perfci.store.column_conversions import CLOCKS, STATUSES, named_values_from_json
from perfci.store.queries.history_conditions import (
    HISTORY_KINDS,
    PULL_REQUEST_KIND,
    current_verdict_condition,
    project_id_condition,
    restrict_to_history,
)
from perfci.store.tables.measurements import CommitRow, ProcessRow, ResultRow, RunRow, SessionRow
from perfci.store.tables.verdicts import VerdictRow
from perfci.store.tables.work_queue_and_leases import OutboxRow
from perfci.store.transactions import in_chunks

PULL_REQUEST_FIELD, BASE_FIELD, BASE_POSITION_FIELD = "pull_request", "base", "base_position"
"""Fields of a run's origin: the number of its pull request, the commit of the main branch that this starts
from, and the place of that commit on the first-parent line."""

COMPARED_PULL_REQUEST_FIELD = "compared_pull_request"
"""The same of runs whose pairs already decide about it: they are never judged again as separate runs."""

RESULTS, RUNS, COMMITS, SESSIONS = (row.__table__ for row in (ResultRow, RunRow, CommitRow, SessionRow))
VERDICTS = VerdictRow.__table__


class PullRequestHead(NamedTuple):
    """A pull request by its number, and a commit of it that was measured."""

    number: str
    sha: str


class UploadedRun(NamedTuple):
    """A run that a pull request uploaded, with what it says of its base."""

    id: int
    session: str
    origin: NamedValues
    started_at: datetime
    suite: str
    machine_id: int
    variant_id: int


class RunResult(NamedTuple):
    """One result of a run: its level without its samples; ``clock`` is absent for a mere value."""

    id: int
    run_id: int
    series_id: int
    commit_id: int
    environment_id: int
    session: str
    origin: NamedValues
    started_at: datetime
    status: Status
    reason: str
    level: float | None
    clock: Clock | None
    spread: float | None

    @property
    def repeats_exactly(self) -> bool:
        """Whether all its samples are one exact value."""
        return self.clock is Clock.EXACT and self.spread == 0


def load_pull_request_heads(tx: Session, sessions: Collection[str]) -> list[PullRequestHead]:
    """Load which commits of which pull requests were uploaded in some sessions."""
    query = (
        sa.select(RunRow.origin, CommitRow.sha)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(SessionRow.kind == PULL_REQUEST_KIND, CommitRow.dirty.is_(False))
        .order_by(RunRow.id)
    )
    heads = [
        PullRequestHead(number, sha)
        for some in in_chunks(sessions)
        for origin, sha in tx.execute(query.where(SessionRow.uid.in_(some)))
        if (number := dict(named_values_from_json(origin)).get(PULL_REQUEST_FIELD, ""))
    ]
    return list(dict.fromkeys(heads))


def load_uploads_of_pull_request(
    tx: Session, project: str, number: str, sha: str | None = None
) -> dict[str, list[UploadedRun]]:
    """Load the valid runs that a pull request uploaded, by the sha they measured, in the order they came.

    Each run says itself which pull request it is of: those of another one never count, even at one commit.
    """
    query = (
        sa.select(
            RunRow.id,
            SessionRow.uid,
            RunRow.origin,
            RunRow.started_at,
            RunRow.suite,
            RunRow.machine_id,
            RunRow.variant_id,
            CommitRow.sha,
        )
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(
            project_id_condition(SessionRow.project_id, project),
            SessionRow.kind == PULL_REQUEST_KIND,
            CommitRow.dirty.is_(False),
            RunRow.invalid.is_(False),
        )
        .order_by(RunRow.id)
    )
    if sha is not None:
        query = query.where(CommitRow.sha == sha)
    uploads: dict[str, list[UploadedRun]] = {}
    for row_id, uid, values, started_at, *places, measured_sha in tx.execute(query):
        origin = named_values_from_json(values)
        if dict(origin).get(PULL_REQUEST_FIELD) == number:
            run = UploadedRun(row_id, uid, origin, started_at, *places)
            uploads.setdefault(measured_sha, []).append(run)
    return uploads


class PullRequestRecord(NamedTuple):
    """A pull request by its number, its newest measured commit, and the commit that it is compared with.

    ``base`` is empty where neither an upload nor a verdict names it.
    """

    number: str
    head: str
    base: str
    measured_at: datetime


MAX_DIGITS = 18

NEWEST_PULL_REQUEST_RUNS, NEWEST_VERDICTS = 1000, 5000
"""Runs and verdicts among which the newest pull requests are looked for: a list reads no whole history."""


def list_measured_pull_requests(
    tx: Session, project_id: int, *, number: str | None = None
) -> list[PullRequestRecord]:
    """List the pull requests that were measured last, the newest first; or that of one number.

    Its head is the newest commit that a verdict has as its head; without one, the newest that is no base.
    """
    bases = _load_newest_bases(tx, project_id)
    records: dict[str, PullRequestRecord] = {}
    for run in tx.execute(_select_pull_request_runs(project_id, number)):
        origin = dict(named_values_from_json(run.origin))
        of_run = origin.get(PULL_REQUEST_FIELD) or origin.get(COMPARED_PULL_REQUEST_FIELD, "")
        base = bases.get(run.sha) or origin.get(BASE_FIELD, "")
        is_number = of_run.isascii() and of_run.isdecimal() and len(of_run) < MAX_DIGITS
        if not is_number or number not in (None, of_run) or base == run.sha:
            continue
        newer = records.get(of_run)
        if newer is None or (run.sha in bases and newer.head not in bases):
            records[of_run] = PullRequestRecord(of_run, run.sha, base, run.started_at)
    return list(records.values())


def _select_pull_request_runs(project_id: int, number: str | None) -> sa.Select[Any]:
    query = (
        sa.select(RUNS.c.origin, RUNS.c.started_at, COMMITS.c.sha)
        .join(SESSIONS, RUNS.c.session_id == SESSIONS.c.id)
        .join(COMMITS, RUNS.c.commit_id == COMMITS.c.id)
        .where(SESSIONS.c.project_id == project_id, SESSIONS.c.kind == PULL_REQUEST_KIND)
        .order_by(RUNS.c.id.desc())
        .limit(NEWEST_PULL_REQUEST_RUNS)
    )
    if number is None:
        return query
    # The origin is a list in a column: its text finds candidates, the list decides.
    return query.where(sa.type_coerce(RUNS.c.origin, sa.Text).contains(f'"{number}"', autoescape=True))


def _load_newest_bases(tx: Session, project_id: int) -> dict[str, str]:
    """The base of the newest verdict on each commit, among the newest verdicts."""
    query = (
        sa.select(VERDICTS.c.head, VERDICTS.c.base)
        .where(VERDICTS.c.project_id == project_id, current_verdict_condition())
        .where(VERDICTS.c.head != VERDICTS.c.base)
        .order_by(VERDICTS.c.id.desc())
        .limit(NEWEST_VERDICTS)
    )
    bases: dict[str, str] = {}
    for head, base in tx.execute(query):
        bases.setdefault(head, base)
    return bases


def load_results_of_runs(tx: Session, run_ids: Collection[int]) -> list[RunResult]:
    """Load the valid results of some runs."""
    query = _select_results().where(RESULTS.c.invalid.is_(False)).select_from(_joined_results())
    return _read_results(tx, [query.where(RESULTS.c.run_id.in_(some)) for some in in_chunks(run_ids)])


def load_history_results(tx: Session, series_ids: Collection[int]) -> list[RunResult]:
    """Load the results that make up the histories of some series, run by run."""
    query = restrict_to_history(_select_results())
    return _read_results(tx, [query.where(RESULTS.c.series_id.in_(some)) for some in in_chunks(series_ids)])


def load_results_by_id(tx: Session, result_ids: Collection[int]) -> list[RunResult]:
    """Load some results by their ids, invalid ones too."""
    query = _select_results().select_from(_joined_results())
    return _read_results(tx, [query.where(RESULTS.c.id.in_(some)) for some in in_chunks(result_ids)])


def load_series_ids_measured_like(tx: Session, commit_id: int, runs: Sequence[UploadedRun]) -> set[int]:
    """Load the series of the main branch at a commit that the suites of these runs measured there, on their
    machines and variants."""
    places = {(run.suite, run.machine_id, run.variant_id) for run in runs}
    query = restrict_to_history(
        sa.select(RESULTS.c.series_id, RUNS.c.suite, RUNS.c.machine_id, RUNS.c.variant_id).distinct()
    ).where(RUNS.c.commit_id == commit_id)
    return {series_id for series_id, *place in tx.execute(query) if tuple(place) in places}


def load_history_commit_ids(tx: Session, project: str) -> list[int]:
    """Load the ids of the commits that a history of a project has runs of."""
    query = (
        sa.select(RunRow.commit_id)
        .join(SessionRow, RunRow.session_id == SessionRow.id)
        .join(CommitRow, RunRow.commit_id == CommitRow.id)
        .where(
            project_id_condition(SessionRow.project_id, project),
            SessionRow.kind.in_(HISTORY_KINDS),
            CommitRow.dirty.is_(False),
            RunRow.invalid.is_(False),
        )
        .distinct()
    )
    return list(tx.scalars(query))


def is_judging_pending(tx: Session, project: str, sessions: Collection[str]) -> bool:
    """Whether an upload of these sessions waits to be judged."""
    query = sa.select(OutboxRow.id).where(
        project_id_condition(OutboxRow.project_id, project), OutboxRow.kind == "judge_pr"
    )
    return any(
        tx.scalar(query.where(OutboxRow.subject.in_(some)).limit(1)) is not None
        for some in in_chunks(sessions)
    )


def load_process_ids_by_result(tx: Session, result_ids: Collection[int]) -> dict[int, list[int]]:
    """Load the ids of the processes of some results."""
    ids: dict[int, list[int]] = {}
    query = sa.select(ProcessRow.result_id, ProcessRow.id).order_by(ProcessRow.id)
    for some in in_chunks(result_ids):
        for result_id, row_id in tx.execute(query.where(ProcessRow.result_id.in_(some))):
            ids.setdefault(result_id, []).append(row_id)
    return ids


def _select_results() -> sa.Select[Any]:
    return sa.select(
        RESULTS.c.id,
        RESULTS.c.run_id,
        RESULTS.c.series_id,
        RUNS.c.commit_id,
        RUNS.c.environment_id,
        SESSIONS.c.uid,
        RUNS.c.origin,
        RUNS.c.started_at,
        RESULTS.c.status,
        RESULTS.c.reason,
        RESULTS.c.level,
        RESULTS.c.clock,
        RESULTS.c.spread,
        RESULTS.c.value,
    )


def _joined_results() -> Any:
    return RESULTS.join(RUNS, RESULTS.c.run_id == RUNS.c.id).join(
        SESSIONS, RUNS.c.session_id == SESSIONS.c.id
    )


def _read_results(tx: Session, queries: Sequence[sa.Select[Any]]) -> list[RunResult]:
    results = []
    for query in queries:
        for row in tx.connection().execute(query.order_by(RUNS.c.started_at, RESULTS.c.id)):
            # What has a summary without a level was measured with a disqualifying flag: it has no value.
            level = row.level if row.clock is not None and row.clock != "" else row.value
            results.append(
                RunResult(
                    row.id,
                    row.run_id,
                    row.series_id,
                    row.commit_id,
                    row.environment_id,
                    row.uid,
                    named_values_from_json(row.origin),
                    row.started_at,
                    STATUSES[row.status],
                    row.reason,
                    level,
                    CLOCKS[row.clock] if row.clock else None,
                    row.spread,
                )
            )
    return results
