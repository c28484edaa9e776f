"""The training step of a GPT: number formats, accumulated gradients, optimizers, and batches up to what
fits.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from perfci.bench import (
    Absent,
    Bench,
    Measurement,
    Metric,
    ModelBench,
    Reading,
    exact,
    informational,
    metrics,
    skip_exception,
)
from perfci.bench.call_counts import count_call
from perfci.bench.devices.torch_devices import this_device
from perfci.bench.memory_use.batch_limit import find_largest_batch
from perfci.bench.parity import ParityFailed, default_tolerance
from perfci.bench.timers.timed_blocks import time_blocks

from .gpt_model import GPT
from .workload_sizes import (
    DEVICE,
    PRECISIONS,
    SIZES,
    TRAINING,
    Sizes,
    declare_cost,
    precision_context,
    seed_and_pin_threads,
)

OPTIMIZERS = {"for-loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


class Step(ModelBench):
    """All metrics of a training step in every number format; a format without parity is rejected."""

    cost_s = declare_cost(smoke=1.6, real=16)
    default_suite = {"precision": ["bf16"], "batch": SIZES.batches[-1:]}
    params = {"precision": PRECISIONS, "batch": SIZES.batches, "sizes": [SIZES.name]}
    groups = ("training",)
    reference = {"precision": "fp32"}
    budget_s = TRAINING.budget_s

    def build(self, p: Mapping[str, Any]) -> GPT:
        return GPT(SIZES).to(self.device)

    def batch(self, p: Mapping[str, Any], i: int) -> Tensor:
        return random_text(SIZES, p["batch"], seed=i).to(self.device)

    def loss(self, model: GPT, batch: Tensor) -> Tensor:
        return next_token_loss(model, batch)

    def tokens_per_batch(self, p: Mapping[str, Any]) -> int:
        return int(p["batch"]) * SIZES.length


class Accumulation(Bench):
    """The same tokens in more and smaller batches, their gradients summed before one update."""

    cost_s = declare_cost(smoke=1, real=8)
    default_suite = False
    params = (TRAINING.micro_batches, [SIZES.name])
    param_names = ("micro_batches", "sizes")

    @metrics(
        Metric("step_time", "seconds"), Metric("peak_tensor_bytes", "bytes"), Metric("operators", "count")
    )
    def measure_accumulation(self, micro_batches: int, sizes: str) -> Measurement:
        training = TrainingSetup(SIZES, batch=max(TRAINING.micro_batches), micro_batches=micro_batches)
        training.step()
        timing = time_blocks(training.step, **TRAINING.timing)
        counts = count_call(training.step).readings()
        return Measurement(
            {
                "step_time": timing.reading(),
                "peak_tensor_bytes": counts["peak_tensor_bytes"],
                "operators": counts["operators"],
            },
            timing.flags,
        )


class Optimizer(Bench):
    """The optimizer's part of a step alone, in torch's three implementations of AdamW."""

    cost_s = declare_cost(smoke=0.5, real=5)
    default_suite = {"implementation": ["fused"]}
    params = (list(OPTIMIZERS), [SIZES.name])
    param_names = ("implementation", "sizes")

    @metrics(
        Metric("optimizer_time", "seconds"),
        Metric("operators", "count"),
        Metric("kernel_launches", "count"),
        Metric("optimizer_state_bytes", "bytes"),
    )
    def measure_optimizer(self, implementation: str, sizes: str) -> Measurement:
        training = TrainingSetup(SIZES, batch=SIZES.batches[0], optimizer=implementation)
        training.step()
        timing = time_blocks(training.optimizer.step, **TRAINING.timing)
        counts = count_call(training.optimizer.step, optimizer=training.optimizer).readings()
        names = ("operators", "kernel_launches", "optimizer_state_bytes")
        return Measurement(
            {"optimizer_time": timing.reading(), **{n: counts[n] for n in names}}, timing.flags
        )


class BatchSweep(Bench):
    """Time per sequence over the size of the batch: where the curve bends, a larger batch buys nothing more.

    ``padded`` sequences have random lengths and are filled up to the longest; ``packed`` ones lie end to end.
    """

    cost_s = declare_cost(smoke=1.1, real=8)
    default_suite = {"batch": [8], "lengths": ["packed"], "precision": ["bf16"]}
    params = (TRAINING.sweep, ["packed", "padded"], TRAINING.sweep_precisions, [SIZES.name])
    param_names = ("batch", "lengths", "precision", "sizes")

    @metrics(
        Metric("step_time", "seconds"),
        Metric("tokens_per_s", "tokens/s", "higher"),
        Metric("padding", "ratio"),
    )
    def measure_sweep(self, batch: int, lengths: str, precision: str, sizes: str) -> Measurement:
        seed_and_pin_threads()
        drawn = torch.randint(SIZES.length // 4, SIZES.length + 1, (batch,))
        tokens = int(drawn.sum())
        rows, width = (batch, int(drawn.max())) if lengths == "padded" else (1, tokens)
        rows, width = (rows, width) if lengths == "padded" else (-(-tokens // SIZES.length), SIZES.length)
        training = TrainingSetup(SIZES, precision, batch=rows, length=width)
        training.step()
        timing = time_blocks(training.step, **TRAINING.timing)
        rate = tokens / statistics.median(timing.elapsed_samples)
        padding = 1 - tokens / (rows * width)
        return Measurement(
            {"step_time": timing.reading(), "tokens_per_s": informational(rate), "padding": exact(padding)},
            timing.flags,
        )


class MaxBatch(Bench):
    """Largest batch whose step fits: tried until memory runs out, or predicted for a number of bytes."""

    cost_s = declare_cost(smoke=2.7, real=25)
    default_suite = {"checkpointing": ["none"], "precision": ["bf16"]}
    params = (["none", "full"], TRAINING.sweep_precisions, [SIZES.name])
    param_names = ("checkpointing", "precision", "sizes")

    @metrics(Metric("max_batch_fit", "count", "higher"))
    def measure_fit(self, checkpointing: str, precision: str, sizes: str) -> Mapping[str, Reading | Absent]:
        fits = find_largest_batch(
            lambda batch: TrainingSetup(SIZES, precision, batch=batch, checkpointing=checkpointing).step,
            this_device(),
            limit=TRAINING.batch_limit,
            budget_bytes=TRAINING.budget_bytes,
        )
        if isinstance(fits, Absent):
            return {"max_batch_fit": fits}
        # Predicted bytes repeat; what an allocator still finds room for depends on what it did before.
        is_predicted = TRAINING.budget_bytes is not None
        return {"max_batch_fit": exact(fits) if is_predicted else Reading((float(fits),))}


class Float8(Bench):
    """One matrix product in float8 with scales (``scaled_mm``) against the same product in bf16.

    Its error is checked on any machine; its timing is meaningless where the processor has no float8 units.
    """

    cost_s = declare_cost(smoke=0.3, real=4)
    default_suite = False
    params = (["e4m3", "e5m2"], [SIZES.name])
    param_names = ("format", "sizes")

    @metrics(
        Metric("matmul_time", "seconds"),
        Metric("speedup_vs_bf16", "ratio", "higher"),
        Metric("max_relative_error", "ratio"),
    )
    def measure_float8(self, format: str, sizes: str) -> Measurement:
        seed_and_pin_threads()
        left, right = (torch.randn(TRAINING.matrix, TRAINING.matrix, device=DEVICE) for _ in range(2))
        scaled = build_scaled_product(
            left, right, torch.float8_e4m3fn if format == "e4m3" else torch.float8_e5m2
        )
        exactly = left @ right
        error = float((scaled().float() - exactly).abs().max() / exactly.abs().max())
        if error > default_tolerance("fp8").outputs:
            raise ParityFailed(f"the float8 product is off by {error:.3g} of its largest entry")
        refusal = this_device().unsupported_dtype_reason(torch.float8_e4m3fn)
        if refusal:
            why = Absent(refusal)
            return Measurement(
                {"matmul_time": why, "speedup_vs_bf16": why, "max_relative_error": informational(error)}
            )
        halves = left.bfloat16(), right.bfloat16()
        timing = time_blocks(scaled, **TRAINING.timing)
        plain = time_blocks(lambda: halves[0] @ halves[1], **TRAINING.timing)
        return Measurement(
            {
                "matmul_time": timing.reading(),
                "speedup_vs_bf16": informational(
                    statistics.median(plain.judged_samples) / statistics.median(timing.judged_samples)
                ),
                "max_relative_error": informational(error),
            },
            timing.flags,
        )


def build_scaled_product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Callable[[], Tensor]:
    """Scale both matrices into the range of the format and multiply; only the left one may be e5m2."""
    if not hasattr(torch, "_scaled_mm"):
        raise skip_exception("this torch has no scaled matrix product")
    right_dtype = torch.float8_e4m3fn
    scales = [x.abs().max() / torch.finfo(d).max for x, d in ((left, dtype), (right, right_dtype))]
    small = (left / scales[0]).to(dtype), (right / scales[1]).to(right_dtype).t().contiguous().t()
    return lambda: torch._scaled_mm(*small, scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16)


class TrainingSetup:
    """A GPT, its optimizer and one batch, and the choices that trade its time for memory."""

    def __init__(
        self,
        sizes: Sizes,
        precision: str = "fp32",
        *,
        batch: int,
        checkpointing: str = "none",
        optimizer: str = "fused",
        micro_batches: int = 1,
        length: int | None = None,
    ) -> None:
        seed_and_pin_threads()
        self.precision = precision
        self.model = GPT(sizes, checkpointing=checkpointing).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4, **OPTIMIZERS[optimizer])
        self.batches = random_text(sizes, batch, length=length).to(DEVICE).chunk(micro_batches)

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        for batch in self.batches:
            (self.loss(batch) / len(self.batches)).backward()
        self.optimizer.step()

    def loss(self, batch: Tensor) -> Tensor:
        with precision_context(self.precision):
            return next_token_loss(self.model, batch)


def random_text(sizes: Sizes, batch: int, *, length: int | None = None, seed: int = 0) -> Tensor:
    """(batch, length + 1) random tokens: what is read, and what should follow."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(sizes.vocab, (batch, (length or sizes.length) + 1), generator=generator)


def next_token_loss(model: GPT, text: Tensor) -> Tensor:
    logits = model(text[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
