"""Store browser logins and the secrets shared by all server processes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.access.users_and_roles import USERS, User, build_user
from perfci.store.tables.access import LoginRow, SecretRow
from perfci.store.transactions import build_insert_or_ignore, execute_and_count_rows

LOGINS, SECRETS = LoginRow.__table__, SecretRow.__table__


@dataclass(frozen=True, slots=True)
class Login:
    """A browser login; ``grant`` is the provider's encrypted token, used to check the user again."""

    id: int
    user: User
    csrf: str
    expires_at: datetime
    checked_at: datetime
    grant: bytes = field(default=b"", repr=False)


def add_login(
    tx: Session,
    user_id: int,
    secret_hash: str,
    csrf: str,
    at: datetime,
    expires_at: datetime,
    grant: bytes = b"",
) -> None:
    """Add a login under the hash of its cookie."""
    row = {"user_id": user_id, "secret_hash": secret_hash, "csrf": csrf, "grant": grant}
    moments = {"created_at": at, "seen_at": at, "checked_at": at, "expires_at": expires_at}
    tx.execute(sa.insert(LOGINS), row | moments)


def find_login(tx: Session, secret_hash: str) -> Login | None:
    """Find a login, with its user, by the hash of its cookie."""
    query = (
        sa.select(*USERS.c, *(column.label(f"login_{column.name}") for column in LOGINS.c))
        .join(LOGINS, LOGINS.c.user_id == USERS.c.id)
        .where(LOGINS.c.secret_hash == secret_hash)
    )
    row = tx.execute(query).first()
    if row is None:
        return None
    moments = (row.login_expires_at, row.login_checked_at)
    return Login(row.login_id, build_user(row), row.login_csrf, *moments, row.login_grant)


def record_provider_confirmation(tx: Session, login_id: int, at: datetime) -> None:
    """Record when the provider last confirmed a login."""
    tx.execute(sa.update(LOGINS).where(LOGINS.c.id == login_id).values(checked_at=at))


def end_login(tx: Session, login_id: int) -> None:
    """End one login."""
    tx.execute(sa.delete(LOGINS).where(LOGINS.c.id == login_id))


def end_user_logins(tx: Session, user_id: int) -> int:
    """End all logins of a user; return how many there were."""
    return execute_and_count_rows(tx, sa.delete(LOGINS).where(LOGINS.c.user_id == user_id))


def delete_expired_logins(tx: Session, now: datetime) -> int:
    """Delete the expired logins; return how many there were."""
    return execute_and_count_rows(tx, sa.delete(LOGINS).where(LOGINS.c.expires_at <= now))


def find_server_secret(tx: Session, name: str) -> bytes | None:
    """Find a secret of the server by name."""
    return tx.scalar(sa.select(SECRETS.c.value).where(SECRETS.c.name == name))


def ensure_server_secret(tx: Session, name: str, make: Callable[[], bytes], at: datetime) -> bytes:
    """Return a secret of the server; the first process to ask creates it."""
    secret = find_server_secret(tx, name)
    if secret is None:
        tx.execute(build_insert_or_ignore(tx, SecretRow), {"name": name, "value": make(), "created_at": at})
        secret = find_server_secret(tx, name)
    assert secret is not None
    return secret
