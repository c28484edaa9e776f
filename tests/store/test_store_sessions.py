"""A session is started once, found again while it is unfinished, and finished."""

from __future__ import annotations

from datetime import timedelta

import pytest
from store_sessions import started

from perfci.model import PerfciError
from perfci.store import Store
from perfci.store.queries import runs_and_sessions
from perfci.store.writes import measured_sessions
from tests.support.builders import NOON, PROJECT


def test_an_interrupted_session_is_found_by_its_plan_until_it_finishes(store: Store) -> None:
    started(store, "old")
    with store.begin() as tx:
        measured_sessions.start_session(
            tx, PROJECT, "new", "history", "plan", 2**64 - 1, 3, NOON + timedelta(hours=1)
        )

    with store.begin() as tx:
        unfinished_session = measured_sessions.find_unfinished_session(tx, PROJECT, "plan")
        assert unfinished_session is not None
        measured_sessions.finish_session(tx, unfinished_session.uid, NOON + timedelta(hours=2))
        older = measured_sessions.find_unfinished_session(tx, PROJECT, "plan")

    assert (
        unfinished_session.uid,
        unfinished_session.seed,
        unfinished_session.rounds,
        unfinished_session.state,
    ) == ("new", 2**64 - 1, 3, "running")
    assert older is not None
    assert older.uid == "old"
    with store.read() as tx:
        assert measured_sessions.find_unfinished_session(tx, PROJECT, "another plan") is None
        assert measured_sessions.find_unfinished_session(tx, "acme/other", "plan") is None
        assert [session.state for session in runs_and_sessions.load_sessions(tx, PROJECT)] == [
            "finished",
            "running",
        ]


def test_a_session_name_is_used_once(store: Store) -> None:
    started(store)

    with pytest.raises(PerfciError, match="session-1 exists already"):
        started(store)


def test_finishing_a_session_that_never_started_is_an_error(store: Store) -> None:
    with pytest.raises(PerfciError, match="There is no session nowhere"), store.begin() as tx:
        measured_sessions.finish_session(tx, "nowhere", NOON)
