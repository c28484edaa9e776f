"""Widen a tolerance for a model that magnifies rounding: by what rounded weights change in its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.metric_groups.numerics_recording import record_training_numerics
from perfci.bench.parity import NumericsRecord, Tolerance, max_relative_error

SIGNIFICANT_BITS = {"bf16": 8, "fp16": 11, "tf32": 11}
"""Of a significand, with the leading one: IEEE 754 and NVIDIA's TF32; fp32 has 24."""

ALLOWED_OUTPUT_MULTIPLE = 4.0
"""Errors of outputs that pass, as a multiple of what rounding all weights once changes.

Autocast rounds activations too. On a CPU its largest error in the outputs was 0.8 to 2.5 times the change by
rounded weights: in 12 runs of ``nn.Transformer`` (64 to 256 wide, 2 to 6 layers a side, embeddings scaled by
the root of the width or not, training and evaluating), a ResNet, an LSTM, GPTs of 4 and 12 layers, and blocks
of Llama. Scores of the latter with half the right scale were 16 and 22 times that away, without a scale 64
and 118 times.
"""

ALLOWED_SCALAR_MULTIPLE = 16.0
"""The same for a loss or a gradient norm. Of one number rounding may change next to nothing by chance: the
ratio of two independent normal errors exceeds 16 in 4 of 100 cases (it is Cauchy distributed), 4 in 16.
"""

LATER_STEPS = 2
"""Rounding that magnifies strikes in one run a step or two sooner than in another."""


def widen_tolerance_for_rounding(
    tolerance: Tolerance,
    hooks: BoundModelHooks,
    reference: NumericsRecord,
    precision: str,
    change_model: Callable[[Any], object] = lambda model: None,
) -> Tolerance:
    """Allow at least what ``precision`` has to change in the numbers of this model; never less than before.

    The reference (``hooks``, which recorded ``reference`` after ``change_model``) trains again from the
    same seed with every weight rounded to the significand of ``precision``. A difference at a step counts for
    all later steps, and for ``LATER_STEPS`` before it.
    """
    if precision not in SIGNIFICANT_BITS:
        return tolerance
    bits = SIGNIFICANT_BITS[precision]

    def change_and_round(model: Any) -> None:
        change_model(model)
        round_weights(model, bits)

    rounded = record_training_numerics(hooks, change_and_round)
    outputs = tolerance.outputs
    if rounded.outputs is not None and reference.outputs is not None:
        outputs = max(
            outputs, ALLOWED_OUTPUT_MULTIPLE * max_relative_error(rounded.outputs, reference.outputs)
        )
    return replace(
        tolerance,
        loss=_widen_steps(tolerance.loss, rounded.losses, reference.losses),
        grad_norm=_widen_steps(tolerance.grad_norm, rounded.grad_norms, reference.grad_norms),
        outputs=outputs,
    )


def _widen_steps(
    allowed: float | tuple[float, ...], rounded: tuple[float, ...], reference: tuple[float, ...]
) -> tuple[float, ...]:
    """Per step the larger of what was allowed and what rounding does, relative to the reference."""
    if not isinstance(allowed, tuple):
        allowed = (allowed,) * len(reference)
    differences = [abs(value - expected) for value, expected in zip(rounded, reference, strict=True)]
    widened = []
    for step, (ratio, expected) in enumerate(zip(allowed, reference, strict=True)):
        largest = max(differences[: step + 1 + LATER_STEPS])
        widened.append(max(ratio, ALLOWED_SCALAR_MULTIPLE * largest / abs(expected)) if expected else ratio)
    return tuple(widened)


@torch.no_grad()  # type: ignore[untyped-decorator]
def round_weights(model: torch.nn.Module, significant_bits: int) -> None:
    """Round all fp32 parameters to so many significant bits, in place.

    By Veltkamp's splitting (Dekker, *Numerische Mathematik* 18, 1971): with c = (2^s + 1) x, c - (c - x) is x
    rounded to 24 - s bits.
    """
    factor = 2.0 ** (24 - significant_bits) + 1
    for weight in model.parameters():
        if weight.dtype is torch.float32:
            scaled = weight * factor
            weight.copy_(scaled - (scaled - weight))
