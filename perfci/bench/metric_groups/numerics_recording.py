"""Record what training computes in its first steps: losses, gradient norms, the model's first output."""

from __future__ import annotations

import contextlib
import gc
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.metric_groups.training_loop import TrainingLoop
from perfci.bench.optimizer_steps import observe_optimizer_steps
from perfci.bench.parity import NumericsRecord, ParityFailed, grad_norm, record_step_numerics

MIN_GRADIENT_SCALE = 2.0**-14
"""Below this no gradient that is a number overflows fp16 any more: its smallest normal number."""


def record_training_numerics(
    hooks: BoundModelHooks,
    change_model: Callable[[Any], object] = lambda model: None,
    *,
    whose: str = "",
) -> NumericsRecord:
    """Record losses and gradient norms of the first steps, and the model's output in the first of them.

    ``change_model`` may do something to the model that ``build`` made before it is trained. ``whose``
    (" of the reference") says in a message which run it was.

    An fp16 step whose gradient scaler skips an update is no step of training. The scale is looked for
    first, then all begins again from the same seed with a scale that fits. No model is left in memory.
    """
    with hooks.float32_precision(), _collect_afterwards():
        recorded, scale_start, scale = _record_steps(hooks, change_model, None, whose)
        while scale < scale_start:
            if scale < MIN_GRADIENT_SCALE:
                raise ParityFailed(f"the gradients{whose} overflow in fp16 even at a scale of {scale:g}")
            recorded, scale_start, scale = _record_steps(hooks, change_model, scale, whose)
        return recorded


@contextlib.contextmanager
def _collect_afterwards() -> Iterator[None]:
    """Run the cycle collector: a fused optimizer refers to itself, and so keeps its model alive."""
    try:
        yield
    finally:
        gc.collect()


def _record_steps(
    hooks: BoundModelHooks,
    change_model: Callable[[Any], object],
    gradient_scale: float | None,
    whose: str,
) -> tuple[NumericsRecord, float, float]:
    """Record the steps, with the scale of the gradients before and after them."""
    training = TrainingLoop(hooks, gradient_scale=gradient_scale)
    change_model(training.model)
    scale_start = training.gradient_scale

    def step(index: int) -> tuple[Any, float]:
        with record_update_norms() as norms:
            training.train_on_batch(training.batches[index % len(training.batches)])
        if training.gradient_scale < scale_start:  # skipped: its gradients are not finite
            return training.last_loss, 0.0
        return training.last_loss, norms.total_norm if norms.updates else grad_norm(
            training.model.parameters()
        )

    with capture_first_output(training.model) as outputs:
        recorded = record_step_numerics(step, hooks.steps, whose=whose)
    recorded = replace(recorded, outputs=outputs[0] if outputs else None)
    return recorded, scale_start, training.gradient_scale


@dataclass(slots=True)
class UpdateNorms:
    """Global norm of the gradients that optimizers have used, over all updates of a step."""

    updates: int = 0
    squares: float = 0.0

    @property
    def total_norm(self) -> float:
        return math.sqrt(self.squares)

    def add_update(self, optimizer: torch.optim.Optimizer) -> None:
        """Add the gradients of an optimizer that is about to step, without a gradient scaler's factor."""
        # Fused optimizers divide by the scale and skip by themselves: the scaler leaves both there for them.
        scale, overflow = getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None)
        if overflow is not None and overflow.item():
            return
        norm = grad_norm(tensor for group in optimizer.param_groups for tensor in group["params"])
        self.squares += (norm / (1.0 if scale is None else float(scale))) ** 2
        self.updates += 1


@contextlib.contextmanager
def record_update_norms() -> Iterator[UpdateNorms]:
    """Read gradients in the moment an optimizer steps: clipped, accumulated, and not yet set to zero."""
    norms = UpdateNorms()
    with observe_optimizer_steps(norms.add_update):
        yield norms


@contextlib.contextmanager
def capture_first_output(model: Any) -> Iterator[list[torch.Tensor]]:
    """Keep the first floating tensor of a module's first output; the list stays empty for other callables."""
    captured: list[torch.Tensor] = []

    def keep_first(_module: Any, _inputs: Any, output: Any) -> None:
        floats = [leaf for leaf in tree_leaves(output) if torch.is_tensor(leaf) and leaf.is_floating_point()]
        if floats and not captured:
            captured.append(floats[0].detach().clone())

    if not isinstance(model, torch.nn.Module):
        yield captured
        return
    compiled_call = model._compiled_call_impl
    if compiled_call is not None:  # dynamo would trace a hook, and compile the model anew for it
        model._compiled_call_impl = _call_and_report(compiled_call, keep_first)
    hook = None if compiled_call else model.register_forward_hook(keep_first)
    try:
        yield captured
    finally:
        model._compiled_call_impl = compiled_call
        if hook is not None:
            hook.remove()


def _call_and_report(function: Callable[..., Any], report: Callable[[Any, Any, Any], None]) -> Any:
    def call(*arguments: Any, **options: Any) -> Any:
        output = function(*arguments, **options)
        report(None, None, output)
        return output

    return call
