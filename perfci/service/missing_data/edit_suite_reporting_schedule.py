"""Set the reporting schedule of a suite by hand."""

from __future__ import annotations

from sqlalchemy.orm import Session as Transaction

from perfci.service.audit_context import AuditContext
from perfci.store.incidents import reporting_schedules_and_run_arrivals
from perfci.store.projects import Project, mark_projects_changed


def set_suite_reporting_schedule(
    tx: Transaction,
    project: Project,
    number: int,
    context: AuditContext,
    *,
    every_s: float | None,
    muted: bool,
) -> bool:
    """Set the interval of a suite, None to learn it, or mute it; return False if there is no such suite."""
    actor = context.actor.name
    if not reporting_schedules_and_run_arrivals.set_reporting_schedule(
        tx, project.id, number, every_s=every_s, muted=muted, actor=actor
    ):
        return False
    detail = {"every_s": every_s, "muted": muted}
    context.add_audit_entry(tx, "reporting_schedule.set", str(number), project.id, detail)
    mark_projects_changed(tx, [project.id])
    return True
