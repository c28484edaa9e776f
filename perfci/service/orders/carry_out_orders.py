"""What an engine does with orders: claim one, send heartbeats, and close it or give it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session as Transaction

from perfci.store.jobs.measurement_orders import (
    DONE,
    FAILED,
    MAX_ORDER_ATTEMPTS,
    RUNNING,
    MeasurementOrder,
    claim_next_order,
    close_order,
    load_abandoned_orders,
    renew_order_lease,
)

ORDER_LEASE = timedelta(minutes=2)
"""How long an order stays its worker's without a heartbeat, by the clock of the server or of the store's
machine. Workers that write to one database directly need clocks that agree to well within it."""

HEARTBEAT_INTERVAL = timedelta(seconds=20)

MAX_PROGRESS_LENGTH = 200
MAX_PROBLEM_LENGTH = 2000

ABANDONED = (
    f"Given up after {MAX_ORDER_ATTEMPTS} workers were lost over it: look into the log of the last one, "
    "and order it again."
)


@dataclass(frozen=True, slots=True)
class OrderResult:
    """What a measurement came to: the worst verdict, how many there are of each, and the sessions that were
    measured, by which its runs and verdicts are found. ``detail`` has the fields of a bisect or a backfill.
    """

    verdict: str
    counts: Mapping[str, int] = field(default_factory=dict)
    sessions: tuple[str, ...] = ()
    detail: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """As it is stored with the order."""
        return {"verdict": self.verdict, "counts": dict(self.counts), "sessions": list(self.sessions)}


def claim_order(
    tx: Transaction,
    engine: str,
    holder: str,
    at: datetime,
    *,
    project_id: int | None = None,
    state: str = RUNNING,
) -> MeasurementOrder | None:
    """Claim the oldest order that waits for an engine, and give up those that lost too many workers."""
    for abandoned in load_abandoned_orders(tx, at):
        fail_order(tx, abandoned, at, ABANDONED)
    return claim_next_order(tx, engine, holder, at, ORDER_LEASE, project_id=project_id, state=state)


def heartbeat_order(
    tx: Transaction,
    order_id: int,
    lease_token: int,
    at: datetime,
    progress: str | None = None,
    detail: Mapping[str, Any] | None = None,
) -> bool:
    """Keep an order for another lease; False if it was closed, or claimed by another worker, meanwhile."""
    shown = None if progress is None else progress[:MAX_PROGRESS_LENGTH]
    return renew_order_lease(tx, order_id, lease_token, at, ORDER_LEASE, shown, detail)


def finish_order(tx: Transaction, order: MeasurementOrder, at: datetime, result: OrderResult) -> bool:
    """Close an order with its result; False if it was closed, or claimed by another worker, meanwhile."""
    return close_order(tx, order, DONE, at, result=result.to_json(), detail=result.detail)


def fail_order(tx: Transaction, order: MeasurementOrder, at: datetime, problem: str) -> bool:
    """Close an order that cannot be measured, with the reason in a sentence."""
    return close_order(tx, order, FAILED, at, problem=problem[:MAX_PROBLEM_LENGTH])
