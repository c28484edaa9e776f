"""Memory of training a GPT: checkpointing and its cost, and fragmentation of the allocator."""

from __future__ import annotations

import itertools

from perfci.bench import Bench, Measurement, Metric, informational, metrics
from perfci.bench.call_counts import count_call
from perfci.bench.call_counts.operator_counter import OperatorCounter
from perfci.bench.devices.torch_devices import this_device
from perfci.bench.memory_use.peak_memory import MEMORY_METRICS, allocator_readings
from perfci.bench.timers.timed_blocks import time_blocks

from .training import TrainingSetup, random_text
from .workload_sizes import DEVICE, SIZES, TRAINING, declare_cost


class Checkpointing(Bench):
    """Activations kept, kept where they are dear, or computed again: less memory for more time.

    Running out of memory is a result here: the cell then says ``oom``, and its name says at which size.
    """

    cost_s = declare_cost(smoke=3, real=25)
    default_suite = {"tokens": TRAINING.tokens[-1:], "precision": ["bf16"], "checkpointing": ["full"]}
    params = (TRAINING.tokens, TRAINING.memory_precisions, ["none", "selective", "full"], [SIZES.name])
    param_names = ("tokens", "precision", "checkpointing", "sizes")

    @metrics(
        Metric("step_time", "seconds"),
        Metric("recompute_overhead", "ratio"),
        Metric("peak_tensor_bytes", "bytes"),
        Metric("fake_peak_bytes", "bytes"),
        *MEMORY_METRICS,
    )
    def measure_checkpointing(
        self, tokens: int, precision: str, checkpointing: str, sizes: str
    ) -> Measurement:
        def trained(checkpointing: str) -> TrainingSetup:
            training = TrainingSetup(
                SIZES, precision, batch=tokens // SIZES.length, checkpointing=checkpointing
            )
            training.step()
            return training

        def two_steps() -> (
            None
        ):  # the first makes the optimizer's state, the second has it beside the activations
            trained(checkpointing).step()

        # One model after the other: a second one would be in the allocator's peaks.
        plain_operators = count_operators(trained("none"))
        training = trained(checkpointing)
        timing = time_blocks(training.step, **TRAINING.timing)
        counts = count_call(two_steps, rebuild=two_steps).readings()
        readings = {
            "step_time": timing.reading(),
            "recompute_overhead": informational(count_operators(training) / plain_operators - 1),
            "peak_tensor_bytes": counts["peak_tensor_bytes"],
            "fake_peak_bytes": counts["fake_peak_bytes"],
            **allocator_readings(this_device(), training.step),
        }
        return Measurement(readings, timing.flags)


class Fragmentation(Bench):
    """Batches whose length changes from step to step: what a caching allocator reserves and cannot use.

    Retries and failed allocations are expected to be none. ``PYTORCH_CUDA_ALLOC_CONF`` is set outside, and
    recorded.
    """

    cost_s = declare_cost(smoke=0.9, real=10)
    default_suite = False
    params = (["steady", "changing"], [SIZES.name])
    param_names = ("lengths", "sizes")

    @metrics(Metric("step_time", "seconds"), *MEMORY_METRICS)
    def measure_fragmentation(self, lengths: str, sizes: str) -> Measurement:
        shares = (1.0,) if lengths == "steady" else (0.25, 1.0, 0.5, 0.75)
        training = TrainingSetup(SIZES, batch=SIZES.batches[-1])
        texts = [
            random_text(SIZES, SIZES.batches[-1], length=int(SIZES.length * share)).to(DEVICE)
            for share in shares
        ]
        coming = itertools.cycle(texts)

        def step() -> None:
            training.batches = (next(coming),)
            training.step()

        timing = time_blocks(step, number=len(shares), **TRAINING.timing)
        memory = allocator_readings(this_device(), lambda: [step() for _ in shares])
        return Measurement({"step_time": timing.reading(), **memory}, timing.flags)


def count_operators(training: TrainingSetup) -> int:
    with OperatorCounter() as counted:
        training.step()
    return counted.operators
