from __future__ import annotations

import gc
import itertools
import math
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from asv_runner.benchmarks.mark import SkipNotImplemented
from fake_device import FakeDevice
from fake_nvml import install_nvml
from hypothesis import given, settings
from hypothesis import strategies as st

from perfci.bench.readings import check_and_serialize_readings
from perfci.bench.timers.timed_blocks import (
    BlockSampler,
    ColdCacheBlockSampler,
    gc_disabled,
    median_interval_rank,
    relative_half_width,
    time_blocks,
)
from perfci.bench.timers.warmup import warm_up
from perfci.model import Clock, Metric

COUNT_FROZEN = gc.get_freeze_count  # which the tests replace by an answer at once


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
    return FakeDevice(uuid=None).install(
        monkeypatch, "perfci.bench.timers.timed_blocks", "perfci.bench.timers.warmup"
    )


@pytest.fixture
def cpu(gpu: FakeDevice) -> FakeDevice:
    gpu.kind, gpu.stats = "cpu", None
    return gpu


@pytest.fixture
def dynamo(gpu: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """torch._dynamo.utils as a process has it that compiles."""
    module = SimpleNamespace(counters={"frames": Counter()}, compilation_time_metrics={})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", module)
    return module


def after(calls: int, first: Callable[[], object], then: Callable[[], object]) -> Callable[[], object]:
    """A function that does ``first`` so many times, and ``then`` from there on."""
    count = itertools.count()
    return lambda: first() if next(count) < calls else then()


# The clocks


def test_reads_device_time_from_events_and_wall_time_beside_it(gpu: FakeDevice) -> None:
    timing = time_blocks(gpu.launching(1e-3), device=gpu, number=10)

    assert timing.device == pytest.approx([1.001e-3] * 7)
    assert timing.wall == pytest.approx([1.001e-3] * 7)
    assert timing.cpu == pytest.approx([1e-5] * 7)


def test_judges_the_device_samples(gpu: FakeDevice) -> None:
    reading = time_blocks(gpu.launching(1e-3), device=gpu, number=10).reading()

    assert (reading.clock, reading.number, reading.cpu) == (Clock.DEVICE, 10, ())
    assert reading.samples == pytest.approx([1.001e-3] * 7)


def test_keeps_the_host_seconds_of_a_device_that_waits_for_its_host(gpu: FakeDevice) -> None:
    def prepare_on_the_host_after_the_kernel() -> None:
        gpu.kernel(1e-3)
        gpu.synchronize()
        gpu.work(4e-3)

    reading = time_blocks(prepare_on_the_host_after_the_kernel, device=gpu, number=10).reading()
    rows = check_and_serialize_readings([Metric("step_time", "seconds")], {"step_time": reading})["metrics"]

    assert [(row["name"], row["clock"]) for row in rows] == [
        ("step_time", "device"),
        ("wall_step_time", "informational"),
    ]
    assert rows[1]["samples"] == pytest.approx([5.01e-3] * 7)


def test_synchronises_once_per_block_however_many_calls_it_has(gpu: FakeDevice) -> None:
    blocks = BlockSampler(gpu)

    for number in (1, 10, 1000):
        blocks.run_block(gpu.launching(1e-4), number)

    assert gpu.synchronised == 3
    assert gpu.pairs_made == 1


def test_gives_wall_and_cpu_seconds_without_a_device(cpu: FakeDevice) -> None:
    def preempted() -> None:
        cpu.work(1e-3)
        cpu.host_s += 4e-3

    timing = time_blocks(preempted, device=cpu, number=4)
    reading = timing.reading()

    assert (reading.clock, reading.samples) == (Clock.WALL, pytest.approx([5e-3] * 7))
    assert reading.cpu == timing.judged_samples == pytest.approx([1e-3] * 7)


def test_prepare_runs_untimed_before_each_block_and_is_waited_for(gpu: FakeDevice) -> None:
    prepared: list[float] = []

    def prepare() -> None:
        prepared.append(gpu.host_s)
        gpu.kernel(1.0)

    timing = time_blocks(gpu.launching(1e-3), device=gpu, prepare=prepare, number=10, budget_s=60)

    assert len(prepared) == len(timing.device) == 7
    assert (*timing.device, *timing.wall) == pytest.approx([1.001e-3] * 14)


def test_the_time_of_a_cold_call_excludes_flushing_the_cache(gpu: FakeDevice) -> None:
    buffer = SimpleNamespace(zero_=gpu.launching(5e-3))
    blocks = ColdCacheBlockSampler(gpu, buffer=buffer)

    blocks.run_block(gpu.launching(1e-3), 4)

    assert blocks.device_s == pytest.approx([1e-3])
    assert (blocks.wall, blocks.cpu, gpu.synchronised) == ([], [], 2)


def test_the_time_of_a_cold_call_excludes_a_launch_that_outlasts_one_flush(gpu: FakeDevice) -> None:
    def launch_slowly() -> None:
        gpu.work(1e-4)
        gpu.kernel(1e-3)

    blocks = ColdCacheBlockSampler(gpu, buffer=SimpleNamespace(zero_=gpu.launching(4e-5)))

    blocks.run_block(launch_slowly, 4)

    assert blocks.flushes == 6
    assert blocks.device_s == pytest.approx([1e-3])


def test_cold_calls_are_judged_by_events_alone(gpu: FakeDevice) -> None:
    timing = time_blocks(gpu.launching(1e-3), device=gpu, number=1, flush_l2=True)

    assert timing.device == pytest.approx([1.01e-3] * 7)
    assert (timing.wall, timing.cpu) == ((), ())


def test_a_cold_cache_is_skipped_on_a_cpu(cpu: FakeDevice) -> None:
    with pytest.raises(SkipNotImplemented, match="a cold L2 cache needs an accelerator"):
        time_blocks(lambda: cpu.work(1e-3), device=cpu, flush_l2=True)


@settings(deadline=None, max_examples=30)
@given(call_s=st.floats(1e-5, 0.3))
def test_a_block_is_as_many_calls_as_last_ten_milliseconds(call_s: float) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.delitem(sys.modules, "torch._dynamo.utils", raising=False)
        cpu = FakeDevice(kind="cpu", stats=None)
        cpu.install(monkeypatch, "perfci.bench.timers.timed_blocks", "perfci.bench.timers.warmup")

        timing = time_blocks(lambda: cpu.work(call_s), device=cpu, warmup_s=0.01, max_blocks=1)

    assert 0.0099 <= timing.number * call_s <= max(0.0101, call_s) + call_s


# Evidence


def test_stops_after_min_blocks_when_all_agree(cpu: FakeDevice) -> None:
    timing = time_blocks(lambda: cpu.work(1e-3), device=cpu)

    assert (len(timing.cpu), timing.is_settled, timing.flags) == (7, True, ())
    assert timing.relative_half_width == pytest.approx(0, abs=1e-9)


def test_takes_blocks_until_the_median_is_precise(cpu: FakeDevice) -> None:
    noise = random.Random(7)

    timing = time_blocks(lambda: cpu.work(1e-2 * noise.gauss(1, 0.02)), device=cpu, number=1, budget_s=60)

    assert 7 < len(timing.cpu) < 50
    assert timing.relative_half_width <= 0.0125 < relative_half_width(timing.cpu[:-1])


def test_stops_at_max_blocks_in_persistent_noise(cpu: FakeDevice) -> None:
    noise = random.Random(7)

    timing = time_blocks(lambda: cpu.work(1e-2 * noise.uniform(1, 3)), device=cpu, number=1, budget_s=60)

    assert len(timing.cpu) == 50
    assert timing.relative_half_width > 0.0125


def test_stops_at_its_budget_with_at_least_one_block(cpu: FakeDevice) -> None:
    timing = time_blocks(lambda: cpu.work(5.0), device=cpu, budget_s=2.0)

    assert timing.wall == pytest.approx([5.0])
    assert timing.relative_half_width == math.inf


def test_matches_the_published_ranks_of_the_median_interval() -> None:
    ranks = {count: median_interval_rank(count) for count in (1, 5, 6, 8, 9, 20, 50, 100)}

    assert ranks == {1: 0, 5: 0, 6: 1, 8: 1, 9: 2, 20: 6, 50: 18, 100: 40}


samples = st.lists(st.floats(1e-6, 1e3), min_size=6, max_size=60)


@given(samples, st.floats(1e-3, 1e3), st.randoms())
def test_the_precision_depends_on_neither_unit_nor_order(
    values: list[float], unit: float, dice: random.Random
) -> None:
    shuffled = [value * unit for value in values]
    dice.shuffle(shuffled)

    assert relative_half_width(shuffled) == pytest.approx(relative_half_width(values), rel=1e-6)


@given(samples)
def test_the_precision_is_never_wider_than_the_range(values: list[float]) -> None:
    width = relative_half_width(values) * statistics.median(values)

    assert 0 <= width <= (max(values) - min(values)) / 2 * (1 + 1e-9)


def test_the_interval_covers_the_true_median_at_its_nominal_rate() -> None:
    dice, held, times = random.Random(3), 0, 2000
    for _ in range(times):
        ordered = sorted(dice.lognormvariate(0, 0.5) for _ in range(15))
        rank = median_interval_rank(15)
        held += ordered[rank - 1] <= 1.0 <= ordered[-rank]

    assert held / times >= 0.945


def test_the_half_width_is_infinite_without_samples_or_at_a_median_of_zero() -> None:
    assert (
        relative_half_width([])
        == relative_half_width([1.0] * 5)
        == relative_half_width([0.0] * 9)
        == math.inf
    )


# Warm-up


def test_warms_up_until_nothing_is_compiled_any_more(cpu: FakeDevice, dynamo: SimpleNamespace) -> None:
    def compile_first() -> None:
        dynamo.counters["frames"]["total"] += 1
        cpu.work(3.0)

    timing = time_blocks(after(4, compile_first, lambda: cpu.work(1e-2)), device=cpu, warmup_s=0.5)

    assert (timing.warmup_calls, timing.is_settled) == (4 + 6, True)
    assert timing.cpu == pytest.approx([1e-2] * 7)


def test_restarts_the_warm_up_whenever_something_is_compiled(
    cpu: FakeDevice, dynamo: SimpleNamespace
) -> None:
    def sometimes() -> None:
        dynamo.counters["frames"]["total"] += next(calls) == 4
        cpu.work(1e-2)

    calls = itertools.count(1)

    assert warm_up(sometimes, cpu, cap_s=0.5).calls == 4 + 6


def test_gives_up_on_a_function_that_compiles_at_every_call(cpu: FakeDevice, dynamo: SimpleNamespace) -> None:
    def compiling() -> None:
        dynamo.compilation_time_metrics.setdefault("backend_compile", []).append(1.0)
        cpu.work(1.0)

    timing = time_blocks(compiling, device=cpu, warmup_s=0.5, max_blocks=2)

    assert not timing.is_settled
    assert timing.flags == (
        "unsettled: something was compiled in the last of 11 warm-up calls",
        "unsettled: something was compiled in a timed block",
    )


def test_warms_up_until_the_allocator_takes_no_new_segment(gpu: FakeDevice) -> None:
    def allocate() -> None:
        assert gpu.stats is not None
        gpu.stats["num_device_alloc"] += 1
        gpu.kernel(1e-2)

    timing = time_blocks(after(5, allocate, gpu.launching(1e-2)), device=gpu)

    assert (timing.warmup_calls, timing.flags) == (5 + 6, ())


def test_keeps_and_flags_a_function_whose_allocator_never_settles(gpu: FakeDevice) -> None:
    def allocate() -> None:
        assert gpu.stats is not None
        gpu.stats["num_device_alloc"] += 1
        gpu.kernel(1e-2)

    timing = time_blocks(allocate, device=gpu, number=1)

    assert len(timing.device) == 7
    assert timing.flags[0].startswith("unsettled: the allocator took new memory in the last of ")


@pytest.mark.parametrize(("factor", "way"), [(0.97, "faster"), (1.03, "slower")])
def test_flags_calls_that_still_changed_when_the_cap_was_reached(
    cpu: FakeDevice, factor: float, way: str
) -> None:
    call_s = itertools.accumulate(itertools.repeat(factor), lambda before, by: before * by, initial=1e-2)

    warmed = warm_up(lambda: cpu.work(next(call_s)), cpu, cap_s=0.3)

    assert warmed.unsettled_reason == f"the calls still became {way}"


def test_noise_alone_does_not_keep_a_function_from_settling(cpu: FakeDevice) -> None:
    noise = random.Random(1)

    warmed = [warm_up(lambda: cpu.work(1e-2 * noise.gauss(1, 0.1)), cpu, cap_s=0.5) for _ in range(50)]

    assert sum(not once.unsettled_reason for once in warmed) >= 48
    assert statistics.median(once.calls for once in warmed) == 6


def test_waits_for_the_sm_clock_of_an_nvidia_gpu(
    gpu: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvml(tmp_path, monkeypatch, sm_mhz=[210, 210, 900, 1500, 1980])
    gpu.uuid = "GPU-fake"

    warmed = warm_up(gpu.launching(1e-2), gpu, cap_s=5.0)

    assert (warmed.calls, warmed.unsettled_reason) == (3 + 6, "")


def test_flags_an_sm_clock_that_still_drifts(
    gpu: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvml(tmp_path, monkeypatch, sm_mhz=[210, 400] * 50)
    gpu.uuid = "GPU-fake"

    warmed = warm_up(gpu.launching(1e-2), gpu, cap_s=0.2)

    assert warmed.unsettled_reason == "the SM clock still moved between 210 and 400 MHz"


def test_nothing_but_the_function_runs_between_the_last_warm_up_call_and_the_first_block(
    cpu: FakeDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    monkeypatch.setattr(gc, "get_freeze_count", lambda: happened.append("walked the frozen heap") or 0)
    monkeypatch.setattr(gc, "freeze", lambda: happened.append("froze"))

    time_blocks(lambda: happened.append("called") or cpu.work(1e-2), device=cpu)

    assert happened[0] == "walked the frozen heap"
    assert set(happened[2:]) == {"called"}


def test_runs_the_callback_between_two_rounds(cpu: FakeDevice) -> None:
    happened: list[str] = []

    warm_up(
        lambda: happened.append("call") or cpu.work(1e-2),
        cpu,
        0.5,
        between_rounds=lambda: happened.append("between"),
    )

    assert happened == ["call", "between"] * 5 + ["call"]


@pytest.mark.parametrize(("call_s", "calls"), [(0.084, 6), (0.5, 6), (2.0, 6), (3.5, 4), (20.0, 2)])
def test_long_calls_that_are_steady_settle(cpu: FakeDevice, call_s: float, calls: int) -> None:
    warmed = warm_up(lambda: cpu.work(call_s), cpu, cap_s=0.5)

    assert (warmed.calls, warmed.unsettled_reason) == (calls, "")


def test_long_calls_that_drift_are_flagged_after_twice_the_rounds_that_are_compared(cpu: FakeDevice) -> None:
    call_s = itertools.accumulate(itertools.repeat(1.1), lambda before, by: before * by, initial=0.2)

    warmed = warm_up(lambda: cpu.work(next(call_s)), cpu, cap_s=0.5)

    assert (warmed.calls, warmed.unsettled_reason) == (12, "the calls still became slower")


def test_an_accelerator_gets_seconds_to_raise_its_clock(
    gpu: FakeDevice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_nvml(tmp_path, monkeypatch, sm_mhz=[*range(210, 1980, 15), 1980])
    gpu.uuid = "GPU-fake"

    timing = time_blocks(gpu.launching(1e-2), device=gpu)

    assert timing.warmup_calls * 1e-2 > 0.5
    assert timing.flags == ()


# The cycle collector


@pytest.fixture
def collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The collector as a process begins with it: on, and nothing frozen."""
    assert gc.isenabled()
    monkeypatch.setattr(gc, "get_freeze_count", COUNT_FROZEN)
    gc.unfreeze()
    yield
    gc.enable()
    gc.freeze()


def test_the_collector_is_off_until_the_last_block_and_on_again_after(
    collecting: None, cpu: FakeDevice
) -> None:
    seen: list[bool] = []

    def function() -> None:
        seen.append(gc.isenabled())
        cpu.work(1e-2)

    timing = time_blocks(function, device=cpu)

    assert len(seen) > timing.warmup_calls
    assert not any(seen)
    assert (gc.isenabled(), gc.get_freeze_count()) == (True, 0)


def test_the_collector_is_restored_after_an_exception(collecting: None, cpu: FakeDevice) -> None:
    function = after(9, lambda: cpu.work(1e-2), lambda: 1 / 0)

    with pytest.raises(ZeroDivisionError):
        time_blocks(function, device=cpu)

    assert (gc.isenabled(), gc.get_freeze_count()) == (True, 0)


def test_a_collector_that_was_off_stays_off(collecting: None) -> None:
    gc.disable()

    with gc_disabled():
        pass

    assert not gc.isenabled()


def test_a_heap_that_was_frozen_before_stays_frozen(collecting: None) -> None:
    gc.freeze()

    with gc_disabled() as collect:
        collect()

    assert gc.get_freeze_count() > 0


def test_reference_cycles_of_a_block_are_collected_before_the_next(collecting: None, cpu: FakeDevice) -> None:
    class Cycle:
        alive = 0

        def __init__(self) -> None:
            self.itself = self
            Cycle.alive += 1

        def __del__(self) -> None:
            Cycle.alive -= 1

    def function() -> None:
        Cycle()
        cpu.work(1e-2)

    left: list[int] = []
    time_blocks(function, device=cpu, number=3, prepare=lambda: left.append(Cycle.alive))

    assert left == [0] * 7
