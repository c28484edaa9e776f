"""Tables of users, roles, logins, tokens, the audit log and secrets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.column_conversions import ABSENT, JsonText
from perfci.store.tables.base import Id, TableBase, foreign_key, primary_key


class UserRow(TableBase):
    """A user; ``subject`` is the provider's number, since names can change owners."""

    __tablename__ = "users"
    __table_args__ = (UniqueConstraint("provider", "subject"),)

    id: Mapped[int] = primary_key()
    provider: Mapped[str]
    subject: Mapped[str]
    name: Mapped[str]
    created_at: Mapped[datetime]
    disabled_at: Mapped[datetime | None]


class MembershipRow(TableBase):
    """The role of a user in a project; ``project_id`` is ABSENT for all projects."""

    __tablename__ = "memberships"
    __table_args__ = (UniqueConstraint("user_id", "project_id"),)

    id: Mapped[int] = primary_key()
    user_id: Mapped[int] = foreign_key("users.id")
    project_id: Mapped[int] = mapped_column(Id, server_default=str(ABSENT), index=True)
    role: Mapped[str]


class LoginRow(TableBase):
    """A browser login: the hash of its cookie and the provider's encrypted grant."""

    __tablename__ = "logins"

    id: Mapped[int] = primary_key()
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    user_id: Mapped[int] = foreign_key("users.id", index=True)
    csrf: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    seen_at: Mapped[datetime]  # written at login only; no query reads it
    checked_at: Mapped[datetime]
    grant: Mapped[bytes]


class TokenRow(TableBase):
    """An API token: ``uid`` is its public id; of its text only a hash and the last four characters are
    kept.
    """

    __tablename__ = "tokens"

    id: Mapped[int] = primary_key()
    uid: Mapped[str] = mapped_column(String(12), unique=True)
    project_id: Mapped[int] = mapped_column(Id, server_default=str(ABSENT), index=True)
    name: Mapped[str]
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    last4: Mapped[str]
    scopes: Mapped[Any] = mapped_column(JsonText)
    created_by: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]


class AuditRow(TableBase):
    """An audit log entry; triggers refuse to edit or delete it."""

    __tablename__ = "audit"
    __table_args__ = (Index("ix_audit_project", "project_id", "id"),)

    id: Mapped[int] = primary_key()
    at: Mapped[datetime]
    project_id: Mapped[int] = mapped_column(Id, server_default=str(ABSENT))
    actor: Mapped[str]
    action: Mapped[str]
    subject: Mapped[str]
    detail: Mapped[Any] = mapped_column(JsonText)
    request_id: Mapped[str]


class SecretRow(TableBase):
    """A secret that all server processes of one database share."""

    __tablename__ = "secrets"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[bytes]
    created_at: Mapped[datetime]
