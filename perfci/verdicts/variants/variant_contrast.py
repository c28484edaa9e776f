"""Contrast of two variants of one commit: a verdict that names both sides, or why a variant is
rejected."""

from __future__ import annotations

from dataclasses import dataclass

from perfci.model import NamedValues, Verdict
from perfci.verdicts.variants.numeric_parity import NumericsCheck


@dataclass(frozen=True, slots=True)
class VariantContrast:
    """Verdict between two cells of one commit; its series is the head's cell."""

    base_parameters: NamedValues
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class VariantRejection:
    """A variant of one benchmark class that computes something else than its baseline: its speed
    says nothing."""

    benchmark: str
    parameters: NamedValues
    reason: str

    def applies_to(self, benchmark: str, parameters: NamedValues) -> bool:
        """Whether a cell is this variant: one that fails in one benchmark of a class is wrong in
        all of it."""
        return get_benchmark_class(benchmark) == get_benchmark_class(self.benchmark) and dict(
            parameters
        ) == dict(self.parameters)


@dataclass(frozen=True, slots=True)
class VariantResults:
    """Results of a comparison of variants; ``numerics`` were held to a tolerance, ``varied`` names
    the varied parameters."""

    varied: tuple[str, ...] = ()
    contrasts: tuple[VariantContrast, ...] = ()
    rejections: tuple[VariantRejection, ...] = ()
    numerics: tuple[NumericsCheck, ...] = ()


def get_benchmark_class(benchmark: str) -> str:
    """Class or module of a benchmark: ``model.Gpt`` of ``model.Gpt.measure_training``."""
    return benchmark.rpartition(".")[0]
