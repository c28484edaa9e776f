"""Leases in the database: one process at a time does a piece of work, once or in a loop."""

from __future__ import annotations

import contextlib
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from sqlalchemy.orm import Session as Transaction

from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.jobs import work_queue_and_leases
from perfci.store.jobs.work_queue_and_leases import LeaseRecord

JUDGE_LEASE = "judge"
"""Lease name of the judge worker."""

NOTIFICATION_LEASE, INBOX_LEASE, POLL_LEASE = "deliver", "inbox", "reconciliation"
"""Lease names of notifications, of received GitHub events and of the reconciliation poll."""

TTL_S = 10.0
"""Seconds without a heartbeat after which another process may take over."""

HEARTBEATS_PER_TTL = 3
"""Heartbeats sent within one TTL."""

POLL_INTERVAL_S = 0.2
"""Seconds between two polls of a process that waits for the lease."""

RETRY_INTERVAL_S = 10.0
"""Seconds before a loop works again after an unexpected error."""

log = logging.getLogger("perfci.worker")


class LeaseLost(PerfciError):
    """The lease was lost to another process: results computed under it must not be written."""


class Lease:
    """A named lease, held by heartbeats.

    Wall clocks are not compared: a contender takes over once it has seen the same heartbeat for ``ttl_s``
    of its own monotonic clock. A process that lost its lease unnoticed is stopped by ``begin`` before it
    writes.
    """

    def __init__(
        self, store: Store, name: str, ttl_s: float = TTL_S, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store, self._name, self._ttl_s, self._monotonic = store, name, ttl_s, monotonic
        self._holder = f"{socket.gethostname()}-{secrets.token_hex(6)}"
        self._token: int | None = None
        self._renewed_at = 0.0
        self._observed: tuple[LeaseRecord, float] | None = None

    def acquire_or_renew(self) -> bool:
        """Renew the lease, or acquire it if it is free or expired; return whether this process holds it."""
        if self._token is not None:
            if self._monotonic() - self._renewed_at < self._ttl_s / HEARTBEATS_PER_TTL:
                return True
            return self._renew()
        with self._store.read() as tx:
            record = work_queue_and_leases.find_lease(tx, self._name)
        other = record if record is not None and record.holder else None
        if other is not None:
            if self._observed is None or self._observed[0] != other:
                self._observed = other, self._monotonic()
                return False
            if self._monotonic() - self._observed[1] < self._ttl_s:
                return False
        with self._store.begin() as tx:
            if other is None:
                is_acquired = work_queue_and_leases.claim_free_lease(tx, self._name, self._holder)
            else:
                is_acquired = work_queue_and_leases.take_over_lease(tx, self._name, other, self._holder)
            record = work_queue_and_leases.find_lease(tx, self._name)
        self._observed = None
        if is_acquired and record is not None:
            self._token, self._renewed_at = record.token, self._monotonic()
        return is_acquired

    def acquire_if_abandoned(self, sleep: Callable[[float], object] = time.sleep) -> bool:
        """Wait until the lease is free or expired; return False once its holder sends a heartbeat."""
        first: LeaseRecord | None = None
        while not self.acquire_or_renew():
            current = self._observed[0] if self._observed else None
            if first is not None and current is not None and current != first:
                return False
            first = first or current
            sleep(POLL_INTERVAL_S)
        return True

    @contextlib.contextmanager
    def begin_transaction(self) -> Iterator[Transaction]:
        """Open a transaction that writes results; raise ``LeaseLost`` if the lease is gone."""
        with self._store.begin() as tx:
            if self._token is None or not work_queue_and_leases.renew_lease(
                tx, self._name, self._holder, self._token
            ):
                self._token = None
                raise LeaseLost(f"Another process does the work {self._name} by now.")
            self._renewed_at = self._monotonic()
            yield tx

    @contextlib.contextmanager
    def keep_alive(self) -> Iterator[None]:
        """Send heartbeats from a background thread while the block runs longer than the TTL."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(self._ttl_s / HEARTBEATS_PER_TTL):
                # A database outage fails the work itself; the heartbeat only goes on trying.
                with contextlib.suppress(PerfciError):
                    self._renew()

        thread = threading.Thread(target=beat, name=f"perfci-lease-{self._name}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def release(self) -> None:
        """Release the lease, so that the next process need not wait for the TTL."""
        if self._token is not None:
            with self._store.begin() as tx:
                work_queue_and_leases.release_lease(tx, self._name, self._holder, self._token)
            self._token = None

    def _renew(self) -> bool:
        token = self._token
        if token is None:
            return False
        with self._store.begin() as tx:
            mine = work_queue_and_leases.renew_lease(tx, self._name, self._holder, token)
        if mine:
            self._renewed_at = self._monotonic()
        else:
            self._token = None
        return mine


class LeasedLoop:
    """Calls ``work`` while this process holds a lease; ``work`` returns how many items it processed.

    Recurring work has a thread of its own, so that slow receivers delay nothing else.
    """

    def __init__(
        self,
        store: Store,
        lease: str,
        work: Callable[[datetime], int],
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        interval_s: float = 1.0,
    ) -> None:
        self._work, self._clock, self._interval_s = work, clock, interval_s
        self._lease = Lease(store, lease)

    def run(self, stop: threading.Event) -> None:
        """Work until ``stop`` is set; an unreachable database is retried."""
        while not stop.is_set():
            try:
                processed = self.run_once()
            except PerfciError as error:
                log.warning("%s", error)
                processed = 0
            except Exception:
                # The thread must outlive any error: nobody would notice that it is gone.
                log.exception("an unexpected error, retried in %g s", RETRY_INTERVAL_S)
                stop.wait(RETRY_INTERVAL_S)
                continue
            if not processed:
                stop.wait(self._interval_s)
        self._lease.release()

    def drain(self) -> int:
        """Work until nothing is due; return the number of items, 0 if another process works."""
        if not self._lease.acquire_if_abandoned():
            return 0
        done = 0
        while processed := self.run_once():
            done += processed
        self._lease.release()
        return done

    def run_once(self) -> int:
        """Process due items if this process holds the lease; return how many."""
        if not self._lease.acquire_or_renew():
            return 0
        with self._lease.keep_alive():
            return self._work(self._clock())
