"""A ladder of variants, every step of it measured in the same rounds, each judged against the last good one.

It estimates and convicts nobody, so there is no second session: every interval belongs to planned looks that together
keep the error of one, and a move is told on no fewer rounds than a conviction needs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perfci.config import AblationTable, Config
from perfci.measure.adaptive_pairs import AdaptivePairing
from perfci.measure.compare_variants import VARIANTS_KIND, QuestionVerdicts
from perfci.measure.confirmation import build_look_callback
from perfci.measure.open_session import SessionScope, open_session
from perfci.measure.progress import SessionProgress
from perfci.measure.questions import Question
from perfci.measure.variant_groups import VariantGroup
from perfci.measure.variant_session import VariantPolicy, VariantSession, select_variant_cells
from perfci.model import Commit, Stage, Status, Verdict
from perfci.policies import build_policy
from perfci.runner.frozen_suite import Cell
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.store import Store
from perfci.verdicts.goals.goal_clauses import Goal
from perfci.verdicts.variants.ablation import Ablation, AblationStep
from perfci.verdicts.variants.numeric_parity import NumericsCheck


@dataclass(frozen=True, slots=True)
class AblationResult:
    """What a ladder came to at every benchmark it is about."""

    session: str
    commit: Commit
    statuses: Sequence[Status]
    ablations: Sequence[Ablation]
    numerics: Sequence[NumericsCheck]
    variant_session: VariantSession
    verdicts: QuestionVerdicts


def run_ablation(
    store: Store,
    workbench: MeasurementRunner,
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
    """Measure all good steps in every round until each is known against the one before it, and the last to the first.

    A step that fails, or fails parity only when more rounds are known, falls; those above it are judged again.
    """
    policy = VariantPolicy.from_policy(build_policy(config))
    scope = replace(scope, cells=select_variant_cells(scope.cells, groups))
    session = open_session(
        store,
        workbench,
        config.project,
        scope,
        VARIANTS_KIND,
        identity=repr(groups),
        on_process=progress.report_process,
        on_message=progress.report,
    )
    lineup = VariantSession(session, commit.sha, groups, policy, goals)
    deadline = None if budget_s is None else time.monotonic() + budget_s
    progress.start_stage("rounds", policy.default.looks[0] * len(scope.cells))
    lineup.measure_first_round()
    fallen: dict[Cell, str] | None = None
    decided: QuestionVerdicts = {}
    while (now := _find_rejected_steps(lineup)) != fallen:
        fallen = now
        questions = [q for family in groups for q in _build_questions(lineup, family, fallen)]
        decided = AdaptivePairing(
            session, questions, policy, Stage.CONFIRMATION, deadline, build_look_callback(progress)
        ).measure_until_decided()
    session.finish()
    ladders = [_build_ablation(lineup, family, table, fallen or {}, decided) for family in groups]
    return AblationResult(
        session.uid, commit, session.statuses, ladders, lineup.list_numerics(), lineup, decided
    )


def list_good_steps(group: VariantGroup, rejected: Mapping[Cell, str]) -> list[Cell]:
    """The steps that count, the lowest first."""
    return [cell for cell in group.cells.values() if cell not in rejected]


def _build_questions(
    variants: VariantSession, group: VariantGroup, rejected: Mapping[Cell, str]
) -> list[Question]:
    good = list_good_steps(group, rejected)
    asked = [*itertools.pairwise(good), (good[0], good[-1])] if len(good) > 1 else []
    return [variants.build_question(below, above, good) for below, above in dict.fromkeys(asked)]


def _find_rejected_steps(variants: VariantSession) -> dict[Cell, str]:
    """The steps that compute something else, or that never ended well, each with the reason."""
    rejections, found = variants.find_rejections(), {}
    for cell in (cell for family in variants.groups for cell in family.cells.values()):
        if cell is not variants.baseline(cell) and (
            reason := variants.get_rejection_reason(cell, rejections)
        ):
            found[cell] = f"rejected: fails parity, {reason}"
        elif failure := _describe_failure(variants, cell):
            found[cell] = failure
    return found


def _describe_failure(variants: VariantSession, cell: Cell) -> str:
    processes = [process for _, process in variants.session.get_cell_processes(variants.sha, cell)]
    if any(process.status is Status.OK for process in processes) or not processes:
        return ""
    worst = processes[0]
    word = "not available" if worst.status is Status.SKIPPED else worst.status.value
    return f"{word}: {worst.reason}" if worst.reason else word


def _build_ablation(
    variants: VariantSession,
    group: VariantGroup,
    table: AblationTable,
    rejected: Mapping[Cell, str],
    verdicts_by_question: QuestionVerdicts,
) -> Ablation:
    good = list_good_steps(group, rejected)
    names = {cell: table.steps[number].name for number, cell in group.cells.items()}
    below = dict(zip(good[1:], good, strict=False))

    def verdicts(base: Cell, head: Cell) -> tuple[Verdict, ...]:
        return tuple(verdicts_by_question.get(variants.build_question(base, head, good), ()))

    def rung(number: int) -> AblationStep:
        step, cell = table.steps[number].name, group.cells.get(number)
        if cell is None:
            return AblationStep(step, (), rejection_reason="missing: this benchmark has no such variant")
        if cell not in below:
            return AblationStep(step, cell.parameters, rejection_reason=rejected.get(cell, ""))
        return AblationStep(step, cell.parameters, verdicts(below[cell], cell), names[below[cell]])

    total = verdicts(good[0], good[-1]) if len(good) > 1 else ()
    return Ablation(
        table.name, group.benchmark, group.shared_parameters, tuple(map(rung, range(len(table.steps)))), total
    )
