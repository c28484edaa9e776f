"""Measure variants of one commit next to each other, and check their numerics against their baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from perfci.history.comparisons.complete_process_pairs import PairedProcesses
from perfci.measure.comparison_questions import ComparisonQuestion
from perfci.measure.measure_and_store_session import MeasurementSession
from perfci.measure.variant_groups import VariantGroup
from perfci.model import MetricClass, Role, Series
from perfci.runner import visit_plan
from perfci.runner.suite_cells import Cell
from perfci.verdicts.goals.goal_clauses import Goal
from perfci.verdicts.judging_policy import Policy
from perfci.verdicts.variants import numeric_parity
from perfci.verdicts.variants.numeric_parity import NumericsCheck, ParityOutcome
from perfci.verdicts.variants.variant_contrast import VariantRejection

FIRST_ROUND_PAIRS = 1
"""Pairs of each question that `measure_first_round` gives."""


@dataclass(frozen=True, slots=True)
class VariantPolicy(Policy):
    """A policy that judges everything but numerics: those have to agree with the baseline, not to improve."""

    def is_judged(self, series: Series) -> bool:
        # A zero-argument super() fails here: slots=True makes the dataclass a new class.
        return Policy.is_judged(self, series) and self.metric_class_of(series) is not MetricClass.NUMERICS

    @classmethod
    def from_policy(cls, policy: Policy) -> VariantPolicy:
        """Copy every field of a policy."""
        return cls(*(getattr(policy, field.name) for field in fields(policy)))


@dataclass(frozen=True, slots=True)
class VariantSession:
    """The variant groups that a session measures at one commit."""

    session: MeasurementSession
    sha: str
    groups: Sequence[VariantGroup]
    policy: Policy
    goals: Sequence[Goal] = ()

    def measure_first_round(self) -> None:
        """Measure every variant once, unless a resumed session has.

        One that refuses to be timed is measured no further.
        """
        groups = [tuple(group.cells.values()) for group in self.groups]
        if not self.session.readings:
            self.session.measure_visit(
                visit_plan.plan_variant_comparison(self.sha, groups, 0, 0, self.session.seed)
            )

    def build_question(self, base: Cell, head: Cell, round_cells: Sequence[Cell]) -> ComparisonQuestion:
        """Is the head variant different from the base variant, both measured in rounds of ``round_cells``?"""
        return ComparisonQuestion(self.sha, self.sha, head, base, tuple(round_cells))

    def select_accepted_variants(
        self, group: VariantGroup, rejections: Sequence[VariantRejection]
    ) -> dict[int, Cell]:
        """The baseline and the variants that are not rejected, by the number of their assignment."""
        return {
            number: cell
            for number, cell in group.cells.items()
            if number == 0 or not self.get_rejection_reason(cell, rejections)
        }

    def get_rejection_reason(self, cell: Cell, rejections: Sequence[VariantRejection]) -> str:
        """Why the variant of a cell is rejected; empty where it is not."""
        for rejection in rejections:
            if rejection.applies_to(cell.benchmark, cell.parameters):
                return rejection.reason
        return ""

    def find_rejected_variants(self) -> list[VariantRejection]:
        """The variants that refused to be timed, or of which a number is beyond its tolerance; each once."""
        rejections: list[VariantRejection] = []
        for cell, reason in (*self._find_refusals(), *self._find_out_of_tolerance()):
            if not self.get_rejection_reason(cell, rejections):
                rejections.append(VariantRejection(cell.benchmark, cell.parameters, reason))
        return rejections

    def list_numerics_checks(self) -> list[NumericsCheck]:
        """Every number that has a tolerance, of each variant next to its baseline."""
        return [numerics for _, numerics in self._compute_numerics()]

    def collect_paired_processes(self, question: ComparisonQuestion) -> dict[Series, PairedProcesses]:
        """The processes of both sides by series, informational metrics included."""
        sides: dict[Series, PairedProcesses] = {}
        for rows in question.collect_processes(self.session.readings).values():
            for series, process in rows:
                base, head = sides.setdefault(series, ([], []))
                (head if process.role is Role.HEAD else base).append(process)
        return sides

    def _find_refusals(self) -> Iterator[tuple[Cell, str]]:
        for group in self.groups:
            for number, cell in group.cells.items():
                rows = self.session.readings.get_cell_processes(self.sha, cell)
                reason = numeric_parity.find_parity_failure_reason([process for _, process in rows])
                if number > 0 and reason:
                    yield cell, reason

    def _find_out_of_tolerance(self) -> Iterator[tuple[Cell, str]]:
        for cell, numerics in self._compute_numerics():
            if numerics.parity is ParityOutcome.REJECTED:
                yield cell, numerics.text

    def _compute_numerics(self) -> Iterator[tuple[Cell, NumericsCheck]]:
        for group in self.groups:
            base, *others = group.cells.values()
            for cell in others:
                for series, sides in self.collect_paired_processes(
                    self.build_question(base, cell, ())
                ).items():
                    check = self._check_numerics(series, base, sides)
                    if check is not None:
                        yield cell, check

    def _check_numerics(self, series: Series, base: Cell, sides: PairedProcesses) -> NumericsCheck | None:
        if self.policy.metric_class_of(series) is not MetricClass.NUMERICS:
            return None
        tolerance = find_numerics_tolerance(self.goals, series, self.policy)
        return numeric_parity.check_numeric_parity(series, base.parameters, *sides, tolerance)


def find_numerics_tolerance(goals: Sequence[Goal], series: Series, policy: Policy) -> float | None:
    """How far apart numerics may be: a goal's *within*, else the bar of a ``[[policy]]``.

    None where neither is set.

    An error is already a difference in the metric's own unit, so its floor is a tolerance too.
    """
    for goal in goals:
        tolerance = goal.tolerance_for(series)
        if tolerance is not None:
            return tolerance
    rule = policy.rule_for(series)
    return rule.effective_exact_bar or (rule.floor if "error" in series.metric.name else 0.0) or None


def select_variant_cells(cells: Sequence[Cell], groups: Sequence[VariantGroup]) -> tuple[Cell, ...]:
    """The cells of the variant groups, in the order of the suite."""
    members = {cell for group in groups for cell in group.cells.values()}
    return tuple(cell for cell in cells if cell in members)
