"""Poll GitHub for events whose webhook deliveries were lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import groupby, islice, takewhile

from sqlalchemy.exc import SQLAlchemyError

from perfci.auth.github_job_authorization import PULL_REQUEST
from perfci.github.accept_comment import is_accept_comment
from perfci.github.app_auth import GitHubApp
from perfci.github.client import GitHubClient
from perfci.github.run_comment import is_run_comment
from perfci.model import PerfciError
from perfci.service.pulls.parse_pull_description import parse_expected_changes
from perfci.service.pulls.webhook_receiver import (
    ACCEPT_COMMENT,
    COMPLETED_ACTION,
    MERGED_PULL,
    ORDER_COMMENT,
    is_bound_workflow_run,
)
from perfci.store import Store
from perfci.store.access import github_bindings
from perfci.store.access.github_bindings import BoundRepository, ProjectBinding
from perfci.store.jobs import github_events
from perfci.store.jobs.github_events import GitHubEventPayload

POLL_INTERVAL = timedelta(minutes=15)

MAX_AGE = timedelta(days=3)
"""Maximum age of an event, equal to the redelivery period of GitHub."""

DELIVERY_GRACE = timedelta(minutes=5)
"""Newer events may still be delivered."""

MAX_LISTED = 1000
"""Comments or pull requests of one poll, in ten requests."""

log = logging.getLogger("perfci.github")


@dataclass(frozen=True, slots=True)
class PolledRepository:
    """A polled repository with the client of an App installation and the time of the poll."""

    client: GitHubClient
    slug: str
    installation: int
    now: datetime

    @property
    def oldest_polled_event_time(self) -> datetime:
        return self.now - MAX_AGE

    def is_delivery_overdue(self, at: datetime) -> bool:
        return self.oldest_polled_event_time < at <= self.now - DELIVERY_GRACE

    def build_event_payload(self, delivery: str, number: int, action: str) -> GitHubEventPayload:
        return GitHubEventPayload(f"missed-{delivery}", self.installation, self.slug, number, action)


@dataclass(frozen=True, slots=True)
class OverdueEvent:
    """An event that should have been delivered since ``at``, and the bindings it concerns."""

    payload: GitHubEventPayload
    at: datetime | None
    concerns: Callable[[BoundRepository], bool] = lambda _: True


def list_overdue_completed_runs(polled: PolledRepository) -> Iterator[OverdueEvent]:
    """List completed workflow runs of pull requests; each attempt is an event of its own."""
    listed = polled.client.list_completed_workflow_runs(polled.slug, PULL_REQUEST)
    for run in takewhile(lambda run: _is_after(run.created_at, polled.oldest_polled_event_time), listed):
        if not _is_after(run.updated_at, polled.now - DELIVERY_GRACE):
            payload = polled.build_event_payload(f"{run.id}-{run.run_attempt}", run.id, COMPLETED_ACTION)
            yield OverdueEvent(payload, run.run_started_at, partial(is_bound_workflow_run, run))


def list_overdue_commands(polled: PolledRepository) -> Iterator[OverdueEvent]:
    """List comments on pull requests that accept or order something; deleted comments are not found."""
    for comment in islice(
        polled.client.list_repository_comments(polled.slug, polled.oldest_polled_event_time), MAX_LISTED
    ):
        pull, at = comment.pull_number, comment.updated_at
        if pull is None or at is None or not polled.is_delivery_overdue(at):
            continue
        delivery = f"comment-{comment.id}-{at.timestamp():.0f}"
        if is_accept_comment(comment.body):
            yield OverdueEvent(polled.build_event_payload(delivery, pull, ACCEPT_COMMENT), at)
        elif is_run_comment(comment.body):
            # A comment orders once, however often it is edited.
            yield OverdueEvent(polled.build_event_payload(delivery, comment.id, ORDER_COMMENT), None)


def list_overdue_merges(polled: PolledRepository) -> Iterator[OverdueEvent]:
    """List merged pull requests with expected changes."""
    listed = islice(polled.client.list_closed_pulls(polled.slug), MAX_LISTED)
    for pull in takewhile(lambda pull: _is_after(pull.updated_at, polled.oldest_polled_event_time), listed):
        if (
            pull.merged_at
            and polled.is_delivery_overdue(pull.merged_at)
            and parse_expected_changes(pull.body or "")
        ):
            yield OverdueEvent(
                polled.build_event_payload(f"merge-{pull.number}", pull.number, MERGED_PULL), pull.merged_at
            )


EventSource = Callable[[PolledRepository], Iterator[OverdueEvent]]

EVENT_SOURCES: Mapping[str, EventSource] = {
    "completed runs": list_overdue_completed_runs,
    "commands in comments": list_overdue_commands,
    "merged expected changes": list_overdue_merges,
}


def _is_after(at: datetime | None, then: datetime) -> bool:
    return at is not None and at > then


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
                    github_events.add_github_event(tx, project_id, payload, polled.now)
                    for project_id, payload in missed
                )
            log.info("recovered missed events of %s: %s (%d)", polled.slug, description, added)
            return added
        return 0

    def _select_missed(
        self, events: Sequence[OverdueEvent], bound: Sequence[ProjectBinding]
    ) -> list[tuple[int, GitHubEventPayload]]:
        """Select the events that were not received, for each project they concern."""
        with self.store.read() as tx:
            return [
                (binding.project_id, event.payload)
                for event in events
                for binding in bound
                if event.concerns(binding.repository)
                and not github_events.has_github_event(
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
