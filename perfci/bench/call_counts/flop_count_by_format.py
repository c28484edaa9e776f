"""The floating point operations of one call, by number format, and what is known to be missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from perfci.bench.readings import Absent
from perfci.model import PerfciError


class RunsOnlyCompiled(PerfciError):
    """A call that is not to be taken apart into operators, and so not to be counted."""

    def __init__(self) -> None:
        super().__init__(
            "it runs an operator of higher order (flex_attention), and no counter sees what that computes"
        )


@dataclass(frozen=True, slots=True)
class FlopCount:
    """Operations of one call.

    ``by_format`` splits them by the number format of the factors (``bf16``, ``tf32`` ...). ``recomputed`` of
    them ran a second time in the backward pass, for activation checkpointing. ``uncounted`` are operators
    that may multiply and have no formula, with their calls: where there are any, the count is too low.
    ``failure`` says why nothing could be counted, where that is so.
    """

    by_format: Mapping[str, int]
    recomputed: int
    uncounted: Mapping[str, int]
    failure: str = ""

    @property
    def total(self) -> int | Absent:
        """All operations that were executed; absent where an operator has no formula."""
        return self.missing_formulas_reason or self.executed

    @property
    def executed(self) -> int:
        """All operations that have a formula."""
        return sum(self.by_format.values())

    @property
    def model(self) -> int:
        """What the model needs: nothing computed twice."""
        return self.executed - self.recomputed

    @property
    def missing_formulas_reason(self) -> Absent | None:
        """Why there is no total, with the operators by name."""
        if self.failure:
            return Absent(self.failure)
        if not self.uncounted:
            return None
        names = ", ".join(f"{name} ({calls} calls)" for name, calls in sorted(self.uncounted.items()))
        return Absent(
            f"there is no FLOP formula for {names}; torch.utils.flop_counter.register_flop_formula adds one"
        )

    @property
    def main_format(self) -> str:
        """The format in which most operations ran; fp32 where there were none."""
        return max(self.by_format, key=lambda name: self.by_format[name], default="fp32")
