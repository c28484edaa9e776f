"""Buy interleaved pairs where they decide: every open question gets pairs until the judge has enough of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfci.model import Process, Role, Series, Stage, Verdict
from perfci.service.measuring import Session
from perfci.service.questions import Question, visits
from perfci.verdicts.compare import MOVES, decide
from perfci.verdicts.gating import ByCommit, gated_by_commit
from perfci.verdicts.policy import Policy

CONVICTION_PAIRS = 10
"""No statistical conviction on fewer fresh pairs: five can agree by chance where a benchmark has two states."""

PATIENCE = 2
"""Pairs that fail or are flagged are bought again, up to this many times the pairs that would do."""

OnLook = Callable[[int, int], None]
"""Called after a look with the number of questions still open and of the pairs they want."""


@dataclass
class Pairing:
    """Pairs measured in one session for a set of questions, and what is decided so far."""

    session: Session
    questions: Sequence[Question]
    policy: Policy
    stage: Stage
    deadline: float | None = None
    on_look: OnLook = lambda questions, pairs: None
    noise: Mapping[Series, Sequence[float]] = field(default_factory=dict)  # what A/A comparisons came to
    verdicts: dict[Question, list[Verdict]] = field(default_factory=dict)
    _pairs: dict[int, dict[Role, str]] = field(default_factory=dict)

    def settle(self) -> dict[Question, list[Verdict]]:
        """Measure until every question is decided, its pairs are spent or the time is over."""
        self._recall()
        needed = {question: self._judge(question) for question in self.questions}
        looked = True
        while (asked := [q for q, more in needed.items() if more > 0]) and not self._late():
            if looked:
                self.on_look(len(asked), sum(needed[q] for q in asked))
            looked = False
            self._measure_pair(asked)
            for question in asked:
                needed[question] -= 1
                if needed[question] <= 0:
                    needed[question] = self._judge(question)
                    looked = True
        for question in asked:
            self._judge(question)
        return self.verdicts

    def _recall(self) -> None:
        """Know again which commits each pair of an interrupted session compared."""
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
            for visit in visits(questions, number, self.session.seed):
                self.session.visit(visit)

    def _judge(self, question: Question) -> int:
        """Look at what there is, note the verdicts and return how many more pairs to buy."""
        judged = self._judged(question)
        looks = [self._look(question, series, by_commit) for series, by_commit in judged.items()]
        self.verdicts[question] = [verdict for verdict, _ in looks]
        if not looks:
            return 0 if self._spent(question) else self.policy.default.looks[0]
        return max(
            0, min(max(more for _, more in looks), PATIENCE * self.policy.default.max_pairs - self._spent(question))
        )

    def _look(self, question: Question, series: Series, by_commit: ByCommit) -> tuple[Verdict, int]:
        base, head = (self._side(question, role, by_commit) for role in (Role.BASE, Role.HEAD))
        verdict, more = decide(
            series, question.base, question.head, base, head,
            rule=self.policy.rule_for(series), aa=self.noise.get(series, ()), stage=self.stage,
        )  # fmt: skip
        verdict = replace(verdict, evidence=question.evidence(self.session, series))
        return verdict, more or self._short_of_a_conviction(verdict)

    def _short_of_a_conviction(self, verdict: Verdict) -> int:
        """How many pairs a move still needs before it may convict; one that was counted exactly needs none."""
        exact = verdict.noise_floor == 0
        if self.stage is not Stage.CONVICTION or verdict.kind not in MOVES or exact:
            return 0
        return max(0, min(CONVICTION_PAIRS, self.policy.default.max_pairs) - verdict.pairs)

    def _judged(self, question: Question) -> dict[Series, ByCommit]:
        judged = gated_by_commit(question.readings(self.session))
        return {series: by_commit for series, by_commit in judged.items() if self.policy.judges(series)}

    def _side(self, question: Question, role: Role, by_commit: ByCommit) -> list[Process]:
        sha = question.base if role is Role.BASE else question.head
        return [p for p in by_commit.get(sha, ()) if p.role is role and self._is_of(question, p)]

    def _is_of(self, question: Question, process: Process) -> bool:
        sides = {Role.BASE: question.base, Role.HEAD: question.head}
        return process.pair is not None and self._pairs[process.pair] == sides

    def _spent(self, question: Question) -> int:
        """How many pairs of this question were measured, whatever became of them."""
        readings = self.session.readings(question.base, question.cell)
        return len({process.pair for _, process in readings if self._is_of(question, process)})

    def _late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline
