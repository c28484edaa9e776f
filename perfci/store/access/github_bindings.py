"""Which repository's jobs may write to a project, and the tokens they were given. The caller owns ``tx``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.access.users import changed
from perfci.store.dialects import insert_or_ignore
from perfci.store.tables.github import RepositoryRow, RunTokenRow, UsedTokenRow
from perfci.store.tables.measurements import ProjectRow
from perfci.store.writes.row_ids import table

REPOSITORIES, USED, RUN_TOKENS = table(RepositoryRow), table(UsedTokenRow), table(RunTokenRow)


@dataclass(frozen=True, slots=True)
class Repository:
    """``slug`` is what the repository was called when it was last heard of; the numbers are what it is."""

    repository_id: int
    owner_id: int
    slug: str
    workflow: str
    environment: str
    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """A project and the repository it is bound to."""

    project_id: int
    repository: Repository


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


def repository_of(tx: Session, project_id: int) -> Repository | None:
    found = tx.execute(sa.select(*REPOSITORIES.c).where(REPOSITORIES.c.project_id == project_id)).first()
    return _repository(found) if found else None


def binding_of(tx: Session, slug: str) -> Binding | None:
    """The repository of the project of this name: one question, whether there is no project or it is not bound."""
    query = sa.select(*REPOSITORIES.c).join(ProjectRow, REPOSITORIES.c.project_id == ProjectRow.id)
    found = tx.execute(query.where(ProjectRow.slug == slug)).first()
    return Binding(found.project_id, _repository(found)) if found else None


def bindings(tx: Session) -> list[Binding]:
    """The projects in use that are bound to a repository, those of one repository together."""
    query = sa.select(*REPOSITORIES.c).join(ProjectRow, REPOSITORIES.c.project_id == ProjectRow.id)
    in_use = query.where(ProjectRow.archived_at.is_(None))
    found = tx.execute(in_use.order_by(REPOSITORIES.c.repository_id, REPOSITORIES.c.project_id))
    return [Binding(row.project_id, _repository(row)) for row in found]


def bindings_to(tx: Session, repository_id: int) -> list[Binding]:
    """The projects that are bound to the repository of this number."""
    bound = REPOSITORIES.c.repository_id == repository_id
    found = tx.execute(sa.select(*REPOSITORIES.c).where(bound).order_by(REPOSITORIES.c.project_id))
    return [Binding(row.project_id, _repository(row)) for row in found]


def bind(tx: Session, project_id: int, repository: Repository, at: datetime) -> None:
    """Bind a project, in the place of what it was bound to; tokens of jobs that were given before end."""
    unbind(tx, project_id)
    columns = {name: getattr(repository, name) for name in Repository.__dataclass_fields__}
    tx.execute(sa.insert(REPOSITORIES), columns | {"project_id": project_id, "bound_at": at})


def unbind(tx: Session, project_id: int) -> bool:
    """Whether it was bound; tokens that its jobs were given end with it."""
    tx.execute(sa.delete(RUN_TOKENS).where(RUN_TOKENS.c.project_id == project_id))
    return changed(tx, sa.delete(REPOSITORIES).where(REPOSITORIES.c.project_id == project_id)) == 1


def show_as(tx: Session, project_id: int, slug: str) -> None:
    """Take over the name that a bound repository has now."""
    tx.execute(sa.update(REPOSITORIES).where(REPOSITORIES.c.project_id == project_id).values(slug=slug))


def use_once(tx: Session, token_hash: str, expires_at: datetime) -> bool:
    """Whether this foreign token is used for the first time."""
    row = {"hash": token_hash, "expires_at": expires_at}
    return tx.scalar(insert_or_ignore(tx, UsedTokenRow, "id"), row) is not None


def forget_over(tx: Session, now: datetime) -> None:
    """Delete what ended by itself: nobody can use it any more."""
    for one in (USED, RUN_TOKENS):
        tx.execute(sa.delete(one).where(one.c.expires_at <= now))


def add_run_token(tx: Session, token: RunToken) -> None:
    tx.execute(sa.insert(RUN_TOKENS), {name: getattr(token, name) for name in TOKEN_FIELDS})


def run_token_of_hash(tx: Session, secret_hash: str) -> RunToken | None:
    columns = [RUN_TOKENS.c[name] for name in TOKEN_FIELDS]
    found: Sequence[Any] | None = tx.execute(sa.select(*columns).where(RUN_TOKENS.c.secret_hash == secret_hash)).first()
    return RunToken(*found) if found else None


def _repository(row: Any) -> Repository:
    return Repository(row.repository_id, row.owner_id, row.slug, row.workflow, row.environment, tuple(row.refs))
