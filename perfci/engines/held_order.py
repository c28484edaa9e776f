"""An order that this worker holds: heartbeats from a thread, and the measurement's progress in them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from perfci.measure.measure_and_store_session import SessionProgress
from perfci.measure.stage_pace import StagePace
from perfci.model import PerfciError
from perfci.net.api_client import ApiError, ServerUnreachable
from perfci.net.api_schemas.measurement_orders import ClaimedOrder, OrderFindings, OrderLeaseShape
from perfci.number_format import format_count
from perfci.runner.cell_outcomes import CellOutcome
from perfci.runner.visit_plan import CommitVisit
from perfci.store.transactions import StoreUnavailable

HEARTBEATS_PER_LEASE = 6
"""Heartbeats in the time of a lease: several may be lost before the order is another worker's."""


class OrderTakenAway(Exception):
    """The order was cancelled, or claimed by another worker, while it was measured here."""


class HeartbeatQueue(Protocol):
    """Where heartbeats go."""

    def send_heartbeat(
        self, number: int, lease: int, progress: str | None, findings: OrderFindings | None
    ) -> OrderLeaseShape: ...


def is_passing_failure(error: PerfciError) -> bool:
    """Whether the same request may succeed later: no answer, 429, 5xx, or a database that is busy."""
    return isinstance(error, ServerUnreachable | StoreUnavailable) or (
        isinstance(error, ApiError) and error.is_transient
    )


class HeldOrder:
    """Sends heartbeats from a thread for as long as the block runs.

    A heartbeat that fails in passing is sent again by the next one. ``require_held`` raises OrderTakenAway
    once the queue has answered that the order is not this worker's any more.
    """

    def __init__(self, queue: HeartbeatQueue, claimed: ClaimedOrder) -> None:
        self.order, self.lease = claimed.order, claimed.lease
        self.measured = frozenset(claimed.measured)
        self.progress = ""
        self.findings: OrderFindings | None = None
        self._queue = queue
        self._interval_s = claimed.lease_s / HEARTBEATS_PER_LEASE
        self._ended = threading.Event()
        self._taken_away = ""
        self._thread = threading.Thread(target=self._send_heartbeats, name="order-heartbeat", daemon=True)

    def __enter__(self) -> HeldOrder:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def require_held(self) -> None:
        """Raise where the order is known to be another's or closed."""
        if self._taken_away:
            raise OrderTakenAway(self._taken_away)

    def wait(self, seconds: float) -> None:
        """Wait, and raise where the order was taken away meanwhile."""
        self._ended.wait(seconds)
        self.require_held()

    def send_heartbeat(self) -> None:
        """Send one heartbeat with the present progress."""
        try:
            lease = self._queue.send_heartbeat(self.order.id, self.lease, self.progress, self.findings)
        except PerfciError as error:
            if not is_passing_failure(error):
                self._taken_away = f"order {self.order.id} is out of reach: {error}"
            return
        if not lease.held:
            now = "claimed by another worker" if lease.state == "running" else lease.state
            self._taken_away = f"order {self.order.id} is {now}"

    def _send_heartbeats(self) -> None:
        while not self._taken_away and not self._ended.wait(self._interval_s):
            self.send_heartbeat()


class OrderProgressReporter:
    """Turns the progress of a measurement into the progress of its order: "3 of 10 pairs, about 4 min left".

    Every report is a place to stop at once the order was taken away. ``terminal`` shows the same here.
    """

    def __init__(
        self, held: HeldOrder, terminal: SessionProgress, *, clock: Callable[[], float] | None = None
    ) -> None:
        self._held, self._terminal = held, terminal
        self._pace = StagePace(clock) if clock else StagePace()
        self._noun, self._processes_each = "process", 1
        self._describe: Callable[[], str] | None = None

    def describe_by(self, describe: Callable[[], str]) -> None:
        """Let the progress of the order be this text instead of counts."""
        self._describe = describe

    def count_in(self, noun: str, processes_each: int) -> None:
        self._noun, self._processes_each = noun, processes_each

    def report(self, line: str) -> None:
        self._terminal.report(line)
        self._held.require_held()

    def start_stage(self, name: str, total: int) -> None:
        self._pace.start(name, total)
        self._terminal.start_stage(name, total)
        self._update()

    def set_remaining_processes(self, remaining: int) -> None:
        self._pace.set_remaining(remaining)
        self._terminal.set_remaining_processes(remaining)
        self._update()

    def limit_stage_seconds(self, seconds: float) -> None:
        self._pace.limit_seconds(seconds)
        self._terminal.limit_stage_seconds(seconds)

    def report_with_time_left(self, line: str) -> None:
        self._terminal.report_with_time_left(line)
        self._held.require_held()

    def report_process(self, visit: CommitVisit, outcome: CellOutcome) -> None:
        self._pace.done += 1
        self._terminal.report_process(visit, outcome)
        self._update()
        self._held.require_held()

    def _update(self) -> None:
        if self._describe is not None:
            self._held.progress = self._describe()
            return
        done, total = (count // self._processes_each for count in (self._pace.done, self._pace.total))
        self._held.progress = f"{done} of {format_count(total, self._noun)}{self._pace.time_left_text}"
