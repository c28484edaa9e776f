"""The tables of who may do what, and of who did what."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from perfci.store.tables.base import ABSENT, Id, JsonText, TableBase, foreign_key, primary_key


class UserRow(TableBase):
    """``subject`` is the provider's number for a person, since names are given to others when somebody
    leaves.
    """

    __tablename__ = "users"
    __table_args__ = (UniqueConstraint("provider", "subject"),)

    id: Mapped[int] = primary_key()
    provider: Mapped[str]
    subject: Mapped[str]
    name: Mapped[str]
    created_at: Mapped[datetime]
    disabled_at: Mapped[datetime | None]


class MembershipRow(TableBase):
    """``project_id`` is ABSENT for a role in every project."""

    __tablename__ = "memberships"
    __table_args__ = (UniqueConstraint("user_id", "project_id"),)

    id: Mapped[int] = primary_key()
    user_id: Mapped[int] = foreign_key("users.id")
    project_id: Mapped[int] = mapped_column(Id, server_default=str(ABSENT), index=True)
    role: Mapped[str]


class LoginRow(TableBase):
    """One browser that is logged in; of its cookie only a hash is kept, and the provider's grant only
    sealed.
    """

    __tablename__ = "logins"

    id: Mapped[int] = primary_key()
    secret_hash: Mapped[str] = mapped_column(String(64), unique=True)
    user_id: Mapped[int] = foreign_key("users.id", index=True)
    csrf: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime]
    seen_at: Mapped[datetime]
    checked_at: Mapped[datetime]
    grant: Mapped[bytes]


class TokenRow(TableBase):
    """``uid`` names a token in lists and addresses; of the token itself only a hash and the last letters
    are kept.
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
    """Who changed what and when; the database refuses to edit or delete a line of it."""

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
    """A key that all server processes of one database share, made once."""

    __tablename__ = "secrets"

    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[bytes]
    created_at: Mapped[datetime]
