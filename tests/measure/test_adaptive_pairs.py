"""Pairs are bought where they decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest

from perfci.history.judge_samples import NoisePriors
from perfci.measure.adaptive_pairs import AdaptivePairing
from perfci.measure.measurement_session import MeasurementSession
from perfci.measure.questions import Question
from perfci.model import Clock, Process, Series, Stage, VerdictKind
from perfci.runner.frozen_suite import Cell
from perfci.runner.visit_plan import CommitVisit
from perfci.verdicts.policy import Policy
from tests.support.builders import a_process, a_series, a_sha

BASE, HEAD = a_sha(1), a_sha(2)
CELL = Cell("suite.Step.counts", None, (), 60.0, None, 60.0)
COUNT = a_series(CELL.benchmark, metric="operators", unit="count")

Reads = Callable[[str, int], Process]
"""What a process reads at a commit in a pair."""


@dataclass
class Measured:
    """A session that measures by a rule instead of running anything."""

    reads: Reads
    seed: int = 1
    measured: dict[str, list[tuple[Series, Process]]] = field(default_factory=dict)
    stored: dict[int, Process] = field(default_factory=dict)
    evidence: dict[tuple[str, Series], list[int]] = field(default_factory=dict)
    decisions: dict[Any, Any] = field(default_factory=dict)

    def readings(self, sha: str, cell: Cell) -> Sequence[tuple[Series, Process]]:
        return self.measured.get(sha, [])

    def visit_beside(self, visits: Sequence[CommitVisit]) -> None:
        for visit in visits:
            assert visit.pair is not None
            process = replace(
                self.reads(visit.sha, visit.pair), role=visit.role, pair=visit.pair, order=visit.order
            )
            self.measured.setdefault(visit.sha, []).append((COUNT, process))


@pytest.fixture(autouse=True)
def _no_equals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoisePriors, "load", classmethod(lambda cls, store, project: cls()))


def settled(reads: Reads) -> tuple[VerdictKind, int]:
    """The verdict, and the pairs that were bought for it."""
    session = Measured(reads)
    question = Question(BASE, HEAD, CELL)
    [verdict] = AdaptivePairing(
        cast(MeasurementSession, session), [question], Policy(), Stage.CONFIRMATION
    ).measure_until_decided()[question]
    return verdict.kind, len(session.measured[BASE])


def counted(number: float) -> Process:
    return a_process(number, clock=Clock.EXACT)


def test_counts_that_are_the_same_on_both_sides_need_two_pairs() -> None:
    assert settled(lambda sha, pair: counted(1000)) == (VerdictKind.UNCHANGED, 2)


def test_counts_that_moved_are_counted_as_often_as_all_else() -> None:
    assert settled(lambda sha, pair: counted(1000 if sha == BASE else 1100)) == (VerdictKind.REGRESSION, 5)


def test_counts_that_vary_are_no_counts() -> None:
    _, pairs = settled(lambda sha, pair: counted(1000 + pair % 2))

    assert pairs >= 5


def test_times_that_happen_to_agree_get_all_their_pairs() -> None:
    _, pairs = settled(lambda sha, pair: a_process(1000))

    assert pairs >= 5
