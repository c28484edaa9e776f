"""Variants of one commit in one session: measured next to each other, and held to the numbers of their baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from perfci.measure.measurement_session import Session
from perfci.measure.questions import Question
from perfci.measure.variant_groups import Family
from perfci.model import MetricClass, Process, Role, Series
from perfci.runner import visit_plan
from perfci.runner.frozen_suite import Cell
from perfci.verdicts.goals.goal_clauses import Goal
from perfci.verdicts.policy import Policy
from perfci.verdicts.variants import numeric_parity
from perfci.verdicts.variants.numeric_parity import Numerics, Parity
from perfci.verdicts.variants.variant_contrast import Rejection

Sides = tuple[list[Process], list[Process]]


@dataclass(frozen=True, slots=True)
class ForVariants(Policy):
    """Which variant is faster is asked of all but its numerics: those have to agree, not to improve."""

    def judges(self, series: Series) -> bool:
        return Policy.judges(self, series) and self.class_of(series) is not MetricClass.NUMERICS

    @classmethod
    def of(cls, policy: Policy) -> ForVariants:
        return cls(*(getattr(policy, field.name) for field in fields(policy)))


@dataclass(frozen=True, slots=True)
class Lineup:
    """The families that a session measures at one commit."""

    session: Session
    sha: str
    families: Sequence[Family]
    policy: Policy
    goals: Sequence[Goal] = ()

    def baseline(self, cell: Cell) -> Cell:
        """What a cell of these families stems from."""
        return next(family.cells[0] for family in self.families if cell in family.cells.values())

    def first_round(self) -> None:
        """Measure everything once: what refuses to be timed then is not measured again."""
        groups = [tuple(family.cells.values()) for family in self.families]
        if not self.session.measured:
            self.session.visit(visit_plan.lineup(self.sha, groups, 0, 0, self.session.seed))

    def question(self, base: Cell, head: Cell, beside: Sequence[Cell]) -> Question:
        return Question(self.sha, self.sha, head, base, tuple(beside))

    def good(self, family: Family, rejections: Sequence[Rejection]) -> dict[int, Cell]:
        """The baseline, and of the others those that nothing is known against."""
        return {
            number: cell for number, cell in family.cells.items() if number == 0 or not self.rejected(cell, rejections)
        }

    def rejected(self, cell: Cell, rejections: Sequence[Rejection]) -> str:
        """Why a cell is of a rejected variant; empty where it is not."""
        return next((one.reason for one in rejections if one.concerns(cell.benchmark, cell.parameters)), "")

    def rejections(self) -> list[Rejection]:
        """One for each variant of a class: what it refused to be timed for, or a number beyond its tolerance."""
        found: list[Rejection] = []
        for cell, reason in (*self._refusals(), *self._beyond()):
            if not self.rejected(cell, found):
                found.append(Rejection(cell.benchmark, cell.parameters, reason))
        return found

    def numerics(self) -> list[Numerics]:
        """Every number that a tolerance is known for, of each variant next to its baseline."""
        return [numerics for _, numerics in self._numerics()]

    def sides(self, question: Question) -> dict[Series, Sides]:
        """All that was measured on both sides, witnesses as well."""
        found: dict[Series, Sides] = {}
        for rows in question.readings(self.session).values():
            for series, process in rows:
                found.setdefault(series, ([], []))[process.role is Role.HEAD].append(process)
        return found

    def _refusals(self) -> Iterator[tuple[Cell, str]]:
        for family in self.families:
            for number, cell in family.cells.items():
                readings = [process for _, process in self.session.readings(self.sha, cell)]
                if number and (reason := numeric_parity.refusal(readings)):
                    yield cell, reason

    def _beyond(self) -> Iterator[tuple[Cell, str]]:
        for cell, numerics in self._numerics():
            if numerics.parity is Parity.REJECTED:
                yield cell, numerics.told

    def _numerics(self) -> Iterator[tuple[Cell, Numerics]]:
        for family in self.families:
            base, *others = family.cells.values()
            for cell in others:
                for series, sides in self.sides(self.question(base, cell, ())).items():
                    found = self._held(series, base, sides)
                    if found is not None:
                        yield cell, found

    def _held(self, series: Series, base: Cell, sides: Sides) -> Numerics | None:
        if self.policy.class_of(series) is not MetricClass.NUMERICS:
            return None
        return numeric_parity.compared(series, base.parameters, *sides, declared(self.goals, series, self.policy))


def declared(goals: Sequence[Goal], series: Series, policy: Policy) -> float | None:
    """How far numerics may be apart by what the user says: a goal's *within*, else the bar of a ``[[policy]]``.

    An error is a difference in the metric's own unit, so for it the floor says the same.
    """
    found = next((allowed for goal in goals if (allowed := goal.tolerance(series)) is not None), None)
    if found is not None:
        return found
    rule = policy.rule_for(series)
    return rule.counted_bar or (rule.floor if "error" in series.metric.name else 0.0) or None


def of_cells(cells: Sequence[Cell], families: Sequence[Family]) -> tuple[Cell, ...]:
    """The cells that families are made of, in the order of the suite."""
    wanted = {cell for family in families for cell in family.cells.values()}
    return tuple(cell for cell in cells if cell in wanted)
