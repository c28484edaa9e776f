"""Store the tokens of CI jobs, and which OIDC tokens were exchanged for one. The caller owns ``tx``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.tables.github import RunTokenRow, UsedTokenRow
from perfci.store.transactions import build_insert_or_ignore

USED_TOKENS, RUN_TOKENS = UsedTokenRow.__table__, RunTokenRow.__table__


@dataclass(frozen=True, slots=True)
class RunToken:
    """The stored token of one CI job; its secret text is never stored."""

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


def mark_oidc_token_used(tx: Session, token_hash: str, expires_at: datetime) -> bool:
    """Mark a foreign token as used; return False if it was used before."""
    row = {"hash": token_hash, "expires_at": expires_at}
    return tx.scalar(build_insert_or_ignore(tx, UsedTokenRow, "id"), row) is not None


def delete_expired_tokens(tx: Session, now: datetime) -> None:
    """Delete the expired job tokens and marks of used tokens."""
    for table in (USED_TOKENS, RUN_TOKENS):
        tx.execute(sa.delete(table).where(table.c.expires_at <= now))


def add_job_token(tx: Session, token: RunToken) -> None:
    """Add the token of a CI job."""
    tx.execute(sa.insert(RUN_TOKENS), {name: getattr(token, name) for name in TOKEN_FIELDS})


def find_job_token(tx: Session, secret_hash: str) -> RunToken | None:
    """Find the token of a CI job by the hash of its secret."""
    columns = [RUN_TOKENS.c[name] for name in TOKEN_FIELDS]
    row: Sequence[Any] | None = tx.execute(
        sa.select(*columns).where(RUN_TOKENS.c.secret_hash == secret_hash)
    ).first()
    return RunToken(*row) if row else None
