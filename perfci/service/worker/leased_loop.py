"""Run recurring work under a lease, in a thread of its own, so that slow receivers delay nothing else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from perfci.model import PerfciError
from perfci.service.lease import Lease
from perfci.store import Store

NOTIFICATION_LEASE, INBOX_LEASE, POLL_LEASE = "deliver", "inbox", "reconciliation"
"""Lease names of notifications, of received GitHub events and of the reconciliation poll."""

log = logging.getLogger("perfci.worker")


class LeasedLoop:
    """Calls ``work`` while this process holds the lease; ``work`` returns how many items it processed."""

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
            if not processed:
                stop.wait(self._interval_s)
        self._lease.release()

    def drain(self) -> int:
        """Work until nothing is due; return the number of items, 0 if another process works."""
        if not self._lease.acquire_when_free():
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
