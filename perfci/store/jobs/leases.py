"""Store leases: one holder per job. Expiry depends on heartbeats, not on clocks."""

from __future__ import annotations

from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.store.dialects import execute_rowcount, insert_or_ignore
from perfci.store.tables.jobs import LeaseRow


class LeaseRecord(NamedTuple):
    """A lease: ``token`` grows with each new holder, ``beat`` with each heartbeat."""

    holder: str
    token: int
    beat: int


def find_lease(tx: Session, name: str) -> LeaseRecord | None:
    """Find a lease by name."""
    row = tx.execute(
        sa.select(LeaseRow.holder, LeaseRow.token, LeaseRow.beat).where(LeaseRow.name == name)
    ).first()
    return None if row is None else LeaseRecord(*row)


def claim_lease(tx: Session, name: str, holder: str) -> bool:
    """Claim a lease that is new or released; return whether that succeeded."""
    tx.execute(insert_or_ignore(tx, LeaseRow), {"name": name, "holder": holder, "token": 1, "beat": 0})
    given_back = sa.and_(LeaseRow.name == name, LeaseRow.holder == "")
    if _update_lease(tx, given_back, holder=holder, token=LeaseRow.token + 1, beat=0):
        return True
    lease = find_lease(tx, name)
    return lease is not None and lease.holder == holder


def take_over_lease(tx: Session, name: str, seen: LeaseRecord, holder: str) -> bool:
    """Take over a lease without a heartbeat since ``seen``; return whether that succeeded."""
    unchanged = sa.and_(LeaseRow.name == name, LeaseRow.token == seen.token, LeaseRow.beat == seen.beat)
    return _update_lease(tx, unchanged, holder=holder, token=LeaseRow.token + 1, beat=0)


def renew_lease(tx: Session, name: str, holder: str, token: int) -> bool:
    """Send a heartbeat; return False if another holder has the lease by now."""
    mine = sa.and_(LeaseRow.name == name, LeaseRow.holder == holder, LeaseRow.token == token)
    return _update_lease(tx, mine, beat=LeaseRow.beat + 1)


def release_lease(tx: Session, name: str, holder: str, token: int) -> bool:
    """Release a lease; return False if another holder has it by now."""
    mine = sa.and_(LeaseRow.name == name, LeaseRow.holder == holder, LeaseRow.token == token)
    return _update_lease(tx, mine, holder="")


def _update_lease(tx: Session, condition: sa.ColumnElement[bool], **columns: object) -> bool:
    return execute_rowcount(tx, sa.update(LeaseRow.__table__).where(condition).values(**columns)) == 1
