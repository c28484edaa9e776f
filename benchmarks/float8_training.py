"""A training step whose linear layers multiply in float8, against the same step in bf16: speed, memory, loss.

Where the device has no float8 units the numbers are rounded as float8 would and multiplied in fp32: the loss
is the same but for the order of sums, and there is no speed to measure.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from perfci.bench import Absent, Bench, Clock, Measurement, Metric, Reading, informational, metrics
from perfci.bench.devices.torch_devices import this_device
from perfci.bench.memory_use.peak_memory import allocator_readings
from perfci.bench.parity import ParityFailed
from perfci.bench.timers.timed_blocks import Timing, time_blocks

from .gpt_model import GPT
from .training import TrainingSetup, random_text
from .workload_sizes import DEVICE, FLOAT8, SIZES, TRAINING, declare_cost, seed_and_pin_threads

FORWARD, BACKWARD = torch.float8_e4m3fn, torch.float8_e5m2
"""Formats of Micikevicius et al., "FP8 Formats for Deep Learning" (arXiv:2209.05433): precision for values,
range for gradients.
"""

WORST_LOSS_RATIO = 1.02
"""A loss 2 % above that of bf16 after the same steps on the same texts rejects the cell."""


class Float8Step(Bench):
    """Step time, peak memory and the loss after some steps, in float8 and in bf16."""

    def cost_s(self, p: Mapping[str, Any]) -> float:
        """Two trainings of so many steps of about 50 ms, and the timing."""
        return declare_cost(smoke=1.4, real=10 + 2 * 0.05 * p["steps"])

    default_suite = {"products": ["float8"], "steps": FLOAT8.loss_steps[:1]}
    params = (["float8", "bf16"], FLOAT8.loss_steps, [SIZES.name])
    param_names = ("products", "steps", "sizes")

    @metrics(
        Metric("step_time", "seconds"),
        Metric("speedup_vs_bf16", "ratio", "higher"),
        Metric("tokens_per_s", "tokens/s", "higher"),
        Metric("peak_allocated_bytes", "bytes"),
        Metric("loss_at_step_k", "loss"),
        Metric("loss_ratio", "ratio"),
    )
    def measure_float8_step(self, products: str, steps: int, sizes: str) -> Measurement:
        loss = loss_after_steps(products, steps)
        plain = loss_after_steps("bf16", steps) if products == "float8" else loss
        ratio = loss / plain
        if not ratio <= WORST_LOSS_RATIO:
            raise ParityFailed(
                f"after {steps} steps the loss in {products} is {ratio:.3f} times that in bf16, "
                f"allowed are {WORST_LOSS_RATIO}"
            )
        readings = {
            "loss_at_step_k": Reading((loss,), Clock.VALUE),
            "loss_ratio": informational(ratio),
            **speed_and_memory(products),
        }
        timing = readings.pop("timing")
        return Measurement(readings, flags=timing.flags if isinstance(timing, Timing) else ())


def speed_and_memory(products: str) -> dict[str, Any]:
    """Time the step and read its peak; absent for float8 where the device has no units for it."""
    refusal = this_device().unsupported_dtype_reason(FORWARD) if products == "float8" else None
    if refusal:
        names = ("step_time", "speedup_vs_bf16", "tokens_per_s", "peak_allocated_bytes", "timing")
        return dict.fromkeys(names, Absent(refusal))
    training = build_training(products)
    timing = time_blocks(training.step, **TRAINING.timing)
    memory = allocator_readings(this_device(), training.step)
    del training  # else its memory and that of the bf16 model would be alive together
    plain = time_blocks(build_training("bf16").step, **TRAINING.timing) if products == "float8" else timing
    tokens = SIZES.batches[0] * SIZES.length
    return {
        "step_time": timing.reading(),
        "speedup_vs_bf16": informational(
            statistics.median(plain.judged_samples) / statistics.median(timing.judged_samples)
        ),
        "tokens_per_s": informational(tokens / statistics.median(timing.elapsed_samples)),
        "peak_allocated_bytes": memory["peak_allocated_bytes"],
        "timing": timing,
    }


def build_training(products: str) -> TrainingSetup:
    training = TrainingSetup(SIZES, "bf16", batch=SIZES.batches[0])
    if products == "float8":
        convert_to_float8(training.model)
    return training


def loss_after_steps(products: str, steps: int) -> float:
    """Train on texts that differ from step to step; return the mean loss of the last tenth of the steps."""
    seed_and_pin_threads()
    training = TrainingSetup(FLOAT8.model, "bf16", batch=FLOAT8.model.batches[0])
    if products == "float8":
        convert_to_float8(training.model)
    losses = []
    for step in range(steps):
        # A few texts again and again, so that there is something to learn.
        text = random_text(FLOAT8.model, FLOAT8.model.batches[0], seed=step % 4).to(DEVICE)
        training.optimizer.zero_grad(set_to_none=True)
        loss = training.loss(text)
        loss.backward()
        training.optimizer.step()
        losses.append(loss.detach())
    last = losses[-max(1, steps // 10) :]
    return float(torch.stack(last).mean())


def convert_to_float8(model: GPT) -> None:
    """Replace the linear layers of the blocks in place; the head stays as it is, as in torchao's recipes."""
    for block in model.blocks:
        for module in list(block.modules()):
            for name, child in list(module.named_children()):
                if isinstance(child, nn.Linear):
                    setattr(module, name, Float8Linear(child))


class Float8Linear(nn.Module):
    """A linear layer that shares the parameters of another and multiplies in float8, forward and backward."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias

    def forward(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        out: Tensor = Float8Product.apply(rows, self.weight)
        return (out + self.bias.to(out.dtype)).view(*x.shape[:-1], -1)


class Float8Product(torch.autograd.Function):
    """``rows @ weight.T``, every product of the forward and backward pass in float8, one scale a matrix."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return multiply_in_float8(rows, weight.t(), FORWARD)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        rows, weight = ctx.saved_tensors
        of_rows = multiply_in_float8(gradient, weight, BACKWARD)
        of_weight = multiply_in_float8(gradient.t(), rows, BACKWARD)
        return of_rows.to(rows.dtype), of_weight.to(weight.dtype)


def multiply_in_float8(left: Tensor, right: Tensor, left_dtype: torch.dtype) -> Tensor:
    """(m, k), (k, n) -> (m, n) of bf16; only the left matrix may be e5m2."""
    small_left, left_scale = round_to_float8(left, left_dtype)
    small_right, right_scale = round_to_float8(right, FORWARD)
    if this_device().unsupported_dtype_reason(FORWARD):
        product = (small_left.float() @ small_right.float()) * (left_scale * right_scale)
        return product.bfloat16()
    return torch._scaled_mm(
        small_left.contiguous(),
        small_right.t().contiguous().t(),
        scale_a=left_scale,
        scale_b=right_scale,
        out_dtype=torch.bfloat16,
    )


def round_to_float8(matrix: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Scale a matrix so that its largest entry is the format's, and round; with the scale that undoes it."""
    scale = (matrix.abs().max().float() / torch.finfo(dtype).max).clamp(min=1e-12)
    return (matrix / scale).to(dtype), scale
