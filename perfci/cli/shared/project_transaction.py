"""One question to the store of this folder, or one change of it, about the project at hand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from typing import TypeVar

from sqlalchemy.orm import Session

from perfci.auth.permissions import LOCAL
from perfci.cli.shared.context import config_here, store_to_read, store_to_write
from perfci.model import PerfciError
from perfci.service.audit_context import AuditContext
from perfci.store import projects
from perfci.store.projects import Project

T = TypeVar("T")


def written(job: Callable[[Session, Project], T]) -> T:
    config = config_here()
    with closing(store_to_write(config)) as store, store.begin() as tx:
        return job(tx, _project(tx, config.project))


def read(job: Callable[[Session, Project], T]) -> T:
    config = config_here()
    with closing(store_to_read(config)) as store, store.read() as tx:
        return job(tx, _project(tx, config.project))


def _project(tx: Session, slug: str) -> Project:
    found = projects.project(tx, slug)
    if found is None:
        raise PerfciError(f"There is no project {slug} in this store.")
    return found


def by_me() -> AuditContext:
    """Whoever sits at this machine, now."""
    return AuditContext(LOCAL, datetime.now(UTC))
