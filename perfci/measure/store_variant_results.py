"""Store what comparisons of variants, ablations and goals came to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from perfci.measure.compare_commits import CommitComparison
from perfci.measure.compare_variants import VariantComparison
from perfci.measure.measure_ablation_steps import AblationResult
from perfci.measure.variant_groups import VariantGroup, format_assignment
from perfci.model import (
    GoalClauseRecord,
    GoalRecord,
    NamedValues,
    VariantComparisonRecord,
    VariantNumericsRecord,
    VariantStepRecord,
)
from perfci.report.escaping import strip_parameter_quotes
from perfci.runner.suite_cells import Cell
from perfci.store import Store
from perfci.store.writes.variant_comparisons import add_goals, add_variant_comparison
from perfci.verdicts.goals.goal_verdict import GoalVerdict
from perfci.verdicts.variants.numeric_parity import NumericsCheck
from perfci.verdicts.variants.stepwise_ablation import Ablation

TOTAL = "total"


def store_variant_comparison(
    store: Store, project: str, comparison: VariantComparison, name: str, goals: Sequence[GoalVerdict]
) -> None:
    """Store each variant against its baseline, and the goals; ``name`` is what was varied."""
    steps = [
        step for group in comparison.variant_session.groups for step in _list_variant_steps(comparison, group)
    ]
    _store(store, project, ("vary", name, comparison.commit.sha, comparison.session), steps, goals)


def store_ablations(
    store: Store, project: str, result: AblationResult, name: str, goals: Sequence[GoalVerdict]
) -> None:
    """Store the steps and the total of an ablation at each benchmark, and the goals."""
    steps = [
        step for ablation in result.ablations for step in _list_ablation_steps(ablation, result.numerics)
    ]
    _store(store, project, ("ablation", name, result.commit.sha, result.session), steps, goals)


def store_commit_goals(
    store: Store, project: str, comparison: CommitComparison, goals: Sequence[GoalVerdict]
) -> None:
    """Store the goals that two commits were judged by."""
    commits = comparison.base.sha, comparison.head.sha
    with store.begin() as tx:
        add_goals(tx, project, _build_goal_records(goals, *commits, comparison.session, datetime.now(UTC)))


def _store(
    store: Store,
    project: str,
    identity: tuple[str, str, str, str],
    steps: Sequence[VariantStepRecord],
    goals: Sequence[GoalVerdict],
) -> None:
    kind, name, sha, session = identity
    now = datetime.now(UTC)
    record = VariantComparisonRecord(kind, name, sha, session, now, tuple(steps))
    with store.begin() as tx:
        add_variant_comparison(tx, project, record)
        add_goals(tx, project, _build_goal_records(goals, sha, sha, session, now))


def _list_variant_steps(comparison: VariantComparison, group: VariantGroup) -> Iterator[VariantStepRecord]:
    variants = comparison.variant_session
    rejections = variants.find_rejected_variants()
    base = group.cells[0]
    place = group.benchmark, group.shared_parameters
    yield VariantStepRecord(*place, _name_variant(group, base))
    for number, cell in group.cells.items():
        if number > 0:
            question = variants.build_question(base, cell, (base, cell))
            reason = variants.get_rejection_reason(cell, rejections)
            yield VariantStepRecord(
                *place,
                _name_variant(group, cell),
                _name_variant(group, base),
                () if reason else tuple(comparison.verdicts.get(question, ())),
                reason and f"rejected: {reason}",
                numerics=_select_numerics(comparison.variants.numerics, cell.benchmark, cell.parameters),
            )


def _select_numerics(
    checks: Iterable[NumericsCheck], benchmark: str, parameters: NamedValues
) -> tuple[VariantNumericsRecord, ...]:
    """What was held to a tolerance at one cell."""
    return tuple(
        VariantNumericsRecord(check.series.metric.name, check.parity.value, check.text)
        for check in checks
        if check.series.benchmark.name == benchmark and dict(check.series.parameters) == dict(parameters)
    )


def _name_variant(group: VariantGroup, cell: Cell) -> str:
    """The varied parameters of a cell, such as ``attn=flash``."""
    varied = {
        name: strip_parameter_quotes(value)
        for name, value in cell.parameters
        if name in group.varied_parameters
    }
    return format_assignment(varied)


def _list_ablation_steps(
    ablation: Ablation, numerics: Iterable[NumericsCheck]
) -> Iterator[VariantStepRecord]:
    place = ablation.benchmark, ablation.other_parameters
    for step in ablation.steps:
        yield VariantStepRecord(
            *place,
            step.name,
            step.compared_with,
            step.verdicts,
            step.rejection_reason,
            numerics=_select_numerics(numerics, ablation.benchmark, step.parameters),
        )
    if ablation.total_verdicts:
        first = ablation.accepted_steps[0].name
        yield VariantStepRecord(*place, TOTAL, first, ablation.total_verdicts, is_total=True)


def _build_goal_records(
    goals: Iterable[GoalVerdict], base: str, head: str, session: str, at: datetime
) -> list[GoalRecord]:
    return [
        GoalRecord(
            name=goal.name,
            subject=goal.subject,
            outcome=goal.outcome.value,
            reason=goal.reason,
            base=base,
            head=head,
            session_uid=session,
            created_at=at,
            clauses=tuple(
                GoalClauseRecord(
                    verdict.clause.text,
                    verdict.outcome.value,
                    verdict.series,
                    verdict.estimate,
                    verdict.interval,
                    verdict.reason,
                )
                for verdict in goal.clauses
            ),
        )
        for goal in goals
    ]
