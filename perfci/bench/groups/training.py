"""A training step: its time and phases, what it needs of memory and energy, and how long it waits for data."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from perfci.bench.call_counts.flops import count_flops, mfu
from perfci.bench.compilers.compile_caches import caches
from perfci.bench.devices.device_monitor import WITNESSES, watch
from perfci.bench.devices.energy_meter import joules_per_call
from perfci.bench.devices.peak_rates import peak_flops
from perfci.bench.devices.torch_devices import Device
from perfci.bench.groups.numerics import require_parity
from perfci.bench.groups.training_loop import Mark, Training
from perfci.bench.memory_use.peak_memory import MEMORY_METRICS, allocator_readings
from perfci.bench.readings import Absent, Measured, Reading, witness
from perfci.bench.timers.stage_timers import Stages
from perfci.bench.timers.timed_blocks import Timing, time_blocks
from perfci.model import Clock, Metric

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

PHASES = ("forward", "backward", "optimizer")
METRICS = (
    Metric("step_time", "seconds"),
    *(Metric(f"{phase}_time", "seconds") for phase in PHASES),
    Metric("tokens_per_s", "tokens/s", "higher"),  # of this device, as torchtitan counts them
    Metric("flop_per_s", "FLOP/s", "higher"),
    Metric("mfu", "ratio", "higher"),
    Metric("data_time", "seconds"),
    Metric("data_stall", "ratio"),
    Metric("step_energy", "joules"),
    *MEMORY_METRICS,
    *WITNESSES,
)
STEPS = 7  # with synchronised phases, and with fresh batches: as many as asv and perfci need for a median


def measure(bench: ModelBench, p: Mapping[str, Any]) -> Measured:
    """Time steps on batches that are already on the device, then phases, then steps that fetch their batches.

    ``step_time`` is not the sum of the phases: they are waited for one by one, which a step is not. Raises
    ``ParityFailed`` for a variant that does not compute what the reference computes.
    """
    require_parity(bench, p)
    device, training = bench.shim, Training(bench, p)
    training.check()
    with watch(device) as watched:
        timing = time_blocks(training.step, device=device, warmup_s=bench.budget_s / 4, budget_s=bench.budget_s)
        phases = _phases(training, device)
        data = _data(bench, p, training)
    training.check_loss(f"after {training.steps} steps")
    readings = {
        "step_time": timing.reading(),
        **phases,
        **_rates(bench, p, training, timing),
        **data,
        "step_energy": joules_per_call(training.step, device=device),
        **allocator_readings(device, training.step),
        **watched.readings,
    }
    return Measured(readings, (*timing.flags, *watched.flags, *caches()))


def profiled(bench: ModelBench, p: Mapping[str, Any]) -> Callable[[Mark], None]:
    """One step with its phases marked, for a profiler; a timed step never has marks."""
    training = Training(bench, p)
    training.check()
    return lambda mark: training.run(training.next_batch(), mark)


def _phases(training: Training, device: Device) -> dict[str, Reading | Absent]:
    stages = Stages(device)
    for _ in range(STEPS):
        with stages:
            training.run(training.next_batch(), mark=stages)
    readings = stages.readings(PHASES, complete=False)
    return {f"{phase}_time": readings[phase] for phase in PHASES}


def _rates(bench: ModelBench, p: Mapping[str, Any], training: Training, timing: Timing) -> dict[str, Reading | Absent]:
    """Numbers derived from the step time, for display: judging them would judge it twice."""
    step_s = statistics.median(timing.judged)
    flops = count_flops(training.step)
    peak = peak_flops(bench.shim.name, bench.precision(p))
    share = mfu(flops, step_s, peak)
    tokens = bench.tokens_per_batch(p) if callable(bench.tokens_per_batch) else bench.tokens_per_batch
    return {
        "tokens_per_s": witness(tokens / step_s) if tokens else Absent("it gives no tokens_per_batch"),
        "flop_per_s": witness(flops / step_s),
        "mfu": witness(share) if share is not None else Absent(f"the peak of {bench.shim.name} is not known"),
    }


def _data(bench: ModelBench, p: Mapping[str, Any], training: Training) -> dict[str, Reading | Absent]:
    """Time blocked in ``batch`` while the device may still be busy with the step before."""
    waits: list[tuple[float, float]] = []
    bench.shim.synchronize()
    begin = time.perf_counter()
    for index in range(STEPS):
        wall, cpu = time.perf_counter(), time.process_time()
        batch = bench.batch(p, index)
        waits.append((time.perf_counter() - wall, time.process_time() - cpu))
        training.run(batch)
    bench.shim.synchronize()
    whole = time.perf_counter() - begin
    wall_s, cpu_s = zip(*waits, strict=True)
    judged = cpu_s if bench.shim.kind == "cpu" else ()
    return {
        "data_time": Reading(wall_s, Clock.WALL, cpu=judged),
        "data_stall": witness(sum(wall_s) / whole),
    }
