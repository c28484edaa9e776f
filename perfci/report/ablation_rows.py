"""The rows of an ablation: which series are reported, and the level of every step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.model import MetricClass, Series, Verdict
from perfci.verdicts.judging_policy import Policy
from perfci.verdicts.variants.stepwise_ablation import Ablation, AblationStep


@dataclass(frozen=True, slots=True)
class AblationRow:
    """One step of one metric: its level, and its own verdict if it has one."""

    step: AblationStep
    level: float | None
    verdict: Verdict | None


REPORTED_CLASSES = (
    MetricClass.TIME,
    MetricClass.THROUGHPUT,
    MetricClass.TAIL,
    MetricClass.SLA,
    MetricClass.COMPILE,
    MetricClass.MEMORY,
)
"""Metric classes an ablation reports, in this order; counts are in the JSON."""


def list_reported_series(ablation: Ablation, policy: Policy) -> list[Series]:
    """Series to report, named as of the last accepted step: speed first, then memory."""
    reported = [
        verdict.series
        for verdict in ablation.total_verdicts
        if policy.metric_class_of(verdict.series) in REPORTED_CLASSES
    ]
    return sorted(reported, key=lambda series: REPORTED_CLASSES.index(policy.metric_class_of(series)))


def list_ablation_rows(ablation: Ablation, metric: str) -> list[AblationRow]:
    """Every step of one metric in order; the first step's level is what the second was compared
    with."""
    rows = []
    for number, step in enumerate(ablation.steps):
        verdict = _find_metric_verdict(step.verdicts, metric)
        level = verdict.head_level if verdict else None
        if verdict is None and number == 0 and (total := find_total_verdict(ablation, metric)):
            level = total.base_level
        rows.append(AblationRow(step, level, verdict))
    return rows


def find_total_verdict(ablation: Ablation, metric: str) -> Verdict | None:
    """Verdict of the last accepted step against the first."""
    return _find_metric_verdict(ablation.total_verdicts, metric)


def _find_metric_verdict(verdicts: Sequence[Verdict], metric: str) -> Verdict | None:
    return next((verdict for verdict in verdicts if verdict.series.metric.name == metric), None)
