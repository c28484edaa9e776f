"""What GitHub did not tell is looked for: a delivery that was lost, or found nobody, is not repeated by itself."""

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
from perfci.store.jobs import run_events
from perfci.store.jobs.run_events import RunEventPayload

POLL_INTERVAL = timedelta(minutes=15)

log = logging.getLogger("perfci.github")


@dataclass(frozen=True, slots=True)
class ReconciliationPoll:
    """Asks what became of bound repositories; what nobody heard of waits from then on as if GitHub had told it."""

    store: Store
    app: GitHubApp

    def __call__(self, now: datetime) -> int:
        """How much was found; where GitHub does not answer, the next look finds it."""
        with self.store.read() as tx:
            bound = github_bindings.load_bindings(tx)
        by_repository = groupby(bound, key=lambda binding: binding.repository.repository_id)
        return sum(self._poll_repository(list(bindings), now) for _, bindings in by_repository)

    def _poll_repository(self, bound: Sequence[ProjectBinding], now: datetime) -> int:
        """Nothing where the App is not installed; what cannot be asked for holds up nothing else."""
        slug, number = bound[0].repository.slug, bound[0].repository.repository_id
        with _log_github_failures(slug):
            installation = self.app.find_installation(slug)
            if installation is None:
                return 0
            place = PolledRepository(
                self.app.open_installation_client(installation, [number]), slug, installation, now
            )
            return sum(
                self._poll_source(description, look, place, bound)
                for description, look in EVENT_SOURCES.items()
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
                    run_events.add_run_event(tx, project_id, payload, polled.now)
                    for project_id, payload in missed
                )
            log.info("found in %s, of which GitHub did not tell: %s (%d)", polled.slug, description, added)
            return added
        return 0

    def _select_missed(
        self, events: Sequence[MissedEvent], bound: Sequence[ProjectBinding]
    ) -> list[tuple[int, RunEventPayload]]:
        """What was never told, for each project that it concerns."""
        with self.store.read() as tx:
            return [
                (binding.project_id, event.payload)
                for event in events
                for binding in bound
                if event.concerns(binding.repository)
                and not run_events.has_run_event(
                    tx, binding.project_id, event.payload.number, event.payload.action, event.at
                )
            ]


@contextmanager
def _log_github_failures(slug: str) -> Iterator[None]:
    """What GitHub does not answer is said, and no more; what the database does not is no fault of the repository."""
    try:
        yield
    except PerfciError as error:
        if isinstance(error.__cause__, SQLAlchemyError):
            raise
        log.warning("what GitHub did not tell of %s is looked for again later: %s", slug, error)
