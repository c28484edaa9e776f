"""Measure an ablation: all steps in the same rounds, each judged against the last good step before it.

An ablation estimates and confirms nothing, so there is no second session: every interval belongs to planned
looks that keep the error of one test, and a move needs as many rounds as a confirmation does.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perfci.config import AblationTable, Config
from perfci.measure.adaptive_pairs import AdaptivePairing
from perfci.measure.compare_variants import QuestionVerdicts
from perfci.measure.comparison_questions import ComparisonQuestion
from perfci.measure.confirmation import build_interim_look_reporter
from perfci.measure.measure_and_store_session import SessionProgress, SessionScope
from perfci.measure.open_measurement_session import open_measurement_session
from perfci.measure.variant_groups import ParameterAssignment, VariantGroup
from perfci.measure.variant_session import (
    FIRST_ROUND_PAIRS,
    VariantPolicy,
    VariantSession,
    select_variant_cells,
)
from perfci.model import Commit, PerfciError, Stage, Status, Verdict
from perfci.project_policies import build_policy
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.runner.suite_cells import Cell
from perfci.store import Store
from perfci.store.queries.history_conditions import VARIANTS_KIND
from perfci.verdicts.goals.goal_clauses import Goal
from perfci.verdicts.variants.numeric_parity import NumericsCheck
from perfci.verdicts.variants.stepwise_ablation import Ablation, AblationStep


@dataclass(frozen=True, slots=True)
class AblationResult:
    """The result of an ablation at every benchmark it matches."""

    session: str
    commit: Commit
    statuses: Sequence[Status]
    ablations: Sequence[Ablation]
    numerics: Sequence[NumericsCheck]
    variant_session: VariantSession


def find_ablation_table(config: Config, name: str) -> AblationTable:
    """Find an ``[[ablation]]`` by name; raise with the names there are."""
    tables = {table.name: table for table in config.settings.ablation}
    if name not in tables:
        existing = f"there are {', '.join(tables)}" if tables else "perfci.toml has no [[ablation]]"
        raise PerfciError(f"there is no ablation {name!r}; {existing}")
    return tables[name]


def expand_step_assignments(table: AblationTable) -> list[ParameterAssignment]:
    """The full assignment of each step: a parameter it does not set is as in the step before it."""
    first = table.steps[0].set
    steps: list[ParameterAssignment] = []
    for step in table.steps:
        if missing := [name for name in step.set if name not in first]:
            raise PerfciError(
                f"the ablation {table.name!r}: the step {step.name!r} "
                f"sets {missing[0]}, which the first step does not; "
                "the first step has to set every parameter that a later step changes"
            )
        previous = steps[-1] if steps else {}
        steps.append({**previous, **{name: str(value) for name, value in step.set.items()}})
    return steps


def select_ablation_cells(scope: SessionScope, table: AblationTable) -> list[Cell]:
    """The cells whose name matches the ablation."""
    return [cell for cell in scope.cells if re.search(table.match, cell.name)]


def measure_ablation_steps(
    store: Store,
    runner: MeasurementRunner,
    config: Config,
    scope: SessionScope,
    commit: Commit,
    table: AblationTable,
    groups: Sequence[VariantGroup],
    progress: SessionProgress,
    *,
    goals: Sequence[Goal] = (),
    budget_s: float | None = None,
) -> AblationResult:
    """Measure all good steps in every round until each is decided against the step before it.

    The last good step is compared with the first as well. A step that fails, or fails parity only after
    more rounds, is rejected; the steps after it are judged again.
    """
    policy = VariantPolicy.from_policy(build_policy(config.settings))
    scope = replace(scope, cells=select_variant_cells(scope.cells, groups))
    session = open_measurement_session(
        store,
        runner,
        config.project,
        scope,
        VARIANTS_KIND,
        identity=repr(groups),
        on_process=progress.report_process,
        on_message=progress.report,
    )
    variants = VariantSession(session, commit.sha, groups, policy, goals)
    deadline = None if budget_s is None else time.monotonic() + budget_s
    progress.start_stage("rounds", policy.default.looks[0] * len(scope.cells))
    variants.measure_first_round()
    rejected: dict[Cell, str] | None = None
    verdicts: QuestionVerdicts = {}
    # Each pass may measure rounds that reject another step, which changes the questions.
    while (rejections := _find_rejected_steps(variants)) != rejected:
        rejected = rejections
        questions = [question for group in groups for question in _build_questions(variants, group, rejected)]
        pairing = AdaptivePairing(
            session,
            questions,
            policy,
            Stage.CONFIRMATION,
            deadline,
            build_interim_look_reporter(progress),
            pairs_measured_first=FIRST_ROUND_PAIRS,
        )
        verdicts = pairing.measure_until_decided().verdicts
    session.finish()
    return AblationResult(
        session=session.uid,
        commit=commit,
        statuses=session.statuses,
        ablations=[_build_ablation(variants, group, table, rejected or {}, verdicts) for group in groups],
        numerics=variants.list_numerics_checks(),
        variant_session=variants,
    )


def _list_good_steps(group: VariantGroup, rejected: Mapping[Cell, str]) -> list[Cell]:
    """The steps that are not rejected, in their order."""
    return [cell for cell in group.cells.values() if cell not in rejected]


def _build_questions(
    variants: VariantSession, group: VariantGroup, rejected: Mapping[Cell, str]
) -> list[ComparisonQuestion]:
    """Each good step against the one before it, and the last against the first."""
    good = _list_good_steps(group, rejected)
    if len(good) < 2:
        return []
    # Of two steps both comparisons are the same one, which dict.fromkeys keeps once.
    pairs = dict.fromkeys([*itertools.pairwise(good), (good[0], good[-1])])
    return [variants.build_question(base, head, good) for base, head in pairs]


def _find_rejected_steps(variants: VariantSession) -> dict[Cell, str]:
    """The steps that compute something else, or of which no process succeeded, each with the reason."""
    rejections = variants.find_rejected_variants()
    reasons: dict[Cell, str] = {}
    for group in variants.groups:
        for number, cell in group.cells.items():
            reason = variants.get_rejection_reason(cell, rejections)
            if number > 0 and reason:
                reasons[cell] = f"rejected: fails parity, {reason}"
            elif failure := _describe_failure(variants, cell):
                reasons[cell] = failure
    return reasons


def _describe_failure(variants: VariantSession, cell: Cell) -> str:
    processes = [process for _, process in variants.session.readings.get_cell_processes(variants.sha, cell)]
    if any(process.status is Status.OK for process in processes) or not processes:
        return ""
    first = processes[0]
    outcome = "not available" if first.status is Status.SKIPPED else first.status.value
    return f"{outcome}: {first.reason}" if first.reason else outcome


def _build_ablation(
    variants: VariantSession,
    group: VariantGroup,
    table: AblationTable,
    rejected: Mapping[Cell, str],
    verdicts_by_question: QuestionVerdicts,
) -> Ablation:
    good = _list_good_steps(group, rejected)
    names = {cell: table.steps[number].name for number, cell in group.cells.items()}
    previous = dict(zip(good[1:], good[:-1], strict=True))

    def get_verdicts(base: Cell, head: Cell) -> tuple[Verdict, ...]:
        return tuple(verdicts_by_question.get(variants.build_question(base, head, good), ()))

    def build_step(number: int) -> AblationStep:
        name, cell = table.steps[number].name, group.cells.get(number)
        if cell is None:
            return AblationStep(name, (), rejection_reason="missing: this benchmark has no such variant")
        if cell not in previous:
            return AblationStep(name, cell.parameters, rejection_reason=rejected.get(cell, ""))
        base = previous[cell]
        return AblationStep(name, cell.parameters, get_verdicts(base, cell), names[base])

    return Ablation(
        table.name,
        group.benchmark,
        group.shared_parameters,
        tuple(build_step(number) for number in range(len(table.steps))),
        get_verdicts(good[0], good[-1]) if len(good) > 1 else (),
    )
