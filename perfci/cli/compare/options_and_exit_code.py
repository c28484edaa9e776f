"""Options and exit code that every kind of comparison shares."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfci.model import Status, VerdictKind
from perfci.verdicts.goals.goal_verdict import GoalOutcome, GoalVerdict

WORSE = frozenset({VerdictKind.REGRESSION, VerdictKind.FAILED})
UNDECIDED = frozenset({VerdictKind.INCONCLUSIVE, VerdictKind.NOT_COMPARABLE})


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """Values of the options that every kind of comparison takes."""

    suite: Path | None
    bench: str
    smoke: bool
    budget_s: float | None
    strict: bool
    no_wait: bool
    markdown: Path | None
    json_file: str | None
    default_only: bool = False
    quantiles: bool = False


def comparison_exit_code(
    statuses: Sequence[Status] | None,
    kinds: Collection[VerdictKind],
    goals: Sequence[GoalVerdict],
    *,
    strict: bool,
    failures: Collection[VerdictKind] = WORSE,
    is_rejected: bool = False,
) -> int:
    """The exit code of a comparison.

    4 nothing measured (``statuses`` of its processes; None where nothing had to be), 1 a verdict of one of
    the kinds in ``failures``, a rejected variant or a broken goal, 3 undecided under ``strict``, else 0.
    """
    if statuses is not None and Status.OK not in statuses:
        return 4
    outcomes = {goal.outcome for goal in goals}
    is_broken = bool(outcomes & {GoalOutcome.BROKEN, GoalOutcome.REJECTED})
    if is_rejected or is_broken or not frozenset(failures).isdisjoint(kinds):
        return 1
    has_undecided = GoalOutcome.UNDECIDED in outcomes or not UNDECIDED.isdisjoint(kinds)
    return 3 if strict and has_undecided else 0
