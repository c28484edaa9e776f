"""Store GitHub's events about workflow runs and pull requests, and their outcome. The caller owns ``tx``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.tables.github import RunEventRow
from perfci.store.tables.measurements import ProjectRow
from perfci.store.transactions import build_insert_or_ignore, execute_and_count_rows

EVENTS = RunEventRow.__table__

WAITING, DONE, FAILED = "waiting", "done", "failed"


@dataclass(frozen=True, slots=True)
class GitHubEventPayload:
    """A GitHub event about a workflow run, or a pull request's comment, label or merge.

    Of what was judged here the number of the installation is not known: it is 0.
    """

    delivery: str
    installation: int
    repository: str
    number: int
    action: str


@dataclass(frozen=True, slots=True)
class StoredGitHubEvent:
    """A stored event of a project and its number of attempts."""

    id: int
    project_id: int
    project: str
    payload: GitHubEventPayload
    received_at: datetime
    state: str
    attempts: int
    problem: str


def add_github_event(tx: Session, project_id: int, payload: GitHubEventPayload, at: datetime) -> bool:
    """Add an event; return True if it is to be handled: new, or redelivered after it was given up."""
    columns = {name: getattr(payload, name) for name in GitHubEventPayload.__dataclass_fields__}
    waits = {"state": WAITING, "not_before": at}
    row = columns | waits | {"project_id": project_id, "received_at": at}
    if tx.scalar(build_insert_or_ignore(tx, RunEventRow, "id"), row) is not None:
        return True
    given_up = (
        EVENTS.c.delivery == payload.delivery,
        EVENTS.c.project_id == project_id,
        EVENTS.c.state == FAILED,
    )
    again = sa.update(EVENTS).where(*given_up).values(waits | {"attempts": 0, "problem": ""})
    return bool(execute_and_count_rows(tx, again))


def has_github_event(tx: Session, project_id: int, number: int, action: str, since: datetime | None) -> bool:
    """Whether an event was received since a moment (or ever), whatever its outcome."""
    about = [EVENTS.c.project_id == project_id, EVENTS.c.number == number, EVENTS.c.action == action]
    recent = [] if since is None else [EVENTS.c.received_at >= since]
    return tx.scalar(sa.select(EVENTS.c.id).where(*about, *recent).limit(1)) is not None


def load_due_github_events(tx: Session, now: datetime, limit: int) -> list[StoredGitHubEvent]:
    """Load the events that are due, oldest first."""
    return _load_github_events(tx, sa.and_(EVENTS.c.state == WAITING, EVENTS.c.not_before <= now), limit)


def load_failed_github_events(tx: Session, limit: int = 100) -> list[StoredGitHubEvent]:
    """Load the events that were given up."""
    return _load_github_events(tx, EVENTS.c.state == FAILED, limit)


def finish_github_event(tx: Session, event: StoredGitHubEvent, problem: str = "") -> bool:
    """Mark an event as done; ``problem`` says why nothing was done. Return False if another worker was
    first.
    """
    return _update_github_event(tx, event, {"state": DONE, "problem": problem})


def postpone_github_event(
    tx: Session, event: StoredGitHubEvent, problem: str, retry_at: datetime | None
) -> bool:
    """Record a failed attempt, with the time of the next one or none."""
    state = {"state": FAILED} if retry_at is None else {"not_before": retry_at}
    return _update_github_event(tx, event, {"attempts": event.attempts + 1, "problem": problem} | state)


def delete_old_github_events(tx: Session, before: datetime) -> int:
    """Delete finished events received before a moment: GitHub does not send those again."""
    over = sa.and_(EVENTS.c.state != WAITING, EVENTS.c.received_at < before)
    return execute_and_count_rows(tx, sa.delete(EVENTS).where(over))


def _update_github_event(tx: Session, event: StoredGitHubEvent, columns: dict[str, Any]) -> bool:
    as_read = (EVENTS.c.id == event.id, EVENTS.c.state == WAITING, EVENTS.c.attempts == event.attempts)
    return bool(execute_and_count_rows(tx, sa.update(EVENTS).where(*as_read).values(columns)))


def _load_github_events(
    tx: Session, condition: sa.ColumnElement[bool], limit: int
) -> list[StoredGitHubEvent]:
    query = sa.select(*EVENTS.c, ProjectRow.slug).join(ProjectRow, EVENTS.c.project_id == ProjectRow.id)
    events = []
    for row in tx.execute(query.where(condition).order_by(EVENTS.c.id).limit(limit)):
        payload = GitHubEventPayload(row.delivery, row.installation, row.repository, row.number, row.action)
        events.append(
            StoredGitHubEvent(
                id=row.id,
                project_id=row.project_id,
                project=row.slug,
                payload=payload,
                received_at=row.received_at,
                state=row.state,
                attempts=row.attempts,
                problem=row.problem,
            )
        )
    return events
