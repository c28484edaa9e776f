"""Adaptive pairing measures pairs where they decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from perfci.history.comparisons.pooled_comparison_noise import PooledComparisonNoise
from perfci.measure.adaptive_pairs import AdaptivePairing
from perfci.measure.comparison_questions import ComparisonQuestion, plan_question_pair_visits
from perfci.measure.measure_and_store_session import MeasurementSession, SessionReadings
from perfci.model import Clock, Process, Stage, VerdictKind
from perfci.runner.suite_cells import Cell
from perfci.runner.visit_plan import CommitVisit
from perfci.verdicts.judging_policy import Policy
from tests.support.builders import a_process, a_series, a_sha

BASE, HEAD = a_sha(1), a_sha(2)
CELL = Cell("suite.Step.counts", None, (), 60.0, None, 60.0)
COUNT = a_series(CELL.benchmark, metric="operators", unit="count")

Read = Callable[[str, int], Process]
"""The process of a commit in a pair, by the sha and the number of the pair."""


@dataclass
class FakeSession:
    """A session that measures by a rule instead of running anything."""

    read: Read
    store: None = None
    project: str = "project"
    seed: int = 1
    readings: SessionReadings = field(default_factory=SessionReadings)

    def measure_interleaved_visits(self, visits: Sequence[CommitVisit]) -> None:
        for visit in visits:
            assert visit.pair is not None
            process = replace(
                self.read(visit.sha, visit.pair), role=visit.role, pair=visit.pair, order=visit.order
            )
            self.readings.add_process(visit.sha, len(self.readings), COUNT, process)


@pytest.fixture(autouse=True)
def _without_aa_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PooledComparisonNoise, "load", classmethod(lambda cls, store, project: cls()))


def decide(read: Read) -> tuple[VerdictKind, int]:
    """The verdict, and the number of pairs that were measured for it."""
    session = FakeSession(read)
    question = ComparisonQuestion(BASE, HEAD, CELL)
    pairing = AdaptivePairing(cast(MeasurementSession, session), [question], Policy(), Stage.CONFIRMATION)
    [verdict] = pairing.measure_until_decided().list_verdicts()
    return verdict.kind, len(session.readings.get_commit_processes(BASE))


def counted(number: float) -> Process:
    return a_process(number, clock=Clock.EXACT)


def test_equal_counts_need_two_pairs() -> None:
    assert decide(lambda sha, pair: counted(1000)) == (VerdictKind.UNCHANGED, 2)


def test_changed_counts_get_as_many_pairs_as_times() -> None:
    assert decide(lambda sha, pair: counted(1000 if sha == BASE else 1100)) == (VerdictKind.REGRESSION, 5)


def test_counts_that_vary_get_all_their_pairs() -> None:
    _, pairs = decide(lambda sha, pair: counted(1000 + pair % 2))

    assert pairs >= 5


def test_times_that_agree_by_chance_get_all_their_pairs() -> None:
    _, pairs = decide(lambda sha, pair: a_process(1000))

    assert pairs >= 5


def test_what_a_deadline_interrupted_is_judged_at_the_next_planned_look() -> None:
    session = FakeSession(lambda sha, pair: counted(1000 if sha == BASE else 1100))
    question = ComparisonQuestion(BASE, HEAD, CELL)
    pairing = [cast(MeasurementSession, session), [question], Policy(), Stage.CONFIRMATION]

    interrupted = AdaptivePairing(*pairing, deadline=0.0).measure_until_decided()  # type: ignore[arg-type]
    for pair in (0, 1):
        session.measure_interleaved_visits(plan_question_pair_visits([question], pair, 1))
    result = AdaptivePairing(*pairing).measure_until_decided()  # type: ignore[arg-type]

    (verdict,) = result.list_verdicts()
    (decision,) = result.decisions.values()
    assert (interrupted.open_questions, result.open_questions) == ([question], [])
    assert (verdict.kind, verdict.pairs) == (VerdictKind.REGRESSION, 5)
    assert [look.pairs for look in decision.looks] == [5]
