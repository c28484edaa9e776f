"""Carries messages while there are any, in a thread of its own: a receiver that does not answer holds nobody up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from perfci.config import Secrets, Settings
from perfci.model import PerfciError
from perfci.net.mail import MailServer
from perfci.net.slugs import segment
from perfci.service.delivering import deliver
from perfci.service.leasing import Lease
from perfci.service.senders import Means
from perfci.store import Store

LEASE = "deliver"

log = logging.getLogger("perfci.courier")


def means_of(settings: Settings, secrets: Secrets) -> Means:
    """What senders need, as it is configured."""
    notify, public = settings.notify, settings.server.public_url
    server = MailServer(
        host=notify.smtp_host,
        port=notify.smtp_port,
        user=notify.smtp_user,
        password=secrets.smtp_password.get_secret_value(),
        tls=notify.smtp_tls,
        sender=notify.sender or "perfci@localhost",
    )

    def link(project: str, number: int) -> str:
        return f"{public}/{segment(project)}/incidents/{number}" if public else ""

    return Means(notify.allow_networks, server, notify.github_api or "https://api.github.com", link)


class Courier:
    """Of many such processes the lease lets one send at a time."""

    def __init__(self, store: Store, means: Means, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._store, self._means, self._clock = store, means, clock
        self._lease = Lease(store, LEASE)

    def run(self, stop: threading.Event, every_s: float = 1.0) -> None:
        """Send until told to stop; a database that cannot be reached now is asked again."""
        while not stop.is_set():
            try:
                sent = self.step()
            except PerfciError as error:
                log.warning("%s", error)
                sent = 0
            if not sent:
                stop.wait(every_s)
        self._lease.release()

    def empty(self) -> int:
        """Send until nothing is due or somebody else sends; answer how much that was."""
        done = 0
        while sent := self.step():
            done += sent
        self._lease.release()
        return done

    def step(self) -> int:
        """Send what is due, if nobody else does; answer how much that was."""
        if not self._lease.hold():
            return 0
        with self._lease.beating():
            return deliver(self._store, self._means, self._clock())
