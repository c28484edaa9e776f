"""Store the GitHub repositories whose jobs may write to projects. The caller owns the transaction ``tx``."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.access.ci_job_tokens import RUN_TOKENS
from perfci.store.tables.github import RepositoryRow
from perfci.store.tables.measurements import ProjectRow
from perfci.store.transactions import execute_and_count_rows

REPOSITORIES = RepositoryRow.__table__


@dataclass(frozen=True, slots=True)
class BoundRepository:
    """A repository bound to a project, by GitHub's numbers; ``slug`` is its last known name."""

    repository_id: int
    owner_id: int
    slug: str
    workflow: str
    environment: str
    history_refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProjectBinding:
    """A project and the repository it is bound to."""

    project_id: int
    repository: BoundRepository


def find_repository_of_project(tx: Session, project_id: int) -> BoundRepository | None:
    """Find the repository a project is bound to."""
    row = tx.execute(sa.select(*REPOSITORIES.c).where(REPOSITORIES.c.project_id == project_id)).first()
    return _build_repository(row) if row else None


def find_binding_of_project(tx: Session, slug: str) -> ProjectBinding | None:
    """Find a project and its repository by the project's name; None if either is missing."""
    query = sa.select(*REPOSITORIES.c).join(ProjectRow, REPOSITORIES.c.project_id == ProjectRow.id)
    row = tx.execute(query.where(ProjectRow.slug == slug)).first()
    return ProjectBinding(row.project_id, _build_repository(row)) if row else None


def has_any_binding(tx: Session) -> bool:
    """Whether any project is bound to a repository."""
    return tx.scalar(sa.select(sa.exists(sa.select(REPOSITORIES.c.project_id)))) or False


def load_bindings(tx: Session) -> list[ProjectBinding]:
    """Load all bindings of active projects, grouped by repository."""
    query = sa.select(*REPOSITORIES.c).join(ProjectRow, REPOSITORIES.c.project_id == ProjectRow.id)
    in_use = query.where(ProjectRow.archived_at.is_(None))
    rows = tx.execute(in_use.order_by(REPOSITORIES.c.repository_id, REPOSITORIES.c.project_id))
    return [ProjectBinding(row.project_id, _build_repository(row)) for row in rows]


def load_bindings_of_repository(tx: Session, repository_id: int) -> list[ProjectBinding]:
    """Load the bindings of the repository with this number."""
    bound = REPOSITORIES.c.repository_id == repository_id
    rows = tx.execute(sa.select(*REPOSITORIES.c).where(bound).order_by(REPOSITORIES.c.project_id))
    return [ProjectBinding(row.project_id, _build_repository(row)) for row in rows]


def repository_columns(repository: BoundRepository) -> dict[str, Any]:
    """Return the columns of a bound repository, which are also its fields in JSON."""
    return {
        "repository_id": repository.repository_id,
        "owner_id": repository.owner_id,
        "slug": repository.slug,
        "workflow": repository.workflow,
        "environment": repository.environment,
        "refs": repository.history_refs,
    }


def bind_repository(tx: Session, project_id: int, repository: BoundRepository, at: datetime) -> None:
    """Bind a project to a repository, replacing an earlier binding and ending its job tokens."""
    unbind_repository(tx, project_id)
    columns = repository_columns(repository) | {"project_id": project_id, "bound_at": at}
    tx.execute(sa.insert(REPOSITORIES), columns)


def unbind_repository(tx: Session, project_id: int) -> bool:
    """Remove a binding and its job tokens; return False if there was none."""
    tx.execute(sa.delete(RUN_TOKENS).where(RUN_TOKENS.c.project_id == project_id))
    return (
        execute_and_count_rows(tx, sa.delete(REPOSITORIES).where(REPOSITORIES.c.project_id == project_id))
        == 1
    )


def update_repository_slug(tx: Session, project_id: int, slug: str) -> None:
    """Update the name of a bound repository."""
    tx.execute(sa.update(REPOSITORIES).where(REPOSITORIES.c.project_id == project_id).values(slug=slug))


def _build_repository(row: Any) -> BoundRepository:
    return BoundRepository(
        row.repository_id, row.owner_id, row.slug, row.workflow, row.environment, tuple(row.refs)
    )
