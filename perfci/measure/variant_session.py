"""Variants of one commit in one session: measured next to each other, and held to the numbers of their baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from perfci.measure.measurement_session import MeasurementSession
from perfci.measure.questions import Question
from perfci.measure.variant_groups import VariantGroup
from perfci.model import MetricClass, Process, Role, Series
from perfci.runner import visit_plan
from perfci.runner.frozen_suite import Cell
from perfci.verdicts.goals.goal_clauses import Goal
from perfci.verdicts.policy import Policy
from perfci.verdicts.variants import numeric_parity
from perfci.verdicts.variants.numeric_parity import NumericsCheck, ParityOutcome
from perfci.verdicts.variants.variant_contrast import VariantRejection

PairedProcesses = tuple[list[Process], list[Process]]


@dataclass(frozen=True, slots=True)
class VariantPolicy(Policy):
    """Which variant is faster is asked of all but its numerics: those have to agree, not to improve."""

    def judges(self, series: Series) -> bool:
        return Policy.is_judged(self, series) and self.class_of(series) is not MetricClass.NUMERICS

    @classmethod
    def from_policy(cls, policy: Policy) -> VariantPolicy:
        return cls(*(getattr(policy, field.name) for field in fields(policy)))


@dataclass(frozen=True, slots=True)
class VariantSession:
    """The families that a session measures at one commit."""

    session: MeasurementSession
    sha: str
    groups: Sequence[VariantGroup]
    policy: Policy
    goals: Sequence[Goal] = ()

    def baseline(self, cell: Cell) -> Cell:
        """What a cell of these families stems from."""
        return next(family.cells[0] for family in self.groups if cell in family.cells.values())

    def measure_first_round(self) -> None:
        """Measure everything once: what refuses to be timed then is not measured again."""
        groups = [tuple(family.cells.values()) for family in self.groups]
        if not self.session.processes_by_sha:
            self.session.measure_visit(
                visit_plan.plan_variant_visit(self.sha, groups, 0, 0, self.session.seed)
            )

    def build_question(self, base: Cell, head: Cell, round_cells: Sequence[Cell]) -> Question:
        return Question(self.sha, self.sha, head, base, tuple(round_cells))

    def select_good_variants(
        self, group: VariantGroup, rejections: Sequence[VariantRejection]
    ) -> dict[int, Cell]:
        """The baseline, and of the others those that nothing is known against."""
        return {
            number: cell
            for number, cell in group.cells.items()
            if number == 0 or not self.get_rejection_reason(cell, rejections)
        }

    def get_rejection_reason(self, cell: Cell, rejections: Sequence[VariantRejection]) -> str:
        """Why a cell is of a rejected variant; empty where it is not."""
        return next((one.reason for one in rejections if one.applies_to(cell.benchmark, cell.parameters)), "")

    def find_rejections(self) -> list[VariantRejection]:
        """One for each variant of a class: what it refused to be timed for, or a number beyond its tolerance."""
        found: list[VariantRejection] = []
        for cell, reason in (*self._find_refusals(), *self._find_out_of_tolerance()):
            if not self.get_rejection_reason(cell, found):
                found.append(VariantRejection(cell.benchmark, cell.parameters, reason))
        return found

    def list_numerics(self) -> list[NumericsCheck]:
        """Every number that a tolerance is known for, of each variant next to its baseline."""
        return [numerics for _, numerics in self._compute_numerics()]

    def collect_sides(self, question: Question) -> dict[Series, PairedProcesses]:
        """All that was measured on both sides, witnesses as well."""
        found: dict[Series, PairedProcesses] = {}
        for rows in question.collect_processes(self.session).values():
            for series, process in rows:
                found.setdefault(series, ([], []))[process.role is Role.HEAD].append(process)
        return found

    def _find_refusals(self) -> Iterator[tuple[Cell, str]]:
        for family in self.groups:
            for number, cell in family.cells.items():
                readings = [process for _, process in self.session.get_cell_processes(self.sha, cell)]
                if number and (reason := numeric_parity.find_parity_failure(readings)):
                    yield cell, reason

    def _find_out_of_tolerance(self) -> Iterator[tuple[Cell, str]]:
        for cell, numerics in self._compute_numerics():
            if numerics.parity is ParityOutcome.REJECTED:
                yield cell, numerics.text

    def _compute_numerics(self) -> Iterator[tuple[Cell, NumericsCheck]]:
        for family in self.groups:
            base, *others = family.cells.values()
            for cell in others:
                for series, sides in self.collect_sides(self.build_question(base, cell, ())).items():
                    found = self._compare_numerics(series, base, sides)
                    if found is not None:
                        yield cell, found

    def _compare_numerics(self, series: Series, base: Cell, sides: PairedProcesses) -> NumericsCheck | None:
        if self.policy.class_of(series) is not MetricClass.NUMERICS:
            return None
        return numeric_parity.check_numerics(
            series, base.parameters, *sides, find_tolerance(self.goals, series, self.policy)
        )


def find_tolerance(goals: Sequence[Goal], series: Series, policy: Policy) -> float | None:
    """How far numerics may be apart by what the user says: a goal's *within*, else the bar of a ``[[policy]]``.

    An error is a difference in the metric's own unit, so for it the floor says the same.
    """
    found = next((allowed for goal in goals if (allowed := goal.tolerance(series)) is not None), None)
    if found is not None:
        return found
    rule = policy.rule_for(series)
    return rule.effective_exact_bar or (rule.floor if "error" in series.metric.name else 0.0) or None


def select_variant_cells(cells: Sequence[Cell], groups: Sequence[VariantGroup]) -> tuple[Cell, ...]:
    """The cells that families are made of, in the order of the suite."""
    wanted = {cell for family in groups for cell in family.cells.values()}
    return tuple(cell for cell in cells if cell in wanted)
