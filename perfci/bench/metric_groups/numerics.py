"""Numerics of a training run: its loss after a few steps, and parity of a variant with its reference."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.metric_groups.training_loop import TrainingLoop
from perfci.bench.parity import (
    PARITY_METRICS,
    NumericsRecord,
    Tolerance,
    check_and_measure_parity,
    check_parity,
    default_tolerance,
    grad_norm,
    record_step_numerics,
)
from perfci.bench.readings import Measurement

METRICS = PARITY_METRICS


def measure(hooks: BoundModelHooks) -> Measurement:
    """Train ``steps`` steps from one seed, and the reference too where this is another variant of it."""
    reference = None
    if hooks.reference is not None:
        reference = record_training_numerics(hooks.reference)
    return check_and_measure_parity(record_training_numerics(hooks), reference, _parity_tolerance(hooks))


def require_parity(hooks: BoundModelHooks) -> None:
    """Raise ``ParityFailed`` for a variant that disagrees with its reference, before it is timed."""
    if hooks.reference is not None:
        check_parity(
            record_training_numerics(hooks),
            record_training_numerics(hooks.reference),
            _parity_tolerance(hooks),
        )


def record_training_numerics(hooks: BoundModelHooks) -> NumericsRecord:
    """Record losses and gradient norms of the first steps, and the model's output in the first of them."""
    training = TrainingLoop(hooks)

    def step(index: int) -> tuple[Any, float]:
        training.train_on_batch(training.batches[index % len(training.batches)])
        return training.last_loss, grad_norm(training.model.parameters())

    with capture_first_output(training.model) as outputs:
        recorded = record_step_numerics(step, hooks.steps)
    return replace(recorded, outputs=outputs[0] if outputs else None)


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
    hook = model.register_forward_hook(keep_first)
    try:
        yield captured
    finally:
        hook.remove()


def _parity_tolerance(hooks: BoundModelHooks) -> Tolerance:
    return hooks.tolerance or default_tolerance(hooks.precision())
