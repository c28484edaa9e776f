"""Carries messages while there are any, in a thread of its own: who does not answer holds nobody else up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from perfci.model import PerfciError
from perfci.service.lease import Lease
from perfci.store import Store

NOTIFICATION_LEASE, INBOX_LEASE, POLL_LEASE = "deliver", "report", "missed"
"""The leases of what is carried: notifications, what GitHub told, and what it did not."""

log = logging.getLogger("perfci.courier")


class LeasedLoop:
    """Of many such processes the lease lets one carry at a time; ``carry`` does what is due, and answers how much."""

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
        """Carry until told to stop; a database that cannot be reached now is asked again."""
        while not stop.is_set():
            try:
                carried = self.run_once()
            except PerfciError as error:
                log.warning("%s", error)
                carried = 0
            if not carried:
                stop.wait(self._interval_s)
        self._lease.release()

    def drain(self) -> int:
        """Carry until nothing is due, unless somebody else carries; answer how much that was."""
        if not self._lease.acquire_when_free():
            return 0
        done = 0
        while carried := self.run_once():
            done += carried
        self._lease.release()
        return done

    def run_once(self) -> int:
        """Carry what is due, if nobody else does; answer how much that was."""
        if not self._lease.acquire_or_renew():
            return 0
        with self._lease.keep_alive():
            return self._work(self._clock())
