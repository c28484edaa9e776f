"""A ladder of variants, every step of it measured in the same rounds, each judged against the last good one.

It estimates and convicts nobody, so there is no second session: every interval belongs to planned looks that together
keep the error of one, and a move is told on no fewer rounds than a conviction needs.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perfci.config import Config, LadderTable
from perfci.measure.adaptive_pairs import Pairing
from perfci.measure.compare_variants import KIND, Decided
from perfci.measure.confirmation import told
from perfci.measure.open_session import Subject, open_session
from perfci.measure.progress import Watcher
from perfci.measure.questions import Question
from perfci.measure.variant_groups import Family
from perfci.measure.variant_session import ForVariants, Lineup, of_cells
from perfci.model import Commit, Stage, Status, Verdict
from perfci.policies import policy_of
from perfci.runner.frozen_suite import Cell
from perfci.runner.measurement_runner import Workbench
from perfci.store import Store
from perfci.verdicts.goals.goal_clauses import Goal
from perfci.verdicts.variants.ablation import Ladder, Rung
from perfci.verdicts.variants.numeric_parity import Numerics


@dataclass(frozen=True, slots=True)
class Climb:
    """What a ladder came to at every benchmark it is about."""

    session: str
    commit: Commit
    statuses: Sequence[Status]
    ladders: Sequence[Ladder]
    numerics: Sequence[Numerics]
    lineup: Lineup
    decided: Decided


def run_ladder(
    store: Store, workbench: Workbench, config: Config, subject: Subject, commit: Commit, table: LadderTable,
    groups: Sequence[Family], watcher: Watcher, *, goals: Sequence[Goal] = (), budget_s: float | None = None,
) -> Climb:  # fmt: skip
    """Measure all good steps in every round until each is known against the one before it, and the last to the first.

    A step that fails, or fails parity only when more rounds are known, falls; those above it are judged again.
    """
    policy = ForVariants.of(policy_of(config))
    subject = replace(subject, cells=of_cells(subject.cells, groups))
    session = open_session(
        store, workbench, config.project, subject, KIND, about=repr(groups), on_process=watcher.process, say=watcher.say
    )
    lineup = Lineup(session, commit.sha, groups, policy, goals)
    deadline = None if budget_s is None else time.monotonic() + budget_s
    watcher.stage("rounds", policy.default.looks[0] * len(subject.cells))
    lineup.first_round()
    fallen: dict[Cell, str] | None = None
    decided: Decided = {}
    while (now := _fallen(lineup)) != fallen:
        fallen = now
        questions = [q for family in groups for q in _questions(lineup, family, fallen)]
        decided = Pairing(session, questions, policy, Stage.CONVICTION, deadline, told(watcher)).settle()
    session.finish()
    ladders = [_ladder(lineup, family, table, fallen or {}, decided) for family in groups]
    return Climb(session.uid, commit, session.statuses, ladders, lineup.numerics(), lineup, decided)


def standing(family: Family, fallen: Mapping[Cell, str]) -> list[Cell]:
    """The steps that count, the lowest first."""
    return [cell for cell in family.cells.values() if cell not in fallen]


def _questions(lineup: Lineup, family: Family, fallen: Mapping[Cell, str]) -> list[Question]:
    good = standing(family, fallen)
    asked = [*itertools.pairwise(good), (good[0], good[-1])] if len(good) > 1 else []
    return [lineup.question(below, above, good) for below, above in dict.fromkeys(asked)]


def _fallen(lineup: Lineup) -> dict[Cell, str]:
    """The steps that compute something else, or that never ended well, each with the reason."""
    rejections, found = lineup.rejections(), {}
    for cell in (cell for family in lineup.families for cell in family.cells.values()):
        if cell is not lineup.baseline(cell) and (reason := lineup.rejected(cell, rejections)):
            found[cell] = f"rejected: fails parity, {reason}"
        elif failure := _failure(lineup, cell):
            found[cell] = failure
    return found


def _failure(lineup: Lineup, cell: Cell) -> str:
    processes = [process for _, process in lineup.session.readings(lineup.sha, cell)]
    if any(process.status is Status.OK for process in processes) or not processes:
        return ""
    worst = processes[0]
    word = "not available" if worst.status is Status.SKIPPED else worst.status.value
    return f"{word}: {worst.reason}" if worst.reason else word


def _ladder(lineup: Lineup, family: Family, table: LadderTable, fallen: Mapping[Cell, str], decided: Decided) -> Ladder:
    good = standing(family, fallen)
    names = {cell: table.steps[number].name for number, cell in family.cells.items()}
    below = dict(zip(good[1:], good, strict=False))

    def verdicts(base: Cell, head: Cell) -> tuple[Verdict, ...]:
        return tuple(decided.get(lineup.question(base, head, good), ()))

    def rung(number: int) -> Rung:
        step, cell = table.steps[number].name, family.cells.get(number)
        if cell is None:
            return Rung(step, (), fallen="missing: this benchmark has no such variant")
        if cell not in below:
            return Rung(step, cell.parameters, fallen=fallen.get(cell, ""))
        return Rung(step, cell.parameters, verdicts(below[cell], cell), names[below[cell]])

    total = verdicts(good[0], good[-1]) if len(good) > 1 else ()
    return Ladder(table.name, family.benchmark, family.rest, tuple(map(rung, range(len(table.steps)))), total)
