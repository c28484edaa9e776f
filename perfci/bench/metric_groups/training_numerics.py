"""Numerics of a training run: its loss after a few steps, and parity of a variant with its reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from perfci.bench.bound_model_hooks import BoundModelHooks
from perfci.bench.metric_groups.disable_dropout import disable_dropout, dropout_probabilities
from perfci.bench.metric_groups.numerics_recording import record_training_numerics
from perfci.bench.metric_groups.rounding_tolerance import widen_tolerance_for_rounding
from perfci.bench.parity import (
    PARITY_METRICS,
    NumericsRecord,
    ParityFailed,
    Tolerance,
    check_and_measure_parity,
    check_parity,
    default_tolerance,
)
from perfci.bench.readings import Measurement

METRICS = PARITY_METRICS
ERROR_METRICS = ("max_error", "max_relative_error")
"""Of the comparison with the reference; the others are of the variant alone."""


@dataclass(frozen=True, slots=True)
class ComparedNumerics:
    """Two records that are compared, and what may lie between them."""

    variant: NumericsRecord
    reference: NumericsRecord
    tolerance: Tolerance
    has_dropout: bool = True
    """Whether the models ran with the dropout they have, if any."""

    def check_parity(self) -> None:
        check_parity(self.variant, self.reference, self.tolerance)


def measure(hooks: BoundModelHooks) -> Measurement:
    """Train ``steps`` steps from one seed, and the reference too where this is another variant of it.

    The variant trains twice: a loss is exact only where both times gave the same bits.
    """
    variant = record_training_numerics(hooks)
    if hooks.reference is None:
        return check_and_measure_parity(variant, repetition=record_training_numerics(hooks))
    pair = _compare_with_reference(hooks)
    again = pair.variant if pair.has_dropout else record_training_numerics(hooks)
    own = check_and_measure_parity(variant, repetition=again).readings
    errors = check_and_measure_parity(pair.variant, pair.reference, pair.tolerance).readings
    return Measurement({**own, **{name: errors[name] for name in ERROR_METRICS}})


def require_parity(hooks: BoundModelHooks) -> None:
    """Raise ``ParityFailed`` for a variant that disagrees with its reference, before it is timed."""
    if hooks.reference is not None:
        _compare_with_reference(hooks)


def _compare_with_reference(hooks: BoundModelHooks) -> ComparedNumerics:
    """Train both and compare; on an accelerator without dropout, where they do not agree with it.

    Which entries are dropped depends there on the number format and the kernel: a vector of eight bf16 takes
    its random numbers in another order than one of four fp32. The probabilities have to be the same.
    """
    reference = hooks.reference
    assert reference is not None
    probabilities: list[tuple[float, ...]] = []

    def note_dropout(model: Any) -> None:
        probabilities.append(dropout_probabilities(model))

    pair = _train_both(hooks, reference, note_dropout)
    try:
        pair.check_parity()
    except ParityFailed:
        is_comparable_without = len(set(probabilities)) == 1 and any(probabilities)
        if hooks.device.kind == "cpu" or not is_comparable_without:
            raise
        pair = replace(_train_both(hooks, reference, disable_dropout), has_dropout=False)
        pair.check_parity()
    return pair


def _train_both(
    hooks: BoundModelHooks,
    reference: BoundModelHooks,
    change_model: Callable[[Any], object],
) -> ComparedNumerics:
    """Record both runs, with the tolerance of the author, or that of the precision.

    That is wider where the model magnifies rounding. By how much is looked for only where the variant would
    be rejected, since the reference trains again.
    """
    precision = hooks.precision()
    pair = ComparedNumerics(
        record_training_numerics(hooks, change_model),
        record_training_numerics(reference, change_model, whose=" of the reference"),
        hooks.tolerance or default_tolerance(precision),
    )
    if hooks.tolerance is not None:
        return pair
    try:
        pair.check_parity()
    except ParityFailed:
        widened = widen_tolerance_for_rounding(
            pair.tolerance, reference, pair.reference, precision, change_model
        )
        return replace(pair, tolerance=widened)
    return pair
