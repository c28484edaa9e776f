"""Mute benchmarks and set reporting schedules by hand."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy.orm import Session as Transaction

from perfci.service.audit_context import AuditContext
from perfci.store.incidents import reporting_schedules
from perfci.store.incidents.exemptions import add_mute, end_mute
from perfci.store.incidents.records import Mute
from perfci.store.projects import Project, mark_changed

MANUAL_MUTE_REASON = "muted by hand"


def mute_benchmark(
    tx: Transaction,
    project: Project,
    benchmark: str,
    metric: str,
    context: AuditContext,
    *,
    days: int,
    reason: str = "",
) -> bool:
    """Mute a benchmark for some days, or unmute it for 0; return False if it was not muted."""
    if days:
        until = context.at + timedelta(days=days)
        actor = context.actor.name
        mute = Mute(benchmark, metric, 0.0, reason or MANUAL_MUTE_REASON, context.at, until, actor)
        add_mute(tx, project.id, mute)
        is_changed = True
    else:
        is_changed = end_mute(tx, project.id, benchmark, metric, context.at)
    action = "benchmark.mute" if days else "benchmark.unmute"
    context.record(tx, action, benchmark, project.id, {"days": days, "reason": reason})
    return is_changed


def set_reporting_schedule(
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
    if not reporting_schedules.set_reporting_schedule(
        tx, project.id, number, every_s=every_s, muted=muted, actor=actor
    ):
        return False
    detail = {"every_s": every_s, "muted": muted}
    context.record(tx, "reporting_schedule.set", str(number), project.id, detail)
    mark_changed(tx, [project.id])
    return True
