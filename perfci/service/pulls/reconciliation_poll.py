"""Poll GitHub for events whose webhook deliveries were lost."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from sqlalchemy.exc import SQLAlchemyError

from perfci.github.app_auth import GitHubApp
from perfci.model import PerfciError
from perfci.service.pulls.missed_deliveries import EVENT_SOURCES, EventSource, MissedEvent, PolledRepository
from perfci.store import Store
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import ProjectBinding
from perfci.store.jobs import github_events
from perfci.store.jobs.github_events import RunEventPayload

POLL_INTERVAL = timedelta(minutes=15)

log = logging.getLogger("perfci.github")


@dataclass(frozen=True, slots=True)
class ReconciliationPoll:
    """Polls bound repositories and adds missed events to the inbox, as if they had been delivered."""

    store: Store
    app: GitHubApp

    def __call__(self, now: datetime) -> int:
        """Poll all bound repositories; return the number of recovered events."""
        with self.store.read() as tx:
            bound = github_bindings.load_bindings(tx)
        by_repository = groupby(bound, key=lambda binding: binding.repository.repository_id)
        return sum(self._poll_repository(list(bindings), now) for _, bindings in by_repository)

    def _poll_repository(self, bound: Sequence[ProjectBinding], now: datetime) -> int:
        """Poll one repository; 0 without an installation of the App. Failures affect no other one."""
        slug, number = bound[0].repository.slug, bound[0].repository.repository_id
        with _log_github_failures(slug):
            installation = self.app.find_installation(slug)
            if installation is None:
                return 0
            place = PolledRepository(
                self.app.open_installation_client(installation, [number]), slug, installation, now
            )
            return sum(
                self._poll_source(description, source, place, bound)
                for description, source in EVENT_SOURCES.items()
            )
        return 0

    def _poll_source(
        self, description: str, source: EventSource, polled: PolledRepository, bound: Sequence[ProjectBinding]
    ) -> int:
        with _log_github_failures(polled.slug):
            missed = self._select_missed(list(source(polled)), bound)
            if not missed:
                return 0
            with self.store.begin() as tx:
                added = sum(
                    github_events.add_run_event(tx, project_id, payload, polled.now)
                    for project_id, payload in missed
                )
            log.info("recovered missed events of %s: %s (%d)", polled.slug, description, added)
            return added
        return 0

    def _select_missed(
        self, events: Sequence[MissedEvent], bound: Sequence[ProjectBinding]
    ) -> list[tuple[int, RunEventPayload]]:
        """Select the events that were not received, for each project they concern."""
        with self.store.read() as tx:
            return [
                (binding.project_id, event.payload)
                for event in events
                for binding in bound
                if event.concerns(binding.repository)
                and not github_events.has_run_event(
                    tx, binding.project_id, event.payload.number, event.payload.action, event.at
                )
            ]


@contextmanager
def _log_github_failures(slug: str) -> Iterator[None]:
    """Log failures of GitHub instead of raising them; database failures are raised."""
    try:
        yield
    except PerfciError as error:
        if isinstance(error.__cause__, SQLAlchemyError):
            raise
        log.warning("polling %s for missed events failed, will retry: %s", slug, error)
