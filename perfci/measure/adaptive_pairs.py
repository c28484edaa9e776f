"""Measure interleaved pairs until the verdict on each question needs no more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfci.history.comparisons.complete_process_pairs import (
    PairedProcesses,
    find_complete_pair_numbers,
    select_paired_processes,
)
from perfci.history.comparisons.pooled_comparison_noise import PooledComparisonNoise
from perfci.history.decision_records import (
    METHOD_PAIRS,
    DecisionKey,
    build_decision_record,
    build_interim_analysis_record,
)
from perfci.measure.comparison_questions import ComparisonQuestion, plan_question_pair_visits
from perfci.measure.measure_and_store_session import MeasurementSession
from perfci.model import Role, Series, Stage, Verdict
from perfci.stats.group_sequential import next_look_pairs
from perfci.stats.location_shift import NoisePrior, Shift
from perfci.store.verdict_decision_records import DecisionRecord, LookRecord
from perfci.verdicts.compare.false_discovery import control_false_discoveries, is_exact_verdict
from perfci.verdicts.compare.nonstatistical_verdict import have_same_exact_value
from perfci.verdicts.compare.pairwise_verdict import Look, interim_analysis
from perfci.verdicts.comparison_rule import MOVE_KINDS
from perfci.verdicts.judging_policy import Policy

CONFIRMATION_PAIRS = 10
"""Fewest fresh pairs for a statistical confirmation.

Five can agree by chance where a benchmark has two modes.
"""

EXACT_COUNT_PAIRS = 2
"""Pairs for series that only count events: the second shows whether the counts repeat."""

MAX_REPLACEMENT_FACTOR = 2
"""Failed or flagged pairs are measured again, up to this many times ``Rule.max_pairs`` in all."""

OnLook = Callable[[int, int], None]
"""Called after a look with the number of questions still open and of the pairs they need."""


@dataclass(frozen=True, slots=True)
class PairingResult:
    """The verdicts on each question, how each was reached, and the pooled shift estimates.

    ``open_questions`` still wanted pairs when the deadline came, and are judged by those there are.
    """

    verdicts: dict[ComparisonQuestion, list[Verdict]] = field(default_factory=dict)
    decisions: dict[DecisionKey, DecisionRecord] = field(default_factory=dict)
    shifts: dict[tuple[ComparisonQuestion, Series], Shift] = field(default_factory=dict)
    """As of the last look."""
    open_questions: list[ComparisonQuestion] = field(default_factory=list)

    def list_verdicts(self) -> list[Verdict]:
        """The verdicts of all questions, one question after the other."""
        return [verdict for verdicts in self.verdicts.values() for verdict in verdicts]


@dataclass
class AdaptivePairing:
    """Measures pairs in one session for a set of questions, until each is decided.

    ``false_discovery_rate`` is the rate all moves will be controlled to together: a move it would hold back
    for want of evidence gets more pairs as long as there are any. The p-values are those of all looks, so
    testing again at a smaller level is the same group-sequential plan with a smaller error.

    ``pairs_measured_first`` is how many pairs the caller's plan has of each question, where it measures some
    itself: a look is taken at these too.
    """

    session: MeasurementSession
    questions: Sequence[ComparisonQuestion]
    policy: Policy
    stage: Stage
    deadline: float | None = None  # on time.monotonic()
    on_look: OnLook = lambda questions, pairs: None
    false_discovery_rate: float | None = None
    pairs_measured_first: int = 0
    _result: PairingResult = field(default_factory=PairingResult)
    _pair_commits: dict[int, dict[Role, str]] = field(default_factory=dict)
    _noise: PooledComparisonNoise = field(default_factory=PooledComparisonNoise)
    _looks: dict[tuple[ComparisonQuestion, Series], list[LookRecord]] = field(default_factory=dict)

    def measure_until_decided(self) -> PairingResult:
        """Measure until every question is decided, its pairs are spent or the time is over."""
        self._restore()
        needed = {question: self._count_pairs_to_next_look(question) for question in self.questions}
        needed |= self._judge_questions(self._select_due_questions(needed))
        has_judged = True
        while (open_questions := self._select_open_questions(needed)) and not self._is_past_deadline():
            if has_judged:
                self.on_look(len(open_questions), sum(needed[question] for question in open_questions))
            self._measure_pair(open_questions)
            for question in open_questions:
                needed[question] -= 1
            due = self._select_due_questions({question: needed[question] for question in open_questions})
            needed |= self._judge_questions(due)
            has_judged = bool(due)
        # After a deadline the open questions are judged by the pairs there are.
        self._judge_questions(open_questions)
        self._result.open_questions.extend(open_questions)
        return self._result

    def _count_pairs_to_next_look(self, question: ComparisonQuestion) -> int:
        """How many pairs are missing at the start, where a call before may have ended between two looks."""
        spent = len(self._find_complete_pairs(question))
        if spent == self.pairs_measured_first:
            return 0
        return next_look_pairs(self.policy.default.planned_looks, spent - 1) - spent

    def _select_due_questions(self, needed: Mapping[ComparisonQuestion, int]) -> list[ComparisonQuestion]:
        """The questions that have the pairs of their next look."""
        return [q for q, pairs in needed.items() if pairs <= 0 or self._has_repeating_counts(q)]

    def _select_open_questions(self, needed: dict[ComparisonQuestion, int]) -> list[ComparisonQuestion]:
        """The questions that need more pairs.

        Where none does, those the false discovery control would hold back.
        """
        if not any(pairs > 0 for pairs in needed.values()):
            needed |= self._plan_pairs_for_held_back()
        return [question for question, pairs in needed.items() if pairs > 0]

    def _plan_pairs_for_held_back(self) -> dict[ComparisonQuestion, int]:
        """How many more pairs each question needs whose move would be held back among so many."""
        if self.false_discovery_rate is None:
            return {}
        judged = [
            (question, verdict)
            for question, verdicts in self._result.verdicts.items()
            for verdict in verdicts
        ]
        controlled = control_false_discoveries([verdict for _, verdict in judged], self.false_discovery_rate)
        needed = {}
        for (question, verdict), after in zip(judged, controlled, strict=True):
            if after.kind is not verdict.kind:
                spent = len(self._find_complete_pairs(question))
                needed[question] = next_look_pairs(self.policy.default.planned_looks, spent) - spent
        return needed

    def _restore(self) -> None:
        """Load the noise of A/A runs, and which commits each pair of an interrupted session compared."""
        self._noise = PooledComparisonNoise.load(self.session.store, self.session.project)
        for sha, rows in self.session.readings.processes_by_sha.items():
            for _, process in rows:
                if process.pair is not None:
                    self._pair_commits.setdefault(process.pair, {})[process.role] = sha

    def _measure_pair(self, open_questions: Iterable[ComparisonQuestion]) -> None:
        """Measure one more pair of each question; questions about the same commits share their visits."""
        by_commits: dict[tuple[str, str], list[ComparisonQuestion]] = {}
        for question in open_questions:
            by_commits.setdefault((question.base, question.head), []).append(question)
        for (base, head), questions in by_commits.items():
            # Numbers are unique in a session, since one number stands for one pair of commits.
            number = 1 + max(self._pair_commits, default=-1)
            self._pair_commits[number] = {Role.BASE: base, Role.HEAD: head}
            self.session.measure_interleaved_visits(
                plan_question_pair_visits(questions, number, self.session.seed)
            )

    def _has_repeating_counts(self, question: ComparisonQuestion) -> bool:
        """Whether the first pairs gave nothing but counts, equal on both sides: more pairs would add
        nothing.

        Counts that moved get as many pairs as times do: a counter that seldom varies would look like a
        change.
        """
        if len(self._find_complete_pairs(question)) != EXACT_COUNT_PAIRS:
            return False
        sides = self._collect_sides(question).values()
        return bool(sides) and all(have_same_exact_value(*both) for both in sides)

    def _judge_questions(self, questions: Sequence[ComparisonQuestion]) -> dict[ComparisonQuestion, int]:
        """Take a look at each question, keep its verdicts and return how many more pairs each needs.

        The noise of all questions is collected first, so that the pooled prior does not depend on their
        order.
        """
        sides = {question: self._collect_sides(question) for question in questions}
        for question, judged in sides.items():
            for series, both in judged.items():
                own_shift = self._take_look(question, series, both, None).own_shift
                metric_class = self.policy.metric_class_of(series)
                self._noise.add_spread((question, series), metric_class, series, own_shift)
        return {question: self._judge_question(question, judged) for question, judged in sides.items()}

    def _judge_question(self, question: ComparisonQuestion, sides: Mapping[Series, PairedProcesses]) -> int:
        spent = len(self._find_complete_pairs(question))
        judged = [self._judge_series(question, series, both, spent) for series, both in sides.items()]
        self._result.verdicts[question] = [verdict for verdict, _ in judged]
        # Pairs that gave no judged series (all failed, or none is to be judged) would give none again.
        if not judged:
            return 0 if spent else self.policy.default.looks[0]
        needed = max(pairs for _, pairs in judged)
        left = MAX_REPLACEMENT_FACTOR * self.policy.default.max_pairs - spent
        return max(0, min(needed, left))

    def _judge_series(
        self, question: ComparisonQuestion, series: Series, sides: PairedProcesses, pairs_spent: int
    ) -> tuple[Verdict, int]:
        prior = self._noise.get_pooled_prior((question, series))
        look = self._take_look(question, series, sides, prior)
        verdict = replace(look.verdict, evidence=self._collect_evidence(question, series))
        if look.shrunk_shift is not None:
            self._result.shifts[question, series] = look.shrunk_shift
        if pairs_spent:
            self._record_look(question, series, build_interim_analysis_record(look, pairs_spent, prior))
        return verdict, look.pairs_to_buy or self._count_missing_confirmation_pairs(verdict)

    def _take_look(
        self, question: ComparisonQuestion, series: Series, sides: PairedProcesses, prior: NoisePrior | None
    ) -> Look:
        return interim_analysis(
            series,
            question.base,
            question.head,
            *sides,
            rule=self.policy.rule_for(series),
            prior=prior,
            aa_runs=self._noise.get_aa_results(series),
            stage=self.stage,
        )

    def _record_look(self, question: ComparisonQuestion, series: Series, look_record: LookRecord) -> None:
        looks = self._looks.setdefault((question, series), [])
        looks.append(look_record)
        self._result.decisions[series, question.base, question.head] = build_decision_record(
            METHOD_PAIRS, self.policy.rule_for(series), looks, aa_verdicts_until=self._noise.aa_verdicts_until
        )

    def _count_missing_confirmation_pairs(self, verdict: Verdict) -> int:
        """How many pairs a move still needs to be confirmed; one that was counted exactly needs none."""
        if self.stage is not Stage.CONFIRMATION or verdict.kind not in MOVE_KINDS:
            return 0
        if is_exact_verdict(verdict):
            return 0
        return max(0, min(CONFIRMATION_PAIRS, self.policy.default.max_pairs) - verdict.pairs)

    def _collect_sides(self, question: ComparisonQuestion) -> dict[Series, PairedProcesses]:
        processes = question.collect_processes(self.session.readings)
        pairs = self._find_complete_pairs(question)
        sides = select_paired_processes(processes, question.base, question.head, pairs)
        return {series: both for series, both in sides.items() if self.policy.is_judged(series)}

    def _find_complete_pairs(self, question: ComparisonQuestion) -> list[int]:
        """The pairs of this question that were measured on both sides, failed processes included."""
        processes = question.collect_processes(self.session.readings)
        return find_complete_pair_numbers(processes, question.base, question.head, self._pair_commits)

    def _collect_evidence(self, question: ComparisonQuestion, series: Series) -> tuple[int, ...]:
        """The rows of the processes that the look used."""
        readings, pairs = self.session.readings, set(self._find_complete_pairs(question))
        row_ids = question.collect_process_row_ids(readings, series)
        return tuple(row_id for row_id in row_ids if readings.processes_by_id[row_id].pair in pairs)

    def _is_past_deadline(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline
