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
from perfci.measure.adaptive_pairs import Pairing
from perfci.measure.confirmation import look_again, told
from perfci.measure.open_session import Subject, open_session
from perfci.measure.progress import Watcher
from perfci.measure.questions import Question
from perfci.measure.variant_groups import Family
from perfci.measure.variant_session import ForVariants, Lineup, of_cells
from perfci.model import Commit, Stage, Status, Verdict
from perfci.policies import policy_of
from perfci.runner.measurement_runner import Workbench
from perfci.store import Store
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control
from perfci.verdicts.goals.goal_clauses import Goal
from perfci.verdicts.rule import MOVES
from perfci.verdicts.variants.variant_contrast import Contrast, Variants

KIND = "variants"

Decided = dict[Question, list[Verdict]]


@dataclass(frozen=True, slots=True)
class VariantComparison:
    """What variants of one commit showed, and the lineup they were measured in."""

    session: str
    commit: Commit
    statuses: Sequence[Status]
    variants: Variants
    lineup: Lineup
    decided: Decided


def run_variants(
    store: Store, workbench: Workbench, config: Config, subject: Subject, commit: Commit, groups: Sequence[Family],
    watcher: Watcher, *, goals: Sequence[Goal] = (), strict: bool = False, budget_s: float | None = None,
) -> VariantComparison:  # fmt: skip
    """Compare every variant with the first of its family; one that computes something else is measured no further."""
    policy = ForVariants.of(policy_of(config, strict=strict))
    subject = replace(subject, cells=of_cells(subject.cells, groups))
    session = open_session(
        store, workbench, config.project, subject, KIND, about=repr(groups), on_process=watcher.process, say=watcher.say
    )
    lineup = Lineup(session, commit.sha, groups, policy, goals)
    watcher.stage("rounds", policy.default.looks[0] * len(subject.cells))
    lineup.first_round()
    deadline = None if budget_s is None else time.monotonic() + budget_s
    decided = _decided(lineup, deadline, watcher)
    fresh = _confirmed(lineup, subject, decided, watcher)
    session.finish()
    return VariantComparison(session.uid, commit, [*session.statuses, *fresh], _found(lineup, decided), lineup, decided)


def _found(lineup: Lineup, decided: Decided) -> Variants:
    """Of a variant that was rejected no verdict is given."""
    rejections = lineup.rejections()
    contrasts = [
        Contrast(question.base_cell.parameters, verdict)
        for question, verdicts in decided.items()
        if question.base_cell and not lineup.rejected(question.cell, rejections)
        for verdict in verdicts
    ]
    varied = dict.fromkeys(name for family in lineup.families for name in family.varied)
    return Variants(tuple(varied), tuple(contrasts), tuple(rejections), tuple(lineup.numerics()))


def _decided(lineup: Lineup, deadline: float | None, watcher: Watcher) -> Decided:
    rejections = lineup.rejections()
    questions = []
    for family in lineup.families:
        base, *others = lineup.good(family, rejections).values()
        questions += [lineup.question(base, cell, (base, cell)) for cell in others]
    return Pairing(lineup.session, questions, lineup.policy, Stage.SCREENING, deadline, told(watcher)).settle()


def _confirmed(lineup: Lineup, subject: Subject, decided: Decided, watcher: Watcher) -> Sequence[Status]:
    """Put what fresh pairs say of every suspected move in the place of the suspicion."""
    suspected = [question for question, verdicts in decided.items() if any(one.kind in MOVES for one in verdicts)]
    if not suspected:
        return []
    fresh, found = look_again(lineup.session, subject, suspected, lineup.policy, watcher)
    fresh.finish()
    asked = [question for question, verdicts in found.items() for _ in verdicts]
    verdicts = control([verdict for verdicts in found.values() for verdict in verdicts], FALSE_DISCOVERY_RATE)
    decided |= {question: [] for question in found}
    for question, verdict in zip(asked, verdicts, strict=True):
        decided[question].append(verdict)
    return fresh.statuses
