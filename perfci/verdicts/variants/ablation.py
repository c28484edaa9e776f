"""A ladder: variants of one commit in steps, each with what it gained by itself, and all of them together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfci.model import MetricClass, Pairs, Series, Verdict
from perfci.verdicts.policy import Policy


@dataclass(frozen=True, slots=True)
class Rung:
    """One step at one benchmark: what became of it against the last good step before it.

    ``levels`` are for the first rung, which has nothing to be compared with. ``fallen`` says why a step does not count;
    the next one then stands on the rung below.
    """

    step: str
    parameters: Pairs
    own: tuple[Verdict, ...] = ()
    against: str = ""
    fallen: str = ""


@dataclass(frozen=True, slots=True)
class Ladder:
    """All steps at one benchmark. ``total`` compares the last good step with the first, in the same rounds."""

    name: str
    benchmark: str
    rest: Pairs
    rungs: tuple[Rung, ...]
    total: tuple[Verdict, ...] = ()

    @property
    def good(self) -> list[Rung]:
        return [rung for rung in self.rungs if not rung.fallen]


@dataclass(frozen=True, slots=True)
class Line:
    """One step of one metric: its level, and its own verdict where it has one."""

    rung: Rung
    level: float | None
    verdict: Verdict | None


SHOWN = (
    MetricClass.TIME,
    MetricClass.THROUGHPUT,
    MetricClass.TAIL,
    MetricClass.SLA,
    MetricClass.COMPILE,
    MetricClass.MEMORY,
)
"""What a ladder is climbed for and what it costs, in this order; counts are in the JSON."""


def metrics_of(ladder: Ladder, policy: Policy) -> list[Series]:
    """The series a ladder is told by, each named as of its last good step: those of time, then those of memory."""
    shown = [verdict.series for verdict in ladder.total if policy.class_of(verdict.series) in SHOWN]
    return sorted(shown, key=lambda series: SHOWN.index(policy.class_of(series)))


def lines_of(ladder: Ladder, metric: str) -> list[Line]:
    """Every step of one metric in order; the first step's level is what the second was compared with."""
    lines = []
    for number, rung in enumerate(ladder.rungs):
        own = _of(rung.own, metric)
        level = own.head_level if own else _first_level(ladder, metric) if number == 0 else None
        lines.append(Line(rung, level, own))
    return lines


def total_of(ladder: Ladder, metric: str) -> Verdict | None:
    return _of(ladder.total, metric)


def _first_level(ladder: Ladder, metric: str) -> float | None:
    total = total_of(ladder, metric)
    return total.base_level if total else None


def _of(verdicts: Sequence[Verdict], metric: str) -> Verdict | None:
    return next((verdict for verdict in verdicts if verdict.series.metric.name == metric), None)
