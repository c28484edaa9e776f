"""What GitHub told of runs of workflows, and what became of it. The caller owns the transaction ``tx``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.dialects import execute_rowcount, insert_or_ignore
from perfci.store.tables.base import core_table
from perfci.store.tables.github import RunEventRow
from perfci.store.tables.measurements import ProjectRow

EVENTS = core_table(RunEventRow)

WAITING, DONE, FAILED = "waiting", "done", "failed"


@dataclass(frozen=True, slots=True)
class RunEventPayload:
    """A message of GitHub about a run of a workflow, or about a pull request: somebody wants to have it
    accepted, or it was merged and announces something.
    """

    delivery: str
    installation: int
    repository: str
    number: int
    action: str


@dataclass(frozen=True, slots=True)
class RunEvent:
    """Such a message as it waits for a project, and how often it was tried to act upon it."""

    id: int
    project_id: int
    project: str
    payload: RunEventPayload
    received_at: datetime
    state: str
    attempts: int
    problem: str


def add_run_event(tx: Session, project_id: int, payload: RunEventPayload, at: datetime) -> bool:
    """Whether this is to be acted upon: it is new, or was given up and somebody had it told again."""
    columns = {name: getattr(payload, name) for name in RunEventPayload.__dataclass_fields__}
    waits = {"state": WAITING, "not_before": at}
    row = columns | waits | {"project_id": project_id, "received_at": at}
    if tx.scalar(insert_or_ignore(tx, RunEventRow, "id"), row) is not None:
        return True
    given_up = (
        EVENTS.c.delivery == payload.delivery,
        EVENTS.c.project_id == project_id,
        EVENTS.c.state == FAILED,
    )
    again = sa.update(EVENTS).where(*given_up).values(waits | {"attempts": 0, "problem": ""})
    return bool(execute_rowcount(tx, again))


def has_run_event(tx: Session, project_id: int, number: int, action: str, since: datetime | None) -> bool:
    """Whether GitHub told this since then (or ever), whatever became of it."""
    about = [EVENTS.c.project_id == project_id, EVENTS.c.number == number, EVENTS.c.action == action]
    recent = [] if since is None else [EVENTS.c.received_at >= since]
    return tx.scalar(sa.select(EVENTS.c.id).where(*about, *recent).limit(1)) is not None


def load_due_run_events(tx: Session, now: datetime, limit: int) -> list[RunEvent]:
    """What is to be acted upon now, the oldest first."""
    return _load_run_events(tx, sa.and_(EVENTS.c.state == WAITING, EVENTS.c.not_before <= now), limit)


def load_failed_run_events(tx: Session, limit: int = 100) -> list[RunEvent]:
    return _load_run_events(tx, EVENTS.c.state == FAILED, limit)


def finish_run_event(tx: Session, event: RunEvent, problem: str = "") -> bool:
    """Done; ``problem`` says why there was nothing to do. False where somebody else was faster."""
    return _update_run_event(tx, event, {"state": DONE, "problem": problem})


def postpone_run_event(tx: Session, event: RunEvent, problem: str, retry_at: datetime | None) -> bool:
    """Another try later, or never."""
    state = {"state": FAILED} if retry_at is None else {"not_before": retry_at}
    return _update_run_event(tx, event, {"attempts": event.attempts + 1, "problem": problem} | state)


def delete_old_run_events(tx: Session, before: datetime) -> int:
    """Delete what ended and was received long ago: GitHub tells it no more."""
    over = sa.and_(EVENTS.c.state != WAITING, EVENTS.c.received_at < before)
    return execute_rowcount(tx, sa.delete(EVENTS).where(over))


def _update_run_event(tx: Session, event: RunEvent, columns: dict[str, Any]) -> bool:
    as_read = (EVENTS.c.id == event.id, EVENTS.c.state == WAITING, EVENTS.c.attempts == event.attempts)
    return bool(execute_rowcount(tx, sa.update(EVENTS).where(*as_read).values(columns)))


def _load_run_events(tx: Session, condition: sa.ColumnElement[bool], limit: int) -> list[RunEvent]:
    query = sa.select(*EVENTS.c, ProjectRow.slug).join(ProjectRow, EVENTS.c.project_id == ProjectRow.id)
    return [
        _build_run_event(row) for row in tx.execute(query.where(condition).order_by(EVENTS.c.id).limit(limit))
    ]


def _build_run_event(row: Any) -> RunEvent:
    payload = RunEventPayload(row.delivery, row.installation, row.repository, row.number, row.action)
    return RunEvent(
        row.id, row.project_id, row.slug, payload, row.received_at, row.state, row.attempts, row.problem
    )
