"""Delete a run, a series or a project: recorded with an audit entry, carried out in short transactions."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Session

from perfci.auth.permissions import EVERY_PROJECT_ID
from perfci.service.audit_context import AuditContext
from perfci.store import Store
from perfci.store.access.users_and_roles import remove_all_members
from perfci.store.maintenance.delete_runs_series_projects import delete_next_batch, record_deletion_request
from perfci.store.projects import PRIVATE, Project, update_project
from perfci.store.queries.paged_lists import find_series_by_identity
from perfci.store.queries.runs_and_sessions import find_project_run_id

BATCHES_PER_CYCLE = 50
"""Batches between two looks at what has to be judged: about a second."""


def request_run_deletion(tx: Session, context: AuditContext, project: Project, key: str) -> bool:
    """Record the deletion of a run; return False if there is none."""
    run_id = find_project_run_id(tx, project.id, key)
    if run_id is None:
        return False
    record_deletion_request(tx, project.id, "run", run_id, context.at)
    context.add_audit_entry(tx, "run.delete", key, project.id)
    return True


def request_series_deletion(tx: Session, context: AuditContext, project: Project, identity: str) -> bool:
    """Record the deletion of a series; return False if there is none.

    Its name is not in the audit log, which keeps every line: it may be why the series is deleted.
    """
    series = find_series_by_identity(tx, project.id, identity)
    if series is None:
        return False
    record_deletion_request(tx, project.id, "series", series.id, context.at)
    context.add_audit_entry(tx, "series.delete", identity, project.id)
    return True


def request_project_deletion(tx: Session, context: AuditContext, project: Project) -> bool:
    """Record the deletion of a project, which from now on only admins of all projects see; return True.

    The lines of its audit log stay.
    """
    update_project(tx, project.id, visibility=PRIVATE, archived_at=context.at)
    remove_all_members(tx, project.id)
    record_deletion_request(tx, project.id, "project", project.id, context.at)
    for place in (project.id, EVERY_PROJECT_ID):
        context.add_audit_entry(tx, "project.delete", project.slug, place)
    return True


def carry_out_requested_deletions(store: Store, now: datetime) -> None:
    """Carry out all recorded deletions."""
    while _delete_batch(store, now):
        pass


class DeletionJob:
    """Periodic job of the judge worker that carries out some batches of the recorded deletions."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, now: datetime) -> None:
        for _ in range(BATCHES_PER_CYCLE):
            if not _delete_batch(self._store, now):
                return


def _delete_batch(store: Store, now: datetime) -> bool:
    with store.begin() as tx:
        return delete_next_batch(tx, now)
