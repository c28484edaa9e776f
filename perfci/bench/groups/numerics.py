"""What the training computes: its loss after a few steps, and whether a variant computes what its reference does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from perfci.bench.groups.training_loop import TrainingLoop
from perfci.bench.parity import (
    PARITY_METRICS,
    NumericsRecord,
    Tolerance,
    check_parity,
    default_tolerance,
    grad_norm,
    parity_readings,
    record_numerics,
)
from perfci.bench.readings import Measurement

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

METRICS = PARITY_METRICS


def measure(context: ModelBench, p: Mapping[str, Any]) -> Measurement:
    """Train ``steps`` steps from one seed, and the reference too where ``p`` is another variant of it."""
    reference = (
        record_training_numerics(context, _reference(context, p)) if _reference(context, p) != p else None
    )
    return parity_readings(record_training_numerics(context, p), reference, _parity_tolerance(context, p))


def require_parity(context: ModelBench, p: Mapping[str, Any]) -> None:
    """Raise ``ParityFailed`` before anything of a variant is timed that does not agree with its reference."""
    if _reference(context, p) != p:
        check_parity(
            record_training_numerics(context, p),
            record_training_numerics(context, _reference(context, p)),
            _parity_tolerance(context, p),
        )


def record_training_numerics(context: ModelBench, p: Mapping[str, Any]) -> NumericsRecord:
    """Losses and gradient norms of the first steps, and what the model gave in the first of them."""
    training = TrainingLoop(context, p)

    def step(index: int) -> tuple[Any, float]:
        training.train_on(training.batches[index % len(training.batches)])
        return training.last_loss, grad_norm(training.model.parameters())

    with capture_outputs(training.model) as outputs:
        recorded = record_numerics(step, context.steps)
    return replace(recorded, outputs=outputs[0] if outputs else None)


@contextlib.contextmanager
def capture_outputs(model: Any) -> Iterator[list[torch.Tensor]]:
    """Keep the first floating tensor of the first output of a module; nothing of what is no module."""
    kept: list[torch.Tensor] = []

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        floats = [leaf for leaf in tree_leaves(output) if torch.is_tensor(leaf) and leaf.is_floating_point()]
        if floats and not kept:
            kept.append(floats[0].detach().clone())

    if not isinstance(model, torch.nn.Module):
        yield kept
        return
    hook = model.register_forward_hook(keep)
    try:
        yield kept
    finally:
        hook.remove()


def _reference(context: ModelBench, p: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of the trusted variant: those of this one, with what the class says of the reference."""
    return {**p, **context.reference}


def _parity_tolerance(context: ModelBench, p: Mapping[str, Any]) -> Tolerance:
    return context.tolerance or default_tolerance(context.precision(p))
