"""One question to the store of this folder, or one change of it, about the project at hand."""

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
    config = current_config()
    with closing(open_store_to_write(config)) as store, store.begin() as tx:
        return operation(tx, _require_project(tx, config.project))


def read_from_project(operation: Callable[[Session, Project], T]) -> T:
    config = current_config()
    with closing(open_store_to_read(config)) as store, store.read() as tx:
        return operation(tx, _require_project(tx, config.project))


def _require_project(tx: Session, slug: str) -> Project:
    found = projects.find_project(tx, slug)
    if found is None:
        raise PerfciError(f"There is no project {slug} in this store.")
    return found


def local_audit_context() -> AuditContext:
    """Whoever sits at this machine, now."""
    return AuditContext(LOCAL, datetime.now(UTC))
