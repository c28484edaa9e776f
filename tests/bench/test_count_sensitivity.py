"""Plant one slowdown at a time: the counts that name it move, and no other does."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tiny_gpt as tiny
import torch

from perfci.bench.call_counts import FAKE_DEVICE, CallCounts, count_call, fake_tensors


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@dataclasses.dataclass
class Training:
    """A step of a checkpointed model in bf16, and what a careless change may do to it."""

    checkpointing: bool = True
    one_more_operator: bool = False
    one_more_product: bool = False
    loss_is_read: bool = False
    loss_is_read_in_the_graph: bool = False
    graph_break: bool = False
    another_shape_each_time: bool = False
    upcast: bool = False
    master_copy: bool = False

    def build(self) -> None:
        torch.manual_seed(0)
        self.calls = 0
        self.model = tiny.TinyGPT(checkpointing=self.checkpointing).bfloat16()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.step()
        if self.master_copy:
            for parameter, state in self.optimizer.state.items():
                state["master"] = torch.zeros(parameter.shape, dtype=torch.float32)

    def step(self) -> None:
        self.optimizer.zero_grad()
        loss = self.forward()
        loss.backward()
        self.optimizer.step()
        if self.loss_is_read:
            loss.item()
        if self.upcast:
            loss.float()

    def forward(self) -> torch.Tensor:
        tokens = tiny.some_tokens()
        loss = self.model.loss(tokens)
        if self.one_more_operator:
            tokens.add(1)
        if self.one_more_product:
            torch.ones(2, 2) @ torch.ones(2, 2)
        if self.loss_is_read_in_the_graph:
            self.seen = loss.item()
        if self.graph_break:
            torch._dynamo.graph_break()
        return loss

    def traced(self) -> torch.Tensor:
        self.calls += self.another_shape_each_time
        return self.model.embedding(tiny.some_tokens(8 + self.calls)).sum() + self.forward()

    def whole(self) -> None:
        self.build()
        self.step()

    def count(self) -> CallCounts:
        self.build()
        return count_call(
            self.step,
            rebuild=dataclasses.replace(self).whole,
            compiled_function=self.traced,
            parameters=self.model.parameters(),
            optimizer=self.optimizer,
        )


@functools.cache
def count_mutated(**mutation: bool) -> CallCounts:
    return Training(**mutation).count()


@pytest.fixture(scope="module")
def healthy_training() -> CallCounts:
    return Training().count()


@pytest.mark.parametrize(
    ("mutation", "moves"),
    [
        ({}, set()),
        ({"one_more_operator": True}, {"operators"}),
        # A product is an operator, and it makes its factors.
        ({"one_more_product": True}, {"operators", "flops"}),
        ({"loss_is_read": True}, {"host_syncs"}),
        # Dynamo gives the code back to Python where Python needs a value.
        ({"loss_is_read_in_the_graph": True}, {"host_syncs", "graph_breaks"}),
        ({"graph_break": True}, {"graph_breaks"}),
        ({"another_shape_each_time": True}, {"recompiles"}),
        ({"upcast": True}, {"upcast_bytes"}),
        # What is not computed twice is kept: fewer operations for more memory, seen by both ways to measure
        # it.
        ({"checkpointing": False}, {"peak_tensor_bytes", "fake_peak_bytes", "operators", "flops"}),
        # State of the optimizer; the step never touches it, so only a count of the whole program has it in
        # its peak.
        ({"master_copy": True}, {"optimizer_state_bytes", "fake_peak_bytes"}),
    ],
    ids=lambda value: "-".join(value) or "nothing" if isinstance(value, dict) else "",
)
def test_a_change_of_training_moves_the_counts_that_name_it(
    healthy_training: CallCounts, mutation: dict[str, bool], moves: set[str]
) -> None:
    assert moved(healthy_training, count_mutated(**mutation)) == moves


def test_checkpointing_trades_operations_for_memory(healthy_training: CallCounts) -> None:
    without = count_mutated(checkpointing=False)

    assert without.peak_tensor_bytes > 1.25 * healthy_training.peak_tensor_bytes
    assert without.flops < healthy_training.flops


def test_a_leaked_master_copy_weighs_four_bytes_a_parameter(healthy_training: CallCounts) -> None:
    leaked = count_mutated(master_copy=True)

    four_bytes_each = 2 * healthy_training.parameter_bytes
    assert leaked.optimizer_state_bytes - healthy_training.optimizer_state_bytes == four_bytes_each
    assert leaked.fake_peak_bytes - healthy_training.fake_peak_bytes == four_bytes_each


def generation(
    *, cached: bool = True, compute: Callable[[torch.Tensor], torch.Tensor] = lambda x: x
) -> CallCounts:
    """Answer a prompt greedily; without the cache every token reads all that came before again."""
    kv_cache: list[Any] = []

    @torch.no_grad()
    def answer() -> None:
        model = tiny.TinyGPT().bfloat16()
        tokens = tiny.some_tokens()
        logits, past = model.last_logits(tokens)
        for _ in range(tiny.NEW_TOKENS):
            token = compute(logits).argmax(dim=-1, keepdim=True)
            tokens = torch.cat([tokens, token], dim=1)
            logits, past = model.last_logits(token, past) if cached else model.last_logits(tokens)
        kv_cache[:] = [past] if cached else []

    return count_call(answer, rebuild=answer, cache=lambda: kv_cache)


@pytest.fixture(scope="module")
def healthy_generation() -> CallCounts:
    return generation()


def test_losing_the_kv_cache_lowers_operators_and_multiplies_flops(healthy_generation: CallCounts) -> None:
    cached, uncached = healthy_generation, generation(cached=False)

    # All tokens at once are more bytes than one, and nothing is kept that could be weighed.
    assert moved(cached, uncached) == {
        "flops",
        "operators",
        "kv_cache_bytes",
        "peak_tensor_bytes",
        "fake_peak_bytes",
    }
    assert uncached.operators < cached.operators
    assert uncached.flops > 7.5 * cached.flops
    assert uncached.kv_cache_bytes == 0


def test_an_upcast_in_generation_moves_nothing_else(healthy_generation: CallCounts) -> None:
    assert moved(healthy_generation, generation(compute=torch.Tensor.float)) == {"upcast_bytes"}


def loading(fetch: Callable[[torch.Tensor], torch.Tensor], *, read: bool = False) -> CallCounts:
    """Compute on a batch that comes from the host, as if there were a device."""
    with fake_tensors():
        model = tiny.TinyGPT().to(FAKE_DEVICE)

        def step() -> None:
            loss = model.loss(fetch(tiny.some_tokens()))
            loss.backward()
            if read:
                loss.item()

        return count_call(step)


def well_fetched(tokens: torch.Tensor) -> torch.Tensor:
    return tokens.pin_memory().to(FAKE_DEVICE, non_blocking=True)


@pytest.fixture(scope="module")
def healthy_loading() -> CallCounts:
    return loading(well_fetched)


@pytest.mark.skipif(
    torch.accelerator.is_available(), reason="memory is really pinned for the accelerator here"
)
@pytest.mark.parametrize(
    ("fetch", "moves"),
    [
        (well_fetched, set()),
        (lambda tokens: tokens.to(FAKE_DEVICE, non_blocking=True), {"pageable_copy_bytes"}),
        (lambda tokens: tokens.pin_memory().to(FAKE_DEVICE), {"blocking_copy_bytes"}),
        # One copy more is more that is copied, and the room for it.
        (
            lambda tokens: [well_fetched(tokens), tokens.to(FAKE_DEVICE)][0],
            {"pageable_copy_bytes", "copied_to_device_bytes"},
        ),
    ],
    ids=["pinned", "pageable", "blocking", "twice"],
)
def test_a_change_of_loading_moves_the_counts_that_name_it(
    healthy_loading: CallCounts, fetch: Callable[[torch.Tensor], torch.Tensor], moves: set[str]
) -> None:
    assert moved(healthy_loading, loading(fetch)) == moves


def test_reading_the_loss_synchronises_once(healthy_loading: CallCounts) -> None:
    healthy, reading = healthy_loading, loading(well_fetched, read=True)

    assert moved(healthy, reading) == {"host_syncs"}
    assert (healthy.host_syncs, reading.host_syncs) == (0, 1)


def moved(before: CallCounts, after: CallCounts) -> set[str]:
    """All counts that differ; instructions are left out, they differ from call to call."""
    names = {field.name for field in dataclasses.fields(CallCounts)} - {"instructions"}
    return {name for name in names if getattr(before, name) != getattr(after, name)}
