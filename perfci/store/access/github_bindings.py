"""Which repository's jobs may write to a project, and the tokens they were given. The caller owns ``tx``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.dialects import execute_rowcount, insert_or_ignore
from perfci.store.tables.base import core_table
from perfci.store.tables.github import RepositoryRow, RunTokenRow, UsedTokenRow
from perfci.store.tables.measurements import ProjectRow

REPOSITORIES, USED_TOKENS, RUN_TOKENS = (
    core_table(RepositoryRow),
    core_table(UsedTokenRow),
    core_table(RunTokenRow),
)


@dataclass(frozen=True, slots=True)
class BoundRepository:
    """``slug`` is what the repository was called when it was last heard of; the numbers are what it is."""

    repository_id: int
    owner_id: int
    slug: str
    workflow: str
    environment: str
    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProjectBinding:
    """A project and the repository it is bound to."""

    project_id: int
    repository: BoundRepository


@dataclass(frozen=True, slots=True)
class RunToken:
    """What is known of the token of one job: everything but the token."""

    uid: str
    project_id: int
    run_id: str
    attempt: int
    sha: str
    event: str
    pull_request: int | None
    baseline: bool
    expires_at: datetime
    secret_hash: str = field(default="", repr=False)


TOKEN_FIELDS = tuple(RunToken.__dataclass_fields__)


def find_bound_repository(tx: Session, project_id: int) -> BoundRepository | None:
    row = tx.execute(sa.select(*REPOSITORIES.c).where(REPOSITORIES.c.project_id == project_id)).first()
    return _build_repository(row) if row else None


def find_binding(tx: Session, slug: str) -> ProjectBinding | None:
    """The repository of the project of this name: one question, whether there is no project or it is not
    bound.
    """
    query = sa.select(*REPOSITORIES.c).join(ProjectRow, REPOSITORIES.c.project_id == ProjectRow.id)
    row = tx.execute(query.where(ProjectRow.slug == slug)).first()
    return ProjectBinding(row.project_id, _build_repository(row)) if row else None


def load_bindings(tx: Session) -> list[ProjectBinding]:
    """The projects in use that are bound to a repository, those of one repository together."""
    query = sa.select(*REPOSITORIES.c).join(ProjectRow, REPOSITORIES.c.project_id == ProjectRow.id)
    in_use = query.where(ProjectRow.archived_at.is_(None))
    rows = tx.execute(in_use.order_by(REPOSITORIES.c.repository_id, REPOSITORIES.c.project_id))
    return [ProjectBinding(row.project_id, _build_repository(row)) for row in rows]


def load_bindings_of_repository(tx: Session, repository_id: int) -> list[ProjectBinding]:
    """The projects that are bound to the repository of this number."""
    bound = REPOSITORIES.c.repository_id == repository_id
    rows = tx.execute(sa.select(*REPOSITORIES.c).where(bound).order_by(REPOSITORIES.c.project_id))
    return [ProjectBinding(row.project_id, _build_repository(row)) for row in rows]


def bind_repository(tx: Session, project_id: int, repository: BoundRepository, at: datetime) -> None:
    """Bind a project, in the place of what it was bound to; tokens of jobs that were given before end."""
    unbind_repository(tx, project_id)
    columns = {name: getattr(repository, name) for name in BoundRepository.__dataclass_fields__}
    tx.execute(sa.insert(REPOSITORIES), columns | {"project_id": project_id, "bound_at": at})


def unbind_repository(tx: Session, project_id: int) -> bool:
    """Whether it was bound; tokens that its jobs were given end with it."""
    tx.execute(sa.delete(RUN_TOKENS).where(RUN_TOKENS.c.project_id == project_id))
    return execute_rowcount(tx, sa.delete(REPOSITORIES).where(REPOSITORIES.c.project_id == project_id)) == 1


def set_repository_slug(tx: Session, project_id: int, slug: str) -> None:
    """Take over the name that a bound repository has now."""
    tx.execute(sa.update(REPOSITORIES).where(REPOSITORIES.c.project_id == project_id).values(slug=slug))


def mark_token_used(tx: Session, token_hash: str, expires_at: datetime) -> bool:
    """Whether this foreign token is used for the first time."""
    row = {"hash": token_hash, "expires_at": expires_at}
    return tx.scalar(insert_or_ignore(tx, UsedTokenRow, "id"), row) is not None


def delete_expired_tokens(tx: Session, now: datetime) -> None:
    """Delete what ended by itself: nobody can use it any more."""
    for table in (USED_TOKENS, RUN_TOKENS):
        tx.execute(sa.delete(table).where(table.c.expires_at <= now))


def add_run_token(tx: Session, token: RunToken) -> None:
    tx.execute(sa.insert(RUN_TOKENS), {name: getattr(token, name) for name in TOKEN_FIELDS})


def find_run_token(tx: Session, secret_hash: str) -> RunToken | None:
    columns = [RUN_TOKENS.c[name] for name in TOKEN_FIELDS]
    row: Sequence[Any] | None = tx.execute(
        sa.select(*columns).where(RUN_TOKENS.c.secret_hash == secret_hash)
    ).first()
    return RunToken(*row) if row else None


def _build_repository(row: Any) -> BoundRepository:
    return BoundRepository(
        row.repository_id, row.owner_id, row.slug, row.workflow, row.environment, tuple(row.refs)
    )
