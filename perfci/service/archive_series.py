"""Archive series and bring them back: audited, and incidents are derived again without or with them.

What an archived series measured stays, and what it measures from now on is stored; it leaves the overview,
lists, counts and incidents until somebody brings it back.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.orm import Session as Transaction

from perfci.model import PerfciError
from perfci.net.api_schemas.archived_series import ArchivedSeriesShape
from perfci.service.audit_context import AuditContext
from perfci.store.jobs.work_queue_and_leases import enqueue_work
from perfci.store.projects import Project, mark_projects_changed
from perfci.store.queries.paged_lists import find_series_by_identity
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.series_archive import ArchivedSeries, archive_series, bring_series_back

MAX_REASON_LENGTH = 500


@dataclass(frozen=True, slots=True)
class ArchiveTarget:
    """One series by its id, or all series of a benchmark by its name or of a machine by its label."""

    series: str = ""
    benchmark: str = ""
    machine: str = ""

    def __str__(self) -> str:
        if self.series:
            return f"series {self.series}"
        return f"benchmark {self.benchmark}" if self.benchmark else f"machine {self.machine}"


def set_archived(
    tx: Transaction, context: AuditContext, project: Project, target: ArchiveTarget, reason: str | None
) -> int:
    """Archive series for a reason, or with None bring them back; return how many changed.

    Raise where the project has none of that name.
    """
    text = _check_reason(reason)
    series_ids = _find_series_ids(tx, project, target)
    if not series_ids:
        raise PerfciError(f"{project.slug} has no {target}; nothing was changed.")
    if text is None:
        changed = bring_series_back(tx, series_ids)
    else:
        changed = archive_series(tx, project.id, series_ids, text, by=context.actor.name, at=context.at)
    if changed:
        action, detail = ("bring_back", {}) if text is None else ("archive", {"reason": text})
        context.add_audit_entry(tx, f"series.{action}", str(target), project.id, {"series": changed} | detail)
        enqueue_work(tx, project.id, "evaluate", ["archive"], context.at)
        mark_projects_changed(tx, [project.id])
    return changed


def serialize_archived_series(archived: ArchivedSeries) -> ArchivedSeriesShape:
    """Serialize an archived series as the API shows it."""
    series = archived.series
    return ArchivedSeriesShape(
        series=archived.series_identity,
        benchmark=series.benchmark.name,
        parameters=dict(series.parameters),
        metric=series.metric.name,
        machine=series.machine.label,
        variant=series.variant.label,
        reason=archived.reason,
        archived_by=archived.archived_by,
        archived_at=archived.archived_at,
    )


def _check_reason(reason: str | None) -> str | None:
    if reason is None:
        return None
    text = reason.strip()
    if not text or len(text) > MAX_REASON_LENGTH or not text.isprintable():
        raise PerfciError(
            f"A reason of one line with at most {MAX_REASON_LENGTH} characters is needed: "
            "why should nobody look at it any more?"
        )
    return text


def _find_series_ids(tx: Transaction, project: Project, target: ArchiveTarget) -> set[int]:
    if target.series:
        item = find_series_by_identity(tx, project.id, target.series)
        return {item.id} if item else set()
    return {
        row_id
        for row_id, series in load_project_series(tx, project.slug).items()
        if target.benchmark == series.benchmark.name or target.machine == series.machine.label
    }
