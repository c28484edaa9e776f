"""Buy interleaved pairs where they decide: every open question gets pairs until the judge has enough of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfci.history.judge_samples import (
    METHOD_PAIRS,
    NoisePriors,
    PairedProcesses,
    build_decision_record,
    build_look_record,
    find_complete_pairs,
    select_judged_sides,
)
from perfci.measure.measurement_session import MeasurementSession
from perfci.measure.questions import Question, plan_visits
from perfci.model import Role, Series, Stage, Verdict
from perfci.stats.group_sequential import next_look
from perfci.stats.location_shift import NoisePrior, Shift
from perfci.store.queries.decisions import LookRecord
from perfci.verdicts.compare.false_discovery import control_false_discoveries, is_exact_verdict
from perfci.verdicts.compare.pairwise import Look, interim_analysis
from perfci.verdicts.compare.special_cases import have_equal_counts
from perfci.verdicts.policy import Policy
from perfci.verdicts.rule import MOVE_KINDS

CONFIRMATION_PAIRS = 10
"""No statistical conviction on fewer fresh pairs: five can agree by chance where a benchmark has two states."""

EXACT_COUNT_PAIRS = 2
"""Of what is only counted: the second tells whether it repeats."""

MAX_REPLACEMENT_FACTOR = 2
"""Pairs that fail or are flagged are bought again, up to this many times the pairs that would do."""

OnLook = Callable[[int, int], None]
"""Called after a look with the number of questions still open and of the pairs they want."""


@dataclass
class AdaptivePairing:
    """Pairs measured in one session for a set of questions, and what is decided so far.

    ``rate`` is the false discovery rate that all its moves will be held to together: what it would hold back for want
    of evidence gets more pairs as long as there are any. Their p-values are those of all looks, so asking again for a
    smaller one is the same plan at a smaller error.
    """

    session: MeasurementSession
    questions: Sequence[Question]
    policy: Policy
    stage: Stage
    deadline: float | None = None
    on_look: OnLook = lambda questions, pairs: None
    false_discovery_rate: float | None = None
    verdicts: dict[Question, list[Verdict]] = field(default_factory=dict)
    shifts: dict[tuple[Question, Series], Shift] = field(default_factory=dict)  # as judged last
    _pairs: dict[int, dict[Role, str]] = field(default_factory=dict)
    _noise: NoisePriors = field(default_factory=NoisePriors)
    _looks: dict[tuple[Question, Series], list[LookRecord]] = field(default_factory=dict)

    def measure_until_decided(self) -> dict[Question, list[Verdict]]:
        """Measure until every question is decided, its pairs are spent or the time is over."""
        self._restore()
        needed = self._judge_questions(self.questions)
        looked = True
        while (asked := self._select_open_questions(needed)) and not self._is_past_deadline():
            if looked:
                self.on_look(len(asked), sum(needed[q] for q in asked))
            self._measure_pair(asked)
            needed |= {question: needed[question] - 1 for question in asked}
            due = [question for question in asked if needed[question] <= 0 or self._is_repeating(question)]
            needed |= self._judge_questions(due)
            looked = bool(due)
        self._judge_questions(asked)
        return self.verdicts

    def _select_open_questions(self, needed: dict[Question, int]) -> list[Question]:
        """The questions that want more pairs; where each has enough, those that all together leave in doubt."""
        if not any(more > 0 for more in needed.values()):
            needed |= self._plan_pairs_for_held_back()
        return [question for question, more in needed.items() if more > 0]

    def _plan_pairs_for_held_back(self) -> dict[Question, int]:
        """How many more pairs to buy of what would be held back among so many."""
        if self.false_discovery_rate is None:
            return {}
        told = [(question, verdict) for question, verdicts in self.verdicts.items() for verdict in verdicts]
        held = control_false_discoveries([verdict for _, verdict in told], self.false_discovery_rate)
        doubtful = [
            question
            for (question, before), now in zip(told, held, strict=True)
            if now.kind is not before.kind
        ]
        looks, spent = (
            self.policy.default.planned_looks,
            {one: len(self._find_complete_pairs(one)) for one in doubtful},
        )
        return {question: next_look(looks, pairs) - pairs for question, pairs in spent.items()}

    def _restore(self) -> None:
        """Know what equals came to, and again which commits each pair of an interrupted session compared."""
        self._noise = NoisePriors.load(self.session.store, self.session.project)
        for sha, rows in self.session.processes_by_sha.items():
            for _, process in rows:
                if process.pair is not None:
                    self._pairs.setdefault(process.pair, {})[process.role] = sha

    def _measure_pair(self, open_questions: Iterable[Question]) -> None:
        """One more pair of each question; questions about the same commits share their visits."""
        together: dict[tuple[str, str], list[Question]] = {}
        for question in open_questions:
            together.setdefault((question.base, question.head), []).append(question)
        for (base, head), questions in together.items():
            number = 1 + max(self._pairs, default=-1)
            self._pairs[number] = {Role.BASE: base, Role.HEAD: head}
            self.session.measure_interleaved(plan_visits(questions, number, self.session.seed))

    def _is_repeating(self, question: Question) -> bool:
        """Whether the first pairs gave nothing but counts, and the same on both sides: no more of them tell more.

        What moved gets as many as all others, for a counter that seldom varies would look like a change.
        """
        if len(self._find_complete_pairs(question)) != EXACT_COUNT_PAIRS:
            return False
        sides = self._collect_sides(question).values()
        return bool(sides) and all(have_equal_counts(*both) for both in sides)

    def _judge_questions(self, questions: Sequence[Question]) -> dict[Question, int]:
        """Look at what there is, note the verdicts and return how many more pairs to buy of each question.

        The noise of all is noted first: what one benchmark lends to the others does not hang on who is asked first.
        """
        sides = {question: self._collect_sides(question) for question in questions}
        for question, judged in sides.items():
            for series, both in judged.items():
                bare = self._take_look(question, series, both, None).own_shift
                self._noise.add_spread((question, series), self.policy.class_of(series), series, bare)
        return {question: self._judge_question(question, judged) for question, judged in sides.items()}

    def _judge_question(self, question: Question, judged: Mapping[Series, PairedProcesses]) -> int:
        spent = len(self._find_complete_pairs(question))
        looks = [self._judge_series(question, series, both, spent) for series, both in judged.items()]
        self.verdicts[question] = [verdict for verdict, _ in looks]
        if not looks:
            return 0 if spent else self.policy.default.looks[0]
        return max(
            0,
            min(
                max(more for _, more in looks), MAX_REPLACEMENT_FACTOR * self.policy.default.max_pairs - spent
            ),
        )

    def _judge_series(
        self, question: Question, series: Series, sides: PairedProcesses, pairs_spent: int
    ) -> tuple[Verdict, int]:
        prior = self._noise.get_prior((question, series))
        seen = self._take_look(question, series, sides, prior)
        verdict = replace(seen.verdict, evidence=self._collect_evidence(question, series))
        if seen.shrunk_shift is not None:
            self.shifts[question, series] = seen.shrunk_shift
        if pairs_spent:
            self._record_look(question, series, build_look_record(seen, pairs_spent, prior))
        return verdict, seen.pairs_to_buy or self._count_missing_confirmation_pairs(verdict)

    def _take_look(
        self, question: Question, series: Series, sides: PairedProcesses, prior: NoisePrior | None
    ) -> Look:
        return interim_analysis(
            series,
            question.base,
            question.head,
            *sides,
            rule=self.policy.rule_for(series),
            prior=prior,
            aa_log_ratios=self._noise.get_aa_log_ratios(series),
            stage=self.stage,
        )

    def _record_look(self, question: Question, series: Series, look_taken: LookRecord) -> None:
        looks = self._looks.setdefault((question, series), [])
        looks.append(look_taken)
        reached = build_decision_record(
            METHOD_PAIRS, self.policy.rule_for(series), looks, aa_verdicts_until=self._noise.aa_verdicts_until
        )
        self.session.decisions[series, question.base, question.head] = reached

    def _count_missing_confirmation_pairs(self, verdict: Verdict) -> int:
        """How many pairs a move still needs before it may convict; one that was counted exactly needs none."""
        if (
            self.stage is not Stage.CONFIRMATION
            or verdict.kind not in MOVE_KINDS
            or is_exact_verdict(verdict)
        ):
            return 0
        return max(0, min(CONFIRMATION_PAIRS, self.policy.default.max_pairs) - verdict.pairs)

    def _collect_sides(self, question: Question) -> dict[Series, PairedProcesses]:
        readings, pairs = question.collect_processes(self.session), self._find_complete_pairs(question)
        judged = select_judged_sides(readings, question.base, question.head, pairs)
        return {series: both for series, both in judged.items() if self.policy.is_judged(series)}

    def _find_complete_pairs(self, question: Question) -> list[int]:
        """The pairs of this question that were measured, whatever became of them."""
        return find_complete_pairs(
            question.collect_processes(self.session), question.base, question.head, self._pairs
        )

    def _collect_evidence(self, question: Question, series: Series) -> tuple[int, ...]:
        """The stored processes that were looked at, each once: those of an A/A run are the same commit's twice."""
        pairs, stored = set(self._find_complete_pairs(question)), self.session.processes_by_id
        known = dict.fromkeys(question.collect_evidence(self.session, series))
        return tuple(row_id for row_id in known if stored[row_id].pair in pairs)

    def _is_past_deadline(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline
