"""Store API tokens by their hashes. The caller owns the transaction ``tx``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.column_conversions import ABSENT
from perfci.store.tables.access import TokenRow
from perfci.store.transactions import execute_and_count_rows

TOKENS = TokenRow.__table__


@dataclass(frozen=True, slots=True)
class Token:
    """A stored API token; its secret text is never stored."""

    id: int
    uid: str
    project_id: int
    name: str
    last4: str
    scopes: tuple[str, ...]
    created_by: str
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None
    last_used_at: datetime | None
    secret_hash: str = field(default="", repr=False)

    def is_valid(self, now: datetime) -> bool:
        """Whether the token is neither revoked nor expired at ``now``."""
        return self.revoked_at is None and now < self.expires_at


def add_token(
    tx: Session,
    uid: str,
    project_id: int,
    name: str,
    secret_hash: str,
    last4: str,
    scopes: Sequence[str],
    created_by: str,
    created_at: datetime,
    expires_at: datetime,
) -> None:
    """Add an API token."""
    row = {
        "uid": uid,
        "project_id": project_id,
        "name": name,
        "secret_hash": secret_hash,
        "last4": last4,
        "scopes": list(scopes),
        "created_by": created_by,
        "created_at": created_at,
        "expires_at": expires_at,
    }
    tx.execute(sa.insert(TOKENS), row)


def find_token_by_hash(tx: Session, secret_hash: str) -> Token | None:
    """Find a token by the hash of its text."""
    row = tx.execute(sa.select(*TOKENS.c).where(TOKENS.c.secret_hash == secret_hash)).first()
    return _build_token(row) if row else None


def find_token_by_uid(tx: Session, project_id: int, uid: str) -> Token | None:
    """Find a token of a project by its public id."""
    here = (TOKENS.c.project_id == project_id, TOKENS.c.uid == uid)
    row = tx.execute(sa.select(*TOKENS.c).where(*here)).first()
    return _build_token(row) if row else None


def list_tokens(tx: Session, project_id: int, *, after: int = 0, limit: int | None = None) -> Sequence[Token]:
    """List the tokens of a project in creation order, revoked and expired ones included."""
    query = (
        sa.select(*TOKENS.c)
        .where(TOKENS.c.project_id == project_id, TOKENS.c.id > after)
        .order_by(TOKENS.c.id)
    )
    return [_build_token(row) for row in tx.execute(query.limit(limit))]


def revoke_token(tx: Session, project_id: int, uid: str, at: datetime) -> bool:
    """Revoke a token; return False if it was revoked before or is not of this project."""
    live = (TOKENS.c.project_id == project_id, TOKENS.c.uid == uid, TOKENS.c.revoked_at.is_(None))
    return execute_and_count_rows(tx, sa.update(TOKENS).where(*live).values(revoked_at=at)) == 1


def load_unrevoked_tokens_of_creator(tx: Session, actor: str, project_id: int) -> Sequence[Token]:
    """Load the live tokens an actor made in a project; with ABSENT, in any project."""
    query = sa.select(*TOKENS.c).where(TOKENS.c.created_by == actor, TOKENS.c.revoked_at.is_(None))
    if project_id != ABSENT:
        query = query.where(TOKENS.c.project_id == project_id)
    return [_build_token(row) for row in tx.execute(query.order_by(TOKENS.c.id))]


def record_token_use(tx: Session, token_id: int, at: datetime) -> None:
    """Record when a token was last used."""
    tx.execute(sa.update(TOKENS).where(TOKENS.c.id == token_id).values(last_used_at=at))


def _build_token(row: Any) -> Token:
    return Token(
        row.id,
        row.uid,
        row.project_id,
        row.name,
        row.last4,
        tuple(row.scopes),
        row.created_by,
        row.created_at,
        row.expires_at,
        row.revoked_at,
        row.last_used_at,
        row.secret_hash,
    )
