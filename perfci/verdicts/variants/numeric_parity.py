"""Whether a variant still computes what its baseline does: one that does not is rejected, whatever its speed.

Other kernels and other number formats do not give the same bits, so between variants the numerics of a suite (loss,
gradient norm, errors against a reference) are held to a tolerance. A benchmark that checks parity itself, in the
process that would have been timed, has the last word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from perfci.model import Pairs, Process, Series, Status
from perfci.stats.location import median
from perfci.verdicts.compare.pairwise import screen
from perfci.verdicts.process_levels import settled_levels, usable

REFUSAL = "parity failed"
"""What a benchmark says that refuses to be timed, ``perfci.bench.parity.ParityFailed``."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Relative differences that pass, as in ``perfci.bench.parity``, where it is told where they come from."""

    loss: float
    grad_norm: float
    outputs: float


TOLERANCES = {
    "fp64": Tolerance(1e-7, 1e-6, 1e-7),
    "fp32": Tolerance(1e-5, 1e-4, 1e-5),
    "tf32": Tolerance(2e-3, 2e-2, 3e-3),
    "fp16": Tolerance(2e-3, 2e-2, 3e-3),
    "bf16": Tolerance(5e-3, 5e-2, 2e-2),
    "fp8": Tolerance(2e-2, 2e-1, 1e-1),
}
"""By precision, the finest first: the same numbers that a ``ModelBench`` is held to; a test holds the two together."""

NAMES = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16"}


class Parity(StrEnum):
    AGREES = "agrees"
    REJECTED = "rejected"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Numerics:
    """One number of a variant next to its baseline's; ``told`` says both and what was allowed."""

    series: Series
    parity: Parity
    told: str


def refusal(processes: Sequence[Process]) -> str:
    """Why a variant refused to be timed, in its own words; empty where none did."""
    for process in processes:
        if process.status is Status.FAILED and REFUSAL in process.reason:
            return process.reason.partition(f"{REFUSAL}: ")[2] or process.reason
    return ""


def compared(
    series: Series, base_parameters: Pairs, base: Sequence[Process], head: Sequence[Process], declared: float | None
) -> Numerics | None:
    """Hold one number to its tolerance; None where a side has no number, or where nothing says what is too much.

    The tolerance is what the user declared for these numerics, else that of the coarser precision which the parameters
    of both sides name, fp32 where they name none. An error is a difference already, so it is held to its own value;
    how large one in the unit of the outputs may be only the user knows.
    """
    if not usable(base) or not usable(head):
        return None
    precision = coarser(base_parameters, series.parameters)
    known, why = TOLERANCES[precision], "" if declared is not None else f" for {precision}"
    name = series.metric.name
    if "error" in name:
        allowed = known.outputs if declared is None and "relative" in name else declared
        return None if allowed is None else _error(series, base, head, allowed, why)
    usual = known.grad_norm if "grad_norm" in name else known.loss
    return _relative(series, base, head, usual if declared is None else declared, why)


def coarser(*sides: Pairs) -> str:
    """The coarsest precision that parameters name; fp32 where none does."""
    order = list(TOLERANCES)
    named = [known for side in sides for _, value in side if (known := _precision(value)) in order]
    return max(named, key=order.index, default="fp32")


def _precision(value: str) -> str:
    name = value.strip("'\"").removeprefix("torch.").lower()
    return "fp8" if name.startswith("float8") else NAMES.get(name, name)


def _error(series: Series, base: Sequence[Process], head: Sequence[Process], allowed: float, why: str) -> Numerics:
    before, after = (max(sample for process in usable(side) for sample in process.samples) for side in (base, head))
    told = f"{series.metric.name} is {after:.3g} against {before:.3g} of the baseline (allowed {allowed:.2g} more{why})"
    return Numerics(series, Parity.REJECTED if after - before > allowed else Parity.AGREES, told)


def _relative(series: Series, base: Sequence[Process], head: Sequence[Process], allowed: float, why: str) -> Numerics:
    before, after = (median(levels) for levels in settled_levels(usable(base), usable(head)))
    distance = abs(after - before)
    told = f"{series.metric.name} is {_against(after, before)} of the baseline ("
    told += f"{_percent(distance / abs(before))}, " if before else ""
    told += f"allowed {_percent(allowed)}{why})"
    parity = Parity.AGREES if distance <= allowed * abs(before) else Parity.REJECTED
    if not _repeats(base) or not _repeats(head):
        parity = _beyond_chance(series, base, head, allowed)
    return Numerics(series, parity, told)


def _beyond_chance(series: Series, base: Sequence[Process], head: Sequence[Process], allowed: float) -> Parity:
    """What differs between processes of one side decides only with its whole interval."""
    interval = screen(series, "", "", base, head).interval
    if interval is None:
        return Parity.UNDECIDED
    if interval.lo > 1 + allowed or interval.hi < 1 - allowed:
        return Parity.REJECTED
    return Parity.AGREES if interval.lo >= 1 - allowed and interval.hi <= 1 + allowed else Parity.UNDECIDED


def _repeats(side: Sequence[Process]) -> bool:
    return len({sample for process in usable(side) for sample in process.samples}) == 1


def _against(ours: float, theirs: float) -> str:
    """Both numbers with as many digits as it takes to see that they differ, at least four."""
    for digits in range(4, 17):
        one, other = f"{ours:.{digits}g}", f"{theirs:.{digits}g}"
        if one != other:
            break
    return f"{one} against {other}"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
