"""What GitHub told of runs of workflows, and what became of it. The caller owns the transaction ``tx``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.dialects import insert_or_ignore, rows_changed
from perfci.store.tables.github import RunEventRow
from perfci.store.tables.measurements import ProjectRow
from perfci.store.writes.row_ids import table

EVENTS = table(RunEventRow)

WAITING, DONE, FAILED = "waiting", "done", "failed"


@dataclass(frozen=True, slots=True)
class Told:
    """A message of GitHub about a run of a workflow, or about a pull request: somebody wants to have it accepted, or it
    was merged and announces something.
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
    told: Told
    received_at: datetime
    state: str
    attempts: int
    problem: str


def add(tx: Session, project_id: int, told: Told, at: datetime) -> bool:
    """Whether this is to be acted upon: it is new, or was given up and somebody had it told again."""
    columns = {name: getattr(told, name) for name in Told.__dataclass_fields__}
    waits = {"state": WAITING, "not_before": at}
    row = columns | waits | {"project_id": project_id, "received_at": at}
    if tx.scalar(insert_or_ignore(tx, RunEventRow, "id"), row) is not None:
        return True
    given_up = (EVENTS.c.delivery == told.delivery, EVENTS.c.project_id == project_id, EVENTS.c.state == FAILED)
    again = sa.update(EVENTS).where(*given_up).values(waits | {"attempts": 0, "problem": ""})
    return bool(rows_changed(tx, again))


def is_heard(tx: Session, project_id: int, number: int, action: str, since: datetime | None) -> bool:
    """Whether GitHub told this since then (or ever), whatever became of it."""
    about = [EVENTS.c.project_id == project_id, EVENTS.c.number == number, EVENTS.c.action == action]
    recent = [] if since is None else [EVENTS.c.received_at >= since]
    return tx.scalar(sa.select(EVENTS.c.id).where(*about, *recent).limit(1)) is not None


def due(tx: Session, now: datetime, limit: int) -> list[RunEvent]:
    """What is to be acted upon now, the oldest first."""
    return _events(tx, sa.and_(EVENTS.c.state == WAITING, EVENTS.c.not_before <= now), limit)


def given_up(tx: Session, limit: int = 100) -> list[RunEvent]:
    return _events(tx, EVENTS.c.state == FAILED, limit)


def end(tx: Session, event: RunEvent, problem: str = "") -> bool:
    """Done; ``problem`` says why there was nothing to do. False where somebody else was faster."""
    return _changed(tx, event, {"state": DONE, "problem": problem})


def put_off(tx: Session, event: RunEvent, problem: str, again_at: datetime | None) -> bool:
    """Another try later, or never."""
    state = {"state": FAILED} if again_at is None else {"not_before": again_at}
    return _changed(tx, event, {"attempts": event.attempts + 1, "problem": problem} | state)


def forget(tx: Session, before: datetime) -> int:
    """Delete what ended and was received long ago: GitHub tells it no more."""
    over = sa.and_(EVENTS.c.state != WAITING, EVENTS.c.received_at < before)
    return rows_changed(tx, sa.delete(EVENTS).where(over))


def _changed(tx: Session, event: RunEvent, columns: dict[str, Any]) -> bool:
    as_read = (EVENTS.c.id == event.id, EVENTS.c.state == WAITING, EVENTS.c.attempts == event.attempts)
    return bool(rows_changed(tx, sa.update(EVENTS).where(*as_read).values(columns)))


def _events(tx: Session, condition: sa.ColumnElement[bool], limit: int) -> list[RunEvent]:
    query = sa.select(*EVENTS.c, ProjectRow.slug).join(ProjectRow, EVENTS.c.project_id == ProjectRow.id)
    return [_event(row) for row in tx.execute(query.where(condition).order_by(EVENTS.c.id).limit(limit))]


def _event(row: Any) -> RunEvent:
    told = Told(row.delivery, row.installation, row.repository, row.number, row.action)
    return RunEvent(
        row.id, row.project_id, row.slug, told, row.received_at, row.state, row.attempts, row.problem
    )  # fmt: skip
