"""Numerics of a training run: its loss after a few steps, and parity of a variant with its reference."""

from __future__ import annotations

from perfci.bench.metric_groups.numerics_recording import record_training_numerics
from perfci.bench.metric_groups.rounding_tolerance import widen_for_rounding
from perfci.bench.model_benchmark_callables import ModelBenchmarkCallables
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


def measure(callables: ModelBenchmarkCallables) -> Measurement:
    """Train ``steps`` steps from one seed, and the reference too where this is another variant of it.

    The variant trains twice: a loss is exact only where both times gave the same bits.
    """
    reference = None
    if callables.reference is not None:
        reference = record_training_numerics(callables.reference, whose=" of the reference")
    variant, again = record_training_numerics(callables), record_training_numerics(callables)
    tolerance = _parity_tolerance(callables, variant, reference)
    return check_and_measure_parity(variant, reference, tolerance, repetition=again)


def require_parity(callables: ModelBenchmarkCallables) -> None:
    """Raise ``ParityFailed`` for a variant that disagrees with its reference, before it is timed."""
    if callables.reference is not None:
        variant = record_training_numerics(callables)
        reference = record_training_numerics(callables.reference, whose=" of the reference")
        check_parity(variant, reference, _parity_tolerance(callables, variant, reference))


def _parity_tolerance(
    callables: ModelBenchmarkCallables, variant: NumericsRecord, reference: NumericsRecord | None
) -> Tolerance:
    """The author's tolerance, or that of the precision: wider where the model magnifies rounding.

    By how much is looked for only where the variant would be rejected, since the reference trains again.
    """
    if callables.tolerance is not None:
        return callables.tolerance
    tolerance = default_tolerance(callables.precision())
    if reference is None or callables.reference is None:
        return tolerance
    try:
        check_parity(variant, reference, tolerance)
    except ParityFailed:
        return widen_for_rounding(tolerance, callables.reference, reference, callables.precision())
    return tolerance
