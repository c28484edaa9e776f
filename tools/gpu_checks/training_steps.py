"""Checks of a training step: its time, its peak of memory, its utilisation, and what TF32 does to it."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.memory import Checkpointing
from benchmarks.training import MaxBatch, TrainingSetup
from benchmarks.workload_sizes import SIZES
from perfci.bench import Absent, Reading
from perfci.bench.call_counts.count_flops import count_flops_by_format
from perfci.bench.call_counts.model_flops import model_flops_per_token
from perfci.bench.call_counts.utilisation import utilisation_readings
from perfci.bench.devices.peak_rates import peak_flops
from perfci.bench.devices.torch_devices import this_device
from perfci.bench.devices.torch_precision_settings import float32_precision
from perfci.bench.timers.timed_blocks import time_blocks
from tools.gpu_checks.check_definition import CheckGroup, CheckResult, GpuCheck, compare_figures, join_results

TIME_LIMIT = 0.01
STEPS_BY_HAND = 50
FRACTION_OF_MEMORY = 0.1
"""Of the device, for the search of a largest batch: all of an H200's 141 GB would take minutes to fill."""


def make_step(precision: str = "bf16") -> TrainingSetup:
    setup = TrainingSetup(SIZES, precision, batch=SIZES.batches[0])
    setup.step()
    return setup


def check_step_time() -> CheckResult:
    """A step of some milliseconds, against events around many of them and against Triton's timer."""
    from triton.testing import do_bench

    step = make_step().step
    ours = statistics.median(time_blocks(step).judged_samples)
    by_hand = statistics.median(time_with_events(step) for _ in range(5))
    by_triton = do_bench(step, warmup=200, rep=2000, return_mode="median") / 1000
    return join_results(
        [
            ("events:", compare_figures(ours, by_hand, TIME_LIMIT, "s")),
            ("do_bench:", compare_figures(ours, by_triton, TIME_LIMIT, "s")),
        ]
    )


def time_with_events(step: Callable[[], object]) -> float:
    """Seconds of a step, by two events around many."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(STEPS_BY_HAND):
        step()
    end.record()
    torch.cuda.synchronize()
    return float(begin.elapsed_time(end)) / 1000 / STEPS_BY_HAND


def check_utilisation() -> CheckResult:
    """The reading of a step, PaLM's formula, and torch's own count of the same model, over one time."""
    setup = make_step()
    seconds = statistics.median(time_blocks(setup.step).judged_samples)
    device = this_device().name
    ours = utilisation_readings(count_flops_by_format(setup.step), seconds, device)["mfu"]
    peak = peak_flops(device, "bf16")
    if isinstance(ours, Absent) or peak is None:
        return CheckResult(f"absent: {ours}", holds=False)
    in_products = sum(weight.numel() for weight in setup.model.parameters() if weight.ndim == 2)
    in_products -= setup.model.positions.weight.numel()
    head_width = SIZES.width // SIZES.heads
    per_token = model_flops_per_token(in_products, SIZES.layers, SIZES.heads, head_width, SIZES.length)
    formula = per_token * SIZES.batches[0] * SIZES.length / seconds / peak
    with (
        FlopCounterMode(display=False) as torchs,
        torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    ):
        setup.step()
    share = ours.samples[0]
    results = [
        ("6N + 12LHQT:", compare_figures(share, formula, TIME_LIMIT)),
        ("FlopCounterMode:", compare_figures(share, torchs.get_total_flops() / seconds / peak, TIME_LIMIT)),
        ("below 1:", CheckResult(f"{share:.3f}", share < 1)),
    ]
    return join_results(results)


def check_tf32() -> CheckResult:
    """The rounding of both gradients of a product, and of the product, against fp64.

    fp32 rounds to 24 bits, TF32 its factors to 11: the errors are a thousand times apart.
    """
    results = []
    for precision, low, high in (("fp32", 0.0, 1e-5), ("tf32", 5e-5, 5e-3)):
        errors = relative_errors_of_linear(precision)
        holds = all(low <= error <= high for error in errors)
        results.append((precision, CheckResult(" ".join(f"{error:.1e}" for error in errors), holds)))
    return join_results(results)


def relative_errors_of_linear(precision: str) -> list[float]:
    """Of output, gradient of the input and gradient of the weight, each relative to its largest entry."""
    device = this_device()
    torch.manual_seed(0)
    x, weight, gradient = (torch.randn(1024, 1024, device=device.torch_device) for _ in range(3))

    def run(dtype: torch.dtype) -> list[torch.Tensor]:
        leaves = [x.to(dtype).requires_grad_(), weight.to(dtype).requires_grad_()]
        output = torch.nn.functional.linear(*leaves)
        return [output, *torch.autograd.grad(output, leaves, gradient.to(dtype))]

    with float32_precision(precision, device):
        rounded = run(torch.float32)
    return [
        float((ours.double() - exact).abs().max() / exact.abs().max())
        for ours, exact in zip(rounded, run(torch.float64), strict=True)
    ]


def check_peak_allocated() -> CheckResult:
    """The benchmark's peak against that of a loop with one model, read in this process before it."""
    tokens = SIZES.batches[0] * SIZES.length
    setup = make_step("fp32")
    torch.cuda.synchronize()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    setup.step()
    torch.cuda.synchronize()
    by_hand = torch.cuda.max_memory_allocated()
    del setup
    gc.collect()
    measured = Checkpointing.measure_checkpointing.__wrapped__(
        Checkpointing(), tokens, "fp32", "none", SIZES.name
    )
    return compare_figures(measured.readings["peak_allocated_bytes"].samples[0], by_hand, 0.005, "B")


def check_largest_batch() -> CheckResult:
    """Three searches in a row: what an earlier one leaves behind makes a later one smaller."""
    torch.cuda.set_per_process_memory_fraction(FRACTION_OF_MEMORY)
    try:
        readings = [
            MaxBatch.measure_fit.__wrapped__(MaxBatch(), "none", "bf16", SIZES.name)["max_batch_fit"]
            for _ in range(3)
        ]
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    batches = [reading.samples[0] if isinstance(reading, Reading) else None for reading in readings]
    return CheckResult(
        ", ".join(map(str, batches)), None not in batches and len(set(batches)) == 1 and batches[0] != 0
    )


STEP_CHECKS = CheckGroup(
    "steps",
    60,
    [
        GpuCheck(
            "time of a bf16 step of GPT-2",
            "within 1 %",
            "two CUDA events around 50 steps; triton's do_bench",
            check_step_time,
        ),
        GpuCheck(
            "mfu of that step",
            "three ways within 1 %, below 1",
            "PaLM's 6N + 12LHQT; torch's FlopCounterMode over plain attention",
            check_utilisation,
        ),
        GpuCheck(
            "TF32 in the backward pass",
            "errors as TF32 rounds, none under fp32",
            "output and both gradients of a product against fp64",
            check_tf32,
        ),
    ],
)

MEMORY_CHECKS = CheckGroup(
    "memory",
    50,
    [
        GpuCheck(
            "peak_allocated_bytes of an fp32 step",
            "within 0.5 %",
            "torch.cuda.max_memory_allocated of a loop with one model",
            check_peak_allocated,
        ),
        GpuCheck(
            "largest batch in a tenth of the memory",
            "three times the same",
            "the same search again, in one process",
            check_largest_batch,
        ),
    ],
)
