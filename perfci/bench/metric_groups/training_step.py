"""A training step: its time and phases, memory and energy, and how long it waits for data."""

from __future__ import annotations

import statistics

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.call_counts.count_flops import count_flops_by_format
from perfci.bench.call_counts.utilisation import utilisation_readings
from perfci.bench.compilers.compile_cache_fingerprint import cache_fingerprint_flags
from perfci.bench.devices.device_monitor import CONDITION_METRICS, monitor_device
from perfci.bench.devices.energy_meter import joules_per_call
from perfci.bench.devices.torch_devices import Device
from perfci.bench.memory_use.peak_memory import MEMORY_METRICS, allocator_readings
from perfci.bench.metric_groups import data_wait
from perfci.bench.metric_groups.training_loop import TrainingLoop
from perfci.bench.metric_groups.training_numerics import require_parity
from perfci.bench.readings import Absent, Measurement, Reading, informational
from perfci.bench.timers.stage_timers import ProfiledWork, Stages
from perfci.bench.timers.timed_blocks import Timing, time_blocks
from perfci.model import Metric

PHASES = ("forward", "backward", "optimizer")
METRICS = (
    Metric("step_time", "seconds"),
    *(Metric(f"{phase}_time", "seconds") for phase in PHASES),
    Metric("tokens_per_s", "tokens/s", "higher"),  # of this device, as torchtitan counts them
    Metric("flop_per_s", "FLOP/s", "higher"),
    Metric("mfu", "ratio", "higher"),  # of the model's own operations
    Metric("hfu", "ratio", "higher"),  # with those that checkpointing computes again
    *data_wait.METRICS,
    Metric("step_energy", "joules"),
    *MEMORY_METRICS,
    *CONDITION_METRICS,
)

PHASE_STEPS = 7
"""Steps with synchronised phases: enough for a median."""


def measure(hooks: BoundModelHooks) -> Measurement:
    """Time steps on batches that are already on the device, then phases, then steps that fetch their batches.

    ``step_time`` is not the sum of the phases: those are synchronised one by one, which a step is not. Raises
    ``ParityFailed`` for a variant that does not compute what the reference computes.
    """
    require_parity(hooks)
    device, training = hooks.device, TrainingLoop(hooks)
    training.check_first_loss()
    training.step_until_updated()
    with monitor_device(device) as conditions:
        timing = time_blocks(
            training.step, device=device, warmup_s=hooks.budget_s / 4, budget_s=hooks.budget_s
        )
        phases = _phase_readings(training, device)
        data = data_wait.read_data_wait(hooks, training, budget_s=hooks.budget_s / 2)
    training.check_loss_finite(f"after {training.steps} steps")
    readings = {
        "step_time": timing.reading(),
        **phases,
        **_rate_readings(hooks, training, timing),
        **data,
        "step_energy": joules_per_call(training.step, device=device),
        **allocator_readings(device, training.step),
        **conditions.readings,
    }
    return Measurement(readings, (*timing.flags, *conditions.flags, *cache_fingerprint_flags()))


def build_profiled_step(hooks: BoundModelHooks) -> ProfiledWork:
    """One step with its phases marked, for a profiler; a timed step never has marks."""
    training = TrainingLoop(hooks)
    training.check_first_loss()
    return lambda mark_phase: training.train_on_batch(training.next_resident_batch(), mark_phase)


def _phase_readings(training: TrainingLoop, device: Device) -> dict[str, Reading | Absent]:
    stages = Stages(device)
    for _ in range(PHASE_STEPS):
        with stages:
            training.train_on_batch(training.next_resident_batch(), mark_phase=stages)
    readings = stages.readings(PHASES, complete=False)
    return {f"{phase}_time": readings[phase] for phase in PHASES}


def _rate_readings(
    hooks: BoundModelHooks, training: TrainingLoop, timing: Timing
) -> dict[str, Reading | Absent]:
    """Numbers derived from the step time, for display: judging them would judge it twice."""
    step_s = statistics.median(timing.elapsed_samples)
    tokens = hooks.tokens_per_batch()
    tokenless = Absent("it defines no tokens_per_batch")
    return {
        "tokens_per_s": informational(tokens / step_s) if tokens else tokenless,
        **utilisation_readings(count_flops_by_format(training.step), step_s, hooks.device.name),
    }
