"""The interface of engines that carry out orders elsewhere, and the loop that serves one."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeVar

from perfci.engines.held_order import is_passing_failure
from perfci.model import PerfciError
from perfci.net.api_schemas.measurement_orders import ClaimedOrder, OrderClaim
from perfci.service.orders.order_queues import OrderQueue
from perfci.service.orders.order_text import describe_order
from perfci.service.orders.serve_workers import OrderNotHeld

POLL_S = 2.0
"""Seconds between two looks at the queue and at what was submitted."""

HEARTBEATS_PER_LEASE = 6

MAX_SUBMITTED = 16
"""Orders that wait in an engine or are carried out by it at once; the rest stays in the queue."""


T = TypeVar("T")


class RunState(StrEnum):
    """How far an engine is with what was submitted."""

    OPEN = "open"
    ENDED = "ended"  # it closed its order itself
    LOST = "lost"  # it ended without


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The state of a submitted order; ``problem`` says in a sentence why it was lost."""

    state: RunState
    problem: str = ""


class Engine(Protocol):
    """Carries out claimed orders; placement, queueing and retries after lost workers are its own.

    What runs sends its own heartbeats under the lease of the order, and closes it.
    """

    name: str

    def explain_refusal(self) -> str:
        """Say why nothing can be carried out at present; empty where it can."""

    def submit(self, claimed: ClaimedOrder) -> str:
        """Hand an order over; return what it waits for."""

    def follow(self, number: int) -> RunStatus:
        """Say how far an order is."""

    def cancel(self, number: int) -> None:
        """Stop an order that waits or is carried out."""


@dataclass
class EngineWorker:
    """Hands the orders of one project to an engine and follows them to their end.

    ``stop`` ends it: what is open is cancelled and given back.
    """

    queue: OrderQueue
    engine: Engine
    name: str
    report: Callable[[str], None]
    stop: threading.Event = field(default_factory=threading.Event)
    poll_s: float = POLL_S
    _open: dict[int, ClaimedOrder] = field(default_factory=dict)
    _claims: int = 0

    def run(self, *, until_empty: bool = False) -> int:
        """Carry out orders; return how many ended. ``until_empty`` ends it when no order waits or is open."""
        count = 0
        try:
            while not self.stop.is_set():
                self._claim_next()
                count += self._follow_open()
                if until_empty and not self._open and not self._claim_next():
                    break
                self.stop.wait(self.poll_s)
        finally:
            for number in list(self._open):
                self._give_back(number)
        return count

    def _claim_next(self) -> bool:
        """Submit the oldest order that waits, or fail it with the engine's reason."""
        if len(self._open) >= MAX_SUBMITTED:
            return False
        claim = OrderClaim(worker=f"{self.name}/{self._claims}", engine=self.engine.name)  # type: ignore[arg-type]
        claimed = self._try(lambda: self.queue.claim(claim))
        if claimed is None:
            return False
        self._claims += 1
        number = claimed.order.id
        self.report(f"order {number}: {describe_order(claimed.order)}")
        if problem := self.engine.explain_refusal():
            self._fail(claimed, problem)
            return True
        self._open[number] = claimed
        waits_for = self.engine.submit(claimed)
        self._try(lambda: self.queue.send_heartbeat(number, claimed.lease, waits_for, None))
        return True

    def _follow_open(self) -> int:
        return sum(self._follow(claimed) for claimed in list(self._open.values()))

    def _follow(self, claimed: ClaimedOrder) -> int:
        number = claimed.order.id
        status = self.engine.follow(number)
        if status.state is RunState.OPEN:
            lease = self._try(lambda: self.queue.send_heartbeat(number, claimed.lease, None, None))
            if lease is not None and not lease.held and lease.state not in ("done", "failed"):
                self.engine.cancel(number)
                self._close(number, f"order {number} is {lease.state}")
                return 1
            return 0
        if status.state is RunState.LOST:
            self._fail(claimed, status.problem)
        self._close(number, f"order {number} is over")
        return 1

    def _fail(self, claimed: ClaimedOrder, problem: str) -> None:
        try:
            self._try(lambda: self.queue.fail(claimed.order.id, claimed.lease, problem))
        except OrderNotHeld as error:
            self.report(f"not reported: {error}")
        else:
            self.report(f"order {claimed.order.id} failed: {problem}")

    def _close(self, number: int, line: str) -> None:
        del self._open[number]
        self.report(line)

    def _give_back(self, number: int) -> None:
        claimed = self._open.pop(number)
        self.engine.cancel(number)
        try:
            self._try(lambda: self.queue.release(number, claimed.lease))
        except OrderNotHeld as error:
            self.report(f"not given back: {error}")

    def _try(self, request: Callable[[], T]) -> T | None:
        """Make a request; one that fails in passing is made again by the next look."""
        try:
            return request()
        except PerfciError as error:
            if not is_passing_failure(error):
                raise
            self.report(str(error))
            return None
