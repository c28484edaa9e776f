"""Store projects: names, visibility and settings; every change of one promises a new version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import PerfciError
from perfci.store.tables.access import AuditRow
from perfci.store.tables.measurements import ProjectRow
from perfci.store.transactions import CHANGED_PROJECTS, build_insert_or_ignore

PUBLIC = "public"
PRIVATE = "private"

PROJECTS = ProjectRow.__table__
SELECT_PROJECTS = sa.select(
    PROJECTS.c.id,
    PROJECTS.c.slug,
    PROJECTS.c.visibility,
    PROJECTS.c.version,
    PROJECTS.c.settings,
    PROJECTS.c.archived_at.is_not(None),
)
SELECT_BY_SLUG = SELECT_PROJECTS.where(PROJECTS.c.slug == sa.bindparam("slug"))
"""Run for every request, so it is built once."""


@dataclass(frozen=True, slots=True)
class Project:
    """``version`` grows with everything that is stored for the project; ``settings`` beat those of the
    server.
    """

    id: int
    slug: str
    visibility: str
    version: int
    settings: Mapping[str, Any]
    archived: bool


def find_project(tx: Session, slug: str) -> Project | None:
    """Find a project by name."""
    row = tx.connection().execute(SELECT_BY_SLUG, {"slug": slug}).first()
    return None if row is None else Project(*row)


def load_projects(tx: Session) -> list[Project]:
    """Load all projects by name."""
    projects = (Project(*row) for row in tx.connection().execute(SELECT_PROJECTS))
    return sorted(projects, key=lambda project: project.slug)


def find_repository_slug(tx: Session, project_id: int) -> str:
    """The ``owner/name`` of the GitHub repository of a project; empty where none is stored."""
    return tx.scalar(sa.select(PROJECTS.c.repository).where(PROJECTS.c.id == project_id)) or ""


def create_project(tx: Session, slug: str, visibility: str, at: datetime) -> Project:
    """Add a project under a new name."""
    row = {
        "slug": slug,
        "visibility": _check_visibility(visibility),
        "created_at": at,
        **reserved_project_id_column(tx),
    }
    added = tx.scalar(build_insert_or_ignore(tx, ProjectRow, "id"), row)
    if added is None:
        raise PerfciError(f"There is a project {slug} already: name another one.")
    return Project(int(added), slug, visibility, version=0, settings={}, archived=False)


def reserved_project_id_column(tx: Session) -> dict[str, int]:
    """Return the id of a new project, empty where the database gives it.

    SQLite would give it that of a deleted project, whose lines stay in the audit log.
    """
    if tx.get_bind().dialect.name != "sqlite":
        return {}
    used = [tx.scalar(sa.select(sa.func.max(column))) or 0 for column in (PROJECTS.c.id, AuditRow.project_id)]
    return {"id": max(used) + 1}


def update_project(tx: Session, project_id: int, **columns: Any) -> None:
    """Update columns of a project: ``visibility``, ``settings``, ``archived_at`` and so on."""
    if "visibility" in columns:
        _check_visibility(columns["visibility"])
    tx.execute(sa.update(ProjectRow.__table__).where(ProjectRow.id == project_id).values(**columns))
    mark_projects_changed(tx, [project_id])


def mark_projects_changed(tx: Session, project_ids: Iterable[int]) -> None:
    """Mark projects as changed: their versions grow once, at the end of this transaction.

    ``Store.begin`` does so: all writers of a busy project contend for its row.
    """
    tx.info.setdefault(CHANGED_PROJECTS, set()).update(project_ids)


def _check_visibility(visibility: str) -> str:
    if visibility not in (PUBLIC, PRIVATE):
        raise PerfciError(f"A project is {PUBLIC} or {PRIVATE}, not {visibility!r}.")
    return visibility
