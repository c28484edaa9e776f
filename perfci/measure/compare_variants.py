"""Variants of one commit, each against the first: interleaved, adaptively stopped, confirmed on fresh pairs.

What was measured is stored like any other session, under the kind ``variants``. The verdicts are not: a stored verdict
is a question about one series at two commits, by which it is superseded, charted and counted as a regression, and this
is one commit and two series. Everything needed to give them again is kept: samples, pair numbers, order and seed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfci.config import Config
from perfci.measure.adaptive_pairs import AdaptivePairing
from perfci.measure.confirmation import build_look_callback, measure_fresh_pairs
from perfci.measure.open_session import SessionScope, open_session
from perfci.measure.progress import SessionProgress
from perfci.measure.questions import Question
from perfci.measure.variant_groups import VariantGroup
from perfci.measure.variant_session import VariantPolicy, VariantSession, select_variant_cells
from perfci.model import Commit, Stage, Status, Verdict
from perfci.policies import build_policy
from perfci.runner.measurement_runner import MeasurementRunner
from perfci.store import Store
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.goals.goal_clauses import Goal
from perfci.verdicts.rule import MOVE_KINDS
from perfci.verdicts.variants.variant_contrast import VariantContrast, VariantResults

VARIANTS_KIND = "variants"

QuestionVerdicts = dict[Question, list[Verdict]]


@dataclass(frozen=True, slots=True)
class VariantComparison:
    """What variants of one commit showed, and the lineup they were measured in."""

    session: str
    commit: Commit
    statuses: Sequence[Status]
    variants: VariantResults
    variant_session: VariantSession
    verdicts: QuestionVerdicts


def run_variants(
    store: Store,
    workbench: MeasurementRunner,
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
    """Compare every variant with the first of its family; one that computes something else is measured no further."""
    policy = VariantPolicy.from_policy(build_policy(config, strict=strict))
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
    progress.start_stage("rounds", policy.default.looks[0] * len(scope.cells))
    lineup.measure_first_round()
    deadline = None if budget_s is None else time.monotonic() + budget_s
    decided = _screen_variants(lineup, deadline, progress)
    fresh = _confirm_variants(lineup, scope, decided, progress)
    session.finish()
    return VariantComparison(
        session.uid, commit, [*session.statuses, *fresh], _build_variants(lineup, decided), lineup, decided
    )


def _build_variants(
    variant_session: VariantSession, verdicts_by_question: QuestionVerdicts
) -> VariantResults:
    """Of a variant that was rejected no verdict is given."""
    rejections = variant_session.find_rejections()
    contrasts = [
        VariantContrast(question.base_cell.parameters, verdict)
        for question, verdicts in verdicts_by_question.items()
        if question.base_cell and not variant_session.get_rejection_reason(question.cell, rejections)
        for verdict in verdicts
    ]
    varied = dict.fromkeys(name for family in variant_session.groups for name in family.varied_parameters)
    return VariantResults(
        tuple(varied), tuple(contrasts), tuple(rejections), tuple(variant_session.list_numerics())
    )


def _screen_variants(
    variant_session: VariantSession, deadline: float | None, progress: SessionProgress
) -> QuestionVerdicts:
    rejections = variant_session.find_rejections()
    questions = []
    for family in variant_session.groups:
        base, *others = variant_session.select_good_variants(family, rejections).values()
        questions += [variant_session.build_question(base, cell, (base, cell)) for cell in others]
    return AdaptivePairing(
        variant_session.session,
        questions,
        variant_session.policy,
        Stage.SCREENING,
        deadline,
        build_look_callback(progress),
    ).measure_until_decided()


def _confirm_variants(
    variant_session: VariantSession,
    scope: SessionScope,
    verdicts_by_question: QuestionVerdicts,
    progress: SessionProgress,
) -> Sequence[Status]:
    """Put what fresh pairs say of every suspected move in the place of the suspicion."""
    suspected = [
        question
        for question, verdicts in verdicts_by_question.items()
        if any(one.kind in MOVE_KINDS for one in verdicts)
    ]
    if not suspected:
        return []
    fresh, found = measure_fresh_pairs(
        variant_session.session, scope, suspected, variant_session.policy, progress
    )
    fresh.finish()
    asked = [question for question, verdicts in found.items() for _ in verdicts]
    verdicts = control_false_discoveries(
        [verdict for verdicts in found.values() for verdict in verdicts], FALSE_DISCOVERY_RATE
    )
    verdicts_by_question |= {question: [] for question in found}
    for question, verdict in zip(asked, verdicts, strict=True):
        verdicts_by_question[question].append(verdict)
    return fresh.statuses
