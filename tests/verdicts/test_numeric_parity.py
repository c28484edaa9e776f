"""Parity: what a variant computes next to its baseline."""

from __future__ import annotations

import random
from collections.abc import Sequence

from perfci.bench.parity import ParityFailed
from perfci.model import Clock, NamedValues, Process, Series
from perfci.verdicts.variants.numeric_parity import (
    NumericsCheck,
    ParityOutcome,
    check_numeric_parity,
    find_coarsest_precision,
    find_parity_failure_reason,
)
from perfci.verdicts.variants.variant_contrast import VariantRejection
from tests.support.builders import a_failed_process, a_process, a_series

FP32: NamedValues = (("dtype", "'fp32'"),)


def exactly(value: float, count: int = 3) -> list[Process]:
    return [a_process(value, pair=k, clock=Clock.EXACT) for k in range(count)]


def held(
    series: Series, base: Sequence[Process], head: Sequence[Process], declared: float | None = None
) -> NumericsCheck:
    result = check_numeric_parity(series, FP32, base, head, declared)
    assert result is not None
    return result


def test_recognises_the_message_of_a_benchmark_that_refuses_to_be_timed() -> None:
    failed = a_failed_process(
        reason=f"perfci.bench.parity.ParityFailed: {ParityFailed('loss at step 2 is off')}"
    )

    assert find_parity_failure_reason([a_process(), failed]) == "loss at step 2 is off"
    assert find_parity_failure_reason([a_failed_process(reason="ValueError: no")]) == ""


def test_a_loss_may_differ_by_what_the_coarser_precision_allows() -> None:
    series = a_series("model.Gpt", "loss_at_step_k", unit="loss", parameters={"dtype": "'bf16'"})

    near, far = (held(series, exactly(2.0), exactly(loss)) for loss in (2.008, 2.02))

    assert (near.parity, far.parity) == (ParityOutcome.AGREES, ParityOutcome.REJECTED)
    assert far.text == "loss_at_step_k is 2.02 against 2 of the baseline (1 %, allowed 0.5 % for bf16)"


def test_a_declared_tolerance_precedes_that_of_the_precision() -> None:
    series = a_series("model.Gpt", "loss_at_step_k", unit="loss")

    result = held(series, exactly(2.0), exactly(2.02), 0.02)

    assert (result.parity, result.text) == (
        ParityOutcome.AGREES,
        "loss_at_step_k is 2.02 against 2 of the baseline (1 %, allowed 2 %)",
    )


def test_a_loss_that_varies_by_itself_is_rejected_only_by_its_whole_interval() -> None:
    series, dice = a_series("model.Gpt", "loss", unit="loss"), random.Random(3)

    def side(centre: float) -> list[Process]:
        return [a_process(centre * dice.gauss(1, 0.01), pair=k) for k in range(8)]

    results = [held(series, side(2.0), side(loss), 0.01) for loss in (2.0, 2.2)]

    assert [result.parity for result in results] == [ParityOutcome.UNDECIDED, ParityOutcome.REJECTED]


def test_an_error_is_rejected_only_if_it_grows_beyond_the_tolerance() -> None:
    series = a_series("attention.Flash", "max_relative_error", unit="ratio")

    worse, better = held(series, exactly(1e-7), exactly(1e-3)), held(series, exactly(1e-3), exactly(1e-7))

    assert (worse.parity, better.parity) == (ParityOutcome.REJECTED, ParityOutcome.AGREES)
    assert (
        worse.text
        == "max_relative_error is 0.001 against 1e-07 of the baseline (allowed 1e-05 more for fp32)"
    )


def test_an_absolute_error_needs_a_declared_tolerance() -> None:
    series = a_series("attention.Flash", "max_error", unit="norm")

    assert check_numeric_parity(series, FP32, exactly(0.1), exactly(0.5), None) is None
    assert held(series, exactly(0.1), exactly(0.5), 0.2).parity is ParityOutcome.REJECTED


def test_a_side_without_a_number_is_not_judged() -> None:
    assert check_numeric_parity(a_series(metric="loss"), (), [], exactly(1.0), None) is None


def test_finds_the_coarsest_precision_that_parameters_name() -> None:
    assert find_coarsest_precision(FP32, (("dtype", "torch.bfloat16"),)) == "bf16"
    assert find_coarsest_precision((("batch", "8"),), (("attn", "'flash'"),)) == "fp32"


def test_a_rejection_applies_to_the_whole_benchmark_class_and_no_other() -> None:
    variant_rejection = VariantRejection(
        "model.Gpt.measure_numerics", (("attn", "'flash'"), ("batch", "8")), "off"
    )

    assert variant_rejection.applies_to("model.Gpt.measure_training", (("attn", "'flash'"), ("batch", "8")))
    assert not variant_rejection.applies_to(
        "model.Gpt.measure_training", (("attn", "'sdpa'"), ("batch", "8"))
    )
    assert not variant_rejection.applies_to(
        "model.Bert.measure_training", (("attn", "'flash'"), ("batch", "8"))
    )
