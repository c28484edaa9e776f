"""Events of GitHub are stored once, handled once, and retried after a redelivery."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy.orm import Session

from perfci.store import Store
from perfci.store.jobs import github_events
from perfci.store.jobs.github_events import GitHubEventPayload, StoredGitHubEvent
from perfci.store.projects import create_project
from tests.support.builders import NOON, PROJECT

TOLD = GitHubEventPayload("72d3162e-cc78-11e3-81ab-4c9367dc0958", 44, PROJECT, 2**40, "completed")
SOON = timedelta(seconds=30)


@pytest.fixture
def project(store: Store) -> int:
    with store.begin() as tx:
        return create_project(tx, PROJECT, "private", NOON).id


def waiting(tx: Session) -> list[StoredGitHubEvent]:
    return github_events.load_due_github_events(tx, NOON, 10)


def test_stores_an_event_once(store: Store, project: int) -> None:
    with store.begin() as tx:
        added = [github_events.add_github_event(tx, project, TOLD, NOON) for _ in range(2)]

        (event,) = waiting(tx)

    assert added == [True, False]
    assert (event.project, event.payload, event.attempts) == (PROJECT, TOLD, 0)


def test_stores_an_event_for_every_bound_project(store: Store, project: int) -> None:
    with store.begin() as tx:
        other = create_project(tx, "acme/other", "private", NOON).id

        for item in (project, other):
            github_events.add_github_event(tx, item, TOLD, NOON)

        assert [event.project for event in waiting(tx)] == [PROJECT, "acme/other"]


def test_a_finished_event_is_not_due_again(store: Store, project: int) -> None:
    with store.begin() as tx:
        github_events.add_github_event(tx, project, TOLD, NOON)
        (event,) = waiting(tx)

        ended = [github_events.finish_github_event(tx, event), github_events.finish_github_event(tx, event)]

        assert (ended, waiting(tx), github_events.add_github_event(tx, project, TOLD, NOON)) == (
            [True, False],
            [],
            False,
        )


def test_a_failed_event_waits_for_its_retry_time(store: Store, project: int) -> None:
    with store.begin() as tx:
        github_events.add_github_event(tx, project, TOLD, NOON)
        (event,) = waiting(tx)

        put_off = [github_events.postpone_github_event(tx, event, "no answer", NOON + SOON) for _ in range(2)]

        (later,) = github_events.load_due_github_events(tx, NOON + SOON, 10)
        assert (put_off, waiting(tx)) == ([True, False], [])
        assert (later.attempts, later.problem) == (1, "no answer")


def test_a_redelivered_event_is_retried_after_it_was_given_up(store: Store, project: int) -> None:
    with store.begin() as tx:
        github_events.add_github_event(tx, project, TOLD, NOON)
        (event,) = waiting(tx)
        github_events.postpone_github_event(tx, event, "no permission", None)
        (failed,) = github_events.load_failed_github_events(tx)

        again = github_events.add_github_event(tx, project, TOLD, NOON)

        (event,) = waiting(tx)
        assert (failed.problem, again, event.attempts, event.problem) == ("no permission", True, 0, "")


def test_deletes_finished_events_but_no_waiting_ones(store: Store, project: int) -> None:
    with store.begin() as tx:
        for delivery in ("a", "b"):
            github_events.add_github_event(tx, project, replace(TOLD, delivery=delivery), NOON)
        github_events.finish_github_event(tx, waiting(tx)[0])

        forgotten = [github_events.delete_old_github_events(tx, before) for before in (NOON, NOON + SOON)]

        assert forgotten == [0, 1]
        assert [event.payload.delivery for event in waiting(tx)] == ["b"]
