"""What people say is not to be told: benchmarks in quarantine, and reports that come otherwise than was learned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.service.audit_context import AuditContext
from perfci.store.access import audit_log
from perfci.store.incidents.mutes import release, suspend
from perfci.store.incidents.records import Suspension
from perfci.store.incidents.reporting_schedules import set_expectation
from perfci.store.projects import Project, touch

BY_HAND = "quarantined by hand"


def quarantine(
    tx: Transaction, project: Project, benchmark: str, metric: str, by: AuditContext, *, days: int, reason: str = ""
) -> bool:
    """Watch a benchmark without telling anybody for some days; 0 let it out, and False says that it was not in."""
    if days:
        until = by.at + timedelta(days=days)
        wanted = Suspension(benchmark, metric, 0.0, reason or BY_HAND, by.at, until, by.actor.name)
        suspend(tx, project.id, wanted)
        found = True
    else:
        found = release(tx, project.id, benchmark, metric, by.at)
    _record(tx, project, "benchmark.quarantine", benchmark, by, {"days": days, "reason": reason})
    return found


def expect(
    tx: Transaction, project: Project, number: int, by: AuditContext, *, every_s: float | None, muted: bool
) -> bool:
    """Say how often a suite reports, nothing to let it be learned, or that nothing is expected; False for no such."""
    if not set_expectation(tx, project.id, number, every_s=every_s, muted=muted, actor=by.actor.name):
        return False
    _record(tx, project, "expectation.set", str(number), by, {"every_s": every_s, "muted": muted})
    touch(tx, [project.id])
    return True


def _record(
    tx: Transaction, project: Project, action: str, subject: str, by: AuditContext, detail: Mapping[str, Any]
) -> None:
    audit_log.record(
        tx, by.actor.name, action, subject, at=by.at, project_id=project.id, detail=detail, request_id=by.request_id
    )
