"""Two variants of one commit: a verdict that tells both sides, and why a variant does not count."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfci.model import Pairs, Series, Verdict
from perfci.verdicts.variants.numeric_parity import Numerics


@dataclass(frozen=True, slots=True)
class Contrast:
    """What was decided between two cells of one commit. The verdict's series is the head's cell."""

    base_parameters: Pairs
    verdict: Verdict

    @property
    def told(self) -> Verdict:
        """The verdict under a name that tells both sides: ``Attention.time_forward('sdpa' → 'flash', 64)``."""
        return replace(self.verdict, series=both_sides(self.verdict.series, self.base_parameters))


@dataclass(frozen=True, slots=True)
class Rejection:
    """A variant of one class of benchmarks that computes something else than its baseline: its speed says nothing."""

    benchmark: str
    parameters: Pairs
    reason: str

    def concerns(self, benchmark: str, parameters: Pairs) -> bool:
        """Whether a cell is this variant: whoever fails in one benchmark of a class computes wrongly in all of it."""
        return owner(benchmark) == owner(self.benchmark) and dict(parameters) == dict(self.parameters)


@dataclass(frozen=True, slots=True)
class Variants:
    """All that a comparison of variants came to; ``numerics`` are those that were held to a tolerance.

    ``varied`` are the parameters that were set apart.
    """

    varied: tuple[str, ...] = ()
    contrasts: tuple[Contrast, ...] = ()
    rejections: tuple[Rejection, ...] = ()
    numerics: tuple[Numerics, ...] = ()


def both_sides(series: Series, base_parameters: Pairs) -> Series:
    before = dict(base_parameters)
    told = tuple(
        (name, value if before.get(name, value) == value else f"{before[name]} → {value}")
        for name, value in series.parameters
    )
    return replace(series, parameters=told)


def owner(benchmark: str) -> str:
    """The class or module that a benchmark belongs to: ``model.Gpt`` of ``model.Gpt.measure_training``."""
    return benchmark.rpartition(".")[0]
