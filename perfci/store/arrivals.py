"""What is asked when a run arrives: whether it is here already, and what its session is for."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.tables import RunRow, SessionRow


def stored_run(tx: Session, key: str) -> int | None:
    """The id of the run with this key."""
    return tx.scalar(sa.select(RunRow.id).where(RunRow.key == key))


def session_kind(tx: Session, uid: str) -> str | None:
    """What a session is for; nothing where it is not known yet."""
    return tx.scalar(sa.select(SessionRow.kind).where(SessionRow.uid == uid))
