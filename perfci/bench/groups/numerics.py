"""What the training computes: its loss after a few steps, and whether a variant computes what its reference does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch.utils._pytree import tree_leaves

from perfci.bench.groups.training_loop import Training
from perfci.bench.parity import (
    PARITY_METRICS,
    Numerics,
    Tolerance,
    check_parity,
    grad_norm,
    parity_readings,
    record_numerics,
    tolerance_of,
)
from perfci.bench.readings import Measured

if TYPE_CHECKING:
    from perfci.bench.model_bench import ModelBench

METRICS = PARITY_METRICS


def measure(bench: ModelBench, p: Mapping[str, Any]) -> Measured:
    """Train ``steps`` steps from one seed, and the reference too where ``p`` is another variant of it."""
    reference = numerics_of(bench, _reference(bench, p)) if _reference(bench, p) != p else None
    return parity_readings(numerics_of(bench, p), reference, _tolerance(bench, p))


def require_parity(bench: ModelBench, p: Mapping[str, Any]) -> None:
    """Raise ``ParityFailed`` before anything of a variant is timed that does not agree with its reference."""
    if _reference(bench, p) != p:
        check_parity(numerics_of(bench, p), numerics_of(bench, _reference(bench, p)), _tolerance(bench, p))


def numerics_of(bench: ModelBench, p: Mapping[str, Any]) -> Numerics:
    """Losses and gradient norms of the first steps, and what the model gave in the first of them."""
    training = Training(bench, p)

    def step(index: int) -> tuple[Any, float]:
        training.run(training.batches[index % len(training.batches)])
        return training.last_loss, grad_norm(training.model.parameters())

    with outputs_of(training.model) as outputs:
        recorded = record_numerics(step, bench.steps)
    return replace(recorded, outputs=outputs[0] if outputs else None)


@contextlib.contextmanager
def outputs_of(model: Any) -> Iterator[list[torch.Tensor]]:
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


def _reference(bench: ModelBench, p: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of the trusted variant: those of this one, with what the class says of the reference."""
    return {**p, **bench.reference}


def _tolerance(bench: ModelBench, p: Mapping[str, Any]) -> Tolerance:
    return bench.tolerance or tolerance_of(bench.precision(p))
