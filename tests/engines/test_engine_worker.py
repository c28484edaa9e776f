"""The loop that hands orders to an engine elsewhere, and what a Ray cluster refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfci.config import Settings
from perfci.engines.engine import EngineWorker, RunState, RunStatus
from perfci.engines.ray_engine import NO_ADDRESS, RayEngine
from perfci.model import PerfciError
from perfci.net.api_schemas.measurement_orders import ClaimedOrder, NewOrder, NewOrderResult
from perfci.service.orders.order_queues import StoreOrderQueue
from perfci.store import open_store
from perfci.store.projects import create_project
from tests.support.builders import NOON, PROJECT, a_sha

ADDRESS = {"engines": {"ray_address": "127.0.0.1:6379", "ray_resources": {"gpu:h100": 1}}}
OPEN, ENDED = RunStatus(RunState.OPEN), RunStatus(RunState.ENDED)


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[StoreOrderQueue]:
    with closing(open_store(f"sqlite:///{tmp_path}/e.db", create=True)) as store:
        with store.begin() as tx:
            create_project(tx, PROJECT, "private", NOON)
        yield StoreOrderQueue(store, PROJECT, Settings.model_validate(ADDRESS))


@dataclass
class ScriptedEngine:
    """An engine that answers what a test wants; ``before_end`` happens before an order ends there."""

    queue: StoreOrderQueue
    answers: list[RunStatus]
    refusal: str = ""
    name: str = "ray"
    submitted: list[ClaimedOrder] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)

    def explain_refusal(self) -> str:
        return self.refusal

    def submit(self, claimed: ClaimedOrder) -> str:
        self.submitted.append(claimed)
        return "waits in Ray for a node with gpu:h100=1"

    def follow(self, number: int) -> RunStatus:
        status = self.answers.pop(0)
        if status is ENDED:
            lease = self.submitted[-1].lease
            self.queue.finish(number, lease, NewOrderResult(verdict="unchanged"))
        return status

    def cancel(self, number: int) -> None:
        self.cancelled.append(number)


def place(queue: StoreOrderQueue, number: int = 2) -> None:
    queue.place(NewOrder(base=a_sha(1), head=a_sha(number), engine="ray"))


def work(queue: StoreOrderQueue, engine: ScriptedEngine) -> list[str]:
    lines: list[str] = []
    EngineWorker(queue, engine, "box", lines.append, poll_s=0).run(until_empty=True)
    return lines


def test_orders_are_handed_over_and_followed_to_their_end(queue: StoreOrderQueue) -> None:
    place(queue)
    place(queue, 3)
    engine = ScriptedEngine(queue, [OPEN, ENDED, ENDED])

    lines = work(queue, engine)

    assert [claimed.order.id for claimed in engine.submitted] == [1, 2]
    assert [queue.get(number).state for number in (1, 2)] == ["done", "done"]
    assert [line for line in lines if line.endswith("over")] == ["order 1 is over", "order 2 is over"]


def test_what_waits_in_the_engine_says_for_what(queue: StoreOrderQueue) -> None:
    place(queue)
    seen: list[str] = []
    engine = ScriptedEngine(queue, [OPEN, ENDED])
    follow = engine.follow

    def look(number: int) -> RunStatus:
        seen.append(queue.get(number).progress)
        return follow(number)

    engine.follow = look  # type: ignore[method-assign]
    work(queue, engine)

    assert seen == ["waits in Ray for a node with gpu:h100=1"] * 2


def test_an_order_that_the_engine_lost_fails_with_its_sentence(queue: StoreOrderQueue) -> None:
    place(queue)

    work(queue, ScriptedEngine(queue, [RunStatus(RunState.LOST, "Ray lost the worker.")]))

    assert (queue.get(1).state, queue.get(1).problem) == ("failed", "Ray lost the worker.")


def test_what_no_node_can_take_fails_at_once(queue: StoreOrderQueue) -> None:
    place(queue)
    engine = ScriptedEngine(queue, [], refusal="No node has gpu:h100=1.")

    work(queue, engine)

    assert (engine.submitted, queue.get(1).problem) == ([], "No node has gpu:h100=1.")


def test_a_cancelled_order_is_stopped_in_the_engine(queue: StoreOrderQueue) -> None:
    place(queue)
    engine = ScriptedEngine(queue, [OPEN])
    submit = engine.submit

    def submit_and_cancel(claimed: ClaimedOrder) -> str:
        queue.cancel(claimed.order.id)
        return submit(claimed)

    engine.submit = submit_and_cancel  # type: ignore[method-assign]
    work(queue, engine)

    assert (engine.cancelled, queue.get(1).state) == ([1], "cancelled")


def test_an_interrupted_worker_gives_its_orders_back(queue: StoreOrderQueue) -> None:
    place(queue)
    engine = ScriptedEngine(queue, [])

    def interrupt(number: int) -> RunStatus:
        raise KeyboardInterrupt

    engine.follow = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        work(queue, engine)

    assert (engine.cancelled, queue.get(1).state, queue.get(1).attempts) == ([1], "queued", 0)


def a_cluster(*nodes: dict[str, float]) -> Any:
    return SimpleNamespace(nodes=lambda: [{"Alive": True, "Resources": node} for node in nodes])


def test_ray_says_why_no_node_takes_an_order() -> None:
    engine = RayEngine(Settings.model_validate(ADDRESS), "/srv/model", PROJECT)
    engine._ray = a_cluster({"CPU": 8.0, "memory": 1e9, "node:10.0.0.1": 1.0}, {"gpu:a100": 2.0})

    assert engine.explain_refusal() == (
        "No node of the Ray cluster at 127.0.0.1:6379 has gpu:h100=1, which [engines] ray_resources asks for."
        " Its nodes have: CPU=8; gpu:a100=2."
    )
    engine._ray = a_cluster({"CPU": 8.0}, {"gpu:h100": 1.0})
    assert engine.explain_refusal() == ""


def test_ray_needs_the_address_of_a_cluster() -> None:
    with pytest.raises(PerfciError) as failure:
        RayEngine(Settings(), "/srv/model", PROJECT).connect()

    assert str(failure.value) == NO_ADDRESS
