"""A worker on a machine of one's own: claims orders one after the other, and closes each with its result."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from perfci.engines.held_order import HeldOrder, OrderProgressReporter, OrderTakenAway, is_passing_failure
from perfci.engines.local_measurement import LocalMeasurement
from perfci.measure.measure_and_store_session import SessionProgress
from perfci.model import PerfciError
from perfci.net.api_schemas.measurement_orders import ClaimedOrder, NewOrderResult, OrderClaim, OrderShape
from perfci.report.escaping import make_printable
from perfci.service.orders.order_queues import OrderQueue
from perfci.service.orders.order_text import describe_order
from perfci.service.orders.serve_workers import OrderNotHeld

POLL_S = 5.0
"""Seconds between two looks into an empty queue."""

FIRST_RETRY_S, MAX_RETRY_S = 1.0, 60.0
MAX_PROBLEM_LENGTH = 2000

T = TypeVar("T")


def name_worker() -> str:
    """Name this process, as no other one is named: whoever claims again under a name gets what it holds."""
    return f"{make_printable(socket.gethostname(), 80)}:{os.getpid()}:{secrets.token_hex(4)}"


@dataclass
class LocalWorker:
    """Carries out the orders of one project, one at a time.

    ``stop`` ends it between two orders and while it waits. Whoever interrupts it in the middle of one
    (KeyboardInterrupt) lets it give the order back: what was measured is stored, and the next worker on this
    machine resumes it.
    """

    queue: OrderQueue
    measurement: LocalMeasurement
    terminal: SessionProgress
    name: str = field(default_factory=name_worker)
    stop: threading.Event = field(default_factory=threading.Event)
    poll_s: float = POLL_S

    def run(self, *, until_empty: bool = False) -> int:
        """Carry out orders; return how many. ``until_empty`` ends it when no order waits."""
        count = 0
        while not self.stop.is_set():
            claimed = self._repeat(lambda: self.queue.claim(OrderClaim(worker=self.name)))
            if claimed is not None:
                self.carry_out(claimed)
                count += 1
            elif until_empty:
                break
            else:
                self.stop.wait(self.poll_s)
        return count

    def carry_out(self, claimed: ClaimedOrder) -> None:
        """Measure an order that was claimed, and close it or give it back."""
        order, lease = claimed.order, claimed.lease
        self.terminal.report(f"order {order.id}: {describe_order(order)}")
        with HeldOrder(self.queue, claimed) as held:
            try:
                progress = OrderProgressReporter(held, self.terminal)
                self.measurement.measure(held, progress, lambda result: self._finish(held, result))
            except OrderTakenAway as error:
                self.terminal.report(f"stopped: {error}")
            except OrderNotHeld as error:
                self.terminal.report(f"not reported: {error}")
            except KeyboardInterrupt:
                self._give_back(order, lease)
                raise
            except PerfciError as error:
                self._fail(held, str(error))

    def _finish(self, held: HeldOrder, result: NewOrderResult) -> None:
        self._repeat(lambda: self.queue.finish(held.order.id, held.lease, result), held)
        self.terminal.report(f"order {held.order.id} is done: {result.verdict.replace('_', ' ')}")

    def _fail(self, held: HeldOrder, reason: str) -> None:
        problem = make_printable(reason, MAX_PROBLEM_LENGTH) or "It failed without a reason."
        try:
            self._repeat(lambda: self.queue.fail(held.order.id, held.lease, problem), held)
        except (OrderNotHeld, OrderTakenAway) as error:
            self.terminal.report(f"not reported: {error}")
        else:
            self.terminal.report(f"order {held.order.id} failed: {problem}")

    def _give_back(self, order: OrderShape, lease: int) -> None:
        """Release the order; where that does not arrive, its lease ends in a while."""
        with contextlib.suppress(PerfciError):
            self.queue.release(order.id, lease)
            self.terminal.report(f"order {order.id} waits for the next worker")

    def _repeat(self, request: Callable[[], T], held: HeldOrder | None = None) -> T:
        """Repeat a request while it fails in passing; every request of a worker may be repeated."""
        pause_s = FIRST_RETRY_S
        while True:
            try:
                return request()
            except PerfciError as error:
                if not is_passing_failure(error) or self.stop.is_set():
                    raise
                self.terminal.report(f"{error} It is tried again in {pause_s:.0f} s.")
            if held is None:
                self.stop.wait(pause_s)
            else:
                held.wait(pause_s)
            pause_s = min(2 * pause_s, MAX_RETRY_S)
