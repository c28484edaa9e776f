"""What counts as the same numbers, what does not, and how a rejection reads."""

from __future__ import annotations

import math
import re

import pytest
import torch

from perfci.bench.parity import (
    BITWISE_TOLERANCE,
    PARITY_METRICS,
    TOLERANCES,
    NumericsRecord,
    ParityFailed,
    Tolerance,
    check_and_measure_parity,
    check_parity,
    default_tolerance,
    grad_norm,
    max_error,
    max_relative_error,
    record_step_numerics,
    tolerance_from_seeds,
)
from perfci.bench.readings import Absent, Reading, check_and_serialize_readings
from perfci.model import Clock

REFERENCE = NumericsRecord((7.0, 6.92, 6.87, 6.83), (1.0, 1.1, 1.2, 1.3))


def rejects(variant: NumericsRecord, reference: NumericsRecord, tolerance: Tolerance, message: str) -> None:
    with pytest.raises(ParityFailed, match=f"^{re.escape(message)}$"):
        check_parity(variant, reference, tolerance)


def test_rejects_a_loss_outside_its_tolerance_with_both_numbers() -> None:
    drifted = NumericsRecord((7.0, 6.92, 6.87, 6.91), REFERENCE.grad_norms)

    rejects(
        drifted,
        REFERENCE,
        default_tolerance("bf16"),
        "rejected: parity failed: loss at step 3 is 6.91 against 6.83 of the reference (1.2 %, "
        "`tolerance` allows 0.5 %)",
    )


def test_names_the_first_step_that_differs() -> None:
    drifted = NumericsRecord((7.0, 6.8, 6.6, 6.4), REFERENCE.grad_norms)

    with pytest.raises(ParityFailed, match=re.escape("loss at step 1 is 6.8 against 6.92")):
        check_parity(drifted, REFERENCE, default_tolerance("bf16"))


def test_accepts_a_loss_at_its_tolerance_and_no_further() -> None:
    allowed = Tolerance(0.25, 0.0, 0.0)

    check_parity(NumericsRecord((5.0,)), NumericsRecord((4.0,)), allowed)
    with pytest.raises(ParityFailed):
        check_parity(NumericsRecord((5.0001,)), NumericsRecord((4.0,)), allowed)


def test_rejects_one_bit_where_bits_were_asked_for() -> None:
    one_bit = NumericsRecord((math.nextafter(7.0, 8.0), *REFERENCE.losses[1:]), REFERENCE.grad_norms)

    check_parity(REFERENCE, REFERENCE, BITWISE_TOLERANCE)
    rejects(
        one_bit,
        REFERENCE,
        BITWISE_TOLERANCE,
        "rejected: parity failed: loss at step 0 is 7.000000000000001 against 7 of the reference "
        "(8.9e-16 apart, exact equality is required)",
    )


def test_rejects_gradients_before_the_loss_differs() -> None:
    doubled = NumericsRecord(REFERENCE.losses, (2.0, 1.1, 1.2, 1.3))

    with pytest.raises(ParityFailed, match="gradient norm at step 0 is 2 against 1 of the reference"):
        check_parity(doubled, REFERENCE, default_tolerance("fp8"))


def test_allows_nothing_relative_to_a_reference_of_zero() -> None:
    with pytest.raises(ParityFailed, match="which no relative tolerance allows"):
        check_parity(NumericsRecord((0.1,)), NumericsRecord((0.0,)), default_tolerance("bf16"))


def test_names_the_step_at_which_a_loss_is_nan() -> None:
    blown_up = NumericsRecord((7.0, math.nan, math.nan, math.nan), REFERENCE.grad_norms)

    rejects(blown_up, REFERENCE, default_tolerance("fp16"), "rejected: parity failed: loss at step 1 is nan")


def test_does_not_take_a_broken_reference_for_a_passed_test() -> None:
    broken = NumericsRecord((7.0, math.inf, 6.0, 6.0), REFERENCE.grad_norms)

    rejects(
        REFERENCE,
        broken,
        BITWISE_TOLERANCE,
        "rejected: parity failed: loss of the reference at step 1 is inf",
    )


def test_does_not_compare_runs_of_unequal_length() -> None:
    with pytest.raises(ParityFailed, match="4 steps with a loss were compared with 1 of the reference"):
        check_parity(REFERENCE, NumericsRecord((7.0,), (1.0,)), BITWISE_TOLERANCE)


def test_compares_outputs_by_the_largest_entry_of_the_reference() -> None:
    ours, theirs = torch.tensor([[0.0, 8.5], [-4.0, 2.0]]), torch.tensor([[0.25, 8.0], [-4.0, 2.0]])

    assert max_error(ours, theirs) == 0.5
    assert max_relative_error(ours, theirs) == 0.0625


def test_computes_errors_beyond_the_range_of_the_type() -> None:
    most = torch.finfo(torch.float16).max
    ours, theirs = torch.tensor([most], dtype=torch.float16), torch.tensor([-most], dtype=torch.float16)

    assert max_error(ours, theirs) == 2 * most


def test_has_no_relative_error_of_a_reference_of_zeros() -> None:
    zeros = torch.zeros(3)

    assert max_relative_error(zeros, zeros) == 0.0
    assert max_relative_error(zeros + 1, zeros) == math.inf


def test_rejects_outputs_that_are_too_far_away() -> None:
    rejects(
        NumericsRecord((), (), torch.tensor([1.0, 8.5])),
        NumericsRecord((), (), torch.tensor([1.0, 8.0])),
        default_tolerance("bf16"),
        "rejected: parity failed: outputs are up to 0.5 away from the reference, whose largest entry is 8 "
        "(6.2 %, `tolerance` allows 2 %)",
    )


def test_says_whether_few_entries_of_the_outputs_are_wrong_or_all() -> None:
    reference = torch.linspace(-8, 8, 1000)
    one_wrong = reference.clone()
    one_wrong[500] += 2.0

    with pytest.raises(
        ParityFailed, match=r"\(25 %, `tolerance` allows 2 %\); half .* 0 %, 99 % within 0 %$"
    ):
        check_parity(
            NumericsRecord((), (), one_wrong), NumericsRecord((), (), reference), default_tolerance("bf16")
        )
    with pytest.raises(ParityFailed, match=r"half of the entries are within 6.2 %, 99 % within 12 %$"):
        check_parity(
            NumericsRecord((), (), reference * 1.125),
            NumericsRecord((), (), reference),
            default_tolerance("bf16"),
        )


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (torch.ones(2, 3), "outputs have shape (2, 3), those of the reference (2,)"),
        (torch.tensor([1.0, math.nan]), "outputs hold 1 entries that are no finite number"),
    ],
)
def test_rejects_outputs_that_cannot_be_compared(outputs: torch.Tensor, message: str) -> None:
    with pytest.raises(ParityFailed, match=re.escape(message)):
        check_parity(
            NumericsRecord((), (), outputs), NumericsRecord((), (), torch.ones(2)), default_tolerance("fp8")
        )


@pytest.mark.parametrize(
    ("precision", "name"),
    [
        ("bf16", "bf16"),
        (torch.bfloat16, "bf16"),
        (torch.float32, "fp32"),
        (torch.float8_e4m3fn, "fp8"),
        ("tf32", "tf32"),
    ],
)
def test_finds_a_tolerance_by_precision_or_type(precision: str | torch.dtype, name: str) -> None:
    assert default_tolerance(precision) is TOLERANCES[name]


def test_rejects_an_unknown_precision() -> None:
    with pytest.raises(ValueError, match="no tolerance is known for int3"):
        default_tolerance("int3")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_is_never_tighter_for_outputs_than_torch_is_for_one_operation(dtype: torch.dtype) -> None:
    thousand, rtol = torch.tensor(1000.0, dtype=dtype), default_tolerance(dtype).outputs

    with pytest.raises(AssertionError):
        torch.testing.assert_close(thousand * (1 + 1.5 * rtol), thousand)


def test_allows_a_tolerance_as_wide_as_seeds_differ() -> None:
    seeds = [
        NumericsRecord((10.0, loss), (1.0, norm))
        for loss, norm in ((8.0, 1.0), (7.8, 1.0), (7.6, 2.0), (7.8, 1.5), (7.9, 1.0))
    ]

    allowed = tolerance_from_seeds(seeds, outputs=0.1)

    assert allowed.loss == pytest.approx((0.0, 0.05))
    assert allowed.grad_norm == pytest.approx((0.0, 0.5))
    check_parity(NumericsRecord((10.0, 7.5), (1.0, 1.4)), seeds[1], allowed)


def test_checks_each_step_against_its_own_tolerance() -> None:
    allowed = Tolerance((0.0, 0.5), 1.0, 1.0)

    with pytest.raises(ParityFailed, match="step 0"):
        check_parity(NumericsRecord((1.1, 1.1)), NumericsRecord((1.0, 1.0)), allowed)
    with pytest.raises(ValueError, match="for 2 steps, 1 were compared"):
        check_parity(NumericsRecord((1.0,)), NumericsRecord((1.0,)), allowed)


def test_derives_no_tolerance_from_few_seeds_or_unequal_runs() -> None:
    with pytest.raises(ValueError, match="5 seeds; got 4"):
        tolerance_from_seeds([REFERENCE] * 4, outputs=0.1)
    with pytest.raises(ValueError, match="same number of steps"):
        tolerance_from_seeds([REFERENCE] * 4 + [NumericsRecord((7.0,), (1.0,))], outputs=0.1)


def test_records_losses_and_gradient_norms_of_numbers_and_tensors() -> None:
    recorded = record_step_numerics(lambda step: (torch.tensor([4.0 - step]), 0.5 * step), 3)

    assert recorded == NumericsRecord((4.0, 3.0, 2.0), (0.0, 0.5, 1.0))


def test_stops_recording_at_the_first_loss_that_is_nan() -> None:
    requested_steps = []

    def exploding(step: int) -> tuple[float, float]:
        requested_steps.append(step)
        return (math.nan if step == 2 else 1.0), 1.0

    with pytest.raises(ParityFailed, match=r"^rejected: parity failed: loss at step 2 is nan$"):
        record_step_numerics(exploding, 10)
    assert requested_steps == [0, 1, 2]


def test_asks_for_one_number_per_step() -> None:
    with pytest.raises(
        ValueError, match=re.escape("the loss at step 0 has shape (4,); one number was expected")
    ):
        record_step_numerics(lambda step: (torch.ones(4), 1.0), 1)


def test_measures_all_gradients_together() -> None:
    with_gradient, other, without = (torch.nn.Parameter(torch.zeros(2)) for _ in range(3))
    with_gradient.grad, other.grad = torch.tensor([3.0, 0.0]), torch.tensor([0.0, 4.0])

    assert grad_norm([with_gradient, other, without]) == 5.0
    assert grad_norm([without]) == 0.0


def test_rejects_numerics_that_are_empty_or_of_unequal_length() -> None:
    with pytest.raises(ValueError, match="nothing to compare"):
        NumericsRecord(())
    with pytest.raises(ValueError, match="2 losses came with 1 gradient norms"):
        NumericsRecord((1.0, 2.0), (1.0,))


def test_gives_the_last_loss_exactly_and_errors_as_informational_metrics() -> None:
    outputs = torch.tensor([1.0, 8.0])
    ours = NumericsRecord(REFERENCE.losses, REFERENCE.grad_norms, outputs + 0.125)
    theirs = NumericsRecord(REFERENCE.losses, REFERENCE.grad_norms, outputs)

    readings = check_and_measure_parity(ours, theirs, default_tolerance("bf16")).readings

    assert readings["loss_at_step_k"] == Reading((6.83,), Clock.EXACT)
    assert readings["max_error"] == Reading((0.125,), Clock.INFORMATIONAL)
    assert readings["max_relative_error"] == Reading((0.015625,), Clock.INFORMATIONAL)


def test_gives_no_reading_of_a_rejected_variant() -> None:
    with pytest.raises(ParityFailed):
        check_and_measure_parity(NumericsRecord((9.0,)), NumericsRecord((7.0,)), default_tolerance("bf16"))


def test_gives_reasons_for_what_is_absent_without_a_reference() -> None:
    rows = check_and_serialize_readings(PARITY_METRICS, check_and_measure_parity(REFERENCE))["metrics"]

    assert [row["status"] for row in rows] == ["ok", "ok", "skipped", "skipped"]
    assert rows[2]["reason"] == "no reference was given"


def test_detects_a_nan_loss_without_a_reference_too() -> None:
    with pytest.raises(ParityFailed, match="loss at step 1 is nan"):
        check_and_measure_parity(NumericsRecord((7.0, math.nan)))


def test_reports_that_outputs_were_not_recorded() -> None:
    readings = check_and_measure_parity(REFERENCE, REFERENCE).readings

    assert readings["max_error"] == Absent("no outputs were recorded")


def train(seed: int, *, dtype: torch.dtype | None = None, scale: float = 1.0) -> NumericsRecord:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.GELU(), torch.nn.Linear(64, 16))
    batches = torch.randn(4, 32, 16)

    def step(index: int) -> tuple[torch.Tensor, float]:
        model.zero_grad()
        with torch.autocast("cpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
            loss = ((model(batches[index % 4]) * scale - batches[index % 4]) ** 2).float().mean()
        loss.backward()
        norm = grad_norm(model.parameters())
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
        return loss.detach(), norm

    return record_step_numerics(step, 6)


def test_finds_the_same_bits_in_two_runs_of_one_seed_and_rejects_another_seed() -> None:
    check_parity(train(0), train(0), BITWISE_TOLERANCE)
    with pytest.raises(ParityFailed, match="at step 0"):
        check_parity(train(1), train(0), default_tolerance("fp32"))


def test_accepts_bf16_within_its_tolerance_and_rejects_a_wrong_scale() -> None:
    check_parity(train(0, dtype=torch.bfloat16), train(0), default_tolerance("bf16"))
    with pytest.raises(ParityFailed):
        check_parity(train(0, dtype=torch.bfloat16, scale=1.5), train(0), default_tolerance("bf16"))
