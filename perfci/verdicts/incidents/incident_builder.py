"""Change points of many series become incidents: one commit range, what moved there, and who or what is suspected.

First each step is asked whether the code can be blamed at all: not for a state of the machine, a level that went away
by itself, or a step that came with another environment. What is left is grouped by commit (FBDetect, SOSP 2024, does
so to page once), and what a canary shares, or most unrelated benchmarks, is the machine's after all.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

from perfci.model import CandidateCommit, ChangePoint, Commit, Incident, IncidentKind, Machine
from perfci.verdicts.history.recent_jumps import Jump
from perfci.verdicts.incidents.bad_sessions import SessionAlert, find_bad_sessions
from perfci.verdicts.incidents.range_grouping import compute_commit_scores, find_common_range, group_ranges
from perfci.verdicts.incidents.shared_shifts import blame_bad_sessions, split_shared_steps
from perfci.verdicts.incidents.step_causes import (
    CODE_CAUSE,
    ExplainedStep,
    HistoryContext,
    StepCause,
    explain_steps,
    step_order,
    unexplained_step,
)

MAX_CANDIDATE_COMMITS = 10
"""Commits that are ranked; the range says which others there are."""

BLAMELESS_KINDS = frozenset({IncidentKind.ENVIRONMENT, IncidentKind.MACHINE})
"""Kinds that blame no commit."""


ANSWERED_CAUSES = frozenset({"states", "reverted"})
"""Causes that a comparison of two commits would tell nothing new about."""


def build_incidents(changes: Sequence[ChangePoint], context: HistoryContext) -> list[Incident]:
    """Every change point in exactly one incident; newest range first, then by evidence."""
    place = {commit.sha: at for at, commit in enumerate(context.commits)}
    moves = blame_bad_sessions(explain_steps(changes, context), context)
    found = [
        _build_incident(cause, part, context)
        for suspected, alike in _group_by_cause(moves).items()
        for group in _group_by_range(alike)
        for cause, part in (
            split_shared_steps(group, context) if suspected == CODE_CAUSE else [(suspected, group)]
        )
    ]
    return sorted(found, key=lambda one: (-place.get(one.commit, -1), one.p_value, one.id))


def build_bad_session_incidents(
    jumps: Sequence[Jump], context: HistoryContext
) -> tuple[list[Incident], list[Jump]]:
    """One incident for each session that had something the matter with its machine, and the jumps of the others."""
    changes = [jump.change for jump in jumps]
    sessions = [visit.session if (visit := context.first_visit(change)) else "" for change in changes]
    alerts = [
        SessionAlert(jump.series, session, jump.log_cost > 0, jump.persists)
        for jump, session in zip(jumps, sessions, strict=True)
    ]
    days = {(day.session, day.machine): day for day in find_bad_sessions(alerts) if day.session}
    found, single = [], []
    mine: dict[tuple[str, Machine], list[ExplainedStep]] = defaultdict(list)
    for jump, change, session in zip(jumps, changes, sessions, strict=True):
        if (session, jump.series.machine) in days:
            mine[session, jump.series.machine].append(unexplained_step(change, context))
        else:
            single.append(jump)
    for (session, machine), moves in mine.items():
        day = days[session, machine]
        word = "rotating" if day.is_transient else "bad day"
        found.append(_build_incident(StepCause(IncidentKind.MACHINE, word, session=session), moves, context))
    return found, single


def _group_by_cause(steps: Sequence[ExplainedStep]) -> dict[StepCause, list[ExplainedStep]]:
    found: dict[StepCause, list[ExplainedStep]] = defaultdict(list)
    for move in steps:
        found[move.cause].append(move)
    return found


def _group_by_range(steps: Sequence[ExplainedStep]) -> list[list[ExplainedStep]]:
    return [
        [steps[k] for k in positions] for positions in group_ranges([move.commit_range for move in steps])
    ]


def _build_incident(cause: StepCause, steps: Sequence[ExplainedStep], context: HistoryContext) -> Incident:
    first, last = find_common_range([move.commit_range for move in steps])
    largest = sorted(steps, key=lambda move: (-abs(move.log_cost), *step_order(move)))
    back = [move.reversal for move in largest if move.reversal is not None]
    worse = [move for move in steps if move.log_cost > 0]
    kind = cause.kind or _incident_kind(len(worse), len(steps))
    verdicts = [move.verdict for move in steps if move.verdict]
    good = _sha_at(
        context.commits, first, [*(m.change.last_good for m in steps), *(one.base for one in verdicts)]
    )
    bad = _sha_at(context.commits, last, [*(m.change.commit for m in steps), *(one.head for one in verdicts)])
    asking = worse or steps
    visits = [visit for move in steps if (visit := context.first_visit(move.change))]
    ambiguous = any(move.ambiguous for move in steps)
    return Incident(
        id=compute_incident_id(context.project, good, bad, kind, cause),
        kind=kind,
        last_good=good,
        commit=bad,
        members=(*(move.reported_change for move in largest), *back),
        candidates=() if kind in BLAMELESS_KINDS else _rank_candidates(steps, first, last, context.commits),
        cause=cause.name,
        environment_changes=cause.environment_changes,
        ambiguous=ambiguous,
        reverted_by=cause.reverted_by,
        sessions=tuple(sorted({visit.session for visit in visits})),
        p_value=min(move.p_value for move in asking),
        settled=any(move.is_settled for move in asking),
        confirmed_count=sum(move.is_confirmed for move in steps),
        ongoing=any(move.ongoing for move in worse) and cause.kind is None,
        pair_to_measure=(good, bad)
        if cause.name not in ANSWERED_CAUSES and not any(move.verdict for move in steps)
        else None,
        measured_at=min((visit.started_at for visit in visits), default=None),
    )


def _incident_kind(worse_count: int, step_count: int) -> IncidentKind:
    if worse_count == step_count:
        return IncidentKind.REGRESSION
    return IncidentKind.MIXED if worse_count else IncidentKind.IMPROVEMENT


def _rank_candidates(
    steps: Sequence[ExplainedStep], first: int, last: int, commits: Sequence[Commit]
) -> tuple[CandidateCommit, ...]:
    """Commits of the range, those that most evidence points at first; among equals the older."""
    stretches = [move.commit_range for move in steps]
    start = min(lo for one in stretches for lo, _, _ in one.likelihoods)
    weight = compute_commit_scores(stretches)
    ranked = sorted(range(first + 1, last + 1), key=lambda at: (-round(float(weight[at - start - 1]), 9), at))
    return tuple(
        CandidateCommit(
            commits[at], sum(one.may_contain(at) for one in stretches), float(weight[at - start - 1])
        )
        for at in ranked[:MAX_CANDIDATE_COMMITS]
        if 0 <= at < len(commits)
    )


def compute_incident_id(
    project: str, last_good: str, commit: str, kind: IncidentKind, cause: StepCause
) -> str:
    """A short name that stays the same as long as range and kind do."""
    parts = (
        project,
        last_good,
        commit,
        kind.value,
        cause.name,
        repr(cause.environment_changes),
        cause.reverted_by,
        cause.session,
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def _sha_at(commits: Sequence[Commit], position: int, member_shas: Sequence[str]) -> str:
    """The commit at a place of the line; one that is not on it goes by the name its members give it."""
    return (
        commits[position].sha
        if 0 <= position < len(commits) and commits[position].sha in member_shas
        else member_shas[0]
    )
