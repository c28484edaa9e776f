"""Format an ablation as text: per metric, the change of every step and the total change."""

from __future__ import annotations

from collections.abc import Sequence

from perfci.model import Series, Verdict, VerdictKind
from perfci.number_format import format_count, format_signed_percent, format_significant_digits
from perfci.report.ablation_rows import (
    AblationRow,
    find_total_verdict,
    list_ablation_rows,
    list_reported_series,
)
from perfci.report.escaping import (
    MAX_REASON_LENGTH,
    code_block,
    code_span,
    make_printable,
    strip_parameter_quotes,
)
from perfci.report.text_table import align_table
from perfci.report.verdict_text import (
    GLYPHS,
    direction_arrow,
    format_in_common_unit,
    interval_cell,
    tail_cell,
)
from perfci.verdicts.judging_policy import Policy
from perfci.verdicts.variants.stepwise_ablation import Ablation

HEADINGS = ("", "step", "level", "change", "95 % interval", "tail", "gain", "rounds", "")
LEFT_ALIGNED = frozenset({0, 1, 8})
GAIN_DIGITS = 3


def format_ablation(ablation: Ablation, policy: Policy) -> str:
    """Format one benchmark's ablation for a terminal; empty if it reports numerics only."""
    heading, rejected = ablation_heading(ablation), format_rejected_steps(ablation)
    reported = list_reported_series(ablation, policy)
    if not reported and len(ablation.accepted_steps) > 1:
        return ""
    if not reported:
        return f"{heading}\n\n{rejected}\nfewer than two steps can be compared\n"
    parts = [heading, *(_format_metric(ablation, series) for series in reported), rejected]
    return "\n\n".join(part for part in parts if part) + "\n"


def render_ablations_markdown(ablations: Sequence[Ablation], policy: Policy) -> str:
    """Render ablations as Markdown, each as a code block, so that its columns stay aligned."""
    texts = [(ablation.name, text) for ablation in ablations if (text := format_ablation(ablation, policy))]
    return "\n".join(
        f"### ablation {code_span(name)}\n\n{code_block(text.splitlines())}\n" for name, text in texts
    )


def ablation_heading(ablation: Ablation) -> str:
    """Format the heading, such as ``ablation speed: model.Gpt.measure_training, batch=8``."""
    rest = "".join(f", {name}={strip_parameter_quotes(value)}" for name, value in ablation.other_parameters)
    return f"ablation {make_printable(ablation.name)}: {make_printable(ablation.benchmark + rest)}"


def format_rejected_steps(ablation: Ablation) -> str:
    """List the rejected steps, one per line, each with its reason."""
    return "\n".join(
        f"✕ {make_printable(step.name)} {make_printable(step.rejection_reason, MAX_REASON_LENGTH)}"
        for step in ablation.steps
        if step.rejection_reason
    )


def _format_metric(ablation: Ablation, series: Series) -> str:
    step_results = list_ablation_rows(ablation, series.metric.name)
    levels = format_in_common_unit([step_result.level for step_result in step_results], series.metric)
    previous_names = ["", *(step_result.step.name for step_result in step_results)]
    rows = [
        _step_row(step_result, level, previous_name)
        for step_result, level, previous_name in zip(step_results, levels, previous_names, strict=False)
    ]
    total = find_total_verdict(ablation, series.metric.name)
    if total is not None and len(ablation.accepted_steps) > 2:
        rows.append((*_verdict_cells(total, "total", ""), _note_cell(total)))
    table = align_table(HEADINGS, rows, LEFT_ALIGNED)
    return "\n".join([make_printable(series.metric.name), *(f"  {line}" for line in table.splitlines())])


def _step_row(step_result: AblationRow, level: str, previous_name: str) -> tuple[str, ...]:
    """Format one step; ``previous_name`` is the step listed before it, accepted or rejected."""
    step = step_result.step
    name = make_printable(step.name)
    if step.rejection_reason:
        return ("✕", name, "", "", "", "", "", "", step.rejection_reason.partition(":")[0])
    if step_result.verdict is None:
        return ("", name, level, "", "", "", "", "", "not measured" if step.compared_with else "")
    if step.compared_with != previous_name:
        note = f"against {make_printable(step.compared_with)}"
    else:
        note = _note_cell(step_result.verdict)
    return (*_verdict_cells(step_result.verdict, name, level), note)


def _verdict_cells(verdict: Verdict, step: str, level: str) -> tuple[str, ...]:
    glyph = GLYPHS.get(verdict.kind, "")
    if verdict.kind not in GLYPHS and verdict.ratio is not None:
        # Solid, as of what is confirmed: a step of an ablation is final and awaits no confirmation.
        glyph = direction_arrow(verdict.ratio > 1, solid=True)
    return (
        glyph,
        step,
        level,
        "" if verdict.ratio is None else format_signed_percent(verdict.ratio - 1),
        interval_cell(verdict),
        tail_cell(verdict),
        "" if verdict.ratio is None else format_improvement_factor(verdict),
        str(verdict.pairs) if verdict.pairs else "",
    )


def format_improvement_factor(verdict: Verdict) -> str:
    """Format the improvement factor: ``1.53x`` for 0.65 of the time or for 1.53 times the tokens."""
    assert verdict.ratio is not None
    lower = verdict.series.metric.direction == "lower"
    times = 1 / verdict.ratio if lower and verdict.ratio else verdict.ratio
    return f"{format_significant_digits(times, GAIN_DIGITS)}x"


def _note_cell(verdict: Verdict) -> str:
    if verdict.kind is VerdictKind.INCONCLUSIVE and verdict.pairs_to_decide is not None:
        return f"about {format_count(verdict.pairs_to_decide, 'more round')} would decide"
    return "" if verdict.ratio is not None else make_printable(verdict.reason, MAX_REASON_LENGTH)
