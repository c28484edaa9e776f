"""Audit context of a change: the actor, the time and the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from perfci.auth.permissions import Actor
from perfci.store.access import audit_log

SYSTEM_ACTOR = "perfci"
"""The actor name of changes that perfci itself makes."""


@dataclass(frozen=True, slots=True)
class AuditContext:
    """The actor, time and request of a change, as the audit log and the incident history keep them."""

    actor: Actor
    at: datetime
    request_id: str = ""

    def add_audit_entry(
        self, tx: Session, action: str, subject: str, project_id: int, detail: Mapping[str, Any] | None = None
    ) -> None:
        """Write one entry of the audit log."""
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
