"""Queues of measurement orders: those of the local store, or of a server over its API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Protocol

from sqlalchemy.orm import Session as Transaction

from perfci.auth.permissions import LOCAL
from perfci.config import Settings
from perfci.model import PerfciError
from perfci.net.api_client import ApiClient, ApiError
from perfci.net.api_schemas.measurement_orders import (
    ClaimedOrder,
    IncidentOrder,
    NewOrder,
    NewOrderResult,
    OrderClaim,
    OrderFindings,
    OrderLeaseShape,
    OrderShape,
)
from perfci.service.accounts.projects_members_tokens import require_project
from perfci.service.audit_context import AuditContext
from perfci.service.orders import serve_workers
from perfci.service.orders.carry_out_orders import OrderResult
from perfci.service.orders.check_order_content import build_order_content
from perfci.service.orders.choose_engine import require_order_engine
from perfci.service.orders.order_incidents import place_incident_order
from perfci.service.orders.place_orders import cancel_order, place_order
from perfci.service.orders.select_order_states import select_order_states
from perfci.service.orders.serialize_orders import dump_findings, serialize_order
from perfci.service.orders.serve_workers import OrderNotHeld
from perfci.store import Store
from perfci.store.jobs.measurement_orders import MeasurementOrder, find_order
from perfci.store.jobs.measurement_orders import list_orders as load_orders
from perfci.store.projects import Project

OrderWrite = Callable[[Transaction, AuditContext, Project], MeasurementOrder | None]


class OrderQueue(Protocol):
    """The orders of one project, for those who ask and for those who measure.

    The methods of workers raise OrderNotHeld where the order was closed, or claimed by another one.
    """

    def place(self, order: NewOrder) -> OrderShape: ...

    def place_for_incident(self, number: int, kind: str, order: IncidentOrder) -> OrderShape: ...

    def list_orders(self, state: str | None, limit: int) -> Sequence[OrderShape]: ...

    def get(self, number: int) -> OrderShape: ...

    def cancel(self, number: int) -> OrderShape: ...

    def claim(self, claim: OrderClaim) -> ClaimedOrder | None: ...

    def send_heartbeat(
        self, number: int, lease: int, progress: str | None, findings: OrderFindings | None
    ) -> OrderLeaseShape: ...

    def finish(self, number: int, lease: int, result: NewOrderResult) -> OrderShape: ...

    def fail(self, number: int, lease: int, problem: str) -> OrderShape: ...

    def release(self, number: int, lease: int) -> OrderShape: ...


class StoreOrderQueue:
    """The orders of a project in the local store; ``settings`` say whether this machine is a server."""

    def __init__(self, store: Store, project: str, settings: Settings) -> None:
        self._store, self._project, self._settings = store, project, settings

    def place(self, order: NewOrder) -> OrderShape:
        content, series = build_order_content(order), order.series or ""

        def write(tx: Transaction, context: AuditContext, project: Project) -> MeasurementOrder:
            require_order_engine(tx, self._settings, project, content.engine, content.kind)
            return place_order(tx, context, project, content, "cli", incident=order.incident, series=series)

        return self._write(write)

    def place_for_incident(self, number: int, kind: str, order: IncidentOrder) -> OrderShape:
        def write(tx: Transaction, context: AuditContext, project: Project) -> MeasurementOrder:
            return place_incident_order(tx, context, self._settings, project, number, kind, order, "cli")

        return self._write(write)

    def list_orders(self, state: str | None, limit: int) -> Sequence[OrderShape]:
        with self._store.read() as tx:
            project = require_project(tx, self._project)
            orders = load_orders(tx, project.id, states=select_order_states(state), limit=limit)
        return [serialize_order(order) for order in orders]

    def get(self, number: int) -> OrderShape:
        with self._store.read() as tx:
            return serialize_order(self._require_order(tx, number))

    def cancel(self, number: int) -> OrderShape:
        def act(tx: Transaction, context: AuditContext, project: Project) -> MeasurementOrder:
            order = self._require_order(tx, number)
            if not cancel_order(tx, context, order):
                raise PerfciError(f"Order {order.id} is {order.state} already.")
            return self._require_order(tx, number)

        return self._write(act)

    def claim(self, claim: OrderClaim) -> ClaimedOrder | None:
        with self._store.begin() as tx:
            project = require_project(tx, self._project)
            order = serve_workers.claim_order_for_worker(
                tx, _build_context(), project, claim.engine, claim.worker
            )
            return None if order is None else serve_workers.build_claimed_order(tx, order)

    def send_heartbeat(
        self, number: int, lease: int, progress: str | None, findings: OrderFindings | None
    ) -> OrderLeaseShape:
        with self._store.begin() as tx:
            project = require_project(tx, self._project)
            now = datetime.now(UTC)
            kept = serve_workers.keep_order_for_worker(
                tx, project, number, lease, now, progress, dump_findings(findings)
            )
        if kept is None:
            raise self._build_missing_error(number)
        return OrderLeaseShape(held=kept[0], state=kept[1])

    def finish(self, number: int, lease: int, result: NewOrderResult) -> OrderShape:
        counts = {str(kind): count for kind, count in result.counts.items()}
        outcome = OrderResult(result.verdict, counts, result.sessions, dump_findings(result.findings))
        return self._write(
            lambda tx, context, project: serve_workers.finish_order_of_worker(
                tx, context, project, number, lease, outcome
            )
        )

    def fail(self, number: int, lease: int, problem: str) -> OrderShape:
        return self._write(
            lambda tx, context, project: serve_workers.fail_order_of_worker(
                tx, context, project, number, lease, problem
            )
        )

    def release(self, number: int, lease: int) -> OrderShape:
        return self._write(
            lambda tx, context, project: serve_workers.release_order_of_worker(
                tx, context, project, number, lease
            )
        )

    def _write(self, write: OrderWrite) -> OrderShape:
        with self._store.begin() as tx:
            order = write(tx, _build_context(), require_project(tx, self._project))
        if order is None:
            raise self._build_missing_error()
        return serialize_order(order)

    def _require_order(self, tx: Transaction, number: int) -> MeasurementOrder:
        order = find_order(tx, require_project(tx, self._project).id, number)
        if order is None:
            raise self._build_missing_error(number)
        return order

    def _build_missing_error(self, number: int | None = None) -> PerfciError:
        which = "this" if number is None else f"the number {number}"
        return PerfciError(f"{self._project} has no order of {which}: see `perfci order list`.")


class ServerOrderQueue:
    """The orders of a project on a server, with the permissions of the caller's token."""

    def __init__(self, client: ApiClient, project: str) -> None:
        self._client, self._project = client, project

    def place(self, order: NewOrder) -> OrderShape:
        return self._client.place_order(self._project, order)

    def place_for_incident(self, number: int, kind: str, order: IncidentOrder) -> OrderShape:
        return self._client.place_incident_order(self._project, number, kind, order)

    def list_orders(self, state: str | None, limit: int) -> Sequence[OrderShape]:
        return [*islice(self._client.list_orders(self._project, state=state), limit)]

    def get(self, number: int) -> OrderShape:
        return self._client.get_order(self._project, number)

    def cancel(self, number: int) -> OrderShape:
        return self._client.cancel_order(self._project, number)

    def claim(self, claim: OrderClaim) -> ClaimedOrder | None:
        return self._client.claim_order(self._project, claim)

    def send_heartbeat(
        self, number: int, lease: int, progress: str | None, findings: OrderFindings | None
    ) -> OrderLeaseShape:
        return self._client.heartbeat_order(self._project, number, lease, progress, findings)

    def finish(self, number: int, lease: int, result: NewOrderResult) -> OrderShape:
        return _raise_where_not_held(lambda: self._client.finish_order(self._project, number, lease, result))

    def fail(self, number: int, lease: int, problem: str) -> OrderShape:
        return _raise_where_not_held(lambda: self._client.fail_order(self._project, number, lease, problem))

    def release(self, number: int, lease: int) -> OrderShape:
        return _raise_where_not_held(lambda: self._client.release_order(self._project, number, lease))


def _raise_where_not_held(close: Callable[[], OrderShape]) -> OrderShape:
    try:
        return close()
    except ApiError as error:
        if error.status in (404, 409):
            raise OrderNotHeld(str(error)) from None
        raise


def _build_context() -> AuditContext:
    return AuditContext(LOCAL, datetime.now(UTC))
