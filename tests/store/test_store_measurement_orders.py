"""Orders of measurements: one open order of a content, one worker at a time, and nobody's request is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from perfci.auth.permissions import LOCAL
from perfci.service.audit_context import AuditContext
from perfci.service.orders import place_orders
from perfci.service.orders.carry_out_orders import (
    ABANDONED,
    ORDER_LEASE,
    OrderResult,
    claim_order,
    fail_order,
    finish_order,
    heartbeat_order,
)
from perfci.service.orders.place_orders import TooManyOrders, cancel_order, place_order
from perfci.store import Store, open_store
from perfci.store.jobs import measurement_orders
from perfci.store.jobs.measurement_orders import MeasurementOrder, OrderContent, list_orders
from perfci.store.projects import Project, create_project, find_project
from tests.support.builders import NOON, PROJECT

COMPARISON = OrderContent("compare", "a" * 40, "b" * 40, "step")
CONTEXT = AuditContext(LOCAL, NOON)
LATER = NOON + ORDER_LEASE + timedelta(seconds=1)


@pytest.fixture
def project(store: Store) -> Project:
    with store.begin() as tx:
        return create_project(tx, PROJECT, "private", NOON)


def place(store: Store, content: OrderContent = COMPARISON, **details: Any) -> MeasurementOrder:
    with store.begin() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        return place_order(tx, CONTEXT, project, content, "cli", **details)


def claim(store: Store, at: datetime = NOON, holder: str = "worker") -> MeasurementOrder | None:
    with store.begin() as tx:
        return claim_order(tx, "local", holder, at)


def read(store: Store) -> list[MeasurementOrder]:
    with store.read() as tx:
        project = find_project(tx, PROJECT)
        assert project is not None
        return list_orders(tx, project.id)


def run_at_once(*jobs: Callable[[], object]) -> None:
    start = threading.Barrier(len(jobs))
    errors: list[BaseException] = []

    def run(job: Callable[[], object]) -> None:
        start.wait()
        try:
            job()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[job]) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_a_second_order_of_equal_content_joins_the_open_one(store: Store, project: Project) -> None:
    first = place(store, pull_number=7)
    second = place(store, pull_number=8, comment_id=2**40)

    assert (second.id, second.state, second.content) == (first.id, "queued", COMPARISON)
    assert [request.pull_number for request in second.requests] == [7, 8]
    assert place(store, replace(COMPARISON, pairs=8)).id != first.id


def test_two_who_order_at_once_get_one_order(database_url: str, store: Store, project: Project) -> None:
    with closing(open_store(database_url, create=False)) as other:
        run_at_once(lambda: place(store, pull_number=7), lambda: place(other, pull_number=8))

    [order] = read(store)
    assert {request.pull_number for request in order.requests} == {7, 8}


def test_a_request_never_joins_an_order_that_is_being_closed(
    database_url: str, store: Store, project: Project
) -> None:
    place(store, pull_number=7)
    order = claim(store)
    assert order is not None

    def finish() -> None:
        with other.begin() as tx:
            assert finish_order(tx, order, NOON, OrderResult("unchanged"))

    with closing(open_store(database_url, create=False)) as other:
        run_at_once(lambda: place(store, pull_number=8), finish)

    pulls = {order.state: {request.pull_number for request in order.requests} for order in read(store)}
    # Either the finished order has both of them, or the second one waits.
    assert pulls in ({"done": {7, 8}}, {"done": {7}, "queued": {8}})


def test_two_workers_claim_two_orders(database_url: str, store: Store, project: Project) -> None:
    first, second = place(store), place(store, replace(COMPARISON, bench="other"))
    claimed: list[MeasurementOrder | None] = []

    with closing(open_store(database_url, create=False)) as other:
        run_at_once(lambda: claimed.append(claim(store)), lambda: claimed.append(claim(other)))

    assert sorted(order.id for order in claimed if order) == [first.id, second.id]
    assert claim(store) is None


def test_the_order_of_a_lost_worker_is_claimed_again(store: Store, project: Project) -> None:
    place(store)
    lost = claim(store, holder="lost")
    assert lost is not None
    assert claim(store, NOON + ORDER_LEASE / 2) is None

    order = claim(store, LATER, holder="next")

    assert order is not None
    assert (order.id, order.holder, order.attempts, order.started_at) == (lost.id, "next", 2, NOON)
    with store.begin() as tx:
        assert not heartbeat_order(tx, lost.id, lost.lease_token, LATER)
        assert not finish_order(tx, lost, LATER, OrderResult("unchanged"))
        assert finish_order(tx, order, LATER, OrderResult("unchanged", {"unchanged": 2}, ("uid",)))
    [done] = read(store)
    assert (done.state, done.ended_at) == ("done", LATER)
    assert done.result == {"verdict": "unchanged", "counts": {"unchanged": 2}, "sessions": ["uid"]}


def test_heartbeats_keep_an_order_and_say_how_far_it_is(store: Store, project: Project) -> None:
    place(store)
    order = claim(store)
    assert order is not None

    with store.begin() as tx:
        assert heartbeat_order(tx, order.id, order.lease_token, NOON + ORDER_LEASE / 2, "8 of 20 pairs")

    assert claim(store, LATER) is None
    assert read(store)[0].progress == "8 of 20 pairs"


def test_an_order_is_given_up_after_three_lost_workers(store: Store, project: Project) -> None:
    place(store)
    at = NOON
    for _ in range(3):
        assert claim(store, at) is not None
        at += ORDER_LEASE + timedelta(seconds=1)

    assert claim(store, at) is None

    [order] = read(store)
    assert (order.state, order.problem, order.attempts) == ("failed", ABANDONED, 3)


def test_a_worker_that_ends_gives_its_order_back(store: Store, project: Project) -> None:
    place(store)
    for _ in range(5):  # more often than workers may be lost
        order = claim(store)
        assert order is not None
        with store.begin() as tx:
            assert measurement_orders.release_order(tx, order)

    [waiting] = read(store)
    assert (waiting.state, waiting.attempts, waiting.holder) == ("queued", 0, "")


def test_an_order_with_a_run_elsewhere_needs_no_heartbeats(store: Store, project: Project) -> None:
    place(store, replace(COMPARISON, engine="github"))
    with store.begin() as tx:
        order = claim_order(tx, "github", "judge-worker", NOON, state=measurement_orders.DISPATCHED)
        assert order is not None
        assert measurement_orders.record_external_run(tx, order.id, order.lease_token, "17", "https://x/17")

    with store.begin() as tx:
        assert claim_order(tx, "github", "judge-worker", LATER) is None
        of_run = measurement_orders.find_order_of_external_run(tx, project.id, "17")
        assert of_run is not None
        assert (of_run.id, of_run.state) == (order.id, "dispatched")
        assert measurement_orders.mark_order_running(tx, of_run, "started")
        assert [item.progress for item in measurement_orders.load_open_orders(tx, "github")] == ["started"]
        assert fail_order(tx, order, LATER, "The run was cancelled on GitHub.")
        assert not measurement_orders.mark_order_running(tx, of_run)


def test_a_cancelled_order_is_noticed_by_its_worker(store: Store, project: Project) -> None:
    place(store)
    order = claim(store)
    assert order is not None

    with store.begin() as tx:
        assert cancel_order(tx, CONTEXT, order)
        assert not cancel_order(tx, CONTEXT, order)
        assert not heartbeat_order(tx, order.id, order.lease_token, NOON)

    assert [(item.state, item.problem) for item in read(store)] == [("cancelled", "Cancelled by local.")]
    assert place(store).id != order.id


def test_lists_orders_newest_first_by_state(store: Store, project: Project) -> None:
    ids = [place(store, replace(COMPARISON, bench=bench)).id for bench in ("a", "b", "c")]
    claim(store)

    with store.read() as tx:
        assert [order.id for order in list_orders(tx, project.id, limit=2)] == ids[:0:-1]
        assert [order.id for order in list_orders(tx, project.id, before=ids[1])] == ids[:1]
        assert [order.id for order in list_orders(tx, project.id, states=["running"])] == ids[:1]


def test_a_project_has_so_many_open_orders(
    store: Store, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_orders, "MAX_OPEN_ORDERS", 1)
    first = place(store)

    assert place(store).id == first.id
    with pytest.raises(TooManyOrders, match="has 1 open orders"):
        place(store, replace(COMPARISON, bench="other"))
