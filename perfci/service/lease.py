"""One of many may do a piece of work at a time, whatever their clocks say."""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator

from sqlalchemy.orm import Session as Transaction

from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.jobs import leases
from perfci.store.jobs.leases import LeaseRecord

TTL_S = 10.0
"""How long the holder may be silent before another one takes over."""

HEARTBEATS_PER_TTL = 3
"""Signs of life within that time."""


POLL_INTERVAL_S = 0.2
"""How often somebody who waits looks for a sign of life."""


class LeaseLost(PerfciError):
    """Somebody else holds the lease by now: what was computed under it must not be written."""


class Lease:
    """The right to a piece of work, held by beating.

    No wall clock counts: a contender takes over once it has watched the same beat for ``ttl_s`` of its own monotonic
    clock. Whoever lost a lease without knowing is stopped by ``renewing`` in the transaction that would write.
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
        """Keep the lease, or take it where it is free; answers whether it is ours now."""
        if self._token is not None:
            if self._monotonic() - self._renewed_at < self._ttl_s / HEARTBEATS_PER_TTL:
                return True
            return self._renew()
        with self._store.read() as tx:
            record = leases.find_lease(tx, self._name)
        if record is None or not record.holder:
            return self._acquire(lambda tx: leases.claim_lease(tx, self._name, self._holder))
        if self._observed is None or self._observed[0] != record:
            self._observed = record, self._monotonic()
            return False
        if self._monotonic() - self._observed[1] < self._ttl_s:
            return False
        return self._acquire(lambda tx: leases.take_over_lease(tx, self._name, record, self._holder))

    def acquire_when_free(self, sleep: Callable[[float], object] = time.sleep) -> bool:
        """Hold it as soon as it is free or its holder was silent for too long; False once its holder shows life."""
        first: LeaseRecord | None = None
        while not self.acquire_or_renew():
            current = self._observed[0] if self._observed else None
            if first is not None and current is not None and current != first:
                return False
            first = first or current
            sleep(POLL_INTERVAL_S)
        return True

    def renew_in_transaction(self, tx: Transaction) -> None:
        """Give a sign of life within a transaction that writes what was computed; refuse it where the lease is gone."""
        if self._token is None or not leases.renew_lease(tx, self._name, self._holder, self._token):
            self._token = None
            raise LeaseLost(f"Another process does the work {self._name} by now.")
        self._renewed_at = self._monotonic()

    @contextlib.contextmanager
    def keep_alive(self) -> Iterator[None]:
        """Give signs of life from a thread while the block computes for longer than a holder may be silent."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(self._ttl_s / HEARTBEATS_PER_TTL):
                with contextlib.suppress(
                    PerfciError
                ):  # a database that does not answer ends the work, not the beating
                    self._renew()

        thread = threading.Thread(target=beat, name=f"perfci-lease-{self._name}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def release(self) -> None:
        """Let the next one start at once."""
        if self._token is not None:
            with self._store.begin() as tx:
                leases.release_lease(tx, self._name, self._holder, self._token)
            self._token = None

    def _renew(self) -> bool:
        token = self._token
        if token is None:
            return False
        with self._store.begin() as tx:
            mine = leases.renew_lease(tx, self._name, self._holder, token)
        if mine:
            self._renewed_at = self._monotonic()
        else:
            self._token = None
        return mine

    def _acquire(self, attempt: Callable[[Transaction], bool]) -> bool:
        with self._store.begin() as tx:
            mine = attempt(tx)
            record = leases.find_lease(tx, self._name)
        self._observed = None
        if mine and record is not None:
            self._token, self._renewed_at = record.token, self._monotonic()
        return mine
