"""Compare the numbers of an accelerated variant with those of a trusted one: faster and wrong is rejected."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfci.bench.readings import Absent, Measurement, Reading, exact_if_repeated, informational
from perfci.model import PRECISION_TOLERANCES, Metric, short_precision_name
from perfci.number_format import format_fine_percent

if TYPE_CHECKING:
    import torch

PARITY_METRICS = (
    Metric("loss_at_step_k", "loss"),
    Metric("grad_norm", "norm"),
    Metric("max_error", "norm"),
    Metric("max_relative_error", "ratio"),
)
"""Metrics of ``check_and_measure_parity``: of the last step compared, and of the outputs."""

MIN_QUANTILE_ENTRIES = 100
"""Entries of outputs from which a message says how far most of them are away."""

MIN_SEEDS = 5
"""Runs of the reference from which a band may be drawn; fewer have hardly a spread."""


class ParityFailed(Exception):
    """The variant's numbers differ from its reference's or are not finite: its timing is meaningless."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"rejected: parity failed: {reason}")


@dataclass(frozen=True, slots=True)
class NumericsRecord:
    """Numbers that a training run computed: loss and global L2 norm of the gradients of each step, in order.

    Step 0 is before the first update. ``outputs`` is a tensor of any shape that forward gave on fixed
    input, compared entry by entry. Variant and reference start from the same weights and see the same
    batches: build both from the same seed.
    """

    losses: tuple[float, ...]
    grad_norms: tuple[float, ...] = ()
    outputs: torch.Tensor | None = None

    def __post_init__(self) -> None:
        if not self.losses and self.outputs is None:
            raise ValueError("there is nothing to compare: no loss and no outputs were recorded")
        if self.grad_norms and len(self.grad_norms) != len(self.losses):
            raise ValueError(
                f"{len(self.losses)} losses came with {len(self.grad_norms)} gradient norms; one each"
            )


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Relative differences that pass; those of losses and gradient norms the same for all steps, or one per
    step.
    """

    loss: float | tuple[float, ...]
    grad_norm: float | tuple[float, ...]
    outputs: float


BITWISE_TOLERANCE = Tolerance(0.0, 0.0, 0.0)
"""Bitwise equality: same kernels in the same type, as in torchtitan's loss comparison."""

TOLERANCES = {precision: Tolerance(*values) for precision, values in PRECISION_TOLERANCES.items()}
"""Allowed difference of a variant from the same model in fp32, by the number format it computes in.

A model that needs another one gives a ``Tolerance`` of its own, or one of ``tolerance_from_seeds``.
"""


def default_tolerance(precision: str | torch.dtype) -> Tolerance:
    """Look a tolerance up by precision (``bf16``) or torch type; ``ValueError`` for an unknown one."""
    name = short_precision_name(str(precision))
    if name not in TOLERANCES:
        raise ValueError(
            f"no tolerance is known for {precision}; known: {', '.join(TOLERANCES)}, or give a Tolerance"
        )
    return TOLERANCES[name]


def tolerance_from_seeds(runs: Sequence[NumericsRecord], *, outputs: float) -> Tolerance:
    """Allow at each step the largest difference between any two seeds of the reference.

    A change of the system alone must not move the loss further than another seed does (after
    modded-nanogpt, which requires p < 0.01 on the loss of a change that may alter learning, and nothing of
    a pure systems change). ``outputs`` of other seeds are other numbers, so theirs is a relative tolerance
    to give. Raises ``ValueError`` for fewer than ``MIN_SEEDS`` runs and for runs of unequal length.
    """
    if len(runs) < MIN_SEEDS:
        raise ValueError(f"a band needs the reference from {MIN_SEEDS} seeds; got {len(runs)}")
    if len({(len(run.losses), len(run.grad_norms)) for run in runs}) != 1:
        raise ValueError("a band needs runs of the same number of steps")
    return Tolerance(
        _relative_spreads(run.losses for run in runs),
        _relative_spreads(run.grad_norms for run in runs),
        outputs,
    )


def _relative_spreads(runs: Iterable[tuple[float, ...]]) -> tuple[float, ...]:
    """Per step the distance of the farthest two runs, relative to the largest: the tighter reading."""
    return tuple((max(step) - min(step)) / (max(map(abs, step)) or 1.0) for step in zip(*runs, strict=True))


def record_step_numerics(
    step: Callable[[int], tuple[Any, Any]], steps: int, *, whose: str = ""
) -> NumericsRecord:
    """Run ``step(0)`` to ``step(steps - 1)``, and record the loss and gradient norm each returns.

    A number or a tensor of one entry is read per step, which waits for the device: no clock runs here. Raises
    ``ParityFailed`` at the first that is not finite, and ``ValueError`` for a tensor of more entries.
    ``whose`` (" of the reference") says in the message which run it was.
    """
    losses, norms = [], []
    for index in range(steps):
        loss, norm = step(index)
        losses.append(_finite_number(f"loss{whose}", loss, index))
        norms.append(_finite_number(f"gradient norm{whose}", norm, index))
    return NumericsRecord(tuple(losses), tuple(norms))


def _finite_number(quantity: str, value: Any, step: int) -> float:
    if getattr(value, "numel", lambda: 1)() != 1:
        raise ValueError(
            f"the {quantity} at step {step} has shape {tuple(value.shape)}; one number was expected"
        )
    number = float(value)
    if not math.isfinite(number):
        raise ParityFailed(f"{quantity} at step {step} is {number}")
    return number


def grad_norm(parameters: Iterable[torch.Tensor]) -> float:
    """Global L2 norm of all gradients, as in clipping by norm; parameters without one count 0."""
    import torch

    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    return float(torch.nn.utils.get_total_norm(gradients)) if gradients else 0.0


def check_parity(variant: NumericsRecord, reference: NumericsRecord, tolerance: Tolerance) -> None:
    """Raise ``ParityFailed`` with the first number of the variant that lies outside the tolerance.

    ``|variant - reference| <= allowed * |reference|`` has to hold for every loss and gradient norm. For
    outputs ``reference`` is its largest entry there, since entries near 0 have no relative error worth the
    name.
    """
    _check_finite(variant, "")
    _check_finite(reference, " of the reference")
    losses = _compare_steps("loss", variant.losses, reference.losses, tolerance.loss)
    norms = _compare_steps("gradient norm", variant.grad_norms, reference.grad_norms, tolerance.grad_norm)
    # Step by step: what is wrong in the first gradients is wrong in the next loss.
    for excess in itertools.chain.from_iterable(itertools.zip_longest(losses, norms)):
        if excess:
            raise ParityFailed(excess)
    if variant.outputs is not None and reference.outputs is not None:
        _check_outputs(variant.outputs, reference.outputs, tolerance.outputs)


def _check_finite(numerics: NumericsRecord, suffix: str) -> None:
    for quantity, numbers in (("loss", numerics.losses), ("gradient norm", numerics.grad_norms)):
        for step, number in enumerate(numbers):
            if not math.isfinite(number):
                raise ParityFailed(f"{quantity}{suffix} at step {step} is {number}")
    wild = 0 if numerics.outputs is None else int((~numerics.outputs.isfinite()).sum())
    if wild:
        raise ParityFailed(f"outputs{suffix} hold {wild} entries that are no finite number")


def _compare_steps(
    quantity: str, values: tuple[float, ...], reference: tuple[float, ...], allowed: float | tuple[float, ...]
) -> list[str]:
    """For every step, in order, what is outside of the tolerance, or an empty text."""
    if len(values) != len(reference):
        raise ParityFailed(
            f"{len(values)} steps with a {quantity} were compared with {len(reference)} of the reference"
        )
    if not isinstance(allowed, tuple):
        allowed = (allowed,) * len(values)
    if len(allowed) != len(values):
        raise ValueError(
            f"the tolerance of the {quantity} is for {len(allowed)} steps, {len(values)} were compared"
        )
    excesses = []
    for step, (value, expected, ratio) in enumerate(zip(values, reference, allowed, strict=True)):
        difference = abs(value - expected)
        excess = (
            f"{quantity} at step {step} is {_format_pair(value, expected)} of the reference "
            f"({_describe_excess(difference, expected, ratio)})"
        )
        excesses.append(excess if difference > ratio * abs(expected) else "")
    return excesses


def _format_pair(value: float, reference: float) -> str:
    """Both numbers with as many digits as it takes to see that they differ, at least three."""
    for digits in range(3, 17):
        value_text, reference_text = f"{value:.{digits}g}", f"{reference:.{digits}g}"
        if value_text != reference_text:
            return f"{value_text} against {reference_text}"
    return f"{value!r} against {reference!r}"


def _describe_excess(difference: float, reference: float, allowed: float) -> str:
    if allowed == 0:
        return f"{difference:.2g} apart, exact equality is required"
    if reference == 0:
        return f"{difference:.2g} away from 0, which no relative tolerance allows"
    distance = format_fine_percent(difference / abs(reference))
    return f"{distance}, `tolerance` allows {format_fine_percent(allowed)}"


def _check_outputs(values: torch.Tensor, reference: torch.Tensor, allowed: float) -> None:
    if values.shape != reference.shape:
        raise ParityFailed(
            f"outputs have shape {tuple(values.shape)}, those of the reference {tuple(reference.shape)}"
        )
    error, largest = max_error(values, reference), _max_abs(reference)
    if error > allowed * largest:
        raise ParityFailed(
            f"outputs are up to {error:.3g} away from the reference, whose largest entry is {largest:.3g} "
            f"({_describe_excess(error, largest, allowed)}){_describe_other_entries(values, reference)}"
        )


def _describe_other_entries(values: torch.Tensor, reference: torch.Tensor) -> str:
    """Whether all entries are wrong or few of them: the errors that half and that 99 % stay within."""
    errors, largest = (_to_float64(values) - _to_float64(reference)).abs().flatten(), _max_abs(reference)
    if errors.numel() < MIN_QUANTILE_ENTRIES or not largest:
        return ""
    half, most = (
        float(errors.kthvalue(math.ceil(share * errors.numel())).values) / largest for share in (0.5, 0.99)
    )
    within_half, within_most = format_fine_percent(half), format_fine_percent(most)
    return f"; half of the entries are within {within_half}, 99 % within {within_most}"


def max_error(values: torch.Tensor, reference: torch.Tensor) -> float:
    """The largest difference of two tensors of one shape, in their unit, computed in float64 on the host."""
    return _max_abs(_to_float64(values) - _to_float64(reference))


def max_relative_error(values: torch.Tensor, reference: torch.Tensor) -> float:
    """``max_error`` over the largest entry of the reference: relative error in the maximum norm."""
    error, largest = max_error(values, reference), _max_abs(reference)
    return error / largest if largest else (math.inf if error else 0.0)


def _max_abs(values: torch.Tensor) -> float:
    return float(_to_float64(values).abs().max())


def _to_float64(values: torch.Tensor) -> torch.Tensor:
    return values.detach().cpu().double()  # first to the host: Apple's GPU has no float64


def check_and_measure_parity(
    variant: NumericsRecord,
    reference: NumericsRecord | None = None,
    tolerance: Tolerance = BITWISE_TOLERANCE,
    *,
    repetition: NumericsRecord | None = None,
) -> Measurement:
    """Check the variant against its reference and give ``PARITY_METRICS``, or raise ``ParityFailed``.

    Judged is the loss at the last step: exactly where a ``repetition`` of the variant gave the same bits
    (or none is given, by a caller who knows that it would), else by its spread, as kernels that add in any
    order give another loss in every process. The rest is shown: an error within its tolerance is no
    regression, one outside it has been rejected.
    """
    check_parity(variant, variant if reference is None else reference, tolerance)
    repeated = variant if repetition is None else repetition
    return Measurement(
        {
            "loss_at_step_k": exact_if_repeated(variant.losses[-1], repeated.losses[-1])
            if variant.losses
            else Absent("no loss was recorded"),
            "grad_norm": informational(variant.grad_norms[-1])
            if variant.grad_norms
            else Absent("no gradient was recorded"),
            "max_error": _error_reading(max_error, variant, reference),
            "max_relative_error": _error_reading(max_relative_error, variant, reference),
        }
    )


def _error_reading(
    error_of: Callable[[torch.Tensor, torch.Tensor], float],
    variant: NumericsRecord,
    reference: NumericsRecord | None,
) -> Reading | Absent:
    if reference is None:
        return Absent("no reference was given")
    if variant.outputs is None or reference.outputs is None:
        return Absent("no outputs were recorded")
    return informational(error_of(variant.outputs, reference.outputs))
