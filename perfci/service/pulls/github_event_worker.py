"""Process received GitHub events one by one; failures are retried, and finally kept with their problem."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.exc import SQLAlchemyError

from perfci.github.errors import GitHubError
from perfci.model import PerfciError
from perfci.service.pulls.artifact_intake import UploadsTooFast
from perfci.service.retry_backoff import compute_next_attempt_time
from perfci.store import Store
from perfci.store.jobs import github_events
from perfci.store.jobs.github_events import StoredGitHubEvent

EVENT_RETENTION = timedelta(days=30)
"""Retention of processed events, which detect redeliveries (GitHub redelivers for 3 days)."""

log = logging.getLogger("perfci.github")

HandleEvent = Callable[[StoredGitHubEvent, datetime], str]


@dataclass(frozen=True, slots=True)
class GitHubEventWorker:
    """Processes queued events, under the lease of the inbox; after a crash an event is repeated."""

    store: Store
    handle_event: HandleEvent

    def __call__(self, now: datetime) -> int:
        """Process the oldest due event; return how many were processed."""
        with self.store.read() as tx:
            due = github_events.load_due_github_events(tx, now, 1)
        for event in due:
            self._process_event(event, now)
        return len(due)

    def _process_event(self, event: StoredGitHubEvent, now: datetime) -> None:
        try:
            skip_reason = self.handle_event(event, now)
        except Exception as error:
            if isinstance(error.__cause__, SQLAlchemyError):
                raise  # a database failure, not one of the event
            self._postpone(event, error, now)
            return
        if skip_reason:
            log.info("%s: %s", _describe_event(event), skip_reason)
        with self.store.begin() as tx:
            github_events.finish_github_event(tx, event, skip_reason)
            github_events.delete_old_github_events(tx, now - EVENT_RETENTION)

    def _postpone(self, event: StoredGitHubEvent, error: Exception, now: datetime) -> None:
        later, foreseen = _compute_next_attempt(event, error, now), isinstance(error, PerfciError)
        problem = str(error) if foreseen else f"{type(error).__name__}: {error}"
        fate = f"tried again at {later:%Y-%m-%d %H:%M:%S} UTC" if later else "given up"
        message = f"{_describe_event(event)} is {fate}: {problem}"
        log.log(logging.WARNING if later else logging.ERROR, "%s", message, exc_info=not foreseen)
        with self.store.begin() as tx:
            github_events.postpone_github_event(tx, event, problem[:2000], later)


def _describe_event(event: StoredGitHubEvent) -> str:
    return f"{event.payload.number} ({event.payload.action}) of {event.payload.repository}"


def _compute_next_attempt(event: StoredGitHubEvent, error: Exception, now: datetime) -> datetime | None:
    """Compute the next attempt; None after a permanent refusal by GitHub."""
    refused = error if isinstance(error, GitHubError | UploadsTooFast) else None
    final = isinstance(error, GitHubError) and not error.is_transient
    return compute_next_attempt_time(
        now, event.attempts + 1, final=final, retry_after_s=refused.retry_after_s if refused else None
    )
