"""Variants of one commit in words: every verdict under a name that tells both sides, and what was rejected."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.model import Pairs, cell_name
from perfci.report.names import code_span, printable
from perfci.report.text import comparison_text
from perfci.report.units import counting
from perfci.verdicts.parity import Parity
from perfci.verdicts.variants import Rejection, Variants, owner


def variants_text(found: Variants) -> str:
    """What a terminal shows of a comparison of variants."""
    parts = [rejections_text(found.rejections)]
    if found.contrasts or not found.rejections:
        parts.append(comparison_text([contrast.told for contrast in found.contrasts]).rstrip("\n"))
    parts.append(numerics_text(found))
    return "\n\n".join(part for part in parts if part) + "\n"


def rejections_text(rejections: Sequence[Rejection]) -> str:
    """One line for each variant that computes something else."""
    return "\n".join(f"✕ {rejection_sentence(one)}" for one in rejections)


def rejection_sentence(one: Rejection) -> str:
    """``rejected: model.Gpt('flash', 8) fails parity, so its speed does not count: ...``."""
    return f"rejected: {rejected_name(one)} fails parity, so its speed does not count: {printable(one.reason, 300)}"


def rejected_name(one: Rejection) -> str:
    return printable(cell_name(owner(one.benchmark) or one.benchmark, one.parameters))


def numerics_text(found: Variants) -> str:
    """How far the numerics of the variants that were not rejected are from those of their baselines."""
    agreeing = [one for one in found.numerics if one.parity is Parity.AGREES]
    open_ones = [one for one in found.numerics if one.parity is Parity.UNDECIDED]
    lines = [f"? {printable(one.series.cell)}: {one.told}: undecided" for one in open_ones]
    if agreeing:
        lines.append(f"≈ {counting(len(agreeing), 'number')} held to parity and agreeing with the baseline")
    return "\n".join(lines)


def assignment_text(parameters: Pairs) -> str:
    """``attn=flash, batch=8``."""
    return ", ".join(f"{name}={value}" for name, value in parameters)


def variants_markdown(found: Variants, comparison: str) -> str:
    """Rejections above the comparison as it is written for two commits."""
    lines = [f"- ✕ rejected: {code_span(rejected_name(one))}: {code_span(one.reason)}" for one in found.rejections]
    return "\n".join(lines) + ("\n\n" if lines else "") + comparison
