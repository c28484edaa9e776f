"""Judge the stored comparisons and histories of a project again by another policy; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy.orm import Session as Transaction

from perfci.history.comparisons.judge_pull_request_uploads import replay_separate_runs
from perfci.history.decision_records import METHOD_PAIRS, METHOD_SEPARATE_RUNS
from perfci.history.series_histories import SeriesHistories
from perfci.history.session_replay import SessionSamples
from perfci.model import ChangePoint, Series, Verdict, VerdictKind
from perfci.store import Store
from perfci.store.queries.measured_samples import load_session_processes
from perfci.store.queries.query_records import SessionRecord, VerdictRecord
from perfci.store.queries.runs_and_sessions import load_sessions
from perfci.store.queries.series_commits_machines import load_project_series
from perfci.store.verdict_decision_records import (
    AAResult,
    DecisionRecord,
    load_aa_results_by_series,
    load_verdict_decision_records,
)
from perfci.store.verdicts_and_change_points import load_change_points, load_verdict_records
from perfci.verdicts.compare.confirmation_candidates import compute_pair_noise_by_series
from perfci.verdicts.compare.false_discovery import FALSE_DISCOVERY_RATE, control_false_discoveries
from perfci.verdicts.comparison_rule import MOVE_KINDS
from perfci.verdicts.judging_policy import Policy

NUMERIC_KINDS = (*MOVE_KINDS, VerdictKind.UNCHANGED, VerdictKind.INCONCLUSIVE)
"""The kinds of verdict that depend on the policy; a crash or a missing side does not."""


@dataclass(frozen=True, slots=True)
class RejudgedVerdict:
    """A stored current verdict and the new one; None where the series is no longer judged."""

    stored: Verdict
    rejudged: Verdict | None

    @property
    def is_different(self) -> bool:
        """Whether the kind of the verdict changes."""
        return self.rejudged is None or self.rejudged.kind is not self.stored.kind


@dataclass(frozen=True, slots=True)
class RejudgedHistory:
    """The stored change points of one series, and those of the current policy."""

    series: Series
    stored: Sequence[ChangePoint]
    rejudged: Sequence[ChangePoint]

    @property
    def removed_change_points(self) -> list[ChangePoint]:
        """The change points that the policy no longer gives."""
        return _subtract_commits(self.stored, self.rejudged)

    @property
    def added_change_points(self) -> list[ChangePoint]:
        """The change points that only the policy gives."""
        return _subtract_commits(self.rejudged, self.stored)

    @property
    def is_different(self) -> bool:
        """Whether change points are removed or added."""
        return bool(self.removed_change_points or self.added_change_points)


@dataclass(frozen=True, slots=True)
class RejudgingResult:
    """Every re-judged verdict and history of a project."""

    verdicts: Sequence[RejudgedVerdict]
    histories: Sequence[RejudgedHistory]


def rejudge_with_policy(store: Store, project: str, policy: Policy) -> RejudgingResult:
    """Judge every stored comparison and every history of a project again."""
    with store.read() as tx:
        verdicts = list(_rejudge_verdicts(tx, project, policy))
        return RejudgingResult(verdicts, list(_rejudge_histories(tx, project, policy)))


@dataclass(frozen=True, slots=True)
class RejudgedComparisons:
    """The verdicts of the newest comparisons by the policy in force and by another one.

    ``sessions`` comparisons were judged again, ``left_out`` older ones were not. ``different`` are the
    verdicts that the other policy gives another kind, with both: None where the series is not judged.
    """

    sessions: int
    left_out: int
    verdicts: int
    different: tuple[tuple[Verdict | None, Verdict | None], ...]


def try_policy_on_comparisons(
    tx: Transaction, project: str, policy: Policy, changed: Policy, days: int, max_sessions: int
) -> RejudgedComparisons:
    """Judge the comparisons of the last days again by two policies, at the pairs that they measured."""
    uids = {
        record.session_uid
        for record in load_verdict_records(tx, project, with_pull_requests=True)
        if record.verdict.kind in NUMERIC_KINDS and record.verdict.base != record.verdict.head
    }
    sessions = [session for session in load_sessions(tx, project) if session.uid in uids]
    newest = max((session.started_at for session in sessions), default=None)
    recent = [
        session for session in sessions if newest and session.started_at >= newest - timedelta(days=days)
    ]
    recent.sort(key=lambda session: session.started_at, reverse=True)
    judged = recent[:max_sessions]
    now, then = (
        [rejudged.rejudged for rejudged in _rejudge_verdicts(tx, project, each, judged)]
        for each in (policy, changed)
    )
    different = [
        (before, after)
        for before, after in zip(now, then, strict=True)
        if (before and before.kind) is not (after and after.kind)
    ]
    return RejudgedComparisons(len(judged), len(recent) - len(judged), len(now), tuple(different))


def _rejudge_verdicts(
    tx: Transaction, project: str, policy: Policy, sessions: Sequence[SessionRecord] | None = None
) -> Iterator[RejudgedVerdict]:
    """Re-judge all sessions or some, the oldest first, with the samples of one in memory."""
    current = load_verdict_records(tx, project, with_pull_requests=True)
    records = [record for record in current if record.verdict.kind in NUMERIC_KINDS]
    decisions = load_verdict_decision_records(tx, project)
    for session in reversed(load_sessions(tx, project) if sessions is None else sessions):
        own = [record for record in reversed(records) if record.session_uid == session.uid]
        if not own:
            continue
        own_decisions = {
            # A verdict from before decisions were stored used the A/A runs before it.
            record.id: decisions.get(record.id) or DecisionRecord(METHOD_PAIRS, {}, record.id - 1, ())
            for record in own
        }
        aa_results = load_aa_results_by_series(tx, project, own_decisions[own[0].id].aa_verdicts_until)
        samples = SessionSamples.from_rows(load_session_processes(tx, session.uid))
        yield from _rejudge_session(tx, session, own, own_decisions, samples, policy, aa_results)


def _rejudge_session(
    tx: Transaction,
    session: SessionRecord,
    records: Sequence[VerdictRecord],
    decisions_by_id: Mapping[int, DecisionRecord],
    samples: SessionSamples,
    policy: Policy,
    aa_results: Mapping[Series, Sequence[AAResult]],
) -> list[RejudgedVerdict]:
    judged = [record for record in records if policy.is_judged(record.verdict.series)]
    if session.kind == "history":
        rejudged = _rejudge_rounds([record.verdict for record in judged], samples, policy)
    else:
        rejudged = [
            _rejudge_separate_runs(tx, record.verdict, decisions_by_id[record.id], policy)
            if decisions_by_id[record.id].method == METHOD_SEPARATE_RUNS
            else _rejudge_pairs(record.verdict, decisions_by_id[record.id], samples, policy, aa_results)
            for record in judged
        ]
    if session.kind == "confirm" or any(decisions_by_id[record.id].rate for record in judged):
        rejudged = control_false_discoveries(rejudged, FALSE_DISCOVERY_RATE)
    verdicts_by_id = {record.id: verdict for record, verdict in zip(judged, rejudged, strict=True)}
    return [RejudgedVerdict(record.verdict, verdicts_by_id.get(record.id)) for record in records]


def _rejudge_rounds(stored: Sequence[Verdict], samples: SessionSamples, policy: Policy) -> list[Verdict]:
    """Screen the neighbours as a session in rounds does; a verdict without samples stays as it is."""
    priors = compute_pair_noise_by_series(
        samples.group_by_series(), [(verdict.base, verdict.head) for verdict in stored]
    )
    rejudged = []
    for verdict in stored:
        again = None
        if all(samples.get_screening_processes(verdict)):
            prior = priors.get(verdict.series)
            rule = policy.rule_for(verdict.series)
            again = samples.replay_screening(verdict, rule, prior.sd if prior else None)
        rejudged.append(again or verdict)
    return rejudged


def _rejudge_pairs(
    verdict: Verdict,
    decision: DecisionRecord,
    samples: SessionSamples,
    policy: Policy,
    aa_results: Mapping[Series, Sequence[AAResult]],
) -> Verdict:
    """Repeat the last look, at all pairs, with the noise known then."""
    aa_runs = aa_results.get(verdict.series, ())
    last = decision.looks[-1] if decision.looks else None
    look = samples.replay_interim_analysis(verdict, policy.rule_for(verdict.series), last, aa_runs)
    return look.verdict if look else verdict


def _rejudge_separate_runs(
    tx: Transaction, verdict: Verdict, decision: DecisionRecord, policy: Policy
) -> Verdict:
    """Judge the runs that were compared then."""
    return replay_separate_runs(tx, verdict, decision, policy.rule_for(verdict.series)) or verdict


def _rejudge_histories(tx: Transaction, project: str, policy: Policy) -> Iterator[RejudgedHistory]:
    """Re-judge every series of a project; one that is not judged has no change points."""
    stored: dict[Series, list[ChangePoint]] = {}
    for change in load_change_points(tx, project):
        stored.setdefault(change.series, []).append(change)
    rejudged = SeriesHistories.load(tx, load_project_series(tx, project)).find_change_points(policy)
    for series in sorted(rejudged, key=lambda series: (repr(series.key_without_metric), series.label)):
        yield RejudgedHistory(series, stored.get(series, []), rejudged[series])


def _subtract_commits(changes: Sequence[ChangePoint], excluded: Sequence[ChangePoint]) -> list[ChangePoint]:
    commits = {change.commit for change in excluded}
    return [change for change in changes if change.commit not in commits]
