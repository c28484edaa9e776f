"""Mute benchmarks by hand."""

from __future__ import annotations

from datetime import timedelta

from sqlalchemy.orm import Session as Transaction

from perfci.service.audit_context import AuditContext
from perfci.store.incidents.expected_changes_and_mutes import add_mute, end_mute
from perfci.store.incidents.incident_records import Mute
from perfci.store.projects import Project

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
    context.add_audit_entry(tx, action, benchmark, project.id, {"days": days, "reason": reason})
    return is_changed
