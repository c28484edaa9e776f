"""The largest batch that fits: out of memory is an answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from fake_device import FakeDevice
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.bench.memory_use.batch_limit import find_largest_batch, runs_without_oom
from perfci.bench.readings import Absent


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
    assert find_largest_batch(step_that_holds(most), FakeDevice(), start=start, limit=limit) == min(
        most, limit
    )


def test_doubles_and_then_halves_the_gap() -> None:
    tried: list[int] = []

    assert find_largest_batch(step_that_holds(21, tried), FakeDevice()) == 21
    assert tried == [1, 2, 4, 8, 16, 32, 24, 20, 22, 21]


def test_gives_cached_memory_back_after_every_try() -> None:
    device, tried = FakeDevice(), []

    find_largest_batch(step_that_holds(5, tried), device)

    assert device.cache_emptied == len(tried)


def test_predicts_against_a_budget_without_computing() -> None:
    def make_step(batch: int) -> Callable[[], torch.Tensor]:
        weight = torch.ones(1000)  # 4000 bytes however large the batch is
        return lambda: torch.ones(batch, 1000) * weight  # twice 4000 bytes for every sample

    device = FakeDevice(kind="cpu", stats=None)

    assert find_largest_batch(make_step, device, budget_bytes=4000 + 8000 * 37) == 37
    assert find_largest_batch(make_step, device, budget_bytes=4000 + 8000 * 38 - 1) == 37
    assert find_largest_batch(make_step, device, budget_bytes=100) == 0


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
