"""The largest batch that fits: out of memory is an answer."""

from __future__ import annotations

import random
from collections.abc import Callable
from weakref import WeakSet

import pytest
import torch
from fake_device import FakeDevice
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.bench.memory_use import batch_limit
from perfci.bench.memory_use.batch_limit import find_largest_batch, runs_without_oom
from perfci.bench.readings import Absent
from perfci.bench.timers.timed_blocks import gc_disabled


def step_that_holds(most: int, tried: list[int] | None = None) -> Callable[[int], Callable[[], None]]:
    def make_step(batch: int) -> Callable[[], None]:
        def step() -> None:
            if tried is not None:
                tried.append(batch)
            if batch > most:
                raise torch.OutOfMemoryError("CUDA out of memory")

        return step

    return make_step


@given(most=st.integers(0, 5000), start=st.integers(1, 300), limit=st.integers(1, 4096))
@settings(deadline=None, derandomize=True, max_examples=200)
def test_finds_the_last_batch_that_fits(most: int, start: int, limit: int) -> None:
    largest = find_largest_batch(step_that_holds(most), FakeDevice(), start=start, limit=limit)

    if most >= limit:
        assert isinstance(largest, Absent)
        assert largest.reason == f"a batch of {limit} fits, and no larger one was tried: raise the limit"
    else:
        assert largest == most


def test_doubles_and_then_halves_the_gap() -> None:
    tried: list[int] = []

    assert find_largest_batch(step_that_holds(21, tried), FakeDevice()) == 21
    assert tried == [1, 2, 4, 8, 16, 32, 24, 20, 22, 21]


def test_gives_cached_memory_back_after_every_try() -> None:
    device, tried = FakeDevice(), []

    find_largest_batch(step_that_holds(5, tried), device)

    assert device.cache_emptied == len(tried)


class MemoryOfOneModel(FakeDevice):
    """Runs out of memory as soon as a second model is alive beside the first."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: WeakSet[torch.nn.Parameter] = WeakSet()

    def synchronize(self) -> None:
        super().synchronize()
        if len(self.alive) > 2:  # weight and bias
            raise torch.OutOfMemoryError("CUDA out of memory")


def test_the_model_of_one_try_is_freed_before_the_next() -> None:
    device = MemoryOfOneModel()

    def make_step(batch: int) -> Callable[[], None]:
        model = torch.nn.Linear(4, 4)
        model.register_forward_hook(lambda *_: model.zero_grad())  # refers to its own model
        device.alive.update(model.parameters())

        def step() -> None:
            model(torch.ones(1, 4)).sum().backward()
            if batch > 21:
                raise torch.OutOfMemoryError("CUDA out of memory")

        return step

    with gc_disabled():
        assert find_largest_batch(make_step, device) == 21


def test_predicts_against_a_budget_without_computing() -> None:
    def make_step(batch: int) -> Callable[[], torch.Tensor]:
        weight = torch.ones(1000)  # 4000 bytes however large the batch is
        return lambda: torch.ones(batch, 1000) * weight  # twice 4000 bytes for every sample

    device = FakeDevice(kind="cpu", stats=None)

    assert find_largest_batch(make_step, device, budget_bytes=4000 + 8000 * 37) == 37
    assert find_largest_batch(make_step, device, budget_bytes=4000 + 8000 * 38 - 1) == 37
    assert find_largest_batch(make_step, device, budget_bytes=100) == 0


@pytest.mark.parametrize("of_square", [0, 1])
def test_predicts_as_a_scan_would(of_square: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_limit, "fake_peak_bytes", lambda step: step())
    device, seeded = FakeDevice(kind="cpu", stats=None), random.Random(0)
    tried: list[int] = []

    def steps_of(fixed: int, each: int) -> Callable[[int], Callable[[], int]]:
        return lambda batch: lambda: tried.append(batch) or fixed + each * batch + of_square * batch**2

    for _ in range(200):
        fixed, each, budget = seeded.randint(0, 9000), seeded.randint(1, 50), seeded.randint(0, 20_000)
        make_step = steps_of(fixed, each)

        largest = find_largest_batch(make_step, device, budget_bytes=budget, limit=30_000)

        assert largest == next(batch for batch in range(20_001) if make_step(batch + 1)() > budget)
    if not of_square:
        tried.clear()
        find_largest_batch(steps_of(5000, 33), device, budget_bytes=100_000, limit=30_000)
        assert len(tried) <= 5


def test_is_absent_where_memory_does_not_run_out_in_order() -> None:
    largest_batch = find_largest_batch(
        lambda batch: pytest.fail("nothing is tried"), FakeDevice(kind="cpu", name="CPU (AVX2)", stats=None)
    )

    assert isinstance(largest_batch, Absent)
    assert "budget" in largest_batch.reason


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
    ],
    ids=["python", "cuda", "cpu"],
)
def test_out_of_memory_does_not_fit(error: Exception) -> None:
    def step() -> None:
        raise error

    assert runs_without_oom(step, FakeDevice()) is False


def test_a_batch_too_large_for_this_machine_does_not_fit() -> None:
    assert runs_without_oom(lambda: torch.empty(1 << 55), FakeDevice()) is False
    assert runs_without_oom(lambda: torch.empty(1), FakeDevice()) is True


def test_any_other_error_propagates() -> None:
    with pytest.raises(RuntimeError, match="invalid for input"):
        runs_without_oom(lambda: torch.ones(12).reshape(5), FakeDevice())
