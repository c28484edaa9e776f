"""Store muted benchmarks: still judged, without notifications. The caller owns ``tx``."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.dialects import execute_rowcount
from perfci.store.incidents.records import Mute
from perfci.store.tables.incidents import MutedBenchmarkRow

MUTED = MutedBenchmarkRow.__table__
FIELDS = [MUTED.c[name] for name in Mute.__dataclass_fields__]


def load_mutes(tx: Session, project_id: int, now: datetime) -> list[Mute]:
    """Load the benchmarks that are muted at a moment, by name."""
    query = sa.select(*FIELDS).where(MUTED.c.project_id == project_id, *_active_conditions(now))
    return sorted((Mute(*row) for row in tx.execute(query)), key=lambda mute: (mute.benchmark, mute.metric))


def add_mute(tx: Session, project_id: int, mute: Mute) -> None:
    """Mute a benchmark; a muted one gets the new reason and end."""
    end_mute(tx, project_id, mute.benchmark, mute.metric, mute.since)
    row = {name: getattr(mute, name) for name in Mute.__dataclass_fields__}
    tx.execute(sa.insert(MUTED), {"project_id": project_id, **row})


def end_mute(tx: Session, project_id: int, benchmark: str, metric: str, now: datetime) -> bool:
    """End a mute early; return False if there is none."""
    same = (MUTED.c.benchmark == benchmark, MUTED.c.metric == metric)
    chosen = (MUTED.c.project_id == project_id, *same, *_active_conditions(now))
    return bool(execute_rowcount(tx, sa.update(MUTED).where(*chosen).values(unmuted_at=now)))


def was_unmuted_since(tx: Session, project_id: int, benchmark: str, since: datetime) -> bool:
    """Whether a mute of a benchmark ended or expired since a moment."""
    ended = sa.func.coalesce(MUTED.c.unmuted_at, MUTED.c.expires_at)
    chosen = (MUTED.c.project_id == project_id, MUTED.c.benchmark == benchmark, ended >= since)
    return tx.scalar(sa.select(MUTED.c.id).where(*chosen).limit(1)) is not None


def _active_conditions(now: datetime) -> tuple[sa.ColumnElement[bool], ...]:
    return (MUTED.c.unmuted_at.is_(None), MUTED.c.expires_at > now)
