"""The check run and the commit status of a comparison: which colour, and which words beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from perfci.model import Verdict
from perfci.report.escaping import printable
from perfci.report.pulls.comparison_findings import Findings, headline, is_open, is_worse, told_as
from perfci.report.pulls.placeholder_comment import TITLES, NotMeasured
from perfci.verdicts.goals.goal_verdict import Outcome

Gate = Literal["advisory", "block"]
"""Whether a regression may turn a required check red."""

CheckConclusion = Literal["success", "neutral", "failure", "cancelled", "timed_out"]
StatusState = Literal["success", "failure", "error"]

LONGEST_STATUS = 140
"""GitHub refuses a longer description of a commit status."""


class State(StrEnum):
    """What a pull request is in, as far as a check is concerned."""

    FINE = "fine"  # all within bounds, with enough evidence
    WORSE = "worse"  # a regression, a head that fails, a broken goal
    ACCEPTED = "accepted"  # worse, and somebody who may write says it is meant, or announced it
    OPEN = "open"  # inconclusive, not comparable, dropped, nothing to compare with
    IDENTICAL = "identical"  # the benchmarks cannot tell base from head
    NOT_RUN = "not run"  # cancelled, or no time
    BROKEN = "broken"  # the measuring: the server, the runner, or what is around the benchmarks


@dataclass(frozen=True, slots=True)
class Conclusion:
    """How a check run ends, and the commit status that stands in for it where there is no App."""

    check: CheckConclusion
    status: StatusState


CONCLUSIONS: dict[tuple[State, Gate], Conclusion] = {
    (State.FINE, "advisory"): Conclusion("success", "success"),
    (State.FINE, "block"): Conclusion("success", "success"),
    (State.WORSE, "advisory"): Conclusion("neutral", "success"),
    (State.WORSE, "block"): Conclusion("failure", "failure"),
    (State.ACCEPTED, "advisory"): Conclusion("success", "success"),
    (State.ACCEPTED, "block"): Conclusion("success", "success"),
    (State.OPEN, "advisory"): Conclusion("neutral", "success"),
    (State.OPEN, "block"): Conclusion("neutral", "success"),
    (State.IDENTICAL, "advisory"): Conclusion("success", "success"),
    (State.IDENTICAL, "block"): Conclusion("success", "success"),
    (State.NOT_RUN, "advisory"): Conclusion("neutral", "error"),
    (State.NOT_RUN, "block"): Conclusion("cancelled", "error"),
    (State.BROKEN, "advisory"): Conclusion("neutral", "error"),
    (State.BROKEN, "block"): Conclusion("timed_out", "error"),
}
"""A required check is satisfied by *success* and *neutral* alike, and a status knows no neutral: there the words say
what is not a success. What did not run never passes a gate."""

ENDINGS = {
    NotMeasured.IDENTICAL: State.IDENTICAL,
    NotMeasured.CANCELLED: State.NOT_RUN,
    NotMeasured.BUDGET: State.NOT_RUN,
    NotMeasured.BROKEN: State.BROKEN,
}


def conclusion(found: Findings | NotMeasured, gate: Gate = "advisory") -> Conclusion:
    return CONCLUSIONS[state_of(found), gate]


def state_of(found: Findings | NotMeasured) -> State:
    """Suspicions turn nothing red; only what fresh pairs confirmed, what no longer works and broken goals do."""
    if isinstance(found, NotMeasured):
        return ENDINGS[found]
    outcomes = {goal.outcome for goal in found.goals}
    worse = [one for one in found.verdicts if is_worse(one)]
    unannounced = [one for one in worse if not found.is_announced(one)]
    if unannounced or outcomes & {Outcome.BROKEN, Outcome.REJECTED} or found.rejected:
        return State.ACCEPTED if found.accepted else State.WORSE
    if worse:
        return State.ACCEPTED
    undecided = any(map(is_open, found.verdicts)) or Outcome.UNDECIDED in outcomes
    return State.OPEN if undecided or not _judged(found.verdicts) else State.FINE


def check_title(found: Findings | NotMeasured) -> str:
    """One line of plain text."""
    if isinstance(found, NotMeasured):
        return _capital(TITLES[found])
    how = f" ({'accepted' if found.accepted else 'as announced'})" if state_of(found) is State.ACCEPTED else ""
    return _capital(str(headline(found))) + how


def status_text(found: Findings | NotMeasured, gate: Gate = "advisory") -> str:
    """The description of a commit status: the severest first, whole words up to 140 characters."""
    advisory = " (advisory)" if gate == "advisory" and state_of(found) is State.WORSE else ""
    return printable(check_title(found), LONGEST_STATUS - len(advisory)) + advisory


def _judged(verdicts: Sequence[Verdict]) -> bool:
    return any(told_as(one) not in ("new", "not measured") for one in verdicts)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
