"""Run one read or write transaction on the current project of the local store."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy.orm import Session

from perfci.auth.permissions import LOCAL
from perfci.cli.shared.context import current_config, open_store_to_read, open_store_to_write
from perfci.model import PerfciError
from perfci.service.audit_context import AuditContext
from perfci.store import projects
from perfci.store.projects import Project

T = TypeVar("T")


def write_to_project(operation: Callable[[Session, Project], T]) -> T:
    """Run an operation in a write transaction and commit it."""
    config = current_config()
    with closing(open_store_to_write(config)) as store, store.begin() as tx:
        return operation(tx, _require_project(tx, config.project))


def read_from_project(operation: Callable[[Session, Project], T]) -> T:
    """Run an operation in a read transaction."""
    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        return operation(tx, _require_project(tx, config.project))


def _require_project(tx: Session, slug: str) -> Project:
    project = projects.find_project(tx, slug)
    if project is None:
        raise PerfciError(f"There is no project {slug} in this store.")
    return project


def local_audit_context() -> AuditContext:
    """The local user as the author of a change, now."""
    return AuditContext(LOCAL, datetime.now(UTC))
