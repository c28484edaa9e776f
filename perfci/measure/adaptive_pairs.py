"""Buy interleaved pairs where they decide: every open question gets pairs until the judge has enough of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfci.history.judge_samples import PAIRS, Noise, Sides, decision, judged_sides, look_record, pairs_of
from perfci.measure.measurement_session import Session
from perfci.measure.questions import Question, visits
from perfci.model import Role, Series, Stage, Verdict
from perfci.stats.group_sequential import next_look
from perfci.stats.location_shift import Prior, Shift
from perfci.store.queries.decisions import LookRecord
from perfci.verdicts.compare.false_discovery import control, is_exact
from perfci.verdicts.compare.pairwise import Look, look
from perfci.verdicts.compare.special_cases import counted_alike
from perfci.verdicts.policy import Policy
from perfci.verdicts.rule import MOVES

CONVICTION_PAIRS = 10
"""No statistical conviction on fewer fresh pairs: five can agree by chance where a benchmark has two states."""

COUNTED_PAIRS = 2
"""Of what is only counted: the second tells whether it repeats."""

PATIENCE = 2
"""Pairs that fail or are flagged are bought again, up to this many times the pairs that would do."""

OnLook = Callable[[int, int], None]
"""Called after a look with the number of questions still open and of the pairs they want."""


@dataclass
class Pairing:
    """Pairs measured in one session for a set of questions, and what is decided so far.

    ``rate`` is the false discovery rate that all its moves will be held to together: what it would hold back for want
    of evidence gets more pairs as long as there are any. Their p-values are those of all looks, so asking again for a
    smaller one is the same plan at a smaller error.
    """

    session: Session
    questions: Sequence[Question]
    policy: Policy
    stage: Stage
    deadline: float | None = None
    on_look: OnLook = lambda questions, pairs: None
    rate: float | None = None
    verdicts: dict[Question, list[Verdict]] = field(default_factory=dict)
    shifts: dict[tuple[Question, Series], Shift] = field(default_factory=dict)  # as judged last
    _pairs: dict[int, dict[Role, str]] = field(default_factory=dict)
    _noise: Noise = field(default_factory=Noise)
    _looks: dict[tuple[Question, Series], list[LookRecord]] = field(default_factory=dict)

    def settle(self) -> dict[Question, list[Verdict]]:
        """Measure until every question is decided, its pairs are spent or the time is over."""
        self._recall()
        needed = self._judge(self.questions)
        looked = True
        while (asked := self._open(needed)) and not self._late():
            if looked:
                self.on_look(len(asked), sum(needed[q] for q in asked))
            self._measure_pair(asked)
            needed |= {question: needed[question] - 1 for question in asked}
            due = [question for question in asked if needed[question] <= 0 or self._repeats(question)]
            needed |= self._judge(due)
            looked = bool(due)
        self._judge(asked)
        return self.verdicts

    def _open(self, needed: dict[Question, int]) -> list[Question]:
        """The questions that want more pairs; where each has enough, those that all together leave in doubt."""
        if not any(more > 0 for more in needed.values()):
            needed |= self._held_back()
        return [question for question, more in needed.items() if more > 0]

    def _held_back(self) -> dict[Question, int]:
        """How many more pairs to buy of what would be held back among so many."""
        if self.rate is None:
            return {}
        told = [(question, verdict) for question, verdicts in self.verdicts.items() for verdict in verdicts]
        held = control([verdict for _, verdict in told], self.rate)
        doubtful = [question for (question, before), now in zip(told, held, strict=True) if now.kind is not before.kind]
        looks, spent = self.policy.default.planned_looks, {one: len(self._pairs_of(one)) for one in doubtful}
        return {question: next_look(looks, pairs) - pairs for question, pairs in spent.items()}

    def _recall(self) -> None:
        """Know what equals came to, and again which commits each pair of an interrupted session compared."""
        self._noise = Noise.known(self.session.store, self.session.project)
        for sha, rows in self.session.measured.items():
            for _, process in rows:
                if process.pair is not None:
                    self._pairs.setdefault(process.pair, {})[process.role] = sha

    def _measure_pair(self, asked: Iterable[Question]) -> None:
        """One more pair of each question; questions about the same commits share their visits."""
        together: dict[tuple[str, str], list[Question]] = {}
        for question in asked:
            together.setdefault((question.base, question.head), []).append(question)
        for (base, head), questions in together.items():
            number = 1 + max(self._pairs, default=-1)
            self._pairs[number] = {Role.BASE: base, Role.HEAD: head}
            self.session.visit_beside(visits(questions, number, self.session.seed))

    def _repeats(self, question: Question) -> bool:
        """Whether the first pairs gave nothing but counts, and the same on both sides: no more of them tell more.

        What moved gets as many as all others, for a counter that seldom varies would look like a change.
        """
        if len(self._pairs_of(question)) != COUNTED_PAIRS:
            return False
        sides = self._sides(question).values()
        return bool(sides) and all(counted_alike(*both) for both in sides)

    def _judge(self, questions: Sequence[Question]) -> dict[Question, int]:
        """Look at what there is, note the verdicts and return how many more pairs to buy of each question.

        The noise of all is noted first: what one benchmark lends to the others does not hang on who is asked first.
        """
        sides = {question: self._sides(question) for question in questions}
        for question, judged in sides.items():
            for series, both in judged.items():
                bare = self._look(question, series, both, None).bare
                self._noise.note((question, series), self.policy.class_of(series), series, bare)
        return {question: self._answer(question, judged) for question, judged in sides.items()}

    def _answer(self, question: Question, judged: Mapping[Series, Sides]) -> int:
        spent = len(self._pairs_of(question))
        looks = [self._decide(question, series, both, spent) for series, both in judged.items()]
        self.verdicts[question] = [verdict for verdict, _ in looks]
        if not looks:
            return 0 if spent else self.policy.default.looks[0]
        return max(0, min(max(more for _, more in looks), PATIENCE * self.policy.default.max_pairs - spent))

    def _decide(self, question: Question, series: Series, both: Sides, spent: int) -> tuple[Verdict, int]:
        prior = self._noise.prior((question, series))
        seen = self._look(question, series, both, prior)
        verdict = replace(seen.verdict, evidence=self._evidence(question, series))
        if seen.shift is not None:
            self.shifts[question, series] = seen.shift
        if spent:
            self._remember(question, series, look_record(seen, spent, prior))
        return verdict, seen.more or self._short_of_a_conviction(verdict)

    def _look(self, question: Question, series: Series, both: Sides, prior: Prior | None) -> Look:
        return look(
            series, question.base, question.head, *both, rule=self.policy.rule_for(series), prior=prior,
            aa=self._noise.of_equals(series), stage=self.stage,
        )  # fmt: skip

    def _remember(self, question: Question, series: Series, taken: LookRecord) -> None:
        looks = self._looks.setdefault((question, series), [])
        looks.append(taken)
        reached = decision(PAIRS, self.policy.rule_for(series), looks, known_until=self._noise.known_until)
        self.session.decisions[series, question.base, question.head] = reached

    def _short_of_a_conviction(self, verdict: Verdict) -> int:
        """How many pairs a move still needs before it may convict; one that was counted exactly needs none."""
        if self.stage is not Stage.CONVICTION or verdict.kind not in MOVES or is_exact(verdict):
            return 0
        return max(0, min(CONVICTION_PAIRS, self.policy.default.max_pairs) - verdict.pairs)

    def _sides(self, question: Question) -> dict[Series, Sides]:
        readings, pairs = question.readings(self.session), self._pairs_of(question)
        judged = judged_sides(readings, question.base, question.head, pairs)
        return {series: both for series, both in judged.items() if self.policy.judges(series)}

    def _pairs_of(self, question: Question) -> list[int]:
        """The pairs of this question that were measured, whatever became of them."""
        return pairs_of(question.readings(self.session), question.base, question.head, self._pairs)

    def _evidence(self, question: Question, series: Series) -> tuple[int, ...]:
        """The stored processes that were looked at, each once: those of an A/A run are the same commit's twice."""
        pairs, stored = set(self._pairs_of(question)), self.session.stored
        known = dict.fromkeys(question.evidence(self.session, series))
        return tuple(row_id for row_id in known if stored[row_id].pair in pairs)

    def _late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline
