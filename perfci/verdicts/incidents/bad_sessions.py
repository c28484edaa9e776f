"""Bad sessions: many jumps of one session that no change of code would produce.

A change of code mostly slows things down: of the changes MongoDB confirmed in a year 63 were
regressions and 17 improvements (ICPE 2020), so about one in five points the other way. And its
effect is still there in the next run. A session whose jumps point both ways, or are gone in the
next run, had a disturbed machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.special import bdtrc

from perfci.model import Machine, Series

MINORITY_DIRECTION_SHARE = 17 / 80
"""Share of jumps in the rarer direction that changes of code produce (MongoDB, ICPE 2020)."""

MISSED_STEP_SHARE = 0.05
"""Share of true jumps that the next run misses; small because of the size bar
(docs/design/statistics.md)."""

TEST_LEVEL = 0.05
"""Code is ruled out where it would produce such jumps in fewer than one of twenty sessions, the
usual level."""

MIN_JUMPS = 4
"""Fewer jumps are examined one by one: fresh pairs for three cost less than an explanation."""


@dataclass(frozen=True, slots=True)
class SessionJump:
    """A series that stood out in a session; ``persists`` tells whether the next run saw it, None
    without one."""

    series: Series
    session: str
    worse: bool
    persists: bool | None = None


@dataclass(frozen=True, slots=True)
class BadSession:
    """A session on a machine whose jumps no code explains: ``is_balanced`` in sign,
    ``is_transient``, or both."""

    session: str
    machine: Machine
    jump_count: int
    worse_count: int
    vanished_count: int
    is_balanced: bool
    is_transient: bool


def find_bad_sessions(jumps: Sequence[SessionJump]) -> list[BadSession]:
    """Sessions with a disturbed machine, by name."""
    jumps_by_session: dict[tuple[str, Machine], list[SessionJump]] = defaultdict(list)
    for jump in jumps:
        jumps_by_session[jump.session, jump.series.machine].append(jump)
    sessions = [
        _assess_session(name, machine, own_jumps) for (name, machine), own_jumps in jumps_by_session.items()
    ]
    bad_sessions = [
        session
        for session in sessions
        if session.jump_count >= MIN_JUMPS and (session.is_balanced or session.is_transient)
    ]
    return sorted(bad_sessions, key=lambda session: (session.session, session.machine.label))


def _assess_session(session: str, machine: Machine, jumps: Sequence[SessionJump]) -> BadSession:
    worse = sum(jump.worse for jump in jumps)
    remeasured = [jump for jump in jumps if jump.persists is not None]
    vanished = sum(jump.persists is False for jump in remeasured)
    minority = min(worse, len(jumps) - worse)
    return BadSession(
        session,
        machine,
        len(jumps),
        worse,
        vanished,
        is_balanced=_binomial_upper_tail(minority, len(jumps), MINORITY_DIRECTION_SHARE) <= TEST_LEVEL,
        is_transient=2 * vanished > len(remeasured)
        and _binomial_upper_tail(vanished, len(remeasured), MISSED_STEP_SHARE) <= TEST_LEVEL,
    )


def _binomial_upper_tail(count: int, trials: int, probability: float) -> float:
    """P(X >= count) of a binomial distribution."""
    return float(bdtrc(count - 1, trials, probability))
