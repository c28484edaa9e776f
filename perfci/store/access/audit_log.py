"""Store the audit log. Each entry is written in the transaction that makes the change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.column_conversions import ABSENT, EPOCH, MILLISECOND
from perfci.store.tables.access import AuditRow
from perfci.store.transactions import execute_on_driver


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """``actor`` is 'token:ab12cd34ef56', 'user:github/123', 'local' or 'perfci'; ``action`` such as
    'token.create'.
    """

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    request_id: str = ""


def add_entry(
    tx: Session,
    actor: str,
    action: str,
    subject: str,
    *,
    at: datetime,
    project_id: int = ABSENT,
    detail: Mapping[str, Any] | None = None,
    request_id: str = "",
) -> None:
    """Append an entry; ``detail`` holds the values before and after, never a secret."""
    row = {
        "at": at,
        "project_id": project_id,
        "actor": actor,
        "action": action,
        "subject": subject,
        "detail": dict(detail or {}),
        "request_id": request_id,
    }
    tx.execute(sa.insert(AuditRow.__table__), row)


def list_entries(
    tx: Session, project_id: int, *, before: int | None = None, limit: int = 100
) -> Sequence[AuditEntry]:
    """List the entries of a project, newest first, below the id ``before``; ABSENT lists the server's own."""
    columns = AuditRow.__table__.c
    query = (
        sa.select(*columns).where(columns.project_id == project_id).order_by(columns.id.desc()).limit(limit)
    )
    if before is not None:
        query = query.where(columns.id < before)
    return [
        AuditEntry(row.id, row.at, row.actor, row.action, row.subject, row.detail, row.request_id)
        for row in tx.execute(query)
    ]


def has_entry_since(tx: Session, project_id: int, actor: str, action: str, since: datetime) -> bool:
    """Whether such an entry exists since a moment: frequent actions are logged once a day."""
    same = "project_id = ? AND actor = ? AND action = ? AND at >= ?"
    query = f"SELECT id FROM audit WHERE {same} ORDER BY id DESC LIMIT 1"
    since_ms = (since - EPOCH) // MILLISECOND
    return execute_on_driver(tx, query, (project_id, actor, action, since_ms)).fetchone() is not None
