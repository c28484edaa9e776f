from __future__ import annotations

import threading
from datetime import datetime

import pytest

from perfci.service.worker import lease
from perfci.service.worker.lease import NOTIFICATION_LEASE, Lease, LeasedLoop, LeaseLost
from perfci.store import Store
from perfci.store.jobs import work_queue_and_leases
from tests.support.databases import database_url as database_url
from tests.support.databases import kind as kind
from tests.support.databases import store as store
from tests.support.waiting import until


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_only_one_of_two_processes_holds_the_lease(store: Store) -> None:
    first, second = Lease(store, "judge"), Lease(store, "judge")

    assert [first.acquire_or_renew(), second.acquire_or_renew(), first.acquire_or_renew()] == [
        True,
        False,
        True,
    ]


def test_a_released_lease_is_free_at_once(store: Store) -> None:
    first, second = Lease(store, "judge"), Lease(store, "judge")
    first.acquire_or_renew()

    first.release()

    assert second.acquire_or_renew()


def test_a_lease_without_heartbeats_is_taken_over_only_after_its_ttl(store: Store) -> None:
    clock = Clock()
    Lease(store, "judge").acquire_or_renew()
    heir = Lease(store, "judge", ttl_s=10.0, monotonic=clock)

    taken = []
    for clock.now in (0.0, 9.0, 10.0):
        taken.append(heir.acquire_or_renew())

    assert taken == [False, False, True]


def test_heartbeats_keep_a_lease(store: Store) -> None:
    clock = Clock()
    holder, rival = (Lease(store, "judge", ttl_s=10.0, monotonic=clock) for _ in range(2))

    held = []
    for clock.now in range(0, 100, 4):
        held.append((holder.acquire_or_renew(), rival.acquire_or_renew()))

    assert set(held) == {(True, False)}


def test_waiting_ends_when_the_holder_sends_a_heartbeat(store: Store) -> None:
    clock = Clock()
    holder, rival = (Lease(store, "judge", ttl_s=10.0, monotonic=clock) for _ in range(2))
    holder.acquire_or_renew()

    def later(seconds: float) -> None:
        clock.now += 1.0
        holder.acquire_or_renew()

    assert not rival.acquire_if_abandoned(later)
    assert clock.now == 4.0


def test_waiting_acquires_the_lease_of_a_dead_holder(store: Store) -> None:
    clock = Clock()
    Lease(store, "judge").acquire_or_renew()
    heir = Lease(store, "judge", ttl_s=10.0, monotonic=clock)

    def later(seconds: float) -> None:
        clock.now += 1.0

    assert heir.acquire_if_abandoned(later)
    assert clock.now == 10.0


def test_a_process_that_lost_the_lease_writes_nothing(store: Store) -> None:
    clock = Clock()
    late, heir = Lease(store, "judge"), Lease(store, "judge", ttl_s=10.0, monotonic=clock)
    late.acquire_or_renew()
    heir.acquire_or_renew()
    clock.now = 10.0
    heir.acquire_or_renew()

    with pytest.raises(LeaseLost), late.begin_transaction():
        pass

    with heir.begin_transaction():
        pass


def test_keep_alive_holds_the_lease_during_a_long_computation(store: Store) -> None:
    clock = Clock()
    holder, rival = Lease(store, "judge", ttl_s=0.1), Lease(store, "judge", ttl_s=10.0, monotonic=clock)
    holder.acquire_or_renew()

    taken = []
    with holder.keep_alive():
        for clock.now in range(0, 60, 6):
            heard = count_heartbeats(store)
            taken.append(rival.acquire_or_renew())
            assert until(lambda heard=heard: count_heartbeats(store) > heard)  # type: ignore[misc]

    assert not any(taken)


def count_heartbeats(store: Store) -> int:
    with store.read() as tx:
        held = work_queue_and_leases.find_lease(tx, "judge")
    assert held is not None
    return held.beat


def test_a_leased_loop_survives_an_unexpected_error(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lease, "RETRY_INTERVAL_S", 0.0)
    stop, calls = threading.Event(), []

    def work(now: datetime) -> int:
        calls.append(now)
        if len(calls) == 1:
            raise OverflowError("date value out of range")
        stop.set()
        return 0

    LeasedLoop(store, NOTIFICATION_LEASE, work).run(stop)

    assert len(calls) == 2
    assert "OverflowError: date value out of range" in caplog.text
