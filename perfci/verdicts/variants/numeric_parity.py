"""Numeric parity: whether a variant still computes what its baseline does; one that does not is
rejected.

Other kernels and number formats do not give the same bits, so between variants the numerics of a
suite (loss, gradient norm, errors against a reference) are held to a tolerance. A benchmark that
checks parity itself, in the process that would have been timed, has precedence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from perfci.model import PRECISION_TOLERANCES, NamedValues, Process, Series, Status, short_precision_name
from perfci.number_format import format_fine_percent
from perfci.verdicts.compare.pairwise_verdict import screening_verdict
from perfci.verdicts.process_levels import steady_levels
from perfci.verdicts.usable_processes import select_usable_processes

PARITY_FAILED = "parity failed"
"""Message of a benchmark that refuses to be timed, ``perfci.bench.parity.ParityFailed``."""


class ParityOutcome(StrEnum):
    """Outcome of a parity check."""

    AGREES = "agrees"
    REJECTED = "rejected"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class NumericsCheck:
    """One number of a variant against its baseline; ``text`` states both and the tolerance."""

    series: Series
    parity: ParityOutcome
    text: str


def find_parity_failure_reason(processes: Sequence[Process]) -> str:
    """Why a variant refused to be timed, in its own words; empty where none did."""
    for process in processes:
        if process.status is Status.FAILED and PARITY_FAILED in process.reason:
            return process.reason.partition(f"{PARITY_FAILED}: ")[2] or process.reason
    return ""


def check_numeric_parity(
    series: Series,
    base_parameters: NamedValues,
    base: Sequence[Process],
    head: Sequence[Process],
    declared_tolerance: float | None,
) -> NumericsCheck | None:
    """Hold one number to its tolerance; None where a side has no number, or no tolerance is known.

    The tolerance is the declared one, else that of the coarser precision which the parameters of
    both sides name, fp32 where they name none. An error is a difference already, so its own value
    is tested; an absolute one only against a declared tolerance.
    """
    if not select_usable_processes(base) or not select_usable_processes(head):
        return None
    precision = find_coarsest_precision(base_parameters, series.parameters)
    name, note = series.metric.name, "" if declared_tolerance is not None else f" for {precision}"
    by_default = PRECISION_TOLERANCES[precision]
    if "error" in name:
        default = by_default.outputs if "relative" in name else None
    else:
        default = by_default.grad_norm if "grad_norm" in name else by_default.loss
    allowed = default if declared_tolerance is None else declared_tolerance
    if allowed is None:
        return None
    check = _check_error if "error" in name else _check_relative_difference
    return check(series, base, head, allowed, note)


def find_coarsest_precision(*sides: NamedValues) -> str:
    """Coarsest precision that parameters name; fp32 where none does."""
    names = list(PRECISION_TOLERANCES)
    short = [short_precision_name(value.strip("'\"")) for side in sides for _, value in side]
    return max((name for name in short if name in names), key=names.index, default="fp32")


def _check_error(
    series: Series, base: Sequence[Process], head: Sequence[Process], tolerance: float, precision_note: str
) -> NumericsCheck:
    before, after = (
        max(sample for process in select_usable_processes(side) for sample in process.samples)
        for side in (base, head)
    )
    allowed = f"allowed {tolerance:.2g} more{precision_note}"
    text = f"{series.metric.name} is {after:.3g} against {before:.3g} of the baseline ({allowed})"
    return NumericsCheck(
        series, ParityOutcome.REJECTED if after - before > tolerance else ParityOutcome.AGREES, text
    )


def _check_relative_difference(
    series: Series, base: Sequence[Process], head: Sequence[Process], tolerance: float, precision_note: str
) -> NumericsCheck:
    before, after = (
        median(levels)
        for levels in steady_levels(select_usable_processes(base), select_usable_processes(head))
    )
    distance = abs(after - before)
    text = f"{series.metric.name} is {_format_against(after, before)} of the baseline ("
    text += f"{format_fine_percent(distance / abs(before))}, " if before else ""
    text += f"allowed {format_fine_percent(tolerance)}{precision_note})"
    parity = ParityOutcome.AGREES if distance <= tolerance * abs(before) else ParityOutcome.REJECTED
    if not _repeats_exactly(base) or not _repeats_exactly(head):
        parity = _check_interval(series, base, head, tolerance)
    return NumericsCheck(series, parity, text)


def _check_interval(
    series: Series, base: Sequence[Process], head: Sequence[Process], tolerance: float
) -> ParityOutcome:
    """Decide by the whole interval where values differ between processes of one side."""
    interval = screening_verdict(series, "", "", base, head).interval
    if interval is None:
        return ParityOutcome.UNDECIDED
    if interval.lo > 1 + tolerance or interval.hi < 1 - tolerance:
        return ParityOutcome.REJECTED
    return (
        ParityOutcome.AGREES
        if interval.lo >= 1 - tolerance and interval.hi <= 1 + tolerance
        else ParityOutcome.UNDECIDED
    )


def _repeats_exactly(side: Sequence[Process]) -> bool:
    return len({sample for process in select_usable_processes(side) for sample in process.samples}) == 1


def _format_against(value: float, baseline: float) -> str:
    """Both numbers, with as many digits as show that they differ, at least four."""
    for digits in range(4, 17):
        shown, shown_baseline = f"{value:.{digits}g}", f"{baseline:.{digits}g}"
        if shown != shown_baseline:
            break
    return f"{shown} against {shown_baseline}"
