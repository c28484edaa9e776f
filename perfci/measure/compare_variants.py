"""Compare variants of one commit with the first: interleaved, adaptively stopped, confirmed on fresh pairs.

The processes are stored like those of any session, under the kind ``variants``. The verdicts are stored in
tables of their own: one in ``verdicts`` is about one series at two commits, which decides how it is
superseded, charted and counted as a regression; a variant verdict is about one commit and two series.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfci.config import Config
from perfci.measure.adaptive_pairs import AdaptivePairing
from perfci.measure.comparison_questions import ComparisonQuestion
from perfci.measure.confirmation import build_interim_look_reporter, measure_fresh_pairs
from perfci.measure.measure_and_store_session import SessionProgress, SessionScope
from perfci.measure.open_measurement_session import open_measurement_session
from perfci.measure.variant_groups import VariantGroup
from perfci.measure.variant_session import (
    FIRST_ROUND_PAIRS,
    VariantPolicy,
    VariantSession,
    select_variant_cells,
)
from perfci.model import Commit, Stage, Status, Verdict
from perfci.project_policies import build_policy
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.store import Store
from perfci.store.queries.history_conditions import VARIANTS_KIND
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.comparison_rule import MOVE_KINDS
from perfci.verdicts.goals.goal_clauses import Goal
from perfci.verdicts.variants.variant_contrast import VariantContrast, VariantResults

QuestionVerdicts = dict[ComparisonQuestion, list[Verdict]]
"""The verdicts on each question about two variants, one per judged series."""


@dataclass(frozen=True, slots=True)
class VariantComparison:
    """The result of comparing variants of one commit, and the variant session that measured them."""

    session: str
    commit: Commit
    statuses: Sequence[Status]
    variants: VariantResults
    variant_session: VariantSession
    verdicts: QuestionVerdicts


def measure_variant_comparison(
    store: Store,
    runner: MeasurementRunner,
    config: Config,
    scope: SessionScope,
    commit: Commit,
    groups: Sequence[VariantGroup],
    progress: SessionProgress,
    *,
    goals: Sequence[Goal] = (),
    strict: bool = False,
    budget_s: float | None = None,
) -> VariantComparison:
    """Compare every variant with the baseline of its group.

    One with other numerics is measured no further.
    """
    policy = VariantPolicy.from_policy(build_policy(config.settings, strict=strict))
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
    progress.start_stage("rounds", policy.default.looks[0] * len(scope.cells))
    variants.measure_first_round()
    deadline = None if budget_s is None else time.monotonic() + budget_s
    verdicts = _screen_variants(variants, deadline, progress)
    fresh_statuses = _confirm_variants(variants, scope, verdicts, progress)
    session.finish()
    return VariantComparison(
        session=session.uid,
        commit=commit,
        statuses=[*session.statuses, *fresh_statuses],
        variants=_build_results(variants, verdicts),
        variant_session=variants,
        verdicts=verdicts,
    )


def _build_results(variant_session: VariantSession, verdicts_by_question: QuestionVerdicts) -> VariantResults:
    """Collect the contrasts; a rejected variant has none."""
    rejections = variant_session.find_rejected_variants()
    contrasts = [
        VariantContrast(question.base_cell.parameters, verdict)
        for question, verdicts in verdicts_by_question.items()
        if question.base_cell and not variant_session.get_rejection_reason(question.cell, rejections)
        for verdict in verdicts
    ]
    varied = dict.fromkeys(name for group in variant_session.groups for name in group.varied_parameters)
    return VariantResults(
        tuple(varied), tuple(contrasts), tuple(rejections), tuple(variant_session.list_numerics_checks())
    )


def _screen_variants(
    variant_session: VariantSession, deadline: float | None, progress: SessionProgress
) -> QuestionVerdicts:
    rejections = variant_session.find_rejected_variants()
    questions = []
    for group in variant_session.groups:
        base, *others = variant_session.select_accepted_variants(group, rejections).values()
        questions += [variant_session.build_question(base, cell, (base, cell)) for cell in others]
    pairing = AdaptivePairing(
        variant_session.session,
        questions,
        variant_session.policy,
        Stage.SCREENING,
        deadline,
        build_interim_look_reporter(progress),
        pairs_measured_first=FIRST_ROUND_PAIRS,
    )
    return pairing.measure_until_decided().verdicts


def _confirm_variants(
    variant_session: VariantSession,
    scope: SessionScope,
    verdicts_by_question: QuestionVerdicts,
    progress: SessionProgress,
) -> Sequence[Status]:
    """Replace every candidate move by its verdict on fresh pairs; return how the fresh processes ended."""
    candidates = [
        question
        for question, verdicts in verdicts_by_question.items()
        if any(verdict.kind in MOVE_KINDS for verdict in verdicts)
    ]
    if not candidates:
        return []
    fresh, result = measure_fresh_pairs(
        variant_session.session, scope, candidates, variant_session.policy, progress
    )
    fresh.finish()
    controlled = iter(control_false_discoveries(result.list_verdicts(), FALSE_DISCOVERY_RATE))
    for question, verdicts in result.verdicts.items():
        verdicts_by_question[question] = [next(controlled) for _ in verdicts]
    return fresh.statuses
