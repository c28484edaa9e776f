"""What happened at GitHub of late that somebody was to be told of: it is asked for, since deliveries get lost."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import islice, takewhile

from perfci.auth.github_jobs import PULL_REQUEST
from perfci.github.accept_comment import asks_to_accept
from perfci.github.client import Client
from perfci.service.pulls.webhook_receiver import ACCEPTED, ENDED, MERGED, is_bound_run
from perfci.store.access.github_bindings import Repository
from perfci.store.jobs.run_events import Told
from perfci.verdicts.expected_change import announcements

AGE = timedelta(days=3)
"""How old it may be: for so long GitHub offers to deliver again, too."""

ON_ITS_WAY = timedelta(minutes=5)
"""What happened just now is still being told."""

MOST_LISTED = 1000
"""Comments or pull requests of one look, in ten requests."""

ON_A_PULL = re.compile(r"https?://.+/pull/(\d+)#issuecomment-\d+")
"""The address of a comment on a pull request; those on issues say so."""


@dataclass(frozen=True, slots=True)
class Place:
    """A repository that is asked, as one installation of the App, and between when and when."""

    client: Client
    slug: str
    installation: int
    now: datetime

    @property
    def since(self) -> datetime:
        return self.now - AGE

    def is_due(self, at: datetime) -> bool:
        return self.since < at <= self.now - ON_ITS_WAY

    def told(self, delivery: str, number: int, action: str) -> Told:
        return Told(f"missed-{delivery}", self.installation, self.slug, number, action)


@dataclass(frozen=True, slots=True)
class Happened:
    """What GitHub should have told, not before ``at``, and to which of those that are bound to the repository."""

    told: Told
    at: datetime | None
    concerns: Callable[[Repository], bool] = lambda _: True


def ended_runs(place: Place) -> Iterator[Happened]:
    """Runs on pull requests that are over; one that is started again is told again."""
    listed = place.client.ended_runs(place.slug, PULL_REQUEST)
    for run in takewhile(lambda one: _is_after(one.created_at, place.since), listed):
        if not _is_after(run.updated_at, place.now - ON_ITS_WAY):
            told = place.told(f"{run.id}-{run.run_attempt}", run.id, ENDED)
            yield Happened(told, run.run_started_at, partial(is_bound_run, run))


def acceptances(place: Place) -> Iterator[Happened]:
    """Comments on pull requests that accept something; of one that was deleted nobody knows any more."""
    for comment in islice(place.client.talk_since(place.slug, place.since), MOST_LISTED):
        pull = ON_A_PULL.fullmatch(comment.html_url)
        at = comment.updated_at
        if pull and at and place.is_due(at) and asks_to_accept(comment.body):
            yield Happened(place.told(f"comment-{comment.id}-{at.timestamp():.0f}", int(pull[1]), ACCEPTED), at)


def merges(place: Place) -> Iterator[Happened]:
    """Pull requests that were merged and announce something."""
    listed = islice(place.client.closed_pulls(place.slug), MOST_LISTED)
    for pull in takewhile(lambda one: _is_after(one.updated_at, place.since), listed):
        if pull.merged_at and place.is_due(pull.merged_at) and announcements(pull.body or ""):
            yield Happened(place.told(f"merge-{pull.number}", pull.number, MERGED), pull.merged_at)


Look = Callable[[Place], Iterator[Happened]]

LOOKS: Mapping[str, Look] = {
    "runs that ended": ended_runs,
    "comments that accept something": acceptances,
    "merges of what was announced": merges,
}


def _is_after(at: datetime | None, then: datetime) -> bool:
    return at is not None and at > then
