"""Incidents from change points: one commit range, what moved there, and the candidate commits.

First each step is checked for another cause: modes of the machine, a reversal, a change of the
environment. What is left is grouped by commit (FBDetect, SOSP 2024, does so to page once), and
shifts shared with a canary or by most unrelated benchmarks are attributed to the machine.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from perfci.model import CandidateCommit, ChangePoint, Commit, Incident, IncidentKind, Machine, Retest
from perfci.stats.location_estimates import Floats
from perfci.verdicts.history.change_points_and_jumps import Jump
from perfci.verdicts.incidents.machine_shifts import (
    MIN_UNRELATED_SUITES,
    PROVISIONAL_CAUSES,
    blame_bad_sessions,
    classify_session_jumps,
    find_refuted_steps_nearby,
    split_steps_by_cause,
)
from perfci.verdicts.incidents.step_causes import (
    CODE_CAUSE,
    REFUTED_CAUSE,
    ExplainedStep,
    HistoryContext,
    StepCause,
    WeightedRange,
    build_pair_test,
    build_step_without_evidence,
    explain_steps,
    step_sort_key,
)
from perfci.verdicts.related_metrics import group_related, is_felt_by_users

MAX_CANDIDATE_COMMITS = 10
"""Commits that are ranked; the range covers the others."""

BLAMELESS_KINDS = frozenset({IncidentKind.ENVIRONMENT, IncidentKind.MACHINE})
"""Kinds that blame no commit."""

TIE_TOLERANCE = 1 - 1e-9
"""Relative rounding error of two equal sums."""


def build_incidents(changes: Sequence[ChangePoint], context: HistoryContext) -> list[Incident]:
    """Incidents of all change points, each point in exactly one; newest range first, then by
    evidence."""
    steps_by_cause: dict[StepCause, list[ExplainedStep]] = defaultdict(list)
    for step in blame_bad_sessions(explain_steps(changes, context), context):
        steps_by_cause[step.cause].append(step)
    refuted = steps_by_cause.get(REFUTED_CAUSE, [])
    incidents = []
    for cause, steps in steps_by_cause.items():
        for indices in group_overlapping_ranges([step.commit_range for step in steps]):
            group = [steps[k] for k in indices]
            parts = [(cause, group)]
            if cause == CODE_CAUSE:
                parts = split_steps_by_cause(group, context, refuted)
            incidents += [_build_incident(part_cause, part, context, refuted) for part_cause, part in parts]
    return sorted(
        incidents,
        key=lambda item: (-context.positions.get(item.commit, -1), item.smallest_p_value, item.id),
    )


def build_bad_session_incidents(
    jumps: Sequence[Jump], context: HistoryContext
) -> tuple[list[Incident], list[Jump]]:
    """One incident for each bad session, and the jumps of the other sessions."""
    by_session: dict[tuple[str, Machine], list[Jump]] = defaultdict(list)
    for jump in jumps:
        visit = context.first_session_visit(jump.change)
        by_session[visit.session if visit else "", jump.change.series.machine].append(jump)
    incidents: list[Incident] = []
    explained: set[Jump] = set()
    for (session, _), own in by_session.items():
        name = classify_session_jumps(
            [jump.change.log_cost_change > 0 for jump in own], [jump.persists for jump in own]
        )
        if name and session:
            steps = [build_step_without_evidence(jump.change, context) for jump in own]
            cause = StepCause(IncidentKind.MACHINE, name, session=session)
            incidents.append(_build_incident(cause, steps, context))
            explained.update(own)
    return incidents, [jump for jump in jumps if jump not in explained]


def group_overlapping_ranges(weighted_ranges: Sequence[WeightedRange]) -> list[list[int]]:
    """Split ranges into groups that have a commit in common, the one with most evidence first.

    Greedy: the commit with the highest score takes all ranges that may contain it, then the next.
    Chains of overlapping ranges are not one group, or a series measured monthly would join a
    month's incidents. Indices of a group are ascending and do not depend on the order of the input.
    """
    remaining = sorted(range(len(weighted_ranges)), key=weighted_ranges.__getitem__)
    groups = []
    while remaining:
        score = compute_commit_scores([weighted_ranges[k] for k in remaining])
        start = min(lo for k in remaining for lo, _, _ in weighted_ranges[k].range_weights)
        position = start + 1 + int(np.flatnonzero(score >= score.max() * TIE_TOLERANCE)[0])
        group = {k for k in remaining if weighted_ranges[k].may_contain(position)}
        groups.append(sorted(group))
        remaining = [k for k in remaining if k not in group]
    return groups


def compute_commit_scores(weighted_ranges: Sequence[WeightedRange]) -> Floats:
    """Evidence for each commit, shape (commits,), from the one after the earliest start of a range."""
    ranges = [likelihood for weighted_range in weighted_ranges for likelihood in weighted_range.range_weights]
    start, end = min(lo for lo, _, _ in ranges), max(hi for _, hi, _ in ranges)
    steps = np.zeros(end - start + 1)
    np.add.at(steps, [lo - start for lo, _, _ in ranges], [share for _, _, share in ranges])
    np.add.at(steps, [hi - start for _, hi, _ in ranges], [-share for _, _, share in ranges])
    return np.asarray(np.cumsum(steps)[:-1])


def request_cause_retests(incidents: Sequence[Incident]) -> list[Retest]:
    """Fresh pairs that tell the code from a suspected machine: the largest step of each suite."""
    retests = []
    for incident in incidents:
        if not is_provisional(incident):
            continue
        by_suite: dict[str, ChangePoint] = {}
        for change in incident.members:
            by_suite.setdefault(change.series.benchmark.name.partition(".")[0], change)
        count = len({change.series for change in incident.members})
        reason = f"{count} series of unrelated suites moved at once: pairs tell the code from the machine"
        retests += [
            Retest(change.series, change.last_good, change.commit, reason)
            for change in list(by_suite.values())[:MIN_UNRELATED_SUITES]
        ]
    return retests


def is_provisional(incident: Incident) -> bool:
    """Whether the machine is only suspected, and fresh pairs are still missing."""
    return incident.cause in PROVISIONAL_CAUSES and incident.pair_to_measure is not None


def _build_incident(
    cause: StepCause,
    steps: Sequence[ExplainedStep],
    context: HistoryContext,
    refuted: Sequence[ExplainedStep] = (),
) -> Incident:
    starts, ends = [step.commit_range.first for step in steps], [step.commit_range.last for step in steps]
    # what all ranges have in common, or their union where that is nothing
    first, last = (max(starts), min(ends)) if max(starts) < min(ends) else (min(starts), max(ends))
    largest = _order_primary_first(steps)
    reversals = [step.reversal for step in largest if step.reversal is not None]
    worse = [step for step in steps if step.change.log_cost_change > 0]
    kind = cause.kind or (IncidentKind.MIXED if worse else IncidentKind.IMPROVEMENT)
    if cause.kind is None and len(worse) == len(steps):
        kind = IncidentKind.REGRESSION
    verdicts = [step.verdict for step in steps if step.verdict]
    bases = [*(step.change.last_good for step in steps), *(verdict.base for verdict in verdicts)]
    heads = [*(step.change.commit for step in steps), *(verdict.head for verdict in verdicts)]
    # the commits at the ends of the range; an end off the line goes by the name its members give it
    end_shas = []
    for position, member_shas in ((first, bases), (last, heads)):
        on_line = context.commits[position].sha if 0 <= position < len(context.commits) else ""
        end_shas.append(on_line if on_line and on_line in member_shas else member_shas[0])
    good, bad = end_shas
    # of a step that was undone, comparing two commits would say nothing new
    is_unanswered = cause.kind is not IncidentKind.RESOLVED and not verdicts
    if cause.name in PROVISIONAL_CAUSES:
        is_unanswered = not find_refuted_steps_nearby(steps, refuted)
    names_commits = kind not in BLAMELESS_KINDS or (cause.name in PROVISIONAL_CAUSES and is_unanswered)
    decisive = worse or steps
    confirming = [build_pair_test(step.verdict) for step in worse if step.is_confirmed and step.verdict]
    visits = [visit for step in steps if (visit := context.first_session_visit(step.change))]
    return Incident(
        id=compute_incident_id(context.project, good, bad, kind, cause),
        kind=kind,
        last_good=good,
        commit=bad,
        members=(*(step.reported_change for step in largest), *reversals),
        candidates=_rank_candidates(steps, first, last, context.commits) if names_commits else (),
        cause=cause.name,
        environment_changes=cause.environment_changes,
        ambiguous=any(step.ambiguous for step in steps),
        reverted_by=cause.reverted_by,
        sessions=tuple(sorted({visit.session for visit in visits})),
        p_value=min((p for step in decisive if (p := step.change.p_value) is not None), default=1.0),
        pair_tests=tuple(test for step in steps for test in step.pair_tests),
        confirming_tests=tuple(test for test in confirming if test is not None),
        settled=any(step.is_settled for step in decisive),
        confirmed_count=sum(step.is_confirmed for step in steps),
        ongoing=any(step.ongoing for step in worse) and cause.kind is None,
        pair_to_measure=(good, bad) if is_unanswered else None,
        measured_at=min((visit.started_at for visit in visits), default=None),
    )


def _order_primary_first(steps: Sequence[ExplainedStep]) -> list[ExplainedStep]:
    """The steps of primary metrics, then those that explain one, each by size."""
    largest = sorted(
        steps, key=lambda step: (-abs(step.reported_change.log_cost_change), *step_sort_key(step))
    )
    groups = group_related(
        largest, lambda step: step.change.series, lambda step: abs(step.reported_change.log_cost_change)
    )
    explaining = {id(step) for _, secondary in groups for step in secondary}
    return sorted(
        largest, key=lambda step: id(step) in explaining or not is_felt_by_users(step.change.series)
    )


def _rank_candidates(
    steps: Sequence[ExplainedStep], first: int, last: int, commits: Sequence[Commit]
) -> tuple[CandidateCommit, ...]:
    """Commits of the range by evidence; equal ones oldest first."""
    ranges = [step.commit_range for step in steps]
    start = min(lo for commit_range in ranges for lo, _, _ in commit_range.range_weights)
    scores = compute_commit_scores(ranges)
    ranked = sorted(range(first + 1, last + 1), key=lambda at: (-round(float(scores[at - start - 1]), 9), at))
    return tuple(
        CandidateCommit(
            commits[at],
            sum(commit_range.may_contain(at) for commit_range in ranges),
            float(scores[at - start - 1]),
        )
        for at in ranked[:MAX_CANDIDATE_COMMITS]
        if 0 <= at < len(commits)
    )


def compute_incident_id(
    project: str, last_good: str, commit: str, kind: IncidentKind, cause: StepCause
) -> str:
    """A short id that stays the same as long as range, kind and cause do."""
    # Part of stored links and notifications: another field or order gives every incident a new id;
    # so the class name in the text of the changes stays the one it was first written with.
    changes = repr(cause.environment_changes).replace("EnvironmentChange(", "ObservedChange(")
    parts = (
        project,
        last_good,
        commit,
        kind.value,
        cause.name,
        changes,
        cause.reverted_by,
        cause.session,
    )
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
