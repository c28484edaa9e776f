"""Store measurement orders: what is to be measured, who asked for it, and how far it is.

An order is open (queued, dispatched or running) until it is closed (done, failed or cancelled). Every change
of state is one conditional write, whose row count says whether it took place. The caller owns ``tx``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from perfci.model import PerfciError
from perfci.store.column_conversions import hash_values
from perfci.store.projects import mark_projects_changed
from perfci.store.tables.measurement_orders import MeasurementOrderRow, OrderRequestRow
from perfci.store.tables.measurements import ProjectRow
from perfci.store.transactions import build_insert_or_ignore, execute_and_count_rows, in_chunks

ORDERS, REQUESTS = MeasurementOrderRow.__table__, OrderRequestRow.__table__

QUEUED, DISPATCHED, RUNNING = "queued", "dispatched", "running"
DONE, FAILED, CANCELLED = "done", "failed", "cancelled"
OPEN_STATES = (QUEUED, DISPATCHED, RUNNING)
CLOSED_STATES = (DONE, FAILED, CANCELLED)

MAX_ORDER_ATTEMPTS = 3
"""Workers that may be lost over an order before it is given up."""

MAX_JOINS = 10
"""Tries to join an open order, each of which another process closed meanwhile."""


@dataclass(frozen=True, slots=True)
class OrderContent:
    """What is to be measured: two open orders of equal content are the same order.

    ``base_sha`` is None where one commit is measured; ``bench`` is a regular expression as in ``--bench``,
    empty for all; ``pairs`` is None where the measurement itself decides how many it needs. A bisect looks
    for the commit after ``base_sha`` that moved ``metric``; a backfill measures every ``stride``-th commit of
    that range which has no result. Both end after ``max_processes``, a bisect after ``budget_s`` seconds too.
    """

    kind: str
    base_sha: str | None
    head_sha: str
    bench: str = ""
    pairs: int | None = None
    suite: str = ""
    engine: str = "local"
    metric: str = ""
    max_processes: int | None = None
    budget_s: int | None = None
    stride: int | None = None


@dataclass(frozen=True, slots=True)
class OrderRequest:
    """One asking for an order; ``comment_id`` is GitHub's, ``series`` an identity, ``incident`` a number."""

    requested_by: str
    source: str
    requested_at: datetime
    pull_number: int | None = None
    comment_id: int | None = None
    incident: int | None = None
    series: str = ""


@dataclass(frozen=True, slots=True)
class MeasurementOrder:
    """A stored order with all who asked for it, the first of them first.

    ``lease_token`` grows with each worker that claims it. ``result`` is what the measurement came to, as
    JSON; ``problem`` says in a sentence why there is none. ``detail`` has the fields of a bisect or a
    backfill, while it is carried out and afterwards.
    """

    id: int
    project_id: int
    project: str
    content: OrderContent
    state: str
    created_at: datetime
    requests: Sequence[OrderRequest] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    attempts: int = 0
    holder: str = ""
    lease_token: int = 0
    lease_ends_at: datetime | None = None
    external_run: str = ""
    external_url: str = ""
    progress: str = ""
    problem: str = ""
    result: Mapping[str, Any] | None = None
    detail: Mapping[str, Any] | None = None

    @property
    def is_open(self) -> bool:
        """Whether the order still waits or is being measured."""
        return self.state in OPEN_STATES


def add_or_join_order(
    tx: Session, project_id: int, content: OrderContent, request: OrderRequest
) -> tuple[int, bool]:
    """Add an order, or join the open one of equal content; return its id and whether it is new.

    Joining writes to the order itself, so that whoever closes it sees the request or lets this one add a new
    order: no request is ever added to a closed order.
    """
    key = hash_values(project_id, *asdict(content).values())
    row = {**asdict(content), "project_id": project_id, "dedupe_key": key, "state": QUEUED}
    for _ in range(MAX_JOINS):
        insert = build_insert_or_ignore(tx, MeasurementOrderRow, "id")
        added = tx.scalar(insert, {**row, "created_at": request.requested_at})
        order_id = added or tx.scalar(sa.select(ORDERS.c.id).where(ORDERS.c.dedupe_key == key))
        joined = (
            sa.update(ORDERS)
            .where(ORDERS.c.id == order_id, ORDERS.c.dedupe_key == key)
            .values(request_count=ORDERS.c.request_count + 1)
        )
        if order_id is not None and execute_and_count_rows(tx, joined):
            tx.execute(
                sa.insert(REQUESTS).values(project_id=project_id, order_id=order_id, **asdict(request))
            )
            mark_projects_changed(tx, [project_id])
            return int(order_id), added is not None
    raise PerfciError("The same order was closed again and again meanwhile: try again.")


def count_open_orders(tx: Session, project_id: int) -> int:
    """Count the open orders of a project."""
    mine = (ORDERS.c.project_id == project_id, ORDERS.c.state.in_(OPEN_STATES))
    return tx.scalar(sa.select(sa.func.count()).select_from(ORDERS).where(*mine)) or 0


def find_order(tx: Session, project_id: int, order_id: int) -> MeasurementOrder | None:
    """Find an order of a project by its number."""
    orders = _load_orders(tx, ORDERS.c.id == order_id, ORDERS.c.project_id == project_id)
    return orders[0] if orders else None


def find_open_order(tx: Session, project_id: int, content: OrderContent) -> MeasurementOrder | None:
    """Find the open order of a content."""
    key = hash_values(project_id, *asdict(content).values())
    orders = _load_orders(tx, ORDERS.c.dedupe_key == key)
    return orders[0] if orders else None


def find_held_order(tx: Session, project_id: int, engine: str, holder: str) -> MeasurementOrder | None:
    """Find the order of a project that a worker is carrying out."""
    held = (ORDERS.c.engine == engine, ORDERS.c.holder == holder, ORDERS.c.state == RUNNING)
    orders = _load_orders(tx, ORDERS.c.project_id == project_id, *held, limit=1)
    return orders[0] if orders else None


def find_order_of_external_run(tx: Session, project_id: int, external_run: str) -> MeasurementOrder | None:
    """Find the order that an engine's run, such as GitHub's workflow run, carries out."""
    orders = _load_orders(tx, ORDERS.c.project_id == project_id, ORDERS.c.external_run == external_run)
    return orders[-1] if orders and external_run else None


def list_orders(
    tx: Session,
    project_id: int,
    *,
    states: Collection[str] = (),
    before: int | None = None,
    limit: int | None = None,
) -> list[MeasurementOrder]:
    """List the orders of a project, newest first, of some states or all, from before an id."""
    conditions = [ORDERS.c.project_id == project_id]
    if states:
        conditions.append(ORDERS.c.state.in_(states))
    if before is not None:
        conditions.append(ORDERS.c.id < before)
    return _load_orders(tx, *conditions, newest_first=True, limit=limit)


def list_orders_of_incident(
    tx: Session, project_id: int, incident: int, kinds: Collection[str]
) -> list[MeasurementOrder]:
    """List the orders of some kinds that were asked for about an incident, newest first."""
    mine = sa.select(REQUESTS.c.order_id).where(
        REQUESTS.c.project_id == project_id, REQUESTS.c.incident == incident
    )
    return _load_orders(tx, ORDERS.c.id.in_(mine), ORDERS.c.kind.in_(kinds), newest_first=True)


def list_orders_of_pull(tx: Session, project_id: int, pull_number: int) -> list[MeasurementOrder]:
    """List the orders that were asked for on a pull request, oldest first."""
    mine = sa.select(REQUESTS.c.order_id).where(REQUESTS.c.pull_number == pull_number)
    return _load_orders(tx, ORDERS.c.project_id == project_id, ORDERS.c.id.in_(mine))


def load_ordered_pulls(tx: Session, ended_since: datetime) -> list[tuple[int, int]]:
    """Load the projects and pull requests with orders that are open, or were closed since a moment."""
    is_recent = sa.or_(ORDERS.c.state.in_(OPEN_STATES), ORDERS.c.ended_at >= ended_since)
    query = sa.select(REQUESTS.c.project_id, REQUESTS.c.pull_number).distinct()
    query = query.join(ORDERS, ORDERS.c.id == REQUESTS.c.order_id)
    rows = tx.execute(query.where(is_recent, REQUESTS.c.pull_number.is_not(None)))
    return sorted((row.project_id, row.pull_number) for row in rows)


def load_open_orders(tx: Session, engine: str, limit: int | None = None) -> list[MeasurementOrder]:
    """Load the open orders of an engine in all projects, oldest first."""
    return _load_orders(tx, ORDERS.c.engine == engine, ORDERS.c.state.in_(OPEN_STATES), limit=limit)


def claim_next_order(
    tx: Session,
    engine: str,
    holder: str,
    at: datetime,
    lease: timedelta,
    *,
    project_id: int | None = None,
    state: str = RUNNING,
) -> MeasurementOrder | None:
    """Claim the oldest order that waits, or whose worker sends no heartbeats any more; None without one."""
    free = _is_free(at) & (ORDERS.c.attempts < MAX_ORDER_ATTEMPTS) & (ORDERS.c.engine == engine)
    mine = sa.true() if project_id is None else ORDERS.c.project_id == project_id
    query = sa.select(ORDERS.c.id, ORDERS.c.lease_token).where(free, mine).order_by(ORDERS.c.id)
    for row in tx.execute(query).all():
        claim = {
            "state": state,
            "holder": holder,
            "attempts": ORDERS.c.attempts + 1,
            "lease_token": row.lease_token + 1,
            "lease_ends_at": at + lease,
            "started_at": sa.func.coalesce(
                ORDERS.c.started_at, sa.bindparam("now", at, ORDERS.c.created_at.type)
            ),
        }
        unclaimed = (ORDERS.c.id == row.id, ORDERS.c.lease_token == row.lease_token, _is_free(at))
        if execute_and_count_rows(tx, sa.update(ORDERS).where(*unclaimed).values(claim)):
            [order] = _load_orders(tx, ORDERS.c.id == row.id)
            mark_projects_changed(tx, [order.project_id])
            return order
    return None


def renew_order_lease(
    tx: Session,
    order_id: int,
    lease_token: int,
    at: datetime,
    lease: timedelta,
    progress: str | None = None,
    detail: Mapping[str, Any] | None = None,
) -> bool:
    """Send a heartbeat with how far the measurement is; False if the order is closed or another's by now.

    What is None stays as it is.
    """
    values: dict[str, Any] = {"lease_ends_at": at + lease}
    values |= {} if progress is None else {"progress": progress}
    values |= {} if detail is None else {"detail": detail}
    return bool(execute_and_count_rows(tx, _update_held_order(order_id, lease_token).values(values)))


def record_external_run(
    tx: Session, order_id: int, lease_token: int, external_run: str, external_url: str = ""
) -> bool:
    """Record the run that an engine started for an order, which needs no heartbeats from now on."""
    values = {"external_run": external_run, "external_url": external_url, "lease_ends_at": None}
    return bool(execute_and_count_rows(tx, _update_held_order(order_id, lease_token).values(values)))


def mark_order_running(tx: Session, order: MeasurementOrder, progress: str = "") -> bool:
    """Let a dispatched order be running; False if it is closed by now."""
    dispatched = (ORDERS.c.id == order.id, ORDERS.c.state.in_((DISPATCHED, RUNNING)))
    values = {"state": RUNNING, "progress": progress}
    return _update_order(tx, order.project_id, sa.update(ORDERS).where(*dispatched).values(values))


def release_order(tx: Session, order: MeasurementOrder) -> bool:
    """Give a claimed order back to the queue: a worker that ends by itself counts as no attempt."""
    values = {"state": QUEUED, "holder": "", "lease_ends_at": None, "attempts": ORDERS.c.attempts - 1}
    released = _update_held_order(order.id, order.lease_token).values({**values, "progress": ""})
    return _update_order(tx, order.project_id, released)


def requeue_order(tx: Session, order: MeasurementOrder) -> bool:
    """Put an order back into the queue whose run was lost: the attempt counts, and the run stays known."""
    values = {"state": QUEUED, "holder": "", "lease_ends_at": None, "progress": "", "external_url": ""}
    return _update_order(tx, order.project_id, _update_held_order(order.id, order.lease_token).values(values))


def close_order(
    tx: Session,
    order: MeasurementOrder,
    state: str,
    at: datetime,
    *,
    problem: str = "",
    result: Mapping[str, Any] | None = None,
    detail: Mapping[str, Any] | None = None,
    by_holder: bool = True,
) -> bool:
    """Close an open order as done, failed or cancelled; False if it is closed or, ``by_holder``, another's.

    ``by_holder`` says that whoever claimed the order closes it, under the lease token of ``order``.
    """
    token = order.lease_token if by_holder else None
    values: dict[str, Any] = {"state": state, "ended_at": at, "problem": problem, "result": result}
    values |= {} if detail is None else {"detail": detail}
    closed = {"dedupe_key": None, "lease_ends_at": None, "progress": ""}
    return _update_order(tx, order.project_id, _update_held_order(order.id, token).values(values | closed))


def load_abandoned_orders(tx: Session, at: datetime) -> list[MeasurementOrder]:
    """Load the orders whose last permitted worker sends no heartbeats any more."""
    return _load_orders(tx, _is_free(at), ORDERS.c.attempts >= MAX_ORDER_ATTEMPTS)


def _is_free(at: datetime) -> sa.ColumnElement[bool]:
    """Whether an order waits or has lost its worker; one without a lease end is followed elsewhere."""
    lost = sa.and_(ORDERS.c.state.in_((DISPATCHED, RUNNING)), ORDERS.c.lease_ends_at < at)
    return sa.or_(ORDERS.c.state == QUEUED, lost)


def _update_held_order(order_id: int, lease_token: int | None) -> sa.Update:
    update = sa.update(ORDERS).where(ORDERS.c.id == order_id)
    if lease_token is None:
        return update.where(ORDERS.c.state.in_(OPEN_STATES))
    held = (ORDERS.c.lease_token == lease_token, ORDERS.c.state.in_((DISPATCHED, RUNNING)))
    return update.where(*held)


def _update_order(tx: Session, project_id: int, update: sa.Update) -> bool:
    is_changed = bool(execute_and_count_rows(tx, update))
    if is_changed:
        mark_projects_changed(tx, [project_id])
    return is_changed


def _load_orders(
    tx: Session, *conditions: sa.ColumnElement[bool], newest_first: bool = False, limit: int | None = None
) -> list[MeasurementOrder]:
    query = sa.select(*ORDERS.c, ProjectRow.slug).join(ProjectRow, ORDERS.c.project_id == ProjectRow.id)
    in_order = ORDERS.c.id.desc() if newest_first else ORDERS.c.id
    rows = tx.execute(query.where(*conditions).order_by(in_order).limit(limit)).all()
    requests = _load_requests(tx, [row.id for row in rows])
    return [_build_order(row, requests.get(row.id, [])) for row in rows]


def _load_requests(tx: Session, order_ids: Collection[int]) -> dict[int, list[OrderRequest]]:
    requests: dict[int, list[OrderRequest]] = {}
    query = sa.select(*REQUESTS.c).order_by(REQUESTS.c.id)
    for some in in_chunks(order_ids):
        for row in tx.execute(query.where(REQUESTS.c.order_id.in_(some))):
            request = OrderRequest(
                requested_by=row.requested_by,
                source=row.source,
                requested_at=row.requested_at,
                pull_number=row.pull_number,
                comment_id=row.comment_id,
                incident=row.incident,
                series=row.series,
            )
            requests.setdefault(row.order_id, []).append(request)
    return requests


def _build_order(row: Any, requests: Sequence[OrderRequest]) -> MeasurementOrder:
    return MeasurementOrder(
        id=row.id,
        project_id=row.project_id,
        project=row.slug,
        content=OrderContent(
            row.kind,
            row.base_sha,
            row.head_sha,
            row.bench,
            row.pairs,
            row.suite,
            row.engine,
            row.metric,
            row.max_processes,
            row.budget_s,
            row.stride,
        ),
        state=row.state,
        created_at=row.created_at,
        requests=tuple(requests),
        started_at=row.started_at,
        ended_at=row.ended_at,
        attempts=row.attempts,
        holder=row.holder,
        lease_token=row.lease_token,
        lease_ends_at=row.lease_ends_at,
        external_run=row.external_run,
        external_url=row.external_url,
        progress=row.progress,
        problem=row.problem,
        result=row.result,
        detail=row.detail,
    )
