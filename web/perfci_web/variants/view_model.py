"""The view model of comparisons of variants and of goals: a table for each benchmark and metric."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from perfci.model import (
    Commit,
    GoalClauseRecord,
    GoalRecord,
    MetricClass,
    NamedValues,
    Series,
    VariantComparisonRecord,
    VariantStepRecord,
    Verdict,
)
from perfci.report.ablation_rows import REPORTED_CLASSES
from perfci.report.ablation_text import format_improvement_factor
from perfci.report.escaping import strip_parameter_quotes
from perfci.report.goal_text import (
    GLYPHS,
    clause_metric_and_reason,
    format_clause_interval,
    format_clause_value,
)
from perfci.report.serializers import serialize_series, serialize_verdict
from perfci.report.verdict_text import Tone, format_in_common_unit, verdict_counts_sentence
from perfci.verdicts.goals.goal_clauses import parse_clause
from perfci.verdicts.goals.goal_verdict import ClauseVerdict, GoalOutcome
from perfci.verdicts.variants.numeric_parity import ParityOutcome

OUTCOME_TONES: Mapping[GoalOutcome, Tone] = {
    GoalOutcome.MET: "better",
    GoalOutcome.BROKEN: "worse",
    GoalOutcome.UNDECIDED: "unsure",
    GoalOutcome.REJECTED: "worse",
}

STEP_CSV_COLUMNS = (
    "kind",
    "name",
    "commit",
    "session",
    "created_at",
    "benchmark",
    "parameters",
    "step",
    "compared_with",
    "total",
    "metric",
    "unit",
    "machine",
    "variant",
    "level",
    "ratio",
    "ci_lo",
    "ci_hi",
    "pairs",
    "verdict",
    "rejected",
)
GOAL_CSV_COLUMNS = (
    "goal",
    "subject",
    "goal_outcome",
    "base",
    "head",
    "session",
    "created_at",
    "clause",
    "outcome",
    "benchmark",
    "metric",
    "estimate",
    "ci_lo",
    "ci_hi",
    "reason",
)


MEASURED_WITH_TOTAL = 2
"""Verdicts of one step and of the total, which are then the same."""


@dataclass(frozen=True, slots=True)
class StepTableRow:
    """One step of one metric; the first one has a level and no verdict."""

    step: VariantStepRecord
    level: str
    verdict: Verdict | None
    gain: str


@dataclass(frozen=True, slots=True)
class StepTable:
    """The steps of one metric at one benchmark, with the total last where there is one."""

    benchmark: str
    shared_parameters: NamedValues
    metric: str
    rows: tuple[StepTableRow, ...]
    hidden_count: int = 0


@dataclass(frozen=True, slots=True)
class NumericsLine:
    """In which metrics a variant or step agrees with the baseline, or why that is open."""

    glyph: str
    text: str


@dataclass(frozen=True, slots=True)
class VariantsView:
    """One comparison; ``hidden_count`` tables are not shown."""

    record: VariantComparisonRecord
    commit: Commit | None
    summary: str
    tables: tuple[StepTable, ...]
    hidden_count: int
    numerics: tuple[NumericsLine, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.record.kind} {self.record.name}"


@dataclass(frozen=True, slots=True)
class GoalClauseView:
    """One clause of a goal as a reader sees it."""

    record: GoalClauseRecord
    outcome: GoalOutcome
    estimate: str
    interval: str
    note: str

    @property
    def tone(self) -> Tone:
        return OUTCOME_TONES[self.outcome]

    @property
    def glyph(self) -> str:
        return GLYPHS[self.outcome]


@dataclass(frozen=True, slots=True)
class JudgedGoalView:
    """A goal with its clauses."""

    record: GoalRecord
    outcome: GoalOutcome
    clauses: tuple[GoalClauseView, ...]

    @property
    def tone(self) -> Tone:
        return OUTCOME_TONES[self.outcome]

    @property
    def glyph(self) -> str:
        return GLYPHS[self.outcome]


def build_variants_view(
    record: VariantComparisonRecord,
    commit: Commit | None,
    metric_class_of: Callable[[Series], MetricClass],
    max_rows: int,
) -> VariantsView:
    """Build a comparison with the tables that begin within its first rows: of each benchmark speed first."""
    tables = list(_list_step_tables(record.steps, metric_class_of))
    ends = itertools.accumulate(len(table.rows) for table in tables)
    shown = [
        replace(table, rows=table.rows[:max_rows], hidden_count=max(0, len(table.rows) - max_rows))
        for table, end in zip(tables, ends, strict=True)
        if end - len(table.rows) < max_rows
    ]
    verdicts = [verdict for step in record.steps if not step.is_total for verdict in step.verdicts]
    rejected = len({step.name for step in record.steps if step.rejection_reason})
    parts = [verdict_counts_sentence(verdicts), f"{rejected} rejected" if rejected else ""]
    summary = ", ".join(filter(None, parts)) or "nothing was compared"
    numerics = tuple(itertools.islice(_list_numerics_lines(record.steps), max_rows))
    return VariantsView(record, commit, summary, tuple(shown), len(tables) - len(shown), numerics)


def _list_numerics_lines(steps: Sequence[VariantStepRecord]) -> Iterator[NumericsLine]:
    """Lines on what was held to a tolerance; a step that is rejected has its reason in its table."""
    for step in steps:
        name = f"{step.name} at {step.benchmark}"
        agreeing = [check.metric for check in step.numerics if check.outcome == ParityOutcome.AGREES]
        if agreeing:
            yield NumericsLine("≈", f"{name} agrees with the baseline in {', '.join(agreeing)}")
        for check in step.numerics:
            if check.outcome == ParityOutcome.UNDECIDED:
                yield NumericsLine("?", f"{name}, undecided: {check.text}")


def _list_step_tables(
    steps: Sequence[VariantStepRecord], metric_class_of: Callable[[Series], MetricClass]
) -> Iterator[StepTable]:
    by_benchmark = itertools.groupby(steps, lambda step: (step.benchmark, step.shared_parameters))
    for (benchmark, shared), group in by_benchmark:
        of_benchmark = list(group)
        series = [verdict.series for step in of_benchmark for verdict in step.verdicts]
        if not series and sum(not step.rejection_reason for step in of_benchmark) > 1:
            continue  # numerics alone: a step that does not agree is rejected in every table
        ranked = sorted(series, key=lambda each: _rank_class(metric_class_of(each)))
        # Without a single verdict all steps but one were rejected, which is worth showing too.
        for metric in dict.fromkeys(each.metric.name for each in ranked) or [""]:
            yield StepTable(benchmark, shared, metric, _build_rows(of_benchmark, metric))


def _rank_class(metric_class: MetricClass) -> int:
    return (*REPORTED_CLASSES, metric_class).index(metric_class)


def _build_rows(steps: Sequence[VariantStepRecord], metric: str) -> tuple[StepTableRow, ...]:
    verdicts = [_find_verdict(step, metric) for step in steps]
    measured = [verdict for verdict in verdicts if verdict is not None]
    levels = [verdict.head_level if verdict is not None else None for verdict in verdicts]
    if measured and verdicts[0] is None:
        # What follows an accepted first step was compared with it, so its base is the level of the first.
        levels[0] = next(
            (
                verdict.base_level
                for step, verdict in zip(steps, verdicts, strict=True)
                if verdict is not None and step.compared_with == steps[0].name
            ),
            None,
        )
    texts = format_in_common_unit(levels, measured[0].series.metric) if measured else [""] * len(steps)
    return tuple(
        StepTableRow(
            step,
            "" if step.is_total else level,
            verdict,
            format_improvement_factor(verdict) if verdict is not None and verdict.ratio is not None else "",
        )
        for step, level, verdict in zip(steps, texts, verdicts, strict=True)
        if not step.is_total or (verdict is not None and len(measured) > MEASURED_WITH_TOTAL)
    )


def _find_verdict(step: VariantStepRecord, metric: str) -> Verdict | None:
    return next((verdict for verdict in step.verdicts if verdict.series.metric.name == metric), None)


def build_goal_view(record: GoalRecord) -> JudgedGoalView:
    """Build a goal with the values of its clauses in their units."""
    clauses = tuple(_build_clause_view(clause) for clause in record.clauses)
    return JudgedGoalView(record, GoalOutcome(record.outcome), clauses)


def _build_clause_view(record: GoalClauseRecord) -> GoalClauseView:
    verdict = ClauseVerdict(
        parse_clause(record.text),
        GoalOutcome(record.outcome),
        record.series,
        record.estimate,
        record.interval,
        record.reason,
    )
    estimate = "" if verdict.estimate is None else format_clause_value(verdict, verdict.estimate)
    interval = "" if verdict.interval is None else format_clause_interval(verdict, verdict.interval)
    return GoalClauseView(record, verdict.outcome, estimate, interval, clause_metric_and_reason(verdict))


def list_linked_series(comparisons: Iterable[VariantsView], goals: Iterable[JudgedGoalView]) -> list[Series]:
    """All series that the page links to."""
    rows = (row for view in comparisons for table in view.tables for row in table.rows)
    of_goals = (clause.record.series for goal in goals for clause in goal.clauses)
    return [
        *(row.verdict.series for row in rows if row.verdict is not None),
        *(series for series in of_goals if series is not None),
    ]


def serialize_variants(
    project: str, comparisons: Iterable[VariantComparisonRecord], goals: Iterable[GoalRecord]
) -> dict[str, Any]:
    """Return the JSON of the page."""
    return {
        "project": project,
        "comparisons": [_serialize_comparison(record) for record in comparisons],
        "goals": [_serialize_goal(record) for record in goals],
    }


def _serialize_comparison(record: VariantComparisonRecord) -> dict[str, Any]:
    return {
        "kind": record.kind,
        "name": record.name,
        "commit": record.sha,
        "session": record.session_uid,
        "created_at": record.created_at.isoformat(),
        "invalid": record.is_invalid,
        "steps": [
            {
                "benchmark": step.benchmark,
                "parameters": dict(step.shared_parameters),
                "step": step.name,
                "compared_with": step.compared_with,
                "total": step.is_total,
                "rejected": step.rejection_reason,
                "verdicts": [serialize_verdict(verdict) for verdict in step.verdicts],
                "numerics": [asdict(check) for check in step.numerics],
            }
            for step in record.steps
        ],
    }


def _serialize_goal(record: GoalRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "subject": record.subject,
        "outcome": record.outcome,
        "reason": record.reason,
        "base": record.base,
        "head": record.head,
        "session": record.session_uid,
        "created_at": record.created_at.isoformat(),
        "invalid": record.is_invalid,
        "clauses": [
            {
                "clause": clause.text,
                "outcome": clause.outcome,
                "series": clause.series and serialize_series(clause.series),
                "estimate": clause.estimate,
                "interval": clause.interval and [clause.interval.lo, clause.interval.hi],
                "reason": clause.reason,
            }
            for clause in record.clauses
        ],
    }


def list_step_csv_rows(comparisons: Iterable[VariantComparisonRecord]) -> Iterator[Mapping[str, Any]]:
    """List a row for each verdict of each step, and one for a step without any."""
    for record in comparisons:
        for step in record.steps:
            for verdict in step.verdicts or (None,):
                yield {
                    "kind": record.kind,
                    "name": record.name,
                    "commit": record.sha,
                    "session": record.session_uid,
                    "created_at": record.created_at.isoformat(),
                    "benchmark": step.benchmark,
                    "parameters": format_parameters(step.shared_parameters),
                    "step": step.name,
                    "compared_with": step.compared_with,
                    "total": int(step.is_total),
                    "metric": verdict.series.metric.name if verdict else None,
                    "unit": verdict.series.metric.unit if verdict else None,
                    "machine": verdict.series.machine.label if verdict else None,
                    "variant": verdict.series.variant.label if verdict else None,
                    "level": verdict.head_level if verdict else None,
                    "ratio": verdict.ratio if verdict else None,
                    "ci_lo": verdict.interval.lo if verdict and verdict.interval else None,
                    "ci_hi": verdict.interval.hi if verdict and verdict.interval else None,
                    "pairs": verdict.pairs if verdict else None,
                    "verdict": verdict.kind.value if verdict else None,
                    "rejected": step.rejection_reason or None,
                }


def list_goal_csv_rows(goals: Iterable[GoalRecord]) -> Iterator[Mapping[str, Any]]:
    """List a row for each clause, and one for a goal without any."""
    for goal in goals:
        for clause in goal.clauses or (None,):
            series = clause.series if clause else None
            yield {
                "goal": goal.name,
                "subject": goal.subject,
                "goal_outcome": goal.outcome,
                "base": goal.base,
                "head": goal.head,
                "session": goal.session_uid,
                "created_at": goal.created_at.isoformat(),
                "clause": clause.text if clause else None,
                "outcome": clause.outcome if clause else goal.outcome,
                "benchmark": series.cell if series else None,
                "metric": series.metric.name if series else None,
                "estimate": clause.estimate if clause else None,
                "ci_lo": clause.interval.lo if clause and clause.interval else None,
                "ci_hi": clause.interval.hi if clause and clause.interval else None,
                "reason": clause.reason if clause else goal.reason,
            }


def format_parameters(parameters: NamedValues) -> str:
    """Format parameters that all steps share: ``batch=8, seq=512``."""
    return ", ".join(f"{name}={strip_parameter_quotes(value)}" for name, value in parameters)
