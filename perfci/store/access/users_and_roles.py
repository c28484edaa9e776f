"""Store users and their roles in projects. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.tables.access import MembershipRow, UserRow
from perfci.store.transactions import build_insert_or_ignore, execute_and_count_rows

USERS, MEMBERSHIPS = UserRow.__table__, MembershipRow.__table__


@dataclass(frozen=True, slots=True)
class User:
    """A user; ``provider`` and ``subject`` identify the person, since names can change owners."""

    id: int
    provider: str
    subject: str
    name: str
    disabled: bool

    @property
    def external_identity(self) -> str:
        """The permanent identity: provider and the provider's number for the user."""
        return f"{self.provider}/{self.subject}"

    @property
    def audit_name(self) -> str:
        """The name of this user in the audit log."""
        return f"user:{self.external_identity}"


@dataclass(frozen=True, slots=True)
class ProjectMember:
    """A user with a role in a project."""

    user: User
    role: str


def find_user(tx: Session, provider: str, subject: str) -> User | None:
    """Find a user by the provider's number."""
    row = tx.execute(
        sa.select(*USERS.c).where(USERS.c.provider == provider, USERS.c.subject == subject)
    ).first()
    return build_user(row) if row else None


def ensure_user(tx: Session, provider: str, subject: str, name: str, at: datetime) -> User:
    """Find or add a user by the provider's number, updating a changed name."""
    stored_user = find_user(tx, provider, subject)
    if stored_user is None:
        tx.execute(
            build_insert_or_ignore(tx, UserRow),
            {"provider": provider, "subject": subject, "name": name, "created_at": at},
        )
    elif name and stored_user.name != name:
        tx.execute(sa.update(USERS).where(USERS.c.id == stored_user.id).values(name=name))
    user = find_user(tx, provider, subject)
    assert user is not None
    return user


def load_roles_by_project(tx: Session, user_id: int) -> dict[int, str]:
    """Load the roles of a user by project id; ABSENT stands for all projects."""
    columns = MEMBERSHIPS.c
    rows = tx.execute(sa.select(columns.project_id, columns.role).where(columns.user_id == user_id))
    return {row.project_id: row.role for row in rows}


def load_project_members(tx: Session, project_id: int) -> Sequence[ProjectMember]:
    """Load the members of a project."""
    query = (
        sa.select(*USERS.c, MEMBERSHIPS.c.role)
        .join(MEMBERSHIPS, MEMBERSHIPS.c.user_id == USERS.c.id)
        .where(MEMBERSHIPS.c.project_id == project_id)
    )
    return sorted(
        (ProjectMember(build_user(row), row.role) for row in tx.execute(query)),
        key=lambda item: item.user.external_identity,
    )


def set_project_role(tx: Session, user_id: int, project_id: int, role: str) -> str | None:
    """Set the role of a user in a project; return the previous one."""
    before = load_roles_by_project(tx, user_id).get(project_id)
    if before is None:
        tx.execute(
            build_insert_or_ignore(tx, MembershipRow),
            {"user_id": user_id, "project_id": project_id, "role": role},
        )
    here = (MEMBERSHIPS.c.user_id == user_id, MEMBERSHIPS.c.project_id == project_id)
    tx.execute(sa.update(MEMBERSHIPS).where(*here).values(role=role))
    return before


def remove_project_member(tx: Session, user_id: int, project_id: int) -> bool:
    """Remove a user from a project; return False if the user was no member."""
    here = (MEMBERSHIPS.c.user_id == user_id, MEMBERSHIPS.c.project_id == project_id)
    return execute_and_count_rows(tx, sa.delete(MEMBERSHIPS).where(*here)) == 1


def build_user(row: Any) -> User:
    """Build a user from any row that has the columns of ``users``."""
    return User(row.id, row.provider, row.subject, row.name, row.disabled_at is not None)


def remove_all_members(tx: Session, project_id: int) -> None:
    """End the roles of all members of a project."""
    tx.execute(sa.delete(MEMBERSHIPS).where(MEMBERSHIPS.c.project_id == project_id))
