"""Who changes something, when, and in which request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from perfci.auth.permissions import Actor
from perfci.store.access import audit_log


@dataclass(frozen=True, slots=True)
class AuditContext:
    """The actor of a change, its time and its request: what the audit log and the history of an incident keep."""

    actor: Actor
    at: datetime
    request_id: str = ""

    def record(
        self, tx: Session, action: str, subject: str, project_id: int, detail: Mapping[str, Any] | None = None
    ) -> None:
        """Write one line of the audit log."""
        audit_log.add_entry(
            tx,
            self.actor.name,
            action,
            subject,
            at=self.at,
            project_id=project_id,
            detail=detail,
            request_id=self.request_id,
        )
