"""Numerics of a training run: its loss after a few steps, and parity of a variant with its reference."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from perfci.bench.metric_groups.training_loop import TrainingLoop
from perfci.bench.model_benchmark_callables import ModelBenchmarkCallables
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


def measure(callables: ModelBenchmarkCallables) -> Measurement:
    """Train ``steps`` steps from one seed, and the reference too where this is another variant of it."""
    reference = None
    if callables.reference is not None:
        reference = record_training_numerics(callables.reference)
    return check_and_measure_parity(
        record_training_numerics(callables), reference, _parity_tolerance(callables)
    )


def require_parity(callables: ModelBenchmarkCallables) -> None:
    """Raise ``ParityFailed`` for a variant that disagrees with its reference, before it is timed."""
    if callables.reference is not None:
        check_parity(
            record_training_numerics(callables),
            record_training_numerics(callables.reference),
            _parity_tolerance(callables),
        )


def record_training_numerics(callables: ModelBenchmarkCallables) -> NumericsRecord:
    """Record losses and gradient norms of the first steps, and the model's output in the first of them."""
    training = TrainingLoop(callables)

    def step(index: int) -> tuple[Any, float]:
        training.train_on_batch(training.batches[index % len(training.batches)])
        return training.last_loss, grad_norm(training.model.parameters())

    with capture_first_output(training.model) as outputs:
        recorded = record_step_numerics(step, callables.steps)
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


def _parity_tolerance(callables: ModelBenchmarkCallables) -> Tolerance:
    return callables.tolerance or default_tolerance(callables.precision())
