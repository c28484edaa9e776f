"""Format variants of one commit: per benchmark each variant against the baseline, and rejected variants."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from perfci.model import NamedValues, Series, Verdict, VerdictKind, cell_name
from perfci.number_format import format_count, format_signed_percent
from perfci.report.escaping import MAX_REASON_LENGTH, make_printable, strip_parameter_quotes
from perfci.report.goal_text import tradeoff_sentence
from perfci.report.text_table import align_table
from perfci.report.verdict_text import (
    format_in_common_unit,
    interval_cell,
    tail_cell,
    verdict_counts_sentence,
    verdict_glyph,
    verdict_label,
)
from perfci.verdicts.goals.tradeoffs import Tradeoff
from perfci.verdicts.variants.numeric_parity import NumericsCheck, ParityOutcome
from perfci.verdicts.variants.variant_contrast import (
    VariantContrast,
    VariantRejection,
    VariantResults,
    get_benchmark_class,
)

HEADINGS = ("", "metric", "variant", "base", "head", "change", "95 % interval", "tail", "pairs", "verdict")
LEFT_ALIGNED = frozenset({0, 1, 2, 9})

VariantGroupKey = tuple[str, NamedValues]
"""A benchmark and the parameters that all its variants share."""


def format_variants(comparison: VariantResults, trades: Sequence[Tradeoff] = ()) -> str:
    """Format a variant comparison for a terminal: counts, rejections, a block per benchmark, trade-offs."""
    summary = verdict_counts_sentence([contrast.verdict for contrast in comparison.contrasts])
    if not summary:
        summary = "Only numerics were compared" if comparison.numerics else "Nothing was compared"
    if comparison.rejections:
        summary += f", {format_count(len(comparison.rejections), 'variant')} rejected"
    # The benchmarks with verdicts or numerics, in the order of the suite.
    contrasted = [contrast.verdict.series for contrast in comparison.contrasts]
    checked = [check.series for check in comparison.numerics]
    group_keys = dict.fromkeys(_group_key(series, comparison) for series in (*contrasted, *checked))
    parts = [
        f"{summary}.",
        "\n".join(f"✕ {rejection_sentence(rejection)}" for rejection in comparison.rejections),
        *(_format_group(group_key, comparison) for group_key in group_keys),
        "\n".join(f"⇄ {tradeoff_sentence(trade)}" for trade in trades),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def build_contrast_verdict(contrast: VariantContrast) -> Verdict:
    """Name the series of a verdict after both sides: ``Attention.time_forward('sdpa' → 'flash', 64)``."""
    base_values, series = dict(contrast.base_parameters), contrast.verdict.series
    parameters = tuple(
        (name, value if base_values.get(name, value) == value else f"{base_values[name]} → {value}")
        for name, value in series.parameters
    )
    return replace(contrast.verdict, series=replace(series, parameters=parameters))


def rejection_sentence(rejection: VariantRejection) -> str:
    """Explain a rejection: ``model.Gpt('flash', 8) is rejected, whatever its speed: ...``."""
    reason = make_printable(rejection.reason, MAX_REASON_LENGTH)
    return f"{rejected_variant_name(rejection)} is rejected, whatever its speed: {reason}"


def rejected_variant_name(rejection: VariantRejection) -> str:
    """Return the name of a rejected variant, as its class with its parameters."""
    return make_printable(
        cell_name(get_benchmark_class(rejection.benchmark) or rejection.benchmark, rejection.parameters)
    )


def _group_key(series: Series, comparison: VariantResults) -> VariantGroupKey:
    shared = tuple((name, value) for name, value in series.parameters if name not in comparison.varied)
    return series.benchmark.name, shared


def _format_group(group_key: VariantGroupKey, comparison: VariantResults) -> str:
    benchmark, rest = group_key
    contrasts = [
        contrast
        for contrast in comparison.contrasts
        if _group_key(contrast.verdict.series, comparison) == group_key
    ]
    heading = make_printable(
        benchmark + "".join(f", {name}={strip_parameter_quotes(value)}" for name, value in rest), 200
    )
    metrics = list(dict.fromkeys(contrast.verdict.series.metric.name for contrast in contrasts))
    rows = [
        _contrast_row(contrast, comparison)
        for metric in metrics
        for contrast in contrasts
        if contrast.verdict.series.metric.name == metric
    ]
    table = align_table(HEADINGS, rows, LEFT_ALIGNED) if rows else ""
    lines = [*table.splitlines(), *_numerics_lines(group_key, comparison)]
    return "\n".join([heading, *(f"  {line}" for line in lines)])


def _contrast_row(contrast: VariantContrast, comparison: VariantResults) -> tuple[str, ...]:
    verdict = contrast.verdict
    base, head = format_in_common_unit((verdict.base_level, verdict.head_level), verdict.series.metric)
    return (
        verdict_glyph(verdict),
        make_printable(verdict.series.metric.name),
        variant_name(verdict.series.parameters, comparison.varied),
        base,
        head,
        "" if verdict.ratio is None else format_signed_percent(verdict.ratio - 1),
        interval_cell(verdict),
        tail_cell(verdict),
        str(verdict.pairs) if verdict.pairs else "",
        _verdict_cell(verdict),
    )


def variant_name(parameters: NamedValues, varied: Sequence[str]) -> str:
    """Return the varied parameter values: ``flash``, or ``flash, bf16`` if two parameters vary."""
    return ", ".join(
        make_printable(strip_parameter_quotes(value)) for name, value in parameters if name in varied
    )


def _verdict_cell(verdict: Verdict) -> str:
    """Format the label, with the next step or the reason where there is no plain answer."""
    if verdict.kind is VerdictKind.INCONCLUSIVE and verdict.pairs_to_decide is not None:
        pairs = format_count(verdict.pairs_to_decide, "more pair")
        return f"{verdict_label(verdict)}: about {pairs} would decide"
    if verdict.ratio is not None and verdict.kind is not VerdictKind.INCONCLUSIVE:
        return verdict_label(verdict)
    reason = verdict.reason
    if verdict.ratio is not None:
        # The row already shows the numbers that stand before the colon.
        reason = reason.partition(": ")[2] or reason
    return f"{verdict_label(verdict)}: {make_printable(reason, MAX_REASON_LENGTH)}"


def _numerics_lines(group_key: VariantGroupKey, comparison: VariantResults) -> Iterable[str]:
    """List in which numerics each variant agrees with the baseline, and where that is undecided."""
    checks = [check for check in comparison.numerics if _group_key(check.series, comparison) == group_key]
    for name in dict.fromkeys(variant_name(check.series.parameters, comparison.varied) for check in checks):
        variant_checks = [
            check for check in checks if variant_name(check.series.parameters, comparison.varied) == name
        ]
        if agreeing := _join_metric_names(variant_checks, ParityOutcome.AGREES):
            yield f"≈  {name} agrees with the baseline in {agreeing}"
        undecided = [check for check in variant_checks if check.parity is ParityOutcome.UNDECIDED]
        yield from (f"?  {name}, undecided: {make_printable(check.text, 200)}" for check in undecided)
        if rejected := _join_metric_names(variant_checks, ParityOutcome.REJECTED):
            yield f"✕  {name} does not agree with the baseline in {rejected}"


def _join_metric_names(numerics: Iterable[NumericsCheck], parity: ParityOutcome) -> str:
    names = [make_printable(check.series.metric.name) for check in numerics if check.parity is parity]
    return " and ".join(part for part in (", ".join(names[:-1]), *names[-1:]) if part)
