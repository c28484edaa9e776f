"""Comparisons of variants and goals as parts of a run document, and back."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import datetime
from typing import Any

from perfci.formats.run_document_schema import (
    GoalClausePart,
    RunDocument,
    SeriesPart,
    StepPart,
    TailPart,
    VariantVerdictPart,
)
from perfci.model import (
    Benchmark,
    GoalClauseRecord,
    GoalRecord,
    Interval,
    Machine,
    Metric,
    PerfciError,
    Run,
    Series,
    Stage,
    TailVerdict,
    Variant,
    VariantComparisonRecord,
    VariantNumericsRecord,
    VariantStepRecord,
    Verdict,
    VerdictKind,
    freeze_named_values,
)

SeriesReader = Callable[[SeriesPart], Series]
"""Completes a series by the machine, variant and harness of its run."""


def series_from_part(part: SeriesPart, machine: Machine, variant: Variant, harness: str) -> Series:
    """Build the series of a part, which leaves out what its run says."""
    return Series(
        benchmark=Benchmark(part.benchmark, part.benchmark_version),
        parameters=freeze_named_values(part.parameters),
        metric=Metric(part.metric, part.unit, part.direction),
        machine=machine,
        variant=variant,
        harness=harness,
    )


def comparisons_from_document(
    document: RunDocument, read_series: SeriesReader
) -> tuple[VariantComparisonRecord, ...]:
    """Build the comparisons of variants that a run carries: they are about its commit, in its session."""
    return tuple(
        VariantComparisonRecord(
            part.kind,
            part.name,
            document.commit.sha,
            document.session,
            part.created_at,
            tuple(_step_from_part(step, document.commit.sha, read_series) for step in part.steps),
        )
        for part in document.variant_comparisons
    )


def goals_from_document(document: RunDocument, read_series: SeriesReader) -> tuple[GoalRecord, ...]:
    """Build the goals that a run carries: they are about its commit, against a base or itself."""
    sha = document.commit.sha
    return tuple(
        GoalRecord(
            part.name,
            part.subject,
            part.outcome,
            part.reason,
            part.base or sha,
            sha,
            document.session,
            part.created_at,
            tuple(_clause_from_part(clause, read_series) for clause in part.clauses),
        )
        for part in document.goals
    )


def _step_from_part(part: StepPart, sha: str, read_series: SeriesReader) -> VariantStepRecord:
    return VariantStepRecord(
        part.benchmark,
        freeze_named_values(part.shared_parameters),
        part.name,
        part.compared_with,
        tuple(_verdict_from_part(verdict, sha, read_series) for verdict in part.verdicts),
        part.rejection_reason,
        part.is_total,
        tuple(VariantNumericsRecord(check.metric, check.outcome, check.text) for check in part.numerics),
    )


def _verdict_from_part(part: VariantVerdictPart, sha: str, read_series: SeriesReader) -> Verdict:
    return Verdict(
        kind=VerdictKind(part.kind),
        stage=Stage(part.stage),
        series=read_series(part.series),
        base=sha,
        head=sha,
        ratio=part.ratio,
        interval=part.interval and Interval(*part.interval),
        base_level=part.base_level,
        head_level=part.head_level,
        noise_floor=part.noise_floor,
        mde=part.mde,
        pairs=part.pairs,
        pairs_to_decide=part.pairs_to_decide,
        p_value=part.p_value,
        reason=part.reason,
        tail=None if part.tail is None else _tail_from_part(part.tail),
    )


def _tail_from_part(part: TailPart) -> TailVerdict:
    return TailVerdict(VerdictKind(part.kind), part.ratio, part.interval and Interval(*part.interval))


def _clause_from_part(part: GoalClausePart, read_series: SeriesReader) -> GoalClauseRecord:
    return GoalClauseRecord(
        part.text,
        part.outcome,
        None if part.series is None else read_series(part.series),
        part.estimate,
        part.interval and Interval(*part.interval),
        part.reason,
    )


def comparisons_to_content(run: Run) -> list[dict[str, Any]]:
    """Convert the comparisons of variants that a run carries to content of a document."""
    return [
        {
            "kind": record.kind,
            "name": record.name,
            "created_at": _format_created(record.created_at),
            "steps": [_step_to_content(step, run) for step in record.steps],
        }
        for record in run.variant_comparisons
    ]


def goals_to_content(run: Run) -> list[dict[str, Any]]:
    """Convert the goals that a run carries to content of a document."""
    return [
        {
            "name": goal.name,
            "subject": goal.subject,
            "outcome": goal.outcome,
            "reason": goal.reason,
            "base": "" if goal.base == run.commit.sha else goal.base,
            "created_at": _format_created(goal.created_at),
            "clauses": [
                {
                    "text": clause.text,
                    "outcome": clause.outcome,
                    "series": clause.series and _series_to_content(clause.series, run),
                    "estimate": _finite(clause.estimate),
                    "interval": _interval_to_content(clause.interval),
                    "reason": clause.reason,
                }
                for clause in goal.clauses
            ],
        }
        for goal in run.goals
    ]


def _step_to_content(step: VariantStepRecord, run: Run) -> dict[str, Any]:
    return {
        "benchmark": step.benchmark,
        "shared_parameters": dict(step.shared_parameters),
        "name": step.name,
        "compared_with": step.compared_with,
        "rejection_reason": step.rejection_reason,
        "is_total": step.is_total,
        "verdicts": [_verdict_to_content(verdict, run) for verdict in step.verdicts],
        "numerics": [
            {"metric": check.metric, "outcome": check.outcome, "text": check.text} for check in step.numerics
        ],
    }


def _verdict_to_content(verdict: Verdict, run: Run) -> dict[str, Any]:
    tail = verdict.tail
    return {
        "series": _series_to_content(verdict.series, run),
        "kind": verdict.kind.value,
        "stage": verdict.stage.value,
        "ratio": _finite(verdict.ratio),
        "interval": _interval_to_content(verdict.interval),
        "base_level": _finite(verdict.base_level),
        "head_level": _finite(verdict.head_level),
        "noise_floor": _finite(verdict.noise_floor),
        "mde": _finite(verdict.mde),
        "pairs": verdict.pairs,
        "pairs_to_decide": verdict.pairs_to_decide,
        "p_value": verdict.p_value,
        "reason": verdict.reason,
        "tail": tail
        and {"kind": tail.kind.value, "ratio": tail.ratio, "interval": _interval_to_content(tail.interval)},
    }


def _series_to_content(series: Series, run: Run) -> dict[str, Any]:
    if (series.machine, series.variant, series.harness) != (run.machine, run.variant, run.harness):
        raise PerfciError(
            f"{series.label} was judged on another machine, variant or harness than its run says."
        )
    return {
        "benchmark": series.benchmark.name,
        "benchmark_version": series.benchmark.version,
        "parameters": dict(series.parameters),
        "metric": series.metric.name,
        "unit": series.metric.unit,
        "direction": series.metric.direction,
    }


def _interval_to_content(interval: Interval | None) -> list[float] | None:
    if interval is None or not (math.isfinite(interval.lo) and math.isfinite(interval.hi)):
        return None
    return [interval.lo, interval.hi]


def _finite(number: float | None) -> float | None:
    return number if number is not None and math.isfinite(number) else None


def _format_created(moment: datetime) -> str:
    return moment.isoformat()
