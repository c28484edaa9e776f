"""Ablations: variants of one commit in steps, what each gained by itself, and all of them together."""

from __future__ import annotations

from dataclasses import dataclass

from perfci.model import NamedValues, Verdict


@dataclass(frozen=True, slots=True)
class AblationStep:
    """One step at one benchmark, compared with the last accepted step before it.

    The first step has nothing to be compared with. ``rejection_reason`` says why a step does not
    count; the next one is then compared with the step before it.
    """

    name: str
    parameters: NamedValues
    verdicts: tuple[Verdict, ...] = ()
    compared_with: str = ""
    rejection_reason: str = ""


@dataclass(frozen=True, slots=True)
class Ablation:
    """All steps at one benchmark; ``total_verdicts`` compare the last accepted step with the first,
    in the same rounds."""

    name: str
    benchmark: str
    other_parameters: NamedValues
    steps: tuple[AblationStep, ...]
    total_verdicts: tuple[Verdict, ...] = ()

    @property
    def accepted_steps(self) -> list[AblationStep]:
        """Steps that were not rejected."""
        return [step for step in self.steps if not step.rejection_reason]
